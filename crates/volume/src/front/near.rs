//! Serving small requests on the core of whoever asks.
//!
//! A client that waits for each answer cannot use a second core at the same time. But the kernel wakes the thread that serves
//! it on another one, and then the client again: to wake a core takes longer than most requests. So when the same thread asks
//! again and again, the threads of the mount move to its core. They leave it at the first request of somebody else, and
//! for all work that is long enough to be done beside the client's.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::Cell;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// Work on more bytes than these is done wherever the kernel likes.
const SMALL: usize = 64 << 10;
/// After so many requests of one thread its core is looked for, and then after each [`AGAIN`] more.
const STREAK: u32 = 8;
/// It may have moved by then.
const AGAIN: u32 = 32;

/// Where no thread of the mount is bound to a core.
const ANYWHERE: u32 = u32::MAX;

/// Where requests are served.
pub(super) struct Near {
    /// The cores that this process may use; `None` if there is no choice, or the system does not let it choose.
    all: Option<CpuSet>,
    /// The thread that asked last, by its number.
    client: AtomicU32,
    /// How many requests in a row were its.
    streak: AtomicU32,
    /// The core on which the threads of the mount should be.
    core: AtomicU32,
}

thread_local! {
    /// The core that this thread is bound to.
    static BOUND: Cell<u32> = const { Cell::new(ANYWHERE) };
}

impl Near {
    pub fn new() -> Self {
        let all = sched_getaffinity(None).ok().filter(|all| all.count() > 1);
        Self { all, client: AtomicU32::new(0), streak: AtomicU32::new(0), core: AtomicU32::new(ANYWHERE) }
    }

    /// This thread serves a request of a thread that waits for the answer. The work is on so many bytes.
    pub fn serve(&self, client: u32, len: usize) {
        let Some(all) = &self.all else { return };
        // Requests overtake each other here. Then a core is found a little later, or a core is left a little later.
        if len > SMALL || client == 0 || self.client.swap(client, Ordering::Relaxed) != client {
            self.streak.store(0, Ordering::Relaxed);
            self.core.store(ANYWHERE, Ordering::Relaxed);
        } else {
            let streak = self.streak.fetch_add(1, Ordering::Relaxed) + 1;
            if streak % AGAIN == STREAK {
                let core = waits_on(client).filter(|core| all.is_set(*core as usize)).unwrap_or(ANYWHERE);
                self.core.store(core, Ordering::Relaxed);
            }
        }
        self.go(all);
    }

    /// Binds this thread to the core, or to none.
    fn go(&self, all: &CpuSet) {
        let core = self.core.load(Ordering::Relaxed);
        if BOUND.get() == core {
            return;
        }
        let mut cores = *all;
        if core != ANYWHERE {
            cores.clear();
            cores.set(core as usize);
        }
        // Where that is not allowed it only takes longer. It is tried no more often than somebody new asks.
        let _ = sched_setaffinity(None, &cores);
        BOUND.set(core);
    }
}

/// The core of a thread that waits; `None` if it goes on without the answer, or cannot be seen.
fn waits_on(thread: u32) -> Option<u32> {
    core_of(&fs::read_to_string(format!("/proc/{thread}/task/{thread}/stat")).ok()?)
}

/// The same from the thread's line in `/proc` (proc_pid_stat(5)): the third field is its state, the 39th its core.
fn core_of(line: &str) -> Option<u32> {
    let mut fields = line.get(line.rfind(')')? + 1..)?.split_ascii_whitespace();
    let waits = matches!(fields.next()?, "S" | "D");
    fields.nth(35)?.parse().ok().filter(|core| waits && *core != ANYWHERE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::gettid;
    use std::sync::mpsc::channel;
    use std::thread::{scope, sleep};
    use std::time::Duration;

    #[test]
    fn a_thread_that_waits_is_followed_until_another_one_asks() {
        let near = Near::new();
        let Some(all) = near.all else {
            println!("skipped: no second core");
            return;
        };
        let here = || sched_getaffinity(None).unwrap();
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        scope(|scope| {
            scope.spawn(move || {
                tell.send(gettid().as_raw_nonzero().get() as u32).unwrap();
                let _ = ended.recv();
            });
            let client = told.recv().unwrap();
            while waits_on(client).is_none() {
                sleep(Duration::from_millis(1));
            }
            // The first is of somebody new.
            for _ in 0..STREAK {
                near.serve(client, 0);
                assert_eq!(here(), all);
            }
            near.serve(client, SMALL);
            assert_eq!(here().count(), 1);
            let core = waits_on(client).unwrap() as usize;
            assert!(here().is_set(core));
            near.serve(client, SMALL + 1);
            assert_eq!(here(), all);
            for _ in 0..STREAK {
                near.serve(client, 0);
            }
            assert_eq!(here().count(), 1);
            near.serve(client + 1, 0);
            assert_eq!(here(), all);
            // One that does not wait, as it is this one.
            let own = gettid().as_raw_nonzero().get() as u32;
            for _ in 0..2 * STREAK {
                near.serve(own, 0);
                assert_eq!(here(), all);
            }
            // One that cannot be seen.
            for _ in 0..2 * STREAK {
                near.serve(0, 0);
                assert_eq!(here(), all);
            }
            drop(end);
        });
    }

    #[test]
    fn lines_of_proc_are_read() {
        let line = |state: &str| {
            let middle: Vec<String> = (4..39).map(|field| field.to_string()).collect();
            format!("17 (a) S (b) {state} {} 5 0 0", middle.join(" "))
        };
        assert_eq!(core_of(&line("S")), Some(5));
        assert_eq!(core_of(&line("D")), Some(5));
        assert_eq!(core_of(&line("R")), None);
        for line in ["", "17 (a", "17 (a) S 1 2", "17 (a) "] {
            assert_eq!(core_of(line), None);
        }
    }
}
