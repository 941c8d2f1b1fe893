//! Keys and passwords of the command: refusals, messages, and copies that restore keys.

use crate::common::{Ended, Sandbox, has};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

/// The key 00 01 … 1f, as in `docs/design-format.md`.
const TEXT: &str = "phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ";

fn key() -> [u8; 32] {
    std::array::from_fn(|i| i as u8)
}

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

/// Runs the command, and fails if it does not end.
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
            assert!(line.contains("refused because other users may write to it\nhint: chmod 700 "), "{line}");
        }
        let line = s.run(&["verify", "f.phx"]).fails(3);
        assert!(line.contains("it needs key ") && line.contains("is refused because other users may write"), "{line}");
    }
    assert!(!s.exists("g"));
    // Others may list the folder, but the keys are closed.
    set_mode(&s, "keyring", 0o755);
    s.run(&["verify", "f.phx"]).ok();
}

/// Other users can lock a folder that they may look into.
#[test]
fn a_locked_keyring_is_not_waited_for_without_end() {
    let s = protected();
    let folder = fs::File::open(s.path("keyring")).unwrap();
    rustix::fs::flock(&folder, rustix::fs::FlockOperation::LockShared).unwrap();
    let line = run_without_hanging(&s, &["key", "rm", "work", "--force"]).fails(4);
    assert!(line.contains("keyring: another run changes the keyring"), "{line}");
    // What only reads it goes on, and so does a change that need not wait for long.
    s.run(&["verify", "f.phx"]).ok();
    let waits = s.command(&["key", "new", "other"]).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    drop(folder);
    assert!(waits.wait_with_output().unwrap().status.success());
}

#[test]
fn a_key_that_others_may_read_is_refused_and_named_if_it_is_needed() {
    let s = protected();
    for mode in [0o640, 0o604, 0o620, 0o666] {
        set_mode(&s, "keyring/work.key", mode);
        let line = s.run(&["protect", "f", "-k", "work", "-o", "g"]).fails(4);
        assert!(line.contains("the key work is refused because it is open to other users\nhint: chmod 600 "), "{line}");
        let line = s.run(&["unprotect", "f.phx", "-o", "g"]).fails(3);
        assert!(line.contains("the key work is refused because it is open to other users\nhint: chmod 600 "), "{line}");
    }
    assert!(!s.exists("g"));
    // If another key opens it, or is needed, a refused one does not matter.
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
    // A password still opens it.
    set_mode(&s, "keyring/work.key", 0o600);
    s.secret("password", "p");
    s.run(&["protect", "f", "-k", "work", "--password-file", "password", "-o", "two"]).ok();
    set_mode(&s, "keyring/work.key", 0o644);
    s.run_with_password("p", &["verify", "two"]).ok();
    let line = s.run_with_password("q", &["verify", "two"]).fails(3);
    assert!(line.contains("or the header is damaged; the key work is refused"), "{line}");
    // There is no terminal where the password could be asked for.
    if has("setsid") {
        let mut command = Command::new("setsid");
        command.args(["--wait", env!("CARGO_BIN_EXE_phalanx"), "verify", "two"]).current_dir(s.path(""));
        let ended = command.env("PHALANX_KEYRING", s.path("keyring")).env_remove("PHALANX_PASSWORD").output().unwrap();
        assert!(Ended(ended).fails(3).contains("or a password; the key work is refused"));
    }
}

#[test]
fn secrets_of_another_user_are_refused() {
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
                let expected =
                    format!("{name}: it is refused because it is open to other users\nhint: chmod 600 {name}");
                assert!(line.contains(&expected), "{line}");
            }
        }
    }
    assert!(!s.exists("g"));
    // Only the permissions of regular files matter.
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
fn irregular_files_in_the_keyring_are_refused() {
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
    // A link to a key is accepted: users can keep keys elsewhere.
    std::os::unix::fs::symlink(s.path("elsewhere"), s.path("keyring/work.key")).unwrap();
    run_without_hanging(&s, &["verify", "f.phx"]).ok();
}

#[test]
fn an_unused_password_in_the_environment_is_reported() {
    let s = protected();
    s.secret("raw", [1; 32]);
    let slots = |name: &str| s.run(&["inspect", "--json", name]).text().matches("\"type\":\"password\"").count();
    for way in [["-k", "work"], ["--key-file", "raw"]] {
        let ended = s.run_with_password("p", &["protect", "f", way[0], way[1], "-o", "g", "--force"]);
        let reported = ended.error();
        let warning =
            "phalanx: warning: PHALANX_PASSWORD is set but not used, since a key was given\nhint: --password adds it";
        assert_eq!(reported.trim_end(), warning);
        ended.ok();
        assert_eq!(slots("g"), 0);
        let ended = s.run_with_password("p", &["protect", "f", way[0], way[1], "--password", "-o", "g", "--force"]);
        assert_eq!(ended.error(), "");
        ended.ok();
        assert_eq!(slots("g"), 1);
        s.run_with_password("p", &["verify", "g"]).ok();
    }
    // There is no warning if a key opens the file.
    let ended = s.run_with_password("p", &["verify", "f.phx", "-k", "work"]);
    assert_eq!(ended.error(), "");
    ended.ok();
}

#[test]
fn a_password_among_the_arguments_is_refused_and_not_repeated() {
    let s = protected();
    for args in [
        &["protect", "--password", "hunter2"][..],
        &["protect", "--password", "hunter2", "f"],
        &["protect", "f", "-k", "work", "-p", "hunter2", "-o", "g"],
        &["protect", "-fp", "hunter2", "f"],
        &["protect", "--password=hunter2", "f"],
        &["protect", "-phunter2", "f"],
        &["unprotect", "--password", "hunter2", "f.phx"],
        &["unprotect", "--password=hunter2", "f.phx"],
        &["verify", "--password=hunter2", "f.phx"],
        &["key", "export", "--all", "--password", "hunter2"],
        &["key", "export", "--all", "--password=hunter2"],
        &["--password=hunter2"],
    ] {
        let line = s.run(args).fails(2);
        assert!(line.contains("a password does not belong in arguments"), "{args:?}: {line}");
        assert!(!line.contains("hunter"), "{line}");
    }
    assert_eq!(s.names(), ["f", "f.phx"]);
    // An existing path is accepted as a path.
    s.write("hunter2", "x");
    s.run_with_password("p", &["protect", "--password", "hunter2"]).ok();
    // The text of a key is refused too.
    for args in [&["key", "import", TEXT][..], &["key", "import", "k", TEXT], &["key", "new", TEXT]] {
        let line = s.run(args).fails(2);
        assert!(line.contains("a key's text does not belong in arguments") && !line.contains("AAAQE"), "{line}");
    }
}

#[test]
fn deleting_a_key_checks_that_it_exists_before_it_asks() {
    let s = protected();
    for args in [&["key", "rm", "gone"][..], &["key", "rm", "gone", "--force"]] {
        assert!(s.run(args).fails(4).contains("no key named gone in the keyring"));
    }
    assert!(s.run(&["key", "rm", "work"]).fails(2).contains("--force"));
    assert!(s.run_with_input(b"y\n", &["key", "rm", "work"]).fails(2).contains("--force"));
    assert!(s.exists("keyring/work.key"));
    if has("script") {
        assert!(!s.at_terminal("key rm gone", &["y"]).1.contains("[y/N]"));
        let (code, shown) = s.at_terminal("key rm work", &["n"]);
        assert!(code == 2 && shown.contains("[y/N]") && s.exists("keyring/work.key"), "{code}: {shown}");
        let (code, shown) = s.at_terminal("key rm work", &["y"]);
        assert!(code == 0 && !s.exists("keyring/work.key"), "{code}: {shown}");
        s.run(&["key", "new", "work"]).ok();
    }
    s.run(&["key", "rm", "work", "--force"]).ok();
    assert!(!s.exists("keyring/work.key"));
}

#[test]
fn export_overwrites_only_with_force() {
    let s = protected();
    s.write("copy", "something else");
    let line = s.run(&["key", "export", "work", "-o", "copy"]).fails(4);
    assert!(line.contains("exists already"), "{line}");
    assert_eq!(s.read("copy"), b"something else");
    s.run(&["key", "export", "work", "-o", "copy", "--force"]).ok();
    assert_eq!(s.read("copy"), s.read("keyring/work.key"));
    assert_eq!(fs::metadata(s.path("copy")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(s.run(&["key", "export", "work", "-o", "-"]).ok(), s.read("keyring/work.key"));
    assert!(!s.exists("-"));
    s.run(&["key", "export", "work", "--password", "-o", "other"]).fails(2);
    s.run(&["key", "export", "gone", "-o", "other"]).fails(4);
    assert!(!s.exists("other"));
    // What is not protected has no name that says so.
    for args in [&["key", "export", "work", "-o", "keys.phx"][..], &["key", "export", "--all", "-o", "keys.phx"]] {
        let line = s.run(args).fails(2);
        assert!(line.contains("keys.phx: the copy would not be protected, as its name says"), "{line}");
    }
    assert!(!s.exists("keys.phx"));
    // A shell makes files that others may read.
    let into = |mode, args: &[&str]| {
        s.write("copy", "");
        set_mode(&s, "copy", mode);
        let copy = fs::File::options().write(true).open(s.path("copy")).unwrap();
        Ended(s.command(args).stdout(copy).output().unwrap())
    };
    let is_told = |ended: Ended| {
        let is_told = ended.error().contains("warning: other users may read the file that standard output goes to");
        ended.ok();
        is_told
    };
    assert!(is_told(into(0o644, &["key", "export", "work"])) && is_told(into(0o644, &["key", "export", "--all"])));
    assert!(!is_told(into(0o600, &["key", "export", "work"])));
    s.write("pw", "password");
    set_mode(&s, "pw", 0o600);
    assert!(!is_told(into(0o644, &["key", "export", "--all", "--password-file", "pw"])));
    if has("script") {
        assert_eq!(s.at_terminal("key export work", &[]).0, 2);
        let (code, shown) = s.at_terminal("key export work --text", &[]);
        assert!(code == 0 && shown.contains("phalanx-key-1-"), "{code}: {shown}");
    }
}

/// A name that is found is one, whatever else cannot be read. Of one that is not found nothing is said then.
#[test]
fn inspect_says_that_a_key_is_missing_if_all_were_looked_at() {
    let s = Sandbox::with_key();
    s.run(&["key", "new", "other"]).ok();
    s.write("f", "");
    s.run(&["protect", "f", "-k", "k", "-k", "other"]).ok();
    s.run(&["key", "rm", "other", "--force"]).ok();
    let inspected = || s.run(&["inspect", "f.phx"]);
    let (all, warning) = (inspected(), "warning: not all keys of the keyring could be looked at");
    assert!(!all.error().contains(warning), "{}", all.error());
    assert!(all.text().contains("(k in the keyring)") && inspected().text().contains("(not in the keyring)"));
    set_mode(&s, "keyring/k.key", 0o644);
    s.run(&["key", "new", "third"]).ok();
    s.run(&["protect", "f", "-k", "third", "-o", "g.phx"]).ok();
    let named = s.run(&["inspect", "g.phx"]);
    assert_eq!(named.error(), "");
    assert!(named.text().contains("(third in the keyring)"));
    s.run(&["key", "rm", "third", "--force"]).ok();
    let missing = s.run(&["inspect", "g.phx"]);
    assert_eq!(missing.error(), "");
    assert!(missing.text().contains("(not in the keyring)"));
    let _socket = UnixListener::bind(s.path("keyring/socket.key")).unwrap();
    let unknown = s.run(&["inspect", "g.phx"]);
    assert!(unknown.error().contains(warning), "{}", unknown.error());
    assert!(!unknown.text().contains("in the keyring"));
}

#[test]
fn what_is_no_key_of_the_keyring_is_named() {
    let s = Sandbox::new();
    s.run(&["key", "new", "--identity", "me"]).ok();
    let line = s.run(&["key", "new", "--identity", "me"]).fails(4);
    assert!(line.contains("me: exists already") && line.contains("hint: take another name"), "{line}");
    let line = s.run(&["key", "import", "me", "me"]).fails(4);
    assert!(line.contains("hint: it holds an identity, which --identity takes"), "{line}");
    s.write("f", "");
    let line = s.run(&["protect", "f", "--recipient", "me"]).fails(2);
    assert!(line.contains("hint: --recipients-file takes a file"), "{line}");
    let ended = s.run(&["verify", "-R", "missing", "-k", "k"]);
    assert!(!ended.error().contains("whole") && ended.0.stdout.is_empty(), "{}", ended.error());
}

#[test]
fn a_key_survives_export_and_import_as_text() {
    let s = Sandbox::new();
    s.secret("raw", key());
    s.run(&["key", "import", "k", "raw"]).ok();
    assert_eq!(s.run(&["key", "export", "k", "--text"]).text(), format!("{TEXT}\n"));
    s.run(&["key", "export", "k", "--text", "-o", "text"]).ok();
    assert_eq!(s.read("text"), format!("{TEXT}\n").as_bytes());
    assert_eq!(fs::metadata(s.path("text")).unwrap().permissions().mode() & 0o777, 0o600);
    s.run(&["key", "import", "from-file", "text"]).ok();
    let typed = [
        ("plain", TEXT.to_owned()),
        ("lower", TEXT.to_lowercase() + "\r\n"),
        ("bare", TEXT.replace('-', "")),
        ("spaces", format!("\n {} \n", TEXT.replace('-', " "))),
        ("digits", TEXT[..14].to_owned() + &TEXT[14..].replace('O', "0").replace('I', "1").replace('B', "8")),
    ];
    for (name, text) in &typed {
        s.run_with_input(text.as_bytes(), &["key", "import", name, "-"]).ok();
    }
    for name in typed.iter().map(|(name, _)| *name).chain(["from-file"]) {
        assert_eq!(s.read(&format!("keyring/{name}.key")), key(), "{name}");
    }

    let mut exchanged = TEXT.as_bytes().to_vec();
    exchanged.swap(18, 20);
    let wrong = [
        (
            TEXT.replace("AAAQE", "AAAQF").into_bytes(),
            "a character of the key's text is wrong: the checksum does not fit",
        ),
        (exchanged, "the checksum does not fit"),
        (TEXT[..TEXT.len() - 1].into(), "has 59 characters"),
        (TEXT.replace("AAAQE", "AAA9E").into_bytes(), "not one of A to Z and 2 to 7"),
        (TEXT.replace("key-1", "key-2").into_bytes(), "neither 32 raw bytes nor one key's text"),
        (TEXT.repeat(100).into_bytes(), "longer than one key"),
        (b"".to_vec(), "neither"),
    ];
    for (text, why) in wrong {
        let line = s.run_with_input(&text, &["key", "import", "wrong", "-"]).fails(4);
        assert!(line.contains(why) && !line.contains("AYEAU"), "{line}");
    }
    assert!(!s.exists("keyring/wrong.key"));
    s.run(&["key", "import", "k", "text"]).fails(4);
    s.write("shared", TEXT);
    set_mode(&s, "shared", 0o644);
    assert!(s.run(&["key", "import", "shared", "shared"]).error().contains("other users may have read this key"));
}

#[test]
fn all_keys_survive_export_and_import() {
    let s = Sandbox::new();
    assert!(s.run(&["key", "export", "--all", "-o", "backup"]).fails(4).contains("no key"));
    for name in ["b", "a", "c@lab.example"] {
        s.run(&["key", "new", name]).ok();
    }
    let keys = || ["a", "b", "c@lab.example"].map(|name| s.read(&format!("keyring/{name}.key")));
    let before = keys();
    s.run(&["key", "export", "--all", "-o", "backup"]).ok();
    assert_eq!(fs::metadata(s.path("backup")).unwrap().permissions().mode() & 0o777, 0o600);
    let text = String::from_utf8(s.read("backup")).unwrap();
    assert_eq!(s.run(&["key", "export", "--all"]).text(), text);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("a  phalanx-key-1-"), "{}", lines.len());
    s.run(&["key", "export", "--all", "-o", "backup"]).fails(4);

    // If all keys are there, there is nothing to do. A missing one is restored.
    assert_eq!(s.run(&["key", "import", "--all", "backup"]).text(), "");
    s.run(&["key", "rm", "b", "--force"]).ok();
    assert!(s.run(&["key", "import", "--all", "backup"]).text().ends_with("  b\n"));
    assert_eq!(keys(), before);

    // Another key with such a name is kept, and the other keys are still imported.
    for name in ["a", "b"] {
        s.run(&["key", "rm", name, "--force"]).ok();
    }
    s.run(&["key", "new", "a"]).ok();
    let other = s.read("keyring/a.key");
    assert!(s.run(&["key", "import", "--all", "backup"]).fails(4).contains("another key is named a already"));
    assert_eq!(s.read("keyring/a.key"), other);
    assert_eq!(keys()[1..], before[1..]);

    // A bad line shows that the file has changed, so nothing of it is imported.
    fs::remove_dir_all(s.path("keyring")).unwrap();
    let (name, key_text) = lines[1].split_once("  ").unwrap();
    for (bad, why) in [
        (format!("{}\n{name} {}x\n", lines[0], key_text), "line 2: the key's text has 61 characters"),
        (format!("{}\n\n{key_text}\n", lines[0]), "line 3: it does not begin with a key's name"),
        (format!("{}\nname\n", lines[0]), "line 2: not a key's text"),
        (format!("{}\n../x {key_text}\n", lines[0]), "line 2: it does not begin with a key's name"),
        ("\n".to_owned(), "it holds no key"),
    ] {
        let line = s.run_with_input(bad.as_bytes(), &["key", "import", "--all", "-"]).fails(4);
        assert!(line.contains(why) && !line.contains(&key_text[14..19]), "{line}");
        assert!(!s.exists("keyring"));
    }
    s.run(&["key", "import", "--all"]).fails(2);
    s.run(&["key", "import", "--all", "name", "backup"]).fails(2);
    s.run(&["key", "import", "name", "backup"]).fails(4);

    // A key that cannot be read fails the whole copy.
    s.run(&["key", "import", "--all", "backup"]).ok();
    set_mode(&s, "keyring/b.key", 0o644);
    assert!(s.run(&["key", "export", "--all", "-o", "half"]).fails(4).contains("the key b is refused"));
    assert!(!s.exists("half"));
}

#[test]
fn the_file_of_all_keys_may_be_protected_by_a_password() {
    let s = Sandbox::new();
    for name in ["a", "b"] {
        s.run(&["key", "new", name]).ok();
    }
    let text = s.run(&["key", "export", "--all"]).ok();
    s.secret("password", "correct horse\n");
    s.run(&["key", "export", "--all", "--password-file", "password", "-o", "file.phx"]).ok();
    s.run_with_password("correct horse", &["key", "export", "--all", "--password", "-o", "variable.phx"]).ok();
    let piped = s.run(&["key", "export", "--all", "--password-file", "password"]).ok();
    s.write("piped.phx", piped);
    for name in ["file.phx", "variable.phx", "piped.phx"] {
        // An ordinary protected file.
        let back = s.run(&["unprotect", name, "--password-file", "password", "-o", "-"]).ok();
        assert!(back == text && s.read(name).starts_with(b"PHALANX"));
        fs::rename(s.path("keyring"), s.path(&format!("old-{name}"))).unwrap();
        s.run(&["key", "import", "--all", name]).fails(3);
        s.run_with_password("wrong", &["key", "import", "--all", name]).fails(3);
        assert!(!s.exists("keyring"));
        if name == "variable.phx" {
            s.run_with_password("correct horse", &["key", "import", "--all", name]).ok();
        } else {
            s.run(&["key", "import", "--all", name, "--password-file", "password"]).ok();
        }
        assert_eq!(s.run(&["key", "export", "--all"]).ok(), text);
    }
    let mut damaged = s.read("file.phx");
    *damaged.last_mut().unwrap() ^= 1;
    s.run_with_input(&damaged, &["key", "import", "--all", "-", "--password-file", "password"]).fails(3);

    // A password that is set but not used is reported.
    let ended = s.run_with_password("p", &["key", "export", "--all", "-o", "plain"]);
    assert!(ended.error().contains("warning: PHALANX_PASSWORD is set but not used"), "{}", ended.error());
    ended.ok();
    assert_eq!(s.read("plain"), text);
    s.run_with_password("", &["key", "export", "--all", "--password", "-o", "empty"]).fails(2);
    assert!(!s.exists("empty"));
}

#[test]
fn a_keyring_without_keys_is_reported_with_its_path() {
    let s = Sandbox::new();
    s.write("f", "x");
    let folder = s.path("keyring").display().to_string();
    let line = s.run(&["protect", "f", "-k", "work"]).fails(4);
    let why = format!(
        "no key named work in the keyring {folder}, which does not exist\nhint: phalanx key new makes it; phalanx key import brings a key back from a copy"
    );
    assert_eq!(line, format!("phalanx: {why}"));
    let expect_line = |what: &str| {
        let ended = s.run(&["key", "list"]);
        assert_eq!(ended.error(), format!("phalanx: the keyring {folder} {what}\nhint: phalanx key new makes a key\n"));
        assert_eq!(ended.text(), "");
    };
    expect_line("does not exist yet");
    assert!(!s.exists("keyring"));
    s.run(&["key", "new", "work"]).ok();
    assert_eq!(s.run(&["key", "list"]).error(), "");
    s.run(&["key", "rm", "work", "--force"]).ok();
    expect_line("is empty");
    for args in [&["key", "list", "--names"][..], &["-q", "key", "list"]] {
        let ended = s.run(args);
        assert_eq!((ended.error(), ended.text()), (String::new(), String::new()));
    }
}

#[test]
fn exit_codes_of_keys_match_the_table() {
    let s = protected();
    for command in
        [&["key", "show", "gone"][..], &["key", "export", "gone"], &["protect", "f", "-k", "gone", "-o", "g"]]
    {
        let line = s.run(command).fails(4);
        let folder = s.path("keyring").display().to_string();
        let why = format!("no key named gone in the keyring {folder}\nhint: phalanx key list shows them");
        assert!(line.contains(&why), "{line}");
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

/// The first 32 bytes of a key's text are not accepted as a raw key, because they would be another key.
#[test]
fn a_truncated_key_text_is_not_a_raw_key() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    s.run(&["protect", "f", "-k", "k"]).ok();
    let text = s.run(&["key", "export", "k", "--text", "--output", "-"]).ok();
    for len in [20, 31, 32] {
        s.secret("cut", &text[..len]);
        for args in ["protect f --key-file cut -o g", "key import new cut", "rekey f.phx --add-key-file cut"] {
            let line = s.run(&args.split(' ').collect::<Vec<_>>()).fails(4);
            assert!(line.contains("cut: ") && line.contains("instead of 60"), "{len} {args}: {line}");
        }
        assert!(!s.exists("keyring/new.key"));
        // In the keyring.
        s.secret("keyring/cut.key", &text[..len]);
        assert!(s.run(&["protect", "f", "-k", "cut", "-o", "g"]).fails(4).contains("the key cut is damaged"));
        fs::remove_file(s.path("keyring/cut.key")).unwrap();
    }
}
