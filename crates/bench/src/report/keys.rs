//! P5's tables and figures.

use super::{Figure, Section, Table, beside, digits, milliseconds, not_run};
use crate::device::KERNEL_ONLY;
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let of = |operation: &str| rows.iter().filter(|row| row.operation == operation).collect::<Vec<_>>();
    let (encrypt, find) = (of("encrypt"), of("find key"));
    let mut sections = Vec::new();
    if !encrypt.is_empty() {
        let title = "key digest and encryption: ms";
        let figure = figure("keys-encrypt", title, "size", "ms", &encrypt, 1e3);
        let cells = encrypt.iter().flat_map(|row| beside(row, name(row), milliseconds, "time"));
        let text = "In memory, key schedule included. KB, MB and GB are powers of 1024 here, as in the paper. gpu: digest and \
                    encryption on the device; hybrid: the digest on the CPU (the paper's CPU-GPU mode); both with 64 threads a \
                    block and 16 bytes a thread where nothing else is said, copies both ways included.";
        let text = text.to_owned() + &not_run(encrypt.iter().copied());
        let table = Table::pivot("size", cells);
        sections.push(Section { title: title.into(), text, table, figure: Some(figure) });
    }
    if !find.is_empty() {
        let title = "finding one key by its digest: µs";
        let figure = figure("keys-find", title, "keys held", "µs", &find, 1e6);
        let micros = |row: &Row| row.median_s.map(|s| digits(s * 1e6));
        let cells = find.iter().flat_map(|row| beside(row, name(row), micros, "time"));
        let text = "The key sought is the last that is looked at. The paper prints no figures for this.";
        let text = text.to_owned() + &not_run(find.iter().copied());
        let table = Table::pivot("keys held", cells);
        sections.push(Section { title: title.into(), text, table, figure: Some(figure) });
    }
    sections
}

/// "scheme, engine", and whether it is the kernels alone.
fn name(row: &Row) -> String {
    let part = if row.measure.ends_with(KERNEL_ONLY) { KERNEL_ONLY } else { "" };
    format!("{}, {}{part}", row.scheme, row.engine)
}

fn figure(file: &str, title: &str, x: &str, y: &str, rows: &[&Row], scale: f64) -> Figure {
    let mut figure = Figure::new(file, title, x, y, true);
    // The paper's varied blocks and granularities, and kernels alone, stand in the table only.
    let is_drawn = |row: &&&Row| !row.measure.ends_with(KERNEL_ONLY) && !row.scheme.contains(" a ");
    for row in rows.iter().filter(is_drawn) {
        if let Some(median) = row.median_s {
            figure.add(&name(row), false, &row.case, median * scale);
        }
        for p in row.printed.iter().filter(|p| p.measure == "time") {
            figure.add(&format!("printed: {}", p.by), true, &row.case, p.value);
        }
    }
    figure
}
