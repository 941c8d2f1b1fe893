//! Buffers for jobs: pinned memory, handed out in pairs and used again.

use crate::device::{Device, Pinned};
use crate::error::Result;
use phalanx_core::engine::{Memory, Unit};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// The length of pinned memory is a multiple of this, in bytes.
const PIECE: usize = 1 << 20;

/// Unused pinned memory of a device. It is kept because pinning takes long.
pub(crate) struct Pool {
    device: Device,
    /// How many are kept.
    most: usize,
    free: Mutex<Vec<Pinned>>,
}

impl Pool {
    pub fn new(device: Device, most: usize) -> Arc<Self> {
        Arc::new(Self { device, most, free: Mutex::default() })
    }

    /// Zeroed memory for a job of `len` bytes.
    ///
    /// # Errors
    /// As for [`Device::pinned`].
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
        self.device.pinned(len.checked_next_multiple_of(PIECE).unwrap_or(len))
    }

    fn give_back(&self, mut pinned: Pinned) {
        // The memory of a dead device is never touched again.
        if self.device.is_dead() {
            return;
        }
        pinned.fill(0);
        zeroize::optimization_barrier(&*pinned);
        let mut free = self.free();
        free.push(pinned);
        if free.len() > self.most {
            // The shortest is the least useful.
            let shortest = (0..free.len()).min_by_key(|i| free[*i].len()).expect("there is at least one");
            let shortest = free.swap_remove(shortest);
            // The driver may take long to free it, so the lock is released first.
            drop(free);
            drop(shortest);
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Pinned>> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A job's bytes (the front), and room for the device's results (the back). The job does not change before everything
/// has succeeded. Then the two change places without a copy.
pub(crate) struct Pair {
    pool: Arc<Pool>,
    /// Both are `Some` until this is dropped.
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

    /// The room for the results.
    pub fn back(&mut self) -> &mut Pinned {
        self.back.as_mut().expect("it is there")
    }

    /// Overwrites the device's results with the job's bytes, because the results must not be released.
    pub fn restore(&mut self, bytes: Range<usize>) {
        let (front, back) = (self.front.as_ref().expect("it is there"), self.back.as_mut().expect("it is there"));
        back[bytes.clone()].copy_from_slice(&front[bytes]);
    }

    /// Swaps front and back. Bytes outside the units do not change.
    pub fn swap(&mut self, units: &[Unit]) {
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
