//! Signatures of objects and of mirrors in stores, which lie beside them there.

use super::proxy::Does;
use super::servers::Kind;
use super::{Store, make_container};
use crate::common::{Ended, painted};
use crate::signatures::{NOT_IT, UNSIGNED, add_keys, line};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

const URL: &str = "s3://bucket/dir/f.phx";
const TREE: &str = "s3://bucket/tree.phx";
/// Where versitygw keeps the objects.
const OBJECT: &str = "store/bucket/dir/f.phx";
const SIGNATURE: &str = "store/bucket/dir/f.phx.sig";
const LEN: usize = 300_000;

/// Signs a file of several chunks, as the object `f.phx`.
fn signed(store: &Store) {
    store.s.write("f", painted(LEN));
    let args = ["protect", "f", "-k", "k", "--chunk-size", "64K", "--sign", "alice", "-f", "-o", URL];
    store.run(&args).ok();
}

fn with_keys(store: Store) -> Store {
    add_keys(&store.s);
    store
}

fn started() -> Option<Store> {
    let store = with_keys(Store::start(Kind::Versity)?);
    signed(&store);
    Some(store)
}

fn check(store: &Store, signers: &str) -> Ended {
    store.run(&["verify", URL, "-k", "k", "--signers", signers])
}

/// Asserts that the object is refused, and that nothing of it comes out.
#[track_caller]
fn refuses(store: &Store, says: &str) {
    let found = check(store, "signers").fails(3);
    assert!(found.contains(says), "{found}");
    let open = ["unprotect", URL, "-k", "k", "--signers", "signers", "-o"];
    let to_stdout = store.run(&[&open[..], &["-"]].concat());
    assert!(to_stdout.0.stdout.is_empty());
    assert!(to_stdout.fails(3).contains(says));
    assert!(store.run(&[&open[..], &["out"]].concat()).fails(3).contains(says));
    assert!(!store.s.exists("out"));
}

#[test]
fn each_store_keeps_signatures() {
    for kind in [Kind::Versity, Kind::Moto, Kind::Azurite] {
        let Some(store) = Store::start(kind) else { continue };
        if kind == Kind::Azurite && !make_container(&store) {
            continue;
        }
        let store = with_keys(store);
        let url = if kind == Kind::Azurite { "az://bucket/some dir/f.phx" } else { "s3://bucket/some dir/f.phx" };
        store.s.write("f", painted(LEN));
        let sign = |signer: &str, more: &[&str]| {
            store.run(&[&["protect", "f", "-k", "k", "-o", url, "--sign", signer], more].concat())
        };
        sign("alice", &[]).ok();
        let verified = store.run(&["verify", url, "-k", "k", "--signers", "signers"]).text();
        assert_eq!(
            verified,
            format!("{url}: {LEN} bytes: whole and authentic, signed by alice@example.org\n"),
            "{kind:?}"
        );
        let opened = store.run(&["unprotect", url, "-k", "k", "--signers", "signers", "-o", "-"]);
        assert_eq!(opened.error(), format!("phalanx: {url}: signed by alice@example.org\n"));
        assert!(opened.ok() == painted(LEN), "{kind:?}");
        store.run(&["unprotect", url, "-k", "k", "--signers", "signers", "-o", "out"]).ok();
        assert!(store.s.read("out") == painted(LEN), "{kind:?}");
        let json = store.run(&["verify", url, "-k", "k", "--signers", "signers", "--json"]).text();
        assert!(json.contains(r#""signer":"alice@example.org""#), "{kind:?} {json}");
        let text = store.run(&["inspect", "--signed-text", url]).text();
        assert!(text.starts_with("phalanx signed file 1\n"), "{kind:?} {text}");
        // Nothing is replaced unasked.
        assert!(sign("alice", &[]).fails(4).contains("exists already"), "{kind:?}");
        store.run(&["verify", url, "-k", "k", "--signers", "signers"]).ok();
        // The new signature is one of the new file, by another key.
        sign("bob", &["-f"]).ok();
        let refused = store.run(&["verify", url, "-k", "k", "--signers", "signers"]).fails(3);
        assert!(refused.contains("no line has this key"), "{kind:?} {refused}");
        store.s.write("others", line("bob", "", &store.s, "bob"));
        store.run(&["verify", url, "-k", "k", "--signers", "others"]).ok();
        // A signature belongs to one content.
        store.run(&["protect", "f", "-k", "k", "-o", url, "-f"]).ok();
        let refused = store.run(&["verify", url, "-k", "k", "--signers", "others"]).fails(3);
        assert!(refused.contains(NOT_IT), "{kind:?} {refused}");
        let unsigned = store.run(&["protect", "f", "-k", "k", "-o", &format!("{url}2")]);
        unsigned.ok();
        let refused = store.run(&["verify", &format!("{url}2"), "-k", "k", "--signers", "signers"]).fails(3);
        assert!(refused.contains(&format!("{url}2: {UNSIGNED} {url}2.sig")), "{kind:?} {refused}");
    }
}

#[test]
fn a_signature_of_something_else_is_refused() {
    let Some(store) = started() else { return };
    check(&store, "signers").ok();
    let own = store.s.read(SIGNATURE);
    let other = ["protect", "f", "-k", "k", "--sign", "alice", "-o", "s3://bucket/dir/g.phx"];
    store.run(&other).ok();
    // That of another object, garbage, and one that is huge.
    let from_other = store.s.read("store/bucket/dir/g.phx.sig");
    for (bytes, says) in [
        (from_other, NOT_IT),
        (Vec::new(), "f.phx.sig: not a signature of ssh-keygen"),
        (own.repeat(2), "f.phx.sig: not a signature of ssh-keygen"),
        (own.repeat(100_000), "f.phx.sig: not a signature of ssh-keygen"),
        (vec![0xff; 1000], "f.phx.sig: not a signature of ssh-keygen"),
    ] {
        store.s.write(SIGNATURE, bytes);
        refuses(&store, says);
    }
    fs::remove_file(store.s.path(SIGNATURE)).unwrap();
    refuses(&store, &format!("{URL}: {UNSIGNED} {URL}.sig"));
    // The object of another file, with its own signature still beside it.
    store.s.write(SIGNATURE, &own);
    check(&store, "signers").ok();
    fs::copy(store.s.path("store/bucket/dir/g.phx"), store.s.path(OBJECT)).unwrap();
    refuses(&store, NOT_IT);
}

/// No more of a huge signature is fetched than one may have.
#[test]
fn a_huge_signature_is_not_fetched() {
    let fetched = Arc::new(AtomicUsize::new(0));
    let counts = fetched.clone();
    let store = Store::behind(move |request| {
        if request.reads() && request.target.contains("f.phx.sig") {
            let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
            let number = |text: &str| text.trim().parse::<usize>().unwrap();
            counts
                .fetch_add(range.map_or(usize::MAX / 2, |(from, to)| number(to) + 1 - number(from)), Ordering::SeqCst);
        }
        Does::Pass
    });
    let Some(store) = store.map(with_keys) else { return };
    signed(&store);
    check(&store, "signers").ok();
    let sound = fetched.swap(0, Ordering::SeqCst);
    assert!((1..=16 << 10).contains(&sound), "{sound}");
    store.s.write(SIGNATURE, vec![b'a'; 50 << 20]);
    assert!(check(&store, "signers").fails(3).contains("not a signature of ssh-keygen"));
    let huge = fetched.load(Ordering::SeqCst);
    assert!(huge <= 17 << 10, "{huge}");
}

/// The object is exchanged after its signature was compared, while it is on its way to standard output.
#[test]
fn an_object_that_changes_between_reads_is_noticed() {
    let (reads, exchange) = (Arc::new(AtomicUsize::new(0)), Arc::new(OnceLock::<(PathBuf, PathBuf)>::new()));
    let (counts, files) = (reads.clone(), exchange.clone());
    // How many reads of the object come before it is exchanged.
    let before = Arc::new(AtomicUsize::new(usize::MAX));
    let limit = before.clone();
    let store = Store::behind(move |request| {
        let is_it = request.reads() && request.target.contains("f.phx") && !request.target.contains(".sig");
        if is_it
            && counts.fetch_add(1, Ordering::SeqCst) == limit.load(Ordering::SeqCst)
            && let Some((from, to)) = files.get()
        {
            fs::rename(from, to).unwrap();
        }
        Does::Pass
    });
    let Some(store) = store.map(with_keys) else { return };
    let open = ["unprotect", URL, "-k", "k", "--signers", "signers", "-o", "-"];
    signed(&store);
    reads.store(0, Ordering::SeqCst);
    assert!(store.run(&open).ok() == painted(LEN));
    let all = reads.load(Ordering::SeqCst);
    assert!(all > 2, "{all}");
    let (other, at) = (store.s.path("store/bucket/dir/g.phx"), store.s.path(OBJECT));
    exchange.set((other, at)).unwrap();
    store.s.write("g", vec![b'!'; LEN]);
    for n in 0..all {
        before.store(usize::MAX, Ordering::SeqCst);
        signed(&store);
        store.run(&["protect", "g", "-k", "k", "--chunk-size", "64K", "-f", "-o", "s3://bucket/dir/g.phx"]).ok();
        reads.store(0, Ordering::SeqCst);
        before.store(n, Ordering::SeqCst);
        let ended = store.run(&open);
        let (code, came_out) = (ended.0.status.code(), &ended.0.stdout);
        assert!(painted(LEN).starts_with(came_out), "{n}: {}", ended.error());
        assert!(matches!(code, Some(3 | 4)), "{n}: {code:?} {}", ended.error());
    }
}

#[test]
fn mirrors_in_stores_are_signed() {
    let Some(store) = Store::start(Kind::Versity).map(with_keys) else { return };
    let s = &store.s;
    fs::create_dir_all(s.path("d/sub")).unwrap();
    s.write("d/a", painted(5000));
    s.write("d/sub/b", painted(100));
    let mirror = |more: &[&str]| store.run(&[&["mirror", "d", TREE, "-k", "k"], more].concat());
    let check = |path: &str| store.run(&["verify", "-R", path, "-k", "k", "--signers", "signers"]);
    mirror(&["--sign", "alice"]).ok();
    let said = check(TREE).text();
    assert!(said.contains("signed by alice@example.org\n2 files, 5100 bytes: whole and authentic"), "{said}");
    check(&format!("{TREE}/sub")).ok();
    store.run(&["unprotect", "-R", TREE, "-o", "out", "-k", "k", "--signers", "signers"]).ok();
    assert!(s.read("out/a") == painted(5000));
    // Nothing has changed, so the signature stays. One by somebody else does not.
    let own = s.read("store/bucket/tree.phx/phalanx.tree.sig");
    mirror(&["--sign", "alice"]).ok();
    assert_eq!(s.read("store/bucket/tree.phx/phalanx.tree.sig"), own);
    mirror(&["--sign", "bob"]).ok();
    assert!(check(TREE).fails(3).contains("no line has this key"));
    mirror(&["--sign", "alice"]).ok();
    check(TREE).ok();
    // A new manifest has no signature but that of the old one, until it gets its own.
    s.write("d/a", painted(5001));
    mirror(&[]).ok();
    assert!(check(TREE).fails(3).contains(NOT_IT));
    let refused = store.run(&["unprotect", "-R", TREE, "-o", "out2", "-k", "k", "--signers", "signers"]).fails(3);
    assert!(refused.contains(NOT_IT) && !s.exists("out2"), "{refused}");
    mirror(&["--sign", "alice", "--delete"]).ok();
    check(TREE).ok();
    // Another machine goes on by the signature of its own key, and not without.
    fs::remove_dir_all(s.path("state")).unwrap();
    s.write("d/c", "c");
    mirror(&["--sign", "alice"]).ok();
    fs::remove_dir_all(s.path("state")).unwrap();
    fs::remove_file(s.path("store/bucket/tree.phx/phalanx.tree.sig")).unwrap();
    assert!(check(TREE).fails(3).contains(&format!("{TREE}/phalanx.tree: {UNSIGNED} {TREE}/phalanx.tree.sig")));
    let refused = mirror(&["--sign", "alice"]).fails(3);
    assert!(
        refused.contains("phalanx.tree: this machine has not written it, and the key has not signed it"),
        "{refused}"
    );
    // A tree that is new has a signature at once.
    store.run(&["protect", "-R", "d", "-o", "s3://bucket/new.phx", "-k", "k", "--sign", "alice"]).ok();
    check("s3://bucket/new.phx").ok();
}

/// An old object is as authentic as the new one, and so is its signature. The signed manifest tells them apart.
#[test]
fn an_old_object_in_a_signed_mirror_is_found() {
    let Some(store) = Store::start(Kind::Versity).map(with_keys) else { return };
    let (s, folder) = (&store.s, "store/bucket/tree.phx");
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", painted(5000));
    let mirror = ["mirror", "d", TREE, "-k", "k", "--sign", "alice"];
    let check = |more: &[&str]| store.run(&[&["verify", "-R", TREE, "-k", "k", "--signers", "signers"], more].concat());
    store.run(&mirror).ok();
    let read = |name: &str| s.read(&format!("{folder}/{name}"));
    let put = |name: &str, bytes: &[u8]| drop(s.write(&format!("{folder}/{name}"), bytes));
    let (object, manifest, signature) = (read("a.phx"), read("phalanx.tree"), read("phalanx.tree.sig"));
    // One that is signed itself, too.
    let one = format!("{TREE}/a.phx");
    store.run(&["protect", "d/a", "-k", "k", "-o", &one, "-f", "--sign", "alice"]).ok();
    let signed = (read("a.phx"), read("a.phx.sig"));
    s.write("d/a", painted(5001));
    store.run(&mirror).ok();
    fs::remove_file(s.path(folder).join("a.phx.sig")).unwrap();
    check(&[]).ok();
    put("a.phx", &signed.0);
    put("a.phx.sig", &signed.1);
    store.run(&["verify", &one, "-k", "k", "--signers", "signers"]).ok();
    fs::remove_file(s.path(folder).join("a.phx.sig")).unwrap();
    for old in [&signed.0, &object] {
        put("a.phx", old);
        for more in [&[][..], &["--quick"]] {
            let found = check(more);
            assert!(found.error().contains("a.phx: another version"), "{}", found.error());
            assert_eq!(found.0.status.code(), Some(3));
        }
        let opened = store.run(&["unprotect", "-R", TREE, "-o", "out", "-k", "k", "--signers", "signers"]);
        assert_eq!(opened.0.status.code(), Some(3));
        assert!(!s.exists("out/a"));
        fs::remove_dir_all(s.path("out")).unwrap();
    }
    // The old signature beside the new manifest, and the reverse.
    let (new_manifest, new_signature) = (read("phalanx.tree"), read("phalanx.tree.sig"));
    put("phalanx.tree.sig", &signature);
    assert!(check(&[]).fails(3).contains(NOT_IT));
    put("phalanx.tree", &manifest);
    put("phalanx.tree.sig", &new_signature);
    assert!(check(&[]).error().contains(NOT_IT));
    // The whole mirror was set back. This machine knows a later generation, and `--expect` names one.
    put("phalanx.tree.sig", &signature);
    let said = check(&[]);
    assert!(said.error().contains("the mirror may have been set back"), "{}", said.error());
    said.ok();
    put("phalanx.tree", &new_manifest);
    put("phalanx.tree.sig", &new_signature);
    let digest = store.run(&["verify", "-R", TREE, "-k", "k", "--quick", "--json"]);
    let digest = String::from_utf8(digest.0.stdout).unwrap();
    let digest = digest.split_once("\"digest\":\"").unwrap().1.split('"').next().unwrap().to_owned();
    put("phalanx.tree", &manifest);
    put("phalanx.tree.sig", &signature);
    check(&["--expect", &digest]).fails(3);
    // It is not signed as the newest, unless it was compared. Then the one before it is old.
    let refused = || assert!(store.run(&mirror).fails(3).contains("this machine has seen a later one"));
    refused();
    store.run(&[&mirror[..], &["--checksum"]].concat()).ok();
    check(&[]).ok();
    put("phalanx.tree", &new_manifest);
    put("phalanx.tree.sig", &new_signature);
    refused();
}
