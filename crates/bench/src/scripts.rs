//! Programs that tests run in the place of others.

use std::path::PathBuf;
use std::process::Command;

/// A script that can be run. Another process writes it: a child that another test starts now could keep a file that this
/// one writes open for writing, and it could not be run.
pub fn script(path: PathBuf, text: &str) -> PathBuf {
    let write = ["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", text];
    assert!(Command::new("sh").args(write).arg(&path).status().unwrap().success());
    path
}
