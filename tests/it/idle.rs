//! `phalanx mount --idle`: a mount ends by itself if it is not used, and only then.

use crate::common::{Sandbox, skip, wait_for};
use crate::mount::{is_mounted, stop};
use crate::unmount::{Mounts, each};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A mount of `va` that ends when it is idle, its time limit, and its open file `name`.
fn held(mounts: &Mounts) -> (Pid, Duration, File) {
    held_by(mounts, |path| File::open(path).ok())
}

/// The same, held in use by what `open` returns for the file. If the machine is too slow for a short limit, the next one
/// is longer.
fn held_by<T>(mounts: &Mounts, open: impl Fn(&Path) -> Option<T>) -> (Pid, Duration, T) {
    for seconds in [1, 2, 4, 8, 16, 32] {
        let process = mounts.start_with("a", &["--idle", &format!("{seconds}s")]).unwrap();
        if let Some(holder) = open(&mounts.s.path("mnt/name")) {
            return (process, Duration::from_secs(seconds), holder);
        }
        mounts.wait(process);
    }
    panic!("it ends at once");
}

/// Waits until the limit has passed at least twice.
fn beyond(limit: Duration) {
    sleep(limit * 5 / 2);
}

/// Asserts that the mount unmounts itself and ends without an error.
fn ends(mounts: &Mounts, process: Pid) {
    mounts.wait(process);
    assert!(!is_mounted(&mounts.mountpoint()));
    assert_eq!(fs::read_dir(mounts.mountpoint()).unwrap().count(), 0);
    if !mounts.is_daemon {
        assert_eq!(mounts.code(process), Some(0));
        assert_eq!(fs::read_to_string(mounts.s.path("log-a")).unwrap(), "");
    }
}

#[test]
fn an_unused_mount_ends() {
    each(|mounts| {
        let process = mounts.start_with("a", &["--idle", "1s"]).unwrap();
        ends(&mounts, process);
    });
}

#[test]
fn an_open_file_keeps_a_mount_and_nothing_written_is_lost() {
    each(|mounts| {
        let (process, limit, file) = held(&mounts);
        let written = File::options().append(true).open(mounts.s.path("mnt/name")).ok();
        written.iter().for_each(|mut file| file.write_all(b" and more").unwrap());
        beyond(limit);
        assert!(is_mounted(&mounts.mountpoint()));
        drop(file);
        let is_volume = written.is_some();
        if let Some(mut file) = written {
            beyond(limit);
            assert!(is_mounted(&mounts.mountpoint()));
            file.write_all(b" at last").unwrap();
        }
        ends(&mounts, process);
        let process = mounts.start("a").unwrap();
        assert_eq!(mounts.letter(), if is_volume { "a and more at last" } else { "a" });
        mounts.unmount(&[]);
        mounts.wait(process);
    });
}

#[test]
fn a_working_directory_keeps_a_mount() {
    each(|mounts| {
        let (process, limit, file) = held(&mounts);
        let mut command = Command::new("cat");
        command.current_dir(mounts.mountpoint()).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut inside = command.spawn().unwrap();
        drop(file);
        beyond(limit);
        assert!(is_mounted(&mounts.mountpoint()));
        assert_eq!(mounts.letter(), "a");
        drop(inside.stdin.take());
        inside.wait().unwrap();
        ends(&mounts, process);
    });
}

#[test]
fn requests_keep_a_mount() {
    each(|mounts| {
        let (process, limit, file) = held(&mounts);
        let (begun, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
        // Closing the last file is a request too.
        drop(file);
        while begun.elapsed() < limit * 3 {
            let now = Instant::now();
            let _ = fs::metadata(mounts.s.path(&format!("mnt/{}", begun.elapsed().as_nanos())));
            longest = longest.max(last.elapsed());
            last = now;
            sleep(Duration::from_millis(10));
        }
        longest = longest.max(last.elapsed());
        if longest < limit {
            assert!(is_mounted(&mounts.mountpoint()));
        } else {
            // The machine paused, and the mount was idle for its time.
            println!("{longest:?} passed without a request");
            skip("speed");
        }
        ends(&mounts, process);
    });
}

#[test]
fn asking_for_free_space_does_not_keep_a_mount() {
    each(|mounts| {
        let process = mounts.start_with("a", &["--idle", "1s"]).unwrap();
        wait_for(|| {
            let _ = rustix::fs::statfs(mounts.mountpoint());
            let _ = fs::metadata(mounts.mountpoint());
            sleep(Duration::from_millis(100));
            !is_mounted(&mounts.mountpoint())
        });
        ends(&mounts, process);
    });
}

#[test]
fn an_idle_mount_leaves_its_successor() {
    each(|mounts| {
        // First case: the limit passes while the process is stopped, after it has been unmounted. Only the path is open:
        // closing a file is a request, and by io_uring the kernel does not unmount before a request that was sent to a
        // stopped process has reached it.
        let path_only = |path: &Path| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok();
        let (first, limit) = loop {
            let (first, limit, holder) = held_by(&mounts, path_only);
            drop(holder);
            stop(first);
            if is_mounted(&mounts.mountpoint()) {
                break (first, limit);
            }
            kill_process(first, Signal::CONT).unwrap();
            mounts.wait(first);
        };
        mounts.unmount(&[]);
        let second = mounts.start("b").unwrap();
        beyond(limit);
        kill_process(first, Signal::CONT).unwrap();
        mounts.wait(first);
        assert_eq!(mounts.letter(), "b");
        mounts.unmount(&[]);
        mounts.wait(second);

        // Second case: the limit passes while the mount continues without a name.
        let (first, limit, file) = held(&mounts);
        mounts.unmount(&["-z"]);
        let second = mounts.start("b").unwrap();
        beyond(limit);
        assert_eq!(mounts.letter(), "b");
        assert_eq!(std::io::read_to_string(&file).unwrap(), "a");
        drop(file);
        mounts.wait(first);
        assert_eq!(mounts.letter(), "b");
        mounts.unmount(&[]);
        mounts.wait(second);
    });
}

#[test]
fn a_mount_on_top_keeps_a_mount() {
    if !geteuid().is_root() {
        return skip("root");
    }
    each(|mounts| {
        let (first, limit, file) = held(&mounts);
        match mount("x", mounts.mountpoint(), "tmpfs", MountFlags::empty(), None) {
            Err(Errno::PERM) => return skip("root"),
            done => done.unwrap(),
        }
        drop(file);
        beyond(limit);
        fs::write(mounts.s.path("mnt/over"), "over").unwrap();
        wait_for(|| unmount(mounts.mountpoint(), UnmountFlags::empty()).is_ok());
        ends(&mounts, first);
    });
}

#[test]
fn a_time_needs_a_unit() {
    let s = Sandbox::new();
    for wrong in ["10", "0s", "1d", "1h30m", ""] {
        let line = s.run(&["mount", "--idle", wrong, "a", "b"]).fails(2);
        assert!(line.contains("--idle"), "{wrong}: {line}");
    }
}
