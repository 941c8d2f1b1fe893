//! A small file system.

use super::skipped;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A small file system that is gone on drop.
pub struct Small(pub PathBuf);

impl Small {
    /// Mounts one of this size, such as `64k`, at a new folder, which is for its owner alone.
    pub fn new(path: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir(&path).expect("a new folder");
        let options = ["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"];
        let mounted = Command::new("mount").args(options).arg(&path).stderr(Stdio::null()).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(path));
        }
        skipped("root");
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
