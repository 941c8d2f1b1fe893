//! A connection to PostgreSQL. Nothing is waited for without an end.

use super::allowance::Allowance;
use super::place::Place;
use std::collections::HashMap;
use std::error::Error as _;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{MakeTlsConnect, TlsStream};
use tokio_postgres::{Client, Error, NoTls, Socket, Statement};

/// The longest that an answer may take: longer than PostgreSQL itself may wait for locks and work.
pub const LONGEST: Duration = Duration::from_secs(8);

/// So many bytes an answer may have if it has few rows. The library asks once more, and deeper, for each type that is made of
/// others: this limits the depth.
const SHORT: usize = 256 << 10;
/// So many bytes the answer to a statement may have, and what it costs in memory is several times as much.
const LONG: usize = 256 << 20;

/// What each connection begins with. A commit is on the disk when it is answered, also where the database's default is
/// another one. A server that hangs in a transaction does not stop the others.
const SETTINGS: &str =
    "SET lock_timeout = '3s'; SET statement_timeout = '6s'; SET idle_in_transaction_session_timeout = '10s';
SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// A connection.
pub struct Session {
    /// The connection.
    pub client: Client,
    statements: HashMap<&'static str, Statement>,
    allowance: Allowance,
}

impl Session {
    /// Connects.
    ///
    /// # Errors
    /// Why that fails.
    pub fn connect(runtime: &Runtime, place: &Place) -> Result<Self, String> {
        let allowance = Allowance::default();
        allowance.set(SHORT);
        let client = match place.tls() {
            Some(tls) => dial(runtime, place, tls.within(&allowance)),
            None => dial(runtime, place, NoTls),
        }?;
        let session = Self { client, statements: HashMap::new(), allowance };
        session.batch(runtime, SETTINGS)?;
        Ok(session)
    }

    /// Runs statements without parameters.
    ///
    /// # Errors
    /// Why that fails.
    pub fn batch(&self, runtime: &Runtime, sql: &str) -> Result<(), String> {
        self.allowance.set(SHORT);
        let done = runtime.block_on(async { timeout(LONGEST, self.client.batch_execute(sql)).await });
        done.map_err(|_| slow())?.map_err(|e| text(&e))
    }

    /// The version of the tables, and the mark of their root key, if there are tables.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn version(&self, runtime: &Runtime) -> Result<Option<(i32, Vec<u8>)>, String> {
        self.allowance.set(SHORT);
        let there = "SELECT to_regclass('phalanx_state') IS NOT NULL";
        let read = async {
            if !self.client.query_one(there, &[]).await?.try_get::<_, bool>(0)? {
                return Ok(None);
            }
            let row = self.client.query_one("SELECT version, mark FROM phalanx_state", &[]).await?;
            Ok(Some((row.try_get(0)?, row.try_get(1)?)))
        };
        runtime.block_on(async { timeout(LONGEST, read).await }).map_err(|_| slow())?.map_err(|e: Error| text(&e))
    }

    /// A statement, which is prepared the first time. Its answer may be long.
    ///
    /// # Errors
    /// If it cannot be.
    pub async fn statement(&mut self, sql: &'static str) -> Result<Statement, Error> {
        if let Some(known) = self.statements.get(sql) {
            self.allowance.set(LONG);
            return Ok(known.clone());
        }
        self.allowance.set(SHORT);
        let new = self.client.prepare(sql).await?;
        self.allowance.set(LONG);
        self.statements.insert(sql, new.clone());
        Ok(new)
    }
}

fn dial<T>(runtime: &Runtime, place: &Place, tls: T) -> Result<Client, String>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: TlsStream + Unpin + Send + 'static,
{
    let config = place.config();
    runtime.block_on(async {
        let connected = timeout(LONGEST, config.connect(tls)).await.map_err(|_| slow())?;
        let (client, connection) = connected.map_err(|e| text(&e))?;
        // It goes on whenever this thread waits for an answer.
        drop(tokio::spawn(async { drop(connection.await) }));
        Ok(client)
    })
}

/// That nothing was answered in time.
pub fn slow() -> String {
    format!("it does not answer within {} seconds", LONGEST.as_secs())
}

/// An error as a line, without the values that PostgreSQL tells in its details.
pub fn text(error: &Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    // That is the name of a type in rustls.
    if text.contains("CaUsedAsEndEntity") {
        return "its certificate is an authority's own, and must be one that an authority has issued".into();
    }
    text
}

/// What an error says about what to do next.
pub enum Meaning {
    /// Another server was in the way: the transaction may be tried again.
    Conflict,
    /// The connection is of no use.
    Lost,
    /// Something else.
    Other,
}

/// What an error means.
pub fn meaning(error: &Error) -> Meaning {
    const CONFLICTS: &[&SqlState] =
        &[&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED, &SqlState::LOCK_NOT_AVAILABLE];
    const USELESS: &[&SqlState] = &[
        &SqlState::READ_ONLY_SQL_TRANSACTION,
        &SqlState::TOO_MANY_CONNECTIONS,
        &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    match error.code() {
        // An error of the connection, and not of PostgreSQL.
        None => Meaning::Lost,
        Some(code) if CONFLICTS.contains(&code) => Meaning::Conflict,
        // 57P..: it is being shut down or started. 08...: the connection.
        Some(code) if USELESS.contains(&code) || code.code().starts_with("57P") || code.code().starts_with("08") => {
            Meaning::Lost
        }
        Some(_) => Meaning::Other,
    }
}
