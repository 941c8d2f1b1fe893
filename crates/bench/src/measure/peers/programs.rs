//! The programs that are measured, each as a whole command: how it is called, and whether it is installed.

use crate::error::{Error, Result};
use crate::measure::mounted::Mounted;
use crate::measure::programs::{find, finish, versions_of};
use crate::measure::scratch::Scratch;
use crate::names::peers::COPY;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The argument that makes each program print its version.
const PROGRAMS: [(&str, &str); 10] = [
    ("cp", "--version"),
    ("age", "--version"),
    ("rage", "--version"),
    ("openssl", "version"),
    ("gpg", "--version"),
    ("gocryptfs", "-version"),
    ("7zz", "i"),
    ("7z", "i"),
    ("rclone", "version"),
    ("restic", "version"),
];

/// The versions of the programs that are installed.
pub fn versions() -> Vec<String> {
    versions_of(&PROGRAMS)
}

/// One program, with its keys made.
pub struct Program {
    /// Its name in the rows.
    pub name: &'static str,
    /// Makes the command that protects a file into a new one, or gets it back.
    call: Box<dyn Fn(Work<'_>) -> Command>,
    /// Where it keeps its output, if it chooses the place itself.
    pub keeps: Option<PathBuf>,
    /// The command that makes what it keeps its output in anew, if it needs that after each round.
    anew: Option<Box<dyn Fn() -> Command>>,
    /// The clean-up at the end.
    _ending: Option<Ending>,
}

/// The operation of a command. `-` stands for standard input or output, if the program supports it.
#[derive(Clone, Copy)]
pub enum Work<'a> {
    /// Protect a file.
    Protect(&'a Path, &'a Path),
    /// Get it back.
    Unprotect(&'a Path, &'a Path),
}

impl Work<'_> {
    fn paths(&self) -> (&Path, &Path) {
        match self {
            Work::Protect(from, to) | Work::Unprotect(from, to) => (from, to),
        }
    }

    fn is_protect(&self) -> bool {
        matches!(self, Work::Protect(..))
    }
}

impl Program {
    fn new(name: &'static str, call: impl Fn(Work<'_>) -> Command + 'static) -> Self {
        Self { name, call: Box::new(call), keeps: None, anew: None, _ending: None }
    }

    /// The command.
    pub fn command(&self, work: Work<'_>) -> Command {
        (self.call)(work)
    }

    /// Makes ready for the next round, after what it kept was removed. This is not timed.
    pub fn renew(&self) -> Result<()> {
        self.anew.as_ref().map_or(Ok(()), |anew| finish(anew()))
    }

    /// Runs it to its end.
    pub fn run(&self, work: Work<'_>) -> Result<()> {
        finish(self.command(work))
    }
}

/// The program that copies.
pub fn cp() -> Program {
    Program::new("cp", |work| {
        let (from, to) = work.paths();
        let mut command = Command::new("cp");
        command.args([from, to]);
        command
    })
}

/// Copying by a thread for each core: this program itself, which then does nothing else.
pub fn copy_by_threads() -> Result<Program> {
    let this = std::env::current_exe().map_err(Error::at(Path::new("phalanx-bench")))?;
    Ok(Program::new(COPY, move |work| {
        let (from, to) = work.paths();
        let mut command = Command::new(&this);
        command.arg("copy").args([from, to]);
        command
    }))
}

/// How Phalanx is called.
#[derive(Clone)]
pub struct Phalanx {
    program: PathBuf,
    keyring: PathBuf,
}

impl Phalanx {
    /// The program, with a keyring of its own that holds one key.
    pub fn new(program: &Path, scratch: &Scratch) -> Result<Self> {
        let phalanx = Self { program: program.into(), keyring: scratch.path("keyring") };
        if !phalanx.keyring.exists() {
            finish(phalanx.command(&["key", "new", "bench", "--quiet"]))?;
        }
        Ok(phalanx)
    }

    /// A command that runs it.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env("PHALANX_KEYRING", &self.keyring).env_remove("PHALANX_PASSWORD");
        command
    }

    /// Whether it supports a cipher.
    pub fn knows(&self, cipher: &str) -> bool {
        let help = self.command(&["protect", "--help"]).output();
        help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(cipher))
    }

    /// Protecting with a cipher, and unprotecting, with more arguments.
    pub fn program(&self, name: &'static str, cipher: &'static str, more: &'static [&str]) -> Program {
        let phalanx = self.clone();
        Program::new(name, move |work| {
            let (from, to) = work.paths();
            let mut command = match work.is_protect() {
                true => phalanx.command(&["protect", "--key", "bench", "--cipher", cipher]),
                false => phalanx.command(&["unprotect"]),
            };
            command.args(more).arg("--quiet").arg(from).arg("--output").arg(to);
            command
        })
    }
}

/// A program by its name. The error says why it cannot be measured.
pub fn peer(name: &'static str, scratch: &Scratch) -> Result<Program, String> {
    let missing = || format!("no {name}");
    match name {
        "age" | "rage" => age(name, scratch),
        "openssl enc" => {
            let openssl = find("openssl").ok_or_else(missing)?;
            let password = password(scratch)?;
            Ok(Program::new(name, move |work| {
                let (from, to) = work.paths();
                let mut command = Command::new(&openssl);
                command.args(["enc", if work.is_protect() { "-e" } else { "-d" }, "-aes-256-ctr", "-pbkdf2"]);
                command
                    .arg("-pass")
                    .arg(format!("file:{}", password.display()))
                    .arg("-in")
                    .arg(from)
                    .arg("-out")
                    .arg(to);
                command
            }))
        }
        "gpg" => {
            let gpg = find("gpg").ok_or_else(missing)?;
            let password = password(scratch)?;
            let home = scratch.folder("gpg").map_err(|e| e.to_string())?;
            let ending = Ending::command("gpgconf", &["--homedir", &home.to_string_lossy(), "--kill", "all"]);
            let call = move |work: Work<'_>| {
                let (from, to) = work.paths();
                let mut command = Command::new(&gpg);
                command.arg("--homedir").arg(&home).args(["--batch", "--quiet", "--no-permission-warning"]);
                command
                    .args(["--pinentry-mode", "loopback", "--passphrase-file"])
                    .arg(&password)
                    .arg("--output")
                    .arg(to);
                match work.is_protect() {
                    true => command.args(["--symmetric", "--cipher-algo", "AES256", "--compress-algo", "none"]),
                    false => command.arg("--decrypt"),
                };
                command.arg(from);
                command
            };
            Ok(Program { _ending: Some(ending), ..Program::new(name, call) })
        }
        "7z" => {
            let program = find("7zz").or_else(|| find("7z")).ok_or_else(missing)?;
            Ok(Program::new(name, move |work| {
                let (from, to) = work.paths();
                let mut command = Command::new(&program);
                match work.is_protect() {
                    true => command.args(["a", "-t7z", "-mx0", "-bso0", "-bsp0", "-pbench"]).arg(to).arg(from),
                    false => {
                        // It extracts to the name that it stored.
                        command.args(["x", "-so", "-bsp0", "-pbench"]).arg(from);
                        match File::create(to) {
                            Ok(file) => command.stdout(file),
                            Err(_) => &mut command,
                        }
                    }
                };
                command
            }))
        }
        "rclone" => rclone(scratch).map_err(|why| why.unwrap_or_else(missing)),
        "restic" => restic(scratch).map_err(|why| why.unwrap_or_else(missing)),
        "gocryptfs" => gocryptfs(scratch).map_err(|why| why.unwrap_or_else(missing)),
        _ => Err(missing()),
    }
}

fn password(scratch: &Scratch) -> Result<PathBuf, String> {
    let path = scratch.path("password");
    fs::write(&path, "correct horse battery staple\n")
        .map_err(|e| format!("its password could not be written: {e}"))?;
    Ok(path)
}

/// To one X25519 recipient.
fn age(name: &'static str, scratch: &Scratch) -> Result<Program, String> {
    let program = find(name).ok_or_else(|| format!("no {name}"))?;
    let keygen = find(&format!("{name}-keygen")).ok_or_else(|| format!("no {name}-keygen"))?;
    let identity = scratch.path(&format!("{name}-identity"));
    if !identity.exists() {
        let mut command = Command::new(keygen);
        command.arg("-o").arg(&identity);
        finish(command).map_err(|e| e.to_string())?;
    }
    let text = fs::read_to_string(&identity).map_err(|e| e.to_string())?;
    let recipient =
        text.split_whitespace().find(|word| word.starts_with("age1")).ok_or("its key names no recipient")?;
    let recipient = recipient.to_owned();
    Ok(Program::new(name, move |work| {
        let (from, to) = work.paths();
        let mut command = Command::new(&program);
        match work.is_protect() {
            true => command.arg("-r").arg(&recipient),
            false => command.arg("-d").arg("-i").arg(&identity),
        };
        // Without a name for it, standard output.
        if to != Path::new("-") {
            command.arg("-o").arg(to);
        }
        if from != Path::new("-") {
            command.arg(from);
        }
        command
    }))
}

/// Into a folder of encrypted files (its `crypt` remote), and out of it.
fn rclone(scratch: &Scratch) -> Result<Program, Option<String>> {
    let program = find("rclone").ok_or(None)?;
    let tell = |e: String| Some(format!("rclone obscure: {e}"));
    let obscured = Command::new(&program).args(["obscure", "correct horse battery staple"]).output();
    let obscured = obscured.map_err(|e| tell(e.to_string()))?;
    let password = String::from_utf8(obscured.stdout).map_err(|e| tell(e.to_string()))?;
    let folder = scratch.folder("rclone").map_err(|e| Some(e.to_string()))?;
    let (password, store) = (password.trim().to_owned(), folder.display().to_string());
    let settings = "filename_encryption=off,directory_name_encryption=false";
    let remote = format!(":crypt,remote=\"{store}\",{settings},password={password}:file");
    let call = move |work: Work<'_>| {
        let (from, to) = work.paths();
        let mut command = Command::new(&program);
        command.args(["--config", "/dev/null", "--quiet", "copyto"]);
        match work.is_protect() {
            true => command.arg(from).arg(&remote),
            false => command.arg(&remote).arg(to),
        };
        command
    };
    // The name that it gives to the file, and no other.
    let keeps = Some(folder.join("file.bin"));
    Ok(Program { keeps, ..Program::new("rclone", call) })
}

/// What comes back is called so. restic gives a file the name that it had.
pub const BACK: &str = "back";

/// Into a repository that is new in each round, so that it holds nothing of the file yet, and out of it. Its compression is off,
/// because the others do not compress, but it still looks for equal chunks, and syncs what it writes.
fn restic(scratch: &Scratch) -> Result<Program, Option<String>> {
    let program = find("restic").ok_or(None)?;
    let password = password(scratch).map_err(Some)?;
    let place = scratch.path("restic");
    let (repository, folder) = (place.join("repository"), place.join("input"));
    let call = {
        let repository = repository.clone();
        move |args: &[&str]| {
            let mut command = Command::new(&program);
            command.args(["--quiet", "--no-cache", "--repo"]).arg(&repository).arg("--password-file").arg(&password);
            command.args(args);
            command
        }
    };
    // The second version of its format is the one that has compression, which can then be turned off.
    let anew = {
        let call = call.clone();
        move || call(&["init", "--repository-version", "2"])
    };
    finish(anew()).map_err(|e| Some(e.to_string()))?;
    let call = move |work: Work<'_>| {
        let (from, to) = work.paths();
        match work.is_protect() {
            true => {
                // If this fails, so will restic.
                let _ = fs::create_dir_all(&folder).and_then(|()| fs::hard_link(from, folder.join(BACK)));
                let mut command = call(&["backup", "--compression", "off", BACK]);
                command.current_dir(&folder);
                command
            }
            false => {
                let mut command = call(&["restore", "latest", "--target"]);
                command.arg(to.with_file_name(""));
                command
            }
        }
    };
    Ok(Program { keeps: Some(place), anew: Some(Box::new(anew)), ..Program::new("restic", call) })
}

/// Files are copied into a mounted folder, and out of it. An error without a reason means that it is not installed.
fn gocryptfs(scratch: &Scratch) -> Result<Program, Option<String>> {
    let program = find("gocryptfs").ok_or(None)?;
    let tell = |e: Error| Some(e.to_string());
    if !Path::new("/dev/fuse").exists() {
        return Err(Some("no /dev/fuse".into()));
    }
    let password = password(scratch).map_err(Some)?;
    let (below, mounted) = (scratch.folder("gocryptfs").map_err(tell)?, scratch.folder("mounted").map_err(tell)?);
    let call = |args: &[&Path]| {
        let mut command = Command::new(&program);
        command.args(["-quiet", "-passfile"]).arg(&password).args(args);
        command
    };
    finish(call(&[Path::new("-init"), &below])).map_err(tell)?;
    let mount = Mounted::new(&mounted, &|| call(&[&below, &mounted])).map_err(tell)?;
    let inside = mounted.join("file");
    let keeps = Some(inside.clone());
    let call = move |work: Work<'_>| {
        let (from, to) = work.paths();
        let mut command = Command::new("cp");
        match work.is_protect() {
            true => command.args([from, &inside]),
            false => command.args([&inside, to]),
        };
        command
    };
    Ok(Program { keeps, _ending: Some(Ending::Mount(mount)), ..Program::new("gocryptfs", call) })
}

/// What ends on drop.
enum Ending {
    /// Is run then.
    Command(Command),
    /// Is unmounted then.
    Mount(#[allow(dead_code, reason = "it is only dropped")] Mounted),
}

impl Ending {
    fn command(program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self::Command(command)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Self::Command(command) = self {
            let _ = command.status();
        }
    }
}

/// Runs a command between pipes: `cat` reads its input, and another one takes its output.
pub fn finish_in_pipes(mut command: Command, from: &Path) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| Error::Program(format!("{name} in pipes: {e}"));
    let piped = |child: &mut Child| Stdio::from(child.stdout.take().expect("it is piped"));
    let mut reader = Command::new("cat").arg(from).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut program = command.stdin(piped(&mut reader)).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut writer = Command::new("cat").stdin(piped(&mut program)).stdout(Stdio::null()).spawn().map_err(failed)?;
    for child in [&mut reader, &mut program, &mut writer] {
        let status = child.wait().map_err(failed)?;
        if !status.success() {
            return Err(failed(std::io::Error::other(status.to_string())));
        }
    }
    Ok(())
}

/// Runs a command to its end, and returns its largest resident memory in KiB, by the system's own count, which is read
/// every few milliseconds.
pub fn peak_memory(mut command: Command) -> Result<Option<u64>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| Error::Program(format!("{name}: {e}"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(failed)?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"));
        peak = peak.max(line.and_then(|number| number.trim().parse().ok()));
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => return Ok(peak),
            Some(status) => return Err(failed(std::io::Error::other(status.to_string()))),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
