//! Secrets that somebody typed into the command line: they are refused before any message could repeat them.
//!
//! Whoever lists processes sees arguments, and shells keep them. So no option takes a secret; but people try.

use crate::failure::{Failure, Outcome};
use phalanx_core::key_text;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const PASSWORD: &str = "--password takes no value: a password does not belong in arguments, where others can see it \
                        (leave it out and it is asked for, or use --password-file or PHALANX_PASSWORD)";
const KEY: &str = "a key's text does not belong in arguments, where others can see it: give the file that holds it, or - \
                   to type it";

/// Refuses what looks like a password behind `--password`, or like a key's text.
pub fn refuse_secrets(args: impl Iterator<Item = OsString>) -> Outcome {
    let (mut after_password, mut paths_only) = (false, false);
    for arg in args {
        let bytes = arg.as_bytes();
        let is_option = !paths_only && bytes.len() > 1 && bytes.starts_with(b"-");
        if is_option {
            after_password = asks_for_password(bytes)?;
            paths_only = bytes == b"--";
            if bytes.splitn(2, |b| *b == b'=').nth(1).is_some_and(is_key_text) {
                return Err(Failure::usage(KEY));
            }
            continue;
        }
        // A path that is there is a path, whatever it stands behind.
        if (after_password || is_key_text(bytes)) && is_missing(Path::new(&arg)) {
            return Err(Failure::usage(if after_password { PASSWORD } else { KEY }));
        }
        after_password = false;
    }
    Ok(())
}

/// Whether an option is `--password`, or short ones with `-p` at their end; an error where a value hangs on it.
fn asks_for_password(option: &[u8]) -> Outcome<bool> {
    // The short options without a value, which may stand together, and those with one, which then stand last.
    let is_switch = |letter: &u8| b"pRfqvhV".contains(letter);
    let is_last = |letter: &u8| is_switch(letter) || b"oketri".contains(letter);
    let is_cluster = match option[1..].split_last() {
        Some((last, others)) => others.iter().all(is_switch) && is_last(last),
        None => false,
    };
    if option.starts_with(b"--password=")
        || option.starts_with(b"--add-password=")
        || option.starts_with(b"-p") && !is_cluster
    {
        return Err(Failure::usage(PASSWORD));
    }
    Ok(option == b"--password" || option == b"--add-password" || is_cluster && option.ends_with(b"p"))
}

fn is_key_text(arg: &[u8]) -> bool {
    arg.len() > key_text::LEN / 2 && (key_text::is_meant(arg) || is_identity(arg))
}

/// Whether it begins as a private key of age does.
fn is_identity(arg: &[u8]) -> bool {
    const PREFIX: &[u8] = b"AGE-SECRET-KEY-";
    arg.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

fn is_missing(path: &Path) -> bool {
    path.as_os_str() != "-"
        && path.symlink_metadata().is_err_and(|e| {
            matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> bool {
        refuse_secrets(line.split(' ').map(OsString::from)).is_err()
    }

    #[test]
    fn only_what_hangs_on_password_is_taken_for_one() {
        for line in [
            "protect --password hunter2",
            "protect f --password hunter2 -o g",
            "protect -p hunter2",
            "protect -fp hunter2 f",
            "protect --password=hunter2 f",
            "protect --password= f",
            "protect -phunter2 f",
            "protect -p=hunter2 f",
            "protect --password hunter2/slash",
        ] {
            assert!(refused(line), "{line}");
        }
        for line in [
            "protect hunter2 --password",
            "protect --password /dev/null",
            "protect --password -",
            "protect --password -k work hunter2",
            "protect --password -- hunter2",
            "protect --password-file hunter2 f",
            "protect -po hunter2",
            "protect -op hunter2",
            "protect -kp hunter2",
            "protect -p",
            "protect -- --password hunter2",
            "protect -- --password=hunter2",
        ] {
            assert!(!refused(line), "{line}");
        }
    }
}
