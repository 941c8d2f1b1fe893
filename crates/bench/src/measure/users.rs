//! P2: the data of 5 to 10,000 users, each under its own key, by the paper's schemes and by sealing in batches; the
//! project's requirements for batches; and messages that arrive one by one.

pub mod bare;
mod bars;
mod batches;
pub(crate) mod data;
mod device;
mod flow;
pub(crate) mod workload;

use crate::measure::averages::averages;
use crate::measure::scratch;
use crate::measure::{Result, Row, Rows, Setup, Step, row_of};
use crate::names::kernel_only;
use crate::names::users::{AVERAGES, EXPERIMENT, PRINTED, SPEEDUP};
use crate::paper::{Printed, p2};
use bare::{Cpu, Kind};
use data::{Data, Scheme, take_turns};
use phalanx_core::Suite;
use workload::{SEED, Shape};

/// The numbers of users. The paper prints the first and the last, and shows the others only in its charts.
const USERS: [usize; 11] = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];
const QUICK: [usize; 3] = [5, 200, 1000];

/// What is done with the users' data: only AES in counter mode, or sealing messages as they are stored.
struct Work {
    name: &'static str,
    key_len: usize,
    suite: Option<Suite>,
}

impl Work {
    fn all() -> impl Iterator<Item = Self> {
        let bare = [(PRINTED, 16), ("AES-256-CTR", 32)].map(|(name, key_len)| Self { name, key_len, suite: None });
        let sealed = [Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake, Suite::Aes256Gcm].map(|suite| Self {
            name: suite.name(),
            key_len: suite.key_len(),
            suite: Some(suite),
        });
        bare.into_iter().chain(sealed)
    }

    /// All schemes. One thread alone comes first, because the others are compared with it.
    fn schemes(&self, setup: &Setup) -> Vec<Scheme> {
        let Setup { threads, levels, .. } = *setup;
        let Some(suite) = self.suite else {
            let kinds = [(Kind::Sr, 1), (Kind::Ccs, threads), (Kind::Ccns, threads), (Kind::Cnc, threads)];
            let scheme = |(kind, threads)| Scheme::bare(Cpu { kind, threads, level: levels.aes }, self.key_len);
            return kinds.map(scheme).into();
        };
        let more = (threads > 1).then_some(threads);
        [1].into_iter().chain(more).map(|threads| Scheme::batch(suite, threads, levels)).collect()
    }
}

/// The steps: one for each number of users and shape of their data, and those of the requirements and of the flow.
pub fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    let users = if setup.quick { &QUICK[..] } else { &USERS };
    let mut steps = Vec::new();
    for shape in [Shape::Regular, Shape::Irregular] {
        for users in users {
            let lengths = workload::lengths(*users, shape, SEED);
            let bytes: usize = lengths.iter().sum();
            // Besides the data, each user needs a key and what describes it to each call.
            scratch::require_memory((bytes + users * 512) as u64)?;
            let name = format!("{EXPERIMENT} {}", workload::case(*users, shape));
            let weight = 1_000_000 + (bytes / 100) as u64;
            steps.push(Step::new(name, weight, move |rows| one_count(setup, shape, &lengths, rows)));
        }
        let name = format!("{EXPERIMENT} averages {}", shape.name());
        steps.push(Step::new(name, 1, move |rows| rows.write_all(means(rows.all(), shape))));
    }
    steps.extend(bars::steps(setup)?);
    steps.push(flow::step(setup)?);
    Ok(steps)
}

/// The number of times to take. The paper has 100.
fn rounds(setup: &Setup) -> usize {
    if setup.quick { 3 } else { 5 }
}

/// Measures all schemes in turn, one kind of work after another.
fn one_count(setup: &Setup, shape: Shape, lengths: &[usize], rows: &mut Rows<'_>) -> Result<()> {
    let bytes = lengths.iter().sum::<usize>() as u64;
    for work in Work::all() {
        let operation = if work.suite.is_some() { "seal" } else { "encrypt" };
        let row = |scheme: &str, engine: &str, threads: usize| {
            row_of(
                EXPERIMENT,
                workload::case(lengths.len(), shape),
                [operation, work.name, scheme, engine],
                [bytes, lengths.len() as u64],
                threads,
            )
        };
        let mut data = Data::new(lengths.to_vec(), work.suite.map_or(0, Suite::overhead));
        let all = take_turns(&mut data, &work.schemes(setup), rounds(setup), row)?;
        let one = rows.beside_first(all, "1 thread")?;
        match work.suite {
            None => device::one_count(setup, &data, work.key_len, one, |scheme| row(scheme, "gpu", 0), rows)?,
            // Only the CPU's engine has AES-GCM.
            Some(Suite::Aes256Gcm) => {}
            Some(suite) => {
                let row = |engine: &str, threads| row(data::BATCH, engine, threads);
                batches::one_count(setup, suite, &mut data, one, row, rows)?;
            }
        }
    }
    Ok(())
}

/// A row for each scheme with the mean of the speeds at all numbers of users. This is what the paper prints.
fn means(rows: &[Row], shape: Shape) -> Vec<Row> {
    let suffix = format!(" users, {}", shape.name());
    let is_count = |row: &&Row| row.experiment == EXPERIMENT && row.case == format!("{}{suffix}", row.items);
    let is_swept =
        |row: &&Row| Work::all().any(|work| row.measure == work.name || row.measure == kernel_only(work.name));
    let case = format!("{AVERAGES}, {}", shape.name());
    let named = |row: &Row| Row {
        threads: row.threads,
        printed: if row.measure == PRINTED { printed(&row.scheme, shape) } else { Vec::new() },
        ..Row::of(EXPERIMENT, &case, [&row.operation, &row.measure, &row.scheme, &row.engine])
    };
    let note = |group: &[&Row]| {
        format!("of {} to {} users, {} numbers", group[0].items, group[group.len() - 1].items, group.len())
    };
    let is_base = |base: &Row, average: &Row| base.measure == average.measure && base.threads == 1;
    let rows = rows.iter().filter(is_count).filter(is_swept);
    averages(rows, named, note, is_base, "1 thread").into_iter().map(|(average, _)| average).collect()
}

/// The paper's mean speeds, and its speedups over one CPU thread.
fn printed(scheme: &str, shape: Shape) -> Vec<Printed> {
    p2().printed(|v| {
        v.experiment == EXPERIMENT
            && v.program.as_deref() == Some(device::printed_name(scheme))
            && v.case.data.as_deref() == Some(shape.name())
            && (v.measure == "AES speed" || (v.measure == SPEEDUP && v.over.as_deref() == Some("SR")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(users: u64, scheme: &str, threads: usize, seconds: &[f64]) -> Row {
        let row = Row {
            bytes: 1_000_000_000,
            items: users,
            threads,
            ..Row::of(EXPERIMENT, workload::case(users as usize, Shape::Regular), ["encrypt", PRINTED, scheme, "cpu"])
        };
        if seconds.is_empty() { row.not_run("no device") } else { row.timed(seconds.to_vec()) }
    }

    /// Several engines with the same number of threads have one name.
    #[test]
    fn averages_are_of_one_engine() {
        let rows: Vec<Row> = [5, 10]
            .into_iter()
            .flat_map(|users| {
                let sealed = |engine: &str, threads, seconds| Row {
                    engine: engine.into(),
                    measure: Suite::Aes256CtrSha3.name().into(),
                    ..row(users, data::BATCH, threads, &[seconds])
                };
                [sealed("serial", 1, 1.0), sealed("cpu", 2, 0.5), sealed("gpu", 0, 0.25), sealed("hybrid", 2, 0.2)]
            })
            .collect();
        let averages = means(&rows, Shape::Regular);
        let found: Vec<_> = averages.iter().map(|row| (row.engine.as_str(), row.speedup.map(f64::round))).collect();
        assert_eq!(found, [("serial", None), ("cpu", Some(2.0)), ("gpu", Some(4.0)), ("hybrid", Some(5.0))]);
        assert!(averages.iter().all(|row| row.printed.is_empty()), "{averages:?}");
    }

    #[test]
    fn averages_are_of_one_shape_and_have_the_papers_figures() {
        let rows = [
            row(5, "SR", 1, &[1.0]),
            row(5, "CCS", 2, &[0.5]),
            row(5, "GCS", 0, &[]),
            row(10, "SR", 1, &[1.0 / 3.0]),
            row(10, "CCS", 2, &[0.25]),
            row(10, "GCS", 0, &[]),
            Row { case: workload::case(10, Shape::Irregular), ..row(10, "CCS", 2, &[1e-9]) },
            Row { measure: "another".into(), ..row(10, "CCS", 2, &[1e-9]) },
        ];
        let averages = means(&rows, Shape::Regular);
        let [serial, ccs, gcs] = &averages[..] else { panic!("{averages:?}") };
        assert!((serial.gb_per_s.unwrap() - 2.0).abs() < 1e-9 && serial.speedup.is_none(), "{serial:?}");
        assert!((ccs.gb_per_s.unwrap() - 3.0).abs() < 1e-9 && (ccs.speedup.unwrap() - 1.5).abs() < 1e-9, "{ccs:?}");
        assert_eq!((gcs.gb_per_s, gcs.note.as_deref()), (None, Some("not run: no device")));
        // There are both of the paper's platforms. GCS also has speedups, for regular data.
        assert_eq!(averages.iter().map(|row| row.printed.len()).collect::<Vec<_>>(), [2, 2, 4]);
        let speedups = gcs.printed.iter().filter(|p| p.measure == SPEEDUP);
        assert_eq!(speedups.map(|p| (p.value, p.unit.as_str())).collect::<Vec<_>>(), [(7.15, "x"), (54.90, "x")]);
        assert_eq!(printed("GCS", Shape::Irregular).len(), 2);
        assert_eq!((ccs.printed[0].value, ccs.printed[0].unit.as_str()), (0.172115, "GB/s"));
    }

    #[test]
    fn the_numbers_of_users_reach_from_the_papers_first_to_its_last() {
        let sweep = p2().sweep("users", "users_range");
        assert_eq!((USERS[0] as u64, USERS[USERS.len() - 1] as u64), (sweep[0].1, sweep[1].1));
        assert!(USERS.is_sorted() && QUICK.iter().all(|users| USERS.contains(users)));
    }
}
