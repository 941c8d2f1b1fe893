//! `phalanx verify`

use super::{unprotect, verify_volume, volumes};
use crate::args::Verify;
use crate::progress::Meter;
use crate::transfer::{Action, Moved, Transfer, tree};
use phalanx_core::{OpenedBy, Opener};
use phalanx_host::Result;
use phalanx_host::engines::Engines;
use phalanx_host::failure::{self, Failure, Outcome};
use phalanx_host::file::Carry;
use phalanx_host::file::{Ends, unprotected_name};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain, shown};
use phalanx_host::paths::{Destination, End, Outputs, file_len};
use phalanx_host::report::{self, Status};
use phalanx_host::say::say;
use phalanx_host::secrets::{self, AtHand};
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::{count, others};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub fn run(args: Verify, verbosity: Verbosity) -> Outcome {
    if args.json.json {
        report::begin(Status::Whole);
    }
    report::end(verify(args, verbosity))
}

fn verify(args: Verify, verbosity: Verbosity) -> Outcome {
    let action = Check { opener: secrets::opener(&args.keys, verbosity)?, verbosity };
    let nowhere = Destination {
        outputs: Outputs::Beside,
        force: false,
        remove: false,
        sync: false,
        recursive: args.recursive,
        resume: false,
        carry: Carry::All,
    };
    let keys = KeyFiles::new(&args.keys.keys, &args.keys.identities);
    let transfer = Transfer::new(action, nowhere, keys, &args.engine, verbosity)?;
    transfer.engines.expect(args.paths.iter().filter_map(|path| file_len(path)).sum());
    let (mut files, mut bytes, mut left_out, mut failed) = (0, 0, 0, 0);
    let done = failure::each(&args.paths, |path| {
        if phalanx_volume::is_volume(path) {
            return verify_volume::run(path, &transfer.action.opener, &args.engine, verbosity);
        }
        volumes::check(path)?;
        if args.recursive && path.is_dir() {
            let found = tree::run(&transfer, path, None)?;
            let volumes = verify_volume::within(path)?;
            if found.seen() == 0 && volumes.is_empty() {
                return Err(Failure::nothing_protected(path));
            }
            files += found.files();
            bytes += found.bytes();
            left_out += found.left_out();
            failed += found.failed();
            let of_volumes = failure::each(&volumes, |volume: &PathBuf| {
                verify_volume::run(volume, &transfer.action.opener, &args.engine, verbosity)
            });
            return failure::worse(found.outcome(), of_volumes);
        }
        let checked = one(&transfer, path);
        match checked {
            Ok(len) => (files, bytes) = (files + 1, bytes + len),
            Err(_) => failed += 1,
        }
        checked.map(drop)
    });
    if verbosity.quiet || report::is_on() || files + failed == 0 || !args.recursive && args.paths.len() < 2 {
        return done;
    }
    let line = format!("{}, {}: whole and authentic", count(files, "file"), count(bytes, "byte"));
    let others = others([(left_out, "left out"), (failed, "failed")]);
    failure::worse(done, say(line + &others))
}

fn one(transfer: &Transfer<Check>, path: &Path) -> Outcome<u64> {
    if path.is_dir() {
        return Err(Failure::folder(path));
    }
    let mut ends = Ends::only(End::from(path.to_owned()).open()?);
    let meter = Meter::file(shown(path), ends.input.len(), transfer.verbosity);
    let done = transfer.action.transfer(&transfer.engines, &mut ends, &meter);
    meter.finish();
    let moved = done.map_err(|e| Failure::at(path, e))?;
    if let Some(by) = &moved.by {
        transfer.action.opened(|| path.to_owned(), by);
    }
    report::done(path, None, moved.bytes);
    if !transfer.verbosity.quiet && !report::is_on() {
        say(format!("{}: {}: whole and authentic", shown(path), count(moved.bytes, "byte")))?;
    }
    if transfer.verbosity.verbose {
        complain(format!("{}: {}, {}", shown(path), meter.summary(moved.bytes), moved.description()));
    }
    Ok(moved.bytes)
}

struct Check {
    opener: Opener<AtHand>,
    verbosity: Verbosity,
}

impl Action for Check {
    fn output_name(&self, name: &OsStr) -> Option<OsString> {
        unprotected_name(name)
    }

    fn transfer<'l>(&self, engines: &'l Engines, ends: &mut Ends, meter: &Meter) -> Result<Moved<'l>> {
        unprotect::open(&self.opener, engines, ends, meter)
    }

    fn opens(&self) -> bool {
        true
    }

    fn opened(&self, path: impl FnOnce() -> PathBuf, by: &OpenedBy) {
        self.opener.source().tell_sender(path, by);
    }

    fn checked(&self, path: &Path, bytes: u64) -> Outcome {
        if self.verbosity.verbose && !report::is_on() {
            say(format!("{}: {}: whole and authentic", shown(path), count(bytes, "byte")))?;
        }
        Ok(())
    }
}
