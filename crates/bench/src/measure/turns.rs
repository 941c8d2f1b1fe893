//! Contestants that do the same work in turn, so that other work on the machine affects all of them alike.

use crate::measure::times::{runs, time};
use crate::measure::{Result, Row};

/// One of the programs or functions that are measured in turn.
pub struct Contestant<'a> {
    /// One row for each time that the work returns.
    rows: Vec<Row>,
    /// The work, or the reason why it is not run.
    work: std::result::Result<Work<'a>, String>,
    turn: Turn,
    seconds: Vec<Vec<Option<f64>>>,
}

/// Does the work once. Returns a time for each row. It is `None` if a program does not report it.
type Work<'a> = Box<dyn FnMut(&mut Turn) -> Result<Vec<Option<f64>>> + 'a>;

pub struct Turn {
    /// Whether it is the first round, in which results are checked.
    pub is_first: bool,
    /// The number of runs for each time, which is their mean.
    pub runs: u64,
}

impl<'a> Contestant<'a> {
    /// Work that takes its own times, one for each row.
    pub fn new(rows: Vec<Row>, work: impl FnMut(&mut Turn) -> Result<Vec<Option<f64>>> + 'a) -> Self {
        let seconds = vec![Vec::new(); rows.len()];
        Self { rows, work: Ok(Box::new(work)), turn: Turn { is_first: true, runs: 1 }, seconds }
    }

    /// Work that is timed as a whole. `after` follows each run and is not timed.
    pub fn timed(
        row: Row,
        mut work: impl FnMut() -> Result<()> + 'a,
        mut after: impl FnMut() -> Result<()> + 'a,
    ) -> Self {
        Self::new(vec![row], move |_| {
            let (seconds, done) = time(&mut work);
            done?;
            after()?;
            Ok(vec![Some(seconds)])
        })
    }

    /// Work that changes nothing outside itself. If it is short, several runs are one time.
    pub fn repeated(row: Row, mut work: impl FnMut() -> Result<()> + 'a) -> Self {
        Self::new(vec![row], move |turn| {
            let (seconds, done) = time(|| (0..turn.runs).try_for_each(|_| work()));
            done?;
            let seconds = seconds / turn.runs as f64;
            if turn.is_first {
                turn.runs = runs(seconds);
            }
            Ok(vec![Some(seconds)])
        })
    }

    /// A contestant that cannot be measured.
    pub fn missing(rows: Vec<Row>, why: String) -> Self {
        Self { work: Err(why), ..Self::new(rows, |_| Ok(Vec::new())) }
    }

    fn run(&mut self, counts: bool) -> Result<()> {
        let Ok(work) = &mut self.work else { return Ok(()) };
        let times = match work(&mut self.turn) {
            Err(error) => {
                // If a device fails, its rows have no times. Any other failure ends the run.
                self.work = Err(error.of_device().ok_or(error)?);
                return Ok(());
            }
            Ok(times) => times,
        };
        if counts {
            self.seconds.iter_mut().zip(times).for_each(|(all, seconds)| all.push(seconds));
        }
        self.turn.is_first = false;
        Ok(())
    }

    fn finish(self) -> Vec<Row> {
        let Self { rows, work, turn, seconds } = self;
        let of_one = |(row, seconds): (Row, Vec<Option<f64>>)| match (&work, seconds.into_iter().collect()) {
            (Err(why), _) => row.not_run(why),
            (Ok(_), None) => row.not_run("the program does not tell it"),
            (Ok(_), Some(seconds)) => Row { runs_per_time: turn.runs, ..row }.timed(seconds),
        };
        rows.into_iter().zip(seconds).map(of_one).collect()
    }
}

/// Runs all contestants in turn: first to warm up, and then in rounds that count. Each round begins with another
/// contestant, because it matters which one worked before. Returns the rows of each with their times.
pub fn in_turns(mut contestants: Vec<Contestant<'_>>, warm_ups: usize, rounds: usize) -> Result<Vec<Vec<Row>>> {
    for round in 0..warm_ups + rounds {
        for turn in 0..contestants.len() {
            let next = (round + turn) % contestants.len();
            contestants[next].run(round >= warm_ups)?;
        }
    }
    Ok(contestants.into_iter().map(Contestant::finish).collect())
}
