//! The table of mounted volumes beside gocryptfs.

use crate::names::mounts::{CEILING, CONTESTANTS, ENGINE, MEMORY, RATIO, TIME};
use crate::report::section::{Cell, Section, Table};
use crate::report::text::digits;
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.engine == ENGINE).collect();
    let mut sections = vec![bars(&rows), times(&rows), ratios(&rows), memory(&rows)];
    sections.retain(|section| !section.table.rows.is_empty());
    sections
}

fn what(row: &Row) -> String {
    format!("{}, on {}", row.operation, row.case)
}

/// The requirements of the project, each beside what was possible without encryption.
fn bars(rows: &[&Row]) -> Section {
    let figure = |row: &Row| match (row.speedup, row.peak_kib) {
        (Some(ratio), _) => Some(digits(ratio)),
        (None, kib) => Some(format!("{} MiB", digits(kib? as f64 / 1024.0))),
    };
    let ceiling = |row: &Row| {
        let is_it = |other: &&&Row| other.measure == row.measure && other.scheme == CEILING && what(other) == what(row);
        rows.iter().find(is_it).and_then(|other| figure(other)).unwrap_or_default()
    };
    let line = |row: &&Row| {
        let bar = row.bar.as_ref()?;
        let measured = figure(row)?;
        Some(vec![
            what(row),
            row.scheme.clone(),
            bar.asked.clone(),
            measured,
            ceiling(row),
            bar.verdict().to_owned() + row.mark(),
        ])
    };
    let table = Table::of(["what", "program", "asked", "measured", CEILING, ""], rows.iter().filter_map(line));
    let text = format!(
        "{CEILING} passes everything on without encryption, by several threads and in long requests, but without the kernel's write-back \
         cache: its column says what FUSE alone reaches over gocryptfs, and in how much memory."
    );
    Section::new("mounted volumes: the requirements", text, table)
}

/// A table with a column for each contestant.
fn by_scheme(rows: &[&Row], measure: &str, text: impl Fn(&Row) -> Option<String>) -> Table {
    let mut rows: Vec<&&Row> = rows.iter().filter(|row| row.measure == measure).collect();
    // The lines as they come, and the columns always in the same order.
    let mut whats: Vec<String> = rows.iter().map(|row| what(row)).collect();
    whats.dedup();
    let place = |row: &Row| whats.iter().position(|name| *name == what(row));
    let rank = |row: &Row| CONTESTANTS.iter().position(|name| *name == row.scheme).unwrap_or(CONTESTANTS.len());
    rows.sort_by_key(|row| (place(row), rank(row)));
    let lines: Vec<String> = rows.iter().map(|row| what(row)).collect();
    let cells = rows.iter().zip(&lines).map(|(row, line)| Cell {
        line,
        column: row.scheme.clone(),
        text: text(row).unwrap_or_else(|| "not run".into()),
    });
    Table::pivot("what", cells)
}

fn times(rows: &[&Row]) -> Section {
    let table = by_scheme(rows, TIME, |row| row.median_s.map(|s| digits(s * 1e3)));
    let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows.iter().filter(|row| row.measure == TIME && row.why_not().is_none()) {
        let Some(note) = row.note.as_deref() else { continue };
        match notes.iter_mut().find(|(text, _)| *text == note) {
            Some((_, all)) if all.contains(&row.operation.as_str()) => {}
            Some((_, all)) => all.push(&row.operation),
            None => notes.push((note, vec![&row.operation])),
        }
    }
    let notes: String = notes.iter().map(|(note, all)| format!(" {}: {note}.", all.join("; "))).collect();
    let mut missing: Vec<String> = Vec::new();
    for (row, why) in rows.iter().filter_map(|row| Some((row, row.why_not()?))) {
        let sentence = format!(" {}: not run: {why}.", row.scheme);
        if !missing.contains(&sentence) {
            missing.push(sentence);
        }
    }
    let text = "Every round lets each program do the work once, in another order, and waits before each piece of work until the backing file \
                system has written what it has. The first round is not counted, and checks what comes back. Times end when the \
                file is closed; synced ones after `fsync`. fio reads or writes each block once, and syncs what it wrote.";
    let text = format!("{text}{notes}{}", missing.concat());
    Section::new("mounted volumes: medians in ms", text, table)
}

fn ratios(rows: &[&Row]) -> Section {
    let table = by_scheme(rows, RATIO, |row| row.speedup.map(digits));
    Section::new("mounted volumes: times as fast as gocryptfs", String::new(), table)
}

fn memory(rows: &[&Row]) -> Section {
    let table = by_scheme(rows, MEMORY, |row| row.peak_kib.map(|kib| digits(kib as f64 / 1024.0)));
    let text = "The largest resident memory of the process that serves a mount, as the system counts it.";
    Section::new("mounted volumes: peak memory in MiB", text, table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Bar;

    #[test]
    fn every_row_is_in_a_table_and_reasons_are_told() {
        let row = |measure: &str, scheme: &str| Row {
            engine: ENGINE.into(),
            case: "tmpfs".into(),
            operation: "tar x".into(),
            measure: measure.into(),
            scheme: scheme.into(),
            ..Row::default()
        };
        let bar = Some(Bar { asked: "at least 1 times as fast as gocryptfs".into(), reached: Some(false) });
        let rows = [
            row(TIME, "phalanx, suite 1").timed(vec![0.5]),
            row(TIME, "gocryptfs").not_run("no gocryptfs"),
            Row { speedup: Some(0.9), bar, ..row(RATIO, "phalanx") },
            Row { speedup: Some(1.5), ..row(RATIO, "bindfs") },
            Row { peak_kib: Some(1024), ..row(MEMORY, "phalanx") },
        ];
        let sections = sections(&rows);
        assert_eq!(sections.len(), 4);
        assert_eq!(sections[0].table.rows.len(), 1);
        assert_eq!(sections[0].table.rows[0][3..], ["0.900", "1.50", "missed"]);
        assert_eq!(sections[1].table.rows, [["tar x, on tmpfs", "not run", "500"]]);
        assert!(sections[1].text.ends_with("gocryptfs: not run: no gocryptfs."), "{}", sections[1].text);
        assert_eq!(sections[3].table.rows[0][1], "1.00");
        assert!(super::sections(&[]).is_empty());
    }
}
