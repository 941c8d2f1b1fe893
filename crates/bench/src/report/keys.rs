//! P5's tables and figures.

use super::{Figure, Section, Table, beside, digits, milliseconds, program};
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let of = |operation: &str| rows.iter().filter(|row| row.operation == operation).collect::<Vec<_>>();
    let (encrypt, find) = (of("encrypt"), of("find key"));
    let mut sections = Vec::new();
    if !encrypt.is_empty() {
        let title = "key digest and encryption: ms";
        let figure = figure("keys-encrypt", title, "size", "ms", &encrypt, 1e3);
        let cells = encrypt.iter().flat_map(|row| beside(row, program(row), milliseconds, "time"));
        let text = "In memory, key schedule included. KB, MB and GB are powers of 1024 here, as in the paper.";
        let table = Table::pivot("size", cells);
        sections.push(Section { title: title.into(), text: text.into(), table, figure: Some(figure) });
    }
    if !find.is_empty() {
        let title = "finding one key by its digest: µs";
        let figure = figure("keys-find", title, "keys held", "µs", &find, 1e6);
        let micros = |row: &Row| row.median_s.map(|s| digits(s * 1e6));
        let cells = find.iter().flat_map(|row| beside(row, program(row), micros, "time"));
        let text = "The key sought is the last that is looked at. The paper prints no figures for this.";
        let table = Table::pivot("keys held", cells);
        sections.push(Section { title: title.into(), text: text.into(), table, figure: Some(figure) });
    }
    sections
}

fn figure(name: &str, title: &str, x: &str, y: &str, rows: &[&Row], scale: f64) -> Figure {
    let mut figure = Figure::new(name, title, x, y, true);
    for row in rows {
        if let Some(median) = row.median_s {
            figure.add(&program(row), false, &row.case, median * scale);
        }
        for p in row.printed.iter().filter(|p| p.measure == "time") {
            figure.add(&format!("printed: {}", p.by), true, &row.case, p.value);
        }
    }
    figure
}
