//! MPI jobs: how they are started, watched, slowed down and killed. No job outlives this process.

use crate::measure::hpc::cluster::timings::Timings;
use crate::measure::programs::{one_line, require};
use crate::measure::setup::HpcOptions;
use crate::measure::{Error, Result, Scratch, lock, machine, scratch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// The settings of the launcher: it allows more processes than cores, binds none to a core, and works for root. These
/// are for Open MPI 4 and 5. Other launchers do all this by default.
const SETTINGS: [(&str, &str); 6] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ("PRTE_MCA_hwloc_default_binding_policy", "none"),
];
/// A script in which each process writes its process id into a file and then becomes the program.
const WRITE_ID: &str = r#"echo $$ > "$0.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exec "$@""#;
/// How long a process may take to start, and to end after it was killed.
const PATIENCE: Duration = Duration::from_secs(30);
/// A slowed process is stopped for half of each period.
const PERIOD: Duration = Duration::from_millis(40);

/// The launchers and processes of this process's jobs, for [`end_all`].
static RUNNING: Mutex<Vec<Process>> = Mutex::new(Vec::new());

/// Ends all jobs, even stopped ones. It is called when a signal is about to end this process.
pub fn end_all() {
    lock(&RUNNING).iter().for_each(Process::end);
}

pub struct Programs {
    mpirun: PathBuf,
    /// The program that is measured.
    pub phalanx_mpi: PathBuf,
    /// The copy with the same processes, if it is built.
    copy: Option<PathBuf>,
}

impl Programs {
    /// Finds the programs. The error names the one that is missing.
    pub fn find(options: &HpcOptions) -> Result<Self> {
        let phalanx_mpi = options.program.clone().ok_or_else(|| Error::NotRun("no phalanx-mpi".into()))?;
        let mpirun = options.mpirun.clone().map_or_else(|| require("mpirun"), Ok)?;
        let copies = ["parallel-copy", "examples/parallel-copy"].map(|name| phalanx_mpi.with_file_name(name));
        Ok(Self { mpirun, phalanx_mpi, copy: copies.into_iter().find(|path| path.is_file()) })
    }

    /// The copy with the same processes. It is an error if there is none.
    pub fn copy(&self) -> Result<&Path> {
        self.copy.as_deref().ok_or_else(|| Error::NotRun("no parallel-copy".into()))
    }

    pub fn job(&self, processes: usize, program: &Path, args: impl IntoIterator<Item = OsString>) -> Job {
        let args = args.into_iter().collect();
        Job { mpirun: Some(self.mpirun.clone()), processes, program: program.to_owned(), args }
    }
}

/// A command for a number of processes.
#[derive(Clone)]
pub struct Job {
    /// What starts the processes, unless the program itself does.
    mpirun: Option<PathBuf>,
    processes: usize,
    program: PathBuf,
    args: Vec<OsString>,
}

pub struct Ended {
    /// From before the launcher's start to its end.
    pub seconds: f64,
    pub text: String,
}

impl Job {
    /// A job of a program that starts its processes itself.
    pub fn own(processes: usize, program: &Path, args: impl IntoIterator<Item = OsString>) -> Self {
        Self { mpirun: None, processes, program: program.to_owned(), args: args.into_iter().collect() }
    }

    fn failed(&self, why: &str) -> Error {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        let processes = if self.processes == 1 { "process" } else { "processes" };
        Error::Program(format!("{name} with {} {processes}: {why}", self.processes))
    }

    pub fn run(&self) -> Result<Ended> {
        self.start(None)?.wait()
    }

    /// Starts the job, and waits until the ids of its processes are known.
    pub fn start_seen(&self, scratch: &Scratch) -> Result<Running> {
        let id_files = scratch.path("process");
        let mut job = self.start(Some(&id_files))?;
        job.see_all(&id_files)?;
        Ok(job)
    }

    /// Runs the job to its end. The last process is stopped for half of the time.
    pub fn run_slowed(&self, scratch: &Scratch) -> Result<Ended> {
        let mut job = self.start_seen(scratch)?;
        job.slow_down()?;
        job.wait()
    }

    /// Starts the job. With `id_files`, each process writes its id into a file whose path begins with this.
    pub fn start(&self, id_files: Option<&Path>) -> Result<Running> {
        let mut command = Command::new(self.mpirun.as_ref().unwrap_or(&self.program));
        if self.mpirun.is_some() {
            command.arg("-n").arg(self.processes.to_string());
        }
        if let Some(id_files) = id_files {
            for rank in 0..self.processes {
                scratch::remove(&file_of(id_files, rank))?;
            }
            command.args(["sh", "-c", WRITE_ID]).arg(id_files);
        }
        if self.mpirun.is_some() {
            command.arg(&self.program);
        }
        command.args(&self.args);
        for (name, value) in SETTINGS {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        command.env_remove("PHALANX_PASSWORD");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let begun = Instant::now();
        let mut child = command.spawn().map_err(|e| self.failed(&e.to_string()))?;
        let mut stderr = child.stderr.take().expect("it is piped");
        let text = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut job = Running { job: self.clone(), begun, child, text: Some(text), seen: Vec::new(), status: None };
        let launcher = open(job.child.id()).map_err(|e| self.failed(&e.to_string()))?;
        job.see(job.child.id(), launcher);
        Ok(job)
    }
}

fn file_of(id_files: &Path, rank: usize) -> PathBuf {
    let mut name = id_files.as_os_str().to_owned();
    name.push(format!(".{rank}"));
    name.into()
}

fn open(id: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// A running job. It is killed on drop.
pub struct Running {
    job: Job,
    begun: Instant,
    child: Child,
    text: Option<JoinHandle<String>>,
    /// The launcher, and then the processes that are known.
    seen: Vec<Process>,
    status: Option<ExitStatus>,
}

#[derive(Clone)]
struct Process {
    id: u32,
    is_launcher: bool,
    handle: Arc<OwnedFd>,
}

impl Process {
    fn signal(&self, signal: Signal) {
        // The process may have ended.
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// Ends the process, even if it is stopped. A launcher gets a signal with which it cleans up, and ends processes
    /// that are not known here.
    fn end(&self) {
        self.signal(if self.is_launcher { Signal::TERM } else { Signal::KILL });
    }

    fn ends(&self, within: Duration) -> bool {
        let within = Timespec::try_from(within).ok();
        let ended = poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], within.as_ref());
        ended.is_ok_and(|ready| ready > 0)
    }
}

impl Running {
    fn see(&mut self, id: u32, handle: OwnedFd) {
        let process = Process { id, is_launcher: self.seen.is_empty(), handle: Arc::new(handle) };
        lock(&RUNNING).push(process.clone());
        self.seen.push(process);
    }

    /// Waits until all processes have written their ids, or the job is over.
    pub fn see_all(&mut self, id_files: &Path) -> Result<()> {
        for rank in 0..self.job.processes {
            let path = file_of(id_files, rank);
            loop {
                let text = fs::read_to_string(&path).unwrap_or_default();
                if let Some(id) = text.strip_suffix('\n').and_then(|id| id.parse().ok()) {
                    // A process that has ended needs no handle.
                    if let Ok(handle) = open(id) {
                        self.see(id, handle);
                    }
                    break;
                }
                if self.is_over()? {
                    return Ok(());
                }
                if self.begun.elapsed() > PATIENCE {
                    return Err(self.job.failed(&format!("process {rank} does not start")));
                }
                sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    fn is_over(&mut self) -> Result<bool> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(|e| self.job.failed(&e.to_string()))?;
        }
        Ok(self.status.is_some())
    }

    /// Stops the last process for half of the time, until the job is over.
    pub fn slow_down(&mut self) -> Result<()> {
        let Some(process) = self.seen[1..].last().cloned() else { return Ok(()) };
        while !self.is_over()? {
            process.signal(Signal::STOP);
            sleep(PERIOD / 2);
            process.signal(Signal::CONT);
            if process.ends(PERIOD / 2) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The largest resident memory of any process, in KiB, as the system counts it. Waits until the job is over.
    pub fn peak_kib(&mut self) -> Result<Option<u64>> {
        let mut peak = None;
        while !self.is_over()? {
            peak = self.seen[1..].iter().filter_map(|process| machine::peak_kib(process.id)).max().max(peak);
            sleep(Duration::from_millis(10));
        }
        Ok(peak)
    }

    /// Kills all processes when together they have written this many bytes. This ends the job. Returns false if the job
    /// was over before that, or if the system does not show what they write.
    pub fn kill_after(mut self, bytes: u64) -> Result<bool> {
        let mut seen = 0;
        while seen < bytes {
            if self.is_over()? {
                return Ok(false);
            }
            let written = |process: &Process| machine::number(&format!("/proc/{}/io", process.id), "wchar");
            seen = self.seen[1..].iter().filter_map(written).sum();
            sleep(Duration::from_millis(1));
        }
        self.seen[1..].iter().for_each(Process::end);
        match self.seen.iter().rev().all(|process| process.ends(PATIENCE)) {
            true => Ok(true),
            false => Err(self.job.failed("it was killed and does not end")),
        }
    }

    /// Waits until the job ends. It is an error if it fails.
    pub fn wait(mut self) -> Result<Ended> {
        let status = match self.status {
            Some(status) => status,
            None => self.child.wait().map_err(|e| self.job.failed(&e.to_string()))?,
        };
        self.status = Some(status);
        let seconds = self.begun.elapsed().as_secs_f64();
        let text = self.text.take().and_then(|text| text.join().ok()).unwrap_or_default();
        match status.success() {
            true => Ok(Ended { seconds, text }),
            false => Err(self.job.failed(&format!("{status}: {}", one_line(text.as_bytes())))),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.seen.iter().rev().for_each(Process::end);
            if !self.seen.first().is_some_and(|launcher| launcher.ends(PATIENCE)) {
                let _ = self.child.kill();
            }
            let _ = self.child.wait();
        }
        lock(&RUNNING).retain(|other| !self.seen.iter().any(|mine| Arc::ptr_eq(&mine.handle, &other.handle)));
    }
}

impl Ended {
    /// The times that its programs have reported for work on this many bytes.
    pub fn timings(&self, bytes: u64) -> Timings {
        Timings::read(&self.text, bytes)
    }
}

/// Takes a file out of the page cache, as far as the system allows it. What is not on the disk yet is written first.
pub fn evict(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(Error::at(path))?;
    file.sync_all().map_err(Error::at(path))?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
        .map_err(|e| Error::Path(path.to_owned(), e.into()))
}
