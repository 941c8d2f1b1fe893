//! Batches in JSON, each item with a context of its own.

use super::answer::Body;
use super::client::Client;
use super::load::{Connections, Request};
use super::ratios::{self, Compared};
use super::servers::{Audit, Server};
use super::{Context, FEW, TEXT, transit, why_not};
use crate::measure::{Contestant, Result, Row, Rows, in_turns};
use crate::names::service::{self, DECRYPT, ENCRYPT, THROUGHPUT};

/// The batches that are prepared.
const BATCHES: usize = 8;
const AT_LEAST: f64 = 8.0;

pub fn measure(context: &Context<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let batch = context.sizes.batch;
    let case = format!("batches of {batch} texts of {TEXT} bytes, {FEW} connections");
    let servers = [
        (service::OFF, context.programs.phalanx(&format!("{} for batches", service::OFF), Audit::Off, None)),
        (service::VAULT, context.programs.vault(&format!("{} for batches", service::VAULT), Audit::Off)),
    ];
    let mut contestants = Vec::new();
    let mut running = Vec::new();
    for (scheme, server) in servers {
        let row = |operation: &str, count: usize| {
            let items = (count * batch) as u64;
            context.row(&case, [operation, THROUGHPUT, scheme], [items * TEXT as u64, items])
        };
        let ready = server.and_then(|server| Ok((prepare(context, &server)?, server)));
        match ready {
            Err(error) => {
                let why = why_not(error)?;
                contestants.extend(
                    [ENCRYPT, DECRYPT].map(|operation| Contestant::missing(vec![row(operation, 0)], why.clone())),
                );
            }
            Ok((prepared, server)) => {
                running.push(server);
                for Prepared { operation, mut connections, requests, count } in prepared {
                    contestants.push(Contestant::new(vec![row(operation, count)], move |_| {
                        Ok(vec![Some(context.at_once(&mut connections, &requests, count)?.seconds)])
                    }));
                }
            }
        }
    }
    let all: Vec<Row> =
        context.programs.place.as_load(|| Ok(in_turns(contestants, 1, context.sizes.rounds)?.concat()))?;
    drop(running);
    rows.write_all(all.iter().cloned())?;
    for operation in [ENCRYPT, DECRYPT] {
        let of = |scheme: &str| all.iter().find(|row| row.operation == operation && row.scheme == scheme);
        if let Some((ours, theirs)) = of(service::OFF).zip(of(service::VAULT)) {
            ratios::write(context, ours, theirs, Compared::Items(Some(AT_LEAST)), rows)?;
        }
    }
    Ok(())
}

/// What is sent to a server again and again.
struct Prepared {
    operation: &'static str,
    connections: Connections,
    requests: Vec<Request<'static>>,
    count: usize,
}

fn prepare(context: &Context<'_>, server: &Server) -> Result<[Prepared; 2]> {
    transit::check(server)?;
    let batch = context.sizes.batch;
    let mut client = Client::connect(&server.address)?;
    let (mut encrypt, mut decrypt) = (Vec::new(), Vec::new());
    for i in 0..BATCHES {
        let request = transit::encrypt_batch(&server.token, i * batch..(i + 1) * batch, TEXT);
        let sealed = transit::ciphertexts(client.ask(&request)?)?;
        decrypt.push(Request { head: transit::decrypt_batch(&server.token, i * batch, &sealed), body: &[] });
        encrypt.push(Request { head: request, body: &[] });
    }
    let ready = |operation, requests: Vec<Request<'static>>| -> Result<Prepared> {
        let mut connections = Connections::open(&server.address, FEW, Body::Counted)?;
        let find = || context.requests_of_a_round(&mut connections, &requests, BATCHES);
        let count = context.programs.place.as_load(find)?;
        Ok(Prepared { operation, connections, requests, count })
    };
    Ok([ready(ENCRYPT, encrypt)?, ready(DECRYPT, decrypt)?])
}
