//! Keeps the secrets of this process out of core dumps and other processes. Memory cannot be locked as a whole here. The system
//! encrypts its swap.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ptr;

/// A limit of one byte prevents core dumps.
const NO_CORE: Rlimit = Rlimit { current: Some(1), maximum: Some(1) };

/// The most open files that setrlimit(2) allows, `OPEN_MAX`.
const MOST_FILES: u64 = 10240;

/// Hardens the process. Called before everything else. Failures are ignored, because this is a second line of defence.
pub fn harden() {
    let _ = setrlimit(Resource::Core, NO_CORE);
    refuse_tracers();
    // Recursive runs keep a file and its folders open for each thread, and groups of outputs until they are synced.
    let files = getrlimit(Resource::Nofile);
    let most = files.maximum.map_or(MOST_FILES, |most| most.min(MOST_FILES));
    if files.current.is_some_and(|now| now < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: files.maximum });
    }
}

/// Keeps other processes from tracing this one. One that is traced already ends here.
fn refuse_tracers() {
    // SAFETY: this request uses neither its process nor its address.
    #[expect(unsafe_code)]
    let _ = unsafe { libc::ptrace(libc::PT_DENY_ATTACH, 0, ptr::null_mut(), 0) };
}

/// The system cannot lock the memory of a process.
pub fn lock_memory() {}

/// No memory is locked that drivers could need.
pub fn make_room_for_drivers() {}

/// Tries something. The second result is whether the process is no longer hardened because of it.
pub fn or_without<T>(mut attempt: impl FnMut() -> T, _has_failed: impl Fn(&T) -> bool) -> (T, bool) {
    (attempt(), false)
}
