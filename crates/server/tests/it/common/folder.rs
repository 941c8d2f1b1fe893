//! The folder of a server, with a root key and the file that opens it.

use super::Server;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// The program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx-server");

/// The folder of a server. It is deleted on drop.
pub struct Folder {
    temp: TempDir,
}

impl Folder {
    /// A folder that `init` has made.
    pub fn new() -> Arc<Self> {
        Self::by_init(&[])
    }

    /// A folder that `init` has made with these options.
    pub fn by_init(options: &[&str]) -> Arc<Self> {
        let folder = Self::bare();
        let output = folder.run(["init"].into_iter().chain(options.iter().copied()));
        assert!(output.status.success(), "init: {}", String::from_utf8_lossy(&output.stderr));
        folder
    }

    /// No folder yet, and a key file.
    pub fn bare() -> Arc<Self> {
        let temp = TempDir::new().expect("no temporary folder");
        let folder = Self { temp };
        let mut rules = OpenOptions::new();
        let key = rules.write(true).create_new(true).mode(0o600).open(folder.key_file());
        key.and_then(|mut key| key.write_all(&[7; 32])).expect("no key file");
        Arc::new(folder)
    }

    /// A folder for another server of the same store, as the documentation says: a copy of two files.
    pub fn another(&self) -> Arc<Self> {
        let other = Self::bare();
        std::fs::create_dir(other.dir()).expect("no folder");
        for name in ["root.phx", "store"] {
            std::fs::copy(self.dir().join(name), other.dir().join(name)).expect("no copy");
        }
        other
    }

    /// What `--dir` names.
    pub fn dir(&self) -> PathBuf {
        self.temp.path().join("dir")
    }

    /// A path beside it, for other files of a test.
    pub fn beside(&self, name: impl AsRef<Path>) -> PathBuf {
        self.temp.path().join(name)
    }

    /// What `--key-file` names.
    pub fn key_file(&self) -> PathBuf {
        self.beside("key")
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.dir().join("server.sock")
    }

    /// The program with a command and its options, and with the folder in the environment. The key file is given to those
    /// commands that need it.
    pub fn command<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(PROGRAM);
        let arguments: Vec<&str> = arguments.into_iter().collect();
        let needs_key = matches!(arguments.first(), Some(&("init" | "run" | "check" | "restore")));
        command
            .args(&arguments)
            .env("PHALANX_SERVER_DIR", self.dir())
            .env_remove("NOTIFY_SOCKET")
            .env_remove("LISTEN_FDS");
        if needs_key {
            command.arg("--key-file").arg(self.key_file());
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Output {
        self.command(arguments).output().expect("the program does not start")
    }

    /// Starts a server in this folder, with options of `run`, and waits until it serves.
    pub fn start(self: &Arc<Self>, options: &[&str]) -> Server {
        Server::in_folder(self.clone(), options)
    }
}
