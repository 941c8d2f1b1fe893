//! Wiping secrets: bytes, and the stack that work with secrets has used.
//!
//! The compiler may leave copies of keys and texts on the stack: of values that were moved, and of registers when there
//! were too few. Owners of secrets wipe them when they drop them, but cannot know of these copies.

/// Overwrites secrets with zeros. Filling is many times faster than writing byte by byte. The barrier keeps the compiler
/// from leaving it out.
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

/// The depth of the calls of an engine, in bytes.
const DEPTH: usize = 32 << 10;

/// Does the work, and then wipes the stack that it used, even if it panics. This happens below the caller's own stack
/// frame.
#[inline(never)]
pub(crate) fn wiped<T>(work: impl FnOnce() -> T) -> T {
    /// A function of its own, so that the whole stack of the work is below.
    #[inline(never)]
    fn call<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
    let _behind = WipeOnDrop;
    call(work)
}

struct WipeOnDrop;

impl Drop for WipeOnDrop {
    #[inline(never)]
    fn drop(&mut self) {
        let stack = [0u8; DEPTH];
        zeroize::optimization_barrier(&stack);
    }
}
