//! A server for massive users: `phalanx-server` on one core, its load from another one, and Vault and pgcrypto beside it.
//!
//! All that is sent is prepared before the clock starts, and lies in memory that was written to.

mod answer;
mod batches;
mod client;
mod crowd;
mod load;
mod newcomers;
mod place;
mod postgres;
mod processes;
mod ratios;
mod records;
mod servers;
mod singles;
mod streams;
mod transit;

use crate::measure::setup::{ServiceOptions, ServicePart};
use crate::measure::{Error, Result, Row, Rows, Scratch, Setup, Step, row_of, scratch};
use crate::names::service::{ENGINE, EXPERIMENT};
use load::{Arrivals, Connections, Done, Request};
use place::Place;
use servers::Programs;
pub use servers::versions;
use std::time::Duration;

/// Ends all servers. It is called when a signal is about to end this process.
pub fn end_all() {
    processes::end_all();
    postgres::remove_unfinished();
}

/// The length of a text, unless it is said otherwise.
const TEXT: usize = 256;
/// The connections of clients that send single texts.
const CONNECTIONS: usize = 64;
/// The connections of clients that send batches and streams.
const FEW: usize = 4;

/// How much is measured.
#[derive(Clone, Copy)]
struct Sizes {
    rounds: usize,
    /// About how long a round takes.
    seconds: f64,
    /// The users whose single texts are prepared, so that none comes twice in a round.
    pool: usize,
    /// The requests of one connection in a round.
    alone: usize,
    batch: usize,
    stream: usize,
    crowds: &'static [usize],
    newcomers: usize,
    rows: usize,
}

const FULL: Sizes = Sizes {
    rounds: 5,
    seconds: 4.0,
    pool: 150_000,
    alone: 3000,
    batch: 1000,
    stream: 10_000,
    crowds: &[5, 10, 50, 100, 500, 1000, 5000, 10_000],
    newcomers: 1_000_000,
    rows: 10_000,
};
const QUICK: Sizes = Sizes {
    rounds: 2,
    seconds: 0.4,
    pool: 15_000,
    alone: 200,
    batch: 1000,
    stream: 10_000,
    crowds: &[5, 50, 500],
    newcomers: 20_000,
    rows: 1000,
};

/// What the steps share.
#[derive(Clone, Copy)]
struct Context<'a> {
    setup: &'a Setup,
    programs: Programs<'a>,
    sizes: Sizes,
}

/// The steps of the parts that are asked for.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let sizes = if setup.quick { QUICK } else { FULL };
    let programs = Programs { options: &setup.service, scratch, place: Place::choose()? };
    let context = Context { setup, programs, sizes };
    // The longest are the texts of a crowd: as records, as the library's data, and once more on their way.
    let crowd = sizes.crowds.iter().max().unwrap_or(&0) * 150_000 * 3;
    let singles = sizes.pool * 1200 * 5;
    scratch::require_memory(crowd.max(singles) as u64)?;
    type Measure = fn(&Context<'_>, &mut Rows<'_>) -> Result<()>;
    let round = (sizes.seconds * 1e3) as u64 * sizes.rounds as u64;
    let all: [(ServicePart, u64, Measure); 5] = [
        (ServicePart::Single, 20 * round, singles::measure),
        (ServicePart::Batch, 4 * round, batches::measure),
        (ServicePart::Stream, 6 * round, streams::measure),
        (ServicePart::Crowd, 10 * round, crowd::measure),
        (ServicePart::Memory, (sizes.newcomers / 20) as u64, newcomers::measure),
    ];
    let wanted = all.into_iter().filter(|(part, ..)| setup.service.has(*part));
    let step = |(part, weight, measure): (ServicePart, u64, Measure)| {
        let name = format!("{EXPERIMENT} {}", part.name());
        Step::new(name, weight, move |rows| measure(&context, rows))
    };
    Ok(wanted.map(step).collect())
}

/// The servers that are not here.
pub fn missing(options: &ServiceOptions) -> Vec<String> {
    let all = [
        (options.server.is_none(), "phalanx-server"),
        (options.vault.is_none(), "vault (--vault names one)"),
        (options.postgres.is_none(), "pgcrypto (--postgres measures it)"),
    ];
    all.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, name)| name.into()).collect()
}

impl Context<'_> {
    /// A row of a server, with the number of its items and their length together.
    fn row(&self, case: &str, names: [&str; 3], [bytes, items]: [u64; 2]) -> Row {
        let [operation, measure, scheme] = names;
        let row = row_of(EXPERIMENT, case, [operation, measure, scheme, ENGINE], [bytes, items], 0);
        Row { note: Some(self.programs.place.note()), ..row }
    }

    fn spins(&self) -> bool {
        self.programs.place.is_apart()
    }

    /// Sends requests as fast as they are answered.
    fn at_once(&self, to: &mut Connections, requests: &[Request<'_>], count: usize) -> Result<Done> {
        to.run(requests, count, Arrivals::Closed, self.spins())
    }

    /// Sends requests at a constant rate, in requests a second.
    fn at_rate(&self, to: &mut Connections, requests: &[Request<'_>], count: usize, rate: f64) -> Result<Done> {
        to.run(requests, count, Arrivals::Every(Duration::from_secs_f64(1.0 / rate)), self.spins())
    }

    /// How many requests are answered in about the time of a round. This also warms up.
    fn requests_of_a_round(&self, to: &mut Connections, requests: &[Request<'_>], first: usize) -> Result<usize> {
        // The first requests meet a server that has just started.
        self.at_once(to, requests, first)?;
        let seconds = self.at_once(to, requests, first)?.seconds;
        Ok(((first as f64 / seconds * self.sizes.seconds) as usize).max(first))
    }
}

/// The reason why something was not measured. What is wrong with the program itself ends the run.
fn why_not(error: Error) -> Result<String> {
    error.of_device().ok_or(error)
}
