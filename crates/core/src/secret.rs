//! Wiping secrets: bytes, and stack memory that held secrets.
//!
//! The compiler may leave copies of keys and texts on the stack: of values that were moved, and of registers when there
//! were too few. Owners of secrets wipe them when they drop them, but cannot know of these copies.

/// Overwrites secrets with zeros. Filling is many times faster than writing byte by byte. The barrier keeps the
/// compiler from removing it.
pub(crate) fn wipe(bytes: &mut [u8]) {
    // The address of an empty Vec points to no memory. Filling it with a masked store, as C libraries do, takes Intel
    // processors 100 ns and more.
    if bytes.is_empty() {
        return;
    }
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

/// Whether two texts are equal. All bytes are compared, so that the time does not say where the first difference is. `subtle`
/// takes byte after byte, which is slow for long texts. But tags need it: where the compiler knows the length, and it is short, it
/// makes branches of this.
pub(crate) fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

/// A depth in bytes that is enough for any work in this crate.
pub(crate) const DEPTH: usize = 32 << 10;

/// Does work on secrets, such as reading a key, and then wipes the stack that it used, even if it panics. This happens below
/// the caller's own stack frame, to a depth of 32 KiB. What the work returns should hold no secret itself, but lead to it.
pub fn wiped<T>(work: impl FnOnce() -> T) -> T {
    wiped_to(DEPTH, work)
}

/// Does work whose calls use `depth` bytes of stack at most, and then wipes that much, even if it panics.
#[inline(never)]
pub(crate) fn wiped_to<T>(depth: usize, work: impl FnOnce() -> T) -> T {
    /// A separate function, so that the whole stack of the work is below.
    #[inline(never)]
    fn call<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
    let _behind = WipeOnDrop(depth);
    call(work)
}

struct WipeOnDrop(usize);

impl Drop for WipeOnDrop {
    fn drop(&mut self) {
        overwrite(self.0);
    }
}

/// Overwrites the stack below its caller's frame, `depth` bytes or up to one `STEP` more.
#[inline(never)]
fn overwrite(depth: usize) {
    const STEP: usize = 4 << 10;
    let stack = [0u8; STEP];
    zeroize::optimization_barrier(&stack);
    if depth > STEP {
        overwrite(depth - STEP);
    }
    // The frame stays until here: what is overwritten next is below it.
    zeroize::optimization_barrier(&stack);
}
