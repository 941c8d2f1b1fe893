//! `--json` of `protect`, `unprotect` and `verify`: a line for each file, and one for the run.

use crate::common::{Ended, Sandbox, painted};
use crate::mount::Mounted;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

/// The lines of the files, in order of path, and the summary without the seconds.
#[track_caller]
fn lines(ended: &Ended) -> (Vec<Value>, Value) {
    let out = String::from_utf8(ended.0.stdout.clone()).unwrap();
    let mut lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut summary = lines.pop().unwrap()["summary"].take();
    assert!(summary.as_object_mut().unwrap().remove("seconds").unwrap().as_f64().unwrap() > 0.0);
    assert_eq!(ended.0.status.code(), Some(summary["exit_code"].as_i64().unwrap() as i32));
    lines.sort_by_key(|line| line["path"].as_str().map(str::to_owned));
    (lines, summary)
}

fn summary(files: u64, bytes: u64, left_out: u64, failed: u64, without_input: u64, exit_code: i32) -> Value {
    json!({"files": files, "plaintext_bytes": bytes, "left_out": left_out, "failed": failed, "without_input": without_input,
        "exit_code": exit_code})
}

#[test]
fn files_are_reported_one_by_one() {
    let s = Sandbox::with_key();
    s.write("a", "12345");
    s.write("b", "");
    let (done, totals) = lines(&s.run(&["protect", "a", "b", "-k", "k", "--json"]));
    let expected = [
        json!({"path": "a", "output": "a.phx", "status": "protected", "plaintext_bytes": 5}),
        json!({"path": "b", "output": "b.phx", "status": "protected", "plaintext_bytes": 0}),
    ];
    assert_eq!((done, totals), (expected.to_vec(), summary(2, 5, 0, 0, 0, 0)));

    let ended = s.run(&["protect", "a", "missing", "b", "-k", "k", "--json", "--quiet"]);
    let (done, totals) = lines(&ended);
    let exists = |path: &str| {
        let message = format!("{path}: exists already");
        assert_eq!(ended.error().matches(&format!("phalanx: {message}\n")).count(), 1);
        json!({"path": path, "status": "failed", "message": message, "hint": "--force replaces it", "exit_code": 4})
    };
    let message = "missing: cannot read: No such file or directory (os error 2)";
    let missing = json!({"path": "missing", "status": "failed", "message": message, "exit_code": 4});
    assert_eq!(done, [exists("a.phx"), exists("b.phx"), missing]);
    assert_eq!(ended.error().matches("hint: ").count(), 1, "{}", ended.error());
    assert_eq!(totals, summary(0, 0, 0, 3, 0, 4));

    let (done, totals) = lines(&s.run(&["verify", "a.phx", "b.phx", "--json"]));
    assert_eq!(done[0], json!({"path": "a.phx", "status": "whole", "plaintext_bytes": 5}));
    assert_eq!((done.len(), totals), (2, summary(2, 5, 0, 0, 0, 0)));
    let (done, totals) = lines(&s.run(&["unprotect", "a.phx", "-o", "again", "--json"]));
    assert_eq!(done, [json!({"path": "a.phx", "output": "again", "status": "unprotected", "plaintext_bytes": 5})]);
    assert_eq!(totals, summary(1, 5, 0, 0, 0, 0));
}

#[test]
fn folders_report_every_entry() {
    let s = Sandbox::with_key();
    fs::create_dir_all(s.path("t/sub")).unwrap();
    s.write("t/a", "1");
    s.write("t/sub/b", painted(100_000));
    let odd = OsStr::from_bytes(b"odd \xff");
    fs::write(s.path("t").join(odd), "123").unwrap();
    let (done, totals) = lines(&s.run(&["protect", "-R", "t", "-k", "k", "--json"]));
    let odd_line = json!({"path": "t/odd \u{fffd}", "path_hex": "742f6f646420ff", "output": "t.phx/odd \u{fffd}.phx",
        "output_hex": "742e7068782f6f646420ff2e706878", "status": "protected", "plaintext_bytes": 3});
    let sub =
        json!({"path": "t/sub/b", "output": "t.phx/sub/b.phx", "status": "protected", "plaintext_bytes": 100_000});
    assert_eq!((&done[1], &done[2], totals), (&odd_line, &sub, summary(3, 100_004, 0, 0, 0, 0)));

    // One is damaged, one is left out, and one has no input. There is no manifest to say so.
    s.lose_manifest("t.phx");
    File::options().write(true).open(s.path("t.phx/sub/b.phx")).unwrap().write_all_at(b"damaged!", 50_000).unwrap();
    s.write("t.phx/plain", "");
    let ended = s.run(&["verify", "-R", "t.phx", "--json"]);
    let (done, totals) = lines(&ended);
    let mut expected = summary(2, 4, 1, 1, 0, 3);
    expected["manifest"] = false.into();
    assert_eq!(totals, expected);
    let left_out = "t.phx/plain: the name does not end in .phx: left out";
    assert_eq!(done[2], json!({"path": "t.phx/plain", "status": "left_out", "message": left_out}));
    assert_eq!((&done[3]["path"], &done[3]["status"]), (&json!("t.phx/sub/b.phx"), &json!("failed")));
    assert_eq!(done[3]["exit_code"], 3);
    assert!(ended.error().contains(done[3]["message"].as_str().unwrap()), "{}", ended.error());
    let (_, totals) = lines(&s.run(&["protect", "-R", "t", "-k", "k", "--force", "--json"]));
    assert_eq!(totals, summary(3, 100_004, 0, 0, 1, 0));
}

#[test]
fn volumes_report_their_content() {
    let s = Sandbox::with_key();
    s.run(&["init", "vol", "-k", "k"]).ok();
    let Some(mut mounted) = Mounted::start(&s, &["vol", "mnt", "-k", "k"]) else { return };
    fs::write(mounted.path("f"), "12345").unwrap();
    mounted.unmount();
    assert!(mounted.ended().success());
    for args in [&["verify", "vol", "--json"][..], &["verify", "-R", ".", "--json"]] {
        let (done, totals) = lines(&s.run(args));
        assert_eq!(done.iter().filter(|line| line["status"] == "whole").count(), 1, "{done:?}");
        assert_eq!((&done.last().unwrap()["plaintext_bytes"], &totals["files"]), (&json!(5), &json!(1)));
    }
    let (done, totals) = lines(&s.run(&["unprotect", "-R", "vol", "-o", "out", "--json"]));
    assert_eq!(done, [json!({"path": "vol/f", "output": "out/f", "status": "unprotected", "plaintext_bytes": 5})]);
    assert_eq!(totals, summary(1, 5, 0, 0, 0, 0));
}

#[test]
fn json_and_an_output_cannot_share_standard_output() {
    let s = Sandbox::with_key();
    s.write("a", "1");
    for args in [&["protect", "a", "-o", "-", "-k", "k", "--json"][..], &["protect", "-", "-k", "k", "--json"]] {
        assert!(s.run(args).fails(2).contains("--json needs standard output"));
    }
    // If the lines cannot be written, the work is still done, but the run fails.
    let mut command = s.command(&["protect", "a", "-k", "k", "--json"]);
    let ended = Ended(command.stdout(File::options().write(true).open("/dev/full").unwrap()).output().unwrap());
    assert!(ended.fails(4).contains("standard output"));
    s.run(&["verify", "a.phx"]).ok();
}
