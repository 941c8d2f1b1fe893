//! What single processes take: time for messages, and memory.

use crate::error::Result;
use crate::measure::hpc::cluster::cell::{Cell, SUITES};
use crate::measure::scratch;
use crate::measure::steps::Rows;
use crate::names::cluster::{MEMORY, MESSAGES};
use crate::row::Row;

/// The number of processes that the requirements are for.
const PROCESSES: usize = 8;
/// The most that a process may take, in KiB.
const MOST_MEMORY: u64 = 128 << 10;
/// The largest part of the time for messages.
const MOST_MESSAGES: f64 = 0.01;

/// Two processes and eight, with one thread and with as many as there are cores.
pub fn measure(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let place = cell.place()?;
    let mut threads = vec![1, cell.setup.threads];
    threads.dedup();
    for (scheme, cipher) in SUITES {
        for n in [2, PROCESSES] {
            for threads in threads.iter().copied() {
                let row = |measure: &str| cell.row("protect", measure, scheme, n, threads);
                let place = match &place {
                    Ok(place) => place,
                    Err(why) => {
                        rows.not_run([MESSAGES, MEMORY].map(row), why)?;
                        continue;
                    }
                };
                let tell = place.scratch.path("process");
                let mut job = place.protect(n, threads, cipher, &["--no-sync"]).start(Some(&tell))?;
                job.see_all(&tell)?;
                let peak_kib = job.peak_kib()?;
                let ended = job.wait()?;
                scratch::remove(&place.sealed)?;
                match ended.told(cell.bytes).messages() {
                    None => rows.write(row(MESSAGES).not_run("the program does not tell it"))?,
                    Some((part, worst)) => {
                        let asked = format!("below {} % at {PROCESSES} processes", MOST_MESSAGES * 100.0);
                        let bar = cell.bar(asked, part < MOST_MESSAGES).filter(|_| n == PROCESSES);
                        let row = row(MESSAGES);
                        let worst = format!("at most {:.2} % of a single process", worst * 100.0);
                        let note = Some(
                            [row.note.as_deref(), Some(&worst)].into_iter().flatten().collect::<Vec<_>>().join("; "),
                        );
                        rows.write(Row { value: Some(part), bar, note, ..row })?;
                    }
                }
                match peak_kib {
                    None => rows.write(row(MEMORY).not_run("the system does not tell it"))?,
                    Some(peak) => {
                        let bar = cell.bar(format!("at most {} MiB", MOST_MEMORY >> 10), peak <= MOST_MEMORY);
                        rows.write(Row { peak_kib, bar, ..row(MEMORY) })?;
                    }
                }
            }
        }
    }
    Ok(())
}
