//! Secrets that were typed into the command line. They are refused before any message can repeat them.
//!
//! Everybody who can list processes sees arguments, and shells keep them. So no option takes a secret, but users try
//! it.

use crate::failure::{Failure, Outcome};
use phalanx_core::key_text;
use phalanx_system::os::ffi::OsStrExt;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

const PASSWORD: &str = "--password takes no value: a password does not belong in arguments, where others can see it";
const PASSWORD_HINT: &str = "leave it out and it is asked for, or use --password-file or PHALANX_PASSWORD";
const FOLDER: &str = "--password takes no value, and no folder has the name that follows it";
const FOLDER_HINT: &str = "name a new folder before the options: phalanx init DIR --password";
const KEY: &str = "a key's text does not belong in arguments, where others can see it";
const KEY_HINT: &str = "give the file that holds it, or - to type it";

/// Refuses what looks like a password after `--password`, or like a key's text.
pub fn refuse_secrets(args: impl Iterator<Item = OsString>) -> Outcome {
    let (mut after_password, mut paths_only) = (false, false);
    let mut args = args.peekable();
    // The only path of `init` does not exist yet, so it may be the word that follows.
    let is_init = args.peek().is_some_and(|first| first == "init");
    for arg in args {
        let bytes = arg.as_bytes();
        let is_option = !paths_only && bytes.len() > 1 && bytes.starts_with(b"-") && !is_identity(bytes);
        if is_option {
            after_password = asks_for_password(bytes)?;
            paths_only = bytes == b"--";
            if attached(bytes)
                .is_some_and(|value| is_key_text(value) && is_missing(Path::new(OsStr::from_bytes(value))))
            {
                return Err(key());
            }
            continue;
        }
        // An existing path is taken as a path, whatever option it follows.
        if (after_password || is_key_text(bytes)) && is_missing(Path::new(&arg)) {
            return Err(match (after_password, is_init) {
                (true, true) if !is_key_text(bytes) => Failure::usage(FOLDER).hint(FOLDER_HINT),
                (true, _) => password(),
                (false, _) => key(),
            });
        }
        after_password = false;
    }
    Ok(())
}

fn password() -> Failure {
    Failure::usage(PASSWORD).hint(PASSWORD_HINT)
}

fn key() -> Failure {
    Failure::usage(KEY).hint(KEY_HINT)
}

/// Whether an option is `--password`, or short options that end with `-p`. An error if a value is attached to it.
fn asks_for_password(option: &[u8]) -> Outcome<bool> {
    let is_last = |letter: &u8| is_switch(letter) || takes_value(letter);
    let is_cluster = match option[1..].split_last() {
        Some((last, others)) => others.iter().all(is_switch) && is_last(last),
        None => false,
    };
    if option.starts_with(b"--password=")
        || option.starts_with(b"--add-password=")
        || option.starts_with(b"-p") && !is_cluster
    {
        return Err(password());
    }
    Ok(option == b"--password" || option == b"--add-password" || is_cluster && option.ends_with(b"p"))
}

/// A short option without a value. These may be combined.
fn is_switch(letter: &u8) -> bool {
    b"pRfqvhV".contains(letter)
}

/// A short option with a value. It comes last in a combination, and the value may follow without a space.
fn takes_value(letter: &u8) -> bool {
    b"oketri".contains(letter)
}

/// The value within an option's argument: `--identity=VALUE`, `-iVALUE`, or `-fi=VALUE`.
fn attached(option: &[u8]) -> Option<&[u8]> {
    if option.starts_with(b"--") {
        return option.splitn(2, |b| *b == b'=').nth(1);
    }
    let last = option[1..].iter().position(|letter| !is_switch(letter))? + 1;
    let value = takes_value(&option[last]).then(|| &option[last + 1..])?;
    Some(value.strip_prefix(b"=").unwrap_or(value))
}

fn is_key_text(arg: &[u8]) -> bool {
    arg.len() > key_text::LEN / 2 && key_text::is_meant(arg) || is_identity(arg)
}

/// Whether an argument is a private key of age or SSH, or a whole file of them: one of its lines begins like one.
fn is_identity(arg: &[u8]) -> bool {
    let begins = |line: &[u8]| {
        let line = line.trim_ascii_start();
        [&b"AGE-SECRET-KEY-"[..], b"AGE-PLUGIN-", b"-----BEGIN"]
            .iter()
            .any(|prefix| line.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)))
    };
    arg.split(|byte| *byte == b'\n').any(begins)
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
    fn only_values_given_to_password_are_taken_for_passwords() {
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

    #[test]
    fn private_keys_are_refused_anywhere() {
        let key = format!("AGE-SECRET-KEY-1{}", "Q".repeat(58));
        let file = format!("# created: now\n# public key: age1\n{key}\n");
        let secrets =
            [&key, &key.to_lowercase(), &file, "AGE-PLUGIN-X-1QQQQQQQQ", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3"];
        for secret in secrets {
            for before in ["", "-i", "-r", "-k", "-i=", "-fi", "-qvr=", "--identity=", "--recipient=", "--key="] {
                assert!(
                    refuse_secrets([OsString::from(format!("{before}{secret}"))].into_iter()).is_err(),
                    "{before}{secret}"
                );
            }
            for before in ["-i", "--identity", "--", "--key-file"] {
                assert!(refuse_secrets([before, secret].map(OsString::from).into_iter()).is_err(), "{before} {secret}");
            }
        }
        for line in
            ["verify f -iage.txt", "protect f -rage1qqqqqqqq", "protect f -kwork", "protect -oAGE f", "verify -i=k"]
        {
            assert!(!refused(line), "{line}");
        }
    }
}
