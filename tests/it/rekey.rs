//! `phalanx rekey` adds and removes ways in, and keeps the content.

use crate::age;
use crate::common::{Ended, Mounted, Sandbox, has, painted, skip};
use phalanx_reference::{Recipe, Slot, key_id, open_file, seal_file};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

pub const HEADER: usize = 4096;

/// A file `f.phx` that the key `a` opens; there are also keys `b` and `c`, and the password `p` in a file.
pub fn protected() -> Sandbox {
    let s = Sandbox::new();
    for name in ["a", "b", "c"] {
        s.run(&["key", "new", name]).ok();
    }
    s.secret("p", "old password\n");
    s.write("f", painted(20_000));
    s.run(&["protect", "f", "-k", "a"]).ok();
    s
}

/// Asserts which of the keys open the file, each named alone.
#[track_caller]
pub fn opens(s: &Sandbox, expected: &str) {
    for name in ["a", "b", "c"] {
        let ended = s.run(&["unprotect", "f.phx", "-o", "-", "-k", name]);
        if expected.contains(name) {
            assert!(ended.ok() == s.read("f"), "{name}");
        } else {
            ended.fails(3);
        }
    }
}

fn id(s: &Sandbox, key: &str) -> String {
    s.run(&["key", "show", key]).text()[..32].to_owned()
}

pub fn raw(s: &Sandbox, key: &str) -> [u8; 32] {
    s.read(&format!("keyring/{key}.key")).try_into().unwrap()
}

#[test]
fn each_option_changes_the_slots_that_it_names() {
    let s = protected();
    let (a, b) = (id(&s, "a"), id(&s, "b"));
    let before = s.read("f.phx");
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(s.path("f.phx")).unwrap().set_modified(modified).unwrap();

    let listed = s.run(&["rekey", "f.phx"]).text();
    let opened = format!("f.phx\n  slot 1     key {a} (a in the keyring), which opened it now\n");
    assert!(listed.starts_with(&opened) && !listed.contains("after"), "{listed}");
    assert!(s.read("f.phx") == before);

    let reported = s.run(&["rekey", "f.phx", "--add-key", "b", "--add-key-file", "keyring/c.key"]).text();
    let (was, is) = reported.split_once("  after\n").unwrap();
    assert!(was.contains(&a) && !was.contains(&b) && is.contains(&a) && is.contains(&b), "{reported}");
    opens(&s, "abc");
    s.run(&["rekey", "f.phx", "--remove-key", "a", "-q", "-k", "b"]).ok();
    opens(&s, "bc");
    // By id, if the key is gone.
    let c = id(&s, "c");
    fs::rename(s.path("keyring/c.key"), s.path("kept")).unwrap();
    s.run(&["rekey", "f.phx", "--remove-key", &c]).ok();
    fs::rename(s.path("kept"), s.path("keyring/c.key")).unwrap();
    opens(&s, "b");

    s.run(&["rekey", "f.phx", "--add-password-file", "p"]).ok();
    assert!(s.run(&["unprotect", "f.phx", "-o", "-", "--password-file", "p"]).ok() == s.read("f"));
    // The password is a way in already.
    let same = s.read("f.phx");
    s.run(&["rekey", "f.phx", "--add-password-file", "p", "--add-key", "b"]).ok();
    assert!(s.read("f.phx") == same);
    // A new password replaces the old one.
    s.secret("new", "new password");
    let args = ["rekey", "f.phx", "--password-file", "p", "--remove-passwords", "--add-password-file", "new"];
    s.run(&args).ok();
    let without_keys = |args: &[&str]| {
        let mut command = s.command(args);
        Ended(command.env("PHALANX_KEYRING", s.path("none")).output().unwrap())
    };
    without_keys(&["verify", "f.phx", "--password-file", "new"]).ok();
    without_keys(&["verify", "f.phx", "--password-file", "p"]).fails(3);
    // The first slot belongs to b.
    s.run(&["rekey", "f.phx", "--password-file", "new", "--remove-slot", "1", "--add-key", "a"]).ok();
    opens(&s, "a");

    let json: serde_json::Value = serde_json::from_str(
        &s.run(&["rekey", "f.phx", "-k", "a", "--json", "--remove-passwords", "--add-key", "b"]).text(),
    )
    .unwrap();
    let slot = |name: &str| serde_json::json!({"type": "key", "id": id(&s, name), "name": name});
    let password = serde_json::json!({"type": "password", "memory_kib": 65536, "passes": 3, "lanes": 4});
    let padding = |used: usize| serde_json::json!({"type": "padding", "bytes": HEADER - 53 - used});
    let expected = serde_json::json!({
        "path": "f.phx", "changed": true, "fresh": false, "interrupted": null, "opened_by": 2,
        "before": [password, slot("a"), padding(59 + 68)],
        "after": [slot("a"), slot("b"), padding(2 * 59)],
    });
    assert_eq!(json, expected);

    let meta = fs::metadata(s.path("f.phx")).unwrap();
    assert_eq!(meta.modified().unwrap(), modified, "the time is the plaintext's");
    assert!(s.read("f.phx")[HEADER..] == before[HEADER..], "the content is untouched");
    assert!(open_file(&s.read("f.phx"), &[], &[raw(&s, "b")]).unwrap() == s.read("f"), "the reference reads it");
}

#[test]
fn public_keys_are_added_and_removed() {
    let s = protected();
    for name in ["alice.txt", "bob.txt", "ssh-ed25519"] {
        s.secret(name, age::data(name));
    }
    let (alice, bob, ssh) = (age::public("alice.txt"), age::public("bob.txt"), age::data("ssh-ed25519.pub"));
    let opened_by = |identity: &str| s.run(&["unprotect", "f.phx", "-o", "-", "-i", identity]);
    s.run(&["rekey", "f.phx", "--add-recipient", &alice, "--add-recipient", &bob, "--add-recipient", &ssh]).ok();
    for identity in ["alice.txt", "bob.txt", "ssh-ed25519"] {
        assert!(opened_by(identity).ok() == s.read("f"), "{identity}");
    }
    opens(&s, "a");
    // A user who opens the file with an identity sees whose slots they are, and a note that the sender is unknown.
    let ended = s.run(&["rekey", "f.phx", "-i", "bob.txt", "--remove-recipient", &alice.to_uppercase()]);
    assert!(ended.error().contains("the sender is unknown"), "{}", ended.error());
    let reported = ended.text();
    assert!(reported.contains("slot 3     ") && reported.matches("which opened it now").count() == 1, "{reported}");
    opened_by("alice.txt").fails(3);
    opened_by("bob.txt").ok();
    let ended = s.run(&["rekey", "f.phx", "--remove-recipient", &alice]);
    assert!(ended.error().contains(&format!("the recipient {alice} has no slot")), "{}", ended.error());
    ended.ok();
    // A recipient has one slot.
    s.run(&["rekey", "f.phx", "-k", "a", "--add-recipient", &bob, "--add-recipient", &bob, "--remove-recipient", &ssh])
        .ok();
    let header = phalanx_reference::read_header(&s.read("f.phx")).unwrap();
    assert_eq!(header.slots.iter().filter(|(kind, _)| *kind == 3).count(), 1);
    opened_by("bob.txt").ok();
    opened_by("ssh-ed25519").fails(3);
    // The last way in cannot be removed. With --fresh, the public key must be named again.
    s.run(&["rekey", "f.phx", "-i", "bob.txt", "--remove-recipient", &bob]).fails_with_lines(2);
    assert!(s.run(&["rekey", "f.phx", "--fresh"]).fails(2).contains("--add-recipient"));
    s.run(&["rekey", "f.phx", "--fresh", "--add-recipient", &bob]).ok();
    opened_by("bob.txt").ok();
    opens(&s, "a");
    let private = age::data("bob.txt").lines().last().unwrap().to_owned();
    for option in ["--add-recipient", "--remove-recipient"] {
        let line = s.run(&["rekey", "f.phx", option, &private]).fails(2);
        assert!(!line.contains(&private), "{line}");
    }
}

#[test]
fn rekey_warns_of_what_it_cannot_revoke() {
    let s = protected();
    let ended = s.run(&["rekey", "f.phx", "--add-key", "b"]);
    assert_eq!(ended.error(), "");
    let ended = s.run(&["rekey", "f.phx", "--remove-key", "b"]);
    let reported = ended.error();
    ended.ok();
    assert!(
        reported.lines().count() == 2 && reported.contains("file key") && reported.contains("\nhint: --fresh"),
        "{reported}"
    );
    assert!(reported.contains("old copy of the header"), "{reported}");
    // It is no error if a key to be removed has no slot, but it is reported.
    let ended = s.run(&["rekey", "f.phx", "--remove-key", "b"]);
    assert!(ended.error().contains(&id(&s, "b")) && ended.error().contains("has no slot"), "{}", ended.error());
    ended.ok();
    s.run(&["rekey", "f.phx", "--add-key", "b"]).ok();
    let ended = s.run(&["rekey", "f.phx", "--remove-key", "b", "-q"]);
    assert_eq!((ended.error(), ended.text()), (String::new(), String::new()));
}

#[test]
fn the_last_way_in_cannot_be_removed() {
    let s = protected();
    let before = s.read("f.phx");
    for args in [["--remove-key", "a"], ["--remove-slot", "1"]] {
        assert!(s.run(&[&["rekey", "f.phx"][..], &args].concat()).fails(2).contains("no way in would be left"));
    }
    assert!(s.run(&["rekey", "f.phx", "--remove-slot", "2"]).fails(2).contains("no slot 2"), "it is padding");
    assert!(s.read("f.phx") == before);
    // Another slot counts only if a key at hand opens it.
    s.run(&["rekey", "f.phx", "--add-key", "b"]).ok();
    s.run(&["rekey", "f.phx", "-k", "a", "--remove-key", "a"]).fails(2);
    s.run(&["rekey", "f.phx", "-k", "a", "-k", "b", "--remove-key", "a"]).ok();
    opens(&s, "b");
}

#[test]
fn slots_of_unknown_types_are_kept() {
    let s = protected();
    let unknown = |kind| Slot::Raw { kind, body: painted(usize::from(kind)) };
    let recipe = Recipe {
        file_key: [9; 32],
        suite: 1,
        chunk_log2: 12,
        slots: vec![
            unknown(200),
            Slot::Key { key: raw(&s, "a") },
            Slot::Raw { kind: 0, body: vec![0; 300] },
            unknown(77),
        ],
        nonces: (0..5).map(|i| vec![i; 16]).collect(),
    };
    s.write("f.phx", seal_file(&recipe, &s.read("f")));
    let reported = s.run(&["rekey", "f.phx", "--add-key", "b", "--remove-key", "a"]).text();
    assert_eq!(reported.matches("of type 200, not known to this program, 200 bytes").count(), 2, "{reported}");
    opens(&s, "b");
    let header = phalanx_reference::read_header(&s.read("f.phx")).unwrap();
    assert_eq!(header.slots[0], (200, painted(200)));
    assert_eq!(header.slots[1], (77, painted(77)));
    assert_eq!(header.slots[2].1[..16], key_id(&raw(&s, "b")));
    assert!(header.slots[3].0 == 0 && header.slots.len() == 4);
    // They cannot be carried over to another file key.
    assert!(s.run(&["rekey", "f.phx", "--fresh"]).fails(2).contains("slot 1 cannot be kept"));
    s.run(&["rekey", "f.phx", "--fresh", "--remove-slot", "1", "--remove-slot", "2"]).ok();
    opens(&s, "b");
}

#[test]
fn without_room_in_the_header_a_whole_new_file_is_needed() {
    let s = protected();
    let recipe = Recipe {
        file_key: [9; 32],
        suite: 3,
        chunk_log2: 13,
        slots: vec![Slot::Key { key: raw(&s, "a") }],
        nonces: (0..5).map(|i| vec![i; 16]).collect(),
    };
    s.write("f.phx", seal_file(&recipe, &s.read("f")));
    let before = s.read("f.phx");
    let line = s.run(&["rekey", "f.phx", "--add-key", "b"]).fails(2);
    assert!(line.contains("no room") && line.contains("--fresh"), "{line}");
    assert!(s.read("f.phx") == before && s.leftovers().is_empty());
    s.run(&["rekey", "f.phx", "--add-key", "b", "--remove-key", "a"]).ok();
    opens(&s, "b");
    s.run(&["rekey", "f.phx", "--add-key", "c", "--fresh"]).ok();
    opens(&s, "bc");
    let header = phalanx_reference::read_header(&s.read("f.phx")).unwrap();
    assert_eq!((header.len, header.suite, header.chunk_log2), (HEADER, 3, 13));
    // A file can have at most four passwords.
    for i in 0..4 {
        s.secret("p", format!("{i}"));
        s.run(&["rekey", "f.phx", "--add-password-file", "p", "-q", "-k", "b"]).ok();
    }
    s.secret("p", "one more");
    assert!(s.run(&["rekey", "f.phx", "--add-password-file", "p", "-k", "b"]).fails(2).contains("at most 4 passwords"));
}

#[test]
fn a_fresh_file_has_another_file_key() {
    let s = protected();
    s.run(&["rekey", "f.phx", "--add-key", "b", "--add-password-file", "p"]).ok();
    fs::set_permissions(s.path("f.phx"), Permissions::from_mode(0o640)).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(s.path("f.phx")).unwrap().set_modified(modified).unwrap();
    let old = s.read("f.phx");
    // The keys of all slots that stay must be at hand.
    assert!(s.run(&["rekey", "f.phx", "--fresh", "-k", "a"]).fails(2).contains("slot 2 cannot be kept"));
    assert!(s.run(&["rekey", "f.phx", "--fresh", "-k", "a", "-k", "b"]).fails(2).contains("slot 3 cannot be kept"));
    let args = ["rekey", "f.phx", "--fresh", "-k", "a", "--password-file", "p", "--remove-key", "b", "--add-key", "c"];
    let ended = s.run(&args);
    assert!(ended.error().contains("old copies of the file still open"), "{}", ended.error());
    assert!(ended.text().contains("after, under a new file key"));
    opens(&s, "ac");
    s.run(&["verify", "f.phx", "--password-file", "p"]).ok();
    let meta = fs::metadata(s.path("f.phx")).unwrap();
    assert_eq!((meta.modified().unwrap(), meta.mode() & 0o7777), (modified, 0o640));
    // The old header no longer opens the file, not even with the keys that stay.
    let new = s.read("f.phx");
    s.write("f.phx", [&old[..HEADER], &new[HEADER..]].concat());
    opens(&s, "");
    // A damaged file is not protected again.
    let mut damaged = old.clone();
    *damaged.last_mut().unwrap() ^= 1;
    s.write("f.phx", &damaged);
    let line = s.run(&["rekey", "f.phx", "--fresh", "--remove-passwords"]).fails_with_lines(3);
    assert!(line.contains("damaged in chunk 0"), "{line}");
    assert!(s.read("f.phx") == damaged && s.leftovers().is_empty());
}

/// An identity has its public key, so its slot can be made again.
#[test]
fn a_fresh_file_keeps_the_recipients_whose_identities_are_at_hand() {
    let s = protected();
    for name in ["alice.txt", "bob.txt", "ssh-ed25519"] {
        s.secret(name, age::data(name));
    }
    s.write("team", format!("# Alice\n{}\n{}", age::public("alice.txt"), age::data("ssh-ed25519.pub")));
    s.run(&["rekey", "f.phx", "--add-recipients-file", "team", "--remove-key", "a"]).ok();
    let old = s.read("f.phx");
    // The identity of the other recipient is missing, and its slot is not dropped.
    let line = s.run(&["rekey", "f.phx", "--fresh", "-i", "alice.txt"]).fails(2);
    assert!(line.contains("cannot be kept") && line.contains("its identity"), "{line}");
    assert!(s.read("f.phx") == old);
    s.run(&["rekey", "f.phx", "--fresh", "-i", "alice.txt", "-i", "ssh-ed25519"]).ok();
    assert!(s.read("f.phx") != old);
    for identity in ["alice.txt", "ssh-ed25519"] {
        assert!(s.run(&["unprotect", "f.phx", "-o", "-", "-i", identity]).ok() == s.read("f"), "{identity}");
    }
    s.run(&["verify", "f.phx", "-i", "bob.txt"]).fails(3);
    s.run(&["rekey", "f.phx", "--add-recipients-file", "team", "--add-recipients-file", "none", "-k", "a"]).fails(4);
}

#[test]
fn the_command_line_is_checked_first() {
    let s = protected();
    symlink("f.phx", s.path("link.phx")).unwrap();
    fs::create_dir(s.path("d")).unwrap();
    let before = s.read("f.phx");
    assert!(s.run(&["rekey", "-"]).fails(2).contains("in place"));
    assert!(s.run(&["rekey", "link.phx", "--add-key", "b"]).fails(2).contains("it is a link"));
    assert!(s.run(&["rekey", "f.phx", "d", "--remove-slot", "1"]).fails(2).contains("takes one file"));
    assert!(s.run(&["rekey", "-R", "d", "--remove-slot", "1"]).fails(2).contains("cannot be combined"));
    assert!(s.run(&["rekey", "f.phx", "--remove-slot", "0"]).fails(2).contains("a number from 1 to 64"));
    assert!(s.run(&["rekey", "f.phx", "--add-key", "nobody"]).fails(4).contains("no key named nobody"));
    assert!(s.run(&["rekey", "f.phx", "--remove-key", "nobody"]).fails(4).contains("no key named nobody"));
    assert!(s.run(&["rekey", "d"]).fails(4).contains("--recursive"));
    assert!(s.run(&["rekey", "-R", "d"]).fails_with_lines(4).contains("no protected file"));
    assert!(s.run(&["rekey", "f"]).fails(3).contains("not a Phalanx file"));
    assert!(s.run(&["rekey", "missing.phx"]).fails(4).contains("missing.phx"));
    assert!(s.run(&["rekey", "f.phx", "-k", "b"]).fails(3).contains("no key at hand"));
    s.secret("empty", "\n");
    assert!(s.run(&["rekey", "f.phx", "--add-password-file", "empty"]).fails(2).contains("an empty password"));
    for args in [["--add-password", "hunter2"], ["--add-password=hunter2", "x"]] {
        let line = s.run(&[&["rekey", "f.phx"][..], &args].concat()).fails(2);
        assert!(line.contains("does not belong in arguments") && !line.contains("hunter"), "{line}");
    }
    // PHALANX_PASSWORD opens files, but it is not taken as a password to add. Without a terminal none can be asked for.
    if has("setsid") {
        let mut command = Command::new("setsid");
        command.args(["--wait", env!("CARGO_BIN_EXE_phalanx"), "rekey", "f.phx", "-k", "a", "--add-password"]);
        command.current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring")).env("PHALANX_PASSWORD", "p");
        assert!(Ended(command.output().unwrap()).fails(2).contains("--add-password-file"));
    }
    assert!(s.read("f.phx") == before && s.leftovers().is_empty());
}

#[test]
fn whole_trees_change_and_one_failure_does_not_stop_the_rest() {
    let s = protected();
    fs::create_dir_all(s.path("t/sub")).unwrap();
    for i in 0..20 {
        s.write(&format!("t/sub/{i}"), painted(i * 1000));
    }
    s.run(&["protect", "-R", "t", "-k", "a"]).ok();
    s.run(&["protect", "f", "-k", "c", "-o", "t.phx/other.phx"]).ok();
    s.write("t.phx/broken.phx", "PHALANX");
    s.write("t.phx/notes.txt", "left alone");
    symlink("../f.phx", s.path("t.phx/link.phx")).unwrap();
    let outside = s.read("f.phx");
    let args = ["rekey", "-R", "t.phx", "-k", "a", "--add-key", "b", "--json"];
    let ended = s.run(&args);
    let lines = String::from_utf8(ended.0.stdout.clone()).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains("\"changed\":true")).count(), 21, "{lines}");
    assert!(lines.contains("\"path\":\"t.phx/sub/7.phx\""), "{lines}");
    let reported = ended.fails_with_lines(3);
    assert!(
        reported.contains("t.phx/other.phx: no key at hand") && reported.contains("t.phx/broken.phx: "),
        "{reported}"
    );
    assert!(reported.contains("t.phx/notes.txt: the name does not end in .phx: left out"), "{reported}");
    assert!(reported.contains("21 files, 21 changed; 1 left out; 2 failed"), "{reported}");
    assert!(s.run(&["verify", "-R", "t.phx/sub", "-k", "b"]).text().contains("20 files"));
    assert!(s.read("f.phx") == outside, "links are not followed");
    let reported = s.run(&args).fails_with_lines(3);
    assert!(reported.contains("21 files, 0 changed; 1 left out; 2 failed"), "{reported}");

    let ended = s.run(&["rekey", "-R", "t.phx/sub", "f.phx", "--remove-key", "a", "--add-key", "b", "--fresh", "-q"]);
    assert_eq!(ended.error(), "");
    ended.ok();
    // The manifest above lists what was there before.
    let reported = s.run(&["verify", "-R", "t.phx/sub", "-k", "b"]).fails_with_lines(3);
    assert!(reported.contains("t.phx/sub/7.phx: another version"), "{reported}");
    s.lose_manifest("t.phx");
    s.run(&["verify", "-R", "t.phx/sub", "-k", "a"]).fails_with_lines(3);
    assert!(s.run(&["verify", "-R", "t.phx/sub", "-k", "b"]).text().contains("20 files"));
    opens(&s, "b");
    // A volume in a folder changes like a named one.
    s.run(&["init", "t.phx/sub/vol", "-k", "a"]).ok();
    let ended = s.run(&["rekey", "-R", "t.phx/sub", "-k", "a", "-k", "b", "--add-key", "b", "--remove-key", "a"]);
    let reported = ended.error();
    ended.ok();
    assert!(reported.contains("21 files, 1 changed"), "{reported}");
    let config = s.run(&["inspect", "t.phx/sub/vol", "--json"]).text();
    assert_eq!(config.matches("\"type\":\"key\"").count(), 1, "{config}");
    // Several files are named.
    let ended = s.run(&["rekey", "f.phx", "t.phx/other.phx", "missing.phx", "--add-key", "a"]);
    assert!(ended.error().contains("2 files, 2 changed; 1 failed"), "{}", ended.error());
    assert_eq!(ended.0.status.code(), Some(4));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let s = protected();
    // A file system that is read only.
    fs::create_dir(s.path("disk")).unwrap();
    fs::copy(s.path("f.phx"), s.path("disk/f.phx")).unwrap();
    let mount = |args: &[&str]| s.succeeds("mount", args);
    if has("mount") && mount(&["--bind", "disk", "disk"]) && mount(&["-o", "remount,bind,ro", "disk"]) {
        let _mounted = Mounted(s.path("disk"));
        assert!(s.run(&["rekey", "disk/f.phx", "--add-key", "b"]).fails(4).contains("Read-only file system"));
        assert!(s.run(&["rekey", "disk/f.phx", "--fresh"]).fails(4).contains("Read-only file system"));
        s.run(&["rekey", "disk/f.phx"]).ok();
    } else {
        skip("mount");
    }
    // The file belongs to another user. Root can write everything, so the test needs another user.
    if !has("setpriv") {
        return;
    }
    if !rustix::process::getuid().is_root() {
        return skip("root");
    }
    let program = s.copy_of_the_program();
    fs::set_permissions(s.path(""), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(s.path("f.phx"), Permissions::from_mode(0o644)).unwrap();
    for (copy, key) in [("raw", "a"), ("other", "b")] {
        s.secret(copy, raw(&s, key));
        chown(s.path(copy), Some(65534), Some(65534)).unwrap();
    }
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(args);
        Ended(command.current_dir(s.path("")).env_remove("PHALANX_KEYRING").output().unwrap())
    };
    let before = s.read("f.phx");
    run(&["rekey", "f.phx", "--key-file", "raw"]).ok();
    assert!(run(&["rekey", "f.phx", "--key-file", "raw", "--add-key-file", "other"]).fails(4).contains("denied"));
    // The file may be written, but no side file can be made.
    fs::set_permissions(s.path("f.phx"), Permissions::from_mode(0o666)).unwrap();
    assert!(run(&["rekey", "f.phx", "--key-file", "raw", "--add-key-file", "other"]).fails(4).contains("denied"));
    assert!(s.read("f.phx") == before);
}

#[test]
fn rekeying_a_huge_file_takes_no_longer() {
    let s = protected();
    let file = File::options().write(true).open(s.path("f.phx")).unwrap();
    file.set_len(1 << 40).unwrap();
    let blocks = file.metadata().unwrap().blocks();
    let started = Instant::now();
    s.run(&["rekey", "f.phx", "-k", "a", "--add-key", "b", "-q"]).ok();
    // A release build on an idle machine takes less than 50 ms. The limit here is short enough: reading the whole file
    // in this time would need 18 GB/s.
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    let meta = file.metadata().unwrap();
    assert!(meta.len() == 1 << 40 && meta.blocks() <= blocks + 16);
    assert!(s.run(&["rekey", "f.phx", "-k", "b"]).text().contains("which opened it now"));
}
