//! The console while it does not show what is typed.

use crate::lock::lock;
use phalanx_system::console::{InputMode, discard_input, restore_code_page, show_utf8};
use std::fs::File;
use std::io::{self, Write};
use std::os::windows::io::AsHandle;
use std::sync::Mutex;

/// What is typed at the console of the process.
pub const TYPED: &str = "CONIN$";

/// Shows a question at the console. What is typed comes from another place than what is shown goes to.
pub fn show(_typed: &File, question: &str) -> io::Result<()> {
    let mut shown = File::options().read(true).write(true).open("CONOUT$")?;
    show_utf8(shown.as_handle());
    shown.write_all(question.as_bytes())
}

/// The console shows nothing that is typed, from before the question is there. What was typed before that is thrown away: it was
/// shown, and was no answer.
pub struct Dark;

/// The console while it is dark, and how it was before.
static BEFORE: Mutex<Option<(File, InputMode)>> = Mutex::new(None);

/// Makes the console what it was before the process, which ends now.
pub(crate) fn restore() {
    echo();
    restore_code_page();
}

/// Makes the console show what is typed, if a question has changed that.
fn echo() {
    let before = lock(&BEFORE).take();
    if let Some((console, before)) = before {
        let _ = before.set(&console);
    }
}

impl Dark {
    /// `None` if there is no console.
    pub fn new() -> Option<Self> {
        let console = File::options().read(true).write(true).open(TYPED).ok()?;
        let before = InputMode::of(&console).ok()?;
        *lock(&BEFORE) = Some((console.try_clone().ok()?, before));
        let darkened = Self;
        before.dark().set(&console).ok()?;
        discard_input(&console);
        Some(darkened)
    }
}

impl Drop for Dark {
    fn drop(&mut self) {
        echo();
    }
}
