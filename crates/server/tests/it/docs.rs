//! The guide: its commands run as they are written.

use crate::common::folder::PROGRAM;
use crate::common::{port, program};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const GUIDE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.md"));
/// The port in the guide. The test takes a free one.
const PORT: &str = "8200";

/// What a reader does who waits until the server says that it listens, as the guide tells.
const WAIT: &str = "until curl -s --unix-socket srv/server.sock http://localhost/healthz >/dev/null; do
  kill -0 $! || exit 9; sleep 0.01
done";

/// The lines of all blocks that begin with "```sh server", in one script.
fn script() -> String {
    let mut script = String::from("set -euo pipefail\ntrap 'kill $!; wait' EXIT\n");
    let mut runs = false;
    for line in GUIDE.lines() {
        match line {
            "```sh server" => runs = true,
            line if line.starts_with("```") => runs = false,
            line if runs => {
                script.push_str(line);
                script.push('\n');
                if line.starts_with("phalanx-server run ") {
                    assert!(line.ends_with('&'), "the rest of this block would never run: {line}");
                    script.push_str(WAIT);
                    script.push('\n');
                }
            }
            _ => {}
        }
    }
    script
}

#[test]
fn the_commands_of_the_guide_run() {
    let needed = ["bash", "curl", "jq", "openssl"].map(program);
    if needed.iter().any(Option::is_none) {
        return;
    }
    let temp = tempfile::TempDir::new().unwrap();
    let port = port().to_string();
    let bin = Path::new(PROGRAM).parent().unwrap();
    let path = std::env::join_paths(
        [bin.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let output = Command::new("bash")
        .args(["-c", &script().replace(PORT, &port)])
        .current_dir(temp.path())
        .env("PATH", path.unwrap())
        .env_remove("PHALANX_SERVER_DIR")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(!stdout.contains("\"errors\""), "{stdout}");
    // The two first records, and one of a key whose users can be deleted.
    assert_eq!(stdout.matches("vault:v1:").count(), 3, "{stdout}");
    assert!(stdout.contains("people has this user"), "{stdout}");
    assert!(stdout.contains("seal:orders,open:orders,user=ada"), "{stdout}");
    assert!(fs::read_to_string(temp.path().join("new.jsonl")).unwrap().contains("vault:v2:"));
    assert!(temp.path().join("new/root.phx").exists() && temp.path().join("backup-1/buckets.db").exists());
}

#[test]
fn the_guide_is_short() {
    assert!(GUIDE.len() < 25_000);
}
