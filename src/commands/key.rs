//! `phalanx key`

use super::key_copies::{self, KeyCopy};
use crate::args::Key;
use phalanx_core::SecretKey;
use phalanx_host::Keyring;
use phalanx_host::args::KeyArgs;
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain_with, shown};
use phalanx_host::paths::is_dash;
use phalanx_host::say::say;
use phalanx_host::secret_files;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::{Error, paths, secrets};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

pub fn run(command: Key, verbosity: Verbosity) -> Outcome {
    if let Key::New { identity: Some(file), .. } = command {
        return new_identity(file);
    }
    let keyring = secret_files::keyring()?;
    match command {
        Key::New { name, .. } => store(&keyring, &name.unwrap_or_default(), &SecretKey::random()?, verbosity),
        Key::List { names: true } => keyring.names()?.into_iter().try_for_each(say),
        Key::List { names: false } => {
            let names = keyring.names()?;
            if names.is_empty() && !verbosity.quiet {
                let what = if keyring.dir().exists() { "is empty" } else { "does not exist yet" };
                complain_with(
                    format!("the keyring {} {what}", shown(keyring.dir())),
                    Some("phalanx key new makes a key"),
                );
            }
            failure::each(&names, |name| say(format!("{}  {name}", keyring.load(name)?.id())))
        }
        Key::Show { name } => {
            let key = keyring.load(&name)?;
            say(format!("{}  {name}  {}", key.id(), keyring.path(&name)?.display()))
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
            let copy = KeyCopy::begin(output, force, text, &KeyFiles::of_keyring())?;
            if text { copy.finish(&key_copies::line(&key)) } else { copy.finish(key.expose()) }
        }
        Key::Export { name: None, output, force, password, password_file, .. } => {
            let is_text = !password && password_file.is_none();
            let list = key_copies::list(&keyring)?;
            let used = KeyArgs { keys: Vec::new(), key_files: Vec::new(), password_file: password_file.clone() };
            let copy = KeyCopy::begin(output, force, is_text, &KeyFiles::new(&used, &[]))?;
            let why = "since --password is not given";
            match secrets::password_for_new(password_file.as_deref(), password, why, None)? {
                Some(password) => copy.finish(&key_copies::protect(&list, &password, verbosity)?),
                None => copy.finish(&list),
            }
        }
        Key::Rm { name, force } => remove(&keyring, name, force),
    }
}

/// Makes a file with a private key of age, and prints its public key.
fn new_identity(file: PathBuf) -> Outcome {
    if is_dash(&file) {
        return Err(Failure::usage("--identity needs a file of its own"));
    }
    let (text, recipient) = phalanx_age::new_identity().map_err(Error::read)?;
    KeyCopy::begin(Some(file), false, true, &KeyFiles::of_keyring())?.finish(text.as_bytes())?;
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
