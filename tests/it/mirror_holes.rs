//! A manifest in whose place somebody has put a huge file without content. Reading it would take hours.

use crate::age::public;
use crate::common::Sandbox;
use std::fs::{self, File};

/// A source, and a manifest of somebody else.
fn prepared() -> Sandbox {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("source")).unwrap();
    s.write("source/a", "content");
    s.run(&["key", "new", "other"]).ok();
    s.run(&["mirror", "source", "foreign", "-k", "other", "--no-sync"]).ok();
    s
}

/// Makes a file as long as a terabyte, or the file system's longest.
fn stretch(s: &Sandbox, name: &str) {
    let file = File::options().write(true).open(s.path(name)).unwrap();
    let stretched = [40, 38, 36].into_iter().find(|bits| file.set_len(1 << bits).is_ok());
    stretched.expect("the file system has holes");
}

#[test]
fn holes_behind_a_foreign_header_are_refused_at_once() {
    let s = prepared();
    s.run(&["mirror", "source", "m", "-k", "k", "--no-sync"]).ok();
    let own = s.read("m/phalanx.tree");
    fs::copy(s.path("foreign/phalanx.tree"), s.path("m/phalanx.tree")).unwrap();
    stretch(&s, "m/phalanx.tree");
    let foreign = "phalanx.tree: no key at hand opens it";
    for args in [&["verify", "-R", "m", "-k", "k"][..], &["unprotect", "-R", "m", "-o", "back", "-k", "k"]] {
        let ended = s.run(args);
        assert!(ended.error().contains(foreign), "{args:?}: {}", ended.error());
    }
    let error = s.run(&["mirror", "source", "m", "-k", "k"]).fails(3);
    assert!(error.contains(foreign), "{error}");
    // The mirror's own header.
    s.write("m/phalanx.tree", own);
    stretch(&s, "m/phalanx.tree");
    s.run(&["verify", "-R", "m", "-k", "k"]).fails(3);
    s.run(&["mirror", "source", "m", "-k", "k"]).fails(3);
}

#[test]
fn a_machine_that_opens_nothing_refuses_holes_by_their_length() {
    let s = prepared();
    let mirror = ["mirror", "source", "m", "-r", &public("alice.txt"), "--no-sync"];
    s.run(&mirror).ok();
    s.run(&mirror).ok();
    let own = s.read("m/phalanx.tree");
    for manifest in [own, s.read("foreign/phalanx.tree")] {
        s.write("m/phalanx.tree", manifest);
        stretch(&s, "m/phalanx.tree");
        let error = s.run(&mirror).fails(3);
        assert!(error.contains("it is not the one that this machine wrote last"), "{error}");
    }
}
