//! The client in Go, with its own tests, against the running program.

use crate::common::{Server, program};
use std::path::Path;
use std::process::Command;

#[test]
fn the_client_in_go_passes_its_tests() {
    let Some(go) = program("go") else { return };
    let server = Server::start(&[]);
    for key in ["orders", "log"] {
        assert!(server.folder.run(["key", "new", key]).status.success());
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/go");
    for arguments in [&["vet", "./..."][..], &["test", "-count=1", "./..."]] {
        let output = Command::new(&go)
            .args(arguments)
            .current_dir(&folder)
            .env("PHALANX_SERVER_ADDRESS", format!("unix:{}", server.folder.socket().display()))
            .env("PHALANX_REQUIRE", "phalanx-server")
            .env("GOTOOLCHAIN", "local")
            .env("GOPROXY", "off")
            .output()
            .expect("go does not start");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "go {arguments:?}: {text}");
    }
}
