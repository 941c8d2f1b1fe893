//! Memory of buffers, as slices. Nothing here needs Python, so that Miri can run its tests (`tests/memory`).

use std::ffi::c_void;

/// Bytes that others have.
///
/// # Safety
/// If `len` is not zero, there are so many bytes at `start`, which exist as long as the result is used, and of which nobody
/// changes any meanwhile. A null pointer may stand for no bytes.
#[expect(unsafe_code)]
pub unsafe fn slice<'a>(start: *const c_void, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: this is what the caller promises.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

/// Bytes that others have, to write to.
///
/// # Safety
/// If `len` is not zero, there are so many bytes at `start`, which exist as long as the result is used, and of which nobody
/// else has a reference meanwhile. A null pointer may stand for no bytes.
#[expect(unsafe_code)]
pub unsafe fn slice_mut<'a>(start: *mut c_void, len: usize) -> &'a mut [u8] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: this is what the caller promises.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), len) }
}

/// Copies bytes that others have, as many as `to` has.
///
/// # Safety
/// If `to` is not empty, there are so many bytes at `start`, and `to` is not among them. A null pointer may stand for no
/// bytes.
#[expect(unsafe_code)]
pub unsafe fn copy(start: *const c_void, to: &mut [u8]) {
    if !to.is_empty() {
        // SAFETY: this is what the caller promises.
        unsafe { std::ptr::copy_nonoverlapping(start.cast(), to.as_mut_ptr(), to.len()) }
    }
}

/// Divides memory for the bytes from `offset` on into pieces that end at multiples of `piece`, so that no chunk is opened twice.
pub fn pieces(mut memory: &mut [u8], offset: u64, piece: usize) -> Vec<(u64, &mut [u8])> {
    let (mut pieces, mut at) = (Vec::new(), offset);
    while !memory.is_empty() {
        let len = (piece - (at % piece as u64) as usize).min(memory.len());
        let (first, rest) = memory.split_at_mut(len);
        pieces.push((at, first));
        (at, memory) = (at + len as u64, rest);
    }
    pieces
}
