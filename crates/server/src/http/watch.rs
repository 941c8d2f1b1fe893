//! Watching over a connection: what its client lets the server wait for.
//!
//! A connection notes what happens to it in a few numbers, and one task looks at all of them twice a second. So a slow
//! client costs no timer of its own.

use crate::limits::Limits;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tokio::sync::Notify;

/// A connection that waits for less than this, or a stranger who came later, does not make room for another one.
pub const SETTLED: u64 = 1000;
/// How much longer than its handler the watch waits for a body, so that the client is told why.
const GRACE: u64 = 2000;

/// Milliseconds since the first call; never 0.
pub fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let since = FIRST.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// Waiting for a client to move bytes in one direction.
#[derive(Debug, Default)]
struct Pace {
    /// Since when it waits, or 0.
    since: AtomicU64,
    /// How long it has waited before that, in milliseconds, since its pace was last found to be good enough.
    waited: AtomicI64,
    /// The bytes that came or went since then.
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
            self.waited.fetch_add(signed(now().saturating_sub(since)), Relaxed);
        }
    }

    fn restart(&self) {
        [&self.since, &self.moved].into_iter().for_each(|number| number.store(0, Relaxed));
        self.waited.store(0, Relaxed);
    }

    /// Whether the client is too slow: it has not moved a byte for too long, or too few since it was last found to be
    /// fast enough. What it moved before that counts no more, so that nobody who was fast may be slow for hours.
    fn is_over(&self, now: u64, limits: &Limits) -> bool {
        let since = self.since.load(Relaxed);
        if since == 0 {
            return false;
        }
        let (waits, idle) = (now.saturating_sub(since), limits.idle_seconds * 1000);
        if waits > idle + GRACE {
            return true;
        }
        let waited = self.waited.load(Relaxed).saturating_add(signed(waits));
        if waited <= signed(idle + GRACE) {
            return false;
        }
        let earned = self.moved.load(Relaxed).saturating_mul(1000) / limits.slowest.max(1);
        if signed(earned) < waited {
            return true;
        }
        // The present wait is paid for too.
        self.waited.store(-signed(waits), Relaxed);
        self.moved.store(0, Relaxed);
        false
    }
}

fn signed(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// What one connection waits for.
#[derive(Debug)]
pub struct Watch {
    /// Since when nothing of a next request has come, or 0.
    pub(super) quiet: AtomicU64,
    /// Since when the head of a request comes, or 0.
    head: AtomicU64,
    /// Whether a request is being answered.
    busy: AtomicBool,
    /// Whether it had a request before.
    served: AtomicBool,
    /// Since when nobody knows who is at the other end, or 0.
    pub(super) strange: AtomicU64,
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
            strange: AtomicU64::new(now()),
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

    /// Nobody knows who asks.
    pub fn is_strange(&self) {
        let _ = self.strange.compare_exchange(0, now(), Relaxed, Relaxed);
    }

    /// It is known who asks.
    pub fn is_met(&self) {
        self.strange.store(0, Relaxed);
    }

    /// Whether it is known who asks.
    pub fn is_known(&self) -> bool {
        self.strange.load(Relaxed) == 0
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

    /// Whether the connection must end.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Relaxed)
    }

    /// Ends the connection.
    pub fn end(&self) {
        if !self.dropped.swap(true, Relaxed) {
            self.drop.notify_one();
        }
    }

    /// Waits until the connection must end.
    pub async fn dropped(&self) {
        self.drop.notified().await;
    }

    /// Whether the client has let the server wait for too long.
    pub fn is_over(&self, now: u64, limits: &Limits) -> bool {
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

    /// How long it could have made room for another connection, if it can. A stranger has one request, which may be cut
    /// off. A known caller's request may not.
    pub fn readiness(&self, now: u64) -> Option<u64> {
        let since = match self.strange.load(Relaxed) {
            0 if self.busy.load(Relaxed) || self.answer.since.load(Relaxed) > 0 => 0,
            0 => self.quiet.load(Relaxed),
            strange => strange,
        };
        let waited = now.saturating_sub(since);
        (since > 0 && waited >= SETTLED && !self.is_dropped()).then_some(waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            connections: 2,
            connections_of_one: 2,
            head_seconds: 10,
            idle_seconds: 30,
            keep_alive_seconds: 300,
            ..Limits::default()
        }
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
    fn who_was_fast_may_not_be_slow_for_hours() {
        let pace = Pace::default();
        pace.moves(31 << 20);
        pace.waited.store(40_000, Relaxed);
        pace.waits();
        assert!(!pace.is_over(later(0), &limits()), "the 31 MiB were fast");
        pace.moves(1);
        pace.waits();
        assert!(!pace.is_over(later(31), &limits()), "a new time begins");
        pace.moves(1);
        pace.waited.store(40_000, Relaxed);
        pace.waits();
        assert!(pace.is_over(later(0), &limits()), "which is not paid for by the old one");
    }
}
