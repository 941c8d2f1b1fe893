//! What the tests of the command share: a folder of its own for each test, and the program run in it.
#![allow(dead_code)]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

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

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// The names in the folder, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The program, in the folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        Ended(self.command(args).output().unwrap())
    }

    pub fn run_with_input(&self, input: &[u8], args: &[&str]) -> Ended {
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // A program that fails early does not read on.
            scope.spawn(move || drop(stdin.write_all(input)));
            Ended(child.wait_with_output().unwrap())
        })
    }
}

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

    /// Asserts the exit code and that there is one line of error, after any warnings; gives it.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        let error = self.error();
        assert_eq!(self.0.status.code(), Some(code), "{error}");
        assert!(error.ends_with('\n') && error.lines().all(|line| line.starts_with("phalanx-bench: ")), "{error:?}");
        let errors: Vec<&str> = error.lines().filter(|line| !line.contains(": warning: ")).collect();
        let [line] = errors[..] else { panic!("{error:?}") };
        line.to_owned()
    }

    pub fn error(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}

/// Byte i is i mod 251.
pub fn painted(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Whether the program `phalanx` is built beside this one, as `cargo test` for the whole workspace does. Says so where it
/// is not; fails where PHALANX_REQUIRE names it.
pub fn has_phalanx() -> bool {
    let found = PathBuf::from(env!("CARGO_BIN_EXE_phalanx-bench")).with_file_name("phalanx").is_file();
    if !found {
        let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|r| r == "phalanx"), "PHALANX_REQUIRE names phalanx, which is not built");
        println!("skipped: no program phalanx (cargo build -p phalanx)");
    }
    found
}
