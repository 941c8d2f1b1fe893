//! Taking times.

use crate::measure::Row;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// Work that takes less than this many seconds is run several times. Reading the clock takes some tens of nanoseconds,
/// and starting threads some tens of microseconds.
const SHORTEST: f64 = 0.002;

/// Runs something, and returns the time in seconds and the result.
pub fn time<T>(act: impl FnOnce() -> T) -> (f64, T) {
    let started = Instant::now();
    let result = act();
    (started.elapsed().as_secs_f64(), result)
}

/// How often work that took this many seconds is run for one measured time.
pub fn runs(once: f64) -> u64 {
    (SHORTEST / once.max(1e-9)).ceil().clamp(1.0, 100_000.0) as u64
}

/// Times of work that changes nothing outside itself.
pub struct Times {
    pub seconds: Vec<f64>,
    /// The number of runs for each time, which is their mean.
    pub runs_per_time: u64,
}

impl Times {
    pub fn of(self, row: Row) -> Row {
        Row { runs_per_time: self.runs_per_time, ..row }.timed(self.seconds)
    }
}

/// Takes `rounds` times, after one run to warm up.
pub fn rounds(rounds: usize, mut act: impl FnMut()) -> Times {
    let done = try_rounds(rounds, || {
        act();
        Ok::<(), Infallible>(())
    });
    match done {
        Ok(times) => times,
    }
}

/// Takes `rounds` times, after one run to warm up, of work that can fail. The first failure ends it.
pub fn try_rounds<E>(rounds: usize, mut act: impl FnMut() -> Result<(), E>) -> Result<Times, E> {
    let (once, done) = time(&mut act);
    done?;
    let runs = runs(once);
    let one = |_| {
        let (several, done) = time(|| (0..runs).try_for_each(|_| act()));
        done.map(|()| several / runs as f64)
    };
    Ok(Times { seconds: (0..rounds).map(one).collect::<Result<_, E>>()?, runs_per_time: runs })
}

/// Takes `rounds` times by another clock, after one run to warm up.
pub fn rounds_by_clock<E>(rounds: usize, mut act: impl FnMut() -> Result<Duration, E>) -> Result<Times, E> {
    act()?;
    let seconds = (0..rounds).map(|_| act().map(|time| time.as_secs_f64())).collect::<Result<_, E>>()?;
    Ok(Times { seconds, runs_per_time: 1 })
}
