//! Signals that end a process: temporary files are removed first.
//!
//! They are blocked, and a thread of its own takes them one by one. So whatever the other threads wait for, they are heeded at
//! once, and no system call of another thread is interrupted. Children that are started get none of this: Rust's `Command`
//! gives them an empty mask.

use crate::failure::{Code, Failure, Outcome};
use crate::last_resort;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use phalanx_core::file;
use signal_hook::low_level;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// The signals that do not end a process, or only one with a fault of its own. All others are taken: those of users, terminals,
/// schedulers and timers, and those without a fixed meaning.
const OTHERS: [Signal; 17] = [
    Signal::SIGBUS,
    Signal::SIGCHLD,
    Signal::SIGCONT,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGKILL,
    Signal::SIGPIPE,
    Signal::SIGSEGV,
    Signal::SIGSTOP,
    Signal::SIGSYS,
    Signal::SIGTRAP,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGURG,
    Signal::SIGWINCH,
    // Blocked from the start.
    Signal::SIGXFSZ,
];

/// Writing beyond a limit on file sizes is an error from now on, like a full disk. Otherwise it would end the process without
/// clean-up. It must be called before there are other threads.
pub fn survive_limits() -> Outcome {
    let mut beyond = SigSet::empty();
    beyond.add(Signal::SIGXFSZ);
    beyond.thread_block().map_err(|e| failed(e.into()))
}

/// On Ctrl-C and similar signals: removes temporary files, then ends as the signal asks. It must be called before there are
/// other threads, which would be ended by signals that they do not block.
pub fn clean_up() -> Outcome {
    last_resort::clean_up_on_abort().map_err(failed)?;
    // What the parent ignores or blocks does not end this process, as with `nohup`.
    let [ignored, blocked] = masks(["SigIgn", "SigBlk"]);
    let spared = move |signal: u32| (ignored | blocked) >> (signal - 1) & 1 == 1;
    let mut ending = SigSet::all();
    OTHERS.into_iter().for_each(|signal| ending.remove(signal));
    // Other processes send SIGABRT too, such as the watchdog of systemd. In the process itself glibc's `abort` lifts the block, so
    // that the handler still runs. That of musl does not.
    if !cfg!(target_env = "gnu") {
        ending.remove(Signal::SIGABRT);
    }
    let signals = SignalFd::with_flags(&ending, SfdFlags::SFD_CLOEXEC).map_err(|e| failed(e.into()))?;
    let before = ending.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(|e| failed(e.into()))?;
    let _ = BEFORE.set(before);
    let take_all = move || {
        loop {
            match signals.read_signal() {
                Ok(Some(signal)) if !spared(signal.ssi_signo) => take(signal.ssi_signo.cast_signed()),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => std::process::abort(),
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(take_all).map_err(failed)?;
    Ok(())
}

static BEFORE: OnceLock<SigSet> = OnceLock::new();

/// From now on this thread blocks what it blocked at first, and so do the children that it starts: what a child finds blocked
/// does not end it.
pub fn block_no_more() {
    if let Some(before) = BEFORE.get() {
        let _ = before.thread_set_mask();
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::new(Code::Other, format!("cannot catch signals: {error}"))
}

fn take(signal: i32) {
    if let Some(end) = IN_ORDER.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return end();
    }
    let _none_begins = file::remove_unfinished();
    let _ = low_level::emulate_default_handler(signal);
    // Signals that it does not know end the process too, with the code that a shell would show.
    low_level::exit(128 + signal);
}

static IN_ORDER: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// The next signal that would end the process does this instead, at once and on the thread that waits for signals. The one
/// after it ends the process.
pub fn on_next(end: impl FnOnce() + Send + 'static) {
    *IN_ORDER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(end));
}

/// Bit masks of signals that the system shows for this thread. One that it does not show is 0.
fn masks<const N: usize>(names: [&str; N]) -> [u64; N] {
    let mut status = Vec::with_capacity(4096);
    let read = |file: File| file.take(u64::MAX).read_to_end(&mut status);
    let _ = File::open("/proc/self/status").and_then(read);
    let status = String::from_utf8_lossy(&status);
    names.map(|name| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
    })
}
