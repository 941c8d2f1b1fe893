//! Signed mirrors: what a signature of a manifest stands for, and who goes on with a mirror that others have written.

use crate::common::{Delay, Ended, Paused, Sandbox, painted};
use crate::signatures::{GCM, NOT_IT, line, prepared};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn a_signed_tree_is_checked_through_its_manifest() {
    let s = prepared();
    for folder in ["d", "d/sub"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    s.write("d/a", painted(5000));
    s.write("d/sub/b", painted(100));
    s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice"]).ok();
    let check = |path: &str| s.run(&["verify", "-R", path, "-k", "k", "--signers", "signers"]);
    assert!(check("m").text().contains("signed by alice@example.org\n2 files, 5100 bytes: whole and authentic"));
    assert!(check("m/sub").text().contains("signed by alice@example.org\n1 file"));
    let quick = s.run(&["verify", "-R", "m", "-k", "k", "--quick", "--signers", "signers", "--json"]).text();
    assert!(quick.contains(r#""signer":"alice@example.org""#), "{quick}");
    s.run(&["verify", "m/phalanx.tree", "-k", "k", "--signers", "signers"]).ok();
    s.run(&["unprotect", "m/phalanx.tree", "-o", "-", "-k", "k", "--signers", "signers"]).ok();
    assert!(s.run(&["inspect", "--signed-text", "m/phalanx.tree"]).text().starts_with("phalanx signed tree 1\n"));
    s.run(&["unprotect", "-R", "m", "-o", "out", "-k", "k", "--signers", "signers"]).ok();
    assert_eq!(s.read("out/sub/b"), painted(100));
    // Nothing has changed: the signature stays as it is. One by somebody else does not.
    let own = s.read("m/phalanx.tree.sig");
    s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice"]).ok();
    assert_eq!(s.read("m/phalanx.tree.sig"), own);
    s.run(&["mirror", "d", "m", "-k", "k", "--sign", "bob"]).ok();
    assert!(check("m").fails(3).contains("no line has this key"));
    s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice", "--delete"]).ok();
    check("m").ok();
    // An entry that is not listed is named, and the signature is none.
    s.write("m/extra.phx", s.read("m/a.phx"));
    let named = check("m");
    assert!(named.error().contains("m/extra.phx: additional: it has the content of m/a.phx"), "{}", named.error());
    assert_eq!(named.0.status.code(), Some(3));
    fs::remove_file(s.path("m/extra.phx")).unwrap();
    // A co-recipient writes other content, and a manifest of it.
    s.write("d/a", painted(5001));
    s.run(&["mirror", "d", "m", "-k", "k"]).ok();
    for path in ["m", "m/sub"] {
        assert!(check(path).fails(3).contains(NOT_IT));
    }
    let before = s.names();
    let refused = s.run(&["unprotect", "-R", "m", "-o", "out2", "-k", "k", "--signers", "signers"]).fails(3);
    assert!(refused.contains(NOT_IT), "{refused}");
    assert_eq!(s.names(), before);
    fs::remove_file(s.path("m/phalanx.tree.sig")).unwrap();
    assert!(check("m").fails(3).contains("m/phalanx.tree: it is not signed: there is no m/phalanx.tree.sig"));
    s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice"]).ok();
    check("m").ok();
}

/// Puts a file and a manifest of it into the mirror m, as a co-recipient does who knows the length and the time of d/a.
fn replace_in_mirror(s: &Sandbox) {
    let (content, modified) = (s.read("d/a"), fs::metadata(s.path("d/a")).unwrap().modified().unwrap());
    let set = |bytes: &[u8]| {
        s.write("d/a", bytes);
        fs::File::options().write(true).open(s.path("d/a")).unwrap().set_modified(modified).unwrap();
    };
    set(&vec![b'!'; content.len()]);
    // The time says to their run that nothing has changed.
    let mut run = s.command(&["mirror", "d", "m", "-k", "k", "--checksum"]);
    Ended(run.env("PHALANX_STATE", s.path("another state")).output().unwrap()).ok();
    fs::remove_dir_all(s.path("another state")).unwrap();
    set(&content);
}

#[test]
fn a_folder_of_a_signed_mirror_is_no_other_signed_tree() {
    let s = prepared();
    for folder in ["d", "d/sub", "d/sub/below", "e", "e/below"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    s.write("d/sub/below/a", "new");
    s.write("e/below/a", "old");
    for (from, to) in [("d", "m"), ("e", "other")] {
        s.run(&["mirror", from, to, "-k", "k", "--sign", "alice"]).ok();
    }
    // All of the other tree is signed by alice too.
    fs::remove_dir_all(s.path("m/sub")).unwrap();
    fs::rename(s.path("other"), s.path("m/sub")).unwrap();
    for path in ["m/sub", "m/sub/below"] {
        for args in [&["verify", "-R", path][..], &["unprotect", "-R", path, "-o", "out"]] {
            let named = s.run(&[args, &["-k", "k", "--signers", "signers"]].concat());
            assert!(named.error().contains("a.phx: another version"), "{}", named.error());
            assert_eq!(named.0.status.code(), Some(3));
        }
        assert!(!s.exists("out/below/a") && !s.exists("out/a"));
        fs::remove_dir_all(s.path("out")).unwrap();
        // Without signers, a tree below a mirror is one of its own.
        s.run(&["verify", "-R", path, "-k", "k"]).ok();
    }
}

#[test]
fn what_a_co_recipient_put_into_a_mirror_is_not_signed() {
    let s = prepared();
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", painted(5000));
    s.write("d/gone", "gone");
    let sign = || s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice"]);
    sign().ok();
    fs::remove_file(s.path("d/gone")).unwrap();
    replace_in_mirror(&s);
    let foreign = s.read("m/phalanx.tree");
    let refused = || {
        let refused = sign().fails(3);
        assert!(refused.contains("m/phalanx.tree: this machine has not written it, and the key has not"), "{refused}");
        s.run(&["verify", "-R", "m", "-k", "k", "--signers", "signers"]).fails(3);
    };
    refused();
    assert_eq!(s.read("m/phalanx.tree"), foreign);
    // That this machine has seen it since, or has written another one after it, changes nothing.
    s.run(&["verify", "-R", "m", "-k", "k", "--accept"]).ok();
    refused();
    s.run(&["mirror", "d", "m", "-k", "k"]).ok();
    refused();
    s.write("d/new", "new");
    s.run(&["mirror", "d", "m", "-k", "k"]).ok();
    refused();
    s.run(&["rekey", "-R", "m", "-k", "k", "--fresh"]).ok();
    refused();
    // What is signed in the end was all written by this machine.
    fs::remove_file(s.path("m/phalanx.tree")).unwrap();
    s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice", "--new"]).ok();
    fs::remove_file(s.path("m/gone.phx")).unwrap();
    s.run(&["unprotect", "-R", "m", "-o", "out", "-k", "k", "--signers", "signers"]).ok();
    assert!(s.read("out/a") == painted(5000) && s.read("out/new") == b"new" && !s.exists("out/gone"));
    sign().ok();
}

#[test]
fn an_own_manifest_is_signed_by_whatever_machine() {
    let s = prepared();
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", "a");
    let (unsigned, signed) =
        (&["mirror", "d", "m", "-k", "k"][..], &["mirror", "d", "m", "-k", "k", "--sign", "alice"][..]);
    // This machine wrote it, with and without a signature, and with other keys.
    s.run(unsigned).ok();
    s.run(signed).ok();
    s.write("d/b", "b");
    s.run(unsigned).ok();
    s.run(signed).ok();
    s.run(&["rekey", "-R", "m", "-k", "k", "--fresh"]).ok();
    s.run(signed).ok();
    // Another machine finds the signature of its own key.
    fs::remove_dir_all(s.path("state")).unwrap();
    s.write("d/c", "c");
    s.run(signed).ok();
    s.run(&["verify", "-R", "m", "-k", "k", "--signers", "signers"]).ok();
    fs::remove_dir_all(s.path("state")).unwrap();
    fs::remove_file(s.path("m/phalanx.tree.sig")).unwrap();
    s.run(signed).fails(3);
    // A whole folder is written again, whatever was there.
    s.run(&["protect", "-R", "d", "-o", "m", "-k", "k", "--sign", "alice", "--force"]).ok();
    s.run(&["verify", "-R", "m", "-k", "k", "--signers", "signers"]).ok();
}

#[test]
fn a_manifest_that_is_exchanged_before_it_is_signed_is_not_signed() {
    let s = prepared();
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", painted(5000));
    s.run(&["protect", "-R", "d", "-o", "other", "-k", "k"]).ok();
    let exchange = || fs::rename(s.path("other/phalanx.tree"), s.path("m/phalanx.tree")).unwrap();
    let args = ["mirror", "d", "m", "-k", "k", "--sign", "alice"];
    // The second sync of the folder is that when the manifest has its name.
    let is_there = || s.exists("m/phalanx.tree");
    let folder = fs::canonicalize(s.path("")).unwrap().join("m");
    let of_folder = ["-P", folder.to_str().unwrap()];
    let start = |options: &[&str]| s.traced(&[options, &of_folder].concat(), &args);
    let Some(paused) = Paused::begin(Delay::Enter, "fsync:when=2", start) else { return };
    paused.meanwhile(is_there, exchange).ok();
    let refused = s.run(&["verify", "-R", "m", "-k", "k", "--signers", "signers"]).fails(3);
    assert!(refused.contains(NOT_IT), "{refused}");
}

#[test]
fn old_content_with_its_old_signature_is_found_through_the_manifest() {
    let s = prepared();
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", painted(5000));
    s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice"]).ok();
    let copy = |from: &str, to: &str| assert!(s.succeeds("cp", &["-a", from, to]));
    copy("m", "old");
    s.write("d/a", painted(6000));
    s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice"]).ok();
    let check = |args: &[&str]| s.run(&[&["verify", "-R", "m", "-k", "k", "--signers", "signers"], args].concat());
    let json = check(&["--json"]).text();
    let generation = json.split("\"generation\":").nth(1).unwrap().split([',', '}']).next().unwrap().to_owned();
    // One old file.
    fs::copy(s.path("m/a.phx"), s.path("new")).unwrap();
    fs::copy(s.path("old/a.phx"), s.path("m/a.phx")).unwrap();
    let named = check(&[]);
    assert!(named.error().contains("m/a.phx: another version"), "{}", named.error());
    assert_eq!(named.0.status.code(), Some(3));
    // The whole old mirror, with its signature: it is signed, and older than what was seen.
    fs::remove_dir_all(s.path("m")).unwrap();
    copy("old", "m");
    let set_back = check(&[]);
    assert!(set_back.error().contains("the mirror may have been set back"), "{}", set_back.error());
    assert!(check(&["--at-least", &generation]).fails(3).contains("which is before"));
}

/// A file that fails is missing from the manifest, and the rest is signed.
#[test]
fn one_file_that_fails_leaves_the_mirror_signed() {
    let s = prepared();
    fs::create_dir_all(s.path("m/b.phx")).unwrap();
    fs::create_dir(s.path("d")).unwrap();
    ["d/a", "d/b"].iter().for_each(|name| drop(s.write(name, *name)));
    let said = s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice"]).fails_with_lines(4);
    assert!(said.contains("m/b.phx") && !said.contains(GCM), "{said}");
    fs::remove_dir(s.path("m/b.phx")).unwrap();
    s.run(&["verify", "-R", "m", "-k", "k", "--signers", "signers"]).ok();
}

/// Runs on another machine, which has a state of its own.
pub fn elsewhere(s: &Sandbox, args: &[&str]) -> Ended {
    Ended(s.command(args).env("PHALANX_STATE", s.path("elsewhere")).output().unwrap())
}

pub const SIGN: [&str; 7] = ["mirror", "d", "m", "-k", "k", "--sign", "alice"];
pub const CHECK: [&str; 7] = ["verify", "-R", "m", "-k", "k", "--signers", "signers"];

/// A mirror that another machine wrote.
pub fn foreign() -> Sandbox {
    let s = prepared();
    fs::create_dir_all(s.path("d/sub")).unwrap();
    s.write("d/a", painted(5000));
    s.write("d/sub/b", "b");
    symlink("a", s.path("d/l")).unwrap();
    elsewhere(&s, &["mirror", "d", "m", "-k", "k"]).ok();
    s
}

#[test]
fn a_mirror_of_another_machine_is_signed_once_it_was_compared() {
    let s = foreign();
    let refused = s.run(&SIGN).fails_with_lines(3);
    assert!(refused.contains("this machine has not written it") && refused.contains("hint: --checksum"), "{refused}");
    let compare = [&SIGN[..], &["--checksum"]].concat();
    let said = s.run(&compare);
    assert!(said.error().contains("0 files new, 3 unchanged"), "{}", said.error());
    said.ok();
    s.run(&CHECK).ok();
    // From now on it is this machine's.
    s.write("d/c", "c");
    s.run(&SIGN).ok();
    s.run(&CHECK).ok();
    // It has an id that this machine has given it. So the other machine has to accept it.
    let other = elsewhere(&s, &SIGN).fails(3);
    assert!(other.contains("it is that of another mirror"), "{other}");
    elsewhere(&s, &["verify", "-R", "m", "-k", "k", "--accept"]).ok();
    s.write("d/e", "e");
    elsewhere(&s, &SIGN).ok();
    s.run(&CHECK).ok();
    s.run(&SIGN).ok();
    // A comparison without a signature counts for nothing.
    s.write("d/e", "again");
    elsewhere(&s, &["mirror", "d", "m", "-k", "k"]).ok();
    s.write("d/f", "f");
    s.run(&["mirror", "d", "m", "-k", "k", "--checksum"]).ok();
    s.run(&SIGN).fails(3);
    s.run(&compare).ok();
    s.run(&CHECK).ok();
}

#[test]
fn what_a_co_recipient_put_there_is_written_again_before_it_is_signed() {
    let s = foreign();
    replace_in_mirror(&s);
    let theirs = ["a.phx", "phalanx.tree"].map(|name| (name, s.read(&format!("m/{name}"))));
    let said = s.run(&[&SIGN[..], &["--checksum"]].concat());
    assert!(said.error().contains("0 files new, 1 changed, 2 unchanged"), "{}", said.error());
    said.ok();
    s.run(&["unprotect", "-R", "m", "-o", "out", "-k", "k", "--signers", "signers"]).ok();
    assert_eq!(s.read("out/a"), painted(5000));
    // That it was compared once does not make it this machine's: it is not signed unread if it comes back.
    theirs.iter().for_each(|(name, bytes)| drop(s.write(&format!("m/{name}"), bytes)));
    s.run(&SIGN).fails(3);
    s.run(&CHECK).fails(3);
}

#[test]
fn what_cannot_be_compared_is_not_signed() {
    let s = foreign();
    let compare = |more: &[&str]| s.run(&[&SIGN[..], &["--checksum"], more].concat());
    let refused = |ended: Ended| {
        let refused = ended.fails_with_lines(3);
        assert!(refused.contains("1 entry of it cannot be compared with the source"), "{refused}");
        assert!(!s.exists("m/phalanx.tree.sig"));
    };
    // What the rules leave out.
    refused(compare(&["--exclude", "a"]));
    refused(compare(&["--exclude", "a", "-n"]));
    // What is nothing to read at the source any more.
    fs::rename(s.path("d/a"), s.path("kept")).unwrap();
    assert!(s.succeeds("mkfifo", &["d/a"]));
    let before = s.read("m/phalanx.tree");
    refused(compare(&["--delete"]));
    // What is gone there.
    fs::remove_file(s.path("d/a")).unwrap();
    refused(compare(&[]));
    assert_eq!(s.read("m/phalanx.tree"), before);
    compare(&["--delete"]).ok();
    s.run(&CHECK).ok();
    assert!(!s.exists("m/a.phx"));
}

#[test]
fn a_file_that_cannot_be_read_leaves_a_mirror_of_others_unsigned() {
    let s = foreign();
    s.write("m/phalanx.tree.sig", "old");
    s.write("d/new", "new");
    let args = [&SIGN[..], &["--checksum"]].concat();
    let Some(mut run) = s.traced(&["-P", "a", "-e", "inject=openat:error=EIO"], &args) else { return };
    let failed = Ended(run.output().unwrap());
    assert!(failed.error().contains("not all that it lists could be compared"), "{}", failed.error());
    failed.fails_with_lines(3);
    assert!(!s.exists("m/phalanx.tree.sig") && s.exists("m/new.phx"));
    s.run(&SIGN).fails(3);
    s.run(&args).ok();
    s.run(&CHECK).ok();
}

#[test]
fn signers_who_trust_each_other_go_on_with_one_mirror() {
    let s = foreign();
    s.write("team", line("alice", "", &s, "alice") + &line("bob", "", &s, "bob"));
    let team = |key: &str| ["mirror", "d", "m", "-k", "k", "--sign", key, "--signers", "team"].map(str::to_owned);
    let (alice, bob) = (team("alice"), team("bob"));
    let (alice, bob) = (alice.each_ref().map(|arg| &**arg), bob.each_ref().map(|arg| &**arg));
    elsewhere(&s, &bob).ok();
    for name in ["d/c", "d/e"] {
        s.write(name, name);
        s.run(&alice).ok();
        s.run(&CHECK).ok();
        s.write(name, "again");
        elsewhere(&s, &bob).ok();
        assert!(s.run(&CHECK).fails(3).contains("no line has this key"));
    }
    // Alone, alice does not go on with what bob has signed, nor once he is revoked.
    let own = elsewhere(&s, &["mirror", "d", "m", "-k", "k"]);
    own.ok();
    s.run(&SIGN).fails(3);
    let revoked = s.run(&[&alice[..], &["--revoked", "bob.pub"]].concat()).fails(3);
    assert!(revoked.contains("and not allowed by team: the key is revoked"), "{revoked}");
    // Neither of them has signed what a co-recipient wrote.
    replace_in_mirror(&s);
    let foreign = s.run(&alice).fails(3);
    assert!(foreign.contains(NOT_IT), "{foreign}");
    fs::remove_file(s.path("m/phalanx.tree.sig")).unwrap();
    assert!(s.run(&alice).fails(3).contains("it is not signed: there is no"));
    s.run(&[&alice[..], &["--checksum"]].concat()).ok();
    s.run(&CHECK).ok();
    let unused = s.run(&["mirror", "d", "m", "-k", "k", "--signers", "team"]).fails_with_lines(2);
    assert!(unused.contains("--sign"), "{unused}");
}
