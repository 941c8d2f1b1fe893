//! The store of several machines: a PostgreSQL database.
//!
//! Whoever changes something first locks the only row of `phalanx_state`, so that changes of all servers come one after
//! another and never wait for each other in a circle. Whoever only reads takes no lock.
//!
//! PostgreSQL keeps what was deleted for a while: in dead rows until a vacuum, in its write-ahead log, and in every backup.
//! That users are deleted for good rests on the keys of their buckets, which are replaced.

mod allowance;
mod open;
mod place;
mod session;
mod tls;

pub use place::Place;

use super::{Copies, Error, Result, Store, Transaction};
use crate::refusal::Refusal;
use open::{Ended, Open};
use phalanx_host::lines::complain;
use session::Session;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// The tables. `phalanx_state` has one row: the version of the tables, of which root key the secrets are, and a random number
/// that is another one after each change of keys or tokens.
const SCHEMA: &str = "
CREATE TABLE phalanx_state (
    one BOOLEAN PRIMARY KEY CHECK (one), version INTEGER NOT NULL, mark BYTEA NOT NULL, generation BIGINT NOT NULL
);
CREATE TABLE phalanx_keys (
    id BYTEA PRIMARY KEY, name TEXT NOT NULL UNIQUE, suite SMALLINT NOT NULL, shreddable BOOLEAN NOT NULL,
    needs_user BOOLEAN NOT NULL, deletion_allowed BOOLEAN NOT NULL, min_decryption BIGINT NOT NULL,
    min_encryption BIGINT NOT NULL, min_available BIGINT NOT NULL, mac BYTEA NOT NULL
);
CREATE TABLE phalanx_versions (
    key BYTEA NOT NULL, number BIGINT NOT NULL, created BIGINT NOT NULL, sealed BYTEA NOT NULL, PRIMARY KEY (key, number)
);
CREATE TABLE phalanx_buckets (
    key BYTEA NOT NULL, bucket SMALLINT NOT NULL, sealed BYTEA NOT NULL, PRIMARY KEY (key, bucket)
);
CREATE TABLE phalanx_users (
    key BYTEA NOT NULL, bucket SMALLINT NOT NULL, name BYTEA NOT NULL, sealed BYTEA NOT NULL,
    PRIMARY KEY (key, bucket, name)
);
CREATE TABLE phalanx_tokens (
    hash BYTEA PRIMARY KEY, accessor TEXT NOT NULL UNIQUE, rights TEXT NOT NULL, bound BYTEA, created BIGINT NOT NULL,
    expires BIGINT, ttl BIGINT NOT NULL, renewable BOOLEAN NOT NULL, parent TEXT, name TEXT,
    mac BYTEA NOT NULL
);
CREATE INDEX ON phalanx_tokens (parent);
";
const VERSION: i32 = 1;

/// The lock under which tables are made: `phalanx` in ASCII.
const MAKING: i64 = 0x70_6861_6c61_6e78;

/// How often a transaction is tried after conflicts with other servers.
const TRIES: usize = 4;
/// After a failure nobody connects again for so long, and then for twice as long each time, up to a bound.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The name of a root key, from which nothing of the key can be learnt.
pub type Mark = [u8; 32];

/// The store.
pub struct Postgres {
    session: Option<Session>,
    runtime: Runtime,
    place: Place,
    mark: Mark,
    /// Before this, nobody connects.
    not_before: Option<Instant>,
    pause: Duration,
}

/// Runs on a thread of its own what must not run on one of an asynchronous runtime.
fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let panicked = |_| Error::Failed("a thread has ended".into());
    std::thread::scope(|scope| scope.spawn(work).join().map_err(panicked)?)
}

impl Postgres {
    /// Makes the tables in a database that does not have them.
    ///
    /// # Errors
    /// If it has them, or cannot be reached.
    pub fn create(place: &Place, mark: Mark) -> Result<()> {
        apart(|| {
            let mut store = Self::new(place.clone(), mark)?;
            let session = store.speak().map_err(failed)?;
            make_tables(&mut store, &session)
        })
    }

    /// Connects to a database that has the tables of this root key.
    ///
    /// # Errors
    /// If it cannot be reached, or its tables are of another version or another root key.
    pub fn open(place: Place, mark: Mark) -> Result<Self> {
        apart(|| {
            let mut store = Self::new(place, mark)?;
            store.session = Some(store.connect().map_err(failed)?);
            Ok(store)
        })
    }

    fn new(place: Place, mark: Mark) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| Error::Failed(e.to_string()))?;
        Ok(Self { session: None, runtime, place, mark, not_before: None, pause: PAUSE.0 })
    }

    fn speak(&self) -> Result<Session> {
        let unreachable = |text| Error::Unavailable(format!("PostgreSQL cannot be reached: {text}"));
        Session::connect(&self.runtime, &self.place).map_err(unreachable)
    }

    fn connect(&self) -> Result<Session> {
        let session = self.speak()?;
        check(&self.runtime, &session, &self.mark)?;
        Ok(session)
    }

    /// Connects if there is no connection, unless that has just failed.
    fn reconnect(&mut self) -> Result<()> {
        if self.session.is_some() {
            return Ok(());
        }
        if self.not_before.is_some_and(|end| Instant::now() < end) {
            return Err(Error::Unavailable("PostgreSQL could not be reached a moment ago".into()));
        }
        match self.connect() {
            Ok(session) => {
                if self.not_before.take().is_some() {
                    complain("the store is reached again");
                }
                (self.session, self.pause) = (Some(session), PAUSE.0);
                Ok(())
            }
            Err(error) => {
                self.lose(&error.to_string());
                Err(error)
            }
        }
    }

    /// Gives the connection up. Others learn of it once.
    fn lose(&mut self, why: &str) {
        self.session = None;
        if self.not_before.is_none() {
            complain(format!("warning: {why}"));
        }
        self.not_before = Some(Instant::now() + self.pause);
        self.pause = (2 * self.pause).min(PAUSE.1);
    }

    fn once(&mut self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<(), Ended> {
        let had_one = self.session.is_some();
        self.reconnect().map_err(Ended::Error)?;
        // After a panic the connection closes, and PostgreSQL takes back what was not committed.
        let Some(mut session) = self.session.take() else {
            return Err(Ended::Error(Error::Failed("no session".into())));
        };
        let mut open = Open::new(&self.runtime, &mut session);
        let ended = match work(&mut open) {
            Ok(()) => open.commit(),
            Err(error) => Err(open.roll_back(error)),
        };
        match ended {
            Err(Ended::Lost { why, may_repeat }) => {
                if may_repeat && had_one {
                    // It may have been closed long ago, as when PostgreSQL was started again.
                    return Err(Ended::Lost { why, may_repeat });
                }
                self.lose(&why);
                Err(Ended::Error(Error::Unavailable(why)))
            }
            ended => {
                self.session = Some(session);
                ended
            }
        }
    }
}

/// At the start, what cannot be reached is a failure.
fn failed(error: Error) -> Error {
    if let Error::Unavailable(text) = error { Error::Failed(text) } else { error }
}

fn make_tables(store: &mut Postgres, session: &Session) -> Result<()> {
    let run = |sql: &str| session.batch(&store.runtime, sql).map_err(Error::Failed);
    run(&format!("BEGIN; SELECT pg_advisory_xact_lock({MAKING})"))?;
    if session.version(&store.runtime).map_err(Error::Failed)?.is_some() {
        let text = "the database has the tables of a server already: for another server of the same store, copy root.phx \
                    and store from the folder of the first one";
        return Err(Refusal::invalid(text).into());
    }
    let mark: String = store.mark.iter().map(|byte| format!("{byte:02x}")).collect();
    run(&format!("{SCHEMA} INSERT INTO phalanx_state VALUES (true, {VERSION}, '\\x{mark}', 1); COMMIT"))
}

/// Refuses tables of another version or root key.
fn check(runtime: &Runtime, session: &Session, mark: &Mark) -> Result<()> {
    let found = session.version(runtime).map_err(Error::Unavailable)?;
    let Some((version, of)) = found else {
        return Err(Error::Failed(
            "the database has no tables of a server: phalanx-server init --store makes them".into(),
        ));
    };
    if version != VERSION {
        let text = format!("its tables have version {version}, and this program knows version {VERSION}");
        return Err(Error::Failed(text));
    }
    // Neither is a secret.
    if of != mark { Err(Refusal::failed("the store is of another root key").into()) } else { Ok(()) }
}

impl Store for Postgres {
    fn is_shared(&self) -> bool {
        true
    }

    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
        let mut last = String::new();
        for _ in 0..TRIES {
            match self.once(work) {
                Ok(()) => return Ok(()),
                Err(Ended::Error(error)) => return Err(error),
                Err(Ended::Conflict(why) | Ended::Lost { why, .. }) => last = why,
            }
        }
        Err(Error::Unavailable(last))
    }

    fn scrub(&mut self) -> Result<()> {
        // Its autovacuum removes dead rows. Nothing that can be asked of it here removes them from its log and backups.
        Ok(())
    }

    fn copy(&mut self, _: &Copies) -> Result<()> {
        let text = "the store is in PostgreSQL: pg_dump copies it, and root.phx is kept apart from that";
        Err(Refusal::invalid(text).into())
    }

    fn damage(&mut self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}
