//! `phalanx verify`

use crate::args::{Verbosity, Verify};
use crate::failure::{self, Failure, Outcome, complain, say, shown};
use crate::lanes::Lanes;
use crate::paths::{self, Input};
use crate::progress::{Meter, count};
use crate::secrets::{self, AtHand};
use phalanx_core::Error;
use phalanx_core::access::Opener;
use phalanx_core::engine::Op;
use phalanx_core::file::{self, Sink};
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

pub fn run(args: Verify, verbosity: Verbosity) -> Outcome {
    let lanes = Lanes::new(&args.engine, verbosity)?;
    let opener = secrets::opener(&args.keys)?;
    let mut paths = Vec::new();
    let gathered = failure::each(&args.paths, |path| gather(path, args.recursive, &mut paths));
    lanes.expect(paths.iter().filter_map(|path| paths::file_len(path)).sum());
    let verified = failure::each(&paths, |path| one(path, &lanes, &opener, verbosity));
    failure::worse(gathered, verified)
}

fn one(path: &Path, lanes: &Lanes, opener: &Opener<AtHand>, verbosity: Verbosity) -> Outcome {
    let at_path = |e| Failure::at(path, e);
    let input = Input::open(path)?;
    let mut source = input.source().map_err(at_path)?;
    let header = source.header().map_err(at_path)?;
    let keys = opener.open(&header).map_err(at_path)?;
    let meter = Meter::file(shown(path), input.len(), verbosity);
    let crew = lanes.crew(Op::Open, header.suite(), input.known_len());
    let done = file::open(&crew.dispatcher, &header, &keys, source, Sink::Nothing, &meter);
    meter.finish();
    let bytes = done.map_err(at_path)?;
    if !verbosity.quiet {
        say(format!("{}: whole and authentic, {}", shown(path), count(bytes, "byte")))?;
    }
    if verbosity.verbose {
        complain(format!("{}: {}, {}", shown(path), meter.summary(bytes), crew.description));
    }
    Ok(())
}

/// A path itself, or all protected files in a folder, in order of name. Links in it are not followed.
fn gather(path: &PathBuf, recursive: bool, paths: &mut Vec<PathBuf>) -> Outcome {
    if !recursive || !path.is_dir() {
        paths.push(path.clone());
        return Ok(());
    }
    let failed = |e| Failure::at(path, Error::Read(e));
    let entries = fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>();
    let mut entries = entries.map_err(failed)?;
    entries.sort_by_key(DirEntry::file_name);
    failure::each(&entries, |entry| {
        let (kind, path) = (entry.file_type().map_err(failed)?, entry.path());
        if kind.is_dir() {
            gather(&path, true, paths)?;
        } else if kind.is_file() && path.extension().is_some_and(|e| e == "phx") {
            paths.push(path);
        }
        Ok(())
    })
}
