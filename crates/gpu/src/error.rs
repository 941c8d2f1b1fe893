//! What can go wrong, in one line each.

use std::fmt;
use std::time::Duration;

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a device did not do what it was asked for. Its text is one line.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{device}: {reason}")]
pub struct Error {
    /// The device's name, or the interface's where there is no device.
    pub device: String,
    /// What happened.
    pub reason: Reason,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No driver, or no device.
    Absent(String),
    /// The device has too little free memory for so many bytes.
    OutOfMemory(usize),
    /// The kernels did not build: the compiler's words.
    Build(String),
    /// A known answer came out wrong.
    SelfTest(String),
    /// The device or the kernel cannot do this: nothing was started.
    Refused(String),
    /// The driver reported a failure, of which operation and in which words.
    Failed(&'static str, String),
    /// The same, and the device does nothing any more.
    Lost(&'static str, String),
    /// The device did not end its work in so much time: nothing more is asked of it.
    TimedOut(Duration),
}

impl Reason {
    /// Whether the device is of no use any more.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Reason::Lost(..) | Reason::TimedOut(_))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Absent(why) => write!(f, "{}", one_line(why)),
            Reason::OutOfMemory(bytes) => write!(f, "out of device memory: {bytes} bytes were asked for"),
            Reason::Build(log) => write!(f, "the kernels did not build: {}", one_line(log)),
            Reason::SelfTest(what) => write!(f, "the self-test failed: {what}"),
            Reason::Refused(why) => write!(f, "{why}"),
            Reason::Failed(what, why) => write!(f, "{what} failed: {}", one_line(why)),
            Reason::Lost(what, why) => write!(f, "{what} failed, the device is lost: {}", one_line(why)),
            Reason::TimedOut(limit) => write!(f, "no answer within {limit:?}"),
        }
    }
}

/// Drivers' words may have many lines, and any length.
fn one_line(text: &str) -> String {
    let words = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    match words.char_indices().nth(1000) {
        Some((end, _)) => format!("{} …", &words[..end]),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_one_line() {
        let log = format!("a.c:1: error\r\n\n  note\n{}", "x".repeat(2000));
        let text = Error { device: "d".into(), reason: Reason::Build(log) }.to_string();
        assert!(text.starts_with("d: the kernels did not build: a.c:1: error; note; xxx") && text.ends_with("x …"));
        assert!(!text.contains('\n') && text.len() < 1100);
    }
}
