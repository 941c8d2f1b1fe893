//! Keeps the secrets of this process out of core dumps and other processes, and out of swap if the system allows it.

use rustix::mm::{self, MlockAllFlags, MlockFlags};
use rustix::process::{self, DumpableBehavior, Resource, Rlimit};
use rustix::thread::{self, CapabilitySet};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// If less memory than this may be locked, locking all of it would make later allocations fail.
const ENOUGH: u64 = 1 << 30;

/// Whether [`lock_memory`] has locked memory.
static HAS_LOCKED: AtomicBool = AtomicBool::new(false);

/// A limit of one byte prevents core dumps. With 0, a system that pipes core dumps to a program would still do that:
/// core(5).
const NO_CORE: Rlimit = Rlimit { current: Some(1), maximum: Some(1) };

/// Hardens the process. Called before everything else. Failures are ignored, because this is a second line of defence.
pub fn harden() {
    let _ = process::setrlimit(Resource::Core, NO_CORE);
    refuse_tracers();
    // Recursive runs keep a file and its folders open for each thread, and groups of outputs until they are synced.
    let files = process::getrlimit(Resource::Nofile);
    let _ = process::setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum });
}

/// Keeps other processes from tracing this one.
fn refuse_tracers() {
    let _ = process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Keeps memory out of swap. Called before anything secret is read. Failures are ignored here too.
pub fn lock_memory() {
    if may_lock_any() || process::getrlimit(Resource::Memlock).current.is_some_and(|limit| limit >= ENOUGH) {
        // Memory is locked when it is first used, so nothing is read in only to be locked.
        let later = mm::mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
        HAS_LOCKED.store(later.is_ok(), Ordering::Relaxed);
        if later.is_ok() && lock_writable().is_none() {
            let _ = mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
        }
    }
}

/// Locks what is mapped now and can hold a secret: heap, stack and variables. Code and constants are in files anyway,
/// and locking their pages takes half a millisecond, as long as all the rest that protects a small file.
fn lock_writable() -> Option<()> {
    let mut maps = String::with_capacity(16 << 10);
    File::open("/proc/self/maps").ok()?.read_to_string(&mut maps).ok()?;
    for range in maps.lines().filter_map(writable) {
        let start = ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: locking changes neither the content of memory nor what may be done with it. If the range is not
        // mapped any more, the call fails.
        #[expect(unsafe_code)]
        let locked = unsafe { mm::mlock_with(start, range.len(), MlockFlags::ONFAULT) };
        locked.ok()?;
    }
    Some(())
}

/// The addresses of a line of `/proc/self/maps`, if this process alone can write there: proc_pid_maps(5).
fn writable(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split(' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let address = |hex| usize::from_str_radix(hex, 16).ok();
    (permissions.starts_with("rw") && permissions.ends_with('p')).then_some(address(start)?..address(end)?)
}

/// Makes room for the driver of a GPU, before it is loaded. It reserves more addresses than there is memory, and these
/// count against a limit on locked memory. Locked memory stays locked. New memory is then locked only if there is no
/// limit.
pub fn make_room_for_drivers() {
    if HAS_LOCKED.load(Ordering::Relaxed) && !may_lock_any() {
        // What is mapped now may already be more than the limit.
        let locked = mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT);
        if locked.is_err() {
            let _ = mm::munlockall();
        }
    }
}

/// Tries something that may not work in a hardened process. If it fails, memory is unlocked, other processes of the
/// user may trace this one, and it is tried again. If that fails too, the process is hardened again. The second result
/// is whether it is no longer hardened.
pub fn or_without<T>(mut attempt: impl FnMut() -> T, has_failed: impl Fn(&T) -> bool) -> (T, bool) {
    let first = attempt();
    if !has_failed(&first) {
        return (first, false);
    }
    let _ = mm::munlockall();
    let _ = process::set_dumpable_behavior(DumpableBehavior::Dumpable);
    let second = attempt();
    if !has_failed(&second) {
        return (second, true);
    }
    refuse_tracers();
    lock_memory();
    make_room_for_drivers();
    (first, false)
}

fn may_lock_any() -> bool {
    process::getrlimit(Resource::Memlock).current.is_none()
        || thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
}
