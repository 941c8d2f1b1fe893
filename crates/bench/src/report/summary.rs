//! The top of the page: the papers' headlines then and now, and whole commands compared with other programs.

use crate::names::keys;
use crate::names::peers::COPY;
use crate::names::sefps::{BASELINE, MEANS, ours};
use crate::names::study::{KEYS, ONE_CORE, OURS, TABLES, measure, over_measure};
use crate::names::users::{AVERAGES, PRINTED};
use crate::report::answer::Said;
use crate::report::answer::rules::{Facts, facts};
use crate::report::bars::{Bar, Bars};
use crate::report::catalogue::Headline;
use crate::report::chart::Thing;
use crate::report::machine::Machine;
use crate::row::Row;

/// The sentences of today for the headline of a paper, from one machine: all of them or none.
pub fn now(headline: &Headline, paper: usize, machine: &Machine) -> Option<Vec<Said>> {
    let of = [files, users, threads, volume, key_and_aes][paper - 1];
    let facts = of(machine)?;
    headline.now.iter().map(|patterns| facts.first(patterns)).collect()
}

/// The best speed of rows.
fn fastest<'a>(rows: impl IntoIterator<Item = &'a &'a Row>, is_it: impl Fn(&Row) -> bool) -> Option<f64> {
    rows.into_iter().filter(|row| is_it(row)).filter_map(|row| row.gb_per_s).reduce(f64::max)
}

fn files(machine: &Machine) -> Option<Facts> {
    let rows: Vec<&Row> = machine.of("sefps").filter(|row| row.operation == "protect").collect();
    // A short run has no means, so its largest file is used.
    let largest = rows.iter().filter(|row| row.bytes > 0).max_by_key(|row| row.bytes)?;
    let has_means = rows.iter().any(|row| row.case == MEANS);
    let case = if has_means { MEANS } else { &largest.case };
    let speed = |measure: &str, is_it: &dyn Fn(&Row) -> bool| {
        fastest(&rows, |row| row.measure == measure && row.case == case && is_it(row))
    };
    let is_base = |row: &Row| row.scheme == BASELINE && row.engine == "serial";
    Some(facts! {
        "aes": speed("AES", &is_base),
        "total": speed("total", &is_base),
        "best": speed("AES", &|row| row.scheme == ours(128)),
        "format": speed("total", &|row| row.scheme.starts_with("Phalanx's format")),
    })
}

fn users(machine: &Machine) -> Option<Facts> {
    let case = format!("{AVERAGES}, regular");
    let is_it = |row: &&Row| row.case == case && row.measure == PRINTED && (row.engine != "gpu" || machine.has_gpu());
    let rows: Vec<&Row> = machine.of("users").filter(is_it).collect();
    Some(facts! {
        "best": fastest(&rows, |row| row.scheme != "SR"),
        "one": fastest(&rows, |row| row.scheme == "SR"),
    })
}

fn threads(machine: &Machine) -> Option<Facts> {
    let rows: Vec<&Row> = machine.of("hpc").filter(|row| row.case.starts_with("1080MBs")).collect();
    let timed = rows.iter().filter(|row| row.measure == "encryption only" && row.median_s.is_some());
    let fastest = timed.min_by(|a, b| a.median_s.partial_cmp(&b.median_s).expect("times are numbers"))?;
    Some(facts! {
        "speedup": fastest.speedup,
        "speed": fastest.gb_per_s,
        "time": fastest.median_s.map(|seconds| seconds * 1e3),
        "cores": Some(machine.heads[0].cores as f64),
    })
}

fn volume(machine: &Machine) -> Option<Facts> {
    let largest = |measure: String, engine: &str, scheme: &str, of: fn(&Row) -> Option<f64>| {
        let is_it = |row: &&Row| row.measure == measure && row.engine == engine && row.scheme == scheme;
        of(machine.of("volume").filter(is_it).filter(|row| of(row).is_some()).max_by_key(|row| row.bytes)?)
    };
    let ratio = |scheme: &str| largest(over_measure(KEYS[0], ONE_CORE), "gpu", scheme, |row| row.speedup);
    let speed = |engine: &str| largest(measure(KEYS[0]), engine, OURS, |row| row.gb_per_s);
    let one = speed("serial")?;
    let gpu = ratio(TABLES).zip(ratio(OURS)).zip(speed("gpu")).filter(|_| machine.has_gpu());
    Some(facts! {
        "one": Some(one),
        "gpu": gpu.map(|(_, speed)| speed),
        "tables": gpu.map(|((tables, _), _)| tables),
        "ours": gpu.map(|((_, ours), _)| ours),
    })
}

fn key_and_aes(machine: &Machine) -> Option<Facts> {
    let is_run = |row: &&Row| {
        row.operation == "encrypt"
            && row.measure == "key digest and encryption"
            && (row.engine != "gpu" || machine.has_gpu())
    };
    let rows: Vec<&Row> = machine.of("keys").filter(is_run).collect();
    let bytes = rows.iter().map(|row| row.bytes).max()?;
    let largest: Vec<&&Row> = rows.iter().filter(|row| row.bytes == bytes).collect();
    let best = |is_it: &dyn Fn(&Row) -> bool| {
        largest.iter().filter(|row| is_it(row)).filter_map(|row| row.median_s).reduce(f64::min)
    };
    let ours = best(&|row| row.scheme == keys::OURS)?;
    Some(facts! {
        "base": best(&|row| row.scheme == keys::PRINTED && row.engine == "serial").map(|seconds| seconds * 1e3),
        "ours": Some(ours * 1e3),
        "speed": Some(bytes as f64 / ours / 1e9),
        "case": [&largest[0].case],
    })
}

/// Whole commands on one machine.
pub struct Commands {
    /// Speeds of protecting and of getting back.
    pub bars: Vec<Bars>,
    /// The sentences about them.
    pub said: Vec<Said>,
    /// The comparison with age, as a figure and its explanation.
    pub headline: Option<[Said; 2]>,
}

/// Whole commands compared with other programs, if the machine has such rows.
pub fn commands(machine: &Machine) -> Option<Commands> {
    let is_one = |row: &&Row| row.measure == "whole command" && row.items == 1 && row.gb_per_s.is_some();
    let rows: Vec<&Row> = machine.of("peers").filter(is_one).collect();
    let bytes = rows.iter().map(|row| row.bytes).max()?;
    let rows: Vec<&Row> = rows.into_iter().filter(|row| row.bytes == bytes).collect();
    let case = &rows[0].case;
    let speed = |scheme: &str| rows.iter().find(|row| row.operation == "protect" && row.scheme == scheme)?.gb_per_s;
    let ours = speed("phalanx, suite 1");
    let each = ["age", "openssl enc", "gpg", "gocryptfs", "7z", "rclone", "restic"].into_iter().filter_map(|peer| {
        let said = facts! { "ratio": Some(ours? / speed(peer)?), "peer": [peer] };
        Some(said.first(&["{ratio} × as fast as {peer}".into()])?.text)
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let facts = facts! {
        "case": [case],
        "ours": ours,
        "age": speed("age"),
        "peers": Some(&*each).filter(|each| !each.is_empty()),
        "cp": speed("cp").filter(|_| ours.is_some()),
        "copy": speed(COPY),
        "reached": ours.zip(speed(COPY)).map(|(ours, copy)| ours / copy),
        "no copy": ours.map(|_| "This run has no copy by a thread for each core."),
    };
    let said = |patterns: &[&str]| facts.first(&patterns.iter().map(|pattern| (*pattern).into()).collect::<Vec<_>>());
    let all = [
        said(&["phalanx encrypts {ours} GB/s, with its default suite: {peers}."]),
        said(&["cp, which neither encrypts nor checks, copies {cp} GB/s."]),
        said(&[
            "A thread for each core that only copies: {copy} GB/s, the limit of the machine; phalanx reaches {reached} of it.",
            "{no copy}",
        ]),
    ];
    let with_age = said(&["A file of {case} is encrypted {ours / age} × as fast as by age ({age} GB/s)."]);
    let headline = with_age.and_then(|with_age| Some([said(&["{ours} GB/s"])?, with_age]));
    let bars = [("protect", "Encrypting"), ("unprotect", "Decrypting")].map(|(operation, what)| {
        let of = rows.iter().filter(|row| row.operation == operation).filter_map(|row| {
            let thing = if row.scheme.starts_with("phalanx") { Thing::Cpu } else { Thing::Peer };
            Some(Bar { name: row.scheme.clone(), thing, value: row.gb_per_s?, printed: false })
        });
        let mut bars: Vec<Bar> = of.collect();
        bars.sort_by(|a, b| b.value.total_cmp(&a.value));
        Bars { title: format!("{what} a file of {case}"), unit: "GB/s of plaintext".into(), bars }
    });
    let bars = bars.into_iter().filter(|bars| !bars.bars.is_empty()).collect();
    Some(Commands { bars, said: all.into_iter().flatten().collect(), headline })
}
