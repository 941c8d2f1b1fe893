//! Detects calls of a Python object to the same reader or writer that is calling it.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// The readers and writers at work on this thread.
    static AT_WORK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Identifies a reader or writer.
#[derive(Clone, Copy)]
pub struct Turn(u64);

impl Turn {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether this thread is doing the work of this reader or writer.
    pub fn is_at_work(&self) -> bool {
        AT_WORK.with_borrow(|ids| ids.contains(&self.0))
    }

    /// Does the work detached from the interpreter. A call from within the work would wait for itself, so it is
    /// refused.
    pub fn detached<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
        if self.is_at_work() {
            return Err(PyRuntimeError::new_err(
                "reentrant call: the file object uses the protected file that uses it",
            ));
        }
        let _at_work = self.at_work();
        Ok(py.detach(work))
    }

    /// Records that this thread does the work until the returned guard is dropped.
    pub fn at_work(&self) -> AtWork {
        AT_WORK.with_borrow_mut(|ids| ids.push(self.0));
        AtWork
    }
}

/// A guard: this thread does the work of a reader or writer.
pub struct AtWork;

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.with_borrow_mut(|ids| ids.truncate(ids.len().saturating_sub(1)));
    }
}
