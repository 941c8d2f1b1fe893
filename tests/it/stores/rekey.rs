//! `rekey` of objects: the store copies what stays, if it can, and nothing but the version that was read is replaced.

use super::proxy::{self, Does, Request};
use super::servers::{Kind, Server};
use super::{LEN, Store, URL, make_container, records};
use crate::common::{Ended, is_ignored, painted, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What is read and sent again of a large object.
const PART: u64 = 8 << 20;
/// What the store copies at once.
const COPIED: usize = 64 << 20;
const OBJECT: &str = "store/bucket/dir/f.phx";
const ADD: [&str; 4] = ["rekey", URL, "--add-key", "new"];
const SAID: &str = "the store copies no parts of objects";

fn copies(request: &Request) -> bool {
    request.header("x-amz-copy-source").is_some()
}

/// Whether it replaces a small object.
fn puts(request: &Request) -> bool {
    request.method == "PUT" && request.part().is_none()
}

/// A server with the object of an input of this length under the key `k`. There is another key, `new`.
fn with_object(kind: Kind, len: usize) -> Option<Store> {
    let store = Store::start(kind)?;
    store.s.run(&["key", "new", "new"]).ok();
    store.s.write("f", painted(len));
    store.run(&["protect", "f", "-k", "k", "-o", URL]).ok();
    Some(store)
}

/// versitygw with the object, behind a proxy.
fn behind(len: usize, decide: impl Fn(&Request) -> Does + Send + Sync + 'static) -> Option<Store> {
    let mut store = with_object(Kind::Versity, len)?;
    store.at = proxy::start(store.server.address, decide);
    Some(store)
}

/// What is sent to a server and fetched from it, in bytes, and how often it copies.
#[derive(Clone, Default)]
struct Counts(Arc<[AtomicU64; 3]>);

impl Counts {
    fn count(&self, request: &Request) {
        let number = |text: &str| text.trim().parse::<u64>().unwrap();
        let sent = request.header("content-length").map_or(0, number);
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let fetched = range.map_or(0, |(from, to)| number(to) + 1 - number(from));
        for (sum, more) in self.0.iter().zip([sent, fetched, u64::from(copies(request))]) {
            sum.fetch_add(more, Ordering::SeqCst);
        }
    }

    /// What was counted since the last call.
    fn take(&self) -> [u64; 3] {
        [0, 1, 2].map(|i| self.0[i].swap(0, Ordering::SeqCst))
    }
}

#[track_caller]
fn opens_by(store: &Store, url: &str, key: &str, other: &str) {
    let open = |key: &str| {
        let args = ["unprotect", url, "-k", key, "-o", "back", "-f"];
        Ended(store.server.command(&store.s, store.server.address, &args).output().unwrap())
    };
    open(key).ok();
    assert!(store.s.read("back") == store.s.read("f"));
    assert!(open(other).fails(3).contains("no key at hand opens it"));
}

/// Adds a key and removes the old one.
fn exchange(store: &Store, url: &str) -> [String; 2] {
    [&["rekey", url, "--add-key", "new"][..], &["rekey", url, "--remove-key", "k", "--json"]].map(|args| {
        let ended = store.run(args);
        let said = ended.error();
        assert!(args.contains(&"--json") || String::from_utf8_lossy(&ended.0.stdout).contains("after"), "{said}");
        let out = ended.text();
        assert!(!args.contains(&"--json") || out.contains("\"changed\":true"), "{out}");
        said
    })
}

#[test]
fn the_store_copies_what_stays() {
    let three = PART as usize + 2 * COPIED;
    // The third object has three parts that are copied, and the last one is shorter.
    for (kind, len, parts) in [(Kind::Versity, LEN, 1), (Kind::Moto, LEN, 1), (Kind::Versity, three, 3)] {
        let Some(mut store) = with_object(kind, len) else { continue };
        let (counts, before) = (Counts::default(), fs::read(store.s.path(OBJECT)).unwrap_or_default());
        let counting = counts.clone();
        store.at = proxy::start(store.server.address, move |request| {
            counting.count(request);
            Does::Pass
        });
        for args in [&ADD[..], &["rekey", URL, "--remove-key", "k", "--requests", "1"]] {
            let said = store.run(args);
            assert!(!said.error().contains(SAID), "{kind:?} {}", said.error());
            said.ok();
            let [sent, fetched, copied] = counts.take();
            assert!((PART..PART + 8192).contains(&sent), "{kind:?} sent {sent}");
            assert!((PART - 8192..PART + (32 << 10)).contains(&fetched), "{kind:?} fetched {fetched}");
            assert_eq!(copied, parts, "{kind:?}");
        }
        opens_by(&store, URL, "new", "k");
        store.run(&["verify", URL, "-k", "new"]).ok();
        if kind == Kind::Versity {
            let after = store.s.read(OBJECT);
            let header = u32::from_le_bytes(after[8..12].try_into().unwrap()) as usize;
            assert!(before.len() == after.len() && before[header..] == after[header..] && before != after);
            assert!(Server::unfinished_parts(&store.s) == 0 && records(&store.s).is_empty());
        }
    }
}

#[test]
fn small_objects_are_written_again() {
    for kind in [Kind::Versity, Kind::Moto, Kind::Azurite] {
        let Some(mut store) = Store::start(kind) else { continue };
        if kind == Kind::Azurite && !make_container(&store) {
            continue;
        }
        store.s.run(&["key", "new", "new"]).ok();
        let counts = Counts::default();
        let counting = counts.clone();
        store.at = proxy::start(store.server.address, move |request| {
            counting.count(request);
            Does::Pass
        });
        let base = if kind == Kind::Azurite { "az" } else { "s3" };
        for (name, len) in [("empty", 0), ("a name +%20 ü", 1000), ("larger", (8 << 20) - 5000)] {
            store.s.write("f", painted(len));
            let url = format!("{base}://bucket/{name}.phx");
            store.run(&["protect", "f", "-k", "k", "-o", &url]).ok();
            counts.take();
            assert!(exchange(&store, &url).iter().all(|said| !said.contains(SAID)));
            let [sent, _, copied] = counts.take();
            assert!(sent < 2 * (len as u64 + (16 << 10)) && copied == 0, "{kind:?} {name} {sent}");
            opens_by(&store, &url, "new", "k");
        }
    }
}

#[test]
fn names_of_large_objects_are_encoded() {
    for kind in [Kind::Versity, Kind::Moto] {
        let Some(store) = Store::start(kind) else { continue };
        store.s.run(&["key", "new", "new"]).ok();
        let url = "s3://bucket/a dir+%20/ü&=.phx";
        store.run(&["protect", "f", "-k", "k", "-o", url]).ok();
        assert!(exchange(&store, url).iter().all(|said| !said.contains(SAID)), "{kind:?}");
        opens_by(&store, url, "new", "k");
    }
}

#[test]
fn where_nothing_copies_all_is_sent_again() {
    let Some(store) = Store::start(Kind::Azurite).filter(make_container) else { return };
    store.s.run(&["key", "new", "new"]).ok();
    let url = "az://bucket/f.phx";
    store.run(&["protect", "f", "-k", "k", "-o", url]).ok();
    assert!(exchange(&store, url).iter().all(|said| said.contains(SAID)));
    opens_by(&store, url, "new", "k");
    assert!(store.run(&["-q", "rekey", url, "--add-key", "k"]).error().is_empty());
}

#[test]
fn a_store_that_refuses_to_copy_is_helped() {
    type Decides = fn(&Request) -> Does;
    // The last one says of a part that it is longer than it should be.
    let refusals: [Decides; 5] = [
        |request| if copies(request) { Does::Answer(501) } else { Does::Pass },
        |request| if copies(request) { Does::Answer(403) } else { Does::Pass },
        |request| if copies(request) { Does::Answer(200) } else { Does::Pass },
        |request| if lists(request) { Does::Answer(405) } else { Does::Pass },
        |request| if lists(request) { Does::Change(|answer| lengthen(answer)) } else { Does::Pass },
    ];
    for (number, decide) in refusals.into_iter().enumerate() {
        let Some(store) = behind(LEN, decide) else { return };
        let said = store.run(&["rekey", URL, "--add-key", "new", "--remove-key", "k"]);
        assert!(said.error().contains(SAID), "{number} {}", said.error());
        said.ok();
        opens_by(&store, URL, "new", "k");
        assert!(Server::unfinished_parts(&store.s) == 0 && records(&store.s).is_empty(), "{number}");
    }
}

/// Whether it asks which parts an upload has.
fn lists(request: &Request) -> bool {
    request.method == "GET" && request.target.contains("uploadId=")
}

fn lengthen(answer: &mut [u8]) {
    let place = answer.windows(6).position(|bytes| bytes == b"<Size>").unwrap() + 6;
    answer[place] ^= 1;
}

#[test]
fn an_object_that_was_replaced_meanwhile_stays() {
    type When = fn(&Request) -> bool;
    let whens: [(usize, When); 4] = [(LEN, copies), (LEN, lists), (LEN, Request::is_completion), (1000, puts)];
    for (number, (len, when)) in whens.into_iter().enumerate() {
        let Some(mut store) = with_object(Kind::Versity, len) else { return };
        store.run(&["protect", "f", "-k", "k", "-o", "s3://bucket/other.phx"]).ok();
        let (object, other) = (store.s.path(OBJECT), store.s.path("store/bucket/other.phx"));
        let expected = fs::read(&other).unwrap();
        store.at = proxy::start(store.server.address, move |request| {
            if when(request) {
                let _ = fs::rename(&other, &object);
            }
            Does::Pass
        });
        let said = store.run(&ADD).fails(4);
        assert!(said.contains("changed"), "{number}: {said}");
        assert!(store.s.read(OBJECT) == expected, "{number}");
        assert!(Server::unfinished_parts(&store.s) == 0 && records(&store.s).is_empty(), "{number}");
    }
}

#[test]
fn an_object_that_was_deleted_meanwhile_does_not_come_back() {
    for len in [LEN, 1000] {
        let Some(mut store) = with_object(Kind::Versity, len) else { return };
        let object = store.s.path(OBJECT);
        store.at = proxy::start(store.server.address, move |request| {
            if request.is_completion() || puts(request) {
                fs::remove_file(&object).unwrap();
            }
            Does::Pass
        });
        store.run(&ADD).fails(4);
        assert!(!store.exists() && Server::unfinished_parts(&store.s) == 0);
    }
}

#[test]
fn a_busy_store_and_lost_answers_are_no_failures() {
    for len in [LEN, 1000] {
        let seen = [const { AtomicUsize::new(0) }; 4];
        let store = behind(len, move |request| {
            let kinds = [copies(request), lists(request), request.is_completion(), puts(request)];
            let Some(kind) = kinds.into_iter().position(|is| is) else { return Does::Pass };
            match (kind, seen[kind].fetch_add(1, Ordering::SeqCst)) {
                (0, 0) => Does::Answer(503),
                // The text of an error after the line that all is well.
                (0, 1) => Does::Change(|answer| *answer = LATE.to_vec()),
                (0, 2) | (1..=3, 0) => Does::Swallow,
                _ => Does::Pass,
            }
        });
        let Some(store) = store else { return };
        let said = store.run(&ADD);
        assert!(!said.error().contains(SAID), "{}", said.error());
        said.ok();
        store.run(&["unprotect", URL, "-k", "new", "-o", "back", "-f"]).ok();
        assert!(store.s.read("back") == store.s.read("f") && records(&store.s).is_empty());
    }
}

const LATE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 54\r\n\r\n<?xml version=\"1.0\"?><Error><Code>InternalError</Code>";

#[test]
fn a_store_that_fails_for_good_leaves_the_old_object() {
    let store = behind(LEN, |request| if request.is_completion() { Does::Answer(403) } else { Does::Pass });
    let Some(store) = store else { return };
    let before = store.s.read(OBJECT);
    let said = store.run(&ADD).fails(4);
    assert!(said.contains("denies access"), "{said}");
    assert!(store.s.read(OBJECT) == before && Server::unfinished_parts(&store.s) == 0);
}

/// A run that ends by a signal while the store copies. Returns what the object was before.
fn killed(signal: Signal) -> Option<(Store, Vec<u8>)> {
    let (held, go_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (holds, waits) = (held.clone(), go_on.clone());
    let store = behind(LEN, move |request| {
        if copies(request) && waits.load(Ordering::SeqCst) == 0 {
            holds.fetch_add(1, Ordering::SeqCst);
            wait_for(|| waits.load(Ordering::SeqCst) > 0);
        }
        Does::Pass
    })?;
    let before = store.s.read(OBJECT);
    let mut run = store.command(&ADD).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| held.load(Ordering::SeqCst) > 0);
    kill_process(Pid::from_child(&run), signal).unwrap();
    assert!(!run.wait().unwrap().success());
    go_on.store(1, Ordering::SeqCst);
    Some((store, before))
}

#[test]
fn a_killed_run_leaves_the_old_object_and_an_upload_that_is_found() {
    let Some((store, before)) = killed(Signal::KILL) else { return };
    assert!(store.s.read(OBJECT) == before && records(&store.s).len() == 1);
    let said = store.run(&["protect", "f", "-o", URL, "--abort"]);
    assert!(said.error().contains("1 unfinished upload aborted"), "{}", said.error());
    assert!(records(&store.s).is_empty());
    store.run(&ADD).ok();
    store.has(URL);
}

#[test]
fn a_signal_leaves_the_old_object_and_nothing_else() {
    for signal in [Signal::INT, Signal::TERM] {
        if is_ignored(signal.as_raw()) {
            continue;
        }
        let Some((store, before)) = killed(signal) else { return };
        assert!(store.s.read(OBJECT) == before && records(&store.s).is_empty());
    }
}

#[test]
fn kills_leave_the_old_object_or_the_new_one() {
    let Some(store) = with_object(Kind::Versity, LEN) else { return };
    for kill in 0..8 {
        let args: &[&str] = if kill % 2 == 0 { &ADD } else { &["rekey", URL, "--remove-key", "new"] };
        let mut run = store.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(kill * 37_919 % 300_000));
        let _ = kill_process(Pid::from_child(&run), Signal::KILL);
        run.wait().unwrap();
        store.has(URL);
        store.run(&["-q", "protect", "f", "-o", URL, "--abort"]).ok();
        assert!(records(&store.s).is_empty());
    }
}

#[test]
fn a_new_file_key_seals_all_again() {
    for len in [LEN, 1000] {
        let Some(store) = with_object(Kind::Versity, len) else { return };
        let before = store.s.read(OBJECT);
        let out = store.run(&["rekey", URL, "--add-key", "new", "--remove-key", "k", "--fresh", "--json"]).text();
        assert!(out.contains("\"fresh\":true") && out.contains(&format!("\"path\":\"{URL}\"")), "{out}");
        opens_by(&store, URL, "new", "k");
        let after = store.s.read(OBJECT);
        assert!(before[before.len() - 500..] != after[after.len() - 500..]);
        assert!(Server::unfinished_parts(&store.s) == 0 && records(&store.s).is_empty());
    }
}

#[test]
fn a_new_file_key_does_not_replace_another_object() {
    let Some(mut store) = with_object(Kind::Versity, LEN) else { return };
    store.run(&["protect", "f", "-k", "k", "-o", "s3://bucket/other.phx"]).ok();
    let (object, other) = (store.s.path(OBJECT), store.s.path("store/bucket/other.phx"));
    let expected = fs::read(&other).unwrap();
    store.at = proxy::start(store.server.address, move |request| {
        if request.is_completion() {
            let _ = fs::rename(&other, &object);
        }
        Does::Pass
    });
    let said = store.run(&["rekey", URL, "--fresh"]).fails(4);
    assert!(said.contains("changed"), "{said}");
    assert!(store.s.read(OBJECT) == expected && Server::unfinished_parts(&store.s) == 0);
}

#[test]
fn passwords_are_ways_in_too() {
    let Some(store) = with_object(Kind::Versity, LEN) else { return };
    store.s.secret("pw", "secret");
    store.run(&["rekey", URL, "--add-password-file", "pw", "--remove-key", "k"]).ok();
    store.run(&["unprotect", URL, "--password-file", "pw", "-o", "back"]).ok();
    assert!(store.s.read("back") == store.s.read("f"));
}

#[test]
fn a_listing_changes_nothing() {
    let store = behind(LEN, |request| if request.method == "GET" { Does::Pass } else { Does::Answer(403) });
    let Some(store) = store else { return };
    let out = store.run(&["rekey", URL]).text();
    assert!(out.contains("which opened it now") && !out.contains("after"), "{out}");
    // What is there already or has no slot is no change either.
    store.run(&["rekey", URL, "--add-key", "k"]).ok();
    assert!(store.run(&["rekey", URL, "--remove-key", "new"]).error().contains("has no slot in it"));
    store.run(&["rekey", URL, "-k", "new"]).fails(3);
    store.run(&["rekey", URL, "--remove-key", "k"]).fails(2);
    let http = format!("http://{}/bucket/dir/f.phx", store.at);
    assert!(store.run(&["rekey", &http]).fails(4).contains("denies access"));
}

#[test]
fn an_object_of_a_mirror_is_named() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    store.s.write("f", painted(1000));
    let url = "s3://bucket/mirror/sub/f.phx";
    for url in [url, URL, "s3://bucket/mirror/phalanx.tree"] {
        store.run(&["protect", "f", "-k", "k", "-o", url]).ok();
    }
    let warning = "the manifest of its mirror does not list what was written";
    store.s.run(&["key", "new", "new"]).ok();
    assert!(!store.run(&["rekey", url, "--add-key", "new"]).error().contains(warning));
    let said = store.run(&["rekey", url, "--fresh"]);
    assert!(said.error().contains(warning), "{}", said.error());
    said.ok();
    let said = store.run(&["rekey", URL, "--fresh"]);
    assert!(!said.error().contains(warning));
    said.ok();
}

#[test]
fn only_single_objects_of_stores_are_changed() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    let said = store.run(&["rekey", "-R", "s3://bucket/dir"]).fails(2);
    assert!(said.contains("rekey --recursive does not take URLs"), "{said}");
    assert!(store.run(&["rekey", URL, "s3://bucket/x", "--remove-slot", "1"]).fails(2).contains("--remove-slot"));
    assert!(store.run(&["rekey", URL]).fails(4).contains("no such object"));
    assert!(store.run(&["rekey", "s3://bucket/"]).fails(4).contains("names no object"));
    store.s.run(&["protect", "f", "-k", "k"]).ok();
    // What is only read cannot be changed.
    store.run(&["protect", "f", "-k", "k", "-o", URL]).ok();
    store.s.run(&["key", "new", "new"]).ok();
    let Some(gcs) = Server::start(&store.s, Kind::FakeGcs) else { return };
    gcs.ask("POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=f.phx", &store.s.read("f.phx"));
    let http = format!("http://{}/bucket/f.phx", gcs.address);
    let said = store.run(&["rekey", &http, "--add-key", "new"]).fails(4);
    assert!(said.contains("can only be read"), "{said}");
}
