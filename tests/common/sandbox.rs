//! Shared helpers of the tests of both programs: a folder for each test, and runs of the program in it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A folder. Each program's tests add `Sandbox::command`, which runs the program in it.
pub struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// A script that can be run. Another process writes it: a child that another test starts now could keep a file that
    /// this one writes open for writing, and it could not be run.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let write = ["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", text];
        assert!(Command::new("sh").args(write).arg(self.path(name)).status().unwrap().success());
        self.path(name)
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// The names in the folder, without the keyring and the state, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name != "keyring" && name != "state");
        names.sort();
        names
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        Ended(self.command(args).output().unwrap())
    }

    pub fn run_with_input(&self, input: &[u8], args: &[&str]) -> Ended {
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // A program that fails early does not read everything.
            scope.spawn(move || drop(stdin.write_all(input)));
            Ended(child.wait_with_output().unwrap())
        })
    }
}

/// How a run ended.
pub struct Ended(pub Output);

impl Ended {
    #[track_caller]
    pub fn ok(self) -> Vec<u8> {
        assert!(self.0.status.success(), "{:?}: {}", self.0.status, self.error());
        self.0.stdout
    }

    #[track_caller]
    pub fn text(self) -> String {
        String::from_utf8(self.ok()).unwrap()
    }

    pub fn error(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}

/// Reports that something is missing for a test. Fails if PHALANX_REQUIRE names it.
pub fn skip(what: &str) {
    let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
    assert!(!required.split([',', ' ']).any(|r| r == what), "PHALANX_REQUIRE names {what}, which is missing");
    println!("skipped: no {what}");
}

/// Byte i is i mod 251.
pub fn painted(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}
