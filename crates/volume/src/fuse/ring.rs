//! Requests by io_uring: the kernel has a queue for each core, and gives a request to a thread on the core of the
//! program that makes it. One system call passes on an answer and waits for the next request.
//!
//! Each thread has a ring and, in it, one place for a request, or one for each of several queues. A place is memory that
//! the kernel is told of once (`REGISTER`). When a request is in it, the kernel completes that command. The thread puts
//! the answer in the same place and submits the next command (`COMMIT_AND_FETCH`), which ends with the next request.
//!
//! Several threads serve each queue. So a request which takes long stops no other, unless there are as many such requests
//! as threads. A thread stays on the core of its queue for short requests: to wake a thread on another core takes longer
//! than such a request. For long requests, and before it starts threads ([`roam`]), it may go to any core.

use super::awake::{self, Lookout};
use super::wire::{self, Head, answer_head};
use super::{Filesystem, LONGEST, Server};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// The length of data from which a request is long, in bytes: then it takes longer than going to another core.
const LONG: u32 = 64 << 10;

/// How many threads serve the queues of all other cores.
const REST: usize = 4;

/// Commands to the device.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// The header of a place: 128 bytes for the header of a request or an answer, 128 for the numbers of a request, then
/// flags, the id of the request for the commit, and the length of the data.
const NUMBERS: usize = 128;
const COMMIT_ID: usize = 264;
const DATA_LEN: usize = 272;
const HEADER: usize = 288;
/// The header has a page of its own.
const PAGE: usize = 4096;

/// Memory for one request of a queue, and its answer.
struct Place {
    queue: u16,
    memory: NonNull<u8>,
    /// Header and data, for the kernel.
    parts: Box<[Part; 2]>,
}

/// The kernel's `iovec`.
#[repr(C)]
struct Part {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a place owns its memory, to which no other thread has a pointer.
unsafe impl Send for Place {}

impl Place {
    fn new(queue: u16) -> io::Result<Self> {
        // SAFETY: the kernel chooses where, so nothing else is there.
        let memory = unsafe {
            mmap_anonymous(std::ptr::null_mut(), PAGE + LONGEST, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the mapping is longer than that.
        let data = unsafe { memory.add(PAGE) };
        let parts = [Part { start: memory, len: PAGE }, Part { start: data, len: LONGEST }];
        Ok(Self { queue, memory, parts: Box::new(parts) })
    }

    /// Header and data.
    ///
    /// # Safety
    /// No command with this place may be under way.
    unsafe fn parts(&mut self) -> (&mut [u8], &mut [u8]) {
        // SAFETY: the mapping has this length, it is written to through `self` alone as long as the kernel has no command
        // with it, and the two parts do not overlap.
        unsafe {
            let header = std::slice::from_raw_parts_mut(self.memory.as_ptr(), HEADER);
            let data = std::slice::from_raw_parts_mut(self.memory.add(PAGE).as_ptr(), LONGEST);
            (header, data)
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The kernel clears the pages before anybody else gets them.
        // SAFETY: the mapping was made by `new` with this length, and nothing borrows from it.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), PAGE + LONGEST) };
    }
}

/// One thread's share of the queues.
pub struct Ring {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    places: Vec<Place>,
    /// `None` if its thread may run on any core.
    home: Option<Home>,
    /// Where its thread looks out after short requests, if it does not sleep at once.
    lookout: Option<Arc<Lookout>>,
    /// Whose request was served last.
    sender: Option<u32>,
}

thread_local! {
    /// Where the calling thread runs, if it serves requests on one core.
    static HOME: RefCell<Option<Home>> = const { RefCell::new(None) };
}

/// Where a thread runs.
struct Home {
    /// The core on which it serves short requests.
    core: usize,
    /// Those on which it may run.
    cores: CpuSet,
    /// Whether it stays on its core now.
    stays: bool,
}

/// Lets the calling thread run on any core until its next request, if it was to stay on one. So may the threads that it
/// starts then.
pub(crate) fn roam() {
    stay(false);
}

/// Whether the calling thread has to stay on its core.
fn stays() -> bool {
    HOME.with_borrow(|home| home.as_ref().is_some_and(|home| home.stays))
}

fn stay(stays: bool) {
    HOME.with_borrow_mut(|home| {
        if let Some(home) = home {
            home.stay(stays);
        }
    });
}

impl Home {
    /// Makes the calling thread stay on its core, or lets it go to others.
    fn stay(&mut self, stays: bool) {
        if self.stays == stays {
            return;
        }
        let mut only = CpuSet::new();
        only.set(self.core);
        // If it cannot, it is only slower.
        let _ = sched_setaffinity(None, if stays { &only } else { &self.cores });
        self.stays = stays;
    }
}

impl Ring {
    /// Makes the rings for all queues, of which each needs a thread of its own: so many, or a usual number.
    pub fn all(device: BorrowedFd<'_>, threads: Option<usize>) -> io::Result<Vec<Self>> {
        let cores = sched_getaffinity(None)?;
        let is_own = |queue: &u16| usize::from(*queue) < CpuSet::MAX_CPU && cores.is_set((*queue).into());
        let (own, rest): (Vec<_>, Vec<_>) = (0..queues()?).partition(is_own);
        let mut rings = Vec::new();
        match threads.filter(|threads| *threads < own.len()) {
            Some(threads) => rings.extend(Self::shared(device, &own, threads, cores)?),
            None => {
                let depth = threads.map_or_else(|| depth(own.len()), |threads| threads.div_ceil(own.len().max(1)));
                for queue in &own {
                    let lookout = (own.len() == awake::CORES).then(Arc::<Lookout>::default);
                    for _ in 0..depth {
                        let mut ring = Self::new(device, &[*queue], Some((*queue).into()), cores)?;
                        ring.lookout = lookout.clone();
                        rings.push(ring);
                    }
                }
            }
        }
        // Those of cores that do not exist yet, or that others use.
        rings.extend(Self::shared(device, &rest, threads.unwrap_or(REST), cores)?);
        Ok(rings)
    }

    /// Divides queues among so many threads.
    fn shared(device: BorrowedFd<'_>, queues: &[u16], threads: usize, cores: CpuSet) -> io::Result<Vec<Self>> {
        let share = |first| queues.iter().copied().skip(first).step_by(threads).collect::<Vec<_>>();
        (0..threads.min(queues.len())).map(|first| Self::new(device, &share(first), None, cores)).collect()
    }

    fn new(device: BorrowedFd<'_>, queues: &[u16], core: Option<usize>, cores: CpuSet) -> io::Result<Self> {
        let places = queues.iter().map(|queue| Place::new(*queue)).collect::<io::Result<Vec<_>>>()?;
        let ring = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .build((places.len() as u32).next_power_of_two())?;
        ring.submitter().register_files(&[device.as_raw_fd()])?;
        Ok(Self {
            ring,
            places,
            home: core.map(|core| Home { core, cores, stays: false }),
            lookout: None,
            sender: None,
        })
    }

    /// Serves requests until the session ends. Calls `registered` when the kernel has answered whether it takes the
    /// places.
    pub fn run<F: Filesystem>(mut self, server: &Server<F>, registered: impl FnOnce(bool)) -> io::Result<()> {
        HOME.set(self.home.take());
        stay(true);
        self.ring.submitter().register_enable_rings()?;
        for place in 0..self.places.len() {
            self.submit(place, REGISTER, 0)?;
        }
        self.ring.submit()?;
        // The kernel refuses at once, or not at all. It gives no request before this thread waits for one.
        let (refused, early): (Vec<_>, Vec<_>) = self.ring.completion().partition(|done| done.result() < 0);
        registered(refused.is_empty());
        let mut left = self.places.len() - refused.len();
        for done in early {
            self.serve(done.user_data() as usize, server)?;
        }
        while left > 0 {
            self.linger(server);
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
            while let Some(done) = { self.ring.completion().next() } {
                match done.result() {
                    0 => self.serve(done.user_data() as usize, server)?,
                    error => match Errno::from_raw_os_error(-error) {
                        // The session has ended.
                        Errno::NOTCONN | Errno::CONNABORTED | Errno::NODEV | Errno::CANCELED => left -= 1,
                        error => return Err(error.into()),
                    },
                }
                if !self.ring.completion().is_empty() {
                    // The program need not wait for the answers to others.
                    self.ring.submit()?;
                }
            }
        }
        Ok(())
    }

    /// After a short request: looks out for the next one, when the answer to this one is given.
    fn linger<F: Filesystem>(&mut self, server: &Server<F>) {
        if let Some(lookout) = self.lookout.as_ref().filter(|_| stays()) {
            let (ring, mut is_answered) = (&mut self.ring, false);
            lookout.linger(true, &server.traffic, self.sender, || {
                if !is_answered && ring.submit().is_err() {
                    // The call that waits fails too.
                    return true;
                }
                is_answered = true;
                ring.submission().taskrun() || !ring.completion().is_empty()
            });
        }
    }

    fn serve<F: Filesystem>(&mut self, number: usize, server: &Server<F>) -> io::Result<()> {
        let place = self.places.get_mut(number).ok_or(io::ErrorKind::InvalidData)?;
        // SAFETY: the place's only command is complete, and the next one is submitted when these are no longer used. The
        // kernel reads and writes a place in this thread alone, within the system call that submits and waits
        // (SINGLE_ISSUER and DEFER_TASKRUN).
        let (header, data) = unsafe { place.parts() };
        let (mut commit_id, mut len) = ([0; 8], [0; 4]);
        commit_id.copy_from_slice(&header[COMMIT_ID..COMMIT_ID + 8]);
        len.copy_from_slice(&header[DATA_LEN..DATA_LEN + 4]);
        let head = Head::read(header)?;
        stay(transfers(&head, &header[NUMBERS..]).is_none_or(|len| len < LONG));
        let answer = server.serve(&head, &header[NUMBERS..2 * NUMBERS], data, u32::from_ne_bytes(len) as usize);
        header[..16].copy_from_slice(&answer_head(head.unique, answer));
        header[DATA_LEN..DATA_LEN + 4].copy_from_slice(&(answer.unwrap_or(0) as u32).to_ne_bytes());
        self.sender = head.sender();
        self.submit(number, COMMIT_AND_FETCH, u64::from_ne_bytes(commit_id))
    }

    /// Puts a command in the ring. It is submitted by the next system call.
    fn submit(&mut self, number: usize, command: u32, commit_id: u64) -> io::Result<()> {
        let place = &self.places[number];
        let mut request = [0; 80];
        // Flags, which are 0, the id, and the queue.
        request[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        request[16..18].copy_from_slice(&place.queue.to_ne_bytes());
        let entry = opcode::UringCmd80::new(types::Fixed(0), command).cmd(request);
        let parts = place.parts.as_ptr();
        let mut entry = entry.addr(Some(parts as u64)).build().user_data(number as u64);
        // SAFETY: an entry has the layout of the kernel's `io_uring_sqe`, whose number `len` is at byte 24: here the
        // number of the parts at `addr`. The crate sets it for other commands alone.
        unsafe { (&raw mut entry).cast::<u8>().add(24).cast::<u32>().write(2) };
        // SAFETY: the kernel reads the parts in the system call that submits a `REGISTER`. It touches the memory that they
        // name in this thread alone, within the system calls that submit and wait: what it has to do when this thread has
        // ended, or the ring is closed, it cancels without touching the memory. `self` owns the parts and the memory, and
        // drops them when this thread makes no more such calls.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)
    }
}

/// How many threads serve the queue of one of so many cores. Each has memory for a request.
fn depth(cores: usize) -> usize {
    (64 / cores.max(1)).clamp(2, 4)
}

/// How many bytes a request reads or writes.
fn transfers(head: &Head, numbers: &[u8]) -> Option<u32> {
    let is_transfer = matches!(head.opcode, wire::opcode::READ | wire::opcode::WRITE);
    let len = numbers.get(16..20).filter(|_| is_transfer)?;
    len.try_into().ok().map(u32::from_ne_bytes)
}

/// How many queues the kernel has: one for each core that may ever be there.
fn queues() -> io::Result<u16> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    count(&text).ok_or_else(|| io::Error::other("the list of possible cores cannot be read"))
}

/// The length of a list such as 0-3,8.
fn count(list: &str) -> Option<u16> {
    let number = |text: &str| text.parse::<u16>().ok();
    list.trim().split(',').try_fold(0u16, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let len = number(last)?.checked_sub(number(first)?)?.checked_add(1)?;
        count.checked_add(len)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_counted() {
        for (list, cores) in [("0", 1), ("0-1\n", 2), ("0-3,8-11", 8), ("0,2-3", 3)] {
            assert_eq!(count(list), Some(cores), "{list}");
        }
        for list in ["", "a", "3-1", "0-65535", "0-"] {
            assert_eq!(count(list), None, "{list}");
        }
    }
}
