//! Protects a file for two recipients: `cargo run -p phalanx-host --example protect -- FILE PASSWORD_FILE`.

use phalanx_core::{NewFile, Password, Recipient, Roster, SecretKey, Sink, Suite};
use phalanx_host::Keyring;
use phalanx_host::file::{self, Existing, Output};
use std::fs::File;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(path), Some(password)) = (args.next(), args.next()) else { return Err("FILE PASSWORD_FILE".into()) };
    let password = Password::new(std::fs::read(password)?);
    let keyring = Keyring::new(path.with_extension("keys"));
    let key = SecretKey::random()?;
    keyring.store("example", &key)?;

    let new = NewFile::new(Suite::default(), &[Recipient::key(&key), Recipient::password(&password)?])?;
    let input = File::open(&path)?;
    let mut name = path.into_os_string();
    name.push(".phx");
    // The file appears under its name when it is complete and on the disk, or not at all.
    let output = Output::create(name.as_ref(), Existing::Keep)?;
    let len =
        new.protect(&Roster::cpu(), file::source(&input)?, Sink::ranged(file::Disk::synced(output.file())), &())?;
    output.commit(Existing::Keep, true)?;
    println!("{len} bytes are protected in {}", name.display());
    Ok(())
}
