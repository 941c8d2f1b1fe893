//! Mounts of this process. They are all unmounted, even if the run fails or is interrupted.

use crate::measure::load::reap;
use crate::measure::programs::{command, failure, find, one_line};
use crate::measure::{Error, Result, lock, machine};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The mount points of this process, for [`unmount_all`].
static MOUNTED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How long it may take to mount and to unmount. Unmounting writes what is not written yet.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// The reason why nothing can be mounted here, if there is one.
pub fn missing() -> Option<String> {
    if !Path::new("/dev/fuse").exists() {
        return Some("no FUSE (no /dev/fuse)".into());
    }
    fusermount().is_none().then(|| "no FUSE (no fusermount3)".into())
}

fn fusermount() -> Option<PathBuf> {
    find("fusermount3").or_else(|| find("fusermount"))
}

/// A mount, unmounted on drop.
pub struct Mounted {
    at: PathBuf,
    processes: Vec<u32>,
}

impl Mounted {
    /// Runs the command that mounts, and waits until the mount is there. A volume that was mounted just before may
    /// still be in use by the process that is about to end, so a failure is tried again for a while.
    pub fn new(at: &Path, command: &dyn Fn() -> Command) -> Result<Self> {
        let started = Instant::now();
        let mut mounted = loop {
            // While the lock is held, the handler of a signal waits. It unmounts what is in the list then.
            let mut all = lock(&MOUNTED);
            match run(command(), at) {
                Ok(()) => {
                    all.push(at.to_owned());
                    while !is_mounted(at) && started.elapsed() < PATIENCE {
                        sleep(PAUSE);
                    }
                    break Self { at: at.to_owned(), processes: Vec::new() };
                }
                Err(error) if started.elapsed() > PATIENCE / 6 => return Err(error),
                Err(_) => drop(all),
            }
            sleep(PAUSE * 10);
        };
        if !is_mounted(at) {
            return Err(Error::Program(format!("{}: nothing was mounted", at.display())));
        }
        mounted.processes = serving(at);
        Ok(mounted)
    }

    /// The largest resident memory of the processes that serve it, in KiB.
    pub fn peak_kib(&self) -> Option<u64> {
        self.processes.iter().filter_map(|process| machine::peak_kib(*process)).reduce(|a, b| a + b)
    }

    /// Unmounts, and waits until the processes have ended. Everything is written then.
    pub fn unmount(self) -> Result<()> {
        let started = Instant::now();
        while is_mounted(&self.at) {
            let Err(error) = unmount(&self.at, "-u") else { break };
            // A process may still be leaving the folder.
            if started.elapsed() > PATIENCE / 6 {
                return Err(error);
            }
            sleep(PAUSE);
        }
        while self.processes.iter().any(|process| is_serving(*process, &self.at)) {
            if started.elapsed() > PATIENCE {
                return Err(Error::Program(format!("{}: its process does not end", self.at.display())));
            }
            sleep(PAUSE);
        }
        // After this their time counts as that of this run.
        self.processes.iter().copied().for_each(reap);
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let mut all = lock(&MOUNTED);
        if is_mounted(&self.at) {
            let _ = unmount(&self.at, "-u -z");
        }
        all.retain(|at| *at != self.at);
    }
}

/// Unmounts everything that this process has mounted. Until the returned guard is dropped, nothing new is mounted. It
/// is called when a signal is about to end the process.
#[must_use]
pub fn unmount_all() -> impl Sized {
    let all = lock(&MOUNTED);
    for at in all.iter() {
        let _ = unmount(at, "-u -z");
    }
    all
}

/// Unmounts what a killed run has left below a folder.
pub fn unmount_below(folder: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    // Deeper mount points come first.
    for at in points.filter(|at| Path::new(at).starts_with(folder)).collect::<Vec<_>>().into_iter().rev() {
        let _ = unmount(Path::new(at), "-u -z");
    }
}

fn unmount(at: &Path, options: &str) -> Result<()> {
    let program = fusermount().ok_or_else(|| Error::Program("no fusermount3".into()))?;
    run(command(&format!("{{fusermount}} {options} {{at}}"), &[("fusermount", &program), ("at", at)]), at)
}

/// Runs a command to its end. Its stderr goes to a file, because a background process that it starts may keep stderr
/// open.
fn run(mut command: Command, at: &Path) -> Result<()> {
    let failed = failure(&command);
    let log = at.with_extension("log");
    let file = fs::File::create(&log).map_err(Error::at(&log))?;
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).status();
    let status = status.map_err(|e| failed(&e.to_string()))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(&format!("{status}: {}", one_line(&fs::read(&log).unwrap_or_default())))),
    }
}

/// Whether something is mounted at a folder.
fn is_mounted(at: &Path) -> bool {
    let device = |path: &Path| fs::symlink_metadata(path).map(|meta| meta.dev());
    match (device(at), at.parent().map(device)) {
        (Ok(inside), Some(Ok(outside))) => inside != outside,
        // This is the error if the process that serves it is dead.
        (Err(e), _) => e.kind() == std::io::ErrorKind::NotConnected,
        _ => false,
    }
}

/// The processes whose arguments name the mount point.
fn serving(at: &Path) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| *id != std::process::id() && is_serving(*id, at)).collect()
}

fn is_serving(process: u32, at: &Path) -> bool {
    let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    arguments.split(|byte| *byte == 0).any(|argument| argument == at.as_os_str().as_bytes())
}
