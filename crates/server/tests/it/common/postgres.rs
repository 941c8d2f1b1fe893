//! A PostgreSQL of a test's own, which only its Unix socket reaches.

use super::{PATIENCE, port, skipped};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A database. It ends, and is deleted, on drop.
pub struct Database {
    temp: TempDir,
    programs: PathBuf,
    port: u16,
    options: Vec<String>,
    child: Option<Child>,
}

impl Database {
    /// A new one that runs, if PostgreSQL is installed.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            skipped("postgres");
            return None;
        };
        let temp = TempDir::new().expect("no temporary folder");
        if let Some(id) = user() {
            chown(temp.path(), Some(id), Some(id)).expect("the folder cannot be given away");
        }
        let mut database = Self { temp, programs, port: 5432, options: Vec::new(), child: None };
        let data = database.data();
        let options = ["--auth=trust", "--username=phalanx", "--no-locale", "--encoding=UTF8", "--pgdata"];
        let made = database.program("initdb").args(options).arg(&data).output().expect("initdb does not start");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        database.begin();
        Some(database)
    }

    fn data(&self) -> PathBuf {
        self.temp.path().join("data")
    }

    /// A program of PostgreSQL, as a user who may run it.
    fn program(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = match user() {
            Some(id) => {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={id}"), format!("--regid={id}"), "--clear-groups".into()]).arg(path);
                command
            }
            None => Command::new(path),
        };
        command.current_dir(self.temp.path()).stdin(Stdio::null());
        command
    }

    /// What `--store` names.
    pub fn url(&self) -> String {
        format!("postgresql:///postgres?user=phalanx&host={}", self.temp.path().display())
    }

    /// Begins again, and listens on a port of this machine with TLS. Returns the port.
    pub fn speak_tls(&mut self, certificate: &Path, key: &Path) -> u16 {
        self.kill();
        self.port = port();
        self.options = ["listen_addresses=127.0.0.1", "ssl=on"].map(str::to_owned).to_vec();
        for (setting, from) in [("ssl_cert_file", certificate), ("ssl_key_file", key)] {
            let to = self.temp.path().join(setting);
            std::fs::copy(from, &to).expect("no copy");
            std::fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("no mode");
            if let Some(id) = user() {
                chown(&to, Some(id), Some(id)).expect("the file cannot be given away");
            }
            self.options.push(format!("{setting}={}", to.display()));
        }
        self.begin();
        self.port
    }

    /// Begins again, and waits until it answers.
    pub fn begin(&mut self) {
        let sockets = format!("unix_socket_directories={}", self.temp.path().display());
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).args(["-c", "listen_addresses=", "-c", &sockets]);
        command.args(["-p", &self.port.to_string()]);
        command.args(self.options.iter().flat_map(|option| ["-c", option]));
        let log = std::fs::File::create(self.temp.path().join("log")).expect("no log");
        command.stdout(log.try_clone().expect("no log")).stderr(log);
        self.child = Some(command.spawn().expect("postgres does not start"));
        let end = Instant::now() + PATIENCE;
        while self.ask("SELECT 1").is_none() {
            let ended = self.child.as_mut().expect("it was started").try_wait().expect("it cannot be waited for");
            assert!(ended.is_none(), "{}", std::fs::read_to_string(self.temp.path().join("log")).unwrap_or_default());
            assert!(Instant::now() < end, "postgres does not answer");
            sleep(Duration::from_millis(20));
        }
    }

    /// What a query answers, without decoration.
    pub fn ask(&self, sql: &str) -> Option<String> {
        let mut command = self.program("psql");
        command.arg("-h").arg(self.temp.path()).args([
            "-p",
            &self.port.to_string(),
            "-U",
            "phalanx",
            "-XAtqc",
            sql,
            "postgres",
        ]);
        let output = command.output().expect("psql does not start");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Sends a signal to the main process, which is the one that was started.
    pub fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().expect("it runs").id();
        kill_process(Pid::from_raw(pid.cast_signed()).expect("a process"), signal).expect("no signal can be sent");
    }

    /// Sends a signal to the processes that serve connections too.
    pub fn signal_all(&self, signal: Signal) {
        let parent = self.child.as_ref().expect("it runs").id().to_string();
        let ids = Command::new("ps").args(["-o", "pid=", "--ppid", &parent]).output().expect("ps does not start");
        let ids = String::from_utf8_lossy(&ids.stdout).into_owned();
        self.signal(signal);
        for pid in ids.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends it at once, as a power cut would, and waits for that.
    pub fn kill(&mut self) {
        if self.child.is_some() {
            // All of its processes end, and nothing is written any more.
            self.signal(Signal::QUIT);
            let _ = self.child.take().map(|mut child| child.wait());
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where the newest PostgreSQL has its programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let bin = versions.filter(|path| path.join("bin/initdb").exists()).max_by_key(|path| number(path))?;
    Some(bin.join("bin"))
}

/// The user who runs it, because PostgreSQL refuses root.
fn user() -> Option<u32> {
    if !geteuid().is_root() {
        return None;
    }
    let id = Command::new("id").args(["-u", "postgres"]).output().ok()?;
    String::from_utf8_lossy(&id.stdout).trim().parse().ok()
}
