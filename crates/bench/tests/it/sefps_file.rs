//! `phalanx-bench sefps-file`: the paper's layout, for study.

use crate::common::{Ended, Sandbox, painted};

const WARNING: &str = "phalanx-bench: warning: SEFPS's layout is for study only";
const PRINTED: &str = "The data may be altered or decrypted with wrong password";

fn protect(s: &Sandbox, from: &str, to: &str) -> Ended {
    s.run(&["sefps-file", "protect", "--key-file", "key", from, to])
}

fn unprotect(s: &Sandbox, from: &str, to: &str) -> Ended {
    s.run(&["sefps-file", "unprotect", "--key-file", "key", from, to])
}

#[test]
fn the_length_of_the_key_file_chooses_the_cipher() {
    let s = Sandbox::new();
    for (len, size) in [(16, 123), (24, 0), (32, 1 << 20)] {
        s.write("key", &painted(len + 9)[9..]);
        s.write("f", painted(size));
        let ended = protect(&s, "f", "f.sefps");
        assert!(ended.error().starts_with(WARNING) && ended.error().lines().count() == 1, "{}", ended.error());
        ended.ok();
        let want = {
            let p = 16 - size % 16;
            let padded = [painted(size), vec![0; p], vec![p as u8; 16]].concat();
            let digest = phalanx_reference::sha3_256(&padded);
            phalanx_reference::ecb_encrypt(&painted(len + 9)[9..], &[&padded[..], &digest].concat())
        };
        assert!(s.read("f.sefps") == want, "AES-{}", len * 8);
        for threads in ["1", "3"] {
            let ended = s.run(&["sefps-file", "unprotect", "--key-file", "key", "-t", threads, "f.sefps", "back"]);
            assert!(ended.error().starts_with(WARNING), "{}", ended.error());
            ended.ok();
            assert!(s.read("back") == painted(size));
            std::fs::remove_file(s.path("back")).unwrap();
        }
        std::fs::remove_file(s.path("f.sefps")).unwrap();
    }
}

#[test]
fn pipes_give_the_same_bytes() {
    let s = Sandbox::new();
    s.write("key", [7; 32]);
    let piped =
        |command, bytes: &[u8]| s.run_with_input(bytes, &["sefps-file", command, "--key-file", "key", "-", "-"]).ok();
    for size in [0, 5, (1 << 20) - 64, (1 << 20) - 1, 1 << 20, (3 << 20) + 1] {
        s.write("f", painted(size));
        s.run(&["sefps-file", "protect", "--key-file", "key", "--force", "f", "f.sefps"]).ok();
        let protected = piped("protect", &painted(size));
        assert!(protected == s.read("f.sefps"), "{size}");
        assert!(piped("unprotect", &protected) == painted(size), "{size}");
    }
}

#[test]
fn wrong_usage_is_refused() {
    let s = Sandbox::new();
    s.write("f", "x");
    s.write("key", [1; 16]);
    for command in ["protect", "unprotect"] {
        s.run(&["sefps-file", command]).fails(2);
        s.run(&["sefps-file", command, "f", "g"]).fails(2);
        s.run(&["sefps-file", command, "--key-file", "key", "f"]).fails(2);
        s.run(&["sefps-file", command, "--key-file", "key", "--key-file", "key", "f", "g"]).fails(2);
        s.run(&["sefps-file", command, "--key-file", "missing", "f", "g"]).fails(4);
        for len in [0, 15, 17, 31, 33, 64] {
            s.write("bad", vec![1; len]);
            s.run(&["sefps-file", command, "--key-file", "bad", "f", "g"]).fails(4);
        }
    }
    protect(&s, "missing", "g").fails(4);
    protect(&s, "f", "missing/g").fails(4);
    assert!(!s.exists("g"));
}

#[test]
fn hostile_files_are_refused_with_the_papers_words_and_leave_nothing() {
    let s = Sandbox::new();
    s.write("key", [1; 16]);
    s.write("f", painted(1000));
    protect(&s, "f", "f.sefps").ok();
    let whole = s.read("f.sefps");
    let mut changed = whole.clone();
    changed[500] ^= 1;
    let fails = |bytes: &[u8]| {
        s.write("bad", bytes);
        assert_eq!(unprotect(&s, "bad", "out").fails(3), format!("phalanx-bench: bad: {PRINTED}"));
        assert!(!s.exists("out"));
    };
    [&changed[..], &whole[..whole.len() - 1], &whole[..48], b""].into_iter().for_each(fails);
    // An existing output is kept.
    s.write("f", "precious");
    assert!(unprotect(&s, "f.sefps", "f").fails(4).contains("--force"));
    assert_eq!(s.read("f"), b"precious");
    s.write("key", [2; 16]);
    fails(&whole);
    assert_eq!(s.names(), ["bad", "f", "f.sefps", "key"]);
}
