//! The tables of the device script: kernels alone, and the ceilings of the machine.

use crate::report::section::{Section, Table, gb_per_s, milliseconds};
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
    let mut measures: Vec<&str> = rows.iter().map(|row| row.measure.as_str()).collect();
    measures.sort_unstable();
    measures.dedup();
    let section = |measure: &str| {
        let (title, text) = match measure {
            "ceiling" => ("the machine's ceilings", "Copies within the device, and between it and the host."),
            "kernel" => ("kernels alone", "By the device's own clock, on data that lie there."),
            "host to host" => {
                ("the engine", "From host to host, on all its lanes, to be read beside the pinned copies.")
            }
            other => (other, ""),
        };
        let rows = rows.iter().filter(|row| row.measure == measure);
        let table = Table::of(["what", "operation", "case", "median, ms", "GB/s"], rows.map(line));
        Section::new(title, text, table)
    };
    measures.into_iter().map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_is_left_out() {
        let row = |measure: &str| Row { measure: measure.into(), scheme: "s".into(), ..Row::default() };
        let rows = [row("kernel"), row("host to host"), row("ceiling"), row("new"), row("kernel")];
        let shown: usize = sections(&rows).iter().map(|section| section.table.rows.len()).sum();
        assert_eq!(shown, rows.len());
    }
}
