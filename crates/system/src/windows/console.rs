//! The console: the terminal of Windows.

use super::io::{Errno, Result};
use std::fs::File;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use std::sync::atomic::{AtomicU32, Ordering};
use windows_sys::Win32::Globalization::CP_UTF8;
use windows_sys::Win32::System::Console::{
    CONSOLE_MODE, ENABLE_ECHO_INPUT, FlushConsoleInputBuffer, GetConsoleMode, GetConsoleOutputCP, SetConsoleMode,
    SetConsoleOutputCP,
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

/// The code page of the console before it was changed here. 0 if it was not.
static CODE_PAGE: AtomicU32 = AtomicU32::new(0);

/// Makes the console show bytes as UTF-8, if this leads to one.
pub fn show_utf8(output: BorrowedHandle<'_>) {
    if mode(output).is_ok() {
        use_utf8();
    }
}

/// Makes bytes UTF-8 for the console of the process, if it has one: those that it shows, and those that the shell's own commands write
/// to a pipe. The console outlives the process: [`restore_code_page`].
pub fn use_utf8() {
    // SAFETY: it only reads a number of the console.
    #[expect(unsafe_code)]
    let now = unsafe { GetConsoleOutputCP() };
    if now == 0 || now == CP_UTF8 {
        return;
    }
    let _ = CODE_PAGE.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    set_code_page(CP_UTF8);
}

/// Gives the console the code page that it had before.
pub fn restore_code_page() {
    match CODE_PAGE.swap(0, Ordering::Relaxed) {
        0 => {}
        before => set_code_page(before),
    }
}

fn set_code_page(code_page: u32) {
    // SAFETY: it only sets a number of the console.
    #[expect(unsafe_code)]
    unsafe {
        SetConsoleOutputCP(code_page);
    }
}
