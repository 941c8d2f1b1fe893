//! The memory of the device, and pinned memory. Each allocation has a guard zone at both ends, and addresses of its own on
//! the device, which are never given again.

use crate::launch::{Area, Touch};
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::null_mut;

/// The length of a guard zone, and what allocations are aligned to on the host.
const GUARD: usize = 4096;
const GUARD_BYTE: u8 = 0xc3;
static INTACT: [u8; GUARD] = [GUARD_BYTE; GUARD];
/// What memory holds before it is written.
const FRESH: u8 = 0xa5;
/// Addresses of a device have its number from this bit on.
pub const DEVICE_BIT: u32 = 40;
/// Addresses of a device begin here, at multiples of `STEP`, with at least one step unused between allocations.
const FIRST: u64 = 0x7_0000_0000;
const STEP: u64 = 1 << 16;

/// Bytes of the host between two guard zones.
struct Guarded {
    /// Only for freeing. All accesses go through `start`.
    _owner: Vec<u8>,
    start: *mut u8,
    len: usize,
}

impl Guarded {
    fn new(len: usize) -> Self {
        let mut owner = vec![GUARD_BYTE; len + 3 * GUARD];
        let base = owner.as_mut_ptr();
        let skip = GUARD + base.align_offset(GUARD);
        let start = base.wrapping_add(skip);
        // SAFETY: at most 2 × GUARD bytes were skipped, and `len` bytes follow.
        unsafe { start.write_bytes(FRESH, len) };
        Self { _owner: owner, start, len }
    }

    fn is_intact(&self) -> bool {
        let zone = |at: *mut u8| {
            // SAFETY: the zones before and behind the bytes belong to the allocation, and only a mistake writes there.
            let bytes = unsafe { std::slice::from_raw_parts(at, GUARD) };
            bytes == INTACT
        };
        zone(self.start.wrapping_sub(GUARD)) && zone(self.start.wrapping_add(self.len))
    }
}

struct Allocation {
    /// Its place in `Memory::areas`.
    area: usize,
    guarded: Guarded,
    /// For each byte whether it was written. Not of pinned memory, which the host writes too.
    written: Option<Vec<u8>>,
    _touched: Vec<Touch>,
    is_mapped: bool,
}

// SAFETY: the addresses are of memory that the allocation owns.
unsafe impl Send for Allocation {}

/// A part of the device's memory, or of the host's.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Device(u64),
    Host(usize),
}

pub struct Memory {
    /// Where the addresses begin.
    first: u64,
    /// All that was ever allocated, by ascending addresses, for the kernels. What was freed has no bytes.
    areas: Vec<Area>,
    /// What is allocated, by its address on the device.
    allocations: BTreeMap<u64, Allocation>,
    /// Pinned memory: its address on the device by that on the host.
    pinned: BTreeMap<usize, u64>,
    taken: usize,
}

// SAFETY: the addresses are of memory that the allocations own.
unsafe impl Send for Memory {}

impl Memory {
    /// The memory of the device with this number.
    pub fn new(device: u64) -> Self {
        let (areas, allocations, pinned) = Default::default();
        Self { first: (device << DEVICE_BIT) + FIRST, areas, allocations, pinned, taken: 0 }
    }

    pub fn areas(&mut self) -> &mut [Area] {
        &mut self.areas
    }

    /// How many bytes are allocated.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// How many pieces are allocated.
    pub fn count(&self) -> usize {
        self.allocations.len()
    }

    /// These bytes, if they are the device's.
    pub fn peek(&mut self, address: u64, len: usize) -> Option<*const u8> {
        let (allocation, range) = self.find(address, len)?;
        Some(allocation.guarded.start.wrapping_add(range.start).cast_const())
    }

    fn add(&mut self, len: usize, is_pinned: bool, is_mapped: bool) -> (u64, usize) {
        let address =
            self.areas.last().map_or(self.first, |last| (last.address + last.len + STEP).next_multiple_of(STEP));
        let guarded = Guarded::new(len);
        let mut written = (!is_pinned).then(|| vec![0u8; len]);
        let mut touched = vec![Touch::default(); len.div_ceil(4)];
        let host = guarded.start as usize;
        self.areas.push(Area {
            address,
            len: len as u64,
            // Kernels do not reach pinned memory that is not mapped.
            bytes: if is_pinned && !is_mapped { null_mut() } else { guarded.start },
            written: written.as_mut().map_or(null_mut(), |written| written.as_mut_ptr()),
            touched: touched.as_mut_ptr(),
        });
        let area = self.areas.len() - 1;
        self.allocations.insert(address, Allocation { area, guarded, written, _touched: touched, is_mapped });
        self.taken += len;
        (address, host)
    }

    /// Allocates memory of the device, and returns its address there.
    pub fn allocate(&mut self, len: usize) -> u64 {
        self.add(len, false, false).0
    }

    /// Allocates pinned memory, and returns its address on the host.
    pub fn pin(&mut self, len: usize, is_mapped: bool) -> usize {
        let (address, host) = self.add(len, true, is_mapped);
        self.pinned.insert(host, address);
        host
    }

    /// The address on the device of pinned memory.
    pub fn mapped(&self, host: usize) -> Option<u64> {
        let address = *self.pinned.get(&host)?;
        self.allocations.get(&address)?.is_mapped.then_some(address)
    }

    /// Frees memory of the device.
    pub fn free(&mut self, address: u64) -> Option<Result<(), String>> {
        // Pinned memory is freed in another way.
        self.allocations.get(&address)?.written.as_ref()?;
        Some(self.remove(address))
    }

    /// Frees pinned memory.
    pub fn unpin(&mut self, host: usize) -> Option<Result<(), String>> {
        let address = self.pinned.remove(&host)?;
        Some(self.remove(address))
    }

    fn remove(&mut self, address: u64) -> Result<(), String> {
        let checked = self.check_guards();
        if let Some(gone) = self.allocations.remove(&address) {
            let area = &mut self.areas[gone.area];
            (area.bytes, area.written, area.touched) = (null_mut(), null_mut(), null_mut());
            self.taken -= gone.guarded.len;
        }
        checked
    }

    /// Whether anything was written before or behind an allocation.
    pub fn check_guards(&self) -> Result<(), String> {
        match self.allocations.iter().find(|(_, allocation)| !allocation.guarded.is_intact()) {
            None => Ok(()),
            Some((address, allocation)) => {
                let len = allocation.guarded.len;
                Err(format!("simulated GPU: something wrote before or behind the {len} bytes at {address:#x}"))
            }
        }
    }

    /// The allocation that holds these bytes of the device, and where in it they are.
    fn find(&mut self, address: u64, len: usize) -> Option<(&mut Allocation, Range<usize>)> {
        let (start, allocation) = self.allocations.range_mut(..=address).next_back()?;
        let at = usize::try_from(address - start).ok()?;
        let range = at..at.checked_add(len)?;
        (range.end <= allocation.guarded.len).then_some((allocation, range))
    }

    /// Whether these bytes are the device's.
    pub fn holds(&mut self, address: u64, len: usize) -> bool {
        self.find(address, len).is_some()
    }

    /// Whether memory at this address of the device, or of the host, is the host's. `None` if there is none.
    pub fn is_of_host(&mut self, address: u64) -> Option<bool> {
        let here = self.pinned.range(..=address as usize).next_back().map(|(host, there)| (*host, *there));
        let is_pinned = |(host, there): (usize, u64)| {
            let allocation = self.allocations.get(&there);
            allocation.is_some_and(|allocation| (address as usize) < host + allocation.guarded.len)
        };
        if here.is_some_and(is_pinned) {
            return Some(true);
        }
        self.find(address, 1).map(|(allocation, _)| allocation.written.is_none())
    }

    /// Overwrites bytes of the device.
    pub fn fill(&mut self, address: u64, value: u8, len: usize) -> Result<(), String> {
        let Some((allocation, range)) = self.find(address, len) else { return Err(outside("filling", address, len)) };
        // SAFETY: the range lies in the allocation.
        unsafe { allocation.guarded.start.add(range.start).write_bytes(value, len) };
        if let Some(written) = &mut allocation.written {
            written[range].fill(1);
        }
        Ok(())
    }

    /// Copies bytes.
    ///
    /// # Safety
    /// A place on the host has that many bytes, which nobody else uses in this call.
    pub unsafe fn copy(&mut self, from: Place, to: Place, len: usize) -> Result<(), String> {
        let source = match from {
            Place::Host(address) => address as *const u8,
            Place::Device(address) => {
                let Some((allocation, range)) = self.find(address, len) else {
                    return Err(outside("copying from", address, len));
                };
                let is_never = |written: &Vec<u8>| written[range.clone()].contains(&0);
                if allocation.written.as_ref().is_some_and(is_never) {
                    return Err(format!(
                        "simulated GPU: of {len} bytes at {address:#x} some are copied and were never written"
                    ));
                }
                allocation.guarded.start.wrapping_add(range.start).cast_const()
            }
        };
        let target = match to {
            Place::Host(address) => address as *mut u8,
            Place::Device(address) => {
                let Some((allocation, range)) = self.find(address, len) else {
                    return Err(outside("copying to", address, len));
                };
                let target = allocation.guarded.start.wrapping_add(range.start);
                if let Some(written) = &mut allocation.written {
                    written[range].fill(1);
                }
                target
            }
        };
        // SAFETY: places on the device lie in their allocations, and the caller has made sure of those on the host.
        unsafe { source.copy_to(target, len) };
        Ok(())
    }
}

fn outside(what: &str, address: u64, len: usize) -> String {
    format!("simulated GPU: {what} {len} bytes at {address:#x}, which are not the device's")
}
