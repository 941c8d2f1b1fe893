//! Runs every command's core in a world that fails, again and again: see the README.
#![deny(unsafe_code)]

mod compare;
mod disk;
mod faults;
mod model;
mod promise;
mod random;
mod runner;
mod scenario;
mod tree;
mod view;
mod volume;
mod worker;
mod world;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// More arguments than any command has. A process under test puts its own in their place.
const PADDING: usize = 60;

/// Options with a value, and those without.
const VALUES: [&str; 7] = ["--seconds", "--seed", "--workers", "--only", "--again", "--compare", "--dir"];
const FLAGS: [&str; 2] = ["--once", "--random"];
/// The exit code after a wrong argument.
const USAGE: u8 = worker::UNKNOWN;

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).take_while(|arg| arg != "-").collect();
    if args.first().is_some_and(|first| first == "worker") {
        return worker::main(&args.split_off(1));
    }
    if let Err(why) = known(&args) {
        eprintln!("{why}");
        return ExitCode::from(USAGE);
    }
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let seconds: u64 = option("--seconds").map_or(60, |text| text.parse().expect("--seconds"));
    let seed: u64 = option("--seed").map_or_else(now, |text| text.parse().expect("--seed"));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = option("--workers").map_or(cores, |text| text.parse::<NonZero<usize>>().expect("--workers").get());
    let only = option("--only").unwrap_or_default();
    let once = args.iter().any(|arg| arg == "--once");
    let at_random = args.iter().any(|arg| arg == "--random");
    let again = option("--again").unwrap_or_default();
    let compare = option("--compare").unwrap_or_default();
    let workers = if again.is_empty() && compare.is_empty() { workers } else { 1 };
    let folder = PathBuf::from(option("--dir").unwrap_or_else(|| "/dev/shm".into()))
        .join(format!("phalanx-failing-world-{}", std::process::id()));
    println!("seed {seed}, {workers} processes");
    let began = Instant::now();
    let children: Vec<_> = (0..workers)
        .map(|number| {
            let dir = folder.join(number.to_string());
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.arg("worker").arg(&dir).args([seed, seconds, number as u64, workers as u64].map(|n| n.to_string()));
            command
                .args([
                    format!("only={only}"),
                    format!("again={again}"),
                    format!("compare={compare}"),
                    format!("once={once}"),
                    format!("random={at_random}"),
                ])
                .args(["-"; PADDING]);
            command.env("PHALANX_KEYRING", dir.join("case/keyring")).env("PHALANX_STATE", dir.join("case/state"));
            command.env("HOME", dir.join("case")).env_remove("RUST_BACKTRACE").env("LC_ALL", "C");
            command.stdout(Stdio::piped()).spawn().expect("a process")
        })
        .collect();
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    let (mut failed, mut is_unknown) = (false, false);
    for mut child in children {
        for line in BufReader::new(child.stdout.take().expect("its output")).lines() {
            let line = line.expect("a line");
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["count", scenario, kind, count] => {
                    *counts.entry((scenario.into(), kind.into())).or_default() += count.parse::<u64>().unwrap_or(0);
                }
                _ => println!("{line}"),
            }
        }
        let status = child.wait().expect("its end");
        failed |= !status.success();
        is_unknown |= status.code() == Some(USAGE.into());
    }
    let _ = std::fs::remove_dir_all(&folder);
    if is_unknown {
        return ExitCode::from(USAGE);
    }
    report(&counts, began.elapsed());
    if failed {
        println!("something is wrong: see above");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Refuses what is no option: a check of something misspelt would check nothing.
fn known(args: &[String]) -> Result<(), String> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let is_value = VALUES.contains(&arg.as_str());
        if !is_value && !FLAGS.contains(&arg.as_str()) {
            return Err(format!("no such option: {arg}"));
        }
        if is_value && rest.next().is_none_or(|value| value.is_empty()) {
            return Err(format!("{arg} needs a value"));
        }
    }
    Ok(())
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_secs())
}

fn report(counts: &BTreeMap<(String, String), u64>, took: Duration) {
    let mut by_scenario: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut by_kind: BTreeMap<&str, u64> = BTreeMap::new();
    for ((scenario, kind), count) in counts {
        by_scenario.entry(scenario).or_default().push(format!("{kind} {count}"));
        *by_kind.entry(kind).or_default() += count;
    }
    for (scenario, kinds) in by_scenario {
        println!("{scenario}: {}", kinds.join(", "));
    }
    let all: Vec<_> = by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    println!("in all: {}", all.join(", "));
    let runs: u64 = counts.iter().filter(|((_, kind), _)| kind == "runs").map(|(_, count)| count).sum();
    println!("{runs} runs in {} s", took.as_secs());
}
