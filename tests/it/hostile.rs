//! Faults of the system, hostile folders and odd streams: an error each, a true one, and nothing left behind.

use crate::common::{Ended, Sandbox, has, painted, skip, wait_for};
use rustix::fs::{CWD, Mode, OFlags, XattrFlags, mkdirat, openat};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The program, after a line of shell.
fn shell(s: &Sandbox, line: &str) -> Ended {
    let line = line.replace("phalanx", env!("CARGO_BIN_EXE_phalanx"));
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring"));
    Ended(command.env_remove("PHALANX_PASSWORD").output().unwrap())
}

/// Folders one in the other, with a file in each tenth.
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
fn a_tree_may_be_as_deep_as_it_likes() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    // In little memory, on a small stack, with few files open.
    for (depth, name, limits) in [(7000, "d", "-n 400; ulimit -s 1024"), (1200, &*"n".repeat(240), "-v 600000")] {
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
fn few_open_files_slow_a_run_down_and_do_not_fail_it() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
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
fn folders_keep_owner_attributes_and_lists_of_access() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
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
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
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
fn a_folder_that_somebody_else_puts_in_the_place_of_a_new_one_gets_nothing() {
    if !rustix::process::getuid().is_root() {
        return skip("root");
    }
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    for folder in ["t", "shared", "mine"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    s.write("t/f", "secret");
    s.run(&["protect", "-R", "t", "-k", "k"]).ok();
    fs::set_permissions(s.path("shared"), Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(s.path("mine"), Some(65534), Some(65534)).unwrap();
    let options = ["-e", "trace=mkdirat", "-e", "inject=mkdirat:delay_exit=1000000:when=1"];
    let Some(mut command) = s.traced(&options, &["unprotect", "-R", "t.phx", "-o", "shared/out"]) else { return };
    let child = command.spawn().unwrap();
    wait_for(|| s.exists("shared/out"));
    fs::rename(s.path("shared/out"), s.path("shared/stolen")).unwrap();
    fs::rename(s.path("mine"), s.path("shared/out")).unwrap();
    let told = Ended(child.wait_with_output().unwrap()).fails(4);
    assert!(told.contains("somebody put another folder in its place"), "{told}");
    assert!(fs::read_dir(s.path("shared/out")).unwrap().next().is_none());
}

#[test]
fn folders_above_need_not_be_readable() {
    if !rustix::process::getuid().is_root() || !has("setpriv") {
        return skip("root");
    }
    let s = Sandbox::new();
    fs::copy(env!("CARGO_BIN_EXE_phalanx"), s.path("phalanx")).unwrap();
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
fn an_empty_file_that_is_written_to_meanwhile_is_refused() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("e", "");
    let options = ["-e", "trace=pwrite64", "-e", "inject=pwrite64:delay_enter=1000000:when=1"];
    let Some(mut command) = s.traced(&options, &["protect", "e", "-k", "k"]) else { return };
    let child = command.spawn().unwrap();
    wait_for(|| !s.leftovers().is_empty());
    sleep(Duration::from_millis(300));
    s.write("e", "new");
    assert!(Ended(child.wait_with_output().unwrap()).fails(4).contains("changed while it was read"));
    assert_eq!(s.names(), ["e"]);
}

#[test]
fn a_file_that_comes_from_a_pipe_is_its_owners_alone_until_it_is_whole() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    let mut child = s.command(&["protect", "-", "-o", "f.phx", "-k", "k"]).stdin(Stdio::piped()).spawn().unwrap();
    wait_for(|| !s.leftovers().is_empty());
    let mode = |name: &str| fs::metadata(s.path(name)).unwrap().mode() & 0o777;
    assert_eq!(mode(&s.leftovers()[0]), 0o600);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let umask = shell(&s, "umask").text();
    assert_eq!(mode("f.phx"), 0o666 & !u32::from_str_radix(umask.trim(), 8).unwrap());
}

#[test]
fn a_leftover_is_opened_for_writing_and_never_changed_by_its_name() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", "x");
    s.write(&Sandbox::temporary("f.phx"), "left");
    if !has("strace") {
        return;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "trace", "-e", "trace=openat,fchmodat", env!("CARGO_BIN_EXE_phalanx")]);
    command.args(["protect", "f", "-k", "k"]).current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring"));
    Ended(command.output().unwrap()).ok();
    let trace = String::from_utf8(s.read("trace")).unwrap();
    let opened: Vec<_> = trace.lines().filter(|line| line.contains(".tmp\"") && !line.contains("O_CREAT")).collect();
    assert!(!opened.is_empty() && opened.iter().all(|line| line.contains("O_RDWR")), "{opened:?}");
    assert!(!trace.contains("fchmodat"), "{trace}");
}

#[test]
fn a_leftover_that_becomes_a_link_changes_no_other_file() {
    // Root may open everything: another user is needed.
    if !rustix::process::getuid().is_root() || !has("setpriv") || !has("strace") {
        return skip("root");
    }
    let s = Sandbox::new();
    let program = s.path("phalanx");
    fs::copy(env!("CARGO_BIN_EXE_phalanx"), &program).unwrap();
    fs::set_permissions(s.path(""), Permissions::from_mode(0o777)).unwrap();
    let nobodys = |name: &str, content: &[u8], mode| {
        s.write(name, content);
        fs::set_permissions(s.path(name), Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(s.path(name), Some(65534), Some(65534)).unwrap();
    };
    let temporary = Sandbox::temporary("f.phx");
    nobodys("raw", &[1; 32], 0o600);
    nobodys("f", b"x", 0o600);
    nobodys("victim", b"x", 0o400);
    nobodys(&temporary, b"left", 0);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "strace", "-f", "-qq", "-o", "/dev/null"]);
    command.args(["-e", "trace=chmod,fchmod,fchmodat", "-e", "inject=chmod,fchmodat:delay_enter=1000000:when=1"]);
    command.arg(&program).args(["protect", "f", "--key-file", "raw"]).current_dir(s.path("")).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    sleep(Duration::from_millis(600));
    fs::remove_file(s.path(&temporary)).unwrap();
    symlink("victim", s.path(&temporary)).unwrap();
    let _either_way = child.wait_with_output().unwrap();
    assert_eq!(fs::metadata(s.path("victim")).unwrap().mode() & 0o777, 0o400);
}

#[test]
fn closed_streams_are_errors() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", "x");
    s.run(&["protect", "f", "-k", "k", "-o", "g.phx"]).ok();
    assert!(shell(&s, "exec phalanx protect - -o h.phx -k k <&-").fails(4).contains("standard input is closed"));
    assert!(shell(&s, "exec phalanx protect f -o - -k k >&-").fails(4).contains("standard output is closed"));
    assert!(shell(&s, "exec phalanx unprotect g.phx -o - >&-").fails(4).contains("standard output is closed"));
    assert!(shell(&s, "exec phalanx verify g.phx >&-").fails(4).contains("standard output is closed"));
    assert_eq!(shell(&s, "exec phalanx protect f -k k 2>&-").0.status.code(), Some(4));
    assert!(!s.exists("h.phx") && !s.exists("f.phx"));
    // What is meant to be empty, or to be thrown away, is neither.
    shell(&s, "exec phalanx protect - -o h.phx -k k </dev/null").ok();
    shell(&s, "exec phalanx unprotect g.phx -o - >/dev/null 2>/dev/null").ok();
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", painted(40 << 20));
    let (mut failed, mut done) = (0, 0);
    for kib in (10_000..20_000).step_by(250).chain((20_000..300_000).step_by(20_000)) {
        let ended = shell(&s, &format!("ulimit -v {kib}; exec phalanx protect f -k k --threads 8 --no-sync"));
        assert!(s.leftovers().is_empty(), "{kib}: {}", ended.error());
        if ended.0.status.success() {
            done += 1;
            fs::remove_file(s.path("f.phx")).unwrap();
            continue;
        }
        assert!(!s.exists("f.phx"), "{kib}");
        // The C library may end the process by itself.
        if ended.error().contains("Fatal glibc error") {
            continue;
        }
        // With less than the loader needs, no program begins.
        if ended.0.status.code().is_none_or(|code| code == 127) {
            assert!(kib < 20_000, "{kib}: {:?} {}", ended.0.status, ended.error());
            continue;
        }
        failed += 1;
        ended.fails(1);
    }
    assert!(failed > 5 && done > 0, "{failed} failed, {done} done");
}

#[test]
fn every_signal_that_ends_a_run_leaves_nothing() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    // Those of a broken process, those that stop it or are ignored, and those that the system's library keeps for itself.
    let others = [4, 8, 9, 11, 7, 5, 31, 13, 17, 18, 19, 20, 21, 22, 23, 25, 28, 32, 33];
    for signal in (1..=64).filter(|signal| !others.contains(signal)) {
        let args = ["protect", "-", "-o", "f.phx", "-k", "k"];
        let mut child = s.command(&args).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        wait_for(|| !s.leftovers().is_empty());
        assert!(Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap().success());
        // Waiting would close its input, with which it could come to its own end.
        let _open = child.stdin.take();
        let status = child.wait().unwrap();
        assert!(status.signal() == Some(signal) || status.code() == Some(128 + signal), "{signal}: {status}");
        assert!(s.names().is_empty(), "{signal}: {:?}", s.names());
    }
}

#[test]
fn an_output_that_vanishes_meanwhile_is_no_bug() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", "x");
    s.write("f.phx", "in the way");
    let options = ["-P", "f.phx", "-e", "trace=%stat,statx", "-e", "inject=%stat,statx:delay_exit=800000:when=2"];
    let Some(mut command) = s.traced(&options, &["protect", "f", "-k", "k"]) else { return };
    let child = command.spawn().unwrap();
    sleep(Duration::from_millis(400));
    fs::remove_file(s.path("f.phx")).unwrap();
    let ended = Ended(child.wait_with_output().unwrap());
    assert!(matches!(ended.0.status.code(), Some(0 | 4)), "{}", ended.error());
    assert!(!ended.error().contains("internal error"), "{}", ended.error());
}

#[test]
fn a_file_that_cannot_be_looked_at_leaves_nothing() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", "x");
    let path = s.path(&Sandbox::temporary("f.phx")).display().to_string();
    let options = ["-P", &path, "-e", "trace=fstat", "-e", "inject=fstat:error=EIO"];
    let Some(mut command) = s.traced(&options, &["protect", "f", "-k", "k"]) else { return };
    Ended(command.output().unwrap()).fails(4);
    assert_eq!(s.names(), ["f"]);
}

#[test]
fn an_output_that_could_not_be_synced_is_said_to_exist() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", "x");
    let options = ["-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=2"];
    let Some(mut command) = s.traced(&options, &["protect", "f", "-k", "k", "--remove"]) else { return };
    let told = Ended(command.output().unwrap()).fails(4);
    assert!(told.contains("f.phx: it is written and has its name"), "{told}");
    assert_eq!(s.names(), ["f", "f.phx"]);
}

#[test]
fn a_file_system_without_permissions_is_good_enough() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", "x");
    for error in ["EPERM", "ENOSYS", "EOPNOTSUPP"] {
        let inject = format!("inject=fchmod,utimensat:error={error}");
        let options = ["-e", "trace=fchmod,utimensat", "-e", &inject];
        let Some(mut command) = s.traced(&options, &["protect", "f", "-k", "k", "--force"]) else { return };
        Ended(command.output().unwrap()).ok();
        assert_eq!(fs::metadata(s.path("f.phx")).unwrap().mode() & 0o777, 0o600, "as narrow as it was made");
    }
}

#[test]
fn odd_names_are_names() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", "x");
    s.run(&["protect", "f", "-k", "k", "-o", "./-.phx"]).ok();
    assert!(s.run(&["unprotect", "--", "-.phx"]).ok().is_empty(), "nothing goes to standard output");
    assert_eq!(s.read("-"), b"x");
    // Only the exact form of a temporary name is one.
    fs::create_dir(s.path("t")).unwrap();
    s.write("t/.phalanx-notes.tmp", "mine");
    let left = Sandbox::temporary("f.phx");
    s.write(&format!("t/{left}"), "left");
    let ended = s.run(&["protect", "-R", "t", "-k", "k"]);
    assert!(ended.error().contains(&format!("t/{left}: left by a run that was killed: left out")));
    ended.ok();
    let names: Vec<OsString> = fs::read_dir(s.path("t.phx")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, [".phalanx-notes.tmp.phx"]);
}

#[test]
fn each_kind_of_damage_has_a_sentence_of_its_own() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", painted((3 << 20) + 7));
    s.run(&["protect", "f", "-k", "k", "-o", "g.phx"]).ok();
    let stored = s.read("g.phx");
    let header = stored.len() - ((3 << 20) + 7 + 4 * 48);
    let chunk = (1 << 20) + 48;
    let mut damaged = stored.clone();
    damaged[header + chunk + 100] ^= 1;
    let mut at_end = stored.clone();
    *at_end.last_mut().unwrap() ^= 1;
    let extended = |n: usize| [&stored[..], &painted(n)].concat();
    let whole = &stored[..header + 3 * chunk];
    for (bytes, sentence) in [
        (damaged, "damaged in chunk 1 ("),
        (at_end, "damaged in chunk 3, its last: or else truncated or extended there"),
        (whole.to_vec(), "truncated: chunks are missing at its end"),
        (stored[..header + 2 * chunk + 20].to_vec(), "truncated: its last chunk is not whole"),
        (stored[..header].to_vec(), "truncated: it has no chunk"),
        (extended(10), "damaged in chunk 3, its last: or else truncated or extended there"),
        (extended(2 << 20), "damaged in chunk 3 ("),
    ] {
        s.write("bad.phx", bytes);
        for command in ["unprotect", "verify"] {
            let told = s.run(&[command, "bad.phx"]).fails(3);
            assert!(told.contains(sentence) && !told.contains("password"), "{told}");
            assert!(told.contains("--salvage"), "{told}");
        }
        assert!(!s.exists("bad"));
    }
    // Where the end is the end of a whole chunk, what follows it is told from damage.
    s.write("f", painted(3 << 20));
    s.run(&["protect", "f", "-k", "k", "-o", "g.phx", "--force"]).ok();
    for more in [10, 100, 3 << 20] {
        s.write("bad.phx", [s.read("g.phx"), painted(more)].concat());
        let told = s.run(&["verify", "bad.phx"]).fails(3);
        assert!(told.contains("bytes after the end"), "{more}: {told}");
    }
    // An output of an earlier run, caught by a pattern.
    let told = s.run(&["protect", "g.phx", "-k", "k"]).fails(4);
    assert!(told.contains("g.phx: protected already"), "{told}");
    s.write("mine.phx", "not protected at all");
    s.run(&["protect", "mine.phx", "-k", "k"]).ok();
}

#[test]
fn a_folder_with_nothing_to_verify_is_an_error() {
    let s = Sandbox::new();
    fs::create_dir(s.path("unmounted")).unwrap();
    assert!(s.run(&["verify", "-R", "unmounted"]).fails(4).contains("no protected file"));
    s.write("unmounted/f", "x");
    assert!(s.run(&["verify", "-R", "unmounted"]).fails(4).contains("no protected file"));
}

#[test]
fn a_nightly_run_writes_to_the_same_place_each_night() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    for folder in ["nd", "bk"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    for night in ["1", "2", "3"] {
        s.write("nd/f", night);
        s.run(&["protect", "-R", "nd", "-o", "bk/nd", "-k", "k", "--force"]).ok();
        s.run(&["unprotect", "bk/nd/f.phx", "-o", "back", "--force"]).ok();
        assert_eq!(s.read("back"), night.as_bytes());
    }
    let names: Vec<OsString> = fs::read_dir(s.path("bk/nd")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["f.phx"]);
    // One input and no such folder does not become a file of that name.
    assert!(
        s.run(&["protect", "nd/f", "--output-dir", "backup", "-k", "k", "--remove"])
            .fails(4)
            .contains("no such folder")
    );
    s.run(&["protect", "nd/f", "-o", "backup/", "-k", "k", "--remove"]).fails(2);
    s.run(&["protect", "nd/f", "f", "-o", "-", "-k", "k"]).fails(2);
    assert!(!s.exists("backup") && s.exists("nd/f"));
}

#[test]
fn one_line_says_what_was_done_on_a_terminal_only() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    s.write("f", painted(2000));
    let ended = s.run(&["protect", "f", "-k", "k"]);
    assert_eq!((ended.error(), ended.ok()), (String::new(), vec![]));
    if !has("script") {
        return;
    }
    for (switch, lines) in [("", 1), ("-q", 0)] {
        let line = format!("{} protect f -k k --force {switch}", env!("CARGO_BIN_EXE_phalanx"));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring"));
        let shown = Ended(command.env("LC_ALL", "C").stdin(Stdio::null()).output().unwrap()).text();
        assert_eq!(shown.matches("f -> f.phx: 2.0 kB in ").count(), lines, "{shown:?}");
    }
}
