//! Buffers for jobs: pinned memory that is lent, in pairs, and comes back.

use crate::device::{Device, Pinned};
use crate::error::Result;
use phalanx_core::engine::{Memory, Unit};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// What pinned memory is taken in, in bytes.
const PIECE: usize = 1 << 20;

/// Pinned memory of a device that nobody uses: pinning takes long.
pub(crate) struct Pool {
    device: Device,
    /// As many as are kept.
    most: usize,
    free: Mutex<Vec<Pinned>>,
}

impl Pool {
    pub fn new(device: Device, most: usize) -> Arc<Self> {
        Arc::new(Self { device, most, free: Mutex::default() })
    }

    /// Zeroed memory for a job of `len` bytes.
    pub fn pair(self: &Arc<Self>, len: usize) -> Result<Pair> {
        let (front, back) = (self.take(len)?, self.take(len)?);
        Ok(Pair { pool: self.clone(), front: Some(front), back: Some(back), len })
    }

    fn take(&self, len: usize) -> Result<Pinned> {
        let mut free = self.free();
        let fitting = free.iter().enumerate().filter(|(_, pinned)| pinned.len() >= len);
        if let Some((i, _)) = fitting.min_by_key(|(_, pinned)| pinned.len()) {
            return Ok(free.swap_remove(i));
        }
        drop(free);
        self.device.pinned(len.next_multiple_of(PIECE))
    }

    fn give_back(&self, mut pinned: Pinned) {
        // That of a dead device is never touched again.
        if self.device.is_dead() {
            return;
        }
        pinned.fill(0);
        zeroize::optimization_barrier(&*pinned);
        let mut free = self.free();
        free.push(pinned);
        if free.len() > self.most {
            // The shortest serves the fewest.
            let shortest = (0..free.len()).min_by_key(|i| free[*i].len()).expect("there are some");
            let shortest = free.swap_remove(shortest);
            // The driver may take its time.
            drop(free);
            drop(shortest);
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Pinned>> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A job's bytes, and room for what a device makes of them: so that they stay as they are until all of it has succeeded,
/// and are not copied then.
pub(crate) struct Pair {
    pool: Arc<Pool>,
    /// Both are there until it is dropped.
    front: Option<Pinned>,
    back: Option<Pinned>,
    len: usize,
}

impl Pair {
    pub fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// The job's bytes.
    pub fn front(&self) -> &Pinned {
        self.front.as_ref().expect("it is there")
    }

    /// The room for what becomes of them.
    pub fn back(&mut self) -> &mut Pinned {
        self.back.as_mut().expect("it is there")
    }

    /// Lets the back be the front. What lies outside of the units stays as it is.
    pub fn turn(&mut self, units: &[Unit]) {
        let (front, back) = (self.front.as_ref().expect("it is there"), self.back.as_mut().expect("it is there"));
        let mut keep = |outside: Range<usize>| back[outside.clone()].copy_from_slice(&front[outside]);
        let mut at = 0;
        for unit in units {
            keep(at..unit.data.start);
            at = unit.data.end;
        }
        keep(at..self.len);
        std::mem::swap(&mut self.front, &mut self.back);
    }
}

impl Memory for Pair {
    fn bytes(&self) -> &[u8] {
        &self.front()[..self.len]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.front.as_mut().expect("it is there")[..self.len]
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        [self.front.take(), self.back.take()].into_iter().flatten().for_each(|pinned| self.pool.give_back(pinned));
    }
}
