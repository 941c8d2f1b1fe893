//! Streams of many users' records, beside the library's batch call in this process, and pgcrypto.

use super::answer::Body;
use super::load::{Connections, Request};
use super::postgres::Postgres;
use super::ratios::{self, Compared};
use super::servers::{Audit, KEY, Server};
use super::{Context, FEW, TEXT, records, transit, why_not};
use crate::measure::users::data::roster;
use crate::measure::{Contestant, Error, Result, Row, Rows, in_turns};
use crate::names::service::{self, SEAL, THROUGHPUT};
use phalanx_core::batch::{BehindRoom, Message, with_room};
use phalanx_core::{SecretKey, Suite, UserKeys, batch};

/// The streams that are prepared.
const STREAMS: usize = 8;
/// The least ratios to the library and to pgcrypto.
const OVER_LIBRARY: f64 = 0.6;
const OVER_PGCRYPTO: f64 = 3.0;

pub fn measure(context: &Context<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let (count, place) = (context.sizes.stream, context.programs.place);
    let case = format!("streams of {count} records of {TEXT} bytes, {FEW} connections");
    let row = |scheme: &str, items: usize| {
        context.row(&case, [SEAL, THROUGHPUT, scheme], [(items * TEXT) as u64, items as u64])
    };
    let postgres = Postgres::start(context);
    let server = context.programs.phalanx(&format!("{} for streams", service::OFF), Audit::Off, None);
    let server = server.map_err(why_not);
    let streams: Vec<Vec<u8>> = (0..STREAMS).map(|i| records::stream(KEY, i * count..(i + 1) * count, TEXT)).collect();
    let mut contestants = vec![library(context, row(service::LIBRARY, count))?];
    for scheme in [service::BY_UNIX, service::BY_TCP] {
        let ready = match &server {
            Err(Ok(why)) => Err(why.clone()),
            Err(Err(error)) => return Err(Error::Program(error.to_string())),
            Ok(server) => match prepare(context, server, scheme, &streams) {
                Ok(ready) => Ok(ready),
                Err(error) => Err(why_not(error)?),
            },
        };
        contestants.push(match ready {
            Err(why) => Contestant::missing(vec![row(scheme, 0)], why),
            Ok((mut connections, requests, sent)) => Contestant::new(vec![row(scheme, sent * count)], move |_| {
                let done = context.at_once(&mut connections, &requests, sent)?;
                sealed_all(done.records, sent * count)?;
                Ok(vec![Some(done.seconds)])
            }),
        });
    }
    let items = context.sizes.rows;
    for (scheme, function) in service::PGCRYPTO {
        contestants.push(match &postgres {
            Err(Error::NotRun(why)) => Contestant::missing(vec![row(scheme, 0)], why.clone()),
            Err(error) => return Err(Error::Program(error.to_string())),
            Ok(postgres) => {
                Contestant::new(vec![row(scheme, items)], move |_| Ok(vec![Some(postgres.time(function)?)]))
            }
        });
    }
    let all: Vec<Row> = place.as_load(|| Ok(in_turns(contestants, 1, context.sizes.rounds)?.concat()))?;
    rows.write_all(all.iter().cloned())?;
    let of = |scheme: &str| all.iter().find(|row| row.scheme == scheme).expect("each scheme has a row");
    for scheme in [service::BY_UNIX, service::BY_TCP] {
        ratios::write(context, of(scheme), of(service::LIBRARY), Compared::Items(Some(OVER_LIBRARY)), rows)?;
        for (i, (peer, _)) in service::PGCRYPTO.iter().enumerate() {
            // What pgp_sym_encrypt is asked for is another thing: it stretches a password.
            let at_least = (i == 0).then_some(OVER_PGCRYPTO);
            ratios::write(context, of(scheme), of(peer), Compared::Items(at_least), rows)?;
        }
    }
    Ok(())
}

/// Fails unless all records were sealed.
pub fn sealed_all(sealed: u64, sent: usize) -> Result<()> {
    match sealed == sent as u64 {
        true => Ok(()),
        false => Err(Error::NotRun(format!("the server answers {sealed} of {sent} records"))),
    }
}

type Ready<'a> = (Connections, Vec<Request<'a>>, usize);

fn prepare<'a>(context: &Context<'_>, server: &Server, scheme: &str, streams: &'a [Vec<u8>]) -> Result<Ready<'a>> {
    let address = if scheme == service::BY_TCP { Some(&server.address) } else { server.socket.as_ref() };
    let address = address.ok_or_else(|| Error::NotRun("no socket".into()))?;
    records::check(address, &server.token, KEY)?;
    let request = |stream: &'a Vec<u8>| Request { head: records::seal(&server.token, stream.len()), body: stream };
    let requests: Vec<Request<'a>> = streams.iter().map(request).collect();
    let mut connections = Connections::open(address, FEW, Body::Records)?;
    let count = context.programs.place.as_load(|| context.requests_of_a_round(&mut connections, &requests, STREAMS))?;
    Ok((connections, requests, count))
}

/// The library's own call, by one thread on the core of the servers, with users' keys that the batch derives.
fn library<'a>(context: &'a Context<'_>, row: Row) -> Result<Contestant<'a>> {
    let (place, levels, suite) = (context.programs.place, context.setup.levels, Suite::default());
    let keys = UserKeys::new(&SecretKey::random()?, b"phalanx-bench service");
    let users: Vec<String> = (0..context.sizes.stream).map(transit::user).collect();
    let mut texts: Vec<Vec<u8>> = (0..users.len()).map(|i| with_room(suite, &transit::text(i, TEXT))).collect();
    let cpu = place.as_server(|| Ok(roster(1, levels)))?;
    Ok(Contestant::repeated(row, move || {
        let messages = users.iter().zip(&mut texts).map(|(user, text)| {
            let text = BehindRoom::new(suite, text).expect("it was made with room");
            Message::to_seal((&keys, user.as_bytes()), user.as_bytes(), text)
        });
        let mut messages: Vec<Message<'_>> = messages.collect();
        place.as_server(|| Ok(batch::seal(&cpu, suite, &mut messages)?))
    }))
}
