//! The memory of a server to which new users come, in both modes of a key.

use super::answer::Body;
use super::load::{Connections, Request};
use super::ratios;
use super::servers::{Audit, KEY, SHREDDABLE, Server};
use super::streams::sealed_all;
use super::{Context, records, why_not};
use crate::measure::{Error, Result, Row, Rows};
use crate::names::service::{self, SEAL};

/// The length of a text, and the records of a stream.
const TEXT: usize = 64;
const STREAM: usize = 10_000;
/// The most MiB that new users may take, and that the same users may take when they come again.
const NEW: f64 = 100.0;
const AGAIN: f64 = 8.0;

pub fn measure(context: &Context<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (mode, key) in [("derived", KEY), ("shreddable", SHREDDABLE)] {
        let case = format!("{} new users, {mode} keys", context.sizes.newcomers);
        let row = |measure: &str| {
            let users = context.sizes.newcomers as u64;
            context.row(&case, [SEAL, measure, service::BY_UNIX], [users * TEXT as u64, users])
        };
        match context.programs.place.as_load(|| one_mode(context, mode, key)) {
            Err(error) => {
                let why = why_not(error)?;
                rows.not_run([row(service::MEMORY), row(service::MEMORY_AGAIN), row(service::TIME)], &why)?;
            }
            Ok(Grown { new, again, seconds }) => {
                let valued = |measure: &str, mib: f64, most: f64| {
                    let bar = ratios::bar(context, format!("at most {most} MiB"), mib <= most);
                    Row { value: Some(mib), bar, ..row(measure) }
                };
                rows.write(valued(service::MEMORY, new, NEW))?;
                rows.write(valued(service::MEMORY_AGAIN, again, AGAIN))?;
                rows.write(row(service::TIME).timed(seconds))?;
            }
        }
    }
    Ok(())
}

/// The MiB that a server has grown by: when the users came, and when they came again. And how long both took.
struct Grown {
    new: f64,
    again: f64,
    seconds: Vec<f64>,
}

fn one_mode(context: &Context<'_>, mode: &str, key: &str) -> Result<Grown> {
    let server = context.programs.phalanx(&format!("phalanx-server for new users, {mode}"), Audit::On, None)?;
    if key == SHREDDABLE {
        context.programs.make_shreddable(&server)?;
    }
    let address = server.socket.as_ref().ok_or_else(|| Error::NotRun("no socket".into()))?;
    let mut connections = Connections::open(address, 1, Body::Records)?;
    let users = context.sizes.newcomers;
    // Others warm it up, so that its buffers and threads do not count as memory of users.
    for _ in 0..4 {
        seal(context, &mut connections, key, users..users + STREAM)?;
    }
    let before = mib(&server)?;
    let mut seconds = Vec::new();
    let mut after = Vec::new();
    for _ in 0..2 {
        let mut sum = 0.0;
        for first in (0..users).step_by(STREAM) {
            sum += seal(context, &mut connections, key, first..(first + STREAM).min(users))?;
        }
        seconds.push(sum);
        after.push(mib(&server)?);
    }
    Ok(Grown { new: after[0] - before, again: after[1] - after[0], seconds })
}

/// Seals a text of each of these users, and returns how long that took.
fn seal(context: &Context<'_>, connections: &mut Connections, key: &str, users: std::ops::Range<usize>) -> Result<f64> {
    let count = users.len();
    let body = records::stream(key, users, TEXT);
    let request = [Request { head: records::seal("", body.len()), body: &body }];
    let done = context.at_once(connections, &request, 1)?;
    sealed_all(done.records, count)?;
    Ok(done.seconds)
}

fn mib(server: &Server) -> Result<f64> {
    let kib = server.process.resident_kib().ok_or_else(|| Error::NotRun("the system does not count memory".into()))?;
    Ok(kib as f64 / 1024.0)
}
