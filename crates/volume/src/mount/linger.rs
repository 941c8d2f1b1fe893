//! Waiting for the next request without sleeping.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread polls for the next request. Programs that work on small files send one within this time.
const LINGER: Duration = Duration::from_micros(50);

/// Polls a FUSE device, and returns when a request is there, when the session ends, or after [`LINGER`].
///
/// Waking a sleeping thread on another core takes longer than most requests. Other threads that want to run on this
/// core run first.
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
