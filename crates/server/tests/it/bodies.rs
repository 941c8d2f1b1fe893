//! Bodies and answers of clients who are slow, send too much, or go away: what they take is given back, and others are served.

use crate::common::{Client, Server, base64, until};
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::thread;
use std::time::{Duration, Instant};

/// A server with a key, and a token that seals with it.
fn server(options: &[&str]) -> (Server, String) {
    let server = Server::start(&[&["--listen", "127.0.0.1:0"], options].concat());
    let made = server.post("/v1/transit/keys/orders", &json!({}));
    assert!(made.status < 300, "{}", made.text());
    let token = server.token(&["seal:orders", "open:orders"]);
    (server, token)
}

/// A body that seals one text.
fn body() -> Value {
    json!({ "plaintext": base64("a text"), "context": base64("ada") })
}

fn is_served(server: &Server, token: &str) {
    let answer = server.post_by(token, "/v1/transit/encrypt/orders", &body());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn gauge(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    value.trim().parse().expect("a number")
}

fn nothing_is_in_flight(server: &Server) {
    until("nothing is in flight", || gauge(server, "phalanx_server_in_flight_bytes ") == 0);
}

/// The head of a request to seal, with other headers.
fn head(path: &str, token: &str, headers: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nX-Vault-Token: {token}\r\n{headers}\r\n\r\n").into_bytes()
}

/// A record of an octet stream.
fn record(user: &str, text: &[u8]) -> Vec<u8> {
    let key = b"orders";
    let mut record = Vec::new();
    record.extend_from_slice(&(key.len() as u16).to_le_bytes());
    record.extend_from_slice(&(user.len() as u16).to_le_bytes());
    record.extend_from_slice(&0_u32.to_le_bytes());
    record.extend_from_slice(&(text.len() as u32).to_le_bytes());
    [&record, &key[..], user.as_bytes(), text].concat()
}

const JSON: &str = "/v1/transit/encrypt/orders";
const STREAM: &str = "/v2/seal";

#[test]
fn a_body_that_does_not_come_ends() {
    let (server, token) = server(&["--idle-timeout", "1"]);
    for path in [JSON, STREAM] {
        let mut client = Client::tcp(&server.address());
        client.raw(&head(path, &token, "Content-Length: 1000")).unwrap();
        client.raw(b"{\"plain").unwrap();
        is_served(&server, &token);
        let answer = client.answer().unwrap();
        // The last answer of a stream says it there.
        let in_stream = path == STREAM && answer.status == 200 && answer.body.starts_with(&408_u16.to_le_bytes());
        assert!(answer.status == 408 || in_stream, "{path}: {answer:?}");
        assert!(client.is_closed());
    }
    nothing_is_in_flight(&server);
}

#[test]
fn a_body_that_comes_byte_by_byte_ends() {
    let (server, token) = server(&["--idle-timeout", "1"]);
    for path in [JSON, STREAM] {
        let mut client = Client::tcp(&server.address());
        client.raw(&head(path, &token, "Content-Length: 100000")).unwrap();
        let begun = Instant::now();
        while client.raw(b" ").is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{path}: it is read for ever");
            is_served(&server, &token);
            thread::sleep(Duration::from_millis(50));
        }
    }
    nothing_is_in_flight(&server);
}

#[test]
fn a_body_without_a_length_is_bounded() {
    let (server, token) = server(&[]);
    let before = server.memory();
    let mut client = Client::tcp(&server.address());
    client.raw(&head(JSON, &token, "Transfer-Encoding: chunked")).unwrap();
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    let sent = (0..200).take_while(|_| client.raw(&chunk).is_ok()).count();
    let answer = client.answer();
    assert!(answer.as_ref().is_ok_and(|answer| answer.status == 413), "{answer:?} after {sent} MiB");
    assert!(client.is_closed());
    assert!(server.memory() < before + (160 << 20), "{} and before {before}", server.memory());
    nothing_is_in_flight(&server);
    is_served(&server, &token);
}

#[test]
fn a_body_that_is_announced_too_long_is_refused_at_once() {
    let (server, token) = server(&[]);
    for (path, len) in [(JSON, 40_u64 << 20), (JSON, u64::MAX / 2), (STREAM, 2 << 30)] {
        let mut client = Client::tcp(&server.address());
        client.raw(&head(path, &token, &format!("Content-Length: {len}\r\nExpect: 100-continue"))).unwrap();
        let answer = client.head().unwrap();
        assert_eq!(answer.status, 413, "{path} {len}");
    }
}

#[test]
fn who_waits_to_be_asked_for_a_body_is_asked() {
    let (server, token) = server(&[]);
    let body = body().to_string();
    let mut client = Client::tcp(&server.address());
    client.raw(&head(JSON, &token, &format!("Content-Length: {}\r\nExpect: 100-continue", body.len()))).unwrap();
    assert_eq!(client.head().unwrap().status, 100);
    client.raw(body.as_bytes()).unwrap();
    assert_eq!(client.answer().unwrap().status, 200);
}

#[test]
fn nonsense_in_chunks_harms_nobody() {
    let (server, token) = server(&[]);
    for nonsense in [
        "zz\r\n",
        "-1\r\nabc\r\n",
        "5\r\nabc\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\n",
        "3;ext=\"\x01\r\nabc\r\n0\r\n\r\n",
        "3\nabc\n0\n\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcX0\r\n\r\n",
        "0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        for path in [JSON, STREAM] {
            let mut client = Client::tcp(&server.address());
            client.raw(&head(path, &token, "Transfer-Encoding: chunked")).unwrap();
            let _ = client.raw(nonsense.as_bytes());
            client.end_sending();
            // An octet stream without records is well formed, and so is the last one here.
            let answer = client.answer().map(|answer| answer.status);
            assert!(matches!(answer, Ok(400 | 200) | Err(_)), "{nonsense:?} {path}: {answer:?}");
        }
    }
    is_served(&server, &token);
    nothing_is_in_flight(&server);
    assert_eq!(gauge(&server, "phalanx_server_panics_total "), 0);
}

#[test]
fn what_is_only_announced_takes_nothing_from_others() {
    let (server, token) = server(&["--max-in-flight", "32"]);
    let mut waiting = Vec::new();
    for _ in 0..60 {
        let mut client = Client::tcp(&server.address());
        client.raw(&head(JSON, &token, "Content-Length: 1000000")).unwrap();
        client.raw(b"{").unwrap();
        waiting.push(client);
    }
    until("all are read", || gauge(&server, "phalanx_server_in_flight_bytes ") >= 60 * 190_000);
    is_served(&server, &token);
    drop(waiting);
    nothing_is_in_flight(&server);
}

#[test]
fn too_much_at_the_same_time_is_refused_for_now() {
    let (server, token) = server(&["--max-in-flight", "8"]);
    let batch =
        |bytes: usize| json!({ "batch_input": [{ "plaintext": base64(vec![7; bytes]), "context": base64("ada") }] });
    // One connection takes nearly all the room of its caller, two fifths of the whole, and sends no more.
    let mut other = server.client();
    let head = format!("POST {JSON} HTTP/1.1\r\nHost: a\r\nX-Vault-Token: {token}\r\nContent-Length: 1000000\r\n\r\n");
    other.raw(&[head.into_bytes(), vec![b' '; 100_000]].concat()).unwrap();
    until("it has its room", || gauge(&server, "phalanx_server_in_flight_bytes ") >= 3_000_000);
    let answer = server.post_by(&token, JSON, &batch(100_000));
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")), "{}", answer.text());
    drop(other);
    // What never has room need not ask again, and the bound is the one that is published.
    assert_eq!(server.get("/v2/limits").json()["json_bytes"], (8 << 20) / 5 * 2 / 3);
    let answer = server.post_by(&token, JSON, &batch(3 << 20));
    assert_eq!((answer.status, answer.header("retry-after")), (413, None), "{}", answer.text());
    assert!(server.get("/metrics").text().contains("phalanx_server_rejected_total{status=\"429\"} 1\n"));
    nothing_is_in_flight(&server);
    is_served(&server, &token);
}

#[test]
fn large_bodies_of_a_caller_are_taken_one_after_another() {
    let (server, token) = server(&["--max-in-flight", "8"]);
    // Each takes nearly all the room of its caller, with its batch and its answer.
    let body = json!({ "batch_input": [{ "plaintext": base64(vec![7; 740_000]), "context": base64("ada") }] });
    thread::scope(|scope| {
        let posted: Vec<_> = (0..4).map(|_| scope.spawn(|| server.post_by(&token, JSON, &body).status)).collect();
        assert!(posted.into_iter().all(|status| status.join().unwrap() == 200));
    });
    nothing_is_in_flight(&server);
}

#[test]
fn a_caller_has_a_rate_and_others_have_theirs() {
    let (server, token) = server(&["--max-rate", "20"]);
    assert_eq!(server.get("/v2/limits").json()["requests_a_second"], 20);
    let mut client = Client::tcp(&server.address());
    let asked =
        format!("GET /v1/auth/token/lookup-self HTTP/1.1\r\nHost: x\r\nX-Vault-Token: {token}\r\n\r\n").repeat(1000);
    let mut writer = client.writer();
    thread::spawn(move || writer.write_all(asked.as_bytes()));
    let answers: Vec<_> = (0..1000).map(|_| client.answer().unwrap()).collect();
    assert_eq!(answers[0].status, 200);
    let refused = answers.iter().find(|answer| answer.status == 429).expect("1,000 requests take less than 50 seconds");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["errors"][0], "too many requests a second");
    assert_eq!(
        server
            .request("GET", "/v1/auth/token/lookup-self", &[("X-Vault-Token", &server.token(&["open:orders"]))], b"")
            .status,
        200
    );
}

#[test]
fn who_does_not_read_the_answer_is_dropped() {
    let (server, token) = server(&["--idle-timeout", "1", "--keep-alive", "1"]);
    let before = server.memory();
    let records: Vec<u8> = (0..64).flat_map(|i| record(&format!("user {i}"), &vec![7; 1 << 19])).collect();
    let sending: Vec<_> = (0..4)
        .map(|_| {
            let mut client = Client::tcp(&server.address());
            let (token, records) = (token.clone(), records.clone());
            thread::spawn(move || {
                client.raw(&head(STREAM, &token, &format!("Content-Length: {}", records.len()))).unwrap();
                // The server stops reading when its answers are not read, and then gives up.
                let _ = client.raw(&records);
                client
            })
        })
        .collect();
    is_served(&server, &token);
    let clients: Vec<Client> = sending.into_iter().map(|client| client.join().unwrap()).collect();
    until("all are dropped", || gauge(&server, "phalanx_server_connections ") == 1);
    nothing_is_in_flight(&server);
    assert!(server.memory() < before + (200 << 20), "{} and before {before}", server.memory());
    for mut client in clients {
        // A client may also have been told that it was too slow in sending.
        let answer = client.answer();
        assert!(answer.as_ref().map_or(0, |answer| answer.body.len()) < records.len(), "it is whole");
    }
    is_served(&server, &token);
}

#[test]
fn what_a_client_leaves_behind_is_given_back() {
    let (server, token) = server(&[]);
    for path in [JSON, STREAM] {
        for _ in 0..50 {
            let mut client = Client::tcp(&server.address());
            client.raw(&head(path, &token, "Content-Length: 1000000")).unwrap();
            match client.raw(&vec![b' '; 300_000]) {
                Ok(()) => {}
                Err(error) => assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)),
            }
        }
    }
    until("all are gone", || gauge(&server, "phalanx_server_connections ") == 1);
    nothing_is_in_flight(&server);
    is_served(&server, &token);
}

#[test]
fn a_token_is_for_what_it_says_alone() {
    let (server, _) = server(&["--audit-users"]);
    let token = server.token(&["seal:orders"]);
    is_served(&server, &token);
    let sealed = server.post_by(&token, JSON, &body()).json()["data"]["ciphertext"].clone();
    let open = json!({ "ciphertext": sealed, "context": base64("ada") });
    let denied = server.post_by(&token, "/v1/transit/decrypt/orders", &open);
    assert_eq!(denied.status, 403);
    let id = denied.header("x-request-id").unwrap().to_owned();
    assert_eq!(server.post("/v1/transit/decrypt/orders", &open).status, 200);
    let log = server.folder.dir().join("audit.log");
    let mut line = Value::Null;
    until("its line", || {
        let text = std::fs::read_to_string(&log).unwrap();
        line = text
            .lines()
            .filter(|line| line.contains(&id))
            .find_map(|line| serde_json::from_str(line).ok())
            .unwrap_or_default();
        !line.is_null()
    });
    assert!(line["caller"].as_str().unwrap().starts_with("token:"));
    assert_eq!(line["status"], 403);
    let text = std::fs::read_to_string(&log).unwrap();
    for secret in [token.as_str(), "a text", &base64("a text"), "vault:v1"] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
}

#[test]
fn each_part_of_a_streamed_answer_has_its_line() {
    let (server, token) = server(&["--audit", "required"]);
    let records: Vec<u8> = (0..40).flat_map(|i| record(&format!("user {i}"), &vec![7; 1 << 19])).collect();
    let length = records.len().to_string();
    let mut client = server.client();
    client.raw(&head(STREAM, &token, &format!("Content-Length: {length}"))).unwrap();
    let mut writer = client.writer();
    let sending = thread::spawn(move || writer.write_all(&records).unwrap());
    let answer = client.answer().unwrap();
    sending.join().unwrap();
    assert_eq!(answer.status, 200);
    let id = answer.header("x-request-id").unwrap();
    let text = std::fs::read_to_string(server.folder.dir().join("audit.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let own: Vec<&Value> = lines.iter().filter(|line| line["id"] == id).collect();
    assert_eq!(own.iter().map(|line| line["items"].as_u64().unwrap()).sum::<u64>(), 40);
    assert!(own.len() > 1 && own[0].get("more").is_none() && own[1..].iter().all(|line| line["more"] == true));
    assert!(own.iter().all(|line| line["caller"].as_str().unwrap().starts_with("token:")));
}
