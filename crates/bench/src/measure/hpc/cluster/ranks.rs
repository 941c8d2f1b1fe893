//! The needs of single processes: time for messages, and memory.

use crate::measure::hpc::cluster::cell::{Cell, SUITES};
use crate::measure::scratch;
use crate::measure::{Result, Row, Rows};
use crate::names::cluster::{MEMORY, MESSAGES};

/// The number of processes that the requirements are for.
const PROCESSES: usize = 8;
/// The most that a process may take, in KiB.
const MOST_MEMORY: u64 = 128 << 10;
/// The largest part of the processes' time that may be for messages.
const MOST_MESSAGES: f64 = 0.01;

/// Measures two and eight processes, with one thread each and with one for each core.
pub fn measure(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let place = cell.place()?;
    let mut threads = vec![1, cell.setup.threads];
    threads.dedup();
    let counts = [2, PROCESSES].into_iter().flat_map(|n| threads.iter().map(move |threads| (n, *threads)));
    for ((scheme, cipher), (n, threads)) in SUITES.into_iter().flat_map(|suite| counts.clone().map(move |n| (suite, n)))
    {
        let row = |measure: &str| cell.row("protect", measure, scheme, n, threads);
        let place = match &place {
            Ok(place) => place,
            Err(why) => {
                rows.not_run([MESSAGES, MEMORY].map(row), why)?;
                continue;
            }
        };
        let mut job = place.protect(n, threads, cipher, &["--no-sync"]).start_seen(&place.scratch)?;
        let peak_kib = job.peak_kib()?;
        let messages = job.wait()?.timings(cell.bytes).messages();
        scratch::remove(&place.sealed)?;
        rows.write(match messages {
            None => row(MESSAGES).not_run("the program does not tell it"),
            Some((part, worst)) => {
                let asked = format!("below {} % at {PROCESSES} processes", MOST_MESSAGES * 100.0);
                let bar = cell.setup.bar(asked, part < MOST_MESSAGES).filter(|_| n == PROCESSES);
                let row = row(MESSAGES);
                let worst = format!("at most {:.2} % of a single process", worst * 100.0);
                let note = row.note.iter().chain([&worst]).map(String::as_str).collect::<Vec<_>>().join("; ");
                Row { value: Some(part), bar, note: Some(note), ..row }
            }
        })?;
        rows.write(match peak_kib {
            None => row(MEMORY).not_run("the system does not tell it"),
            Some(peak) => {
                let bar = cell.setup.bar(format!("at most {} MiB", MOST_MEMORY >> 10), peak <= MOST_MEMORY);
                Row { peak_kib, bar, ..row(MEMORY) }
            }
        })?;
    }
    Ok(())
}
