//! Age recipients and identities of the command. `crates/age` tests the slots themselves.

use crate::common::{Ended, Sandbox, has, skip};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/age/tests/data");
const PLUGIN: &str = "age1test1qqqqqqqqgsf9kn";

pub fn data(name: &str) -> String {
    fs::read_to_string(format!("{DATA}/{name}")).unwrap()
}

/// The recipient of a test key of age.
pub fn public(name: &str) -> String {
    data(name).lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap().to_owned()
}

fn private(name: &str) -> String {
    data(name).lines().last().unwrap().to_owned()
}

/// A folder with a file f, and the test keys as their owners have them.
fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.write("f", "precious");
    for name in
        ["alice.txt", "bob.txt", "ssh-ed25519", "ssh-ed25519-locked", "ssh-rsa", "alice-locked.age", "bob-locked.txt"]
    {
        s.secret(name, fs::read(format!("{DATA}/{name}")).unwrap());
    }
    s
}

/// The folder of `sandbox`, with f.phx for alice.
fn for_alice() -> Sandbox {
    let s = sandbox();
    s.run(&["protect", "f", "-r", &public("alice.txt")]).ok();
    s
}

/// The standard error of a run, which must succeed.
#[track_caller]
fn said(ended: Ended) -> String {
    let error = ended.error();
    ended.ok();
    error
}

/// A folder of plugins, as PATH: each name is a way in which `crates/age/tests/data/plugin` behaves.
fn plugins(s: &Sandbox, names: &[&str]) -> String {
    fs::create_dir(s.path("plugins")).unwrap();
    for name in names {
        symlink(PathBuf::from(DATA).join("plugin"), s.path("plugins").join(format!("age-plugin-{name}"))).unwrap();
    }
    format!("{}:{}", s.path("plugins").display(), std::env::var("PATH").unwrap_or_default())
}

#[test]
fn each_kind_of_recipient_opens_its_file_with_a_note_about_the_sender() {
    let s = sandbox();
    s.write("keys.pub", format!("# a team\n\n{}\n{}", data("ssh-ed25519.pub"), public("bob.txt")));
    s.run(&["protect", "f", "-r", &public("alice.txt"), "--recipients-file", "keys.pub", "-r", &data("ssh-rsa.pub")])
        .ok();
    for name in ["alice.txt", "bob.txt", "ssh-ed25519", "ssh-rsa"] {
        let line = said(s.run(&["unprotect", "f.phx", "-o", "g", "-f", "-i", name]));
        assert!(line.starts_with(&format!("phalanx: opened by identity {name} (")), "{line}");
        assert!(line.ends_with("); the sender is unknown\n") && line.lines().count() == 1, "{line}");
        assert_eq!(s.read("g"), b"precious");
    }
    assert_eq!(said(s.run(&["verify", "-q", "f.phx", "-i", "alice.txt"])), "");
    // The order of the slots does not follow that of the command line.
    let inspected = s.run(&["inspect", "f.phx"]).text();
    let slots: Vec<&str> = inspected.lines().filter(|line| line.contains("slot")).collect();
    assert!(slots.len() == 5 && slots[0].contains("age recipient, X25519, "), "{inspected}");
    assert!(slots[2].contains("ssh-ed25519 ") && slots[3].contains("ssh-rsa "), "{inspected}");
    let json = s.run(&["inspect", "--json", "f.phx"]).text();
    assert!(json.contains(r#"{"type":"age","stanzas":["X25519"],"bytes":"#), "{json}");
}

#[test]
fn recipients_and_keys_and_a_password_open_one_file() {
    let s = sandbox();
    s.run(&["key", "new", "work"]).ok();
    s.secret("pw", "secret");
    s.run(&["protect", "f", "-k", "work", "-r", &public("alice.txt"), "--password-file", "pw"]).ok();
    for (args, slot) in [
        (&["-k", "work"][..], "slot 1: key work"),
        (&[], "slot 1: key work"),
        (&["-i", "alice.txt"], "slot 2: identity alice.txt ("),
        // Key slots go first, then age slots, then password slots.
        (&["-i", "alice.txt", "-k", "work"], "slot 1: key work"),
        (&["-i", "alice.txt", "--password-file", "pw"], "slot 2: identity alice.txt ("),
        (&["-i", "bob.txt", "--password-file", "pw"], "slot 3: a password"),
    ] {
        // Without --key the keyring is searched, but not if anything else is named.
        let line = said(s.run(&[&["unprotect", "-vf", "f.phx", "-o", "g"], args].concat()));
        assert!(line.lines().last().unwrap().contains(&format!(", opened by {slot}")), "{args:?}: {line}");
        assert_eq!(line.contains("the sender is unknown"), slot.contains("identity"), "{line}");
        let line = said(s.run(&[&["verify", "-v", "f.phx"], args].concat()));
        assert!(line.lines().last().unwrap().contains(&format!(", opened by {slot}")), "{args:?}: {line}");
    }
}

#[test]
fn only_named_keys_are_tried() {
    let s = for_alice();
    s.run(&["key", "new", "work"]).ok();
    s.secret("pw", "secret");
    // Identities are not searched for.
    let line = s.run(&["verify", "f.phx"]).fails(3);
    assert_eq!(
        line,
        "phalanx: f.phx: no key at hand opens it: it needs the identity of one of its age recipients\nhint: --identity names a \
         file of identities"
    );
    s.run(&["verify", "f.phx", "-k", "work"]).fails(3);
    s.run(&["verify", "f.phx", "--password-file", "pw"]).fails(3);
    s.run(&["verify", "f.phx", "-i", "bob.txt"]).fails(3);
    // If identities are named, neither the keyring nor the variable is used.
    s.run(&["protect", "f", "-k", "work", "-o", "keyed.phx"]).ok();
    s.run_with_password("secret", &["protect", "f", "-o", "password.phx"]).ok();
    s.run(&["verify", "keyed.phx"]).ok();
    s.run_with_password("secret", &["verify", "password.phx"]).ok();
    s.run(&["verify", "keyed.phx", "-i", "alice.txt"]).fails(3);
    s.run_with_password("secret", &["verify", "password.phx", "-i", "alice.txt"]).fails(3);
}

#[test]
fn a_recipient_needs_no_password_but_may_have_one() {
    let s = sandbox();
    let ended = s.run_with_password("secret", &["protect", "f", "-r", &public("alice.txt")]);
    assert_eq!(
        said(ended),
        "phalanx: warning: PHALANX_PASSWORD is set but not used, since a recipient was given\nhint: --password adds it\n"
    );
    s.run_with_password("secret", &["protect", "-pf", "f", "-r", &public("alice.txt")]).ok();
    s.run_with_password("secret", &["verify", "f.phx"]).ok();
    s.run(&["verify", "f.phx", "-i", "alice.txt"]).ok();
    // A recipient that is named twice counts once.
    s.run(&["protect", "-f", "f", "-r", &public("alice.txt"), "-r", &public("alice.txt").to_uppercase()]).ok();
    assert_eq!(s.run(&["inspect", "f.phx"]).text().matches("age recipient").count(), 1);
}

#[test]
fn an_identity_that_does_not_fit_is_named() {
    let s = for_alice();
    let line = s.run(&["verify", "f.phx", "-i", "bob.txt", "-i", "ssh-ed25519"]).fails(3);
    let needs = "f.phx: no key at hand opens it: it needs the identity of one of its age recipients";
    assert_eq!(line, format!("phalanx: {needs}; no identity in bob.txt, ssh-ed25519 opens it"));
}

#[test]
fn a_public_key_in_place_of_a_private_one_is_reported() {
    let s = for_alice();
    s.write("id.pub", data("ssh-ed25519.pub"));
    let line = s.run(&["verify", "f.phx", "-i", "id.pub"]).fails(4);
    assert_eq!(line, "phalanx: id.pub: it is a public key\nhint: --identity needs the file of its private key");
    s.secret("id", data("ssh-ed25519"));
    let line = s.run(&["verify", "f.phx", "-i", "id.pub"]).fails(4);
    assert_eq!(line, "phalanx: id.pub: it is a public key\nhint: --identity needs the private one, probably id");
    s.write("public", format!("# me\n{}\n", public("alice.txt")));
    let line = s.run(&["verify", "f.phx", "-i", "public"]).fails(4);
    assert!(line.contains("it is a public key"), "{line}");
}

/// In age, -R names a file of recipients.
#[test]
fn a_file_of_recipients_after_r_brings_a_hint() {
    let s = sandbox();
    s.write("team", format!("# the team\n{}\n{}", public("alice.txt"), data("ssh-rsa.pub")));
    let hint = "phalanx: team holds public keys\nhint: --recipients-file team protects for them; -R takes folders\n";
    assert!(said(s.run_with_password("p", &["protect", "-R", "team", "f"])).starts_with(hint));
    assert_eq!(said(s.run_with_password("p", &["protect", "-qfR", "team", "f"])), "");
    assert!(!said(s.run(&["protect", "-fR", "f", "--recipients-file", "team"])).contains("hint"));
    assert!(!said(s.run_with_password("p", &["protect", "-fR", "f"])).contains("hint"));
}

#[test]
fn an_ssh_key_with_an_unknown_cipher_names_it() {
    if !find("ssh-keygen", "openssh") {
        return;
    }
    let s = sandbox();
    let args = ["-q", "-t", "ed25519", "-N", "a passphrase", "-Z", "chacha20-poly1305@openssh.com", "-f", "key"];
    assert!(s.succeeds("ssh-keygen", &args));
    let line = s.run(&["verify", "f", "-i", "key"]).fails(4);
    assert_eq!(
        line,
        "phalanx: key: an SSH key whose passphrase is for the cipher chacha20-poly1305@openssh.com, which this program does not \
         know (ssh-keygen -p -Z aes256-ctr changes it)"
    );
}

/// A tree with files for alice, for bob and for the key work.
fn mixed_tree() -> Sandbox {
    let s = sandbox();
    s.run(&["key", "new", "work"]).ok();
    fs::create_dir(s.path("tree")).unwrap();
    for i in 0..9 {
        let name = format!("tree/{i}");
        s.write(&name, "x");
        let ways = [["-r", &public("alice.txt")], ["-r", &public("bob.txt")], ["-k", "work"]];
        s.run(&[&["protect", "--remove", &name], &ways[i % 3][..]].concat()).ok();
    }
    s
}

#[test]
fn an_unknown_sender_is_reported_once_for_each_identity() {
    let s = mixed_tree();
    fs::create_dir(s.path("keyed")).unwrap();
    for i in [2, 5, 8] {
        fs::rename(s.path(&format!("tree/{i}.phx")), s.path(&format!("keyed/{i}.phx"))).unwrap();
    }
    let identities = ["-i", "alice.txt", "-i", "bob.txt"];
    for command in ["verify", "rekey"] {
        let line = said(s.run(&[&[command, "-R", "tree"], &identities[..]].concat()));
        assert_eq!(line.matches("the sender is unknown").count(), 2, "{line}");
        for name in ["alice", "bob"] {
            assert_eq!(line.matches(&format!("phalanx: opened by identity {name}.txt (age1")).count(), 1, "{line}");
        }
    }
    assert_eq!(said(s.run(&[&["verify", "-qR", "tree"], &identities[..]].concat())), "");
    s.run(&[&["unprotect", "-qR", "tree", "-o", "again"], &identities[..]].concat()).ok();
    assert_eq!(s.read("again/7"), b"x");
}

/// Without these lines a user could not know which files have a known sender.
#[test]
fn with_keys_and_identities_each_file_of_an_unknown_sender_is_named() {
    let s = mixed_tree();
    s.secret("pw", "secret");
    let strangers = |line: &str| -> Vec<String> {
        let ends = |line: &str| line.ends_with("; the sender is unknown");
        let mut found: Vec<_> =
            line.lines().filter(|line| ends(line)).map(|line| line.split(": ").nth(1).unwrap().to_owned()).collect();
        found.sort();
        found
    };
    let keys = ["-i", "alice.txt", "-i", "bob.txt", "-k", "work"];
    let expected: Vec<_> = [0, 1, 3, 4, 6, 7].iter().map(|i| format!("tree/{i}.phx")).collect();
    for args in [&["verify", "-R", "tree"][..], &["unprotect", "-R", "tree", "-o", "again"], &["rekey", "-R", "tree"]] {
        assert_eq!(strangers(&said(s.run(&[args, &keys].concat()))), expected, "{args:?}");
        assert!(args[0] == "unprotect" || s.run(&[args, &keys, &["-q"]].concat()).error().is_empty(), "{args:?}");
    }
    let line = said(s.run(&[&["verify", "tree/0.phx", "tree/1.phx", "tree/2.phx"], &keys[..]].concat()));
    assert_eq!(strangers(&line), expected[..2]);
    let line = said(s.run(&["verify", "tree/0.phx", "tree/3.phx", "-i", "alice.txt", "--password-file", "pw"]));
    assert_eq!(strangers(&line), ["tree/0.phx", "tree/3.phx"]);
}

#[test]
fn ranges_and_salvage_report_what_opened_the_file() {
    let s = mixed_tree();
    for args in [&["--range", "0-1"][..], &["--salvage"]] {
        let run = |file: &str, more: &[&str]| {
            let named = ["-f", file, "-o", "out", "-i", "alice.txt", "-k", "work"];
            said(s.run(&[&["unprotect"], args, &named, more].concat()))
        };
        let line = run("tree/0.phx", &["-v"]);
        assert!(line.contains(", opened by slot 1: identity alice.txt (age1"), "{line}");
        assert!(line.contains("phalanx: tree/0.phx: opened by identity alice.txt (age1"), "{line}");
        let line = run("tree/2.phx", &["-v"]);
        assert!(line.ends_with(", opened by slot 1: key work\n") && !line.contains("sender"), "{line}");
        assert_eq!(run("tree/0.phx", &["-q"]), "");
    }
}

#[test]
fn wrong_recipients_are_reported_and_not_repeated() {
    let s = sandbox();
    let long = "q".repeat(58);
    let cases = [
        (format!("age1{long}"), "phalanx: --recipient: not a recipient: a character is wrong or missing"),
        ("alice".into(), "phalanx: --recipient: not a recipient: one begins with age1, ssh-ed25519 or ssh-rsa"),
        (
            data("ssh-ecdsa.pub"),
            "phalanx: --recipient: SSH keys of the type ecdsa-sha2-nistp256 cannot be recipients (ssh-ed25519 and ssh-rsa can)",
        ),
        (
            data("ssh-rsa-short.pub"),
            "phalanx: --recipient: an RSA key with fewer than 2048 or more than 4096 bits cannot be a recipient",
        ),
    ];
    for (recipient, expected) in cases {
        assert_eq!(s.run(&["protect", "f", "-r", &recipient]).fails(2), expected);
    }
    for args in [
        &["-r", &private("alice.txt")][..],
        &["-i", &private("alice.txt")],
        &[&format!("-r{}", private("alice.txt"))],
        &[&format!("-fi{}", private("alice.txt"))],
        &[&format!("--recipient={}", private("alice.txt"))],
        &[&format!("--identity={}", data("alice.txt"))],
        &[&format!("--recipient={}", data("ssh-ed25519"))],
        &["-i", &data("ssh-ed25519")],
        &["-i", "AGE-PLUGIN-SECRET-1QQQQQQQQ7VDLJ6"],
        &[&private("alice.txt")],
    ] {
        let line = s.run(&[&["protect", "f"], args].concat()).fails(2);
        assert!(line.contains("does not belong in arguments"), "{line}");
        assert!(!line.contains("SECRET") && !line.contains("BEGIN"), "{line}");
    }
    s.write("list", format!("{}\nhello\n", public("alice.txt")));
    let line = s.run(&["protect", "f", "--recipients-file", "list"]).fails(4);
    assert_eq!(line, "phalanx: list: line 2: not a recipient: one begins with age1, ssh-ed25519 or ssh-rsa");
    s.write("list", "# nobody\n");
    assert_eq!(s.run(&["protect", "f", "--recipients-file", "list"]).fails(4), "phalanx: list: no recipient is in it");
    s.run(&["protect", "f", "--recipients-file", "missing"]).fails(4);
    assert!(!s.exists("f.phx"));
}

/// The crate `age` panics on such a key, but it is the key that is damaged, and not the program.
#[test]
fn a_damaged_key_is_not_an_internal_error() {
    let s = sandbox();
    for damaged in ["ssh-rsa AAAAB3NzaC1yc2EAAAACAAAAAAACAwM=", "ssh-rsa AAAAB3NzaC1yc2EAAAAA"] {
        let line = s.run(&["protect", "f", "-r", damaged]).fails(2);
        assert_eq!(line, "phalanx: --recipient: not a recipient: a character is wrong or missing");
    }
}

#[test]
fn files_of_identities_are_as_private_as_keys() {
    let s = for_alice();
    for mode in [0o644, 0o640, 0o602] {
        fs::set_permissions(s.path("alice.txt"), fs::Permissions::from_mode(mode)).unwrap();
        let line = s.run(&["verify", "f.phx", "-i", "alice.txt"]).fails(4);
        assert_eq!(
            line,
            "phalanx: alice.txt: it is refused because it is open to other users\nhint: chmod 600 alice.txt"
        );
    }
    s.secret("bad", "hello\n");
    assert_eq!(s.run(&["verify", "f.phx", "-i", "bad"]).fails(4), "phalanx: bad: line 1 is no identity");
    s.run(&["verify", "f.phx", "-i", "missing"]).fails(4);
    s.run(&["verify", "f.phx", "-i", "plugins"]).fails(4);
    // The permissions of a pipe do not matter.
    s.run_with_input(data("alice.txt").as_bytes(), &["verify", "f.phx", "-i", "-"]).ok();
    s.run_with_input(public("alice.txt").as_bytes(), &["protect", "f", "-f", "--recipients-file", "-"]).ok();
    assert!(s.run(&["verify", "-", "-i", "-"]).fails(2).contains("- is given more than once"));
    // The pipe has other names too, and what they read of it is gone.
    for name in ["/dev/stdin", "/dev/fd/0"] {
        let mut command = s.command(&["protect", "-", "--password-file", name, "-o", "out.phx"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(b"data");
        let line = Ended(child.wait_with_output().unwrap()).fails(2);
        assert!(line.contains(&format!("- and {name} are both standard input")), "{line}");
        assert!(!s.exists("out.phx"));
    }
    assert!(s.run(&["protect", "-", "--recipients-file", "-"]).fails(2).contains("- is given more than once"));
}

#[test]
fn passphrases_need_a_terminal() {
    let s = for_alice();
    // A new session has no terminal.
    if !has("setsid") {
        return;
    }
    let run = |identity: &str| {
        let mut command = Command::new("setsid");
        command.args(["-w", env!("CARGO_BIN_EXE_phalanx"), "verify", "f.phx", "-i", identity]).current_dir(s.path(""));
        command.env_remove("PHALANX_PASSWORD").stdin(Stdio::null());
        Ended(command.output().unwrap())
    };
    let line = run("alice-locked.age").fails(3);
    assert!(line.ends_with("; alice-locked.age: nobody could be asked for its passphrase"), "{line}");
    // No slot is for this key, so its passphrase would not help.
    let line = run("ssh-ed25519-locked").fails(3);
    assert!(!line.contains("passphrase"), "{line}");
}

#[test]
fn passphrases_are_asked_for_at_the_terminal() {
    if !has("script") {
        return;
    }
    let s = for_alice();
    s.run(&["protect", "f", "-r", &data("ssh-ed25519-locked.pub"), "-o", "g.phx"]).ok();
    for (args, code) in [
        ("f.phx -i alice-locked.age", 0),
        ("g.phx -i ssh-ed25519-locked", 0),
        ("f.phx g.phx -i alice-locked.age -i ssh-ed25519-locked", 0),
        ("f.phx -i bob-locked.txt", 3),
    ] {
        let (ended, shown) = s.at_terminal(&format!("verify {args}"), &["open sesame", "open sesame"]);
        assert!(
            ended == code && shown.contains("Passphrase of ") && !shown.contains("open sesame"),
            "{ended}: {shown}"
        );
    }
    let (ended, shown) = s.at_terminal("verify f.phx -i alice-locked.age", &["wrong"]);
    assert!(ended == 3 && shown.contains("alice-locked.age: the passphrase is wrong"), "{ended}: {shown}");
}

/// Files of a tree are opened in parallel, but the terminal takes one answer at a time.
#[test]
fn two_passphrases_are_asked_for_one_after_the_other() {
    if !has("script") {
        return;
    }
    let s = sandbox();
    fs::create_dir(s.path("tree")).unwrap();
    for i in 0..8 {
        let name = format!("tree/{i}");
        s.write(&name, "x");
        let recipient = if i % 2 == 0 { public("alice.txt") } else { data("ssh-ed25519-locked.pub") };
        s.run(&["protect", &name, "--remove", "-r", &recipient]).ok();
    }
    let (ended, shown) = s
        .at_terminal("verify -qR tree -t 4 -i alice-locked.age -i ssh-ed25519-locked", &["open sesame", "open sesame"]);
    assert_eq!(ended, 0, "{shown}");
    assert!(!shown.contains("open sesame"), "{shown}");
    let prompts: Vec<_> = shown.lines().filter(|line| line.contains("Passphrase of ")).collect();
    assert_eq!(prompts.len(), 2, "{shown}");
    assert!(prompts.iter().all(|line| line.matches("Passphrase of ").count() == 1), "{shown}");
}

#[test]
fn plugins_run_without_passwords_and_keys_in_their_environment() {
    let s = sandbox();
    let path = plugins(&s, &["test", "env"]);
    let run =
        |args: &[&str]| Ended(s.command(args).env("PATH", &path).env("PHALANX_PASSWORD", "secret").output().unwrap());
    s.secret("plugin", "AGE-PLUGIN-TEST-1QQQQQQQQJGX4L0\n");
    s.secret("env", "AGE-PLUGIN-ENV-1QQQQQQQQSDE24Y\n");
    for recipient in [PLUGIN, "age1env1qqqqqqqq28w665"] {
        run(&["protect", "-f", "f", "-r", recipient]).ok();
        for identity in ["plugin", "env"] {
            let line = said(run(&["verify", "f.phx", "-i", identity]));
            let name = if identity == "env" { "env" } else { "test" };
            assert_eq!(
                line,
                format!("phalanx: opened by identity {identity} (the plugin {name}); the sender is unknown\n")
            );
        }
    }
}

#[test]
fn a_new_identity_opens_what_is_protected_for_its_public_key() {
    let s = sandbox();
    let public = s.run(&["key", "new", "--identity", "me.txt"]).text();
    assert!(public.starts_with("age1pq1") && public.ends_with('\n') && public.lines().count() == 1);
    let file = String::from_utf8(s.read("me.txt")).unwrap();
    assert!(file.starts_with(&format!("# public key: {public}AGE-SECRET-KEY-PQ-1")) && file.ends_with('\n'));
    assert_eq!(fs::metadata(s.path("me.txt")).unwrap().permissions().mode() & 0o777, 0o600);
    s.run(&["protect", "f", "-r", public.trim()]).ok();
    s.run(&["verify", "f.phx", "-i", "me.txt"]).ok();
    // A private key is never replaced.
    assert!(s.run(&["key", "new", "--identity", "me.txt"]).fails(4).contains("exists already"));
    assert_eq!(s.read("me.txt"), file.as_bytes());
    s.run(&["key", "new", "--identity", "-"]).fails(2);
    s.run(&["key", "new", "work", "--identity", "other"]).fails(2);
    s.run(&["key", "new"]).fails(2);
}

#[test]
fn post_quantum_keys_need_no_plugin() {
    let s = sandbox();
    s.secret("pq.txt", data("pq.txt"));
    s.secret("alice.txt", data("alice.txt"));
    let (pq, alice) = (data("pq.pub").trim().to_owned(), public("alice.txt"));
    let line = said(s.run(&["protect", "f", "-r", &pq]));
    assert_eq!(line, "");
    s.run(&["verify", "f.phx", "-i", "alice.txt"]).fails(3);
    let line = said(s.run(&["unprotect", "f.phx", "-f", "-o", "g", "-i", "pq.txt"]));
    assert!(line.contains("pq.txt (age1pq1"), "{line}");
    assert_eq!(s.read("g"), s.read("f"));
    // A file is as safe as the weakest of its public keys.
    let warning = "warning: not all public keys are post-quantum: by the others a quantum computer could open it";
    let line = said(s.run(&["protect", "f", "-f", "-r", &pq, "-r", alice.trim()]));
    assert!(line.contains(warning), "{line}");
    for key in ["pq.txt", "alice.txt"] {
        s.run(&["verify", "f.phx", "-i", key]).ok();
    }
    let line = said(s.run(&["rekey", "f.phx", "-i", "pq.txt", "--remove-recipient", alice.trim()]));
    assert!(!line.contains(warning), "{line}");
    s.run(&["verify", "f.phx", "-i", "alice.txt"]).fails(3);
    // The one that is there already counts too.
    let line = said(s.run(&["rekey", "f.phx", "-i", "pq.txt", "--add-recipient", alice.trim()]));
    assert!(line.contains(warning), "{line}");
    s.run(&["rekey", "f.phx", "-i", "pq.txt", "--remove-recipient", alice.trim()]).ok();
    s.run(&["rekey", "f.phx", "-i", "pq.txt", "--fresh"]).ok();
    s.run(&["verify", "f.phx", "-i", "pq.txt"]).ok();
}

#[test]
fn a_missing_plugin_is_reported_in_one_line() {
    let s = sandbox();
    let path = plugins(&s, &["test"]);
    let line = s.run(&["protect", "f", "-r", PLUGIN]).fails(1);
    assert_eq!(
        line,
        format!("phalanx: cannot protect for {PLUGIN}: it needs the program age-plugin-test, which is not in PATH")
    );
    Ended(s.command(&["protect", "f", "-r", PLUGIN]).env("PATH", &path).output().unwrap()).ok();
    s.secret("plugin", "AGE-PLUGIN-TEST-1QQQQQQQQJGX4L0\n");
    let line = s.run(&["verify", "f.phx", "-i", "plugin"]).fails(3);
    assert!(line.ends_with("; plugin: it needs the program age-plugin-test, which is not in PATH"), "{line}");
}

/// The newest `age` reads the slots, and its new keys work. `crates/age` has more such tests.
#[test]
fn new_keys_of_age_and_ssh_work() {
    let s = sandbox();
    if !["age-keygen", "ssh-keygen"]
        .into_iter()
        .all(|program| find(program, if program == "age-keygen" { "age" } else { program }))
    {
        return;
    }
    let run = |program: &str, args: &[&str]| {
        let done = Command::new(program).args(args).current_dir(s.path("")).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    run("age-keygen", &["-o", "new.txt"]);
    let public = run("age-keygen", &["-y", "new.txt"]);
    run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", "new-ed25519"]);
    run("ssh-keygen", &["-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", "new-rsa"]);
    s.run(&[
        "protect",
        "f",
        "-r",
        public.trim(),
        "--recipients-file",
        "new-ed25519.pub",
        "--recipients-file",
        "new-rsa.pub",
    ])
    .ok();
    for identity in ["new.txt", "new-ed25519", "new-rsa"] {
        s.run(&["verify", "f.phx", "-i", identity]).ok();
    }
}

/// Whether a program is there. If not, the test is skipped under the name of its package.
fn find(program: &str, what: &str) -> bool {
    let found =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|dir| dir.join(program).is_file());
    if !found {
        skip(what);
    }
    found
}
