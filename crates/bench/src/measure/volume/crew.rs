//! A crew of threads that wait for work, so that no time contains the start of a thread.

use crate::measure::Result;
use crate::measure::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

/// Runs `act` with a crew of one thread for each lane. The calling thread has the first lane. `act` gets a function:
/// each call of it lets every thread do `work` on its lane once, and waits for all of them.
///
/// # Panics
/// If there is no lane, or if `work` panics on the calling thread.
pub fn with<T: Send, R>(
    lanes: &mut [T],
    work: impl Fn(&mut T) -> Result<()> + Sync,
    act: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> R,
) -> R {
    let (mine, others) = lanes.split_first_mut().expect("there is a lane");
    let (start, end) = (Barrier::new(1 + others.len()), Barrier::new(1 + others.len()));
    let is_over = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let fail = |error| *lock(&failure) = Some(error);
    thread::scope(|scope| {
        for lane in others {
            scope.spawn(|| {
                let lane = lane;
                loop {
                    start.wait();
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    work(lane).unwrap_or_else(&fail);
                    end.wait();
                }
            });
        }
        let result = act(&mut || {
            start.wait();
            work(mine).unwrap_or_else(&fail);
            end.wait();
            lock(&failure).take().map_or(Ok(()), Err)
        });
        is_over.store(true, Ordering::Relaxed);
        start.wait();
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn every_call_works_on_each_lane_once_and_returns_failures() {
        for count in 1..5 {
            let mut lanes = vec![0; count];
            let work = |lane: &mut i32| {
                *lane += 1;
                if *lane == 3 { Err(Error::Program("three".into())) } else { Ok(()) }
            };
            let results: Vec<bool> = with(&mut lanes, work, |run| (0..4).map(|_| run().is_ok()).collect());
            assert_eq!(results, [true, true, false, true]);
            assert_eq!(lanes, vec![4; count]);
        }
    }
}
