//! The functions of `world.c`, and what it shares with the processes under test.
//!
//! The only file with unsafe code.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// What happens at an operation. The numbers are those of `world.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Kind {
    /// It fails.
    Error = 1,
    /// It is done, and reported as failed.
    Late,
    /// Half of the bytes are moved.
    Short,
    /// The process ends before it.
    Kill,
    /// The process ends after it.
    KillAfter,
    /// Half of the bytes are written, and the process ends.
    Torn,
    /// It and all later operations fail.
    Stop,
    /// From it on, nothing is allocated.
    Full,
    /// From it on, nothing is changed.
    ReadOnly,
    /// The process gets a signal.
    Signal,
}

impl Kind {
    /// All kinds with their names.
    pub const ALL: [(Self, &str); 10] = [
        (Self::Error, "error"),
        (Self::Late, "late"),
        (Self::Short, "short"),
        (Self::Kill, "kill"),
        (Self::KillAfter, "kill-after"),
        (Self::Torn, "torn"),
        (Self::Stop, "stop"),
        (Self::Full, "full"),
        (Self::ReadOnly, "read-only"),
        (Self::Signal, "signal"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Whether the process ends there.
    pub fn kills(self) -> bool {
        matches!(self, Self::Kill | Self::KillAfter | Self::Torn)
    }
}

/// A fault that was met.
#[derive(Clone, Debug)]
pub struct Met {
    pub fault: Fault,
    /// The operation that it met first.
    pub op: Op,
}

/// A fault: at which operation, counted from 0, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: u32,
    pub kind: Kind,
    /// The error's number, or the signal's.
    pub value: i32,
}

#[repr(C)]
struct RawFault {
    at: u32,
    kind: u32,
    value: i32,
    met: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawOp {
    nr: u32,
    flags: u32,
    ret: i64,
    dir: u64,
    ino: u64,
    dir2: u64,
    offset: i64,
    mode: u32,
    len: u32,
    data: u32,
    name: u32,
    name2: u32,
    pad: u32,
}

/// How many faults a run can have.
pub const MOST_FAULTS: usize = 4;
const MOST_OPS: usize = 8192;
const MOST_BYTES: usize = 4 << 20;

#[repr(C)]
struct Raw {
    count: u32,
    limit: u32,
    faults: u32,
    fs_type: u32,
    device: u64,
    root: u64,
    fault: [RawFault; MOST_FAULTS],
    ops: u32,
    used: u32,
    overflow: u32,
    keep_data: u32,
    keep_inodes: u32,
    path: [u8; 256],
    op: [RawOp; MOST_OPS],
    bytes: [u8; MOST_BYTES],
}

unsafe extern "C" {
    fn world_new() -> *mut Raw;
    fn world_arguments(given: *mut *mut c_char, count: c_int) -> c_int;
    fn world_begin(world: *mut Raw) -> c_int;
    fn world_end();
    fn world_exit(code: c_int) -> !;
    fn world_fork() -> c_int;
    fn world_deadline(seconds: c_int) -> c_int;
    fn world_enter(input: c_int, output: c_int, error: c_int, dir: *const c_char) -> c_int;
    fn world_wait(child: c_int) -> c_int;
}

/// An operation as it was done.
#[derive(Clone, Debug)]
pub struct Op {
    /// The number of the system call.
    pub nr: u32,
    pub ret: i64,
    /// Whether it made a new file.
    pub created: bool,
    /// Whether it emptied a file.
    pub truncated: bool,
    /// The inodes of the folders that its names start from; 0 if they are absolute.
    pub dir: u64,
    pub dir2: u64,
    /// The inode that it is about.
    pub ino: u64,
    pub name: Vec<u8>,
    pub name2: Vec<u8>,
    pub offset: i64,
    pub mode: u32,
    pub len: u32,
    pub data: Vec<u8>,
}

/// How a process ends at an operation after too many.
pub const ENDLESS: i32 = 201;
/// How a process ends that a fault kills.
pub const KILLED: i32 = 200;
/// How many seconds a process may take.
const DEADLINE: c_int = 30;

/// Where files of this folder lie that have lost their last name, by the numbers of their inodes. `world.c` writes the same.
pub fn removed(folder: &Path) -> PathBuf {
    let mut path = folder.as_os_str().to_owned();
    path.push(".removed");
    path.into()
}

/// A world, for one process at a time.
pub struct World {
    raw: NonNull<Raw>,
}

/// How the next process is treated.
pub struct Plan<'a> {
    pub faults: &'a [Fault],
    /// Whether what is written is recorded too.
    pub keep_data: bool,
    /// Whether files that lose their last name get one in [`removed`] of the world's folder.
    pub keep_inodes: bool,
    /// The type of file system that the process sees, or 0.
    pub fs_type: u32,
    pub device: u64,
    pub root: u64,
    pub path: &'a Path,
}

impl World {
    /// # Panics
    /// If there is no memory.
    pub fn new() -> Self {
        // SAFETY: it only maps memory, which stays mapped.
        let raw = unsafe { world_new() };
        Self { raw: NonNull::new(raw).expect("memory for a world") }
    }

    fn raw(&mut self) -> &mut Raw {
        // SAFETY: the memory is mapped, of this size, zeroed at first, and every content is valid. No process that shares it
        // runs while this borrow lives: `run` waits for it.
        unsafe { self.raw.as_mut() }
    }

    /// Runs `body` in a copy of this process, whose standard streams and folder are these. Returns how it ended.
    pub fn run(
        &mut self,
        plan: &Plan<'_>,
        streams: [BorrowedFd<'_>; 3],
        arguments: &[CString],
        body: impl FnOnce() -> u8,
    ) -> i32 {
        self.prepare(plan);
        let dir = CString::new(plan.path.as_os_str().as_bytes()).expect("a path");
        let [input, output, error] = streams.map(|stream| stream.as_raw_fd());
        let mut given: Vec<*mut c_char> = arguments.iter().map(|text| text.as_ptr().cast_mut()).collect();
        // SAFETY: this process has one thread, so its copy is whole.
        let child = unsafe { world_fork() };
        assert!(child >= 0, "a process cannot be made");
        if child > 0 {
            // SAFETY: it is our child.
            return unsafe { world_wait(child) };
        }
        // SAFETY: the descriptors are open, the strings live, and the process ends here.
        unsafe {
            let count = given.len() as c_int;
            let failed = world_deadline(DEADLINE) != 0
                || world_enter(input, output, error, dir.as_ptr()) != 0
                || world_arguments(given.as_mut_ptr(), count) != 0
                || world_begin(self.raw.as_ptr()) != 0;
            if failed {
                world_exit(203);
            }
            let code = body();
            world_end();
            world_exit(code.into())
        }
    }

    fn prepare(&mut self, plan: &Plan<'_>) {
        let raw = self.raw();
        (raw.count, raw.ops, raw.used, raw.overflow) = (0, 0, 0, 0);
        (raw.limit, raw.fs_type, raw.keep_data) = (MOST_OPS as u32 - 1, plan.fs_type, plan.keep_data.into());
        raw.keep_inodes = plan.keep_inodes.into();
        (raw.device, raw.root) = (plan.device, plan.root);
        raw.faults = plan.faults.len() as u32;
        for (to, from) in raw.fault.iter_mut().zip(plan.faults) {
            *to = RawFault { at: from.at, kind: from.kind as u32, value: from.value, met: 0 };
        }
        raw.path = [0; 256];
        let path = plan.path.as_os_str().as_bytes();
        raw.path[..path.len()].copy_from_slice(path);
    }

    /// Those of these faults, which the last process had, that it met.
    pub fn met(&mut self, faults: &[Fault]) -> Vec<Met> {
        let numbers: Vec<u32> = self.raw().fault.iter().map(|fault| fault.met).collect();
        let met = faults.iter().zip(numbers).filter(|(_, number)| *number != 0);
        met.map(|(fault, number)| Met { fault: *fault, op: self.op(number as usize - 1) }).collect()
    }

    /// How many operations there were.
    pub fn count(&mut self) -> u32 {
        self.raw().count
    }

    /// The operations of the last process.
    pub fn ops(&mut self) -> Vec<Op> {
        let raw = self.raw();
        assert!(raw.overflow == 0, "the record is full");
        (0..raw.ops as usize).map(|number| self.op(number)).collect()
    }

    fn op(&mut self, number: usize) -> Op {
        let raw = self.raw();
        let text = |at: u32| {
            let from = &raw.bytes[at as usize..];
            if at == 0 { Vec::new() } else { from.iter().copied().take_while(|byte| *byte != 0).collect() }
        };
        let op = &raw.op[number];
        Op {
            nr: op.nr,
            ret: op.ret,
            created: op.flags & 1 != 0,
            truncated: op.flags & 2 != 0,
            dir: op.dir,
            dir2: op.dir2,
            ino: op.ino,
            name: text(op.name),
            name2: text(op.name2),
            offset: op.offset,
            mode: op.mode,
            len: op.len,
            data: if op.data == 0 { Vec::new() } else { raw.bytes[op.data as usize..][..op.len as usize].to_vec() },
        }
    }
}
