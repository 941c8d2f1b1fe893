//! Which GPU drivers are installed, as far as their files show it. Loading a driver would take longer than most jobs.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Variables that change which devices there are, whatever drivers are installed.
const VARIABLES: [&str; 5] =
    ["CUDA_VISIBLE_DEVICES", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", phalanx_gpu::CPU_VARIABLE];

/// The traces of drivers, one line each. The list is empty if there can be no GPU. Another driver or version leaves
/// other traces.
pub fn traces() -> Vec<String> {
    traces_in(Path::new("/"), |name| env::var_os(name).filter(|value| !value.is_empty()))
}

fn traces_in(root: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let mut traces = Vec::new();
    // NVIDIA's kernel module has its version here.
    if let Ok(text) = fs::read_to_string(root.join("proc/driver/nvidia/version")) {
        traces.push(text.lines().next().unwrap_or_default().to_owned());
    }
    // The GPU device of Linux in Windows (WSL).
    if root.join("dev/dxg").exists() {
        traces.push("dxg".into());
    }
    let vendors = variable("OCL_ICD_VENDORS").or(variable("OPENCL_VENDOR_PATH"));
    traces.extend(icds(&vendors.map_or(root.join("etc/OpenCL/vendors"), PathBuf::from)));
    if !traces.is_empty() || variable("OCL_ICD_FILENAMES").is_some() {
        let set = VARIABLES.iter().filter_map(|name| Some((name, variable(name)?)));
        traces.extend(set.map(|(name, value)| format!("{name}={}", value.to_string_lossy())));
    }
    traces
}

/// The files that name OpenCL's drivers, with the time at which each was installed.
fn icds(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let icds = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "icd"));
    let mut traces: Vec<String> = icds
        .map(|icd| {
            let installed = fs::metadata(icd.path()).and_then(|meta| meta.modified()).ok();
            let installed = installed.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, |at| at.as_secs());
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
        let root = tempfile::tempdir().unwrap();
        let traces = || traces_in(root.path(), |_| None);
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert!(traces().is_empty());
        write("etc/OpenCL/vendors/pocl.icd", "libpocl.so");
        write("etc/OpenCL/vendors/README", "");
        let opencl = traces();
        assert!(opencl.len() == 1 && opencl[0].starts_with("pocl.icd of "), "{opencl:?}");
        write("proc/driver/nvidia/version", "NVRM version: 550.54\nGCC version: 12\n");
        write("dev/dxg", "");
        assert_eq!(traces(), ["NVRM version: 550.54", "dxg", &opencl[0]]);
        write("proc/driver/nvidia/version", "NVRM version: 551.00\n");
        assert_eq!(traces()[0], "NVRM version: 551.00");
    }

    #[test]
    fn variables_count_only_with_drivers() {
        let root = tempfile::tempdir().unwrap();
        let traces = || traces_in(root.path(), |name| (name == "CUDA_VISIBLE_DEVICES").then(|| "1".into()));
        assert!(traces().is_empty());
        let vendors = root.path().join("etc/OpenCL/vendors");
        fs::create_dir_all(&vendors).unwrap();
        fs::write(vendors.join("a.icd"), "").unwrap();
        assert_eq!(traces()[1], "CUDA_VISIBLE_DEVICES=1");
        let elsewhere = |name: &str| (name == "OCL_ICD_VENDORS").then(|| "/nonexistent".into());
        assert!(traces_in(root.path(), elsewhere).is_empty());
    }
}
