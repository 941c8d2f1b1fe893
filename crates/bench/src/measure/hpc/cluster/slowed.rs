//! Static and dynamic division of work, with all processes at full speed, and with one that is stopped for half of the
//! time.

use crate::measure::hpc::cluster::cell::{Cell, Place, Planned, SUITES, measured};
use crate::measure::{Over, Result, Row, Rows};
use crate::names::cluster::{DYNAMIC, FULL_SPEED, OWN, SLOWED, STATIC, over};

const DIVISIONS: [(&str, &str); 2] = [(STATIC, "static"), (DYNAMIC, "dynamic")];
const PROCESSES: [usize; 2] = [2, 4];

/// Measures both divisions at both speeds, in turn.
pub fn measure(cell: &Cell<'_>, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let place = cell.place()?;
    for n in PROCESSES {
        let mut planned = Vec::new();
        for (scheme, division) in DIVISIONS {
            for speed in [FULL_SPEED, SLOWED] {
                planned.push(Planned {
                    row: cell.row(speed, OWN, scheme, n, 1),
                    // This is the program's own time, because a process that is stopped also takes longer to start.
                    measures: &[OWN],
                    is_slowed: speed == SLOWED,
                    job: Box::new(move |place: &Place| {
                        Ok(place.protect(n, 1, SUITES[0].1, &["--no-sync", "--division", division]))
                    }),
                    check: Place::check,
                });
            }
        }
        let times: Vec<Row> = measured(&place, planned, rounds)?.into_iter().flatten().collect();
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
                let row = cell.row(operation, &over(STATIC), DYNAMIC, n, 1);
                rows.write(Row { speedup: Some(fixed / taken), over: Some(STATIC.into()), ..row })?;
            }
        }
    }
    Ok(())
}
