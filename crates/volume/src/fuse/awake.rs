//! Waiting awake for the next request.
//!
//! To wake a thread on a core that sleeps takes longer than most requests. So a thread that has answered a short request
//! looks out for the next one before it sleeps. Where the kernel finds no core that sleeps, it also lets the program go on
//! where the program is, and its next request stays on that core.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// When any thread answered the last short request.
pub struct Traffic {
    begin: Instant,
    /// In nanoseconds since `begin`.
    last: AtomicU64,
}

impl Traffic {
    pub fn new() -> Self {
        Self { begin: Instant::now(), last: AtomicU64::new(0) }
    }

    fn set(&self, now: Instant) {
        let since = now.saturating_duration_since(self.begin).as_nanos();
        self.last.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.begin + Duration::from_nanos(self.last.load(Ordering::Relaxed))
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
    /// Call it after the answer to a short request. Returns when the thread is called, or when it may sleep. `follows`: it
    /// stays awake as long as any thread answers short requests.
    pub fn linger(&self, follows: bool, traffic: &Traffic, mut is_called: impl FnMut() -> bool) {
        let begin = Instant::now();
        traffic.set(begin);
        let Some(mut pause) = self.pause.try_lock().ok().filter(|pause| pause.is_over(begin)) else {
            return;
        };
        let mut now = begin;
        while !is_called() {
            let last = if follows { traffic.last() } else { begin };
            if now.saturating_duration_since(last) > LINGER {
                return;
            }
            // Whatever else wants to run on this core runs first.
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

    #[test]
    fn it_ends_when_the_thread_is_called() {
        let (traffic, mut asked) = (Traffic::new(), 0);
        Lookout::default().linger(true, &traffic, || {
            asked += 1;
            // Requests go on, so nothing else ends it.
            traffic.set(Instant::now() + LINGER);
            asked == 5
        });
        assert!((1..=5).contains(&asked), "fewer if others needed the core");
    }

    #[test]
    fn it_ends_when_there_are_no_requests() {
        for follows in [false, true] {
            let lookout = Lookout::default();
            lookout.linger(follows, &Traffic::new(), || false);
            assert!(lookout.pause.try_lock().is_ok(), "others may look out now");
        }
    }

    #[test]
    fn one_thread_of_a_core_is_enough() {
        let lookout = Lookout::default();
        let _held = lookout.pause.lock().unwrap();
        lookout.linger(true, &Traffic::new(), || unreachable!("another one looks out"));
    }

    #[test]
    fn nobody_looks_out_during_a_pause() {
        let lookout = Lookout::default();
        lookout.pause.lock().unwrap().until = Some(Instant::now() + Duration::from_secs(3600));
        lookout.linger(true, &Traffic::new(), || unreachable!("there is a pause"));
        lookout.pause.lock().unwrap().until = Some(Instant::now());
        let mut is_asked = false;
        lookout.linger(true, &Traffic::new(), || {
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
