//! The lines of README.md run as printed.

use crate::common::{Sandbox, has};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const README: &str = include_str!("../../README.md");
const CARGO: &str = "cargo run --release --";

/// The blocks of shell lines, in order.
fn blocks() -> Vec<&'static str> {
    let blocks: Vec<_> = README.split("```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect();
    assert_eq!(blocks.len(), README.matches("```sh").count());
    blocks
}

/// The two blocks for a fresh clone, and those for an empty folder.
fn parts() -> ([&'static str; 2], Vec<&'static str>) {
    let mut setup = blocks();
    let rest = setup.split_off(2);
    assert!(rest.len() > 5 && rest.iter().all(|block| !block.contains("cargo")));
    (setup.try_into().unwrap(), rest)
}

/// A shell that has the program by its name, and neither a terminal nor the user's home.
fn shell(s: &Sandbox, script: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_phalanx"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [program.parent().unwrap().to_owned()].into_iter().chain(std::env::split_paths(&path));
    let mut command = Command::new("bash");
    command.args(["--norc", "-e", "-c", script]).current_dir(s.path("")).stdin(Stdio::null());
    command.env("PATH", std::env::join_paths(folders).unwrap()).env("HOME", s.path("home"));
    for variable in ["PHALANX_PASSWORD", "PHALANX_KEYRING", "PHALANX_CACHE", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
        command.env_remove(variable);
    }
    command
}

#[test]
fn the_setup_commands_are_one_line_each() {
    let ([job, tests], _) = parts();
    assert_eq!((job.lines().count(), tests), (1, "cargo test"));
}

#[test]
fn the_main_job_returns_the_file_and_says_how_fast_also_when_repeated() {
    if !has("bash") {
        return;
    }
    let ([job, _], _) = parts();
    assert_eq!(job.matches(CARGO).count(), 2);
    let s = Sandbox::new();
    // The parts of a clone that it uses.
    fs::create_dir(s.path("docs")).unwrap();
    let text = include_bytes!("../../docs/format.md");
    s.write("docs/format.md", text);
    for _ in 0..2 {
        let ended = shell(&s, &job.replace(CARGO, "phalanx")).env("LC_ALL", "C").output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{told}");
        let [protected, back] = &told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
        assert!(protected.starts_with("phalanx: docs/format.md -> target/format.md.phx: "), "{told}");
        assert!(back.starts_with("phalanx: target/format.md.phx -> target/format.md: "), "{told}");
        for line in [protected, back] {
            assert!(line.contains(" kB in ") && line.contains("B/s, "), "{line}");
        }
        assert_eq!(s.read("target/format.md"), text);
        assert_ne!(s.read("target/format.md.phx"), text);
    }
}

#[test]
fn every_line_of_every_block_runs_in_order() {
    if !["bash", "tar", "seq", "dd", "diff", "cmp", "ssh-keygen"].into_iter().all(has) {
        return;
    }
    let s = Sandbox::new();
    fs::create_dir(s.path("home")).unwrap();
    let keyring = s.path("home/keys");
    fs::create_dir(s.path("work")).unwrap();
    let mut shown = String::new();
    for block in parts().1 {
        let ended = shell(&s, block).current_dir(s.path("work")).env("PHALANX_KEYRING", &keyring).output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{:?} of\n{block}\n{told}", ended.status);
        shown += &String::from_utf8_lossy(&ended.stdout);
    }
    // What they promise.
    assert!(
        shown.contains("refused: exit code 3\n") && shown.contains("saved what is intact: exit code 3\n"),
        "{shown}"
    );
    let same = |a: &str, b: &str| assert_eq!(s.read(&format!("work/{a}")), s.read(&format!("work/{b}")), "{a}, {b}");
    same("photos.tar", "photos2.tar");
    same("photos.tar", "from-somebody.tar");
    same("project/notes.txt", "restored/notes.txt");
    same("project/table.csv", "unpacked/project/table.csv");
    assert!(!s.exists("work/old.h5") && s.exists("work/old.h5.phx"));
    let (whole, saved) = (s.read("work/run42.h5"), s.read("work/damaged.h5"));
    assert!(saved.len() == whole.len() && saved != whole && saved[..1 << 20] == whole[..1 << 20]);
    for made in [
        "keys.phx",
        "work.txt",
        "man/phalanx.1",
        "phalanx.bash",
        "backup/run42.h5.phx",
        "backup/project.phx/notes.txt.phx",
    ] {
        assert!(s.exists(&format!("work/{made}")), "{made}");
    }
    assert_eq!(fs::read_dir(keyring).unwrap().filter(|e| e.as_ref().unwrap().path().extension().is_some()).count(), 4);
}

/// A reader who copies a line must not need anything that only we have.
#[test]
fn no_line_writes_outside_the_folder_or_asks() {
    for line in parts().1.iter().flat_map(|block| block.lines()) {
        let command = line.split('#').next().unwrap();
        let outside = command.split_whitespace().any(|word| word.trim_start_matches('>').starts_with(['/', '~']));
        assert!(!outside || command.contains("/dev/urandom"), "{line}");
        if command.starts_with("phalanx protect") {
            assert!(
                ["--key", "--password-file", "--recipient"].iter().any(|option| command.contains(option)),
                "{line} asks for a password"
            );
        }
    }
}
