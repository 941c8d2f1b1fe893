//! The means over the sizes that the paper averages over.

use crate::measure::Row;
use crate::measure::averages::{averages, mean};
use crate::names::sefps::{BASELINE, EXPERIMENT, MEANS, SERIAL, ours};
use crate::paper::p1;

/// The smallest and the largest of the sizes, in bytes.
const SIZES: [u64; 2] = [12_500_000, 598_000_000];

/// One row for each program, operation and measure, of speeds without times.
pub fn of(rows: &[Row]) -> Vec<Row> {
    let is_of = |row: &&Row| row.experiment == EXPERIMENT && (SIZES[0]..=SIZES[1]).contains(&row.bytes);
    let note = |group: &[&Row]| format!("the mean of {} files", group.len());
    let is_serial = |base: &Row, row: &Row| {
        let same = |row: &Row| (row.operation.clone(), row.measure.clone(), row.scheme.clone());
        base.engine == SERIAL && row.engine != SERIAL && same(base) == same(row)
    };
    let averages = averages(rows.iter().filter(is_of), named_as, note, is_serial, SERIAL);
    let finish = |(average, group): (Row, Vec<&Row>)| {
        // The divisors of the equations are the same for all files.
        let processors = group[0].speedup.zip(group[0].efficiency).map(|(speedup, efficiency)| speedup / efficiency);
        let efficiency = average.speedup.zip(processors).map(|(speedup, processors)| speedup / processors);
        let amdahl = average.gb_per_s.and_then(|_| mean(group.iter().map(|row| row.amdahl)));
        Row { efficiency, amdahl, ..average }
    };
    averages.into_iter().map(finish).collect()
}

/// The names of the average, and the printed figures for it.
fn named_as(row: &Row) -> Row {
    let belongs = |of: &str| ["speed", "speedup", "efficiency"].iter().any(|m| *of == format!("{} {m}", row.measure));
    let printed = p1().printed(|v| {
        // These two are printed for all files at once.
        let is_of_all = v.measure == "hash speed" || v.measure == "AES efficiency";
        let of_all = v.case.bytes_range == Some(SIZES) || is_of_all;
        v.experiment == row.operation && v.engine.as_ref() == Some(&row.engine) && belongs(&v.measure) && of_all
    });
    let is_sefps = row.scheme == BASELINE || row.scheme == ours(128);
    Row {
        threads: row.threads,
        printed: if is_sefps { printed } else { Vec::new() },
        ..Row::of(EXPERIMENT, MEANS, [&row.operation, &row.measure, &row.scheme, &row.engine])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: u64, engine: &str, measure: &str, seconds: &[f64]) -> Row {
        let row = Row {
            bytes,
            threads: 1,
            speedup: (engine == "cpu").then_some(3.0),
            efficiency: (engine == "cpu").then_some(0.75),
            amdahl: (engine == "cpu").then_some(bytes as f64 / 1e8),
            ..Row::of(EXPERIMENT, format!("{bytes} bytes"), ["protect", measure, BASELINE, engine])
        };
        if seconds.is_empty() { row.not_run("no device") } else { row.timed(seconds.to_vec()) }
    }

    #[test]
    fn speeds_are_averaged_over_the_papers_sizes_and_no_others() {
        let rows = [
            row(2_210_000, SERIAL, "AES", &[1e-9]),
            row(100_000_000, SERIAL, "AES", &[1.0]),
            row(100_000_000, "cpu", "AES", &[0.5]),
            row(100_000_000, "gpu", "AES", &[]),
            row(300_000_000, SERIAL, "AES", &[1.0]),
            row(300_000_000, "cpu", "AES", &[0.5]),
            row(598_000_001, SERIAL, "AES", &[1e-9]),
        ];
        let averages = of(&rows);
        let [serial, cpu, gpu] = &averages[..] else { panic!("{averages:?}") };
        assert!(averages.iter().all(|row| row.case == MEANS && row.seconds.is_empty()));
        assert_eq!((serial.gb_per_s, serial.speedup), (Some(0.2), None));
        assert_eq!((cpu.gb_per_s, cpu.speedup, cpu.efficiency), (Some(0.4), Some(2.0), Some(0.5)));
        assert_eq!(cpu.amdahl, Some(2.0));
        assert_eq!((gpu.gb_per_s, gpu.note.as_deref()), (None, Some("not run: no device")));
        // Speeds of both platforms, their speedups and efficiencies.
        let printed = |row: &Row, measure: &str| row.printed.iter().filter(|p| p.measure == measure).count();
        assert_eq!((printed(serial, "AES speed"), printed(serial, "AES speedup")), (2, 0));
        assert_eq!((printed(cpu, "AES speed"), printed(cpu, "AES speedup"), printed(cpu, "AES efficiency")), (2, 2, 2));
    }
}
