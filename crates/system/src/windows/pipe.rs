//! Pipes.

use super::io::{Errno, Result};
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::ptr;
use windows_sys::Win32::Foundation::ERROR_BROKEN_PIPE;
use windows_sys::Win32::System::Pipes::PeekNamedPipe;

/// How many bytes can be read from a pipe without waiting. `None` if its other end is closed and all was read.
///
/// # Errors
/// If it cannot be looked at.
pub fn available(pipe: impl AsHandle) -> Result<Option<usize>> {
    let mut len = 0u32;
    // SAFETY: the handle is open, the number is writable, and nothing else is asked for.
    #[expect(unsafe_code)]
    let done = unsafe {
        PeekNamedPipe(pipe.as_handle().as_raw_handle(), ptr::null_mut(), 0, ptr::null_mut(), &mut len, ptr::null_mut())
    };
    match Errno::last() {
        _ if done != 0 => Ok(Some(len as usize)),
        e if e == Errno::of(ERROR_BROKEN_PIPE) => Ok(None),
        e => Err(e),
    }
}

/// Reads what is there, or waits for something. 0 if the other end is closed.
///
/// # Errors
/// If it cannot be read.
pub fn read(pipe: impl AsHandle, buf: &mut [u8]) -> std::io::Result<usize> {
    let pipe = std::fs::File::from(pipe.as_handle().try_clone_to_owned()?);
    std::io::Read::read(&mut &pipe, buf)
}
