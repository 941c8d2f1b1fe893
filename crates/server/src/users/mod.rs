//! Users of keys in `shreddable` mode: each has a random salt, without which nothing of the user's can be opened.
//!
//! ```text
//! bucket of a user = the first 12 bits of the user's id, a KMAC of the name
//! in the store:      the bucket's random key, sealed under the root key
//!                    the user's random salt, sealed under the bucket's key
//! ```
//!
//! To shred a user is to delete the salt, to seal the other salts of the bucket under a new key, and to destroy the old
//! one. Whoever has an old copy of the rows then lacks the key of the bucket, and whoever has the key lacks the row.

mod cache;
mod check;
mod rows;

use crate::batch::Batch;
use crate::keys::root::Root;
use crate::keys::{Key, SALT};
use crate::refusal::Refusal;
use crate::store::{self, Copies, KeyId, Stored, UserId};
use cache::Cache;
use phalanx_core::engine::Op;
use phalanx_core::{Roster, Zeroizing};
use phalanx_host::lock::lock;
use rows::{Found, Group};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub use check::Report;
use rows::bucket_of;

/// A batch with more users than this opens their salts on a thread of its own.
const MANY: usize = 64;

/// A user's salt.
pub type Salt = Zeroizing<[u8; SALT]>;

/// The users.
pub struct Users {
    root: Arc<Root>,
    store: Arc<Stored>,
    roster: Arc<Roster>,
    /// What other servers cannot change behind this one's back.
    cache: Option<Arc<Mutex<Cache>>>,
}

/// An item of a batch that needs a salt.
struct Wanted {
    item: usize,
    key: Arc<Key>,
    user: UserId,
}

impl Users {
    /// Users in a store.
    pub fn new(root: Arc<Root>, store: Arc<Stored>) -> Self {
        let cache = (!store.is_shared()).then(|| Arc::new(Mutex::new(Cache::default())));
        Self { root, store, roster: Arc::new(Roster::cpu()), cache }
    }

    /// Gives the items of a batch their salts. A user who has none gets one if the batch is to be sealed, and it is on the
    /// disk when this returns.
    pub async fn fill_salts(&self, batch: &mut Batch) {
        let mut wanted = match self.wanted(batch).await {
            Ok(wanted) if wanted.is_empty() => return,
            Ok(wanted) => wanted,
            Err(refusal) => {
                let all: Vec<usize> = batch.salted().map(|(item, ..)| item).collect();
                return all.into_iter().for_each(|item| batch.set_salt(item, Err(refusal.clone())));
            }
        };
        let epoch = self.take_cached(&mut wanted, batch);
        if wanted.is_empty() {
            return;
        }
        match self.find(groups(&wanted), batch.op() == Op::Seal).await {
            Ok(found) => self.give(&wanted, &found, epoch, batch),
            Err(error) => {
                let refusal = error.told();
                wanted.iter().for_each(|wanted| batch.set_salt(wanted.item, Err(refusal.clone())));
            }
        }
    }

    /// The items that need salts. The ids of many users are computed on a thread of their own.
    async fn wanted(&self, batch: &Batch) -> Result<Vec<Wanted>, Refusal> {
        let id = |root: &Root, item, key: &Arc<Key>, user: &[u8]| Wanted {
            item,
            key: key.clone(),
            user: root.user_id(&key.record.id, user),
        };
        if batch.salted().nth(MANY).is_none() {
            return Ok(batch.salted().map(|(item, key, user)| id(&self.root, item, key, user)).collect());
        }
        let root = self.root.clone();
        let users: Vec<(usize, Arc<Key>, Vec<u8>)> =
            batch.salted().map(|(item, key, user)| (item, key.clone(), user.to_vec())).collect();
        let work = move || users.iter().map(|(item, key, user)| id(&root, *item, key, user)).collect();
        tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::failed("a thread has failed"))
    }

    /// Gives what the cache has, and keeps the others in `wanted`. Returns the epoch of the cache.
    fn take_cached(&self, wanted: &mut Vec<Wanted>, batch: &mut Batch) -> u64 {
        let Some(cache) = &self.cache else { return 0 };
        let mut cache = lock(cache);
        wanted.retain(|wanted| match cache.get(&(wanted.key.record.id, wanted.user)) {
            Some(salt) => {
                batch.set_salt(wanted.item, Ok(salt));
                false
            }
            None => true,
        });
        cache.epoch()
    }

    fn give(&self, wanted: &[Wanted], found: &Found, epoch: u64, batch: &mut Batch) {
        let mut cache = self.cache.as_ref().map(|cache| lock(cache));
        for wanted in wanted {
            let name = (wanted.key.record.id, wanted.user);
            let salt = found.get(&name).map_or_else(|| Err(unknown()), |salt| salt.as_deref().map_err(Clone::clone));
            if let (Some(cache), Ok(salt)) = (&mut cache, &salt) {
                cache.put(name, salt, epoch);
            }
            batch.set_salt(wanted.item, salt);
        }
    }

    /// Looks users up, and makes those who are missing if that is asked for.
    async fn find(&self, groups: Vec<Group>, make: bool) -> store::Result<Found> {
        let groups = Arc::new(groups);
        let (root, roster, all) = (self.root.clone(), self.roster.clone(), groups.clone());
        let look_up = move |store: &mut dyn store::Transaction| {
            all.iter().map(|group| rows::find(store, &root, &roster, group, make)).collect::<store::Result<Vec<_>>>()
        };
        let rows = self.store.run(look_up).await?;
        let (root, roster) = (self.root.clone(), self.roster.clone());
        let many = rows.iter().map(Vec::len).sum::<usize>() > MANY;
        let open = move || rows::open(&root, &roster, &groups, rows);
        let opened = if many { tokio::task::spawn_blocking(open).await.map_err(|_| ended())? } else { open() };
        Ok(opened?)
    }

    /// Deletes a user: nothing that was sealed for the user opens from now on. Returns whether there was one.
    ///
    /// If the caller gives up waiting, it is done all the same.
    ///
    /// # Errors
    /// If the key has no salts, or the store fails. The user may then be deleted or not, and the same call goes on.
    pub async fn shred(&self, key: &Arc<Key>, user: &[u8]) -> store::Result<bool> {
        must_have_salts(key)?;
        let (root, roster, store, cache) =
            (self.root.clone(), self.roster.clone(), self.store.clone(), self.cache.clone());
        let (key, user) = (key.record.id, self.root.user_id(&key.record.id, user));
        let shred = async move {
            let work = move |store: &mut dyn store::Transaction| rows::shred(store, &root, &roster, &key, &user);
            let existed = store.run(work).await;
            // Whether or not it is known to have happened.
            if let Some(cache) = cache {
                lock(&cache).forget(&(key, user));
            }
            let existed = existed?;
            // Also if there is no user: an earlier call may have failed here.
            store.scrub().await?;
            Ok(existed)
        };
        tokio::spawn(shred).await.map_err(|_| ended())?
    }

    /// Whether the key has a salt of this user.
    ///
    /// # Errors
    /// If the key has no salts, or the store fails.
    pub async fn exists(&self, key: &Arc<Key>, user: &[u8]) -> store::Result<bool> {
        must_have_salts(key)?;
        let (key, user) = (key.record.id, self.root.user_id(&key.record.id, user));
        let look_up = move |store: &mut dyn store::Transaction| store.users(&key, &[(bucket_of(&user), user)]);
        Ok(self.store.run(look_up).await?.iter().any(Option::is_some))
    }

    /// How many users a key has.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn count(&self, key: &Arc<Key>) -> store::Result<u64> {
        let key = key.record.id;
        self.store.run(move |store| store.count_users(&key)).await
    }

    /// Writes a copy of the store.
    ///
    /// # Errors
    /// If the store fails, or has its own way to be copied.
    pub async fn copy(&self, to: Copies) -> store::Result<()> {
        self.store.copy(to).await
    }

    /// Whether the salt of any user is in memory.
    #[cfg(test)]
    pub fn remembers_somebody(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| !lock(cache).is_empty())
    }

    /// Forgets all salts, such as those of a key that is deleted.
    pub fn forget_all(&self) {
        if let Some(cache) = &self.cache {
            lock(cache).clear();
        }
    }
}

fn must_have_salts(key: &Key) -> Result<(), Refusal> {
    let name = &key.record.name;
    let no_salts = || Refusal::invalid(format!("the key {name} is not shreddable: its users cannot be deleted"));
    key.record.shreddable.then_some(()).ok_or_else(no_salts)
}

/// The refusal of a user who has no salt.
fn unknown() -> Refusal {
    Refusal::invalid("user is unknown or was deleted")
}

fn ended() -> store::Error {
    store::Error::Failed("a thread has ended".into())
}

/// The users of each key, each once, in ascending order.
fn groups(wanted: &[Wanted]) -> Vec<Group> {
    let mut groups: BTreeMap<KeyId, Group> = BTreeMap::new();
    for Wanted { key, user, .. } in wanted {
        let new = || Group { key: key.record.id, name: key.record.name.clone(), users: Vec::new() };
        groups.entry(key.record.id).or_insert_with(new).users.push((bucket_of(user), *user));
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    for group in &mut groups {
        group.users.sort_unstable();
        group.users.dedup();
    }
    groups
}
