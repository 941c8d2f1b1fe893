//! `phalanx unprotect --range`: a part of a file. It reads no more of the file than the range needs.

use crate::args::{ByteRange, UnprotectPlan};
use crate::progress::Bar;
use crate::transfer::tell;
use phalanx_core::{Error as CoreError, Opener, Progress, ReadAt, Reader, ReaderOptions, Roster};
use phalanx_host::engines;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::{Ends, unprotected_name};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::shown;
use phalanx_host::paths::Route;
use phalanx_host::secrets::AtHand;
use phalanx_host::transfer::meter::Meter;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::count;
use phalanx_host::{Error, Result};
use std::io::{BufRead, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What is read at once, in bytes.
const PIECE: usize = 1 << 20;
/// Chunks below this length are small, in bytes.
const SMALL: usize = 64 << 10;

pub fn run(
    plan: &UnprotectPlan,
    range: ByteRange,
    opener: &Opener<AtHand>,
    keys: &KeyFiles,
    verbosity: Verbosity,
) -> Outcome {
    let (routes, named) = plan.destination.routes(&plan.paths, unprotected_name)?;
    named?;
    routes.iter().try_for_each(|route| one(plan, range, opener, keys, route, verbosity))
}

fn one(
    plan: &UnprotectPlan,
    range: ByteRange,
    opener: &Opener<AtHand>,
    keys: &KeyFiles,
    route: &Route,
    verbosity: Verbosity,
) -> Outcome {
    let input = route.input.open()?;
    let at = |e| route.blame(e);
    let made = keys.made();
    let rules = plan.destination.rules(&made);
    let ends = route.begin(input, &rules, &made)?;

    let engine = engines::cpu(&plan.engine)?;
    let description = format!("engine {} ({})", engine.info().name, engine.info().detail);
    let mut options = ReaderOptions::new().roster(Arc::new(Roster::new(std::slice::from_ref(&engine))));
    if engine.info().workers == 1 {
        // The thread that reads does the work.
        options = options.read_ahead(0);
    }
    let reader = ends.input.read_at().and_then(|source| Ok(Reader::open_with(source, opener, &options)?));
    let reader = reader.map_err(|e| at(ends.input.interrupted(e)))?;
    let at_hand = opener.source();
    let opened = at_hand.describe(reader.opened_slot(), reader.opened_by());
    let by = reader.opened_by().clone();
    let Some(range) = range.within(reader.len()) else {
        let (path, len) = (shown(route.input.path()), count(reader.len(), "byte"));
        return Err(Failure::usage(format!("{path}: it has {len}, and none of them is in the range")));
    };

    let len = range.end - range.start;
    let meter = Bar::file(shown(route.input.path()), Some(len), verbosity);
    meter.begin();
    let done = write(reader, range, &ends, &meter);
    meter.finish();
    done.map_err(at)?;
    at_hand.tell_sender(|| route.input.path().to_owned(), &by);
    route.commit(ends, &rules, None)?;
    tell(route, &meter, len, &format!("{description}, opened by {opened}"), verbosity);
    Ok(())
}

/// Writes the range in order. Each piece is authentic before it is written.
fn write(
    mut reader: Reader<Box<dyn ReadAt + Send + Sync>>,
    range: Range<u64>,
    ends: &Ends,
    meter: &dyn Progress,
) -> Result<()> {
    let mut output = ends.target.writer();
    // Small chunks are put together, so that few calls write them. Large ones are written without another copy.
    let is_small = reader.chunk_size().bytes() < SMALL;
    let mut buf = Zeroizing::new(vec![0; if is_small { PIECE } else { 0 }]);
    reader.seek(SeekFrom::Start(range.start)).map_err(Error::read)?;
    let mut at = range.start;
    while at < range.end {
        let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        let len = if is_small {
            let wanted = left.min(PIECE);
            let read = reader.read_at(&mut buf[..wanted], at)?;
            output.write_all(&buf[..read]).map_err(Error::write)?;
            read
        } else {
            let bytes = reader.fill_buf().map_err(core_error)?;
            let bytes = &bytes[..bytes.len().min(left)];
            output.write_all(bytes).map_err(Error::write)?;
            let len = bytes.len();
            reader.consume(len);
            len
        };
        if len == 0 {
            return Err(CoreError::Changed.into());
        }
        at += len as u64;
        meter.advance(len as u64);
    }
    output.flush().map_err(Error::write)
}

/// The library's error inside an I/O error.
fn core_error(error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) => Error::read(error),
    }
}
