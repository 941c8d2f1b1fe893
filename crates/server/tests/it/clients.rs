//! Real clients of Vault, unchanged, against the running server. `tests/clients/prepare` fetches what they need into
//! `target/clients`, or into the folder that PHALANX_CLIENTS names.

use crate::common::{Server, program, skipped};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources of the client programs.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// What `prepare` has fetched.
fn fetched(path: &str) -> PathBuf {
    let dir = std::env::var_os("PHALANX_CLIENTS").map(PathBuf::from);
    dir.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients")).join(path)
}

/// Whether the thing is there. If not, says that its client's test is skipped.
fn is_there(path: &Path, client: &str) -> bool {
    let is_there = path.exists();
    if !is_there {
        skipped(client);
    }
    is_there
}

/// A server on a port, and the token of an administrator.
fn served() -> (Server, String) {
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    // It lives longer than the tokens that clients make with it, which end with it.
    let answer = server.post("/v1/auth/token/create", &json!({ "policies": ["root"], "ttl": "24h" }));
    let token = answer.json()["auth"]["client_token"].as_str().expect("a token").to_owned();
    (server, token)
}

/// Runs a client program that prints `ok` at its end.
fn runs(server: &Server, token: &str, mut client: Command) {
    client.env_remove("VAULT_CACERT").env_remove("VAULT_NAMESPACE").env_remove("BAO_ADDR").env_remove("BAO_TOKEN");
    client.env("VAULT_ADDR", format!("http://{}", server.address())).env("VAULT_TOKEN", token);
    let output = client.output().expect("the client does not start");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.trim_end().ends_with("ok"), "{out}\n{err}\n{}", server.stderr());
}

#[test]
fn hvac_works() {
    let python = fetched("python/bin/python");
    if !is_there(&python, "hvac") {
        return;
    }
    let (server, token) = served();
    for strict in [false, true] {
        let mut client = Command::new(&python);
        client.arg(sources().join("python/test_hvac.py"));
        if strict {
            client.env("VAULT_TEST_STRICT_HTTP", "1");
        }
        runs(&server, &token, client);
    }
}

#[test]
fn node_vault_works() {
    let modules = fetched("node/node_modules");
    if !is_there(&modules.join("node-vault"), "node-vault") {
        return;
    }
    let Some(node) = program("node") else { return };
    let (server, token) = served();
    let mut client = Command::new(node);
    client.arg(sources().join("node/test.js")).env("NODE_PATH", &modules);
    runs(&server, &token, client);
}

#[test]
fn the_go_clients_of_vault_and_openbao_work() {
    let client = fetched("go-client");
    if is_there(&client, "go-vault") {
        let (server, token) = served();
        runs(&server, &token, Command::new(client));
    }
}

#[test]
fn spring_vault_works() {
    let classpath = fetched("java/classpath.txt");
    if !is_there(&classpath, "spring-vault") {
        return;
    }
    let Some(java) = program("java") else { return };
    let (server, token) = served();
    let classpath = std::fs::read_to_string(classpath).expect("the class path");
    let mut client = Command::new(java);
    client.arg("-cp").arg(format!("{}:{}", fetched("java/classes").display(), classpath.trim())).arg("SpringVaultTest");
    runs(&server, &token, client);
}

/// What curl prints: the body, and the status on a line of its own.
fn curl(curl: &Path, server: &Server, path: &str, arguments: &[&str]) -> (u16, serde_json::Value) {
    let mut command = Command::new(curl);
    command.args(["-sS", "-w", "\n%{http_code}", "--unix-socket"]).arg(server.folder.socket());
    let output = command.args(arguments).arg(format!("http://localhost/v1/{path}")).output().expect("curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or_else(|| panic!("{text:?} {output:?}"));
    (status.parse().expect("a status"), serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn curl_sends_json_as_a_form_and_forms() {
    let Some(program) = program("curl") else { return };
    let server = Server::start(&[]);
    let run = |path: &str, arguments: &[&str]| curl(&program, &server, path, arguments);
    assert_eq!(run("transit/keys/orders", &["-X", "POST"]).0, 200);
    let (status, answer) = run("transit/encrypt/orders", &["-d", r#"{"plaintext":"aGVsbG8="}"#]);
    assert_eq!(status, 200, "{answer}");
    let ciphertext = answer["data"]["ciphertext"].as_str().expect("a ciphertext");
    let form = format!("ciphertext={}", ciphertext.replace('+', "%2B"));
    let (status, answer) = run("transit/decrypt/orders", &["-d", &form]);
    assert_eq!((status, &answer["data"]["plaintext"]), (200, &json!("aGVsbG8=")), "{answer}");
    // It asks whether it may send more than 1 MiB.
    let long = server.folder.beside("long.json");
    let text = "A".repeat(1_398_100);
    std::fs::write(&long, format!(r#"{{"plaintext":"{text}"}}"#)).expect("a file");
    let (status, answer) = run("transit/encrypt/orders", &["--data-binary", &format!("@{}", long.display())]);
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = run("transit/keys?list=true", &[]);
    assert_eq!((status, &answer["data"]["keys"]), (200, &json!(["orders"])));
}
