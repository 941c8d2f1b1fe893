//! The experiments. What they measure becomes rows.

mod averages;
mod device;
mod energy;
pub mod hpc;
pub mod keys;
pub(crate) mod load;
pub mod machine;
pub mod mounted;
pub mod peers;
mod programs;
pub mod scratch;
pub mod sefps;
pub mod service;
pub mod setup;
pub mod steps;
mod threads;
mod times;
pub mod ttable;
mod turns;
pub mod users;
pub(crate) mod volume;

use crate::error::{Error, Result};
use crate::row::{Over, Row};
use scratch::{Random, Scratch};
use setup::{Setup, processors};
use std::sync::{Mutex, MutexGuard, PoisonError};
use steps::{Rows, Step};
use times::{Times, time};
use turns::{Contestant, in_turns};

/// A row of an experiment: its input, and the names of [`Row::of`], with numbers of bytes, items and threads.
fn row_of(
    experiment: &str,
    case: impl Into<String>,
    names: [&str; 4],
    [bytes, items]: [u64; 2],
    threads: usize,
) -> Row {
    Row { bytes, items, threads, ..Row::of(experiment, case, names) }
}

/// The name in rows of the CPU with this number of threads.
fn engine(threads: usize) -> &'static str {
    if threads == 1 { "serial" } else { "cpu" }
}

/// Locks, even if another thread has panicked while it held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
