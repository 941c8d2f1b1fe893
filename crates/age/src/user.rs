//! The user, who has the identities and can be asked.

use std::io;
use std::process::{Child, Command};
use zeroize::Zeroizing;

/// Asks the user questions and shows messages. `None` means that nobody can be asked, or that nobody answers.
///
/// Several threads open files, so several may ask at the same time, for different identities. An implementation with
/// one terminal lets them take turns.
pub trait User: Send + Sync {
    /// Asks for a secret, such as a passphrase; `what` says what it is for.
    fn secret(&self, what: &str) -> Option<Zeroizing<String>>;
    /// Asks for a line that is not secret, for a plugin.
    fn line(&self, question: &str) -> Option<String> {
        let _ = question;
        None
    }
    /// Asks to choose between `yes` and `no`, for a plugin. Without `no`, the only choice is `yes`.
    fn choose(&self, question: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        let _ = (question, yes, no);
        None
    }
    /// Shows a message of a plugin, for example that a button must be pressed.
    fn tell(&self, message: &str) {
        let _ = message;
    }
    /// Starts a plugin. A program inherits the signal mask of the thread that starts it. An implementation that blocks
    /// signals gives the plugin another mask.
    ///
    /// # Errors
    /// Those of [`Command::spawn`].
    fn start(&self, plugin: &mut Command) -> io::Result<Child> {
        plugin.spawn()
    }
}

/// A user who cannot be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl User for Nobody {
    fn secret(&self, _: &str) -> Option<Zeroizing<String>> {
        None
    }
}
