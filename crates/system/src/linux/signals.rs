//! Signals that are blocked and taken one by one.

pub use crate::told::Masks;
use nix::errno::Errno;
use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::fs::File;
use std::io::{self, Read};

/// Signals that come to a process which blocks them.
#[derive(Debug)]
pub struct Incoming(SignalFd);

impl Incoming {
    /// Those of a set. They must be blocked.
    ///
    /// # Errors
    /// If the system cannot do it.
    pub fn of(signals: &SigSet) -> io::Result<Self> {
        Ok(Self(SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC)?))
    }

    /// Waits for the next one.
    ///
    /// # Errors
    /// If there will not be any more.
    pub fn next(&self) -> io::Result<u32> {
        loop {
            match self.0.read_signal() {
                Ok(Some(signal)) => return Ok(signal.ssi_signo),
                Ok(None) | Err(Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Takes one of these signals that was sent to this thread, which blocks them, if there is one.
pub fn take_sent(signals: &SigSet) {
    if let Ok(sent) = SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) {
        let _ = sent.read_signal();
    }
}

/// The signals that this thread ignores and blocks, as the system shows them. A missing mask is 0.
#[must_use]
pub fn masks() -> Masks {
    let mut status = Vec::with_capacity(4096);
    let read = |file: File| file.take(u64::MAX).read_to_end(&mut status);
    let _ = File::open("/proc/self/status").and_then(read);
    let status = String::from_utf8_lossy(&status);
    let [ignored, blocked] = ["SigIgn", "SigBlk"].map(|name| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
    });
    Masks { ignored, blocked }
}
