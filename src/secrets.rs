//! Where keys and passwords come from. They never stand in arguments, and never in messages.

use crate::args::{KeyArgs, ProtectKeys};
use crate::failure::{Code, Failure, Outcome, complain, shown};
use crate::paths::is_dash;
use crate::stdio;
use etcetera::BaseStrategy;
use phalanx_core::file::{self, read_full};
use phalanx_core::{Error, KdfLimit, KeyId, KeySource, Keyring, Opener, Password, Recipient, Result, SecretKey};
use std::collections::BTreeSet;
use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
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
fn read_key_file(path: &Path) -> Outcome<SecretKey> {
    let key = open_private(path).and_then(|mut file| SecretKey::read(&mut file)).map_err(|e| Failure::at(path, e))?;
    key.ok_or_else(|| damaged(path, "a key file has exactly 32 raw bytes"))
}

/// A file that does not hold what it should.
pub fn damaged(path: &Path, why: &str) -> Failure {
    Failure::new(Code::InputOutput, format!("{}: {why}", shown(path)))
}

/// Opens what holds a secret: a file, or a pipe such as a shell's `<(…)`, or standard input.
pub fn open(path: &Path) -> Result<File> {
    if is_dash(path) { stdio::input() } else { File::open(path) }.map_err(Error::Read)
}

/// The same, but a file that is open to others, or not the user's, is refused. A pipe has no permissions that count.
fn open_private(path: &Path) -> Result<File> {
    let file = open(path)?;
    let meta = file.metadata().map_err(Error::Read)?;
    if meta.is_file() && !is_dash(path) {
        file::check_private("it", &meta, path)?;
    }
    Ok(file)
}

/// The recipients of new files.
pub struct Recipients {
    keys: ProtectKeys,
    found: OnceLock<Vec<Recipient>>,
}

impl Recipients {
    pub fn new(keys: ProtectKeys) -> Self {
        Self { keys, found: OnceLock::new() }
    }

    /// Reads the keys and asks for the password. Called once.
    pub fn find(&self) -> Outcome {
        let _ = self.found.set(self.ask()?);
        Ok(())
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
        let mut keys = named_keys(args)?;
        keys.sort_by_key(SecretKey::id);
        keys.dedup_by_key(|key| key.id());
        let asked = self.keys.password || keys.is_empty();
        let password =
            password_for_new(args.password_file.as_deref(), asked, "since a key was given (--password adds it)")?;
        let mut recipients: Vec<_> = keys.iter().map(Recipient::key).collect();
        if let Some(password) = password {
            recipients.push(Recipient::password(&password)?);
        }
        Ok(recipients)
    }
}

/// The password that new files get: from a file, or, where one is asked for, from the variable or a prompt. Where the
/// variable is set for nothing, a line says so, and `why`.
pub fn password_for_new(file: Option<&Path>, asked: bool, why: &str) -> Outcome<Option<Password>> {
    if let Some(file) = file {
        return refuse_empty(read_password_file(file)?, shown(file)).map(Some);
    }
    if asked {
        return new_password().map(Some);
    }
    if password_variable().is_some_and(|password| !password.is_empty()) {
        complain(format!("warning: {PASSWORD_VARIABLE} is set but not used, {why}"));
    }
    Ok(None)
}

/// The keys at hand for opening.
pub struct AtHand {
    /// By --key and --key-file.
    given: Vec<SecretKey>,
    /// Searched where no key is given.
    keyring: Option<Keyring>,
    /// What was found there: each key is looked up once in a run.
    found: Mutex<Vec<SecretKey>>,
    given_password: Option<Password>,
    /// Whether the variable, or the user, may be asked for a password.
    ask: bool,
    password: OnceLock<Option<Password>>,
    /// Keys of the keyring that were refused, in words.
    refused: Mutex<BTreeSet<String>>,
}

/// What opens files with the keys at hand.
pub fn opener(args: &KeyArgs) -> Outcome<Opener<AtHand>> {
    let given = named_keys(args)?;
    let none_given = given.is_empty();
    let at_hand = AtHand {
        keyring: if none_given { keyring().ok() } else { None },
        found: Mutex::default(),
        ask: none_given && args.password_file.is_none(),
        given_password: args.password_file.as_deref().map(read_password_file).transpose()?,
        given,
        password: OnceLock::new(),
        refused: Mutex::default(),
    };
    Ok(Opener::new(at_hand, KdfLimit::default()))
}

impl KeySource for AtHand {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = self.given.iter().chain(&*found).find(|key| key.id() == *id) {
            return Ok(Some(key.clone()));
        }
        let Some(keyring) = &self.keyring else { return Ok(None) };
        let mut refused = Vec::new();
        match keyring.find(id, |e| refused.push(e.to_string())) {
            Ok(Some((_, key))) => {
                found.push(key.clone());
                return Ok(Some(key));
            }
            Ok(None) if refused.is_empty() => return Ok(None),
            Ok(None) => {}
            // A keyring that is refused whole, or cannot be read: a password may open the file all the same.
            Err(e) => refused.push(e.to_string()),
        }
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).extend(refused.iter().cloned());
        Err(Error::KeysRefused { keys: vec![*id], identity: false, password: false, tried: false, refused })
    }

    fn password(&self) -> Result<Option<Password>> {
        // While one thread asks the user, the others wait for the answer.
        Ok(self.password.get_or_init(|| self.find_password()).clone())
    }
}

impl AtHand {
    fn find_password(&self) -> Option<Password> {
        if self.given_password.is_some() || !self.ask {
            return self.given_password.clone();
        }
        if let Some(password) = password_variable() {
            return Some(password);
        }
        // Without a terminal there is nobody to ask.
        File::open("/dev/tty").ok()?;
        // Whoever is asked for a password would wonder what became of the key.
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().for_each(|key| complain(format!("warning: {key}")));
        prompt("Password: ").ok()
    }
}

fn named_keys(args: &KeyArgs) -> Outcome<Vec<SecretKey>> {
    // As long as it will be: one that grows would leave copies behind.
    let mut keys = Vec::with_capacity(args.keys.len() + args.key_files.len());
    for name in &args.keys {
        keys.push(keyring()?.load(name)?);
    }
    for path in &args.key_files {
        keys.push(read_key_file(path)?);
    }
    Ok(keys)
}

/// The whole file, less one newline at its end.
fn read_password_file(path: &Path) -> Outcome<Password> {
    let at_path = |e| Failure::at(path, e);
    let mut bytes = Zeroizing::new(vec![0; LONGEST_PASSWORD + 1]);
    let len = read_full(&mut open_private(path).map_err(at_path)?, &mut bytes).map_err(at_path)?;
    if len > LONGEST_PASSWORD {
        return Err(Failure::usage(format!("{}: a password has at most {LONGEST_PASSWORD} bytes", shown(path))));
    }
    Ok(Password::new(bytes[..len].strip_suffix(b"\n").unwrap_or(&bytes[..len]).to_vec()))
}

fn password_variable() -> Option<Password> {
    env::var_os(PASSWORD_VARIABLE).map(|value| Password::new(value.into_vec()))
}

/// A password for new files: from the variable, or asked for twice.
fn new_password() -> Outcome<Password> {
    if let Some(password) = password_variable() {
        return refuse_empty(password, PASSWORD_VARIABLE);
    }
    let unasked = |e: io::Error| {
        let ways = format!("--password-file, {PASSWORD_VARIABLE}, --key or --key-file");
        Failure::usage(format!("a password is needed, and none could be read from a terminal ({e}): give {ways}"))
    };
    let password = refuse_empty(prompt("Password: ").map_err(unasked)?, "the prompt")?;
    if !password.matches(&prompt("The same again: ").map_err(unasked)?) {
        return Err(Failure::usage("the two passwords differ"));
    }
    Ok(password)
}

fn refuse_empty(password: Password, source: impl Display) -> Outcome<Password> {
    if password.is_empty() {
        return Err(Failure::usage(format!("{source}: an empty password protects nothing")));
    }
    Ok(password)
}

fn prompt(question: &str) -> io::Result<Password> {
    rpassword::prompt_password(question).map(|typed| Password::new(typed.into_bytes()))
}
