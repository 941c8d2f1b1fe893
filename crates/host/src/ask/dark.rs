//! The terminal while it does not show what is typed.

use crate::lock::lock;
use phalanx_system::process;
use phalanx_system::termios::{self, LocalModes, OptionalActions, Termios};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Mutex;

/// The terminal of the process.
pub const TYPED: &str = "/dev/tty";

/// Shows a question at the open terminal.
pub fn show(mut terminal: &File, question: &str) -> io::Result<()> {
    terminal.write_all(question.as_bytes())
}

/// The terminal shows nothing that is typed, from before the question is there. What was typed before that is thrown away: it was
/// shown, and was no answer.
pub struct Dark;

/// The terminal while it is dark, and how it was before.
static BEFORE: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Makes the terminal what it was, if a question has changed it: a signal ends the process. In the background it is
/// somebody else's, who has set it as they need it.
pub(crate) fn restore() {
    if let Some((terminal, before)) = lock(&BEFORE).take()
        && termios::tcgetpgrp(&terminal).is_ok_and(|group| group == process::getpgrp())
    {
        let _ = termios::tcsetattr(&terminal, OptionalActions::Now, &before);
    }
}

impl Dark {
    /// `None` if there is no terminal.
    pub fn new() -> Option<Self> {
        let terminal = File::options().read(true).write(true).open(TYPED).ok()?;
        let before = termios::tcgetattr(&terminal).ok()?;
        let mut dark = before.clone();
        dark.local_modes.remove(LocalModes::ECHO);
        // Known before it is changed, and not locked meanwhile: the system stops a process in the background here.
        *lock(&BEFORE) = Some((terminal.try_clone().ok()?, before));
        let darkened = Self;
        termios::tcsetattr(&terminal, OptionalActions::Flush, &dark).ok()?;
        Some(darkened)
    }
}

impl Drop for Dark {
    fn drop(&mut self) {
        let before = lock(&BEFORE).take();
        if let Some((terminal, before)) = before {
            let _ = termios::tcsetattr(terminal, OptionalActions::Now, &before);
        }
    }
}
