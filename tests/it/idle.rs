//! `phalanx mount --idle`: a mount ends once nobody uses it, and takes nothing away but itself.

use crate::common::{skip, wait_for};
use crate::mount::{is_mounted, stop};
use crate::unmount::{Mounts, each, process_with};
use rustix::fs::{OFlags, statvfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Longer than it takes until a mount of these tests is idle. Nothing is expected to have happened by then.
const LONG: Duration = Duration::from_millis(2500);

/// A mount of `va` that ends after a second.
struct Idle<'a> {
    mounts: &'a Mounts,
    /// `None` in the background.
    child: Option<RefCell<Child>>,
}

impl<'a> Idle<'a> {
    /// Mounts. On a busy machine it may have ended before anybody sees it.
    fn start(mounts: &'a Mounts) -> Self {
        let mut command = mounts.s.command(&["mount", "-k", "k", "--idle", "1s"]);
        command.arg(mounts.s.path("va")).arg(mounts.mountpoint()).args(mounts.is_daemon.then_some("--daemon"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if mounts.is_daemon {
            assert!(command.status().unwrap().success());
            return Self { mounts, child: None };
        }
        Self { mounts, child: Some(RefCell::new(command.spawn().unwrap())) }
    }

    /// Mounts, and takes hold of it before it ends.
    fn held<T>(mounts: &'a Mounts, hold: impl Fn() -> Option<T>) -> (Self, T) {
        loop {
            let idle = Self::start(mounts);
            while !idle.is_over() {
                if let Some(held) = hold() {
                    return (idle, held);
                }
                sleep(Duration::from_millis(1));
            }
        }
    }

    /// The same with a name in it, which nobody has opened.
    fn found(mounts: &'a Mounts) -> (Self, File) {
        let mut options = File::options();
        let options = options.read(true).custom_flags(OFlags::PATH.bits().cast_signed());
        Self::held(mounts, || options.open(mounts.s.path("mnt/name")).ok())
    }

    fn process(&self) -> Pid {
        let running = || process_with(&[&self.mounts.s.path("va"), &self.mounts.mountpoint()]).unwrap();
        self.child.as_ref().map_or_else(running, |child| Pid::from_child(&child.borrow()))
    }

    /// Whether its process has ended, in order.
    fn is_over(&self) -> bool {
        let Some(child) = &self.child else {
            return process_with(&[&self.mounts.s.path("va"), &self.mounts.mountpoint()]).is_none();
        };
        let status = child.borrow_mut().try_wait().unwrap();
        assert!(status.is_none_or(|status| status.code() == Some(0)), "{status:?}");
        status.is_some()
    }

    fn ended(self) {
        wait_for(|| self.is_over());
    }
}

#[test]
fn a_mount_that_nobody_uses_ends() {
    each(|mounts| {
        let idle = Idle::start(&mounts);
        // What looks after all mounts asks for the space that is left.
        wait_for(|| {
            let _ = statvfs(mounts.mountpoint());
            sleep(Duration::from_millis(50));
            idle.is_over()
        });
        assert!(!is_mounted(&mounts.mountpoint()));
        assert_eq!(fs::read_dir(mounts.mountpoint()).unwrap().count(), 0);
    });
}

#[test]
fn an_open_file_keeps_its_mount() {
    each(|mounts| {
        let is_volume = mounts.s.path("va/phalanx.volume").exists();
        let open = || File::options().read(true).write(is_volume).open(mounts.s.path("mnt/name")).ok();
        let (idle, mut file) = Idle::held(&mounts, open);
        sleep(LONG);
        assert!(is_mounted(&mounts.mountpoint()));
        if is_volume {
            file.write_all(b"changed").unwrap();
        } else {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "a");
        }
        drop(file);
        idle.ended();
        assert!(!is_mounted(&mounts.mountpoint()));
        let process = mounts.start("a").unwrap();
        assert_eq!(mounts.letter(), if is_volume { "changed" } else { "a" });
        mounts.unmount(&[]);
        mounts.wait(process);
    });
}

#[test]
fn who_works_in_a_mount_keeps_it() {
    each(|mounts| {
        let work = || {
            let mut command = Command::new("cat");
            command.current_dir(mounts.mountpoint()).stdin(Stdio::piped()).stdout(Stdio::null());
            let mut child = command.spawn().ok()?;
            if fs::exists(format!("/proc/{}/cwd/name", child.id())).is_ok_and(|is_here| is_here) {
                return Some(child);
            }
            // It works in the folder below.
            drop(child.stdin.take());
            child.wait().unwrap();
            None
        };
        let (idle, mut child) = Idle::held(&mounts, work);
        sleep(LONG);
        assert!(is_mounted(&mounts.mountpoint()));
        assert_eq!(mounts.letter(), "a");
        drop(child.stdin.take());
        child.wait().unwrap();
        idle.ended();
        assert!(!is_mounted(&mounts.mountpoint()));
    });
}

#[test]
fn a_mount_that_would_be_idle_leaves_its_successor() {
    each(|mounts| {
        let (first, name) = Idle::found(&mounts);
        let process = first.process();
        stop(process);
        drop(name);
        mounts.unmount(&[]);
        let second = mounts.start("b").unwrap();
        sleep(LONG);
        kill_process(process, Signal::CONT).unwrap();
        first.ended();
        assert!(is_mounted(&mounts.mountpoint()));
        assert_eq!(mounts.letter(), "b");
        mounts.unmount(&[]);
        mounts.wait(second);
    });
}

#[test]
fn an_idle_mount_without_a_name_leaves_its_successor() {
    each(|mounts| {
        let (first, name) = Idle::found(&mounts);
        mounts.unmount(&["-z"]);
        let second = mounts.start("b").unwrap();
        sleep(LONG);
        assert!(!first.is_over());
        assert_eq!(mounts.letter(), "b");
        drop(name);
        first.ended();
        assert_eq!(mounts.letter(), "b");
        mounts.unmount(&[]);
        mounts.wait(second);
    });
}

#[test]
fn what_is_mounted_on_an_idle_mount_stays() {
    if !geteuid().is_root() {
        return skip("root");
    }
    each(|mounts| {
        let (idle, name) = Idle::found(&mounts);
        match mount("x", mounts.mountpoint(), "tmpfs", MountFlags::empty(), None) {
            Err(Errno::PERM) => return skip("root"),
            done => done.unwrap(),
        }
        drop(name);
        mounts.s.write("mnt/over", "over");
        sleep(LONG);
        assert!(!idle.is_over());
        assert_eq!(fs::read(mounts.s.path("mnt/over")).unwrap(), b"over");
        wait_for(|| unmount(mounts.mountpoint(), UnmountFlags::empty()).is_ok());
        idle.ended();
        assert!(!is_mounted(&mounts.mountpoint()));
    });
}
