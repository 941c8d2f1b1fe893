//! How many lines are written of callers who are not known. They have no other bound, and could fill the disk.

use phalanx_host::lock::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time for which lines are counted.
const TIME: Duration = Duration::from_secs(10);
/// The most lines in this time.
const MOST: u32 = 100;

/// What was written of them.
#[derive(Debug, Default)]
pub struct Strangers(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    began: Option<Instant>,
    written: u32,
    /// Lines that were left out, until the log says so.
    left_out: u64,
}

impl Count {
    /// Whether the time is over for which was counted.
    fn is_over(&self, now: Instant) -> bool {
        self.began.is_none_or(|began| now.saturating_duration_since(began) >= TIME)
    }
}

impl Strangers {
    /// Whether a line of theirs may be written now, and how many were left out before it.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let mut count = lock(&self.0);
        if count.is_over(now) {
            let left_out = count.left_out;
            *count = Count { began: Some(now), written: 1, left_out: 0 };
            return Some(left_out);
        }
        if count.written < MOST {
            count.written += 1;
            return Some(0);
        }
        count.left_out += 1;
        None
    }

    /// Takes the number of lines that were left out, once the time for which they were counted is over.
    pub fn left_out(&self, now: Instant) -> u64 {
        let mut count = lock(&self.0);
        if count.is_over(now) { std::mem::take(&mut count.left_out) } else { 0 }
    }

    /// Takes the number of lines that were left out so far, for the end of the log.
    pub fn rest(&self) -> u64 {
        std::mem::take(&mut lock(&self.0).left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_told_once() {
        let (strangers, start) = (Strangers::default(), Instant::now());
        let admitted = |now| (0..250).filter(|_| strangers.admit(now).is_some()).count();
        assert_eq!((admitted(start), strangers.left_out(start)), (100, 0));
        let later = start + TIME;
        assert_eq!((strangers.left_out(later), strangers.left_out(later)), (150, 0));
        assert_eq!(admitted(later), 100);
        assert_eq!((strangers.admit(later + TIME), strangers.admit(later + TIME)), (Some(150), Some(0)));
        admitted(later + TIME);
        assert_eq!((strangers.rest(), strangers.rest()), (152, 0));
    }
}
