//! Where passwords come from: a file, a program, the environment, systemd, or the user. They are never arguments.

mod command;
mod generated;

use crate::args::KeyArgs;
use crate::ask;
use crate::failure::{Failure, Outcome};
use crate::lines::{complain_with, shown};
use crate::secret_files::read_password;
use phalanx_core::Password;
use phalanx_system::os::ffi::OsStringExt;
use std::env;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

pub use generated::{generate, would_be_lost};

const VARIABLE: &str = "PHALANX_PASSWORD";
/// The name of the password among the credentials that systemd gives a service.
const CREDENTIAL: &str = "phalanx.password";
/// A typed password with fewer characters than this, or with fewer different ones than [`FEWEST_DIFFERENT`], gets a
/// warning.
const SHORTEST: usize = 12;
const FEWEST_DIFFERENT: usize = 6;

/// The password for new files: the one that options name or, if one is asked for, that of the environment or of a
/// prompt. If the environment has one that is not used, a line says so and gives `why` as the reason.
///
/// # Errors
/// If it cannot be read, or if it is empty.
pub fn for_new(args: &KeyArgs, asked: bool, why: &str, hint: Option<&str>) -> Outcome<Option<Password>> {
    if let Some((password, source)) = named(args)? {
        return refuse_empty(password, source).map(Some);
    }
    if asked {
        return new().map(Some);
    }
    if variable().is_some_and(|password| !password.is_empty()) {
        complain_with(format!("warning: {VARIABLE} is set but not used, {why}"), hint);
    }
    Ok(None)
}

/// The password for opening that options name.
///
/// # Errors
/// If it cannot be read, or if it is empty.
pub fn for_opening(args: &KeyArgs) -> Outcome<Option<Password>> {
    match named(args)? {
        Some((password, source)) if password.is_empty() => {
            Err(Failure::usage(format!("{source}: the password is empty")))
        }
        named => Ok(named.map(|(password, _)| password)),
    }
}

/// The password that options name, and what it comes from.
fn named(args: &KeyArgs) -> Outcome<Option<(Password, String)>> {
    if let Some(file) = &args.password_file {
        return Ok(Some((read_password(file)?, shown(file))));
    }
    let Some(command) = &args.password_command else { return Ok(None) };
    Ok(Some((command::password(command)?, "--password-command".into())))
}

/// The password of the environment: that of the variable, or the credential that systemd gives a service.
///
/// # Errors
/// If there is a credential that cannot be read.
pub fn of_environment() -> Outcome<Option<Password>> {
    Ok(found()?.map(|(password, _)| password))
}

/// The password of the environment, and what it comes from.
fn found() -> Outcome<Option<(Password, String)>> {
    if let Some(password) = variable() {
        return Ok(Some((refuse_empty(password, VARIABLE)?, VARIABLE.into())));
    }
    let folder = env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let Some(file) = folder.map(|folder| folder.join(CREDENTIAL)).filter(|file| file.is_file()) else {
        return Ok(None);
    };
    Ok(Some((refuse_empty(read_password(&file)?, shown(&file))?, shown(&file))))
}

fn variable() -> Option<Password> {
    env::var_os(VARIABLE).map(|value| Password::new(value.into_vec()))
}

/// A password for new files: of the environment, or asked for twice.
fn new() -> Outcome<Password> {
    if let Some((password, _)) = found()? {
        return Ok(password);
    }
    let unasked = |e: io::Error| {
        let line = format!("a password is needed, and none could be read from a terminal: {e}");
        let ways = format!("give --password-file, --password-command, {VARIABLE}, --key, --key-file or --recipient");
        Failure::usage(line).hint(ways)
    };
    ask_twice("Password: ", unasked)
}

/// A password that is added to files: from a file, or asked for twice. PHALANX_PASSWORD holds the one that opens them.
///
/// # Errors
/// If it cannot be read, or if it is empty.
pub fn added(file: Option<&Path>) -> Outcome<Password> {
    if let Some(file) = file {
        return refuse_empty(read_password(file)?, shown(file));
    }
    let unasked = |e: io::Error| {
        let line = format!("the password to add could not be read from a terminal: {e}");
        Failure::usage(line).hint("give --add-password-file")
    };
    ask_twice("New password: ", unasked)
}

fn ask_twice(question: &str, unasked: impl Fn(io::Error) -> Failure) -> Outcome<Password> {
    let typed = ask::hidden(question).map_err(&unasked)?;
    let password = refuse_empty(Password::new(typed.as_bytes().to_vec()), "the prompt")?;
    if !password.matches(&ask::password("The same again: ").map_err(&unasked)?) {
        return Err(Failure::usage("the two passwords differ"));
    }
    if is_weak(&typed) {
        let line = "warning: this password is weak: whoever has the file can try millions of them";
        complain_with(line, Some("six random words are strong, as protect --generate-password makes them"));
    }
    Ok(password)
}

/// Whether a password is short or monotonous. Nothing else is judged: no rule knows how a person chose it.
fn is_weak(password: &str) -> bool {
    // There is no list of the different characters that would have to be wiped.
    let is_first = |(at, c): &(usize, char)| !password[..*at].contains(*c);
    password.chars().count() < SHORTEST || password.char_indices().filter(is_first).count() < FEWEST_DIFFERENT
}

fn refuse_empty(password: Password, source: impl Display) -> Outcome<Password> {
    if password.is_empty() {
        return Err(Failure::usage(format!("{source}: an empty password protects nothing")));
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::is_weak;

    #[test]
    fn short_and_monotonous_passwords_are_weak() {
        for weak in ["", "secret", "12345678901", "aaaaaaaaaaaaaaaaaaaaaa", "ababababababab", "пароль"] {
            assert!(is_weak(weak), "{weak}");
        }
        for strong in ["plum harness ostrich", "x7Kp-20fQ-aaZw", "пароль пароль 12"] {
            assert!(!is_weak(strong), "{strong}");
        }
    }
}
