//! The programs of plugins and key services: where they are looked for, what they are told, and how they end.

use std::env;
use std::env::consts::EXE_SUFFIX;
use std::ffi::OsStr;
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

/// The folder where such a program runs. On Windows a program also looks for libraries there, so it is one to which only the system
/// writes.
#[must_use]
pub fn folder() -> PathBuf {
    let of_system = if cfg!(windows) { env::var_os("SystemRoot") } else { None };
    of_system.map_or_else(|| "/".into(), PathBuf::from)
}

/// Whether the name of an environment variable begins so. Windows ignores the case of such names.
#[must_use]
pub fn begins_with(name: &OsStr, prefix: &str) -> bool {
    let (start, prefix) = (name.as_encoded_bytes().get(..prefix.len()), prefix.as_bytes());
    start.is_some_and(|start| if cfg!(windows) { start.eq_ignore_ascii_case(prefix) } else { start == prefix })
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

    #[test]
    fn names_of_variables_have_a_case_except_on_windows() {
        let begins = |name: &str| begins_with(OsStr::new(name), "PHALANX_");
        assert!(begins("PHALANX_PASSWORD") && begins("PHALANX_"));
        assert!(!begins("PHALANX") && !begins("MY_PHALANX_") && !begins("PHALANXÄ") && !begins(""));
        for name in ["phalanx_password", "Phalanx_Password"] {
            assert_eq!(begins(name), cfg!(windows), "{name}");
        }
    }

    /// Neither the folder of the user's command nor, on Windows, the root of a drive, where others may write.
    #[test]
    fn programs_run_in_a_folder_of_the_system() {
        let folder = folder();
        assert!(folder.is_absolute() && folder.is_dir(), "{folder:?}");
        assert_eq!(folder.parent().is_some(), cfg!(windows), "{folder:?}");
    }

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
