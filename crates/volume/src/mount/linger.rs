//! Waiting for the next request without sleeping.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread looks out for the next request. Programs that work on small files send one within this time.
const LINGER: Duration = Duration::from_micros(50);

/// Looks out for a request on a FUSE device, and returns when one is there, when the session ends, or after [`LINGER`].
///
/// A thread that sleeps has to be woken on another core, which takes longer than most requests. Whatever else wants to run on
/// this core runs first.
pub(super) fn linger(device: &OwnedFd) {
    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let start = Instant::now();
    loop {
        match poll(&mut [PollFd::new(device, PollFlags::IN)], Some(&NOW)) {
            Ok(0) if start.elapsed() < LINGER => thread::yield_now(),
            _ => return,
        }
    }
}
