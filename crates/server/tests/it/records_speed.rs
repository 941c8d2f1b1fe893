//! How fast one connection is, beside the same batch in process:
//! `cargo test --release -p phalanx-server --test it records_speed -- --ignored --nocapture`.

use super::records::record;
use crate::common::Server;
use phalanx_core::batch::{self, BehindRoom, KeyOf, Message};
use phalanx_core::{Roster, SecretKey, Suite, UserKeys};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const RECORDS: usize = 10_000;
const LEN: usize = 256;
const ROUNDS: usize = 30;

#[test]
#[ignore = "it measures, and says nothing of what is right"]
fn one_connection_beside_a_batch_in_process() {
    let server = Server::start(&["--engine", "cpu"]);
    assert!(server.folder.run(["key", "new", "a"]).status.success());
    let path = server.folder.socket();
    let users: Vec<[u8; 8]> = (0..RECORDS as u64).map(u64::to_le_bytes).collect();
    let text = [7; LEN];
    let body: Vec<u8> = users.iter().flat_map(|user| record([b"a", user, b"", &text])).collect();
    let mut stream = UnixStream::connect(&path).unwrap();

    let mut sealed = Vec::new();
    let (mut seal, mut open, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(in_process(&users));
        let begun = Instant::now();
        sealed = request(&mut stream, "seal", &body);
        seal.push(begun.elapsed());
        let to_open: Vec<u8> =
            users.iter().zip(split(&sealed)).flat_map(|(user, text)| record([b"a", user, b"", text])).collect();
        let begun = Instant::now();
        let opened = request(&mut stream, "open", &to_open);
        open.push(begun.elapsed());
        assert!(split(&opened).all(|own| own == text));
    }
    assert_eq!(split(&sealed).count(), RECORDS);
    for (what, times) in [("batch::seal in process", &mut own), ("/v2/seal", &mut seal), ("/v2/open", &mut open)] {
        let median = median(times);
        println!("{what}: {median:?}, {:.0} records/s", RECORDS as f64 / median.as_secs_f64());
    }
    println!("/v2/seal over batch::seal: {:.2}", median(&mut own).as_secs_f64() / median(&mut seal).as_secs_f64());
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The time of the same work without a server.
fn in_process(users: &[[u8; 8]]) -> Duration {
    let keys = UserKeys::new(&SecretKey::random().unwrap(), b"a label");
    let (roster, suite) = (Roster::cpu(), Suite::default());
    let text = [7; LEN];
    let mut records: Vec<_> = users.iter().map(|_| batch::with_room(suite, &text)).collect();
    let begun = Instant::now();
    let new = |(user, record)| {
        Message::to_seal(KeyOf::User { keys: &keys, user }, b"", BehindRoom::new(suite, record).unwrap())
    };
    let mut messages: Vec<_> =
        users.iter().map(<[u8; 8]>::as_slice).zip(records.iter_mut().map(Vec::as_mut_slice)).map(new).collect();
    batch::seal(&roster, suite, &mut messages).unwrap();
    begun.elapsed()
}

/// Sends and reads at the same time.
fn request(stream: &mut UnixStream, action: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST /v2/{action} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut writer = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(head.as_bytes()).unwrap();
            writer.write_all(body).unwrap();
        });
        answer(&mut BufReader::with_capacity(1 << 20, stream))
    })
}

fn answer(reader: &mut impl BufRead) -> Vec<u8> {
    let line = |reader: &mut dyn BufRead| {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_ascii_lowercase()
    };
    assert_eq!(line(reader), "http/1.1 200 ok");
    let mut len = None;
    loop {
        let line = line(reader);
        if line.is_empty() {
            break;
        }
        len = len.or(line.strip_prefix("content-length: ").map(|len| len.parse::<u64>().unwrap()));
    }
    let mut body = Vec::new();
    if let Some(len) = len {
        reader.take(len).read_to_end(&mut body).unwrap();
        return body;
    }
    loop {
        let len = u64::from_str_radix(&line(reader), 16).unwrap();
        reader.take(len).read_to_end(&mut body).unwrap();
        line(reader);
        if len == 0 {
            return body;
        }
    }
}

fn split(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        assert_eq!(head[..2], [0, 0]);
        let (own, rest) = rest.split_at(u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize);
        bytes = rest;
        Some(own)
    })
}
