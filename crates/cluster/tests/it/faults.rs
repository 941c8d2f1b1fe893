//! A failure ends the job with one line, and leaves nothing under the final name.

use crate::common::{Job, PROGRAM, end, has_ended, painted, ranks_below, signal, wait};
use rustix::process::Signal;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[test]
fn damage_is_named_once_with_host_and_rank() {
    let Some(job) = Job::new() else { return };
    job.write("f", &painted(40 << 20));
    job.run(2, &["protect", "f", "--key-file", "k"]).ok();
    let file = OpenOptions::new().write(true).open(job.path("f.phx")).unwrap();
    file.write_all_at(b"damage", 23 << 20).unwrap();
    for division in ["dynamic", "static"] {
        let args = ["unprotect", "f.phx", "-o", "back", "--key-file", "k", "--division", division];
        for resume in [&[][..], &["--resume"]] {
            let ended = job.run(3, &[&args[..], resume].concat()).fails(3);
            let named: Vec<&str> = ended.lines().into_iter().filter(|line| line.contains("f.phx: ")).collect();
            assert!(
                named.len() == 1 && named[0].contains(" (rank ") && named[0].contains("chunk 22"),
                "{}",
                ended.error
            );
            assert!(!job.path("back").exists());
            assert_eq!(job.leftovers().len(), 2 * resume.len());
        }
        job.leftovers().iter().for_each(|name| fs::remove_file(job.path(name)).unwrap());
    }
    let ended = job.run(2, &["verify", "f.phx", "--key-file", "k"]).fails(3);
    assert!(ended.error.contains("chunk 22"), "{}", ended.error);
}

#[test]
fn truncated_and_foreign_files_are_refused() {
    let Some(job) = Job::new() else { return };
    job.write("f", &painted(20 << 20));
    job.write("foreign.phx", &painted(20 << 20));
    job.run(2, &["protect", "f", "--key-file", "k"]).ok();
    OpenOptions::new().write(true).open(job.path("f.phx")).unwrap().set_len(19 << 20).unwrap();
    for name in ["f.phx", "foreign.phx"] {
        let ended = job.run(2, &["unprotect", name, "-o", "back", "--key-file", "k"]).fails(3);
        assert_eq!(ended.lines().iter().filter(|line| line.contains(name)).count(), 1, "{}", ended.error);
    }
    // A pattern such as `*` also matches outputs.
    job.run(2, &["protect", "f.phx", "--key-file", "k"]).fails(4);
    assert!(!job.path("back").exists() && !job.path("f.phx.phx").exists());
    assert_eq!(job.leftovers(), Vec::<String>::new());
}

#[test]
fn existing_outputs_are_kept_without_force() {
    let Some(job) = Job::new() else { return };
    for len in [5, 20 << 20] {
        job.write("f", &painted(len));
        job.write("f.phx", b"precious");
        let ended = job.run(3, &["protect", "f", "--key-file", "k"]).fails(4);
        assert!(ended.error.contains("f.phx: exists already\nhint: --force replaces it"), "{}", ended.error);
        assert_eq!(job.read("f.phx"), b"precious");
        job.run(3, &["protect", "f", "--key-file", "k", "--force"]).ok();
        assert!(job.opened("f.phx") == job.read("f"));
    }
}

#[test]
fn outputs_never_replace_inputs() {
    let Some(job) = Job::new() else { return };
    for len in [5, 20 << 20] {
        job.write("f", &painted(len));
        let before = job.read("f");
        fs::hard_link(job.path("f"), job.path("link")).unwrap();
        for output in ["f", "./f", "link"] {
            let ended = job.run(2, &["protect", "f", "-f", "-o", output, "--key-file", "k"]).fails(2);
            assert!(ended.error.contains("input and output are the same file"), "{}", ended.error);
        }
        assert!(job.read("f") == before);
        fs::remove_file(job.path("link")).unwrap();
    }
    job.write("t/inner/f", b"f");
    let within = ["protect", "-R", "-f", "--key-file", "k", "t", "-o"];
    for output in ["t", "t/inner", "t/inner/new", "t/../t/new"] {
        let ended = job.run(2, &[&within[..], &[output]].concat()).fails(2);
        assert!(ended.error.contains("the output is within the input"), "{}", ended.error);
    }
    // The output beside the second input is within the first input.
    let ended = job.run(2, &["protect", "-R", "--key-file", "k", "t", "t/inner"]).fails(2);
    assert!(ended.error.contains("t/inner.phx: the output is within the input"), "{}", ended.error);
    job.write("out/sub/sub/f.phx", b"f");
    let ended = job.run(2, &["unprotect", "-R", "-f", "--key-file", "k", "out/sub", "-o", "out"]).fails(4);
    assert!(ended.error.contains("the input is within the output"), "{}", ended.error);
    assert_eq!(job.read("out/sub/sub/f.phx"), b"f");
}

/// The output has its name, but its folder may not be on the disk.
#[test]
fn a_folder_that_cannot_be_synced_is_a_failure_of_the_output() {
    let Some(job) = Job::new() else { return };
    let line = |output: &str| format!("): {output}: it is written and has its name, but may not be on the disk yet: ");
    job.write("small", b"done by one process");
    job.write("large", &painted(17 << 20));
    job.write("t/d/f", b"f");
    for (input, folder, output) in
        [("small", ".", "small.phx"), ("large", ".", "large.phx"), ("t", "t.phx/d", "t.phx/d/f.phx")]
    {
        let args = ["protect", "-R", input, "--key-file", "k", "-f"];
        // After this the folder of the output exists.
        job.run(2, &[&args[..], &["--no-sync"]].concat()).ok();
        let folder = job.path(folder).canonicalize().unwrap();
        let calls = ["-P", folder.to_str().unwrap(), "-e", "trace=fsync,syncfs", "-e", "inject=fsync,syncfs:error=EIO"];
        let Some(command) = job.traced(2, &calls, &args) else { return };
        let ended = end(command).fails(4);
        let reported = ended.lines().into_iter().filter(|reported| reported.contains(&line(output))).count();
        assert_eq!(reported, 1, "{}", ended.error);
        assert!(!ended.error.contains(&format!("): {input}: ")) && !ended.error.contains("t/d/f: "), "{}", ended.error);
        assert!(job.path(output).exists());
    }
    assert_eq!(job.leftovers(), Vec::<String>::new());
}

#[test]
fn processes_that_differ_are_refused() {
    let Some(job) = Job::new() else { return };
    job.write("f", &painted(20 << 20));
    let mut command = job.launcher();
    command.args(["-n", "1", PROGRAM, "protect", "f", "--key-file", "k", ":"]);
    command.args(["-n", "1", PROGRAM, "protect", "f", "--key-file", "k", "--cipher", "aes-128"]);
    let ended = end(command).fails(2);
    assert!(ended.error.contains("(rank 1): its arguments differ from those of rank 0"), "{}", ended.error);
    assert!(!job.path("f.phx").exists());
    let mut command = job.launcher();
    command.args(["-n", "1", PROGRAM, "protect", "f", "--key-file", "k", ":", "-n", "1", PROGRAM, "protect"]);
    let ended = end(command).fails(2);
    assert!(ended.error.contains("(rank 1): its arguments are wrong"), "{}", ended.error);
    for args in [
        &["protect", "-"][..],
        &["protect"],
        &["protect", "f", "--resume", "--cipher", "aes-256-gcm"],
        &["protect", "f", "-o", "a", "f"],
    ] {
        let ended = job.run(3, args).fails(2);
        assert_eq!(ended.lines().len(), 1, "{}", ended.error);
    }
    // Rank 0 reports it, even if it starts late.
    let mut command = job.launcher();
    command.args(["-n", "1", "sh", "-c", r#"sleep 2; exec "$0" protect"#, PROGRAM, ":", "-n", "2", PROGRAM, "protect"]);
    let ended = end(command).fails(2);
    assert_eq!(ended.lines().len(), 1, "{}", ended.error);
    let ended = job.run(2, &["protect", "f", "missing", "--key-file", "k"]).fails(4);
    assert!(ended.error.contains("missing: cannot read") && job.path("f.phx").exists(), "{}", ended.error);
}

#[test]
fn a_killed_process_ends_the_job() {
    let Some(job) = Job::new() else { return };
    job.write("f", &painted(150 << 20));
    let args = ["protect", "f", "--key-file", "k", "--engine", "serial", "-f"];
    for victim in [0, 1, 2] {
        let mut disturbed = 0;
        for _ in 0..30 {
            let mut child = job.spawn(3, &args);
            let begun = Instant::now();
            let ranks = loop {
                let ranks = ranks_below(child.id());
                let is_begun =
                    job.leftovers().iter().any(|name| job.path(name).metadata().is_ok_and(|meta| meta.len() > 1 << 20));
                if is_begun && ranks.len() == 3 || has_ended(&mut child, begun) {
                    break ranks;
                }
                sleep(Duration::from_millis(1));
            };
            if let Some(pid) = ranks.get(victim) {
                signal(*pid, Signal::KILL);
            }
            let code = wait(&mut child, &ranks);
            if !job.path("f.phx").exists() {
                assert_ne!(code, Some(0));
                disturbed += 1;
                break;
            }
            // The others may have finished before they were ended.
            assert!(job.opened("f.phx") == job.read("f"));
            fs::remove_file(job.path("f.phx")).unwrap();
        }
        assert!(disturbed > 0, "every run ended before it was disturbed");
        // What the killed job has left does not disturb the next one.
        job.run(2, &args).ok();
        assert!(job.opened("f.phx") == job.read("f"));
        assert_eq!(job.leftovers(), Vec::<String>::new());
        fs::remove_file(job.path("f.phx")).unwrap();
    }
}
