//! `phalanx key`

use super::key_copies::{self, Form, KeyCopy};
use crate::args::Key;
use phalanx_core::{KeyId, Recipient, SecretKey};
use phalanx_host::Keyring;
use phalanx_host::args::{KeyArgs, OpenKeys, ProtectKeys};
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain_with, shown};
use phalanx_host::paths::is_dash;
use phalanx_host::say::say;
use phalanx_host::secret_files;
use phalanx_host::secrets::{self, Recipients};
use phalanx_host::services::Services;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::{Error, locked_keys, passwords, paths};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

pub fn run(command: Key, verbosity: Verbosity) -> Outcome {
    if let Key::New { identity: Some(file), .. } = command {
        return new_identity(file);
    }
    let keyring = secret_files::keyring()?;
    match command {
        Key::New { name, .. } => store(&keyring, &name.unwrap_or_default(), &SecretKey::random()?, verbosity),
        Key::List { names: true } => keyring.names()?.into_iter().try_for_each(say),
        Key::List { names: false } => {
            let keys = listed(&keyring)?;
            if keys.is_empty() && !verbosity.quiet {
                let what = if keyring.dir().exists() { "is empty" } else { "does not exist yet" };
                complain_with(
                    format!("the keyring {} {what}", shown(keyring.dir())),
                    Some("phalanx key new makes a key"),
                );
            }
            failure::each(&keys, |(name, locked)| match locked {
                Some(id) => say(format!("{id}  {name}  locked")),
                None => say(format!("{}  {name}", keyring.load(name)?.id())),
            })
        }
        Key::Show { name } => {
            let (id, is_locked) = keyring.id(&name)?;
            let path = if is_locked { keyring.locked_path(&name, &id) } else { keyring.path(&name)? };
            say(format!("{id}  {name}  {}", path.display()))
        }
        Key::Import { name: Some(name), file, password_file, .. } => {
            without_all(password_file.is_some())?;
            store(&keyring, &name, &key_copies::read(&file)?, verbosity)
        }
        Key::Import { name: None, file, password_file, .. } => {
            paths::one_stdin([&file].into_iter().chain(&password_file))?;
            import_all(&keyring, &key_copies::read_all(&file, password_file, verbosity)?, verbosity)
        }
        Key::Export { name: Some(name), text, output, force, password, password_file, .. } => {
            without_all(password || password_file.is_some())?;
            let key = keyring.load(&name)?;
            let form = if text { Form::Text } else { Form::Raw };
            let copy = KeyCopy::begin(output, force, form, &KeyFiles::of_keyring())?;
            if text { copy.finish(&key_copies::line(&key)) } else { copy.finish(key.expose()) }
        }
        Key::Export { name: None, output, force, password, password_file, .. } => {
            let form = if password || password_file.is_some() { Form::Protected } else { Form::Text };
            let list = key_copies::list(&keyring)?;
            let used = KeyArgs { password_file, ..KeyArgs::default() };
            let copy = KeyCopy::begin(output, force, form, &KeyFiles::new(&used, &[]))?;
            let why = "since --password is not given";
            match passwords::for_new(&used, password, why, None)? {
                Some(password) => copy.finish(&phalanx_core::protect(&list, &[Recipient::password(&password)?])?),
                None => copy.finish(&list),
            }
        }
        Key::Lock { names, by } => lock(&keyring, names, by),
        Key::Unlock { names, by } => unlock(&keyring, names, &by, verbosity),
        Key::Rm { name, force } => remove(&keyring, name, force),
    }
}

/// The keys with the ids of locked ones. One that is there both locked and not is not locked; others may have its name.
fn listed(keyring: &Keyring) -> Outcome<Vec<(String, Option<KeyId>)>> {
    let mut open: Option<String> = None;
    let mut keys = keyring.list()?;
    keys.retain(|(name, locked)| match locked {
        Some(id) => open.as_ref() != Some(name) || keyring.load(name).is_ok_and(|key| key.id() != *id),
        None => {
            open = Some(name.clone());
            true
        }
    });
    Ok(keys)
}

/// A key of the keyring that locked the others could itself be locked.
fn locks_itself() -> Failure {
    Failure::usage("a key of the keyring cannot lock or unlock others").hint("--key-file takes one from elsewhere")
}

fn without_keyring(keys: &[String]) -> Outcome {
    if keys.is_empty() { Ok(()) } else { Err(locks_itself()) }
}

fn lock(keyring: &Keyring, names: Vec<String>, by: ProtectKeys) -> Outcome {
    without_keyring(&by.keys.keys)?;
    let names = of_kind(keyring, names, false)?;
    let services: Vec<Services> =
        by.services.iter().map(|uri| Services::new("--kms", std::slice::from_ref(uri))).collect::<Outcome<_>>()?;
    let recipients = Recipients::new(by, false);
    recipients.find()?;
    for recipient in recipients.found() {
        if let Recipient::Key { id, .. } = recipient
            && (keyring.find(id, |_| {})?.is_some() || keyring.locked_with(id)?.is_some())
        {
            return Err(locks_itself());
        }
    }
    failure::each(&names, |name| Ok(locked_keys::lock(keyring, name, recipients.found(), &services)?))
}

fn unlock(keyring: &Keyring, names: Vec<String>, by: &OpenKeys, verbosity: Verbosity) -> Outcome {
    without_keyring(&by.keys.keys)?;
    let names = of_kind(keyring, names, true)?;
    let opener = secrets::opener(by, verbosity)?;
    failure::each(&names, |name| {
        locked_keys::unlock(keyring, name, &opener).map_err(|e| match e {
            Error::Core(e) => Failure::at(Path::new(&format!("the key {name}")), e),
            e => e.into(),
        })
    })
}

/// The names that are given, or those of all keys that are locked or not.
fn of_kind(keyring: &Keyring, names: Vec<String>, locked: bool) -> Outcome<Vec<String>> {
    if !names.is_empty() {
        return Ok(names);
    }
    let meant = keyring.list()?.into_iter().filter(|(_, id)| id.is_some() == locked);
    let mut names: Vec<_> = meant.map(|(name, _)| name).collect();
    names.dedup();
    match names.is_empty() {
        true => Err(Failure::usage(if locked {
            "no key of the keyring is locked"
        } else {
            "the keyring holds no key that is not locked"
        })),
        false => Ok(names),
    }
}

/// Makes a file with a private key of age, and prints its public key.
fn new_identity(file: PathBuf) -> Outcome {
    if is_dash(&file) {
        return Err(Failure::usage("--identity needs a file of its own"));
    }
    let (text, recipient) = phalanx_age::new_identity().map_err(Error::read)?;
    KeyCopy::begin_new(file, &KeyFiles::of_keyring())?.finish(text.as_bytes())?;
    say(recipient)
}

/// A single key is never protected by a password.
fn without_all(has_password: bool) -> Outcome {
    if has_password {
        return Err(Failure::usage("--password and --password-file need --all"));
    }
    Ok(())
}

/// Adds a new key, and shows its id.
fn store(keyring: &Keyring, name: &str, key: &SecretKey, verbosity: Verbosity) -> Outcome {
    keyring.store(name, key).map_err(|error| match error {
        Error::Exists => taken(format!("a key named {name} exists already, and keys are never overwritten"))
            .hint("choose another name"),
        error => error.into(),
    })?;
    if verbosity.quiet {
        return Ok(());
    }
    say(format!("{}  {name}", key.id()))
}

fn taken(line: String) -> Failure {
    Failure::new(Code::InputOutput, line)
}

/// Adds the keys that are not in the keyring yet.
fn import_all(keyring: &Keyring, keys: &[(String, SecretKey)], verbosity: Verbosity) -> Outcome {
    failure::each(keys, |(name, key)| match keyring.load(name) {
        Ok(there) if there.matches(key) => Ok(()),
        Ok(_) => Err(taken(format!("another key is named {name} already, and stays: this one was not imported"))
            .hint("import it alone, under another name")),
        Err(Error::NoSuchKey(_)) => store(keyring, name, key, verbosity),
        Err(error) => Err(error.into()),
    })
}

fn remove(keyring: &Keyring, name: String, force: bool) -> Outcome {
    if !keyring.has(&name)? {
        return Err(Error::NoSuchKey(name).into());
    }
    if !force {
        if !io::stdin().is_terminal() {
            return Err(Failure::usage("without a terminal, deleting a key needs --force"));
        }
        if !confirmed(&name)? {
            return Err(Failure::usage("nothing was deleted"));
        }
    }
    Ok(keyring.remove(&name)?)
}

fn confirmed(name: &str) -> Outcome<bool> {
    let question = format!("Delete the key {name}? Files that only it opens are then lost. [y/N] ");
    io::stderr().write_all(question.as_bytes()).map_err(Error::write)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Error::read)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
