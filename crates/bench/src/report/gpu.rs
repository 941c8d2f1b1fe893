//! The device script's tables: kernels alone, and the machine's ceilings.

use super::{Section, Table, gb_per_s, milliseconds};
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let line = |row: &Row| {
        let cells = [
            Some(row.scheme.clone()),
            Some(row.operation.clone()),
            Some(row.case.clone()),
            milliseconds(row),
            gb_per_s(row),
        ];
        cells.map(Option::unwrap_or_default).to_vec()
    };
    let mut sections = Vec::new();
    for (measure, title, text) in [
        ("ceiling", "the machine's ceilings", "Copies within the device, and between it and the host."),
        ("kernel", "kernels alone", "By the device's own clock, on data that lie there."),
    ] {
        let rows = rows.iter().filter(|row| row.measure == measure);
        let table = Table::of(["what", "operation", "case", "median, ms", "GB/s"], rows.map(line));
        sections.push(Section { title: title.into(), text: text.into(), table, figure: None });
    }
    sections.retain(|section| !section.table.rows.is_empty());
    sections
}
