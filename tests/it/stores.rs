//! Objects in stores where a path may stand, against real servers on loopback.

mod folders;
mod markers;
mod mirror;
mod mount;
mod proxy;
mod rekey;
mod servers;
mod signatures;

use crate::common::{Ended, Sandbox, has, is_exhaustive, is_ignored, painted, wait_for};
use crate::readme::shell;
use proxy::{Does, Request};
use rustix::process::{Pid, Signal, kill_process};
use servers::{KEY, Kind, Server};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The length in bytes of an input that takes several parts.
const LEN: usize = (37 << 20) + 123;
/// With chunks of 1 MiB each part has 8 of them.
const PARTS: usize = 5;
const URL: &str = "s3://bucket/dir/f.phx";

/// A server, and what a test does with it.
struct Store {
    s: Sandbox,
    server: Server,
    /// Where the program reaches it.
    at: SocketAddr,
}

impl Store {
    /// A server, if it is installed, and a plaintext `f` of several parts.
    fn start(kind: Kind) -> Option<Self> {
        let s = Sandbox::with_key();
        let server = Server::start(&s, kind)?;
        s.write("f", painted(LEN));
        let at = server.address;
        Some(Self { s, server, at })
    }

    /// versitygw behind a proxy.
    fn behind(decide: impl Fn(&Request) -> Does + Send + Sync + 'static) -> Option<Self> {
        let mut store = Self::start(Kind::Versity)?;
        store.at = proxy::start(store.server.address, decide);
        Some(store)
    }

    fn command(&self, args: &[&str]) -> Command {
        self.server.command(&self.s, self.at, args)
    }

    fn run(&self, args: &[&str]) -> Ended {
        Ended(self.command(args).output().unwrap())
    }

    /// Asserts that the object is whole, and that its plaintext is that of `f`, past any proxy.
    #[track_caller]
    fn has(&self, url: &str) {
        let mut command = self.server.command(&self.s, self.server.address, &["unprotect", url, "-o", "back", "-f"]);
        Ended(command.output().unwrap()).ok();
        assert!(self.s.read("back") == self.s.read("f"));
    }

    /// Whether the object exists, as versitygw keeps it.
    fn exists(&self) -> bool {
        self.s.exists("store/bucket/dir/f.phx")
    }
}

#[test]
fn each_store_keeps_files() {
    for kind in [Kind::Versity, Kind::Moto, Kind::Azurite] {
        let Some(store) = Store::start(kind) else { continue };
        let base = match kind {
            Kind::Azurite => {
                if !make_container(&store) {
                    continue;
                }
                "az://bucket"
            }
            _ => "s3://bucket",
        };
        for (name, len) in [("f", LEN), ("small", 1000), ("empty", 0)] {
            store.s.write(name, painted(len));
            let url = format!("{base}/some dir/{name}.phx");
            let protect = ["protect", name, "-k", "k", "-o", &url];
            store.run(&protect).ok();
            assert!(store.run(&protect).fails(4).contains("exists already"), "{kind:?}");
            store.run(&["protect", name, "-k", "k", "-f", "-o", &url]).ok();
            let said = String::from_utf8(store.run(&["verify", &url]).ok()).unwrap();
            assert!(said.contains("whole and authentic"), "{kind:?} {said}");
            store.run(&["unprotect", &url, "-o", "back", "-f"]).ok();
            assert!(store.s.read("back") == painted(len), "{kind:?} {name}");
        }
        let url = format!("{base}/some dir/f.phx");
        let json = String::from_utf8(store.run(&["inspect", "--json", &url]).ok()).unwrap();
        assert!(json.contains(&format!("\"plaintext_bytes\":{LEN}")), "{json}");
        let range = store.run(&["unprotect", &url, "-o", "-", "--range", "20M-20M+7"]);
        assert_eq!(range.0.stdout, &painted(LEN)[20 << 20..][..7], "{kind:?}");
        store.run(&["unprotect", &url, "-k", "k", "-o", &format!("{base}/plain")]).ok();
        assert!(store.run(&["verify", &format!("{base}/none")]).fails(4).contains("no such object"), "{kind:?}");
        store.run(&["protect", &url, "-k", "k", "-o", "x"]).fails(4);
    }
}

/// Makes Azurite's container, by the key that it publishes.
fn make_container(store: &Store) -> bool {
    // The program has no such command, and the request is signed: the Python package does it.
    let script = "import os; from azure.storage.blob import BlobServiceClient as B; \
                  B.from_connection_string(os.environ['AZURE_STORAGE_CONNECTION_STRING']).create_container('bucket')";
    let connection = store
        .command(&[])
        .get_envs()
        .find_map(|(name, value)| (name == "AZURE_STORAGE_CONNECTION_STRING").then(|| value.unwrap().to_owned()));
    let mut python = Command::new("python3");
    python.args(["-c", script]).env("AZURE_STORAGE_CONNECTION_STRING", connection.unwrap()).stderr(Stdio::null());
    let is_made = python.status().is_ok_and(|status| status.success());
    if !is_made {
        crate::common::skip("azure.storage.blob");
    }
    is_made
}

#[test]
fn google_and_plain_servers_are_read() {
    let Some(store) = Store::start(Kind::FakeGcs) else { return };
    store.s.run(&["protect", "f", "-k", "k"]).ok();
    store.server.ask("POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=f.phx", &store.s.read("f.phx"));
    let http = format!("http://{}/bucket/f.phx", store.at);
    for url in ["gs://bucket/f.phx", &http] {
        store.run(&["unprotect", url, "-o", "back", "-f"]).ok();
        assert!(store.s.read("back") == painted(LEN), "{url}");
        let range = store.run(&["unprotect", url, "-o", "-", "--range", "-5"]);
        assert_eq!(range.0.stdout, &painted(LEN)[LEN - 5..], "{url}");
    }
    assert!(store.run(&["protect", "f", "-k", "k", "-o", &http]).fails(4).contains("can only be read"));
}

#[test]
fn of_two_new_objects_of_one_name_one_wins() {
    for len in [1000, LEN] {
        let Some(store) = Store::start(Kind::Versity) else { return };
        store.s.write("f", painted(len));
        let start = || {
            let mut command = store.command(&["protect", "f", "-k", "k", "-o", URL]);
            command.stderr(Stdio::null()).spawn().unwrap()
        };
        let codes = [start(), start()].map(|mut run| run.wait().unwrap().code());
        assert!(codes == [Some(0), Some(4)] || codes == [Some(4), Some(0)], "{codes:?}");
        store.has(URL);
        assert_eq!(Server::unfinished_parts(&store.s), 0);
    }
}

/// A run that is killed while the store has the first parts, and others are under way. `None` if there is no server.
fn killed(args: &[&str], parts: usize, signal: Signal) -> Option<(Store, Sent)> {
    killed_with(args, parts, signal, |_| ())
}

/// The same, when `prepare` has written what the run needs.
fn killed_with(args: &[&str], parts: usize, signal: Signal, prepare: impl FnOnce(&Sandbox)) -> Option<(Store, Sent)> {
    let (held, go_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (holds, waits, sent) = (held.clone(), go_on.clone(), Sent::default());
    let notes = sent.clone();
    let store = Store::behind(move |request| {
        let is_first_run = waits.load(Ordering::SeqCst) == 0;
        if is_first_run && request.part().is_some_and(|part| part > parts) {
            holds.fetch_add(1, Ordering::SeqCst);
            wait_for(|| waits.load(Ordering::SeqCst) > 0);
            return Does::Answer(503);
        }
        if !is_first_run {
            notes.lock().unwrap().extend(request.part());
        }
        Does::Pass
    })?;
    prepare(&store.s);
    let mut run = store.command(args).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| held.load(Ordering::SeqCst) > 0 && Server::unfinished_parts(&store.s) >= parts);
    if args.contains(&"--resume") {
        // The program has noted all that the store has.
        let noted = |record: &String| record.lines().filter(|line| line.starts_with("{\"part\":")).count();
        wait_for(|| records(&store.s).iter().map(noted).sum::<usize>() >= parts);
    }
    kill_process(Pid::from_child(&run), signal).unwrap();
    run.wait().unwrap();
    go_on.store(1, Ordering::SeqCst);
    assert!(!store.exists());
    Some((store, sent))
}

/// The parts that were sent after the kill.
type Sent = Arc<Mutex<BTreeSet<usize>>>;

fn records(s: &Sandbox) -> Vec<String> {
    let entries = fs::read_dir(s.path("state/uploads")).into_iter().flatten().flatten();
    entries.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect()
}

const RESUME: [&str; 7] = ["protect", "f", "-k", "k", "--resume", "-o", URL];

#[test]
fn a_killed_upload_goes_on() {
    for parts in 0..PARTS {
        let Some((store, sent)) = killed(&RESUME, parts, Signal::KILL) else { return };
        let said = Ended(store.command(&RESUME).output().unwrap());
        assert_eq!(said.0.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.0.stderr));
        assert!(parts == 0 || String::from_utf8_lossy(&said.0.stderr).contains("going on"));
        assert!(sent.lock().unwrap().iter().copied().eq(parts + 1..=PARTS), "{parts}");
        store.has(URL);
        assert!(records(&store.s).is_empty() && Server::unfinished_parts(&store.s) == 0);
    }
}

#[test]
fn an_upload_of_something_else_begins_again() {
    for change in ["input", "key", "chunks"] {
        let Some((store, _)) = killed(&RESUME, 2, Signal::KILL) else { return };
        let mut args = RESUME.to_vec();
        match change {
            "input" => drop(store.s.write("f", vec![7; LEN])),
            "key" => {
                store.s.run(&["key", "new", "other"]).ok();
                args[3] = "other";
            }
            _ => args.extend(["--chunk-size", "64K"]),
        }
        let ended = store.run(&args);
        assert_eq!(ended.0.status.code(), Some(0), "{change}");
        store.has(URL);
        assert!(records(&store.s).is_empty() && Server::unfinished_parts(&store.s) == 0, "{change}");
    }
}

#[test]
fn an_input_that_changes_before_it_is_read_again_does_not_go_into_one_object() {
    let mut args = RESUME.to_vec();
    args.extend(["--password-command", "sh ask.sh"]);
    let Some((store, _)) = killed_with(&args, 2, Signal::KILL, |s| {
        s.write("ask.sh", "if [ -e change ]; then printf 7 | dd of=f conv=notrunc status=none; fi\necho password\n");
    }) else {
        return;
    };
    store.s.write("change", "");
    let said = Ended(store.command(&args).output().unwrap());
    let error = String::from_utf8_lossy(&said.0.stderr).into_owned();
    assert!(said.0.status.code() == Some(4) && error.contains("changed"), "{error}");
    assert!(!store.exists());
}

#[test]
fn an_upload_that_the_store_has_dropped_begins_again() {
    let Some((store, _)) = killed(&RESUME, 2, Signal::KILL) else { return };
    fs::remove_dir_all(store.s.path("store/bucket/.sgwtmp/multipart")).unwrap();
    let said = store.run(&RESUME);
    assert_eq!(said.0.status.code(), Some(4));
    let said = String::from_utf8_lossy(&said.0.stderr).into_owned();
    assert!(said.contains("the next run begins again"), "{said}");
    store.run(&RESUME).ok();
    store.has(URL);
}

#[test]
fn a_record_belongs_to_one_store() {
    let Some((store, _)) = killed(&RESUME, 2, Signal::KILL) else { return };
    // The same server at another address.
    let other = format!("http://{}", store.server.address);
    let mut args = RESUME.to_vec();
    args.extend(["--endpoint-url", &other]);
    let said = store.run(&args);
    assert!(!String::from_utf8_lossy(&said.0.stderr).contains("going on"));
    assert_eq!((said.0.status.code(), records(&store.s).len()), (Some(0), 1));
}

#[test]
fn what_a_killed_run_has_sent_can_be_deleted() {
    for resume in [true, false] {
        let without: Vec<&str> = RESUME.into_iter().filter(|arg| resume || *arg != "--resume").collect();
        let Some((store, _)) = killed(&without, 2, Signal::KILL) else { return };
        assert!(Server::unfinished_parts(&store.s) >= 2);
        let said = store.run(&["protect", "f", "-o", URL, "--abort"]);
        assert!(String::from_utf8_lossy(&said.0.stderr).contains("1 unfinished upload aborted"));
        assert!(records(&store.s).is_empty() && Server::unfinished_parts(&store.s) == 0);
        let said = store.run(&["protect", "f", "-o", URL, "--abort"]);
        assert!(String::from_utf8_lossy(&said.0.stderr).contains("0 unfinished uploads aborted"));
    }
}

#[test]
fn an_upload_that_only_the_store_knows_can_be_deleted() {
    let Some((store, _)) = killed(&RESUME, 2, Signal::KILL) else { return };
    fs::remove_dir_all(store.s.path("state")).unwrap();
    // It is an upload of another object whose name begins with this one.
    let said = store.run(&["protect", "f", "-o", "s3://bucket/dir/f", "--abort"]);
    assert!(String::from_utf8_lossy(&said.0.stderr).contains("0 unfinished uploads aborted"));
    let said = store.run(&["protect", "f", "-o", URL, "--abort"]);
    assert!(String::from_utf8_lossy(&said.0.stderr).contains("1 unfinished upload aborted"));
    assert_eq!(Server::unfinished_parts(&store.s), 0);
}

#[test]
fn what_killed_runs_have_sent_for_a_folder_can_be_deleted() {
    for is_known in [true, false] {
        let Some((store, _)) = killed(&RESUME, 2, Signal::KILL) else { return };
        if !is_known {
            fs::remove_dir_all(store.s.path("state")).unwrap();
        }
        // Its name begins with that of the folder, and is not below it.
        let said = store.run(&["protect", "-R", "f", "-o", "s3://bucket/di", "--abort"]);
        assert!(said.error().contains("0 unfinished uploads aborted"), "{}", said.error());
        let said = store.run(&["protect", "-R", "f", "-o", "s3://bucket/dir", "--abort"]);
        assert!(said.error().contains("1 unfinished upload aborted"), "{}", said.error());
        assert!(records(&store.s).is_empty() && Server::unfinished_parts(&store.s) == 0);
    }
}

#[test]
fn what_a_killed_run_has_sent_is_deleted_by_the_next_one() {
    let without: Vec<&str> = RESUME.into_iter().filter(|arg| *arg != "--resume").collect();
    let Some((store, _)) = killed(&without, 2, Signal::KILL) else { return };
    assert!(Server::unfinished_parts(&store.s) >= 2 && records(&store.s).len() == 1);
    store.run(&without).ok();
    store.has(URL);
    assert!(records(&store.s).is_empty() && Server::unfinished_parts(&store.s) == 0);
    // What another run can go on with stays.
    let Some((store, _)) = killed(&RESUME, 2, Signal::KILL) else { return };
    store.run(&without).ok();
    assert!(Server::unfinished_parts(&store.s) >= 2 && records(&store.s).len() == 1);
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let args = ["protect", "f", "-k", "k", "-o", URL];
    for signal in [Signal::INT, Signal::TERM] {
        if is_ignored(signal.as_raw()) {
            continue;
        }
        let Some((store, _)) = killed(&args, 2, signal) else { return };
        assert!(records(&store.s).is_empty() && Server::unfinished_parts(&store.s) == 0);
    }
}

#[test]
fn a_store_that_fails_for_a_while_is_asked_again() {
    let count = AtomicUsize::new(0);
    let store = Store::behind(move |request| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        match number % 4 {
            1 => Does::Answer(503),
            2 if request.reads() => Does::Cut(1000),
            // What a completion did is found out, and not done twice.
            2 | 3 if request.is_completion() || request.part().is_some() => Does::Swallow,
            _ => Does::Pass,
        }
    });
    let Some(store) = store else { return };
    store.run(&["protect", "f", "-k", "k", "-o", URL]).ok();
    store.has(URL);
    store.run(&["unprotect", URL, "-o", "again"]).ok();
    assert!(store.s.read("again") == painted(LEN));
    store.run(&["verify", URL]).ok();
}

#[test]
fn a_lost_answer_does_not_hide_that_an_object_was_made() {
    for len in [1000, LEN] {
        let lost = AtomicUsize::new(0);
        let store = Store::behind(move |request| {
            let makes = request.is_completion() || request.method == "PUT" && request.part().is_none();
            if makes && lost.fetch_add(1, Ordering::SeqCst) == 0 { Does::Swallow } else { Does::Pass }
        });
        let Some(store) = store else { return };
        store.s.write("f", painted(len));
        store.run(&["protect", "f", "-k", "k", "-o", URL]).ok();
        store.has(URL);
    }
}

#[test]
fn a_refused_completion_is_no_success() {
    let refuses = |request: &Request| if request.is_completion() { Does::Answer(403) } else { Does::Pass };
    let Some(store) = Store::behind(refuses) else { return };
    // Two plaintexts that begin alike.
    let mut other = painted(LEN);
    other[LEN / 2] ^= 1;
    store.s.write("other", &other);
    store.s.run(&["protect", "f", "-k", "k"]).ok();
    fs::create_dir_all(store.s.path("store/bucket")).unwrap();
    let at = store.server.address;
    let put = |args: &[&str]| Ended(store.server.command(&store.s, at, args).output().unwrap());
    store.s.run(&["protect", "other", "-k", "k"]).ok();
    put(&["unprotect", "other.phx", "-o", "s3://bucket/plain"]).ok();
    let said = store.run(&["unprotect", "f.phx", "-f", "-o", "s3://bucket/plain"]).fails(4);
    assert!(said.contains("denies access"), "{said}");
    assert!(store.s.read("store/bucket/plain") == other);
    assert_eq!(Server::unfinished_parts(&store.s), 0);
}

#[test]
fn credentials_go_nowhere_else() {
    let Some(mut store) = Store::start(Kind::Versity) else { return };
    store.run(&["protect", "f", "-k", "k", "-o", URL]).ok();
    let elsewhere = Arc::new(AtomicUsize::new(0));
    let counted = elsewhere.clone();
    let other = proxy::start(store.server.address, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Does::Pass
    });
    store.at =
        proxy::start(store.server.address, move |request| Does::Send(format!("http://{other}{}", request.target)));
    store.run(&["verify", URL]).fails(4);
    // A proxy that the environment names is not asked for what is on this machine.
    let mut command = store.server.command(&store.s, store.server.address, &["verify", URL]);
    command.env("http_proxy", format!("http://{other}")).env("HTTP_PROXY", format!("http://{other}"));
    Ended(command.output().unwrap()).ok();
    assert_eq!(elsewhere.load(Ordering::SeqCst), 0);
}

#[test]
fn many_workers_do_not_ask_for_more() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let Some(mut store) = Store::start(Kind::Versity) else { return };
    store.run(&["protect", "f", "-k", "k", "-o", URL]).ok();
    store.at = proxy::start(store.server.address, move |request| {
        counted.fetch_add(usize::from(request.reads()), Ordering::SeqCst);
        Does::Pass
    });
    for requests in ["1", "2", "6"] {
        asked.store(0, Ordering::SeqCst);
        store.run(&["verify", URL, "-t", "16", "--requests", requests]).ok();
        // The first bytes, ten blocks, and what workers asked for that were ahead of the window.
        let asked = asked.load(Ordering::SeqCst);
        assert!(asked <= 1 + 10 + 2 * 37, "{requests}: {asked}");
    }
}

/// Runs `unprotect` of a whole object against a store that lies about ranges, except about the first one.
fn lied_to(lie: fn(&mut Vec<u8>)) -> Option<(Store, Ended)> {
    let count = AtomicUsize::new(0);
    let lies = move |request: &Request| match request.reads() && count.fetch_add(1, Ordering::SeqCst) > 0 {
        true => Does::Change(lie),
        false => Does::Pass,
    };
    let mut store = Store::start(Kind::Versity)?;
    store.run(&["protect", "f", "-k", "k", "-o", URL]).ok();
    store.at = proxy::start(store.server.address, lies);
    let ended = store.run(&["unprotect", URL, "-o", "out"]);
    assert!(!store.s.exists("out") && store.s.leftovers().is_empty());
    Some((store, ended))
}

/// Replaces a text in the head of an answer.
fn replace(answer: &mut Vec<u8>, from: &str, to: &str) {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let position = head.to_lowercase().find(from).unwrap_or_else(|| panic!("{from}: {head}"));
    let head = format!("{}{to}{}", &head[..position], &head[position + from.len()..]);
    answer.splice(..end, head.into_bytes());
}

#[test]
fn a_store_that_lies_is_found_out() {
    type Lie = fn(&mut Vec<u8>);
    let lies: [(Lie, i32, &str); 5] = [
        // Bytes that are not those of the object.
        (|answer| *answer.last_mut().unwrap() ^= 1, 3, "not authentic"),
        // The whole object instead of a range.
        (|answer| replace(answer, "http/1.1 206", "HTTP/1.1 200"), 4, "cannot read"),
        // Another range.
        (|answer| replace(answer, "bytes ", "bytes 1"), 4, "cannot read"),
        // Another version.
        (|answer| replace(answer, "etag: \"", "ETag: \"00"), 4, "changed"),
        // Another length.
        (|answer| replace(answer, &format!("/{}", file_len()), "/99999999"), 4, "cannot read"),
    ];
    for (lie, code, words) in lies {
        let Some((_, ended)) = lied_to(lie) else { return };
        let said = ended.fails(code);
        assert!(said.contains(words) || code == 3, "{said}");
    }
}

/// The length of the protected file, whose header has one key.
fn file_len() -> u64 {
    let s = Sandbox::with_key();
    s.write("f", painted(LEN));
    s.run(&["protect", "f", "-k", "k"]).ok();
    s.path("f.phx").metadata().unwrap().len()
}

#[test]
fn an_object_that_changes_while_it_is_read_is_an_error() {
    let Some(mut store) = Store::start(Kind::Versity) else { return };
    store.run(&["protect", "f", "-k", "k", "-o", URL]).ok();
    store.run(&["protect", "f", "-k", "k", "-o", "s3://bucket/other.phx"]).ok();
    let (object, other) = (store.s.path("store/bucket/dir/f.phx"), store.s.path("store/bucket/other.phx"));
    let count = AtomicUsize::new(0);
    store.at = proxy::start(store.server.address, move |request| {
        if request.reads() && count.fetch_add(1, Ordering::SeqCst) == 1 {
            fs::rename(&other, &object).unwrap();
        }
        Does::Pass
    });
    let said = store.run(&["unprotect", URL, "-o", "out"]).fails(4);
    assert!(said.contains("changed") && !store.s.exists("out"), "{said}");
}

#[test]
fn a_range_takes_three_requests() {
    let (requests, bytes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, added) = (requests.clone(), bytes.clone());
    let Some(mut store) = Store::start(Kind::Versity) else { return };
    store.run(&["protect", "f", "-k", "k", "--chunk-size", "64K", "-o", URL]).ok();
    store.at = proxy::start(store.server.address, move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")).unwrap_or("0-0");
        let (from, to) = range.split_once('-').unwrap();
        added.fetch_add(to.parse::<u64>().unwrap() + 1 - from.parse::<u64>().unwrap(), Ordering::SeqCst);
        Does::Pass
    });
    let range = store.run(&["unprotect", URL, "-o", "-", "--range", "20M-20M+64K"]);
    assert_eq!(range.0.stdout, &painted(LEN)[20 << 20..][..64 << 10]);
    assert_eq!(requests.load(Ordering::SeqCst), 3);
    // The first bytes, the chunk, and the last chunk.
    assert!(bytes.load(Ordering::SeqCst) <= (16 << 10) + 2 * (64 << 10) + 96);
}

#[test]
fn credentials_come_from_a_profile_and_are_never_shown() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    fs::create_dir(store.s.path(".aws")).unwrap();
    store.s.write(".aws/config", format!("[profile work]\nregion=us-east-1\nendpoint_url=http://{}\n", store.at));
    store
        .s
        .write(".aws/credentials", format!("[work]\naws_access_key_id={}\naws_secret_access_key={}\n", KEY.0, KEY.1));
    store.s.write("f", painted(1000));
    let run = |profile: &str, args: &[&str]| {
        let mut command = store.command(args);
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"] {
            command.env_remove(name);
        }
        Ended(command.env("AWS_PROFILE", profile).output().unwrap())
    };
    run("work", &["protect", "f", "-k", "k", "-o", URL]).ok();
    store.has(URL);
    let said = run("none", &["verify", URL]).fails(4);
    assert!(said.contains("no AWS profile none"), "{said}");
    let wrong = "not-the-secret-of-this-key";
    store.s.write(".aws/credentials", format!("[work]\naws_access_key_id={}\naws_secret_access_key={wrong}\n", KEY.0));
    let said = run("work", &["-v", "verify", URL]).fails(4);
    assert!(!said.contains(wrong) && said.contains("credentials"), "{said}");
}

/// The lines of docs/stores.md run as printed, one after another.
#[test]
fn the_lines_of_the_page_run() {
    const PAGE: &str = include_str!("../../docs/stores.md");
    if !has("bash") {
        return;
    }
    let Some(store) = Store::start(Kind::Versity) else { return };
    let blocks = PAGE.split("\n```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
    let lines: Vec<&str> = blocks.filter(|block| !block.starts_with("cargo install")).collect();
    assert_eq!(lines.len(), 7);
    let mut command = shell(&store.s, &lines.join("\n"));
    let envs = store.command(&[]);
    for (name, value) in envs.get_envs().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
        command.env(name, value.unwrap());
    }
    let ended = Ended(command.output().unwrap());
    let said = String::from_utf8_lossy(&ended.0.stderr).into_owned();
    assert_eq!(ended.0.status.code(), Some(0), "{said}");
}

#[test]
fn what_makes_no_sense_with_objects_is_refused() {
    let s = Sandbox::with_key();
    s.write("f", b"x");
    for folder in ["a", "b"] {
        fs::create_dir(s.path(folder)).unwrap();
        s.write(&format!("{folder}/f"), b"x");
    }
    for (args, words) in [
        (&["unprotect", URL][..], "where its output goes must be said"),
        (&["protect", URL, "-k", "k"], "where its output goes must be said"),
        (&["unprotect", URL, "-o", "x", "--remove"], "--remove"),
        (&["protect", "f", "-k", "k", "-o", URL, "--remove"], "--remove"),
        (&["protect", "a/f", "b/f", "-k", "k", "-f", "--output-dir", "s3://bucket/x"], "output of both"),
        (&["unprotect", URL, "-o", URL, "-f"], "same file"),
        (&["unprotect", "f.phx", "--resume", "--output-dir", "s3://bucket/x"], "uploads of protect only"),
        (&["unprotect", URL, "-o", "x", "--resume"], "--resume"),
        (&["protect", "f", "-k", "k", "-o", "s3://bucket/"], "names no object"),
        (&["unprotect", "f.phx", "-o", URL, "--salvage"], "--salvage"),
        (&["mirror", "s3://bucket/m", "f", "-k", "k"], "the source of mirror does not take URLs"),
        (&["rekey", "-R", URL], "rekey --recursive does not take URLs"),
        (&["protect", "f", "--abort", "-o", "x"], "--abort needs the URL"),
        (&["protect", "f", "-k", "k", "-o", "S3://bucket/f"], "no URL of a store is written like that"),
        (&["protect", "f", "-k", "k", "-o", "ftp://host/f"], "no URL of a store is written like that"),
        (&["mirror", "a", "s3:bucket/a", "-k", "k"], "no URL of a store is written like that"),
    ] {
        let said = s.run(args).fails(2);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    for name in ["s3://buck et/k", "s3://b?x/k", "s3://../k", "s3://b//k"] {
        s.run(&["protect", "f", "-k", "k", "-o", name]).fails(4);
    }
    // A signature is a secret.
    for args in [&["verify", "http://127.0.0.1:1/x.phx?Signature=abc"][..], &["unprotect", "https://h/x?Signature=abc"]]
    {
        let ended = s.run(args);
        assert!(!String::from_utf8_lossy(&ended.0.stderr).contains("abc"));
    }
    // Another machine is not reached without TLS.
    let mut command = s.command(&["protect", "f", "-k", "k", "-o", URL, "--endpoint-url", "http://store.example"]);
    command.env("AWS_ACCESS_KEY_ID", "x").env("AWS_SECRET_ACCESS_KEY", "y").env("HOME", s.path(""));
    let said = Ended(command.output().unwrap()).fails(4);
    assert!(said.contains("--allow-http"), "{said}");
}

/// Kills at moments that chance chooses. PHALANX_KILLS names how many.
#[test]
fn kills_leave_a_whole_object_or_none() {
    if !has("versitygw") {
        return;
    }
    let named = std::env::var("PHALANX_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills: u64 = named.unwrap_or_else(|| if is_exhaustive() { 500 } else { 6 });
    let Some(store) = Store::start(Kind::Versity) else { return };
    let without: Vec<&str> = RESUME.into_iter().filter(|arg| *arg != "--resume").collect();
    for kill in 0..kills {
        let args = if kill % 2 == 0 { &RESUME[..] } else { &without };
        let run = store.command(args).stderr(Stdio::piped()).spawn().unwrap();
        // A whole run takes a few hundred milliseconds.
        std::thread::sleep(std::time::Duration::from_micros(kill * 7919 % 400_000));
        let _ = kill_process(Pid::from_child(&run), Signal::KILL);
        // The server may complete an upload after its run has been killed.
        let has_ended = |ended: &Output| {
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success() || said.contains("exists already"), "{said}");
        };
        let ended = run.wait_with_output().unwrap();
        if ended.status.code().is_some() {
            has_ended(&ended);
        }
        if !store.exists() && kill % 4 == 2 {
            has_ended(&store.run(&RESUME).0);
        }
        if store.exists() {
            store.has(URL);
            fs::remove_file(store.s.path("store/bucket/dir/f.phx")).unwrap();
        }
        // What a run has left is found by the next one of either kind, and by --abort.
        store.run(&["-q", "protect", "f", "-o", URL, "--abort"]).ok();
        assert!(records(&store.s).is_empty());
    }
}
