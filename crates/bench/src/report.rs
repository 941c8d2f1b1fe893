//! The report of a run: one HTML page with the papers' tables and figures, and ours beside them. It is made only from
//! rows.

mod answer;
mod bars;
mod catalogue;
mod chart;
mod documents;
mod machine;
mod page;
mod section;
mod service;
mod summary;
mod tables;
#[cfg(test)]
mod tests;
mod text;

use crate::error::{Error, Result};
use crate::head::Head;
use crate::row::Row;
use crate::{merged, record};
pub use documents::renewed;
use std::fs;
use std::path::{Path, PathBuf};

/// The report's name in the run's folder.
pub const FILE: &str = "report.html";
/// The name of the chart of whole commands.
pub const CHART: &str = "whole-commands.svg";

/// The report of a run's folder. It includes rows that were added to the folder, each machine under its own name. A
/// folder of runs has one report of them all.
pub fn page(out: &Path) -> Result<String> {
    Ok(page::Page::of(&machine::joined(runs(out)?)))
}

/// The papers' tables and figures with the verdicts on them, as a table in Markdown.
pub fn index(out: &Path) -> Result<String> {
    Ok(page::index(&machine::joined(runs(out)?)))
}

/// The chart of whole commands of a folder of runs, as a file of its own. It shows the last machine that has such rows.
pub fn chart(out: &Path) -> Result<Option<String>> {
    let machines = machine::joined(runs(out)?);
    let commands = machines.iter().rev().find_map(summary::commands);
    Ok(commands.and_then(|commands| commands.bars.first().map(|bars| bars.alone())))
}

/// Writes the report into the folder and, if it is a folder of runs, the chart.
pub fn write(out: &Path) -> Result<()> {
    whole(&out.join(FILE), &page(out)?)?;
    match chart(out)?.filter(|_| !out.join(record::JSON).exists()) {
        Some(chart) => whole(&out.join(CHART), &chart),
        None => Ok(()),
    }
}

/// Renews the tables of rows in a document from a folder of runs.
pub fn renew(document: &Path, results: &Path) -> Result<()> {
    whole(document, &renewed(document, results)?)
}

/// Writes a file whole or not at all, because a reader may have the old one open.
fn whole(path: &Path, text: &str) -> Result<()> {
    let part = path.with_extension("part");
    fs::write(&part, text).map_err(Error::at(&part))?;
    fs::rename(&part, path).map_err(Error::at(path))
}

/// The runs of a folder: its own and those merged into it. If it has none, the runs of the folders in it.
fn runs(out: &Path) -> Result<Vec<(Vec<Head>, Vec<Row>)>> {
    let of = |folder: &Path| {
        let own = record::read(folder)?;
        let merged = merged::all(folder)?.into_iter().map(|part| (part.heads, part.rows));
        Ok::<_, Error>([own].into_iter().chain(merged).collect::<Vec<_>>())
    };
    if out.join(record::JSON).exists() {
        return of(out);
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(out).map_err(Error::at(out))? {
        let path = entry.map_err(Error::at(out))?.path();
        if path.join(record::JSON).exists() {
            folders.push(path);
        }
    }
    if folders.is_empty() {
        return of(out);
    }
    folders.sort();
    let mut all = Vec::new();
    for folder in folders {
        all.extend(of(&folder)?);
    }
    Ok(all)
}
