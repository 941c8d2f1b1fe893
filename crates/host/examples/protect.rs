//! Protects a file for two recipients: `cargo run -p phalanx-host --example protect -- FILE PASSWORD_FILE`.

use phalanx_core::{NewFile, Password, Recipient, Roster, SecretKey, Suite};
use phalanx_host::Keyring;
use phalanx_host::file::{Ends, OutputRules};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(path), Some(password)) = (args.next(), args.next()) else { return Err("FILE PASSWORD_FILE".into()) };
    let password = Password::new(std::fs::read(password)?);
    let keyring = Keyring::new(path.with_extension("keys"));
    let key = SecretKey::random()?;
    keyring.store("example", &key)?;

    let new = NewFile::new(Suite::default(), &[Recipient::key(&key), Recipient::password(&password)?])?;
    let mut name = path.clone().into_os_string();
    name.push(".phx");
    // The file appears under its name when it is complete and on the disk, or not at all.
    let rules = OutputRules::default();
    let ends = Ends::of_paths(&path, name.as_ref(), &rules)?;
    let len = new.protect(&Roster::cpu(), ends.source()?, ends.sink(), &())?;
    ends.commit(&rules)?;
    println!("{len} bytes are protected in {}", name.display());
    Ok(())
}
