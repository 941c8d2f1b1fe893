//! Lines on standard error, and what is safe to show there.

use crate::last_resort;
#[cfg(unix)]
use phalanx_system::os::net::UnixDatagram;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Writes one line to stderr, whatever it contains. Errors of stderr are ignored. A program in the background writes to
/// the system's log.
pub fn complain(line: impl Display) {
    complain_with(line, None);
}

/// Writes one line as [`complain`] does, and advice on a second line. The same advice is written once in a run, and
/// only to stderr: it is for people who type commands.
pub fn complain_with(line: impl Display, hint: Option<&str>) {
    last_resort::stand_by();
    let line = line.to_string();
    let line = one_line(&line);
    if let (Some(warn), Some(warning)) = (WARN.get(), line.strip_prefix("warning: ")) {
        warn(warning);
    }
    if let Some(tell) = TELL.get() {
        return tell(&line);
    }
    #[cfg(unix)]
    if let Some(log) = SYSTEM_LOG.get() {
        // 28 is a warning of a daemon.
        return drop(log.send(format!("<28>phalanx[{}]: {line}", std::process::id()).as_bytes()));
    }
    // In one call, because other processes may write to the same place.
    let hint = hint.filter(|hint| is_new(hint)).map(|hint| format!("hint: {}\n", one_line(hint)));
    let lines = format!("{}: {line}\n{}", name(), hint.unwrap_or_default());
    drop(io::stderr().write_all(lines.as_bytes()));
}

/// Whether this advice has not been written before.
fn is_new(hint: &str) -> bool {
    static WRITTEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).insert(hint.to_owned())
}

static TELL: OnceLock<fn(&str)> = OnceLock::new();

/// Makes lines go to `tell` instead of stderr.
pub fn complain_to(tell: fn(&str)) {
    let _ = TELL.set(tell);
}

static WARN: OnceLock<fn(&str)> = OnceLock::new();

/// Makes warnings go to `warn` too.
pub fn warn_to(warn: fn(&str)) {
    let _ = WARN.set(warn);
}

static NAME: OnceLock<String> = OnceLock::new();

/// The name of the program.
pub fn name() -> &'static str {
    NAME.get().map_or("phalanx", |name| name)
}

/// Makes lines on stderr begin with this name instead of `phalanx`.
pub fn complain_as(name: impl Into<String>) {
    let _ = NAME.set(name.into());
}

#[cfg(unix)]
static SYSTEM_LOG: OnceLock<UnixDatagram> = OnceLock::new();

/// Makes lines go to the system's log.
#[cfg(unix)]
pub fn complain_to_system() -> io::Result<()> {
    let log = UnixDatagram::unbound()?;
    log.connect("/dev/log")?;
    // A log that is stuck must not stop the program.
    log.set_nonblocking(true)?;
    let _ = SYSTEM_LOG.set(log);
    Ok(())
}

/// The bytes of a path in hexadecimal, if it is not UTF-8, which JSON cannot contain.
pub fn path_hex(path: &Path) -> Option<String> {
    use phalanx_system::os::ffi::OsStrExt;
    let hex = || path.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    if path.to_str().is_none() { Some(hex()) } else { None }
}

/// A path in a form that is safe to show: without control characters, which could deceive a terminal, and at most as
/// long as the system's longest path.
pub fn shown(path: &Path) -> String {
    const LONGEST: usize = 4096;
    const END: usize = 256;
    let path = path.to_string_lossy();
    if path.len() <= LONGEST {
        return one_line(&path).into_owned();
    }
    let (start, end) = (path.floor_char_boundary(END), path.ceil_char_boundary(path.len() - END));
    format!("{}…{}", one_line(&path[..start]), one_line(&path[end..]))
}

/// Makes one line of a text. Characters that could deceive a terminal are escaped.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(is_hostile) {
        text.chars()
            .flat_map(|c| if is_hostile(c) { c.escape_default().collect() } else { vec![c] })
            .collect::<String>()
            .into()
    } else {
        text.into()
    }
}

/// Control characters, and characters that change the direction of text.
pub fn is_hostile(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
