//! The project's requirements for batches. Each figure is compared with its named peers in the same run.

use crate::error::{Error, Result};
use crate::measure::scratch;
use crate::measure::setup::Setup;
use crate::measure::steps::{Rows, Step};
use crate::measure::users::bare::{Cpu, Kind};
use crate::measure::users::data::{
    AWS_CTR, AWS_CTR_SHA3, AWS_GCM, BATCH, Contestant, Data, ONE_BY_ONE, XOR_PASS, take_turns,
};
use crate::measure::users::workload;
use crate::measure::users::workload::{SEED, Shape, case};
use crate::names::users::EXPERIMENT;
use crate::row::{Bar, Row, median};
use phalanx_core::Suite;

const BARE: &str = "bare AES-256-CTR";
const CCS: &str = "CCS";
const SHORT: usize = 256;

/// The number of threads of the peer.
#[derive(Clone, Copy)]
enum Peer {
    /// The same number as the figure.
    All,
    /// One.
    One,
}

/// A required ratio: scheme, the scheme to compare with, number of threads, and the least ratio.
type Asked = (&'static str, &'static str, Peer, f64);

/// A set of contestants over the same data.
struct Set {
    name: String,
    operation: &'static str,
    measure: &'static str,
    room: usize,
    lengths: Vec<usize>,
    asked: &'static [Asked],
}

/// The steps: one for each set.
pub fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    let (users, short) = if setup.quick { (2000, 100_000) } else { (10_000, 1_000_000) };
    let long = |operation, measure, room, asked| Set {
        name: case(users, Shape::Irregular),
        operation,
        measure,
        room,
        lengths: workload::lengths(users, Shape::Irregular, SEED),
        asked,
    };
    let (suite_1, suite_4) = (Suite::Aes256CtrSha3, Suite::Aes256Gcm);
    let sets = [
        (long("encrypt", BARE, 0, &[(CCS, XOR_PASS, Peer::All, 0.85), (CCS, AWS_CTR, Peer::One, 3.0)]), None),
        (
            long(
                "seal",
                suite_1.name(),
                suite_1.overhead(),
                &[(BATCH, AWS_CTR_SHA3, Peer::One, 11.0), (BATCH, BATCH, Peer::One, 1.9)],
            ),
            Some(suite_1),
        ),
        (long("seal", suite_4.name(), suite_4.overhead(), &[(BATCH, AWS_GCM, Peer::All, 0.95)]), Some(suite_4)),
        (
            Set {
                name: format!("{short} messages of {SHORT} bytes"),
                operation: "seal",
                measure: suite_1.name(),
                room: suite_1.overhead(),
                lengths: vec![SHORT; short],
                asked: &[(BATCH, ONE_BY_ONE, Peer::One, 3.0)],
            },
            Some(suite_1),
        ),
    ];
    let mut steps = Vec::new();
    for (set, suite) in sets {
        let bytes: usize = set.lengths.iter().map(|len| len + set.room).sum();
        // Beside the data: a key, and what describes a user to each call.
        scratch::require_memory((bytes + set.lengths.len() * 512) as u64)?;
        let name = format!("{EXPERIMENT} bars {} {}", set.measure, set.name);
        let weight = (bytes / 100) as u64;
        steps.push(Step::new(name, weight, move |rows| one_set(setup, &set, suite, rows)));
    }
    Ok(steps)
}

fn contestants(setup: &Setup, set: &Set, suite: Option<Suite>) -> Vec<Contestant<'static>> {
    let (threads, levels) = (setup.threads, setup.levels);
    let Some(suite) = suite else {
        let scheme = Cpu { kind: Kind::Ccs, threads, level: levels.aes };
        return vec![Contestant::xor_pass(threads), Contestant::bare(scheme, 32), Contestant::aws_ctr()];
    };
    let mut all = vec![Contestant::batch(suite, threads, levels)];
    let is_asked = |peer: &str| set.asked.iter().any(|(_, over, ..)| *over == peer);
    if is_asked(BATCH) {
        // The ratio is that of two threads to one.
        all.extend((threads > 2).then(|| Contestant::batch(suite, 2, levels)));
        all.extend((threads > 1).then(|| Contestant::batch(suite, 1, levels)));
    }
    all.extend(is_asked(AWS_CTR_SHA3).then(Contestant::aws_ctr_sha3));
    all.extend(is_asked(AWS_GCM).then(|| Contestant::aws_gcm(threads)));
    all.extend(is_asked(ONE_BY_ONE).then(|| Contestant::one_by_one(suite, levels)));
    all
}

fn one_set(setup: &Setup, set: &Set, suite: Option<Suite>, rows: &mut Rows<'_>) -> Result<()> {
    let rounds = if setup.quick { 3 } else { 5 };
    let mut data = Data::new(set.lengths.clone(), set.room);
    let mut contestants = contestants(setup, set, suite);
    take_turns(&mut data, &mut contestants, rounds)?;
    let row = |scheme: &str, engine: &str, threads: usize| Row {
        bytes: data.plaintext() as u64,
        items: data.users() as u64,
        threads,
        ..Row::of(
            EXPERIMENT,
            set.name.clone(),
            [set.operation, &format!("{}, beside its peers", set.measure), scheme, engine],
        )
    };
    for contestant in &contestants {
        let row = row(&contestant.scheme, contestant.engine(), contestant.threads);
        rows.write(Row { runs_per_time: contestant.runs_per_time, ..row }.timed(contestant.seconds.clone()))?;
    }
    for (scheme, over, peer, at_least) in set.asked {
        // A scheme that is compared with itself runs on two threads, and others on all.
        let threads = if scheme == over { 2 } else { setup.threads };
        let peer_threads = if matches!(peer, Peer::All) { threads } else { 1 };
        let over_name = format!("{over}, {peer_threads} thread{}", if peer_threads == 1 { "" } else { "s" });
        let engine = if threads == 1 { "serial" } else { "cpu" };
        let measure = format!("{}: times as fast as {over_name}", set.measure);
        let row = Row { measure, over: Some(over_name.clone()), ..row(scheme, engine, threads) };
        let of = |name: &str, threads: usize| {
            let found = contestants.iter().find(|c| c.scheme == name && c.threads == threads);
            found.and_then(|c| median(&c.seconds))
        };
        let Some((ours, peer)) = of(scheme, threads).zip(of(over, peer_threads)) else {
            if threads <= setup.threads {
                return Err(Error::Program(format!("{scheme} or {over} was not measured")));
            }
            rows.write(row.not_run("this machine has one core"))?;
            continue;
        };
        let asked = format!("at least {at_least} times as fast as {over_name}");
        let bar = Bar { asked, reached: (!setup.quick).then_some(peer / ours >= *at_least) };
        rows.write(Row { speedup: Some(peer / ours), bar: Some(bar), ..row })?;
    }
    Ok(())
}
