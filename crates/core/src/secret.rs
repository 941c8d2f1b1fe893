//! Wiping secrets: bytes, and the stack that work with secrets has used.
//!
//! The compiler may leave copies of keys and texts on the stack: of values that moved, and of registers that it had too few
//! of. What has secrets of its own wipes them when it drops them, but nobody knows of these copies.

/// Overwrites secrets with zeros. A plain fill is many times faster than writing byte by byte; the barrier keeps it from
/// being left out.
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

/// As deep as the calls of an engine go, in bytes.
const DEPTH: usize = 32 << 10;

/// Does the work, and wipes the stack that it used, also if it panics. It does so below its caller's own.
#[inline(never)]
pub(crate) fn wiped<T>(work: impl FnOnce() -> T) -> T {
    /// Apart, so that all of the work's stack is below.
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
