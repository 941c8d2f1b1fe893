//! `phalanx key`

use crate::args::{Key, Verbosity};
use crate::failure::{self, Code, Failure, Outcome, say};
use crate::paths;
use crate::secrets;
use phalanx_core::Error;
use phalanx_core::key::SecretKey;
use phalanx_core::output::{Existing, Output};
use std::io::{self, IsTerminal, Write};

pub fn run(command: Key, verbosity: Verbosity) -> Outcome {
    let keyring = secrets::keyring()?;
    match command {
        Key::New { name } => {
            let key = SecretKey::random()?;
            keyring.store(&name, &key).map_err(|e| taken(e, &name))?;
            announce(&name, &key, verbosity)?;
        }
        Key::List { names: true } => keyring.names()?.into_iter().try_for_each(say)?,
        Key::List { names: false } => {
            failure::each(&keyring.names()?, |name| say(format!("{}  {name}", keyring.load(name)?.id())))?;
        }
        Key::Show { name } => {
            let key = keyring.load(&name)?;
            say(format!("{}  {name}  {}", key.id(), keyring.dir().join(format!("{name}.key")).display()))?;
        }
        Key::Import { name, file } => {
            let key = secrets::read_key_file(&file)?;
            keyring.store(&name, &key).map_err(|e| taken(e, &name))?;
            announce(&name, &key, verbosity)?;
        }
        Key::Export { name, output } => {
            let key = keyring.load(&name)?;
            match output {
                Some(path) => {
                    let at_path = |e| Failure::at(&path, e);
                    let output = Output::create(&path, Existing::Keep, 0o600).map_err(at_path)?;
                    output.file().write_all(key.expose()).map_err(|e| at_path(Error::Write(e)))?;
                    output.commit(Existing::Keep, true).map_err(at_path)?;
                }
                None if io::stdout().is_terminal() => {
                    return Err(Failure::usage("a key's raw bytes are not for a terminal: name an --output"));
                }
                None => {
                    let mut stdout = paths::stdout().map_err(Error::Write)?;
                    stdout.write_all(key.expose()).map_err(Error::Write)?;
                }
            }
        }
        Key::Rm { name, force } => {
            if !force && io::stdin().is_terminal() && !confirmed(&name)? {
                return Err(Failure::usage("nothing was deleted"));
            }
            keyring.remove(&name)?;
        }
    }
    Ok(())
}

fn announce(name: &str, key: &SecretKey, verbosity: Verbosity) -> Outcome {
    if verbosity.quiet {
        return Ok(());
    }
    say(format!("{}  {name}", key.id()))
}

fn taken(error: Error, name: &str) -> Failure {
    match error {
        Error::Exists => {
            Failure::new(Code::InputOutput, format!("a key named {name} exists already: keys are never overwritten"))
        }
        error => error.into(),
    }
}

fn confirmed(name: &str) -> Outcome<bool> {
    let question = format!("Delete the key {name}? Files that only it opens are then lost. [y/N] ");
    io::stderr().write_all(question.as_bytes()).map_err(Error::Write)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Error::Read)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
