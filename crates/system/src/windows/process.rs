//! The process.

use super::io::{Errno, Result};
use windows_sys::Win32::System::Diagnostics::Debug::{
    SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX, SetErrorMode,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, TerminateProcess};

/// The number of every user here.
pub(super) const USER: u32 = 1;

/// A user. Windows has no numbers for them: this one is that of every file too, so that comparisons say nothing. Who may open what
/// is in access control lists: [`crate::files::access`].
#[derive(Clone, Copy, Debug)]
pub struct User(());

impl User {
    /// The number.
    #[must_use]
    pub fn as_raw(self) -> u32 {
        USER
    }

    /// Whether files can be given to other users. Nothing does so here.
    #[must_use]
    pub fn is_root(self) -> bool {
        false
    }
}

/// The user of this process.
#[must_use]
pub fn geteuid() -> User {
    User(())
}

/// What a new file lacks of permissions. It says nothing: who may open one is in the list of its folder.
#[must_use]
pub fn file_mask() -> u32 {
    0o022
}

/// How many files this process may open at once. Windows has no limit below millions.
#[must_use]
pub fn most_open_files() -> Option<u64> {
    None
}

/// If this process fails, no report of it is made, and no window waits for anybody. A machine may be set to keep dumps all the same.
pub fn refuse_dumps() {
    // SAFETY: it only sets flags of the process.
    #[expect(unsafe_code)]
    unsafe {
        SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    }
}

/// Ends the process immediately, without any clean-up.
pub fn end(code: u32) -> ! {
    // SAFETY: it ends this process, and nothing of it runs afterwards.
    #[expect(unsafe_code)]
    unsafe {
        TerminateProcess(GetCurrentProcess(), code);
    }
    std::process::abort()
}

/// Calls a function on each Ctrl-C and Ctrl-Break, and when the window is closed, in a thread that the system starts for it. The process ends when it returns.
///
/// # Errors
/// If the system does not take it.
pub fn on_end(act: fn()) -> Result<()> {
    use std::sync::OnceLock;
    use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;
    static ACT: OnceLock<fn()> = OnceLock::new();
    extern "system" fn handle(_event: u32) -> i32 {
        if let Some(act) = ACT.get() {
            act();
        }
        // The next handler ends the process.
        0
    }
    let _ = ACT.set(act);
    // SAFETY: the function may be called at any time, in a thread of its own; it has no state but what is set once, above.
    #[expect(unsafe_code)]
    if unsafe { SetConsoleCtrlHandler(Some(handle), 1) } == 0 { Err(Errno::last()) } else { Ok(()) }
}
