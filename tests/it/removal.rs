//! `--remove` deletes an input only when its output is proven to be on the disk, and deletes nothing else.

use crate::age::public;
use crate::common::{Ended, Mounted, Sandbox, exfat, painted, skip, wait_for};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

#[test]
fn an_output_that_never_reached_the_disk_keeps_its_input() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    (0..5).for_each(|i| drop(s.write(&format!("t/{i}"), painted(5000))));
    let args = ["protect", "-R", "t", "-k", "k", "--remove"];
    // This is how overlay file systems fail: their `syncfs` reports no error.
    let Some(mut command) = s.traced(&["-e", "trace=fsync", "-e", "inject=fsync:error=EIO"], &args) else { return };
    Ended(command.output().unwrap()).fails_with_lines(4);
    for i in 0..5 {
        assert_eq!(s.read(&format!("t/{i}")), painted(5000), "{i}");
    }
    s.run(&["protect", "-R", "t", "-k", "k", "--remove", "--force"]).ok();
    assert!(s.run(&["verify", "-R", "t.phx"]).text().ends_with("\n5 files, 25000 bytes: whole and authentic\n"));
    assert!(!s.exists("t"));
}

#[test]
fn a_folder_above_the_output_that_never_reached_the_disk_keeps_all_inputs() {
    let s = Sandbox::with_key();
    fs::create_dir_all(s.path("t/a")).unwrap();
    (0..5).for_each(|i| drop(s.write(&format!("t/a/{i}"), painted(5000))));
    let above = s.path("").canonicalize().unwrap().display().to_string();
    let args = ["protect", "-R", "t", "-k", "k", "--remove"];
    let options = ["-P", &above, "-e", "trace=fsync", "-e", "inject=fsync:error=EIO"];
    let Some(mut command) = s.traced(&options, &args) else { return };
    Ended(command.output().unwrap()).fails_with_lines(4);
    for i in 0..5 {
        assert_eq!(s.read(&format!("t/a/{i}")), painted(5000), "{i}");
    }
}

#[test]
fn an_error_at_closing_is_an_error() {
    let s = Sandbox::with_key();
    s.write("f", painted(5000));
    let path = s.path(&Sandbox::temporary("f.phx")).display().to_string();
    for args in [["protect", "f", "-k", "k", "--no-sync"], ["protect", "f", "-k", "k", "--remove"]] {
        let options = ["-P", &path, "-e", "trace=close", "-e", "inject=close:error=EIO"];
        let Some(mut command) = s.traced(&options, &args) else { return };
        Ended(command.output().unwrap()).fails(4);
        assert_eq!(s.names(), ["f"]);
    }
}

#[test]
fn a_folder_that_becomes_a_link_does_not_redirect_the_removal() {
    let s = Sandbox::with_key();
    for folder in ["d", "other"] {
        fs::create_dir(s.path(folder)).unwrap();
        s.write(&format!("{folder}/f"), folder);
    }
    let swap = || {
        fs::rename(s.path("d"), s.path("moved")).unwrap();
        symlink("other", s.path("d")).unwrap();
    };
    let args = ["protect", "d/f", "-k", "k", "--remove"];
    let ended = s.meanwhile("unlinkat:when=2", &args, || s.exists("d/f.phx"), swap);
    let Some(ended) = ended else { return };
    ended.ok();
    assert_eq!(s.read("other/f"), b"other");
    assert!(s.exists("moved/f.phx") && !s.exists("moved/f"));
}

#[test]
fn a_file_that_replaces_a_link_stays() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    symlink("nowhere", s.path("t/a")).unwrap();
    s.write("t/z", "x");
    let replace = || {
        fs::remove_file(s.path("t/a")).unwrap();
        s.write("t/a", "precious");
    };
    let args = ["protect", "-R", "t", "-k", "k", "--remove"];
    let ready = || s.exists("t.phx/a");
    let ended = s.meanwhile("fsync,syncfs:when=1", &args, ready, replace);
    let Some(ended) = ended else { return };
    let reported = ended.fails_with_lines(4);
    assert!(reported.contains("t/a: the input changed"), "{reported}");
    assert_eq!(s.read("t/a"), b"precious");
}

#[test]
fn files_saved_during_the_run_stay() {
    let s = Sandbox::with_key();
    // An editor replaces it by a new file just before the old one is deleted.
    s.write("f", "old");
    let save = || {
        s.write("new", "new");
        fs::rename(s.path("new"), s.path("f")).unwrap();
    };
    let args = ["protect", "f", "-k", "k", "--remove"];
    let ended = s.meanwhile("unlinkat:when=2", &args, || s.exists("f.phx"), save);
    let Some(ended) = ended else { return };
    ended.ok();
    assert_eq!((s.read("f"), s.leftovers()), (b"new".to_vec(), vec![]));

    // A program writes to the file and restores its time while the output is synced.
    s.write("f", "old");
    let write = || {
        let modified = fs::metadata(s.path("f")).unwrap().modified().unwrap();
        s.write("f", "new");
        File::options().write(true).open(s.path("f")).unwrap().set_modified(modified).unwrap();
    };
    let args = ["protect", "f", "-k", "k", "--remove", "--force"];
    let ready = || s.exists(&Sandbox::temporary("f.phx"));
    let reported = s.meanwhile("fsync:when=1", &args, ready, write).unwrap().fails(4);
    assert!(reported.contains("f: the input changed"), "{reported}");
    assert_eq!((s.read("f"), s.leftovers()), (b"new".to_vec(), vec![]));

    // An editor saves by a rename, after the run has compared the file and before it renames it: the new file is put
    // back.
    s.write("f", "old");
    let args = ["protect", "f", "-k", "k", "--remove", "--force"];
    let ready = || fs::metadata(s.path("f.phx")).is_ok_and(|meta| meta.modified().unwrap() == modified(&s, "f"));
    fs::remove_file(s.path("f.phx")).unwrap();
    let reported = s.meanwhile("renameat:when=2", &args, ready, save).unwrap().fails(4);
    assert!(reported.contains("f: the input changed"), "{reported}");
    assert_eq!((s.read("f"), s.leftovers()), (b"new".to_vec(), vec![]));
}

fn modified(s: &Sandbox, name: &str) -> std::time::SystemTime {
    fs::metadata(s.path(name)).unwrap().modified().unwrap()
}

#[test]
fn a_replaced_output_keeps_its_input() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    s.write("other", "other");
    let replace = || fs::rename(s.path("other"), s.path("f.phx")).unwrap();
    let args = ["protect", "f", "-k", "k", "--remove"];
    let ended = s.meanwhile("fsync:when=2", &args, || s.exists("f.phx"), replace);
    let Some(ended) = ended else { return };
    let reported = ended.fails(4);
    assert!(reported.contains("f.phx: its name now leads to another file"), "{reported}");
    assert_eq!(s.read("f"), b"x");
}

#[test]
fn no_output_of_a_run_replaces_another() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    s.write("t/a", "precious");
    symlink("far away", s.path("t/a.phx")).unwrap();
    let reported = s.run(&["protect", "-R", "t", "-k", "k", "--force", "--remove"]).fails_with_lines(4);
    assert!(reported.contains("t.phx/a.phx: another output of this run"), "{reported}");
    assert_eq!(s.read("t/a"), b"precious");
    assert_eq!(fs::read_link(s.path("t.phx/a.phx")).unwrap().to_str(), Some("far away"));
}

/// A folder that loses its capitals at the source has the place of the old one where both spellings are one name. What is in it is not
/// deleted as gone.
#[test]
fn a_mirror_keeps_what_only_its_spelling_has_changed() {
    let s = Sandbox::with_key();
    let Some(_mounted) = exfat(&s) else { return };
    fs::create_dir_all(s.path("src/Docs/In")).unwrap();
    for (name, content) in [("A", "1"), ("Docs/x", "2"), ("Docs/In/y", "3"), ("gone", "4"), ("same", "5")] {
        s.write(&format!("src/{name}"), content);
    }
    let mirror = ["mirror", "src", "disk/m", "-k", "k", "--delete", "--max-delete", "9"];
    s.run(&mirror).ok();
    fs::rename(s.path("src/Docs"), s.path("src/docs")).unwrap();
    s.write("src/docs/x", "changed");
    fs::remove_file(s.path("src/gone")).unwrap();
    s.run(&[&mirror[..], &["--checksum"]].concat()).ok();
    for (name, content) in [("x", "changed"), ("In/y", "3")] {
        s.run(&["unprotect", &format!("disk/m/docs/{name}.phx"), "-o", "out", "-k", "k", "--force"]).ok();
        assert_eq!(s.read("out"), content.as_bytes());
    }
    assert!(!s.exists("disk/m/gone.phx"));
}

/// What was written by a run that deleted nothing lies in the folder of the old spelling too, which is still to be deleted. Its name
/// need not have letters of ASCII.
#[test]
fn what_is_new_in_a_folder_of_another_spelling_is_no_stray() {
    let s = Sandbox::with_key();
    let Some(_mounted) = exfat(&s) else { return };
    for (n, (old, new)) in [("Photos", "photos"), ("Фото", "фото"), ("Ö", "ö")].into_iter().enumerate() {
        let (source, mirror) = (format!("src{n}"), format!("disk/m{n}"));
        let new = format!("{source}/{new}");
        let stored = |name: &str| new.replace(&source, &mirror) + "/" + name;
        fs::create_dir_all(s.path(&format!("{source}/{old}"))).unwrap();
        s.write(&format!("{source}/{old}/a"), "1");
        s.run(&["mirror", &source, &mirror, "-k", "k"]).ok();
        fs::rename(s.path(&format!("{source}/{old}")), s.path(&new)).unwrap();
        fs::create_dir(s.path(&format!("{new}/sub"))).unwrap();
        s.write(&format!("{new}/b"), "2");
        s.write(&format!("{new}/sub/c"), "3");
        s.run(&["mirror", &source, &mirror, "-k", "k"]).ok();
        fs::copy(s.path(&stored("a.phx")), s.path(&stored("stray.phx"))).unwrap();
        s.run(&["mirror", &source, &mirror, "-k", "k", "--delete", "--max-delete", "9"]).ok();
        for (name, content) in [("a", "1"), ("b", "2"), ("sub/c", "3")] {
            s.run(&["unprotect", &stored(&format!("{name}.phx")), "-o", "out", "-k", "k", "--force"]).ok();
            assert_eq!(s.read("out"), content.as_bytes());
        }
        assert!(!s.exists(&stored("stray.phx")));
    }
}

/// Folders and links have no ending, so their names may be without letters of ASCII as a whole.
#[test]
fn an_empty_folder_of_another_spelling_is_not_deleted_as_gone() {
    let s = Sandbox::with_key();
    let Some(_mounted) = exfat(&s) else { return };
    fs::create_dir_all(s.path("src/Папка")).unwrap();
    s.write("src/a", "1");
    let mirror = ["mirror", "src", "disk/m", "-k", "k", "--delete"];
    s.run(&mirror).ok();
    fs::rename(s.path("src/Папка"), s.path("src/папка")).unwrap();
    s.run(&mirror).ok();
    assert!(s.exists("disk/m/папка"));
}

/// The mirror may go on with the old spelling, which the manifest does not list then.
#[test]
fn what_has_another_spelling_in_the_mirror_is_no_stray() {
    let s = Sandbox::with_key();
    let Some(_mounted) = exfat(&s) else { return };
    fs::create_dir_all(s.path("src/Docs/In")).unwrap();
    for (name, content) in [("A", "1"), ("Docs/x", "2"), ("Docs/In/y", "3"), ("same", "5")] {
        s.write(&format!("src/{name}"), content);
    }
    let mirror = ["mirror", "src", "disk/m", "-k", "k", "--delete"];
    s.run(&mirror).ok();
    // As a rename over them has left them.
    fs::rename(s.path("disk/m/A.phx"), s.path("disk/m/t")).unwrap();
    fs::rename(s.path("disk/m/t"), s.path("disk/m/a.PHX")).unwrap();
    fs::rename(s.path("disk/m/Docs"), s.path("disk/m/t")).unwrap();
    fs::rename(s.path("disk/m/t"), s.path("disk/m/docs")).unwrap();
    fs::copy(s.path("disk/m/same.phx"), s.path("disk/m/stray.phx")).unwrap();
    for _ in 0..2 {
        s.run(&mirror).ok();
        for (name, content) in [("A", "1"), ("Docs/x", "2"), ("Docs/In/y", "3")] {
            s.run(&["unprotect", &format!("disk/m/{name}.phx"), "-o", "out", "-k", "k", "--force"]).ok();
            assert_eq!(s.read("out"), content.as_bytes());
        }
        assert!(!s.exists("disk/m/stray.phx"));
    }
}

#[test]
fn names_that_a_file_system_treats_as_equal_do_not_become_one() {
    let s = Sandbox::with_key();
    let Some(_mounted) = exfat(&s) else { return };
    for folder in ["src", "src/D", "src/d"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    for (name, content) in [("A", "1"), ("a", "2"), ("D/f", "3"), ("d/f", "4")] {
        s.write(&format!("src/{name}"), content);
    }
    let to = ["--output-dir", "disk", "-k", "k", "--force", "--remove"];
    let reported = s.run(&[&["protect", "src/A", "src/a"], &to[..]].concat()).fails(4);
    assert!(reported.contains("another output of this run"), "{reported}");
    let reported = s.run(&[&["protect", "-R", "src/D", "src/d"], &to[..]].concat()).fails_with_lines(4);
    assert!(reported.contains("another output of this run"), "{reported}");
    assert_eq!((s.read("src/a"), s.read("src/d/f")), (b"2".to_vec(), b"4".to_vec()));
}

/// Nor do those without letters of ASCII, which restored files and folders may have.
#[test]
fn names_in_other_letters_that_a_file_system_treats_as_equal_do_not_become_one() {
    let s = Sandbox::with_key();
    let Some(_mounted) = exfat(&s) else { return };
    let files = ["src/я", "src/Я", "src/b", "src/B", "src/Ж/ö", "src/ж/ö"];
    for name in files {
        fs::create_dir_all(s.path(name).parent().unwrap()).unwrap();
        s.write(name, name);
    }
    s.run(&["protect", "src/я", "src/Я", "src/b", "src/B", "-k", "k"]).ok();
    s.run(&["protect", "-R", "src/Ж", "src/ж", "-k", "k"]).ok();
    let to = ["--output-dir", "disk", "-k", "k", "--force", "--remove"];
    for pair in [["src/я.phx", "src/Я.phx"], ["src/b.phx", "src/B.phx"]] {
        let reported = s.run(&[&["unprotect"], &pair[..], &to[..]].concat()).fails(4);
        assert!(reported.contains("another output of this run"), "{reported}");
    }
    let reported = s.run(&[&["unprotect", "-R", "src/Ж.phx", "src/ж.phx"], &to[..]].concat()).fails_with_lines(4);
    assert!(reported.contains("another output of this run"), "{reported}");
    let left = ["src/Я.phx", "src/B.phx", "src/ж.phx/ö.phx"].map(|name| s.exists(name));
    assert_eq!(left, [true; 3]);
}

#[test]
fn all_names_of_a_file_are_deleted() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    s.write("t/a", "x");
    for name in ["t/b", "t/c"] {
        fs::hard_link(s.path("t/a"), s.path(name)).unwrap();
    }
    s.run(&["protect", "-R", "t", "-k", "k", "--remove"]).ok();
    assert_eq!(s.names(), ["t.phx"]);
}

#[test]
fn two_folders_do_not_become_one() {
    let s = Sandbox::with_key();
    // On a file system that does not distinguish A from a, both outputs are one folder. A mount imitates that here.
    for folder in ["A", "a", "out", "out/A.phx", "out/a.phx"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    s.write("A/f", "1");
    s.write("a/f", "2");
    let Some(_mounted) = bind(&s, "out/A.phx", "out/a.phx") else { return };
    let args = ["protect", "-R", "A", "a", "--output-dir", "out", "-k", "k", "--force", "--remove"];
    let reported = s.run(&args).fails_with_lines(4);
    assert!(reported.contains("out/a.phx: another output of this run"), "{reported}");
    assert_eq!(s.read("a/f"), b"2");
    s.run(&["unprotect", "out/A.phx/f.phx", "-o", "f"]).ok();
    assert_eq!(s.read("f"), b"1");
}

/// Mounts a folder onto another one.
fn bind(s: &Sandbox, from: &str, to: &str) -> Option<Mounted> {
    if !s.succeeds("mount", &["--bind", from, to]) {
        skip("mount");
        return None;
    }
    Some(Mounted(s.path(to)))
}

#[test]
fn an_output_within_its_input_is_found_through_a_mount_too() {
    let s = Sandbox::with_key();
    for folder in ["t", "t/sub", "elsewhere"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    s.write("t/sub/f", "x");
    let Some(_mounted) = bind(&s, "t/sub", "elsewhere") else { return };
    let reported = s.run(&["protect", "-R", "t", "-o", "elsewhere/out", "-k", "k"]).fails_with_lines(4);
    assert!(reported.contains("t/sub/out: ") && reported.contains("within the input"), "{reported}");
    assert!(!s.exists("t/sub/out/sub/out"));
}

#[test]
fn an_input_within_its_output_is_not_overwritten() {
    let s = Sandbox::with_key();
    fs::create_dir_all(s.path("a/b/b")).unwrap();
    s.write("a/b/b/f", "1");
    s.write("a/b/f.phx", "2");
    let reported = s.run(&["protect", "-R", "a/b", "-o", "a", "-k", "k", "--force", "--no-sync"]).fails_with_lines(4);
    assert!(reported.contains("a/b: ") && reported.contains("within the output"), "{reported}");
    assert_eq!((s.read("a/b/b/f"), s.read("a/b/f.phx")), (b"1".to_vec(), b"2".to_vec()));
}

#[test]
fn files_saved_during_the_run_stay_on_simple_file_systems_too() {
    let s = Sandbox::with_key();
    s.write("f", "old");
    let save = || {
        s.write("new", "new");
        fs::rename(s.path("new"), s.path("f")).unwrap();
    };
    // Such file systems have no rename that never replaces, so the program does it in two steps.
    let calls = "trace=renameat2,linkat,unlinkat";
    let options = ["-e", calls, "-e", "inject=renameat2:error=EINVAL", "-e", "inject=unlinkat:delay_enter=2500000"];
    let Some(mut command) = s.traced(&options, &["protect", "f", "-k", "k", "--remove"]) else { return };
    let child = command.spawn().unwrap();
    wait_for(|| s.exists("f.phx"));
    wait_for(|| !s.exists("f"));
    save();
    Ended(child.wait_with_output().unwrap()).ok();
    assert_eq!(s.read("f"), b"new");
}

#[test]
fn a_key_in_use_is_not_deleted() {
    let s = Sandbox::new();
    fs::create_dir(s.path("home")).unwrap();
    fs::create_dir(s.path("home/d")).unwrap();
    s.write("home/d/f", "x");
    s.write("home/password", "p");
    fs::set_permissions(s.path("home/password"), Permissions::from_mode(0o600)).unwrap();
    let run = |args: &[&str]| {
        let mut command = s.command(args);
        Ended(command.env("PHALANX_KEYRING", s.path("home/keyring")).output().unwrap())
    };
    run(&["key", "new", "k"]).ok();
    run(&["key", "new", "other"]).ok();
    let ended = run(&["protect", "-R", "home", "-k", "k", "--password-file", "home/password", "-o", "plain.phx"]);
    assert!(ended.error().contains("warning: home holds its own key or password"), "{}", ended.error());
    ended.ok();
    let args = ["protect", "-R", "home", "-k", "k", "--password-file", "home/password", "-o", "out", "--remove"];
    let ended = run(&args);
    let reported = ended.error();
    for kept in ["home/keyring/k.key", "home/keyring/other.key", "home/password"] {
        assert!(reported.contains(&format!("warning: {kept}: not deleted")) && s.exists(kept), "{reported}");
    }
    assert!(reported.contains("warning: home holds its own key or password"), "{reported}");
    ended.ok();
    assert!(!s.exists("home/d"), "the rest is gone");
    run(&["unprotect", "-R", "out", "-k", "k", "-o", "back"]).ok();
    assert_eq!(s.read("back/d/f"), b"x");
    assert_eq!(s.read("back/keyring/k.key"), s.read("home/keyring/k.key"));
    // If the keyring's names are links, these stay, and so do the keys that they lead to.
    fs::rename(s.path("home/keyring/other.key"), s.path("home/far.key")).unwrap();
    symlink("../far.key", s.path("home/keyring/other.key")).unwrap();
    let ended = run(&["protect", "-R", "home", "-k", "k", "-o", "out2", "--remove"]);
    assert!(ended.error().contains("warning: home/far.key: not deleted"), "{}", ended.error());
    ended.ok();
    run(&["key", "show", "other"]).ok();
    // The same holds if only the key is named.
    let ended = run(&["protect", "home/keyring/k.key", "-k", "k", "-o", "key.phx", "--remove"]);
    assert!(ended.error().contains("not deleted") && ended.error().contains("protected with itself"));
    ended.ok();
    assert!(s.exists("home/keyring/k.key"));
}

#[test]
fn no_output_replaces_a_key_or_password_in_use() {
    let s = Sandbox::with_key();
    let data = |name| fs::read(format!("{}/crates/age/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    s.write("f", "content");
    s.secret("kf", painted(32));
    s.secret("pw", "p");
    s.secret("id", data("alice.txt"));
    fs::create_dir(s.path("vol")).unwrap();
    fs::hard_link(s.path("kf"), s.path("kf2")).unwrap();
    fs::rename(s.path("pw"), s.path("vol/pw")).unwrap();
    symlink("vol/pw", s.path("pw")).unwrap();
    let alice = public("alice.txt");
    s.run(&["protect", "f", "-k", "k"]).ok();
    s.run(&["protect", "f", "--key-file", "kf", "-o", "kf.phx"]).ok();
    s.run(&["protect", "f", "--password-file", "pw", "-o", "pw.phx"]).ok();
    s.run(&["protect", "f", "-r", &alice, "-o", "id.phx"]).ok();
    let kept = ["f", "kf", "vol/pw", "id", "keyring/k.key", "f.phx"];
    let before = kept.map(|name| s.read(name));
    for args in [
        "protect f --key-file kf -o kf --remove",
        "protect f --key-file kf -o kf2",
        "protect f --key-file kf2 -o vol/../kf",
        "protect f --key-file kf -o keyring/k.key",
        "protect f -k k -o keyring/k.key --remove",
        "protect f --password-file vol/pw -o vol/pw",
        "protect f --password-file pw -o pw",
        "protect f --password-file pw -o vol/pw",
        &format!("protect f -r {alice} -o id"),
        "unprotect f.phx -o keyring/k.key --remove",
        "unprotect kf.phx --key-file kf",
        "unprotect pw.phx --password-file vol/pw --output-dir vol",
        "unprotect id.phx -i id --remove",
        "unprotect id.phx -i id --salvage",
        "unprotect id.phx -i id --range 0-3 -o id",
        "key export k --output keyring/k.key",
        "key export k --text --output keyring/k.key",
        "key export --all --output keyring/k.key",
        "key export --all --password-file pw --output vol/pw",
    ] {
        let args: Vec<_> = args.split(' ').chain(["--force"]).collect();
        let line = s.run(&args).fails(2);
        let names_it = line.contains("it holds a key or password, which no output replaces")
            || line.contains("it holds identities, which no output replaces");
        assert!(names_it, "{args:?}: {line}");
        assert!(s.path("pw").is_symlink());
        assert_eq!(kept.map(|name| s.read(name)), before, "{args:?}");
    }
    assert_eq!(s.leftovers(), [""; 0]);
    // Other files are replaced, and new ones appear even in the keyring.
    s.run(&["protect", "f", "--key-file", "kf", "-o", "kf.phx", "--force"]).ok();
    s.run(&["key", "export", "k", "--output", "keyring/copy.key"]).ok();
    // A key that is no longer in use may be replaced.
    s.run(&["protect", "f", "-k", "k", "-o", "kf", "--force"]).ok();
}

#[test]
fn no_output_replaces_a_key_that_is_a_standard_stream() {
    let s = Sandbox::with_key();
    s.write("f", "content");
    s.secret("kf", painted(32));
    s.secret("pw", "p");
    s.secret("id", fs::read(format!("{}/crates/age/tests/data/alice.txt", env!("CARGO_MANIFEST_DIR"))).unwrap());
    s.run(&["protect", "f", "-r", &public("alice.txt"), "-o", "id.phx"]).ok();
    s.run(&["protect", "f", "--key-file", "kf", "-o", "kf.phx"]).ok();
    s.run(&["key", "new", "other"]).ok();
    let before = ["f", "kf", "pw", "id", "kf.phx", "keyring/k.key"].map(|name| s.read(name));
    let refused = "it holds a key or password, which no output replaces";
    for (input, args) in [
        ("kf", "protect f --key-file - -o kf --force"),
        ("kf", "unprotect kf.phx --key-file - -o kf --force"),
        ("pw", "protect f --password-file - -o pw --force"),
        ("pw", "key export --all --password-file - --output pw --force"),
        ("id", "unprotect id.phx -i - --force"),
    ] {
        let args: Vec<_> = args.split(' ').collect();
        let ended = s.command(&args).stdin(File::open(s.path(input)).unwrap()).output().unwrap();
        let line = Ended(ended).fails(2);
        assert!(line.contains(refused), "{args:?}: {line}");
    }
    // Standard output is not emptied before it is written to.
    for (output, args) in [
        ("kf", "protect f --key-file kf -o -"),
        ("kf", "unprotect kf.phx --key-file kf -o -"),
        ("keyring/k.key", "key export other"),
    ] {
        let args: Vec<_> = args.split(' ').collect();
        let output = File::options().write(true).open(s.path(output)).unwrap();
        let line = Ended(s.command(&args).stdout(output).output().unwrap()).fails(2);
        assert!(line.contains(refused), "{args:?}: {line}");
    }
    let args = ["protect", "kf", "--key-file", "-", "-o", "kf2.phx", "--remove"];
    let ended = Ended(s.command(&args).stdin(File::open(s.path("kf")).unwrap()).output().unwrap());
    assert!(
        ended.error().contains("warning: kf: not deleted, because it holds a key or password"),
        "{}",
        ended.error()
    );
    assert_eq!(["f", "kf", "pw", "id", "kf.phx", "keyring/k.key"].map(|name| s.read(name)), before);
    assert_eq!(s.leftovers(), [""; 0]);
}

#[test]
fn a_folder_that_is_restored_replaces_no_key() {
    let s = Sandbox::new();
    fs::create_dir(s.path("home")).unwrap();
    s.write("home/f", "x");
    let run = |args: &[&str]| {
        let mut command = s.command(args);
        Ended(command.env("PHALANX_KEYRING", s.path("home/keyring")).output().unwrap())
    };
    run(&["key", "new", "k"]).ok();
    run(&["key", "new", "old"]).ok();
    fs::copy(s.path("home/keyring/k.key"), s.path("k")).unwrap();
    run(&["protect", "-R", "home", "-k", "k"]).ok();
    // This is the home of a new machine.
    fs::remove_dir_all(s.path("home")).unwrap();
    fs::create_dir(s.path("home")).unwrap();
    run(&["key", "new", "k"]).ok();
    symlink("nowhere", s.path("home/keyring/link.key")).unwrap();
    let new = s.read("home/keyring/k.key");
    let reported =
        run(&["unprotect", "-R", "home.phx", "--key-file", "k", "-o", "home", "--force"]).fails_with_lines(4);
    assert!(
        reported.contains("home/keyring/k.key: it holds a key or password, which no output replaces"),
        "{reported}"
    );
    assert!(reported.contains("2 files, ") && reported.contains("1 failed"), "{reported}");
    assert_eq!(s.read("home/keyring/k.key"), new);
    assert!(s.exists("home/keyring/old.key") && s.exists("home/f"));
    // A link does not replace a key either.
    s.run(&["key", "new", "any"]).ok();
    fs::create_dir_all(s.path("t/keyring")).unwrap();
    symlink("nowhere", s.path("t/keyring/k.key")).unwrap();
    run(&["protect", "-R", "t", "-k", "k", "-o", "home", "--force"]).fails_with_lines(4);
    assert_eq!(s.read("home/keyring/k.key"), new);
}

#[test]
fn rekey_does_not_change_the_file_that_is_its_password() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    s.run(&["protect", "f", "-k", "k"]).ok();
    fs::set_permissions(s.path("f.phx"), Permissions::from_mode(0o600)).unwrap();
    s.run(&["key", "new", "other"]).ok();
    let before = s.read("f.phx");
    for more in [&["--add-password-file", "f.phx"][..], &["--add-key", "other", "--password-file", "f.phx", "--fresh"]]
    {
        let line = s.run(&[&["rekey", "f.phx", "-k", "k"], more].concat()).fails(2);
        assert!(line.contains("f.phx: it holds a key or password"), "{line}");
        assert!(s.read("f.phx") == before);
    }
}

#[test]
fn identities_of_recipients_stay() {
    let s = Sandbox::new();
    let data = |name| fs::read(format!("{}/crates/age/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    fs::create_dir(s.path("home")).unwrap();
    let identities = ["alice.txt", "ssh-ed25519", "ssh-rsa", "alice-locked.age", "bob-locked.txt"];
    for name in identities {
        s.secret(&format!("home/{name}"), data(name));
    }
    s.write("home/f", "x");
    s.write("home/public.txt", format!("{}\n", public("alice.txt")));
    let alice = public("alice.txt");
    let ended = s.run(&["protect", "-R", "home", "-r", &alice, "-o", "out", "--remove"]);
    let reported = ended.error();
    ended.ok();
    for name in identities {
        assert!(
            reported.contains(&format!("warning: home/{name}: not deleted, because it holds identities")),
            "{reported}"
        );
        assert_eq!(s.read(&format!("home/{name}")), data(name), "{name}");
    }
    assert!(!s.exists("home/f") && !s.exists("home/public.txt"), "the rest is gone");
    s.run(&["unprotect", "-R", "out", "-i", "home/alice.txt", "-o", "back"]).ok();
    assert_eq!(s.read("back/f"), b"x");
    // The same holds if only the identity is named, with recipients from a file.
    let args = ["protect", "home/alice.txt", "--recipients-file", "back/public.txt", "-o", "a.phx", "--remove"];
    let ended = s.run(&args);
    assert!(ended.error().contains("warning: home/alice.txt: not deleted"), "{}", ended.error());
    ended.ok();
    assert!(s.exists("home/alice.txt"));
    // Keys of the keyring open the outputs of a run without recipients.
    s.run(&["key", "new", "k"]).ok();
    s.run(&["protect", "home/alice.txt", "-k", "k", "--remove"]).ok();
    assert!(!s.exists("home/alice.txt"));
}

#[test]
fn links_that_lead_to_keys_stay() {
    let s = Sandbox::new();
    for folder in ["home", "home/.real", "home/.real/keys", "away"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    fs::set_permissions(s.path("home/.real/keys"), Permissions::from_mode(0o700)).unwrap();
    let run = |args: &[&str]| {
        let mut command = s.command(args);
        Ended(command.env("PHALANX_KEYRING", s.path("home/.conf/keys")).output().unwrap())
    };
    // A link within a path, a link to a link, and a link with an absolute path.
    symlink(".real", s.path("home/.conf")).unwrap();
    run(&["key", "new", "k"]).ok();
    s.secret("away/password", "p");
    symlink(s.path("home/../away"), s.path("home/far")).unwrap();
    symlink("far/password", s.path("home/password")).unwrap();
    symlink("far", s.path("home/unused")).unwrap();
    let ended = run(&["protect", "-R", "home", "-k", "k", "--password-file", "home/password", "-o", "out", "--remove"]);
    let reported = ended.error();
    ended.ok();
    for kept in ["home/.conf", "home/far", "home/password"] {
        let warning = format!("warning: {kept}: not deleted, because it leads to a key or password");
        assert!(reported.contains(&warning) && fs::symlink_metadata(s.path(kept)).is_ok(), "{reported}");
    }
    assert!(fs::symlink_metadata(s.path("home/unused")).is_err(), "the rest is gone");
    run(&["key", "show", "k"]).ok();
    run(&["unprotect", "-R", "out", "--password-file", "home/password", "-o", "back"]).ok();
    assert_eq!(fs::read_link(s.path("back/.conf")).unwrap().to_str(), Some(".real"));
}

#[test]
fn an_input_that_cannot_be_deleted_is_a_failure() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    symlink("nowhere", s.path("t/link")).unwrap();
    let args = ["protect", "-R", "t", "-k", "k", "--remove"];
    let Some(mut command) = s.traced(&["-e", "trace=unlinkat", "-e", "inject=unlinkat:error=EACCES"], &args) else {
        return;
    };
    let reported = Ended(command.output().unwrap()).fails_with_lines(4);
    let why = "its output is on the disk, but the input could not be deleted: Permission denied (os error 13)";
    assert!(reported.contains(&format!("t/link: {why}")), "{reported}");
    assert!(fs::symlink_metadata(s.path("t/link")).unwrap().is_symlink(), "it is back under its name");
    fs::remove_file(s.path("t/link")).unwrap();
    let args = ["protect", "-R", "t", "-k", "k", "--remove", "--force"];
    let options = ["-P", "t", "-e", "trace=unlinkat", "-e", "inject=unlinkat:error=EACCES"];
    // strace itself says where the path leads.
    let ended = Ended(s.traced(&options, &args).unwrap().output().unwrap());
    assert_eq!(ended.0.status.code(), Some(4), "{}", ended.error());
    assert!(ended.error().contains("phalanx: t: not deleted: Permission denied"), "{}", ended.error());
    // Single files, for protect and unprotect.
    s.write("f", "x");
    for (input, args) in
        [("f", &["protect", "f", "-k", "k", "--remove"][..]), ("f.phx", &["unprotect", "f.phx", "-o", "g", "--remove"])]
    {
        // The first call is for what an earlier run may have left.
        let options = ["-e", "trace=unlinkat", "-e", "inject=unlinkat:error=EACCES:when=2+"];
        let mut command = s.traced(&options, args).unwrap();
        let line = Ended(command.output().unwrap()).fails(4);
        assert_eq!(line, format!("phalanx: {input}: {why}"));
        assert!(s.exists(input));
    }
    assert_eq!(s.read("g"), b"x");
    // If a file appears in a folder during the run, the folder stays, and this is reported.
    let ready = || s.exists("t.phx");
    let args = ["protect", "-R", "t", "-k", "k", "--remove", "--force"];
    let ended = s.meanwhile("fsync:when=1", &args, ready, || drop(s.write("t/new", "x"))).unwrap();
    let reported = ended.fails_with_lines(4);
    assert!(reported.contains("t: not deleted: something new is in it"), "{reported}");
}
