//! Files and folders, by one process and by several.

use crate::common::{Ended, Job, painted};
use phalanx_host::file::{Existing, Output};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

#[test]
fn files_of_all_lengths_come_back() {
    let Some(job) = Job::new() else { return };
    let lens = [
        ("empty", 0),
        ("byte", 1),
        ("small", 70_000),
        ("chunk", 1 << 20),
        ("under", (16 << 20) - 1),
        ("large", (40 << 20) + 12_345),
    ];
    let names: Vec<&str> = lens.iter().map(|(name, _)| *name).collect();
    lens.iter().for_each(|(name, len)| job.write(name, &painted(*len)));
    let protected: Vec<String> = names.iter().map(|name| format!("{name}.phx")).collect();
    let protected: Vec<&str> = protected.iter().map(String::as_str).collect();
    fs::create_dir(job.path("back")).unwrap();
    for ranks in [1, 2, 3, 5] {
        for division in ["dynamic", "static"] {
            for chunk in ["1M", "16M"] {
                let how = ["--key-file", "k", "-f", "--division", division];
                let args = [&["protect", "--chunk-size", chunk], &how[..], &names[..]].concat();
                job.run(ranks, &args).ok();
                for name in &names {
                    assert!(job.opened(&format!("{name}.phx")) == job.read(name), "{name}, {ranks} ranks, {division}");
                }
                let verified = job
                    .run(ranks, &[&["verify", "--key-file", "k", "--division", division], &protected[..]].concat())
                    .ok();
                assert!(
                    verified.out.contains("6 files")
                        && verified.out.contains("large.phx: 41955385 bytes: whole and authentic"),
                    "{}",
                    verified.out
                );
                job.run(ranks, &[&["unprotect", "--output-dir", "back"], &how[..], &protected[..]].concat()).ok();
                for name in &names {
                    assert!(job.read(&format!("back/{name}")) == job.read(name), "{name}, {ranks} ranks, {division}");
                }
                assert_eq!(job.leftovers(), Vec::<String>::new());
            }
        }
    }
    // The zeros have become holes again.
    assert!(job.path("back/large").metadata().unwrap().blocks() * 512 < 35 << 20);
}

#[test]
fn all_suites_and_passwords_work() {
    let Some(job) = Job::new() else { return };
    job.write("f", &painted((20 << 20) + 3));
    job.write("password", b"correct horse\n");
    job.write("wrong", b"battery\n");
    for name in ["password", "wrong"] {
        fs::set_permissions(job.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    for cipher in ["aes-128", "aes-192", "aes-256-turbo", "aes-256-gcm"] {
        let args = ["protect", "f", "-f", "--cipher", cipher, "--key-file", "k", "--password-file", "password"];
        job.run(3, &args).ok();
        assert!(job.opened("f.phx") == job.read("f"), "{cipher}");
        job.run(2, &["unprotect", "f.phx", "-o", "back", "-f", "--password-file", "password"]).ok();
        assert!(job.read("back") == job.read("f"), "{cipher}");
    }
    let wrong = job.run(2, &["unprotect", "f.phx", "-o", "other", "--password-file", "wrong"]).fails(3);
    assert_eq!(wrong.lines().iter().filter(|line| line.contains("f.phx")).count(), 1, "{}", wrong.error);
    assert!(!job.path("other").exists());
    assert_eq!(job.leftovers(), Vec::<String>::new());
}

#[test]
fn folders_are_mirrored() {
    let Some(job) = Job::new() else { return };
    for i in 0..700 {
        job.write(&format!("t/many/{i}"), &painted(i * 13));
    }
    job.write("t/a/b/c/mid", &painted(17 << 20));
    job.write("t/a/large", &painted((256 << 20) + 5));
    fs::create_dir_all(job.path("t/empty")).unwrap();
    let deep: String = (0..100).map(|i| format!("{i}/")).collect();
    job.write(&format!("t/deep/{deep}file"), b"deep");
    symlink("../many/1", job.path("t/a/link")).unwrap();
    fs::set_permissions(job.path("t/a/b"), fs::Permissions::from_mode(0o750)).unwrap();
    for ranks in [1, 3] {
        let protect = ["protect", "-R", "t", "--key-file", "k"];
        let seen = job.run(ranks, &[&protect[..], &["--dry-run"]].concat()).ok();
        assert!(seen.out.contains("would be protected: 703 files"), "{}", seen.out);
        assert!(!job.path("t.phx").exists());
        let done = job.run(ranks, &protect).ok();
        assert!(done.error.contains("protected 703 files"), "{}", done.error);
        assert!(job.opened("t.phx/many/77.phx") == job.read("t/many/77"));
        assert!(job.opened("t.phx/a/large.phx") == job.read("t/a/large"));
        let (from, to) = (job.path("t/a/b").metadata().unwrap(), job.path("t.phx/a/b").metadata().unwrap());
        assert_eq!((from.mode(), from.mtime_nsec()), (to.mode(), to.mtime_nsec()));
        job.run(ranks, &protect).fails(4);
        let again = job.run(ranks, &[&protect[..], &["--resume"]].concat()).ok();
        assert!(again.error.contains("703 done before"), "{}", again.error);
        // Changed inputs and missing outputs are done again.
        job.write("t/many/5", b"other");
        fs::remove_file(job.path("t.phx/many/6.phx")).unwrap();
        let again = job.run(ranks, &[&protect[..], &["--resume", "--force"]].concat()).ok();
        assert!(
            again.error.contains("protected 2 files") && again.error.contains("701 done before"),
            "{}",
            again.error
        );
        job.run(ranks, &["verify", "-R", "t.phx", "--key-file", "k", "-q"]).ok();
        // Without a manifest all protected files are taken.
        job.forget("t.phx");
        job.write("t.phx/stray", b"plain");
        let back = job.run(ranks, &["unprotect", "-R", "t.phx", "--key-file", "k", "-o", "back"]).ok();
        assert!(back.error.contains("t.phx/stray: the name does not end in .phx: left out"), "{}", back.error);
        assert!(back.error.contains("; 1 left out"), "{}", back.error);
        let checked = job.run(ranks, &["verify", "-R", "t.phx", "--key-file", "k"]).ok();
        assert!(checked.error.contains("t.phx/stray: the name does not end in .phx: left out"), "{}", checked.error);
        // Its content does not matter: only phalanx works on volumes.
        job.write("t.phx/vol/phalanx.volume", b"");
        let volume = job.run(ranks, &["verify", "-R", "t.phx", "--key-file", "k"]).fails(4);
        assert!(volume.error.contains("t.phx/vol: a volume"), "{}", volume.error);
        fs::remove_dir_all(job.path("t.phx/vol")).unwrap();
        let both = [job.path("t"), job.path("back")];
        assert!(Command::new("diff").args(["-r", "--no-dereference"]).args(both).status().unwrap().success());
        fs::remove_dir_all(job.path("back")).unwrap();
        fs::remove_dir_all(job.path("t.phx")).unwrap();
    }
}

#[test]
fn outputs_for_other_recipients_are_made_again() {
    let Some(job) = Job::new() else { return };
    job.write("other", &[8; 32]);
    fs::set_permissions(job.path("other"), fs::Permissions::from_mode(0o600)).unwrap();
    job.write("t/f", b"secret");
    let both = ["protect", "-R", "t", "-f", "--resume", "--key-file", "k", "--key-file", "other"];
    job.run(2, &both).ok();
    assert!(job.run(2, &both).ok().error.contains("1 done before"));
    // A file with a second name may belong to someone else.
    fs::hard_link(job.path("t.phx/f.phx"), job.path("second")).unwrap();
    assert!(job.run(2, &both).ok().error.contains("protected 1 file,"));
    let one = job.run(2, &both[..7]).ok();
    assert!(one.error.contains("protected 1 file,"), "{}", one.error);
    job.run(2, &["verify", "t.phx/f.phx", "--key-file", "other"]).fails(3);
}

#[test]
fn memory_is_bounded() {
    let Some(job) = Job::new() else { return };
    job.write("f", &vec![1; 400 << 20]);
    for i in 0..3000 {
        job.write(&format!("t/{i}"), b"small");
    }
    for args in [
        &["protect", "f", "--key-file", "k", "-v", "--no-sync"][..],
        &["protect", "-R", "t", "--key-file", "k", "-v", "--no-sync"],
    ] {
        let done = job.run(3, args).ok();
        let peaks: Vec<u64> = done
            .lines()
            .iter()
            .filter_map(|line| line.split(", ").last()?.strip_suffix(" MiB of memory")?.parse().ok())
            .collect();
        assert_eq!(peaks.len(), 3, "{}", done.error);
        assert!(peaks.iter().all(|peak| (1..128).contains(peak)), "{}", done.error);
    }
}

/// An entry that changes its kind has a new name in the mirror, and its old name stays there.
#[test]
fn an_entry_that_changed_its_kind_is_an_error() {
    let Some(job) = Job::new() else { return };
    job.write("t/folder/f", b"in it");
    job.write("t/file", b"a file");
    symlink("nowhere", job.path("t/link")).unwrap();
    job.write("t/same", b"as before");
    job.run(2, &["protect", "-R", "t", "--key-file", "k"]).ok();
    fs::remove_dir_all(job.path("t/folder")).unwrap();
    fs::remove_file(job.path("t/file")).unwrap();
    fs::remove_file(job.path("t/link")).unwrap();
    job.write("t/folder", b"a file");
    job.write("t/file/f", b"in it");
    job.write("t/link", b"a file");
    for more in ["--force", "--resume"] {
        let ended = job.run(2, &["protect", "-R", "t", "--key-file", "k", more]).fails(4);
        for (new, old) in [("folder.phx", "folder"), ("file", "file.phx"), ("link.phx", "link")] {
            let line = format!("t.phx/{new}: cannot write: {old} is in its way: both would be unprotected to the same");
            assert!(ended.error.contains(&line), "{}", ended.error);
        }
        assert!(!job.path("t.phx/folder.phx").exists() && !job.path("t.phx/link.phx").exists());
        job.run(2, &["verify", "-R", "t.phx", "--key-file", "k"]).ok();
    }
    // A mirror with both names is not whole, also without its manifest.
    job.forget("t.phx");
    fs::copy(job.path("t.phx/file.phx"), job.path("t.phx/link.phx")).unwrap();
    let ended = job.run(2, &["verify", "-R", "t.phx", "--key-file", "k"]).fails(4);
    assert!(ended.error.contains("t.phx/link.phx: t.phx/link is in its way: both"), "{}", ended.error);
}

/// The lines of a run that contain these words.
#[track_caller]
fn lines_with(ended: &Ended, words: &str) -> Vec<String> {
    ended.lines().into_iter().filter(|line| line.contains(words)).map(str::to_owned).collect()
}

#[test]
fn mirrored_entries_without_input_are_kept_and_named() {
    let Some(job) = Job::new() else { return };
    ["a", "b", "d/c", "d/stays", "gone/e"].iter().for_each(|name| job.write(&format!("t/{name}"), b"x"));
    symlink("a", job.path("t/link")).unwrap();
    let protect = ["protect", "-R", "t", "--key-file", "k"];
    let unprotect = ["unprotect", "-R", "t.phx", "--key-file", "k", "-o", "back"];
    let force = |args: &[&'static str], more: &'static str| [args, &["--force", more]].concat();
    for args in [&protect[..], &unprotect] {
        job.run(2, args).ok();
        assert_eq!(lines_with(&job.run(2, &force(args, "-v")).ok(), "no input"), [""; 0]);
    }
    fs::remove_dir_all(job.path("t/gone")).unwrap();
    for ranks in [1, 3] {
        for more in ["--force", "--resume"] {
            let lines = lines_with(&job.run(ranks, &[&protect[..], &[more]].concat()).ok(), "no input");
            assert_eq!(lines, ["t.phx: 1 entry has no input and stays as it is: t.phx/gone"]);
        }
    }
    ["a", "b", "d/c"].iter().for_each(|name| fs::remove_file(job.path(&format!("t/{name}"))).unwrap());
    for ranks in [1, 3] {
        let lines = lines_with(&job.run(ranks, &force(&protect, "-v")).ok(), "no input");
        let named = "t.phx/a.phx, t.phx/b.phx, t.phx/gone and 1 more";
        assert_eq!(lines, [format!("t.phx: 4 entries have no input and stay as they are: {named}")]);
        assert_eq!(lines_with(&job.run(ranks, &force(&protect, "-q")).ok(), ""), [""; 0]);
    }
    assert!(["a.phx", "b.phx", "d/c.phx", "gone/e.phx"].iter().all(|name| job.path("t.phx").join(name).exists()));
    fs::remove_dir_all(job.path("t.phx/gone")).unwrap();
    fs::remove_file(job.path("t.phx/d/c.phx")).unwrap();
    job.forget("t.phx");
    let lines = lines_with(&job.run(3, &force(&unprotect, "-v")).ok(), "no input");
    assert_eq!(lines, ["back: 2 entries have no input and stay as they are: back/gone, back/d/c"]);
}

#[test]
fn special_files_are_left_out_and_named() {
    let Some(job) = Job::new() else { return };
    job.write("t/f", b"f");
    let _socket = UnixListener::bind(job.path("t/socket")).unwrap();
    mknodat(CWD, job.path("t/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let mut kinds = vec![("socket", "a socket"), ("pipe", "a pipe")];
    // These are the numbers of /dev/null. Only root can make devices.
    if mknodat(CWD, job.path("t/device"), FileType::CharacterDevice, Mode::RUSR, makedev(1, 3)).is_ok() {
        kinds.push(("device", "a device"));
    }
    for ranks in [1, 3] {
        let ended = job.run(ranks, &["protect", "-R", "t", "--key-file", "k", "--force"]).ok();
        for (name, kind) in &kinds {
            assert_eq!(lines_with(&ended, name), [format!("t/{name}: {kind}: left out")]);
        }
        let left_out = format!("; {} left out", kinds.len());
        assert!(ended.error.contains(&left_out), "{}", ended.error);
        job.write("t.phx/notes", b"not ours");
        job.forget("t.phx");
        let ended = job.run(ranks, &["verify", "-R", "t.phx", "--key-file", "k"]).ok();
        let unlisted = "t.phx: no manifest, so nothing is known of what is missing or older";
        assert_eq!(lines_with(&ended, ""), ["t.phx/notes: the name does not end in .phx: left out", unlisted]);
        assert!(ended.out.ends_with("\n1 file, 1 byte: whole and authentic; 1 left out\n"), "{}", ended.out);
    }
    for ranks in [1, 3] {
        // Verifying a folder without protected files fails.
        let ended = job.run(ranks, &["verify", "-R", "t", "t.phx", "--key-file", "k"]).fails(4);
        assert_eq!(lines_with(&ended, "no protected file"), ["t: no protected file is in it"]);
        assert!(ended.out.contains("1 file, 1 byte: whole and authentic"), "{}", ended.out);
    }
}

#[test]
fn each_warning_is_printed_once_by_all_processes_together() {
    let Some(job) = Job::new() else { return };
    let special = |name: &str, mode| fs::set_permissions(job.path(name), fs::Permissions::from_mode(mode)).unwrap();
    for i in 0..20 {
        job.write(&format!("t/{i}/f"), b"f");
        special(&format!("t/{i}/f"), 0o4755);
        special(&format!("t/{i}"), 0o1777);
    }
    fs::copy(job.path("k"), job.path("t/k")).unwrap();
    job.write("large", &vec![0; 17 << 20]);
    special("large", 0o2755);
    let bits = "setuid, setgid and sticky bits are not kept";
    for ranks in [1, 3] {
        let ended = job.run(ranks, &["protect", "-R", "t", "--key-file", "t/k", "-f", "--no-sync"]).ok();
        let lines = lines_with(&ended, bits);
        assert!(lines.len() == 1 && lines[0].starts_with("warning: t/"), "{}", ended.error);
        let key = "warning: t holds its own key or password (t/k)";
        assert_eq!(lines_with(&ended, "its own key"), [key]);
        let ended = job.run(ranks, &["protect", "large", "--key-file", "k", "-f", "--no-sync"]).ok();
        assert_eq!(lines_with(&ended, bits), [format!("warning: large: {bits}")]);
        let unprotect = ["unprotect", "-R", "t.phx", "-o", "back", "--key-file", "k", "-f", "--no-sync"];
        // The protected files do not have these bits.
        let ended = job.run(ranks, &[&unprotect[..], &["--preserve"]].concat()).ok();
        assert_eq!(lines_with(&ended, "warning"), [""; 0]);
    }
    special("t.phx/7/f.phx", 0o4755);
    let unprotect = ["unprotect", "-R", "t.phx", "-o", "back", "--key-file", "k", "-f", "--no-sync"];
    assert_eq!(lines_with(&job.run(2, &unprotect).ok(), "warning"), [""; 0]);
    let ended = job.run(2, &[&unprotect[..], &["--preserve"]].concat()).ok();
    assert_eq!(lines_with(&ended, "warning"), [format!("warning: t.phx/7/f.phx: {bits}")]);
    assert_eq!(job.path("back/7/f").metadata().unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn an_output_with_the_name_of_a_temporary_file_is_refused() {
    let Some(job) = Job::new() else { return };
    job.write("t/f", b"f");
    job.run(2, &["protect", "-R", "t", "--key-file", "k"]).ok();
    let output = Output::create(&job.path("x"), Existing::Keep).unwrap();
    let reserved = output.temporary_name().to_str().unwrap().to_owned();
    drop(output);
    fs::copy(job.path("t.phx/f.phx"), job.path(&format!("t.phx/{reserved}.phx"))).unwrap();
    job.forget("t.phx");
    let ended = job.run(2, &["unprotect", "-R", "t.phx", "--key-file", "k", "-o", "back"]).fails(4);
    let line = format!("t.phx/{reserved}.phx: the name of its output is one of a temporary file: left out");
    let lines = lines_with(&ended, &reserved);
    assert!(lines.len() == 1 && lines[0].ends_with(&line), "{}", ended.error);
    assert!(job.read("back/f") == b"f" && !job.path("back").join(&reserved).exists());
    job.run(2, &["verify", "-R", "t.phx", "--key-file", "k"]).ok();
}

#[test]
fn no_output_replaces_identities_when_files_are_for_public_keys() {
    let Some(job) = Job::new() else { return };
    job.write("f", b"f");
    let identity = "AGE-SECRET-KEY-1";
    job.write("f.phx", identity.as_bytes());
    let recipient = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa";
    let ended = job.run(2, &["protect", "f", "-r", recipient, "--force"]).fails(2);
    assert!(ended.error.contains("f.phx: it holds identities, which no output replaces"), "{}", ended.error);
    assert_eq!(job.read("f.phx"), identity.as_bytes());
}

#[test]
fn no_output_replaces_the_key_in_use() {
    let Some(job) = Job::new() else { return };
    job.write("f", b"content");
    fs::create_dir(job.path("t")).unwrap();
    job.write("t/key", b"a file that has the name of the key in the mirror");
    job.run(2, &["protect", "f", "--key-file", "k", "-o", "k.phx"]).ok();
    fs::create_dir(job.path("m")).unwrap();
    fs::hard_link(job.path("k"), job.path("m/key.phx")).unwrap();
    let key = job.read("k");
    let refused = "it holds a key or password, which no output replaces";
    for args in [&["protect", "f", "-o", "k"][..], &["unprotect", "k.phx"], &["protect", "-R", "t", "-o", "m"]] {
        let ended = job.run(2, &[args, &["--key-file", "k", "--force"]].concat());
        let ended = ended.fails(if args.contains(&"-R") { 4 } else { 2 });
        assert!(ended.error.contains(refused), "{}", ended.error);
        assert!(job.read("k") == key && job.read("m/key.phx") == key);
    }
    assert_eq!(job.leftovers(), [""; 0]);
}
