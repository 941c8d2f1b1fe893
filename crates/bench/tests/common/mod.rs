//! Shared helpers of this program's tests.

#[path = "../../../../tests/common/sandbox.rs"]
mod sandbox;

pub use sandbox::*;

use phalanx_bench::measure::setup::Setup;
use phalanx_core::engine::Levels;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A short run with two threads and without a device.
pub fn setup(out: &Path, resume: bool) -> Setup {
    Setup {
        out: out.to_owned(),
        quick: true,
        resume,
        levels: Levels::detect(),
        threads: 2,
        device: Err("none was looked for".into()),
        program: "phalanx".into(),
        volume: Default::default(),
        hpc: Default::default(),
        peers: Default::default(),
        service: Default::default(),
    }
}

impl Sandbox {
    /// The program, in the folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
        command.args(args).current_dir(self.path("")).stdin(Stdio::null());
        command
    }
}

impl Ended {
    /// Asserts the exit code, and that there is one line of error besides warnings. Returns that line.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        let error = self.error();
        assert_eq!(self.0.status.code(), Some(code), "{error}");
        assert!(error.ends_with('\n') && error.lines().all(|line| line.starts_with("phalanx-bench: ")), "{error:?}");
        let errors: Vec<&str> = error.lines().filter(|line| !line.contains(": warning: ")).collect();
        let [line] = errors[..] else { panic!("{error:?}") };
        line.to_owned()
    }
}

/// Whether the program `phalanx` is built beside this one, as `cargo test` for the whole workspace does. If not, prints
/// a line, or fails if PHALANX_REQUIRE names it.
pub fn has_phalanx() -> bool {
    let found = PathBuf::from(env!("CARGO_BIN_EXE_phalanx-bench")).with_file_name("phalanx").is_file();
    if !found {
        skip("phalanx");
    }
    found
}
