//! Open files and folders, by number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Values of one kind, each with its own number.
pub(super) struct Handles<T> {
    values: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { values: RwLock::default(), next: AtomicU64::new(1) }
    }
}

impl<T> Handles<T> {
    pub fn add(&self, value: Arc<T>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.values.write().unwrap_or_else(PoisonError::into_inner).insert(number, value);
        number
    }

    pub fn get(&self, number: u64) -> Option<Arc<T>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    pub fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.values.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }

    pub fn clear(&self) {
        let values = std::mem::take(&mut *self.values.write().unwrap_or_else(PoisonError::into_inner));
        drop(values);
    }
}
