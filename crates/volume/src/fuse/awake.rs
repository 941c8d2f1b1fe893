//! Waiting awake for the next request.
//!
//! To wake a thread on a core that sleeps takes longer than most requests. So a thread that has answered a short request
//! looks out for the next one before it sleeps. Where the kernel finds no core that sleeps, it also lets the program go on
//! where the program is, and its next request stays on that core.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// On a machine with so many cores a thread on each stays awake as long as any thread answers short requests. With more
/// cores the program would find one that sleeps all the same.
pub const CORES: usize = 2;

/// How long a thread looks out. Programs that work on small files send a request within this time.
const LINGER: Duration = Duration::from_micros(50);
/// If the thread did not get its core back for so long, others need the core. A program that sends short requests soon
/// waits for an answer.
const AWAY: Duration = Duration::from_millis(1);
/// How long nobody looks out there then, the first time and at most. The system lets a thread that was asleep run sooner
/// than one that only yields.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// How long one thread of a program alone has to have sent short requests. Several make use of all cores themselves.
const ALONE: Duration = Duration::from_millis(1);

/// The short requests that all threads of a mount answer. Times are in nanoseconds since `begin`.
pub struct Traffic {
    begin: Instant,
    /// When the last one was answered.
    last: AtomicU64,
    /// The thread of a program that sent it.
    sender: AtomicU32,
    /// Since when only that one has sent any.
    alone_since: AtomicU64,
}

impl Traffic {
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self { begin: Instant::now(), last: zero(), sender: AtomicU32::new(0), alone_since: zero() }
    }

    /// `sender` is `None` for what nobody waits for, and 0 for threads that this process cannot see.
    fn answered(&self, now: Instant, sender: Option<u32>) {
        let since = now.saturating_duration_since(self.begin).as_nanos();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
        if sender.is_some_and(|sender| sender == 0 || self.sender.swap(sender, Ordering::Relaxed) != sender) {
            self.alone_since.store(since, Ordering::Relaxed);
        }
    }

    fn last(&self) -> Instant {
        self.begin + Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }

    fn is_of_one(&self, now: Instant) -> bool {
        let since = self.begin + Duration::from_nanos(self.alone_since.load(Ordering::Relaxed));
        now.saturating_duration_since(since) >= ALONE
    }
}

/// Where threads look out, usually a core. One of them at a time does.
#[derive(Default)]
pub struct Lookout {
    /// Held by the one that looks out.
    pause: Mutex<Pause>,
}

/// Others need the core.
#[derive(Default)]
struct Pause {
    until: Option<Instant>,
    len: Duration,
}

impl Pause {
    /// Begins a pause, twice as long as the one before if that has ended only now.
    fn begin(&mut self, now: Instant) {
        let is_again = self.until.is_some_and(|until| now.saturating_duration_since(until) < PAUSES.0);
        self.len = if is_again { (2 * self.len).min(PAUSES.1) } else { PAUSES.0 };
        self.until = Some(now + self.len);
    }

    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }
}

impl Lookout {
    /// Call it when a short request of this thread of a program was served. `is_called` may give the answer first. Returns
    /// when the calling thread is called, or when it may sleep. `follows`: it looks out as long as any thread answers such requests, if they come from one.
    pub fn linger(&self, follows: bool, traffic: &Traffic, sender: Option<u32>, mut is_called: impl FnMut() -> bool) {
        let begin = Instant::now();
        traffic.answered(begin, sender);
        if follows && !traffic.is_of_one(begin) {
            return;
        }
        let Some(mut pause) = self.pause.try_lock().ok().filter(|pause| pause.is_over(begin)) else {
            return;
        };
        let mut now = begin;
        while !is_called() {
            let last = if follows { traffic.last() } else { begin };
            if follows && !traffic.is_of_one(now) || now.saturating_duration_since(last) > LINGER {
                return;
            }
            // Programs that wait for this core go on now.
            thread::yield_now();
            let before = std::mem::replace(&mut now, Instant::now());
            if now.saturating_duration_since(before) > AWAY {
                return pause.begin(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread 7 has sent requests for some time.
    fn long() -> Traffic {
        let mut traffic = Traffic::new();
        traffic.begin -= 2 * ALONE;
        traffic.sender.store(7, Ordering::Relaxed);
        traffic
    }

    #[test]
    fn it_ends_when_the_thread_is_called() {
        let (lookout, traffic, mut asked) = (Lookout::default(), long(), 0);
        lookout.linger(true, &traffic, Some(7), || {
            asked += 1;
            // Requests go on, so nothing else ends it.
            traffic.answered(Instant::now() + LINGER, Some(7));
            asked == 5
        });
        let is_needed_by_others = lookout.pause.lock().unwrap().until.is_some();
        assert!(asked == 5 || is_needed_by_others, "{asked}");
    }

    #[test]
    fn it_ends_when_there_are_no_requests() {
        for follows in [false, true] {
            let lookout = Lookout::default();
            lookout.linger(follows, &long(), Some(7), || false);
            assert!(lookout.pause.try_lock().is_ok(), "others may look out now");
        }
    }

    #[test]
    fn where_several_threads_send_requests_it_does_not_follow() {
        let (traffic, mut asked) = (long(), 0);
        Lookout::default().linger(true, &traffic, Some(7), || {
            asked += 1;
            traffic.answered(Instant::now() + LINGER, Some(7 + asked % 2));
            false
        });
        assert_eq!(asked, 1);
        Lookout::default().linger(true, &traffic, Some(0), || unreachable!("these may be several"));
        let traffic = long();
        traffic.answered(Instant::now(), None);
        assert!(traffic.is_of_one(Instant::now()), "nobody waits for that");
    }

    #[test]
    fn one_thread_of_a_core_is_enough() {
        let lookout = Lookout::default();
        let _held = lookout.pause.lock().unwrap();
        lookout.linger(true, &long(), Some(7), || unreachable!("another one looks out"));
    }

    #[test]
    fn nobody_looks_out_during_a_pause() {
        let lookout = Lookout::default();
        lookout.pause.lock().unwrap().until = Some(Instant::now() + Duration::from_secs(3600));
        lookout.linger(true, &long(), Some(7), || unreachable!("there is a pause"));
        lookout.pause.lock().unwrap().until = Some(Instant::now());
        let mut is_asked = false;
        lookout.linger(true, &long(), Some(7), || {
            is_asked = true;
            true
        });
        assert!(is_asked);
    }

    #[test]
    fn pauses_become_longer_while_others_need_the_core() {
        let (mut pause, mut now) = (Pause::default(), Instant::now());
        let mut lens = Vec::new();
        for _ in 0..7 {
            assert!(pause.is_over(now));
            pause.begin(now);
            assert!(!pause.is_over(now));
            lens.push(pause.len.as_millis());
            now += pause.len;
        }
        assert_eq!(lens, [100, 200, 400, 800, 1600, 3000, 3000]);
        pause.begin(now + PAUSES.0);
        assert_eq!(pause.len, PAUSES.0, "it was quiet meanwhile");
    }
}
