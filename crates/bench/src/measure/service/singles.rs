//! Single texts in JSON: throughput on many connections, latency at constant arrival rates, and latency on one connection.

use super::answer::Body;
use super::client::Client;
use super::load::{Connections, Request, percentile};
use super::ratios::{self, Compared, rate};
use super::servers::{Audit, Server};
use super::{CONNECTIONS, Context, TEXT, transit, why_not};
use crate::measure::{Contestant, Result, Row, Rows, in_turns};
use crate::names::service::{self, ENCRYPT, THROUGHPUT};
use std::cell::RefCell;
use std::time::Instant;

/// The percentiles of latencies.
const PERCENTILES: [f64; 2] = [50.0, 99.0];
/// The requests by which the load of a round is found.
const FIRST: usize = 512;

/// A server that is measured, and the peer that it is compared with: how many times as many requests it must answer.
struct Kind {
    scheme: &'static str,
    audit: Audit,
    peer: Option<(&'static str, f64)>,
}

const KINDS: [Kind; 5] = [
    Kind { scheme: service::OFF, audit: Audit::Off, peer: Some((service::VAULT, 5.0)) },
    Kind { scheme: service::ON, audit: Audit::On, peer: Some((service::VAULT_AUDIT, 8.0)) },
    Kind { scheme: service::REQUIRED, audit: Audit::Required, peer: Some((service::VAULT_AUDIT, 8.0)) },
    Kind { scheme: service::VAULT, audit: Audit::Off, peer: None },
    Kind { scheme: service::VAULT_AUDIT, audit: Audit::Required, peer: None },
];

/// A server with what is sent to it.
struct Ready {
    scheme: &'static str,
    server: Server,
    connections: RefCell<Connections>,
    requests: Vec<Request<'static>>,
    /// The requests of a round.
    count: usize,
}

/// A server, or the reason why it is not measured.
type Tried<'a> = (&'a Kind, std::result::Result<Ready, String>);

pub fn measure(context: &Context<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let all: Vec<Tried<'_>> = KINDS
        .iter()
        .map(|kind| match Ready::new(context, kind) {
            Ok(ready) => Ok((kind, Ok(ready))),
            Err(error) => Ok((kind, Err(why_not(error)?))),
        })
        .collect::<Result<_>>()?;
    context.programs.place.as_load(|| {
        let throughputs = throughputs(context, &all)?;
        rows.write_all(throughputs.iter().cloned())?;
        for kind in &KINDS {
            let Some((peer, at_least)) = kind.peer else { continue };
            let compared = Compared::Items(Some(at_least));
            ratios::write(context, of(&throughputs, kind.scheme), of(&throughputs, peer), compared, rows)?;
        }
        arrivals(context, &all, &throughputs, rows)?;
        alone(context, &all, rows)
    })
}

/// The row of a scheme.
fn of<'a>(rows: &'a [Row], scheme: &str) -> &'a Row {
    rows.iter().find(|row| row.scheme == scheme).expect("each scheme has a row")
}

impl Ready {
    fn new(context: &Context<'_>, kind: &Kind) -> Result<Self> {
        let Kind { scheme, audit, .. } = *kind;
        let server = match scheme {
            service::VAULT | service::VAULT_AUDIT => context.programs.vault(scheme, audit)?,
            _ => context.programs.phalanx(scheme, audit, None)?,
        };
        transit::check(&server)?;
        let request = |i| Request { head: transit::encrypt(&server.token, i, TEXT), body: &[] };
        let requests: Vec<Request<'static>> = (0..context.sizes.pool).map(request).collect();
        let mut connections = Connections::open(&server.address, CONNECTIONS, Body::Counted)?;
        let find = || context.requests_of_a_round(&mut connections, &requests, FIRST);
        let count = context.programs.place.as_load(find)?.min(requests.len());
        Ok(Self { scheme, server, connections: RefCell::new(connections), requests, count })
    }
}

/// As many requests as are answered.
fn throughputs(context: &Context<'_>, all: &[Tried<'_>]) -> Result<Vec<Row>> {
    let case = format!("single texts of {TEXT} bytes, {CONNECTIONS} connections");
    let row = |scheme: &str, count: usize| {
        context.row(&case, [ENCRYPT, THROUGHPUT, scheme], [(count * TEXT) as u64, count as u64])
    };
    let contestants = all.iter().map(|(kind, ready)| match ready {
        Err(why) => Contestant::missing(vec![row(kind.scheme, 0)], why.clone()),
        Ok(ready) => Contestant::new(vec![row(ready.scheme, ready.count)], |_| {
            let done = context.at_once(&mut ready.connections.borrow_mut(), &ready.requests, ready.count)?;
            Ok(vec![Some(done.seconds)])
        }),
    });
    Ok(in_turns(contestants.collect(), 1, context.sizes.rounds)?.concat())
}

/// Latencies at half of what a server can do, and at half of what its peer can do.
fn arrivals(context: &Context<'_>, all: &[Tried<'_>], throughputs: &[Row], rows: &mut Rows<'_>) -> Result<()> {
    let half = |scheme: &str| rate(of(throughputs, scheme)).map(|rate| rate / 2.0);
    let mut contestants = Vec::new();
    for (kind, ready) in all {
        let at = |case: String, rate: Option<f64>| at_rate(context, kind.scheme, ready.as_ref(), &case, rate);
        contestants.push(at(service::AT_OWN_HALF.into(), half(kind.scheme)));
        // A peer is also one at the same arrivals as itself.
        let peers = KINDS.iter().filter_map(|kind| kind.peer).map(|(peer, _)| peer);
        let peer = kind.peer.map(|(peer, _)| peer).or(peers.into_iter().find(|peer| *peer == kind.scheme));
        if let Some(peer) = peer {
            contestants.push(at(service::at_half_of(peer), half(peer)));
        }
    }
    let all = in_turns(contestants, 1, context.sizes.rounds)?.concat();
    rows.write_all(all.iter().cloned())?;
    for kind in &KINDS {
        let Some((peer, _)) = kind.peer else { continue };
        let case = service::at_half_of(peer);
        let p99 = service::percentile(99.0);
        let of = |scheme: &str| all.iter().find(|row| row.case == case && row.scheme == scheme && row.measure == p99);
        if let Some((ours, theirs)) = of(kind.scheme).zip(of(peer)) {
            ratios::write(context, ours, theirs, Compared::Time(Some(0.5)), rows)?;
        }
    }
    Ok(())
}

/// A server at a constant rate of arrivals.
fn at_rate<'a>(
    context: &'a Context<'_>,
    scheme: &str,
    ready: std::result::Result<&'a Ready, &String>,
    case: &str,
    rate: Option<f64>,
) -> Contestant<'a> {
    let count = rate.map_or(0, |rate| ((rate * context.sizes.seconds) as usize).max(200));
    let row = |percent: &f64| {
        let row = context.row(case, [ENCRYPT, &service::percentile(*percent), scheme], [0, count as u64]);
        let rate = rate.map(|rate| format!("; {rate:.0} requests a second")).unwrap_or_default();
        Row { note: row.note.map(|note| note + &rate), ..row }
    };
    let rows = PERCENTILES.iter().map(row).collect();
    let why = ready.err().cloned().unwrap_or_else(|| "no peer whose rate is known".into());
    let Some((ready, rate)) = ready.ok().zip(rate) else { return Contestant::missing(rows, why) };
    Contestant::new(rows, move |_| {
        let mut connections = ready.connections.borrow_mut();
        let mut done = context.at_rate(&mut connections, &ready.requests, count, rate)?;
        Ok(PERCENTILES.iter().map(|percent| Some(percentile(&mut done.latencies, *percent))).collect())
    })
}

/// One request after another on one connection, which waits for each answer.
fn alone(context: &Context<'_>, all: &[Tried<'_>], rows: &mut Rows<'_>) -> Result<()> {
    let count = context.sizes.alone;
    let mut contestants = Vec::new();
    for (kind, ready) in all {
        let row = context.row(service::ALONE, [ENCRYPT, &service::percentile(50.0), kind.scheme], [0, count as u64]);
        contestants.push(match ready {
            Err(why) => Contestant::missing(vec![row], why.clone()),
            Ok(ready) => Contestant::new(vec![row], move |_| {
                let mut client = Client::connect(&ready.server.address)?;
                let mut latencies = Vec::with_capacity(count);
                for request in ready.requests.iter().take(count) {
                    let begun = Instant::now();
                    client.ask(&request.head)?;
                    latencies.push(begun.elapsed().as_secs_f64());
                }
                Ok(vec![Some(percentile(&mut latencies, 50.0))])
            }),
        });
    }
    let all = in_turns(contestants, 1, context.sizes.rounds)?.concat();
    rows.write_all(all.iter().cloned())?;
    for kind in &KINDS {
        let Some((peer, _)) = kind.peer else { continue };
        ratios::write(context, of(&all, kind.scheme), of(&all, peer), Compared::Time(Some(1.0)), rows)?;
    }
    Ok(())
}
