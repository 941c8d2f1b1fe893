//! The programs, as `phalanx` runs them: against a server of this test, and against phalanx-server with `phalanx` itself.

mod aws;
mod aws_servers;
mod by_phalanx;

use base64ct::{Base64, Encoding};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx-kms-hashivault");

/// What a server is asked: its first line, its headers in small letters, and its body.
struct Asked {
    line: String,
    headers: Vec<String>,
    body: Value,
}

/// A server that gives this answer once. Its address, and what it was asked.
fn server(status: &'static str, headers: &'static str, answer: &str) -> (String, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (answer, (to, asked)) = (answer.to_owned(), mpsc::channel());
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        to.send(read(&stream)).unwrap();
        let length = answer.len();
        let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
        (&stream).write_all(format!("{head}{answer}").as_bytes()).unwrap();
    });
    (address, asked)
}

fn read(stream: &TcpStream) -> Asked {
    let mut stream = BufReader::new(stream);
    let mut next = || {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line.trim().to_owned()
    };
    let line = next();
    let headers: Vec<String> =
        std::iter::repeat_with(&mut next).take_while(|line| !line.is_empty()).map(|line| line.to_lowercase()).collect();
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    Asked { line, headers, body: serde_json::from_slice(&body).unwrap() }
}

fn request(operation: &str, uri: &str, field: &str, bytes: &[u8]) -> Value {
    let context = json!({ "purpose": "phalanx v1 run key" });
    json!({ "version": 1, "operation": operation, "uri": uri, "context": context, field: Base64::encode_string(bytes) })
}

/// What a program answers, with these variables and no others.
fn ask_with(program: &str, request: &str, variables: &[(&str, &str)]) -> Value {
    let mut command = Command::new(program);
    command.env_clear().envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn ask(request: &Value, address: &str) -> Value {
    ask_with(PROGRAM, &request.to_string(), &[("VAULT_ADDR", address), ("VAULT_TOKEN", "t0ken")])
}

fn error(answer: &Value) -> &str {
    answer["error"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_run_key_is_wrapped_and_unwrapped_under_its_context() {
    let (key, text) = ([7; 32], "vault:v1:AAAA");
    let associated_data = Base64::encode_string(b"phalanx v1 run key");
    let (address, asked) =
        server("200 OK", "", &json!({ "data": { "ciphertext": text, "key_version": 1 } }).to_string());
    let answer = ask(&request("wrap", "hashivault://orders", "plaintext", &key), &address);
    assert_eq!(answer, json!({ "ciphertext": Base64::encode_string(text.as_bytes()) }));
    let asked = asked.recv().unwrap();
    assert_eq!(asked.line, "POST /v1/transit/encrypt/orders HTTP/1.1");
    assert_eq!(asked.body, json!({ "plaintext": Base64::encode_string(&key), "associated_data": associated_data }));
    for header in ["x-vault-token: t0ken", "x-vault-request: true", "content-type: application/json"] {
        assert!(asked.headers.iter().any(|line| line == header), "{header}: {:?}", asked.headers);
    }
    let given = json!({ "data": { "plaintext": Base64::encode_string(&key) } }).to_string();
    let (address, asked) = server("200 OK", "", &given);
    let uri = "hashivault://orders?engine=team/transit-2";
    let answer = ask(&request("unwrap", uri, "ciphertext", text.as_bytes()), &format!("{address}/"));
    assert_eq!(answer, json!({ "plaintext": Base64::encode_string(&key) }));
    let asked = asked.recv().unwrap();
    assert_eq!(asked.line, "POST /v1/team/transit-2/decrypt/orders HTTP/1.1");
    assert_eq!(asked.body, json!({ "ciphertext": text, "associated_data": associated_data }));
}

#[test]
fn the_token_may_lie_in_the_file_that_vault_login_writes() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".vault-token"), "from-the-file\n").unwrap();
    let (address, asked) = server("200 OK", "", &json!({ "data": { "ciphertext": "c" } }).to_string());
    let variables = [("VAULT_ADDR", &*address), ("HOME", home.path().to_str().unwrap()), ("VAULT_NAMESPACE", "team")];
    ask_with(PROGRAM, &request("wrap", "hashivault://k", "plaintext", &[7; 32]).to_string(), &variables);
    let headers = asked.recv().unwrap().headers;
    assert!(
        headers.contains(&"x-vault-token: from-the-file".into()) && headers.contains(&"x-vault-namespace: team".into())
    );
}

#[test]
fn failures_are_one_line() {
    let wrap = request("wrap", "hashivault://orders", "plaintext", &[7; 32]);
    for (status, headers, answer, expected) in [
        ("403 Forbidden", "", r#"{"errors":["permission denied"]}"#, "answers 403 Forbidden: permission denied"),
        ("400 Bad Request", "", r#"{"errors":["a","b"]}"#, "answers 400 Bad Request: a; b"),
        ("500 Internal Server Error", "", "<html>", "answers 500 Internal Server Error"),
        // The token is not taken to another server.
        ("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", "", "answers 307 Temporary Redirect"),
        ("200 OK", "", "hello", "does not answer like Transit"),
        ("200 OK", "", r#"{"data":{"plaintext":"BwcH"}}"#, "does not answer like Transit"),
    ] {
        let (address, _asked) = server(status, headers, answer);
        assert_eq!(error(&ask(&wrap, &address)), format!("{address} {expected}"));
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = ask(&wrap, &format!("http://{closed}"));
    assert!(error(&said).starts_with(&format!("http://{closed} cannot be asked: ")), "{said}");
    assert!(error(&said).ends_with("Connection refused (os error 111)"), "{said}");
}

#[test]
fn what_is_missing_or_malformed_is_said() {
    let wrap = request("wrap", "hashivault://orders", "plaintext", &[7; 32]).to_string();
    let with = |variables: &[(&str, &str)]| error(&ask_with(PROGRAM, &wrap, variables)).to_owned();
    assert_eq!(with(&[]), "VAULT_ADDR does not say where the server is");
    assert_eq!(with(&[("VAULT_ADDR", "http://[::1]:1")]), "no token: neither VAULT_TOKEN nor ~/.vault-token has one");
    let both = [("VAULT_ADDR", "http://[::1]:1"), ("VAULT_TOKEN", "t")];
    let cacert = |path| with(&[both[0], both[1], ("VAULT_CACERT", path)]);
    assert_eq!(cacert("/dev/null"), "VAULT_CACERT: /dev/null: no certificate in it");
    assert!(cacert("/nowhere").starts_with("VAULT_CACERT: /nowhere: "));
    for uri in [
        "hashivault://",
        "hashivault://..",
        "hashivault://a/b",
        "hashivault://a?engine=",
        "hashivault://a?engine=../b",
        "hashivault://a?x=y",
    ] {
        let request = request("wrap", uri, "plaintext", &[7; 32]).to_string();
        assert!(error(&ask_with(PROGRAM, &request, &both)).starts_with("the URI has the form NAME://KEY or "), "{uri}");
    }
    for (request, expected) in [
        ("".into(), "this is not a request of phalanx"),
        ("[]".into(), "this is not a request of phalanx"),
        (wrap.replace("\"version\":1", "\"version\":2"), "version 2 of requests is not known to this program"),
        (wrap.replace("hashivault:", "vault:"), "this program is for URIs that begin with hashivault://"),
        (
            wrap.replace("\"wrap\"", "\"unwrap\""),
            "the request is neither to wrap a plaintext nor to unwrap a ciphertext",
        ),
        (" ".repeat(65537), "the request is too long"),
    ] {
        assert_eq!(error(&ask_with(PROGRAM, &request, &both)), expected);
    }
}

/// Addresses whose passwords no message may show.
const WITH_SECRETS: [&str; 6] = [
    "https://me:secret@127.0.0.1:1",
    "https://secret@127.0.0.1:1",
    "https://:secret@127.0.0.1:1",
    "https:me:secret@127.0.0.1:1",
    "https://me:secret@:1",
    "me:secret@127.0.0.1",
];

#[test]
fn no_message_shows_the_password_of_an_address() {
    let wrap = request("wrap", "hashivault://orders", "plaintext", &[7; 32]);
    for address in WITH_SECRETS {
        let said = ask(&wrap, address);
        assert!(error(&said).starts_with("VAULT_ADDR ") && !error(&said).contains("secret"), "{said}");
    }
    assert_eq!(
        error(&ask(&wrap, WITH_SECRETS[0])),
        "VAULT_ADDR has a user or a password in it, which has no place there"
    );
}

#[test]
fn no_proxy_sees_what_goes_to_this_machine() {
    let (address, asked) = server("200 OK", "", &json!({ "data": { "ciphertext": "c" } }).to_string());
    let (proxy, seen) = server("500 No", "", "");
    let wrap = request("wrap", "hashivault://orders", "plaintext", &[7; 32]).to_string();
    let variables = [("VAULT_ADDR", &*address), ("VAULT_TOKEN", "t"), ("HTTP_PROXY", &proxy), ("http_proxy", &proxy)];
    let answer = ask_with(PROGRAM, &wrap, &variables);
    assert_eq!(answer, json!({ "ciphertext": Base64::encode_string(b"c") }));
    assert!(asked.try_recv().is_ok() && seen.try_recv().is_err());
}
