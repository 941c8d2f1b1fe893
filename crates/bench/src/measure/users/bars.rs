//! The project's requirements for batches. Each figure is compared with its named peers in the same run.

use crate::measure::users::bare::{Cpu, Kind};
use crate::measure::users::data::{
    AWS_CTR, AWS_CTR_SHA3, AWS_GCM, BATCH, Data, ONE_BY_ONE, Scheme, XOR_PASS, take_turns,
};
use crate::measure::users::rounds;
use crate::measure::users::workload::{self, SEED, Shape, case};
use crate::measure::{Error, Result, Row, Rows, Setup, Step, engine, row_of, scratch};
use crate::names::users::EXPERIMENT;
use phalanx_core::Suite;

const BARE: &str = "bare AES-256-CTR";
const CCS: &str = "CCS";
const SHORT: usize = 256;

/// The number of threads of the peer.
#[derive(Clone, Copy)]
enum Peer {
    All,
    One,
}

/// A required ratio: scheme, the scheme to compare with, number of threads, and the least ratio.
type Asked = (&'static str, &'static str, Peer, f64);

/// A set of schemes over the same data: sealed in a suite, or only encrypted.
struct Set {
    name: String,
    suite: Option<Suite>,
    lengths: Vec<usize>,
    asked: &'static [Asked],
}

impl Set {
    fn measure(&self) -> &'static str {
        self.suite.map_or(BARE, Suite::name)
    }

    fn room(&self) -> usize {
        self.suite.map_or(0, Suite::overhead)
    }
}

/// The steps: one for each set.
pub fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    let (users, short) = if setup.quick { (2000, 100_000) } else { (10_000, 1_000_000) };
    let long = |suite, asked| {
        let lengths = workload::lengths(users, Shape::Irregular, SEED);
        Set { name: case(users, Shape::Irregular), suite, lengths, asked }
    };
    let suite_1 = Some(Suite::Aes256CtrSha3);
    let sets = [
        long(None, &[(CCS, XOR_PASS, Peer::All, 0.85), (CCS, AWS_CTR, Peer::One, 3.0)]),
        long(suite_1, &[(BATCH, AWS_CTR_SHA3, Peer::One, 11.0), (BATCH, BATCH, Peer::One, 1.9)]),
        long(Some(Suite::Aes256Gcm), &[(BATCH, AWS_GCM, Peer::All, 0.95)]),
        Set {
            name: format!("{short} messages of {SHORT} bytes"),
            suite: suite_1,
            lengths: vec![SHORT; short],
            asked: &[(BATCH, ONE_BY_ONE, Peer::One, 3.0)],
        },
    ];
    let mut steps = Vec::new();
    for set in sets {
        let bytes: usize = set.lengths.iter().map(|len| len + set.room()).sum();
        // Besides the data, each user needs a key and what describes it to each call.
        scratch::require_memory((bytes + set.lengths.len() * 512) as u64)?;
        let name = format!("{EXPERIMENT} bars {} {}", set.measure(), set.name);
        steps.push(Step::new(name, (bytes / 100) as u64, move |rows| one_set(setup, &set, rows)));
    }
    Ok(steps)
}

fn schemes(setup: &Setup, set: &Set) -> Vec<Scheme> {
    let (threads, levels) = (setup.threads, setup.levels);
    let Some(suite) = set.suite else {
        let scheme = Cpu { kind: Kind::Ccs, threads, level: levels.aes };
        return vec![Scheme::xor_pass(threads), Scheme::bare(scheme, 32), Scheme::aws_ctr()];
    };
    let mut all = vec![Scheme::batch(suite, threads, levels)];
    for (_, peer, ..) in set.asked {
        match *peer {
            // This ratio compares two threads with one.
            BATCH => {
                let fewer = [2, 1].into_iter().filter(|n| *n < threads);
                all.extend(fewer.map(|threads| Scheme::batch(suite, threads, levels)));
            }
            AWS_CTR_SHA3 => all.push(Scheme::aws_ctr_sha3()),
            AWS_GCM => all.push(Scheme::aws_gcm(threads)),
            _ => all.push(Scheme::one_by_one(suite, levels)),
        }
    }
    all
}

fn one_set(setup: &Setup, set: &Set, rows: &mut Rows<'_>) -> Result<()> {
    let mut data = Data::new(set.lengths.clone(), set.room());
    let (bytes, items) = (data.plaintext() as u64, data.users() as u64);
    let operation = if set.suite.is_some() { "seal" } else { "encrypt" };
    let row = |measure: String, scheme: &str, engine: &str, threads: usize| {
        row_of(EXPERIMENT, set.name.clone(), [operation, &measure, scheme, engine], [bytes, items], threads)
    };
    let measure = format!("{}, beside its peers", set.measure());
    let all = take_turns(&mut data, &schemes(setup, set), rounds(setup), |scheme, engine, threads| {
        row(measure.clone(), scheme, engine, threads)
    })?;
    rows.write_all(all.iter().cloned())?;
    for (scheme, over, peer, at_least) in set.asked {
        // A scheme that is compared with itself runs on two threads, and others on all.
        let threads = if scheme == over { 2 } else { setup.threads };
        let peer_threads = if matches!(peer, Peer::All) { threads } else { 1 };
        let over_name = format!("{over}, {peer_threads} thread{}", if peer_threads == 1 { "" } else { "s" });
        let measure = format!("{}: times as fast as {over_name}", set.measure());
        let row = Row { over: Some(over_name.clone()), ..row(measure, scheme, engine(threads), threads) };
        let of = |name: &str, threads: usize| {
            all.iter().find(|row| row.scheme == name && row.threads == threads).and_then(|row| row.median_s)
        };
        let Some((ours, peer)) = of(scheme, threads).zip(of(over, peer_threads)) else {
            if threads <= setup.threads {
                return Err(Error::Program(format!("{scheme} or {over} was not measured")));
            }
            rows.write(row.not_run("this machine has one core"))?;
            continue;
        };
        let bar = setup.bar(format!("at least {at_least} times as fast as {over_name}"), peer / ours >= *at_least);
        rows.write(Row { speedup: Some(peer / ours), bar, ..row })?;
    }
    Ok(())
}
