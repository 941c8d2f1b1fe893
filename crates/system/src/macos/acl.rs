//! Access control lists. A folder can give one to each file that is made in it.

use rustix::io::{Errno, Result};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};

// `sys/acl.h`. The crate libc does not have them.
#[expect(unsafe_code)]
// SAFETY: these are the declarations of the system's header.
unsafe extern "C" {
    fn acl_init(count: c_int) -> *mut c_void;
    fn acl_set_fd(fd: c_int, acl: *mut c_void) -> c_int;
    fn acl_free(object: *mut c_void) -> c_int;
}

/// Removes the access control list of a file or folder.
///
/// # Errors
/// If there is no memory, or the file system has no such lists.
pub fn remove(file: impl AsFd) -> Result<()> {
    // SAFETY: it has no pointers among its arguments. It returns a new list without entries, or null.
    #[expect(unsafe_code)]
    let empty = unsafe { acl_init(0) };
    if empty.is_null() {
        return Err(Errno::NOMEM);
    }
    // SAFETY: the list is a whole one until it is freed below, and the descriptor is open.
    #[expect(unsafe_code)]
    let done = unsafe { acl_set_fd(file.as_fd().as_raw_fd(), empty) };
    let failed = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    // SAFETY: the list came from `acl_init`, and nothing uses it afterwards.
    #[expect(unsafe_code)]
    let _ = unsafe { acl_free(empty) };
    if done == 0 { Ok(()) } else { Err(failed) }
}
