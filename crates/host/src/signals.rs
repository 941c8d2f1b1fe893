//! Signals that end a process: temporary files are removed first.
//!
//! They are blocked, and a separate thread takes them one by one. So they are handled immediately, whatever the other
//! threads wait for, and no system call of another thread is interrupted. A child inherits the mask of the thread that
//! starts it, so these signals would not end the child or its own children. [`start`] therefore restores the mask that
//! this process was given. (`fusermount3` does not need this: if it keeps running, it blocks all signals by itself.)

use crate::failure::{Code, Failure, Outcome};
use crate::last_resort;
use crate::{ask, file};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use phalanx_system::signals::{self, Incoming, Masks};
use signal_hook::{flag, low_level};
use std::io;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::thread;

/// The signals that do not end a process, or that only a fault of the process causes. All others are taken: those of
/// users, terminals, schedulers and timers, and those without a fixed meaning.
const OTHERS: &[Signal] = &[
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
    // It is blocked from the start.
    Signal::SIGXFSZ,
    #[cfg(target_os = "macos")]
    Signal::SIGEMT,
    #[cfg(target_os = "macos")]
    Signal::SIGINFO,
    #[cfg(target_os = "macos")]
    Signal::SIGIO,
];

/// Makes writing beyond a limit on file sizes an error, as for a full disk. Otherwise it would end the process without
/// clean-up. Call it before there are other threads.
pub fn survive_limits() -> Outcome {
    let mut beyond = SigSet::empty();
    beyond.add(Signal::SIGXFSZ);
    let before = beyond.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(|e| failed(e.into()))?;
    let _ = BEFORE.set(before);
    Ok(())
}

/// Sets up what happens on Ctrl-C and similar signals: temporary files are removed, and then the process ends as the
/// signal asks. Call it before there are other threads, because a signal that they do not block would end the process.
pub fn clean_up() -> Outcome {
    last_resort::clean_up_on_abort().map_err(failed)?;
    // Signals that the parent ignores or blocks do not end this process, as with `nohup`.
    let Masks { ignored, blocked } = signals::masks();
    let _ = SPARED.set(ignored | blocked);
    let mut ending = SigSet::all();
    OTHERS.iter().for_each(|signal| ending.remove(*signal));
    // Other processes send SIGABRT too, such as the watchdog of systemd. In the process itself glibc's `abort` lifts
    // the block, so that the handler still runs. That of musl does not.
    if !cfg!(target_env = "gnu") {
        ending.remove(Signal::SIGABRT);
    }
    let signals = Incoming::of(&ending).map_err(failed)?;
    ending.thread_block().map_err(|e| failed(e.into()))?;
    let take_all = move || {
        loop {
            match signals.next() {
                Ok(signal) => take_unless_spared(signal),
                Err(_) => std::process::abort(),
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(take_all).map_err(failed)?;
    Ok(())
}

/// Does what SIGINT does, for the user who has typed Ctrl-C at a prompt. Does nothing before [`clean_up`].
pub(crate) fn interrupt() {
    if SPARED.get().is_none() {
        return;
    }
    // Who has read the character may have sent it to this thread, which blocks it. Later it would count once more.
    signals::take_sent(&SigSet::from(Signal::SIGINT));
    take_unless_spared(Signal::SIGINT as u32);
}

/// The signals that the parent ignores or blocks, as bits, once signals are taken.
static SPARED: OnceLock<u64> = OnceLock::new();

fn take_unless_spared(signal: u32) {
    let is_spared = SPARED.get().is_some_and(|spared| spared >> (signal - 1) & 1 == 1);
    if acts_on(signal) || !is_spared {
        take(signal.cast_signed());
    }
}

/// Whether the program acts on this signal and does not end. It does so under `nohup` too.
///
/// Tools that rotate logs send one of these three. What a program does on SIGHUP it does on SIGUSR1 too, and SIGUSR2 is
/// ignored.
fn acts_on(signal: u32) -> bool {
    let kept = [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];
    kept.iter().any(|kept| *kept as u32 == signal) && ON_HANGUP.get().is_some()
}

/// The mask that this process was given.
static BEFORE: OnceLock<SigSet> = OnceLock::new();

/// Starts a program, which blocks only what this process was given as blocked.
///
/// Meanwhile signals may reach this thread. They are recorded, and handled as soon as the program has started.
pub fn start(command: &mut Command) -> io::Result<Child> {
    static NOTES: [AtomicBool; 65] = [const { AtomicBool::new(false) }; 65];
    static NOTING: Once = Once::new();
    let Some(before) = BEFORE.get() else { return command.spawn() };
    NOTING.call_once(|| note_in(&NOTES));
    let blocking = before.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let started = command.spawn();
    blocking.thread_set_mask()?;
    let arrived = (0..).zip(&NOTES).filter(|(_, note)| note.swap(false, Ordering::SeqCst));
    arrived.for_each(|(signal, _)| take(signal));
    started
}

/// Sets the flag of each signal that reaches a thread. A started program does not inherit the handlers, but ignores
/// what this process ignores, so ignored signals stay ignored.
fn note_in(notes: &'static [AtomicBool; 65]) {
    let ignored = signals::masks().ignored;
    let is_ending =
        |signal: i32| OTHERS.iter().all(|other| *other as i32 != signal) && ignored >> (signal - 1) & 1 == 0;
    for (signal, note) in (0..).zip(notes).skip(1).filter(|(signal, _)| is_ending(*signal)) {
        // The system refuses those that it uses itself. They are not blocked either.
        let _ = flag::register(signal, note);
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::new(Code::Other, format!("cannot catch signals: {error}"))
}

fn take(signal: i32) {
    if acts_on(signal.cast_unsigned())
        && let Some(act) = ON_HANGUP.get()
    {
        if signal != Signal::SIGUSR2 as i32 {
            act();
        }
        return;
    }
    let is_order = signal == Signal::SIGTERM as i32 || signal == Signal::SIGINT as i32;
    if let Some(ending) = IN_ORDER.lock().unwrap_or_else(PoisonError::into_inner).take_if(|end| is_order || end.by_any)
    {
        return (ending.end)();
    }
    let _none_begins = file::remove_unfinished();
    file::give_up();
    ask::restore();
    let _ = low_level::emulate_default_handler(signal);
    // Signals unknown to the library end the process too, with the code that a shell would show.
    low_level::exit(128 + signal);
}

/// What the next signal does instead of ending the process.
struct Ending {
    /// Whether any signal that would end the process does it; otherwise only SIGTERM and SIGINT.
    by_any: bool,
    end: Box<dyn FnOnce() + Send>,
}

static IN_ORDER: Mutex<Option<Ending>> = Mutex::new(None);

/// Sets what the next signal that would end the process does instead, on the thread that waits for signals. The signal
/// after it ends the process.
pub fn on_next(end: impl FnOnce() + Send + 'static) {
    set(Ending { by_any: true, end: Box::new(end) });
}

/// Sets what the next SIGTERM or SIGINT does instead of ending the process, as [`on_next`] does. Other signals end it as
/// ever.
pub fn on_next_order(end: impl FnOnce() + Send + 'static) {
    set(Ending { by_any: false, end: Box::new(end) });
}

fn set(ending: Ending) {
    *IN_ORDER.lock().unwrap_or_else(PoisonError::into_inner) = Some(ending);
}

static ON_HANGUP: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// Sets what SIGHUP and SIGUSR1 do instead of ending the process, as often as they come, on the thread that waits for
/// signals. SIGUSR2 is ignored then. Only the first call counts.
pub fn on_hangup(act: impl Fn() + Send + Sync + 'static) {
    let _ = ON_HANGUP.set(Box::new(act));
}
