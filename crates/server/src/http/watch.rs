//! Watching over connections: how many there are, and what each client lets the server wait for.
//!
//! A connection notes what happens to it in a few numbers, and one task looks at all of them twice a second. So a slow
//! client costs no timer of its own, and when there are too many connections, those that wait for nothing make room.

use crate::limits::Limits;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How often all connections are looked at.
const EVERY: Duration = Duration::from_millis(500);
/// A connection that waits for less than this does not make room for another one.
const SETTLED: u64 = 1000;
/// How much longer than its handler the watch waits for a body, so that the client is told why.
const GRACE: u64 = 2000;
/// Connections of the server's own user beyond the limit, so that it can be managed whatever others do.
const OWN: usize = 64;

/// Milliseconds since the first call; never 0.
fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let since = FIRST.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// Waiting for a client to move bytes in one direction.
#[derive(Debug, Default)]
struct Pace {
    /// Since when it waits, or 0.
    since: AtomicU64,
    /// How long it has waited in all, in milliseconds.
    waited: AtomicU64,
    /// The bytes that came or went.
    moved: AtomicU64,
}

impl Pace {
    fn waits(&self) {
        if self.since.load(Relaxed) == 0 {
            self.since.store(now(), Relaxed);
        }
    }

    fn moves(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Relaxed);
        self.stops();
    }

    fn stops(&self) {
        let since = self.since.swap(0, Relaxed);
        if since > 0 {
            self.waited.fetch_add(now().saturating_sub(since), Relaxed);
        }
    }

    fn restart(&self) {
        [&self.since, &self.waited, &self.moved].into_iter().for_each(|number| number.store(0, Relaxed));
    }

    /// Whether the client is too slow: it has not moved a byte for too long, or too few in all.
    fn is_over(&self, now: u64, limits: &Limits) -> bool {
        let since = self.since.load(Relaxed);
        if since == 0 {
            return false;
        }
        let (waits, idle) = (now.saturating_sub(since), limits.idle_seconds * 1000);
        let earned = self.moved.load(Relaxed).saturating_mul(1000) / limits.slowest.max(1);
        waits > idle + GRACE || self.waited.load(Relaxed) + waits > idle.saturating_add(earned) + GRACE
    }
}

/// What one connection waits for.
#[derive(Debug)]
pub struct Watch {
    /// Since when nothing of a next request has come, or 0.
    quiet: AtomicU64,
    /// Since when the head of a request comes, or 0.
    head: AtomicU64,
    /// Whether a request is being answered.
    busy: AtomicBool,
    /// Whether it had a request before.
    served: AtomicBool,
    /// Whether it has named a caller that exists.
    known: AtomicBool,
    body: Pace,
    answer: Pace,
    dropped: AtomicBool,
    drop: Notify,
}

impl Watch {
    /// The watch of a new connection.
    pub fn new() -> Self {
        Self {
            quiet: AtomicU64::new(now()),
            head: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            served: AtomicBool::new(false),
            known: AtomicBool::new(false),
            body: Pace::default(),
            answer: Pace::default(),
            dropped: AtomicBool::new(false),
            drop: Notify::new(),
        }
    }

    /// Bytes came.
    pub fn came(&self) {
        if !self.busy.load(Relaxed) && self.quiet.swap(0, Relaxed) > 0 {
            self.head.store(now(), Relaxed);
        }
    }

    /// A whole head came.
    pub fn begins(&self) {
        self.busy.store(true, Relaxed);
        self.quiet.store(0, Relaxed);
        self.head.store(0, Relaxed);
        self.body.restart();
        self.answer.restart();
    }

    /// The caller is known.
    pub fn is_known(&self) {
        self.known.store(true, Relaxed);
    }

    /// Everything of the answer is in buffers.
    pub fn ends(&self) {
        self.body.stops();
        self.served.store(true, Relaxed);
        self.busy.store(false, Relaxed);
        self.quiet.store(now(), Relaxed);
    }

    /// The request's body is waited for.
    pub fn body_waits(&self) {
        self.body.waits();
    }

    /// Bytes of the request's body came, or its end.
    pub fn body_came(&self, bytes: usize) {
        self.body.moves(bytes);
    }

    /// The client does not take what is sent.
    pub fn answer_waits(&self) {
        self.answer.waits();
    }

    /// The client took bytes.
    pub fn answer_went(&self, bytes: usize) {
        self.answer.moves(bytes);
    }

    /// The client took everything.
    pub fn answer_is_out(&self) {
        self.answer.stops();
    }

    /// Ends the connection.
    fn end(&self) {
        if !self.dropped.swap(true, Relaxed) {
            self.drop.notify_one();
        }
    }

    /// Waits until the connection must end.
    pub async fn dropped(&self) {
        self.drop.notified().await;
    }

    fn is_over(&self, now: u64, limits: &Limits) -> bool {
        let over = |since: &AtomicU64, seconds: u64| {
            let since = since.load(Relaxed);
            since > 0 && now.saturating_sub(since) > seconds.saturating_mul(1000)
        };
        let quiet = if self.served.load(Relaxed) { limits.keep_alive_seconds } else { limits.head_seconds };
        let sending = self.answer.since.load(Relaxed) > 0;
        over(&self.head, limits.head_seconds)
            || !sending && over(&self.quiet, quiet)
            || self.body.is_over(now, limits)
            || self.answer.is_over(now, limits)
    }

    /// How readily it makes room for another connection: more for strangers, and for those who have waited longer.
    fn readiness(&self, now: u64) -> Option<(bool, u64)> {
        let idle = !self.busy.load(Relaxed) && self.answer.since.load(Relaxed) == 0 && !self.dropped.load(Relaxed);
        let known = self.known.load(Relaxed);
        let since = match self.quiet.load(Relaxed) {
            // The head of a stranger who takes long for it.
            0 if !known => self.head.load(Relaxed),
            quiet => quiet,
        };
        let waited = now.saturating_sub(since);
        (idle && since > 0 && waited >= SETTLED).then_some((!known, waited))
    }
}

/// All connections.
#[derive(Debug, Default)]
pub struct Connections {
    all: Mutex<Vec<Weak<Watch>>>,
}

impl Connections {
    /// Adds a connection, if there may be another one. `own` is one of the server's own user.
    pub fn add(&self, limits: &Limits, own: bool) -> Option<Arc<Watch>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let most = limits.connections + if own { OWN } else { 0 };
        if all.len() >= most {
            all.retain(|watch| watch.upgrade().is_some_and(|watch| !watch.dropped.load(Relaxed)));
        }
        if all.len() >= most {
            let now = now();
            let ready = all.iter().filter_map(Weak::upgrade).filter_map(|watch| Some((watch.readiness(now)?, watch)));
            let (_, readiest) = ready.max_by_key(|(readiness, _)| *readiness)?;
            readiest.end();
        }
        let watch = Arc::new(Watch::new());
        all.push(Arc::downgrade(&watch));
        Some(watch)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|watch| watch.strong_count() > 0).count()
    }

    /// Ends connections whose clients are too slow, for ever.
    pub async fn watch(&self, limits: &Limits) {
        loop {
            tokio::time::sleep(EVERY).await;
            let now = now();
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|watch| {
                let Some(watch) = watch.upgrade() else { return false };
                if watch.is_over(now, limits) {
                    watch.end();
                }
                true
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { connections: 2, head_seconds: 10, idle_seconds: 30, keep_alive_seconds: 300, ..Limits::default() }
    }

    fn later(seconds: u64) -> u64 {
        now() + seconds * 1000
    }

    #[test]
    fn each_wait_has_its_limit() {
        let watch = Watch::new();
        assert!(!watch.is_over(later(9), &limits()) && watch.is_over(later(11), &limits()), "no byte at all");
        watch.came();
        assert!(!watch.is_over(later(9), &limits()) && watch.is_over(later(11), &limits()), "a slow head");
        watch.begins();
        assert!(!watch.is_over(later(10_000), &limits()), "the server's own work");
        watch.body_waits();
        assert!(!watch.is_over(later(30), &limits()) && watch.is_over(later(33), &limits()), "a slow body");
        watch.body_came(1);
        watch.ends();
        assert!(!watch.is_over(later(299), &limits()) && watch.is_over(later(301), &limits()), "between requests");
        watch.answer_waits();
        assert!(watch.is_over(later(33), &limits()), "a slow reader");
    }

    #[test]
    fn a_byte_now_and_then_is_too_slow() {
        let pace = Pace::default();
        pace.waited.store(40_000, Relaxed);
        pace.moved.store(40, Relaxed);
        pace.waits();
        assert!(pace.is_over(later(0), &limits()));
        pace.moved.store(1 << 20, Relaxed);
        assert!(!pace.is_over(later(0), &limits()));
    }

    #[test]
    fn idle_strangers_make_room_first() {
        let connections = Connections::default();
        let [known, stranger] = [true, false].map(|known| {
            let watch = connections.add(&limits(), false).unwrap();
            watch.known.store(known, Relaxed);
            watch
        });
        assert!(connections.add(&limits(), false).is_none(), "both are new");
        assert!(connections.add(&limits(), true).is_some(), "the server's own user");
        assert_eq!(stranger.readiness(later(2)), Some((true, 2000)));
        assert!(known.readiness(later(200)).unwrap() < stranger.readiness(later(2)).unwrap());
        stranger.begins();
        assert_eq!(stranger.readiness(later(2)), None, "a running request is never cut off");
    }
}
