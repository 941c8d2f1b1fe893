//! How the command fails: one line on stderr, and an exit code that tells the kind.

use crate::hardening::status_mask;
use phalanx_core::error::{Class, Error};
use phalanx_core::output;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::panic::UnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// What a command ends in.
pub type Outcome<T = ()> = Result<T, Failure>;

/// The kind of a failure. The later ones outrank the earlier, should several paths fail in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// Anything else.
    Other,
    /// The command line is at fault.
    Usage,
    /// Input or output failed.
    InputOutput,
    /// Not a whole, authentic Phalanx file for the keys at hand.
    NotAuthentic,
}

impl Code {
    fn of(error: &Error) -> Self {
        match error.class() {
            Class::NotAuthentic => Code::NotAuthentic,
            Class::InputOutput => Code::InputOutput,
            Class::Argument => Code::Usage,
            Class::Other => Code::Other,
        }
    }

    fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Code::Other => 1,
            Code::Usage => 2,
            Code::NotAuthentic => 3,
            Code::InputOutput => 4,
        })
    }
}

/// A failure with its line; without one where the line has been written already.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    line: Option<String>,
}

impl Failure {
    pub fn new(code: Code, line: impl Into<String>) -> Self {
        Self { code, line: Some(line.into()) }
    }

    pub fn usage(line: impl Into<String>) -> Self {
        Self::new(Code::Usage, line)
    }

    /// A failure at a path.
    pub fn at(path: &Path, error: Error) -> Self {
        Self::new(Code::of(&error), format!("{}: {error}", shown(path)))
    }

    /// A failure whose line has been written already.
    pub fn told(code: Code) -> Self {
        Self { code, line: None }
    }

    /// Its kind.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Writes the line, and gives the code.
    pub fn report(&self) -> ExitCode {
        if let Some(line) = &self.line {
            complain(line);
        }
        self.code.exit_code()
    }
}

/// An error that no path belongs to.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let hint = if let Error::NoSuchKey(_) = error { " (phalanx key list shows them)" } else { "" };
        Self::new(Code::of(&error), format!("{error}{hint}"))
    }
}

/// Does something for each item, mostly a path. A failure does not stop the others: its line is written at once, and the worst is the outcome.
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

/// Writes one line to stderr, whatever it contains. Where stderr is broken there is nobody to tell.
pub fn complain(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "phalanx: {}", one_line(&line.to_string()));
}

/// Writes one line to stdout.
pub fn say(line: impl Display) -> Outcome {
    writeln!(io::stdout().lock(), "{}", one_line(&line.to_string())).map_err(|e| Error::Write(e).into())
}

/// A path as it may be shown: without control characters, which could deceive a terminal.
pub fn shown(path: &Path) -> String {
    one_line(&path.to_string_lossy()).into_owned()
}

fn one_line(text: &str) -> Cow<'_, str> {
    // Besides control characters, those that turn the direction of text.
    let hostile = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if text.contains(hostile) {
        text.chars()
            .flat_map(|c| if hostile(c) { c.escape_default().collect() } else { vec![c] })
            .collect::<String>()
            .into()
    } else {
        text.into()
    }
}

/// Runs the program so that a bug shows as one line too, and as exit code 1.
pub fn guard(run: impl FnOnce() -> ExitCode + UnwindSafe) -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        complain(format!("internal error{place}: please report it; no output was left behind"));
    }));
    std::panic::catch_unwind(run).unwrap_or(Code::Other.exit_code())
}

/// On Ctrl-C and the like: leaves no temporary file behind, then ends as the signal asks.
pub fn clean_up_on_signals() -> Outcome {
    let failed = |e: io::Error| Failure::new(Code::Other, format!("cannot catch signals: {e}"));
    // Writing beyond a limit on file sizes is then an error like a full disk, not a death without clean-up.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(failed)?;
    let caught = [SIGINT, SIGTERM, SIGHUP, SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal));
    let mut signals = Signals::new(caught).map_err(failed)?;
    let wait = move || {
        for signal in &mut signals {
            let _none_begins = (output::remove_unfinished(), phalanx_bench::scratch::remove_unfinished());
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map_err(failed)?;
    Ok(())
}

/// Whether whoever started this process wants it to outlive the signal, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    status_mask("SigIgn") >> (signal - 1) & 1 == 1
}
