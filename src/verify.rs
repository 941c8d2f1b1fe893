//! `phalanx verify`

use crate::args::{Verbosity, Verify};
use crate::failure::{self, Failure, Outcome, complain, say, shown};
use crate::lanes;
use crate::paths::Input;
use crate::progress::Meter;
use crate::secrets;
use phalanx_core::file::{self, Sink};
use std::path::PathBuf;

pub fn run(args: Verify, verbosity: Verbosity) -> Outcome {
    let lanes = lanes::choose(&args.engine)?;
    let opener = secrets::opener(&args.keys)?;
    failure::each(&args.paths, |path: &PathBuf| {
        let input = Input::open(path)?;
        let at_path = |e| Failure::at(path, e);
        let mut source = input.source().map_err(at_path)?;
        let header = source.header().map_err(at_path)?;
        let keys = opener.open(&header).map_err(at_path)?;
        let meter = Meter::new(shown(path), input.len(), verbosity);
        let done = file::open(&lanes.dispatcher, &header, &keys, source, Sink::Nothing, &meter);
        meter.finish();
        let bytes = done.map_err(at_path)?;
        if !verbosity.quiet {
            say(format!("{}: whole and authentic, {bytes} bytes", shown(path)))?;
        }
        if verbosity.verbose {
            complain(format!("{}: {}, {}", shown(path), meter.summary(bytes), lanes.description));
        }
        Ok(())
    })
}
