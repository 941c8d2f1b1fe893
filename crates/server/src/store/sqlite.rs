//! The store of one machine: an SQLite database. What is deleted is overwritten, and the write-ahead log is emptied.

use super::{
    Copies, Error, KeyId, KeyRecord, Result, Store, TokenRecord, Transaction, UserId, UserRecord, VersionRecord,
};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, ToSql, TransactionBehavior, params};
use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The tables. `user_version` is their version.
const SCHEMA: &str = "
CREATE TABLE state (generation INTEGER NOT NULL) STRICT;
INSERT INTO state VALUES (1);
CREATE TABLE keys (
    id BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, suite INTEGER NOT NULL, shreddable INTEGER NOT NULL,
    needs_user INTEGER NOT NULL, deletion_allowed INTEGER NOT NULL, min_decryption INTEGER NOT NULL,
    min_encryption INTEGER NOT NULL, min_available INTEGER NOT NULL, mac BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE versions (
    key BLOB NOT NULL, number INTEGER NOT NULL, created INTEGER NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (key, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE buckets (key BLOB NOT NULL, bucket INTEGER NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (key, bucket)) STRICT, WITHOUT ROWID;
CREATE TABLE users (
    key BLOB NOT NULL, bucket INTEGER NOT NULL, user BLOB NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (key, bucket, user)
) STRICT, WITHOUT ROWID;
CREATE TABLE tokens (
    hash BLOB PRIMARY KEY, accessor TEXT NOT NULL UNIQUE, rights TEXT NOT NULL, user BLOB, created INTEGER NOT NULL,
    expires INTEGER, ttl INTEGER NOT NULL, renewable INTEGER NOT NULL, parent TEXT, name TEXT, mac BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_parent ON tokens (parent);
PRAGMA user_version = 1;
";
const VERSION: i64 = 1;

/// The tables of a backup's first file.
pub const ROWS: &[&str] = &["state", "keys", "versions", "users", "tokens"];
/// The tables of its second file.
pub const BUCKETS: &[&str] = &["buckets"];

const FLAGS: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX).union(OpenFlags::SQLITE_OPEN_NOFOLLOW);

/// The store.
pub struct Sqlite(Connection);

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let text = match error.sqlite_error_code() {
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
                return Error::Damaged("it is no whole SQLite database".into());
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => "another process uses it".into(),
            Some(Code::DiskFull) => return Error::Full,
            Some(Code::ReadOnly) => "it cannot be written".into(),
            Some(Code::PermissionDenied) => "permission denied".into(),
            _ => error.to_string(),
        };
        Error::Failed(text)
    }
}

impl Sqlite {
    /// Makes a new database, which only its owner can read.
    ///
    /// # Errors
    /// If it exists, or cannot be made.
    pub fn create(path: &Path) -> Result<Self> {
        make_private(path)?;
        let store = Self::connect(path)?;
        store.0.execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} COMMIT;"))?;
        Ok(store)
    }

    /// Opens a database.
    ///
    /// # Errors
    /// If there is none, another user can write it, or it is damaged or of another version.
    pub fn open(path: &Path) -> Result<Self> {
        check_owner(path)?;
        let mut store = Self::connect(path)?;
        let version: i64 = store.0.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version != VERSION {
            let text = format!("its tables have version {version}, and this program knows version {VERSION}");
            return Err(Error::Failed(text));
        }
        check_schema(&store.0, "main")?;
        reset_count(&store.0)?;
        // A run that was killed may have left what was deleted in the write-ahead log.
        store.scrub()?;
        Ok(store)
    }

    /// Makes a new database in memory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn in_memory() -> Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch(SCHEMA)?;
        Ok(Self(database))
    }

    fn connect(path: &Path) -> Result<Self> {
        let database = Connection::open_with_flags(without_links(path)?, FLAGS)?;
        database.busy_timeout(Duration::ZERO)?;
        // No other process, not even one that knows nothing of the folder's lock.
        set(&database, "locking_mode", "exclusive")?;
        set(&database, "journal_mode", "wal")?;
        // A transaction is on the disk when it is committed.
        database.pragma_update(None, "synchronous", "full")?;
        // What is deleted is overwritten. SQLite says what it does by a number.
        if !database.pragma_update_and_check(None, "secure_delete", "on", |row| row.get::<_, bool>(0))? {
            return Err(Error::Failed("SQLite does not overwrite what is deleted".into()));
        }
        database.pragma_update(None, "trusted_schema", "off")?;
        database.pragma_update(None, "cell_size_check", "on")?;
        database.pragma_update(None, "temp_store", "memory")?;
        Ok(Self(database))
    }

    /// Takes what a file of a backup has, into a new database. The file is not changed.
    ///
    /// # Errors
    /// If it is no such file.
    pub fn take_from(&mut self, path: &Path, tables: &[&str]) -> Result<()> {
        self.beside(path, |database| {
            let version: i64 = database.query_row("PRAGMA other.user_version", [], |row| row.get(0))?;
            if version != VERSION {
                return Err(Error::Damaged(format!("{}: it is no part of a backup of this version", path.display())));
            }
            check_schema(database, "other")?;
            move_rows(database, "other", "main", tables)?;
            reset_count(database)
        })
    }

    /// Writes tables to a new database, which is one file.
    fn give_to(&mut self, path: &Path, tables: &[&str]) -> Result<()> {
        make_private(path)?;
        let new = Connection::open_with_flags(without_links(path)?, FLAGS)?;
        new.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))?;
        drop(new);
        self.beside(path, |database| move_rows(database, "main", "other", tables))
    }

    /// Works on this database and another one, which is called `other`.
    fn beside(&mut self, path: &Path, work: impl FnOnce(&mut Connection) -> Result<()>) -> Result<()> {
        let path = without_links(path)?;
        let name = path.to_str().ok_or_else(|| Error::Failed("the path is not UTF-8".into()))?;
        self.0.execute("ATTACH ? AS other", [name])?;
        let result = work(&mut self.0);
        let detached = self.0.execute("DETACH other", []);
        result.and(detached.map(drop).map_err(Into::into))
    }
}

/// Refuses a database with anything but the tables of this program, such as a view or a trigger that would run something.
fn check_schema(database: &Connection, name: &str) -> Result<()> {
    let read = |database: &Connection, name: &str| -> Result<Vec<[String; 4]>> {
        let all = format!("SELECT type, name, tbl_name, coalesce(sql, '') FROM {name}.sqlite_schema ORDER BY 1, 2");
        let mut query = database.prepare(&all)?;
        let row = |row: &Row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]);
        Ok(query.query_map([], row)?.collect::<Result<_, _>>()?)
    };
    let model = Connection::open_in_memory()?;
    model.execute_batch(SCHEMA)?;
    if read(database, name)? == read(&model, "main")? {
        return Ok(());
    }
    Err(Error::Damaged("its tables, views and triggers are not those that this program makes".into()))
}

/// Resets the count of changes if it is no valid one. Only this process uses it, and it says nothing about what else is in the
/// store, so whoever alters it gains nothing.
fn reset_count(database: &Connection) -> Result<()> {
    // Far from the end of the numbers.
    let is_count = "SELECT count(*) = 1 AND max(generation) BETWEEN 1 AND (1 << 60) FROM main.state";
    if database.query_row(is_count, [], |row| row.get(0))? {
        return Ok(());
    }
    Ok(database.execute_batch("BEGIN IMMEDIATE; DELETE FROM main.state; INSERT INTO main.state VALUES (1); COMMIT;")?)
}

fn move_rows(database: &mut Connection, from: &str, to: &str, tables: &[&str]) -> Result<()> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for table in tables {
        transaction.execute(&format!("DELETE FROM {to}.{table}"), [])?;
        transaction.execute(&format!("INSERT INTO {to}.{table} SELECT * FROM {from}.{table}"), [])?;
    }
    Ok(transaction.commit()?)
}

/// The path of a file without symbolic links: SQLite takes no other.
fn without_links(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|e| Error::Failed(e.to_string()))
}

/// Makes an empty file, which only its owner can read.
fn make_private(path: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map(drop).map_err(|e| Error::Failed(e.to_string()))
}

/// Refuses a file that is not this user's own, or that others may read or write.
///
/// # Errors
/// If it is so, or there is none.
pub fn check_owner(path: &Path) -> Result<()> {
    let metadata = path.symlink_metadata().map_err(|e| Error::Failed(e.to_string()))?;
    let refuse = |text: &str| Err(Error::Failed(text.into()));
    if !metadata.is_file() {
        return refuse("it is no regular file");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refuse("it belongs to another user");
    }
    if metadata.mode() & 0o077 != 0 {
        return refuse("other users may read or write it: chmod 600 forbids that");
    }
    Ok(())
}

impl Store for Sqlite {
    fn is_shared(&self) -> bool {
        false
    }

    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut open = Open(transaction);
        work(&mut open)?;
        Ok(open.0.commit()?)
    }

    fn scrub(&mut self) -> Result<()> {
        let busy: i64 = self.0.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy == 0 { Ok(()) } else { Err(Error::Failed("another process uses it".into())) }
    }

    fn copy(&mut self, to: &Copies) -> Result<()> {
        // Nothing else runs between the two, because all changes come through this connection.
        self.give_to(&to.rows, ROWS)?;
        self.give_to(&to.buckets, BUCKETS)
    }

    fn damage(&mut self) -> Result<Vec<String>> {
        let mut query = self.0.prepare("PRAGMA integrity_check(10)")?;
        let lines: Vec<String> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }
}

struct Open<'a>(rusqlite::Transaction<'a>);

impl Open<'_> {
    fn changed(&self) -> Result<()> {
        self.0.execute("UPDATE state SET generation = generation + 1", [])?;
        Ok(())
    }

    /// Deletes the tokens with the accessors of a query, and those that were made by them.
    fn delete_tokens(&self, accessors: &str, values: &[&dyn ToSql]) -> Result<Vec<[u8; 32]>> {
        let mut delete = self.0.prepare_cached(&format!(
            "WITH RECURSIVE ended (accessor) AS (
               {accessors} UNION SELECT tokens.accessor FROM ended JOIN tokens ON tokens.parent = ended.accessor
             ) DELETE FROM tokens WHERE accessor IN (SELECT accessor FROM ended) RETURNING hash"
        ))?;
        let hashes: Vec<_> = delete.query_map(values, |row| row.get(0))?.collect::<Result<_, _>>()?;
        if !hashes.is_empty() {
            self.changed()?;
        }
        Ok(hashes)
    }

    fn versions(&self, key: &KeyId) -> Result<Vec<VersionRecord>> {
        let mut query =
            self.0.prepare_cached("SELECT number, created, sealed FROM versions WHERE key = ? ORDER BY number")?;
        let version = |row: &Row| Ok(VersionRecord { number: row.get(0)?, created: row.get(1)?, sealed: row.get(2)? });
        Ok(query.query_map([key], version)?.collect::<Result<_, _>>()?)
    }
}

const KEY: &str = "SELECT id, name, suite, shreddable, needs_user, deletion_allowed, min_decryption, min_encryption, min_available, mac FROM keys";

fn key(row: &Row) -> rusqlite::Result<KeyRecord> {
    Ok(KeyRecord {
        id: row.get(0)?,
        name: row.get(1)?,
        suite: row.get(2)?,
        shreddable: row.get(3)?,
        needs_user: row.get(4)?,
        deletion_allowed: row.get(5)?,
        min_decryption: row.get(6)?,
        min_encryption: row.get(7)?,
        min_available: row.get(8)?,
        versions: Vec::new(),
        mac: row.get(9)?,
    })
}

fn token(row: &Row) -> rusqlite::Result<TokenRecord> {
    Ok(TokenRecord {
        hash: row.get(0)?,
        accessor: row.get(1)?,
        rights: row.get(2)?,
        user: row.get(3)?,
        created: row.get(4)?,
        expires: row.get(5)?,
        ttl: row.get(6)?,
        renewable: row.get(7)?,
        parent: row.get(8)?,
        name: row.get(9)?,
        mac: row.get(10)?,
    })
}

impl Transaction for Open<'_> {
    fn is_shared(&self) -> bool {
        false
    }

    fn generation(&mut self) -> Result<u64> {
        Ok(self.0.query_row("SELECT generation FROM state", [], |row| row.get(0))?)
    }

    fn keys(&mut self) -> Result<Vec<KeyRecord>> {
        let mut query = self.0.prepare_cached(&format!("{KEY} ORDER BY name"))?;
        let mut keys: Vec<KeyRecord> = query.query_map([], key)?.collect::<Result<_, _>>()?;
        for key in &mut keys {
            key.versions = self.versions(&key.id)?;
        }
        Ok(keys)
    }

    fn key(&mut self, name: &str) -> Result<Option<KeyRecord>> {
        let found = self.0.prepare_cached(&format!("{KEY} WHERE name = ?"))?.query_row([name], key).optional()?;
        found.map(|key| Ok(KeyRecord { versions: self.versions(&key.id)?, ..key })).transpose()
    }

    fn put_key(&mut self, key: &KeyRecord) -> Result<()> {
        self.0.execute(
            "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
             needs_user = excluded.needs_user, deletion_allowed = excluded.deletion_allowed, min_decryption = excluded.min_decryption,
             min_encryption = excluded.min_encryption, min_available = excluded.min_available, mac = excluded.mac",
            params![
                key.id, key.name, key.suite, key.shreddable, key.needs_user, key.deletion_allowed, key.min_decryption,
                key.min_encryption, key.min_available, key.mac
            ],
        )?;
        self.0.execute("DELETE FROM versions WHERE key = ? AND number < ?", params![key.id, key.min_available])?;
        for version in &key.versions {
            self.0.execute(
                "INSERT INTO versions VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                params![key.id, version.number, version.created, version.sealed],
            )?;
        }
        self.changed()
    }

    fn delete_key(&mut self, id: &KeyId) -> Result<()> {
        for table in ["versions", "buckets", "users"] {
            self.0.execute(&format!("DELETE FROM {table} WHERE key = ?"), [id])?;
        }
        self.0.execute("DELETE FROM keys WHERE id = ?", [id])?;
        self.changed()
    }

    fn tokens(&mut self) -> Result<Vec<TokenRecord>> {
        let mut query = self.0.prepare_cached("SELECT * FROM tokens")?;
        Ok(query.query_map([], token)?.collect::<Result<_, _>>()?)
    }

    fn put_token(&mut self, token: &TokenRecord) -> Result<()> {
        self.0.execute(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                token.hash,
                token.accessor,
                token.rights,
                token.user,
                token.created,
                token.expires,
                token.ttl,
                token.renewable,
                token.parent,
                token.name,
                token.mac
            ],
        )?;
        self.changed()
    }

    fn token(&mut self, accessor: &str) -> Result<Option<TokenRecord>> {
        let mut query = self.0.prepare_cached("SELECT * FROM tokens WHERE accessor = ?")?;
        Ok(query.query_row([accessor], token).optional()?)
    }

    fn renew_token(&mut self, token: &TokenRecord) -> Result<bool> {
        let update = "UPDATE tokens SET expires = ?, mac = ? WHERE hash = ?";
        let changed = self.0.execute(update, params![token.expires, token.mac, token.hash])?;
        self.changed()?;
        Ok(changed > 0)
    }

    fn delete_token(&mut self, accessor: &str) -> Result<Vec<[u8; 32]>> {
        self.delete_tokens("VALUES (?)", params![accessor])
    }

    fn delete_ended_tokens(&mut self, now: u64) -> Result<Vec<[u8; 32]>> {
        let ended = "SELECT accessor FROM tokens WHERE expires <= ? OR parent NOT IN (SELECT accessor FROM tokens)";
        self.delete_tokens(ended, params![now])
    }

    fn bucket(&mut self, key: &KeyId, bucket: u16) -> Result<Option<Vec<u8>>> {
        let mut query = self.0.prepare_cached("SELECT sealed FROM buckets WHERE key = ? AND bucket = ?")?;
        Ok(query.query_row(params![key, bucket], |row| row.get(0)).optional()?)
    }

    fn put_bucket(&mut self, key: &KeyId, bucket: u16, sealed: &[u8]) -> Result<()> {
        self.0
            .prepare_cached("INSERT OR REPLACE INTO buckets VALUES (?, ?, ?)")?
            .execute(params![key, bucket, sealed])?;
        Ok(())
    }

    fn buckets(&mut self, key: &KeyId) -> Result<Vec<u16>> {
        let all = "SELECT bucket FROM buckets WHERE key = ?1 UNION SELECT bucket FROM users WHERE key = ?1 ORDER BY 1";
        Ok(self.0.prepare_cached(all)?.query_map([key], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    fn users(&mut self, key: &KeyId, users: &[(u16, UserId)]) -> Result<Vec<Option<UserRecord>>> {
        let mut query = self.0.prepare_cached(
            "SELECT users.sealed, coalesce(buckets.sealed, x'') FROM users
             LEFT JOIN buckets ON buckets.key = users.key AND buckets.bucket = users.bucket
             WHERE users.key = ? AND users.bucket = ? AND users.user = ?",
        )?;
        let user = |row: &Row| Ok(UserRecord { sealed: row.get(0)?, bucket_key: row.get(1)? });
        let mut find = |(bucket, id): &(u16, UserId)| query.query_row(params![key, bucket, id], user).optional();
        Ok(users.iter().map(&mut find).collect::<Result<_, _>>()?)
    }

    fn users_of_bucket(&mut self, key: &KeyId, bucket: u16) -> Result<Vec<(UserId, Vec<u8>)>> {
        let mut query = self.0.prepare_cached("SELECT user, sealed FROM users WHERE key = ? AND bucket = ?")?;
        Ok(query.query_map(params![key, bucket], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?)
    }

    fn count_users(&mut self, key: &KeyId) -> Result<u64> {
        Ok(self.0.query_row("SELECT count(*) FROM users WHERE key = ?", [key], |row| row.get(0))?)
    }

    fn put_user(&mut self, key: &KeyId, bucket: u16, user: &UserId, sealed: &[u8]) -> Result<()> {
        self.0
            .prepare_cached("INSERT OR REPLACE INTO users VALUES (?, ?, ?, ?)")?
            .execute(params![key, bucket, user, sealed])?;
        Ok(())
    }

    fn delete_user(&mut self, key: &KeyId, bucket: u16, user: &UserId) -> Result<bool> {
        let deleted = self
            .0
            .execute("DELETE FROM users WHERE key = ? AND bucket = ? AND user = ?", params![key, bucket, user])?;
        Ok(deleted > 0)
    }
}

/// Sets what SQLite may refuse by an answer that is no error.
fn set(database: &Connection, name: &str, value: &str) -> Result<()> {
    let now: String = database.pragma_update_and_check(None, name, value, |row| row.get(0))?;
    if now == value { Ok(()) } else { Err(Error::Failed(format!("SQLite refuses {name}={value}"))) }
}
