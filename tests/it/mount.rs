//! `phalanx mount`: protected trees and files, shown as plain ones.

use crate::common::{Ended, Sandbox, has, is_ignored, painted, skip, wait_for};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Whether this machine has what a mount needs. If not, prints a line, or fails if PHALANX_REQUIRE names fuse.
pub fn is_fuse_here() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_here = device.is_ok() && std::env::split_paths(&path).any(|folder| folder.join("fusermount3").is_file());
    if !is_here {
        skip("FUSE");
        required();
    }
    is_here
}

pub fn required() {
    let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
    assert!(!required.split([',', ' ']).any(|name| name == "fuse"), "PHALANX_REQUIRE names fuse, which is missing");
}

/// A mount. It is unmounted at the end of the test in any case.
pub struct Mounted {
    pub child: Option<Child>,
    pub mountpoint: PathBuf,
    log: PathBuf,
    _alive: Option<Sender<()>>,
}

impl Mounted {
    /// Mounts in the foreground, on the folder mnt. If this system does not allow mounts, prints a line and returns
    /// `None`.
    pub fn start(s: &Sandbox, args: &[&str]) -> Option<Self> {
        Self::start_by(s, s.command(&[&["mount"], args].concat()))
    }

    /// Mounts with a command that already has all its arguments.
    pub fn start_by(s: &Sandbox, mut command: Command) -> Option<Self> {
        if !is_fuse_here() {
            return None;
        }
        let (mountpoint, log) = (s.path("mnt"), s.path("log"));
        fs::create_dir_all(&mountpoint).unwrap();
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let mut mounted = Self { child: Some(command.spawn().unwrap()), mountpoint, log, _alive: None };
        let mut ended = None;
        let begun = Instant::now();
        while !is_mounted(&mounted.mountpoint) && ended.is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not mount: {}", mounted.log());
            ended = mounted.child.as_mut().unwrap().try_wait().unwrap();
            thread::sleep(Duration::from_millis(2));
        }
        if ended.is_some() {
            assert!(mounted.log().contains("Operation not permitted"), "{}", mounted.log());
            skip("FUSE");
            required();
            return None;
        }
        // A mount that does not answer would block the test for ever.
        let (alive, watch) = mpsc::channel::<()>();
        let pid = Pid::from_child(mounted.child.as_ref().unwrap());
        thread::spawn(move || {
            if watch.recv_timeout(Duration::from_secs(300)) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        mounted._alive = Some(alive);
        Some(mounted)
    }

    /// A mount that is started and ended by other means.
    pub fn at(mountpoint: PathBuf) -> Self {
        Self { child: None, log: mountpoint.with_extension("log"), mountpoint, _alive: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.mountpoint.join(name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().unwrap());
        kill_process(pid, signal).unwrap();
    }

    pub fn stop(&self) {
        stop(Pid::from_child(self.child.as_ref().unwrap()));
    }

    pub fn ended(&mut self) -> ExitStatus {
        self.child.take().unwrap().wait().unwrap()
    }

    pub fn unmount(&self) {
        // The kernel may still be closing the files of a program that has just ended.
        let unmounts = || Command::new("fusermount3").arg("-u").arg(&self.mountpoint).status().unwrap().success();
        wait_for(|| {
            unmounts() || {
                thread::sleep(Duration::from_millis(100));
                false
            }
        });
        assert!(!is_mounted(&self.mountpoint));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if is_mounted(&self.mountpoint) {
            let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(&self.mountpoint).status();
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Stops all threads of a process, and waits until they have stopped. On a busy machine this takes a while.
pub fn stop(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    let threads = format!("/proc/{}/task", process.as_raw_nonzero());
    // The state follows the name, which is in parentheses (proc_pid_stat(5)).
    let is_stopped = |stat: &str| stat.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with(['T', 'Z', 'X']));
    let all = || fs::read_dir(&threads).unwrap().map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")));
    while !all().all(|stat| stat.is_ok_and(|stat| is_stopped(&stat))) {
        thread::sleep(Duration::from_millis(1));
    }
}

pub fn is_mounted(path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or(path.to_owned());
    let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
    list.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

/// All entries of a tree: the modification time and content of each file, and the target of each link.
pub fn listing(root: &Path) -> BTreeMap<String, (Option<SystemTime>, Vec<u8>)> {
    let (mut all, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, meta) = (entry.path(), entry.metadata().unwrap());
            assert_eq!(entry.file_type().unwrap(), meta.file_type());
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let of_entry = if meta.is_symlink() {
                (None, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
            } else if meta.is_dir() {
                folders.push(path);
                (None, b"folder".to_vec())
            } else {
                let content = fs::read(&path).unwrap();
                assert_eq!(meta.len(), content.len() as u64, "{name}");
                (Some(meta.modified().unwrap()), content)
            };
            assert!(all.insert(name.clone(), of_entry).is_none(), "{name} is listed twice");
        }
    }
    all
}

/// A tree and its protected mirror `tree.phx`, under the key `k`.
fn planted(s: &Sandbox) {
    s.run(&["key", "new", "k"]).ok();
    for folder in ["tree", "tree/a", "tree/a/b", "tree/empty"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    for i in 0..30 {
        s.write(&format!("tree/a/{i}"), painted(i * 1371));
    }
    s.write("tree/large", painted((3 << 20) + 77));
    s.write("tree/a/b/naïve name\n", "odd");
    s.write("tree/a.phx", "protected twice, by its name");
    symlink("a/b", s.path("tree/link")).unwrap();
    symlink("/nowhere", s.path("tree/dangling")).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    File::open(s.path("tree/large")).unwrap().set_modified(then).unwrap();
    s.run(&["protect", "-q", "-R", "tree", "-k", "k"]).ok();
}

#[test]
fn a_tree_is_shown_unchanged() {
    let s = Sandbox::new();
    planted(&s);
    // Without a manifest, whatever is in the tree belongs to it.
    s.lose_manifest("tree.phx");
    // These files are not shown.
    s.write("tree.phx/stray", "not ours");
    s.write(&format!("tree.phx/{}", Sandbox::temporary("x")), "left over");
    for hostile in ["..phx", "...phx", ".phx"] {
        fs::copy(s.path("tree.phx/large.phx"), s.path(&format!("tree.phx/{hostile}"))).unwrap();
    }
    fs::copy(s.path("tree.phx/large.phx"), s.path("tree.phx/empty.phx")).unwrap();
    let Some(mut mounted) = Mounted::start(&s, &["tree.phx", "mnt"]) else { return };
    assert!(listing(&mounted.mountpoint) == listing(&s.path("tree")));
    assert!(mounted.log().contains("tree.phx/empty.phx: another entry has the name"), "{}", mounted.log());
    assert_eq!(mounted.log().lines().count(), 1, "{}", mounted.log());
    for missing in ["stray", "empty.phx", "large.phx", ".phx", "none", &"x".repeat(254)] {
        assert_eq!(fs::metadata(mounted.path(missing)).unwrap_err().kind(), ErrorKind::NotFound, "{missing}");
    }
    let stored = fs::metadata(s.path("tree.phx/large.phx")).unwrap();
    let shown = fs::metadata(mounted.path("large")).unwrap();
    assert_eq!((shown.ino(), shown.mode()), (stored.ino(), stored.mode() & !0o222));

    // Several threads read ranges at once, through one open file.
    let (whole, file) = (s.read("tree/large"), File::open(mounted.path("large")).unwrap());
    thread::scope(|scope| {
        for i in 0..4 {
            let (whole, file) = (&whole, &file);
            scope.spawn(move || {
                for k in 0..20 {
                    let (offset, len) = ((i * 777_777 + k * 155_155) % whole.len(), 70_000 * (k % 3) + 1);
                    let end = whole.len().min(offset + len);
                    let mut buf = vec![0; end - offset];
                    file.read_exact_at(&mut buf, offset as u64).unwrap();
                    assert!(buf == whole[offset..end]);
                }
            });
        }
    });
    assert_eq!(file.read_at(&mut [0; 9], whole.len() as u64).unwrap(), 0);
    if has("cmp") {
        let status = Command::new("cmp").arg(mounted.path("large")).arg(s.path("tree/large")).status().unwrap();
        assert!(status.success());
    }

    let refused = |done: std::io::Result<()>| assert_eq!(done.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    refused(fs::write(mounted.path("large"), "x"));
    refused(fs::write(mounted.path("new"), "x"));
    refused(fs::create_dir(mounted.path("new")));
    refused(fs::remove_file(mounted.path("large")));
    refused(fs::rename(mounted.path("large"), mounted.path("other")));
    refused(OpenOptions::new().append(true).open(mounted.path("large")).map(drop));

    // Changes in the tree are shown.
    s.write("late", "came late");
    s.run(&["protect", "late", "-k", "k", "-o", "tree.phx/late.phx"]).ok();
    assert_eq!(fs::read(mounted.path("late")).unwrap(), b"came late");
    fs::rename(s.path("tree.phx/a"), s.path("tree.phx/z")).unwrap();
    wait_for(|| fs::read(mounted.path("z/5")).is_ok_and(|bytes| bytes == painted(5 * 1371)));

    drop(file);
    mounted.unmount();
    assert_eq!(mounted.ended().code(), Some(0));
}

#[test]
fn damaged_and_unreadable_files_are_errors_and_named_once() {
    let s = Sandbox::new();
    fs::create_dir(s.path("t")).unwrap();
    for key in ["k", "other"] {
        s.run(&["key", "new", key]).ok();
    }
    for (name, key) in [("good", "k"), ("damaged", "k"), ("cut", "k"), ("locked", "other")] {
        s.write(name, painted(300 << 10));
        s.run(&["protect", name, "-k", key, "--chunk-size", "64K", "--output-dir", "t"]).ok();
    }
    s.run(&["key", "rm", "other", "-f"]).ok();
    let mut stored = s.read("t/damaged.phx");
    stored[4096 + 2 * (48 + (64 << 10)) + 1000] ^= 1;
    s.write("t/damaged.phx", &stored);
    let whole = s.read("t/cut.phx");
    s.write("t/cut.phx", &whole[..whole.len() - 100]);
    s.write("t/no.phx", "no header at all");
    s.write("t/empty.phx", "");
    let Some(mut mounted) = Mounted::start(&s, &["t", "mnt", "--engine", "serial"]) else { return };
    for _ in 0..2 {
        let error = fs::read(mounted.path("locked")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        for name in ["cut", "no", "empty", "damaged"] {
            // EIO
            assert_eq!(fs::read(mounted.path(name)).unwrap_err().raw_os_error(), Some(5), "{name}");
        }
    }
    // Only the damaged chunk fails.
    let file = File::open(mounted.path("damaged")).unwrap();
    for chunk in [0, 1, 3, 4] {
        let mut buf = [0; 4096];
        file.read_exact_at(&mut buf, chunk << 16).unwrap();
        assert_eq!(buf[..], painted(300 << 10)[(chunk as usize) << 16..][..4096], "{chunk}");
    }
    assert_eq!(file.read_at(&mut [0; 4096], 2 << 16).unwrap_err().raw_os_error(), Some(5));
    assert_eq!(fs::read(mounted.path("good")).unwrap(), painted(300 << 10));
    let log = mounted.log();
    for name in ["t/locked.phx: ", "t/cut.phx: ", "t/no.phx: ", "t/empty.phx: ", "t/damaged.phx: damaged in chunk 2"] {
        assert_eq!(log.matches(name).count(), 1, "{name}: {log}");
    }
    drop(file);
    mounted.unmount();
    assert_eq!(mounted.ended().code(), Some(0));

    // Nothing is mounted if nothing opens.
    fs::create_dir(s.path("locked-only")).unwrap();
    fs::rename(s.path("t/locked.phx"), s.path("locked-only/f.phx")).unwrap();
    assert!(s.run(&["mount", "locked-only", "mnt"]).fails(3).contains("locked-only/f.phx: "));
    s.run_with_password("no", &["mount", "locked-only", "mnt", "--daemon"]).fails(3);
    assert!(!is_mounted(&mounted.mountpoint));
}

#[test]
fn signals_end_a_mount_cleanly() {
    let s = Sandbox::new();
    s.secret("password", "p");
    s.write("f", painted(200_000));
    s.run(&["protect", "f", "--password-file", "password"]).ok();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        if is_ignored(signal.as_raw()) {
            continue;
        }
        for left in (0..5).rev() {
            let Some(mut mounted) = Mounted::start(&s, &["f.phx", "mnt", "--password-file", "password"]) else {
                return;
            };
            let names: Vec<_> = fs::read_dir(&mounted.mountpoint).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(names, ["f"]);
            assert_eq!(fs::read(mounted.path("f")).unwrap(), painted(200_000));
            mounted.signal(signal);
            let (code, log) = (mounted.ended().code(), mounted.log());
            assert!(!is_mounted(&mounted.mountpoint));
            // A process that another test starts at this moment has our open files until it becomes its program.
            if left == 0 || !log.contains("in use") {
                assert_eq!((code, log), (Some(0), String::new()));
                break;
            }
        }
    }
    // A mount in use continues for its users.
    for signals in 1..=2 {
        let Some(mut mounted) = Mounted::start(&s, &["f.phx", "mnt", "--password-file", "password"]) else { return };
        let file = File::open(mounted.path("f")).unwrap();
        mounted.signal(Signal::TERM);
        wait_for(|| mounted.log().contains("in use") && !is_mounted(&mounted.mountpoint));
        let mut buf = [0; 100];
        file.read_exact_at(&mut buf, 150_000).unwrap();
        assert_eq!(buf[..], painted(200_000)[150_000..150_100]);
        if signals == 2 {
            mounted.signal(Signal::TERM);
            assert_eq!(mounted.ended().signal(), Some(Signal::TERM.as_raw()));
        } else {
            drop(file);
            assert_eq!(mounted.ended().code(), Some(0));
        }
    }
}

#[test]
fn a_mountpoint_is_checked_again_after_the_password_prompt() {
    if !is_fuse_here() {
        return;
    }
    let s = Sandbox::new();
    s.secret("password", "p");
    s.write("f", "x");
    s.run(&["protect", "f", "--password-file", "password"]).ok();
    fs::create_dir(s.path("other")).unwrap();
    s.write("other/file", "x");
    mknodat(CWD, s.path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for what in ["something else", "no such folder", "not empty"] {
        fs::create_dir(s.path("mnt")).unwrap();
        let (mountpoint, log) = (s.path("mnt"), s.path("log"));
        let mut command = s.command(&["mount", "f.phx", "mnt", "--password-file", "fifo"]);
        let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        let mut mounted = Mounted { child: Some(child), mountpoint, log, _alive: None };
        // This waits until the password is read.
        let mut fifo = OpenOptions::new().write(true).open(s.path("fifo")).unwrap();
        match what {
            "not empty" => fs::write(s.path("mnt/file"), "x").unwrap(),
            _ => fs::remove_dir(s.path("mnt")).unwrap(),
        }
        if what == "something else" {
            symlink("other", s.path("mnt")).unwrap();
        }
        fifo.write_all(b"p").unwrap();
        drop(fifo);
        wait_for(|| mounted.log().contains(what));
        assert_eq!(mounted.ended().code(), Some(4));
        assert!(!is_mounted(&s.path("other")) && !is_mounted(&mounted.mountpoint));
        if what == "something else" {
            fs::remove_file(s.path("mnt")).unwrap();
        }
    }
}

#[test]
fn the_way_of_requests_is_chosen_and_named() {
    if !is_fuse_here() {
        return;
    }
    let s = Sandbox::new();
    planted(&s);
    let offers = fs::read_to_string("/sys/module/fuse/parameters/enable_uring").is_ok_and(|text| text.starts_with('Y'));
    let way = |way: &str| {
        let mounted = Mounted::start(&s, &["tree.phx", "mnt", "--fuse", way, "-v"])?;
        assert_eq!(fs::read(mounted.path("large")).unwrap(), s.read("tree/large"));
        mounted.unmount();
        Some(mounted.log())
    };
    let Some(dev) = way("dev") else { return };
    assert!(dev.contains("mnt: requests come by /dev/fuse\n"), "{dev}");
    let auto = way("auto").unwrap();
    assert!(
        auto.contains(if offers { "mnt: requests come by io_uring\n" } else { "mnt: requests come by /dev/fuse\n" }),
        "{auto}"
    );
    if offers {
        assert!(way("uring").unwrap().contains("mnt: requests come by io_uring\n"));
    } else {
        let refused = s.run(&["mount", "tree.phx", "mnt", "--fuse", "uring"]).fails(1);
        assert!(
            refused.contains("the kernel does not offer FUSE by io_uring") && refused.contains("hint: "),
            "{refused}"
        );
        assert!(!is_mounted(&s.path("mnt")));
        skip("uring");
        let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(
            !required.split([',', ' ']).any(|name| name == "uring"),
            "PHALANX_REQUIRE names uring, which is missing"
        );
    }
}

#[test]
fn a_daemon_is_mounted_when_its_command_ends() {
    if !is_fuse_here() {
        return;
    }
    let s = Sandbox::new();
    planted(&s);
    s.secret("password", "p");
    fs::create_dir(s.path("mnt")).unwrap();
    s.run(&["protect", "tree/large", "--password-file", "password", "-o", "secret.phx"]).ok();
    let mounted =
        Mounted { child: None, mountpoint: s.path("mnt").canonicalize().unwrap(), log: s.path("log"), _alive: None };
    let mut command = s.command(&["-q", "mount", "--daemon", "--", "tree.phx", "mnt"]);
    // Its output is closed too, so a reader of the output does not wait for the daemon.
    let ended = Ended(command.env("PHALANX_KEYRING", "keyring").output().unwrap());
    if ended.error().contains("Operation not permitted") {
        skip("FUSE");
        return required();
    }
    let lines = ended.error();
    assert!(lines.lines().all(|line| line.contains("no system log")), "{lines}");
    ended.ok();
    assert_eq!(fs::read(mounted.path("large")).unwrap(), s.read("tree/large"));
    assert!(s.run(&["mount", "tree.phx", "mnt"]).fails(4).contains("mounted here already"));
    let daemon = daemon_at("mnt", s.path("").as_path());
    assert!(daemon.is_none(), "it does not stay in the folder: {daemon:?}");
    let daemon = daemon_at("mnt", Path::new("/")).unwrap();
    assert_eq!(fs::read_to_string(daemon.join("comm")).unwrap(), "phalanx\n", "what ps and pkill call it");
    mounted.unmount();

    // The user is asked for a password. After that the terminal may close.
    if has("script") {
        let (code, shown) = s.at_terminal("mount --daemon secret.phx mnt", &["p"]);
        assert!(code == 0 && shown.contains("Password: "), "{code}: {shown}");
        assert_eq!(fs::read(mounted.path("secret")).unwrap(), s.read("tree/large"));
        mounted.unmount();
        assert_eq!(s.at_terminal("mount --daemon secret.phx mnt", &["q"]).0, 3);
        assert!(!is_mounted(&mounted.mountpoint));
    }
}

#[test]
fn a_daemon_keeps_open_only_what_its_arguments_name() {
    if !is_fuse_here() {
        return;
    }
    let s = Sandbox::new();
    s.secret("password", "p");
    s.write("f", "x");
    s.run(&["protect", "f", "--password-file", "password"]).ok();
    fs::create_dir(s.path("mnt")).unwrap();
    let fifo = s.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let ends = thread::spawn(move || fs::read(fifo).unwrap());
    let mounted = Mounted::at(s.path("mnt"));
    let line = "exec \"$0\" -q mount --daemon f.phx mnt --password-file=/dev/fd/8 8<password 9>fifo";
    let mut shell = Command::new("sh");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_phalanx")]).current_dir(s.path("")).stdin(Stdio::null());
    let ended = Ended(shell.env("PHALANX_KEYRING", s.path("keyring")).output().unwrap());
    if ended.error().contains("Operation not permitted") {
        skip("FUSE");
        return required();
    }
    ended.ok();
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"x");
    // This succeeds once no process can write to the FIFO any more.
    wait_for(|| ends.is_finished());
    mounted.unmount();
}

/// A process of this program with this working directory, and with this mountpoint among its arguments.
fn daemon_at(mountpoint: &str, folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().unwrap();
    fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()).find(|process| {
        let args = fs::read(process.join("cmdline")).unwrap_or_default();
        args.split(|b| *b == 0).any(|arg| arg == mountpoint.as_bytes())
            && fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder)
    })
}

#[test]
fn each_mount_error_is_one_line() {
    let s = Sandbox::new();
    s.run(&["key", "new", "k"]).ok();
    for folder in ["t", "t/in", "full", "none"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    s.write("f", "x");
    s.write("full/f", "x");
    s.run(&["protect", "f", "-k", "k", "-o", "t/f.phx"]).ok();
    let usage: &[(&[&str], &str)] = &[
        (&["t", "m", "-o", "noatime,bogus"], "unknown mount option bogus"),
        (&["t", "m", "-o", "rw"], "rw is not possible"),
        (&["t", "m", "-o", "auto_unmount"], "needs allow_other"),
        (&["t", "m", "--engine", "gpu"], "runs on the CPU"),
        (&["-", "m"], "not -"),
        (&["t"], "missing: MOUNTPOINT"),
    ];
    for (args, what) in usage {
        let line = s.run(&[&["mount"], *args].concat()).fails(2);
        assert!(line.contains(what), "{line}");
    }
    s.run(&["mount", "missing", "none"]).fails(4);
    if !Path::new("/dev/fuse").exists() {
        assert!(s.run(&["mount", "t", "none"]).fails(1).contains("no /dev/fuse"));
    }
    if !is_fuse_here() {
        return;
    }
    let whole = fs::read(s.path("t/f.phx")).unwrap();
    s.write("cut.phx", &whole[..whole.len() - 1]);
    let wrong: &[(&str, &str, i32, &str)] = &[
        ("t", "missing", 4, "no such folder"),
        ("t", "f", 4, "not a folder"),
        ("t", "full", 4, "not empty"),
        ("t", "t", 2, "the folder itself"),
        ("t", "t/in", 2, "lies within"),
        ("t/in", "t", 2, "contains"),
        ("none", "t/in", 4, "no protected file"),
        ("/dev/null", "none", 4, "neither a folder nor a file"),
        ("f", "none", 3, "f: not a Phalanx file"),
        ("cut.phx", "none", 3, "cut.phx: damaged"),
    ];
    for (tree, mountpoint, code, what) in wrong {
        let line = s.run(&["mount", tree, mountpoint]).fails(*code);
        assert!(line.contains(what), "{line}");
    }
}

/// A program that reads there would wait for whoever sits at the mount's terminal, and others for the same keys.
#[test]
fn a_mount_at_a_terminal_asks_for_no_locked_key_later() {
    if !is_fuse_here() || !has("script") {
        return;
    }
    let s = Sandbox::with_key();
    s.run(&["key", "new", "other"]).ok();
    s.write("f", "content");
    s.secret("pw", "plum harness ostrich\n");
    fs::create_dir_all(s.path("t.phx/d")).unwrap();
    fs::create_dir(s.path("mnt")).unwrap();
    s.run(&["protect", "f", "-k", "other", "-o", "t.phx/1.phx"]).ok();
    s.run(&["protect", "f", "-k", "k", "-o", "t.phx/d/2.phx"]).ok();
    s.run(&["key", "lock", "k", "--password-file", "pw"]).ok();
    let mut questions = 0;
    let answer = || {
        questions += 1;
        Some("wrong\n".to_owned())
    };
    let (code, shown) = thread::scope(|scope| {
        let mounted = Mounted::at(s.path("mnt"));
        let mount = scope.spawn(|| s.dialogue(&format!("{} mount t.phx mnt", env!("CARGO_BIN_EXE_phalanx")), answer));
        wait_for(|| is_mounted(&mounted.mountpoint) || mount.is_finished());
        if !mount.is_finished() {
            assert_eq!(fs::read(mounted.path("1")).unwrap(), b"content");
            fs::read(mounted.path("d/2")).unwrap_err();
            mounted.unmount();
        }
        mount.join().unwrap()
    });
    if shown.contains("Operation not permitted") {
        skip("FUSE");
        return required();
    }
    assert_eq!((code, questions), (0, 0), "{shown}");
    assert!(shown.contains("the key k is locked"), "{shown}");
}
