//! The console: the terminal of Windows.

use super::io::{Errno, Result};
use std::fs::File;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use windows_sys::Win32::Globalization::CP_UTF8;
use windows_sys::Win32::System::Console::{
    CONSOLE_MODE, ENABLE_ECHO_INPUT, FlushConsoleInputBuffer, GetConsoleMode, SetConsoleMode, SetConsoleOutputCP,
};

/// How the console takes what is typed.
#[derive(Clone, Copy, Debug)]
pub struct InputMode(CONSOLE_MODE);

impl InputMode {
    /// That of an open console.
    ///
    /// # Errors
    /// If it is none.
    pub fn of(console: &File) -> Result<Self> {
        mode(console.as_handle()).map(Self)
    }

    /// The same, but what is typed is not shown.
    #[must_use]
    pub fn dark(self) -> Self {
        Self(self.0 & !ENABLE_ECHO_INPUT)
    }

    /// Sets it.
    ///
    /// # Errors
    /// If the console does not take it.
    pub fn set(self, console: &File) -> Result<()> {
        // SAFETY: the handle is open.
        #[expect(unsafe_code)]
        if unsafe { SetConsoleMode(console.as_raw_handle(), self.0) } == 0 { Err(Errno::last()) } else { Ok(()) }
    }
}

fn mode(console: BorrowedHandle<'_>) -> Result<CONSOLE_MODE> {
    let mut mode = 0;
    // SAFETY: the handle is open, and the number is writable.
    #[expect(unsafe_code)]
    if unsafe { GetConsoleMode(console.as_raw_handle(), &mut mode) } == 0 { Err(Errno::last()) } else { Ok(mode) }
}

/// Throws away what was typed before now.
pub fn discard_input(console: &File) {
    // SAFETY: the handle is open.
    #[expect(unsafe_code)]
    unsafe {
        FlushConsoleInputBuffer(console.as_raw_handle());
    }
}

/// Makes the console show bytes as UTF-8, if this leads to one.
pub fn show_utf8(output: BorrowedHandle<'_>) {
    if mode(output).is_ok() {
        // SAFETY: it only sets a number of the console.
        #[expect(unsafe_code)]
        unsafe {
            SetConsoleOutputCP(CP_UTF8);
        }
    }
}
