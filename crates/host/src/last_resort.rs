//! Clean-up for a process that ends without unwinding: temporary files are removed, and one line says why.

use crate::file;
use crate::lines;
use std::alloc::{GlobalAlloc, Layout, System};
#[cfg(unix)]
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The system's allocator, for programs. If there is no memory for a small allocation, the process ends, because small
/// allocations are not checked. A large allocation fails instead, and its caller returns an error.
pub struct Allocator;

/// The least size, in bytes, of an allocation that may fail.
const LARGE: usize = 64 << 10;

// SAFETY: each call goes to the system's allocator, and its result is passed on. If it fails for a small layout, the
// process ends and nothing is returned.
#[expect(unsafe_code)]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the same.
        checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the same.
        checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are the same.
        checked(unsafe { System.realloc(memory, layout, new_size) }, new_size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn checked(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() && size < LARGE {
        out_of_memory();
    }
    memory
}

/// Whether a thread has no memory and ends the process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Waits for the end of a process that has no memory. Whatever fails from then on fails because of that, and is not said.
pub fn stand_by() {
    while ENDING.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_secs(1));
    }
}

/// Ends the process, which cannot continue.
pub fn out_of_memory() -> ! {
    while ENDING.swap(true, Ordering::Relaxed) {
        // Another thread is ending the process.
        thread::sleep(Duration::from_secs(1));
    }
    file::remove_unfinished_at_once();
    end([lines::name().as_bytes(), b": ", b"not enough memory", b"\n"])
}

/// Writes a line and ends the process, without any memory.
#[cfg(unix)]
fn end(line: [&[u8]; 4]) -> ! {
    let _ = phalanx_system::io::writev(phalanx_system::stdio::stderr(), &line.map(io::IoSlice::new));
    signal_hook::low_level::exit(1)
}

/// Writes a line and ends the process. Its parts are written one by one, since Windows cannot write them in one call.
#[cfg(windows)]
fn end(line: [&[u8]; 4]) -> ! {
    use std::io::Write;
    line.iter().for_each(|part| drop(std::io::stderr().write_all(part)));
    phalanx_system::process::end(1)
}

/// Whether a panic's line has been written.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Records that a panic's line has been written. If the panic ends in an abort, no other message is needed.
pub fn panic_is_reported() {
    TOLD.store(true, Ordering::Relaxed);
}

/// Sets up a clean-up before the process aborts, as it does if a panic cannot unwind. (On Windows nothing can be done then: the next
/// run removes what is left.)
#[cfg(unix)]
pub fn clean_up_on_abort() -> io::Result<()> {
    use signal_hook::consts::SIGABRT;
    use signal_hook::low_level;
    let clean_up = || {
        file::remove_unfinished_at_once();
        if TOLD.load(Ordering::Relaxed) {
            low_level::exit(1);
        }
        let _ = low_level::emulate_default_handler(SIGABRT);
    };
    // SAFETY: the action only tries locks, makes system calls, and reads an atomic: it waits for a moment at most, and does not
    // allocate.
    #[expect(unsafe_code)]
    unsafe { low_level::register(SIGABRT, clean_up) }.map(drop)
}
