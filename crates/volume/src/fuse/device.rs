//! Requests by `/dev/fuse`: each is read by one system call and answered by another.

use super::awake::Lookout;
use super::wire::{HEAD, Head, answer_head, numbers_len, opcode};
use super::{Filesystem, LONGEST, Server};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;
use zeroize::Zeroizing;

/// How long a thread rests that gets only what nobody waits for.
const REST: Duration = Duration::from_millis(2);

/// The place of a request's header in a buffer: the data of a request to write, after its numbers, begin with a page.
const START: usize = 4096 - HEAD - 40;

/// An opened `/dev/fuse` of a mount.
pub struct Device(OwnedFd);

/// The memory for one request and its answer.
pub struct Buffer(Zeroizing<Vec<u8>>);

impl Device {
    pub fn new(device: OwnedFd) -> Self {
        Self(device)
    }

    pub fn buffer(&self) -> Buffer {
        Buffer(Zeroizing::new(vec![0; 4096 + LONGEST + 4096]))
    }

    /// The same mount's device, opened once more: threads do not get in each other's way then.
    pub fn again(&self) -> io::Result<Self> {
        let device = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        // SAFETY: this is FUSE_DEV_IOC_CLONE. The kernel reads a number of 32 bits, the file descriptor of the mount's
        // device, which is open.
        unsafe {
            const CLONE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(229, 0);
            ioctl(&device, Setter::<CLONE, u32>::new(self.0.as_raw_fd().cast_unsigned()))?;
        }
        Ok(Self(device))
    }

    /// Waits for the next request: its header, its numbers, and what follows them, with the length of that.
    pub fn next<'a>(&self, buffer: &'a mut Buffer) -> io::Result<(Head, [u8; 88], &'a mut [u8], usize)> {
        let len = loop {
            match rustix::io::read(&self.0, &mut buffer.0[START..]) {
                Ok(len) => break len,
                // A request was interrupted before it could be read.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(e) => return Err(e.into()),
            }
        };
        let request = &mut buffer.0[START..];
        let head = Head::read(&request[..len])?;
        let at = HEAD + numbers_len(head.opcode);
        let data_len = len.checked_sub(at).ok_or(Errno::IO)?;
        let mut numbers = [0; 88];
        numbers[..at - HEAD].copy_from_slice(&request[HEAD..at]);
        Ok((head, numbers, &mut request[at..], data_len))
    }

    /// Answers a request.
    pub fn answer(&self, head: &[u8; 16], data: &[u8]) -> io::Result<()> {
        match rustix::io::writev(&self.0, &[IoSlice::new(head), IoSlice::new(data)]) {
            // The request was interrupted, or the session has ended: nobody waits for the answer.
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(e) if is_over(e) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Serves requests until the session ends. `rests`: others serve what programs wait for.
    pub fn run<F: Filesystem>(&self, server: &Server<F>, rests: bool) -> io::Result<()> {
        let mut buffer = self.buffer();
        let lookout = Lookout::default();
        loop {
            let (head, numbers, data, len) = match self.next(&mut buffer) {
                Ok(request) => request,
                Err(e) if Errno::from_io_error(&e).is_some_and(is_over) => return Ok(()),
                Err(e) => return Err(e),
            };
            if head.is_forget() {
                // A wrong one changes nothing.
                let _ = server.forget(&head, &numbers, &data[..len]);
            } else if head.opcode == opcode::INTERRUPT {
                // No request is ended early. The kernel need not ask again, and what comes next is taken without a rest.
                let _ = self.answer(&answer_head(head.unique, Err(Errno::NOSYS)), &[]);
                continue;
            } else {
                let answer = server.serve(&head, &numbers, data, len);
                self.answer(&answer_head(head.unique, answer), &data[..answer.unwrap_or(0)])?;
            }
            if rests {
                // More come at once after that, and by then nobody has had to wake this thread.
                thread::sleep(REST);
            } else if is_short(head.opcode) {
                lookout.linger(false, &server.traffic, head.sender(), || self.is_called());
            }
        }
    }

    /// Whether a request is there, or the session has ended.
    fn is_called(&self) -> bool {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&NOW)) != Ok(0)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether an error of the device says that the session has ended: `CONNABORTED`, if it ended while the kernel was giving
/// out a request.
fn is_over(error: Errno) -> bool {
    matches!(error, Errno::NODEV | Errno::CONNABORTED)
}

/// Whether programs that send this often send the next request soon.
fn is_short(code: u32) -> bool {
    !matches!(
        code,
        opcode::READ | opcode::WRITE | opcode::FSYNC | opcode::FSYNCDIR | opcode::FALLOCATE | opcode::STATFS
    ) && !matches!(code, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT | opcode::ACCESS)
}

/// The way by which a file system tells the kernel something.
#[derive(Debug)]
pub struct Notifier(OwnedFd);

impl Notifier {
    pub fn new(device: BorrowedFd<'_>) -> io::Result<Self> {
        device.try_clone_to_owned().map(Self)
    }

    /// The attributes of a node have changed.
    pub fn forget_attributes(&self, number: u64) {
        const INVAL_INODE: u32 = 2;
        const LEN: u32 = 40;
        // No answer to a request has the number 0. A negative offset: its data have not changed.
        let body = super::wire::Body::new().u32(LEN).u32(INVAL_INODE).u64(0).u64(number).u64(u64::MAX).u64(0);
        // The kernel may have forgotten the node already.
        let _ = rustix::io::write(&self.0, body.bytes());
    }
}
