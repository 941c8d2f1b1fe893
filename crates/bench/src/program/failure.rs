//! Failures of the program: one line on stderr, and the exit codes of `phalanx`.

use phalanx_core::Class;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

/// The kind of a failure, by its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Any other failure.
    Other = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Not a file in SEFPS's layout under this key.
    NotAuthentic = 3,
    /// Input or output failed.
    InputOutput = 4,
}

/// A failure with its line.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    line: String,
}

impl Failure {
    pub fn new(code: Code, line: impl Into<String>) -> Self {
        Self { code, line: line.into() }
    }

    /// A failure at a path.
    pub fn at(path: &Path, code: Code, what: impl Display) -> Self {
        Self::new(code, format!("{}: {what}", path.display()))
    }

    /// Writes the line, and returns the exit code.
    pub fn report(&self) -> ExitCode {
        complain(&self.line);
        ExitCode::from(self.code as u8)
    }
}

impl From<phalanx_host::Error> for Failure {
    fn from(error: phalanx_host::Error) -> Self {
        let code = match error.class() {
            Class::NotAuthentic => Code::NotAuthentic,
            Class::InputOutput => Code::InputOutput,
            Class::Argument => Code::Usage,
            Class::Other => Code::Other,
        };
        Self::new(code, error.to_string())
    }
}

impl From<phalanx_bench::error::Error> for Failure {
    fn from(error: phalanx_bench::error::Error) -> Self {
        use phalanx_bench::error::Error;
        match error {
            Error::Core(error) => phalanx_host::Error::from(error).into(),
            Error::Host(error) => error.into(),
            Error::Path(..) | Error::Exists(_) | Error::Folder(..) | Error::Resources(_) => {
                Self::new(Code::InputOutput, error.to_string())
            }
            Error::Program(_) | Error::Device(_) | Error::NotRun(_) => Self::new(Code::Other, error.to_string()),
        }
    }
}

/// Writes one line to stderr. If stderr is broken, the line is lost.
pub fn complain(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "phalanx-bench: {}", one_line(&line.to_string()));
}

/// Writes one line to stdout.
pub fn say(line: impl Display) -> Outcome {
    let written = writeln!(io::stdout().lock(), "{}", one_line(&line.to_string()));
    written.map_err(|e| Failure::new(Code::InputOutput, format!("cannot write: {e}")))
}

/// The text without control characters, which could deceive a terminal.
fn one_line(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}
