//! A run that is killed when nine tenths are written, and a second run that goes on. Before the second run, what the
//! first one read and wrote is taken out of the page cache, because in practice some time passes between the two.

use crate::measure::hpc::cluster::cell::{Cell, Place, SUITES};
use crate::measure::hpc::cluster::job::evict;
use crate::measure::scratch;
use crate::measure::{Error, Over, Result, Row, Rows};
use crate::names::cluster::{GOES_ON, PART, WHOLE};
use std::fs;

/// The largest part of a whole run's time that is allowed.
const MOST: f64 = 0.25;

/// Measures whole runs and runs that go on, in turn.
pub fn measure(cell: &Cell<'_>, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let place = cell.place()?;
    for (scheme, cipher) in SUITES {
        let row = |operation: &str, measure: &str| cell.row(operation, measure, scheme, cell.setup.threads, 1);
        let times = place.as_ref().map_err(|why| Error::NotRun(why.clone()));
        let Times { whole, goes_on, done } = match times.and_then(|place| times_of(cell, place, cipher, rounds)) {
            Ok(times) => times,
            Err(Error::NotRun(why)) => {
                rows.not_run(["protect --resume", GOES_ON].map(|operation| row(operation, WHOLE)), &why)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        let whole = row("protect --resume", WHOLE).timed(whole);
        let median_s = whole.median_s.unwrap_or_default();
        let done: Vec<String> = done.iter().map(|part| format!("{:.0} %", part * 100.0)).collect();
        let note = Some(format!("done before, by the program's own account: {}", done.join(", ")));
        let goes_on = row(GOES_ON, WHOLE).timed(goes_on).compared(Over { name: "a whole run", median_s }, None);
        let part = goes_on.median_s.filter(|_| median_s > 0.0).map(|goes_on| goes_on / median_s);
        rows.write(whole)?;
        rows.write(Row { note: note.clone(), ..goes_on })?;
        if let Some(part) = part {
            let bar = cell.setup.bar(format!("at most {} % of a whole run", MOST * 100.0), part <= MOST);
            rows.write(Row { value: Some(part), bar, note, ..row(GOES_ON, PART) })?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Times {
    whole: Vec<f64>,
    goes_on: Vec<f64>,
    /// For each run that goes on, the part that was done before.
    done: Vec<f64>,
}

fn times_of(cell: &Cell<'_>, place: &Place, cipher: &str, rounds: usize) -> Result<Times> {
    let job = place.protect(cell.setup.threads, 1, cipher, &["--resume"]);
    let mut times = Times::default();
    for _ in 0..rounds {
        forget(place)?;
        times.whole.push(job.run()?.seconds);
        scratch::remove(&place.sealed)?;
        forget(place)?;
        // The run may have ended before it was killed.
        if !job.start_seen(&place.scratch)?.kill_after(cell.bytes / 10 * 9)? || place.sealed.exists() {
            scratch::remove(&place.sealed)?;
            let why = "it could not be interrupted: what its processes write is not told, or they were too fast";
            return Err(Error::NotRun(why.into()));
        }
        forget(place)?;
        let ended = job.run()?;
        let Some(done) = ended.timings(cell.bytes).was_done else {
            return Err(Error::Program("phalanx-mpi: an interrupted run did not go on".into()));
        };
        times.goes_on.push(ended.seconds);
        times.done.push(done);
        place.check()?;
        scratch::remove(&place.sealed)?;
    }
    Ok(times)
}

/// Takes all files of the folder out of the page cache.
fn forget(place: &Place) -> Result<()> {
    let folder = place.plain.parent().expect("it is in a folder");
    for entry in fs::read_dir(folder).map_err(Error::at(folder))? {
        let path = entry.map_err(Error::at(folder))?.path();
        if path.is_file() {
            evict(&path)?;
        }
    }
    Ok(())
}
