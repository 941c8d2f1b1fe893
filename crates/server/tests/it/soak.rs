//! A soak: clients of all kinds at the same time, while keys are rotated and configured, users are deleted and backups are
//! written, and the server is killed in the middle of all that, again and again. What was acknowledged opens, and who was
//! deleted does not.
//!
//! PHALANX_SOAK is the number of MiB of texts that are sealed. PHALANX_SEED repeats the work and about the moments of the
//! kills, which still differ.

use crate::common::records::Random;
use crate::common::{Client, Folder, Server, base64, from_base64};
use crate::records::{record, split};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope, sleep};
use std::time::Duration;

/// The keys, one of each mode.
const KEYS: [&str; 2] = ["derived", "shreddable"];
/// The number of the key with users that can be deleted.
const SHREDDABLE: usize = 1;
/// So many texts each user has.
const OF_A_USER: u64 = 4;
/// So many records of earlier rounds are kept, and opened again in each round.
const KEPT: usize = 5_000;

/// A sealed text, which can be made again from its number.
#[derive(Clone)]
struct Sealed {
    key: usize,
    number: u64,
    len: usize,
    /// As in an octet stream.
    ciphertext: Vec<u8>,
}

fn user(number: u64) -> String {
    format!("user {}", number / OF_A_USER)
}

/// The user of an even number may be deleted.
fn may_be_deleted(sealed: &Sealed) -> bool {
    sealed.key == SHREDDABLE && (sealed.number / OF_A_USER).is_multiple_of(2)
}

fn text(number: u64, len: usize) -> Vec<u8> {
    let word = |i: u64| (number ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_le_bytes();
    (0..len.div_ceil(8) as u64).flat_map(word).take(len).collect()
}

/// What all threads know.
struct Soak {
    /// The number of the next text.
    next: AtomicU64,
    /// The bytes of the texts that were sealed.
    bytes: AtomicU64,
    /// What was acknowledged in this round.
    new: Mutex<Vec<Sealed>>,
    /// Some of what was acknowledged in earlier rounds.
    old: Mutex<Vec<Sealed>>,
    /// The texts of users that are deleted.
    gone: Mutex<Vec<Sealed>>,
    /// The user that was being deleted at the kill.
    in_doubt: Mutex<Option<u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends records, and returns the answers that came before the end of the connection.
fn stream(client: &mut Client, action: &str, records: &[Vec<u8>]) -> Vec<(u16, Vec<u8>)> {
    let body = records.concat();
    let mut writer = client.writer();
    thread::scope(|scope| {
        // The server answers the first records while the last ones are on their way.
        scope.spawn(move || {
            let len = body.len();
            let head =
                format!("POST /v2/{action} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n");
            writer.write_all(&[head.as_bytes(), format!("Content-Length: {len}\r\n\r\n").as_bytes(), &body].concat())
        });
        let Ok(head) = client.head() else { return Vec::new() };
        assert!(matches!(head.status, 200 | 429), "{action}: {}", head.status);
        let body = client.body_so_far(&head);
        if head.status == 200 { split_whole(&body) } else { Vec::new() }
    })
}

/// The answers, but not one that breaks off.
fn split_whole(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut end = 0;
    while let Some(len) = bytes.get(end + 4..end + 8) {
        let after = end + 8 + u32::from_le_bytes(len.try_into().unwrap()) as usize;
        if after > bytes.len() {
            break;
        }
        end = after;
    }
    split(&bytes[..end])
}

/// What opens of these, in the same order, or the status of a refusal. Each must be answered.
fn open(server: &Server, sealed: &[Sealed]) -> Vec<Result<Vec<u8>, u16>> {
    let records =
        |some: &[Sealed]| -> Vec<Vec<u8>> { some.iter().map(|one| as_record(one, &one.ciphertext)).collect() };
    let opened: Vec<_> = sealed
        .chunks(256)
        .flat_map(|some| stream(&mut server.client(), "open", &records(some)))
        .map(|(status, text)| if status == 0 { Ok(text) } else { Err(status) })
        .collect();
    assert_eq!(opened.len(), sealed.len());
    opened
}

fn as_record(one: &Sealed, bytes: &[u8]) -> Vec<u8> {
    record([KEYS[one.key].as_bytes(), user(one.number).as_bytes(), &one.number.to_le_bytes(), bytes])
}

fn all_open(server: &Server, sealed: &[Sealed]) {
    for (one, opened) in sealed.iter().zip(open(server, sealed)) {
        let what = format!("text {} of {}", one.number, KEYS[one.key]);
        assert!(opened.unwrap_or_else(|status| panic!("{what}: {status}")) == text(one.number, one.len), "{what}");
    }
}

impl Soak {
    /// Texts to seal, with their numbers.
    fn take(&self, random: &mut Random, many: u64, longest: u64) -> Vec<Sealed> {
        let first = self.next.fetch_add(many, Ordering::Relaxed);
        let key = random.below(2) as usize;
        let mut new = |number| Sealed { key, number, len: random.below(longest) as usize, ciphertext: Vec::new() };
        (first..first + many).map(&mut new).collect()
    }

    fn add(&self, sealed: Vec<Sealed>) {
        self.bytes.fetch_add(sealed.iter().map(|one| one.len as u64).sum(), Ordering::Relaxed);
        lock(&self.new).extend(sealed);
    }

    /// Seals texts by octet streams until the server is gone.
    fn seal_streams(&self, client: &mut Client, mut random: Random) {
        loop {
            let most = [1, 30, 300][random.below(3) as usize];
            let many = 1 + random.below(most);
            let longest = [300, 20_000, 300_000][random.below(3) as usize];
            let mut texts = self.take(&mut random, many, longest);
            let records: Vec<_> = texts.iter().map(|one| as_record(one, &text(one.number, one.len))).collect();
            let answers = stream(client, "seal", &records);
            let is_over = answers.len() < records.len();
            texts.truncate(answers.len());
            for (one, (status, bytes)) in texts.iter_mut().zip(answers) {
                assert_eq!(status, 0, "{}", String::from_utf8_lossy(&bytes));
                one.ciphertext = bytes;
            }
            self.add(texts);
            if is_over {
                return;
            }
        }
    }

    /// Seals texts by JSON until the server is gone.
    fn seal_json(&self, client: &mut Client, mut random: Random) -> io::Result<()> {
        loop {
            let many = [1, 1, 40][random.below(3) as usize];
            let mut texts = self.take(&mut random, many, 2_000);
            let input = |one: &Sealed| {
                json!({
                    "plaintext": base64(text(one.number, one.len)),
                    "context": base64(user(one.number)),
                    "associated_data": base64(one.number.to_le_bytes()),
                })
            };
            let inputs: Vec<Value> = texts.iter().map(input).collect();
            let path = format!("/v1/transit/encrypt/{}", KEYS[texts[0].key]);
            let body = json!({ "batch_input": inputs }).to_string();
            let answer = client.try_request("POST", &path, &[], body.as_bytes())?;
            if answer.status == 429 {
                continue;
            }
            assert_eq!(answer.status, 200, "{}", answer.text());
            let results = answer.json();
            for (one, result) in texts.iter_mut().zip(results["data"]["batch_results"].as_array().expect("results")) {
                one.ciphertext = octets(result["ciphertext"].as_str().expect("a ciphertext"));
            }
            self.add(texts);
        }
    }

    /// Opens texts that were sealed in earlier rounds, and seals some of them again, until the server is gone.
    fn open_and_rewrap(&self, client: &mut Client, mut random: Random) {
        loop {
            let some = {
                let old = lock(&self.old);
                let stays: Vec<_> = old.iter().filter(|one| !may_be_deleted(one)).collect();
                if stays.is_empty() {
                    return;
                }
                (0..20).map(|_| stays[random.below(stays.len() as u64) as usize].clone()).collect::<Vec<_>>()
            };
            let action = ["open", "rewrap"][random.below(2) as usize];
            let records: Vec<_> = some.iter().map(|one| as_record(one, &one.ciphertext)).collect();
            let answers = stream(client, action, &records);
            let is_over = answers.len() < records.len();
            for (one, (status, bytes)) in some.into_iter().zip(answers) {
                assert_eq!(status, 0, "{action}: {}", String::from_utf8_lossy(&bytes));
                if action == "open" {
                    assert!(bytes == text(one.number, one.len), "text {}", one.number);
                } else {
                    lock(&self.new).push(Sealed { ciphertext: bytes, ..one });
                }
            }
            if is_over {
                return;
            }
        }
    }

    /// Rotates and configures keys until the server is gone.
    fn manage(client: &mut Client, mut random: Random) -> io::Result<()> {
        loop {
            let key = KEYS[random.below(2) as usize];
            let deletion = json!({ "deletion_allowed": random.below(2) == 0 });
            for (path, body) in [("rotate", json!({})), ("config", deletion)] {
                let path = format!("/v1/transit/keys/{key}/{path}");
                let answer = client.try_request("POST", &path, &[], body.to_string().as_bytes())?;
                assert!(answer.status < 300, "{path}: {}", answer.text());
                sleep(Duration::from_millis(random.below(40)));
            }
        }
    }

    /// Deletes users whose texts were sealed in earlier rounds, until the server is gone.
    fn delete(&self, client: &mut Client, mut random: Random) {
        let users: BTreeSet<u64> =
            lock(&self.old).iter().filter(|one| may_be_deleted(one)).map(|one| one.number / OF_A_USER).collect();
        for gone in users {
            let path = format!("/v2/manage/shred/{}", KEYS[SHREDDABLE]);
            let body = json!({ "user": base64(user(gone * OF_A_USER)) }).to_string();
            *lock(&self.in_doubt) = Some(gone);
            let Ok(answer) = client.try_request("POST", &path, &[], body.as_bytes()) else { return };
            assert_eq!(answer.status, 200, "{}", answer.text());
            *lock(&self.in_doubt) = None;
            self.is_gone(gone);
            sleep(Duration::from_millis(random.below(20)));
        }
    }

    fn is_gone(&self, user: u64) {
        let is_of = |one: &mut Sealed| one.key == SHREDDABLE && one.number / OF_A_USER == user;
        lock(&self.gone).extend(lock(&self.old).extract_if(.., is_of));
    }

    /// Starts everything that happens at the same time.
    fn begin<'s>(&'s self, scope: &'s Scope<'s, '_>, server: &Server, random: &mut Random) {
        // The users of earlier rounds get no more texts.
        self.next.store(self.next.load(Ordering::Relaxed).next_multiple_of(OF_A_USER), Ordering::Relaxed);
        let mut next = || Random::from(random.below(u64::MAX));
        for _ in 0..2 {
            let (mut client, random) = (server.client(), next());
            scope.spawn(move || self.seal_streams(&mut client, random));
            let (mut client, random) = (server.client(), next());
            scope.spawn(move || self.seal_json(&mut client, random));
        }
        let (mut client, random) = (server.client(), next());
        scope.spawn(move || self.open_and_rewrap(&mut client, random));
        let (mut client, random) = (server.client(), next());
        scope.spawn(move || Self::manage(&mut client, random));
        let (mut client, random) = (server.client(), next());
        scope.spawn(move || self.delete(&mut client, random));
    }

    /// After a kill: all that was acknowledged opens, and nobody who was deleted.
    fn check(&self, server: &Server, random: &mut Random) {
        if let Some(user) = lock(&self.in_doubt).take() {
            let of_user = |one: &&Sealed| one.key == SHREDDABLE && one.number / OF_A_USER == user;
            let one: Vec<_> = lock(&self.old).iter().find(of_user).cloned().into_iter().collect();
            // It has happened or not.
            if open(server, &one).iter().any(Result::is_err) {
                self.is_gone(user);
            }
        }
        let (mut new, mut old, mut gone) = (lock(&self.new), lock(&self.old), lock(&self.gone));
        all_open(server, &new);
        all_open(server, &old);
        assert!(open(server, &gone).iter().all(Result::is_err), "a deleted user opens");
        // All texts of a user are kept or none is. They are sealed within a round.
        let bound = KEPT / 4;
        if new.len() > bound {
            let part = (new.len() / bound) as u64 + 1;
            let skip = random.below(part);
            new.retain(|one| one.number / OF_A_USER % part == skip);
        }
        old.append(&mut new);
        let too_many = old.len().saturating_sub(KEPT);
        old.drain(..too_many);
        let too_many = gone.len().saturating_sub(KEPT);
        gone.drain(..too_many);
    }
}

/// The octets of a ciphertext in the form of Transit.
fn octets(ciphertext: &str) -> Vec<u8> {
    let (version, text) = ciphertext.strip_prefix("vault:v").and_then(|rest| rest.split_once(':')).expect("a version");
    let version: u32 = version.parse().expect("a number");
    [&version.to_le_bytes()[..], &from_base64(text)].concat()
}

/// A backup that was finished before the kill: all that was sealed before it began opens from it.
fn check_backup(folder: &Arc<Folder>, backup: &str, before: &[Sealed]) {
    let restored = Folder::bare();
    let (dir, from) = (restored.dir(), folder.beside(backup));
    let output = folder.run(["restore", from.to_str().unwrap(), "--dir", dir.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    all_open(&restored.start(&[]), before);
}

#[test]
fn mixed_requests_with_kills() {
    let wanted =
        std::env::var("PHALANX_SOAK").map_or(24, |text| text.parse().expect("PHALANX_SOAK is a number of MiB"));
    let mut random = Random::new();
    let mut server = Server::start(&[]);
    let folder = server.folder.clone();
    for (key, mode) in KEYS.iter().zip(["derived", "shreddable"]) {
        assert!(folder.run(["key", "new", key, "--mode", mode]).status.success());
    }
    let soak = Soak {
        next: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        new: Mutex::default(),
        old: Mutex::default(),
        gone: Mutex::default(),
        in_doubt: Mutex::default(),
    };
    let mut rounds = 0;
    while rounds < 3 || soak.bytes.load(Ordering::Relaxed) < wanted << 20 {
        rounds += 1;
        let before: Vec<_> = lock(&soak.old).iter().filter(|one| !may_be_deleted(one)).take(200).cloned().collect();
        let backup = format!("backup {rounds}");
        let mut writing = folder.command(["backup", folder.beside(&backup).to_str().unwrap()]);
        let written = thread::scope(|scope| {
            soak.begin(scope, &server, &mut random);
            sleep(Duration::from_micros(random.below(if wanted > 1024 { 4_000_000 } else { 300_000 })));
            let writing = writing.stderr(std::process::Stdio::null()).spawn().expect("a backup");
            sleep(Duration::from_micros(random.below(400_000)));
            server.signal(rustix::process::Signal::KILL);
            writing.wait_with_output().expect("a backup").status.success()
        });
        server.kill();
        server = folder.start(&[]);
        soak.check(&server, &mut random);
        if written {
            check_backup(&folder, &backup, &before);
        }
    }
    let (bytes, gone) = (soak.bytes.load(Ordering::Relaxed), lock(&soak.gone).len());
    println!(
        "{rounds} rounds, {} texts, {} MiB, {gone} texts of deleted users",
        soak.next.load(Ordering::Relaxed),
        bytes >> 20
    );
    assert!(server.terminate().success());
    assert!(folder.run(["check"]).status.success());
}
