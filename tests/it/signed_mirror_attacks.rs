//! Attacks on signed mirrors by somebody who can open the files and write to the storage: with what was signed before, with other
//! mirrors of the signer, and with runs that were killed.

use crate::common::{Sandbox, painted};
use crate::signatures::{line, prepared};
use crate::signed_mirrors::{CHECK, SIGN, elsewhere, foreign};
use std::fs;

/// The mirrors m and other of d and e, whose files have the same names, lengths and times.
fn two_mirrors() -> Sandbox {
    let s = prepared();
    for (folder, mirror) in [("d", "m"), ("e", "other")] {
        fs::create_dir(s.path(folder)).unwrap();
        s.write(&format!("{folder}/a"), folder);
        // Whoever unpacks archives gets files with the same times everywhere.
        let file = fs::File::options().write(true).open(s.path(&format!("{folder}/a"))).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        s.run(&["mirror", folder, mirror, "-k", "k", "--sign", "alice"]).ok();
    }
    s
}

/// Puts a copy of a mirror where another one is.
fn put(s: &Sandbox, from: &str, to: &str) {
    fs::remove_dir_all(s.path(to)).ok();
    assert!(s.succeeds("cp", &["-a", from, to]));
}

/// The newest signature would stand for old content, and for what somebody signed who is not trusted any more.
#[test]
fn a_mirror_that_was_set_back_is_not_signed_as_the_newest() {
    let s = prepared();
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", "a");
    s.write("d/gone", "gone");
    let put = |from, to| put(&s, from, to);
    s.run(&SIGN).ok();
    put("m", "old");
    fs::remove_file(s.path("d/gone")).unwrap();
    s.run(&[&SIGN[..], &["--delete"]].concat()).ok();
    let refused = || {
        let refused = s.run(&SIGN).fails_with_lines(3);
        assert!(refused.contains("this machine has seen a later one") && refused.contains("hint: "), "{refused}");
    };
    put("old", "m");
    let before = s.names();
    refused();
    assert_eq!(s.names(), before);
    // Neither a run without a signature nor new keys make it the newest.
    s.run(&["mirror", "d", "m", "-k", "k"]).ok();
    s.run(&SIGN).fails(3);
    s.run(&[&SIGN[..], &["--checksum", "--delete"]].concat()).ok();
    put("m", "old");
    s.write("d/b", "b");
    s.run(&SIGN).ok();
    put("old", "m");
    refused();
    s.run(&["rekey", "-R", "m", "-k", "k", "--fresh"]).ok();
    s.run(&SIGN).fails(3);
    // The comparison goes on, and so does the user's word.
    s.run(&[&SIGN[..], &["--checksum"]].concat()).ok();
    s.run(&SIGN).ok();
    s.run(&CHECK).ok();
    put("old", "m");
    s.run(&["verify", "-R", "m", "-k", "k", "--accept"]).ok();
    s.run(&SIGN).ok();
    s.run(&CHECK).ok();
}

#[test]
fn what_another_signer_wrote_is_not_signed_without_their_signature() {
    let s = foreign();
    s.write("team", line("bob", "", &s, "bob"));
    elsewhere(&s, &["mirror", "d", "m", "-k", "k", "--sign", "bob", "--checksum"]).ok();
    let theirs = s.read("m/phalanx.tree");
    s.write("d/a", painted(6000));
    s.run(&[&SIGN[..], &["--signers", "team"]].concat()).ok();
    s.write("m/phalanx.tree", theirs);
    s.run(&SIGN).fails(3);
}

/// The signature of the old manifest may be all that vouches for it, so it is there for as long as that is.
#[test]
fn a_run_that_is_killed_leaves_a_mirror_that_can_be_signed() {
    let s = foreign();
    s.run(&[&SIGN[..], &["--checksum"]].concat()).ok();
    fs::rename(s.path("m"), s.path("before")).unwrap();
    s.write("d/a", painted(6000));
    let mut kills = 0;
    loop {
        assert!(s.succeeds("cp", &["-a", "before", "m"]));
        fs::remove_dir_all(s.path("state")).unwrap();
        let nth = format!("inject=renameat,renameat2,linkat,unlinkat:signal=KILL:when={}", kills + 1);
        let Some(mut run) = s.traced(&["-e", &nth], &SIGN) else { return };
        if run.output().unwrap().status.success() {
            break;
        }
        kills += 1;
        s.run(&SIGN).ok();
        s.run(&CHECK).ok();
        fs::remove_dir_all(s.path("m")).unwrap();
    }
    assert!(kills > 3, "{kills}");
}

#[test]
fn another_mirror_of_a_signer_is_not_signed_as_this_one() {
    let s = two_mirrors();
    put(&s, "other", "m");
    let refused = s.run(&SIGN).fails_with_lines(3);
    assert!(refused.contains("it is that of another mirror than was seen there before"), "{refused}");
    // A run without a signature in between does not make it one that is signed unread, not even if it compares.
    s.run(&["mirror", "d", "m", "-k", "k"]).ok();
    s.write("d/b", "b");
    s.run(&["mirror", "d", "m", "-k", "k"]).ok();
    s.run(&SIGN).fails(3);
    fs::remove_file(s.path("m/phalanx.tree.sig")).unwrap();
    s.run(&SIGN).fails(3);
    s.write("d/c", "c");
    s.run(&["mirror", "d", "m", "-k", "k", "--checksum"]).ok();
    s.run(&SIGN).fails(3);
    s.run(&[&SIGN[..], &["--checksum"]].concat()).ok();
    s.run(&SIGN).ok();
    s.run(&["unprotect", "-R", "m", "-o", "out", "-k", "k", "--signers", "signers"]).ok();
    assert_eq!(s.read("out/a"), b"d");
}

#[test]
fn two_mirrors_of_a_signer_stay_two_when_one_was_compared_in_the_place_of_the_other() {
    let s = two_mirrors();
    let compare = [&SIGN[..], &["--checksum"]].concat();
    put(&s, "m", "old");
    put(&s, "other", "m");
    s.run(&compare).ok();
    // The one that was there is known as its older state, and the other one as another.
    put(&s, "m", "new");
    put(&s, "old", "m");
    assert!(s.run(&SIGN).fails(3).contains("this machine has seen a later one"));
    put(&s, "other", "m");
    assert!(s.run(&SIGN).fails(3).contains("another mirror than was seen there before"));
    // It does not pass in the place of the other one.
    let other = ["verify", "-R", "other", "-k", "k", "--signers", "signers"];
    assert_eq!(s.run(&other).error(), "");
    put(&s, "other", "kept");
    put(&s, "new", "other");
    assert!(s.run(&other).error().contains("it is another mirror than the one that was seen there"));
    put(&s, "kept", "other");
    // Nor does what was compared at a path where nothing was seen.
    put(&s, "other", "unknown");
    fs::remove_file(s.path("unknown/phalanx.tree.sig")).unwrap();
    s.write("e/b", "b");
    s.run(&["mirror", "e", "other", "-k", "k", "--sign", "alice"]).ok();
    s.run(&["mirror", "d", "unknown", "-k", "k", "--sign", "alice", "--checksum"]).ok();
    put(&s, "unknown", "other");
    assert!(s.run(&other).error().contains("it is another mirror than the one that was seen there"));
}

/// What a killed run has written may come from another source.
#[test]
fn what_a_killed_run_has_written_is_compared() {
    let s = two_mirrors();
    let mut kills = 0;
    loop {
        for folder in ["m", "out", "state"] {
            fs::remove_dir_all(s.path(folder)).ok();
        }
        let nth = format!("inject=renameat,renameat2,linkat:signal=KILL:when={}", kills + 1);
        let Some(mut run) = s.traced(&["-e", &nth], &["mirror", "d", "m", "-k", "k"]) else { return };
        if run.output().unwrap().status.success() {
            break;
        }
        kills += 1;
        s.run(&["mirror", "e", "m", "-k", "k", "--sign", "alice", "--checksum"]).ok();
        s.run(&["unprotect", "-R", "m", "-o", "out", "-k", "k", "--signers", "signers"]).ok();
        assert_eq!(s.read("out/a"), b"e", "{kills}");
        // What it wrote is listed, also if it was compared and stays.
        fs::remove_dir_all(s.path("m")).unwrap();
        fs::remove_dir_all(s.path("state")).unwrap();
        s.traced(&["-e", &nth], &["mirror", "d", "m", "-k", "k"]).unwrap().output().unwrap();
        s.run(&[&SIGN[..], &["--checksum"]].concat()).ok();
        s.run(&CHECK).ok();
    }
    assert!(kills > 1, "{kills}");
}

/// Whether a mirror was set back cannot be known then, so nothing is signed, and a warning says why.
#[test]
fn what_this_machine_remembers_and_cannot_read_is_told() {
    for kind in ["json", "own", "place"] {
        let s = prepared();
        fs::create_dir(s.path("d")).unwrap();
        s.write("d/a", "a");
        // The key has not signed the manifest, which this machine has written.
        s.run(&["mirror", "d", "m", "-k", "k"]).ok();
        let trees = fs::read_dir(s.path("state/trees")).unwrap().map(|entry| entry.unwrap().path());
        let note = trees.into_iter().find(|path| path.extension().is_some_and(|end| end == kind)).unwrap();
        fs::remove_file(&note).unwrap();
        fs::create_dir(&note).unwrap();
        let name = note.file_name().unwrap().to_str().unwrap();

        s.write("d/b", "b");
        let refused = s.run(&SIGN).fails(4);
        assert!(refused.contains(name), "{refused}");
        assert!(!s.path("m/b.phx").exists());
        if kind != "own" {
            let told = s.run(&["verify", "-R", "m", "-k", "k"]);
            assert!(told.error().contains("warning: what this machine remembers"), "{}", told.error());
            told.ok();
        }
        fs::remove_dir(&note).unwrap();
        s.run(&[&SIGN[..], &["--checksum"]].concat()).ok();
    }
}

/// Who checks the mirror before it is renewed, as the nightly script does, must not forget that it was set back.
#[test]
fn what_cannot_be_read_is_not_replaced_by_what_is_found() {
    let s = prepared();
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", "a");
    s.run(&SIGN).ok();
    put(&s, "m", "old");
    s.write("d/b", "b");
    s.run(&SIGN).ok();
    put(&s, "old", "m");
    let notes = fs::read_dir(s.path("state/trees")).unwrap().map(|entry| entry.unwrap().path());
    for note in notes.filter(|path| path.extension().is_some_and(|end| end == "json" || end == "place")) {
        fs::write(note, "{").unwrap();
    }
    for _ in 0..2 {
        let told = s.run(&["verify", "-R", "m", "-k", "k"]);
        assert!(told.error().contains("warning: what this machine remembers"), "{}", told.error());
        told.ok();
        s.run(&SIGN).fails(4);
    }
    s.run(&["mirror", "d", "m", "-k", "k"]).ok();
    s.run(&SIGN).fails(4);
    // The user may say that it is right.
    s.run(&["verify", "-R", "m", "-k", "k", "--accept"]).ok();
    assert!(!s.run(&["verify", "-R", "m", "-k", "k", "--accept"]).error().contains("remembers"));
}
