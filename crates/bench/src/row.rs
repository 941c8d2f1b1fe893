//! The row type: a measured figure with the printed ones.
#![allow(missing_docs, reason = "some fields say what they are")]

use crate::paper::Printed;
use serde::{Deserialize, Serialize};

/// If more than this part of the machine was busy with other work, a row counts as measured on a busy machine.
pub const BUSY: f64 = 0.2;
/// The subjects of rows.
pub const EXPERIMENTS: [&str; 8] = ["sefps", "users", "hpc", "volume", "keys", "peers", "service", "gpu"];

/// A measured figure, or the reason why it is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// `sefps`, `users`, `hpc`, `volume`, `keys`, `peers` or `service`.
    pub experiment: String,
    /// The input, in words: "598 MB", "100000 keys".
    pub case: String,
    /// What was done: `protect`, `unprotect`, `encrypt`, `seal` or `find key`.
    pub operation: String,
    /// What the times measure: `total`, `AES`, `hash` and so on.
    pub measure: String,
    pub scheme: String,
    /// `serial`, `cpu`, `gpu`, `hybrid`, `command` for a whole process, `mount` for work in a folder, `cluster` for a
    /// whole job of MPI, `java` for a program in Java and what stands beside it, or `server` for a server and what stands
    /// beside it.
    pub engine: String,
    /// The plaintext's length in bytes.
    pub bytes: u64,
    /// The number of files, users, messages or keys.
    pub items: u64,
    /// The number of processes of a job of MPI, or 0 if it is none.
    #[serde(default)]
    pub processes: usize,
    /// The number of threads (of each process, in a job of MPI), or 0 if the program decides.
    pub threads: usize,
    /// Each time in seconds, in the order of measuring.
    pub seconds: Vec<f64>,
    /// The number of consecutive runs for each time, which is their mean.
    pub runs_per_time: u64,
    pub median_s: Option<f64>,
    /// `bytes` / median, in GB/s (10^9 bytes a second).
    pub gb_per_s: Option<f64>,
    /// The speedup over `over`, by the medians.
    pub speedup: Option<f64>,
    /// The row with which the speedup compares, in words.
    pub over: Option<String>,
    /// Speedup / processors. The processors are the threads, but no more than the machine has.
    pub efficiency: Option<f64>,
    /// P1's Eq. 5 for this row's threads.
    pub amdahl: Option<f64>,
    /// The largest resident memory of the process in KiB.
    pub peak_kib: Option<u64>,
    /// A figure that is neither a time nor a speed. `measure` names it.
    #[serde(default)]
    pub value: Option<f64>,
    /// The value that the same figure has, on average, for random bytes.
    #[serde(default)]
    pub ideal: Option<f64>,
    pub bar: Option<Bar>,
    pub printed: Vec<Printed>,
    /// The reason why there are no times, or other remarks.
    pub note: Option<String>,
    /// The part of the machine that other work took meanwhile: 1 is all cores. Older runs did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// The part of the machine that its host took meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
}

/// A requirement for a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// The requirement in words: "speedup at least 2.2".
    pub asked: String,
    /// Whether it was met. This is unknown after a quick run, whose inputs are not those of the requirement.
    pub reached: Option<bool>,
}

/// The row with which a row's times are compared.
pub struct Over<'a> {
    pub name: &'a str,
    pub median_s: f64,
}

impl Row {
    /// A row of an experiment: its input, and what was done, what the times measure, by which program, and where it
    /// ran.
    pub fn of(experiment: &str, case: impl Into<String>, names: [&str; 4]) -> Self {
        let [operation, measure, scheme, engine] = names.map(String::from);
        Self { experiment: experiment.into(), case: case.into(), operation, measure, scheme, engine, ..Self::default() }
    }

    /// Sets the times, and computes median and throughput.
    pub fn timed(mut self, seconds: Vec<f64>) -> Self {
        self.median_s = median(&seconds);
        self.gb_per_s = self.median_s.filter(|m| *m > 0.0 && self.bytes > 0).map(|m| self.bytes as f64 / m / 1e9);
        self.runs_per_time = self.runs_per_time.max(1);
        self.seconds = seconds;
        self
    }

    /// Computes the speedup and, on request, the efficiency.
    pub fn compared(mut self, over: Over<'_>, processors: Option<usize>) -> Self {
        self.speedup = self.median_s.filter(|m| *m > 0.0).map(|m| over.median_s / m);
        self.over = Some(over.name.into());
        self.efficiency = self.speedup.zip(processors).map(|(s, n)| s / n as f64);
        self
    }

    /// Compares the row with the first of several rows. `first` keeps the median of that row.
    pub fn beside(self, first: &mut Option<f64>, name: &str, processors: usize) -> Self {
        match *first {
            Some(median_s) => self.compared(Over { name, median_s }, Some(processors)),
            None => {
                *first = self.median_s;
                self
            }
        }
    }

    /// Sets the reason why there are no times.
    pub fn not_run(mut self, why: &str) -> Self {
        self.note = Some(format!("not run: {why}"));
        self
    }

    /// The reason why there are no times.
    pub fn why_not(&self) -> Option<&str> {
        self.note.as_deref()?.strip_prefix("not run: ")
    }

    /// Whether so much of the machine was busy with other work that the figure is not reliable.
    pub fn is_noisy(&self) -> bool {
        self.others.unwrap_or(0.0) + self.steal.unwrap_or(0.0) > BUSY
    }

    /// A mark for figures that were measured on a busy machine.
    pub fn mark(&self) -> &'static str {
        if self.is_noisy() { " (busy)" } else { "" }
    }

    /// The identity of the row within a run.
    pub fn key(&self) -> (&str, &str, &str, &str, &str, &str, usize, usize) {
        let Row { experiment, case, operation, measure, scheme, engine, processes, threads, .. } = self;
        (experiment, case, operation, measure, scheme, engine, *processes, *threads)
    }

    /// The columns of the CSV form, and the row in it. Several values in one field are separated by semicolons.
    pub fn fields(&self) -> [(&'static str, String); 27] {
        let number = |n: Option<f64>| n.map(|n| n.to_string()).unwrap_or_default();
        let printed = |p: &Printed| format!("{}, {}: {} {} ({})", p.by, p.measure, p.value, p.unit, p.r#where);
        let corrected = |p: &Printed| {
            let as_printed = p.as_printed.as_ref().map(|a| format!("printed {a}. "));
            let reasons = p.why.join(" ");
            Some(format!("{}{reasons}", as_printed.unwrap_or_default())).filter(|text| !text.is_empty())
        };
        let mut corrections: Vec<String> = self.printed.iter().filter_map(corrected).collect();
        corrections.dedup();
        [
            ("experiment", self.experiment.clone()),
            ("case", self.case.clone()),
            ("operation", self.operation.clone()),
            ("measure", self.measure.clone()),
            ("scheme", self.scheme.clone()),
            ("engine", self.engine.clone()),
            ("bytes", self.bytes.to_string()),
            ("items", self.items.to_string()),
            ("processes", self.processes.to_string()),
            ("threads", self.threads.to_string()),
            ("seconds", join(self.seconds.iter().map(f64::to_string))),
            ("runs_per_time", self.runs_per_time.to_string()),
            ("median_s", number(self.median_s)),
            ("gb_per_s", number(self.gb_per_s)),
            ("speedup", number(self.speedup)),
            ("over", self.over.clone().unwrap_or_default()),
            ("efficiency", number(self.efficiency)),
            ("amdahl", number(self.amdahl)),
            ("peak_kib", self.peak_kib.map(|n| n.to_string()).unwrap_or_default()),
            ("value", number(self.value)),
            ("ideal", number(self.ideal)),
            ("bar", self.bar.as_ref().map(|b| format!("{}: {}", b.asked, b.verdict())).unwrap_or_default()),
            ("printed", join(self.printed.iter().map(printed))),
            ("printed_corrections", join(corrections.into_iter())),
            ("note", self.note.clone().unwrap_or_default()),
            ("others", number(self.others)),
            ("steal", number(self.steal)),
        ]
    }
}

impl Bar {
    pub fn verdict(&self) -> &'static str {
        match self.reached {
            Some(true) => "reached",
            Some(false) => "missed",
            None => "not judged: a quick run",
        }
    }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}

/// The median. If the number of values is even, the mean of the middle two.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn computed_figures_follow_from_the_times() {
        let over = Over { name: "one thread", median_s: 2.0 };
        let row = Row { bytes: 2_000_000_000, ..Row::default() }.timed(vec![1.5, 0.5, 1.0]).compared(over, Some(4));
        assert_eq!((row.median_s, row.gb_per_s), (Some(1.0), Some(2.0)));
        assert_eq!((row.speedup, row.efficiency), (Some(2.0), Some(0.5)));
        let row = Row::default().not_run("no device");
        assert_eq!((row.median_s, row.note.as_deref()), (None, Some("not run: no device")));
    }
}
