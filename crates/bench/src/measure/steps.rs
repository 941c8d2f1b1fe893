//! The steps of a run, one after another.

use crate::measure::load::{Load, Sample};
use crate::measure::{Error, Over, Result, Row, Times, processors};
use crate::names::kernel_only;
use crate::record::Record;

/// Receives the progress of a run. Weights are in some unit of expected time.
pub trait Watch {
    /// Reports what is missing on this machine and will not be measured.
    fn missing(&self, _: &[String]) {}
    /// A run begins, with its whole weight and that of the steps done before.
    fn begin(&self, whole: u64, done: u64);
    /// A step begins.
    fn step(&self, name: &str);
    /// A row was written.
    fn row(&self, row: &Row);
    /// A step of this weight is done.
    fn done(&self, weight: u64);
}

/// Ignores progress.
impl Watch for () {
    fn begin(&self, _: u64, _: u64) {}
    fn step(&self, _: &str) {}
    fn row(&self, _: &Row) {}
    fn done(&self, _: u64) {}
}

/// A part of an experiment that is measured at once.
pub struct Step<'a> {
    /// Its name, which no other step has.
    pub name: String,
    /// About how long it takes, compared with the others.
    pub weight: u64,
    run: Measurement<'a>,
}

type Measurement<'a> = Box<dyn FnOnce(&mut Rows<'_>) -> Result<()> + 'a>;

impl<'a> Step<'a> {
    /// A step in which `run` measures and writes rows.
    pub fn new(name: String, weight: u64, run: impl FnOnce(&mut Rows<'_>) -> Result<()> + 'a) -> Self {
        Self { name, weight, run: Box::new(run) }
    }
}

/// Runs the steps that are not done yet.
pub fn run_steps(record: &mut Record, steps: Vec<Step<'_>>, watch: &dyn Watch) -> Result<()> {
    let whole = steps.iter().map(|step| step.weight).sum();
    let done = steps.iter().filter(|step| record.is_done(&step.name)).map(|step| step.weight).sum();
    watch.begin(whole, done);
    for step in steps {
        if record.is_done(&step.name) {
            continue;
        }
        watch.step(&step.name);
        let sample = Sample::now();
        (step.run)(&mut Rows { record: &mut *record, watch, sample, load: None })?;
        record.finish(step.name)?;
        watch.done(step.weight);
    }
    Ok(())
}

/// The part of a run that a step sees.
pub struct Rows<'a> {
    record: &'a mut Record,
    watch: &'a dyn Watch,
    /// When the work for the next rows began.
    sample: Option<Sample>,
    /// The load during the work for the rows that are written now. Several rows are measured in turn and written
    /// together.
    load: Option<Load>,
}

impl Rows<'_> {
    /// Writes a row, unless an interrupted run has written it already within this step.
    pub fn write(&mut self, row: Row) -> Result<()> {
        let now = Sample::now();
        if let Some(load) = self.sample.zip(now).and_then(|(before, now)| before.load_until(&now)) {
            (self.load, self.sample) = (Some(load), now);
        }
        let is_run = row.why_not().is_none();
        let load = self.load.filter(|_| is_run);
        let row = Row { others: load.map(|load| load.others), steal: load.map(|load| load.steal), ..row };
        self.record.write(row.clone())?;
        self.watch.row(&row);
        Ok(())
    }

    pub(crate) fn write_all(&mut self, all: impl IntoIterator<Item = Row>) -> Result<()> {
        all.into_iter().try_for_each(|row| self.write(row))
    }

    /// Writes rows with the reason why nothing was measured.
    pub fn not_run(&mut self, all: impl IntoIterator<Item = Row>, why: &str) -> Result<()> {
        self.write_all(all.into_iter().map(|row| row.not_run(why)))
    }

    /// Writes rows with their times, compared with the median `over`, which has a name. If a device has failed, all
    /// rows get the reason instead. If nothing was tried, only the first row is written, with the reason, because the
    /// others are parts of it. Any other failure ends the run.
    pub fn measured<const N: usize>(
        &mut self,
        named: [Row; N],
        times: Result<[Times; N]>,
        over: Option<(&str, f64)>,
    ) -> Result<()> {
        let tried = if matches!(times, Err(Error::NotRun(_))) { 1 } else { N };
        if let Some(why) = times.as_ref().err().and_then(Error::of_device) {
            return self.not_run(named.into_iter().take(tried), &why);
        }
        let compared = |row: Row| match over {
            Some((name, median_s)) => row.compared(Over { name, median_s }, None),
            None => row,
        };
        self.write_all(named.into_iter().zip(times?).map(|(row, times)| compared(times.of(row))))
    }

    /// Writes a row of work on a device from host to host, and one of its kernels alone.
    pub(crate) fn with_kernels(
        &mut self,
        row: Row,
        times: Result<[Times; 2]>,
        over: Option<(&str, f64)>,
    ) -> Result<()> {
        let kernels = Row { measure: kernel_only(&row.measure), printed: Vec::new(), ..row.clone() };
        self.measured([row, kernels], times, over)
    }

    /// Writes a row with its value, or with the reason why it has none.
    pub fn valued(&mut self, row: Row, value: Result<f64>) -> Result<()> {
        match value.as_ref().map_err(Error::of_device) {
            Ok(value) => self.write(Row { value: Some(*value), ..row }),
            Err(Some(why)) => self.write(row.not_run(&why)),
            Err(None) => value.map(drop),
        }
    }

    /// Writes rows: the first one as it is, and the others compared with it. Returns the median of the first.
    pub fn beside_first(&mut self, all: impl IntoIterator<Item = Row>, name: &str) -> Result<Option<f64>> {
        let mut first = None;
        for row in all {
            let cores = processors(row.threads * row.processes.max(1));
            self.write(row.beside(&mut first, name, cores))?;
        }
        Ok(first)
    }

    /// All rows so far.
    pub fn all(&self) -> &[Row] {
        self.record.rows()
    }
}
