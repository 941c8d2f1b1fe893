//! Keeps the secrets of this process out of core dumps and other processes, and out of swap if the system allows it.

use rustix::mm::{self, MlockAllFlags};
use rustix::process::{self, DumpableBehavior, Resource, Rlimit};
use std::sync::atomic::{AtomicBool, Ordering};

/// If less memory than this may be locked, locking all of it would make later allocations fail.
const ENOUGH: u64 = 1 << 30;

/// The capability to lock any amount of memory.
const CAP_IPC_LOCK: u32 = 14;

/// Whether [`harden`] has locked all memory.
static HAS_LOCKED: AtomicBool = AtomicBool::new(false);

/// Called before anything secret is read. Failures are ignored, because this is a second line of defence.
pub fn harden() {
    let _ = process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if may_lock_any() || process::getrlimit(Resource::Memlock).current.is_some_and(|limit| limit >= ENOUGH) {
        // Memory is locked when it is first used, so nothing is read in only to be locked.
        let locked = mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
        HAS_LOCKED.store(locked.is_ok(), Ordering::Relaxed);
    }
    // Recursive runs keep a file and its folders open for each thread, and groups of outputs until they are synced.
    let files = process::getrlimit(Resource::Nofile);
    let _ = process::setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum });
}

/// Called before a GPU's driver is loaded. The driver reserves more addresses than there is memory, which counts against a
/// limit on locked memory. What is locked stays locked. New memory is then locked only if there is no limit.
pub fn make_room_for_drivers() {
    if HAS_LOCKED.load(Ordering::Relaxed) && !may_lock_any() {
        let _ = mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT);
    }
}

fn may_lock_any() -> bool {
    process::getrlimit(Resource::Memlock).current.is_none() || status_mask("CapEff") >> CAP_IPC_LOCK & 1 == 1
}

/// A bit mask that the system shows for this process, or 0 if it shows none.
pub fn status_mask(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}
