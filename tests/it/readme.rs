//! The lines of README.md run as printed. Those of GUIDE.md are in `guide.rs`.

use crate::common::{Sandbox, has, painted};
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

/// The two blocks for a fresh clone, and the one for a folder with a file.
fn parts() -> ([&'static str; 2], &'static str) {
    let [job, tests, four]: [&str; 3] = blocks().try_into().expect("three blocks");
    assert!(!four.contains("cargo"));
    ([job, tests], four)
}

/// A shell that finds the program by its name, without a terminal and without the user's home.
pub fn shell(s: &Sandbox, script: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_phalanx"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [program.parent().unwrap().to_owned()].into_iter().chain(std::env::split_paths(&path));
    let mut command = Command::new("bash");
    command.args(["--norc", "-e", "-c", script]).current_dir(s.path("")).stdin(Stdio::null());
    command.env("PATH", std::env::join_paths(folders).unwrap()).env("HOME", s.path("home"));
    for variable in ["PASSWORD", "KEYRING", "CACHE", "STATE"] {
        command.env_remove(format!("PHALANX_{variable}"));
    }
    for variable in ["CONFIG", "CACHE", "STATE"] {
        command.env_remove(format!("XDG_{variable}_HOME"));
    }
    command
}

#[test]
fn the_setup_commands_are_one_line_each() {
    let ([job, tests], _) = parts();
    assert_eq!((job.lines().count(), tests), (1, "cargo test"));
}

#[test]
fn the_main_job_restores_the_file_and_reports_the_speed() {
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
        let reported = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{reported}");
        let [protected, back] = &reported.lines().collect::<Vec<_>>()[..] else { panic!("{reported}") };
        assert!(protected.starts_with("phalanx: docs/format.md -> target/format.md.phx: "), "{reported}");
        assert!(back.starts_with("phalanx: target/format.md.phx -> target/format.md: "), "{reported}");
        for line in [protected, back] {
            assert!(line.contains(" kB in ") && line.contains("B/s, "), "{line}");
        }
        assert_eq!(s.read("target/format.md"), text);
        assert_ne!(s.read("target/format.md.phx"), text);
    }
}

#[test]
fn the_four_commands_run() {
    if !["bash", "cmp"].into_iter().all(has) {
        return;
    }
    let s = Sandbox::new();
    fs::create_dir(s.path("work")).unwrap();
    s.write("work/run42.h5", painted(3_000_000));
    let (_, block) = parts();
    assert_eq!(block.lines().filter(|line| line.starts_with("phalanx ")).count(), 4);
    let ended = shell(&s, block).current_dir(s.path("work")).output().unwrap();
    let reported = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{:?} of\n{block}\n{reported}", ended.status);
    assert_eq!(s.read("work/again.h5"), s.read("work/run42.h5"));
    assert!(s.exists("home/.config/phalanx/keys/work.key"));
}

#[test]
fn no_line_writes_outside_the_folder_or_asks() {
    check_lines(parts().1);
}

/// A reader who copies lines must not need anything that only the tests have.
pub fn check_lines(lines: &str) {
    for line in lines.lines() {
        let command = line.split('#').next().unwrap();
        let outside = command.split_whitespace().any(|word| word.trim_start_matches('>').starts_with(['/', '~']));
        assert!(!outside || command.contains("/dev/urandom"), "{line}");
        if ["phalanx protect", "phalanx mirror"].iter().any(|start| command.starts_with(start)) {
            assert!(
                ["--key", "--password-file", "--recipient"].iter().any(|option| command.contains(option)),
                "{line} asks for a password"
            );
        }
    }
}

/// Each file that the design names exists.
#[test]
fn the_design_names_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut folders, mut files) = (["src", "crates", "java"].map(|name| root.join(name)).to_vec(), Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    let pages = ["docs/design.md", "docs/design-engines.md", "docs/design-volumes.md"];
    let design = pages.map(|page| fs::read_to_string(root.join(page)).unwrap()).concat();
    let named = design.split('`').skip(1).step_by(2).filter(|name| !name.contains([' ', '\n', '*', '<']));
    let named: Vec<&str> = named.filter(|name| [".rs", ".py", ".java"].iter().any(|end| name.ends_with(end))).collect();
    assert!(named.len() > 100, "{}", named.len());
    for name in named {
        let long = match name.split_once('/') {
            Some((name @ ("core" | "gpu" | "host" | "store" | "volume" | "cluster"), rest)) => {
                format!("crates/{name}/src/{rest}")
            }
            _ => name.to_owned(),
        };
        assert!(files.iter().any(|file| file.ends_with(&long)), "docs/design.md names {name}");
    }
}
