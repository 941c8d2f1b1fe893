//! The server is killed at any moment: what it has acknowledged opens, and who was deleted does not.
//!
//! PHALANX_SEED repeats the work and about the moments, which still differ.

use crate::common::records::{Random, Record, all_open, none_opens, open, rounds, try_seal};
use crate::common::{Client, Folder, PATIENCE, Server, kill_run};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::sync::{Arc, mpsc};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

fn server() -> Server {
    let server = Server::start(&[]);
    assert!(server.folder.run(["key", "new", "orders", "--mode", "shreddable"]).status.success());
    server
}

/// Kills the server after a while, and starts it again. In every second round it has acknowledged something before: `work`
/// calls what it is given when it has.
fn kill_soon(
    server: Server,
    (random, most): (&mut Random, u64),
    round: usize,
    work: impl FnOnce(&mut Client, &dyn Fn()) + Send,
) -> Server {
    let wait = Duration::from_micros(random.below(most));
    let mut client = server.client();
    let (is_done, done) = mpsc::channel();
    let folder: Arc<Folder> = thread::scope(|scope| {
        let client = &mut client;
        scope.spawn(move || {
            work(client, &|| {
                let _ = is_done.send(());
            });
        });
        if round.is_multiple_of(2) {
            done.recv_timeout(PATIENCE).expect("something is acknowledged");
        }
        sleep(wait);
        server.kill()
    });
    folder.start(&[])
}

/// Asks until the server is gone. Returns the status of each answer.
fn post(client: &mut Client, path: &str, body: &Value) -> Option<u16> {
    let answer = client.try_request("POST", path, &[], body.to_string().as_bytes());
    answer.ok().map(|answer| answer.status)
}

#[test]
fn while_new_users_come() {
    let (mut server, mut random) = (server(), Random::new());
    let (mut sealed, mut next) = (Vec::new(), 0);
    for round in 0..rounds(6, 300) {
        let many = 1 + random.below(50) as usize;
        server = kill_soon(server, (&mut random, 300_000), round, |client, done| {
            loop {
                let users: Vec<_> = (next..next + many).map(|i| (format!("user {i}"), format!("text {i}"))).collect();
                next += many;
                let Ok(records) = try_seal(client, "orders", &users) else { return };
                sealed.extend(records);
                done();
            }
        });
        all_open(&server, &sealed);
    }
    println!("{} records", sealed.len());
    assert!(server.folder.run(["check"]).status.success());
}

#[test]
fn while_users_are_deleted() {
    let (mut server, mut random) = (server(), Random::new());
    let mut alive: Vec<Record> = Vec::new();
    let mut gone: Vec<Record> = Vec::new();
    let mut next = 0;
    for round in 0..rounds(6, 300) {
        let users: Vec<_> = (next..next + 200).map(|i| (format!("user {i}"), format!("text {i}"))).collect();
        next += 200;
        alive.extend(try_seal(&mut server.client(), "orders", &users).unwrap());
        let mut in_doubt = Vec::new();
        server = kill_soon(server, (&mut random, 400_000), round, |client, done| {
            while let Some(record) = alive.pop() {
                let user = json!({ "user": crate::common::base64(&record.user) });
                match post(client, "/v2/manage/shred/orders", &user) {
                    Some(200) => {
                        gone.push(record);
                        done();
                    }
                    Some(status) => panic!("{status}"),
                    None => return in_doubt.push(record),
                }
            }
        });
        for record in in_doubt {
            // It happened or not, and whoever asks again learns that it has.
            match open(&server, std::slice::from_ref(&record)).remove(0) {
                Ok(text) => {
                    assert_eq!(text, record.text);
                    alive.push(record);
                }
                Err(why) => {
                    assert_eq!(why, "user is unknown or was deleted");
                    gone.push(record);
                }
            }
        }
        none_opens(&server, &gone);
        if !alive.is_empty() {
            all_open(&server, &alive);
        }
    }
    println!("{} deleted, {} not", gone.len(), alive.len());
    assert!(server.folder.run(["check"]).status.success());
}

#[test]
fn while_keys_are_rotated_configured_and_trimmed() {
    let (mut server, mut random) = (server(), Random::new());
    let mut sealed: Vec<Record> = Vec::new();
    let mut oldest = 1;
    for round in 0..rounds(6, 300) {
        server = kill_soon(server, (&mut random, 300_000), round, |client, done| {
            for i in 0.. {
                let users = [(format!("user {i}"), format!("text {i}"))];
                let Ok(records) = try_seal(client, "orders", &users) else { return };
                sealed.extend(records);
                if post(client, "/v1/transit/keys/orders/rotate", &json!({})).is_none() {
                    return;
                }
                done();
                if i % 4 == 3 {
                    let now = version(&sealed[sealed.len() - 1]);
                    oldest = oldest.max(now.saturating_sub(2));
                    let config = json!({ "min_decryption_version": oldest, "min_encryption_version": now });
                    let trim = json!({ "min_available_version": oldest });
                    for (path, body) in [("config", config), ("trim", trim)] {
                        match post(client, &format!("/v1/transit/keys/orders/{path}"), &body) {
                            None => return,
                            Some(status) => assert!(status < 300, "{path} {body}: {status}"),
                        }
                    }
                }
            }
        });
        let key = server.get("/v2/manage/keys/orders").json();
        let opens = key["min_decryption_version"].as_u64().unwrap();
        assert!(opens <= oldest, "{key}");
        sealed.retain(|record| version(record) >= opens);
        assert!(!sealed.is_empty(), "the newest version is not trimmed");
        all_open(&server, &sealed);
    }
    assert!(server.folder.run(["check"]).status.success());
}

fn version(record: &Record) -> u64 {
    record.ciphertext.split(':').nth(1).and_then(|version| version[1..].parse().ok()).expect("a version")
}

#[test]
fn while_a_backup_is_written() {
    let (mut server, mut random) = (server(), Random::new());
    let folder = server.folder.clone();
    let mut sealed = Vec::new();
    let began = Instant::now();
    assert!(folder.run(["backup", folder.beside("whole").to_str().unwrap()]).status.success());
    let most = began.elapsed().mul_f64(1.2).as_micros() as u64;
    let (rounds, mut cut) = (rounds(6, 200), 0);
    for round in 0..rounds + 100 {
        // More of them only if none was cut.
        if round >= rounds && cut > 0 {
            break;
        }
        let users: Vec<_> = (0..300).map(|i| (format!("user {round} {i}"), format!("text {i}"))).collect();
        sealed.extend(try_seal(&mut server.client(), "orders", &users).unwrap());
        let to = folder.beside(format!("backup {round}"));
        let mut backup = folder.command(["backup", to.to_str().unwrap()]).spawn().unwrap();
        let after = Duration::from_micros(random.below(most));
        if random.below(2) == 0 {
            sleep(after);
            server.kill();
            server = folder.start(&[]);
            let status = backup.wait().unwrap();
            assert!(!status.success() || to.exists());
        } else {
            let hidden = format!(".backup {round}.");
            let is_hidden = |name: &OsStr| name.to_string_lossy().starts_with(&hidden);
            let is_at_work = || {
                let mut entries = fs::read_dir(to.parent().unwrap()).unwrap();
                entries.any(|entry| entry.is_ok_and(|entry| is_hidden(&entry.file_name())))
            };
            let after = (random.below(2) == 0).then_some(after);
            cut += usize::from(kill_run(&mut backup, after, is_at_work));
        }
        all_open(&server, &sealed);
        if to.exists() {
            let restored = folder.beside(format!("restored {round}"));
            let output = folder.run(["restore", to.to_str().unwrap(), "--dir", restored.to_str().unwrap()]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            fs::remove_dir_all(restored).unwrap();
        }
    }
    println!("{cut} backups were cut");
    assert!(cut > 0, "no backup was killed at its work");
}
