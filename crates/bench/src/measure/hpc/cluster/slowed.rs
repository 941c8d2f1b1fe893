//! Work that is divided beforehand beside work that is divided as it goes, with all processes at full speed, and with one that
//! is stopped for half of the time.

use crate::error::Result;
use crate::measure::hpc::cluster::cell::{Cell, Contestant, SUITES, in_turns};
use crate::measure::steps::Rows;
use crate::names::cluster::{DYNAMIC, FULL_SPEED, OWN, SLOWED, STATIC, over};
use crate::row::{Over, Row};

const DIVISIONS: [(&str, &str); 2] = [(STATIC, "static"), (DYNAMIC, "dynamic")];
/// The numbers of processes.
const PROCESSES: [usize; 2] = [2, 4];

/// Both divisions, both speeds, in turn.
pub fn measure(cell: &Cell<'_>, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let place = cell.place()?;
    for n in PROCESSES {
        // The program's own time, because stopping it makes its start longer too.
        let row = |operation: &str, scheme: &str| cell.row(operation, OWN, scheme, n, 1);
        let all = DIVISIONS.into_iter().flat_map(|division| [FULL_SPEED, SLOWED].map(|speed| (division, speed)));
        let place = match &place {
            Ok(place) => place,
            Err(why) => {
                rows.not_run(all.map(|((scheme, _), speed)| row(speed, scheme)), why)?;
                continue;
            }
        };
        let contestant = |((scheme, division), speed)| {
            let job = place.protect(n, 1, SUITES[0].1, &["--no-sync", "--division", division]);
            Contestant { is_slowed: speed == SLOWED, ..Contestant::new(row(speed, scheme), job, &place.sealed) }
        };
        let mut contestants: Vec<Contestant> = all.map(contestant).collect();
        in_turns(&mut contestants, rounds, &place.scratch, |_| place.check())?;
        let times: Vec<Row> = contestants.iter().map(|contestant| contestant.told(OWN, |told| told.own)).collect();
        let median = |scheme: &str, operation: &str| {
            times.iter().find(|row| row.scheme == scheme && row.operation == operation).and_then(|row| row.median_s)
        };
        for row in &times {
            let full = median(&row.scheme, FULL_SPEED).filter(|_| row.operation == SLOWED);
            let compared = |median_s| row.clone().compared(Over { name: "all at full speed", median_s }, None);
            rows.write(full.map_or_else(|| row.clone(), compared))?;
        }
        for operation in [FULL_SPEED, SLOWED] {
            let ratio = median(STATIC, operation).zip(median(DYNAMIC, operation));
            if let Some((fixed, taken)) = ratio.filter(|(_, taken)| *taken > 0.0) {
                let (measure, over) = (over(STATIC), Some(STATIC.into()));
                rows.write(Row { measure, speedup: Some(fixed / taken), over, ..row(operation, DYNAMIC) })?;
            }
        }
    }
    Ok(())
}
