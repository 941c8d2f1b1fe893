//! The top of the page: the papers' headlines then and now, and whole commands beside other programs.

use crate::names::peers::COPY;
use crate::names::sefps::{BASELINE, MEANS, ours};
use crate::names::study::{KEYS, ONE_CORE, OURS, TABLES, measure, over_measure};
use crate::names::users::{AVERAGES, PRINTED};
use crate::names::{cluster, keys};
use crate::report::answer::{Said, said};
use crate::report::chart::{Bar, Bars, Thing};
use crate::report::machine::Machine;
use crate::row::Row;

/// A paper's headline.
pub struct Headline {
    /// The paper: 1 to 5.
    pub paper: usize,
    /// The figure, as printed.
    pub figure: &'static str,
    /// What it is.
    pub then: &'static str,
    /// The same on each machine that has rows of it.
    pub now: Vec<(String, Vec<Said>)>,
}

/// A headline's figure, what it is, and what a machine has for it.
type Asked = (&'static str, &'static str, fn(&Machine) -> Vec<Said>);

/// The headlines of the five papers.
pub fn headlines(machines: &[Machine]) -> Vec<Headline> {
    let all: [Asked; 5] = [
        (
            "2.05 and 0.127 GB/s",
            "AES, and protecting a file as a whole, by two CPUs and a GPU together: 44 × and 3.9 × one thread",
            files,
        ),
        ("2.54 GB/s", "many users' data encrypted by a GPU: 54.9 × one thread", users),
        ("13.2 GB/s", "Java on 31 nodes: 1080 MB in 82 ms, 227 × one thread", threads),
        ("6 ×", "a GPU over the CPU, from about 1 MB on; the paper prints no speed", volume),
        ("2.93 GB/s", "CPU and GPU together: 1 GB in 366 ms, 8.55 × one thread", key_and_aes),
    ];
    let headline = |(i, (figure, then, now)): (usize, Asked)| {
        let each = machines.iter().map(|machine| (machine.name.clone(), now(machine)));
        Headline { paper: i + 1, figure, then, now: each.filter(|(_, said)| !said.is_empty()).collect() }
    };
    all.into_iter().enumerate().map(headline).collect()
}

fn files(machine: &Machine) -> Vec<Said> {
    let rows: Vec<&Row> = machine.of("sefps").filter(|row| row.operation == "protect").collect();
    // A short run has no means: then its largest file.
    let largest = rows.iter().filter(|row| row.bytes > 0).max_by_key(|row| row.bytes).map(|row| row.case.clone());
    let has_means = rows.iter().any(|row| row.case == MEANS);
    let case = if has_means { MEANS.to_owned() } else { largest.unwrap_or_default() };
    let speed = |measure: &str, is_it: &dyn Fn(&Row) -> bool| {
        let of = rows.iter().filter(|row| row.measure == measure && row.case == case && is_it(row));
        of.filter_map(|row| row.gb_per_s).reduce(f64::max)
    };
    let is_base = |row: &Row| row.scheme == BASELINE && row.engine == "serial";
    let is_ours = |row: &Row| row.scheme == ours(128);
    let is_format = |row: &Row| row.scheme.starts_with("Phalanx's format");
    let (Some(aes), Some(total)) = (speed("AES", &is_base), speed("total", &is_base)) else { return Vec::new() };
    let mut all = Vec::new();
    if let Some((best, format)) = speed("AES", &is_ours).zip(speed("total", &is_format)) {
        all.push(said("{} and {} GB/s", &[best, format]));
        let pattern = "{} × and {} × the paper's serial program on the same machine.";
        all.push(said(pattern, &[best / aes, format / total]));
    }
    all
}

fn users(machine: &Machine) -> Vec<Said> {
    let mean = |is_it: &dyn Fn(&Row) -> bool| {
        let of = machine.of("users").filter(|row| row.case == format!("{AVERAGES}, regular") && row.measure == PRINTED);
        of.filter(|row| (row.engine != "gpu" || machine.has_gpu()) && is_it(row))
            .filter_map(|row| row.gb_per_s)
            .reduce(f64::max)
    };
    let (Some(best), Some(one)) = (mean(&|row| row.scheme != "SR"), mean(&|row| row.scheme == "SR")) else {
        return Vec::new();
    };
    vec![
        said("{} GB/s", &[best]),
        said("by the best scheme: {} × one thread alone, which does {} GB/s (printed 0.0462).", &[best / one, one]),
    ]
}

fn threads(machine: &Machine) -> Vec<Said> {
    let largest = |row: &&Row| row.case.starts_with("1080MBs");
    let speedup = machine.of("hpc").filter(|row| row.operation == "encrypt" || row.operation == "protect");
    let is_known = |row: &&Row| row.measure == "encryption only" || row.measure == cluster::OWN;
    let speedup = speedup.filter(largest).filter(is_known).filter_map(|row| row.speedup).reduce(f64::max);
    let times = machine.of("hpc").filter(largest).filter(|row| row.measure == "encryption only");
    let fastest =
        times.filter(|row| row.median_s.is_some()).min_by(|a, b| a.median_s.partial_cmp(&b.median_s).expect("times"));
    let fastest = fastest.and_then(|row| row.gb_per_s.zip(row.median_s));
    let (Some(speedup), Some((speed, time))) = (speedup, fastest) else { return Vec::new() };
    let cores = machine.heads[0].cores as f64;
    let pattern = "1080 MB are encrypted in {} ms; {} × one thread on {} cores of one machine. No cluster was at hand.";
    vec![said("{} GB/s", &[speed]), said(pattern, &[time * 1e3, speedup, cores])]
}

fn volume(machine: &Machine) -> Vec<Said> {
    let ratio = |scheme: &str| {
        let is_it = |row: &&Row| row.measure == over_measure(KEYS[0], ONE_CORE) && row.scheme == scheme;
        machine.of("volume").filter(is_it).filter(|row| row.speedup.is_some()).max_by_key(|row| row.bytes)?.speedup
    };
    let speed = |engine: &str| {
        let is_it = |row: &&Row| row.engine == engine && row.scheme == OURS && row.measure == measure(KEYS[0]);
        machine.of("volume").filter(is_it).filter(|row| row.gb_per_s.is_some()).max_by_key(|row| row.bytes)?.gb_per_s
    };
    let Some(one) = speed("serial") else { return Vec::new() };
    match ratio(TABLES).zip(ratio(OURS)).zip(speed("gpu")).filter(|_| machine.has_gpu()) {
        Some(((tables, ours), gpu)) => {
            let pattern = "by the GPU: {} × one core with tables on both, {} × once the CPU has AES instructions.";
            vec![said("{} GB/s", &[gpu]), said(pattern, &[tables, ours])]
        }
        None => vec![said("{} GB/s", &[one]), said("by AES instructions on one core. No GPU was at hand.", &[])],
    }
}

fn key_and_aes(machine: &Machine) -> Vec<Said> {
    let is_run = |row: &&Row| row.operation == "encrypt" && row.measure == "key digest and encryption";
    let rows: Vec<&Row> =
        machine.of("keys").filter(is_run).filter(|row| row.engine != "gpu" || machine.has_gpu()).collect();
    let Some(bytes) = rows.iter().map(|row| row.bytes).max() else { return Vec::new() };
    let best = |is_it: &dyn Fn(&Row) -> bool| {
        rows.iter().filter(|row| row.bytes == bytes && is_it(row)).filter_map(|row| row.median_s).reduce(f64::min)
    };
    let base = best(&|row| row.scheme == keys::PRINTED && row.engine == "serial");
    let ours = best(&|row| row.scheme == keys::OURS);
    let (Some(base), Some(ours)) = (base, ours) else { return Vec::new() };
    let case = rows.iter().find(|row| row.bytes == bytes).map(|row| row.case.clone()).unwrap_or_default();
    let pattern = format!("by today's kernels: {case} in {{}} ms, {{}} × one thread with tables.");
    vec![said("{} GB/s", &[bytes as f64 / ours / 1e9]), said(pattern, &[ours * 1e3, base / ours])]
}

/// Whole commands on one machine.
pub struct Commands {
    /// Speeds of protecting and of getting back.
    pub bars: Vec<Bars>,
    /// What they show.
    pub said: Vec<Said>,
    /// The comparison with age, and what it is.
    pub headline: Option<(Said, Said)>,
}

/// Whole commands beside other programs, if the machine has rows of them.
pub fn commands(machine: &Machine) -> Option<Commands> {
    let is_one = |row: &&Row| row.measure == "whole command" && row.items == 1 && row.gb_per_s.is_some();
    let rows: Vec<&Row> = machine.of("peers").filter(is_one).collect();
    let bytes = rows.iter().map(|row| row.bytes).max()?;
    let speed = |operation: &str, scheme: &str| {
        rows.iter().find(|row| row.bytes == bytes && row.operation == operation && row.scheme == scheme)?.gb_per_s
    };
    let case = &rows.iter().find(|row| row.bytes == bytes)?.case;
    let bars = ["protect", "unprotect"].map(|operation| {
        let of = rows.iter().filter(|row| row.bytes == bytes && row.operation == operation);
        let mut bars: Vec<Bar> = of
            .filter_map(|row| {
                let thing = if row.scheme.starts_with("phalanx") { Thing::Cpu } else { Thing::Peer };
                Some(Bar { name: row.scheme.clone(), thing, value: row.gb_per_s?, printed: false })
            })
            .collect();
        bars.sort_by(|a, b| b.value.total_cmp(&a.value));
        let what = if operation == "protect" { "Encrypting" } else { "Decrypting" };
        Bars { title: format!("{what} a file of {case}"), unit: "GB/s of plaintext".into(), bars }
    });
    let (mut all, mut headline) = (Vec::new(), None);
    if let Some(ours) = speed("protect", "phalanx, suite 1") {
        if let Some(age) = speed("protect", "age") {
            let text = said(
                format!("A file of {case} is encrypted {{}} × as fast as by age ({{}} GB/s)."),
                &[ours / age, age],
            );
            headline = Some((said("{} GB/s", &[ours]), text));
        }
        let peers: Vec<(&str, f64)> = ["age", "openssl enc", "gpg", "gocryptfs", "7z", "rclone", "restic"]
            .into_iter()
            .filter_map(|peer| Some((peer, ours / speed("protect", peer)?)))
            .collect();
        let each: Vec<String> = peers.iter().map(|(peer, _)| format!("{{}} × as fast as {peer}")).collect();
        let pattern = format!("phalanx encrypts {{}} GB/s, with its default suite: {}.", each.join(", "));
        let figures: Vec<f64> = [ours].into_iter().chain(peers.iter().map(|(_, ratio)| *ratio)).collect();
        if !peers.is_empty() {
            all.push(said(pattern, &figures));
        }
        if let Some(copy) = speed("protect", "cp") {
            all.push(said("cp, which neither encrypts nor checks, copies {} GB/s.", &[copy]));
        }
        match speed("protect", COPY) {
            Some(copy) => {
                let pattern = "A thread for each core that only copies: {} GB/s, the limit of the machine; phalanx reaches {} of it.";
                all.push(said(pattern, &[copy, ours / copy]));
            }
            None => all.push(said("This run has no copy by a thread for each core.", &[])),
        }
    }
    Some(Commands { bars: bars.into_iter().filter(|bars| !bars.bars.is_empty()).collect(), said: all, headline })
}
