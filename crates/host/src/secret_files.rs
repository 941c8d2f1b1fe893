//! Reading the files that hold keys and passwords.

use crate::Keyring;
use crate::failure::{Code, Failure, Outcome};
use crate::file;
use crate::home::{self, KEYRING_VARIABLE};
use crate::lines::shown;
use crate::paths::is_dash;
use crate::stdio;
use crate::{Error, Result};
use phalanx_core::file::read_full;
use phalanx_core::{Password, SecretKey};
use std::fs::File;
use std::path::Path;
use zeroize::Zeroizing;

/// The most bytes of a password.
pub const LONGEST_PASSWORD: usize = 1 << 16;

/// The user's keyring.
///
/// # Errors
/// If there is no home folder.
pub fn keyring() -> Outcome<Keyring> {
    let folder = home::keyring().ok_or_else(|| {
        Failure::usage("there is no home folder for keys").hint(format!("set {KEYRING_VARIABLE} to a folder"))
    })?;
    Ok(Keyring::new(folder))
}

/// An error for a file with the wrong contents.
pub fn damaged(path: &Path, why: &str) -> Failure {
    Failure::new(Code::InputOutput, format!("{}: {why}", shown(path)))
}

/// Opens a file that holds a secret. It may be a pipe, such as a shell's `<(…)`, or standard input.
pub fn open(path: &Path) -> Result<File> {
    if is_dash(path) { stdio::input() } else { phalanx_system::files::open_secret(path) }.map_err(Error::read)
}

/// Opens a file that holds a secret, as [`open`] does, but refuses a file that others may read or that does not belong
/// to the user. The permissions of a pipe do not count.
pub fn open_private(path: &Path) -> Result<File> {
    let file = open(path)?;
    check_private(&file, path)?;
    Ok(file)
}

/// Refuses a file that others may read, or that does not belong to the user. An access control list may let the user read
/// a file of root.
pub fn check_private(file: &File, path: &Path) -> Result<()> {
    // Windows does not say of a pipe what it says of files.
    if cfg!(windows) && is_dash(path) {
        return Ok(());
    }
    let meta = file.metadata().map_err(Error::read)?;
    if meta.is_file() && !is_dash(path) && !file::is_for_user_alone(file, &meta) {
        file::check_private("it", file, &meta, path)?;
    }
    Ok(())
}

/// All bytes of a file or pipe. `None` if they are more than `longest`.
pub fn read_whole(path: &Path, file: &mut File, longest: usize) -> Outcome<Option<Zeroizing<Vec<u8>>>> {
    // A vector that grows would leave copies that are not wiped.
    let mut bytes = Zeroizing::new(vec![0; longest + 1]);
    let len = read_full(file, &mut bytes).map_err(|e| Failure::at(path, e))?;
    bytes.truncate(len);
    Ok((len <= longest).then_some(bytes))
}

/// A key of exactly 32 raw bytes.
pub fn read_key(path: &Path) -> Outcome<SecretKey> {
    let key =
        open_private(path).and_then(|mut file| Ok(SecretKey::read(&mut file)?)).map_err(|e| Failure::at(path, e))?;
    key.ok_or_else(|| damaged(path, "a key file has exactly 32 raw bytes"))
}

/// The password in a file: all of it, without one newline at its end.
pub fn read_password(path: &Path) -> Outcome<Password> {
    let mut file = open_private(path).map_err(|e| Failure::at(path, e))?;
    let Some(bytes) = read_whole(path, &mut file, LONGEST_PASSWORD)? else {
        return Err(Failure::usage(format!("{}: a password has at most {LONGEST_PASSWORD} bytes", shown(path))));
    };
    Ok(Password::new(bytes.strip_suffix(b"\n").unwrap_or(&bytes).to_vec()))
}
