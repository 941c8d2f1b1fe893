//! Replaces all keys and passwords of a protected file by another password: `cargo run -p phalanx-host --example rekey
//! -- FILE.phx OLD_PASSWORD_FILE NEW_PASSWORD_FILE`.

use phalanx_core::{Error as CoreError, KdfLimit, Opener, Password, Recipient};
use phalanx_host::Error;
use phalanx_host::file::{InPlace, InputFile};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [path, old, new] = &args[..] else { return Err("FILE.phx OLD_PASSWORD_FILE NEW_PASSWORD_FILE".into()) };
    let opener = Opener::new(Password::new(std::fs::read(old)?), KdfLimit::default());
    // The file is locked until this is dropped. A change that a killed run has left is finished or undone.
    let mut target = InPlace::open(&InputFile::open(path)?)?;
    let (mut ways, _) = target.ways(&opener)?;
    ways.remove_passwords();
    ways.add(&Recipient::password(&Password::new(std::fs::read(new)?))?);
    match target.write(&ways, &opener) {
        Err(Error::Core(CoreError::HeaderRoom)) => Err("its header has no room: protect it again".into()),
        done => {
            println!("it has {} slots now", done?.slots().len());
            Ok(())
        }
    }
}
