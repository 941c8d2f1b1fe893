//! What a program says on standard output.

use crate::failure::{Failure, Outcome};
use crate::lines::{is_hostile, one_line};
use crate::stdio;
use serde::Serialize;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes one line to stdout. If that fails, a line says so once.
pub fn say(line: impl Display) -> Outcome {
    static IS_BROKEN: AtomicBool = AtomicBool::new(false);
    stdio::write_line(&one_line(&line.to_string())).map_err(|e| {
        let failure = Failure::at_stdout(e);
        if !IS_BROKEN.swap(true, Ordering::Relaxed) {
            failure.report();
        }
        Failure::written(failure.code())
    })
}

/// Writes one line of JSON to stdout. What could deceive a terminal is in strings only, and is escaped as JSON escapes
/// it.
pub fn say_json(value: &impl Serialize) -> Outcome {
    let json = serde_json::to_string(value).expect("a report has no odd keys");
    let escape = |c: char| if is_hostile(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    say(json.chars().map(escape).collect::<String>())
}
