//! Rows that were measured on another machine and are added to the report of a run's folder.
//!
//! They are in files of their own beside those of the run, and each machine has its own part of the report. So neither
//! a reader nor `--resume` can mistake one of these rows for the run's own. Such a file may come from anywhere, so
//! nothing in it is trusted: values that are too long, odd or contradictory are refused with one line.

use crate::error::{Error, Result};
use crate::head::Head;
use crate::record;
use crate::record::Line;
use crate::row::{EXPERIMENTS, Row, median};
use phalanx_kernels::keccak::sha3_256;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The beginning of the files' names.
const PREFIX: &str = "merged-";
/// The longest file in bytes: a full run has a tenth of it.
const LONGEST: u64 = 16 << 20;
/// The most rows of a file.
const MOST_ROWS: usize = 20_000;
/// The longest text in characters.
const LONGEST_TEXT: usize = 2000;
/// Valid figures are 0, or between this number and its reciprocal.
const LEAST: f64 = 1e-15;

/// The rows of one machine.
#[derive(Debug)]
pub struct Part {
    /// Its heads: one for each start or resumption of its run.
    pub heads: Vec<Head>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// Adds a file of rows to a run's folder. Adding the same file twice has no further effect.
pub fn add(out: &Path, from: &Path) -> Result<()> {
    let (own, _) = record::read(out)?;
    let (name, text, parts) = read(from)?;
    if parts.iter().flat_map(|part| &part.heads).any(|head| own.contains(head)) {
        return Err(Error::Folder(from.to_owned(), "these rows are from the same run as the report".into()));
    }
    let path = out.join(format!("{name}.jsonl"));
    fs::write(&path, text).map_err(Error::at(&path))
}

/// The rows that were added to a run's folder.
pub fn all(out: &Path) -> Result<Vec<Part>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(out).map_err(Error::at(out))? {
        let entry = entry.map_err(Error::at(out))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) && name.ends_with(".jsonl") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let mut parts = Vec::new();
    for path in paths {
        parts.extend(read(&path)?.2);
    }
    Ok(parts)
}

/// A file's name in the folder, its text, and its machines.
fn read(path: &Path) -> Result<(String, String, Vec<Part>)> {
    let refuse = |why: String| Error::Folder(path.to_owned(), why);
    let failed = Error::at(path);
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(refuse("it is no file".into()));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LONGEST {
        return Err(refuse(format!("it is longer than {} MiB, longer than any run", LONGEST >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is no text".into()))?;
    let name = sha3_256(text.as_bytes())[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let name = PREFIX.to_owned() + &name;
    let parts = parse(&text).map_err(refuse)?;
    Ok((name, text, parts))
}

fn parse(text: &str) -> Result<Vec<Part>, String> {
    let mut parts: Vec<Part> = Vec::new();
    let mut count = 0;
    for (i, line) in text.lines().enumerate() {
        let at = |why: &str| format!("line {}: {why}", i + 1);
        // The parser's message may quote the line, which can contain anything.
        match serde_json::from_str(line).map_err(|e| at(&format!("not a line of a run (column {})", e.column())))? {
            Line::Head(head) => {
                check_head(&head).map_err(at)?;
                match parts.last_mut() {
                    // A run that was resumed belongs to one machine.
                    Some(part) if part.heads[0].fits(&head) => part.heads.push(*head),
                    _ => parts.push(Part { heads: vec![*head], rows: Vec::new() }),
                }
            }
            Line::Row(row) => {
                check_row(&row).map_err(at)?;
                let part = parts.last_mut().ok_or_else(|| at("a row before the head that names its machine"))?;
                part.rows.push(*row);
                count += 1;
                if count > MOST_ROWS {
                    return Err(at("more rows than any run has"));
                }
            }
            Line::Done(_) => {}
        }
    }
    if count == 0 {
        return Err("it holds no rows".into());
    }
    for part in &parts {
        let mut keys = HashSet::new();
        if !part.rows.iter().all(|row| keys.insert(row.key())) {
            return Err("it holds a row twice".into());
        }
    }
    parts.retain(|part| !part.rows.is_empty());
    Ok(parts)
}

fn check_head(head: &Head) -> Result<(), &'static str> {
    let Head { date, phalanx, commit, rustc, cpu, system, aes, keccak, file_system, peers, device, .. } = head;
    let texts = [date, phalanx, commit, rustc, cpu, system, aes, keccak, file_system];
    let device = device.iter().flat_map(|device| [&device.name, &device.kind, &device.api, &device.driver]);
    check_texts(texts.into_iter().chain(peers).chain(device))
}

fn check_row(row: &Row) -> Result<(), &'static str> {
    let Row { experiment, case, operation, measure, scheme, engine, over, bar, printed, note, .. } = row;
    if !EXPERIMENTS.contains(&experiment.as_str()) {
        return Err("a row of an experiment that is not known");
    }
    let printed_texts = printed
        .iter()
        .flat_map(|p| [&p.by, &p.measure, &p.unit, &p.r#where].into_iter().chain(&p.as_printed).chain(&p.why));
    let texts = [case, operation, measure, scheme, engine].into_iter().chain(over).chain(note);
    check_texts(texts.chain(bar.iter().map(|bar| &bar.asked)).chain(printed_texts))?;
    let computed = [row.median_s, row.gb_per_s, row.speedup, row.efficiency, row.amdahl];
    // These may be negative.
    let others = [row.value, row.ideal, row.others, row.steal].into_iter().flatten().map(f64::abs);
    let numbers = row.seconds.iter().chain(computed.iter().flatten()).chain(printed.iter().map(|p| &p.value));
    if !numbers.copied().chain(others).all(|n| n == 0.0 || (LEAST..=1.0 / LEAST).contains(&n)) {
        return Err("a figure that nothing can measure");
    }
    if row.median_s != median(&row.seconds) {
        return Err("a median that is not its times'");
    }
    // Means of speeds have no times.
    let speed = row.median_s.filter(|m| *m > 0.0 && row.bytes > 0).map(|m| row.bytes as f64 / m / 1e9);
    let is_near = |a: f64, b: f64| (a - b).abs() <= b * 1e-9;
    if row.median_s.is_some() && !row.gb_per_s.zip(speed).map_or(row.gb_per_s == speed, |(a, b)| is_near(a, b)) {
        return Err("a speed that does not follow from its times");
    }
    Ok(())
}

fn check_texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> Result<(), &'static str> {
    for text in texts {
        if text.chars().any(char::is_control) || text.chars().count() > LONGEST_TEXT {
            return Err("a text that is too long, or has control characters");
        }
    }
    Ok(())
}
