//! The programs that are measured, each as a whole command: how it is called, and whether it is installed.

use crate::measure::machine;
use crate::measure::mounted::Mounted;
use crate::measure::programs::{command, failure, find, finish, require, versions_of};
use crate::measure::scratch;
use crate::measure::{Error, Result, Scratch};
use crate::names::peers::COPY;
use phalanx_core::engine::Op;
use std::any::Any;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The versions of the programs that are installed.
pub fn versions() -> Vec<String> {
    versions_of(&[
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
        ("rsync", "--version"),
    ])
}

/// A program whose keys have been made.
pub struct Program {
    pub name: &'static str,
    /// The commands that protect a file and get it back, with `{from}`, `{to}` and the names of `paths` in braces.
    lines: [String; 2],
    paths: Vec<(&'static str, PathBuf)>,
    keyring: Option<PathBuf>,
    folder: Option<PathBuf>,
    /// Whether it writes what it gets back to standard output.
    to_stdout: bool,
    /// The path of its output, if the program chooses it.
    pub keeps: Option<PathBuf>,
    /// Makes the place of its output, if the program needs that before each round. This is not timed.
    prepare: Option<Box<dyn Fn() -> Result<()>>>,
    _ending: Option<Box<dyn Any>>,
}

impl Program {
    fn new(name: &'static str, lines: [impl Into<String>; 2], paths: Vec<(&'static str, PathBuf)>) -> Self {
        Self {
            name,
            lines: lines.map(Into::into),
            paths,
            keyring: None,
            folder: None,
            to_stdout: false,
            keeps: None,
            prepare: None,
            _ending: None,
        }
    }

    /// The command. `-` stands for standard input or output, if the program supports it.
    pub fn command(&self, op: Op, from: &Path, to: &Path) -> Command {
        let mut paths: Vec<_> = self.paths.iter().map(|(name, path)| (*name, path.as_path())).collect();
        paths.extend([("from", from), ("to", to)]);
        let mut command = command(&self.lines[usize::from(op == Op::Open)], &paths);
        if let Some(keyring) = &self.keyring {
            command.env("PHALANX_KEYRING", keyring).env_remove("PHALANX_PASSWORD");
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if self.to_stdout
            && op == Op::Open
            && let Ok(file) = File::create(to)
        {
            command.stdout(file);
        }
        command
    }

    pub fn run(&self, op: Op, from: &Path, to: &Path) -> Result<()> {
        finish(self.command(op, from, to))
    }

    /// Removes its output, and prepares the next round.
    pub fn renew(&self) -> Result<()> {
        self.keeps.as_ref().map_or(Ok(()), |kept| scratch::remove(kept))?;
        self.prepare.as_ref().map_or(Ok(()), |prepare| prepare())
    }
}

pub fn cp() -> Program {
    Program::new("cp", ["cp {from} {to}"; 2], Vec::new())
}

/// A copy with one thread for each core. This program itself does it, with a hidden command.
pub fn copy_by_threads() -> Result<Program> {
    let this = std::env::current_exe().map_err(Error::at(Path::new("phalanx-bench")))?;
    Ok(Program::new(COPY, ["{this} copy {from} {to}"; 2], vec![("this", this)]))
}

/// A keyring with one key, made by Phalanx itself.
pub fn keyring(program: &Path, scratch: &Scratch) -> Result<PathBuf> {
    let keyring = scratch.path("keyring");
    if !keyring.exists() {
        let mut command = command("{phalanx} key new bench --quiet", &[("phalanx", program)]);
        command.env("PHALANX_KEYRING", &keyring).env_remove("PHALANX_PASSWORD");
        finish(command)?;
    }
    Ok(keyring)
}

/// Phalanx with a cipher and more arguments, and a keyring with one key. It is an error if this build does not have the
/// cipher.
pub fn phalanx(program: &Path, scratch: &Scratch, name: &'static str, cipher: &str, more: &str) -> Result<Program> {
    let keyring = keyring(program, scratch)?;
    let help = command("{phalanx} protect --help", &[("phalanx", program)]).output();
    if !help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(cipher)) {
        return Err(Error::NotRun("this build does not have the suite".into()));
    }
    let lines = [
        format!("{{phalanx}} protect --key bench --cipher {cipher} {more} --quiet {{from}} --output {{to}}"),
        format!("{{phalanx}} unprotect {more} --quiet {{from}} --output {{to}}"),
    ];
    let program = Program::new(name, lines, vec![("phalanx", program.to_owned())]);
    Ok(Program { keyring: Some(keyring), ..program })
}

/// The name of what comes back. restic restores a file under the name that it had.
pub const BACK: &str = "back";

/// Another program by its name. The error explains why it cannot be measured.
pub fn peer(name: &'static str, scratch: &Scratch) -> Result<Program> {
    let password = scratch.path("password");
    fs::write(&password, "correct horse battery staple\n").map_err(Error::at(&password))?;
    match name {
        "age" | "rage" => age(name, scratch),
        "openssl enc" => {
            let openssl = find("openssl").ok_or_else(|| Error::NotRun("no openssl enc".into()))?;
            let line = |how: &str| {
                format!("{{openssl}} enc {how} -aes-256-ctr -pbkdf2 -pass file:{{password}} -in {{from}} -out {{to}}")
            };
            Ok(Program::new(name, [line("-e"), line("-d")], vec![("openssl", openssl), ("password", password)]))
        }
        "gpg" => {
            let (gpg, home) = (require(name)?, scratch.folder("gpg")?);
            let line = |how: &str| {
                "{gpg} --homedir {home} --batch --quiet --no-permission-warning --pinentry-mode loopback \
                 --passphrase-file {password} --output {to} "
                    .to_owned()
                    + how
            };
            let lines =
                [line("--symmetric --cipher-algo AES256 --compress-algo none {from}"), line("--decrypt {from}")];
            let ending: Box<dyn Any> = Box::new(Agent(home.clone()));
            let program = Program::new(name, lines, vec![("gpg", gpg), ("home", home), ("password", password)]);
            Ok(Program { _ending: Some(ending), ..program })
        }
        "7z" => {
            let program = find("7zz").map_or_else(|| require("7z"), Ok)?;
            // It extracts to the name that it stored.
            let lines = ["{7z} a -t7z -mx0 -bso0 -bsp0 -pbench {to} {from}", "{7z} x -so -bsp0 -pbench {from}"];
            Ok(Program { to_stdout: true, ..Program::new(name, lines, vec![("7z", program)]) })
        }
        "rclone" => rclone(scratch),
        "restic" => restic(scratch, password),
        "gocryptfs" => gocryptfs(scratch, &password),
        _ => Err(Error::NotRun(format!("no {name}"))),
    }
}

/// age, for one X25519 recipient.
fn age(name: &'static str, scratch: &Scratch) -> Result<Program> {
    let (program, keygen) = (require(name)?, require(&format!("{name}-keygen"))?);
    let identity = scratch.path(&format!("{name}-identity"));
    if !identity.exists() {
        finish(command("{keygen} -o {identity}", &[("keygen", &keygen), ("identity", &identity)]))?;
    }
    let text = fs::read_to_string(&identity).map_err(Error::at(&identity))?;
    let recipient = text.split_whitespace().find(|word| word.starts_with("age1"));
    let recipient = recipient.ok_or_else(|| Error::NotRun("its key names no recipient".into()))?;
    let lines =
        [format!("{{age}} -r {recipient} -o {{to}} {{from}}"), "{age} -d -i {identity} -o {to} {from}".to_owned()];
    Ok(Program::new(name, lines, vec![("age", program), ("identity", identity)]))
}

/// rclone, into a folder of encrypted files (its `crypt` remote) and out of it.
fn rclone(scratch: &Scratch) -> Result<Program> {
    let program = require("rclone")?;
    let folder = scratch.folder("rclone")?;
    let remote = crypt(&program, &folder, "filename_encryption=off,directory_name_encryption=false,")? + "file";
    let line = |paths: &str| format!("{{rclone}} --config /dev/null --quiet copyto {paths}");
    let lines = [line("{from} {remote}"), line("{remote} {to}")];
    // rclone keeps the file under exactly this name.
    let keeps = Some(folder.join("file.bin"));
    Ok(Program { keeps, ..Program::new("rclone", lines, vec![("rclone", program), ("remote", remote.into())]) })
}

/// The name of rclone's `crypt` remote in a folder, with settings that each end in a comma.
pub fn crypt(rclone: &Path, folder: &Path, settings: &str) -> Result<String> {
    let mut obscure = Command::new(rclone);
    obscure.args(["obscure", "correct horse battery staple"]);
    let output = obscure.output().map_err(|e| failure(&obscure)(&e.to_string()))?;
    let (store, password) = (folder.display(), String::from_utf8_lossy(&output.stdout));
    Ok(format!(":crypt,remote=\"{store}\",{settings}password={}:", password.trim()))
}

/// restic, into a repository and out of it. The repository is new in each round, so that it has no part of the file
/// yet. Compression is off, because the others do not compress. restic still looks for equal chunks, and syncs what it
/// writes.
fn restic(scratch: &Scratch, password: PathBuf) -> Result<Program> {
    let (program, place, plain) = (require("restic")?, scratch.path("restic"), scratch.path("plain"));
    let paths = vec![
        ("restic", program),
        ("repository", place.join("repository")),
        ("password", password),
        ("folder", scratch.path("")),
    ];
    let line =
        |how: &str| format!("{{restic}} --quiet --no-cache --repo {{repository}} --password-file {{password}} {how}");
    let folder = place.join("input");
    let prepare = {
        // Only the second version of its format has an option for compression.
        let (init, paths, folder) = (line("init --repository-version 2"), paths.clone(), folder.clone());
        move || {
            let made = fs::create_dir_all(&folder).and_then(|()| fs::hard_link(&plain, folder.join(BACK)));
            made.map_err(Error::at(&folder))?;
            let paths: Vec<_> = paths.iter().map(|(name, path)| (*name, path.as_path())).collect();
            finish(command(&init, &paths))
        }
    };
    let lines = [line(&format!("backup --compression off {BACK}")), line("restore latest --target {folder}")];
    let program = Program::new("restic", lines, paths);
    Ok(Program { folder: Some(folder), keeps: Some(place), prepare: Some(Box::new(prepare)), ..program })
}

/// gocryptfs: files are copied into a mounted folder and out of it.
fn gocryptfs(scratch: &Scratch, password: &Path) -> Result<Program> {
    let program = require("gocryptfs")?;
    if !Path::new("/dev/fuse").exists() {
        return Err(Error::NotRun("no /dev/fuse".into()));
    }
    let (below, mounted) = (scratch.folder("gocryptfs")?, scratch.folder("mounted")?);
    let call = |how: &str| {
        let paths = [("gocryptfs", program.as_path()), ("password", password), ("below", &below), ("at", &mounted)];
        command(&format!("{{gocryptfs}} -quiet -passfile {{password}} {how}"), &paths)
    };
    finish(call("-init {below}"))?;
    let mount = Mounted::new(&mounted, &|| call("{below} {at}"))?;
    let inside = mounted.join("file");
    let program =
        Program::new("gocryptfs", ["cp {from} {inside}", "cp {inside} {to}"], vec![("inside", inside.clone())]);
    Ok(Program { keeps: Some(inside), _ending: Some(Box::new(mount)), ..program })
}

/// The agent of gpg in a folder, which ends on drop.
struct Agent(PathBuf);

impl Drop for Agent {
    fn drop(&mut self) {
        let mut command = command("gpgconf --homedir {home} --kill all", &[("home", &self.0)]);
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Runs a command between pipes: one `cat` reads its input, and another takes its output.
pub fn finish_in_pipes(mut command: Command, from: &Path) -> Result<()> {
    let failed = failure(&command);
    let failed = |e: io::Error| failed(&format!("in pipes: {e}"));
    let piped = |child: &mut Child| Stdio::from(child.stdout.take().expect("it is piped"));
    let mut reader = Command::new("cat").arg(from).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut program = command.stdin(piped(&mut reader)).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut writer = Command::new("cat").stdin(piped(&mut program)).stdout(Stdio::null()).spawn().map_err(failed)?;
    for child in [&mut reader, &mut program, &mut writer] {
        let status = child.wait().map_err(failed)?;
        if !status.success() {
            return Err(failed(io::Error::other(status.to_string())));
        }
    }
    Ok(())
}

/// Runs a command to its end, and returns its largest resident memory in KiB. The system counts it, and the count is
/// read every few milliseconds.
pub fn peak_memory(mut command: Command) -> Result<Option<u64>> {
    let failed = failure(&command);
    let failed = |e: io::Error| failed(&e.to_string());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(failed)?;
    let mut peak = None;
    loop {
        peak = peak.max(machine::peak_kib(child.id()));
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => return Ok(peak),
            Some(status) => return Err(failed(io::Error::other(status.to_string()))),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
