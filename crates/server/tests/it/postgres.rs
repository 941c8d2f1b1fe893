//! Several servers that share a store in PostgreSQL.

use crate::common::postgres::Database;
use crate::common::records::{Random, Record, all_open, none_opens, open, rounds, seal, try_seal, users};
use crate::common::{Answer, Client, Folder, PATIENCE, Server, base64, until};
use crate::records;
use crate::store::failed;
use crate::tls::Authority;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// A database with tables, and two servers, with the shreddable key `orders` and the derived key `notes`.
struct Pair {
    database: Database,
    servers: [Server; 2],
}

fn folders(database: &Database) -> [Arc<Folder>; 2] {
    let first = Folder::by_init(&["--store", &database.url()]);
    let second = first.another();
    [first, second]
}

fn pair() -> Option<Pair> {
    let database = Database::start()?;
    let servers = folders(&database).map(|folder| folder.start(&[]));
    let folder = &servers[0].folder;
    run(folder, &["key", "new", "orders", "--mode", "shreddable"]);
    run(folder, &["key", "new", "notes"]);
    Some(Pair { database, servers })
}

fn run(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.run(arguments.iter().copied());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn encrypt(server: &Server, key: &str, user: &str) -> (u16, Value) {
    let body = json!({ "context": base64(user), "plaintext": base64("text") });
    let answer = server.post(&format!("/v1/transit/encrypt/{key}"), &body);
    (answer.status, answer.json())
}

#[test]
fn the_life_of_keys_users_and_tokens() {
    let Some(database) = Database::start() else { return };
    let [folder, _] = folders(&database);
    // Without a running server.
    run(&folder, &["key", "new", "orders", "--mode", "shreddable", "--key-file", folder.key_file().to_str().unwrap()]);
    let server = folder.start(&[]);
    let records = seal(&server, "orders", &users(0..3000));
    all_open(&server, &records);
    assert_eq!(server.get("/v2/manage/keys/orders").json()["users"], 3000);
    run(&folder, &["key", "rotate", "orders"]);
    let newer = seal(&server, "orders", &users(0..10));
    assert!(newer[0].ciphertext.starts_with("vault:v2:"));
    all_open(&server, &records);
    run(&folder, &["user", "shred", "orders", "user 7", "--yes"]);
    none_opens(&server, &[records[7].clone(), newer[7].clone()]);
    all_open(&server, &[&records[..7], &records[8..]].concat());
    let again = seal(&server, "orders", &users(7..8));
    all_open(&server, &again);
    none_opens(&server, &records[7..8]);
    let token = run(&folder, &["token", "new", "--allow", "seal:orders"]);
    let body = json!({ "context": base64("ada"), "plaintext": base64("text") });
    assert_eq!(server.post_by(&token, "/v1/transit/encrypt/orders", &body).status, 200);
    run(&folder, &["key", "config", "orders", "--min-open", "2", "--min-seal", "2", "--allow-deletion"]);
    let opened = open(&server, &records[..1]).remove(0);
    assert!(opened.is_err_and(|why| why.contains("too old")));
    // It waits until no other server can seal under the old version.
    run(&folder, &["key", "trim", "orders", "2"]);
    all_open(&server, &newer[..7]);
    server.kill();
    let server = folder.start(&[]);
    all_open(&server, &newer[..7]);
    assert_eq!(server.post_by(&token, "/v1/transit/encrypt/orders", &body).status, 200);
    run(&folder, &["check"]);
    let backup = folder.run(["backup", folder.beside("backup").to_str().unwrap()]);
    assert!(!backup.status.success());
    assert!(String::from_utf8_lossy(&backup.stderr).contains("pg_dump"), "{backup:?}");
    run(&folder, &["key", "delete", "orders"]);
    assert_eq!(
        database.ask("SELECT (SELECT count(*) FROM phalanx_users) + (SELECT count(*) FROM phalanx_buckets)").unwrap(),
        "0"
    );
    assert_eq!(encrypt(&server, "orders", "ada").0, 400);
}

#[test]
fn a_store_belongs_to_one_root_key() {
    let Some(database) = Database::start() else { return };
    let url = database.url();
    let [first, second] = folders(&database);
    let other = Folder::bare();
    failed(&other.run(["init", "--store", &url]), 4, "has the tables of a server already");
    assert!(!other.dir().exists());
    std::fs::copy(Folder::new().dir().join("root.phx"), second.dir().join("root.phx")).unwrap();
    failed(&second.run(["run"]), 3, "the store is of another root key");
    let line = "UPDATE phalanx_state SET version = 7";
    database.ask(line).unwrap();
    failed(&first.run(["run"]), 4, "its tables have version 7");
    let secret = url.replace("user=phalanx", "user=phalanx&password=secret");
    let init = other.run(["init", "--store", &secret]);
    failed(&init, 2, "has a password in it");
    assert!(!String::from_utf8_lossy(&init.stderr).contains("secret") && !other.dir().exists());
    failed(&other.run(["init", "--store", "postgresql://db.example/x"]), 2, "with TLS only");
    // What helps if their folder was never made.
    let refused = other.run(["init", "--store", &url]);
    let lines = String::from_utf8_lossy(&refused.stderr);
    let (hint, drop) = lines.trim().split_once("DROP TABLE ").unwrap_or_else(|| panic!("{lines}"));
    assert!(hint.contains("\nhint: if no folder opens them, because an init was interrupted: "), "{lines}");
    database.ask(&format!("DROP TABLE {drop}")).unwrap();
    assert!(other.run(["init", "--store", &url]).status.success());
    assert!(other.run(["check"]).status.success());
}

#[test]
fn tls_is_spoken_with_who_has_the_right_certificate() {
    let Some(mut database) = Database::start() else { return };
    let folder = Folder::bare();
    let Some(authority) = Authority::new(&folder) else { return };
    authority.issue("db");
    // A certificate that signs itself is often one of an authority.
    let port = database.speak_tls(&authority.file("ca.pem"), &authority.file("ca.key"));
    let url = format!("postgresql://phalanx@localhost:{port}/postgres?sslrootcert={}", authority.text("ca.pem"));
    let own = "PostgreSQL cannot be reached: its certificate is an authority's own";
    failed(&folder.run(["init", "--store", &url]), 4, own);
    let port = database.speak_tls(&authority.file("db.pem"), &authority.file("db.key"));
    let url = |host: &str, ca: &str| {
        format!("postgresql://phalanx@{host}:{port}/postgres?sslrootcert={}", authority.text(ca))
    };
    failed(&folder.run(["init", "--store", &url("localhost", "db.pem")]), 4, "certificate");
    failed(&folder.run(["init", "--store", &url("127.0.0.2", "ca.pem")]), 4, "--store: ");
    run(&folder, &["init", "--store", &url("localhost", "ca.pem")]);
    let server = folder.start(&[]);
    run(&folder, &["key", "new", "orders", "--mode", "shreddable"]);
    all_open(&server, &seal(&server, "orders", &users(0..10)));
    let encrypted =
        "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'phalanx-server'";
    assert_eq!(database.ask(encrypted).unwrap(), "t");
}

#[test]
fn what_one_server_changes_the_other_knows() {
    let Some(Pair { database: _database, servers: [first, second] }) = pair() else { return };
    // At once: before it refuses what it does not know, it asks the store.
    for round in 0..rounds(3, 30) {
        let name = format!("new-{round}");
        run(&first.folder, &["key", "new", &name]);
        let (status, answer) = encrypt(&second, &name, "ada");
        assert_eq!(status, 200, "{answer}");
        run(&first.folder, &["key", "rotate", "orders"]);
        let records = seal(&first, "orders", &users(round..round + 1));
        assert!(records[0].ciphertext.starts_with(&format!("vault:v{}:", round + 2)));
        all_open(&second, &records);
        in_streams(&first, &second, &name, round);
        let token = run(&first.folder, &["token", "new", "--allow", "seal:notes"]);
        let body = json!({ "context": base64("ada"), "plaintext": base64("text") });
        assert_eq!(second.post_by(&token, "/v1/transit/encrypt/notes", &body).status, 200);
        // Within about a second: what it knows it does not ask.
        let accessor = second.post_by(&token, "/v1/auth/token/lookup-self", &json!({})).json();
        let accessor = accessor["data"]["accessor"].as_str().unwrap().to_owned();
        run(&first.folder, &["token", "revoke", &accessor]);
        let began = Instant::now();
        until("the token is revoked", || second.post_by(&token, "/v1/transit/encrypt/notes", &body).status == 403);
        println!("revoked after {:?}", began.elapsed());
        // The other server cannot bring it back.
        let renewed = second.post_by(&token, "/v1/auth/token/renew-self", &json!({}));
        assert_eq!(renewed.status, 403);
        run(&first.folder, &["key", "config", &name, "--allow-deletion"]);
        // Its answer comes only when all servers must know it.
        let mut client = first.client();
        client.send("DELETE", &format!("/v1/transit/keys/{name}"), &[], b"").unwrap();
        until("the key is deleted", || encrypt(&second, &name, "ada").0 == 400);
    }
    let latest = rounds(3, 30) as u64 + 1;
    let number = latest.to_string();
    let sealed = seal(&second, "orders", &users(0..1));
    run(&first.folder, &["key", "config", "orders", "--min-open", &number, "--min-seal", &number]);
    run(&second.folder, &["key", "trim", "orders", &number]);
    until("the versions are gone", || first.get("/v2/manage/keys/orders").json()["min_available_version"] == latest);
    all_open(&first, &sealed);
    assert_eq!(encrypt(&first, "no-such-key", "ada").0, 400);
    assert_eq!(first.post_by("phx.nobody", "/v1/transit/encrypt/notes", &json!({})).status, 403);
}

/// What one server has just made, the other one knows in octet streams too.
fn in_streams(first: &Server, second: &Server, made: &str, round: usize) {
    let name = format!("stream-{round}");
    run(&first.folder, &["key", "new", &name]);
    let record = |key: &str, text: &[u8]| records::record([key.as_bytes(), b"ada", b"", text]);
    let ask = |server: &Server, action: &str, body: &[u8]| {
        let answer = server.request("POST", &format!("/v2/{action}"), &[records::OCTETS], body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        records::split(&answer.body)
    };
    let body = [record(made, b"a"), record(&name, b"b"), record("no-such-key", b"c"), record("notes", b"d")].concat();
    let sealed = ask(second, "seal", &body);
    assert_eq!(sealed.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [0, 0, 404, 0]);
    assert_eq!(ask(first, "open", &record(&name, &sealed[1].1)), [(0, b"b".to_vec())]);
    run(&first.folder, &["key", "rotate", &name]);
    let newer = ask(first, "seal", &record(&name, b"e"));
    assert_eq!(newer[0].1[..4], [2, 0, 0, 0]);
    assert_eq!(ask(second, "open", &record(&name, &newer[0].1)), [(0, b"e".to_vec())]);
    let unknown = [&[9, 0, 0, 0], &newer[0].1[4..]].concat();
    assert_eq!(ask(second, "open", &record(&name, &unknown))[0].0, 400);
}

#[test]
fn new_users_of_both_servers_agree() {
    let Some(Pair { servers, database: _database }) = pair() else { return };
    let mut all = Vec::new();
    for round in 0..rounds(10, 300) {
        let seal = |i: usize| {
            let mut client = servers[i % 2].client();
            let same: Vec<_> = (0..50).map(|n| (format!("user {round} {n}"), format!("text {i}"))).collect();
            try_seal(&mut client, "orders", &same).expect("an answer")
        };
        let records: Vec<Record> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|i| scope.spawn(move || seal(i))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.extend(records);
    }
    servers.iter().for_each(|server| all_open(server, &all));
    assert_eq!(servers[0].get("/v2/manage/keys/orders").json()["users"], rounds(10, 300) * 50);
}

#[test]
fn users_are_deleted_on_one_while_the_other_seals() {
    let Some(Pair { servers: [first, second], database: _database }) = pair() else { return };
    let mut alive = seal(&first, "orders", &users(0..4000));
    let gone: Vec<Record> = alive.drain(..20).collect();
    let ends = AtomicBool::new(false);
    let during = thread::scope(|scope| {
        let sealing = scope.spawn(|| {
            let (mut client, mut records, mut next) = (second.client(), Vec::new(), 10_000);
            while !ends.load(Ordering::SeqCst) {
                records.extend(try_seal(&mut client, "orders", &users(next..next + 50)).expect("an answer"));
                all_open(&second, &alive[next % 1000..][..20]);
                next += 50;
            }
            records
        });
        for record in &gone {
            run(&first.folder, &["user", "shred", "orders", &record.user, "--yes"]);
            none_opens(&second, std::slice::from_ref(record));
        }
        ends.store(true, Ordering::SeqCst);
        sealing.join().unwrap()
    });
    assert!(!during.is_empty());
    for server in [&first, &second] {
        none_opens(server, &gone);
        all_open(server, &alive);
        all_open(server, &during);
    }
    run(&first.folder, &["check"]);
}

/// Seals, opens and deletes until the server is gone. What is acknowledged is noted.
fn work(mut client: Client, worker: usize, notes: &Mutex<Notes>) {
    for i in 0.. {
        let users: Vec<_> = (0..20).map(|n| (format!("user {worker} {i} {n}"), format!("text {n}"))).collect();
        let Ok(records) = try_seal(&mut client, "orders", &users) else { return };
        let victim = records[0].clone();
        let mut own = notes.lock().unwrap();
        own.alive.extend(records.into_iter().map(|record| (record.user.clone(), record)));
        // In doubt until it is answered.
        own.alive.remove(&victim.user);
        drop(own);
        let body = json!({ "user": base64(&victim.user) }).to_string();
        match client.try_request("POST", "/v2/manage/shred/orders", &[], body.as_bytes()) {
            Ok(answer) => assert_eq!(answer.status, 200, "{}", answer.text()),
            Err(_) => return,
        }
        notes.lock().unwrap().gone.push(victim);
        if i % 10 == 9 {
            match client.try_request("POST", "/v1/transit/keys/orders/rotate", &[], b"{}") {
                Ok(answer) => assert_eq!(answer.status, 200, "{}", answer.text()),
                Err(_) => return,
            }
        }
    }
}

#[derive(Default)]
struct Notes {
    alive: BTreeMap<String, Record>,
    gone: Vec<Record>,
}

#[test]
fn one_of_two_servers_is_killed() {
    let Some(Pair { mut servers, database }) = pair() else { return };
    let (mut random, notes) = (Random::new(), Mutex::new(Notes::default()));
    for round in 0..rounds(5, 200) {
        let [killed, other] = servers;
        let ends = AtomicBool::new(false);
        let before = notes.lock().unwrap().gone.len();
        let folder = thread::scope(|scope| {
            for worker in 0..3 {
                let (client, notes) = (killed.client(), &notes);
                scope.spawn(move || work(client, 10 * round + worker, notes));
            }
            let running = scope.spawn(|| {
                let (mut client, mut next) = (other.client(), 0);
                while !ends.load(Ordering::SeqCst) {
                    let users: Vec<_> =
                        (next..next + 10).map(|n| (format!("other {round} {n}"), "text".into())).collect();
                    let records = try_seal(&mut client, "orders", &users).expect("the other server answers");
                    notes.lock().unwrap().alive.extend(records.into_iter().map(|record| (record.user.clone(), record)));
                    next += 10;
                }
            });
            until("a user is deleted", || notes.lock().unwrap().gone.len() > before);
            sleep(Duration::from_micros(random.below(500_000)));
            let folder = killed.kill();
            sleep(Duration::from_millis(200));
            ends.store(true, Ordering::SeqCst);
            running.join().unwrap();
            folder
        });
        let notes = notes.lock().unwrap();
        let alive: Vec<Record> = notes.alive.values().cloned().collect();
        all_open(&other, &alive);
        none_opens(&other, &notes.gone);
        drop(notes);
        // The other one is killed next.
        servers = [other, folder.start(&[])];
    }
    let notes = notes.into_inner().unwrap();
    println!("{} open, {} deleted", notes.alive.len(), notes.gone.len());
    assert!(!notes.gone.is_empty());
    all_open(&servers[1], &notes.alive.into_values().collect::<Vec<_>>());
    none_opens(&servers[1], &notes.gone);
    run(&servers[0].folder, &["check"]);
    drop(database);
}

#[test]
fn postgresql_is_restarted_under_load() {
    let Some(Pair { servers, mut database }) = pair() else { return };
    let sealed = Mutex::new(Vec::new());
    let (ends, refused) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        for worker in 0..4 {
            let (server, sealed, ends, refused) = (&servers[worker % 2], &sealed, &ends, &refused);
            scope.spawn(move || {
                let mut client = server.client();
                for i in 0.. {
                    if ends.load(Ordering::SeqCst) {
                        return;
                    }
                    let (user, text) = (format!("user {worker} {i}"), format!("text {i}"));
                    let body = json!({ "context": base64(&user), "plaintext": base64(&text) }).to_string();
                    let began = Instant::now();
                    let answer = client.request("POST", "/v1/transit/encrypt/orders", &[], body.as_bytes());
                    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
                    match answer.status {
                        200 => {
                            let ciphertext = answer.json()["data"]["ciphertext"].as_str().unwrap().to_owned();
                            sealed.lock().unwrap().push(Record { key: "orders".into(), user, text, ciphertext });
                        }
                        503 => {
                            refused.store(true, Ordering::SeqCst);
                            sleep(Duration::from_millis(5));
                        }
                        other => panic!("{other}: {}", answer.text()),
                    }
                }
            });
        }
        for _ in 0..rounds(3, 50) {
            until("records are sealed", || !sealed.lock().unwrap().is_empty());
            sleep(Duration::from_millis(300));
            database.kill();
            refused.store(false, Ordering::SeqCst);
            until("requests are refused", || refused.load(Ordering::SeqCst));
            database.begin();
            let before = sealed.lock().unwrap().len();
            until("records are sealed again", || sealed.lock().unwrap().len() > before + 20);
        }
        ends.store(true, Ordering::SeqCst);
    });
    let sealed = sealed.into_inner().unwrap();
    println!("{} records", sealed.len());
    for server in &servers {
        // It may have been the other one that sealed again.
        until("it reaches the store", || encrypt(server, "orders", "ada").0 == 200);
        all_open(server, &sealed);
    }
    servers[0].line("the store is reached again");
}

#[test]
fn a_server_without_its_store_ends_to_serve_soon() {
    let Some(Pair { servers: [server, _other], database }) = pair() else { return };
    let derived = seal(&server, "notes", &users(0..1));
    let token = server.token(&["seal:notes"]);
    let closes = |token: &str, path: &str| {
        let answer = server.request("GET", path, &[("X-Vault-Token", token)], b"");
        (answer.status, answer.header("connection") == Some("close"))
    };
    // PostgreSQL hangs, which nobody is told.
    database.signal_all(Signal::STOP);
    assert_eq!(closes("phx.nobody", "/healthz"), (200, true), "it does not ask the store");
    // Keys that need no store still work for a while.
    all_open(&server, &derived);
    let began = Instant::now();
    until("it refuses", || encrypt(&server, "notes", "ada").0 == 503);
    let after = began.elapsed();
    let (status, _) = encrypt(&server, "orders", "ada");
    assert_eq!(status, 503);
    println!("refused after {after:?}, a new user after {:?}", began.elapsed() - after);
    // Management and reading are refused too, and so is whoever is not known: nobody can say.
    let status = |path| server.get(path).status;
    assert_eq!([status("/v2/manage/tokens"), status("/v1/transit/keys/notes"), status("/v1/nothing")], [503; 3]);
    assert_eq!(server.post("/v2/manage/keys/other", &json!({})).status, 503);
    assert_eq!(server.post_by("phx.nobody", "/v1/transit/encrypt/notes", &json!({})).status, 503);
    assert_eq!(closes(&token, "/v1/auth/token/lookup-self"), (503, false));
    assert_eq!(closes("phx.nobody", "/v1/auth/token/lookup-self"), (503, true));
    let health = server.get("/healthz");
    assert_eq!((health.status, health.text().as_str()), (503, "the store cannot be reached\n"));
    assert_eq!(status("/v1/sys/health"), 503);
    assert_eq!(server.get("/v2/status").json()["state"], "the store cannot be reached");
    assert_eq!([status("/metrics"), status("/v2/limits"), status("/v1/sys/seal-status")], [200; 3]);
    database.signal_all(Signal::CONT);
    until("it serves", || encrypt(&server, "orders", "ada").0 == 200);
    assert_eq!([status("/healthz"), status("/v1/sys/health")], [200; 2]);
    all_open(&server, &derived);
}

#[test]
fn who_has_heard_nothing_for_long_asks_the_store_first() {
    let Some(Pair { servers: [first, second], database: _database }) = pair() else { return };
    let sealed = seal(&first, "notes", &users(0..1)).remove(0);
    let admin = run(&first.folder, &["token", "new", "--allow", "admin"]);
    let opener = run(&first.folder, &["token", "new", "--allow", "open:notes"]);
    let open = json!({ "context": base64(&sealed.user), "ciphertext": sealed.ciphertext }).to_string();
    let key = |name: &str| format!("/v2/manage/keys/{name}");
    let ask = |client: &mut Client, token: &str, path: &str, body: &str| {
        client.send("POST", path, &[("X-Vault-Token", token)], body.as_bytes()).unwrap();
    };
    let mut clients = [second.client(), second.client()];
    ask(&mut clients[0], &admin, &key("before"), "{}");
    ask(&mut clients[1], &opener, "/v1/transit/decrypt/notes", &open);
    clients.iter_mut().for_each(|client| assert_eq!(client.answer().unwrap().status, 200));
    // One server stands still for longer than it may serve without the store.
    second.signal(Signal::STOP);
    run(&first.folder, &["token", "revoke", &admin]);
    run(&first.folder, &["token", "revoke", &opener]);
    sleep(Duration::from_secs(11));
    ask(&mut clients[0], &admin, &key("after"), "{}");
    ask(&mut clients[1], &opener, "/v1/transit/decrypt/notes", &open);
    second.signal(Signal::CONT);
    for client in &mut clients {
        let answer = client.answer().unwrap();
        assert!([403, 503].contains(&answer.status), "{}: {}", answer.status, answer.text());
    }
    until("it serves", || encrypt(&second, "notes", "ada").0 == 200);
    assert_eq!(second.get(&key("after")).status, 404);
}

#[test]
fn a_token_is_revoked_where_it_was_not_made() {
    let Some(Pair { servers: [first, second], database: _database }) = pair() else { return };
    for _ in 0..3 {
        let token = run(&first.folder, &["token", "new", "--allow", "seal:notes"]);
        run(&second.folder, &["token", "revoke", &token]);
        until("it is revoked", || first.post_by(&token, "/v1/auth/token/lookup-self", &json!({})).status == 403);
    }
}

#[test]
fn changes_are_seen_in_a_database_that_was_put_back() {
    let Some(Pair { servers: [first, second], database }) = pair() else { return };
    let token = run(&first.folder, &["token", "new", "--allow", "seal:notes"]);
    let body = json!({ "context": base64("ada"), "plaintext": base64("text") });
    let seal = || second.post_by(&token, "/v1/transit/encrypt/notes", &body).status;
    assert_eq!(seal(), 200);
    let before = database.ask("SELECT generation FROM phalanx_state").unwrap();
    run(&first.folder, &["key", "new", "extra"]);
    let knows_extra = || second.get("/v2/manage/keys").text().contains("extra");
    until("the new key is known", knows_extra);
    let put_back = format!(
        "DELETE FROM phalanx_versions WHERE key = (SELECT id FROM phalanx_keys WHERE name = 'extra');
         DELETE FROM phalanx_keys WHERE name = 'extra'; UPDATE phalanx_state SET generation = {before}"
    );
    database.ask(&put_back).unwrap();
    until("the key is gone", || !knows_extra());
    run(&first.folder, &["token", "revoke", &token]);
    until("the token is revoked", || seal() == 403);
}

/// What locks the store for all who change it.
const STATE: &str = "PERFORM 1 FROM phalanx_state FOR UPDATE";

/// Locks something of the store, and does something as soon as a server waits for it.
fn when_awaited(database: &Database, lock: &str, what: &str) {
    let sql = format!(
        "SET statement_timeout = '60s'; DO $$ DECLARE waiter integer; since timestamptz; BEGIN
           {lock};
           LOOP
             PERFORM pg_stat_clear_snapshot();
             SELECT pid, query_start INTO waiter, since FROM pg_stat_activity
               WHERE wait_event_type = 'Lock' AND application_name = 'phalanx-server';
             EXIT WHEN FOUND;
             PERFORM pg_sleep(0.01);
           END LOOP;
           {what}
         END $$"
    );
    database.ask(&sql).expect("the statement fails");
}

/// Seals for users in one request, and does something when the request has read the users and waits for a lock.
fn seal_while(database: &Database, server: &Server, users: &[(String, String)], what: &str) -> Answer {
    let inputs: Vec<Value> =
        users.iter().map(|(user, text)| json!({ "context": base64(user), "plaintext": base64(text) })).collect();
    thread::scope(|scope| {
        let done = scope.spawn(|| when_awaited(database, STATE, what));
        let locks =
            "SELECT count(*) FROM pg_locks WHERE relation = 'phalanx_state'::regclass AND mode = 'RowShareLock'";
        until("the store is locked", || database.ask(locks).is_some_and(|count| count != "0"));
        let answer = server.post("/v1/transit/encrypt/orders", &json!({ "batch_input": inputs }));
        done.join().unwrap();
        answer
    })
}

#[test]
fn users_who_are_deleted_while_others_are_made_are_made_again() {
    let Some(Pair { servers: [server, _other], database }) = pair() else { return };
    let old = seal(&server, "orders", &users(0..10));
    let answer = seal_while(&database, &server, &users(0..11), "DELETE FROM phalanx_users;");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let results = answer.json();
    let record = |(i, (user, text)): (usize, (String, String))| {
        let ciphertext = results["data"]["batch_results"][i]["ciphertext"].as_str().unwrap().to_owned();
        Record { key: "orders".into(), user, text, ciphertext }
    };
    all_open(&server, &users(0..11).into_iter().enumerate().map(record).collect::<Vec<_>>());
    none_opens(&server, &old);
}

#[test]
fn a_key_that_changes_while_it_is_read_is_not_damaged() {
    let Some(database) = Database::start() else { return };
    let [folder, _] = folders(&database);
    let mut server = folder.start(&[]);
    run(&folder, &["key", "new", "notes"]);
    let ask = |sql: &str| database.ask(sql).expect(sql);
    let keep = |when: &str| {
        ask(&format!(
            "CREATE TABLE {when}_keys AS TABLE phalanx_keys; CREATE TABLE {when}_versions AS TABLE phalanx_versions"
        ))
    };
    let put_back = |when: &str| {
        format!(
            "DELETE FROM phalanx_keys; INSERT INTO phalanx_keys TABLE {when}_keys;
             DELETE FROM phalanx_versions; INSERT INTO phalanx_versions TABLE {when}_versions;"
        )
    };
    keep("earlier");
    run(&folder, &["key", "rotate", "notes"]);
    keep("later");
    let latest = || server.get("/v2/manage/keys/notes").json()["latest_version"].as_u64();
    ask(&format!("{} UPDATE phalanx_state SET generation = 4", put_back("earlier")));
    until("it has the earlier state", || latest() == Some(1));
    // The key is rotated when the server has begun to read the keys, and waits for their versions.
    let asked = thread::scope(|scope| {
        let lock = "LOCK TABLE phalanx_versions IN ACCESS EXCLUSIVE MODE";
        let done = scope.spawn(|| when_awaited(&database, lock, &put_back("later")));
        let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'phalanx_versions'::regclass AND mode = 'AccessExclusiveLock'";
        until("the versions are locked", || ask(locks) != "0");
        ask("UPDATE phalanx_state SET generation = 5");
        let asked = server.post_by("phx.nobody", "/v1/transit/encrypt/notes", &json!({}));
        done.join().unwrap();
        asked
    });
    assert_eq!(asked.status, 403, "{}", asked.text());
    until("it has the later state", || latest() == Some(2));
    // Whoever looked first, this request or the server itself. All that it wrote has been read when it has ended.
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(!server.stderr().contains("damaged"), "{}", server.stderr());
}

#[test]
fn a_statement_that_takes_too_long_costs_no_connection() {
    let Some(Pair { servers: [server, _other], database }) = pair() else { return };
    let connections = || {
        let all = "SELECT string_agg(pid::text, ',' ORDER BY pid) FROM pg_stat_activity WHERE application_name = 'phalanx-server'";
        database.ask(all).unwrap()
    };
    let before = connections();
    // As PostgreSQL itself does when its time is over.
    let cancel = "PERFORM pg_cancel_backend(waiter);
        LOOP
          PERFORM pg_stat_clear_snapshot();
          EXIT WHEN NOT EXISTS (
            SELECT FROM pg_stat_activity WHERE pid = waiter AND query_start = since AND wait_event_type = 'Lock'
          );
          PERFORM pg_sleep(0.01);
        END LOOP;";
    let answer = seal_while(&database, &server, &users(0..2), cancel);
    // If it has shared its transaction with other work, it was tried again.
    assert!([200, 500].contains(&answer.status), "{}: {}", answer.status, answer.text());
    all_open(&server, &seal(&server, "orders", &users(0..2)));
    assert_eq!(connections(), before);
}
