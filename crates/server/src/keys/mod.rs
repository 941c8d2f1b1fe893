//! Keys: their versions, what they allow, and the users' keys that are derived from them.

mod authentic;
pub mod ciphertext;
pub mod root;
mod settings;
pub mod types;

pub use settings::{Config, NewKey};

use crate::changes::{By, Changes, Turn};
use crate::limits::Limits;
use crate::refusal::{Kind, Refusal};
use crate::store::{self, KeyId, KeyRecord, Stored, Transaction, VersionRecord};
use phalanx_core::UserKeys;
use phalanx_core::{SecretKey, Suite};
use root::Root;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep};

/// The label of the keys of users.
const USER_KEY: &[u8] = b"phalanx server v1 user key";

/// The length of a salt in bytes.
pub const SALT: usize = 32;

/// So long requests under way may go on with versions that are being destroyed.
const GRACE: Duration = Duration::from_secs(10);

/// The longest name of a key in bytes.
pub const LONGEST_NAME: usize = 128;

/// A key as it is now. A change makes a new one.
pub struct Key {
    /// What is kept of it.
    pub record: KeyRecord,
    /// The suite of its messages.
    pub suite: Suite,
    versions: BTreeMap<u32, Arc<Version>>,
}

/// A version of a key.
pub struct Version {
    /// The number, from 1.
    pub number: u32,
    /// From which the keys of users are derived.
    pub users: Arc<UserKeys>,
}

impl Key {
    /// Opens the secrets of a key. A version that an older state of the key has too stays the same one, so that it is known
    /// whether somebody uses it.
    fn open(record: KeyRecord, root: &Root, old: Option<&Self>) -> Result<Self, Refusal> {
        let old = old.filter(|old| old.record.id == record.id);
        let unknown = || Refusal::failed(format!("the key {} has an unknown type", record.name));
        let suite = Suite::from_id(record.suite).ok_or_else(unknown)?;
        let version = |kept: &VersionRecord| {
            let known = old.filter(|old| old.record.has_version(kept));
            if let Some(known) = known.and_then(|old| old.versions.get(&kept.number)) {
                return Ok((kept.number, known.clone()));
            }
            let secret = root.open(&place(&record.id, kept.number), &kept.sealed).map_err(|_| {
                let (number, name) = (kept.number, &record.name);
                Refusal::failed(format!("version {number} of the key {name} is damaged, or of another root key"))
            })?;
            let users = Arc::new(UserKeys::new(&secret, USER_KEY));
            Ok((kept.number, Arc::new(Version { number: kept.number, users })))
        };
        let versions = record.versions.iter().map(version).collect::<Result<_, Refusal>>()?;
        check_authentic(&record, root)?;
        Ok(Self { record, suite, versions })
    }

    /// The number of the newest version.
    pub fn latest(&self) -> u32 {
        self.record.latest()
    }

    /// The version that seals: the newest one, or the one that the client names.
    ///
    /// # Errors
    /// In the words of Vault, if the version does not exist or may not seal.
    pub fn to_seal(&self, version: Option<u32>) -> Result<&Arc<Version>, Refusal> {
        let version = version.filter(|version| *version != 0).unwrap_or(self.latest());
        if version > self.latest() {
            return Err(Refusal::invalid("requested version for encryption is higher than the latest key version"));
        }
        // What is sealed must open.
        if version < self.record.min_encryption.max(self.record.min_decryption) {
            return Err(Refusal::invalid(
                "requested version for encryption is less than the minimum encryption key version",
            ));
        }
        self.version(version)
    }

    /// The version that opens a ciphertext.
    ///
    /// # Errors
    /// In the words of Vault, if the version does not exist or may no longer open.
    pub fn to_open(&self, version: u32) -> Result<&Arc<Version>, Refusal> {
        if version > self.latest() {
            return Err(Refusal::invalid("invalid ciphertext: version is too new"));
        }
        if version < self.record.min_decryption {
            return Err(too_old());
        }
        self.version(version)
    }

    /// The newest version. A key has at least one.
    pub fn newest(&self) -> Option<&Arc<Version>> {
        self.versions.values().next_back()
    }

    fn version(&self, version: u32) -> Result<&Arc<Version>, Refusal> {
        self.versions.get(&version).ok_or_else(too_old)
    }

    /// The length of a context.
    pub fn context_len(&self, user: &[u8]) -> usize {
        2 + self.record.name.len() + 8 + user.len()
    }

    /// What the key and associated data of a user's messages are bound to: `docs/server.md`.
    pub fn context(&self, version: u32, user: &[u8], out: &mut Vec<u8>) {
        out.push(u8::from(self.record.shreddable));
        out.push(self.record.name.len() as u8);
        out.extend_from_slice(self.record.name.as_bytes());
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&(user.len() as u32).to_le_bytes());
        out.extend_from_slice(user);
    }

    /// Changes the version in a context of this key.
    pub fn set_version(&self, version: u32, context: &mut [u8]) {
        let start = 2 + self.record.name.len();
        context[start..start + 4].copy_from_slice(&version.to_le_bytes());
    }
}

fn too_old() -> Refusal {
    Refusal::invalid("ciphertext or signature version is disallowed by policy (too old)")
}

/// What a sealed secret of a version is bound to.
fn place(id: &KeyId, version: u32) -> Vec<u8> {
    [b"version".as_slice(), id, &version.to_le_bytes()].concat()
}

/// The seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// All keys of the server.
pub struct Keys {
    root: Arc<Root>,
    store: Arc<Stored>,
    map: RwLock<BTreeMap<String, Arc<Key>>>,
    /// The most versions of all keys, and of one.
    most: (usize, usize),
    pub(crate) changes: Changes<()>,
}

impl Keys {
    /// Keys without any.
    pub fn new(root: Arc<Root>, store: Arc<Stored>, limits: &Limits) -> Self {
        let most = (limits.versions, limits.versions_of_one);
        Self { root, store, map: RwLock::default(), most, changes: Changes::default() }
    }

    /// Keeps keys from being changed by others.
    pub async fn changing(&self) -> Turn<'_, ()> {
        self.changes.first().await
    }

    /// Takes all keys, as they were read from the store by whoever holds [`Keys::changing`].
    ///
    /// # Errors
    /// If a secret is damaged or of another root key.
    pub fn replace(&self, records: Vec<KeyRecord>) -> store::Result<()> {
        let open = |record: KeyRecord| match self.get(&record.name).ok() {
            Some(key) if key.record == record => Ok((record.name, key)),
            old => Ok((record.name.clone(), Arc::new(Key::open(record, &self.root, old.as_deref())?))),
        };
        let map = records.into_iter().map(open).collect::<Result<_, Refusal>>()?;
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = map;
        Ok(())
    }

    /// The key of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, name: &str) -> Result<Arc<Key>, Refusal> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.get(name).cloned().ok_or_else(|| Refusal::not_found("encryption key not found"))
    }

    /// All keys, in the order of their names.
    pub fn all(&self) -> Vec<Arc<Key>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Makes a key. If there is one of this name, it stays as it is; the second result says whether it is new.
    ///
    /// # Errors
    /// If the name is none, there are too many keys, or the store fails.
    pub async fn create(&self, by: &By, name: &str, new: NewKey) -> store::Result<(Arc<Key>, bool)> {
        check_name(name)?;
        if self.get(name).is_err() {
            self.has_room()?;
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|e| Refusal::failed(e.to_string()))?;
        let mut record = new.record(id, name);
        record.versions.push(self.new_version(&id, 1)?);
        self.root.sign_key(&mut record);
        let change = move |store: &mut dyn Transaction| {
            if let Some(old) = store.key(&record.name)? {
                return Ok((old, false));
            }
            store.put_key(&record)?;
            Ok((record.clone(), true))
        };
        let _turn = self.changes.turn(by).await?;
        let (record, is_new) = self.store.run(change).await?;
        Ok((self.renew(record)?, is_new))
    }

    /// Adds a version, which seals from now on.
    ///
    /// # Errors
    /// If there is no such key, it or all keys have too many versions, or the store fails.
    pub async fn rotate(&self, by: &By, name: &str) -> store::Result<Arc<Key>> {
        self.has_room()?;
        let (root, (_, most)) = (self.root.clone(), self.most);
        let change = move |record: &mut KeyRecord| {
            if record.versions.len() >= most {
                return Err(Refusal::invalid(format!("a key has {most} versions at most: trim those of no use")));
            }
            let number =
                record.latest().checked_add(1).ok_or_else(|| Refusal::invalid("the key has too many versions"))?;
            record.versions.push(new_version(&root, &record.id, number)?);
            Ok(())
        };
        self.change(by, name, change).await
    }

    /// Changes what a key allows.
    ///
    /// # Errors
    /// In the words of Vault if it cannot be so; if there is no such key; if the store fails.
    pub async fn configure(&self, by: &By, name: &str, config: Config) -> store::Result<Arc<Key>> {
        self.change(by, name, move |record| config.apply(record)).await
    }

    /// Destroys the versions before this one. Requests that use them already are waited for.
    ///
    /// # Errors
    /// In the words of Vault if that is not allowed; if there is no such key; if the store fails.
    pub async fn trim(&self, by: &By, name: &str, min_available: u32) -> store::Result<Arc<Key>> {
        let old = self.get(name)?;
        let gone: Vec<_> = old.versions.range(..min_available).map(|(_, version)| Arc::downgrade(version)).collect();
        drop(old);
        let key = self.change(by, name, move |record| settings::trim(record, min_available)).await?;
        unused(&gone).await;
        self.store.scrub().await?;
        Ok(key)
    }

    /// Refuses what [`Keys::trim`] would refuse now.
    ///
    /// # Errors
    /// Those of [`Keys::trim`].
    pub fn may_trim(&self, name: &str, min_available: u32) -> Result<(), Refusal> {
        settings::trim(&mut self.get(name)?.record.clone(), min_available)
    }

    /// Destroys a key, if its deletion is allowed. Returns whether there was one.
    ///
    /// # Errors
    /// If it is not allowed; if the store fails.
    pub async fn delete(&self, by: &By, name: &str) -> store::Result<bool> {
        let (root, wanted) = (self.root.clone(), name.to_owned());
        let change = move |store: &mut dyn Transaction| {
            let Some(record) = store.key(&wanted)? else { return Ok(None) };
            check_authentic(&record, &root)?;
            if !record.deletion_allowed {
                return Err(Refusal::invalid("deletion is not allowed for this key").into());
            }
            store.delete_key(&record.id)?;
            Ok(Some(record.id))
        };
        let deleted = {
            let _turn = self.changes.turn(by).await?;
            let deleted = self.store.run(change).await?;
            deleted.inspect(|id| self.forget(name, id))
        };
        Ok(deleted.is_some())
    }

    /// Leaves as little as possible in the store of what was deleted.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn scrub(&self) -> store::Result<()> {
        self.store.scrub().await
    }

    /// Refuses a version that would be one too many of all keys. It looks at memory, so changes at the same time may go a
    /// little beyond the bound.
    fn has_room(&self) -> Result<(), Refusal> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        if map.values().map(|key| key.versions.len()).sum::<usize>() < self.most.0 {
            return Ok(());
        }
        Err(Refusal::new(Kind::Busy, "there are too many keys and versions: delete or trim those of no use"))
    }

    async fn change(
        &self,
        by: &By,
        name: &str,
        mut change: impl FnMut(&mut KeyRecord) -> Result<(), Refusal> + Send + 'static,
    ) -> store::Result<Arc<Key>> {
        let (root, name) = (self.root.clone(), name.to_owned());
        let work = move |store: &mut dyn Transaction| {
            let mut record = store.key(&name)?.ok_or_else(|| Refusal::not_found("encryption key not found"))?;
            check_authentic(&record, &root)?;
            change(&mut record)?;
            root.sign_key(&mut record);
            store.put_key(&record)?;
            Ok(record)
        };
        let _turn = self.changes.turn(by).await?;
        let record = self.store.run(work).await?;
        Ok(self.renew(record)?)
    }

    /// Replaces the key in memory by what is in the store now.
    fn renew(&self, record: KeyRecord) -> Result<Arc<Key>, Refusal> {
        let old = self.get(&record.name).ok();
        let key = Arc::new(Key::open(record, &self.root, old.as_deref())?);
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.insert(key.record.name.clone(), key.clone());
        Ok(key)
    }

    /// Takes a key out of memory, but not another one that has its name now.
    fn forget(&self, name: &str, id: &KeyId) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if map.get(name).is_some_and(|key| key.record.id == *id) {
            map.remove(name);
        }
    }

    fn new_version(&self, id: &KeyId, number: u32) -> Result<VersionRecord, Refusal> {
        new_version(&self.root, id, number)
    }
}

/// Waits until no request uses versions that no key has any more, but not for ever.
async fn unused(versions: &[Weak<Version>]) {
    let end = Instant::now() + GRACE;
    while versions.iter().any(|version| version.strong_count() > 0) && Instant::now() < end {
        sleep(Duration::from_millis(2)).await;
    }
}

/// Refuses a key that was changed, or added, by another one than this server.
fn check_authentic(record: &KeyRecord, root: &Root) -> Result<(), Refusal> {
    let name = &record.name;
    let damaged = || Refusal::failed(format!("the settings of key {name:?} are damaged, or of another root key"));
    if root.has_key(record) { Ok(()) } else { Err(damaged()) }
}

/// The versions whose secrets cannot be opened.
pub fn damaged_versions(record: &KeyRecord, root: &Root) -> Vec<u32> {
    let opens = |version: &&VersionRecord| root.open(&place(&record.id, version.number), &version.sealed).is_ok();
    record.versions.iter().filter(|version| !opens(version)).map(|version| version.number).collect()
}

fn new_version(root: &Root, id: &KeyId, number: u32) -> Result<VersionRecord, Refusal> {
    let secret = SecretKey::random().map_err(|e| Refusal::failed(e.to_string()))?;
    Ok(VersionRecord { number, created: now(), sealed: root.seal(&place(id, number), &secret)? })
}

/// Refuses what is no name of a key. The names are Vault's: `\w(([\w-.]+)?\w)?`.
///
/// # Errors
/// A line that says what a name is.
pub fn check_name(name: &str) -> Result<(), Refusal> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let fits = (1..=LONGEST_NAME).contains(&name.len());
    let is_plain = name.bytes().all(|byte| is_word(&byte) || byte == b'-' || byte == b'.');
    let ends_well = [name.as_bytes().first(), name.as_bytes().last()].into_iter().flatten().all(is_word);
    if fits && is_plain && ends_well {
        return Ok(());
    }
    let line = "a key's name has 1 to 128 letters, digits and '_', and '-' and '.' between them";
    Err(Refusal::new(Kind::Invalid, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_vault() {
        for name in ["a", "_", "a.b-c", "0", "orders_", "a..b", &"a".repeat(LONGEST_NAME)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "-", "a.", "a-", ".a", "-a", "a b", "a/b", "ä", "a\n", &"a".repeat(LONGEST_NAME + 1)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
