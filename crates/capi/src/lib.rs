//! The C interface of Phalanx. `include/phalanx.h` is made from it, and a test compares the two.
//!
//! A function that can fail returns an error, or null if it succeeded. What a function gives back through a pointer is
//! set only if it succeeded. Every pointer may be null where this says so, and nowhere else. Objects may be used by
//! several threads at once, as long as none of them changes or frees the object. No function calls back, writes to the
//! terminal (unless it has found an error in the library itself), asks for anything, or changes how the process handles
//! signals.

mod error;
mod file;
mod key;
mod kind;
mod memory;
mod messages;
mod options;
mod reader;
mod ways;

use std::ffi::{CStr, c_char};

/// The version of the library, such as "0.2.0".
#[unsafe(no_mangle)]
pub extern "C" fn phalanx_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zero byte"),
    };
    VERSION.as_ptr()
}
