//! The command line itself: usage, keys, reports, and secrets that must never show.

use crate::common::{Ended, Sandbox, has, painted};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

#[test]
fn wrong_usage_prints_one_line_and_exits_with_2() {
    let s = Sandbox::new();
    s.write("f", "x");
    s.secret("raw", [1; 32]);
    let wrong: &[&[&str]] = &[
        &["-q"],
        &["protect"],
        &["bogus"],
        &["protect", "f", "--bogus"],
        &["protect", "f"], // there is nobody to ask for a password
        &["protect", "f", "--threads", "0"],
        &["protect", "f", "--engine", "abacus"],
        &["protect", "-", "-", "--key-file", "raw"],
        &["protect", "f", "f", "-o", "g", "--key-file", "raw"],
        &["protect", "f", "-o", "f", "--force", "--key-file", "raw"],
        &["unprotect", "f", "f", "-o", "g"],
        &["unprotect", "f.phx", "-q", "-v"],
    ];
    for args in wrong {
        s.run(args).fails(2);
    }
    assert_eq!(s.names(), ["f", "raw"]);
}

#[test]
fn inputs_that_are_not_files_are_refused() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("folder")).unwrap();
    let made = has("mkfifo") && Command::new("mkfifo").arg(s.path("fifo")).status().unwrap().success();
    for name in ["folder", "missing", "/dev/null"].into_iter().chain(made.then_some("fifo")) {
        s.run(&["protect", name, "-k", "k", "-o", "out"]).fails(4);
        s.run(&["unprotect", name, "-o", "out"]).fails(4);
        s.run(&["verify", name]).fails(4);
        s.run(&["inspect", name]).fails(4);
    }
    assert!(!s.exists("out"));
    s.write("text", "no header at all, but long enough to hold one: some text that goes on for a while");
    assert!(s.run(&["unprotect", "text"]).fails(3).contains("not a Phalanx file"));
    s.write("short", "PHALAN");
    s.write("new", b"PHALANX\x02 and what version 2 may bring");
    assert!(s.run(&["verify", "text"]).fails(3).contains("not a Phalanx file"));
    assert!(s.run(&["inspect", "short"]).fails(3).contains("not a Phalanx file"));
    assert!(s.run(&["verify", "new"]).fails(3).contains("version 2"));
}

#[test]
fn keys_are_private_and_never_overwritten() {
    let s = Sandbox::new();
    let made = s.run(&["key", "new", "work"]).text();
    let path = s.path("keyring/work.key");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(s.path("keyring")).unwrap().permissions().mode() & 0o777, 0o700);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 32);

    assert!(s.run(&["key", "new", "work"]).fails(4).contains("exists already"));
    s.secret("raw", [3; 32]);
    s.run(&["key", "import", "work", "raw"]).fails(4);
    assert_eq!(fs::read(&path).unwrap(), bytes);

    s.run(&["key", "import", "b", "raw"]).ok();
    let list = s.run(&["key", "list"]).text();
    assert!(list.contains(made.trim_end()) && list.lines().count() == 2, "{list}");
    assert_eq!(s.run(&["key", "export", "b"]).ok(), [3; 32]);
    s.run(&["key", "export", "b", "-o", "copy"]).ok();
    assert_eq!(s.read("copy"), [3; 32]);
    assert_eq!(fs::metadata(s.path("copy")).unwrap().permissions().mode() & 0o777, 0o600);
    s.run(&["key", "export", "b", "-o", "copy"]).fails(4);
    s.run_with_input(&[4; 32], &["key", "import", "c", "-"]).ok();
    for (len, name) in [(31, "d"), (33, "e"), (0, "f")] {
        s.run_with_input(&vec![5; len], &["key", "import", name, "-"]).fails(4);
    }
    for name in ["", "..", "a/b", "-x", ".hidden", "new\nline", "ü", &"x".repeat(65)] {
        s.run(&["key", "new", "--", name]).fails(2);
    }
    s.run(&["key", "rm", "c", "--force"]).ok();
    s.run(&["key", "rm", "c", "--force"]).fails(4);
    s.run(&["key", "show", "c"]).fails(4);

    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert!(s.run(&["key", "show", "work"]).fails(4).contains("chmod 600"));
    let left: Vec<_> = fs::read_dir(s.path("keyring")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn inspect_shows_what_is_visible_without_a_key() {
    let s = Sandbox::new();
    s.write("f", painted((2 << 20) + 1));
    s.run(&["key", "new", "k"]).ok();
    let id = s.run(&["key", "show", "k"]).text()[..32].to_owned();
    s.secret("password", "p");
    s.run(&["protect", "f", "-k", "k", "--password-file", "password"]).ok();
    let report: serde_json::Value = serde_json::from_str(&s.run(&["inspect", "--json", "f.phx"]).text()).unwrap();
    let expected = serde_json::json!({
        "path": "f.phx", "version": 1, "suite": 1, "cipher": "AES-256-CTR + SHA-3", "header_bytes": 4096,
        "chunk_bytes": 1 << 20, "chunks": 3, "plaintext_bytes": (2 << 20) + 1,
        "file_bytes": 4096 + 3 * 48 + (2 << 20) + 1,
        "slots": [
            {"type": "key", "id": id, "name": "k"},
            {"type": "password", "memory_kib": 65536, "passes": 3, "lanes": 4},
            {"type": "padding", "bytes": 4096 - 177 - 3},
        ],
        "rekey_interrupted": false,
    });
    assert_eq!(report, expected);
    let text = s.run(&["inspect", "f.phx"]).text();
    assert!(text.contains("AES-256-CTR + SHA-3") && text.contains(&id), "{text}");
    let report = s.run_with_input(&s.read("f.phx"), &["inspect", "--json", "-"]).text();
    assert!(report.contains("\"plaintext_bytes\":null"), "{report}");
    s.write("cut.phx", &s.read("f.phx")[..200]);
    s.run(&["inspect", "cut.phx"]).fails(3);
}

#[test]
fn paths_in_json_are_exact() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    for name in ["new\nline", "back\\slash", "quote\"", "esc\x1b[31mred", "del\x7f\u{9b}", "\u{202e}gnp.exe", "ü"] {
        s.run(&["protect", "f", "-k", "k", "-o", name]).ok();
        for args in [["inspect", "--json", name], ["rekey", "--json", name]] {
            let line = s.run(&args).text();
            assert_eq!(line.lines().count(), 1, "{line:?}");
            assert!(!line.trim_end().contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
            let report: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(report["path"], name);
            assert!(report.get("path_hex").is_none());
        }
    }
}

#[test]
fn paths_in_json_that_are_not_utf8_stay_distinct() {
    use std::os::unix::ffi::OsStrExt;
    let s = Sandbox::with_key();
    s.write("f", "x");
    s.run(&["protect", "f", "-k", "k"]).ok();
    for (bytes, hex) in [(&b"a\xff"[..], "61ff"), (b"a\xfe", "61fe")] {
        let name = std::ffi::OsStr::from_bytes(bytes);
        std::fs::copy(s.path("f.phx"), s.path("").join(name)).unwrap();
        for command in ["inspect", "rekey"] {
            let ended = Ended(s.command(&[command, "--json"]).arg(name).output().unwrap());
            let report: serde_json::Value = serde_json::from_str(&ended.text()).unwrap();
            assert_eq!((&report["path"], &report["path_hex"]), (&"a\u{fffd}".into(), &hex.into()), "{command}");
        }
    }
}

#[test]
fn a_name_that_begins_like_an_option_gets_a_hint() {
    let s = Sandbox::with_key();
    assert!(
        s.run(&["protect", "-dash", "-k", "k"]).fails(2).contains("unknown option -d\nhint: phalanx protect --help")
    );
    s.write("-dash", "x");
    let line = s.run(&["protect", "-dash", "-k", "k"]).fails(2);
    assert_eq!(line, "phalanx: unknown option -d\nhint: put -- before names that begin with -");
    s.run(&["protect", "-k", "k", "--", "-dash"]).ok();
    assert!(s.exists("-dash.phx"));
}

#[test]
fn every_kernel_of_this_machine_gives_the_same_bytes() {
    let s = Sandbox::with_key();
    s.write("f", painted((2 << 20) + 77));
    s.run(&["protect", "f", "-k", "k"]).ok();
    let mut tried = 0;
    for aes in ["portable", "aes-ni", "vaes-256", "vaes-512", "armv8"] {
        for keccak in ["portable", "avx2", "avx512", "armv8"] {
            let mut command = s.command(&["verify", "-v", "f.phx"]);
            let ended = Ended(command.env("PHALANX_KERNELS", format!("{aes},{keccak}")).output().unwrap());
            if ended.0.status.code() == Some(2) {
                assert!(ended.fails(2).contains("no kernel named"));
                continue;
            }
            let reported = ended.error();
            assert!(reported.contains(&format!("AES {aes}, SHA-3 {keccak}")), "{reported}");
            ended.ok();
            tried += 1;
        }
    }
    assert!(tried > 0);
    let mut command = s.command(&["verify", "f.phx"]);
    Ended(command.env("PHALANX_KERNELS", "abacus").output().unwrap()).fails(2);
}

#[test]
fn no_secret_is_ever_printed() {
    let s = Sandbox::new();
    let planted = "planted-secret-4711";
    s.write("f", painted(1000));
    s.secret("password", planted);
    s.secret("raw", &planted.repeat(2).as_bytes()[..32]);
    let mut all = Vec::new();
    let mut keep = |ended: Ended| {
        all.extend_from_slice(&ended.0.stdout);
        all.extend_from_slice(&ended.0.stderr);
    };
    keep(s.run(&["key", "import", "k", "raw"]));
    keep(s.run(&["key", "show", "k"]));
    keep(s.run(&["key", "list", "-v"]));
    keep(s.run(&["protect", "-v", "f", "--password-file", "password", "-k", "k", "--key-file", "raw"]));
    keep(s.run(&["unprotect", "-v", "f.phx", "-o", "g"]));
    keep(s.run(&["unprotect", "-v", "f.phx", "-o", "h", "--password-file", "password"]));
    keep(s.run_with_password(planted, &["verify", "-v", "f.phx"]));
    keep(s.run_with_password(planted, &["unprotect", "-v", "f.phx"]));
    keep(s.run_with_password("no", &["unprotect", "-v", "--password-file", "missing", "f.phx"]));
    keep(s.run(&["inspect", "f.phx"]));
    let hex: String = planted.bytes().map(|b| format!("{b:02x}")).collect();
    for secret in [planted, &planted[..12], &hex, &hex[..24]] {
        let found = all.windows(secret.len()).any(|w| w.eq_ignore_ascii_case(secret.as_bytes()));
        assert!(!found, "{secret}: {}", String::from_utf8_lossy(&all));
    }
    assert!(!s.read("f.phx").windows(12).any(|w| w == &planted.as_bytes()[..12]));
}

#[test]
fn a_password_file_loses_exactly_one_newline() {
    let s = Sandbox::new();
    s.write("f", "x");
    s.secret("one", "pass\n");
    s.secret("none", "pass");
    s.secret("two", "pass\n\n");
    s.secret("empty", "");
    s.secret("only", "\n");
    s.run(&["protect", "f", "--password-file", "one"]).ok();
    s.run(&["verify", "f.phx", "--password-file", "none"]).ok();
    s.run(&["verify", "f.phx", "--password-file", "two"]).fails(3);
    s.run_with_password("pass", &["verify", "f.phx"]).ok();
    for name in ["empty", "only"] {
        assert!(s.run(&["protect", "f", "-o", "g", "--password-file", name]).fails(2).contains("empty password"));
    }
    for name in ["empty", "only"] {
        for args in [&["unprotect", "f.phx", "-o", "g"][..], &["verify", "f.phx"]] {
            let line = s.run(&[args, &["--password-file", name]].concat()).fails(2);
            assert_eq!(line, format!("phalanx: {name}: the password is empty"));
        }
    }
    assert!(s.run_with_password("", &["protect", "f", "-o", "g"]).fails(2).contains("PHALANX_PASSWORD"));
    s.run(&["protect", "f", "-o", "g", "--password-file", "missing"]).fails(4);
    assert!(!s.exists("g"));
}

#[test]
fn a_password_is_asked_for_twice() {
    if !has("script") {
        return;
    }
    let s = Sandbox::new();
    s.write("f", "x");
    let (code, shown) = s.at_terminal("protect f", &["hunter2", "hunter3"]);
    assert!(code == 2 && shown.contains("differ") && !s.exists("f.phx"), "{code}: {shown}");
    let (code, shown) = s.at_terminal("protect f", &["hunter2", "hunter2"]);
    assert!(code == 0 && shown.contains("Password: ") && !shown.contains("hunter"), "{code}: {shown}");
    assert_eq!(s.at_terminal("verify f.phx", &["hunter3"]).0, 3);
    assert_eq!(s.at_terminal("verify f.phx", &["hunter2"]).0, 0);
}

#[test]
fn hostile_names_do_no_harm() {
    let s = Sandbox::with_key();
    for name in ["new\nline", "esc\x1b[31mred", "\u{202e}gnp.exe", &"x".repeat(251)] {
        s.write(name, "x");
        s.run(&["protect", "-k", "k", "--", name]).ok();
        let shown = s.run(&["verify", "--", &format!("{name}.phx")]).text();
        assert!(shown.lines().count() == 1 && !shown.contains(['\x1b', '\u{202e}']), "{shown:?}");
        s.run(&["unprotect", "--force", "--", &format!("{name}.phx")]).ok();
        let line = s.run(&["unprotect", "--", &format!("{name}.phx")]).fails(4);
        assert!(!line.contains(['\x1b', '\u{202e}']), "{line:?}");
    }
    s.write(&"y".repeat(252), "x");
    s.run(&["protect", "-k", "k", &"y".repeat(252)]).fails(4);
}

/// Lines of parallel runs, such as those of a cluster, do not mix.
#[test]
fn a_line_is_written_by_one_call() {
    let s = Sandbox::new();
    let options = ["-o", "trace", "-e", "trace=write,writev"];
    let Some(mut command) = s.traced(&options, &["verify", "missing", "absent"]) else { return };
    Ended(command.output().unwrap()).fails_with_lines(4);
    let trace = String::from_utf8(s.read("trace")).unwrap();
    assert_eq!(trace.lines().filter(|line| line.contains("(2, ")).count(), 2, "{trace}");
}

#[test]
fn a_summary_line_appears_only_on_a_terminal() {
    let s = Sandbox::with_key();
    s.write("f", painted(2000));
    let ended = s.run(&["protect", "f", "-k", "k"]);
    assert_eq!((ended.error(), ended.ok()), (String::new(), vec![]));
    if !has("script") {
        return;
    }
    for (switch, lines) in [("", 1), ("-q", 0)] {
        let line = format!("{} protect f -k k --force {switch}", env!("CARGO_BIN_EXE_phalanx"));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring"));
        let shown = Ended(command.env("LC_ALL", "C").stdin(Stdio::null()).output().unwrap()).text();
        assert_eq!(shown.matches("f -> f.phx: 2.0 kB in ").count(), lines, "{shown:?}");
    }
}

#[cfg(not(feature = "stores"))]
#[test]
fn a_program_without_stores_says_so() {
    let s = Sandbox::with_key();
    s.write("f", b"x");
    for args in [
        &["protect", "f", "-k", "k", "-o", "s3://bucket/f"][..],
        &["verify", "gs://bucket/f"],
        &["mount", "s3://bucket/f", "m"],
    ] {
        let said = s.run(args).fails(2);
        assert!(said.contains("built without stores") && said.contains("--features stores"), "{said}");
    }
    // A file of such a name is a path.
    std::fs::create_dir(s.path("s3:")).unwrap();
    s.run(&["protect", "f", "-k", "k", "-o", "./s3://f"]).ok();
    assert!(s.exists("s3:/f"));
}
