//! Random reads and writes of 4 KiB by fio.

use crate::measure::Result;
use crate::measure::programs::{command, failure, one_line};
use std::path::Path;
use std::process::Stdio;

pub const BLOCK: u64 = 4096;

#[derive(Clone, Copy, PartialEq)]
pub enum Access {
    /// Reads every block once, in random order.
    Read,
    /// Writes every block once, in random order, and syncs at the end.
    Write,
    /// Only makes the files.
    Layout,
}

/// Runs `jobs` jobs of fio in a folder. Each works on its own file, and together they have `bytes` bytes. Returns the
/// seconds by fio's own clock.
pub fn run(folder: &Path, access: Access, jobs: u64, bytes: u64) -> Result<f64> {
    let each = bytes / jobs / BLOCK * BLOCK;
    let (name, more) = match access {
        Access::Read => ("read", ""),
        Access::Write => ("write", "--end_fsync=1"),
        Access::Layout => ("read", "--create_only=1"),
    };
    let line = format!(
        "fio --name=fio-{jobs} --directory={{folder}} --rw=rand{name} --bs={BLOCK} --numjobs={jobs} --size={each} \
         --ioengine=psync --fallocate=none --invalidate=0 --group_reporting --output-format=json {more}"
    );
    let mut command = command(&line, &[("folder", folder)]);
    let failed = failure(&command);
    // fio leaves state files in the current folder.
    let output = command.current_dir(folder).stdin(Stdio::null()).output().map_err(|e| failed(&e.to_string()))?;
    if !output.status.success() {
        return Err(failed(&format!("{}: {}", output.status, one_line(&output.stderr))));
    }
    match access {
        Access::Layout => Ok(0.0),
        _ => seconds(&String::from_utf8_lossy(&output.stdout), name, each * jobs).map_err(|why| failed(&why)),
    }
}

/// The seconds in a report of fio, which must be about `bytes` bytes.
fn seconds(report: &str, access: &str, bytes: u64) -> std::result::Result<f64, String> {
    // Warnings come first.
    let json = report.find('{').map_or("", |at| &report[at..]);
    let json: serde_json::Value = serde_json::from_str(json).map_err(|e| format!("its report is odd: {e}"))?;
    let job = &json["jobs"][0];
    if job["error"].as_i64() != Some(0) {
        return Err(format!("a job failed: error {}", job["error"]));
    }
    let done = &job[access];
    if done["io_bytes"].as_u64() != Some(bytes) {
        return Err(format!("{} bytes instead of {bytes}", done["io_bytes"]));
    }
    let rate = done["bw_bytes"].as_f64().filter(|rate| *rate > 0.0).ok_or("its report has no speed")?;
    Ok(bytes as f64 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let report = |error: i32, bytes: u64| {
            format!(
                "fio: a warning\n{{\"jobs\": [{{\"error\": {error}, \"read\": {{\"io_bytes\": {bytes}, \"bw_bytes\": 4096}}}}]}}"
            )
        };
        assert_eq!(seconds(&report(0, 8192), "read", 8192), Ok(2.0));
        assert!(seconds(&report(0, 4096), "read", 8192).unwrap_err().contains("instead of"));
        assert!(seconds(&report(5, 8192), "read", 8192).unwrap_err().contains("error 5"));
        assert!(seconds(&report(0, 8192), "write", 8192).is_err());
        assert!(seconds("nothing", "read", 1).is_err());
    }
}
