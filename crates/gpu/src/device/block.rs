//! A job's keys, spans and slices in one piece of pinned memory, for one copy to the device.

use super::{ALIGN, Buffer, Device, Pinned};
use crate::error::Result;
use std::ops::Range;
use zeroize::Zeroize;

/// Parts of a block begin at multiples of this, in bytes. OpenCL devices require at most 512.
const PART: usize = 512;

/// Keys, spans and slices, one after another, in the host's memory and in the device's.
pub(crate) struct Block {
    host: Pinned,
    memory: Buffer,
    used: usize,
}

impl Block {
    /// An empty block with room for `len` bytes.
    ///
    /// # Errors
    /// As for [`Device::pinned`] and [`super::Stream::buffer`].
    pub fn new(device: &Device, len: usize) -> Result<Self> {
        let len = len.next_multiple_of(PART);
        Ok(Self { host: device.pinned(len)?, memory: device.stream()?.buffer(len)?, used: 0 })
    }

    /// The most room that parts of these lengths take.
    pub fn room(parts: impl IntoIterator<Item = usize>) -> usize {
        parts.into_iter().map(|len| (len + ALIGN).next_multiple_of(PART)).sum()
    }

    /// Its room in bytes.
    pub fn len(&self) -> usize {
        self.host.len()
    }

    /// Adds bytes, and returns their place on the device. `None` if there is no room for them.
    pub fn add(&mut self, bytes: &[u8]) -> Option<Buffer> {
        let end = self.used.checked_add(bytes.len().max(1).next_multiple_of(ALIGN)).filter(|end| *end <= self.len())?;
        self.host[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        let part = self.memory.part(self.used..end);
        self.used = end.next_multiple_of(PART).min(self.len());
        Some(part)
    }

    /// The host's memory, the device's memory, and the range of them in use.
    pub fn both(&mut self) -> (&Pinned, &mut Buffer, Range<usize>) {
        (&self.host, &mut self.memory, 0..self.used)
    }

    /// The device's memory, and how much of it is in use.
    pub fn memory(&self) -> (&Buffer, usize) {
        (&self.memory, self.used)
    }

    /// Empties it, and wipes the host's memory, which held keys. No copy from there may be in progress.
    pub fn clear(&mut self) {
        self.host[..self.used].zeroize();
        self.used = 0;
    }
}
