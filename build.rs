//! Tells a program from which commit and with which compiler it is built, if that can be found out. `phalanx` and
//! `phalanx-bench` are both built with this script.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let package = Path::new(&package);
    let root = package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).unwrap_or(package);
    println!("cargo:rerun-if-env-changed=PHALANX_COMMIT");
    // What programs are made of. Tests and results change more often, and would have everything compiled again.
    for part in ["src", "build.rs", "Cargo.lock", "Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
    }
    for part in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        println!("cargo:rerun-if-changed={}", part.path().join("src").display());
    }
    let git = |args: &[&str]| output(Command::new("git").arg("-C").arg(root).args(args));
    // A copy without a history may lie within another repository.
    let same = |top: &String| Path::new(top).canonicalize().ok() == root.canonicalize().ok();
    let is_ours = git(&["rev-parse", "--show-toplevel"]).is_some_and(|top| same(&top));
    let commit = env::var("PHALANX_COMMIT").ok().or_else(|| {
        // A commit writes this file, which makes cargo run the script again.
        let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| is_ours)?;
        println!("cargo:rerun-if-changed={}", root.join(log).display());
        git(&["describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"])
    });
    println!("cargo:rustc-env=BUILT_FROM={}", commit.unwrap_or_else(|| "unknown".into()));
    let rustc = env::var_os("RUSTC").and_then(|rustc| output(Command::new(rustc).arg("--version")));
    println!("cargo:rustc-env=BUILT_BY={}", rustc.unwrap_or_else(|| "unknown".into()));
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}
