//! Keys and passwords of the command: what is refused, what is told, and copies that bring keys back.

mod common;

use common::{Ended, Sandbox, has};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

fn set_mode(s: &Sandbox, name: &str, mode: u32) {
    fs::set_permissions(s.path(name), Permissions::from_mode(mode)).unwrap();
}

/// A file f.phx that the key “work” opens.
fn protected() -> Sandbox {
    let s = Sandbox::new();
    s.write("f", "precious");
    s.run(&["key", "new", "work"]).ok();
    s.run(&["protect", "f", "-k", "work"]).ok();
    s
}

/// Whether this is root, who can give files away.
fn is_root() -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(!required.split([',', ' ']).any(|r| r == "root"), "PHALANX_REQUIRE names root, and this is not");
        println!("skipped: no root");
    }
    is_root
}

/// Runs the command, and fails instead of waiting for ever.
fn run_without_hanging(s: &Sandbox, args: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_phalanx")]).args(args).current_dir(s.path("")).stdin(Stdio::null());
    command.env("PHALANX_KEYRING", s.path("keyring")).env_remove("PHALANX_PASSWORD");
    Ended(command.output().unwrap())
}

#[test]
fn a_keyring_that_others_may_write_to_is_refused() {
    let s = protected();
    for mode in [0o770, 0o720, 0o702, 0o777] {
        set_mode(&s, "keyring", mode);
        for args in [
            &["key", "list"][..],
            &["key", "show", "work"],
            &["key", "new", "other"],
            &["key", "rm", "work", "--force"],
            &["protect", "f", "-k", "work", "-o", "g"],
        ] {
            let line = s.run(args).fails(4);
            assert!(line.contains("refused because other users may write to it (chmod 700 "), "{line}");
        }
        let line = s.run(&["verify", "f.phx"]).fails(3);
        assert!(line.contains("it needs key ") && line.contains("is refused because other users may write"), "{line}");
    }
    assert!(!s.exists("g"));
    // Others may look: the keys are closed.
    set_mode(&s, "keyring", 0o755);
    s.run(&["verify", "f.phx"]).ok();
}

#[test]
fn a_key_that_others_may_read_is_refused_and_told_where_it_is_needed() {
    let s = protected();
    for mode in [0o640, 0o604, 0o620, 0o666] {
        set_mode(&s, "keyring/work.key", mode);
        let line = s.run(&["protect", "f", "-k", "work", "-o", "g"]).fails(4);
        assert!(line.contains("the key work is refused because it is open to other users (chmod 600 "), "{line}");
        let line = s.run(&["unprotect", "f.phx", "-o", "g"]).fails(3);
        assert!(line.contains("the key work is refused because it is open to other users (chmod 600 "), "{line}");
    }
    assert!(!s.exists("g"));
    // Another key opens it, or another is needed: then a refused one is of no concern.
    s.run(&["key", "new", "fine"]).ok();
    s.run(&["protect", "f", "-k", "work", "-k", "fine", "-o", "both"]).fails(4);
    set_mode(&s, "keyring/work.key", 0o600);
    s.run(&["protect", "f", "-k", "work", "-k", "fine", "-o", "both"]).ok();
    set_mode(&s, "keyring/work.key", 0o644);
    let ended = s.run(&["verify", "both"]);
    assert_eq!(ended.error(), "");
    ended.ok();
    s.run(&["protect", "f", "-k", "fine", "-o", "other"]).ok();
    s.run(&["key", "rm", "fine", "--force"]).ok();
    assert!(!s.run(&["verify", "other"]).fails(3).contains("refused"));
    // A password opens it all the same.
    set_mode(&s, "keyring/work.key", 0o600);
    s.secret("password", "p");
    s.run(&["protect", "f", "-k", "work", "--password-file", "password", "-o", "two"]).ok();
    set_mode(&s, "keyring/work.key", 0o644);
    s.run_with_password("p", &["verify", "two"]).ok();
    let line = s.run_with_password("q", &["verify", "two"]).fails(3);
    assert!(line.contains("wrong password; the key work is refused"), "{line}");
    // Nobody is there to be asked for it.
    if has("setsid") {
        let mut command = Command::new("setsid");
        command.args(["--wait", env!("CARGO_BIN_EXE_phalanx"), "verify", "two"]).current_dir(s.path(""));
        let ended = command.env("PHALANX_KEYRING", s.path("keyring")).env_remove("PHALANX_PASSWORD").output().unwrap();
        assert!(Ended(ended).fails(3).contains("or a password; the key work is refused"));
    }
}

#[test]
fn what_belongs_to_another_user_is_refused() {
    if !is_root() {
        return;
    }
    let s = protected();
    s.secret("raw", [1; 32]);
    s.secret("password", "p");
    let give = |name: &str, uid| chown(s.path(name), Some(uid), None).unwrap();
    for (name, args) in [
        ("keyring", &["protect", "f", "-k", "work", "-o", "g"][..]),
        ("keyring/work.key", &["protect", "f", "-k", "work", "-o", "g"]),
        ("raw", &["protect", "f", "--key-file", "raw", "-o", "g"]),
        ("password", &["protect", "f", "--password-file", "password", "-o", "g"]),
    ] {
        give(name, 65534);
        let line = s.run(args).fails(4);
        assert!(line.contains("refused because it belongs to another user (uid 65534, not 0)"), "{line}");
        assert!(!s.exists("g"));
        if name.starts_with("keyring") {
            assert!(s.run(&["verify", "f.phx"]).fails(3).contains("belongs to another user"));
        }
        give(name, 0);
    }
    s.run(&["verify", "f.phx"]).ok();
}

#[test]
fn key_and_password_files_that_are_open_to_others_are_refused() {
    let s = protected();
    s.secret("raw", [1; 32]);
    s.secret("password", "p");
    for (option, name) in [("--key-file", "raw"), ("--password-file", "password")] {
        s.run(&["protect", "f", option, name, "-o", name.to_uppercase().as_str()]).ok();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o644] {
            set_mode(&s, name, mode);
            for args in [["protect", "f"], ["unprotect", &name.to_uppercase()], ["verify", &name.to_uppercase()]] {
                let output = if args[0] == "verify" { &[][..] } else { &["-o", "g"] };
                let line = s.run(&[&args[..], &[option, name], output].concat()).fails(4);
                let expected = format!("{name}: it is refused because it is open to other users (chmod 600 {name})");
                assert!(line.contains(&expected), "{line}");
            }
        }
    }
    let line = s.run(&["protect", "f", "--format", "sefps", "--key-file", "raw", "-o", "g"]).fails_with_lines(4);
    assert!(line.contains("chmod 600 raw"), "{line}");
    assert!(!s.exists("g"));
    // What is no file has no permissions that count.
    s.run_with_input(&[1; 32], &["verify", "RAW", "--key-file", "-"]).ok();
    s.run_with_input(&[1; 32], &["verify", "RAW", "--key-file", "/dev/stdin"]).ok();
    s.run_with_input(b"p\n", &["verify", "PASSWORD", "--password-file", "-"]).ok();
    if has("bash") {
        for line in ["verify RAW --key-file <(cat raw)", "verify PASSWORD --password-file <(cat password)"] {
            let mut bash = Command::new("bash");
            bash.args(["-c", &format!("{} {line}", env!("CARGO_BIN_EXE_phalanx"))]).current_dir(s.path(""));
            Ended(bash.stdin(Stdio::null()).output().unwrap()).ok();
        }
    }
}

#[test]
fn what_is_no_file_in_the_keyring_stops_nobody() {
    if !has("timeout") || !has("mkfifo") {
        return;
    }
    let s = protected();
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(s.path("keyring/a.key")).status().unwrap().success());
    let _socket = UnixListener::bind(s.path("keyring/b.key")).unwrap();
    fs::create_dir(s.path("keyring/c.key")).unwrap();
    std::os::unix::fs::symlink("a.key", s.path("keyring/d.key")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", s.path("keyring/e.key")).unwrap();
    run_without_hanging(&s, &["verify", "f.phx"]).ok();
    run_without_hanging(&s, &["inspect", "f.phx"]).ok();
    let lines = run_without_hanging(&s, &["key", "list"]).fails_with_lines(4);
    assert_eq!(lines.matches("is refused because it is not a regular file").count(), 5, "{lines}");
    for name in ["a", "b", "c", "d", "e"] {
        let line = run_without_hanging(&s, &["protect", "f", "-k", name, "-o", "g"]).fails(4);
        assert!(line.contains(&format!("the key {name} is refused because it is not a regular file")), "{line}");
    }
    fs::rename(s.path("keyring/work.key"), s.path("elsewhere")).unwrap();
    let line = run_without_hanging(&s, &["verify", "f.phx"]).fails(3);
    assert!(line.contains("the key a is refused because it is not a regular file"), "{line}");
    // A link to a key is the user's own way of keeping it elsewhere.
    std::os::unix::fs::symlink(s.path("elsewhere"), s.path("keyring/work.key")).unwrap();
    run_without_hanging(&s, &["verify", "f.phx"]).ok();
}

#[test]
fn a_password_in_the_environment_is_used_or_a_line_says_that_it_is_not() {
    let s = protected();
    s.secret("raw", [1; 32]);
    let slots = |name: &str| s.run(&["inspect", "--json", name]).text().matches("\"type\":\"password\"").count();
    for way in [["-k", "work"], ["--key-file", "raw"]] {
        let ended = s.run_with_password("p", &["protect", "f", way[0], way[1], "-o", "g", "--force"]);
        let told = ended.error();
        let warning =
            "phalanx: warning: PHALANX_PASSWORD is set but not used, since a key was given (--password adds it)";
        assert_eq!(told.trim_end(), warning);
        ended.ok();
        assert_eq!(slots("g"), 0);
        let ended = s.run_with_password("p", &["protect", "f", way[0], way[1], "--password", "-o", "g", "--force"]);
        assert_eq!(ended.error(), "");
        ended.ok();
        assert_eq!(slots("g"), 1);
        s.run_with_password("p", &["verify", "g"]).ok();
    }
    // Who opens a file with a key need not hear of it.
    let ended = s.run_with_password("p", &["verify", "f.phx", "-k", "work"]);
    assert_eq!(ended.error(), "");
    ended.ok();
}

#[test]
fn exit_codes_of_keys_are_those_of_the_table() {
    let s = protected();
    for command in
        [&["key", "show", "gone"][..], &["key", "export", "gone"], &["protect", "f", "-k", "gone", "-o", "g"]]
    {
        let line = s.run(command).fails(4);
        assert!(line.contains("no key named gone in the keyring (phalanx key list shows them)"), "{line}");
    }
    for name in ["a/b", ".hidden", "new\nline", &"x".repeat(65)] {
        for command in
            [&["key", "new", "--", name][..], &["key", "show", name], &["protect", "f", "-o", "g", "-k", name]]
        {
            assert!(s.run(command).fails(2).contains("not a name for a key"));
        }
    }
    for len in [0, 31, 33] {
        s.secret("keyring/short.key", vec![1; len]);
        assert!(s.run(&["key", "show", "short"]).fails(4).contains("the key short is damaged"));
        s.secret("raw", vec![1; len]);
        assert!(s.run(&["protect", "f", "--key-file", "raw", "-o", "g"]).fails(4).contains("exactly 32 raw bytes"));
    }
    let many: Vec<String> = (0..65).map(|i| format!("k{i}")).collect();
    for (i, name) in many.iter().enumerate() {
        s.secret(&format!("keyring/{name}.key"), [i as u8; 32]);
    }
    let args: Vec<&str> = many.iter().flat_map(|name| ["-k", name]).collect();
    assert!(s.run(&[&["protect", "f", "-o", "g"], &args[..]].concat()).fails(2).contains("1 to 64 keys, not 65"));
    assert!(!s.exists("g"));
}
