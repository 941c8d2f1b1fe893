//! The tables of a cluster's processes.

use crate::names::cluster::{
    AT_WORK, COPY, DYNAMIC, FULL_SPEED, GOES_ON, LESS_START, MEMORY, MESSAGES, OWN, PART, SLOWED, START, STATIC, WHOLE,
    over,
};
use crate::report::section::{Cell, Figure, Section, Table, milliseconds, missing, ms, not_run};
use crate::report::text::{digits, percent};
use crate::row::Row;

pub fn sections(rows: &[&Row]) -> Vec<Section> {
    let is_printed = |row: &&&Row| rows.iter().any(|other| other.case == row.case && other.measure == AT_WORK);
    let mut cases: Vec<&str> = rows.iter().filter(is_printed).map(|row| row.case.as_str()).collect();
    cases.dedup();
    let mut sections = vec![bars(rows)];
    sections.extend(cases.into_iter().map(|case| processes(rows, case)));
    sections.extend([copies(rows), divisions(rows), interrupted(rows)]);
    sections.retain(|section| !section.table.rows.is_empty() || !section.text.is_empty());
    sections
}

/// "8 processes with 1 thread".
fn team(row: &Row) -> String {
    let of = |n: usize, one: &str, more: &str| format!("{n} {}", if n == 1 { one } else { more });
    format!("{} with {}", of(row.processes, "process", "processes"), of(row.threads, "thread", "threads"))
}

/// The figure of a row that is no time.
fn figure_of(row: &Row) -> String {
    let memory = row.peak_kib.map(|kib| format!("{} MiB", digits(kib as f64 / 1024.0)));
    let figure = row.speedup.map(digits).or(row.value.map(percent)).or(memory);
    figure.unwrap_or_else(|| row.why_not().map(|_| "not run".into()).unwrap_or_default())
}

/// The requirements of the project, and the figures of single processes.
fn bars(rows: &[&Row]) -> Section {
    let mut judged: Vec<&Row> = rows.iter().copied().filter(|row| row.bar.is_some()).collect();
    let of_one = |row: &&&Row| [MESSAGES, MEMORY].contains(&row.measure.as_str());
    judged.extend(rows.iter().filter(of_one).filter(|row| row.bar.is_none()));
    let line = |row: &&Row| {
        let asked = row.bar.as_ref().map(|bar| bar.asked.clone()).unwrap_or_default();
        let verdict = row.bar.as_ref().map(|bar| bar.verdict().to_owned()).unwrap_or_default();
        let what = format!("{}: {}, {}", row.case, row.operation, row.measure);
        vec![what, row.scheme.clone(), team(row), asked, figure_of(row), verdict, row.note.clone().unwrap_or_default()]
    };
    let columns = ["what", "program", "with", "asked", "measured", "", "to know"];
    let text = match judged
        .iter()
        .filter_map(|row| row.bar.as_ref()?.reached)
        .fold((0, 0), |(yes, all), is| (yes + usize::from(is), all + 1))
    {
        _ if judged.is_empty() => String::new(),
        (_, 0) => "None is judged.".into(),
        (yes, all) => format!("{yes} of {all} requirements are met."),
    };
    let text = match judged.iter().any(|row| row.measure == MESSAGES) {
        true => {
            text + " Time for messages: the part of the time that all processes but the first, which leads, spend on messages and at work."
        }
        false => text,
    };
    Section::new(
        "a cluster's processes on one machine: the requirements",
        text,
        Table::of(columns, judged.iter().map(line)),
    )
}

/// One of the paper's sizes in one folder.
fn processes(rows: &[&Row], case: &str) -> Section {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.case == case).collect();
    let title = format!("{case}: processes");
    let mut figure = Figure::new(&title, "processes", "GB/s");
    let lines: Vec<String> = rows.iter().map(|row| team(row)).collect();
    let mut cells = Vec::new();
    for (row, line) in rows.iter().zip(&lines) {
        let mut cell = |column: String, text: Option<String>| {
            cells.extend(text.map(|text| Cell { line, column, text }));
        };
        let is_missing = row.why_not().is_some();
        cell(
            format!("{}, {}: ms", row.scheme, row.measure),
            if is_missing { Some("not run".into()) } else { milliseconds(row) },
        );
        cell(format!("{}: speedup", row.scheme), row.speedup.map(digits));
        cell(format!("{}: efficiency", row.scheme), row.efficiency.map(percent));
        let place = row.processes.to_string();
        if let Some(speed) = row.gb_per_s.filter(|_| row.measure == OWN) {
            let threads =
                if row.threads == 1 { "1 thread each".into() } else { format!("{} threads each", row.threads) };
            figure.add(&format!("{}, {threads}", row.scheme), false, &place, speed);
        }
        for p in row.printed.iter().filter(|p| p.unit == "ms") {
            cell(format!("*printed: {}, encryption only*", p.by), Some(format!("*{} {}*", p.value, p.unit)));
            figure.add(&format!("printed: {}", p.by), true, &place, row.bytes as f64 / p.value / 1e6);
        }
    }
    let text = format!(
        "{WHOLE}: with the start of `mpirun` and its end. {OWN}: without them, in two or three digits. Both with reading and \
         writing, and synced. The printed times are of encryption alone, on 31 machines with 16 logical cores each, one process \
         on each. `phalanx-mpi` does not measure that apart; the nearest is {AT_WORK}, which contains reading and writing, and \
         all processes are on this machine. Speedup and efficiency: of {OWN}, over 1 process with 1 thread, and by the \
         processors in use.{}{}",
        crowded(&rows),
        missing(&rows)
    );
    Section::new(title, text, Table::pivot("with", cells)).drawn(figure)
}

/// Which numbers of processes and threads were more than the cores.
fn crowded(rows: &[&Row]) -> String {
    let mut teams: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.note.as_ref().is_some_and(|note| note.starts_with("oversubscribed"))) {
        if !teams.contains(&team(row)) {
            teams.push(team(row));
        }
    }
    if teams.is_empty() { String::new() } else { format!(" More threads than cores: {}.", teams.join("; ")) }
}

/// Protecting beside plain copies.
fn copies(rows: &[&Row]) -> Section {
    let is_one = |row: &&Row| rows.iter().any(|other| other.case == row.case && other.operation == "copy");
    let rows: Vec<&Row> = rows.iter().copied().filter(is_one).filter(|row| !row.operation.contains("resume")).collect();
    let rows: Vec<&Row> = rows
        .into_iter()
        .filter(|row| [WHOLE, LESS_START, OWN].contains(&row.measure.as_str()))
        .filter(|row| [START, "copy", "protect"].contains(&row.operation.as_str()))
        .filter(|row| row.measure != OWN || !row.scheme.contains("division"))
        .collect();
    let lines: Vec<String> =
        rows.iter().map(|row| format!("{}: {}, {}", row.case, row.operation, row.scheme)).collect();
    let cells = rows.iter().zip(&lines).map(|(row, line)| {
        let text = ms(row);
        Cell { line, column: format!("{}: ms", row.measure), text }
    });
    let table = Table::pivot("what", cells);
    let text = match table.rows.is_empty() {
        true => String::new(),
        false => format!(
            "{COPY}: each process copies an equal range in pieces of 4 MiB, and the first one renames the result. The start of a \
             command: that of `{COPY}` with an empty file, that of `phalanx-mpi` with `--dryrun`.{}",
            not_run(rows.iter().copied().filter(|row| row.measure == WHOLE))
        ),
    };
    Section::new("protecting beside a plain copy by the same processes", text, table)
}

/// Static beside dynamic division.
fn divisions(rows: &[&Row]) -> Section {
    let is_one = |row: &&Row| [STATIC, DYNAMIC].contains(&row.scheme.as_str());
    let rows: Vec<&Row> = rows.iter().copied().filter(is_one).collect();
    let lines: Vec<String> = rows.iter().map(|row| format!("{}: {}, {}", row.case, team(row), row.operation)).collect();
    let mut cells = Vec::new();
    let mut reading = String::new();
    for (row, line) in rows.iter().zip(&lines) {
        if row.measure == over(STATIC) {
            let text = figure_of(row);
            cells.push(Cell { line, column: "static / dynamic".into(), text: text.clone() });
            if row.operation == SLOWED {
                reading += &format!(
                    " On {}, {}: dynamic {text} times as fast as static when one is slowed.",
                    row.case,
                    team(row)
                );
            }
            continue;
        }
        let name = if row.scheme == STATIC { "static" } else { "dynamic" };
        let text = ms(row);
        cells.push(Cell { line, column: format!("{name}: ms"), text });
        if let Some(speed) = row.speedup.filter(|speed| *speed > 0.0) {
            cells.push(Cell {
                line,
                column: format!("{name}: times the time at full speed"),
                text: digits(1.0 / speed),
            });
        }
    }
    let table = Table::pivot("what", cells);
    let text = match table.rows.is_empty() {
        true => String::new(),
        false => format!(
            "The last process is stopped for 20 ms of each 40 ms. {FULL_SPEED}: all at full speed. Times are those that the \
             program tells. Where there are more processes than cores, the others get the processor of the one that is \
             stopped.{reading}{}{}",
            crowded(&rows),
            missing(&rows)
        ),
    };
    Section::new("work divided beforehand and as it goes", text, table)
}

/// Runs that were killed.
fn interrupted(rows: &[&Row]) -> Section {
    let is_one = |row: &&Row| row.measure == WHOLE && row.operation.starts_with("protect --resume");
    let rows: Vec<&Row> = rows.iter().copied().filter(is_one).collect();
    let lines: Vec<String> = rows.iter().map(|row| format!("{}: {}, {}", row.case, row.scheme, team(row))).collect();
    let cells = rows.iter().zip(&lines).flat_map(|(row, line)| {
        let name = if row.operation == GOES_ON { "the run that goes on" } else { "a whole run" };
        let text = ms(row);
        let time = Cell { line, column: format!("{name}: ms"), text };
        let note = row.note.clone().filter(|_| row.operation == GOES_ON && row.why_not().is_none());
        [Some(time), note.map(|text| Cell { line, column: "to know".into(), text })].into_iter().flatten()
    });
    let table = Table::pivot("what", cells);
    let text = match table.rows.is_empty() {
        true => String::new(),
        false => format!(
            "All processes are killed when nine tenths are written. Before each run, everything is taken out of \
             the page cache. The row \"{PART}\" among the requirements above compares the medians.{}",
            missing(&rows)
        ),
    };
    Section::new("runs that are interrupted", text, table)
}
