//! What the measurements of keys share.

use crate::measure::scratch::Random;
use crate::measure::setup::Setup;
use crate::row::Row;
use std::time::{Duration, Instant};

/// How long energy is measured at least.
const ENERGY_TIME: Duration = Duration::from_secs(2);

/// How often each is measured.
pub fn rounds(setup: &Setup) -> usize {
    if setup.quick { 3 } else { 5 }
}

/// Does something for some seconds. Returns how often.
pub fn again_and_again<E>(mut act: impl FnMut() -> std::result::Result<(), E>) -> std::result::Result<u64, E> {
    let (started, mut rounds) = (Instant::now(), 0);
    while started.elapsed() < ENERGY_TIME {
        act()?;
        rounds += 1;
    }
    Ok(rounds)
}

/// A row with its value, or with the reason why it has none.
pub fn told(row: Row, measured: std::result::Result<f64, String>) -> Row {
    match measured {
        Ok(value) => Row { value: Some(value), ..row },
        Err(why) => row.not_run(&why),
    }
}

/// Key `i` of a set.
pub fn key(i: u64) -> [u8; 32] {
    let mut key = [0; 32];
    Random::new(i).fill(&mut key);
    key
}
