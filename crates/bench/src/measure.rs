//! The experiments: what they measure becomes rows.

mod averages;
pub mod device;
pub mod energy;
pub mod hpc;
pub mod keys;
pub mod load;
pub mod machine;
pub mod mounted;
pub mod peers;
pub mod programs;
pub mod scratch;
pub mod sefps;
pub mod setup;
pub mod steps;
mod threads;
pub mod times;
pub mod ttable;
mod turns;
pub mod users;
pub mod volume;

use scratch::{Random, Scratch};
use setup::{Setup, processors};
use std::sync::{Mutex, MutexGuard, PoisonError};
use steps::{Rows, Step};
use times::{Times, time};
use turns::{Contestant, in_turns};

/// Locks, whatever became of other threads.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
