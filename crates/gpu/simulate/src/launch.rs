//! What the compiled kernels get and give back: the structures of `runtime.c`, and texts for what went wrong.

use std::fmt::Write;

/// Who touched a word of 4 bytes last, and when: `touch_t`.
pub type Touch = [u32; 4];

/// `area_t`
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Area {
    pub address: u64,
    pub len: u64,
    pub bytes: *mut u8,
    pub written: *mut u8,
    pub touched: *mut Touch,
}

/// `space_t`
#[repr(C)]
pub struct Space {
    areas: *mut Area,
    count: u64,
}

impl Space {
    /// The areas must live as long as this is used.
    pub fn new(areas: &mut [Area]) -> Self {
        Self { areas: areas.as_mut_ptr(), count: areas.len() as u64 }
    }
}

/// `launch_t`
#[repr(C)]
pub struct Launch {
    /// Global, shared, constant.
    pub spaces: [Space; 3],
    pub parameters: *const u8,
    pub blocks: u32,
    pub threads: u32,
    pub descending: u32,
    pub now: u32,
    pub fault: u32,
    pub line: u32,
    pub block: u32,
    pub thread: u32,
    pub write: u32,
    pub other: u32,
    pub address: u64,
    pub size: u64,
    pub space: u32,
}

/// `simulate_run`
pub type Run = unsafe extern "C" fn(*mut Launch, unsafe extern "C" fn());

/// The driver's codes for what a kernel can do wrong.
pub const ILLEGAL_ADDRESS: i32 = 700;
pub const LAUNCH_FAILED: i32 = 719;

impl Launch {
    /// What went wrong in this kernel, in one line, and its code. `None` if nothing did.
    pub fn failure(&self, kernel: &str) -> Option<(i32, String)> {
        let (code, what) = match self.fault {
            0 => return None,
            1 => (ILLEGAL_ADDRESS, format!("{} is in no memory", self.access())),
            2 => (ILLEGAL_ADDRESS, format!("{} is in memory that was freed", self.access())),
            3 => (ILLEGAL_ADDRESS, format!("{} is not at a multiple of its length", self.access())),
            4 => (LAUNCH_FAILED, format!("{} was never written", self.access())),
            5 => (LAUNCH_FAILED, format!("{} races with a write by {}", self.access(), self.by())),
            6 => (LAUNCH_FAILED, format!("{} races with a read by {}", self.access(), self.by())),
            7 => (ILLEGAL_ADDRESS, format!("{} is in memory that cannot be written", self.access())),
            8 => (
                LAUNCH_FAILED,
                format!("it waits at the barrier of line {}, and other threads at this one", self.other),
            ),
            9 => (LAUNCH_FAILED, "it ended, and other threads wait at this barrier".into()),
            10 => (LAUNCH_FAILED, "a division by zero".into()),
            11 => (LAUNCH_FAILED, "it runs for ever".into()),
            _ => (LAUNCH_FAILED, "there is no memory for the threads".into()),
        };
        let (line, block, thread) = (self.line, self.block, self.thread);
        Some((code, format!("simulated GPU: {kernel}, line {line} of the PTX, block {block}, thread {thread}: {what}")))
    }

    fn access(&self) -> String {
        let space = ["global", "shared", "constant"][self.space.min(2) as usize];
        let kind = if self.write == 0 { "read" } else { "write" };
        format!("a {kind} of {} bytes at {:#x} in {space} memory", self.size, self.address)
    }

    fn by(&self) -> String {
        let mut who = String::new();
        match self.other {
            u32::MAX => who.push_str("several threads"),
            other => {
                let _ = write!(who, "block {}, thread {}", other / self.threads, other % self.threads);
            }
        }
        who
    }
}
