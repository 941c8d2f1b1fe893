//! A mount that ends unmounts only itself, even if something else is mounted in its place by then.

use crate::common::{Sandbox, skip, wait_for};
use crate::mount::{is_fuse_here, is_mounted, required, stop};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Two volumes, `va` and `vb`, or two protected trees, each with a file `name` that holds the last letter.
pub struct Mounts {
    pub s: Sandbox,
    pub is_daemon: bool,
    children: RefCell<Vec<Child>>,
}

impl Mounts {
    /// If this system does not allow mounts, prints a line and returns `None`.
    fn new(volumes: bool, is_daemon: bool) -> Option<Self> {
        if !is_fuse_here() {
            return None;
        }
        let mounts = Self { s: Sandbox::with_key(), is_daemon, children: RefCell::default() };
        let s = &mounts.s;
        fs::create_dir(s.path("mnt")).unwrap();
        for letter in ["a", "b"] {
            if volumes {
                s.run(&["init", &format!("v{letter}"), "-k", "k"]).ok();
                let process = mounts.start(letter)?;
                fs::write(s.path("mnt/name"), letter).unwrap();
                mounts.unmount(&[]);
                mounts.wait(process);
            } else {
                fs::create_dir(s.path("plain")).unwrap();
                s.write("plain/name", letter);
                s.run(&["protect", "-q", "-R", "plain", "-k", "k", "-o", &format!("v{letter}")]).ok();
                fs::remove_dir_all(s.path("plain")).unwrap();
            }
        }
        Some(mounts)
    }

    /// Mounts `va` or `vb`, and returns its process. If this system does not allow mounts, prints a line and returns
    /// `None`.
    pub fn start(&self, letter: &str) -> Option<Pid> {
        self.start_with(letter, &[])
    }

    /// Mounts with more options. The mount may already have ended cleanly.
    pub fn start_with(&self, letter: &str, options: &[&str]) -> Option<Pid> {
        // The process is found by these arguments.
        let (tree, mountpoint) = (self.s.path(&format!("v{letter}")), self.mountpoint());
        let mut command = self.s.command(&["mount", "-k", "k"]);
        command.args(options).arg(&tree).arg(&mountpoint).args(self.is_daemon.then_some("--daemon"));
        let log = self.s.path(&format!("log-{letter}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut ended = None;
        let begun = Instant::now();
        while !is_mounted(&mountpoint) && ended.is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not mount");
            ended = child.try_wait().unwrap().map(|status| status.code());
            sleep(Duration::from_millis(2));
        }
        if ended.is_some_and(|code| code != Some(0)) {
            child.wait().unwrap();
            let log = fs::read_to_string(log).unwrap();
            assert!(log.contains("Operation not permitted"), "{log}");
            skip("FUSE");
            required();
            return None;
        }
        if !self.is_daemon {
            let process = Pid::from_child(&child);
            self.children.borrow_mut().push(child);
            return Some(process);
        }
        assert!(child.wait().unwrap().success());
        // If the daemon has ended already, the id of its parent is returned. Nothing waits for this id, because it is
        // free.
        Some(process_with(&[&tree, &mountpoint]).unwrap_or(Pid::from_child(&child)))
    }

    pub fn mountpoint(&self) -> PathBuf {
        self.s.path("mnt")
    }

    pub fn letter(&self) -> String {
        fs::read_to_string(self.s.path("mnt/name")).unwrap()
    }

    /// Unmounts. A program that another test starts at this moment may have our open files for a while.
    pub fn unmount(&self, options: &[&str]) {
        let mut command = Command::new("fusermount3");
        let command = RefCell::new(command.args(["-u", "-q"]).args(options).arg(self.mountpoint()));
        wait_for(|| command.borrow_mut().status().unwrap().success());
    }

    /// The exit code of a process that has ended and is not a daemon.
    pub fn code(&self, process: Pid) -> Option<i32> {
        let mut children = self.children.borrow_mut();
        let child = children.iter_mut().find(|child| Pid::from_child(child) == process)?;
        child.wait().unwrap().code()
    }

    /// Waits until a process has ended.
    pub fn wait(&self, process: Pid) {
        let stat = format!("/proc/{}/stat", process.as_raw_nonzero());
        wait_for(|| {
            self.children.borrow_mut().iter_mut().for_each(|child| drop(child.try_wait()));
            fs::read_to_string(&stat).map_or(true, |stat| stat.rsplit(')').next().unwrap().trim().starts_with('Z'))
        });
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        while is_mounted(&self.mountpoint()) && unmount(self.mountpoint(), UnmountFlags::DETACH).is_ok() {}
        for letter in ["a", "b"] {
            if let Some(process) = process_with(&[&self.s.path(&format!("v{letter}")), &self.mountpoint()]) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
        self.children.borrow_mut().iter_mut().for_each(|child| drop(child.wait()));
    }
}

/// A process with these paths among its arguments.
fn process_with(args: &[&Path]) -> Option<Pid> {
    fs::read_dir("/proc").unwrap().find_map(|entry| {
        let entry = entry.unwrap();
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let has = |arg: &&Path| line.split(|b| *b == 0).any(|part| part == arg.as_os_str().as_encoded_bytes());
        let number = entry.file_name().to_str()?.parse().ok()?;
        args.iter().all(has).then(|| Pid::from_raw(number)).flatten()
    })
}

/// Runs a test with all kinds of mounts.
pub fn each(test: impl Fn(Mounts)) {
    for (volumes, is_daemon) in [(true, false), (true, true), (false, false), (false, true)] {
        if let Some(mounts) = Mounts::new(volumes, is_daemon) {
            test(mounts);
        }
    }
}

#[test]
fn a_mount_that_ends_late_leaves_its_successor() {
    each(|mounts| {
        for signal in [None, Some(Signal::TERM), Some(Signal::INT)] {
            let first = mounts.start("a").unwrap();
            stop(first);
            mounts.unmount(&[]);
            let second = mounts.start("b").unwrap();
            if let Some(signal) = signal {
                kill_process(first, signal).unwrap();
            }
            kill_process(first, Signal::CONT).unwrap();
            mounts.wait(first);
            assert!(is_mounted(&mounts.mountpoint()));
            assert_eq!(mounts.letter(), "b");
            mounts.unmount(&[]);
            mounts.wait(second);
        }
    });
}

#[test]
fn a_mount_without_a_name_leaves_its_successor() {
    each(|mounts| {
        let first = mounts.start("a").unwrap();
        let file = File::open(mounts.s.path("mnt/name")).unwrap();
        mounts.unmount(&["-z"]);
        let second = mounts.start("b").unwrap();
        kill_process(first, Signal::TERM).unwrap();
        if mounts.is_daemon {
            // A daemon only logs to the system log. Another signal would end it at once.
        } else {
            wait_for(|| fs::read_to_string(mounts.s.path("log-a")).unwrap().contains("in use"));
        }
        assert_eq!(std::io::read_to_string(&file).unwrap(), "a");
        drop(file);
        mounts.wait(first);
        assert_eq!(mounts.letter(), "b");
        kill_process(second, Signal::TERM).unwrap();
        mounts.wait(second);
        assert!(!is_mounted(&mounts.mountpoint()));
    });
}

#[test]
fn a_mount_on_top_of_a_mount_stays() {
    if !geteuid().is_root() {
        return skip("root");
    }
    each(|mounts| {
        for inner in [false, true] {
            let first = mounts.start("a").unwrap();
            let folder = if inner { mounts.s.path("mnt/name") } else { mounts.mountpoint() };
            let done = if inner {
                mounts.s.write("over", "over");
                rustix::mount::mount_bind(mounts.s.path("over"), &folder)
            } else {
                mount("x", &folder, "tmpfs", MountFlags::empty(), None)
            };
            match done {
                Err(Errno::PERM) => return skip("root"),
                done => done.unwrap(),
            }
            kill_process(first, Signal::TERM).unwrap();
            if !mounts.is_daemon {
                wait_for(|| fs::read_to_string(mounts.s.path("log-a")).unwrap().contains("mounted on top of it"));
            }
            assert!(is_mounted(&folder));
            if inner {
                assert_eq!(mounts.letter(), "over");
            }
            wait_for(|| unmount(&folder, UnmountFlags::empty()).is_ok());
            mounts.wait(first);
            assert!(!is_mounted(&mounts.mountpoint()));
        }
    });
}

/// Ends the session of a mount, and leaves the mount. Returns whether this user can do that here.
fn end_by_force(mountpoint: &Path) -> bool {
    let device = fs::metadata(mountpoint).unwrap().dev();
    let abort = format!("/sys/fs/fuse/connections/{}/abort", rustix::fs::minor(device));
    match unmount(mountpoint, UnmountFlags::FORCE) {
        // The end of the session comes first.
        Err(Errno::BUSY) => true,
        Err(Errno::PERM) if fs::write(abort, "1").is_ok() => true,
        Err(Errno::PERM) => {
            skip("root");
            false
        }
        other => panic!("{other:?}: nothing is open in it"),
    }
}

#[test]
fn a_session_that_was_ended_by_force_is_unmounted_and_reported() {
    each(|mounts| {
        let process = mounts.start("a").unwrap();
        let file = File::open(mounts.s.path("mnt/name")).unwrap();
        if !end_by_force(&mounts.mountpoint()) {
            return;
        }
        mounts.wait(process);
        assert!(!is_mounted(&mounts.mountpoint()));
        if !mounts.is_daemon {
            assert_eq!(mounts.code(process), Some(4));
            let log = fs::read_to_string(mounts.s.path("log-a")).unwrap();
            let why = "the session was ended by force: what programs had written and not synced may be missing";
            assert_eq!(log, format!("phalanx: {}: {why}\n", mounts.mountpoint().display()));
        }
        drop(file);
        // The folder can be mounted on again.
        let process = mounts.start("b").unwrap();
        assert_eq!(mounts.letter(), "b");
        mounts.unmount(&[]);
        mounts.wait(process);
    });
}

#[test]
fn a_mount_whose_mountpoint_was_renamed_is_unmounted() {
    each(|mounts| {
        let s = &mounts.s;
        fs::create_dir(s.path("above")).unwrap();
        fs::remove_dir(s.path("mnt")).unwrap();
        fs::create_dir(s.path("above/mnt")).unwrap();
        symlink("above/mnt", s.path("mnt")).unwrap();
        let first = mounts.start("a").unwrap();
        fs::rename(s.path("above"), s.path("below")).unwrap();
        fs::remove_file(s.path("mnt")).unwrap();
        fs::create_dir(s.path("mnt")).unwrap();
        let second = mounts.start("b").unwrap();
        assert!(is_mounted(&s.path("below/mnt")));
        kill_process(first, Signal::TERM).unwrap();
        mounts.wait(first);
        assert!(!is_mounted(&s.path("below/mnt")));
        assert_eq!(mounts.letter(), "b");
        kill_process(second, Signal::TERM).unwrap();
        mounts.wait(second);
    });
}

#[test]
fn a_mount_that_fails_to_start_is_unmounted() {
    for volumes in [true, false] {
        let Some(mounts) = Mounts::new(volumes, false) else { return };
        // The process that --daemon starts. It cannot report that it is ready.
        let mut command = mounts.s.command(&["mount", "--detached", "-q", "-k", "k"]);
        command.arg(mounts.s.path("va")).arg(mounts.mountpoint());
        let full = File::options().write(true).open("/dev/full").unwrap();
        let status = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::null()).status().unwrap();
        assert!(!status.success());
        assert!(!is_mounted(&mounts.mountpoint()));
        assert_eq!(fs::read_dir(mounts.mountpoint()).unwrap().count(), 0);
    }
}

#[test]
fn lists_of_mounts_name_the_type() {
    let Some(mounts) = Mounts::new(true, false) else { return };
    let process = mounts.start("a").unwrap();
    let kind = fs::read_to_string("/proc/self/mounts").unwrap();
    let tree = mounts.s.path("va");
    let line = kind.lines().find(|line| line.starts_with(tree.to_str().unwrap())).unwrap();
    assert!(line.contains(" fuse.phalanx "), "{line}");
    mounts.unmount(&[]);
    mounts.wait(process);
}
