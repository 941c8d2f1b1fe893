//! Work that is divided among threads.

use crate::measure::lock;
use std::convert::Infallible;
use std::sync::Mutex;
use std::thread;

/// Lets threads, including this one, take one item after another. If the system gives no more threads, those that exist
/// do the work.
pub fn each<T>(threads: usize, items: impl IntoIterator<Item = T, IntoIter: Send>, work: impl Fn(T) + Sync) {
    let done = try_each(threads, items, |item| {
        work(item);
        Ok::<(), Infallible>(())
    });
    match done {
        Ok(()) => {}
    }
}

/// Lets threads take one item after another, like [`each`], for work that can fail. A thread that fails takes no more
/// items, and one failure is returned.
pub fn try_each<T, E: Send>(
    threads: usize,
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (items, failure) = (Mutex::new(items.into_iter()), Mutex::new(None));
    let next = || lock(&items).next();
    let lane = || {
        if let Err(error) = std::iter::from_fn(next).try_for_each(&work) {
            *lock(&failure) = Some(error);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            if thread::Builder::new().spawn_scoped(scope, lane).is_err() {
                break;
            }
        }
        lane();
    });
    let failure = lock(&failure).take();
    failure.map_or(Ok(()), Err)
}
