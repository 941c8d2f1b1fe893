//! Octet streams of records, by the sockets of the running program.

use crate::common::{Answer, Client, Folder, PATIENCE, Server, base64, from_base64};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const ADA: &[u8] = b"ada";
pub const OCTETS: (&str, &str) = ("Content-Type", "application/octet-stream");
const CIPHERS: [(&str, u8); 5] =
    [("aes-256", 1), ("aes-192", 2), ("aes-128", 3), ("aes-256-gcm", 4), ("aes-256-turbo", 5)];

/// A record of a request.
pub fn record([key, user, ad, text]: [&[u8]; 4]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((key.len() as u16).to_le_bytes());
    bytes.extend((user.len() as u16).to_le_bytes());
    bytes.extend((ad.len() as u32).to_le_bytes());
    bytes.extend((text.len() as u32).to_le_bytes());
    [&bytes[..], key, user, ad, text].concat()
}

/// The answers: a status and its bytes each.
pub fn split(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut answers = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        assert_eq!(head[2..4], [0, 0]);
        let (own, rest) = rest.split_at(u32::from_le_bytes(head[4..].try_into().unwrap()) as usize);
        answers.push((u16::from_le_bytes([head[0], head[1]]), own.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "an answer breaks off");
    answers
}

/// A server with the key `orders`.
fn server() -> Server {
    let server = Server::start(&[]);
    new_key(&server.folder, "orders", &[]);
    server
}

fn new_key(folder: &Arc<Folder>, name: &str, options: &[&str]) {
    let output = folder.run(["key", "new", name].into_iter().chain(options.iter().copied()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn answers(answer: &Answer) -> Vec<(u16, Vec<u8>)> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    split(&answer.body)
}

fn post(server: &Server, action: &str, body: &[u8]) -> Vec<(u16, Vec<u8>)> {
    answers(&server.request("POST", &format!("/v2/{action}"), &[OCTETS], body))
}

fn one(server: &Server, action: &str, parts: [&[u8]; 4]) -> Vec<u8> {
    let mut answers = post(server, action, &record(parts));
    assert_eq!((answers.len(), answers[0].0), (1, 0), "{}", String::from_utf8_lossy(&answers[0].1));
    answers.remove(0).1
}

fn statuses(answers: &[(u16, Vec<u8>)]) -> Vec<u16> {
    answers.iter().map(|answer| answer.0).collect()
}

#[test]
fn every_cipher_and_mode_seals_and_opens() {
    let server = Server::start(&[]);
    for (cipher, suite) in CIPHERS {
        for mode in ["derived", "shreddable"] {
            let name = format!("{cipher}-{mode}");
            new_key(&server.folder, &name, &["--type", cipher, "--mode", mode]);
            let key = name.as_bytes();
            let sealed = one(&server, "seal", [key, ADA, b"v1", b"a text"]);
            assert_eq!(sealed[..5], [1, 0, 0, 0, suite]);
            assert_eq!(one(&server, "open", [key, ADA, b"v1", &sealed]), b"a text");
            assert_eq!(statuses(&post(&server, "open", &record([key, b"bob", b"v1", &sealed]))), [400]);
            // Every key of this command needs a user.
            assert_eq!(statuses(&post(&server, "seal", &record([key, b"", b"v1", b"x"]))), [400]);
        }
    }
}

#[test]
fn a_shredded_user_opens_no_more() {
    let server = server();
    new_key(&server.folder, "log", &["--mode", "shreddable"]);
    let users: Vec<Vec<u8>> = (0..3000_u32).map(|i| format!("user {i}").into_bytes()).collect();
    let body: Vec<u8> = users.iter().flat_map(|user| record([b"log", user, b"", user])).collect();
    let sealed = post(&server, "seal", &body);
    assert!(sealed.iter().all(|answer| answer.0 == 0));
    let output = server.folder.run(["user", "shred", "--yes", "log", "user 7"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let body: Vec<u8> = users.iter().zip(&sealed).flat_map(|(user, own)| record([b"log", user, b"", &own.1])).collect();
    for (i, answer) in post(&server, "open", &body).into_iter().enumerate() {
        if i == 7 {
            assert_eq!(answer.0, 400);
        } else {
            assert_eq!(answer, (0, users[i].clone()));
        }
    }
}

#[test]
fn ciphertexts_of_both_ways_in_are_the_same() {
    let server = server();
    let sealed = one(&server, "seal", [b"orders", ADA, b"v1", b"a text"]);
    let text = format!("vault:v1:{}", base64(&sealed[4..]));
    let common = json!({ "context": base64(ADA), "associated_data": base64("v1") });
    let with = |name: &str, value: &str| {
        let mut body = common.clone();
        body[name] = value.into();
        body
    };
    let opened = server.post("/v1/transit/decrypt/orders", &with("ciphertext", &text));
    assert_eq!(opened.json()["data"]["plaintext"], base64("a text"), "{}", opened.text());
    let other = server.post("/v1/transit/encrypt/orders", &with("plaintext", &base64("another")));
    let other = other.json()["data"]["ciphertext"].as_str().unwrap().to_owned();
    let other = [&1_u32.to_le_bytes()[..], &from_base64(other.strip_prefix("vault:v1:").unwrap())].concat();
    assert_eq!(one(&server, "open", [b"orders", ADA, b"v1", &other]), b"another");
}

#[test]
fn rewrapping_keeps_the_user_and_the_associated_data() {
    let server = server();
    new_key(&server.folder, "log", &["--mode", "shreddable"]);
    for key in [&b"orders"[..], b"log"] {
        let sealed = one(&server, "seal", [key, ADA, b"ad", b"text"]);
        assert!(server.folder.run(["key", "rotate", std::str::from_utf8(key).unwrap()]).status.success());
        let again = one(&server, "rewrap", [key, ADA, b"ad", &sealed]);
        assert_eq!(again[..4], [2, 0, 0, 0]);
        assert_eq!(one(&server, "open", [key, ADA, b"ad", &again]), b"text");
        assert_eq!(statuses(&post(&server, "rewrap", &record([key, ADA, b"", &sealed]))), [400]);
        assert_eq!(statuses(&post(&server, "open", &record([key, ADA, b"", &again]))), [400]);
    }
}

#[test]
fn requests_that_are_wrong_as_a_whole_are_refused_as_such() {
    let server = server();
    let body = record([b"orders", ADA, b"", b"text"]);
    let status =
        |method: &str, path: &str, headers: &[(&str, &str)]| server.request(method, path, headers, &body).status;
    assert_eq!(status("POST", "/v2/seal", &[]), 200);
    assert_eq!(status("GET", "/v2/seal", &[]), 405);
    assert_eq!(status("PUT", "/v2/seal", &[]), 405);
    assert_eq!(status("POST", "/v2/unseal", &[]), 404);
    assert_eq!(status("POST", "/v2/seal/orders", &[]), 404);
    assert_eq!(status("POST", "/v2/seal", &[("Content-Type", "application/json")]), 400);
    assert_eq!(status("POST", "/v2/seal", &[OCTETS, ("Content-Encoding", "gzip")]), 400);
    assert_eq!(status("POST", "/v2/seal", &[("X-Vault-Token", "phx.none")]), 403);
    let token = server.token(&["seal:orders"]);
    assert_eq!(status("POST", "/v2/seal", &[("X-Vault-Token", &token)]), 200);
    assert_eq!(status("POST", "/v2/open", &[("X-Vault-Token", &token)]), 403);
    let mut client = server.client();
    client.raw(b"POST /v2/seal HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741825\r\n\r\n").unwrap();
    assert_eq!(client.answer().unwrap().status, 413);
}

#[test]
fn a_forbidden_record_says_nothing_of_its_key() {
    let server = server();
    new_key(&server.folder, "secret", &[]);
    let token = server.token(&["seal:orders"]);
    let body = [&b"orders"[..], b"secret", b"none"].map(|key| record([key, ADA, b"", b"x"])).concat();
    let answer = server.request("POST", "/v2/seal", &[OCTETS, ("X-Vault-Token", &token)], &body);
    let answers = answers(&answer);
    assert_eq!(statuses(&answers), [0, 403, 403]);
    assert_eq!(answers[1], answers[2]);
}

#[test]
fn a_connection_serves_requests_one_after_another_and_pipelined() {
    let server = server();
    let body = record([b"orders", ADA, b"", b"text"]);
    let mut client = server.client();
    for _ in 0..3 {
        client.send("POST", "/v2/seal", &[OCTETS], &body).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(statuses(&answers(&client.answer().unwrap())), [0]);
    }
    assert_eq!(statuses(&answers(&client.request("POST", "/v2/seal", &[OCTETS], &body.repeat(9000)))), [0; 9000]);
    assert_eq!(statuses(&answers(&client.request("POST", "/v2/seal", &[OCTETS], &body))), [0]);
}

#[test]
fn a_small_body_may_be_split_anywhere() {
    let server = server();
    let sealed = one(&server, "seal", [b"orders", ADA, b"ad", b"text"]);
    let body = [record([b"orders", ADA, b"ad", &sealed]), record([b"none", ADA, b"", &sealed])].concat();
    let mut client = server.client();
    for at in 0..=body.len() {
        let head = "POST /v2/open HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunk = |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        client.raw(head.as_bytes()).unwrap();
        for part in [&body[..at], &body[at..]] {
            if !part.is_empty() {
                client.raw(&chunk(part)).unwrap();
            }
        }
        client.raw(b"0\r\n\r\n").unwrap();
        assert_eq!(statuses(&answers(&client.answer().unwrap())), [0, 404], "{at}");
    }
}

#[test]
fn a_client_may_ask_whether_to_send() {
    let server = server();
    let body = record([b"orders", ADA, b"", b"text"]);
    let mut client = server.client();
    let head =
        format!("POST /v2/seal HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n", body.len());
    client.raw(head.as_bytes()).unwrap();
    assert_eq!(client.head().unwrap().status, 100);
    client.raw(&body).unwrap();
    assert_eq!(statuses(&answers(&client.answer().unwrap())), [0]);
}

/// Eight MiB, counted with 256 bytes for each record, may be sent before anything is read.
#[test]
fn a_client_that_reads_only_when_it_has_sent_all_gets_its_answers() {
    let server = server();
    for len in [0, 1000, 700_000] {
        let own = record([b"orders", ADA, b"", &vec![7; len]]);
        let count = (8 << 20) / (own.len() + 256);
        let mut client = server.client();
        client.send("POST", "/v2/seal", &[OCTETS], &own.repeat(count)).unwrap();
        let answers = answers(&client.answer().unwrap());
        assert_eq!(statuses(&answers), vec![0; count], "{len}");
    }
}

#[test]
fn a_stream_that_is_sent_while_it_is_read_may_be_long() {
    let server = server();
    let own = record([b"orders", ADA, b"", &[7; 50_000]]);
    let count = 1000;
    let stream = UnixStream::connect(server.folder.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let mut client = Client::on(Box::new(stream)).unwrap();
    let all = own.repeat(count);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let head = format!("POST /v2/seal HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", all.len());
            writer.write_all(head.as_bytes()).unwrap();
            writer.write_all(&all).unwrap();
        });
        assert_eq!(statuses(&answers(&client.answer().unwrap())), vec![0; count]);
    });
    assert!(server.memory() < 300 << 20, "{} bytes of memory", server.memory());
}

/// What is announced takes no memory before it comes, also where each part of it goes off alone.
#[test]
fn streams_in_small_parts_cost_little_memory() {
    const PARTS: usize = 3;
    let server = server();
    let own = record([b"orders", ADA, b"", b"x"]);
    post(&server, "seal", &own);
    let before = server.memory();
    let mut streams: Vec<UnixStream> = std::iter::repeat_with(|| {
        let mut stream = UnixStream::connect(server.folder.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"POST /v2/seal HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n").unwrap();
        stream
    })
    .take(64)
    .collect();
    for _ in 0..PARTS {
        streams.iter_mut().for_each(|stream| stream.write_all(&own).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let answer = [0, 0, 0, 0, 1 + 53, 0, 0, 0];
    for stream in &mut streams {
        let (mut read, mut some) = (Vec::new(), [0; 4096]);
        while read.windows(answer.len()).filter(|window| **window == answer).count() < PARTS {
            let len = stream.read(&mut some).unwrap();
            assert!(len > 0, "{}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&some[..len]);
        }
    }
    let more = server.memory().saturating_sub(before);
    assert!(more < 16 << 20, "{more} bytes for {} streams", streams.len());
}

#[test]
fn what_breaks_off_is_answered_up_to_there() {
    let server = server();
    let body = record([b"orders", ADA, b"", b"text"]);
    let cut = [&body[..], &body[..body.len() - 1]].concat();
    let answers = post(&server, "seal", &cut);
    assert_eq!(statuses(&answers), [0, 400]);
    assert_eq!(answers[1].1, b"the stream breaks off inside a record");
    let long = [&body[..], &[255; 12], &body.repeat(1000)].concat();
    let mut client = server.client();
    client.send("POST", "/v2/seal", &[OCTETS], &long).unwrap();
    assert_eq!(statuses(&split(&client.answer().unwrap().body)), [0, 413]);
}

#[test]
fn clients_that_leave_early_leave_nothing_behind() {
    let server = server();
    let body = record([b"orders", ADA, b"", &[7; 100_000]]).repeat(50);
    for len in [0, 100, 1_000_000, body.len()] {
        let mut stream = UnixStream::connect(server.folder.socket()).unwrap();
        let head = format!("POST /v2/seal HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 2 * body.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body[..len]).unwrap();
        let mut some = [0; 10];
        if len == body.len() {
            stream.read_exact(&mut some).unwrap();
        }
        drop(stream);
    }
    let metrics = || server.get("/metrics").text();
    crate::common::until("nothing is in flight", || {
        let metrics = metrics();
        let line = metrics.lines().find(|line| line.starts_with("phalanx_in_flight_bytes ")).map(str::to_owned);
        line.is_none_or(|line| line.ends_with(" 0"))
    });
    assert_eq!(statuses(&post(&server, "seal", &record([b"orders", ADA, b"", b"x"]))), [0]);
}
