//! Protected folders in stores: the way back, and the check.

use super::proxy::{self, Does};
use super::{Kind, LEN, Store, make_container};
use crate::common::{Content, Ended, Entries, difference, entries, painted, without_inodes};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

const URL: &str = "s3://bucket/dir.phx";

/// Makes a folder that has some of everything.
fn make_source(store: &Store) {
    let at = |path: &str| store.s.path("src").join(path);
    for folder in ["nothing/within", "with space/ü", "deep/1/2/3/4/5/6/7/8/9", "closed"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    let files = [
        ("a.txt", 1000, 0o640),
        ("empty", 0, 0o600),
        ("run.sh", 70_000, 0o755),
        ("with space/ü/ö ä.bin", 16 << 10, 0o644),
        ("deep/1/2/3/4/5/6/7/8/9/file", 3, 0o400),
        ("closed/inside", (1 << 20) + 1, 0o644),
        ("large", LEN, 0o644),
    ];
    for (number, (name, len, mode)) in files.into_iter().enumerate() {
        fs::write(at(name), painted(len)).unwrap();
        let file = File::open(at(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::new(1_000_000_000 + number as u64, 123_456_789)).unwrap();
        file.set_permissions(Permissions::from_mode(mode)).unwrap();
    }
    for (name, target) in [("link", "a.txt"), ("nothing/up", "../../.."), ("closed/nowhere", "/no such/file")] {
        symlink(target, at(name)).unwrap();
    }
    for (number, folder) in ["nothing/within", "nothing", "deep/1/2/3", "closed", ""].into_iter().enumerate() {
        let opened = File::open(at(folder)).unwrap();
        opened.set_modified(UNIX_EPOCH + Duration::new(900_000_000 + number as u64, 5)).unwrap();
    }
    fs::set_permissions(at("closed"), Permissions::from_mode(0o500)).unwrap();
}

/// versitygw with a protected folder of small files: their names and lengths.
fn with_files(files: &[(&str, usize)]) -> Option<Store> {
    let store = Store::start(Kind::Versity)?;
    for (name, len) in files {
        let path = store.s.path("src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, painted(*len)).unwrap();
    }
    store.run(&["protect", "-R", "src", "-k", "k", "-o", URL]).ok();
    Some(store)
}

impl Store {
    /// Where versitygw keeps an object of the folder.
    fn object(&self, name: &str) -> std::path::PathBuf {
        self.s.path("store/bucket/dir.phx").join(name)
    }

    fn tree(&self, path: &str) -> Entries {
        without_inodes(entries(&self.s.path(path)))
    }

    /// The paths of the files in a folder.
    fn files(&self, path: &str) -> Vec<String> {
        let files = self.tree(path).into_iter().filter(|(_, entry)| matches!(entry.content, Content::File(_)));
        files.map(|(path, _)| path.into_os_string().into_string().unwrap()).collect()
    }
}

#[test]
fn a_folder_is_no_object() {
    let Some(store) = with_files(&[("a", 1), ("b/c", 1)]) else { return };
    for args in [&["verify", URL][..], &["unprotect", URL, "-o", "x"], &["inspect", "s3://bucket/dir.phx/b"]] {
        let said = store.run(args).fails(4);
        assert!(said.contains("it is a folder of objects\nhint: verify --recursive"), "{said}");
    }
    let said = store.run(&["verify", "s3://bucket/dir"]).fails(4);
    assert!(said.contains("no such object or bucket"), "{said}");
}

#[test]
fn a_folder_comes_back_as_it_was() {
    for kind in [Kind::Versity, Kind::Moto, Kind::Azurite] {
        let Some(store) = Store::start(kind) else { continue };
        if kind == Kind::Azurite && !make_container(&store) {
            continue;
        }
        make_source(&store);
        let url = if kind == Kind::Azurite { "az://bucket/some dir/dir.phx" } else { "s3://bucket/some dir/dir.phx" };
        store.run(&["protect", "-R", "src", "-k", "k", "-o", url]).ok();
        let said = store.run(&["unprotect", "-R", url, "-o", "out"]);
        assert!(said.0.status.success() && said.error().contains("7 files"), "{kind:?} {}", said.error());
        let source = store.tree("src");
        assert_eq!(difference(&source, &store.tree("out")), None, "{kind:?}");
        assert!(store.run(&["unprotect", "-R", url, "-o", "out"]).fails(4).contains("folder already"), "{kind:?}");
        fs::write(store.s.path("out/a.txt"), "other").unwrap();
        store.run(&["unprotect", "-R", "-f", url, "-o", "out"]).ok();
        assert_eq!(difference(&source, &store.tree("out")), None, "{kind:?}");
        fs::create_dir(store.s.path("into")).unwrap();
        store.run(&["unprotect", "-R", &format!("{url}/"), "--output-dir", "into"]).ok();
        assert_eq!(difference(&source, &store.tree("into/dir")), None, "{kind:?}");
        for args in [&["verify", "-R", url][..], &["verify", "-R", url, "--quick"]] {
            let said = store.run(args).text();
            assert!(said.contains(": generation "), "{kind:?} {said}");
            assert!(said.contains(if args.len() == 3 { "7 files" } else { "7 files in place" }), "{kind:?} {said}");
        }
    }
}

#[test]
fn what_is_wrong_is_named_and_left_out() {
    let files = ["a", "b", "c", "d", "e", "f", "g/h"].map(|name| (name, 1000));
    let Some(store) = with_files(&files) else { return };
    let object = |name: &str| store.object(name);
    // An older version.
    fs::copy(object("c.phx"), store.s.path("old")).unwrap();
    store.run(&["protect", "-R", "-f", "src", "-k", "k", "-o", URL]).ok();
    fs::copy(store.s.path("old"), object("c.phx")).unwrap();
    // Missing, exchanged, renamed and additional ones.
    fs::remove_file(object("a.phx")).unwrap();
    fs::rename(object("d.phx"), object("x")).unwrap();
    fs::rename(object("e.phx"), object("d.phx")).unwrap();
    fs::rename(object("x"), object("e.phx")).unwrap();
    fs::rename(object("g/h.phx"), object("g/new.phx")).unwrap();
    store.s.run(&["protect", "old", "-k", "k", "-o", "store/bucket/dir.phx/more.phx"]).ok();
    fs::write(object("readme"), "x").unwrap();
    let same = [
        ("a.phx", "missing"),
        ("g/h.phx", "renamed to"),
        ("g/new.phx", "it has the content of"),
        ("more.phx", "additional"),
        ("readme", "additional"),
        ("c.phx", "another version"),
        ("d.phx", "exchanged"),
        ("e.phx", "exchanged"),
    ];
    for args in [&["verify", "-R", "--quick", URL][..], &["verify", "-R", URL], &["unprotect", "-R", URL, "-o", "out"]]
    {
        let said = store.run(args).fails_with_lines(3);
        for (name, what) in same {
            let line = said.lines().find(|line| line.contains(&format!("dir.phx/{name}: ")));
            assert!(line.is_some_and(|line| line.contains(what)), "{args:?} {name}: {said}");
        }
        let named = said.lines().filter(|line| line.contains("dir.phx/")).count();
        assert_eq!(named, same.len(), "{args:?} {said}");
    }
    assert_eq!(store.files("out"), ["b", "f"]);
    assert!(store.s.exists("out/g"));
    let quick = store.run(&["verify", "-R", "--quick", URL]);
    let said = String::from_utf8_lossy(&quick.0.stdout).into_owned();
    assert!(said.contains("2 files in place; 8 wrong"), "{said}");
}

#[test]
fn a_folder_within_is_known_to_the_manifest_above() {
    let Some(store) = with_files(&[("a", 1000), ("b/c", 1000), ("b/d/e", 1000), ("b/f", 10), ("g/h", 10)]) else {
        return;
    };
    symlink("../a", store.s.path("src/b/link")).unwrap();
    fs::set_permissions(store.s.path("src/b/d"), Permissions::from_mode(0o700)).unwrap();
    store.run(&["protect", "-R", "-f", "src", "-k", "k", "-o", URL]).ok();
    let url = format!("{URL}/b/");
    store.run(&["unprotect", "-R", &url, "-o", "out"]).ok();
    assert_eq!(difference(&store.tree("src/b"), &store.tree("out")), None);
    assert!(store.run(&["verify", "-R", &url]).text().contains("3 files"));
    assert!(store.run(&["verify", "-R", "--quick", &url]).text().contains("3 files in place"));
    fs::remove_file(store.object("a.phx")).unwrap();
    fs::copy(store.object("b/c.phx"), store.object("b/d/e.phx")).unwrap();
    for args in
        [&["verify", "-R", "--quick", &url][..], &["verify", "-R", &url], &["unprotect", "-R", &url, "-o", "out2"]]
    {
        let said = store.run(args).fails_with_lines(3);
        assert!(said.contains("dir.phx/b/d/e.phx: exchanged") && !said.contains("a.phx: "), "{args:?} {said}");
    }
    assert_eq!(store.files("out2"), ["c", "f"]);
}

#[test]
fn a_damaged_object_is_found_by_reading_it() {
    let Some(store) = with_files(&[("a", 100_000), ("b", 3 << 20), ("c", 100_000)]) else { return };
    let mut bytes = fs::read(store.object("b.phx")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(store.object("b.phx"), bytes).unwrap();
    store.run(&["verify", "-R", "--quick", URL]).ok();
    let said = store.run(&["verify", "-R", URL]).fails_with_lines(3);
    assert!(said.contains("b.phx: damaged in chunk 1"), "{said}");
    store.run(&["unprotect", "-R", URL, "-o", "out"]).fails_with_lines(3);
    assert_eq!(store.files("out"), ["a", "c"]);
    // A part of it is missing.
    fs::write(store.object("a.phx"), &fs::read(store.object("a.phx")).unwrap()[..50_000]).unwrap();
    let said = store.run(&["verify", "-R", "--quick", URL]).fails_with_lines(3);
    assert!(said.contains("a.phx: "), "{said}");
}

#[test]
fn age_is_compared() {
    let Some(store) = with_files(&[("a", 10)]) else { return };
    let copy = |from: &str, to: &str| {
        let (from, to) = (store.s.path(from), store.s.path(to));
        let _ = fs::remove_dir_all(&to);
        assert!(store.s.succeeds("cp", &["-a", from.to_str().unwrap(), to.to_str().unwrap()]));
    };
    copy("store/bucket/dir.phx", "old");
    store.s.write("src/a", b"new");
    store.run(&["protect", "-R", "-f", "src", "-k", "k", "-o", URL]).ok();
    let said = store.run(&["verify", "-R", "--quick", URL]).text();
    let generation = said.split("generation ").nth(1).unwrap().split(',').next().unwrap();
    store.run(&["verify", "-R", URL, "--at-least", generation]).ok();
    copy("old", "store/bucket/dir.phx");
    let said = store.run(&["verify", "-R", URL]);
    assert!(said.error().contains("the mirror may have been set back"), "{}", said.error());
    let said = store.run(&["verify", "-R", "--quick", URL, "--at-least", generation]).fails(3);
    assert!(said.contains(&format!("which is before {generation}")), "{said}");
    store.run(&["verify", "-R", URL, "--accept"]).ok();
    let digest = "0".repeat(64);
    assert!(store.run(&["verify", "-R", URL, "--expect", &digest]).fails(3).contains("digest"));
}

#[test]
fn a_lost_manifest_is_no_reason_to_lose_the_files() {
    let Some(store) = with_files(&[("a", 10), ("b/c", 20), ("b/d e/f", 30), ("b.d", 0)]) else { return };
    fs::remove_file(store.object("phalanx.tree")).unwrap();
    fs::write(store.object("readme"), "x").unwrap();
    for args in [&["verify", "-R", URL][..], &["unprotect", "-R", URL, "-o", "out"]] {
        assert!(store.run(args).fails(3).contains("its manifest is gone"), "{args:?}");
    }
    for args in [&["verify", "-R", URL, "--quick"][..], &["verify", "-R", URL, "--at-least", "1"]] {
        assert!(store.run(args).fails(3).contains("it has no manifest"), "{args:?}");
    }
    let said = store.run(&["unprotect", "-R", "--ignore-manifest", URL, "-o", "out"]);
    assert!(said.0.status.success() && said.error().contains("no manifest was compared"), "{}", said.error());
    assert!(said.error().contains("readme: the name does not end in .phx: left out"), "{}", said.error());
    assert_eq!(store.files("out"), ["a", "b/c", "b/d e/f", "b.d"]);
    fs::write(store.s.path("out/b/mine"), "x").unwrap();
    let said = store.run(&["unprotect", "-R", "-f", "--ignore-manifest", URL, "-o", "out"]);
    assert!(said.0.status.success() && said.error().contains("out/b/mine"), "{}", said.error());
    store.run(&["verify", "-R", URL, "--accept"]).ok();
    let said = store.run(&["verify", "-R", URL]);
    assert!(said.error().contains("no manifest, so nothing is known"), "{}", said.error());
    assert!(said.text().contains("4 files"));
}

#[test]
fn a_hidden_manifest_is_missed_by_the_folders_below() {
    let Some(mut store) = with_files(&[("a", 10), ("b/c", 20), ("b/d/e", 30)]) else { return };
    let url = format!("{URL}/b/d");
    let (verify, unprotect) = (["verify", "-R", &url], ["unprotect", "-R", &url, "-o", "out"]);
    let elsewhere =
        |store: &Store| Ended(store.command(&verify).env("PHALANX_STATE", store.s.path("other")).output().unwrap());
    let manifest = store.object("phalanx.tree");
    let kept = fs::read(&manifest).unwrap();
    for spoiled in [None, Some(&b"no manifest"[..]), Some(b""), Some(&kept[..kept.len() / 2])] {
        let _ = fs::remove_file(&manifest);
        spoiled.inspect(|bytes| fs::write(&manifest, bytes).unwrap());
        for args in [&verify[..], &unprotect] {
            let said = store.run(args).fails(3);
            let what = if spoiled.is_some() { "dir.phx/phalanx.tree: " } else { "dir.phx: its manifest is gone" };
            assert!(said.contains(what), "{args:?} {said}");
        }
        // Another machine does not know that there was one.
        let said = elsewhere(&store);
        assert!(
            said.0.status.success() && said.error().contains("no manifest, so nothing is known"),
            "{}",
            said.error()
        );
        assert_eq!(said.error().contains("warning: s3://bucket/dir.phx/phalanx.tree: "), spoiled.is_some());
    }
    assert!(!store.s.exists("out"));
    store.run(&["unprotect", "-R", "--ignore-manifest", &url, "-o", "out"]).ok();
    store.run(&["verify", "-R", "--accept", &url]).ok();
    store.run(&verify).ok();
    // The manifest is back, but a store fails, or denies access.
    fs::write(&manifest, &kept).unwrap();
    let healthy = store.at;
    for (status, code, code_elsewhere) in [(400, 4, 4), (403, 4, 0)] {
        store.at = healthy;
        store.run(&["verify", "-R", URL]).ok();
        store.at = proxy::start(healthy, move |request| match request.target.contains("/dir.phx/phalanx.tree") {
            true => Does::Answer(status),
            false => Does::Pass,
        });
        assert!(store.run(&verify).fails(code).contains("dir.phx/phalanx.tree: cannot read"), "{status}");
        assert_eq!(elsewhere(&store).0.status.code(), Some(code_elsewhere), "{status}");
    }
}

#[test]
fn without_a_manifest_a_name_is_only_a_name() {
    let Some(mut store) = with_files(&[("a", 10), ("b/c", 20), ("b/zzzz", 30)]) else { return };
    fs::remove_file(store.object("phalanx.tree")).unwrap();
    // Both would be unprotected to b.
    fs::copy(store.object("a.phx"), store.object("b.phx")).unwrap();
    let args = ["unprotect", "-R", "--ignore-manifest", URL, "-o", "out"];
    let said = store.run(&args).fails_with_lines(4);
    assert!(said.contains("dir.phx/b.phx: ") && said.contains("is in its way"), "{said}");
    assert_eq!(store.files("out"), ["a", "b/c", "b/zzzz"]);
    // A link that lies in the output already leads nowhere.
    fs::remove_dir_all(store.s.path("out/b")).unwrap();
    fs::create_dir(store.s.path("elsewhere")).unwrap();
    symlink(store.s.path("elsewhere"), store.s.path("out/b")).unwrap();
    let said = store.run(&["unprotect", "-R", "-f", "--ignore-manifest", URL, "-o", "out"]).fails_with_lines(4);
    assert!(said.contains("out/b: "), "{said}");
    assert_eq!(store.files("elsewhere"), Vec::<String>::new());
    // A store that lists a name which leads elsewhere.
    store.at = proxy::start(store.server.address, |request| match request.target.contains("list-type=2") {
        true => Does::Change(|answer| {
            let at = answer.windows(7).position(|window| window == b"b/zzzz.").unwrap();
            answer[at..at + 7].copy_from_slice(b"../../.");
        }),
        false => Does::Pass,
    });
    let said = store.run(&["unprotect", "-R", "--ignore-manifest", URL, "-o", "out2"]).fails_with_lines(4);
    assert!(said.contains("the store lists \"dir.phx/../../.phx\": its name"), "{said}");
    assert!(!store.s.exists("phx") && store.s.leftovers().is_empty());
}

#[test]
fn another_key_opens_nothing() {
    let Some(store) = with_files(&[("a", 10), ("b", 10)]) else { return };
    store.s.run(&["key", "new", "other"]).ok();
    for args in [
        &["unprotect", "-R", URL, "-k", "other", "-o", "out"][..],
        &["verify", "-R", URL, "-k", "other"],
        &["verify", "-R", "--quick", URL, "-k", "other"],
    ] {
        let said = store.run(args).fails(3);
        assert!(said.contains("phalanx.tree: "), "{args:?} {said}");
    }
    store.run(&["unprotect", "-R", "--ignore-manifest", URL, "-k", "other", "-o", "out"]).fails_with_lines(3);
    assert_eq!(store.files("out"), Vec::<String>::new());
}

#[test]
fn a_store_that_fails_for_a_while_is_asked_again() {
    let files: Vec<(String, usize)> = (0..40).map(|i| (format!("f{}/{i}", i % 3), i * 1000)).collect();
    let files: Vec<(&str, usize)> = files.iter().map(|(name, len)| (&**name, *len)).collect();
    let Some(mut store) = with_files(&files) else { return };
    let count = AtomicUsize::new(0);
    store.at = proxy::start(store.server.address, move |request| match count.fetch_add(1, Ordering::SeqCst) % 5 {
        1 => Does::Answer(503),
        3 if request.reads() => Does::Cut(500),
        _ => Does::Pass,
    });
    store.run(&["unprotect", "-R", URL, "-o", "out"]).ok();
    assert_eq!(difference(&store.tree("src"), &store.tree("out")), None);
    store.run(&["verify", "-R", URL]).ok();
    store.run(&["verify", "-R", "--quick", URL]).ok();
}

#[test]
fn a_store_that_fails_for_good_is_given_up() {
    let files: Vec<(String, usize)> = (0..300).map(|i| (format!("{i:03}"), 100)).collect();
    let files: Vec<(&str, usize)> = files.iter().map(|(name, len)| (&**name, *len)).collect();
    let Some(mut store) = with_files(&files) else { return };
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    store.at = proxy::start(store.server.address, move |request| {
        let is_of_file = request.reads() && !request.target.contains("phalanx.tree");
        match is_of_file && counted.fetch_add(1, Ordering::SeqCst) >= 100 {
            true => Does::Answer(403),
            false => Does::Pass,
        }
    });
    let given_up = "the store failed for 32 objects in a row";
    let said = store.run(&["unprotect", "-R", URL, "-o", "out"]).fails_with_lines(4);
    assert!(said.contains(given_up) && said.contains("denies access"), "{said}");
    assert!(asked.load(Ordering::SeqCst) < 250);
    // What was written is whole, and no temporary file is left.
    let out = store.files("out");
    assert!(!out.is_empty() && out.iter().all(|name| store.s.read(&format!("out/{name}")) == painted(100)), "{out:?}");
    let said = store.run(&["verify", "-R", "--quick", URL]).fails(4);
    assert!(said.contains(given_up), "{said}");
}

#[test]
fn small_objects_take_few_requests() {
    let files: Vec<(String, usize)> = (0..50).map(|i| (format!("{i}"), 1000)).collect();
    let files: Vec<(&str, usize)> = files.iter().map(|(name, len)| (&**name, *len)).collect();
    let Some(mut store) = with_files(&files) else { return };
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    store.at = proxy::start(store.server.address, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Does::Pass
    });
    for (args, each) in [(&["verify", "-R", "--quick", URL][..], 1), (&["unprotect", "-R", URL, "-o", "out"], 1)] {
        asked.store(0, Ordering::SeqCst);
        store.run(args).ok();
        let asked = asked.load(Ordering::SeqCst);
        assert!(asked <= each * files.len() + 5, "{args:?}: {asked}");
    }
}

#[test]
fn each_object_has_a_line_of_json() {
    let Some(store) = with_files(&[("a", 10), ("b/c", 20), ("d", 30)]) else { return };
    fs::remove_file(store.object("d.phx")).unwrap();
    for args in [&["unprotect", "-R", "--json", URL, "-o", "out"][..], &["verify", "-R", "--json", URL]] {
        let ended = store.run(args);
        assert_eq!(ended.0.status.code(), Some(3));
        let lines: Vec<serde_json::Value> = ended
            .0
            .stdout
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let [.., last] = &lines[..] else { panic!("it has a summary") };
        let summary = &last["summary"];
        assert_eq!((&summary["files"], &summary["plaintext_bytes"]), (&2.into(), &30.into()), "{summary}");
        assert_eq!((&summary["failed"], &summary["exit_code"]), (&1.into(), &3.into()), "{summary}");
        let of = |name: &str| lines.iter().find(|line| line["path"] == format!("{URL}/{name}")).unwrap();
        assert_eq!(of("d.phx")["status"], "failed");
        let is_restored = args[0] == "unprotect";
        assert_eq!(of("b/c.phx")["status"], if is_restored { "unprotected" } else { "whole" });
        assert_eq!(of("b/c.phx")["output"] == "out/b/c", is_restored);
        assert_eq!(summary["generation"].is_u64(), !is_restored);
    }
}

#[test]
fn a_single_object_may_be_named_with_recursive() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    store.run(&["protect", "f", "-k", "k", "-o", "s3://bucket/f.phx"]).ok();
    store.run(&["verify", "-R", "s3://bucket/f.phx"]).ok();
    store.run(&["unprotect", "-R", "s3://bucket/f.phx", "-o", "out"]).ok();
    assert!(store.s.read("out") == painted(LEN));
    for url in ["s3://bucket/none", "s3://none/dir.phx"] {
        let said = store.run(&["verify", "-R", url]).fails(4);
        assert!(said.contains("no such object or bucket") || said.contains("NoSuchBucket"), "{said}");
    }
    for (args, code, words) in [
        (&["protect", "-R", "s3://bucket/f.phx", "-k", "k", "-o", "x"][..], 2, "folders on disks only"),
        (&["unprotect", "-R", URL, "-o", "s3://bucket/x"], 2, "writes to disks only"),
        (&["unprotect", "-R", "src", "--output-dir", "s3://bucket/x"], 2, "writes to disks only"),
        (&["unprotect", "-R", URL, "-o", "x", "--remove"], 2, "--remove"),
        (&["unprotect", "-R", URL], 2, "where its output goes must be said"),
        (&["verify", "-R", "https://127.0.0.1:1/x?Signature=abc"], 4, "list no folders"),
    ] {
        let said = store.run(args).fails(code);
        assert!(said.contains(words) && !said.contains("abc"), "{args:?}: {said}");
    }
}
