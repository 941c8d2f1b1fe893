//! `phalanx inspect`: names of recipients, and whole folders. Other modules test the output for single files.

use crate::age::{data, public};
use crate::common::Sandbox;
use std::fs;
use std::os::unix::fs::symlink;

/// The file f.phx for alice and an SSH key, and a file of recipients that has them and more.
fn for_a_team() -> Sandbox {
    let s = Sandbox::with_key();
    s.write("f", "precious");
    let (alice, bob) = (public("alice.txt"), public("bob.txt"));
    let ssh = data("ssh-ed25519.pub").split(' ').take(2).collect::<Vec<_>>().join(" ");
    s.write(
        "team",
        format!("# not a name\n\n# Bob\n{bob}\n# Alice\n{alice}\n{ssh} carol@host one\n{}", data("ssh-rsa.pub")),
    );
    s.run(&["protect", "f", "-k", "k", "-r", &alice, "-r", &ssh]).ok();
    s.secret("alice.txt", data("alice.txt"));
    s
}

#[test]
fn recipients_get_the_names_that_a_file_gives_them() {
    let s = for_a_team();
    let slots = |args: &[&str]| {
        let text = s.run(&[&["inspect", "f.phx"], args].concat()).text();
        text.lines().filter(|line| line.contains("age recipient")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(!slots(&[]).concat().contains("carol"));
    // SSH keys show without a key.
    let shown = slots(&["--recipients-file", "team"]);
    assert!(shown[0].contains("age recipient, X25519"), "{shown:?}");
    assert!(shown[1].contains("age recipient carol@host one, ssh-ed25519 "), "{shown:?}");
    for opens in [["-k", "k"], ["-i", "alice.txt"]] {
        let shown = slots(&[&["--recipients-file", "team"], &opens[..]].concat());
        assert!(shown[0].contains("age recipient Alice, X25519"), "{shown:?}");
        assert!(shown[1].contains("age recipient carol@host one, ssh-ed25519 "), "{shown:?}");
    }
    s.write("others", public("bob.txt"));
    let shown = slots(&["--recipients-file", "others", "-k", "k"]);
    assert!(shown.iter().all(|line| line.contains("age recipient in no file of recipients, ")), "{shown:?}");
    s.write("nameless", public("alice.txt"));
    let json = s.run(&["inspect", "f.phx", "--json", "--recipients-file", "nameless", "-k", "k"]).text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let expected = serde_json::json!([{"key": public("alice.txt"), "name": "number 1 in nameless"}]);
    assert_eq!(json["slots"][1]["recipients"], expected);
    assert_eq!(json["slots"][2]["recipients"], serde_json::json!([]));
}

#[test]
fn keys_are_only_needed_for_names() {
    let s = for_a_team();
    assert!(s.run(&["inspect", "f.phx", "-k", "k"]).fails(2).contains("--recipients-file"));
    assert!(s.run(&["inspect", "-", "--recipients-file", "-"]).fails(2).contains("more than once"));
    assert!(s.run(&["inspect", "-", "--recipients-file", "team", "-k", "k"]).fails(2).contains("files only"));
    s.secret("bob.txt", data("bob.txt"));
    s.run(&["inspect", "f.phx", "--recipients-file", "team", "-i", "bob.txt"]).fails(3);
}

#[test]
fn a_folder_has_a_line_for_each_protected_file() {
    let s = for_a_team();
    fs::create_dir_all(s.path("t/b/c")).unwrap();
    for name in ["t/z.phx", "t/b/c/a.phx"] {
        fs::copy(s.path("f.phx"), s.path(name)).unwrap();
    }
    s.write("t/a.txt", "plain");
    symlink("../f.phx", s.path("t/link.phx")).unwrap();
    s.run(&["init", "t/v", "-k", "k"]).ok();
    let line = s.run(&["inspect", "t"]).fails(4);
    assert!(line.contains("--recursive"), "{line}");
    let text = s.run(&["inspect", "-R", "t", "--recipients-file", "team"]).text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("t/b/c/a.phx: ") && lines[0].contains(", 8 bytes; key "), "{text}");
    assert!(
        lines[0].contains("; age recipient carol@host one, ssh-ed25519 ") && !lines[0].contains("padding"),
        "{text}"
    );
    assert!(lines[1].starts_with("t/v/phalanx.volume: ") && lines[2].starts_with("t/z.phx: "), "{text}");
    let json = s.run(&["inspect", "-R", "t", "--json"]).text();
    let paths: Vec<_> = json
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(paths, ["t/b/c/a.phx", "t/v/phalanx.volume", "t/z.phx"]);
    // A failure does not stop the run.
    s.write("t/b/damaged.phx", "no");
    let ended = s.run(&["inspect", "-R", "t"]);
    let shown = String::from_utf8(ended.0.stdout.clone()).unwrap();
    assert_eq!(shown.lines().count(), 3);
    assert!(ended.fails(3).contains("t/b/damaged.phx: not a Phalanx file"));
    fs::create_dir(s.path("empty")).unwrap();
    assert!(s.run(&["inspect", "-R", "empty"]).fails(4).contains("no protected file is in it"));
}
