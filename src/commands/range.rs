//! `phalanx unprotect --range`: a part of a file, of which no more is read than it needs.

use crate::args::{ByteRange, EngineName, UnprotectPlan};
use crate::engines;
use crate::failure::{Failure, Outcome, complain, shown};
use crate::paths::{Place, unprotected_name};
use crate::progress::{Meter, arrow, count};
use crate::secrets::AtHand;
use crate::transfer::{Input, Target, blame};
use crate::verbosity::{Verbosity, is_terminal};
use phalanx_core::engine::{CpuEngine, Engine};
use phalanx_core::file::Made;
use phalanx_core::{Error, Opener, Progress, Reader, ReaderOptions, Result, Roster, Sink};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What is read at once, in bytes.
const PIECE: usize = 1 << 20;

pub fn run(plan: &UnprotectPlan, range: ByteRange, opener: &Opener<AtHand>, verbosity: Verbosity) -> Outcome {
    let (places, named) = plan.destination.places(&plan.paths, unprotected_name)?;
    named?;
    places.iter().try_for_each(|place| one(plan, range, opener, place, verbosity))
}

fn one(
    plan: &UnprotectPlan,
    range: ByteRange,
    opener: &Opener<AtHand>,
    place: &Place,
    verbosity: Verbosity,
) -> Outcome {
    let input = Input::open(&place.input)?;
    let at_place = |e| blame(place, e);
    let made = Made::default();
    let target = Target::create(place, &input, &plan.destination, &made)?;

    let threads = if plan.engine.engine == EngineName::Serial { 1 } else { engines::threads(&plan.engine) };
    let engine = CpuEngine::parallel(threads, engines::levels()?);
    let description = format!("engine {} ({})", engine.info().name, engine.info().detail);
    let options = ReaderOptions::new().roster(Arc::new(Roster::new(&[Arc::new(engine)])));
    let source = input.file().try_clone().map_err(Error::Read);
    let reader = source.and_then(|source| Reader::open_with(source, opener, &options)).map_err(at_place)?;
    let Some(range) = range.within(reader.len()) else {
        let (path, len) = (shown(place.input.path()), count(reader.len(), "byte"));
        return Err(Failure::usage(format!("{path}: it has {len}, and the range has none of them")));
    };

    let len = range.end - range.start;
    let meter = Meter::file(shown(place.input.path()), Some(len), verbosity);
    meter.begin();
    let done = write(&reader, range, &target, &meter);
    meter.finish();
    done.map_err(at_place)?;
    target.commit(place, &input, &plan.destination, &made, None)?;
    let (from, to) = (shown(place.input.path()), shown(place.output.path()));
    if verbosity.verbose {
        complain(format!("{from} {} {to}: {}, {description}", arrow(), meter.summary(len)));
    } else if !verbosity.quiet && is_terminal() && !place.output.is_standard() {
        complain(format!("{from} {} {to}: {}", arrow(), meter.brief(len)));
    }
    Ok(())
}

/// Writes the range in order. Each piece is authentic before it is written.
fn write(reader: &Reader<File>, range: Range<u64>, target: &Target, meter: &Meter) -> Result<()> {
    let mut output: Box<dyn Write + Send + '_> = match target.sink() {
        Sink::File(file) | Sink::Synced(file) => Box::new(file),
        Sink::Stream(stream) => stream,
        Sink::Nothing => unreachable!("a range has an output"),
    };
    let mut buf = Zeroizing::new(vec![0; PIECE.min(usize::try_from(range.end - range.start).unwrap_or(PIECE))]);
    let mut at = range.start;
    while at < range.end {
        let wanted = buf.len().min(usize::try_from(range.end - at).unwrap_or(usize::MAX));
        let read = reader.read_at(&mut buf[..wanted], at)?;
        if read == 0 {
            return Err(Error::Changed);
        }
        output.write_all(&buf[..read]).map_err(Error::Write)?;
        at += read as u64;
        meter.advance(read as u64);
    }
    output.flush().map_err(Error::Write)
}
