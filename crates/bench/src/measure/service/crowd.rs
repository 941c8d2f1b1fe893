//! P2's experiment as it was meant: 5 to 10,000 users who all send at once, each 35 to 150 KB, and get it back sealed. The
//! library's batch call, in the same run, has all their data in memory already.

use super::answer::Body;
use super::load::{Connections, Request};
use super::ratios::{self, Compared};
use super::servers::{Audit, Certificate, KEY, Server};
use super::streams::sealed_all;
use super::{Context, FEW, records, transit, why_not};
use crate::measure::users::data::{Data, roster};
use crate::measure::users::workload::{self, SEED, Shape};
use crate::measure::{Contestant, Error, Result, Row, Rows, in_turns};
use crate::names::service::{self, SEAL};
use phalanx_core::engine::Op;
use phalanx_core::{Suite, batch};
use std::ops::Range;

/// The most connections that are open at the same time. More users share them.
const CONNECTIONS: usize = 400;
/// The least ratios to the library.
const BY_UNIX: f64 = 0.5;
const BY_TLS: f64 = 0.35;

/// The servers, or the reasons why there are none.
type Tried = std::result::Result<Server, String>;

pub fn measure(context: &Context<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let plain = tried(context.programs.phalanx("phalanx-server for a crowd", Audit::On, None))?;
    let certificate = Certificate::make(context.programs.scratch);
    let tls = certificate
        .and_then(|made| context.programs.phalanx("phalanx-server for a crowd by TLS", Audit::On, Some(&made)));
    let tls = tried(tls)?;
    for users in context.sizes.crowds {
        one_crowd(context, *users, &plain, &tls, rows)?;
    }
    Ok(())
}

fn tried(server: Result<Server>) -> Result<Tried> {
    let checked = |server: Server| records::check(&server.address, &server.token, KEY).map(|()| server);
    match server.and_then(checked) {
        Ok(server) => Ok(Ok(server)),
        Err(error) => why_not(error).map(Err),
    }
}

fn one_crowd(context: &Context<'_>, users: usize, plain: &Tried, tls: &Tried, rows: &mut Rows<'_>) -> Result<()> {
    let lengths = workload::lengths(users, Shape::Irregular, SEED);
    let bytes = lengths.iter().sum::<usize>();
    let case = workload::case(users, Shape::Irregular);
    let row = |scheme: &str| context.row(&case, [SEAL, service::TIME, scheme], [bytes as u64, users as u64]);
    let records = Records::new(&lengths);
    let suite = Suite::default();
    let mut data = Data::new(lengths, suite.overhead());
    let place = context.programs.place;
    let cpu = place.as_server(|| Ok(roster(1, context.setup.levels)))?;
    let mut contestants = vec![Contestant::repeated(row(service::CROWD_LIBRARY), || {
        place.as_server(|| Ok(batch::seal(&cpu, suite, &mut data.messages(Op::Seal))?))
    })];
    for (scheme, tried, each) in [
        (service::CROWD_UNIX, plain, true),
        (service::CROWD_TLS, tls, true),
        (service::CROWD_UNIX_STREAMS, plain, false),
        (service::CROWD_TLS_STREAMS, tls, false),
    ] {
        let parts = if each { users } else { FEW.min(users) };
        let ready = match tried {
            Err(why) => Err(why.clone()),
            Ok(server) => match records.connect(server, parts) {
                Ok(ready) => Ok(ready),
                Err(error) => Err(why_not(error)?),
            },
        };
        contestants.push(match ready {
            Err(why) => Contestant::missing(vec![row(scheme)], why),
            Ok((mut connections, requests)) => Contestant::new(vec![row(scheme)], move |_| {
                let done = context.at_once(&mut connections, &requests, requests.len())?;
                sealed_all(done.records, users)?;
                Ok(vec![Some(done.seconds)])
            }),
        });
    }
    let all: Vec<Row> = place.as_load(|| Ok(in_turns(contestants, 1, context.sizes.rounds.min(3))?.concat()))?;
    rows.write_all(all.iter().cloned())?;
    let largest = context.sizes.crowds.last() == Some(&users);
    let of = |scheme: &str| all.iter().find(|row| row.scheme == scheme).expect("each scheme has a row");
    for (scheme, at_least) in [
        (service::CROWD_UNIX, BY_UNIX),
        (service::CROWD_TLS, BY_TLS),
        (service::CROWD_UNIX_STREAMS, BY_UNIX),
        (service::CROWD_TLS_STREAMS, BY_TLS),
    ] {
        let asked = largest.then_some(at_least);
        ratios::write(context, of(scheme), of(service::CROWD_LIBRARY), Compared::Items(asked), rows)?;
    }
    Ok(())
}

/// The records of all users, one after another.
struct Records {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Records {
    fn new(lengths: &[usize]) -> Self {
        let room = lengths.iter().map(|len| records::len(KEY, transit::user(0).len(), *len)).sum();
        let (mut bytes, mut ends) = (Vec::with_capacity(room), Vec::with_capacity(lengths.len()));
        for (i, len) in lengths.iter().enumerate() {
            records::push(&mut bytes, KEY, transit::user(i).as_bytes(), *len, |text| text.fill(i as u8));
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    /// The bytes of some users' records.
    fn of(&self, users: Range<usize>) -> &[u8] {
        let start = users.start.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[users.end - 1]]
    }

    /// Requests with about as many users each, and connections for them.
    fn connect(&self, server: &Server, parts: usize) -> Result<(Connections, Vec<Request<'_>>)> {
        let is_tls = matches!(server.address, super::client::Address::Tls(..));
        let address = if is_tls { Some(&server.address) } else { server.socket.as_ref() };
        let address = address.ok_or_else(|| Error::NotRun("no socket".into()))?;
        let users = self.ends.len();
        let request = |i: usize| {
            let body = self.of(i * users / parts..(i + 1) * users / parts);
            Request { head: records::seal(&server.token, body.len()), body }
        };
        Ok((Connections::open(address, parts.min(CONNECTIONS), Body::Records)?, (0..parts).map(request).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_all_records() {
        let all = Records::new(&[5, 0, 100, 7, 1]);
        let parts: Vec<u8> = (0..3).flat_map(|i| all.of(i * 5 / 3..(i + 1) * 5 / 3).to_vec()).collect();
        assert_eq!(parts, all.bytes);
        assert_eq!(all.of(2..3).len(), records::len(KEY, transit::user(2).len(), 100));
    }
}
