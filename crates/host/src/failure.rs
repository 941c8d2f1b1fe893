//! How programs fail: with one line on stderr, and an exit code for the kind of failure.

use crate::file::Obstacle;
use crate::lines::{complain, shown};
use crate::{Error, home, last_resort};
use phalanx_core::{Class, Error as CoreError};
use std::io;
use std::panic::UnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

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
    /// The kind of an error of the library.
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
    /// A failure of this kind, with this line.
    pub fn new(code: Code, line: impl Into<String>) -> Self {
        Self { code, line: Some(line.into()), path: None }
    }

    /// The same failure, which was at this path. Its line names the path already.
    pub fn on(self, path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..self }
    }

    /// A command line that is wrong.
    pub fn usage(line: impl Into<String>) -> Self {
        Self::new(Code::Usage, line)
    }

    /// A failure at a path.
    pub fn at(path: &Path, error: impl Into<Error>) -> Self {
        let error = error.into();
        Self::new(Code::of(&error), format!("{}: {}", shown(path), sentence(&error))).on(path)
    }

    /// A failure at an output that the command line names.
    pub fn at_output(path: &Path, error: impl Into<Error>) -> Self {
        let error = error.into();
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
        Self::new(Code::InputOutput, format!("standard output: {}", sentence(&Error::write(error))))
    }

    /// A failure whose line has been written already.
    pub fn written(code: Code) -> Self {
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
            if let Some(witness) = WITNESS.get() {
                witness(self.path.as_deref(), line, self.code);
            }
        }
        ExitCode::from(self.code.number())
    }
}

/// What is done with a failure that is reported, besides writing its line: its path, its line and its kind.
pub type Witness = fn(Option<&Path>, &str, Code);

static WITNESS: OnceLock<Witness> = OnceLock::new();

/// From now on, this is done with each failure that is reported.
pub fn report_to(witness: Witness) {
    let _ = WITNESS.set(witness);
}

impl From<CoreError> for Failure {
    fn from(error: CoreError) -> Self {
        Error::from(error).into()
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
    matches!(error, Error::Core(CoreError::Write(e)) if Obstacle::of(e) == Some(Obstacle::HoldsKey))
}

/// The library's sentence, and a hint for the user of the command.
pub fn sentence(error: &Error) -> String {
    match error {
        Error::Exists => format!("{error} (--force replaces it)"),
        Error::Core(CoreError::Read(e)) if Obstacle::of(e) == Some(Obstacle::NotRegular) => {
            format!("{error} (use - to read from a pipe)")
        }
        Error::Core(CoreError::Write(e)) => match Obstacle::of(e) {
            Some(Obstacle::NotRegular) => format!("{error} (use - for standard output)"),
            Some(Obstacle::FolderExists) => format!("{e} (--force overwrites files in it and deletes nothing)"),
            Some(Obstacle::HoldsKey) => format!("{e} (name another output, or move it away)"),
            Some(Obstacle::FileInTheWay | Obstacle::FolderInTheWay) => {
                format!("{error} (delete it, or write a new mirror)")
            }
            _ => error.to_string(),
        },
        Error::Core(CoreError::Fault(fault)) if fault.reason.starts_with("it has no ") => {
            format!("{error} (--engine cpu has it)")
        }
        Error::Core(CoreError::WrongKey) => format!("{error} (try again; if it is right, restore a copy of the file)"),
        Error::Protected => format!("{error} (- takes it from a pipe, to protect it twice)"),
        Error::Core(CoreError::Altered { .. }) => format!("{error} (unprotect --salvage saves the other chunks)"),
        Error::Core(CoreError::Truncated(_) | CoreError::Extended(_)) => {
            format!("{error} (unprotect --salvage saves what is there)")
        }
        Error::Core(CoreError::HeaderRoom) => {
            format!("{error} (--fresh writes a whole new file, with a header that has)")
        }
        Error::NoLocks => format!("{error} (--fresh writes a whole new file)"),
        Error::Core(CoreError::Changed) => format!("{error} (try again when nothing writes to it)"),
        Error::Core(CoreError::LastWay) => format!("{error} (name another of its keys too, or add one)"),
        Error::Core(CoreError::NoSuchSlot(_) | CoreError::Renumbered) => {
            format!("{error} (phalanx inspect shows its slots)")
        }
        Error::Core(CoreError::NotAtHand(slot)) => {
            format!(
                "{error} (name its key, its password, its identity or --add-recipient, or drop it with --remove-slot {slot})"
            )
        }
        Error::Interrupted(_) => format!("{error} (phalanx rekey finishes it, with a key that opens the file)"),
        Error::Core(CoreError::NoKey { identity: true, .. }) => {
            format!("{error} (--identity names a file of identities)")
        }
        Error::Core(CoreError::NoKey { keys, .. }) if !keys.is_empty() => {
            format!("{error} (phalanx key list shows yours)")
        }
        Error::Core(CoreError::NoKey { password: true, .. }) => {
            format!("{error} (name no key, and the password is asked for)")
        }
        Error::NoSuchKey(_) => match home::keyring() {
            Some(dir) if !dir.exists() => {
                let hint = "phalanx key new makes it; phalanx key import brings a key back from a copy";
                format!("{error} {}, which does not exist ({hint})", shown(&dir))
            }
            Some(dir) => format!("{error} {} (phalanx key list shows them)", shown(&dir)),
            None => format!("{error} (phalanx key list shows them)"),
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
    worst.map_or(Ok(()), |code| Err(Failure::written(code)))
}

/// The worse of two outcomes.
pub fn worse(a: Outcome, b: Outcome) -> Outcome {
    match (a, b) {
        (Err(a), Err(b)) => Err(if a.code > b.code { a } else { b }),
        (a, b) => a.and(b),
    }
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
        last_resort::panic_is_reported();
    }));
    std::panic::catch_unwind(run).unwrap_or(ExitCode::from(Code::Other.number()))
}
