//! P1's tables.

use crate::names::sefps::{BASELINE, IN_MEMORY, MEANS, RATIO};
use crate::paper::{equations, p1};
use crate::report::section::{Cell, Section, Table, beside, gb_per_s, not_run, program};
use crate::report::text::{digits, percent};
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let mut sections = Vec::new();
    for operation in ["protect", "unprotect"] {
        let measures = [("total", "total speed"), ("AES", "AES speed"), ("hash", "hash speed"), (IN_MEMORY, "")];
        for (measure, printed) in measures {
            sections.extend(speeds(rows, operation, measure, printed));
        }
    }
    sections.push(speedups(rows));
    sections.push(ratios(rows));
    sections
}

fn speeds(rows: &[Row], operation: &str, measure: &str, printed: &'static str) -> Option<Section> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.operation == operation && row.measure == measure).collect();
    if rows.is_empty() {
        return None;
    }
    let title = format!("{operation}, {measure}: GB/s");
    let cells = rows.iter().flat_map(|row| beside(row, program(row), gb_per_s, printed));
    let text = match measure {
        "total" => "With reading and writing, from and to the page cache.",
        "AES" => {
            "Of Phalanx's format: AES-CTR in memory, since it does AES and hashing in one go. On gpu and hybrid with the copies to \
                  the device and back."
        }
        IN_MEMORY => {
            "Phalanx's format without files. hybrid by one queue, from which faster lanes take more, and by P1's fixed ratio \
             (Eq. 1), which gives the GPU its part beforehand."
        }
        _ => {
            "SEFPS has one stream of SHA3-256. Of Phalanx's format: the hashes of slices of 4 KiB, side by side, in memory."
        }
    };
    let text = text.to_owned() + &not_run(rows.iter().copied());
    Some(Section::new(title, text, Table::pivot("size", cells)))
}

/// The gain by the CPU's threads: Eqs. 5 and 6, over all files if there are averages.
fn speedups(rows: &[Row]) -> Section {
    let means: Vec<Row> = rows.iter().filter(|row| row.case == MEANS).cloned().collect();
    let rows = if means.is_empty() { rows } else { &means };
    let mut lines: Vec<Cell<'_>> = Vec::new();
    let names: Vec<String> =
        rows.iter().map(|row| format!("{}, {}, {}", row.case, row.operation, row.scheme)).collect();
    for (row, line) in rows.iter().zip(&names) {
        let mut cell = |column: &str, text: Option<String>| {
            lines.extend(text.map(|text| Cell { line, column: column.into(), text }));
        };
        let baseline = rows.iter().find(|base| {
            (&base.case, &base.operation, &base.measure) == (&row.case, &row.operation, &row.measure)
                && (base.scheme.as_str(), base.engine.as_str()) == (BASELINE, "serial")
        });
        let gain = baseline.zip(row.gb_per_s).and_then(|(base, speed)| Some(speed / base.gb_per_s?));
        let engine = row.engine.as_str();
        let equation = [("cpu", 6), ("gpu", 7), ("hybrid", 8)].into_iter().find(|(name, _)| *name == engine);
        if let Some((_, equation)) = equation {
            if row.measure == "total" {
                cell(&format!("{engine} over serial, total"), row.speedup.map(digits));
                cell("Amdahl's bound (Eq. 5)", row.amdahl.map(digits));
                cell(&format!("{engine} over the paper's serial program, total"), gain.map(digits));
            } else if row.measure == "AES" {
                cell(&format!("{engine} over serial, AES"), row.speedup.map(digits));
                cell(&format!("{engine}'s efficiency (Eq. {equation})"), row.efficiency.map(percent));
            }
        }
        for p in row.printed.iter().filter(|p| p.measure.ends_with("speedup") || p.measure.ends_with("efficiency")) {
            cell(&format!("*printed: {}, {}*", p.by, p.measure), Some(format!("*{} {}*", p.value, p.unit)));
        }
    }
    let text = "Eq. 6 divides by the cores of this machine that the threads can use, Eqs. 7 and 8 by what Eq. 1 makes of them and \
                the device.";
    let text = text.to_owned() + &not_run(rows);
    let title = "speedup and efficiency";
    Section::new(title, text, Table::pivot("file and program", lines))
}

/// Eq. 1 for the paper's platforms.
fn ratios(rows: &[Row]) -> Section {
    let p1 = p1();
    let line = |platform: &str| {
        let symbol = |symbol: &str| p1.parameter(symbol, Some(platform));
        let ratio = equations::ratio(symbol("Gmp")?, symbol("Ws")?, symbol("Gf")?, symbol("Cc")?, symbol("Cf")? * 1e3);
        Some(vec![format!("the paper's platform {platform}"), digits(ratio), percent(ratio / (ratio + 1.0))])
    };
    let here = rows.iter().filter(|row| row.measure == RATIO).map(|row| {
        let part = row.speedup.map(|ratio| percent(ratio / (ratio + 1.0)));
        vec![row.case.clone(), row.speedup.map_or("not run".into(), digits), part.unwrap_or_default()]
    });
    let lines = p1.platforms.iter().filter_map(|platform| line(&platform.id)).chain(here);
    let table = Table::of(["machine", "ratio (Eq. 1)", "part of the data for the GPU"], lines);
    Section::new(
        "what the hybrid program gives to the GPU",
        not_run(rows.iter().filter(|row| row.measure == RATIO)).trim_start(),
        table,
    )
}
