//! A folder with a key, and programs that run in it.

use phalanx_core::{KdfLimit, Opener, ProtectedFile, Roster, SecretKey, Sink};
use phalanx_host::file;
use rustix::process::{Pid, Signal, kill_process};
use std::env;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder with the key `k`.
pub struct Job {
    dir: TempDir,
    launcher: String,
}

/// What a run has printed and returned.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub error: String,
}

impl Ended {
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.error);
        self
    }

    #[track_caller]
    pub fn fails(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.error);
        self
    }

    /// What the program has written to standard error, without the launcher's own lines.
    pub fn lines(&self) -> Vec<&str> {
        self.error.lines().filter_map(|line| line.strip_prefix("phalanx-mpi: ")).collect()
    }
}

impl Job {
    /// `None` if there is no launcher. PHALANX_REQUIRE may name it: `mpi`.
    pub fn new() -> Option<Self> {
        let launcher = env::var("PHALANX_MPIRUN").unwrap_or_else(|_| "mpirun".into());
        if !has(&launcher, "mpi", "--version") {
            return None;
        }
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("k"), [7; 32]).unwrap();
        fs::set_permissions(dir.path().join("k"), fs::Permissions::from_mode(0o600)).unwrap();
        Some(Self { dir, launcher })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Removes the manifest of a mirror, and what is remembered of mirrors.
    pub fn forget(&self, mirror: &str) {
        let _ = fs::remove_file(self.path(mirror).join("phalanx.tree"));
        let _ = fs::remove_dir_all(self.path("state"));
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// The names of temporary files and records that runs have left.
    pub fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name.starts_with(".phalanx-")).collect()
    }

    /// The launcher with its own arguments.
    pub fn launcher(&self) -> Command {
        let mut command = Command::new(&self.launcher);
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        // Open MPI refuses root, and more processes than cores, unless these variables are set.
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"] {
            command.env(name, "1");
        }
        command.env("OMPI_MCA_hwloc_base_binding_policy", "none");
        command.env("PHALANX_STATE", self.path("state"));
        command.env("PHALANX_KEYRING", self.path("keys")).env_remove("PHALANX_PASSWORD");
        command
    }

    pub fn command(&self, ranks: usize, args: &[&str]) -> Command {
        let mut command = self.launcher();
        command.args(["-n", &ranks.to_string(), PROGRAM]).args(args);
        command
    }

    pub fn run(&self, ranks: usize, args: &[&str]) -> Ended {
        end(self.command(ranks, args))
    }

    /// The command of a run with each process under strace with these options. `None` if there is no strace.
    /// PHALANX_REQUIRE may name it.
    pub fn traced(&self, ranks: usize, options: &[&str], args: &[&str]) -> Option<Command> {
        if !has("strace", "strace", "-V") {
            return None;
        }
        let mut command = self.launcher();
        command.args(["-n", &ranks.to_string(), "strace", "-f", "-qq", "-o", "/dev/null"]).args(options);
        command.arg(PROGRAM).args(args);
        Some(command)
    }

    /// Starts a run that is to be disturbed.
    pub fn spawn(&self, ranks: usize, args: &[&str]) -> Child {
        self.command(ranks, args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The plaintext of a protected file, opened by this process.
    pub fn opened(&self, name: &str) -> Vec<u8> {
        let file = File::open(self.path(name)).unwrap();
        let keys = Opener::new(SecretKey::from_slice(&[7; 32]).unwrap(), KdfLimit::default());
        let mut bytes = Vec::new();
        let protected = ProtectedFile::open(file::regular(&file).unwrap(), &keys).unwrap();
        protected.unprotect(&Roster::cpu(), Sink::Stream(Box::new(&mut bytes)), &()).unwrap();
        bytes
    }
}

/// Whether a program is there, and runs with this option. If not, prints a line. PHALANX_REQUIRE may name it.
fn has(program: &str, name: &str, option: &str) -> bool {
    if Command::new(program).arg(option).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok() {
        return true;
    }
    let required = env::var("PHALANX_REQUIRE").unwrap_or_default();
    assert!(!required.split([',', ' ']).any(|required| required == name), "PHALANX_REQUIRE names {name}: no {program}");
    println!("skipped: no {program}");
    false
}

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx-mpi");

/// The longest that a run may take before it is killed and its test fails.
const LONGEST: Duration = Duration::from_secs(300);

/// Kills a launcher and all processes of the program below it.
fn kill(launcher: u32) {
    ranks_below(launcher).into_iter().chain([launcher as i32]).for_each(|pid| signal(pid, Signal::KILL));
}

/// Waits until a run ends.
pub fn end(mut command: Command) -> Ended {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let launcher = child.id();
    let (send, ended) = channel();
    let waiting = thread::spawn(move || {
        let output = child.wait_with_output().unwrap();
        let _ = send.send(());
        output
    });
    let in_time = ended.recv_timeout(LONGEST).is_ok();
    if !in_time {
        kill(launcher);
    }
    let Output { status, stdout, stderr } = waiting.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, error) = (text(stdout), text(stderr));
    assert!(in_time, "it has not ended after {} s: {out}{error}", LONGEST.as_secs());
    Ended { code: status.code(), out, error }
}

/// Bytes that differ from chunk to chunk, with zeros in the second quarter.
pub fn painted(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (i / 7 % 253) as u8).collect();
    bytes[len / 4..len / 2].fill(0);
    bytes
}

pub fn is_exhaustive() -> bool {
    env::var_os("PHALANX_EXHAUSTIVE").is_some()
}

/// The processes of the program below a launcher.
pub fn ranks_below(launcher: u32) -> Vec<i32> {
    let stat = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let parent = |pid: i32| -> Option<i32> { stat(pid)?.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok() };
    let is_below = |mut pid: i32| loop {
        match parent(pid) {
            Some(above) if above == launcher as i32 => break true,
            Some(above) if above > 1 => pid = above,
            _ => break false,
        }
    };
    let is_rank =
        |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "phalanx-mpi");
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(is_rank).filter(|pid| is_below(*pid)).collect()
}

pub fn signal(pid: i32, signal: Signal) {
    // It may have ended already.
    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
}

/// Whether a run that began at this time has ended.
pub fn has_ended(child: &mut Child, begun: Instant) -> bool {
    let status = child.try_wait().unwrap();
    if status.is_none() && begun.elapsed() > LONGEST {
        kill(child.id());
        panic!("it has not ended after {} s", LONGEST.as_secs());
    }
    status.is_some()
}

/// Waits until a run and all its processes end.
pub fn wait(child: &mut Child, ranks: &[i32]) -> Option<i32> {
    let begun = Instant::now();
    while !has_ended(child, begun) {
        sleep(Duration::from_millis(1));
    }
    let code = child.wait().unwrap().code();
    let begun = Instant::now();
    while ranks.iter().any(|rank| is_running(*rank)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "processes are left");
        sleep(Duration::from_millis(5));
    }
    code
}

fn is_running(pid: i32) -> bool {
    // The first thread may have ended while another is still syncing, with all files open.
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && !line.contains(['Z', 'X']))
    })
}
