//! The package in Go, with its own tests.

use crate::programs::{libraries, source};
use std::process::Command;
use std::{env, fs};

/// Whether a program is there. If not, says so, or fails if `PHALANX_REQUIRE` names it.
pub fn has(program: &str) -> bool {
    let here = Command::new(program).arg(if program == "go" { "version" } else { "--version" }).output().is_ok();
    if !here {
        let required = env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == program), "no {program}, and PHALANX_REQUIRE names it");
        eprintln!("skipped: no {program}");
    }
    here
}

#[test]
fn the_package_in_go_passes_its_tests() {
    if !(has("go") && has("pkg-config")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // As cargo-c writes it, but for the name of the library.
    let (libraries, include) = (libraries(), source("include"));
    let text = format!(
        "Name: phalanx\nDescription: {}\nVersion: {}\nLibs: -L{} -lphalanx_capi\nCflags: -I{}\n",
        env!("CARGO_PKG_DESCRIPTION"),
        env!("CARGO_PKG_VERSION"),
        libraries.display(),
        include.display()
    );
    fs::write(folder.path().join("phalanx.pc"), text).unwrap();
    for arguments in [&["vet", "./..."][..], &["test", "-count=1", "./..."]] {
        let output = Command::new("go")
            .args(arguments)
            .current_dir(source("../../clients/go/libphalanx"))
            .env("PKG_CONFIG_PATH", folder.path())
            .env("LD_LIBRARY_PATH", &libraries)
            .env("PHALANX_KEYRING", folder.path().join("keyring"))
            .env("GOTOOLCHAIN", "local")
            .env("GOPROXY", "off")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "go {arguments:?}: {text}");
    }
}
