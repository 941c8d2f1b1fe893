//! Where keys and passwords come from. They never stand in arguments, and never in messages.

use crate::args::{KeyArgs, ProtectKeys};
use crate::failure::{Failure, Outcome, shown};
use crate::paths::is_dash;
use etcetera::BaseStrategy;
use phalanx_core::key::{KeyId, Password, SecretKey};
use phalanx_core::keyring::{self, Keyring};
use phalanx_core::slot::{KdfLimit, KeySource, Opener, Recipient};
use phalanx_core::{Error, Result};
use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use zeroize::Zeroizing;

const PASSWORD_VARIABLE: &str = "PHALANX_PASSWORD";
const KEYRING_VARIABLE: &str = "PHALANX_KEYRING";
/// Longer password files are surely not password files.
const LONGEST_PASSWORD: usize = 1 << 16;

/// The user's keyring.
pub fn keyring() -> Outcome<Keyring> {
    let folder = match env::var_os(KEYRING_VARIABLE) {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => {
            let base = etcetera::choose_base_strategy().map_err(|_| {
                Failure::usage(format!("no home folder to keep keys in: name one by {KEYRING_VARIABLE}"))
            })?;
            base.config_dir().join("phalanx").join("keys")
        }
    };
    Ok(Keyring::new(folder))
}

/// A key of exactly 32 raw bytes.
pub fn read_key_file(path: &Path) -> Outcome<SecretKey> {
    let at_path = |e| Failure::at(path, e);
    let key = if is_dash(path) {
        keyring::read_key(&mut io::stdin().lock()).map_err(at_path)?
    } else {
        // Not only regular files: a shell's <(…) is a pipe.
        let mut file = File::open(path).map_err(|e| at_path(Error::Read(e)))?;
        keyring::read_key(&mut file).map_err(at_path)?
    };
    key.ok_or_else(|| Failure::usage(format!("{}: a key has exactly 32 raw bytes", shown(path))))
}

/// The recipients of new files, found out once, when the first file is ready for them.
pub struct Recipients {
    keys: ProtectKeys,
    found: OnceLock<Vec<Recipient>>,
    asking: Mutex<()>,
}

impl Recipients {
    pub fn new(keys: ProtectKeys) -> Self {
        Self { keys, found: OnceLock::new(), asking: Mutex::new(()) }
    }

    /// Reads the keys and asks for the password, unless that has been done.
    pub fn find(&self) -> Outcome<&[Recipient]> {
        once(&self.found, &self.asking, || self.ask()).map(Vec::as_slice)
    }

    /// What has been found.
    ///
    /// # Panics
    /// If [`Recipients::find`] has not succeeded before.
    pub fn found(&self) -> &[Recipient] {
        self.found.get().expect("the action was prepared")
    }

    fn ask(&self) -> Outcome<Vec<Recipient>> {
        let args = &self.keys.keys;
        let mut recipients = Vec::new();
        for key in named_keys(args)? {
            recipients.push(Recipient::key(&key));
        }
        let password = if let Some(file) = &args.password_file {
            Some(read_password_file(file)?)
        } else if self.keys.password || recipients.is_empty() {
            Some(new_password()?)
        } else {
            None
        };
        if let Some(password) = password {
            recipients.push(Recipient::password(&password)?);
        }
        Ok(recipients)
    }
}

/// The keys at hand for opening.
pub struct AtHand {
    /// By --key and --key-file.
    given: Vec<SecretKey>,
    /// Searched where no key is given.
    keyring: Option<Keyring>,
    password_file: Option<PathBuf>,
    /// Whether the variable, or the user, may be asked for a password.
    ask: bool,
    password: OnceLock<Option<Password>>,
    asking: Mutex<()>,
}

/// What opens files with the keys at hand.
pub fn opener(args: &KeyArgs) -> Outcome<Opener<AtHand>> {
    let given = named_keys(args)?;
    let none_given = given.is_empty();
    let at_hand = AtHand {
        keyring: if none_given { keyring().ok() } else { None },
        ask: none_given && args.password_file.is_none(),
        password_file: args.password_file.clone(),
        given,
        password: OnceLock::new(),
        asking: Mutex::new(()),
    };
    Ok(Opener::new(at_hand, KdfLimit::default()))
}

impl KeySource for AtHand {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        if let Some(key) = self.given.iter().find(|key| key.id() == *id) {
            return Ok(Some(key.clone()));
        }
        let found = self.keyring.as_ref().map(|ring| ring.find(id)).transpose()?;
        Ok(found.flatten().map(|(_, key)| key))
    }

    fn password(&self) -> Result<Option<Password>> {
        once(&self.password, &self.asking, || self.find_password()).cloned()
    }
}

impl AtHand {
    fn find_password(&self) -> Result<Option<Password>> {
        if let Some(path) = &self.password_file {
            return password_from(path).map(Some);
        }
        if !self.ask {
            return Ok(None);
        }
        match password_variable()? {
            Some(password) => Ok(Some(password)),
            // Without a terminal there is nobody to ask.
            None => prompt("Password: ").ok().map(not_empty).transpose(),
        }
    }
}

/// The content of `cell`, which one thread fills while the others wait: nobody is asked twice.
fn once<'a, T, E>(cell: &'a OnceLock<T>, asking: &Mutex<()>, ask: impl FnOnce() -> Result<T, E>) -> Result<&'a T, E> {
    let _asking = asking.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match cell.get() {
        Some(found) => Ok(found),
        None => {
            let found = ask()?;
            Ok(cell.get_or_init(|| found))
        }
    }
}

fn named_keys(args: &KeyArgs) -> Outcome<Vec<SecretKey>> {
    let mut keys = Vec::new();
    for name in &args.keys {
        keys.push(keyring()?.load(name)?);
    }
    for path in &args.key_files {
        keys.push(read_key_file(path)?);
    }
    Ok(keys)
}

fn read_password_file(path: &Path) -> Outcome<Password> {
    password_from(path).map_err(|e| Failure::at(path, e))
}

/// The whole file, less one newline at its end.
fn password_from(path: &Path) -> Result<Password> {
    let mut bytes = Zeroizing::new(vec![0; LONGEST_PASSWORD + 1]);
    let mut file = File::open(path).map_err(Error::Read)?;
    let mut len = 0;
    while len < bytes.len() {
        match file.read(&mut bytes[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::Read(e)),
        }
    }
    if len > LONGEST_PASSWORD {
        return Err(Error::Key(format!("a password file has at most {LONGEST_PASSWORD} bytes")));
    }
    not_empty(bytes[..len].strip_suffix(b"\n").unwrap_or(&bytes[..len]).to_vec())
}

fn not_empty(password: Vec<u8>) -> Result<Password> {
    if password.is_empty() {
        return Err(Error::Key("an empty password protects nothing".into()));
    }
    Ok(Password::new(password))
}

fn password_variable() -> Result<Option<Password>> {
    env::var_os(PASSWORD_VARIABLE).map(|value| not_empty(value.into_vec())).transpose()
}

/// A password for new files: from the variable, or asked for twice.
fn new_password() -> Outcome<Password> {
    if let Some(password) = password_variable()? {
        return Ok(password);
    }
    let nobody = |e: io::Error| {
        let ways = format!("--password-file, {PASSWORD_VARIABLE}, --key or --key-file");
        Failure::usage(format!("a password is needed, and there is no terminal to ask at ({e}): give {ways}"))
    };
    let password = not_empty(prompt("Password: ").map_err(nobody)?)?;
    let again = Password::new(prompt("The same again: ").map_err(nobody)?);
    if !password.matches(&again) {
        return Err(Failure::usage("the two passwords differ"));
    }
    Ok(password)
}

fn prompt(question: &str) -> io::Result<Vec<u8>> {
    rpassword::prompt_password(question).map(String::into_bytes)
}
