//! How programs fail: with one line on stderr, possibly a hint on a second one, and an exit code for the kind of
//! failure.

use crate::file::Obstacle;
use crate::lines::{complain, complain_with, shown};
use crate::{Error, ask, folders, home, last_resort};
use phalanx_core::{Class, Error as CoreError};
use std::io;
use std::panic::UnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

/// The kind of a failure. If several paths fail in one run, a later kind outranks an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// Any other failure.
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
#[derive(Clone, Debug)]
pub struct Failure {
    code: Code,
    line: Option<String>,
    hint: Option<String>,
    /// Where it was, if it was at a path.
    path: Option<PathBuf>,
    /// The error that it was made of, if there was one.
    error: Option<Arc<Error>>,
}

impl Failure {
    /// A failure of this kind, with this line.
    pub fn new(code: Code, line: impl Into<String>) -> Self {
        Self { code, line: Some(line.into()), hint: None, path: None, error: None }
    }

    /// Adds advice for the user: what fixes the failure, or where to learn more.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the path of the failure, which its line names already.
    pub fn on(self, path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..self }
    }

    /// Adds the error behind the failure, which its line explains.
    pub fn because_of(self, error: Error) -> Self {
        Self { error: Some(Arc::new(error)), ..self }
    }

    /// A command line that is wrong.
    pub fn usage(line: impl Into<String>) -> Self {
        Self::new(Code::Usage, line)
    }

    /// A failure at a path.
    pub fn at(path: &Path, error: impl Into<Error>) -> Self {
        let error: Error = error.into();
        let failure: Self = error.into();
        let line = failure.line.map(|line| format!("{}: {line}", shown(path)));
        Self { line, path: Some(path.to_owned()), ..failure }
    }

    /// A failure at an output that the command line names.
    pub fn at_output(path: &Path, error: impl Into<Error>) -> Self {
        let error = error.into();
        let code = if is_of_key(&error) { Code::Usage } else { Code::of(&error) };
        Self { code, ..Self::at(path, error) }
    }

    /// A failure because an input is a folder and `--recursive` is missing.
    pub fn folder(path: &Path) -> Self {
        Self::new(Code::InputOutput, format!("{}: it is a folder", shown(path)))
            .hint("--recursive takes all that is in it")
            .on(path)
    }

    /// A failure because a folder contains no protected file.
    pub fn nothing_protected(folder: &Path) -> Self {
        Self::new(Code::InputOutput, format!("{}: no protected file is in it", shown(folder)))
    }

    /// A failure of standard output.
    pub fn at_stdout(error: io::Error) -> Self {
        Self::new(Code::InputOutput, format!("standard output: {}", Error::write(error)))
    }

    /// A failure whose line has been written already.
    pub fn written(code: Code) -> Self {
        Self { code, line: None, hint: None, path: None, error: None }
    }

    /// The kind of the failure.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The line, unless it has been written already.
    pub fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }

    /// The advice, if there is any.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Where it was, if it was at a path.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether an input is not there any more.
    pub fn is_of_vanished_input(&self) -> bool {
        matches!(self.error.as_deref(), Some(Error::Core(CoreError::Read(e))) if e.kind() == io::ErrorKind::NotFound)
    }

    /// Whether an input has changed while it was read.
    pub fn is_of_changed_input(&self) -> bool {
        matches!(self.error.as_deref(), Some(Error::Core(CoreError::Changed)))
    }

    /// The error that it was made of, if there was one.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_deref()
    }

    /// The error that it was made of, unless there was none or a copy of the failure still has it.
    pub fn into_error(self) -> Option<Error> {
        self.error.and_then(Arc::into_inner)
    }

    /// Writes the line and the hint, and returns the exit code.
    pub fn report(&self) -> ExitCode {
        if let Some(line) = &self.line {
            complain_with(line, self.hint.as_deref());
            if let Some(witness) = WITNESS.get() {
                witness(self.path.as_deref(), self);
            }
        }
        ExitCode::from(self.code.number())
    }
}

/// Called with each failure that is reported, and its path if it has one.
pub type Witness = fn(Option<&Path>, &Failure);

static WITNESS: OnceLock<Witness> = OnceLock::new();

/// Sets the function that is called with each failure that is reported.
pub fn report_to(witness: Witness) {
    let _ = WITNESS.set(witness);
}

impl From<CoreError> for Failure {
    fn from(error: CoreError) -> Self {
        Error::from(error).into()
    }
}

/// Says what the user may do about an error.
pub type Hints = fn(&Error) -> Option<String>;

static HINTS: OnceLock<Hints> = OnceLock::new();

/// Sets the hints of a program that has not the options of `phalanx`. Only the first call counts.
pub fn hints_by(hints: Hints) {
    let _ = HINTS.set(hints);
}

/// Makes a failure of an error without a path.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self::new(Code::of(&error), sentence(&error));
        let hint = HINTS.get().map_or_else(|| hint(&error), |hint_of| hint_of(&error));
        Self { hint, ..failure }.because_of(error)
    }
}

/// Whether an output would have replaced a key.
pub fn is_of_key(error: &Error) -> bool {
    matches!(error, Error::Core(CoreError::Write(e)) if Obstacle::of(e) == Some(Obstacle::HoldsKey))
}

/// What failed, for the user of a command. It may say more than the library does.
fn sentence(error: &Error) -> String {
    match error {
        Error::Core(CoreError::Write(e))
            if matches!(Obstacle::of(e), Some(Obstacle::FolderExists | Obstacle::HoldsKey)) =>
        {
            e.to_string()
        }
        Error::NoSuchKey(_) => match home::keyring() {
            Some(dir) if !dir.exists() => format!("{error} {}, which does not exist", shown(&dir)),
            Some(dir) => format!("{error} {}", shown(&dir)),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

/// What the user of a command may do about an error.
pub fn hint(error: &Error) -> Option<String> {
    let hint = match error {
        Error::Core(error) => return hint_of_core(error),
        Error::Exists => "--force replaces it",
        Error::Protected => "a pipe protects it twice: phalanx protect - <FILE",
        Error::NoStores => "cargo install --features stores builds one with them; ./ before the name makes it a path",
        Error::NoLocks => "--fresh writes a whole new file",
        Error::Interrupted(_) => "phalanx rekey finishes it, with a key that opens the file",
        Error::NoSuchKey(_) if std::env::var_os("SUDO_USER").is_some() && is_root() => {
            "sudo runs with the keyring of root: --key-file names a key of another keyring"
        }
        Error::NoSuchKey(_) if home::keyring().is_some_and(|dir| !dir.exists()) => {
            "phalanx key new makes it; phalanx key import brings a key back from a copy"
        }
        Error::NoSuchKey(_) => "phalanx key list shows them",
        Error::KeyLocked(name) => return Some(format!("phalanx key unlock {name}")),
        Error::Refused(refused) => return refused.hint().map(str::to_owned),
        _ => return None,
    };
    Some(hint.into())
}

fn is_root() -> bool {
    phalanx_system::process::geteuid().as_raw() == 0
}

fn hint_of_core(error: &CoreError) -> Option<String> {
    let hint = match error {
        CoreError::Read(e) if Obstacle::of(e) == Some(Obstacle::NotRegular) => {
            "name it -, and give it as standard input"
        }
        CoreError::Read(e) if Obstacle::of(e) == Some(Obstacle::Objects) => {
            "verify --recursive, unprotect --recursive and mount take folders"
        }
        CoreError::Write(e) if folders::is_rival(e) => folders::RIVAL_HINT,
        CoreError::Write(e) => match Obstacle::of(e)? {
            Obstacle::NotRegular => "- writes to standard output",
            Obstacle::FolderExists => "--force overwrites files in it and deletes nothing",
            Obstacle::HoldsKey => "name another output, or move it away",
            Obstacle::FileInTheWay | Obstacle::FolderInTheWay => "delete it, or write a new mirror",
            _ => return None,
        },
        CoreError::Fault(fault) if fault.reason.starts_with("it has no ") => "--engine cpu has it",
        CoreError::WrongKey => "try again; if it is right, restore a copy of the file",
        CoreError::Altered { .. } => "unprotect --salvage saves the other chunks",
        CoreError::Truncated(_) | CoreError::Extended(_) => "unprotect --salvage saves what is there",
        CoreError::Volume => "mount the folder that it lies in",
        CoreError::HeaderRoom => "--fresh writes a whole new file, with a header that has",
        CoreError::Changed => "try again when nothing writes to it",
        CoreError::LastWay => "name another of its keys too, or add one",
        CoreError::NoSuchSlot(_) | CoreError::Renumbered => "phalanx inspect shows its slots",
        CoreError::NotAtHand(slot) => {
            let ways = "name its key, its password, its identity or --add-recipient";
            return Some(format!("{ways}, or drop it with --remove-slot {slot}"));
        }
        CoreError::KeysRefused { remedy, .. } => return remedy.clone(),
        CoreError::NoKey { identity: true, .. } => "--identity names a file of identities",
        CoreError::NoKey { services, .. } if !services.is_empty() => "--kms names a key service that may be asked",
        CoreError::NoKey { keys, .. } if !keys.is_empty() => "phalanx key list shows yours",
        CoreError::NoKey { password: true, .. } => {
            "--password-file gives it; at a terminal it is asked for if no key is named"
        }
        _ => return None,
    };
    Some(hint.into())
}

/// Runs `act` for each item, usually a path. A failure does not stop the others. Its line is written immediately, and
/// the worst failure is the result.
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

/// The worse of two outcomes. If both are failures, the line of the other one is written.
pub fn worse(a: Outcome, b: Outcome) -> Outcome {
    match (a, b) {
        (Err(a), Err(b)) => {
            let (worse, other) = if a.code > b.code { (a, b) } else { (b, a) };
            other.report();
            Err(worse)
        }
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
    let code = std::panic::catch_unwind(run).unwrap_or(ExitCode::from(Code::Other.number()));
    ask::restore();
    code
}
