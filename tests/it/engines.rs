//! `phalanx engines` and `--engine auto`.

use crate::common::{Ended, Sandbox, painted};
use serde_json::Value;
use std::fs;

/// The report of `engines --json` with more arguments.
fn report(s: &Sandbox, args: &[&str]) -> Value {
    serde_json::from_str(&s.run(&[&["engines", "--json"], args].concat()).text()).unwrap()
}

/// The only file of the cache folder.
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
        assert!(engine["workers"].as_u64().unwrap() > 0 && engine["detail"].as_str().unwrap().contains("AES"));
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
    assert!(line("serial ").contains("1 thread, AES ") && line("serial ").contains("B/s in memory"), "{text}");
    assert!(line("cpu ").contains("seals ") && line("cpu ").contains("opens "), "{text}");
    assert!(text.contains("        passes serial "), "{text}");
    assert!(line("auto ").starts_with("auto    4 kB: serial; 1 MB: serial; 1 GB: "), "{text}");
    // Each interface has a device or a reason.
    let is_listed = |interface: &str| {
        let is_of = |line: &&str| line.starts_with("device") && line.contains(&format!("({interface}; "));
        text.lines().any(|line| is_of(&line) || line.starts_with(&format!("none    {interface}: ")))
    };
    assert!(is_listed("CUDA") && is_listed("OpenCL"), "{text}");
}

#[test]
fn crossings_begin_at_zero() {
    let s = Sandbox::new();
    let report = report(&s, &[]);
    let crossings = report["crossings"].as_array().unwrap();
    for (direction, open) in [("seal", false), ("open", false), ("seal", true), ("open", true)] {
        let of = |c: &&Value| c["direction"] == direction && c["device_open"] == open;
        let own: Vec<_> = crossings.iter().filter(of).collect();
        assert_eq!(own[0]["from_bytes"], 0);
        assert!(own.is_sorted_by_key(|c| c["from_bytes"].as_u64().unwrap()));
        // The engine for 1 GB is the one of the last crossing below it.
        if !open {
            let last = own.iter().rev().find(|c| c["from_bytes"].as_u64().unwrap() <= 1_000_000_000).unwrap();
            assert_eq!(report["auto"][2][direction], last["engine"]);
        }
    }
    let sizes: Vec<_> = report["auto"].as_array().unwrap().iter().map(|e| e["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [4_000, 1_000_000, 1_000_000_000]);
}

/// A cache folder that cannot be written is an error only for `--calibrate`.
#[test]
fn a_calibration_that_cannot_be_kept_fails_only_on_request() {
    let s = Sandbox::new();
    s.write("cache", "a file");
    s.run(&["key", "new", "k"]).ok();
    s.write("f", painted(5 << 20));
    assert!(s.run(&["engines", "--calibrate"]).fails(4).contains("cache"));
    assert!(s.run(&["engines"]).text().contains("B/s"));
    s.run(&["protect", "f", "-k", "k"]).ok();
    s.run(&["verify", "f.phx"]).ok();
}

/// Commands work whatever is in the cache folder, and do not mention it.
#[test]
fn a_hostile_cache_is_ignored() {
    let s = Sandbox::with_key();
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
    assert!(s.run(&["engines"]).text().contains("B/s"));
    s.run(&["verify", "f.phx"]).ok();
}

/// Small work starts without considering other engines.
#[test]
fn auto_reports_its_choice() {
    let s = Sandbox::with_key();
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

/// The command with an OpenCL device that is the CPU.
fn on_opencl(s: &Sandbox, args: &[&str]) -> Ended {
    Ended(s.command(args).env("PHALANX_OPENCL_CPU", "1").output().unwrap())
}

/// Whether such a device works. If so, it is measured, and the sandbox gets a key. If not, prints a line, or fails if
/// PHALANX_REQUIRE names opencl.
fn has_opencl(s: &Sandbox) -> bool {
    let report: Value = serde_json::from_str(&on_opencl(s, &["engines", "--json"]).text()).unwrap();
    let taken = report["devices"].as_array().unwrap().iter().any(|d| d["taken"] == true);
    if !taken {
        let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(!required.split([',', ' ']).any(|r| r == "opencl"), "PHALANX_REQUIRE names opencl: {report}");
        println!("skipped: no OpenCL device");
    }
    s.run(&["key", "new", "k"]).ok();
    taken
}

/// Rewrites the kept file so that engines take no time at all if they need a device, and a day otherwise.
fn make_devices_fast(s: &Sandbox) -> Value {
    let mut all: Value = serde_json::from_slice(&fs::read(kept(s)).unwrap()).unwrap();
    for (name, engine) in all["engines"].as_object_mut().unwrap() {
        let seconds = match name.as_str() {
            "gpu" => 1e-9,
            "hybrid" => 1.0,
            _ => 80000.0,
        };
        engine["start_seconds"] = 0.0.into();
        for direction in ["seal", "open"] {
            for point in engine[direction].as_array_mut().unwrap() {
                point[1] = seconds.into();
            }
        }
    }
    fs::write(kept(s), all.to_string()).unwrap();
    all
}

#[test]
fn a_device_that_is_the_cpu_is_used_only_on_request() {
    let s = Sandbox::new();
    if !has_opencl(&s) {
        return;
    }
    let with: Value = serde_json::from_str(&on_opencl(&s, &["engines", "--json"]).text()).unwrap();
    let names: Vec<_> = with["engines"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["serial", "cpu", "gpu", "hybrid"]);
    let device = |report: &Value, kind: &str| {
        report["devices"].as_array().unwrap().iter().find(|d| d["kind"] == kind).cloned().unwrap()
    };
    if with["devices"].as_array().unwrap().iter().any(|d| d["kind"] == "GPU") {
        println!("skipped: there is a GPU before it");
        return;
    }
    assert_eq!(device(&with, "CPU")["state"], "self-test passed");
    for engine in &with["engines"].as_array().unwrap()[2..] {
        assert!(
            engine["start_seconds"].as_f64().unwrap() > 0.0
                && engine["speeds_gb_per_s"]["open"].as_f64().unwrap() > 0.0
        );
        assert_eq!(engine["passes"][0]["engine"], "cpu");
        assert!(engine["passes"][0]["device_open"].is_object() && engine["passes"][0]["new_process"].is_object());
    }
    let text = on_opencl(&s, &["engines"]).text();
    assert!(text.contains(": self-test passed\n") && text.contains("; its device opens in "), "{text}");
    let without = report(&s, &[]);
    assert_eq!(without["engines"].as_array().unwrap().len(), 2);
    let state = device(&without, "CPU")["state"].as_str().unwrap().to_owned();
    assert!(state.starts_with("not used: it is the CPU itself"), "{state}");
}

/// The measurements are changed, because a device that is the CPU is never faster than the CPU.
#[test]
fn auto_follows_what_was_measured() {
    let s = Sandbox::new();
    if !has_opencl(&s) {
        return;
    }
    s.write("f", painted((5 << 20) + 3));
    s.write("small", painted(1 << 20));
    let protect = |path, engine: &str| {
        let ended = on_opencl(&s, &["protect", path, "-k", "k", "-v", "--force"]);
        assert!(ended.error().contains(engine) && ended.error().lines().count() == 1, "{}", ended.error());
        ended.ok();
    };
    protect("f", "engine cpu (");
    make_devices_fast(&s);
    protect("f", "engine gpu (");
    protect("small", "engine serial (");
    let verified = on_opencl(&s, &["verify", "f.phx", "-v"]);
    assert!(verified.error().contains("engine gpu ("), "{}", verified.error());
    verified.ok();
    s.run(&["unprotect", "f.phx", "--engine", "cpu", "-o", "back"]).ok();
    assert_eq!(s.read("back"), s.read("f"));
    // The CPU does the suite that only it supports, a pipe, whose length is unknown, and everything if the device is
    // missing.
    let gcm = on_opencl(&s, &["protect", "f", "-k", "k", "-v", "--force", "--cipher", "aes-256-gcm"]);
    assert!(gcm.error().contains("engine cpu ("), "{}", gcm.error());
    let piped = s.command(&["protect", "-", "-k", "k", "-v", "-o", "p.phx"]);
    let mut piped = piped;
    let input = fs::File::open(s.path("f")).unwrap();
    let piped = Ended(piped.env("PHALANX_OPENCL_CPU", "1").stdin(input).output().unwrap());
    assert!(piped.error().contains("engine cpu ("), "{}", piped.error());
    let without = s.run(&["protect", "f", "-k", "k", "-v", "--force"]);
    assert!(without.error().contains("engine cpu ("), "{}", without.error());
}

/// All files together justify starting the device. After that, each goes to its fastest engine.
#[test]
fn files_open_a_device_together() {
    let s = Sandbox::new();
    if !has_opencl(&s) {
        return;
    }
    make_devices_fast(&s);
    for name in ["a", "b", "c"] {
        s.write(name, painted(3 << 20));
    }
    let one = on_opencl(&s, &["protect", "a", "-k", "k", "-v", "--force"]);
    assert!(one.error().contains("engine cpu ("), "{}", one.error());
    let all = on_opencl(&s, &["protect", "a", "b", "c", "-k", "k", "-v", "--force"]);
    assert_eq!(all.error().matches("engine gpu (").count(), 3, "{}", all.error());
    all.ok();
}

#[test]
fn another_device_is_measured_again() {
    let s = Sandbox::new();
    if !has_opencl(&s) {
        return;
    }
    s.write("f", painted(5 << 20));
    let measured = make_devices_fast(&s);
    for key in ["name", "driver", "api"] {
        let mut other = measured.clone();
        other["device"][key] = "another".into();
        fs::write(kept(&s), other.to_string()).unwrap();
        let ended = on_opencl(&s, &["protect", "f", "-k", "k", "-v", "--force"]);
        assert!(ended.error().contains("measuring the CPU and "), "{}", ended.error());
        ended.ok();
        let now: Value = serde_json::from_slice(&fs::read(kept(&s)).unwrap()).unwrap();
        assert_eq!(now["device"], measured["device"]);
        assert_ne!(now["engines"], measured["engines"]);
    }
}

#[test]
fn a_missing_device_is_reported() {
    let s = Sandbox::new();
    if !has_opencl(&s) {
        return;
    }
    s.write("f", painted(5 << 20));
    make_devices_fast(&s);
    let mut command = s.command(&["protect", "f", "-k", "k"]);
    let ended = Ended(command.env("PHALANX_OPENCL_CPU", "1").env("POCL_DEVICES", "none").output().unwrap());
    let error = ended.error();
    ended.ok();
    if error.is_empty() {
        println!("skipped: this OpenCL does not heed POCL_DEVICES");
        return;
    }
    assert!(error.starts_with("phalanx: warning: ") && error.ends_with("the CPU does the work\n"), "{error}");
    assert_eq!(error.lines().count(), 1);
    s.run(&["unprotect", "f.phx", "-o", "back"]).ok();
    assert_eq!(s.read("back"), s.read("f"));
}

/// The first work that is large enough measures the engines. It is also kept that there is no device.
#[test]
fn large_work_measures_once() {
    let s = Sandbox::new();
    if !has_opencl(&s) {
        return;
    }
    fs::File::create(s.path("f")).unwrap().set_len(256 << 20).unwrap();
    for admitted in ["1", "0"] {
        fs::remove_file(kept(&s)).unwrap();
        let protect = || {
            let mut command = s.command(&["protect", "f", "-k", "k", "-v", "-o", "-"]);
            let stdout = fs::File::create("/dev/null").unwrap();
            let ended = command.env("PHALANX_OPENCL_CPU", admitted).stdout(stdout).output().unwrap();
            let error = Ended(ended).error();
            assert!(!error.contains("warning"), "{error}");
            error
        };
        assert_eq!(protect().contains("measuring the CPU and "), admitted == "1");
        let first = fs::read(kept(&s)).unwrap();
        let stored: Value = serde_json::from_slice(&first).unwrap();
        assert_eq!(stored["engines"].as_object().unwrap().len(), if admitted == "1" { 4 } else { 0 });
        assert!(!protect().contains("measuring"));
        assert_eq!(fs::read(kept(&s)).unwrap(), first, "once");
    }
}

/// The kernels in use, for AES and for SHA-3.
fn kernels(s: &Sandbox, wrong: &str) -> (String, String, String) {
    let ended = Ended(s.command(&["version", "-v"]).env("PHALANX_WRONG_KERNELS", wrong).output().unwrap());
    let error = ended.error();
    let text = ended.text();
    let line = text.lines().find_map(|line| line.strip_prefix("kernels AES ")).unwrap();
    let (aes, keccak) = line.split_once(", SHA-3 ").unwrap();
    (aes.into(), keccak.into(), error)
}

/// Only builds with debug assertions let a test mark kernels as wrong.
#[test]
fn kernels_that_compute_wrongly_are_named_and_not_used() {
    if !cfg!(debug_assertions) {
        return println!("skipped: no debug assertions");
    }
    let s = Sandbox::with_key();
    s.write("f", painted(100_000));
    let (mut aes, mut keccak, error) = kernels(&s, "");
    assert_eq!(error, "");
    let mut wrong = String::new();
    while aes != "portable" || keccak != "portable" {
        let mut lines = Vec::new();
        for (name, kernel) in [("AES", &aes), ("SHA-3", &keccak)] {
            if kernel != "portable" {
                wrong += &format!("{kernel},");
                lines.push(format!("this machine computes {name} {kernel} wrongly"));
            }
        }
        let (next_aes, next_keccak, error) = kernels(&s, &wrong);
        assert!(lines.iter().all(|line| error.matches(line).count() == 1), "{error}");
        assert!((next_aes != aes || aes == "portable") && (next_keccak != keccak || keccak == "portable"));
        (aes, keccak) = (next_aes, next_keccak);
        let mut command = s.command(&["protect", "f", "-k", "k", "--force"]);
        let ended = Ended(command.env("PHALANX_WRONG_KERNELS", &wrong).output().unwrap());
        assert!(ended.error().starts_with("phalanx: warning: this machine computes "), "{}", ended.error());
        ended.ok();
        s.run(&["unprotect", "f.phx", "-o", "g", "--force"]).ok();
        assert!(s.read("g") == s.read("f"));
    }
    // A kernel that PHALANX_KERNELS names is used or refused. So is the last one that is left.
    fs::remove_file(s.path("f.phx")).unwrap();
    for (wrong, named) in [("portable", "portable,"), (&format!("{wrong}portable"), "")] {
        let mut command = s.command(&["protect", "f", "-k", "k"]);
        command.env("PHALANX_WRONG_KERNELS", wrong).env("PHALANX_KERNELS", named);
        let error = Ended(command.output().unwrap()).fails_with_lines(1);
        assert!(error.contains("failed: this machine computes AES portable wrongly"), "{error}");
        assert!(!s.exists("f.phx") && s.leftovers().is_empty());
    }
}

#[test]
fn paranoid_work_is_done_twice_and_gives_the_same_bytes() {
    let s = Sandbox::with_key();
    s.run(&["key", "new", "other"]).ok();
    s.write("f", painted(5 << 20 | 7));
    for cipher in ["aes-256", "aes-256-turbo", "aes-256-gcm"] {
        for engine in ["auto", "serial"] {
            let args = ["protect", "f", "-fvk", "k", "--paranoid", "--cipher", cipher, "--engine", engine];
            let ended = s.run(&args);
            assert!(ended.error().contains(", again by AES "), "{}", ended.error());
            ended.ok();
            s.run(&["verify", "f.phx"]).ok();
            s.run(&["verify", "f.phx", "--paranoid"]).ok();
            for more in [&["--paranoid"][..], &["--paranoid", "--range", "0-5M+7"], &["--paranoid", "--salvage"]] {
                s.run(&[&["unprotect", "f.phx", "-fo", "g"], more].concat()).ok();
                assert!(s.read("g") == s.read("f"), "{more:?}");
            }
        }
    }
    s.run(&["rekey", "f.phx", "--fresh", "--paranoid", "--add-key", "other"]).ok();
    s.run(&["verify", "f.phx", "-k", "other"]).ok();
    s.run(&["rekey", "f.phx", "--paranoid"]).fails(2);
}
