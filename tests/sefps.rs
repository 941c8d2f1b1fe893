//! `--format sefps` on the command line: the paper's layout, for study.

mod common;

use common::{Sandbox, painted};

const WARNING: &str = "phalanx: warning: SEFPS's layout is for study only";
const PRINTED: &str = "The data may be altered or decrypted with wrong password";

#[test]
fn the_key_files_length_chooses_the_cipher_and_files_come_back() {
    let s = Sandbox::new();
    for (len, size) in [(16, 123), (24, 0), (32, 1 << 20)] {
        s.secret("key", &painted(len + 9)[9..]);
        s.write("f", painted(size));
        let ended = s.run(&["protect", "f", "--format", "sefps", "--key-file", "key"]);
        assert!(ended.error().starts_with(WARNING) && ended.error().lines().count() == 1, "{}", ended.error());
        ended.ok();
        let want = {
            let p = 16 - size % 16;
            let padded = [painted(size), vec![0; p], vec![p as u8; 16]].concat();
            let digest = phalanx_reference::sha3_256(&padded);
            phalanx_reference::ecb_encrypt(&painted(len + 9)[9..], &[&padded[..], &digest].concat())
        };
        assert!(s.read("f.sefps") == want, "AES-{}", len * 8);
        for engine in ["serial", "cpu"] {
            let args = ["unprotect", "f.sefps", "--format", "sefps", "--key-file", "key", "-o", "back", "-e", engine];
            let ended = s.run(&args);
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
    s.secret("key", [7; 32]);
    for size in [0, 5, (1 << 20) - 64, 1 << 20, (3 << 20) + 1] {
        s.write("f", painted(size));
        s.run(&["protect", "f", "--format", "sefps", "--key-file", "key", "--force"]).ok();
        let piped =
            s.run_with_input(&painted(size), &["protect", "-", "--format", "sefps", "--key-file", "key", "-o", "-"]);
        let piped = piped.ok();
        assert!(piped == s.read("f.sefps"), "{size}");
        let back = s.run_with_input(&piped, &["unprotect", "-", "--format", "sefps", "--key-file", "key"]).ok();
        assert!(back == painted(size), "{size}");
    }
}

#[test]
fn what_does_not_go_with_that_layout_is_wrong_usage() {
    let s = Sandbox::new();
    s.write("f", "x");
    s.write("f.sefps", [0; 64]);
    s.secret("key", [1; 32]);
    s.secret("password", "p");
    s.run(&["key", "new", "k"]).ok();
    for len in [0, 15, 17, 31, 33, 64] {
        s.secret(&format!("key{len}"), vec![1; len]);
    }
    for (command, file) in [("protect", "f"), ("unprotect", "f.sefps")] {
        let fails = |args: &[&str]| {
            let all = [&[command, file, "--format", "sefps"], args].concat();
            let error = s.run(&all).fails_with_lines(2);
            assert!(!error.contains("internal"), "{error}");
        };
        fails(&[]);
        fails(&["--password-file", "password"]);
        fails(&["--key-file", "key", "--password-file", "password"]);
        fails(&["--key", "k"]);
        fails(&["--key-file", "key", "--key", "k"]);
        fails(&["--key-file", "key", "--key-file", "key"]);
        for len in [0, 15, 17, 31, 33, 64] {
            let key = format!("key{len}");
            s.run(&[command, file, "--format", "sefps", "--key-file", &key]).fails_with_lines(4);
        }
        // A password in the environment is not for this.
        s.run_with_password("p", &[command, file, "--format", "sefps"]).fails_with_lines(2);
        assert!(s.run(&[command, file, "--format", "bogus", "--key-file", "key"]).fails(2).contains("bogus"));
    }
    s.run(&["protect", "f", "--format", "sefps", "--key-file", "key", "--password"]).fails(2);
    s.run(&["protect", "f", "--format", "sefps", "--key-file", "key", "--cipher", "aes-256"]).fails(2);
    s.run(&["unprotect", "f.sefps", "--format", "sefps", "--key-file", "key", "--salvage"]).fails(2);
    assert!(!s.exists("f.phx"));
}

#[test]
fn hostile_files_are_refused_in_the_papers_words_and_leave_nothing() {
    let s = Sandbox::new();
    s.secret("key", [1; 16]);
    s.secret("other", [2; 16]);
    s.write("f", painted(1000));
    s.run(&["protect", "f", "--format", "sefps", "--key-file", "key"]).ok();
    let whole = s.read("f.sefps");
    let mut changed = whole.clone();
    changed[500] ^= 1;
    let fails = |bytes: &[u8], key: &str| {
        s.write("bad.sefps", bytes);
        let error = s.run(&["unprotect", "bad.sefps", "--format", "sefps", "--key-file", key]).fails_with_lines(3);
        let last = error.lines().last().unwrap().to_owned();
        assert!(last.contains(PRINTED), "{error}");
        assert!(!s.exists("bad"));
        last
    };
    assert_eq!(fails(&changed, "key"), format!("phalanx: bad.sefps: {PRINTED}"));
    assert_eq!(fails(&whole, "other"), format!("phalanx: bad.sefps: {PRINTED}"));
    fails(&whole[..whole.len() - 1], "key");
    fails(&whole[..48], "key");
    fails(b"", "key");
    // An output that is there already stays.
    s.write("f", "precious");
    s.run(&["unprotect", "f.sefps", "--format", "sefps", "--key-file", "key"]).fails_with_lines(4);
    assert_eq!(s.read("f"), b"precious");
    // Neither format is taken for the other.
    s.run(&["unprotect", "f.sefps", "--key-file", "key", "-o", "out"]).fails(4);
    s.secret("key32", [1; 32]);
    assert!(
        s.run(&["unprotect", "f.sefps", "--key-file", "key32", "-o", "out"]).fails(3).contains("not a Phalanx file")
    );
    assert!(!s.exists("out"));
}

#[test]
fn folders_are_mirrored() {
    let s = Sandbox::new();
    s.secret("key", [1; 16]);
    std::fs::create_dir(s.path("folder")).unwrap();
    s.write("folder/a", painted(100));
    s.write("folder/b", painted(100_000));
    s.run(&["protect", "--recursive", "folder", "--format", "sefps", "--key-file", "key"]).ok();
    s.run(&["unprotect", "--recursive", "folder.sefps", "--format", "sefps", "--key-file", "key", "-o", "back"]).ok();
    assert!(s.read("back/a") == painted(100) && s.read("back/b") == painted(100_000));
}
