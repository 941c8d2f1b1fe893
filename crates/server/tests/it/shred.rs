//! Users of shreddable keys, and deleting them for ever.

use crate::common::records::{Record, all_open, none_opens, open, rounds, seal, try_seal, users};
use crate::common::{Folder, Server};
use crate::store::settle;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A server with the shreddable key `orders`.
fn server() -> Server {
    let server = Server::start(&[]);
    make_key(&server.folder);
    server
}

fn make_key(folder: &Arc<Folder>) {
    let made = folder.run(["key", "new", "orders", "--mode", "shreddable"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn shred(folder: &Arc<Folder>, user: &str) {
    let shredded = folder.run(["user", "shred", "orders", user, "--yes"]);
    assert!(shredded.status.success(), "{}", String::from_utf8_lossy(&shredded.stderr));
}

/// Sealed keys of buckets, and the sealed salts of users with their buckets.
type Rows = (BTreeMap<u16, Vec<u8>>, BTreeMap<Vec<u8>, (u16, Vec<u8>)>);

fn rows(database: &Path) -> Rows {
    let database = Connection::open(database).unwrap();
    let mut buckets = database.prepare("SELECT bucket, sealed FROM buckets").unwrap();
    let buckets = buckets.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut users = database.prepare("SELECT user, bucket, sealed FROM users").unwrap();
    let users = users.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).unwrap();
    (buckets.map(Result::unwrap).collect(), users.map(Result::unwrap).collect())
}

/// A copy of the database of a server that has ended.
fn copy(folder: &Folder, name: &str) -> std::path::PathBuf {
    settle(folder);
    let to = folder.beside(name);
    fs::copy(folder.dir().join("server.db"), &to).unwrap();
    to
}

#[test]
fn a_deleted_user_does_not_open_and_all_others_do() {
    let server = server();
    // About four users in each bucket that has any of these.
    let mut records = seal(&server, "orders", &users(0..6000));
    let gone: Vec<Record> = (0..3).map(|_| records.remove(100)).collect();
    all_open(&server, &gone);
    gone.iter().for_each(|record| shred(&server.folder, &record.user));
    for opened in open(&server, &gone) {
        assert_eq!(opened, Err("user is unknown or was deleted".into()));
    }
    all_open(&server, &records);
    let folder = server.kill();
    let server = folder.start(&[]);
    none_opens(&server, &gone);
    all_open(&server, &records);
    // The same user may come again, and has nothing of the old one.
    let again = seal(&server, "orders", &[(gone[0].user.clone(), "new".into())]);
    all_open(&server, &again);
    none_opens(&server, &gone);
}

#[test]
fn an_old_copy_of_the_rows_does_not_open_with_the_new_buckets() {
    let server = server();
    let records = seal(&server, "orders", &users(0..50));
    let folder = server.folder.clone();
    assert!(server.terminate().success());
    let old = copy(&folder, "old.db");
    let server = folder.start(&[]);
    shred(&folder, "user 7");
    assert!(server.terminate().success());
    settle(&folder);
    let (buckets, _) = rows(&folder.dir().join("server.db"));
    let database = Connection::open(&old).unwrap();
    let mut changed = 0;
    for (bucket, sealed) in buckets {
        let update = "UPDATE buckets SET sealed = ?1 WHERE bucket = ?2 AND sealed <> ?1";
        changed += database.execute(update, params![sealed, bucket]).unwrap();
    }
    drop(database);
    assert_eq!(changed, 1);
    fs::copy(&old, folder.dir().join("server.db")).unwrap();
    let server = folder.start(&[]);
    none_opens(&server, &records[7..8]);
}

#[test]
fn nothing_of_a_deleted_user_is_left_on_the_disk() {
    let server = server();
    seal(&server, "orders", &users(0..6000));
    let folder = server.folder.clone();
    assert!(server.terminate().success());
    let (buckets, salts) = rows(&copy(&folder, "before.db"));
    let mut server = folder.start(&[]);
    for i in 0..20 {
        shred(&folder, &format!("user {i}"));
        seal(&server, "orders", &users(10_000 + i * 50..10_050 + i * 50));
        if i == 10 {
            server.kill();
            server = folder.start(&[]);
        }
    }
    shred(&folder, "user 20");
    // While it runs.
    let files: Vec<u8> = ["server.db", "server.db-wal"]
        .iter()
        .flat_map(|name| fs::read(folder.dir().join(name)).unwrap_or_default())
        .collect();
    assert!(server.terminate().success());
    settle(&folder);
    let (buckets_now, salts_now) = rows(&folder.dir().join("server.db"));
    let of_buckets =
        buckets.iter().filter(|(bucket, sealed)| buckets_now[bucket] != **sealed).map(|(_, sealed)| sealed);
    let of_users = salts.iter().filter(|(user, (_, sealed))| salts_now.get(*user).is_none_or(|(_, now)| now != sealed));
    let old: Vec<&Vec<u8>> = of_buckets.chain(of_users.map(|(_, (_, sealed))| sealed)).collect();
    assert!(old.len() > 40, "21 users, and the buckets in which they were");
    // Their first bytes are random.
    let starts: std::collections::HashSet<[u8; 16]> = old.iter().map(|sealed| *sealed.first_chunk().unwrap()).collect();
    let found = files.windows(16).filter(|window| starts.contains(*window)).count();
    assert_eq!(found, 0, "of {} that were deleted", old.len());
}

#[test]
fn requests_for_the_same_new_user_agree() {
    let server = server();
    for round in 0..rounds(5, 200) {
        let user = format!("user {round}");
        let seal = |i: usize| {
            let mut client = server.client();
            try_seal(&mut client, "orders", &[(user.clone(), format!("text {i}"))]).expect("an answer").remove(0)
        };
        let records: Vec<Record> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|i| scope.spawn(move || seal(i))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        all_open(&server, &records);
    }
    let folder = server.kill();
    let server = folder.start(&[]);
    assert_eq!(server.get("/v2/manage/keys/orders").json()["users"], rounds(5, 200));
}

#[test]
fn what_is_sealed_or_rewrapped_while_a_user_is_deleted_does_not_open_afterwards() {
    let server = server();
    let first = seal(&server, "orders", &[("ada".into(), "before".into())]);
    let ends = AtomicBool::new(false);
    let rewrap = || {
        let mut client = server.client();
        let mut records = Vec::new();
        while !ends.load(Ordering::SeqCst) {
            let body =
                serde_json::json!({ "context": crate::common::base64("ada"), "ciphertext": first[0].ciphertext });
            let answer = client.request("POST", "/v1/transit/rewrap/orders", &[], body.to_string().as_bytes());
            if let Some(ciphertext) = answer.json()["data"]["ciphertext"].as_str() {
                records.push(Record { ciphertext: ciphertext.to_owned(), ..first[0].clone() });
            }
        }
        records
    };
    let records = thread::scope(|scope| {
        let rewrapping: Vec<_> = (0..3).map(|_| scope.spawn(rewrap)).collect();
        for _ in 0..3 {
            shred(&server.folder, "ada");
            // A new salt, under which nothing old may be sealed.
            seal(&server, "orders", &[("ada".into(), "after".into())]);
        }
        shred(&server.folder, "ada");
        let again = seal(&server, "orders", &[("ada".into(), "after".into())]);
        ends.store(true, Ordering::SeqCst);
        all_open(&server, &again);
        rewrapping.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    if !records.is_empty() {
        none_opens(&server, &records);
    }
    none_opens(&server, &first);
}

#[test]
fn a_damaged_salt_costs_its_user_only() {
    let server = server();
    let records = seal(&server, "orders", &users(0..30));
    let folder = server.folder.clone();
    assert!(server.terminate().success());
    let database = Connection::open(folder.dir().join("server.db")).unwrap();
    let changed = database
        .execute("UPDATE users SET sealed = randomblob(80) WHERE user = (SELECT min(user) FROM users)", [])
        .unwrap();
    assert_eq!(changed, 1);
    drop(database);
    let check = folder.run(["check"]);
    assert_eq!(check.status.code(), Some(3));
    let line = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(line.contains("damaged: 1 user in bucket"), "{line}");
    let server = folder.start(&[]);
    assert_eq!(open(&server, &records).iter().filter(|opened| opened.is_err()).count(), 1);
    let check = folder.run(["check"]);
    assert_eq!(check.status.code(), Some(3), "of a running server too");
}

#[test]
fn many_users_cost_little_memory() {
    let server = server();
    let many = rounds(20_000, 1_000_000);
    seal(&server, "orders", &users(0..2000));
    let before = server.memory();
    for start in (2000..many).step_by(1000) {
        seal(&server, "orders", &users(start..start + 1000));
    }
    let more = server.memory().saturating_sub(before);
    println!("{many} users: {} MiB more", more >> 20);
    assert!(more < 100 << 20, "{} MiB more", more >> 20);
}
