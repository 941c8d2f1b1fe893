//! `phalanx mount` of folders of objects, and of single ones.

use super::proxy::{self, Does, Request};
use super::servers::{Kind, Server};
use super::{LEN, Store, URL, replace};
use crate::common::{Ended, Sandbox, painted, skip, wait_for};
use crate::mount::{Mounted, is_fuse_here, is_mounted, listing, required};
use crate::readme::shell;
use rustix::fs::{Advice, XattrFlags, fadvise, setxattr};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, SystemTime};

const DIR: &str = "s3://bucket/dir.phx";
/// The folder in which versitygw has the objects of that one.
const STORED: &str = "store/bucket/dir.phx";

/// A tree `tree` with the file `large`.
fn plant(s: &Sandbox) {
    for folder in ["tree/a/b", "tree/empty"] {
        fs::create_dir_all(s.path(folder)).unwrap();
    }
    for i in 0..20 {
        s.write(&format!("tree/a/{i}"), painted(i * 1371));
    }
    s.write("tree/a/b/naïve name+.txt", "odd");
    s.write("tree/a.phx", "protected twice, by its name");
    fs::rename(s.path("f"), s.path("tree/large")).unwrap();
    symlink("a/b", s.path("tree/link")).unwrap();
    symlink("/nowhere", s.path("tree/dangling")).unwrap();
    fs::set_permissions(s.path("tree/a/3"), PermissionsExt::from_mode(0o640)).unwrap();
    fs::set_permissions(s.path("tree/a/b"), PermissionsExt::from_mode(0o750)).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    File::open(s.path("tree/large")).unwrap().set_modified(then).unwrap();
}

/// versitygw with the protected tree as objects. `None` if there is no server or no FUSE.
fn planted(options: &[&str]) -> Option<Store> {
    if !is_fuse_here() {
        return None;
    }
    let store = Store::start(Kind::Versity)?;
    plant(&store.s);
    let protect = ["protect", "-q", "-R", "tree", "-k", "k", "-o", STORED];
    store.s.run(&[&protect[..], options].concat()).ok();
    make_objects(&store.s.path(STORED));
    Some(store)
}

/// Makes objects of a folder's files, as versitygw keeps them: with an etag. Links and empty folders cannot be objects.
fn make_objects(folder: &Path) {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        match () {
            () if kind.is_symlink() => fs::remove_file(path).unwrap(),
            () if kind.is_file() => {
                let etag = format!("{:032x}", NUMBER.fetch_add(1, Ordering::SeqCst));
                setxattr(path, "user.etag", etag.as_bytes(), XattrFlags::empty()).unwrap();
            }
            () if fs::remove_dir(&path).is_err() => make_objects(&path),
            () => {}
        }
    }
}

impl Store {
    fn mount(&self, url: &str) -> Option<Mounted> {
        Mounted::start_by(&self.s, self.command(&["mount", url, "mnt", "-k", "k"]))
    }

    /// Reaches the server by a proxy from now on.
    fn by(&mut self, decide: impl Fn(&Request) -> Does + Send + Sync + 'static) {
        self.at = proxy::start(self.server.address, decide);
    }

    /// Reaches the server by a proxy that counts from now on.
    fn counted(&mut self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        let counted = counts.clone();
        self.by(move |request| {
            counted.note(request);
            Does::Pass
        });
        counts
    }

    fn stored(&self, name: &str) -> std::path::PathBuf {
        self.s.path(STORED).join(name)
    }
}

/// What was asked for.
#[derive(Default)]
struct Counts {
    requests: AtomicUsize,
    bytes: AtomicU64,
}

impl Counts {
    fn note(&self, request: &Request) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes="));
        if let Some((from, to)) = range.and_then(|range| range.split_once('-')) {
            let len = to.parse::<u64>().unwrap() + 1 - from.parse::<u64>().unwrap();
            self.bytes.fetch_add(len, Ordering::SeqCst);
        }
    }

    fn take(&self) -> (usize, u64) {
        (self.requests.swap(0, Ordering::SeqCst), self.bytes.swap(0, Ordering::SeqCst))
    }
}

/// Looks at all entries below a folder, and reads no content.
fn look(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let seen = entries.map(|entry| 1 + if entry.metadata().unwrap().is_dir() { look(&entry.path()) } else { 0 });
    seen.sum()
}

#[track_caller]
fn is_refused<T>(done: std::io::Result<T>, name: &str) {
    let error = done.err().unwrap_or_else(|| panic!("{name} is shown"));
    assert_eq!(error.raw_os_error(), Some(5), "{name}: {error}");
}

#[test]
fn a_folder_of_objects_is_shown_as_its_manifest_lists_it() {
    let Some(mut store) = planted(&[]) else { return };
    let counts = store.counted();
    // What the manifest does not list is not shown.
    fs::write(store.stored("more.phx"), "more").unwrap();
    make_objects(&store.s.path(STORED));
    let Some(mut mounted) = store.mount(DIR) else { return };
    let (requests, _) = counts.take();
    assert!(requests <= 4, "{requests}");
    assert_eq!(look(&mounted.path("")), look(&store.s.path("tree")));
    assert!(store.s.succeeds("ls", &["-lR", "mnt"]));
    assert_eq!(counts.take().0, 0, "the manifest says it");

    assert_eq!(listing(&mounted.path("")), listing(&store.s.path("tree")));
    assert!(store.s.succeeds("diff", &["-r", "--no-dereference", "tree", "mnt"]));
    let mode = |name: &str| mounted.path(name).metadata().unwrap().mode() & 0o7777;
    assert_eq!((mode("a/3"), mode("a/b")), (0o440, 0o750));
    assert_eq!(fs::write(mounted.path("new"), "x").unwrap_err().raw_os_error(), Some(30));
    assert!(fs::read(mounted.path("none")).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound));
    let (requests, bytes) = counts.take();
    // All was opened twice, and read once. Small files come with their first request. The kernel may read pieces in another order,
    // and more of them are then fetched twice.
    assert!(requests <= 2 * 24 + 400 && bytes < LEN as u64 * 4, "{requests} {bytes}");
    mounted.unmount();
    assert!(mounted.ended().success());
    assert_eq!(mounted.log(), "");
}

#[test]
fn without_a_manifest_the_list_of_objects_is_shown() {
    let Some(mut store) = planted(&[]) else { return };
    store.s.lose_manifest(STORED);
    let counts = store.counted();
    for (name, text) in [("notes.txt", "not protected"), ("a/wrong.phx", "not protected either")] {
        fs::write(store.stored(name), text).unwrap();
    }
    make_objects(&store.s.path(STORED));
    let Some(mounted) = store.mount(DIR) else { return };
    counts.take();
    // What a mirror keeps and a list of objects does not.
    let mut expected = listing(&store.s.path("tree"));
    for name in ["link", "dangling", "empty"] {
        expected.remove(name).unwrap();
    }
    assert_eq!(look(&mounted.path("")), expected.len() + 1);
    assert_eq!(counts.take().0, expected.len() - 2 + 1, "one request for each file");
    assert_eq!(mounted.path("large").metadata().unwrap().len(), LEN as u64);
    is_refused(fs::read(mounted.path("a/wrong")), "a/wrong");
    for (name, (_, content)) in expected.iter().filter(|(_, (modified, _))| modified.is_some()) {
        assert!(fs::read(mounted.path(name)).unwrap() == *content, "{name}");
    }
    assert_eq!(mounted.log().lines().count(), 1, "{}", mounted.log());
    assert!(mounted.log().contains("dir.phx/a/wrong.phx: not a Phalanx file"), "{}", mounted.log());
}

#[test]
fn a_range_fetches_what_it_needs() {
    let Some(mut store) = planted(&["--chunk-size", "64K"]) else { return };
    let counts = store.counted();
    let Some(mounted) = store.mount(DIR) else { return };
    counts.take();
    let (file, plain) = (File::open(mounted.path("large")).unwrap(), painted(LEN));
    assert_eq!(counts.take().0, 2, "the first bytes, and the last chunk");
    for at in [20 << 20, 3 << 20, 31 << 20, 12 << 20] {
        let mut buf = vec![0; 5000];
        file.read_exact_at(&mut buf, at).unwrap();
        assert!(buf == plain[at as usize..][..5000]);
    }
    let (requests, bytes) = counts.take();
    assert!((4..=8).contains(&requests) && bytes <= 1 << 20, "{requests} {bytes}");
}

#[test]
fn what_comes_next_is_fetched_early() {
    let Some(mut store) = planted(&[]) else { return };
    let (now, most, requests) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (noted, counted) = (most.clone(), requests.clone());
    store.by(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        noted.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(100));
        now.fetch_sub(1, Ordering::SeqCst);
        Does::Pass
    });
    let Some(mounted) = store.mount(DIR) else { return };
    let mut file = File::open(mounted.path("large")).unwrap();
    // The kernel does not read ahead: it passes on one read at a time, in their order.
    fadvise(&file, 0, None, Advice::Random).unwrap();
    let (mut plain, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while let len @ 1.. = file.read(&mut piece).unwrap() {
        plain.extend_from_slice(&piece[..len]);
    }
    assert!(plain == painted(LEN));
    let (most, requests) = (most.load(Ordering::SeqCst), requests.load(Ordering::SeqCst));
    assert!(most >= 2 && requests < 37, "{most} {requests}");
}

#[test]
fn objects_that_the_manifest_does_not_list_are_refused() {
    let Some(store) = planted(&[]) else { return };
    let s = &store.s;
    s.run(&["key", "new", "other"]).ok();
    for (from, to) in [("a/3.phx", "x"), ("a/4.phx", "a/3.phx"), ("x", "a/4.phx")] {
        fs::rename(store.stored(from), store.stored(to)).unwrap();
    }
    // Another version, another key, no protected file, and none at all.
    for (name, key) in [("5", "k"), ("6", "other")] {
        s.run(&["protect", "-f", "-q", &format!("tree/a/{name}"), "-k", key]).ok();
        fs::rename(s.path(&format!("tree/a/{name}.phx")), store.stored(&format!("a/{name}.phx"))).unwrap();
    }
    fs::write(store.stored("a/7.phx"), "anything").unwrap();
    fs::remove_file(store.stored("a/8.phx")).unwrap();
    make_objects(&s.path(STORED));
    let Some(mounted) = store.mount(DIR) else { return };
    for name in 3..=8 {
        is_refused(fs::read(mounted.path(&format!("a/{name}"))), &format!("a/{name}"));
    }
    assert!(fs::read(mounted.path("a/9")).unwrap() == painted(9 * 1371));
    let log = mounted.log();
    for line in [
        "a/3.phx: another version",
        "a/4.phx: another version",
        "a/5.phx: another version",
        "a/6.phx: another version",
        "a/7.phx: not a Phalanx file",
        "a/8.phx: missing: the manifest lists it",
    ] {
        assert_eq!(log.matches(&format!("{DIR}/{line}")).count(), 1, "{line}: {log}");
    }
    assert_eq!(log.lines().count(), 6, "{log}");
    drop(mounted);

    // A folder of it is compared with the manifest above.
    let mounted = store.mount(&format!("{DIR}/a")).unwrap();
    assert_eq!(fs::read_dir(mounted.path("")).unwrap().count(), 21);
    for name in 3..=8 {
        is_refused(fs::read(mounted.path(&name.to_string())), &name.to_string());
    }
    assert!(fs::read(mounted.path("9")).unwrap() == painted(9 * 1371));
    assert!(mounted.log().contains(&format!("{DIR}/a/8.phx: missing: the manifest lists it")), "{}", mounted.log());
}

#[test]
fn an_object_that_changes_while_it_is_open_is_an_error() {
    let Some(store) = planted(&[]) else { return };
    store.s.lose_manifest(STORED);
    let Some(mounted) = store.mount(DIR) else { return };
    let file = File::open(mounted.path("large")).unwrap();
    file.read_exact_at(&mut [0; 10], 0).unwrap();
    store.s.write("other", vec![7; LEN + 1]);
    store.s.run(&["protect", "-q", "other", "-k", "k"]).ok();
    fs::rename(store.s.path("other.phx"), store.stored("large.phx")).unwrap();
    make_objects(&store.s.path(STORED));
    is_refused(file.read_exact_at(&mut [0; 10], 20 << 20), "large");
    assert!(mounted.log().contains("large.phx: cannot read: the object has changed meanwhile"), "{}", mounted.log());
    drop(file);
    // Whoever opens it now gets the new one as a whole.
    assert!(fs::read(mounted.path("large")).unwrap() == vec![7; LEN + 1]);
}

#[test]
fn a_store_that_fails_is_an_error_and_can_recover() {
    let Some(mut store) = planted(&[]) else { return };
    let how = Arc::new(AtomicUsize::new(0));
    let now = how.clone();
    store.by(move |request| match now.load(Ordering::SeqCst) {
        1 => Does::Answer(403),
        2 if request.reads() => Does::Change(|answer| replace(answer, "bytes ", "bytes 1")),
        3 if request.reads() => Does::Change(|answer| *answer.last_mut().unwrap() ^= 1),
        _ => Does::Pass,
    });
    let Some(mounted) = store.mount(DIR) else { return };
    let large = File::open(mounted.path("large")).unwrap();
    for (failure, line) in [(1, "denies access"), (2, "cannot read: Requested"), (3, "damaged in chunk")] {
        how.store(failure, Ordering::SeqCst);
        is_refused(large.read_exact_at(&mut [0; 10], failure as u64 * (8 << 20)), line);
        let name = format!("a/{}", failure + 10);
        is_refused(fs::read(mounted.path(&name)), &name);
        assert!(mounted.log().contains(line), "{line}: {}", mounted.log());
        how.store(0, Ordering::SeqCst);
        assert!(fs::read(mounted.path(&name)).unwrap() == painted((failure + 10) * 1371));
    }
    assert!(fs::read(mounted.path("large")).unwrap() == painted(LEN));
}

#[test]
fn it_can_be_unmounted_while_the_store_does_not_answer() {
    let Some(mut store) = planted(&[]) else { return };
    let (hangs, held) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (waits, noted) = (hangs.clone(), held.clone());
    store.by(move |_| {
        if waits.load(Ordering::SeqCst) {
            noted.fetch_add(1, Ordering::SeqCst);
            wait_for(|| !waits.load(Ordering::SeqCst));
        }
        Does::Pass
    });
    let Some(mut mounted) = store.mount(DIR) else { return };
    hangs.store(true, Ordering::SeqCst);
    let path = mounted.path("large");
    let reading = thread::spawn(move || fs::read(path));
    wait_for(|| held.load(Ordering::SeqCst) > 0);
    // Others can go on meanwhile.
    assert_eq!(fs::read_dir(mounted.path("a")).unwrap().count(), 21);
    mounted.signal(Signal::TERM);
    wait_for(|| !is_mounted(&mounted.mountpoint));
    hangs.store(false, Ordering::SeqCst);
    assert!(reading.join().unwrap().unwrap() == painted(LEN));
    assert!(mounted.ended().success());
}

#[test]
fn a_few_large_files_take_little_memory() {
    let Some(store) = planted(&[]) else { return };
    for name in ["b", "c", "d"] {
        fs::copy(store.s.path("tree/large"), store.s.path("tree").join(name)).unwrap();
    }
    fs::remove_dir_all(store.s.path(STORED)).unwrap();
    store.s.run(&["protect", "-q", "-R", "tree", "-k", "k", "-o", STORED]).ok();
    make_objects(&store.s.path(STORED));
    let Some(mounted) = store.mount(DIR) else { return };
    let all = Barrier::new(4);
    thread::scope(|scope| {
        for name in ["large", "b", "c", "d"] {
            let (path, all) = (mounted.path(name), &all);
            scope.spawn(move || {
                all.wait();
                assert!(fs::read(path).unwrap() == painted(LEN));
            });
        }
    });
    let status = fs::read_to_string(format!("/proc/{}/status", mounted.child.as_ref().unwrap().id())).unwrap();
    let kib = |name: &str| -> usize {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        value.trim().trim_end_matches(" kB").parse().unwrap()
    };
    // The program itself is larger when it is built for tests.
    let peak = kib("VmHWM:") - kib("RssFile:");
    assert!(peak < 96 << 10, "{peak} KiB");
}

#[test]
fn a_single_object_is_shown_as_a_file() {
    if !is_fuse_here() {
        return;
    }
    let Some(store) = Store::start(Kind::Versity) else { return };
    store.run(&["protect", "f", "-k", "k", "-o", URL]).ok();
    let Some(mounted) = store.mount(URL) else { return };
    assert!(fs::read(mounted.path("f")).unwrap() == painted(LEN));
    assert_eq!(fs::read_dir(mounted.path("")).unwrap().count(), 1);
}

#[test]
fn google_and_plain_servers_are_mounted() {
    if !is_fuse_here() {
        return;
    }
    let Some(store) = Store::start(Kind::FakeGcs) else { return };
    plant(&store.s);
    store.s.run(&["protect", "-q", "-R", "tree", "-k", "k"]).ok();
    for name in ["phalanx.tree", "large.phx", "a/7.phx"] {
        let to = format!("/upload/storage/v1/b/bucket/o?uploadType=media&name=dir%2F{}", name.replace('/', "%2F"));
        store.server.ask("POST", &to, &store.s.read(&format!("tree.phx/{name}")));
    }
    let http = format!("http://{}/bucket/dir/large.phx", store.at);
    for (url, names) in [("gs://bucket/dir", &["large", "a/7"][..]), (&http, &["large"])] {
        let Some(mut mounted) = store.mount(url) else { return };
        for name in names {
            assert!(fs::read(mounted.path(name)).unwrap() == store.s.read(&format!("tree/{name}")), "{url} {name}");
        }
        mounted.unmount();
        assert!(mounted.ended().success());
    }
}

#[test]
fn it_goes_on_in_the_background() {
    let Some(store) = planted(&[]) else { return };
    fs::create_dir(store.s.path("mnt")).unwrap();
    let mut command = store.command(&["mount", DIR, "mnt", "-k", "k", "--daemon", "--idle", "2m"]);
    let ended = Ended(command.output().unwrap());
    if String::from_utf8_lossy(&ended.0.stderr).contains("Operation not permitted") {
        skip("FUSE");
        return required();
    }
    ended.ok();
    let mounted = Mounted::at(store.s.path("mnt"));
    assert!(fs::read(mounted.path("large")).unwrap() == painted(LEN));
    mounted.unmount();
}

/// The lines of docs/stores.md that need FUSE.
#[test]
fn the_lines_of_the_page_mount() {
    const PAGE: &str = include_str!("../../../docs/stores.md");
    if !is_fuse_here() {
        return;
    }
    let Some(store) = Store::start(Kind::Versity) else { return };
    plant(&store.s);
    store.run(&["mirror", "-q", "tree", "s3://bucket/project.phx", "-k", "k"]).ok();
    let lines = PAGE.split("\n```sh fuse\n").nth(1).unwrap().split("\n```").next().unwrap();
    let mut command = shell(&store.s, lines);
    command.env("PHALANX_KEYRING", store.s.path("keyring")).env("PHALANX_STATE", store.s.path("state"));
    for (name, value) in store.command(&[]).get_envs().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
        command.env(name, value.unwrap());
    }
    let ended = Ended(command.output().unwrap());
    let said = String::from_utf8_lossy(&ended.0.stderr).into_owned();
    if said.contains("Operation not permitted") {
        skip("FUSE");
        return required();
    }
    assert_eq!(ended.0.status.code(), Some(0), "{said}");
    assert!(String::from_utf8_lossy(&ended.0.stdout).contains("large"));
    let Some(mounted) = store.mount("s3://bucket/project.phx") else { return };
    assert_eq!(listing(&mounted.path("")), listing(&store.s.path("tree")));
}

#[test]
fn what_cannot_be_mounted_is_refused() {
    let Some(store) = planted(&[]) else { return };
    fs::create_dir(store.s.path("mnt")).unwrap();
    let mount = |url: &str, key: &str| store.run(&["mount", url, "mnt", "-k", key]);
    assert!(mount("s3://bucket/none", "k").fails(4).contains("s3://bucket/none: cannot read: no such object"));
    fs::create_dir(store.s.path("store/bucket/plain")).unwrap();
    fs::write(store.s.path("store/bucket/plain/x.txt"), "x").unwrap();
    assert!(mount("s3://bucket/plain", "k").fails(4).contains("no protected file is in it"));
    store.s.run(&["key", "new", "other"]).ok();
    let ended = mount(DIR, "other");
    let said = String::from_utf8_lossy(&ended.0.stderr).into_owned();
    assert_eq!(ended.0.status.code(), Some(3), "{said}");
    assert!(said.contains("phalanx.tree: no key at hand opens it") && said.contains("a/0.phx: no key"), "{said}");
    assert!(mount("https://127.0.0.1:1/x?Signature=abc", "k").fails(4).find("abc").is_none());
    // A mountpoint that is missing is found before the store is asked.
    let ended =
        Ended(store.server.command(&store.s, "127.0.0.1:1".parse().unwrap(), &["mount", DIR, "no"]).output().unwrap());
    assert!(ended.fails(4).contains("no: no such folder"));
    assert_eq!(Server::unfinished_parts(&store.s), 0);
}
