//! Folders with manifests: they are made, renewed, checked and restored.

use crate::common::{Ended, Job, has_ended, painted, ranks_below, signal, wait};
use phalanx_core::{KdfLimit, Opener, ProtectedFile, Roster, SecretKey, Sink};
use phalanx_host::file;
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const MIRROR: [&str; 5] = ["mirror", "t", "m", "--key-file", "k"];
const VERIFY: [&str; 5] = ["verify", "-R", "m", "--key-file", "k"];
const UNPROTECT: [&str; 7] = ["unprotect", "-R", "m", "--key-file", "k", "-o", "back"];

/// Makes a source with files of several lengths, a program, an empty folder and a link.
fn fill(job: &Job) {
    for i in 0..40 {
        job.write(&format!("t/many/{i}"), &painted(100 + i * 997));
    }
    job.write("t/a/b/mid", &painted(17 << 20));
    job.write("t/a/empty", b"");
    job.write("t/program", b"#!/bin/sh");
    fs::set_permissions(job.path("t/program"), Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(job.path("t/nothing")).unwrap();
    symlink("many/1", job.path("t/link")).unwrap();
}

/// The paths of all that is in a folder.
fn entries(job: &Job, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![job.path(folder)];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            left.extend(entry.file_type().unwrap().is_dir().then(|| entry.path()));
            found.push(entry.path().strip_prefix(job.path("")).unwrap().to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

#[track_caller]
fn is_same(job: &Job, a: &str, b: &str) {
    let diff = Command::new("diff").args(["-r", a, b]).current_dir(job.path("")).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

#[track_caller]
fn has_line(ended: &Ended, line: &str) {
    assert!(ended.error.lines().any(|found| found == format!("phalanx-mpi: {line}")), "{line}: {}", ended.error);
}

/// Writes a chunk of a protected file again, with the file's own key.
fn reseal(job: &Job, stored: &str, plaintext: &str, chunk: u64) {
    let stored = OpenOptions::new().read(true).write(true).open(job.path(stored)).unwrap();
    let keys = Opener::new(SecretKey::from_slice(&[7; 32]).unwrap(), KdfLimit::default());
    let shared = ProtectedFile::open(file::regular(&stored).unwrap(), &keys).unwrap().shared();
    let plaintext = File::open(job.path(plaintext)).unwrap();
    let (source, sink) = (file::regular(&plaintext).unwrap(), Sink::ranged(file::Disk::new(&stored)));
    let run = chunk..chunk + 1;
    shared.seal(&Roster::cpu(), source, sink, Some(vec![run]), &()).unwrap();
}

#[test]
fn a_mirror_is_made_checked_and_restored() {
    let Some(job) = Job::new() else { return };
    fill(&job);
    for ranks in [1, 2, 3] {
        let made = job.run(ranks, &MIRROR).ok();
        assert!(made.error.contains("t → m: 44 files new, 0 unchanged; "), "{}", made.error);
        let checked = job.run(ranks, &VERIFY).ok();
        let lines: Vec<&str> = checked.out.lines().collect();
        assert!(lines[0].starts_with("m: generation ") && lines[0].contains(", digest "), "{}", checked.out);
        assert!(lines[1].starts_with("43 files, ") && lines[1].ends_with(": whole and authentic"), "{}", checked.out);
        let quick = job.run(ranks, &[&VERIFY[..], &["--quick"]].concat()).ok();
        assert!(quick.out.ends_with(": 43 files in place; content was not read\n"), "{}", quick.out);
        let restored = job.run(ranks, &UNPROTECT).ok();
        assert!(restored.error.contains("unprotected 43 files"), "{}", restored.error);
        is_same(&job, "t", "back");
        assert_eq!(job.path("back/program").metadata().unwrap().mode() & 0o111, 0o111);
        let times = |name: &str| job.path(name).metadata().unwrap().modified().unwrap();
        for name in ["", "/a", "/a/b", "/many", "/nothing", "/program"] {
            let stored = if name == "/program" { "m/program.phx".to_owned() } else { format!("m{name}") };
            assert_eq!(times(&format!("t{name}")), times(&stored), "{name}");
            assert_eq!(times(&format!("t{name}")), times(&format!("back{name}")), "{name}");
        }
        // A folder in a mirror is compared with the mirror's manifest.
        let folder = job.run(ranks, &["verify", "-R", "m/a", "--key-file", "k"]).ok();
        assert!(folder.out.starts_with("m/a: generation ") && folder.out.contains("\n2 files, "), "{}", folder.out);
        // Nothing has changed, so nothing is written.
        let (before, manifest) = (entries(&job, "m"), job.path("m/phalanx.tree").metadata().unwrap());
        let again = job.run(ranks, &MIRROR).ok();
        assert!(again.error.contains("t → m: 0 files new, 44 unchanged; "), "{}", again.error);
        assert_eq!(entries(&job, "m"), before);
        assert_eq!(job.path("m/phalanx.tree").metadata().unwrap().ino(), manifest.ino());
        fs::remove_dir_all(job.path("m")).unwrap();
        fs::remove_dir_all(job.path("back")).unwrap();
        job.forget("m");
    }
}

#[test]
fn a_mirror_is_renewed() {
    let Some(job) = Job::new() else { return };
    fill(&job);
    for ranks in [1, 3] {
        job.run(ranks, &MIRROR).ok();
        job.write("t/many/1", b"another text");
        job.write("t/new/file", b"new");
        fs::rename(job.path("t/many/2"), job.path("t/a/moved")).unwrap();
        fs::remove_file(job.path("t/many/3")).unwrap();
        fs::set_permissions(job.path("t/many/4"), Permissions::from_mode(0o400)).unwrap();
        let all = [&MIRROR[..], &["--delete", "--backup-dir", "old", "--exclude", "*.tmp"]].concat();
        job.write("t/left.tmp", b"left out");
        let before = entries(&job, "m");
        let dry = job.run(ranks, &[&all[..], &["-n"]].concat()).ok();
        let mut lines: Vec<&str> = dry.out.lines().collect();
        lines.sort_unstable();
        let expected = [
            "changed many/1",
            "deleted many/3",
            "moved a/moved (was many/2)",
            "new new",
            "new new/file",
            "permissions many/4",
        ];
        assert_eq!(lines, expected);
        assert_eq!(entries(&job, "m"), before);
        let done = job.run(ranks, &all).ok();
        let summary = "t → m: 1 file new, 1 changed, 1 moved, 1 with new permissions, 1 deleted, 40 unchanged; ";
        assert!(done.error.contains(summary), "{}", done.error);
        assert_eq!(job.opened("m/many/1.phx"), b"another text");
        let kept: Vec<String> = entries(&job, "old").into_iter().filter(|name| name.ends_with(".phx")).collect();
        assert_eq!(kept, ["old/many/1.phx", "old/many/3.phx"]);
        assert!(job.opened("old/many/1.phx") == painted(100 + 997));
        job.run(ranks, &VERIFY).ok();
        let again = job.run(ranks, &all).ok();
        assert!(again.error.contains(": 0 files new, 44 unchanged; "), "{}", again.error);
        let compared = job.run(ranks, &[&all[..], &["--checksum"]].concat()).ok();
        assert!(compared.error.contains(": 0 files new, 44 unchanged; "), "{}", compared.error);
        ["t", "m", "old"].iter().for_each(|name| fs::remove_dir_all(job.path(name)).unwrap());
        job.forget("m");
        fill(&job);
    }
}

#[test]
fn everything_that_is_not_as_listed_is_found() {
    let Some(job) = Job::new() else { return };
    fill(&job);
    job.write("t/big", &painted(3 << 20));
    job.run(2, &MIRROR).ok();
    fs::copy(job.path("m/many/9.phx"), job.path("older")).unwrap();
    job.write("t/many/9", b"a newer text");
    job.run(2, &MIRROR).ok();
    job.run(2, &VERIFY).ok();
    let stored = |name: &str| job.path("m/many").join(name);
    fs::remove_file(stored("1.phx")).unwrap();
    job.write("extra", b"extra");
    job.run(1, &["protect", "extra", "--key-file", "k", "-o", "m/extra.phx"]).ok();
    fs::rename(stored("2.phx"), stored("renamed.phx")).unwrap();
    fs::rename(stored("3.phx"), stored("x")).unwrap();
    fs::rename(stored("4.phx"), stored("3.phx")).unwrap();
    fs::rename(stored("x"), stored("4.phx")).unwrap();
    fs::rename(job.path("older"), stored("9.phx")).unwrap();
    let damaged = OpenOptions::new().write(true).open(job.path("m/a/b/mid.phx")).unwrap();
    damaged.write_all_at(b"damage", 5 << 20).unwrap();
    reseal(&job, "m/big.phx", "t/big", 1);
    fs::remove_file(job.path("m/link")).unwrap();
    symlink("many/2", job.path("m/link")).unwrap();
    let listed = [
        "m/extra.phx: additional: the manifest does not list it",
        "m/many/1.phx: missing: the manifest lists it",
        "m/many/2.phx: missing: it was renamed to m/many/renamed.phx",
        "m/many/renamed.phx: additional: it has the content of m/many/2.phx",
        "m/many/3.phx: exchanged with m/many/4.phx",
        "m/many/4.phx: exchanged with m/many/3.phx",
    ];
    let begins = ["m/many/9.phx: another version: ", "m/link: another version: "];
    let content = ["m/a/b/mid.phx: damaged in chunk 4", "m/big.phx: not the content that the manifest lists"];
    for ranks in [1, 2, 3] {
        let found = job.run(ranks, &VERIFY).fails(3);
        listed.iter().for_each(|line| has_line(&found, line));
        for line in begins.iter().chain(&content) {
            assert_eq!(found.lines().iter().filter(|found| found.contains(line)).count(), 1, "{line}: {}", found.error);
        }
        assert!(found.out.ends_with(": whole and authentic; 10 failed\n"), "{}", found.out);
        let quick = job.run(ranks, &[&VERIFY[..], &["--quick"]].concat()).fails(3);
        listed.iter().for_each(|line| has_line(&quick, line));
        assert!(quick.out.ends_with(": 39 files in place; 8 wrong; content was not read\n"), "{}", quick.out);
        let restored = job.run(ranks, &UNPROTECT).fails(3);
        listed.iter().for_each(|line| has_line(&restored, line));
        let not_there = ["many/1", "many/2", "many/renamed", "many/3", "many/4", "many/9", "extra", "link", "big"];
        for name in not_there.iter().chain(&["a/b/mid"]) {
            assert!(job.path("back").join(name).symlink_metadata().is_err(), "{name}");
        }
        assert!(job.read("back/many/5") == job.read("t/many/5"));
        assert!(!entries(&job, "back").iter().any(|name| name.contains(".phalanx-")));
        fs::remove_dir_all(job.path("back")).unwrap();
        let all = job.run(ranks, &[&UNPROTECT[..], &["--ignore-manifest"]].concat()).fails(3);
        assert!(job.read("back/extra") == b"extra" && job.read("back/big") == job.read("t/big"));
        has_line(&all, "m: no manifest was compared, so nothing is known of what is missing or older");
        fs::remove_dir_all(job.path("back")).unwrap();
    }
    // The next run repairs what it finds by name and length, and --checksum the rest.
    job.run(2, &[&MIRROR[..], &["--delete", "--checksum"]].concat()).ok();
    job.run(2, &VERIFY).ok();
}

#[test]
fn a_mirror_that_was_set_back_is_noticed() {
    let Some(job) = Job::new() else { return };
    job.write("t/f", b"old");
    job.run(2, &MIRROR).ok();
    let copy = |from: &str, to: &str| {
        let copied = Command::new("cp").args(["-a", from, to]).current_dir(job.path("")).status().unwrap();
        assert!(copied.success());
    };
    copy("m", "before");
    job.write("t/f", b"newer");
    job.run(2, &MIRROR).ok();
    let out = job.run(2, &VERIFY).ok().out;
    let (_, line) = out.split_once("generation ").unwrap();
    let (generation, line) = line.split_once(", digest ").unwrap();
    let digest = &line[..64];
    fs::remove_dir_all(job.path("m")).unwrap();
    copy("before", "m");
    let warned = job.run(2, &VERIFY).ok();
    assert!(warned.error.contains("the mirror may have been set back"), "{}", warned.error);
    let warned = job.run(2, &UNPROTECT).ok();
    assert!(warned.error.contains("the mirror may have been set back"), "{}", warned.error);
    for (option, value) in [("--at-least", generation), ("--expect", digest)] {
        job.run(2, &[&VERIFY[..], &[option, value]].concat()).fails(3);
    }
    job.run(2, &[&VERIFY[..], &["--accept"]].concat()).ok();
    assert!(!job.run(2, &VERIFY).ok().error.contains("set back"));
    fs::remove_file(job.path("m/phalanx.tree")).unwrap();
    for option in [&["--quick"][..], &["--at-least", "1"]] {
        let ended = job.run(2, &[&VERIFY[..], option].concat()).fails(3);
        has_line(&ended, "m: it has no manifest");
    }
    for args in [&VERIFY[..], &UNPROTECT] {
        let lost = job.run(2, args).fails(3);
        has_line(&lost, "m: its manifest is gone, which was there when it was seen last");
    }
    let accepted = job.run(2, &[&VERIFY[..], &["--accept"]].concat()).ok();
    has_line(&accepted, "m: no manifest, so nothing is known of what is missing or older");
    has_line(&job.run(2, &VERIFY).ok(), "m: no manifest, so nothing is known of what is missing or older");
}

/// Files of this length are divided among the processes.
#[test]
fn a_file_that_is_shared_is_listed_and_compared() {
    let Some(job) = Job::new() else { return };
    job.write("t/d/large", &painted((256 << 20) + 5));
    job.write("t/small", b"small");
    let fast = [&MIRROR[..], &["--no-sync"]].concat();
    job.run(3, &fast).ok();
    job.run(2, &VERIFY).ok();
    assert!(job.run(2, &fast).ok().error.contains(": 0 files new, 2 unchanged; "));
    reseal(&job, "m/d/large.phx", "t/d/large", 100);
    for ranks in [1, 3] {
        let line = "m/d/large.phx: not the content that the manifest lists";
        for args in [&VERIFY[..], &[&UNPROTECT[..], &["--no-sync"]].concat()] {
            let found = job.run(ranks, args).fails(3);
            assert_eq!(found.lines().iter().filter(|found| found.contains(line)).count(), 1, "{}", found.error);
        }
        assert_eq!(entries(&job, "back"), ["back/d", "back/small"]);
        fs::remove_dir_all(job.path("back")).unwrap();
    }
    // A part of too many chunks for a message.
    fs::remove_dir_all(job.path("m")).unwrap();
    job.forget("m");
    let whole = ["--division", "static"];
    job.run(1, &[&fast[..], &whole, &["--chunk-size", "4K"]].concat()).ok();
    job.run(1, &[&VERIFY[..], &whole].concat()).ok();
    reseal(&job, "m/d/large.phx", "t/d/large", 1000);
    let found = job.run(1, &[&VERIFY[..], &whole].concat()).fails(3);
    assert!(found.error.contains("m/d/large.phx: not the content that the manifest lists"), "{}", found.error);
}

#[test]
fn a_killed_run_leaves_the_old_manifest_and_the_next_one_goes_on() {
    let Some(job) = Job::new() else { return };
    job.write("t/first", b"first");
    job.run(2, &MIRROR).ok();
    let manifest = job.read("m/phalanx.tree");
    for i in 0..1200 {
        job.write(&format!("t/many/{i}"), &painted(1 << 16));
    }
    // Each process reports up to 128 files together, after they have their names.
    let has_reported = || {
        let names = fs::read_dir(job.path("m/many")).into_iter().flatten().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().ends_with(".phx")).count() > 3 * 128
    };
    let mut is_killed = false;
    for _ in 0..10 {
        let mut child = job.spawn(3, &[&MIRROR[..], &["--engine", "serial"]].concat());
        let begun = Instant::now();
        while !has_reported() && !has_ended(&mut child, begun) {
            sleep(Duration::from_millis(1));
        }
        let ranks = ranks_below(child.id());
        ranks.iter().for_each(|rank| signal(*rank, Signal::KILL));
        wait(&mut child, &ranks);
        is_killed = job.read("m/phalanx.tree") == manifest;
        if is_killed {
            break;
        }
        fs::remove_dir_all(job.path("m/many")).unwrap();
        fs::write(job.path("m/phalanx.tree"), &manifest).unwrap();
    }
    assert!(is_killed, "every run ended before it was disturbed");
    let done = job.run(2, &MIRROR).ok();
    // What the killed run had written is not written again.
    assert!(
        done.error.contains(" with new permissions, ") && !done.error.contains(" 1200 files new"),
        "{}",
        done.error
    );
    job.run(2, &VERIFY).ok();
    assert!(!entries(&job, "m").iter().any(|name| name.contains(".phalanx-")));
    assert!(job.run(2, &MIRROR).ok().error.contains(": 0 files new, 1201 unchanged; "));
}

#[test]
fn public_keys_alone_make_and_renew_a_mirror() {
    let Some(job) = Job::new() else { return };
    fill(&job);
    let recipient = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa";
    let args = ["mirror", "t", "m", "-r", recipient];
    assert!(job.run(3, &args).ok().error.contains(": 44 files new, 0 unchanged; "));
    job.write("t/many/7", b"changed");
    assert!(job.run(2, &args).ok().error.contains(": 0 files new, 1 changed, 43 unchanged; "));
    job.run(2, &[&args[..], &["--checksum"]].concat()).fails(2);
}

#[test]
fn a_mirror_that_would_lose_too_much_is_left_alone() {
    let Some(job) = Job::new() else { return };
    fill(&job);
    job.run(2, &MIRROR).ok();
    let before = entries(&job, "m");
    fs::rename(job.path("t"), job.path("elsewhere")).unwrap();
    fs::create_dir(job.path("t")).unwrap();
    let delete = [&MIRROR[..], &["--delete"]].concat();
    let refused = job.run(2, &delete).fails(4);
    assert!(
        refused.error.contains("it has none of the mirror's files, and all 44 would be deleted"),
        "{}",
        refused.error
    );
    assert_eq!(entries(&job, "m"), before);
    let within = job.run(2, &["mirror", "t", "t/m", "--key-file", "k"]).fails(2);
    has_line(&within, "t/m: the mirror is within the source");
    let missing = job.run(2, &["mirror", "no", "m", "--key-file", "k"]).fails(4);
    assert!(missing.lines().len() == 1 && missing.error.contains("no: cannot read"), "{}", missing.error);
    assert!(job.run(2, &[&delete[..], &["--max-delete", "44"]].concat()).ok().error.contains("44 deleted"));
}

/// A file that cannot be read stays in the mirror as it was, and nothing is deleted.
#[test]
fn one_failure_does_not_stop_the_other_files() {
    let Some(job) = Job::new() else { return };
    ["a", "b", "c"].iter().for_each(|name| job.write(&format!("t/{name}"), b"first"));
    job.run(2, &MIRROR).ok();
    job.write("t/a", b"second");
    fs::remove_file(job.path("t/b")).unwrap();
    fs::create_dir(job.path("m/d.phx")).unwrap();
    job.write("m/d.phx/in it", b"in the way");
    job.write("t/d", b"its name is taken");
    let ended = job.run(2, &[&MIRROR[..], &["--delete"]].concat()).fails(4);
    assert!(ended.error.contains("m/d.phx: "), "{}", ended.error);
    has_line(&ended, "warning: something failed, so nothing more is deleted in the mirror");
    assert!(job.opened("m/a.phx") == b"second" && job.path("m/b.phx").exists());
    fs::remove_dir_all(job.path("m/d.phx")).unwrap();
    job.run(2, &[&MIRROR[..], &["--delete"]].concat()).ok();
    assert!(!job.path("m/b.phx").exists());
    job.run(2, &VERIFY).ok();
}

#[test]
fn a_protected_folder_has_a_manifest() {
    let Some(job) = Job::new() else { return };
    fill(&job);
    for ranks in [1, 3] {
        let protect = ["protect", "-R", "t", "--key-file", "k", "-o", "m"];
        job.run(ranks, &protect).ok();
        let checked = job.run(ranks, &VERIFY).ok();
        assert!(checked.out.starts_with("m: generation "), "{}", checked.out);
        job.write("t/many/8", b"changed");
        for more in ["--force", "--resume"] {
            let again = job.run(ranks, &[&protect[..], &["-f", more][usize::from(more == "--force")..]].concat()).ok();
            assert_eq!(
                again.error.contains("42 done before") || again.error.contains("43 done before"),
                more == "--resume"
            );
            job.run(ranks, &VERIFY).ok();
        }
        // A mirror renews it.
        assert!(job.run(ranks, &MIRROR).ok().error.contains(": 0 files new, 44 unchanged; "));
        fs::remove_dir_all(job.path("m")).unwrap();
        job.forget("m");
    }
}

#[test]
fn a_manifest_is_an_own_one_unless_it_lists_what_was_left() {
    let Some(job) = Job::new() else { return };
    job.write("t/a", b"a");
    let own = || fs::read_dir(job.path("state/trees")).unwrap().flatten().map(|entry| entry.path());
    let own = || own().filter(|path| path.extension().is_some_and(|end| end == "own")).count();
    job.run(2, &["protect", "-R", "t", "-o", "left", "--key-file", "k", "--resume"]).ok();
    assert_eq!(own(), 0);
    job.run(2, &MIRROR).ok();
    assert_eq!(own(), 1);
}

#[test]
fn a_signature_of_the_manifest_is_demanded() {
    use phalanx_core::tree::{Signed, SignedText};
    use phalanx_host::signatures::Signer;
    let Some(job) = Job::new() else { return };
    fill(&job);
    job.run(2, &MIRROR).ok();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../age/tests/data");
    fs::copy(data.join("ssh-ed25519"), job.path("id")).unwrap();
    fs::set_permissions(job.path("id"), Permissions::from_mode(0o600)).unwrap();
    let public = fs::read_to_string(data.join("ssh-ed25519.pub")).unwrap();
    fs::write(job.path("signers"), format!("ann@example.org {public}")).unwrap();
    let signers = ["--signers", "signers"];
    let (verify, unprotect) = ([&VERIFY[..], &signers].concat(), [&UNPROTECT[..], &signers].concat());
    let unsigned = job.run(2, &verify).fails(3);
    assert!(unsigned.error.contains("m/phalanx.tree: it is not signed"), "{}", unsigned.error);
    let sign = || {
        let stored = File::open(job.path("m/phalanx.tree")).unwrap();
        let text = SignedText::read(&stored, Signed::Tree, |_| {}).unwrap();
        let made = Signer::read(&job.path("id")).unwrap().sign(Path::new("m"), text).unwrap();
        fs::write(job.path("m/phalanx.tree.sig"), made.armored()).unwrap();
    };
    sign();
    for run in [&verify, &[&verify[..], &["--quick"]].concat()] {
        let signed = job.run(2, run).ok();
        assert!(signed.error.contains("m: signed by ann@example.org"), "{}", signed.error);
    }
    job.run(2, &unprotect).ok();
    is_same(&job, "t", "back");
    fs::remove_dir_all(job.path("back")).unwrap();
    for path in ["m/program.phx", "m"] {
        let args = [&["verify", path, "--key-file", "k"][..], &signers].concat();
        job.run(2, &args).fails(2);
    }
    let resumed = job.run(2, &[&unprotect[..], &["--resume"]].concat()).fails(2);
    assert!(resumed.error.contains("--resume would leave plaintext whose signature was not checked yet"));
    assert!(!job.path("back").exists());
    // A part of so many chunks that their tags are read once more: the file could have been exchanged.
    File::create(job.path("t/large")).unwrap().set_len((65_536 << 12) + 1).unwrap();
    job.run(1, &[&MIRROR[..], &["--chunk-size", "4K"]].concat()).ok();
    sign();
    job.run(1, &verify).ok();
    let unseen = job.run(1, &[&verify[..], &["--division", "static"]].concat()).fails(4);
    assert!(unseen.error.contains("large.phx: "), "{}", unseen.error);
    assert!(unseen.error.contains("not all of its chunks were compared with the manifest"), "{}", unseen.error);
    fs::remove_file(job.path("t/large")).unwrap();
    // A manifest that somebody else wrote, and a mirror without one.
    fs::write(job.path("t/new"), "new").unwrap();
    job.run(2, &MIRROR).ok();
    for run in [&verify, &unprotect] {
        let other = job.run(2, run).fails(3);
        assert!(other.error.contains("has signed is something else"), "{}", other.error);
    }
    fs::remove_file(job.path("m/phalanx.tree")).unwrap();
    job.forget("m");
    job.run(2, &verify).fails(3);
    assert!(!job.path("back").exists());
}
