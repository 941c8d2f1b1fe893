//! Signals that are blocked and taken one by one.

pub use crate::told::Masks;
use nix::sys::signal::{SigSet, Signal};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Signals that come to a process which blocks them.
#[derive(Debug)]
pub struct Incoming(SigSet);

impl Incoming {
    /// Those of a set. They must be blocked.
    ///
    /// # Errors
    /// None.
    pub fn of(signals: &SigSet) -> io::Result<Self> {
        Ok(Self(*signals))
    }

    /// Waits for the next one.
    ///
    /// # Errors
    /// If there will not be any more.
    pub fn next(&self) -> io::Result<u32> {
        Ok(self.0.wait()? as u32)
    }
}

/// Takes one of these signals that was sent to this thread, which blocks them, if there is one.
pub fn take_sent(signals: &SigSet) {
    let mut pending = MaybeUninit::uninit();
    // SAFETY: the pointer is to memory of this size, which the call fills if it succeeds.
    #[expect(unsafe_code)]
    let pending = unsafe {
        if libc::sigpending(pending.as_mut_ptr()) != 0 {
            return;
        }
        SigSet::from_sigset_t_unchecked(pending.assume_init())
    };
    if signals.iter().any(|signal| pending.contains(signal)) {
        let _ = signals.wait();
    }
}

/// The signals that this process ignores and this thread blocks.
#[must_use]
pub fn masks() -> Masks {
    let bit = |signal: Signal| 1 << (signal as u32 - 1);
    let blocked = SigSet::thread_get_mask().map_or(0, |mask| mask.iter().map(bit).sum());
    Masks { ignored: Signal::iterator().filter(|signal| is_ignored(*signal)).map(bit).sum(), blocked }
}

fn is_ignored(signal: Signal) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only tells the present one, and fills the memory if it succeeds.
    #[expect(unsafe_code)]
    unsafe {
        libc::sigaction(signal as i32, ptr::null(), now.as_mut_ptr()) == 0
            && now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
