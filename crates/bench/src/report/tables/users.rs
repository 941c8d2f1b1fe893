//! P2's tables.

use crate::names::KERNEL_ONLY;
use crate::names::users::{AVERAGES, SPEEDUP};
use crate::report::section::{Cell, Section, Table, gb_per_s, milliseconds, not_run};
use crate::report::text::digits;
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let mut sections = vec![bars(rows)];
    for shape in ["regular", "irregular"] {
        sections.extend(speeds(rows, shape));
        sections.extend(kernels(rows, shape));
    }
    sections.push(averages(rows));
    sections.push(peers(rows));
    sections.push(flow(rows));
    sections.retain(|section| !section.table.rows.is_empty());
    sections
}

/// The requirements of the project.
fn bars(rows: &[Row]) -> Section {
    let line = |row: &Row| {
        let bar = row.bar.as_ref()?;
        let measured = match (row.median_s, row.speedup) {
            (Some(_), _) => format!("{} ms", milliseconds(row)?),
            (None, ratio) => digits(ratio?),
        };
        let what = format!("{}: {}, {}", row.case, row.operation, row.measure);
        Some(vec![what, row.scheme.clone(), bar.asked.clone(), measured, bar.verdict().into()])
    };
    let table = Table::of(["what", "scheme", "asked", "measured", ""], rows.iter().filter_map(line));
    let text = "They are for a machine with two cores, and for 10,000 users. A short run has fewer.";
    Section::new("the requirements", text, table)
}

/// "measure, scheme", with engine and threads if one scheme has several.
fn line_name(row: &Row) -> String {
    let engine = match row.engine.as_str() {
        engine @ ("gpu" | "hybrid") => format!(", {engine}"),
        _ => String::new(),
    };
    let threads = match row.threads {
        0 => String::new(),
        1 => ", 1 thread".into(),
        n => format!(", {n} threads"),
    };
    format!("{}, {}{engine}{threads}", row.measure, row.scheme)
}

/// Whether a row is of one shape's sweep over numbers of users.
fn is_swept(row: &Row, shape: &str) -> bool {
    row.case == format!("{} users, {shape}", row.items) && row.speedup.is_none_or(|_| row.median_s.is_some())
}

fn speeds(rows: &[Row], shape: &str) -> Option<Section> {
    let rows: Vec<&Row> = rows.iter().filter(|row| is_swept(row, shape) && !is_apart(row)).collect();
    if rows.is_empty() {
        return None;
    }
    let title = format!("{shape} data: GB/s by users");
    let users: Vec<String> = rows.iter().map(|row| row.items.to_string()).collect();
    let mut cells = Vec::new();
    for (row, users) in rows.iter().zip(&users) {
        if let Some(speed) = row.gb_per_s {
            cells.push(Cell { line: users, column: line_name(row), text: digits(speed) });
        }
    }
    let text = "In memory. Lengths as in the paper, 35 to 150 KB; the same bytes by every scheme. What a device does is from \
                host memory to host memory.";
    let text = text.to_owned() + &not_run(rows.iter().copied());
    Some(Section::new(title, text, Table::pivot("users", cells)))
}

/// Rows that have a table of their own.
fn is_apart(row: &Row) -> bool {
    row.measure.contains("beside") || row.measure.ends_with(KERNEL_ONLY)
}

fn kernels(rows: &[Row], shape: &str) -> Option<Section> {
    let is_kernel = |row: &&Row| is_swept(row, shape) && row.measure.ends_with(KERNEL_ONLY) && row.median_s.is_some();
    let rows: Vec<&Row> = rows.iter().filter(is_kernel).collect();
    if rows.is_empty() {
        return None;
    }
    let users: Vec<String> = rows.iter().map(|row| row.items.to_string()).collect();
    let cells = rows.iter().zip(&users).map(|(row, users)| Cell {
        line: users,
        column: line_name(row),
        text: gb_per_s(row).unwrap_or_default(),
    });
    let title = format!("{shape} data on the device, kernels alone: GB/s by users");
    let text = "By the device's own clock, without the copies.";
    Some(Section::new(title, text, Table::pivot("users", cells)))
}

fn averages(rows: &[Row]) -> Section {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.case.starts_with(AVERAGES)).collect();
    let lines: Vec<String> = rows.iter().map(|row| format!("{}, {}", line_name(row), shape_of(row))).collect();
    let mut cells = Vec::new();
    for (row, line) in rows.iter().zip(&lines) {
        let text = gb_per_s(row).or_else(|| row.why_not().map(|_| "not run".into())).unwrap_or_default();
        cells.push(Cell { line, column: "measured: GB/s".into(), text });
        cells.extend(row.speedup.map(|s| Cell { line, column: "over 1 thread".into(), text: digits(s) }));
        for p in &row.printed {
            let platform = p.by.split(" platform ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
            let of = if p.measure == SPEEDUP { "over 1 thread" } else { &p.unit };
            let column = format!("*printed, platform {platform}: {of}*");
            cells.push(Cell { line, column, text: format!("*{}*", p.value) });
        }
    }
    let text = "Means of the speeds, as the paper has them. Its AES is by lookup tables; its platform 1 has 2 cores, and its \
                platform 2 has 16.";
    let table = Table::pivot("scheme and data", cells);
    Section::new("means over all numbers of users", text, table)
}

fn shape_of(row: &Row) -> &str {
    row.case.rsplit(", ").next().unwrap_or_default()
}

fn peers(rows: &[Row]) -> Section {
    let rows = rows.iter().filter(|row| row.measure.ends_with("beside its peers"));
    let line = |row: &Row| {
        let what = format!("{}: {}, {}", row.case, row.operation, row.measure);
        let cells =
            [Some(what), Some(row.scheme.clone()), Some(row.threads.to_string()), milliseconds(row), gb_per_s(row)];
        cells.map(Option::unwrap_or_default).to_vec()
    };
    let table = Table::of(["what", "scheme", "threads", "median, ms", "GB/s"], rows.map(line));
    let text = "Every round runs each once. The first round is not counted.";
    Section::new("beside the peers", text, table)
}

fn flow(rows: &[Row]) -> Section {
    let is_flow = |row: &&Row| row.case.starts_with("arrivals") || row.case == "a full batch";
    let mut cells = Vec::new();
    for row in rows.iter().filter(is_flow) {
        let mut cell = |column: String, text: Option<String>| {
            cells.extend(text.map(|text| Cell { line: &row.case, column, text }));
        };
        match row.measure.as_str() {
            "throughput" => {
                cell("messages".into(), Some(row.items.to_string()));
                cell("GB/s".into(), gb_per_s(row));
            }
            "time" => cell("GB/s".into(), gb_per_s(row)),
            _ => {}
        }
        if row.measure != "throughput" {
            cell(format!("{}, ms", row.measure), milliseconds(row));
        }
    }
    let text = "Latencies run from the moment in which a message is due, by a Poisson process, to that in which its sealed form \
                is there. Each is the median of the runs' percentiles.";
    let table = Table::pivot("flow", cells);
    Section::new("messages that arrive one by one", text, table)
}
