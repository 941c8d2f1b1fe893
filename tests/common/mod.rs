//! Shared helpers of the command's tests.
#![allow(dead_code, reason = "each test program uses a part")]

mod entries;
mod sandbox;

pub use entries::*;
pub use sandbox::*;

use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A mounted file system, unmounted on drop.
pub struct Mounted(pub PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A file system at `disk` that takes `A` and `a` for one name.
pub fn exfat(s: &Sandbox) -> Option<Mounted> {
    if !["mkfs.exfat", "mount.exfat-fuse", "losetup"].into_iter().all(has) {
        return None;
    }
    File::create(s.path("image")).unwrap().set_len(64 << 20).unwrap();
    fs::create_dir(s.path("disk")).unwrap();
    assert!(s.succeeds("mkfs.exfat", &["image"]));
    let device = Command::new("losetup").args(["--find", "--show", "image"]).current_dir(s.path("")).output().unwrap();
    let device = String::from_utf8(device.stdout).unwrap();
    let is_mounted = s.succeeds("mount.exfat-fuse", &[device.trim(), "disk"]);
    // It is detached once it is not used any more.
    s.succeeds("losetup", &["--detach", device.trim()]);
    if !is_mounted {
        skip("exfat");
        return None;
    }
    Some(Mounted(s.path("disk")))
}

impl Sandbox {
    /// A sandbox with a new key in the keyring, named k.
    pub fn with_key() -> Self {
        let sandbox = Self::new();
        sandbox.run(&["key", "new", "k"]).ok();
        sandbox
    }

    /// The program, in the folder, with a keyring and a state of its own and no password. Mounts that do not choose a way
    /// are served by the one that `PHALANX_TEST_FUSE` names, so that all their tests run by each.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        let (at, rest) = args.split_at(args.iter().position(|arg| *arg == "mount").map_or(args.len(), |at| at + 1));
        command.args(at);
        if let (Some(&"mount"), false, Ok(way)) =
            (at.last(), rest.contains(&"--fuse"), std::env::var("PHALANX_TEST_FUSE"))
        {
            command.args(["--fuse", &way]);
        }
        command.args(rest).current_dir(self.path("")).env("PHALANX_KEYRING", self.path("keyring"));
        command.env("PHALANX_CACHE", self.path("cache")).env("PHALANX_STATE", self.path("state"));
        command.env_remove("PHALANX_PASSWORD").stdin(Stdio::null());
        command
    }

    /// Runs another program in the folder, and returns whether it succeeds. Its output is not shown.
    pub fn succeeds(&self, program: &str, args: &[&str]) -> bool {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// A file that only its owner can read, as files of keys and passwords must be.
    pub fn secret(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(name, bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub fn run_with_password(&self, password: &str, args: &[&str]) -> Ended {
        Ended(self.command(args).env("PHALANX_PASSWORD", password).output().unwrap())
    }

    /// A copy of the program in the folder, for users who cannot reach the original. Another process makes the copy. If
    /// this one did, a process that another test starts at the same time could hold the new file open for writing, and
    /// it could not be run.
    pub fn copy_of_the_program(&self) -> PathBuf {
        let copy = self.path("phalanx");
        assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_phalanx")).arg(&copy).status().unwrap().success());
        copy
    }

    /// The program under strace with these options, in the folder. The last `-o` counts. If there is no strace, prints
    /// a line and returns `None`.
    pub fn traced(&self, options: &[&str], args: &[&str]) -> Option<Command> {
        if !has("strace") {
            return None;
        }
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null"]).args(options).arg(env!("CARGO_BIN_EXE_phalanx")).args(args);
        command.current_dir(self.path("")).env("PHALANX_KEYRING", self.path("keyring"));
        command.env("PHALANX_STATE", self.path("state")).env_remove("PHALANX_PASSWORD");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Some(command)
    }

    /// Deletes the manifest of a mirror, and what this machine remembers of it.
    pub fn lose_manifest(&self, mirror: &str) {
        fs::remove_file(self.path(mirror).join("phalanx.tree")).unwrap();
        fs::remove_dir_all(self.path("state")).unwrap();
    }

    /// Runs the program, which waits before one of its system calls for as long as `act` takes: the first of a kind, or
    /// another one, as in `fsync:when=2`. `act` is run once the program waits there and `ready` is true. `None` if there is
    /// no strace.
    #[track_caller]
    pub fn meanwhile(&self, calls: &str, args: &[&str], ready: impl Fn() -> bool, act: impl FnOnce()) -> Option<Ended> {
        Some(Paused::begin(Delay::Enter, calls, |options| self.traced(options, args))?.meanwhile(ready, act))
    }

    /// Runs the program at a terminal of its own, with its own /dev/tty, by the program script of util-linux. Types a
    /// line whenever the program asks for a password or a yes. Returns the exit code and all output.
    pub fn at_terminal(&self, args: &str, typed: &[&str]) -> (i32, String) {
        let mut typed = typed.iter();
        self.dialogue(&format!("{} {args}", env!("CARGO_BIN_EXE_phalanx")), || Some(format!("{}\n", typed.next()?)))
    }

    /// Runs a line of shell at a terminal. `answer` says what is typed at each question, and may do more.
    pub fn dialogue(&self, line: &str, mut answer: impl FnMut() -> Option<String>) -> (i32, String) {
        let mut child = Command::new("script")
            .args(["-qec", line, "/dev/null"])
            .current_dir(self.path(""))
            .env("PHALANX_KEYRING", self.path("keyring"))
            .env_remove("PHALANX_PASSWORD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (mut shown, mut byte) = (Vec::new(), [0]);
        while stdout.read(&mut byte).unwrap() > 0 {
            shown.push(byte[0]);
            let line = shown.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            let asks_for_password =
                line.ends_with(b": ") && [&b"Pass"[..], b"The same"].iter().any(|prompt| line.starts_with(prompt));
            if (asks_for_password || line.ends_with(b"[y/N] "))
                && let Some(text) = answer()
            {
                // The echo is off before the prompt appears.
                stdin.write_all(text.as_bytes()).unwrap();
            }
        }
        (child.wait().unwrap().code().unwrap(), String::from_utf8_lossy(&shown).into_owned())
    }

    /// The name of a target's temporary file.
    pub fn temporary(target: &str) -> String {
        let hash = phalanx_reference::sha3_256(target.as_bytes());
        format!(".phalanx-{}.tmp", hash[..16].iter().map(|b| format!("{b:02x}")).collect::<String>())
    }

    /// The temporary files that runs have left in the folder.
    pub fn leftovers(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| name.starts_with(".phalanx-")).collect()
    }
}

/// Where a traced program waits: before a system call is made, or when it has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    Enter,
    Exit,
}

/// A program that strace stops at one of its system calls. It is killed on drop.
pub struct Paused {
    child: Option<Child>,
    delay: Delay,
    folder: tempfile::TempDir,
}

impl Paused {
    /// Starts a command, which is made from options of strace: `start` may return `None`.
    pub fn begin(delay: Delay, calls: &str, start: impl FnOnce(&[&str]) -> Option<Command>) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        // Any user can be the one who runs it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let trace = folder.path().join("trace");
        let (calls, when) = calls.split_once(':').unwrap_or((calls, "when=1"));
        let at = if delay == Delay::Enter { "delay_enter" } else { "delay_exit" };
        // For ten minutes, which never pass: the tracer is ended before. With -D it is not the parent of the program.
        let (trace_calls, inject) = (format!("trace={calls}"), format!("inject={calls}:{at}=600000000:{when}"));
        let options = ["-D", "-o", trace.to_str().unwrap(), "-e", &trace_calls, "-e", &inject];
        let child = Some(start(&options)?.spawn().unwrap());
        Some(Self { child, delay, folder })
    }

    /// Runs `act` while the program waits, and then lets it go on to its end.
    #[track_caller]
    pub fn meanwhile(mut self, ready: impl Fn() -> bool, act: impl FnOnce()) -> Ended {
        wait_for(|| {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "it has ended without such a call: {ended:?}\n{}", self.trace());
            ready() && self.waits()
        });
        act();
        assert!(self.waits(), "it has not waited until the end:\n{}", self.trace());
        let child = self.child.take().unwrap();
        // Without its tracer the program goes on at once.
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(tracer).expect("it is traced"), Signal::KILL).unwrap();
        Ended(child.wait_with_output().unwrap())
    }

    /// Whether the program has been in the same call for a while. A call that has not been made is an incomplete line, and
    /// one after which it waits a line with a remark.
    fn waits(&self) -> bool {
        let before = self.trace();
        sleep(Duration::from_millis(100));
        let is_in_call = match self.delay {
            Delay::Enter => !before.is_empty() && !before.ends_with('\n'),
            Delay::Exit => before.ends_with("(DELAYED)\n"),
        };
        is_in_call && before == self.trace()
    }

    fn trace(&self) -> String {
        fs::read_to_string(self.folder.path().join("trace")).unwrap_or_default()
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether sweeps are to be exhaustive, because PHALANX_EXHAUSTIVE is set. If not, prints a line.
pub fn is_exhaustive() -> bool {
    let is_set = std::env::var_os("PHALANX_EXHAUSTIVE").is_some();
    if !is_set {
        println!("skipped: exhaustive sweep (PHALANX_EXHAUSTIVE=1)");
    }
    is_set
}

/// Whether the parent of the tests ignores a signal, as shells ignore SIGINT for background jobs. The program then
/// ignores it too. If so, prints a line.
pub fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let ignored = mask >> (signal - 1) & 1 == 1;
    if ignored {
        println!("skipped: no signal {signal}, which is ignored here");
    }
    ignored
}

/// Waits until a condition is true.
pub fn wait_for(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "it never came");
        sleep(Duration::from_millis(2));
    }
}

/// Whether a program is installed. If not, prints a line, or fails if PHALANX_REQUIRE names it.
pub fn has(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder: PathBuf| folder.join(program).is_file()));
    if !found {
        skip(program);
    }
    found
}

impl Ended {
    /// Asserts the exit code, and that there is exactly one line of error with at most one hint after it. Returns both.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        let error = self.error();
        assert_eq!(self.0.status.code(), Some(code), "{error}");
        let (line, hint) = error.split_once('\n').expect("it ends with a newline");
        let is_hint = hint.starts_with("hint: ") && hint.ends_with('\n') && hint.lines().count() == 1;
        assert!(line.starts_with("phalanx: ") && (hint.is_empty() || is_hint), "{error:?}");
        error.trim_end().to_owned()
    }

    /// Asserts the exit code. There may be several lines, such as one for each path. Returns them.
    #[track_caller]
    pub fn fails_with_lines(self, code: i32) -> String {
        let error = self.error();
        assert_eq!(self.0.status.code(), Some(code), "{error}");
        assert!(error.lines().all(|line| line.starts_with("phalanx: ") || line.starts_with("hint: ")), "{error:?}");
        error
    }
}
