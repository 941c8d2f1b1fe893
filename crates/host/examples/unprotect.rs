//! Opens a protected file with a password: `cargo run -p phalanx-host --example unprotect -- FILE.phx PASSWORD_FILE
//! OUTPUT`.

use phalanx_core::{Error, KdfLimit, Opener, Password, ProtectedFile, Roster};
use phalanx_host::file::{Carry, Ends, OutputRules, umask};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [path, password, to] = &args[..] else { return Err("FILE.phx PASSWORD_FILE OUTPUT".into()) };
    let opener = Opener::new(Password::new(std::fs::read(password)?), KdfLimit::default());
    // If a chunk is not authentic, no output appears. The permissions of the protected file are not authenticated, so
    // they are not taken over.
    let rules = OutputRules { carry: Carry::New { umask: umask() }, ..OutputRules::default() };
    let ends = Ends::of_paths(path, to, &rules)?;
    let protected = match ProtectedFile::open(ends.source()?, &opener) {
        Err(Error::WrongKey) => return Err("this is not its password".into()),
        opened => opened?,
    };
    let len = protected.unprotect(&Roster::cpu(), ends.sink(), &())?;
    ends.commit(&rules)?;
    println!("{len} bytes are in {}", to.display());
    Ok(())
}
