//! The processes of servers. None outlives this process.

use crate::measure::programs::one_line;
use crate::measure::{Error, Result, lock, machine};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// How long a server may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The servers of this process, for [`end_all`].
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Ends all servers. It is called when a signal is about to end this process.
pub fn end_all() {
    for pid in lock(&RUNNING).iter() {
        let _it_may_have_ended = kill_process(*pid, Signal::TERM);
    }
}

/// A running server. It ends on drop.
pub struct Process {
    name: String,
    child: Child,
    pid: Pid,
    /// The last lines that it wrote to stderr.
    said: Arc<Mutex<Vec<String>>>,
    lines: Receiver<String>,
}

impl Process {
    /// Starts a server on the core of this thread.
    pub fn start(name: &str, mut command: Command) -> Result<Self> {
        let failed = |e: std::io::Error| Error::NotRun(format!("{name}: {e}"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(failed)?;
        let pid = Pid::from_child(&child);
        lock(&RUNNING).push(pid);
        let said = Arc::new(Mutex::new(Vec::new()));
        let (sender, lines) = channel();
        if let Some(stderr) = child.stderr.take() {
            let said = said.clone();
            // Somebody must read what it says, or else it waits.
            thread::spawn(move || {
                for line in BufReader::new(stderr).split(b'\n').map_while(std::result::Result::ok) {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    let mut said = lock(&said);
                    if said.len() == 20 {
                        said.remove(0);
                    }
                    said.push(line.clone());
                    let _nobody_may_listen = sender.send(line);
                }
            });
        }
        Ok(Self { name: name.to_owned(), child, pid, said, lines })
    }

    /// Waits until a line of stderr says what is sought.
    pub fn wait_for_line<T>(&mut self, mut seek: impl FnMut(&str) -> Option<T>) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(found) = seek(&line) {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(self.failed("it does not start")),
                Err(RecvTimeoutError::Disconnected) => return Err(self.failed("it has ended")),
            }
        }
    }

    /// Tries something again and again until the server serves.
    pub fn wait_until<T>(&mut self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            match act() {
                Ok(done) => return Ok(done),
                Err(_) if self.child.try_wait().ok().flatten().is_some() => {
                    // What it has said may still be on its way.
                    sleep(Duration::from_millis(100));
                    return Err(self.failed("it has ended"));
                }
                Err(error) if Instant::now() > end => return Err(self.failed(&error.to_string())),
                Err(_) => sleep(Duration::from_millis(20)),
            }
        }
    }

    fn failed(&self, why: &str) -> Error {
        let said = one_line(lock(&self.said).join(" ").as_bytes());
        Error::NotRun(format!("{}: {why}: {said}", self.name).trim_end_matches([':', ' ']).to_owned())
    }

    /// Its resident memory in KiB.
    pub fn resident_kib(&self) -> Option<u64> {
        machine::number(&format!("/proc/{}/status", self.child.id()), "VmRSS")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::TERM);
        let end = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = self.child.kill();
            }
            sleep(Duration::from_millis(10));
        }
        lock(&RUNNING).retain(|pid| *pid != self.pid);
    }
}

/// Runs a command to its end, and returns what it wrote to stdout. What it wrote to stderr is the reason for its failure.
pub fn output(name: &str, mut command: Command) -> Result<String> {
    let failed = |why: &str| Error::NotRun(format!("{name}: {why}"));
    let output = command.stdin(Stdio::null()).output().map_err(|e| failed(&e.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(failed(&one_line(&output.stderr))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_server_is_waited_for_and_ended() {
        let mut process = Process::start("sh", shell("echo no >&2; echo here 7 >&2; exec sleep 100")).unwrap();
        let found = process.wait_for_line(|line| line.strip_prefix("here ").map(String::from)).unwrap();
        assert_eq!(found, "7");
        assert!(process.resident_kib().is_some());
        let pid = process.pid;
        drop(process);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[test]
    fn a_server_that_does_not_start_says_why() {
        let mut process = Process::start("sh", shell("echo no such folder >&2; exit 1")).unwrap();
        let error = process.wait_for_line(|_| None::<()>).err().unwrap().to_string();
        assert_eq!(error, "sh: it has ended: no such folder");
        let mut process = Process::start("sh", shell("exit 1")).unwrap();
        let error = process.wait_until(|| Err::<(), _>(Error::NotRun("no".into()))).err().unwrap().to_string();
        assert_eq!(error, "sh: it has ended");
        assert_eq!(output("sh", shell("echo why >&2; exit 2")).err().unwrap().to_string(), "sh: why");
        assert_eq!(output("sh", shell("echo token")).unwrap(), "token");
    }
}
