//! Keys of the keyring that a password or an identity locks.

use crate::age::{data, public};
use crate::common::{Sandbox, has, is_exhaustive};
use std::fs;
use std::process::Stdio;

/// A keyring with the keys k and other, a file that k opens, and a password in a file.
fn keyring() -> Sandbox {
    let s = Sandbox::with_key();
    s.run(&["key", "new", "other"]).ok();
    s.write("f", "content");
    s.run(&["protect", "f", "-k", "k"]).ok();
    s.secret("pw", "plum harness ostrich\n");
    s
}

fn files(s: &Sandbox) -> Vec<String> {
    let entries = fs::read_dir(s.path("keyring")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn locked_keys_are_no_plain_files_and_come_back() {
    let s = keyring();
    let plain = fs::read(s.path("keyring/k.key")).unwrap();
    let list = s.run(&["key", "list"]).text();
    s.run(&["key", "lock", "--password-file", "pw"]).ok();
    let id = &list[..32];
    assert_eq!(files(&s)[0], format!("k.{id}.key.phx"));
    assert!(files(&s).iter().all(|name| name.ends_with(".key.phx")), "{:?}", files(&s));
    let locked = list.lines().map(|line| format!("{line}  locked\n")).collect::<String>();
    assert_eq!(s.run(&["key", "list"]).text(), locked);
    assert!(s.run(&["key", "show", "k"]).text().ends_with(&format!("k.{id}.key.phx\n")));
    assert_eq!(s.run(&["key", "list", "--names"]).text(), "k\nother\n");
    for bytes in files(&s).iter().map(|name| fs::read(s.path("keyring").join(name)).unwrap()) {
        assert!(!bytes.windows(32).any(|part| part == plain));
    }
    // The files are ordinary protected files.
    s.run(&["verify", &format!("keyring/k.{id}.key.phx"), "--password-file", "pw"]).ok();

    s.run(&["key", "unlock", "k", "--password-file", "pw"]).ok();
    assert_eq!(fs::read(s.path("keyring/k.key")).unwrap(), plain);
    s.run(&["verify", "f.phx"]).ok();
    s.run(&["key", "unlock", "--password-file", "pw"]).ok();
    assert_eq!(files(&s), ["k.key", "other.key"]);
    assert_eq!(s.run(&["key", "list"]).text(), list);
}

#[test]
fn salvage_deletes_no_key_of_the_keyring() {
    let s = keyring();
    s.run(&["key", "lock", "k", "--password-file", "pw"]).ok();
    let locked = format!("keyring/{}", files(&s)[0]);
    let args = ["unprotect", "--salvage", "--remove", &locked, "--output", "copy", "--password-file", "pw"];
    let said = s.run(&args);
    assert!(said.error().contains("not deleted, because it holds a key or password"), "{}", said.error());
    assert!(s.exists(&locked) && s.exists("copy"));
}

#[test]
fn without_its_password_a_locked_key_opens_nothing() {
    let s = keyring();
    s.run(&["key", "lock", "k", "--password-file", "pw"]).ok();
    let line = "phalanx: the key k is locked\nhint: phalanx key unlock k";
    // These have no terminal.
    for args in [&["protect", "f", "-k", "k", "-o", "g"][..], &["verify", "f.phx", "-k", "k"], &["key", "export", "k"]]
    {
        assert_eq!(in_no_session(&s, args), (4, line.to_owned()), "{args:?}");
    }
    let (code, said) = in_no_session(&s, &["verify", "f.phx"]);
    assert!(code == 3 && said.contains("the key k is locked") && said.contains("phalanx key unlock k"), "{said}");
    s.secret("wrong", "wrong\n");
    s.run(&["key", "unlock", "k", "--password-file", "wrong"]).fails(3);
    s.run(&["key", "unlock", "other", "--password-file", "pw"]).fails(4);
    s.run(&["key", "lock", "k", "--password-file", "pw"]).fails(4);
    s.run(&["key", "new", "k"]).fails(4);
    s.run(&["key", "lock", "other", "-k", "k"]).fails(2);
    s.run(&["key", "lock", "nobody", "--password-file", "pw"]).fails(4);
    // Others are not affected.
    s.run(&["protect", "f", "-k", "other", "-o", "g"]).ok();
    s.run(&["key", "rm", "k", "--force"]).ok();
    assert_eq!(files(&s), ["other.key"]);
}

/// Runs the program in a session without a terminal.
fn in_no_session(s: &Sandbox, args: &[&str]) -> (i32, String) {
    let program = s.command(args);
    let mut command = std::process::Command::new("setsid");
    command.arg("--wait").arg(program.get_program()).args(args).current_dir(s.path(""));
    command.env_remove("PHALANX_PASSWORD").stdin(Stdio::null());
    for (name, value) in program.get_envs() {
        value.map(|value| command.env(name, value));
    }
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap().trim_end().to_owned())
}

#[test]
fn its_password_is_asked_for_where_a_locked_key_is_used() {
    if !has("script") {
        return;
    }
    let s = keyring();
    s.run(&["key", "lock", "--password-file", "pw"]).ok();
    for args in ["verify f.phx -k k", "verify f.phx", "protect f -k k -k other -o g --force"] {
        let (ended, shown) = s.at_terminal(args, &["plum harness ostrich"]);
        assert!(ended == 0 && shown.contains("Password of the key k: ") && !shown.contains("plum"), "{ended}: {shown}");
    }
    let (ended, shown) = s.at_terminal("verify f.phx -k k", &["wrong"]);
    assert!(ended == 4 && shown.contains("the key k: the password is wrong"), "{ended}: {shown}");
}

#[test]
fn an_identity_opens_keys_that_are_locked_for_it() {
    let s = keyring();
    s.run(&["key", "lock", "k", "-r", &public("alice.txt")]).ok();
    s.secret("alice", data("alice.txt"));
    s.run(&["verify", "f.phx", "-k", "k", "-i", "alice"]).ok();
    s.run(&["key", "unlock", "-i", "alice"]).ok();
    s.run(&["verify", "f.phx"]).ok();
    assert_eq!(files(&s), ["k.key", "other.key"]);
}

#[test]
fn a_killed_run_leaves_both_files_and_the_next_one_ends_it() {
    let s = keyring();
    let plain = fs::read(s.path("keyring/k.key")).unwrap();
    s.run(&["key", "lock", "k", "--password-file", "pw"]).ok();
    // As if it had been killed before the key was gone.
    s.secret("keyring/k.key", &plain);
    s.run(&["verify", "f.phx"]).ok();
    s.run(&["key", "lock", "k", "--password-file", "pw"]).ok();
    assert!(!files(&s).contains(&"k.key".to_owned()));
    s.secret("keyring/k.key", &plain);
    s.run(&["key", "unlock", "k", "--password-file", "pw"]).ok();
    assert_eq!(files(&s), ["k.key", "other.key"]);
}

#[test]
fn a_key_behind_a_link_is_not_locked() {
    let s = keyring();
    fs::rename(s.path("keyring/k.key"), s.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", s.path("keyring/k.key")).unwrap();
    let line = s.run(&["key", "lock", "k", "--password-file", "pw"]).fails(4);
    assert!(line.contains("its file is a link"), "{line}");
    s.run(&["verify", "f.phx"]).ok();
}

/// Otherwise each could delete the file that the other relies on.
#[test]
fn two_processes_never_lose_a_key() {
    let s = keyring();
    let plain = fs::read(s.path("keyring/k.key")).unwrap();
    for _ in 0..if is_exhaustive() { 200 } else { 10 } {
        let start = |what: &str| s.command(&["key", what, "k", "--password-file", "pw"]).stderr(Stdio::null()).spawn();
        for mut child in [start("lock").unwrap(), start("unlock").unwrap()] {
            child.wait().unwrap();
        }
        // One of both may have come too late.
        s.run(&["key", "unlock", "k", "--password-file", "pw"]);
        assert_eq!(fs::read(s.path("keyring/k.key")).unwrap(), plain);
    }
}

#[test]
fn a_key_is_not_locked_by_itself() {
    let s = keyring();
    fs::copy(s.path("keyring/other.key"), s.path("copy")).unwrap();
    for file in ["keyring/k.key", "keyring/other.key", "copy"] {
        s.run(&["key", "lock", "k", "--key-file", file]).fails(2);
    }
    s.secret("elsewhere", [9; 32]);
    s.run(&["key", "lock", "k", "--key-file", "elsewhere"]).ok();
    s.run(&["key", "unlock", "k", "--key-file", "elsewhere"]).ok();
    assert_eq!(files(&s), ["k.key", "other.key"]);
}

/// A file may name the key in many slots, and a folder may have many such files.
#[test]
fn nobody_is_asked_twice_for_a_password_that_was_wrong() {
    if !has("script") {
        return;
    }
    let s = keyring();
    s.run(&["protect", "f", "-k", "k", "-o", "g.phx"]).ok();
    s.run(&["key", "lock", "k", "--password-file", "pw"]).ok();
    let (ended, shown) = s.at_terminal("verify f.phx g.phx", &["wrong", "wrong", "wrong"]);
    assert_eq!((ended, shown.matches("Password of the key k: ").count()), (3, 1), "{shown}");
    // A key that is locked for a public key has no password.
    s.run(&["key", "lock", "other", "-r", &public("alice.txt")]).ok();
    let (_, shown) = s.at_terminal("verify f.phx -k other", &["wrong"]);
    assert!(!shown.contains("Password"), "{shown}");
}

/// Keyrings of two machines were merged. The lower id was taken.
#[test]
fn of_several_keys_of_one_name_none_is_taken_silently() {
    let s = keyring();
    s.run(&["key", "lock", "--password-file", "pw"]).ok();
    let file = |name: &str| files(&s).into_iter().find(|file| file.starts_with(name)).unwrap();
    let (first, other) = (file("k."), file("other."));
    let second = other.replacen("other.", "k.", 1);
    let rename = |from: &str, to: &str| fs::rename(s.path("keyring").join(from), s.path("keyring").join(to)).unwrap();
    rename(&other, &second);
    let mut ids = [&first[2..34], &second[2..34]];
    ids.sort_unstable();
    let [low, high] = ids;
    let line = format!(
        "phalanx: the name k is refused because several keys have it: {low}, {high}\n\
         hint: mv {0}/k.{high}.key.phx {0}/NAME.{high}.key.phx",
        s.path("keyring").display()
    );
    for args in [
        &["key", "show", "k"][..],
        &["key", "rm", "k", "--force"],
        &["key", "unlock", "k", "--password-file", "pw"],
        &["protect", "f", "-o", "g", "-k", "k"],
        &["verify", "f.phx", "-k", "k"],
        &["rekey", "f.phx", "--password-file", "pw", "--remove-key", "k"],
    ] {
        assert_eq!(s.run(args).fails(4), line, "{args:?}");
    }
    s.run(&["key", "new", "k"]).fails(4);
    assert_eq!(s.run(&["key", "list"]).text(), format!("{low}  k  locked\n{high}  k  locked\n"));
    assert_eq!(s.run(&["key", "list", "--names"]).text(), "k\n");
    // A file says by id which of them it needs.
    if has("script") {
        let (ended, shown) = s.at_terminal("verify f.phx", &["plum harness ostrich"]);
        assert_eq!(ended, 0, "{shown}");
    }
    // With one that is not locked they are three.
    s.secret("keyring/k.key", [7; 32]);
    let list = s.run(&["key", "list"]).text();
    assert!(list.lines().count() == 3 && list.ends_with(&format!("{low}  k  locked\n{high}  k  locked\n")), "{list}");
    s.run(&["rekey", "f.phx", "--password-file", "pw", "--remove-key", "k"]).fails(4);
    s.run(&["key", "rm", "k", "--force"]).ok();
    // The hint's way out.
    rename(&second, &other);
    s.run(&["key", "unlock", "--password-file", "pw"]).ok();
    assert_eq!(files(&s), ["k.key", "other.key"]);
}

/// Each key took a look through the whole keyring, so 2000 took many seconds.
#[test]
fn a_list_of_locked_keys_reads_the_keyring_once() {
    let s = keyring();
    s.run(&["key", "lock", "k", "other", "--password-file", "pw"]).ok();
    let file = files(&s).remove(0);
    for number in 0..30 {
        let name = file.replacen("k.", &format!("copy{number}."), 1);
        fs::copy(s.path("keyring").join(&file), s.path("keyring").join(name)).unwrap();
    }
    let args = ["key", "list"];
    let Some(mut run) = s.traced(&["-e", "inject=getdents64:error=EIO:when=5+"], &args) else { return };
    let ended = crate::common::Ended(run.output().unwrap());
    assert_eq!(ended.text().lines().filter(|line| line.ends_with("  locked")).count(), 32);
}

#[test]
fn the_slot_of_a_locked_key_is_removed_by_its_name() {
    let s = keyring();
    s.run(&["rekey", "f.phx", "-k", "k", "--add-key", "other"]).ok();
    s.run(&["key", "lock", "k", "--password-file", "pw"]).ok();
    s.run(&["rekey", "f.phx", "-k", "other", "--remove-key", "k"]).ok();
    s.run(&["key", "unlock", "k", "--password-file", "pw"]).ok();
    s.run(&["verify", "f.phx", "-k", "k"]).fails(3);
    s.run(&["verify", "f.phx", "-k", "other"]).ok();
}

/// Whichever of both comes first in the header.
#[test]
fn nobody_is_asked_for_a_locked_key_if_another_one_opens_the_file() {
    if !has("script") {
        return;
    }
    let s = keyring();
    s.run(&["protect", "f", "-k", "k", "-k", "other", "-o", "g.phx"]).ok();
    for (locked, open) in [("k", "other"), ("other", "k")] {
        s.run(&["key", "lock", locked, "--password-file", "pw"]).ok();
        let (ended, shown) = s.at_terminal("verify -v g.phx", &["wrong"]);
        assert!(ended == 0 && !shown.contains("Password") && shown.contains(&format!("key {open}")), "{shown}");
        // A file under a new file key has a slot for each.
        let (ended, shown) = s.at_terminal("rekey g.phx --fresh", &["plum harness ostrich"]);
        assert!(ended == 0 && shown.contains(&format!("Password of the key {locked}: ")), "{ended}: {shown}");
        s.run(&["key", "unlock", locked, "--password-file", "pw"]).ok();
    }
}

#[test]
fn a_locked_key_has_its_name_in_reports() {
    let s = keyring();
    s.run(&["rekey", "f.phx", "--add-key", "other"]).ok();
    s.run(&["key", "lock", "k", "--password-file", "pw"]).ok();
    for args in [&["inspect", "f.phx"][..], &["rekey", "f.phx"]] {
        let said = s.run(args).text();
        assert!(said.contains("(k in the keyring)") && said.contains("(other in the keyring)"), "{args:?}: {said}");
    }
}

/// Each file that names such a key would cost Argon2's time, while all threads wait.
#[test]
fn a_password_is_tried_once_on_a_key_that_it_does_not_open() {
    if !has("script") || !has("strace") {
        return;
    }
    let s = keyring();
    s.secret("other-pw", "walnut\n");
    fs::create_dir(s.path("t")).unwrap();
    // Files of a folder are taken in their order.
    s.run(&["protect", "f", "-k", "k", "-o", "t/0.phx"]).ok();
    for number in 1..=5 {
        s.run(&["protect", "f", "-k", "other", "-o", &format!("t/{number}.phx")]).ok();
    }
    s.run(&["key", "lock", "k", "--password-file", "pw"]).ok();
    s.run(&["key", "lock", "other", "--password-file", "other-pw"]).ok();
    let program = env!("CARGO_BIN_EXE_phalanx");
    let files: String = (0..=5).map(|number| format!(" t/{number}.phx")).collect();
    let mut typed = ["plum harness ostrich\n", "wrong\n"].into_iter();
    let line = format!("strace -qq -f -o trace -e trace=mmap {program} verify -t 1{files}");
    let (ended, shown) = s.dialogue(&line, || typed.next().map(str::to_owned));
    assert_eq!((ended, shown.matches("Password of the key").count()), (3, 2), "{shown}");
    // Argon2 has 64 MiB, and an allocator may add some bytes.
    let trace = String::from_utf8(s.read("trace")).unwrap();
    let lengths = trace.lines().filter_map(|line| line.split_once("mmap(NULL, ")?.1.split(',').next()?.parse().ok());
    let derived = lengths.filter(|len: &u64| (64 << 20..65 << 20).contains(len)).count();
    assert_eq!(derived, 3, "for k, for other by the same password, and for other by the one that was typed");
}
