//! How many requests a second each caller may send.

use crate::refusal::{Kind, Refusal};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So long a caller may save up requests: after a pause, those of this time may come at once.
const SAVED: Duration = Duration::from_secs(1);

/// The rates of callers, by the generic cell rate algorithm (ITU-T I.371): of each only the time is kept at which it would
/// have to send its next request if it saved up nothing.
pub struct Rates {
    /// The time between two requests of a caller, if there is a bound.
    every: Option<Duration>,
    next: Mutex<HashMap<String, Instant>>,
}

impl Rates {
    /// Bounds each caller to so many requests a second.
    pub fn new(a_second: Option<NonZeroU32>) -> Self {
        Self { every: a_second.map(|many| Duration::from_secs(1) / many.get()), next: Mutex::default() }
    }

    /// Counts a request of a caller at this time.
    ///
    /// # Errors
    /// If the caller has sent too many.
    pub fn take(&self, caller: &str, now: Instant) -> Result<(), Refusal> {
        let Some(every) = self.every else { return Ok(()) };
        let mut callers = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= 64 && callers.len().is_power_of_two() {
            // The others have saved up all they can.
            callers.retain(|_, next| *next > now);
        }
        let next = callers.get(caller).map_or(now, |next| now.max(*next)) + every;
        if next > now + SAVED.max(every) {
            return Err(Refusal::new(Kind::Busy, "too many requests a second"));
        }
        callers.insert(caller.to_owned(), next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_its_requests_a_second_and_saves_up_those_of_one() {
        let rates = Rates::new(NonZeroU32::new(10));
        let start = Instant::now();
        let at = |caller, millis| rates.take(caller, start + Duration::from_millis(millis)).is_ok();
        assert!((0..10).all(|_| at("a", 0)));
        assert!(!at("a", 0) && !at("a", 99));
        assert!(at("a", 100) && !at("a", 100));
        assert!(at("b", 100));
        // What is refused costs nothing, and no more than the requests of a second are saved up.
        assert!((0..10).all(|_| at("a", 60_000)));
        assert!(!at("a", 60_000));
        let slow = Rates::new(NonZeroU32::new(1));
        assert!(slow.take("a", start).is_ok() && slow.take("a", start).is_err());
        assert!(slow.take("a", start + Duration::from_secs(1)).is_ok());
        let free = Rates::new(None);
        assert!((0..10_000).all(|_| free.take("a", start).is_ok()));
    }

    #[test]
    fn callers_who_are_gone_take_no_memory() {
        let rates = Rates::new(NonZeroU32::new(10));
        let start = Instant::now();
        for i in 0..10_000 {
            rates.take(&i.to_string(), start + Duration::from_secs(i)).unwrap();
        }
        assert!(rates.next.lock().unwrap().len() <= 64);
    }
}
