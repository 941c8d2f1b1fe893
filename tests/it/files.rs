//! Protecting and unprotecting files with the command.

use crate::common::{Sandbox, painted};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, SystemTime};

const WRONG: &str = "wrong key or password, or the header is damaged";

#[test]
fn every_kind_of_key_opens_what_it_protected() {
    let s = Sandbox::new();
    s.secret("password", "correct horse\n");
    s.secret("raw", [9; 32]);
    s.run(&["key", "new", "work"]).ok();
    let ways: [&[&str]; 4] = [
        &["--password-file", "password"],
        &["--key", "work"],
        &["--key-file", "raw"],
        &["--key", "work", "--engine", "serial"],
    ];
    for (i, way) in ways.iter().enumerate() {
        for size in [0, 1, 4097, (1 << 20) + 1] {
            let (name, stored) = (format!("{i}-{size}"), format!("{i}-{size}.phx"));
            s.write(&name, painted(size));
            s.run(&[&["protect", &name], *way].concat()).ok();
            s.run(&[&["verify", &stored], *way].concat()).ok();
            s.run(&[&["unprotect", &stored, "--output", "back", "--force"], *way].concat()).ok();
            assert_eq!(s.read("back"), painted(size));
            assert_eq!(s.read(&name), painted(size), "the input stays");
        }
    }
}

#[test]
fn each_of_several_keys_opens_the_file() {
    let s = Sandbox::new();
    s.write("file", painted(5000));
    s.secret("password", "secret");
    s.secret("raw", [9; 32]);
    s.run(&["key", "new", "a"]).ok();
    s.run(&["key", "new", "b"]).ok();
    s.run(&["protect", "file", "-k", "a", "-k", "b", "--key-file", "raw", "--password-file", "password"]).ok();
    for way in [["--key", "a"], ["--key", "b"], ["--key-file", "raw"], ["--password-file", "password"]] {
        s.run(&["verify", "file.phx", way[0], way[1]]).ok();
    }
    s.run(&["verify", "file.phx"]).ok();
    s.run(&["key", "rm", "a", "--force"]).ok();
    s.run(&["key", "rm", "b", "--force"]).ok();
    s.run_with_password("secret", &["verify", "file.phx"]).ok();
}

#[test]
fn the_cipher_is_the_requested_one() {
    let s = Sandbox::with_key();
    for (suite, cipher) in [(1, "aes-256"), (2, "aes-192"), (3, "aes-128"), (4, "aes-256-gcm"), (5, "aes-256-turbo")] {
        s.write("f", painted(70_000));
        s.run(&["protect", "f", "-k", "k", "--cipher", cipher, "--force"]).ok();
        let json = s.run(&["inspect", "--json", "f.phx"]).text();
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["suite"], suite);
        s.run(&["unprotect", "f.phx", "--force"]).ok();
        assert_eq!(s.read("f"), painted(70_000));
    }
    s.run(&["protect", "f", "-k", "k", "--cipher", "des"]).fails(2);
}

#[test]
fn permissions_times_and_attributes_carry_over() {
    let s = Sandbox::with_key();
    let path = s.write("f", "x");
    let xattr = rustix::fs::setxattr(&path, "user.origin", b"ours", rustix::fs::XattrFlags::empty());
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(time).unwrap();
    file.set_permissions(Permissions::from_mode(0o4754)).unwrap();
    s.run(&["protect", "f", "-k", "k"]).ok();
    s.run(&["unprotect", "f.phx", "-o", "g", "--preserve"]).ok();
    for name in ["f.phx", "g"] {
        let meta = fs::metadata(s.path(name)).unwrap();
        assert_eq!(meta.modified().unwrap(), time, "{name}");
        assert_eq!(meta.mode() & 0o7777, 0o754, "{name}: permissions without set-user-ID");
        if xattr.is_ok() {
            let mut value = [0; 4];
            rustix::fs::getxattr(s.path(name), "user.origin", &mut value).unwrap();
            assert_eq!(&value, b"ours", "{name}");
        } else {
            println!("skipped: no extended attributes on this file system");
        }
    }
    // These are not authenticated, so by default they do not decide who may read the plaintext.
    fs::set_permissions(s.path("f.phx"), Permissions::from_mode(0o777)).unwrap();
    let line = format!("umask 027; exec {} unprotect f.phx -o h", env!("CARGO_BIN_EXE_phalanx"));
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring"));
    assert!(command.status().unwrap().success());
    let meta = fs::metadata(s.path("h")).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.modified().unwrap()), (0o640, time));
    assert!(rustix::fs::getxattr(s.path("h"), "user.origin", &mut [0; 4]).is_err());
    // The stored permissions can narrow those of a new file, and never widen them.
    fs::set_permissions(s.path("f.phx"), Permissions::from_mode(0o600)).unwrap();
    s.run(&["unprotect", "f.phx", "-o", "i"]).ok();
    assert_eq!(fs::metadata(s.path("i")).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn an_existing_output_is_refused_unless_forced() {
    let s = Sandbox::with_key();
    s.write("f", "new");
    s.write("f.phx", "old");
    let line = s.run(&["protect", "f", "-k", "k"]).fails(4);
    assert!(line.contains("f.phx: exists already"), "{line}");
    assert_eq!(s.read("f.phx"), b"old");
    symlink("nowhere", s.path("g.phx")).unwrap();
    s.write("g", "new");
    s.run(&["protect", "g", "-k", "k"]).fails(4);
    s.run(&["protect", "f", "g", "-k", "k", "--force"]).ok();
    assert!(!s.exists("nowhere"), "a link is replaced, not followed");
    s.run(&["unprotect", "f.phx"]).fails(4);
    s.run(&["unprotect", "f.phx", "--force"]).ok();
    assert_eq!(s.read("f"), b"new");
}

#[test]
fn wrong_keys_end_in_one_line_and_no_output() {
    let s = Sandbox::new();
    s.write("f", painted(100));
    s.secret("password", "right");
    s.secret("wrong", "wrong");
    s.run(&["key", "new", "k"]).ok();
    s.run(&["key", "new", "other"]).ok();
    s.run(&["protect", "f", "-o", "p.phx", "--password-file", "password"]).ok();
    s.run(&["protect", "f", "-o", "k.phx", "-k", "k"]).ok();
    let before = s.names();

    let line = s.run(&["unprotect", "p.phx", "--password-file", "wrong"]).fails(3);
    assert!(line.contains(WRONG) && line.contains("p.phx"), "{line}");
    assert!(s.run_with_password("nope", &["unprotect", "p.phx"]).fails(3).contains(WRONG));
    let line = s.run(&["unprotect", "p.phx", "--key", "k"]).fails(3);
    assert!(line.contains("needs a password"), "{line}");
    // Without a terminal no password can be asked for.
    assert!(s.run(&["unprotect", "p.phx"]).fails(3).contains("needs a password"));

    let id = s.run(&["key", "show", "k"]).text()[..32].to_owned();
    let line = s.run(&["unprotect", "k.phx", "--key", "other"]).fails(3);
    assert!(line.contains(&id), "{line}");
    s.run(&["key", "rm", "k", "--force"]).ok();
    let line = s.run(&["unprotect", "k.phx"]).fails(3);
    assert!(line.contains(&id), "{line}");
    assert_eq!(s.names(), before);
}

#[test]
fn every_flipped_bit_is_found() {
    let s = Sandbox::new();
    s.write("f", painted(40));
    s.run(&["key", "new", "k"]).ok();
    s.run(&["protect", "f", "-k", "k"]).ok();
    let stored = s.read("f.phx");
    // Most of the header is padding. A few places stand for all of it.
    let counts = |at: &usize| !(100..960).contains(at) || at.is_multiple_of(43);
    // The core's tests flip every bit. Here a few of each field go through the whole command.
    for at in (0..stored.len()).filter(counts).filter(|at| at.is_multiple_of(7) || at.is_multiple_of(43)) {
        let mut altered = stored.clone();
        altered[at] ^= 1 << (at % 8);
        s.write("altered.phx", altered);
        s.run(&["unprotect", "altered.phx"]).fails(3);
        assert!(!s.exists("altered"), "byte {at}");
        s.run(&["verify", "altered.phx"]).fails(3);
    }
    for len in (0..stored.len()).filter(counts) {
        s.write("altered.phx", &stored[..len]);
        s.run(&["unprotect", "altered.phx"]).fails(3);
        assert!(!s.exists("altered"), "{len} bytes");
    }
    assert_eq!(s.names(), ["altered.phx", "f", "f.phx"]);
}

#[test]
fn pipes_give_the_same_bytes_as_files() {
    let s = Sandbox::with_key();
    for size in [0, 1, 1 << 20, (9 << 20) + 5] {
        let plain = painted(size);
        let stored = s.run_with_input(&plain, &["protect", "-", "-k", "k"]).ok();
        assert!(s.run_with_input(&stored, &["unprotect", "-"]).ok() == plain);
        s.run_with_input(&stored, &["verify", "-"]).ok();
        s.write("f.phx", &stored);
        assert!(s.run(&["unprotect", "f.phx", "-o", "-"]).ok() == plain);
        s.run_with_input(&plain, &["protect", "-", "-k", "k", "-o", "g.phx", "--force"]).ok();
        s.run_with_input(&s.read("g.phx"), &["unprotect", "-", "-o", "g", "--force"]).ok();
        assert!(s.read("g") == plain);
    }
    let mut stored = s.run_with_input(&painted(3 << 20), &["protect", "-", "-k", "k"]).ok();
    let last = stored.len() - 1;
    stored[last] ^= 1;
    s.run_with_input(&stored, &["unprotect", "-"]).fails(3);
    s.run_with_input(&stored[..last], &["unprotect", "-", "-o", "h"]).fails(3);
    assert!(!s.exists("h"));
}

#[test]
fn one_failure_does_not_stop_the_others() {
    let s = Sandbox::with_key();
    s.write("a", "a");
    s.write("c", "c");
    let ended = s.run(&["protect", "a", "missing", "c", "-k", "k"]);
    assert!(ended.fails(4).contains("missing"));
    assert!(s.exists("a.phx") && s.exists("c.phx"));
    s.write("b.phx", "not ours");
    fs::create_dir(s.path("out")).unwrap();
    assert!(
        s.run(&["unprotect", "a.phx", "b.phx", "c.phx", "--output-dir", "out"])
            .fails(3)
            .contains("b.phx: not a Phalanx file")
    );
    assert_eq!((s.read("out/a"), s.read("out/c")), (b"a".to_vec(), b"c".to_vec()));
    assert!(!s.exists("out/b"));
}

#[test]
fn remove_deletes_the_input_after_the_output_exists() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    s.run(&["protect", "f", "-k", "k", "--remove"]).ok();
    assert_eq!(s.names(), ["f.phx"]);
    s.write("f", "in the way");
    s.run(&["unprotect", "f.phx", "--remove"]).fails(4);
    s.run(&["unprotect", "f.phx", "--remove", "--force"]).ok();
    assert_eq!(s.names(), ["f"]);
    assert_eq!(s.read("f"), b"x");
    s.run(&["protect", "f", "-k", "k", "--remove", "--no-sync"]).fails(2);
    s.run(&["protect", "f", "-k", "k", "--remove", "-o", "-"]).fails(2);
}

#[test]
fn a_damaged_file_of_several_chunks_leaves_nothing() {
    let s = Sandbox::with_key();
    s.write("f", painted(20 << 20));
    s.run(&["protect", "f", "-k", "k", "-o", "g.phx", "--no-sync"]).ok();
    let mut stored = s.read("g.phx");
    stored[15 << 20] ^= 1;
    s.write("g.phx", stored);
    for engine in ["serial", "cpu"] {
        let line = s.run(&["unprotect", "g.phx", "--engine", engine]).fails(3);
        assert!(!line.contains("password") && line.contains("damaged in chunk 14\n"), "{line}");
        assert_eq!(s.names(), ["f", "g.phx"]);
    }
}

#[test]
fn each_kind_of_damage_has_its_own_sentence() {
    let s = Sandbox::with_key();
    s.write("f", painted((3 << 20) + 7));
    s.run(&["protect", "f", "-k", "k", "-o", "g.phx"]).ok();
    let stored = s.read("g.phx");
    let header = stored.len() - ((3 << 20) + 7 + 4 * 48);
    let chunk = (1 << 20) + 48;
    let mut damaged = stored.clone();
    damaged[header + chunk + 100] ^= 1;
    let mut at_end = stored.clone();
    *at_end.last_mut().unwrap() ^= 1;
    let extended = |n: usize| [&stored[..], &painted(n)].concat();
    let whole = &stored[..header + 3 * chunk];
    for (bytes, sentence) in [
        (damaged, "damaged in chunk 1\n"),
        (at_end, "damaged in chunk 3, the last one, or truncated or extended there"),
        (whole.to_vec(), "truncated: chunks are missing at its end"),
        (stored[..header + 2 * chunk + 20].to_vec(), "truncated: its last chunk is not whole"),
        (stored[..header].to_vec(), "truncated: it has no chunk"),
        (extended(10), "damaged in chunk 3, the last one, or truncated or extended there"),
        (extended(2 << 20), "damaged in chunk 3\n"),
    ] {
        s.write("bad.phx", bytes);
        for command in ["unprotect", "verify"] {
            let reported = s.run(&[command, "bad.phx"]).fails(3);
            assert!(reported.contains(sentence) && !reported.contains("password"), "{reported}");
            assert!(reported.contains("--salvage"), "{reported}");
        }
        assert!(!s.exists("bad"));
    }
    // If the last chunk is full, extra bytes can be distinguished from damage.
    s.write("f", painted(3 << 20));
    s.run(&["protect", "f", "-k", "k", "-o", "g.phx", "--force"]).ok();
    for more in [10, 100, 3 << 20] {
        s.write("bad.phx", [s.read("g.phx"), painted(more)].concat());
        let reported = s.run(&["verify", "bad.phx"]).fails(3);
        assert!(reported.contains("bytes after the end"), "{more}: {reported}");
    }
    // What is saved of it has its length, also if it ends in zeros.
    s.write("f", vec![0; 1 << 20]);
    s.run(&["protect", "f", "-k", "k", "-o", "g.phx", "--force"]).ok();
    s.write("bad.phx", [s.read("g.phx"), vec![1]].concat());
    s.run(&["unprotect", "bad.phx", "--salvage"]).fails(3);
    assert_eq!(s.read("bad").len(), 1 << 20);
    // The input is an output of an earlier run, as matched by a pattern.
    let reported = s.run(&["protect", "g.phx", "-k", "k"]).fails(4);
    assert!(reported.contains("g.phx: protected already"), "{reported}");
    s.write("mine.phx", "not protected at all");
    s.run(&["protect", "mine.phx", "-k", "k"]).ok();
}
