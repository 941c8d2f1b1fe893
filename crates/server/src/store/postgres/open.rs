//! Work in a transaction of PostgreSQL.

use super::session::{LONGEST, Meaning, Session, meaning, slow, text};
use crate::store::{Error, KeyId, KeyRecord, Result, TokenRecord, Transaction, UserId, UserRecord, VersionRecord};
use std::collections::BTreeMap;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSqlOwned, ToSql};

/// How a transaction ended that has changed nothing.
pub enum Ended {
    /// With an error for whoever asked.
    Error(Error),
    /// In a conflict with another server.
    Conflict(String),
    /// With the connection. It may be repeated unless it was being committed: then it may have happened.
    Lost { why: String, may_repeat: bool },
}

/// What went wrong with a statement.
enum Fault {
    Conflict(String),
    /// The connection, and whether it may have been closed long ago.
    Lost(String, bool),
    /// PostgreSQL takes back the whole transaction, whatever comes after.
    Failed(String),
}

/// Rows to be written, by key, bucket and, of users, name: in one statement for each table, before the next statement.
#[derive(Default)]
struct Waiting {
    buckets: BTreeMap<(KeyId, u16), Vec<u8>>,
    users: BTreeMap<(KeyId, u16, UserId), Vec<u8>>,
}

/// A transaction. It begins with its first statement.
pub struct Open<'a> {
    runtime: &'a Runtime,
    session: &'a mut Session,
    has_begun: bool,
    is_locked: bool,
    waiting: Waiting,
    fault: Option<Fault>,
}

type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

impl<'a> Open<'a> {
    /// A transaction that has not begun.
    pub fn new(runtime: &'a Runtime, session: &'a mut Session) -> Self {
        Self { runtime, session, has_begun: false, is_locked: false, waiting: Waiting::default(), fault: None }
    }

    /// Commits it.
    pub fn commit(mut self) -> Result<(), Ended> {
        if let Err(error) = self.write_waiting() {
            return Err(self.roll_back(error));
        }
        if self.fault.is_some() {
            // The work has passed over an error. PostgreSQL would roll back, and call that a success.
            return Err(self.roll_back(Error::Failed("a statement has failed".into())));
        }
        if !self.has_begun {
            return Ok(());
        }
        let client = &self.session.client;
        let committed = self.runtime.block_on(async { timeout(LONGEST, client.batch_execute("COMMIT")).await });
        let in_doubt =
            |why| Ended::Lost { why: format!("a change may have been made or not: {why}"), may_repeat: false };
        match committed {
            Err(_) => Err(in_doubt(slow())),
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => match meaning(&error) {
                Meaning::Conflict => Err(Ended::Conflict(text(&error))),
                Meaning::Lost => Err(in_doubt(text(&error))),
                Meaning::Other => Err(Ended::Error(Error::Failed(text(&error)))),
            },
        }
    }

    /// Ends it without any change, after an error.
    pub fn roll_back(self, error: Error) -> Ended {
        if let Some(Fault::Lost(why, may_repeat)) = self.fault {
            return Ended::Lost { why, may_repeat };
        }
        if self.has_begun
            && let Err(why) = self.session.batch(self.runtime, "ROLLBACK")
        {
            return Ended::Lost { why, may_repeat: false };
        }
        match self.fault {
            Some(Fault::Conflict(why)) => Ended::Conflict(why),
            _ => Ended::Error(error),
        }
    }

    /// Runs a statement, after what waits to be written.
    fn query(&mut self, sql: &'static str, values: Values<'_>) -> Result<Vec<Row>> {
        self.write_waiting()?;
        self.run(sql, values)
    }

    fn execute(&mut self, sql: &'static str, values: Values<'_>) -> Result<()> {
        self.query(sql, values).map(drop)
    }

    fn run(&mut self, sql: &'static str, values: Values<'_>) -> Result<Vec<Row>> {
        if self.fault.is_some() {
            return Err(Error::Failed("an earlier statement has failed".into()));
        }
        let begins = !std::mem::replace(&mut self.has_begun, true);
        let session = &mut *self.session;
        let work = async {
            let statement = session.statement(sql).await?;
            if begins {
                // Both are sent at once, in this order.
                let begin = session.client.batch_execute("BEGIN");
                let (begun, rows) = tokio::join!(biased; begin, session.client.query(&statement, values));
                begun?;
                rows
            } else {
                session.client.query(&statement, values).await
            }
        };
        match self.runtime.block_on(async { timeout(LONGEST, work).await }) {
            Err(_) => Err(self.blame(Fault::Lost(slow(), false))),
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(match meaning(&error) {
                Meaning::Conflict => self.blame(Fault::Conflict(text(&error))),
                Meaning::Lost => self.blame(Fault::Lost(text(&error), begins)),
                Meaning::Other => self.blame(Fault::Failed(text(&error))),
            }),
        }
    }

    fn blame(&mut self, fault: Fault) -> Error {
        let error = match &fault {
            Fault::Conflict(why) | Fault::Lost(why, _) => Error::Unavailable(why.clone()),
            Fault::Failed(why) => Error::Failed(why.clone()),
        };
        self.fault = Some(fault);
        error
    }

    /// Waits until no other server changes anything, until the end of the transaction. It is always the first lock.
    fn lock(&mut self) -> Result<()> {
        if !self.is_locked {
            self.run("SELECT generation FROM phalanx_state FOR UPDATE", &[])?;
            self.is_locked = true;
        }
        Ok(())
    }

    /// Says to other servers that keys or tokens have changed, by a random number. If the database is put back to an earlier
    /// state, a number that counts would soon be one that they have seen with other keys and tokens.
    fn changed(&mut self) -> Result<()> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|e| Error::Failed(e.to_string()))?;
        // PostgreSQL keeps it with a sign.
        let generation = i64::from_le_bytes(random) & i64::MAX;
        self.execute("UPDATE phalanx_state SET generation = $1", &[&generation])
    }

    fn write_waiting(&mut self) -> Result<()> {
        let Waiting { buckets, users } = std::mem::take(&mut self.waiting);
        if !buckets.is_empty() {
            let keys: Vec<&[u8]> = buckets.keys().map(|(key, _)| &key[..]).collect();
            let numbers: Vec<i16> = buckets.keys().map(|(_, bucket)| small(*bucket)).collect();
            let sealed: Vec<&[u8]> = buckets.values().map(Vec::as_slice).collect();
            self.run(
                "INSERT INTO phalanx_buckets SELECT * FROM unnest($1::bytea[], $2::smallint[], $3::bytea[])
                 ON CONFLICT (key, bucket) DO UPDATE SET sealed = excluded.sealed",
                &[&keys, &numbers, &sealed],
            )?;
        }
        if !users.is_empty() {
            let keys: Vec<&[u8]> = users.keys().map(|(key, ..)| &key[..]).collect();
            let numbers: Vec<i16> = users.keys().map(|(_, bucket, _)| small(*bucket)).collect();
            let names: Vec<&[u8]> = users.keys().map(|(.., name)| &name[..]).collect();
            let sealed: Vec<&[u8]> = users.values().map(Vec::as_slice).collect();
            self.run(
                "INSERT INTO phalanx_users SELECT * FROM unnest($1::bytea[], $2::smallint[], $3::bytea[], $4::bytea[])
                 ON CONFLICT (key, bucket, name) DO UPDATE SET sealed = excluded.sealed",
                &[&keys, &numbers, &names, &sealed],
            )?;
        }
        Ok(())
    }

    /// Keys with their versions. In one statement, so that both are of the same moment: another server may change them.
    fn keys_where(&mut self, name: Option<&str>) -> Result<Vec<KeyRecord>> {
        let mut keys: Vec<KeyRecord> = Vec::new();
        for row in self.query(KEYS, &[&name])? {
            let id = array(&row, 0)?;
            if keys.last().is_none_or(|last| last.id != id) {
                keys.push(key(&row, id)?);
            }
            // A key without versions has a row too.
            if let (Some(key), true) = (keys.last_mut(), field::<Option<i64>>(&row, 10)?.is_some()) {
                let (number, created) = (number(&row, 10)?, number(&row, 11)?);
                key.versions.push(VersionRecord { number, created, sealed: field(&row, 12)? });
            }
        }
        Ok(keys)
    }
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Damaged(error.to_string())
}

fn field<T: FromSqlOwned>(row: &Row, at: usize) -> Result<T> {
    row.try_get(at).map_err(damaged)
}

/// A number, which PostgreSQL keeps with a sign.
fn number<T: TryFrom<i64>>(row: &Row, at: usize) -> Result<T> {
    T::try_from(field::<i64>(row, at)?).map_err(|_| damaged("a number is too large"))
}

fn array<const N: usize>(row: &Row, at: usize) -> Result<[u8; N]> {
    <[u8; N]>::try_from(field::<Vec<u8>>(row, at)?).map_err(|_| damaged("a name has a wrong length"))
}

fn bucket_number(row: &Row, at: usize) -> Result<u16> {
    u16::try_from(field::<i16>(row, at)?).map_err(|_| damaged("a bucket has a wrong number"))
}

/// A bucket's number, of which there are 4,096.
fn small(bucket: u16) -> i16 {
    bucket.cast_signed()
}

/// A time or a length of time: in practice none is cut off.
fn large(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

const KEYS: &str = "
    SELECT keys.id, name, suite, shreddable, needs_user, deletion_allowed, min_decryption, min_encryption, min_available, mac,
      number, created, sealed
    FROM phalanx_keys AS keys LEFT JOIN phalanx_versions AS versions ON versions.key = keys.id
    WHERE $1::text IS NULL OR name = $1 ORDER BY name COLLATE \"C\", number";

fn key(row: &Row, id: KeyId) -> Result<KeyRecord> {
    let suite = u8::try_from(field::<i16>(row, 2)?).map_err(|_| damaged("a suite has a wrong number"))?;
    Ok(KeyRecord {
        id,
        name: field(row, 1)?,
        suite,
        shreddable: field(row, 3)?,
        needs_user: field(row, 4)?,
        deletion_allowed: field(row, 5)?,
        min_decryption: number(row, 6)?,
        min_encryption: number(row, 7)?,
        min_available: number(row, 8)?,
        versions: Vec::new(),
        mac: array(row, 9)?,
    })
}

const TOKEN: &str =
    "SELECT hash, accessor, rights, bound, created, expires, ttl, renewable, parent, name, mac FROM phalanx_tokens";
const TOKEN_OF: &str =
    "SELECT hash, accessor, rights, bound, created, expires, ttl, renewable, parent, name, mac FROM phalanx_tokens
     WHERE accessor = $1";
/// Those that are named, and those that were made by them.
const DELETE: &str = "
    WITH RECURSIVE ended (accessor) AS (
      VALUES ($1::text) UNION SELECT tokens.accessor FROM phalanx_tokens AS tokens JOIN ended ON tokens.parent = ended.accessor
    ) DELETE FROM phalanx_tokens WHERE accessor IN (SELECT accessor FROM ended) RETURNING hash";
const DELETE_ENDED: &str = "
    WITH RECURSIVE ended (accessor) AS (
      SELECT accessor FROM phalanx_tokens WHERE expires <= $1 OR parent NOT IN (SELECT accessor FROM phalanx_tokens)
      UNION SELECT tokens.accessor FROM phalanx_tokens AS tokens JOIN ended ON tokens.parent = ended.accessor
    ) DELETE FROM phalanx_tokens WHERE accessor IN (SELECT accessor FROM ended) RETURNING hash";

fn token(row: &Row) -> Result<TokenRecord> {
    let expires = field::<Option<i64>>(row, 5)?;
    let expires = expires.map(|end| u64::try_from(end).map_err(|_| damaged("a time is wrong"))).transpose()?;
    Ok(TokenRecord {
        hash: array(row, 0)?,
        accessor: field(row, 1)?,
        rights: field(row, 2)?,
        user: field(row, 3)?,
        created: number(row, 4)?,
        expires,
        ttl: number(row, 6)?,
        renewable: field(row, 7)?,
        parent: field(row, 8)?,
        name: field(row, 9)?,
        mac: array(row, 10)?,
    })
}

impl Transaction for Open<'_> {
    fn is_shared(&self) -> bool {
        true
    }

    fn generation(&mut self) -> Result<u64> {
        let rows = self.query("SELECT generation FROM phalanx_state", &[])?;
        number(rows.first().ok_or_else(|| damaged("phalanx_state is empty"))?, 0)
    }

    fn keys(&mut self) -> Result<Vec<KeyRecord>> {
        self.keys_where(None)
    }

    fn key(&mut self, name: &str) -> Result<Option<KeyRecord>> {
        self.lock()?;
        Ok(self.keys_where(Some(name))?.pop())
    }

    fn put_key(&mut self, key: &KeyRecord) -> Result<()> {
        self.lock()?;
        let id = &key.id[..];
        let (opens, seals) = (i64::from(key.min_decryption), i64::from(key.min_encryption));
        let available = i64::from(key.min_available);
        self.execute(
            "INSERT INTO phalanx_keys VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO UPDATE SET
             needs_user = excluded.needs_user, deletion_allowed = excluded.deletion_allowed, min_decryption = excluded.min_decryption,
             min_encryption = excluded.min_encryption, min_available = excluded.min_available,
             mac = excluded.mac",
            &[
                &id,
                &key.name,
                &i16::from(key.suite),
                &key.shreddable,
                &key.needs_user,
                &key.deletion_allowed,
                &opens,
                &seals,
                &available,
                &&key.mac[..],
            ],
        )?;
        self.execute("DELETE FROM phalanx_versions WHERE key = $1 AND number < $2", &[&id, &available])?;
        let numbers: Vec<i64> = key.versions.iter().map(|version| i64::from(version.number)).collect();
        let created: Vec<i64> = key.versions.iter().map(|version| large(version.created)).collect();
        let sealed: Vec<&[u8]> = key.versions.iter().map(|version| version.sealed.as_slice()).collect();
        self.execute(
            "INSERT INTO phalanx_versions SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bytea[])
             ON CONFLICT DO NOTHING",
            &[&id, &numbers, &created, &sealed],
        )?;
        self.changed()
    }

    fn delete_key(&mut self, id: &KeyId) -> Result<()> {
        self.lock()?;
        let id = &id[..];
        self.execute("DELETE FROM phalanx_versions WHERE key = $1", &[&id])?;
        self.execute("DELETE FROM phalanx_buckets WHERE key = $1", &[&id])?;
        self.execute("DELETE FROM phalanx_users WHERE key = $1", &[&id])?;
        self.execute("DELETE FROM phalanx_keys WHERE id = $1", &[&id])?;
        self.changed()
    }

    fn tokens(&mut self) -> Result<Vec<TokenRecord>> {
        self.query(TOKEN, &[])?.iter().map(token).collect()
    }

    fn token(&mut self, accessor: &str) -> Result<Option<TokenRecord>> {
        self.lock()?;
        self.query(TOKEN_OF, &[&accessor])?.first().map(token).transpose()
    }

    fn put_token(&mut self, token: &TokenRecord) -> Result<()> {
        self.lock()?;
        self.execute(
            "INSERT INTO phalanx_tokens VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            &[
                &&token.hash[..],
                &token.accessor,
                &token.rights,
                &token.user,
                &large(token.created),
                &token.expires.map(large),
                &large(token.ttl),
                &token.renewable,
                &token.parent,
                &token.name,
                &&token.mac[..],
            ],
        )?;
        self.changed()
    }

    fn renew_token(&mut self, token: &TokenRecord) -> Result<bool> {
        self.lock()?;
        let renewed = self.query(
            "UPDATE phalanx_tokens SET expires = $1, mac = $2 WHERE hash = $3 RETURNING 1",
            &[&token.expires.map(large), &&token.mac[..], &&token.hash[..]],
        )?;
        self.changed()?;
        Ok(!renewed.is_empty())
    }

    fn delete_token(&mut self, accessor: &str) -> Result<Vec<[u8; 32]>> {
        self.lock()?;
        let ended = self.query(DELETE, &[&accessor])?;
        self.changed()?;
        ended.iter().map(|row| array(row, 0)).collect()
    }

    fn delete_ended_tokens(&mut self, now: u64) -> Result<Vec<[u8; 32]>> {
        self.lock()?;
        let ended = self.query(DELETE_ENDED, &[&large(now)])?;
        if !ended.is_empty() {
            self.changed()?;
        }
        ended.iter().map(|row| array(row, 0)).collect()
    }

    fn bucket(&mut self, key: &KeyId, bucket: u16) -> Result<Option<Vec<u8>>> {
        Ok(self.buckets_of(key, &[bucket])?.pop().flatten())
    }

    fn buckets_of(&mut self, key: &KeyId, buckets: &[u16]) -> Result<Vec<Option<Vec<u8>>>> {
        self.lock()?;
        let numbers: Vec<i16> = buckets.iter().map(|bucket| small(*bucket)).collect();
        let rows = self.query(
            "SELECT bucket, sealed FROM phalanx_buckets WHERE key = $1 AND bucket = ANY ($2)",
            &[&&key[..], &numbers],
        )?;
        let found = rows.iter().map(|row| Ok((bucket_number(row, 0)?, field(row, 1)?)));
        let mut found = found.collect::<Result<BTreeMap<u16, Vec<u8>>>>()?;
        Ok(buckets.iter().map(|bucket| found.remove(bucket)).collect())
    }

    fn put_bucket(&mut self, key: &KeyId, bucket: u16, sealed: &[u8]) -> Result<()> {
        self.lock()?;
        self.waiting.buckets.insert((*key, bucket), sealed.to_vec());
        Ok(())
    }

    fn buckets(&mut self, key: &KeyId) -> Result<Vec<u16>> {
        let rows = self.query(
            "SELECT bucket FROM phalanx_buckets WHERE key = $1 UNION SELECT bucket FROM phalanx_users WHERE key = $1 ORDER BY 1",
            &[&&key[..]],
        )?;
        rows.iter().map(|row| bucket_number(row, 0)).collect()
    }

    fn users(&mut self, key: &KeyId, users: &[(u16, UserId)]) -> Result<Vec<Option<UserRecord>>> {
        let numbers: Vec<i16> = users.iter().map(|(bucket, _)| small(*bucket)).collect();
        let names: Vec<&[u8]> = users.iter().map(|(_, name)| &name[..]).collect();
        // One statement: the salts and the keys of buckets are of the same moment.
        let rows = self.query(
            "SELECT wanted.place, users.sealed, coalesce(buckets.sealed, '') FROM
             unnest($2::smallint[], $3::bytea[]) WITH ORDINALITY AS wanted (bucket, name, place)
             JOIN phalanx_users AS users ON users.key = $1 AND users.bucket = wanted.bucket AND users.name = wanted.name
             LEFT JOIN phalanx_buckets AS buckets ON buckets.key = $1 AND buckets.bucket = wanted.bucket",
            &[&&key[..], &numbers, &names],
        )?;
        let mut found = vec![None; users.len()];
        for row in &rows {
            // They are counted from 1.
            let place = number::<usize>(row, 0)?.checked_sub(1).and_then(|place| found.get_mut(place));
            *place.ok_or_else(|| damaged("a row is nobody's"))? =
                Some(UserRecord { sealed: field(row, 1)?, bucket_key: field(row, 2)? });
        }
        Ok(found)
    }

    fn users_of_bucket(&mut self, key: &KeyId, bucket: u16) -> Result<Vec<(UserId, Vec<u8>)>> {
        let rows = self.query(
            "SELECT name, sealed FROM phalanx_users WHERE key = $1 AND bucket = $2",
            &[&&key[..], &small(bucket)],
        )?;
        rows.iter().map(|row| Ok((array(row, 0)?, field(row, 1)?))).collect()
    }

    fn count_users(&mut self, key: &KeyId) -> Result<u64> {
        let rows = self.query("SELECT count(*) FROM phalanx_users WHERE key = $1", &[&&key[..]])?;
        rows.first().map_or(Ok(0), |row| number(row, 0))
    }

    fn put_user(&mut self, key: &KeyId, bucket: u16, user: &UserId, sealed: &[u8]) -> Result<()> {
        self.lock()?;
        self.waiting.users.insert((*key, bucket, *user), sealed.to_vec());
        Ok(())
    }

    fn delete_user(&mut self, key: &KeyId, bucket: u16, user: &UserId) -> Result<bool> {
        self.lock()?;
        let gone = self.query(
            "DELETE FROM phalanx_users WHERE key = $1 AND bucket = $2 AND name = $3 RETURNING 1",
            &[&&key[..], &small(bucket), &&user[..]],
        )?;
        Ok(!gone.is_empty())
    }
}
