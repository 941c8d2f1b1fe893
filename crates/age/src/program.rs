//! The programs of plugins and key services: where they are looked for, what they are told, and how they end.

use std::env::consts::EXE_SUFFIX;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

/// Finds a program in folders. Relative folders do not count, since anybody could have prepared one.
pub fn find(program: &str, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let name = format!("{program}{EXE_SUFFIX}");
    folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(&name)).find(|path| runs(path))
}

#[cfg(unix)]
fn runs(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Windows knows programs by the ending of their names.
#[cfg(windows)]
fn runs(path: &Path) -> bool {
    path.is_file()
}

/// Makes writing to a program that has ended an error in this thread, which must be one that ends after it. In Rust it
/// always is, but a library in a program of another language gets SIGPIPE, which ends that program.
#[cfg(unix)]
pub fn survive_closed_pipes() {
    use nix::sys::signal::{SigSet, Signal};
    let _ = SigSet::from(Signal::SIGPIPE).thread_block();
}

/// Windows has no such signal.
#[cfg(windows)]
pub fn survive_closed_pipes() {}

/// Waits for a program, and returns whether it has ended.
pub fn ends_within(time: Duration, mut state: impl FnMut() -> io::Result<Option<ExitStatus>>) -> bool {
    let limit = Instant::now() + time;
    loop {
        if matches!(state(), Ok(Some(_)) | Err(_)) {
            return true;
        }
        if Instant::now() >= limit {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kill` fails for a plugin that runs as another user.
    #[test]
    fn a_program_that_does_not_end_is_not_waited_for() {
        let begun = Instant::now();
        assert!(!ends_within(Duration::from_millis(50), || Ok(None)));
        assert!((50..20_000).contains(&begun.elapsed().as_millis()));
        let mut states = [Ok(None), Ok(None), Ok(Some(ExitStatus::default()))].into_iter();
        assert!(ends_within(Duration::from_secs(60), || states.next().unwrap()));
        assert!(states.next().is_none());
        assert!(ends_within(Duration::ZERO, || Err(io::ErrorKind::NotFound.into())));
    }
}
