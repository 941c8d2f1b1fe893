//! Launches of SHA3-256 and TurboSHAKE256, with one slice in each thread. The papers' launches, digests of keys, are in
//! `papers.rs`.

#[cfg(feature = "papers")]
mod papers;

#[cfg(feature = "papers")]
pub use papers::{KeyDigest, Label, RawKeys};

use crate::device::{ALIGN, Buffer, Stream};
use crate::driver::{Argument, Launch};
use crate::error::Result;
use crate::kernel::{Kernel, Module};

/// The length of a digest in bytes.
const DIGEST: usize = 32;
const SHA3: Kernel = Kernel { module: Module::Sha3, entry: "sha3_slices" };
const TURBOSHAKE: Kernel = Kernel { module: Module::TurboShake, entry: "turboshake_slices" };

/// A slice of the data, hashed on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Where it begins in the buffer: a multiple of 16.
    pub at: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// Slices on a device.
#[derive(Debug)]
pub struct Slices {
    buffer: Buffer,
    count: u32,
    /// Where the last ends.
    end: usize,
}

impl Stream {
    /// Copies slices to the device.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if a slice does not begin at a multiple of 16, is longer than 4 GiB
    /// or ends beyond 32 GiB, or if there are more than 2^26. Otherwise as for [`Stream::buffer_of`].
    pub fn slices(&mut self, slices: &[Slice]) -> Result<Slices> {
        self.slices_again(slices, None)
    }

    /// Copies slices to the device, as [`Stream::slices`] does, into the memory of `old` if they fit.
    pub(crate) fn slices_again(&mut self, slices: &[Slice], old: Option<Slices>) -> Result<Slices> {
        let mut end = 0;
        let mut words = Vec::with_capacity(slices.len() * 2);
        for slice in slices {
            let slice_end = slice.at.checked_add(slice.len).filter(|end| end.div_ceil(ALIGN) < 1 << 31);
            let (true, Some(slice_end)) = (slice.at.is_multiple_of(ALIGN), slice_end) else {
                return self.device().refuse("slices start at multiples of 16 and end within 32 GiB");
            };
            if slice.len > u32::MAX as usize {
                return self.device().refuse("a slice is longer than 4 GiB");
            }
            words.extend([(slice.at / ALIGN) as u32, slice.len as u32]);
            end = end.max(slice_end);
        }
        let count = self.count(slices.len())?;
        Ok(Slices { buffer: self.buffer_of_words(&words, old.map(|old| old.buffer))?, count, end })
    }

    /// SHA3-256 of each slice, 32 bytes each into `digests`, with `threads` threads in each group.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if a slice ends after the data, the digests do not fit into their
    /// buffer, an argument is on another device, or a group cannot have that many threads.
    /// [`Reason::Build`](crate::Reason::Build) or [`Reason::SelfTest`](crate::Reason::SelfTest) if the kernel has
    /// failed its self-test. Otherwise a failure of the driver.
    pub fn sha3_slices(&mut self, threads: u32, slices: &Slices, data: &Buffer, digests: &mut Buffer) -> Result<()> {
        self.digest_slices(SHA3, threads, slices, data, digests)
    }

    /// TurboSHAKE256 of each slice with the domain separation byte 0x50, 32 bytes each into `digests`, with `threads`
    /// threads in each group.
    ///
    /// # Errors
    /// Those of [`Stream::sha3_slices`].
    pub fn turboshake_slices(
        &mut self,
        threads: u32,
        slices: &Slices,
        data: &Buffer,
        digests: &mut Buffer,
    ) -> Result<()> {
        self.digest_slices(TURBOSHAKE, threads, slices, data, digests)
    }

    /// Hashes slices by one of the two kernels.
    fn digest_slices(
        &mut self,
        kernel: Kernel,
        threads: u32,
        slices: &Slices,
        data: &Buffer,
        digests: &mut Buffer,
    ) -> Result<()> {
        self.check(&slices.buffer, 0..0)?;
        self.check(data, 0..slices.end)?;
        self.check(digests, 0..slices.count as usize * DIGEST)?;
        let memory = [data.argument(), slices.buffer.argument(), digests.argument()];
        // SAFETY: either kernel reads the slices, each including its whole last block of 16 bytes. They end within
        // data, whose length is a multiple of 16. It writes a digest for each, for which there is room.
        unsafe { self.hash(kernel, threads, slices.count, &memory, &[]) }
    }

    fn count(&self, len: usize) -> Result<u32> {
        if len > 1 << 26 { self.device().refuse("more than 2^26 inputs") } else { Ok(len as u32) }
    }

    /// # Safety
    /// As for [`Stream::launch`]; `count` and then `more` are the numbers.
    unsafe fn hash(
        &mut self,
        kernel: Kernel,
        threads: u32,
        count: u32,
        memory: &[Argument],
        more: &[u32],
    ) -> Result<()> {
        let mut arguments = memory.to_vec();
        arguments.extend([count].iter().chain(more).map(|number| Argument::Number(*number)));
        let groups = count.div_ceil(threads.max(1));
        // SAFETY: the arguments are those of the kernel, and the caller has made sure that all it reaches lies in the
        // memory.
        unsafe { self.launch(&Launch { kernel, groups, threads, local: 0, arguments: &arguments }) }
    }
}
