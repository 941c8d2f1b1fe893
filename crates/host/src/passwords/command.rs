//! A password that a program prints.

#[cfg_attr(windows, path = "../windows/shell.rs")]
mod shell;

use crate::failure::{Code, Failure, Outcome};
use crate::secret_files::LONGEST_PASSWORD;
use crate::signals;
use phalanx_core::Password;
use std::process::Stdio;
use zeroize::Zeroizing;

/// Runs a shell command and returns what it prints until it ends, without one newline at its end. It gets no standard input, which
/// may be data, and may ask its user at the terminal for as long as that takes. What it has started may go on, and is not waited for.
///
/// # Errors
/// If it cannot be started, fails, or prints more than a password.
pub fn password(command: &str) -> Outcome<Password> {
    let failed = |why: String| Failure::new(Code::Other, format!("--password-command: {why}"));
    let unread = |e: &dyn std::fmt::Display| failed(format!("it could not be run: {e}"));
    let mut shell = shell::of(command);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).env_remove("PHALANX_PASSWORD");
    let mut child = signals::start(&mut shell).map_err(|e| unread(&e))?;
    let mut bytes = Zeroizing::new(vec![0; LONGEST_PASSWORD + 1]);
    let printed = child.stdout.take().expect("it is piped");
    let read = shell::read(&mut child, &printed, &mut bytes);
    if !matches!(read, Ok(0..=LONGEST_PASSWORD)) {
        let _ = child.kill();
    }
    let ended = child.wait().map_err(|e| unread(&e))?;
    let len = read.map_err(|e| unread(&e))?;
    if len > LONGEST_PASSWORD {
        return Err(failed(format!("a password has at most {LONGEST_PASSWORD} bytes, and it printed more")));
    }
    if !ended.success() {
        return Err(failed(shell::how(ended)));
    }
    Ok(Password::new(shell::without_newline(&bytes[..len]).to_vec()))
}
