//! Asking the user at the terminal. A program that has not called [`by`] asks nobody.

#[cfg_attr(windows, path = "windows/dark.rs")]
mod dark;

use crate::signals;
use phalanx_core::Password;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use zeroize::Zeroizing;

pub(crate) use dark::restore;
use dark::{Dark, TYPED};

/// The longest line that a user types for a plugin.
const LONGEST_LINE: u64 = 4096;

/// Shows a question at the terminal, and returns the line that is typed, which the terminal does not show.
pub type Hidden = fn(&str) -> io::Result<Zeroizing<String>>;

static HIDDEN: OnceLock<Hidden> = OnceLock::new();

/// Allows questions to the user. `hidden` asks for what nobody may see.
pub fn by(hidden: Hidden) {
    let _ = HIDDEN.set(hidden);
}

static ASKS_NO_MORE: AtomicBool = AtomicBool::new(false);

/// Stops all questions: what is not known is then missing. A mount must not wait for its user, who may be elsewhere.
pub fn ask_no_more() {
    ASKS_NO_MORE.store(true, Ordering::Relaxed);
}

/// Whether the user may be asked, and there is a terminal to do so.
pub fn can_ask() -> bool {
    terminal(File::options().read(true)).is_some()
}

/// The terminal, if the user may be asked.
fn terminal(how: &OpenOptions) -> Option<File> {
    let may_ask = || HIDDEN.get().is_some() && !ASKS_NO_MORE.load(Ordering::Relaxed);
    how.open(TYPED).ok().filter(|_| may_ask())
}

/// Waits for exclusive use of the terminal. Two prompts at the same time would mix their answers, and the one that ends
/// first would turn on the echo of the other, or leave the terminal without echo.
fn at_terminal() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for a password.
///
/// # Errors
/// If there is no terminal, or this program does not ask, or no more.
pub fn password(question: &str) -> io::Result<Password> {
    hidden(question).map(|typed| Password::new(typed.as_bytes().to_vec()))
}

/// Asks for what nobody may see; `None` without a terminal.
pub fn secret(question: &str) -> Option<Zeroizing<String>> {
    can_ask().then(|| hidden(question).ok())?
}

/// Asks for a line that everybody may see; `None` without a terminal.
pub fn line(question: &str) -> Option<String> {
    let _turn = at_terminal();
    let terminal = terminal(File::options().read(true).write(true))?;
    dark::show(&terminal, question).ok()?;
    let mut line = String::new();
    BufReader::new(terminal.take(LONGEST_LINE)).read_line(&mut line).ok()?;
    line.ends_with('\n').then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Asks for what nobody may see.
///
/// # Errors
/// If there is no terminal, or this program does not ask, or no more.
pub fn hidden(question: &str) -> io::Result<Zeroizing<String>> {
    let refused = |why| io::Error::new(io::ErrorKind::Unsupported, why);
    let hidden = HIDDEN.get().ok_or_else(|| refused("this program does not ask"))?;
    let _turn = at_terminal();
    if ASKS_NO_MORE.load(Ordering::Relaxed) {
        return Err(refused("nobody is asked any more"));
    }
    let dark = Dark::new();
    let typed = hidden(question);
    drop(dark);
    // While it is asked, Ctrl-C is a character and no signal.
    if typed.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::Interrupted) {
        signals::interrupt();
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_way_to_ask_asks_nobody() {
        assert!(!can_ask() && secret("What? ").is_none() && line("What? ").is_none());
        assert_eq!(password("What? ").err().map(|e| e.to_string()).as_deref(), Some("this program does not ask"));
    }
}
