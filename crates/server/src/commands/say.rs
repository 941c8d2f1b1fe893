//! What commands say on standard output.

use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::lines::{is_hostile, one_line};
use phalanx_host::stdio;
use serde::Serialize;
use std::fmt::Display;
use std::io;

/// Writes one line. If nobody reads it any more, that is no failure.
///
/// # Errors
/// If it cannot be written.
pub fn say(line: impl Display) -> Outcome {
    match stdio::write_line(&one_line(&line.to_string())) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::at_stdout(e)),
        _ => Ok(()),
    }
}

/// Writes one line of JSON, without what could deceive a terminal.
///
/// # Errors
/// If it cannot be written.
pub fn say_json(value: &impl Serialize) -> Outcome {
    say(json(value))
}

/// A line of JSON, without what could deceive a terminal.
pub fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    let escape = |c: char| if is_hostile(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    json.chars().map(escape).collect()
}
