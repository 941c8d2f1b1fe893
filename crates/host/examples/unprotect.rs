//! Opens a protected file with a password: `cargo run -p phalanx-host --example unprotect -- FILE.phx PASSWORD_FILE
//! OUTPUT`.

use phalanx_core::{Error, KdfLimit, Opener, Password, ProtectedFile, Roster, Sink};
use phalanx_host::file::{self, Existing, Output};
use std::fs::File;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [path, password, to] = &args[..] else { return Err("FILE.phx PASSWORD_FILE OUTPUT".into()) };
    let opener = Opener::new(Password::new(std::fs::read(password)?), KdfLimit::default());
    let input = File::open(path)?;
    let protected = match ProtectedFile::open(file::source(&input)?, &opener) {
        Err(Error::WrongKey) => return Err("this is not its password".into()),
        opened => opened?,
    };
    // If a chunk is not authentic, no output appears.
    let output = Output::create(to, Existing::Keep)?;
    let len = protected.unprotect(&Roster::cpu(), Sink::ranged(file::Disk::synced(output.file())), &())?;
    output.commit(Existing::Keep, true)?;
    println!("{len} bytes are in {}", to.display());
    Ok(())
}
