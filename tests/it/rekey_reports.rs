//! What `rekey` reports if a change fails half-way, was interrupted, or finds one file under two names.

use crate::common::{Ended, Sandbox};
use crate::rekey::{HEADER, opens, protected};
use crate::rekey_cut_short::{side, with_faults};
use std::fs;

/// The standard output of a run.
fn output(ended: &Ended) -> String {
    String::from_utf8(ended.0.stdout.clone()).unwrap()
}

#[test]
fn a_failure_after_the_change_does_not_hide_it() {
    let s = protected();
    s.run(&["rekey", "f.phx", "--add-key", "b"]).ok();
    let old = s.read("f.phx");
    let args = ["rekey", "f.phx", "-k", "a", "--remove-key", "b", "--add-key", "c"];
    // Syncing the folder fails after the side file is removed, or the side file cannot be removed.
    for (fault, left) in [("fsync:error=EIO:when=4", 0), ("unlinkat:error=EIO:when=1", 1)] {
        s.write("f.phx", &old);
        let Some(ended) = with_faults(&s, None, &[fault], &args) else { return };
        let (lines, errors) = (output(&ended), ended.fails_with_lines(4));
        assert!(errors.contains("its keys are changed") && errors.contains("Input/output error"), "{errors}");
        assert!(errors.contains("whoever held what was removed"), "{errors}");
        assert!(lines.contains("  after\n") && lines.contains("(c in the keyring)"), "{lines}");
        opens(&s, "ac");
        assert_eq!(s.leftovers().len(), left, "{fault}");
        s.run(&["rekey", "f.phx", "-k", "a"]).ok();
        assert!(s.leftovers().is_empty());
        opens(&s, "ac");
    }
    // The rename of a whole new file is done, but its folder cannot be synced.
    let ended = with_faults(&s, None, &["fsync:error=EIO:when=3+"], &["rekey", "f.phx", "--fresh"]).unwrap();
    let (lines, errors) = (output(&ended), ended.fails_with_lines(4));
    assert!(errors.contains("may not be on the disk yet"), "{errors}");
    assert!(lines.contains("after, under a new file key"), "{lines}");
}

/// Leaves a half-done change that removes the key `a` and adds `b`. The new header is in `new`.
fn torn(s: &Sandbox, name: &str) {
    let (old, new) = (s.read("old"), s.read("new"));
    s.write(name, [&new[..60], &old[60..]].concat());
    let (folder, _) = name.rsplit_once('/').map_or(("", name), |(folder, name)| (folder, name));
    s.write(&format!("{folder}{}{}", if folder.is_empty() { "" } else { "/" }, side()), &new[..HEADER]);
}

#[test]
fn a_finished_change_is_reported_despite_later_failures() {
    let s = protected();
    s.write("old", s.read("f.phx"));
    s.run(&["rekey", "f.phx", "--remove-key", "a", "--add-key", "b"]).ok();
    s.write("new", s.read("f.phx"));
    // The number of a slot may refer to the earlier header.
    torn(&s, "f.phx");
    let ended = s.run(&["rekey", "f.phx", "--remove-slot", "1", "--add-key", "c"]);
    let (lines, errors) = (output(&ended), ended.fails_with_lines(2));
    assert!(errors.contains("other numbers: none was removed"), "{errors}");
    assert!(
        errors.contains("an interrupted change was finished. If it removed") && errors.contains("--fresh"),
        "{errors}"
    );
    assert!(lines.contains("an interrupted change was finished"), "{lines}");
    assert!(s.read("f.phx") == s.read("new") && s.leftovers().is_empty());
    s.run(&["rekey", "f.phx", "--remove-slot", "1", "--add-key", "b"]).ok();
    opens(&s, "b");
    // In a tree.
    fs::create_dir(s.path("t")).unwrap();
    torn(&s, "t/f.phx");
    let ended = s.run(&["rekey", "-R", "t", "-k", "b", "--remove-key", "b", "--json"]);
    let (lines, errors) = (output(&ended), ended.fails_with_lines(2));
    assert!(lines.contains("\"changed\":true") && lines.contains("\"interrupted\":\"finished\""), "{lines}");
    assert!(errors.contains("no way in would be left") && errors.contains("--fresh"), "{errors}");
    // The side file stays.
    torn(&s, "f.phx");
    if let Some(ended) = with_faults(&s, None, &["unlinkat:error=EIO:when=1"], &["rekey", "f.phx"]) {
        let errors = ended.fails_with_lines(4);
        assert!(
            errors.contains("its keys are changed") && errors.contains("an interrupted change was finished"),
            "{errors}"
        );
        assert!(s.read("f.phx") == s.read("new") && s.leftovers() == [side()]);
    }
    // Reading a part of the file fails too.
    torn(&s, "f.phx");
    let line = s.run(&["unprotect", "f.phx", "--range", "0-10", "-o", "-"]).fails(3);
    assert!(line.contains("phalanx rekey finishes it"), "{line}");
    let ended = s.run(&["rekey", "f.phx", "--json"]);
    assert!(ended.error().contains("--fresh"), "{}", ended.error());
    assert!(output(&ended).contains("\"changed\":true"));
}

#[test]
fn a_file_with_two_names_is_changed_once() {
    let s = protected();
    fs::create_dir(s.path("t")).unwrap();
    fs::copy(s.path("f.phx"), s.path("t/1.phx")).unwrap();
    for name in ["2", "3", "4"] {
        fs::hard_link(s.path("t/1.phx"), s.path(&format!("t/{name}.phx"))).unwrap();
    }
    for (add, remove) in [("b", "c"), ("c", "b")].repeat(6) {
        let ended = s.run(&["rekey", "-R", "t", "-k", "a", "--add-key", add, "--remove-key", remove]);
        let lines = output(&ended);
        assert_eq!(lines.matches("another name of a file that this run has done").count(), 3, "{lines}");
        assert!(ended.error().contains("4 files, 1 changed"), "{}", ended.error());
        ended.ok();
    }
    let lines = s.run(&["rekey", "t/1.phx", "t/2.phx", "-k", "a", "--add-key", "b", "--json"]).text();
    assert!(lines.contains("\"changed\":true") && lines.contains("\"other_name\":true"), "{lines}");
    s.run(&["verify", "-R", "t", "-k", "b"]).ok();
    // With new file keys they are separate files.
    let ended = s.run(&["rekey", "-R", "t", "--fresh", "--remove-key", "b"]);
    assert!(ended.error().contains("4 files, 4 changed"), "{}", ended.error());
    ended.ok();
    s.run(&["verify", "-R", "t", "-k", "b"]).fails_with_lines(3);
    s.run(&["verify", "-R", "t", "-k", "a"]).ok();
}

#[test]
fn only_lost_access_is_warned_about() {
    let s = protected();
    assert_eq!(s.run(&["rekey", "f.phx", "--remove-key", "a", "--add-key", "a"]).error(), "");
    opens(&s, "a");
    let ended = s.run(&["rekey", "f.phx", "--remove-passwords"]);
    assert!(ended.error().contains("a password has no slot in it"), "{}", ended.error());
    assert!(!ended.error().contains("--fresh"));
    ended.ok();
}

#[test]
fn a_change_that_cannot_be_printed_is_reported() {
    let s = protected();
    for json in [&[][..], &["--json"]] {
        let mut command = s.command(&[&["rekey", "f.phx", "-k", "a", "--fresh"], json].concat());
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let errors = Ended(command.stdout(full).output().unwrap()).fails_with_lines(4);
        assert!(errors.contains("f.phx: its keys are changed, although this could not be printed"), "{errors}");
    }
    // If nothing has changed, there is no line about a change.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let errors = Ended(s.command(&["rekey", "f.phx"]).stdout(full).output().unwrap()).fails_with_lines(4);
    assert!(!errors.contains("are changed"), "{errors}");
}

/// The side file is removed, or a line names it.
#[test]
fn a_side_file_that_stays_is_named() {
    let s = protected();
    let before = s.read("f.phx");
    let args = ["rekey", "f.phx", "-k", "a", "--add-key", "b"];
    // This is more than the number of calls.
    for at in 1..50 {
        s.write("f.phx", &before);
        let fault = format!("fstat,newfstatat:error=EIO:when={at}");
        let Some(ended) = with_faults(&s, None, &[&fault], &args) else { return };
        let errors = ended.error();
        let left = s.leftovers();
        assert!(
            left.is_empty() || errors.contains(&side()) || errors.contains("phalanx rekey finishes"),
            "{at}: {errors}"
        );
        for name in left {
            fs::remove_file(s.path(&name)).unwrap();
        }
    }
}
