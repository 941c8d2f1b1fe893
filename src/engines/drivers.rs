//! Which GPU drivers are installed, as far as that shows without loading any: loading one takes longer than most jobs.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What drivers leave on a machine.
pub struct Places<'a> {
    /// NVIDIA's module of the kernel tells its version here.
    nvidia: &'a Path,
    /// The GPU as Windows hands it to its Linux.
    windows: &'a Path,
    /// Each OpenCL driver has a file here.
    opencl: &'a Path,
    variable: fn(&str) -> Option<OsString>,
}

impl Default for Places<'_> {
    fn default() -> Self {
        Self {
            nvidia: Path::new("/proc/driver/nvidia/version"),
            windows: Path::new("/dev/dxg"),
            opencl: Path::new("/etc/OpenCL/vendors"),
            variable: |name| env::var_os(name).filter(|value| !value.is_empty()),
        }
    }
}

/// What changes the devices that there are, whatever drivers are installed.
const VARIABLES: [&str; 5] =
    ["CUDA_VISIBLE_DEVICES", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", phalanx_gpu::CPU_VARIABLE];

/// The traces of drivers, one line each: none where there can be no GPU. Another driver, or another version, has others.
pub fn traces() -> Vec<String> {
    Places::default().traces()
}

impl Places<'_> {
    fn traces(&self) -> Vec<String> {
        let mut traces = Vec::new();
        if let Ok(text) = fs::read_to_string(self.nvidia) {
            traces.push(text.lines().next().unwrap_or_default().to_owned());
        }
        if self.windows.exists() {
            traces.push("dxg".into());
        }
        let set = VARIABLES.map(|name| (name, (self.variable)(name)));
        let folder = |name: &str| set.iter().find(|(n, _)| *n == name).and_then(|(_, value)| value.clone());
        let vendors = folder("OCL_ICD_VENDORS").or(folder("OPENCL_VENDOR_PATH"));
        traces.extend(icds(vendors.as_ref().map_or(self.opencl, Path::new)));
        if !traces.is_empty() || folder("OCL_ICD_FILENAMES").is_some() {
            let set = set.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            traces.extend(set.map(|(name, value)| format!("{name}={}", value.to_string_lossy())));
        }
        traces
    }
}

/// OpenCL's drivers by the files that name them, with the times at which these were last installed.
fn icds(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let icds = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "icd"));
    let mut traces: Vec<String> = icds
        .map(|icd| {
            let installed = fs::metadata(icd.path()).map_or(0, |meta| meta.mtime());
            format!("{} of {installed}", icd.file_name().to_string_lossy())
        })
        .collect();
    traces.sort();
    traces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_leave_traces() {
        let folder = tempfile::tempdir().unwrap();
        let (nvidia, windows) = (folder.path().join("version"), folder.path().join("dxg"));
        let places = Places { nvidia: &nvidia, windows: &windows, opencl: folder.path(), variable: |_| None };
        assert!(places.traces().is_empty());
        fs::write(folder.path().join("pocl.icd"), "libpocl.so").unwrap();
        fs::write(folder.path().join("README"), "").unwrap();
        let opencl = places.traces();
        assert!(opencl.len() == 1 && opencl[0].starts_with("pocl.icd of "), "{opencl:?}");
        fs::write(&nvidia, "NVRM version: 550.54\nGCC version: 12\n").unwrap();
        fs::write(&windows, "").unwrap();
        assert_eq!(places.traces(), ["NVRM version: 550.54", "dxg", &opencl[0]]);
        fs::write(&nvidia, "NVRM version: 551.00\n").unwrap();
        assert_eq!(places.traces()[0], "NVRM version: 551.00");
    }

    #[test]
    fn variables_count_where_there_are_drivers() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        let variable: fn(&str) -> Option<OsString> = |name| (name == "CUDA_VISIBLE_DEVICES").then(|| "1".into());
        let places = Places { nvidia: &absent, windows: &absent, opencl: folder.path(), variable };
        assert!(places.traces().is_empty());
        fs::write(folder.path().join("a.icd"), "").unwrap();
        assert_eq!(places.traces()[1], "CUDA_VISIBLE_DEVICES=1");
        let elsewhere: fn(&str) -> Option<OsString> = |name| (name == "OCL_ICD_VENDORS").then(|| "/nonexistent".into());
        assert!(Places { variable: elsewhere, ..places }.traces().is_empty());
    }
}
