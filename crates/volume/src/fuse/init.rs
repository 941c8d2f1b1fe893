//! The agreement with the kernel that begins a session.

use super::device::Device;
use super::wire::{Body, Fields, answer_head, opcode};
use super::{Caching, LONGEST};
use rustix::io::Errno;
use std::io;

/// Requests for data are sent without waiting for the answers to others.
const ASYNC_READ: u64 = 1 << 0;
const BIG_WRITES: u64 = 1 << 5;
const AUTO_INVAL_DATA: u64 = 1 << 12;
/// Folders are listed with attributes where programs ask for these.
const READDIRPLUS: u64 = 1 << 13 | 1 << 14;
const WRITEBACK_CACHE: u64 = 1 << 16;
const PARALLEL_DIROPS: u64 = 1 << 18;
const MAX_PAGES: u64 = 1 << 22;
const CACHE_SYMLINKS: u64 = 1 << 23;
const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
/// There are more than 32 flags.
const INIT_EXT: u64 = 1 << 30;
const OVER_IO_URING: u64 = 1 << 41;

/// The protocol's version: the kernel's first number has to be the same, and the second at least [`OLDEST`].
const VERSION: (u32, u32) = (7, 42);
/// That of Linux 3.15.
const OLDEST: u32 = 23;
/// How many requests that nobody waits for may be under way.
const BACKGROUND: u16 = 64;

/// The first request of a session: what the kernel offers. It waits for the answer.
pub struct Offer {
    unique: u64,
    minor: u32,
    max_readahead: u32,
    flags: u64,
}

impl Offer {
    /// Takes it from the device.
    pub fn take(device: &Device) -> io::Result<Self> {
        let mut buffer = device.buffer();
        loop {
            let (head, _, data, len) = device.next(&mut buffer)?;
            if head.opcode != opcode::INIT {
                return Err(io::Error::other("the kernel's first request is another one than expected"));
            }
            let (major, offer) = Self::read(head.unique, &data[..len])?;
            if major > VERSION.0 {
                // It then asks again, by this version.
                let body = Body::new().u32(VERSION.0).u32(VERSION.1).u64(0).u64(0).u64(0).u64(0).u64(0).u64(0).u64(0);
                device.answer(&answer_head(head.unique, Ok(body.bytes().len())), body.bytes())?;
            } else if major < VERSION.0 || offer.minor < OLDEST {
                return Err(io::Error::other("the kernel's FUSE is older than that of Linux 3.15"));
            } else {
                return Ok(offer);
            }
        }
    }

    fn read(unique: u64, data: &[u8]) -> Result<(u32, Self), Errno> {
        let mut fields = Fields(data);
        let (major, minor) = (fields.u32()?, fields.u32()?);
        let (max_readahead, flags) = (fields.u32()?, u64::from(fields.u32()?));
        let more = if flags & INIT_EXT != 0 { u64::from(fields.u32()?) } else { 0 };
        Ok((major, Self { unique, minor, max_readahead, flags: flags | more << 32 }))
    }

    /// Whether it offers requests by io_uring.
    pub fn has_ring(&self) -> bool {
        self.flags & OVER_IO_URING != 0
    }

    /// Answers it. The session begins then. If requests shall come by io_uring, everything has to be ready.
    pub fn accept(self, device: &Device, caching: Caching, by_ring: bool) -> io::Result<()> {
        let mut asked = ASYNC_READ | BIG_WRITES | MAX_PAGES | PARALLEL_DIROPS | INIT_EXT;
        asked |= if caching.writes { WRITEBACK_CACHE | HANDLE_KILLPRIV_V2 } else { AUTO_INVAL_DATA };
        asked |= if caching.is_exclusive { CACHE_SYMLINKS } else { 0 };
        asked |= if caching.lists_attributes { READDIRPLUS } else { 0 };
        asked |= if by_ring { OVER_IO_URING } else { 0 };
        let body = answer(asked & self.flags, self.max_readahead);
        device.answer(&answer_head(self.unique, Ok(body.bytes().len())), body.bytes())
    }
}

fn answer(flags: u64, max_readahead: u32) -> Body {
    /// The unit of times.
    const NANOSECOND: u32 = 1;
    let longest = LONGEST as u32;
    let pages = longest.div_ceil(rustix::param::page_size() as u32);
    let body = Body::new().u32(VERSION.0).u32(VERSION.1).u32(max_readahead.min(longest)).u32(flags as u32);
    // The second number is where the kernel regards the file system as busy.
    let body = body.pair(BACKGROUND, BACKGROUND / 4 * 3).u32(longest).u32(NANOSECOND);
    body.pair(pages as u16, 0).u32((flags >> 32) as u32).u32(0).u64(0).u64(0).u64(0)
}
