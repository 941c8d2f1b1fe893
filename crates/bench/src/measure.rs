//! Taking times.

use std::time::{Duration, Instant};

/// What is shorter is run several times over, since a clock reading costs some tens of nanoseconds.
const SHORTEST: Duration = Duration::from_millis(2);

/// How long something takes, in seconds, and what it gives.
pub fn time<T>(act: impl FnOnce() -> T) -> (f64, T) {
    let started = Instant::now();
    let result = act();
    (started.elapsed().as_secs_f64(), result)
}

/// Times of work that changes nothing outside of itself.
pub struct Times {
    /// In seconds for one run.
    pub seconds: Vec<f64>,
    /// Each time is the mean of so many.
    pub runs_per_time: u64,
}

/// Takes `rounds` times, after one run to warm up.
pub fn rounds(rounds: usize, mut act: impl FnMut()) -> Times {
    let (once, ()) = time(&mut act);
    let runs = (SHORTEST.as_secs_f64() / once.max(1e-9)).ceil().clamp(1.0, 100_000.0) as u64;
    let one = |_| time(|| (0..runs).for_each(|_| act())).0 / runs as f64;
    Times { seconds: (0..rounds).map(one).collect(), runs_per_time: runs }
}
