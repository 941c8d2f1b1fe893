//! Ways into a volume, refusals, and what `phalanx verify` finds.

use super::{init, init_as, is_sound, mount, unmount};
use crate::common::{Sandbox, painted};
use crate::mount::{Mounted, is_fuse_here, listing};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;

#[test]
fn a_password_and_a_key_open_it_and_others_do_not() {
    let s = Sandbox::new();
    s.secret("key", [7; 32]);
    s.secret("other", [8; 32]);
    s.secret("password", "p");
    s.secret("wrong", "q");
    s.run(&["-q", "init", "vol", "--key-file", "key", "--password-file", "password"]).ok();
    let Some(mounted) = mount(&s, "vol") else { return };
    fs::write(mounted.path("f"), painted(10_000)).unwrap();
    unmount(mounted);
    let mounted = Mounted::start(&s, &["vol", "mnt", "--password-file", "password"]).unwrap();
    assert!(fs::read(mounted.path("f")).unwrap() == painted(10_000));

    // Only one mount can use the volume, and no other command can use it meanwhile.
    fs::create_dir(s.path("second")).unwrap();
    let commands = [&["mount", "vol", "second", "--key-file", "key"][..], &["verify", "vol", "--key-file", "key"]];
    // They wait for some seconds, so they run in parallel.
    thread::scope(|scope| {
        for command in commands {
            scope.spawn(|| {
                let line = s.run(command).fails(4);
                assert!(line.contains("it is mounted, or another run is using it"), "{line}");
            });
        }
    });
    assert!(s.run(&["mount", "vol", "mnt", "--key-file", "key"]).fails(4).contains("mounted here already"));
    unmount(mounted);

    for way in [&["--key-file", "other"][..], &[]] {
        s.run(&[&["mount", "vol", "mnt"], way].concat()).fails(3);
        s.run(&[&["verify", "vol"], way].concat()).fails(3);
    }
    s.run(&["verify", "vol", "--password-file", "wrong"]).fails(3);
    assert!(fs::read_dir(s.path("mnt")).unwrap().next().is_none());
}

#[test]
fn a_mount_that_fails_late_gives_back_what_it_reserved() {
    if !is_fuse_here() {
        return;
    }
    for is_protected in [false, true] {
        let s = Sandbox::new();
        init_as(&s, "vol", "4K", is_protected);
        s.secret("password", "pw");
        s.run(&["rekey", "vol", "--key-file", "key", "--add-password-file", "password"]).ok();
        fs::create_dir(s.path("mnt")).unwrap();
        // The folder is another one once the password is there.
        let command = "mkdir new; rmdir mnt; mv new mnt; echo pw";
        let line = s.run(&["mount", "vol", "mnt", "--password-command", command]).fails(4);
        assert!(line.contains("something else was put in its place"), "{line}");
        let journal = fs::metadata(s.path("vol/phalanx.journal")).unwrap();
        assert_eq!((journal.len(), journal.blocks()), (0, 0));
        if is_protected {
            let blocks = fs::metadata(s.path("vol/phalanx.versions")).unwrap().blocks();
            assert!(blocks * 512 < 1 << 20, "{blocks} blocks");
        }
        s.run(&["-q", "verify", "vol", "--key-file", "key"]).ok();
    }
}

#[test]
fn ways_into_a_volume_change() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    s.secret("password", "p");
    let Some(mounted) = mount(&s, "vol") else { return };
    fs::write(mounted.path("f"), painted(10_000)).unwrap();
    unmount(mounted);
    s.run(&["rekey", "vol", "--key-file", "key", "--add-password-file", "password"]).ok();
    is_sound(&s, "vol");
    let ended = s.run(&["rekey", "vol", "--password-file", "password", "--remove-slot", "1"]);
    assert!(ended.0.status.success(), "{}", ended.error());
    // The warning for a volume does not name the remedy that only files have.
    let warning = ended.error();
    assert!(
        warning.contains("only a new volume, to which the files are copied") && !warning.contains("--fresh"),
        "{warning}"
    );
    s.run(&["verify", "vol", "--key-file", "key"]).fails(3);
    let mounted = Mounted::start(&s, &["vol", "mnt", "--password-file", "password"]).unwrap();
    assert!(fs::read(mounted.path("f")).unwrap() == painted(10_000));
    unmount(mounted);
    let last = s.run(&["rekey", "vol", "--password-file", "password", "--remove-passwords"]);
    assert!(!last.0.status.success(), "the last way in");
    let fresh = s.run(&["rekey", "vol", "--password-file", "password", "--fresh"]).fails(2);
    assert!(fresh.contains("a volume keeps its file key"), "{fresh}");
    s.run(&["-q", "verify", "vol", "--password-file", "password"]).ok();
}

#[test]
fn verify_finds_volumes_in_folders_and_inspect_shows_their_config() {
    let s = Sandbox::new();
    fs::create_dir_all(s.path("backup/deep")).unwrap();
    init(&s, "backup/deep/vol", "4K");
    let verify = ["verify", "--recursive", "backup", "--key-file", "key"];
    let reported = s.run(&verify).text();
    assert!(reported.contains("backup/deep/vol: 0 files in 0 folders"), "{reported}");
    let shown = s.run(&["inspect", "backup/deep/vol"]).text();
    assert!(shown.contains("marks the config of a volume") && !shown.contains("not known"), "{shown}");
    let folder = s.path("backup/deep/vol/phalanx.folder");
    let mut bytes = fs::read(&folder).unwrap();
    bytes[20] ^= 1;
    fs::write(&folder, bytes).unwrap();
    s.run(&verify).fails(3);
}

#[test]
fn a_volume_without_its_config_is_reported_as_such() {
    let s = Sandbox::new();
    fs::create_dir_all(s.path("t/empty")).unwrap();
    init(&s, "t/vol", "4K");
    fs::create_dir(s.path("t/vol/sub")).unwrap();
    fs::copy(s.path("t/vol/phalanx.folder"), s.path("t/vol/sub/phalanx.folder")).unwrap();
    fs::create_dir(s.path("mnt")).unwrap();
    let key = ["--key-file", "key"];
    let commands: [&[&str]; 6] = [
        &["mount", "FOLDER", "mnt"],
        &["verify", "FOLDER"],
        &["verify", "-R", "FOLDER"],
        &["unprotect", "-R", "FOLDER", "-o", "out"],
        &["rekey", "FOLDER"],
        &["unprotect", "t/empty", "--volume", "FOLDER", "-o", "out"],
    ];
    let said = |args: &[&str], folder: &str| {
        let args: Vec<_> = args.iter().map(|arg| if *arg == "FOLDER" { folder } else { arg }).collect();
        s.run(&[&args[..], &key].concat()).fails_with_lines(4)
    };
    for args in commands {
        let line = said(args, "t/vol/sub");
        assert!(
            line.contains("t/vol/sub: it is a folder in the volume ") && line.contains("name the volume"),
            "{line}"
        );
    }
    let config = fs::read(s.path("t/vol/phalanx.volume")).unwrap();
    fs::remove_file(s.path("t/vol/phalanx.volume")).unwrap();
    for args in commands {
        let line = said(args, "t/vol");
        assert!(line.contains("t/vol: it is a volume whose phalanx.volume is missing"), "{line}");
    }
    for command in ["verify", "rekey"] {
        let line = said(&[command, "-R", "FOLDER"], "t");
        assert!(line.contains("t/vol: it is a volume whose phalanx.volume is missing"), "{line}");
    }
    assert!(s.run(&["inspect", "t/vol"]).fails(4).contains("phalanx.volume is missing"));
    fs::remove_dir_all(s.path("t/vol/sub")).unwrap();
    s.write("t/vol/phalanx.volume", config);
    s.run(&[&["verify", "t/vol"][..], &key].concat()).ok();
}

#[test]
fn a_recovery_key_opens_a_volume() {
    let s = Sandbox::new();
    s.secret("key", [7; 32]);
    s.secret("taken", "");
    s.run(&["init", "vol", "--key-file", "key", "--recovery-key", "taken"]).fails(4);
    assert!(!s.exists("vol"));
    s.run(&["init", "vol", "--key-file", "key", "--recovery-key", "recovery.txt"]).ok();
    assert_eq!(fs::metadata(s.path("recovery.txt")).unwrap().permissions().mode() & 0o777, 0o600);
    let printed = s.run(&["init", "other", "--key-file", "key", "--recovery-key", "-"]).text();
    assert!(printed.starts_with("phalanx-key-1-") && printed.lines().count() == 1, "{}", printed.len());
    s.secret("printed.txt", printed);
    for (volume, text) in [("vol", "recovery.txt"), ("other", "printed.txt")] {
        assert_eq!(s.run(&["inspect", volume]).text().matches(" key ").count(), 2);
        s.run(&["key", "import", volume, text]).ok();
        s.run(&["verify", volume, "--key", volume]).ok();
    }
    s.run(&["verify", "other", "--key", "vol"]).fails(3);
}

#[test]
fn a_new_folder_after_password_is_not_a_password() {
    let s = Sandbox::new();
    for option in ["-p", "--password"] {
        let line = s.run_with_password("x", &["init", option, "vol"]).fails(2);
        assert!(line.contains("\nhint: name a new folder before the options: phalanx init DIR --password"), "{line}");
        assert!(!line.contains("vol") && !s.exists("vol"), "{line}");
    }
    s.run_with_password("x", &["init", "vol", "-p"]).ok();
}

#[test]
fn a_mount_for_reading_changes_nothing() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mounted) = mount(&s, "vol") else { return };
    fs::create_dir(mounted.path("folder")).unwrap();
    fs::write(mounted.path("folder/f"), painted(10_000)).unwrap();
    let shown = listing(&mounted.mountpoint);
    unmount(mounted);
    let stored = listing(&s.path("vol"));
    let mounted = Mounted::start(&s, &["vol", "mnt", "--key-file", "key", "--read-only"]).unwrap();
    assert!(listing(&mounted.mountpoint) == shown);
    let refused = |done: io::Result<()>| assert_eq!(Errno::from_io_error(&done.unwrap_err()), Some(Errno::ROFS));
    refused(fs::write(mounted.path("folder/f"), "x"));
    refused(fs::write(mounted.path("new"), "x"));
    refused(fs::create_dir(mounted.path("new")));
    refused(fs::remove_file(mounted.path("folder/f")));
    refused(fs::rename(mounted.path("folder"), mounted.path("other")));
    refused(OpenOptions::new().append(true).open(mounted.path("folder/f")).map(drop));
    // A mount for reading only does not exclude other readers.
    is_sound(&s, "vol");
    unmount(mounted);
    assert!(listing(&s.path("vol")) == stored);
}

#[test]
fn init_refuses_what_is_in_use() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    fs::create_dir_all(s.path("full/inner")).unwrap();
    fs::create_dir(s.path("empty")).unwrap();
    s.write("file", "x");
    for (folder, what) in
        [("vol", "volume"), ("full", "empty"), ("file", "Not a directory"), ("none/deep", "No such file")]
    {
        let line = s.run(&["init", folder, "--key-file", "key"]).fails(4);
        assert!(line.contains(what), "{folder}: {line}");
    }
    s.run(&["init", "new"]).fails(2);
    s.run(&["init", "new", "--key-file", "key", "--cipher", "aes-256-gcm"]).fails(2);
    s.run(&["init", "new", "--key-file", "key", "--chunk-size", "5000"]).fails(2);
    assert!(!s.exists("new") && !s.exists("none"));
    s.run(&["-q", "init", "empty", "--key-file", "key"]).ok();
    is_sound(&s, "empty");
}

#[test]
fn verify_names_damaged_files_and_checks_the_rest() {
    let s = Sandbox::new();
    // With rollback protection the lines are others.
    init_as(&s, "vol", "4K", false);
    let Some(mounted) = mount(&s, "vol") else { return };
    fs::create_dir(mounted.path("sub")).unwrap();
    let names = ["good", "changed", "cut", "sub/empty", "sub/swapped"];
    let mut stored = Vec::new();
    for name in names {
        fs::write(mounted.path(name), painted(50_000)).unwrap();
        stored.push(newest(&s, &stored));
    }
    unmount(mounted);
    is_sound(&s, "vol");
    let edit = |place: usize| OpenOptions::new().read(true).write(true).open(&stored[place]).unwrap();
    let mut byte = [0];
    // This is in chunk 3.
    let at = 4096 + 3 * (4096 + 48) + 1000;
    edit(1).read_exact_at(&mut byte, at).unwrap();
    edit(1).write_all_at(&[byte[0] ^ 1], at).unwrap();
    edit(2).set_len(20_000).unwrap();
    edit(3).set_len(0).unwrap();
    fs::copy(s.path("key"), &stored[4]).unwrap();
    let lines = s.run(&["verify", "vol", "--key-file", "key"]).fails_with_lines(3);
    for name in ["changed: damaged in chunk 3", "cut: ", "sub/empty: ", "sub/swapped: "] {
        assert_eq!(lines.matches(&format!("vol/{name}")).count(), 1, "{name}: {lines}");
    }
    assert_eq!(lines.lines().count(), 4, "{lines}");
    // If the summary cannot be written, the exit code still reports the damage.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut verify = s.command(&["verify", "vol", "--key-file", "key"]);
    assert_eq!(verify.stdout(full).stderr(Stdio::null()).status().unwrap().code(), Some(3));

    let mut mounted = mount(&s, "vol").unwrap();
    assert!(fs::read(mounted.path("good")).unwrap() == painted(50_000));
    for name in &names[1..] {
        let error = fs::read(mounted.path(name)).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::IO), "{name}");
    }
    let file = File::open(mounted.path("changed")).unwrap();
    let mut chunk = [0; 4096];
    file.read_exact_at(&mut chunk, 4 * 4096).unwrap();
    assert!(chunk[..] == painted(50_000)[4 * 4096..5 * 4096]);
    drop(file);
    for name in &names[1..] {
        fs::remove_file(mounted.path(name)).unwrap();
    }
    mounted.unmount();
    assert_eq!(mounted.ended().code(), Some(0));
    is_sound(&s, "vol");
}

/// The stored file that is not among the known ones.
fn newest(s: &Sandbox, known: &[PathBuf]) -> PathBuf {
    let mut folders = vec![s.path("vol")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if !name.to_string_lossy().contains('.') && !known.contains(&path) {
                return path;
            }
        }
    }
    panic!("it is not there");
}
