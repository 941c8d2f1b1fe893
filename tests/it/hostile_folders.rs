//! Folders that are deep, large, owned by others, or changed by others during a run.

use crate::common::{Ended, Sandbox, has, is_exhaustive, skip, wait_for};
use crate::hostile::{nobodys, shell};
use rustix::fs::{CWD, Mode, OFlags, XattrFlags, mkdirat, openat};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

/// Nested folders, with a file in every tenth.
fn deep(s: &Sandbox, depth: usize, name: &str) {
    let mut folder = openat(CWD, s.path(""), OFlags::DIRECTORY, Mode::empty()).unwrap();
    for level in 0..depth {
        let name = if level == 0 { "t" } else { name };
        mkdirat(&folder, name, Mode::RWXU).unwrap();
        folder = openat(&folder, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        if level % 10 == 9 {
            let file = openat(&folder, "f", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR | Mode::WUSR).unwrap();
            fs::File::from(file).write_all(b"x").unwrap();
        }
    }
}

#[test]
fn a_tree_may_have_any_depth() {
    let s = Sandbox::with_key();
    // With little memory, a small stack, and few open files.
    let deepest = if is_exhaustive() { 7000 } else { 2500 };
    for (depth, name, limits) in [(deepest, "d", "-n 400; ulimit -s 1024"), (1200, &*"n".repeat(240), "-v 600000")] {
        deep(&s, depth, name);
        let files = depth / 10;
        for (args, what) in [
            ("protect -R t -k k --no-sync -t 2", format!("{files} files")),
            ("verify -R t.phx -q", String::new()),
            ("unprotect -R t.phx -o u --no-sync -t 2", format!("{files} files")),
            ("protect -R u -k k -o v --remove -t 2", format!("{files} files")),
        ] {
            let ended = shell(&s, &format!("ulimit {limits}; exec phalanx {args}"));
            assert!(ended.error().contains(&what), "{args}: {}", ended.error());
            ended.ok();
        }
        assert!(!s.exists("u"), "a deep tree is deleted as well");
        assert!(
            Command::new("rm").arg("-rf").args(["t", "t.phx", "v"]).current_dir(s.path("")).status().unwrap().success()
        );
    }
}

#[test]
fn few_open_files_only_slow_a_run_down() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    for i in 0..600 {
        fs::create_dir_all(s.path(&format!("t/{}", i % 50))).unwrap();
        s.write(&format!("t/{}/{i}", i % 50), "x");
    }
    for (limit, threads) in [(100, 8), (700, 32)] {
        let ended = shell(&s, &format!("ulimit -n {limit}; exec phalanx protect -R t -k k --force -t {threads}"));
        assert!(ended.error().contains("600 files"), "{}", ended.error());
        ended.ok();
    }
}

#[test]
fn the_mask_of_an_access_list_is_no_permission_of_the_group() {
    let s = Sandbox::with_key();
    let name = "system.posix_acl_access";
    // Version 2: the owner, user 1234, the group, the mask and others, each with its permissions.
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in
        [(1u16, 6u16, u32::MAX), (2, 4, 1234), (4, 0, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    fs::create_dir(s.path("t")).unwrap();
    s.write("t/f", "x");
    if rustix::fs::setxattr(s.path("t/f"), name, &list, XattrFlags::empty()).is_err() {
        skip("xattr");
        return;
    }
    let mode = |path: &str| fs::metadata(s.path(path)).unwrap().mode() & 0o777;
    assert_eq!(mode("t/f"), 0o640, "the list's mask");
    s.run(&["protect", "-R", "t", "-k", "k"]).ok();
    assert_eq!(mode("t.phx/f.phx"), 0o640, "with the list");
    s.run(&["unprotect", "-R", "t.phx", "-o", "u"]).ok();
    s.run(&["unprotect", "t.phx/f.phx", "-o", "f"]).ok();
    assert_eq!((mode("u/f"), mode("f")), (0o600, 0o600));
    // Where the list cannot be set, nor are its permissions.
    let args = ["protect", "t/f", "-k", "k", "-o", "g.phx"];
    let inject = ["-e", "trace=fsetxattr", "-e", "inject=fsetxattr:error=EOPNOTSUPP"];
    let Some(mut command) = s.traced(&inject, &args) else { return };
    Ended(command.output().unwrap()).ok();
    assert_eq!(mode("g.phx"), 0o600);
}

#[test]
fn folders_keep_owner_attributes_and_access_lists() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    fs::create_dir(s.path("t/d")).unwrap();
    s.write("t/d/f", "x");
    // Version 2: the owner, user 1234, the group, the mask and others, each with its permissions.
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in
        [(1u16, 7u16, u32::MAX), (2, 5, 1234), (4, 5, u32::MAX), (16, 5, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    let set = |name, value: &[u8]| rustix::fs::setxattr(s.path("t/d"), name, value, XattrFlags::empty());
    let has_lists = set("system.posix_acl_access", &list).and(set("system.posix_acl_default", &list)).is_ok();
    let has_attributes = set("user.origin", b"ours").is_ok();
    if !has_lists || !has_attributes {
        skip("xattr");
    }
    let is_root = rustix::process::getuid().is_root();
    if is_root {
        std::os::unix::fs::chown(s.path("t/d"), Some(1234), Some(1235)).unwrap();
    } else {
        skip("root");
    }
    s.run(&["protect", "-R", "t", "-k", "k"]).ok();
    s.run(&["unprotect", "-R", "t.phx", "-o", "kept", "--preserve"]).ok();
    s.run(&["unprotect", "-R", "t.phx", "-o", "plain"]).ok();
    let attribute = |folder: &str, name: &str| {
        let mut value = [0; 256];
        rustix::fs::getxattr(s.path(folder), name, &mut value).ok().map(|len| value[..len].to_vec())
    };
    for folder in ["t.phx/d", "kept/d"] {
        let meta = fs::metadata(s.path(folder)).unwrap();
        assert!(!is_root || (meta.uid(), meta.gid()) == (1234, 1235), "{folder}");
        assert!(!has_attributes || attribute(folder, "user.origin").as_deref() == Some(b"ours"), "{folder}");
        for name in ["system.posix_acl_access", "system.posix_acl_default"] {
            assert!(!has_lists || attribute(folder, name).as_ref() == Some(&list), "{folder}: {name}");
        }
    }
    let meta = fs::metadata(s.path("plain/d")).unwrap();
    assert_eq!(meta.uid(), rustix::process::getuid().as_raw());
    assert!(attribute("plain/d", "user.origin").is_none() && attribute("plain/d", "system.posix_acl_access").is_none());
}

#[test]
fn the_root_of_a_mirror_is_not_followed() {
    let s = Sandbox::with_key();
    for folder in ["A", "V"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    s.write("A/f", "x");
    fs::set_permissions(s.path("A"), Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(s.path("V"), Permissions::from_mode(0o700)).unwrap();
    symlink("V", s.path("A.phx")).unwrap();
    for args in [&["protect", "-R", "A", "-k", "k", "--force"][..], &["protect", "-R", "A", "-k", "k"]] {
        s.run(args).fails(4);
    }
    assert!(fs::read_dir(s.path("V")).unwrap().next().is_none());
    assert_eq!(fs::metadata(s.path("V")).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_folder_put_in_place_of_a_new_one_gets_nothing() {
    if !rustix::process::getuid().is_root() {
        return skip("root");
    }
    let s = Sandbox::with_key();
    for folder in ["t", "shared", "mine"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    s.write("t/f", "secret");
    s.run(&["protect", "-R", "t", "-k", "k"]).ok();
    fs::set_permissions(s.path("shared"), Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(s.path("mine"), Some(65534), Some(65534)).unwrap();
    let options = ["-e", "trace=mkdirat", "-e", "inject=mkdirat:delay_exit=2500000:when=1"];
    let Some(mut command) = s.traced(&options, &["unprotect", "-R", "t.phx", "-o", "shared/out"]) else { return };
    let child = command.spawn().unwrap();
    wait_for(|| s.exists("shared/out"));
    fs::rename(s.path("shared/out"), s.path("shared/stolen")).unwrap();
    fs::rename(s.path("mine"), s.path("shared/out")).unwrap();
    let reported = Ended(child.wait_with_output().unwrap()).fails(4);
    assert!(reported.contains("somebody put another folder in its place"), "{reported}");
    assert!(fs::read_dir(s.path("shared/out")).unwrap().next().is_none());
}

#[test]
fn folders_above_need_not_be_readable() {
    if !rustix::process::getuid().is_root() || !has("setpriv") {
        return skip("root");
    }
    let s = Sandbox::new();
    s.copy_of_the_program();
    fs::create_dir_all(s.path("home/user/t")).unwrap();
    s.write("home/user/t/f", "x");
    s.write("home/user/raw", [1; 32]);
    for (path, mode) in [("", 0o711), ("home", 0o711), ("home/user", 0o700), ("home/user/raw", 0o600)] {
        fs::set_permissions(s.path(path), Permissions::from_mode(mode)).unwrap();
        if path.starts_with("home/user") {
            std::os::unix::fs::chown(s.path(path), Some(65534), Some(65534)).unwrap();
        }
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(s.path("phalanx"));
    command.args(["protect", "-R", "t", "--key-file", "raw"]).current_dir(s.path("home/user"));
    Ended(command.output().unwrap()).ok();
    assert!(s.exists("home/user/t.phx/f.phx"));
}

#[test]
fn a_folder_of_another_user_in_a_mirror_gets_nothing() {
    if !rustix::process::getuid().is_root() || !has("setpriv") {
        return skip("root");
    }
    let (victim, attacker) = (2001, 2002);
    let s = Sandbox::new();
    let program = s.copy_of_the_program();
    let folder = |path: &str, owner, mode| {
        fs::create_dir_all(s.path(path)).unwrap();
        fs::set_permissions(s.path(path), Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(s.path(path), Some(owner), Some(owner)).unwrap();
    };
    let run = |user: u32, args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()]).arg(&program);
        command.args(args).args(["--key-file", &format!("home/{user}")]).current_dir(s.path(""));
        Ended(command.env("HOME", s.path("home")).output().unwrap())
    };
    fs::set_permissions(s.path(""), Permissions::from_mode(0o755)).unwrap();
    folder("home", victim, 0o755);
    folder("home/t", victim, 0o755);
    folder("home/t/private", victim, 0o700);
    // Keys must be the user's own.
    std::os::unix::fs::chown(s.secret("home/2001", [1; 32]), Some(victim), Some(victim)).unwrap();
    s.secret("home/0", [1; 32]);
    s.write("home/t/private/letter", "secret");
    run(victim, &["protect", "-R", "home/t"]).ok();
    folder("shared", 0, 0o1777);
    folder("shared/out", victim, 0o777);
    folder("shared/out/private", attacker, 0o777);
    folder("shared/root", attacker, 0o777);
    let restore = |user, to: &str| run(user, &["unprotect", "-R", "home/t.phx", "--force", "-o", to]);
    let why = "the folder in its place belongs to another user";
    for (to, path) in [("shared/out", "shared/out/private"), ("shared/root", "shared/root")] {
        let reported = restore(victim, to).fails_with_lines(4);
        assert!(reported.contains(path) && reported.contains(why), "{reported}");
        assert_eq!(fs::read_dir(s.path(path)).unwrap().count(), 0, "{path}");
    }
    // Root does not accept it either, unless no other user can have put it there, or the tree records its owner.
    let reported = restore(0, "shared/root").fails_with_lines(4);
    assert!(reported.contains(why) && fs::read_dir(s.path("shared/root")).unwrap().next().is_none(), "{reported}");
    folder("homes", 0, 0o755);
    folder("homes/user", attacker, 0o775);
    folder("homes/user/private", attacker, 0o755);
    restore(0, "homes/user").ok();
    assert_eq!(s.read("homes/user/private/letter"), b"secret");
    folder("shared/kept", victim, 0o777);
    run(0, &["unprotect", "-R", "home/t.phx", "--force", "--preserve", "-o", "shared/kept"]).ok();
    assert_eq!(fs::metadata(s.path("shared/kept/private")).unwrap().uid(), victim);
}

#[test]
fn a_folder_that_cannot_be_looked_into_stays_in_a_mirror() {
    // Root can look into all.
    if !rustix::process::getuid().is_root() || !has("setpriv") {
        return skip("root");
    }
    let s = Sandbox::new();
    let program = s.copy_of_the_program();
    ["home/t", "home/m/stray", "home/m/none"].iter().for_each(|path| fs::create_dir_all(s.path(path)).unwrap());
    s.secret("home/key", [1; 32]);
    s.write("home/t/f", "x");
    s.write("home/m/stray/x.phx", "x");
    let all = "chmod 755 . && chmod 444 home/m/stray home/m/none && chown -R 65534:65534 home";
    assert!(s.succeeds("sh", &["-c", all]));
    let run = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command.args(["mirror", "home/t", "home/m", "--delete", "--no-sync", "--key-file", "home/key"]);
        Ended(command.current_dir(s.path("")).env("HOME", s.path("home")).output().unwrap())
    };
    // The first run deletes none, and only counts them.
    let first = run();
    let said = first.error();
    first.ok();
    assert!(said.contains("warning: home/m/stray: ") && !said.contains("something failed"), "{said}");
    s.write("home/t/g", "y");
    let said = run().fails_with_lines(4);
    assert!(said.contains("phalanx: home/m/stray: cannot read: "), "{said}");
    assert!(said.contains("phalanx: home/m/none: cannot read: "), "{said}");
    assert!(s.exists("home/m/g.phx") && s.exists("home/m/stray/x.phx"));
}

#[test]
fn a_file_that_got_the_name_of_a_leftover_keeps_its_permissions() {
    // Root can open everything, so the test needs another user.
    if !rustix::process::getuid().is_root() || !has("setpriv") {
        return skip("root");
    }
    let s = Sandbox::new();
    let program = s.copy_of_the_program();
    fs::set_permissions(s.path(""), Permissions::from_mode(0o777)).unwrap();
    let nobodys = |name: &str, content, mode| nobodys(&s, name, content, mode);
    nobodys("raw", &[1; 32], 0o600);
    nobodys("f", b"x", 0o600);
    let temporary = Sandbox::temporary("f.phx");
    let refused = |mode| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command.args(["protect", "f", "--key-file", "raw"]).current_dir(s.path(""));
        let reported = Ended(command.output().unwrap()).fails(4);
        assert!(reported.contains(&format!("{temporary} is in the way")), "{reported}");
        assert_eq!(fs::metadata(s.path(&temporary)).unwrap().mode() & 0o7777, mode);
        fs::remove_file(s.path(&temporary)).unwrap();
    };
    // By a hard link.
    nobodys("letter", b"precious", 0o400);
    fs::hard_link(s.path("letter"), s.path(&temporary)).unwrap();
    refused(0o400);
    assert_eq!(s.read("letter"), b"precious");
    // By a rename.
    nobodys(&temporary, b"a program", 0o4555);
    refused(0o4555);
}
