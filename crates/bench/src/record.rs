//! The files of a run. Rows are written as they come, and an interrupted run can be continued.
//!
//! A run's folder has `rows.jsonl`, in which each line is a head, a row, or the name of a finished step. It has
//! `rows.csv` with the same rows and, from the end of a run on, the report.

use crate::error::{Error, Result};
use crate::head::Head;
use crate::row::Row;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A line of `rows.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A run begins, or is resumed.
    Head(Box<Head>),
    /// A figure.
    Row(Box<Row>),
    /// A step is done.
    Done(String),
}

impl Line {
    /// The line as it is in the file.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("rows have no odd keys") + "\n"
    }
}

/// A run's files.
pub struct Record {
    path: PathBuf,
    json: File,
    csv: csv::Writer<File>,
    rows: Vec<Row>,
    done: HashSet<String>,
}

impl Record {
    /// Begins the files in a run's folder, or opens them again. They are locked, so that only one run writes to a
    /// folder.
    pub fn open(out: &Path, resumes: bool, head: Head) -> Result<Self> {
        let path = out.join(JSON);
        let failed = Error::at(&path);
        let exists = path.exists();
        if exists && !resumes {
            return Err(Error::Exists(out.to_owned()));
        }
        let json = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let mut json = json.map_err(failed)?;
        if flock(&json, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Error::Folder(out.to_owned(), "another run is writing it".into()));
        }
        let kept = Kept::read(&path, &mut json)?;
        if kept.heads.iter().any(|old| !old.fits(&head)) {
            let line =
                "its run was made with another commit, machine, device, kernel or size: give another folder with --out";
            return Err(Error::Folder(out.to_owned(), line.into()));
        }
        // An incomplete line of a killed run is removed.
        json.set_len(kept.len).map_err(failed)?;
        json.seek(SeekFrom::Start(kept.len)).map_err(failed)?;
        let heads: Vec<Head> = kept.heads.into_iter().chain([head.clone()]).collect();
        let csv = new_csv(&out.join(CSV), &heads, &kept.rows)?;
        let mut record = Self { path: path.clone(), json, csv, rows: kept.rows, done: kept.done };
        record.append(&Line::Head(Box::new(head)))?;
        Ok(record)
    }

    /// All rows so far.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether a step is done.
    pub fn is_done(&self, step: &str) -> bool {
        self.done.contains(step)
    }

    /// Records that a step is done.
    pub fn finish(&mut self, step: String) -> Result<()> {
        self.append(&Line::Done(step.clone()))?;
        self.done.insert(step);
        Ok(())
    }

    /// Writes a row, unless it is there already.
    pub fn write(&mut self, row: Row) -> Result<()> {
        if self.rows.iter().any(|old| old.key() == row.key()) {
            return Ok(());
        }
        self.append(&Line::Row(Box::new(row.clone())))?;
        let written = self.csv.write_record(row.fields().map(|(_, field)| field)).map_err(csv_error);
        written.and_then(|()| self.csv.flush()).map_err(|e| Error::Path(self.path.with_file_name(CSV), e))?;
        self.rows.push(row);
        Ok(())
    }

    /// Writes a whole line with one call, so that a kill rarely leaves an incomplete line.
    fn append(&mut self, line: &Line) -> Result<()> {
        self.json.write_all(line.json().as_bytes()).map_err(Error::at(&self.path))
    }
}

/// Reads the rows of a run's folder, and its heads: one for each start or resumption.
pub fn read(out: &Path) -> Result<(Vec<Head>, Vec<Row>)> {
    let path = out.join(JSON);
    let mut json = File::open(&path).map_err(Error::at(&path))?;
    let kept = Kept::read(&path, &mut json)?;
    if kept.heads.is_empty() {
        return Err(Error::Folder(path, "it holds no run".into()));
    }
    Ok((kept.heads, kept.rows))
}

/// The name of the file of JSON lines.
pub const JSON: &str = "rows.jsonl";
/// The name of the CSV file.
pub const CSV: &str = "rows.csv";

/// The contents of `rows.jsonl`.
struct Kept {
    heads: Vec<Head>,
    rows: Vec<Row>,
    done: HashSet<String>,
    /// The end of the last complete line.
    len: u64,
}

impl Kept {
    fn read(path: &Path, json: &mut File) -> Result<Self> {
        let mut text = String::new();
        json.read_to_string(&mut text).map_err(Error::at(path))?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        let mut kept = Self { heads: Vec::new(), rows: Vec::new(), done: HashSet::new(), len: whole as u64 };
        for (i, line) in text[..whole].lines().enumerate() {
            match serde_json::from_str(line) {
                Ok(Line::Head(head)) => kept.heads.push(*head),
                Ok(Line::Row(row)) => kept.rows.push(*row),
                Ok(Line::Done(step)) => drop(kept.done.insert(step)),
                Err(e) => return Err(Error::Folder(path.to_owned(), format!("line {}: {e}", i + 1))),
            }
        }
        Ok(kept)
    }
}

/// Writes the whole CSV file: the heads as comments, then the rows.
fn new_csv(path: &Path, heads: &[Head], rows: &[Row]) -> Result<csv::Writer<File>> {
    let failed = Error::at(path);
    let mut file = File::create(path).map_err(failed)?;
    for head in heads {
        for (name, value) in head.lines() {
            writeln!(file, "# {name}: {value}").map_err(failed)?;
        }
    }
    let mut csv = csv::WriterBuilder::new().comment(Some(b'#')).from_writer(file);
    let mut write = || {
        csv.write_record(Row::default().fields().map(|(column, _)| column))?;
        rows.iter().try_for_each(|row| csv.write_record(row.fields().map(|(_, field)| field)))?;
        Ok(csv.flush()?)
    };
    write().map_err(|e| failed(csv_error(e)))?;
    Ok(csv)
}

fn csv_error(e: csv::Error) -> std::io::Error {
    std::io::Error::other(e)
}
