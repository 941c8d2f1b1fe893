//! P4's tables.

use crate::names::study::{ALL_CORES, KEYS, ONE_CORE, OURS, TABLES, measure, over_measure};
use crate::names::{KERNEL_ONLY, ahead, ciphertext, study};
use crate::report::answer::questions;
use crate::report::answer::questions::line_name;
use crate::report::section::{Cell, Section, Table, gb_per_s, not_run};
use crate::report::tables::mounts;
use crate::report::text::digits;
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let study: Vec<&Row> = rows.iter().filter(|row| row.operation == study::OPERATION).collect();
    let mut sections = Vec::new();
    if !study.is_empty() {
        sections.push(questions::section(&study));
        sections.extend(KEYS.into_iter().map(|bits| speeds(&study, bits)));
        sections.push(ratios(&study));
        sections.push(kernels(&study));
    }
    sections.push(statistics(rows));
    sections.push(pads(rows));
    sections.extend(mounts::sections(rows));
    sections.retain(|section| !section.table.rows.is_empty());
    sections
}

fn speeds(rows: &[&Row], bits: u64) -> Section {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.measure == measure(bits)).collect();
    let title = format!("{} in memory: GB/s by size", measure(bits));
    let mut cells = Vec::new();
    for row in &rows {
        let text = gb_per_s(row).unwrap_or_else(|| "not run".into());
        cells.push(Cell { line: &row.case, column: line_name(row), text });
    }
    let text = "Keys are expanded before. On gpu from host memory to host memory; several streams (4, or one for each part) divide the data. Threads are \
                started before, and each has its part of the data.";
    let text = text.to_owned() + &not_run(rows.iter().copied()) + &notes(&rows);
    Section::new(title, text, Table::pivot("size", cells))
}

/// What is to know of the rows that were run.
fn notes(rows: &[&Row]) -> String {
    let mut notes: Vec<&str> = Vec::new();
    for note in rows.iter().filter(|row| row.why_not().is_none()).filter_map(|row| row.note.as_deref()) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes.iter().map(|note| format!(" gpu: {note}.")).collect()
}

/// The device beside the CPU's cores, with the paper's figures.
fn ratios(rows: &[&Row]) -> Section {
    let mut cells = Vec::new();
    let lines: Vec<String> =
        KEYS.iter().flat_map(|bits| rows.iter().map(move |row| format!("AES-{bits}, {}", row.case))).collect();
    let mut all = Vec::new();
    for (bits, key_lines) in KEYS.into_iter().zip(lines.chunks(rows.len())) {
        for (row, line) in rows.iter().zip(key_lines) {
            for over in [ONE_CORE, ALL_CORES] {
                if row.measure != over_measure(bits, over) {
                    continue;
                }
                all.push(*row);
                let text = row.speedup.map_or_else(|| "not run".into(), digits);
                cells.push(Cell { line, column: format!("{}: gpu over {over}", row.scheme), text });
                for p in &row.printed {
                    cells.push(Cell {
                        line,
                        column: format!("*printed: gpu over {over}*"),
                        text: format!("*{}*", p.value),
                    });
                }
            }
        }
    }
    let text = format!(
        "Each is compared with the same kind of AES on the CPU. {TABLES} on gpu have 32 bytes a thread, the paper's fastest \
         program. {OURS}: AES instructions on the CPU, bit planes on the GPU.{}",
        notes(&all)
    );
    let text = text + &not_run(all);
    Section::new("GPU over CPU", text, Table::pivot("key and size", cells))
}

fn kernels(rows: &[&Row]) -> Section {
    let is_kernel = |row: &&&Row| row.measure.ends_with(KERNEL_ONLY) && row.median_s.is_some();
    let rows: Vec<&Row> = rows.iter().filter(is_kernel).copied().collect();
    let name = |row: &Row| format!("{}, {}", row.measure.trim_end_matches(KERNEL_ONLY), row.scheme);
    let cells =
        rows.iter().map(|row| Cell { line: &row.case, column: name(row), text: gb_per_s(row).unwrap_or_default() });
    let text = "By the device's own clock, without the copies.".to_owned() + &notes(&rows);
    Section::new("kernels alone: GB/s", text, Table::pivot("size", cells))
}

/// Statistics of ciphertext.
fn statistics(rows: &[Row]) -> Section {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.operation == ciphertext::OPERATION).collect();
    let lines: Vec<String> = rows.iter().map(|row| format!("{}: {}", row.case, row.measure)).collect();
    let (mut cells, mut ideals) = (Vec::new(), Vec::new());
    for (row, line) in rows.iter().zip(&lines) {
        let text = |value: Option<f64>| value.map_or_else(|| "none".into(), precise);
        cells.push(Cell { line, column: row.scheme.clone(), text: text(row.value) });
        ideals.push(Cell { line, column: "random bytes have".into(), text: text(row.ideal) });
    }
    cells.extend(ideals);
    let is_even = |row: &&&Row| row.scheme == ciphertext::CIPHERTEXT && row.measure.starts_with("histogram");
    let even: Vec<f64> = rows.iter().filter(is_even).filter_map(|row| row.value).collect();
    let below = even.iter().filter(|value| **value <= ciphertext::CHI_SQUARE_MOST).count();
    let text = format!(
        "The second ciphertext is that of a plaintext that differs in one bit of one byte. The chi-square of {below} of {} \
         ciphertexts is at most {}, which random bytes exceed in one case of a hundred. Such statistics can show that a cipher \
         is broken, as the same nonce twice shows here in NPCR, but never that it is sound: a generator whose key anybody can \
         compute passes them all, and under new nonces NPCR and UACI compare two keystreams and say nothing about the \
         plaintexts.",
        even.len(),
        ciphertext::CHI_SQUARE_MOST
    );
    let title = "what ciphertext looks like";
    Section::new(title, text, Table::pivot("what", cells))
}

fn precise(value: f64) -> String {
    match value.abs() {
        n if n >= 100.0 => format!("{value:.1}"),
        n if n >= 0.01 => format!("{value:.4}"),
        n if n >= 0.0001 => format!("{value:.6}"),
        _ => digits(value),
    }
}

/// Keystream made ahead.
fn pads(rows: &[Row]) -> Section {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.operation == ahead::OPERATION).collect();
    let micros = |row: &Row| row.median_s.map(|s| digits(s * 1e6)).unwrap_or_default();
    let cells = rows.iter().map(|row| Cell {
        line: &row.case,
        column: format!("{}, {}: µs", row.scheme, row.measure),
        text: micros(row),
    });
    let title = "keystream made ahead (the paper's pad, as AES-CTR)";
    let text = questions::pads(&rows);
    Section::new(title, text, Table::pivot("write", cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_statistics_has_all_rows_and_the_ideal() {
        let row = |scheme: &str, measure: &str, value: f64| Row {
            operation: ciphertext::OPERATION.into(),
            case: "text".into(),
            scheme: scheme.into(),
            measure: measure.into(),
            value: Some(value),
            ideal: Some(255.0),
            ..Row::default()
        };
        let rows = [
            row(ciphertext::PLAINTEXT, "histogram: chi-square", 9e6),
            row(ciphertext::CIPHERTEXT, "histogram: chi-square", 320.0),
        ];
        let section = statistics(&rows);
        assert_eq!(section.table.rows, [["text: histogram: chi-square", "9000000.0", "320.0", "255.0"]]);
        assert!(section.text.contains("of 0 of 1 ciphertexts"), "{}", section.text);
        assert!(statistics(&[]).table.rows.is_empty());
    }
}
