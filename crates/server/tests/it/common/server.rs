//! A running server.

use super::{Answer, Client, Folder, PATIENCE};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A running server. It is killed on drop.
pub struct Server {
    pub folder: Arc<Folder>,
    child: Child,
    lines: Arc<Lines>,
}

/// What it wrote to standard error.
#[derive(Default)]
struct Lines {
    lines: Mutex<(Vec<String>, bool)>,
    more: Condvar,
}

impl Server {
    /// Starts a server in a new folder, with options of `run`, and waits until it serves.
    pub fn start(options: &[&str]) -> Self {
        Folder::new().start(options)
    }

    /// Starts a server in a folder, with options of `run`, and waits until it serves.
    pub fn in_folder(folder: Arc<Folder>, options: &[&str]) -> Self {
        let command = folder.command(["run"].into_iter().chain(options.iter().copied()));
        Self::by(folder, command)
    }

    /// Starts a server by a command, and waits until it serves.
    pub fn by(folder: Arc<Folder>, command: Command) -> Self {
        let mut server = Self::begin(folder, command);
        let end = Instant::now() + PATIENCE;
        while !server.is_ready() {
            let ended = server.child.try_wait().expect("it cannot be waited for");
            assert!(ended.is_none(), "the server ended: {ended:?}\n{}", server.stderr());
            assert!(Instant::now() < end, "the server does not serve\n{}", server.stderr());
            thread::sleep(Duration::from_millis(3));
        }
        server
    }

    /// Starts a server by a command, and does not wait.
    pub fn begin(folder: Arc<Folder>, mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program does not start");
        let stderr = child.stderr.take().expect("it is piped");
        let lines = Arc::new(Lines::default());
        let own = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                own.lines
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
                    .push(String::from_utf8_lossy(&line).into_owned());
                own.more.notify_all();
            }
            own.lines.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
            own.more.notify_all();
        });
        Self { folder, child, lines }
    }

    fn is_ready(&self) -> bool {
        let Ok(mut client) = Client::try_unix(&self.folder.socket()) else { return false };
        client.try_request("GET", "/healthz", &[], b"").is_ok()
    }

    /// Its standard output, if the command has a pipe there. It can be taken once.
    pub fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("no pipe")
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> String {
        self.lines.lines.lock().unwrap_or_else(PoisonError::into_inner).0.join("\n")
    }

    /// Waits for a line on standard error that has this text in it.
    pub fn line(&self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        let mut lines = self.lines.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(line) = lines.0.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !lines.1, "no line with {text:?} in\n{}", lines.0.join("\n"));
            lines = self.lines.more.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The address of its first port, such as `127.0.0.1:41234`.
    pub fn address(&self) -> String {
        self.addresses(1).remove(0)
    }

    /// The addresses of its ports, as many as there must be.
    pub fn addresses(&self, many: usize) -> Vec<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let stderr = self.stderr();
            let listening = stderr.lines().filter_map(|line| line.split_once("listening on ")).map(|(_, at)| at);
            let at = listening.filter(|at| !at.starts_with("unix:"));
            let found: Vec<String> = at.filter_map(|at| at.split_whitespace().next()).map(str::to_owned).collect();
            if found.len() >= many {
                return found;
            }
            assert!(Instant::now() < end, "it does not say where it listens\n{stderr}");
            thread::sleep(Duration::from_millis(3));
        }
    }

    /// A new connection to its Unix socket.
    pub fn client(&self) -> Client {
        Client::unix(&self.folder.socket())
    }

    /// Sends one request over the Unix socket, on a connection of its own, with all rights.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.client().request(method, path, headers, body)
    }

    /// A GET.
    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    /// A POST of JSON.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }

    /// A POST of JSON by the owner of a token.
    pub fn post_by(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[("X-Vault-Token", token)], body.to_string().as_bytes())
    }

    /// Makes a token with these rights, such as `["seal:orders", "open:orders"]`. With `user=NAME` among them it is bound
    /// to that user.
    pub fn token(&self, rights: &[&str]) -> String {
        let answer = self.post("/v1/auth/token/create", &json!({ "policies": rights, "ttl": "1h" }));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["auth"]["client_token"].as_str().expect("a token").to_owned()
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The memory that it has, in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).expect("a number") << 10
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a process");
        kill_process(pid, signal).expect("no signal can be sent");
    }

    /// Waits until it has ended and all that it wrote to standard error has been read.
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it cannot be waited for") {
                break status;
            }
            assert!(Instant::now() < end, "the server does not end\n{}", self.stderr());
            thread::sleep(Duration::from_millis(3));
        };
        let mut lines = self.lines.lines.lock().unwrap_or_else(PoisonError::into_inner);
        while !lines.1 {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "its standard error does not end\n{}", lines.0.join("\n"));
            lines = self.lines.more.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        status
    }

    /// Ends it as `kill -9` does, at once and without warning, and returns its folder.
    pub fn kill(mut self) -> Arc<Folder> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.folder.clone()
    }

    /// Ends it in good order, as `systemctl stop` does, and returns how it ended.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A program that is killed does not write which of its lines ran: see .ci/coverage.
        let has_ended = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
        if std::env::var_os("LLVM_PROFILE_FILE").is_some() && !has_ended(&mut self.child) {
            self.signal(Signal::TERM);
            let end = Instant::now() + PATIENCE;
            while !has_ended(&mut self.child) && Instant::now() < end {
                thread::sleep(Duration::from_millis(3));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the server's standard error:\n{}", self.stderr());
        }
    }
}
