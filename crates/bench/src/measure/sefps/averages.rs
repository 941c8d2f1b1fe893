//! The means over the sizes that the paper averages over.

use crate::names::sefps::{BASELINE, EXPERIMENT, MEANS, SERIAL, ours};
use crate::paper::p1;
use crate::row::Row;

/// The smallest and the largest of the sizes, in bytes.
const SIZES: [u64; 2] = [12_500_000, 598_000_000];

/// One row for each program, operation and measure, of speeds without times.
pub fn of(rows: &[Row]) -> Vec<Row> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows.iter().filter(|row| row.experiment == EXPERIMENT && (SIZES[0]..=SIZES[1]).contains(&row.bytes)) {
        match groups.iter_mut().find(|group| what(group[0]) == what(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let mut averages: Vec<Row> = Vec::new();
    for group in groups {
        let mut average = named_as(group[0]);
        let speeds: Option<Vec<f64>> = group.iter().map(|row| row.gb_per_s).collect();
        let Some(speeds) = speeds else {
            average.note = group.iter().find(|row| row.gb_per_s.is_none()).and_then(|row| row.note.clone());
            averages.push(average);
            continue;
        };
        average.gb_per_s = Some(mean(&speeds));
        average.note = Some(format!("the mean of {} files", speeds.len()));
        let bounds: Option<Vec<f64>> = group.iter().map(|row| row.amdahl).collect();
        average.amdahl = bounds.map(|bounds| mean(&bounds));
        let is_serial = |row: &&Row| {
            let same = |row: &Row| (row.operation.clone(), row.measure.clone(), row.scheme.clone());
            row.engine == SERIAL && same(row) == same(&average)
        };
        if average.engine != SERIAL
            && let Some(serial) = averages.iter().find(is_serial)
        {
            average.speedup = average.gb_per_s.zip(serial.gb_per_s).map(|(speed, serial)| speed / serial);
            average.over = Some(SERIAL.into());
            // The divisors of the equations are the same for all files.
            let of_one = group[0].speedup.zip(group[0].efficiency).map(|(speedup, efficiency)| speedup / efficiency);
            average.efficiency = average.speedup.zip(of_one).map(|(speedup, processors)| speedup / processors);
        }
        averages.push(average);
    }
    averages
}

fn what(row: &Row) -> (&str, &str, &str, &str, usize) {
    (&row.operation, &row.measure, &row.scheme, &row.engine, row.threads)
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
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
