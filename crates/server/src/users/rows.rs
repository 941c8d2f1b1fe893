//! Work on the rows of users and buckets, inside a transaction of the store.

use super::{Salt, unknown};
use crate::keys::SALT;
use crate::keys::root::{self, Root, Under, damaged};
use crate::refusal::Refusal;
use crate::store::{self, KeyId, Transaction, UserId, UserRecord};
use phalanx_core::{Roster, SecretKey, Zeroizing};
use std::collections::{BTreeMap, HashMap};

/// The bucket of a user, of the 4,096 that a key has.
pub fn bucket_of(user: &UserId) -> u16 {
    u16::from_be_bytes([user[0], user[1]]) >> 4
}

/// Users of a key, each once, in ascending order.
pub struct Group {
    /// The key.
    pub key: KeyId,
    /// Its name.
    pub name: String,
    /// The users.
    pub users: Vec<(u16, UserId)>,
}

/// A user, as found in the store.
pub enum Row {
    /// The sealed salt, and the sealed key of its bucket.
    Sealed(UserRecord),
    /// A salt that was made just now.
    Made(Salt),
    /// There is none, or it is damaged.
    Refused(Refusal),
}

/// Salts by key and user.
pub type Found = HashMap<(KeyId, UserId), Result<Salt, Refusal>>;

/// What the sealed key of a bucket is bound to.
fn bucket_place(key: &KeyId, bucket: u16) -> [u8; 24] {
    let mut place = [0; 24];
    place[..6].copy_from_slice(b"bucket");
    place[6..22].copy_from_slice(key);
    place[22..].copy_from_slice(&bucket.to_le_bytes());
    place
}

/// What the sealed salt of a user is bound to.
fn user_place(key: &KeyId, user: &UserId) -> [u8; 52] {
    let mut place = [0; 52];
    place[..4].copy_from_slice(b"user");
    place[4..20].copy_from_slice(key);
    place[20..].copy_from_slice(user);
    place
}

/// Finds users, in the order of the group, and makes those who are missing if that is asked for.
pub fn find(
    store: &mut dyn Transaction,
    root: &Root,
    roster: &Roster,
    group: &Group,
    make: bool,
) -> store::Result<Vec<Row>> {
    let mut found = store.users(&group.key, &group.users)?;
    if make && found.iter().any(Option::is_none) {
        // A key that was deleted since its request began must not get users again.
        if store.key(&group.name)?.is_none_or(|key| key.id != group.key) {
            return Err(Refusal::not_found("encryption key not found").into());
        }
        if store.is_shared() {
            // Another server may have made or deleted some of them. From now on it cannot: the key was the first lock.
            found = store.users(&group.key, &group.users)?;
        }
        return make_missing(store, root, roster, group, found);
    }
    Ok(found.into_iter().map(|row| row.map_or_else(|| Row::Refused(unknown()), Row::Sealed)).collect())
}

fn make_missing(
    store: &mut dyn Transaction,
    root: &Root,
    roster: &Roster,
    group: &Group,
    found: Vec<Option<UserRecord>>,
) -> store::Result<Vec<Row>> {
    let missing = group.users.iter().zip(&found).filter(|(_, row)| row.is_none());
    let buckets = bucket_keys(store, root, roster, &group.key, missing.map(|((bucket, _), _)| *bucket))?;
    let mut random = Zeroizing::new(vec![0; group.users.len() * SALT]);
    getrandom::fill(&mut random).map_err(|e| Refusal::failed(e.to_string()))?;
    let places: Vec<_> = group.users.iter().map(|(_, user)| user_place(&group.key, user)).collect();
    let salts = random.as_chunks::<SALT>().0;
    let mut new = Vec::new();
    for (i, (bucket, _)) in group.users.iter().enumerate() {
        if let (None, Some(Some(key))) = (&found[i], buckets.get(bucket)) {
            new.push((i, Under { key, place: &places[i], bytes: &salts[i] }));
        }
    }
    let (numbers, new): (Vec<usize>, Vec<Under>) = new.into_iter().unzip();
    let sealed = root::seal_each(roster, &new)?;
    let mut rows: Vec<Row> =
        found.into_iter().map(|row| row.map_or_else(|| Row::Refused(damaged()), Row::Sealed)).collect();
    for (i, sealed) in numbers.into_iter().zip(&sealed) {
        let (bucket, user) = &group.users[i];
        store.put_user(&group.key, *bucket, user, sealed)?;
        rows[i] = Row::Made(Salt::new(salts[i]));
    }
    Ok(rows)
}

/// The keys of buckets, which are given in ascending order. Those that do not exist are made; one that is damaged is
/// `None`.
fn bucket_keys(
    store: &mut dyn Transaction,
    root: &Root,
    roster: &Roster,
    key: &KeyId,
    buckets: impl Iterator<Item = u16>,
) -> store::Result<BTreeMap<u16, Option<SecretKey>>> {
    let mut keys = BTreeMap::new();
    let mut kept: Vec<(u16, [u8; 24], Vec<u8>)> = Vec::new();
    let mut each: Vec<u16> = buckets.collect();
    each.dedup();
    for (bucket, found) in each.iter().copied().zip(store.buckets_of(key, &each)?) {
        match found {
            Some(sealed) => kept.push((bucket, bucket_place(key, bucket), sealed)),
            None => {
                let new = SecretKey::random().map_err(|e| Refusal::failed(e.to_string()))?;
                store.put_bucket(key, bucket, &root.seal(&bucket_place(key, bucket), &new)?)?;
                keys.insert(bucket, Some(new));
            }
        }
    }
    let sealed: Vec<_> =
        kept.iter().map(|(_, place, sealed)| Under { key: root.secrets(), place, bytes: sealed }).collect();
    let opened = root::open_each(roster, &sealed)?;
    keys.extend(kept.iter().map(|(bucket, ..)| *bucket).zip(opened));
    Ok(keys)
}

/// Opens the salts of users.
pub fn open(root: &Root, roster: &Roster, groups: &[Group], rows: Vec<Vec<Row>>) -> Result<Found, Refusal> {
    let mut found = Found::with_capacity(rows.iter().map(Vec::len).sum());
    for (group, rows) in groups.iter().zip(rows) {
        let mut kept = Vec::new();
        for ((bucket, user), row) in group.users.iter().zip(rows) {
            match row {
                Row::Sealed(row) => kept.push((*bucket, *user, row)),
                Row::Made(salt) => drop(found.insert((group.key, *user), Ok(salt))),
                Row::Refused(refusal) => drop(found.insert((group.key, *user), Err(refusal))),
            }
        }
        let salts = open_kept(root, roster, &group.key, &kept)?;
        found.extend(kept.iter().zip(salts).map(|((_, user, _), salt)| ((group.key, *user), salt.ok_or_else(damaged))));
    }
    Ok(found)
}

/// Opens the salts of users of a key, who are sorted by their buckets.
fn open_kept(
    root: &Root,
    roster: &Roster,
    key: &KeyId,
    kept: &[(u16, UserId, UserRecord)],
) -> Result<Vec<Option<Salt>>, Refusal> {
    let of_bucket = || kept.chunk_by(|(a, ..), (b, ..)| a == b);
    let places: Vec<_> = of_bucket().map(|users| bucket_place(key, users[0].0)).collect();
    let buckets = of_bucket().zip(&places);
    let sealed: Vec<_> =
        buckets.map(|(users, place)| Under { key: root.secrets(), place, bytes: &users[0].2.bucket_key }).collect();
    let keys = root::open_each(roster, &sealed)?;
    let places: Vec<_> = kept.iter().map(|(_, user, _)| user_place(key, user)).collect();
    let mut next = places.iter();
    let mut under = Vec::with_capacity(kept.len());
    let mut has_bucket = Vec::with_capacity(kept.len());
    for (users, bucket) in of_bucket().zip(&keys) {
        for (_, _, row) in users {
            let place = next.next().expect("there is one for each user");
            has_bucket.push(bucket.is_some());
            if let Some(bucket) = bucket {
                under.push(Under { key: bucket, place, bytes: &row.sealed });
            }
        }
    }
    let mut opened = root::open_each(roster, &under)?.into_iter();
    let salt = |has_bucket: bool| if has_bucket { opened.next().flatten() } else { None };
    Ok(has_bucket.into_iter().map(salt).map(|salt| Some(Salt::new(*salt?.expose()))).collect())
}

/// Deletes a user, and seals the other salts of the bucket under a new key. Returns whether there was such a user.
pub fn shred(
    store: &mut dyn Transaction,
    root: &Root,
    roster: &Roster,
    key: &KeyId,
    user: &UserId,
) -> store::Result<bool> {
    let bucket = bucket_of(user);
    let Some(sealed) = store.bucket(key, bucket)? else { return Ok(false) };
    if !store.delete_user(key, bucket, user)? {
        return Ok(false);
    }
    let old = root.open(&bucket_place(key, bucket), &sealed)?;
    let new = SecretKey::random().map_err(|e| Refusal::failed(e.to_string()))?;
    let others = store.users_of_bucket(key, bucket)?;
    let places: Vec<_> = others.iter().map(|(user, _)| user_place(key, user)).collect();
    let sealed: Vec<_> =
        places.iter().zip(&others).map(|(place, (_, sealed))| Under { key: &old, place, bytes: sealed }).collect();
    let salts = root::open_each(roster, &sealed)?;
    let salts = salts.into_iter().collect::<Option<Vec<SecretKey>>>().ok_or_else(damaged)?;
    let again: Vec<_> =
        places.iter().zip(&salts).map(|(place, salt)| Under { key: &new, place, bytes: salt.expose() }).collect();
    for ((user, _), sealed) in others.iter().zip(root::seal_each(roster, &again)?) {
        store.put_user(key, bucket, user, &sealed)?;
    }
    store.put_bucket(key, bucket, &root.seal(&bucket_place(key, bucket), &new)?)?;
    Ok(true)
}

/// Opens all that is in a bucket. Returns how many users it has, and whether its key and how many of the salts are
/// damaged.
pub fn check_bucket(
    root: &Root,
    roster: &Roster,
    key: &KeyId,
    bucket: u16,
    sealed: Option<&[u8]>,
    users: &[(UserId, Vec<u8>)],
) -> Result<Damage, Refusal> {
    let bucket_key = sealed.and_then(|sealed| root.open(&bucket_place(key, bucket), sealed).ok());
    let Some(bucket_key) = bucket_key else {
        let lost = if sealed.is_none() { users.len() as u64 } else { 0 };
        return Ok(Damage { bucket: sealed.is_some() || !users.is_empty(), users: users.len() as u64, lost });
    };
    let salts = open_users(roster, key, &bucket_key, users)?;
    let in_place = users.iter().map(|(user, _)| bucket_of(user) == bucket);
    let damaged = salts.iter().zip(in_place).filter(|(salt, in_place)| salt.is_none() || !in_place).count();
    let lost = salts.iter().filter(|salt| salt.is_none()).count();
    Ok(Damage { bucket: false, users: damaged as u64, lost: lost as u64 })
}

/// Those users of a bucket whose salts do not open under its key, or all of them if it has none. A key that does not open
/// is damaged, and loses nobody.
pub fn lost(
    root: &Root,
    roster: &Roster,
    key: &KeyId,
    bucket: u16,
    sealed: Option<&[u8]>,
    users: &[(UserId, Vec<u8>)],
) -> Result<Vec<UserId>, Refusal> {
    let Some(sealed) = sealed else { return Ok(users.iter().map(|(user, _)| *user).collect()) };
    let Ok(bucket_key) = root.open(&bucket_place(key, bucket), sealed) else { return Ok(Vec::new()) };
    let salts = open_users(roster, key, &bucket_key, users)?;
    Ok(users.iter().zip(salts).filter(|(_, salt)| salt.is_none()).map(|((user, _), _)| *user).collect())
}

fn open_users(
    roster: &Roster,
    key: &KeyId,
    bucket_key: &SecretKey,
    users: &[(UserId, Vec<u8>)],
) -> Result<Vec<Option<SecretKey>>, Refusal> {
    let places: Vec<_> = users.iter().map(|(user, _)| user_place(key, user)).collect();
    let sealed: Vec<_> =
        users.iter().zip(&places).map(|((_, sealed), place)| Under { key: bucket_key, place, bytes: sealed }).collect();
    root::open_each(roster, &sealed)
}

/// What is damaged in a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Whether its key is.
    pub bucket: bool,
    /// How many users cannot be opened.
    pub users: u64,
    /// How many of them are none of the bucket as it is.
    pub lost: u64,
}
