//! P5's tables.

use crate::names::KERNEL_ONLY;
use crate::names::keys::ENERGY;
use crate::report::section::{Cell, Section, Table, beside, milliseconds, not_run, program};
use crate::report::text::digits;
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let of = |operation: &str| rows.iter().filter(|row| row.operation == operation).collect::<Vec<_>>();
    let (mut encrypt, find) = (of("encrypt"), of("find key"));
    let energy: Vec<&Row> = encrypt.extract_if(.., |row| row.measure == ENERGY).collect();
    let mut sections = Vec::new();
    if !encrypt.is_empty() {
        let title = "key digest and encryption: ms";
        let text = "In memory, key schedule included. KB, MB and GB are powers of 1024 here, as in the paper. gpu: digest and \
                    encryption on the device; hybrid: the digest on the CPU (the paper's CPU-GPU mode); as printed with 64 \
                    threads a block and 16 bytes a thread. Copies both ways are included.";
        sections.push(section(title, text, &encrypt, "size", 1e3));
    }
    if !find.is_empty() {
        let title = "finding one key by its digest: µs";
        let text = "The key sought is the last that is looked at. The paper prints no figures for this. On gpu the keys go to \
                    the device, and all their digests come back.";
        sections.push(section(title, text, &find, "keys held", 1e6));
    }
    if !energy.is_empty() {
        let line = |row: &&Row| {
            let value = row.value.map_or_else(|| "not run".into(), digits);
            vec![row.case.clone(), program(row), value]
        };
        let table = Table::of(["what", "program", "nJ a byte"], energy.iter().map(line));
        let text = "Of all processor packages, by their own counters (RAPL); on gpu, of the device alone, by its own counter (NVML). The paper has no figure for this, only the plan.";
        let text = text.to_owned() + &not_run(energy.iter().copied());
        sections.push(Section::new("energy", text, table));
    }
    sections.extend(varied(&encrypt));
    sections.extend(kernels(rows));
    sections
}

fn section(title: &str, text: &str, rows: &[&Row], x: &str, scale: f64) -> Section {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| !is_kernel_only(row) && !is_varied(row)).collect();
    let figures = |row: &Row| row.median_s.map(|s| digits(s * scale));
    let cells = rows.iter().flat_map(|row| beside(row, program(row), figures, "time"));
    let text = text.to_owned() + &not_run(rows.iter().copied());
    Section::new(title, text, Table::pivot(x, cells))
}

fn is_kernel_only(row: &Row) -> bool {
    row.measure.ends_with(KERNEL_ONLY)
}

/// Whether it has other threads per block or bytes per thread than the paper's Table I.
fn is_varied(row: &Row) -> bool {
    row.scheme.ends_with(" threads a block") || row.scheme.ends_with(" bytes a thread")
}

/// P5's Table II, and the effect of granularity.
fn varied(rows: &[&Row]) -> Option<Section> {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| is_varied(row)).collect();
    let lines: Vec<String> = rows.iter().map(|row| program(row)).collect();
    let mut cells = Vec::new();
    for (row, line) in rows.iter().zip(&lines).filter(|(row, _)| !is_kernel_only(row)) {
        let text = milliseconds(row).unwrap_or_else(|| "not run".into());
        cells.push(Cell { line, column: format!("{}: ms", row.case), text });
        for p in row.printed.iter().filter(|p| p.measure == "time") {
            cells.push(Cell { line, column: format!("*{}, printed: ms*", row.case), text: format!("*{}*", p.value) });
        }
    }
    let title = "threads a block, and bytes a thread".to_owned();
    let text = not_run(rows.iter().copied());
    (!cells.is_empty()).then(|| Section::new(title, text, Table::pivot("way", cells)))
}

/// The part of that time that the device's kernels take, by its own clock.
fn kernels(rows: &[Row]) -> Option<Section> {
    let rows: Vec<&Row> = rows.iter().filter(|row| is_kernel_only(row) && row.median_s.is_some()).collect();
    let lines: Vec<String> = rows.iter().map(|row| program(row)).collect();
    let cells = rows.iter().zip(&lines).map(|(row, line)| Cell {
        line,
        column: row.case.clone(),
        text: milliseconds(row).unwrap_or_default(),
    });
    let cells: Vec<Cell<'_>> = cells.collect();
    let title = "the device's kernels alone: ms".to_owned();
    (!cells.is_empty()).then(|| Section::new(title, String::new(), Table::pivot("way", cells)))
}
