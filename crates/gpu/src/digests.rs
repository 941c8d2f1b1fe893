//! The digests of a job's slices: where kernels write them, and how they come to the host.

use crate::device::{Buffer, Pinned, Stream};
use crate::error::Result;
use crate::hash::Slices;
use phalanx_core::Suite;
use phalanx_kernels::keccak::DIGEST;
use std::ops::Range;

/// The digests of a window begin at multiples of this, in bytes. OpenCL devices require at most 512.
pub(crate) const WINDOW_DIGESTS: usize = 512;
/// The threads of each group that hashes: few, so that even a short job uses all multiprocessors.
const HASH_THREADS: u32 = 32;

/// Where the digests of a job's slices lie.
pub(crate) enum Digests {
    /// In pinned memory that kernels write to.
    Mapped(Buffer),
    /// On the device, and the memory that they are copied to.
    Copied(Buffer, Pinned),
}

impl Digests {
    pub fn new(stream: &mut Stream, len: usize) -> Result<Self> {
        let len = len.next_multiple_of(WINDOW_DIGESTS);
        Ok(match stream.device().mapped(len)? {
            Some(mapped) => Self::Mapped(mapped),
            None => Self::Copied(stream.buffer(len)?, stream.device().pinned(len)?),
        })
    }

    pub fn make_room(&mut self, stream: &mut Stream, len: usize) -> Result<()> {
        let (Self::Mapped(memory) | Self::Copied(memory, _)) = &*self;
        if memory.len() < len {
            *self = Self::new(stream, len)?;
        }
        Ok(())
    }

    /// Starts hashing slices. Their digests come to this place. They are there when the stream is finished.
    pub fn make(
        &mut self,
        stream: &mut Stream,
        suite: Suite,
        slices: &Slices,
        data: &Buffer,
        place: Range<usize>,
    ) -> Result<()> {
        let (Self::Mapped(memory) | Self::Copied(memory, _)) = &*self;
        let mut digests = memory.part(place.clone());
        match suite {
            Suite::Aes256CtrTurboShake => stream.turboshake_slices(HASH_THREADS, slices, data, &mut digests)?,
            _ => stream.sha3_slices(HASH_THREADS, slices, data, &mut digests)?,
        }
        let Self::Copied(memory, to) = self else { return Ok(()) };
        // SAFETY: nothing uses the bytes until the stream is finished. If that fails, this value is dropped, and if the
        // device is dead, they are not freed.
        unsafe { stream.start_download(memory, place.start, to, place) }
    }

    /// The digests at a place, after the stream is finished.
    pub fn of(&self, place: Range<usize>) -> &[[u8; DIGEST]] {
        let all = match self {
            Self::Mapped(memory) => memory.host().expect("it is the host's"),
            Self::Copied(_, to) => to,
        };
        all[place].as_chunks().0
    }
}
