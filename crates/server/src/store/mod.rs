//! What the server keeps: keys, tokens, and the salts of users in `shreddable` mode. Every secret in it is sealed.
//!
//! A [`Store`] runs one transaction after another on a thread of its own. [`Stored`] is the other end: it passes work
//! to that thread, and several waiting pieces of work share one transaction and so one wait for the disk.

mod handle;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

pub use handle::Stored;
#[cfg(feature = "postgres")]
pub use postgres::{Place, Postgres};
#[cfg(feature = "postgres")]
pub use sqlite::check_owner;
pub use sqlite::{BUCKETS, ROWS, Sqlite};

use crate::refusal::{Kind, Refusal};
use std::path::{Path, PathBuf};

/// The identity of a key: random, so that a key which is made again under an old name has nothing of the old one.
pub type KeyId = [u8; 16];

/// A user in the store: a KMAC of the user's name, so that the store tells nobody who the users are.
pub type UserId = [u8; 32];

/// A failure of the store. It is for the log: clients are told only that the store failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The work refused to go on, for a reason that the client is told. Nothing is changed.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// What is in the store is damaged.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The store itself failed.
    #[error("the store failed: {0}")]
    Failed(String),
    /// There is no room for changes. Nothing is changed.
    #[error("the store's disk is full")]
    Full,
    /// The store cannot be reached now. Nothing is changed, unless the text says that this is not known.
    #[error("the store cannot be used now: {0}")]
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "SQLite is always there"))]
    Unavailable(String),
}

impl Error {
    /// What clients are told. Of a failure, the reason goes to standard error only.
    pub fn told(self) -> Refusal {
        match self {
            Error::Refused(refusal) => refusal,
            // The store itself says when that begins and when it ends.
            Error::Unavailable(_) => Refusal::new(Kind::Unavailable, "the store cannot be reached"),
            Error::Full => {
                phalanx_host::lines::complain(&self);
                Refusal::new(Kind::Unavailable, "the store's disk is full")
            }
            error => {
                phalanx_host::lines::complain(&error);
                Refusal::failed("the store failed")
            }
        }
    }
}

/// The result of work on the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A key as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The identity.
    pub id: KeyId,
    /// The name.
    pub name: String,
    /// The number of the suite.
    pub suite: u8,
    /// Whether each user has a salt.
    pub shreddable: bool,
    /// Whether every request must name a user.
    pub needs_user: bool,
    /// Whether the key may be deleted.
    pub deletion_allowed: bool,
    /// The oldest version that opens.
    pub min_decryption: u32,
    /// The oldest version that seals; 0 is the newest.
    pub min_encryption: u32,
    /// The oldest version that exists.
    pub min_available: u32,
    /// The versions, in ascending order.
    pub versions: Vec<VersionRecord>,
    /// Authenticates all this under the root key. Stores only carry it.
    pub mac: [u8; 32],
}

/// A version of a key as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRecord {
    /// The number, from 1.
    pub number: u32,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Its secret, sealed under the root key.
    pub sealed: Vec<u8>,
}

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// SHA3-256 of the token.
    pub hash: [u8; 32],
    /// A public name, for lists, revoking and the audit log.
    pub accessor: String,
    /// What it allows, as texts of [`crate::rights::Right`], separated by commas.
    pub rights: String,
    /// The one user for whom it allows that.
    pub user: Option<Vec<u8>>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it ends, in seconds since 1970; `None` is never.
    pub expires: Option<u64>,
    /// How long it lives after it was made or renewed, in seconds; 0 is for ever.
    pub ttl: u64,
    /// Whether it may be renewed.
    pub renewable: bool,
    /// The accessor of the token by which it was made: it ends with that one.
    pub parent: Option<String>,
    /// What it is called in lists.
    pub name: Option<String>,
    /// Authenticates all this under the root key. Stores only carry it.
    pub mac: [u8; 32],
}

/// A user as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRecord {
    /// The salt, sealed under the key of the user's bucket.
    pub sealed: Vec<u8>,
    /// The key of the bucket, sealed under the root key; empty if there is none.
    pub bucket_key: Vec<u8>,
}

/// Where the two files of a backup are written.
#[derive(Clone, Debug)]
pub struct Copies {
    /// All but the buckets.
    pub rows: PathBuf,
    /// The buckets.
    pub buckets: PathBuf,
}

impl Copies {
    /// The two files in a folder.
    pub fn in_folder(dir: &Path) -> Self {
        Self { rows: dir.join("rows.db"), buckets: dir.join("buckets.db") }
    }
}

/// A place for what the server keeps.
pub trait Store: Send {
    /// Whether other servers change it too.
    fn is_shared(&self) -> bool;

    /// Runs work in one transaction. When this returns `Ok`, the changes are on the disk. After an error nothing has
    /// changed. The work may run again after a conflict with another server.
    ///
    /// # Errors
    /// Those of the work, and [`Error::Failed`].
    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()>;

    /// Called when something secret was deleted and the transaction is over: leaves as little of it on the disk as the
    /// store can.
    ///
    /// # Errors
    /// [`Error::Failed`].
    fn scrub(&mut self) -> Result<()>;

    /// Writes a copy of everything, as it is at one moment, to two new files.
    ///
    /// # Errors
    /// [`Error::Failed`], or a refusal if the store has its own way to be copied.
    fn copy(&mut self, to: &Copies) -> Result<()>;

    /// Finds damage of the store's own structure: a line for each.
    ///
    /// # Errors
    /// [`Error::Failed`].
    fn damage(&mut self) -> Result<Vec<String>>;
}

/// What work in a transaction may do. After its first change, no other server
/// changes anything until the end of the transaction.
pub trait Transaction {
    /// Whether other servers change the store too.
    fn is_shared(&self) -> bool;

    /// A number that changes whenever keys or tokens change: other servers then read them again.
    ///
    /// # Errors
    /// [`Error::Failed`], as all of these.
    fn generation(&mut self) -> Result<u64>;
    /// All keys.
    fn keys(&mut self) -> Result<Vec<KeyRecord>>;
    /// The key of this name. No other server changes any key until the end of the transaction.
    fn key(&mut self, name: &str) -> Result<Option<KeyRecord>>;
    /// Adds a key, or replaces the one of the same identity with its versions. Versions that it has no more are deleted.
    fn put_key(&mut self, key: &KeyRecord) -> Result<()>;
    /// Deletes a key with its versions, users and buckets.
    fn delete_key(&mut self, id: &KeyId) -> Result<()>;

    /// All tokens.
    fn tokens(&mut self) -> Result<Vec<TokenRecord>>;
    /// The token of an accessor.
    fn token(&mut self, accessor: &str) -> Result<Option<TokenRecord>>;
    /// Adds a token.
    fn put_token(&mut self, token: &TokenRecord) -> Result<()>;
    /// Lets the token of this hash end when this record does: its `expires` and `mac`. Returns whether there is one: none is added.
    fn renew_token(&mut self, token: &TokenRecord) -> Result<bool>;
    /// Deletes the token of an accessor, and those that were made by it. Returns their hashes.
    fn delete_token(&mut self, accessor: &str) -> Result<Vec<[u8; 32]>>;
    /// Deletes the tokens that have ended at this time, and those that were made by them. Returns their hashes.
    fn delete_ended_tokens(&mut self, now: u64) -> Result<Vec<[u8; 32]>>;

    /// The sealed key of a bucket. No other server changes it or its users until the end of the transaction.
    fn bucket(&mut self, key: &KeyId, bucket: u16) -> Result<Option<Vec<u8>>>;
    /// The sealed keys of buckets, each once, in the same order.
    fn buckets_of(&mut self, key: &KeyId, buckets: &[u16]) -> Result<Vec<Option<Vec<u8>>>> {
        buckets.iter().map(|bucket| self.bucket(key, *bucket)).collect()
    }
    /// Adds the sealed key of a bucket, or replaces it.
    fn put_bucket(&mut self, key: &KeyId, bucket: u16, sealed: &[u8]) -> Result<()>;
    /// The buckets of a key that have a key of their own or users, in ascending order.
    fn buckets(&mut self, key: &KeyId) -> Result<Vec<u16>>;
    /// These users, in the same order.
    fn users(&mut self, key: &KeyId, users: &[(u16, UserId)]) -> Result<Vec<Option<UserRecord>>>;
    /// All users of a bucket, with their sealed salts.
    fn users_of_bucket(&mut self, key: &KeyId, bucket: u16) -> Result<Vec<(UserId, Vec<u8>)>>;
    /// How many users a key has.
    fn count_users(&mut self, key: &KeyId) -> Result<u64>;
    /// Adds a user, or replaces its sealed salt.
    fn put_user(&mut self, key: &KeyId, bucket: u16, user: &UserId, sealed: &[u8]) -> Result<()>;
    /// Deletes a user. Returns whether there was one.
    fn delete_user(&mut self, key: &KeyId, bucket: u16, user: &UserId) -> Result<bool>;
}
