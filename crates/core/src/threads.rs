//! Work that several threads take from one source, where it lies in the caller's memory: half of it done would be lost data.

use crate::secret;
use std::sync::Mutex;
use std::{iter, thread};

/// Does the work on so many threads, of which the calling one is one. Where the system gives no more of them, those that
/// there are do it.
pub(crate) fn on_threads(threads: usize, work: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 1..threads {
            if thread::Builder::new().spawn_scoped(scope, || secret::wiped(&work)).is_err() {
                break;
            }
        }
        secret::wiped(&work);
    });
}

/// What threads take from one source, one after another.
pub(crate) fn from<T>(source: &Mutex<impl Iterator<Item = T>>) -> impl Iterator<Item = T> {
    iter::from_fn(|| source.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next())
}
