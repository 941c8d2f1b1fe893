//! `phalanx engines` and `--engine auto`, by the command.

mod common;

use common::{Sandbox, painted};
use serde_json::Value;
use std::fs;

/// `engines --json`, and more arguments.
fn report(s: &Sandbox, args: &[&str]) -> Value {
    serde_json::from_str(&s.run(&[&["engines", "--json"], args].concat()).text()).unwrap()
}

/// The one file of the cache folder.
fn kept(s: &Sandbox) -> std::path::PathBuf {
    let mut files = fs::read_dir(s.path("cache")).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "one file is kept");
    file
}

#[test]
fn engines_are_measured_and_kept() {
    let s = Sandbox::new();
    let first = report(&s, &[]);
    for (i, name) in ["serial", "cpu"].iter().enumerate() {
        let engine = &first["engines"][i];
        assert_eq!(engine["name"], *name);
        assert!(engine["lanes"].as_u64().unwrap() > 0 && engine["detail"].as_str().unwrap().contains("AES"));
        assert_eq!(engine["start_seconds"], 0.0);
        for direction in ["seal", "open"] {
            assert!(engine["speeds_gb_per_s"][direction].as_f64().unwrap() > 0.0);
        }
    }
    assert_eq!(first["engines"][1]["passes"][0]["engine"], "serial");
    let before = fs::read(kept(&s)).unwrap();
    assert_eq!(report(&s, &[])["engines"], first["engines"], "measured once");
    assert_eq!(fs::read(kept(&s)).unwrap(), before);
    report(&s, &["--calibrate"]);
    assert_ne!(fs::read(kept(&s)).unwrap(), before, "measured anew");
}

#[test]
fn engines_are_explained() {
    let s = Sandbox::new();
    let text = s.run(&["engines"]).text();
    let line =
        |word: &str| text.lines().find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("{word}: {text}"));
    assert!(line("serial ").contains("1 thread, AES ") && line("serial ").contains(" GB/s in memory"), "{text}");
    assert!(line("cpu ").contains("seals ") && line("cpu ").contains("opens "), "{text}");
    assert!(text.contains("        passes serial "), "{text}");
    assert!(line("auto ").starts_with("auto    4 KB: serial; 1 MB: serial; 1 GB: "), "{text}");
    // Each interface has a device or a reason.
    let told = |interface: &str| {
        let is_of = |line: &&str| line.starts_with("device") && line.contains(&format!("({interface}; "));
        text.lines().any(|line| is_of(&line) || line.starts_with(&format!("none    {interface}: ")))
    };
    assert!(told("CUDA") && told("OpenCL"), "{text}");
}

#[test]
fn crossings_begin_at_nothing() {
    let s = Sandbox::new();
    let report = report(&s, &[]);
    let crossings = report["crossings"].as_array().unwrap();
    for (direction, open) in [("seal", false), ("open", false), ("seal", true), ("open", true)] {
        let of = |c: &&Value| c["direction"] == direction && c["device_open"] == open;
        let own: Vec<_> = crossings.iter().filter(of).collect();
        assert_eq!(own[0]["from_bytes"], 0);
        assert!(own.is_sorted_by_key(|c| c["from_bytes"].as_u64().unwrap()));
        // The engine for 1 GB is that of the last crossing before it.
        if !open {
            let last = own.iter().rev().find(|c| c["from_bytes"].as_u64().unwrap() <= 1_000_000_000).unwrap();
            assert_eq!(report["auto"][2][direction], last["engine"]);
        }
    }
    let sizes: Vec<_> = report["auto"].as_array().unwrap().iter().map(|e| e["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [4_000, 1_000_000, 1_000_000_000]);
}

/// A cache folder that cannot be written is the failure of `--calibrate` alone.
#[test]
fn what_cannot_be_kept() {
    let s = Sandbox::new();
    s.write("cache", "a file");
    s.run(&["key", "new", "k"]).ok();
    s.write("f", painted(5 << 20));
    assert!(s.run(&["engines", "--calibrate"]).fails(4).contains("cache"));
    assert!(s.run(&["engines"]).text().contains("GB/s"));
    s.run(&["protect", "f", "-k", "k"]).ok();
    s.run(&["verify", "f.phx"]).ok();
}

/// Whatever lies in the cache folder, commands work and say nothing of it.
#[test]
fn a_hostile_cache_is_absent() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", painted(5 << 20));
    report(&s, &[]);
    let (file, good) = (kept(&s), fs::read_to_string(kept(&s)).unwrap());
    let huge = format!("{}{good}", " ".repeat(1 << 20));
    for bad in ["", "null", "[1, 2]", "\u{0}", &good[..good.len() / 2], &good.replace("seal", "open"), &huge] {
        fs::write(&file, bad).unwrap();
        let ended = s.run(&["protect", "f", "-k", "k", "--force"]);
        assert_eq!(ended.error(), "");
        ended.ok();
        assert_eq!(fs::read_to_string(&file).unwrap(), bad, "5 MB are not worth measuring for");
        report(&s, &[]);
        assert_ne!(fs::read_to_string(&file).unwrap(), bad, "it was made anew");
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(s.run(&["engines"]).text().contains("GB/s"));
    s.run(&["verify", "f.phx"]).ok();
}

/// Small work is done before anybody would ask what else there is.
#[test]
fn auto_tells_what_it_chose() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    for (bytes, engine) in [(1000, "engine serial ("), (3 << 20, "engine cpu (")] {
        s.write("f", painted(bytes));
        for (command, path) in [("protect", "f"), ("verify", "f.phx")] {
            let mut args = vec![command, path, "-k", "k", "-v"];
            args.extend((command == "protect").then_some("--force"));
            let ended = s.run(&args);
            assert!(ended.error().contains(engine), "{}", ended.error());
            ended.ok();
        }
    }
    assert!(!s.exists("cache"), "nothing was measured");
}
