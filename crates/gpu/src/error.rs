//! Errors. The text of each is one line.

use std::fmt;
use std::time::Duration;

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a device did not do its work. Its text is one line.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{device}: {reason}")]
pub struct Error {
    /// The device's name, or the name of the interface if there is no device.
    pub device: String,
    /// What happened.
    pub reason: Reason,
}

/// What happened.
///
/// A *failure of the driver* is [`Reason::Failed`], [`Reason::Lost`] or [`Reason::TimedOut`]. After the latter two the
/// device is dead: every later call fails immediately with the same error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// There is no driver, or no device.
    Absent(String),
    /// The device, or the host for pinned memory, has too little free memory for this number of bytes.
    OutOfMemory(usize),
    /// The kernels did not build. This is the compiler's output.
    Build(String),
    /// The result for a known answer is wrong.
    SelfTest(String),
    /// The device or the kernel cannot do this. Nothing was started.
    Refused(String),
    /// The driver reported a failure: the operation that failed, and the driver's words.
    Failed(&'static str, String),
    /// The driver reported a failure, as in [`Reason::Failed`], after which the device cannot be used any more.
    Lost(&'static str, String),
    /// The device did not finish its work within this time. It is not used any more.
    TimedOut(Duration),
}

impl Reason {
    /// Whether the device cannot be used any more.
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

/// Shortens a driver's text, which can have many lines and any length, to one line.
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
