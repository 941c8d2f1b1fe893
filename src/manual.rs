//! `phalanx completions` and `phalanx man`: made from the definition of the command line.

use crate::args::Cli;
use crate::failure::{Failure, Outcome};
use clap::CommandFactory;
use phalanx_core::Error;
use std::io;
use std::path::Path;

pub fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "phalanx", &mut script);
    io::Write::write_all(&mut io::stdout(), &script).map_err(Error::Write)?;
    Ok(())
}

pub fn man(folder: &Path) -> Outcome {
    clap_mangen::generate_to(Cli::command(), folder).map_err(|e| Failure::at(folder, Error::Write(e)))
}
