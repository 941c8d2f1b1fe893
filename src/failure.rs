//! How the command fails: with one line on stderr, and an exit code for the kind of failure.

use crate::{last_resort, report, secrets, stdio};
use phalanx_core::{Class, Error};
use phalanx_host::file::Obstacle;
use phalanx_volume::VolumeError;
use phalanx_volume::mount::MountError;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::panic::UnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

/// The kind of a failure. If several paths fail in one run, a later kind outranks an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// Anything else.
    Other,
    /// The command line is wrong.
    Usage,
    /// Input or output failed.
    InputOutput,
    /// Not a whole, authentic Phalanx file for the keys at hand.
    NotAuthentic,
}

impl Code {
    pub fn of(error: &Error) -> Self {
        match error.class() {
            Class::NotAuthentic => Code::NotAuthentic,
            Class::InputOutput => Code::InputOutput,
            Class::Argument => Code::Usage,
            Class::Other => Code::Other,
        }
    }

    /// The kind with an exit code.
    pub fn with_exit_code(code: u8) -> Self {
        match code {
            2 => Code::Usage,
            3 => Code::NotAuthentic,
            4 => Code::InputOutput,
            _ => Code::Other,
        }
    }

    /// Its exit code.
    pub fn number(self) -> u8 {
        match self {
            Code::Other => 1,
            Code::Usage => 2,
            Code::NotAuthentic => 3,
            Code::InputOutput => 4,
        }
    }
}

/// A failure and its line. There is no line if it has been written already.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    line: Option<String>,
    /// Where it was, if it was at a path.
    path: Option<PathBuf>,
}

impl Failure {
    pub fn new(code: Code, line: impl Into<String>) -> Self {
        Self { code, line: Some(line.into()), path: None }
    }

    /// The same failure, which was at this path. Its line names the path already.
    pub fn on(self, path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..self }
    }

    pub fn usage(line: impl Into<String>) -> Self {
        Self::new(Code::Usage, line)
    }

    /// A failure at a path.
    pub fn at(path: &Path, error: Error) -> Self {
        Self::new(Code::of(&error), format!("{}: {}", shown(path), sentence(&error))).on(path)
    }

    /// A failure at an output that the command line names.
    pub fn at_output(path: &Path, error: Error) -> Self {
        let code = if is_of_key(&error) { Code::Usage } else { Code::of(&error) };
        Self { code, ..Self::at(path, error) }
    }

    /// A folder without `--recursive`.
    pub fn folder(path: &Path) -> Self {
        let line = format!("{}: it is a folder (--recursive takes all that is in it)", shown(path));
        Self::new(Code::InputOutput, line).on(path)
    }

    /// A folder in which there is nothing to do.
    pub fn nothing_protected(folder: &Path) -> Self {
        Self::new(Code::InputOutput, format!("{}: no protected file is in it", shown(folder)))
    }

    /// A failure of standard output.
    pub fn at_stdout(error: io::Error) -> Self {
        Self::new(Code::InputOutput, format!("standard output: {}", sentence(&Error::Write(error))))
    }

    /// A failure of a volume.
    pub fn volume(dir: &Path, error: VolumeError) -> Self {
        let line = |text: &str| format!("{}: {text}", shown(dir));
        let failure = match error {
            VolumeError::Core(error) => Self::at(dir, error),
            VolumeError::Damaged(text) => Self::new(Code::NotAuthentic, line(&text)),
            VolumeError::Refused(errno) => {
                let error = io::Error::from(errno);
                let text = match error.kind() {
                    io::ErrorKind::AlreadyExists => "it is a volume already".into(),
                    io::ErrorKind::DirectoryNotEmpty => {
                        "not empty: a volume is made of a new or an empty folder".into()
                    }
                    io::ErrorKind::ReadOnlyFilesystem => {
                        "its file system is read-only (--read-only mounts it for reading)".into()
                    }
                    _ => error.to_string(),
                };
                Self::new(Code::InputOutput, line(&text))
            }
            VolumeError::Busy => Self::new(Code::InputOutput, line(&format!("{error} (fusermount3 -u unmounts it)"))),
            error => Self::new(Code::InputOutput, line(&error.to_string())),
        };
        failure.on(dir)
    }

    /// A failure of a mount.
    pub fn mount(mountpoint: &Path, error: MountError) -> Self {
        let at = || format!("{}: {error}", shown(mountpoint));
        match error {
            MountError::UnknownOption(_) | MountError::Option(_) => Self::usage(error.to_string()),
            MountError::Overlap(_) => Self::usage(at()),
            MountError::NoDevice | MountError::DeviceDenied | MountError::NoFusermount | MountError::NoAllowOther => {
                Self::new(Code::Other, error.to_string())
            }
            _ => Self::new(Code::InputOutput, at()),
        }
    }

    /// A failure whose line has been written already.
    pub fn told(code: Code) -> Self {
        Self { code, line: None, path: None }
    }

    /// The kind of the failure.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The line, unless it has been written already.
    pub fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }

    /// Writes the line, and returns the exit code.
    pub fn report(&self) -> ExitCode {
        if let Some(line) = &self.line {
            complain(line);
            report::failed(self.path.as_deref(), line, self.code);
        }
        ExitCode::from(self.code.number())
    }
}

/// An error without a path.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(Code::of(&error), sentence(&error))
    }
}

/// Whether an output would have replaced a key.
pub fn is_of_key(error: &Error) -> bool {
    matches!(error, Error::Write(e) if Obstacle::of(e) == Some(Obstacle::HoldsKey))
}

/// The library's sentence, and a hint for the user of the command.
pub fn sentence(error: &Error) -> String {
    match error {
        Error::Exists => format!("{error} (--force replaces it)"),
        Error::Read(e) if Obstacle::of(e) == Some(Obstacle::NotRegular) => {
            format!("{error} (use - to read from a pipe)")
        }
        Error::Write(e) => match Obstacle::of(e) {
            Some(Obstacle::NotRegular) => format!("{error} (use - for standard output)"),
            Some(Obstacle::FolderExists) => format!("{e} (--force overwrites files in it and deletes nothing)"),
            Some(Obstacle::HoldsKey) => format!("{e} (name another output, or move it away)"),
            Some(Obstacle::FileInTheWay | Obstacle::FolderInTheWay) => {
                format!("{error} (delete it, or write a new mirror)")
            }
            _ => error.to_string(),
        },
        Error::Fault(fault) if fault.reason.starts_with("it has no ") => format!("{error} (--engine cpu has it)"),
        Error::WrongKey => format!("{error} (try again; if it is right, restore a copy of the file)"),
        Error::Protected => format!("{error} (- takes it from a pipe, to protect it twice)"),
        Error::Altered { .. } => format!("{error} (unprotect --salvage saves the other chunks)"),
        Error::Truncated(_) | Error::Extended(_) => format!("{error} (unprotect --salvage saves what is there)"),
        Error::HeaderRoom => format!("{error} (--fresh writes a whole new file, with a header that has)"),
        Error::NoLocks => format!("{error} (--fresh writes a whole new file)"),
        Error::Changed => format!("{error} (try again when nothing writes to it)"),
        Error::LastWay => format!("{error} (name another of its keys too, or add one)"),
        Error::NoSuchSlot(_) | Error::Renumbered => format!("{error} (phalanx inspect shows its slots)"),
        Error::NotAtHand(slot) => {
            format!(
                "{error} (name its key, its password, its identity or --add-recipient, or drop it with --remove-slot {slot})"
            )
        }
        Error::Interrupted(_) => format!("{error} (phalanx rekey finishes it, with a key that opens the file)"),
        Error::NoKey { identity: true, .. } => format!("{error} (--identity names a file of identities)"),
        Error::NoKey { keys, .. } if !keys.is_empty() => format!("{error} (phalanx key list shows yours)"),
        Error::NoKey { password: true, .. } => format!("{error} (name no key, and the password is asked for)"),
        Error::NoSuchKey(_) => match secrets::keyring() {
            Ok(keyring) if !keyring.dir().exists() => {
                let hint = "phalanx key new makes it; phalanx key import brings a key back from a copy";
                format!("{error} {}, which does not exist ({hint})", shown(keyring.dir()))
            }
            Ok(keyring) => format!("{error} {} (phalanx key list shows them)", shown(keyring.dir())),
            Err(_) => format!("{error} (phalanx key list shows them)"),
        },
        _ => error.to_string(),
    }
}

/// Does something for each item, usually a path. A failure does not stop the others. Its line is written at once, and the
/// worst failure is the result.
pub fn each<T>(items: &[T], mut act: impl FnMut(&T) -> Outcome) -> Outcome {
    let mut worst = None;
    for item in items {
        if let Err(failure) = act(item) {
            failure.report();
            worst = worst.max(Some(failure.code));
        }
    }
    worst.map_or(Ok(()), |code| Err(Failure::told(code)))
}

/// The worse of two outcomes.
pub fn worse(a: Outcome, b: Outcome) -> Outcome {
    match (a, b) {
        (Err(a), Err(b)) => Err(if a.code > b.code { a } else { b }),
        (a, b) => a.and(b),
    }
}

/// Writes one line to stderr, whatever it contains. If stderr is broken, nobody can be told. A program in the background
/// writes to the system's log.
pub fn complain(line: impl Display) {
    let line = line.to_string();
    let line = one_line(&line);
    if let Some(tell) = TELL.get() {
        return tell(&line);
    }
    match SYSTEM_LOG.get() {
        // 28 is a warning of a daemon.
        Some(log) => drop(log.send(format!("<28>phalanx[{}]: {line}", std::process::id()).as_bytes())),
        // By one call: other processes may write to the same place.
        None => drop(io::stderr().write_all(format!("{}: {line}\n", name()).as_bytes())),
    }
}

static TELL: OnceLock<fn(&str)> = OnceLock::new();

/// Lines go to `tell` from now on, and no longer to stderr.
pub fn complain_to(tell: fn(&str)) {
    let _ = TELL.set(tell);
}

static NAME: OnceLock<String> = OnceLock::new();

/// The name of the program.
pub fn name() -> &'static str {
    NAME.get().map_or("phalanx", |name| name)
}

/// Lines on stderr begin with this name from now on, and no longer with that of `phalanx`.
pub fn complain_as(name: impl Into<String>) {
    let _ = NAME.set(name.into());
}

static SYSTEM_LOG: OnceLock<UnixDatagram> = OnceLock::new();

/// From now on, lines go to the system's log.
pub fn complain_to_system() -> io::Result<()> {
    let log = UnixDatagram::unbound()?;
    log.connect("/dev/log")?;
    // A log that is stuck must not stop the program.
    log.set_nonblocking(true)?;
    let _ = SYSTEM_LOG.set(log);
    Ok(())
}

/// Writes one line to stdout. If that fails, a line says so once.
pub fn say(line: impl Display) -> Outcome {
    static IS_BROKEN: AtomicBool = AtomicBool::new(false);
    stdio::write_line(&one_line(&line.to_string())).map_err(|e| {
        let failure = Failure::at_stdout(e);
        if !IS_BROKEN.swap(true, Ordering::Relaxed) {
            failure.report();
        }
        Failure::told(failure.code)
    })
}

/// Writes one line of JSON to stdout. What could deceive a terminal is in strings only, and is escaped as JSON escapes it.
pub fn say_json(value: &impl Serialize) -> Outcome {
    let json = serde_json::to_string(value).expect("a report has no odd keys");
    let escape = |c: char| if is_hostile(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    say(json.chars().map(escape).collect::<String>())
}

/// The bytes of a path in hexadecimal, if JSON cannot have it as it is: it is not UTF-8.
pub fn path_hex(path: &Path) -> Option<String> {
    use std::os::unix::ffi::OsStrExt;
    let hex = || path.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    if path.to_str().is_none() { Some(hex()) } else { None }
}

/// A path in a form that is safe to show: without control characters, which could deceive a terminal, and at most as long
/// as the system's longest path.
pub fn shown(path: &Path) -> String {
    const LONGEST: usize = 4096;
    const END: usize = 256;
    let path = path.to_string_lossy();
    if path.len() <= LONGEST {
        return one_line(&path).into_owned();
    }
    let (start, end) = (path.floor_char_boundary(END), path.ceil_char_boundary(path.len() - END));
    format!("{}…{}", one_line(&path[..start]), one_line(&path[end..]))
}

fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(is_hostile) {
        text.chars()
            .flat_map(|c| if is_hostile(c) { c.escape_default().collect() } else { vec![c] })
            .collect::<String>()
            .into()
    } else {
        text.into()
    }
}

/// Control characters, and characters that change the direction of text.
fn is_hostile(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Runs the program. A bug then also shows as one line and exit code 1.
pub fn guard(run: impl FnOnce() -> ExitCode + UnwindSafe) -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        // A new thread that gets no memory for its second stack panics where unwinding is impossible.
        if info.location().is_some_and(|l| l.file().ends_with("unix/stack_overflow.rs")) {
            last_resort::out_of_memory();
        }
        if phalanx_age::catches_panics() {
            return;
        }
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        complain(format!("internal error{place}: please report it"));
        last_resort::panic_is_told();
    }));
    std::panic::catch_unwind(run).unwrap_or(ExitCode::from(Code::Other.number()))
}
