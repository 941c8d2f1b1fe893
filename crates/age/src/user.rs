//! Whoever holds the identities and can be asked.

use std::io;
use std::process::{Child, Command};
use zeroize::Zeroizing;

/// Asks the user, and tells the user something. An answer of `None` means that nobody can be asked, or nobody answers.
///
/// Files are opened by several threads, so several may ask at once, for different identities. Whoever has one terminal lets
/// them take turns.
pub trait User: Send + Sync {
    /// Asks for what nobody may see, such as a passphrase; `what` says what it is for.
    fn secret(&self, what: &str) -> Option<Zeroizing<String>>;
    /// Asks for a line that is no secret: a plugin wants it.
    fn line(&self, question: &str) -> Option<String> {
        let _ = question;
        None
    }
    /// Asks to choose between `yes` and `no`: a plugin wants it. Without `no` there is nothing to choose but `yes`.
    fn choose(&self, question: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        let _ = (question, yes, no);
        None
    }
    /// Shows what a plugin says: that a button waits to be pressed, say.
    fn tell(&self, message: &str) {
        let _ = message;
    }
    /// Starts a plugin. A program keeps the signal mask of the thread that starts it: whoever blocks signals lets the plugin have
    /// another one.
    ///
    /// # Errors
    /// Those of [`Command::spawn`].
    fn start(&self, plugin: &mut Command) -> io::Result<Child> {
        plugin.spawn()
    }
}

/// Nobody can be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl User for Nobody {
    fn secret(&self, _: &str) -> Option<Zeroizing<String>> {
        None
    }
}
