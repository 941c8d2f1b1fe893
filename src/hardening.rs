//! Keeps secrets in this process out of core dumps, of other processes, and of swap where the system allows it.

use rustix::mm::{self, MlockAllFlags};
use rustix::process::{self, DumpableBehavior, Resource, Rlimit};

/// With less memory to lock than this, locking all of it would make later allocations fail.
const ENOUGH: u64 = 1 << 30;

/// The capability to lock any amount.
const CAP_IPC_LOCK: u32 = 14;

/// Done before anything secret is read. What the system refuses is left as it is: it is a second line of defence.
pub fn harden() {
    let _ = process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let limit = process::getrlimit(Resource::Memlock).current;
    if limit.is_none_or(|limit| limit >= ENOUGH) || status_mask("CapEff") >> CAP_IPC_LOCK & 1 == 1 {
        // On fault: nothing is read in only to be locked.
        let _ = mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
    // Recursion keeps a file and its folders open for each thread, and groups of outputs until they are synced.
    let files = process::getrlimit(Resource::Nofile);
    let _ = process::setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum });
}

/// A bit mask that the system shows of this process; 0 where it shows none.
pub fn status_mask(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}
