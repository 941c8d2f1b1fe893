//! The command with the engines `gpu` and `hybrid`, on an OpenCL device that is the CPU.

use crate::common::{Ended, Sandbox, painted, skip};
use crate::mount::Mounted;
use std::os::unix::fs::FileExt;
use std::process::Command;

/// A sandbox with the key k. If there is no such device, prints a line and returns `None`.
fn sandbox() -> Option<Sandbox> {
    let s = Sandbox::with_key();
    let listed = on_opencl(&s, &["engines"]).text();
    let found = listed.lines().any(|line| line.starts_with("gpu") && line.contains("OpenCL") && !line.contains("none"));
    if !found {
        skip("opencl");
        return None;
    }
    Some(s)
}

fn with_opencl(mut command: Command) -> Command {
    command.env("PHALANX_OPENCL_CPU", "1");
    command
}

fn on_opencl(s: &Sandbox, args: &[&str]) -> Ended {
    Ended(with_opencl(s.command(args)).output().unwrap())
}

#[test]
fn every_engine_opens_files_of_the_others() {
    let Some(s) = sandbox() else { return };
    let engines = ["cpu", "gpu", "hybrid"];
    for (i, len) in [0, 1, 4097, (3 << 20) + 5, 20 << 20].into_iter().enumerate() {
        s.write("f", painted(len));
        for (j, engine) in engines.iter().enumerate() {
            let cipher = ["aes-256", "aes-192", "aes-128"][(i + j) % 3];
            on_opencl(&s, &["protect", "f", "-k", "k", "-e", engine, "--cipher", cipher, "--force", "--no-sync"]).ok();
            let back = engines[(i + j + 1) % 3];
            on_opencl(&s, &["unprotect", "f.phx", "-o", "g", "-e", back, "--force", "--no-sync"]).ok();
            assert!(s.read("g") == painted(len), "{engine} {back} {len}");
            on_opencl(&s, &["verify", "f.phx", "-e", engines[(i + j + 2) % 3]]).ok();
        }
    }
    // Each engine finds an altered byte, and leaves no output.
    let mut bytes = s.read("f.phx");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    s.write("f.phx", bytes);
    for engine in engines {
        on_opencl(&s, &["verify", "f.phx", "-e", engine]).fails(3);
        on_opencl(&s, &["unprotect", "f.phx", "-o", "h", "-e", engine]).fails(3);
        assert!(!s.exists("h"));
    }
}

#[test]
fn folders_and_pipes_work_with_devices() {
    let Some(s) = sandbox() else { return };
    std::fs::create_dir(s.path("d")).unwrap();
    for (name, len) in [("a", 0), ("b", 5000), ("c", 17 << 20)] {
        s.write(&format!("d/{name}"), painted(len));
    }
    for engine in ["gpu", "hybrid"] {
        on_opencl(&s, &["protect", "-R", "d", "-k", "k", "-e", engine, "-o", engine, "--no-sync"]).ok();
        s.run(&["unprotect", "-R", engine, "-o", &format!("{engine}.back"), "--no-sync"]).ok();
        for name in ["a", "b", "c"] {
            assert!(s.read(&format!("d/{name}")) == s.read(&format!("{engine}.back/{name}")), "{engine} {name}");
        }
        let sealed = pipe(&s, &painted(5 << 20), &["protect", "-", "-k", "k", "-e", engine]);
        assert!(pipe(&s, &sealed, &["unprotect", "-", "-e", engine]) == painted(5 << 20));
    }
}

fn pipe(s: &Sandbox, input: &[u8], args: &[&str]) -> Vec<u8> {
    use std::io::Write;
    let mut command = with_opencl(s.command(args));
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        Ended(child.wait_with_output().unwrap()).ok()
    })
}

/// Long writes and sequential reads go to the device in batches. With `--engine gpu`, small ones do too.
#[test]
fn a_volume_on_the_gpu_is_the_same_as_on_the_cpu() {
    let Some(s) = sandbox() else { return };
    on_opencl(&s, &["-q", "init", "vol", "-k", "k"]).ok();
    let engines = ["gpu", "cpu", "hybrid", "gpu"];
    for (i, engine) in engines.into_iter().enumerate() {
        let mount = with_opencl(s.command(&["mount", "vol", "mnt", "-k", "k", "-v", "-e", engine]));
        let Some(mut mounted) = Mounted::start_by(&s, mount) else { return };
        rustix::fs::statfs(&mounted.mountpoint).unwrap();
        for (name, len) in [("small", 5000), ("large", 9 << 20)] {
            let path = mounted.path(&format!("{name}{i}"));
            std::fs::write(&path, painted(len)).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(b"changed", 4095).and_then(|()| file.sync_all()).unwrap();
            // The files of earlier mounts are read too. The kernel has not cached them.
            for before in 0..i {
                let mut expected = painted(len);
                expected[4095..4102].copy_from_slice(b"changed");
                assert!(std::fs::read(mounted.path(&format!("{name}{before}"))).unwrap() == expected, "{engine}");
            }
        }
        mounted.unmount();
        let log = mounted.log();
        assert!(mounted.ended().success(), "{engine}: {log}");
        assert_eq!(log.contains("for jobs of 1048576 bytes and more"), engine == "hybrid", "{log}");
    }
    s.run(&["-q", "verify", "vol", "-k", "k"]).ok();
}

#[test]
fn the_gpu_engine_reports_what_it_is_and_what_it_lacks() {
    let Some(s) = sandbox() else { return };
    s.write("f", painted(100));
    let reported = on_opencl(&s, &["protect", "f", "-k", "k", "-e", "gpu", "-v"]);
    assert!(reported.error().contains("engine gpu (") && reported.error().contains("OpenCL"), "{}", reported.error());
    let line = on_opencl(&s, &["protect", "f", "-k", "k", "-e", "gpu", "--cipher", "aes-256-gcm", "-o", "g"]).fails(1);
    assert!(line.contains("engine gpu failed: it has no AES-256-GCM"), "{line}");
    assert!(!s.exists("g"));
    // With `hybrid`, the CPU does the work of this suite.
    on_opencl(&s, &["protect", "f", "-k", "k", "-e", "hybrid", "--cipher", "aes-256-gcm", "-o", "g"]).ok();
    s.run(&["verify", "g"]).ok();
}

/// Without drivers, `gpu` fails, and `hybrid` warns once and continues.
#[test]
fn without_a_device_gpu_fails_and_hybrid_warns() {
    let s = Sandbox::with_key();
    s.write("f", painted(100));
    let run = |args: &[&str]| {
        let mut command = s.command(args);
        command.env("OCL_ICD_VENDORS", "/nonexistent").env("CUDA_VISIBLE_DEVICES", "").env_remove("PHALANX_OPENCL_CPU");
        Ended(command.output().unwrap())
    };
    let listed = run(&["engines"]).text();
    if listed.lines().any(|line| line.starts_with("gpu") && !line.contains("none: ")) {
        println!("skipped: this machine shows its GPU whatever the variables say");
        return;
    }
    let line = run(&["protect", "f", "-k", "k", "-e", "gpu"]).fails(1);
    assert!(line.contains("engine gpu: ") && line.contains("OpenCL: ") && line.contains("--engine cpu"), "{line}");
    assert!(!s.exists("f.phx"));
    let ended = run(&["protect", "f", "-k", "k", "-e", "hybrid"]);
    assert!(ended.error().contains("hybrid runs on the CPU alone") && ended.error().lines().count() == 1);
    ended.ok();
    run(&["verify", "f.phx"]).ok();
    // A device that is the CPU is used only if the user allows it.
    let mut command = s.command(&["verify", "f.phx", "-e", "gpu"]);
    let ended = Ended(command.env("CUDA_VISIBLE_DEVICES", "").env_remove("PHALANX_OPENCL_CPU").output().unwrap());
    assert!(ended.error().contains("engine gpu: ") || ended.0.status.success(), "{}", ended.error());
}
