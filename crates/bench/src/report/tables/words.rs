//! The words of rows in the patterns of tables, and the sentences below tables.

use super::by;
use crate::names::KERNEL_ONLY;
use crate::names::ciphertext::{CHI_SQUARE_MOST, CIPHERTEXT};
use crate::names::cluster::{DYNAMIC, MESSAGES, SLOWED, STATIC, over};
use crate::names::java::{COMMAND, CTR, ENCRYPTION_WARM, FILES_WARM, FORMAT, PHALANX};
use crate::names::mounts::CEILING;
use crate::names::sefps::BASELINE;
use crate::names::users::SPEEDUP;
use crate::paper::Printed;
use crate::report::answer::questions::{self, line_name};
use crate::report::text::{digits, filled, percent, unique};
use crate::row::Row;

/// A row among those of its experiment, and one of the printed figures beside it.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub row: &'a Row,
    pub rows: &'a [&'a Row],
    pub printed: Option<&'a Printed>,
}

/// The first of the patterns whose words are all known.
pub fn fill(pattern: &str, word: impl Fn(&str) -> Option<String>) -> Option<String> {
    pattern.split(" || ").find_map(|pattern| filled(pattern, &word))
}

impl<'a> At<'a> {
    pub fn of(row: &'a Row, rows: &'a [&'a Row]) -> Self {
        Self { row, rows, printed: None }
    }

    pub fn fill(&self, pattern: &str) -> Option<String> {
        fill(pattern, |name| self.word(name))
    }

    pub fn holds(&self, condition: &str) -> bool {
        condition.is_empty() || condition.split(" & ").all(|test| self.passes(test))
    }

    fn passes(&self, test: &str) -> bool {
        if let Some(test) = test.strip_prefix('!') {
            return !self.passes(test);
        }
        if let Some(test) = test.strip_prefix("beside ") {
            let mut beside = self.rows.iter().filter(|other| other.case == self.row.case);
            return beside.any(|other| At::of(other, self.rows).passes(test));
        }
        let Some((name, wanted)) = test.split_once('=') else { return self.word(test).is_some() };
        let (name, is): (&str, fn(&str, &str) -> bool) = match name.as_bytes().last() {
            Some(b'^') => (&name[..name.len() - 1], |word, wanted| word.starts_with(wanted)),
            Some(b'$') => (&name[..name.len() - 1], |word, wanted| word.ends_with(wanted)),
            Some(b'*') => (&name[..name.len() - 1], |word, wanted| word.contains(wanted)),
            _ => (name, |word, wanted| word == wanted),
        };
        self.word(name).is_some_and(|word| wanted.split('|').any(|wanted| is(&word, wanted)))
    }

    /// A word of the row, if it is known.
    ///
    /// # Panics
    /// If there is no such word.
    fn word(&self, name: &str) -> Option<String> {
        let Row { case, measure, scheme, engine, bar, .. } = self.row;
        Some(match name {
            "case" => case.clone(),
            "operation" => self.row.operation.clone(),
            "measure" => measure.clone(),
            "scheme" => scheme.clone(),
            "engine" => engine.clone(),
            "items" => self.row.items.to_string(),
            "processes" => self.row.processes.to_string(),
            "threads" => self.row.threads.to_string(),
            "threads each" if self.row.threads == 1 => "1 thread each".into(),
            "threads each" => format!("{} threads each", self.row.threads),
            "team" => team(self.row),
            "way" => way(self.row),
            "program" => line_name(self.row),
            "shape" => case.rsplit(", ").next()?.into(),
            "alone" => measure.trim_end_matches(KERNEL_ONLY).into(),
            "aes" => measure.split("-CTR").next()?.into(),
            "core" => measure.rsplit("as fast as ").next()?.into(),
            "division" if scheme == STATIC => "static".into(),
            "division" if scheme == DYNAMIC => "dynamic".into(),
            "division" => return None,
            "equation" => [("cpu", "6"), ("gpu", "7"), ("hybrid", "8")].into_iter().find(|e| e.0 == engine)?.1.into(),
            "asked" => bar.as_ref()?.asked.clone(),
            "verdict" => bar.as_ref()?.verdict().into(),
            "over" => self.row.over.clone()?,
            "note" => self.row.note.clone()?,
            "mark" => self.row.mark().into(),
            "not run" => self.row.why_not().map(|_| "not run".into())?,
            "p.by" => self.printed?.by.clone(),
            "p.measure" => self.printed?.measure.clone(),
            "p.value" => self.printed?.value.to_string(),
            "p.unit" => self.printed?.unit.clone(),
            "p.of" if self.printed?.measure == SPEEDUP => "over 1 thread".into(),
            "p.of" => self.printed?.unit.clone(),
            "p.platform" => self.printed?.by.split(" platform ").nth(1)?.split(' ').next()?.into(),
            "ceiling" => self.beside(|other| other.scheme == CEILING)?.fill("{speedup} || {MiB} MiB")?,
            "rust" => self.in_rust()?.0.fill("{scheme}, {measure}")?,
            "rust ms" => self.in_rust()?.0.word("ms")?,
            _ => self.figure(name)?,
        })
    }

    fn figure(&self, name: &str) -> Option<String> {
        let row = self.row;
        let milliseconds = |seconds: f64| digits(seconds * 1e3);
        Some(match name {
            "ms" => milliseconds(row.median_s?),
            "µs" => digits(row.median_s? * 1e6),
            "spread" => {
                let end = |pick: fn(f64, f64) -> f64| row.seconds.iter().copied().reduce(pick).map(milliseconds);
                format!("{} to {}", end(f64::min)?, end(f64::max)?)
            }
            "spread s" => {
                let ends = row.seconds.first().zip(row.seconds.last());
                ends.map(|(first, again)| format!("{}, {}", digits(*first), digits(*again)))?
            }
            "GB/s" => digits(row.gb_per_s?),
            "MB/s" => digits(row.gb_per_s? * 1e3),
            "items/s" => a_second(row.items, row.median_s?)?,
            "best items/s" => a_second(row.items, row.seconds.iter().copied().reduce(f64::min)?)?,
            "GB/s of files" => digits(row.gb_per_s.filter(|_| row.bytes > 100_000)?),
            "speedup" => digits(row.speedup?),
            "1/speedup" => digits(1.0 / row.speedup.filter(|speedup| *speedup > 0.0)?),
            "ratio" => digits(row.speedup.filter(|_| row.median_s.is_none())?),
            "efficiency" => percent(row.efficiency?),
            "amdahl" => digits(row.amdahl?),
            "value" => digits(row.value?),
            "percent" => percent(row.value?),
            "precise" => precise(row.value?),
            "ideal" => precise(row.ideal?),
            "MiB" => digits(row.peak_kib? as f64 / 1024.0),
            "gain" => {
                let base = self.beside(|other| other.scheme == BASELINE && other.engine == "serial")?;
                digits(row.gb_per_s? / base.row.gb_per_s?)
            }
            "over rust" => digits(self.in_rust()?.1),
            _ => panic!("there is no word {name}"),
        })
    }

    /// Another row with the same input, operation and measure.
    fn beside(&self, is_it: impl Fn(&Row) -> bool) -> Option<At<'a>> {
        let is_same = |other: &Row| {
            (&other.case, &other.operation, &other.measure) == (&self.row.case, &self.row.operation, &self.row.measure)
        };
        let found = self.rows.iter().find(|other| is_same(other) && is_it(other))?;
        Some(At::of(found, self.rows))
    }

    /// For a row in Java: the row in Rust that does the same with as many threads, and the ratio of the speed in Java
    /// to that in Rust.
    fn in_rust(&self) -> Option<(At<'a>, f64)> {
        let row = self.row;
        let [scheme, measure] = match (row.scheme.as_str(), row.measure.as_str()) {
            (CTR, ENCRYPTION_WARM) => ["AES-256-CTR", "encryption only"],
            (CTR, FILES_WARM) => ["AES-256-CTR", "with reading and writing"],
            (FORMAT, FILES_WARM) => ["Phalanx's format, AES-256-CTR + SHA-3", "with reading and writing"],
            (COMMAND, measure) => [PHALANX, measure],
            _ => return None,
        };
        let is_it = |other: &&&Row| {
            (other.scheme.as_str(), other.measure.as_str(), other.threads) == (scheme, measure, row.threads)
        };
        let other = self.rows.iter().find(is_it)?;
        Some((At::of(other, self.rows), other.median_s? / row.median_s?))
    }
}

/// The processes and threads of a row, such as "8 processes with 1 thread".
fn team(row: &Row) -> String {
    let of = |n: usize, one: &str, more: &str| format!("{n} {}", if n == 1 { one } else { more });
    format!("{} with {}", of(row.processes, "process", "processes"), of(row.threads, "thread", "threads"))
}

/// The words "measure, scheme", with engine and threads if one scheme has several.
fn way(row: &Row) -> String {
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

/// As many items in a second as these in some seconds.
fn a_second(items: u64, seconds: f64) -> Option<String> {
    (items > 0 && seconds > 0.0).then(|| digits(items as f64 / seconds))
}

fn precise(value: f64) -> String {
    match value.abs() {
        n if n >= 100.0 => format!("{value:.1}"),
        n if n >= 0.01 => format!("{value:.4}"),
        n if n >= 0.0001 => format!("{value:.6}"),
        _ => digits(value),
    }
}

/// The text with this name, for the place below a table of these rows.
pub fn sentences(rows: &[&Row], name: &str) -> String {
    let run = || rows.iter().copied().filter(|row| row.why_not().is_none());
    let crowded = || {
        rows.iter()
            .filter_map(|row| Some((row, row.note.as_deref()?)))
            .filter(|(_, note)| note.starts_with("oversubscribed"))
    };
    let listed = |what: &str, all: Vec<String>| match &all[..] {
        [] => String::new(),
        all => format!(" {what}: {}.", all.join("; ")),
    };
    match name {
        "why not" => not_run(rows),
        "reasons" => {
            let mut reasons = unique(rows.iter().filter_map(|row| row.why_not()).map(String::from));
            reasons.sort_unstable();
            listed("Not run", reasons)
        }
        "reasons by scheme" => {
            let of = |row: &&Row| Some(format!(" {}: not run: {}.", row.scheme, row.why_not()?));
            unique(rows.iter().filter_map(of)).concat()
        }
        "of gpu" => {
            unique(run().filter_map(|row| row.note.as_ref())).iter().map(|note| format!(" gpu: {note}.")).collect()
        }
        "notes by operation" => {
            let noted: Vec<&Row> = run().filter(|row| row.note.is_some()).collect();
            let sentence = |rows: Vec<&Row>| {
                let operations = unique(rows.iter().map(|row| row.operation.as_str()));
                format!(" {}: {}.", operations.join("; "), rows[0].note.as_deref().unwrap_or_default())
            };
            by(&noted, |row| &row.note).into_iter().map(sentence).collect()
        }
        "crowded teams" => listed("More threads than cores", unique(crowded().map(|(row, _)| team(row)))),
        "crowded" => {
            let of = |(_, note): (_, &str)| note.trim_start_matches("oversubscribed: ").to_owned();
            listed("Oversubscribed", unique(crowded().map(of)))
        }
        "requirements" => requirements(rows),
        "gains when slowed" => {
            let is_gain = |row: &&&Row| row.measure == over(STATIC) && row.operation == SLOWED;
            let gain = |row: &&Row| {
                let gain =
                    At::of(row, rows).fill("{speedup} || {percent} || {MiB} MiB || {not run} || ").unwrap_or_default();
                format!(" On {}, {}: dynamic {gain} times as fast as static when one is slowed.", row.case, team(row))
            };
            rows.iter().filter(is_gain).map(gain).collect()
        }
        "even" => {
            let is_it = |row: &&&Row| row.scheme == CIPHERTEXT && row.measure.starts_with("histogram");
            let all: Vec<f64> = rows.iter().filter(is_it).filter_map(|row| row.value).collect();
            format!("{} of {}", all.iter().filter(|value| **value <= CHI_SQUARE_MOST).count(), all.len())
        }
        "limit" => CHI_SQUARE_MOST.to_string(),
        "pads" => questions::pads(rows),
        _ => panic!("there is no sentence {name}"),
    }
}

/// The rows that were not run, and why.
pub fn not_run(rows: &[&Row]) -> String {
    let missing: Vec<&Row> = rows.iter().copied().filter(|row| row.why_not().is_some()).collect();
    let sentence = |rows: Vec<&Row>| {
        let programs = unique(rows.iter().map(|row| format!("{}, {}", row.scheme, row.engine)));
        format!(" Not run: {}: {}.", programs.join("; "), rows[0].why_not().unwrap_or_default())
    };
    by(&missing, |row| row.why_not()).into_iter().map(sentence).collect()
}

/// How many requirements are met.
fn requirements(rows: &[&Row]) -> String {
    let judged: Vec<bool> = rows.iter().filter_map(|row| row.bar.as_ref()?.reached).collect();
    let met = judged.iter().filter(|reached| **reached).count();
    let mut text = match judged.len() {
        0 => "None is judged.".into(),
        all => format!("{met} of {all} requirements are met."),
    };
    if rows.iter().any(|row| row.measure == MESSAGES) {
        text += " Time for messages: the part of the time that all processes but the first, which leads, spend on messages and at work.";
    }
    text
}
