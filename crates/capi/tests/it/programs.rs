//! Programs in C, compiled against the header and linked with the library.

use crate::go::has;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const STRICT: [&str; 5] = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"];

/// The folder where cargo puts the library for its tests: that of the tests.
pub fn libraries() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_owned()
}

pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn compiler() -> Command {
    let mut cc = Command::new(env::var_os("CC").as_deref().unwrap_or(OsStr::new("cc")));
    cc.args(STRICT).arg("-I").arg(source("include"));
    cc.arg(format!("-DVERSION=\"{}\"", env!("CARGO_PKG_VERSION")));
    cc
}

#[track_caller]
fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    output
}

/// A folder with the program, linked with the shared library.
fn built(path: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let mut cc = compiler();
    cc.arg(source(path)).arg("-o").arg(&program);
    cc.arg("-L").arg(libraries()).arg("-lphalanx_capi").arg(format!("-Wl,-rpath,{}", libraries().display()));
    ran(&mut cc);
    (folder, program)
}

/// The program, to be run in its folder with a keyring of its own.
fn command(folder: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .env("PHALANX_KEYRING", folder.join("keyring"))
        .env("PHALANX_STATE", folder.join("state"));
    command
}

#[test]
fn every_call_does_what_the_header_says() {
    let (folder, program) = built("tests/programs/calls.c");
    let output = ran(&mut command(folder.path(), &program));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all as the header says\n");
    // A library writes nothing by itself.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_example_prints_a_part_of_a_file() {
    let (folder, program) = built("examples/range.c");
    std::fs::write(folder.path().join("file"), "0123456789").unwrap();
    let output = ran(command(folder.path(), &program).args(["file", "3", "4"]));
    assert_eq!(output.stdout, b"3456");
    assert_eq!(output.stderr, b"4 of 10 bytes\n");
    let again = command(folder.path(), &program).args(["file", "3", "4"]).output().unwrap();
    assert_eq!(again.status.code(), Some(4));
    assert_eq!(again.stderr, b"range: file.phx: exists already\n");
}

/// Only programs in Rust ignore SIGPIPE from the start.
#[test]
fn programs_that_end_before_they_are_asked_end_no_other() {
    let (folder, program) = built("tests/programs/early.c");
    std::fs::write(folder.path().join("file"), "content").unwrap();
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for name in ["phalanx-kms-early", "age-plugin-test"] {
        std::os::unix::fs::symlink("/bin/true", bin.join(name)).unwrap();
    }
    let mut command = command(folder.path(), &program);
    let output = ran(command.env("PATH", bin));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "cannot protect for early://k: phalanx-kms-early gave no answer\n\
         file: cannot protect for age1test1qqqqqqqqgsf9kn: the plugin test failed: it ended too early\n"
    );
}

/// C++ takes the header too.
#[test]
fn the_header_is_also_one_of_cplusplus() {
    if has("c++") {
        let header = source("include/phalanx.h");
        ran(Command::new("c++").args(["-fsyntax-only", "-Wall", "-Werror", "-x", "c++"]).arg(header));
    }
}
