//! What the tests of the command share: a folder of its own for each test, and the program run in it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// A file that only its owner can read, as those of keys and passwords must be.
    pub fn secret(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(name, bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// The names in the folder, without the keyring, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name != "keyring");
        names.sort();
        names
    }

    /// The program, in the folder, with a keyring of its own and no password.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command.args(args).current_dir(self.folder.path()).env("PHALANX_KEYRING", self.path("keyring"));
        command.env("PHALANX_CACHE", self.path("cache")).env_remove("PHALANX_PASSWORD").stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        Ended(self.command(args).output().unwrap())
    }

    pub fn run_with_password(&self, password: &str, args: &[&str]) -> Ended {
        Ended(self.command(args).env("PHALANX_PASSWORD", password).output().unwrap())
    }

    pub fn run_with_input(&self, input: &[u8], args: &[&str]) -> Ended {
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // A program that fails early does not read on.
            scope.spawn(move || drop(stdin.write_all(input)));
            Ended(child.wait_with_output().unwrap())
        })
    }
}

pub struct Ended(pub Output);

impl Ended {
    #[track_caller]
    pub fn ok(self) -> Vec<u8> {
        assert!(self.0.status.success(), "{:?}: {}", self.0.status, self.error());
        self.0.stdout
    }

    #[track_caller]
    pub fn text(self) -> String {
        String::from_utf8(self.ok()).unwrap()
    }

    /// Asserts the exit code and that there is exactly one line of error; gives it.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        let error = self.error();
        assert_eq!(self.0.status.code(), Some(code), "{error}");
        assert!(error.starts_with("phalanx: ") && error.ends_with('\n') && error.lines().count() == 1, "{error:?}");
        error.trim_end().to_owned()
    }

    /// Asserts the exit code, where each of several paths may have a line.
    #[track_caller]
    pub fn fails_with_lines(self, code: i32) -> String {
        let error = self.error();
        assert_eq!(self.0.status.code(), Some(code), "{error}");
        assert!(error.lines().all(|line| line.starts_with("phalanx: ")), "{error:?}");
        error
    }

    pub fn error(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}

impl Sandbox {
    /// The program under strace with these options, in the folder; `None`, said aloud, where there is no strace.
    pub fn traced(&self, options: &[&str], args: &[&str]) -> Option<Command> {
        if !has("strace") {
            return None;
        }
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null"]).args(options).arg(env!("CARGO_BIN_EXE_phalanx")).args(args);
        command.current_dir(self.path("")).env("PHALANX_KEYRING", self.path("keyring")).env_remove("PHALANX_PASSWORD");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Some(command)
    }

    /// The program at a terminal of its own, which /dev/tty then is, by the program script of util-linux. Types a line whenever
    /// it is asked for one. Gives the exit code, and all that was shown.
    pub fn at_terminal(&self, args: &str, typed: &[&str]) -> (i32, String) {
        let line = format!("{} {args}", env!("CARGO_BIN_EXE_phalanx"));
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .current_dir(self.path(""))
            .env("PHALANX_KEYRING", self.path("keyring"))
            .env_remove("PHALANX_PASSWORD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (mut shown, mut byte, mut typed) = (Vec::new(), [0], typed.iter());
        while stdout.read(&mut byte).unwrap() > 0 {
            shown.push(byte[0]);
            let line = shown.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            if line.ends_with(b": ")
                && [&b"Pass"[..], b"The same"].iter().any(|prompt| line.starts_with(prompt))
                && let Some(line) = typed.next()
            {
                // Earlier, the terminal would still echo it: the prompt appears before the echo is off.
                sleep(Duration::from_millis(300));
                stdin.write_all(line.as_bytes()).unwrap();
                stdin.write_all(b"\n").unwrap();
            }
        }
        (child.wait().unwrap().code().unwrap(), String::from_utf8_lossy(&shown).into_owned())
    }

    /// The name of the temporary file of a target.
    pub fn temporary(target: &str) -> String {
        let hash = phalanx_reference::sha3_256(target.as_bytes());
        format!(".phalanx-{}.tmp", hash[..16].iter().map(|b| format!("{b:02x}")).collect::<String>())
    }

    /// What runs have left behind in the folder.
    pub fn leftovers(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| name.starts_with(".phalanx-")).collect()
    }
}

/// Waits until something is so.
pub fn wait_for(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "it never came");
        sleep(Duration::from_millis(2));
    }
}

/// Says that something is not here to test with; fails where PHALANX_REQUIRE names it.
pub fn skip(what: &str) {
    let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
    assert!(!required.split([',', ' ']).any(|r| r == what), "PHALANX_REQUIRE names {what}, which is missing");
    println!("skipped: no {what}");
}

/// Byte i is i mod 251.
pub fn painted(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Whether a program is installed. Says so where it is not; fails where PHALANX_REQUIRE names it.
pub fn has(program: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder: PathBuf| Path::new(&folder).join(program).is_file())
    });
    if !found {
        skip(program);
    }
    found
}
