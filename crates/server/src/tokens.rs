//! Tokens: who a caller is, and what the caller may do. Only their hashes are kept.

mod map;

use crate::changes::{By, Changes, Turn};
use crate::keys::root::Root;
use crate::keys::{LONGEST_NAME, now};
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::rights::{Right, Rights};
use crate::store::{self, Stored, TokenRecord, Transaction};
use base64ct::{Base64UrlUnpadded, Encoding};
use map::Map;
use phalanx_core::Zeroizing;
use phalanx_host::lines::complain;
use phalanx_kernels::keccak::sha3_256;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// The start of every token.
pub const PREFIX: &str = "phx.";

/// How long a token lives if nothing else is asked for, in seconds: 32 days, as in Vault.
pub const DEFAULT_TTL: u64 = 32 * 24 * 3600;

/// The longest that a token may live, in seconds: about 100 years.
const LONGEST_TTL: u64 = 100 * 366 * 24 * 3600;
/// The most rights of a token.
const MOST_RIGHTS: usize = 64;
/// The most bytes of the name of a token's user.
const LONGEST_USER: usize = 4096;
/// The most tokens of which each was made by the one before it.
const DEEPEST: usize = 16;
/// Tokens that have ended are kept so long, in seconds: a clock may be wrong, and they are deleted for all servers.
const KEPT: u64 = 24 * 3600;
/// When there are so many, all of them are deleted before another one is made.
const MOST_ENDED: usize = 10_000;
/// And when they have so many bytes.
const MOST_ENDED_BYTES: usize = 8 << 20;
/// About so many bytes of a token are beside its rights, user and name.
const FIXED: usize = 256;

/// A token as it is now.
#[derive(Debug)]
pub struct Token {
    /// What is kept of it.
    pub record: TokenRecord,
    /// What it allows.
    pub rights: Arc<Rights>,
}

impl Token {
    fn new(record: TokenRecord) -> Result<Self, Refusal> {
        let texts = record.rights.split(',').filter(|text| !text.is_empty());
        let unknown = |_| Refusal::failed(format!("the token {} has an unknown right", record.accessor));
        // What was given before is not judged again.
        let list = texts.map(str::parse).collect::<Result<_, String>>().map_err(unknown)?;
        let rights = Rights { list, user: record.user.clone() };
        Ok(Self { record, rights: Arc::new(rights) })
    }

    /// How many seconds it still lives; `None` is for ever.
    pub fn left(&self) -> Option<u64> {
        self.record.expires.map(|end| end.saturating_sub(now()))
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.left() == Some(0)
    }
}

/// About how many bytes are kept of a token.
fn bytes_of(record: &TokenRecord) -> usize {
    let (user, name) = (record.user.as_ref().map_or(0, Vec::len), record.name.as_ref().map_or(0, String::len));
    FIXED + record.rights.len() + user + name
}

/// The tokens whose rights cannot be read, by their accessors.
pub fn damaged_tokens(records: Vec<TokenRecord>) -> Vec<String> {
    let accessor = |record: TokenRecord| (record.accessor.clone(), Token::new(record).is_err());
    records.into_iter().map(accessor).filter(|(_, is_damaged)| *is_damaged).map(|(accessor, _)| accessor).collect()
}

/// A token to be made.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// What it allows.
    pub rights: Rights,
    /// How long it lives, in seconds; 0 is for ever.
    pub ttl: u64,
    /// Whether it may be renewed.
    pub renewable: bool,
    /// The accessor of the token by which it is made.
    pub parent: Option<String>,
    /// What it is called in lists.
    pub name: Option<String>,
}

impl NewToken {
    fn check(&self) -> Result<(), Refusal> {
        if self.ttl > LONGEST_TTL {
            return Err(Refusal::invalid("a token lives for 100 years at most"));
        }
        if self.rights.list.len() > MOST_RIGHTS {
            return Err(Refusal::invalid(format!("a token has {MOST_RIGHTS} rights at most")));
        }
        let is_long = |right: &Right| right.start().is_some_and(|start| start.len() > LONGEST_NAME);
        if self.rights.list.iter().any(is_long) {
            return Err(Refusal::invalid(format!("the key of a right has {LONGEST_NAME} bytes at most")));
        }
        if self.rights.user.as_ref().is_some_and(|user| user.len() > LONGEST_USER) {
            return Err(Refusal::invalid(format!("a user's name has {LONGEST_USER} bytes at most")));
        }
        Ok(())
    }

    fn record(self, text: &str) -> Result<TokenRecord, Refusal> {
        let mut accessor = [0; 9];
        getrandom::fill(&mut accessor).map_err(|e| Refusal::failed(e.to_string()))?;
        let (created, rights) = (now(), self.rights);
        let texts: Vec<String> = rights.list.iter().map(ToString::to_string).collect();
        Ok(TokenRecord {
            hash: sha3_256(text.as_bytes()),
            // In hexadecimal, so that none begins like an option of a command.
            accessor: accessor.iter().map(|byte| format!("{byte:02x}")).collect(),
            rights: texts.join(","),
            user: rights.user,
            created,
            expires: (self.ttl > 0).then(|| created.saturating_add(self.ttl)),
            ttl: self.ttl,
            renewable: self.renewable && self.ttl > 0,
            parent: self.parent,
            name: self.name,
            mac: [0; 32],
        })
    }
}

/// All tokens. A token is valid while it has not ended, and neither have those by which it was made.
pub struct Tokens {
    root: Arc<Root>,
    store: Arc<Stored>,
    map: RwLock<Map>,
    /// The most bytes of all tokens, and of those that come from one.
    most: (usize, usize),
    /// With when ended tokens were last deleted.
    changes: Changes<u64>,
}

impl Tokens {
    /// Tokens without any.
    pub fn new(root: Arc<Root>, store: Arc<Stored>, limits: &Limits) -> Self {
        let most = (limits.token_bytes, limits.token_bytes_of_one);
        Self { root, store, map: RwLock::default(), most, changes: Changes::default() }
    }

    /// Keeps tokens from being changed by others.
    pub async fn changing(&self) -> Turn<'_, u64> {
        self.changes.first().await
    }

    /// Takes all tokens, as they were read from the store by whoever holds [`Tokens::changing`]. One that is not authentic
    /// is left out, with a warning.
    ///
    /// # Errors
    /// If one has an unknown right.
    pub fn replace(&self, records: Vec<TokenRecord>) -> store::Result<()> {
        let known = |record: &TokenRecord| self.read().token(&record.hash).filter(|own| own.record == *record).cloned();
        let mut tokens = Vec::with_capacity(records.len());
        for record in records {
            if let Some(token) = known(&record) {
                tokens.push(token);
            } else if self.root.has_token(&record) {
                tokens.push(Arc::new(Token::new(record)?));
            } else {
                let accessor = record.accessor;
                complain(format!("warning: the token {accessor:?} is damaged, or of another root key: it is refused"));
            }
        }
        let map = Map::new(tokens);
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = map;
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token of this text, if it is valid.
    ///
    /// It is found by its hash. How long that takes says nothing of use about the token: it is 32 random bytes, and nobody
    /// can choose its hash.
    pub fn find(&self, text: &str) -> Option<Arc<Token>> {
        self.find_caller(text).map(|(token, _)| token)
    }

    /// The token of this text, if it is valid, and with whom its requests are counted: all tokens that were made from one
    /// of somebody who is no administrator, from that one downwards, count as that one.
    pub fn find_caller(&self, text: &str) -> Option<(Arc<Token>, Arc<str>)> {
        self.read().valid(&sha3_256(text.as_bytes()))
    }

    /// The token of this text, even if it has ended: it may be revoked.
    pub fn known(&self, text: &str) -> Option<Arc<Token>> {
        self.read().token(&sha3_256(text.as_bytes())).cloned()
    }

    /// Whether a token that was found is still valid.
    pub fn has(&self, token: &Token) -> bool {
        let map = self.read();
        map.token(&token.record.hash).is_some_and(|token| map.is_valid(token))
    }

    /// The token of an accessor, even if it has ended.
    pub fn by_accessor(&self, accessor: &str) -> Option<Arc<Token>> {
        self.read().named(accessor).cloned()
    }

    /// All valid tokens, the oldest first.
    pub fn all(&self) -> Vec<Arc<Token>> {
        let map = self.read();
        let mut all: Vec<_> = map.tokens().filter(|token| map.is_valid(token)).cloned().collect();
        all.sort_by(|a, b| (a.record.created, &a.record.accessor).cmp(&(b.record.created, &b.record.accessor)));
        all
    }

    /// Makes a token, and returns its text, which is kept nowhere. It ends at the latest with the one by which it is made.
    ///
    /// # Errors
    /// If it or its number goes beyond a bound, the one by which it is made is not valid, or the store fails.
    pub async fn create(&self, by: &By, new: NewToken) -> store::Result<(Zeroizing<String>, Arc<Token>)> {
        new.check()?;
        let text = new_text()?;
        let mut record = new.record(&text)?;
        let mut turn = self.changes.turn(by).await?;
        self.make_room(&record, &mut turn.state).await?;
        let root = self.root.clone();
        let add = move |store: &mut dyn Transaction| {
            if let Some(parent) = &record.parent {
                record.expires = earlier(record.expires, first_end(store, &root, parent)?);
            }
            root.sign_token(&mut record);
            store.put_token(&record)?;
            Ok(record.clone())
        };
        let record = self.store.run(add).await?;
        Ok((text, self.put(record)?))
    }

    /// Lets a token live for its whole time again, or for another time, but never longer than the one by which it was made.
    /// The second result is for how long.
    ///
    /// # Errors
    /// If it may not be renewed or is not valid, or the store fails.
    pub async fn renew(&self, by: &By, token: &Token, ttl: Option<u64>) -> store::Result<(Arc<Token>, u64)> {
        if !token.record.renewable {
            return Err(Refusal::invalid("lease is not renewable").into());
        }
        // Never longer than it was made for.
        let ttl = ttl.filter(|ttl| *ttl > 0).unwrap_or(token.record.ttl).min(token.record.ttl);
        let (root, accessor) = (self.root.clone(), token.record.accessor.clone());
        let renew = move |store: &mut dyn Transaction| {
            let mut record = valid(store, &root, &accessor)?;
            let parent = record.parent.as_deref().map(|parent| first_end(store, &root, parent)).transpose()?.flatten();
            let now = now();
            record.expires = earlier(Some(now.saturating_add(ttl)), parent);
            root.sign_token(&mut record);
            if !store.renew_token(&record)? {
                return Err(Refusal::denied().into());
            }
            let lease = record.expires.map_or(0, |end| end.saturating_sub(now));
            Ok((record, lease))
        };
        let _turn = self.changes.turn(by).await?;
        let (record, lease) = self.store.run(renew).await?;
        Ok((self.put(record)?, lease))
    }

    /// Ends the token of an accessor, and those that were made by it. Returns whether there was one.
    ///
    /// # Errors
    /// If the store fails, or too many revocations of this caller wait.
    pub async fn revoke(&self, by: &By, accessor: &str) -> store::Result<bool> {
        let accessor = accessor.to_owned();
        let _turn = self.changes.turn(&by.to_revoke()).await?;
        let hashes = self.store.run(move |store| store.delete_token(&accessor)).await?;
        self.forget(&hashes);
        Ok(!hashes.is_empty())
    }

    /// Refuses a token that would be one too many. Every hour it deletes those that ended long ago, and when there are many,
    /// all that have ended.
    async fn make_room(&self, next: &TokenRecord, deleted: &mut u64) -> store::Result<()> {
        let census = self.read().census(next.parent.as_deref());
        let now = now();
        let are_many = census.ended.is_full(0, MOST_ENDED, MOST_ENDED_BYTES);
        if are_many || now.saturating_sub(*deleted) >= 3600 {
            *deleted = now;
            let before = if are_many { now } else { now.saturating_sub(KEPT) };
            let hashes = self.store.run(move |store| store.delete_ended_tokens(before)).await?;
            self.forget(&hashes);
        }
        Ok(census.check(bytes_of(next), self.most)?)
    }

    /// Puts a token in memory as it is in the store now.
    fn put(&self, record: TokenRecord) -> Result<Arc<Token>, Refusal> {
        let token = Arc::new(Token::new(record)?);
        self.map.write().unwrap_or_else(PoisonError::into_inner).insert(token.clone());
        Ok(token)
    }

    /// Takes tokens that were deleted out of memory.
    fn forget(&self, hashes: &[[u8; 32]]) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        hashes.iter().for_each(|hash| map.remove(hash));
    }
}

/// A random token's text.
fn new_text() -> Result<Zeroizing<String>, Refusal> {
    let mut random = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *random).map_err(|e| Refusal::failed(e.to_string()))?;
    let encoded = Zeroizing::new(Base64UrlUnpadded::encode_string(&*random));
    let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + encoded.len()));
    text.push_str(PREFIX);
    text.push_str(&encoded);
    Ok(text)
}

fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    [a, b].into_iter().flatten().min()
}

/// A token that has not ended, whatever the one by which it was made has done.
fn valid(store: &mut dyn Transaction, root: &Root, accessor: &str) -> store::Result<TokenRecord> {
    let now = now();
    let is_valid = |token: &TokenRecord| token.expires.is_none_or(|end| end > now) && root.has_token(token);
    Ok(store.token(accessor)?.filter(is_valid).ok_or_else(Refusal::denied)?)
}

/// When the first ends of a token and of those by which it was made.
///
/// # Errors
/// If one of them does not exist or has ended, or there are too many.
fn first_end(store: &mut dyn Transaction, root: &Root, accessor: &str) -> store::Result<Option<u64>> {
    let (mut next, mut first) = (Some(accessor.to_owned()), None);
    for _ in 0..DEEPEST {
        let Some(accessor) = next else { return Ok(first) };
        let token = valid(store, root, &accessor)?;
        first = earlier(first, token.expires);
        next = token.parent;
    }
    match next {
        None => Ok(first),
        Some(_) => Err(Refusal::invalid(format!("at most {DEEPEST} tokens are made by one another")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes;
    use crate::refusal::Kind;
    use crate::rights::Right;
    use crate::store::Sqlite;
    use phalanx_core::SecretKey;
    use tempfile::TempDir;
    use tokio::runtime::Runtime;

    struct Bench {
        _folder: TempDir,
        runtime: Runtime,
        store: Arc<Stored>,
        tokens: Arc<Tokens>,
    }

    type Made = (Zeroizing<String>, Arc<Token>);

    impl Bench {
        fn new() -> Self {
            let folder = TempDir::new().unwrap();
            let store = Arc::new(Stored::new(Sqlite::create(&folder.path().join("db")).unwrap()).unwrap());
            let root = Arc::new(Root::new(&SecretKey::random().unwrap()));
            let limits = Limits { token_bytes_of_one: 5 << 10, ..Limits::default() };
            let tokens = Arc::new(Tokens::new(root, store.clone(), &limits));
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            Self { _folder: folder, runtime, store, tokens }
        }

        fn create(&self, new: NewToken) -> Result<Made, Refusal> {
            self.runtime.block_on(self.tokens.create(&By::Admin, new)).map_err(store::Error::told)
        }

        fn child(&self, parent: &Token) -> Result<Made, Refusal> {
            self.create(NewToken { parent: Some(parent.record.accessor.clone()), ..new("seal:a", 3600) })
        }

        fn renew(&self, token: &Token, ttl: u64) -> Result<(Arc<Token>, u64), Refusal> {
            self.runtime.block_on(self.tokens.renew(&By::Admin, token, Some(ttl))).map_err(store::Error::told)
        }

        fn revoke(&self, token: &Token) -> bool {
            self.runtime.block_on(self.tokens.revoke(&By::Admin, &token.record.accessor)).unwrap()
        }

        /// Reads all tokens again, as a server does when it begins.
        fn load(&self) {
            let read = async {
                let _change = self.tokens.changing().await;
                let records = self.store.run(|store| store.tokens()).await?;
                self.tokens.replace(records)
            };
            self.runtime.block_on(read).unwrap();
        }

        /// Waits until a token has ended.
        fn ends(&self, text: &str) {
            let began = std::time::Instant::now();
            while self.tokens.find(text).is_some() {
                assert!(began.elapsed().as_secs() < 60, "it does not end");
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }

    pub(super) fn new(rights: &str, ttl: u64) -> NewToken {
        let rights = Rights::parse(rights.split(','), None).unwrap();
        NewToken { rights, ttl, renewable: true, parent: None, name: None }
    }

    #[test]
    fn a_revoked_token_neither_lives_again_nor_makes_others() {
        let bench = Bench::new();
        let (text, token) = bench.create(new("seal:a", 3600)).unwrap();
        assert!(bench.renew(&token, 10).is_ok_and(|(_, lease)| lease == 10));
        assert!(bench.revoke(&token) && !bench.revoke(&token));
        assert_eq!(bench.renew(&token, 10).unwrap_err(), Refusal::denied());
        assert_eq!(bench.child(&token).unwrap_err(), Refusal::denied());
        bench.load();
        assert!(bench.tokens.known(&text).is_none() && bench.tokens.all().is_empty());
    }

    #[test]
    fn tokens_that_are_made_while_others_are_revoked_stay() {
        let bench = Bench::new();
        let old: Vec<_> = (0..20).map(|_| bench.create(new("seal:a", 3600)).unwrap()).collect();
        let tasks = old.iter().map(|(_, token)| {
            let (tokens, accessor) = (bench.tokens.clone(), token.record.accessor.clone());
            let revoking = bench.runtime.spawn(async move { tokens.revoke(&By::Admin, &accessor).await.unwrap() });
            let tokens = bench.tokens.clone();
            (
                revoking,
                bench.runtime.spawn(async move { tokens.create(&By::Admin, new("seal:a", 3600)).await.unwrap() }),
            )
        });
        for (revoking, creating) in tasks.collect::<Vec<_>>() {
            assert!(bench.runtime.block_on(revoking).unwrap());
            let (text, _) = bench.runtime.block_on(creating).unwrap();
            assert!(bench.tokens.find(&text).is_some());
        }
        assert!(old.iter().all(|(text, _)| bench.tokens.known(text).is_none()));
    }

    #[test]
    fn a_token_ends_with_the_one_by_which_it_was_made() {
        let bench = Bench::new();
        let (text, parent) = bench.create(new("seal:a", 3600)).unwrap();
        let (child_text, child) = bench.child(&parent).unwrap();
        let (grandchild_text, _) = bench.child(&child).unwrap();
        bench.renew(&parent, 1).unwrap();
        bench.ends(&text);
        assert!(bench.tokens.find(&child_text).is_none() && bench.tokens.find(&grandchild_text).is_none());
        assert!(!bench.tokens.has(&child) && bench.tokens.all().is_empty());
        assert_eq!(bench.renew(&child, 60).unwrap_err(), Refusal::denied());
        assert_eq!(bench.child(&child).unwrap_err(), Refusal::denied());
        // It is known still, and can be revoked with them.
        assert!(bench.tokens.known(&text).is_some() && bench.tokens.by_accessor(&parent.record.accessor).is_some());
        assert!(bench.revoke(&parent));
        assert!(bench.tokens.known(&grandchild_text).is_none());
    }

    #[test]
    fn what_was_given_before_is_not_judged_again() {
        let bench = Bench::new();
        // Today nobody gets such a token.
        let rights = Rights { list: vec![Right::Admin], user: Some(b"ada".to_vec()) };
        let (text, _) = bench.create(NewToken { rights: rights.clone(), ..new("seal:a", 0) }).unwrap();
        *bench.tokens.map.write().unwrap() = Map::default();
        bench.load();
        assert_eq!(*bench.tokens.find(&text).unwrap().rights, rights);
    }

    #[test]
    fn tokens_that_are_made_from_one_have_its_account() {
        let bench = Bench::new();
        let (admin_text, admin) = bench.create(new("admin", 3600)).unwrap();
        let (text, parent) = bench.child(&admin).unwrap();
        let (child_text, child) = bench.child(&parent).unwrap();
        let (grandchild_text, _) = bench.child(&child).unwrap();
        let have_accounts = || {
            let account = |text: &str| bench.tokens.find_caller(text).unwrap().1;
            assert_eq!(*account(&admin_text), format!("token:{}", admin.record.accessor));
            for text in [&text, &child_text, &grandchild_text] {
                assert_eq!(*account(text), format!("token:{}", parent.record.accessor));
            }
        };
        have_accounts();
        bench.renew(&parent, 60).unwrap();
        have_accounts();
        bench.load();
        have_accounts();
        // As a server does that begins with many tokens, which come in any order.
        *bench.tokens.map.write().unwrap() = Map::default();
        bench.load();
        have_accounts();
    }

    #[test]
    fn tokens_that_ended_long_ago_are_deleted() {
        let bench = Bench::new();
        let (text, parent) = bench.create(new("seal:a", 3600)).unwrap();
        let (child, _) = bench.child(&parent).unwrap();
        let (other, _) = bench.create(new("seal:a", 0)).unwrap();
        bench.renew(&parent, 1).unwrap();
        bench.ends(&text);
        let left = || bench.runtime.block_on(bench.store.run(|store| store.tokens())).unwrap().len();
        let next_hour = || {
            *bench.runtime.block_on(bench.tokens.changing()).state = 0;
            bench.create(new("seal:a", 0)).unwrap();
        };
        // The clock may be wrong, at the start of a server and later.
        bench.load();
        next_hour();
        assert!(bench.tokens.known(&text).is_some() && bench.tokens.find(&child).is_none());
        assert_eq!(left(), 4);
        let ended = TokenRecord { expires: Some(now() - KEPT), ..parent.record.clone() };
        assert!(bench.runtime.block_on(bench.store.run(move |store| store.renew_token(&ended))).unwrap());
        next_hour();
        assert!(bench.tokens.known(&text).is_none() && bench.tokens.known(&child).is_none());
        assert!(bench.tokens.find(&other).is_some());
        assert_eq!(left(), 3);
    }

    #[test]
    fn many_tokens_that_have_ended_are_deleted() {
        let bench = Bench::new();
        let (_, parent) = bench.create(new("seal:a", 0)).unwrap();
        let ended = |number: usize| TokenRecord {
            hash: sha3_256(&number.to_le_bytes()),
            accessor: number.to_string(),
            expires: Some(now() - 10),
            ..parent.record.clone()
        };
        let put = |numbers: std::ops::Range<usize>| {
            let records: Vec<_> = numbers.map(ended).collect();
            records.iter().for_each(|record| drop(bench.tokens.put(record.clone()).unwrap()));
            let write =
                move |store: &mut dyn Transaction| records.iter().try_for_each(|record| store.put_token(record));
            bench.runtime.block_on(bench.store.run(write)).unwrap();
        };
        put(0..MOST_ENDED - 1);
        let left = || bench.runtime.block_on(bench.store.run(|store| store.tokens())).unwrap().len();
        bench.create(new("seal:a", 0)).unwrap();
        assert_eq!(left(), MOST_ENDED + 1, "not yet");
        put(MOST_ENDED - 1..MOST_ENDED);
        bench.create(new("seal:a", 0)).unwrap();
        assert_eq!(left(), 3);
    }

    #[test]
    fn the_tokens_of_one_caller_have_a_bound_in_bytes() {
        let bench = Bench::new();
        let rights: Vec<_> = (0..MOST_RIGHTS).map(|number| format!("seal:{number:012}")).collect();
        let (_, admin) = bench.create(new("admin", 3600)).unwrap();
        let (_, parent) = bench.child(&admin).unwrap();
        let child = |parent: &Token| {
            let parent = Some(parent.record.accessor.clone());
            bench.create(NewToken { parent, ..new(&rights.join(","), 3600) })
        };
        let (_, first) = child(&parent).unwrap();
        child(&first).unwrap();
        child(&parent).unwrap();
        for parent in [&parent, &first] {
            assert_eq!(child(parent).unwrap_err().kind, Kind::Busy);
        }
        // A short one finds room still, and so do the tokens of others.
        assert!(bench.child(&parent).is_ok() && child(&bench.child(&admin).unwrap().1).is_ok());
        // All of them are read back.
        bench.load();
        assert_eq!(bench.tokens.all().len(), 8);
    }

    #[test]
    fn a_token_is_revoked_however_many_of_its_renewals_wait() {
        let bench = Bench::new();
        let (_, admin) = bench.create(new("admin", 3600)).unwrap();
        let (parent_text, parent) = bench.child(&admin).unwrap();
        let (child_text, child) = bench.child(&parent).unwrap();
        let account = |text: &str| By::Account(bench.tokens.find_caller(text).unwrap().1);
        let (thief, owner) = (account(&child_text), account(&parent_text));
        for by in [owner, By::Admin] {
            let (_, stolen) = bench.child(&parent).unwrap();
            let renew = || {
                let (tokens, token, thief) = (bench.tokens.clone(), stolen.clone(), thief.clone());
                async move { tokens.renew(&thief, &token, Some(60)).await.map(drop).map_err(store::Error::told) }
            };
            let held = bench.runtime.block_on(bench.tokens.changing());
            let renewals: Vec<_> = (0..changes::MOST).map(|_| bench.runtime.spawn(renew())).collect();
            let waits_for = |count: usize| {
                while bench.tokens.changes.count() < count {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            };
            waits_for(changes::MOST);
            assert_eq!(bench.runtime.block_on(renew()).unwrap_err().kind, Kind::Busy);
            let comes_first = matches!(by, By::Admin);
            let (tokens, accessor) = (bench.tokens.clone(), stolen.record.accessor.clone());
            let mut revoking = bench.runtime.spawn(async move { tokens.revoke(&by, &accessor).await });
            if comes_first {
                // It waits now, or else is refused.
                let moment = std::time::Duration::from_millis(200);
                let early = bench.runtime.block_on(async { tokio::time::timeout(moment, &mut revoking).await });
                assert!(early.is_err(), "{early:?}");
            } else {
                waits_for(changes::MOST + 1);
            }
            drop(held);
            assert!(bench.runtime.block_on(revoking).unwrap().unwrap());
            let ends: Vec<_> = renewals.into_iter().map(|renewal| bench.runtime.block_on(renewal).unwrap()).collect();
            let denied = ends.iter().filter(|end| **end == Err(Refusal::denied())).count();
            // The first one to wait comes before an administrator, and all of them before another caller.
            assert_eq!(denied, if comes_first { changes::MOST - 1 } else { 0 });
            assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), changes::MOST - denied);
            assert_eq!(bench.tokens.changes.count(), 0);
            assert!(bench.tokens.by_accessor(&stolen.record.accessor).is_none());
        }
        assert!(bench.tokens.has(&child));
    }

    #[test]
    fn tokens_have_bounds() {
        let bench = Bench::new();
        let many: Vec<_> = (0..=MOST_RIGHTS).map(|number| format!("seal:{number}")).collect();
        let many = many.join(",");
        let [long, longest] = [LONGEST_NAME + 1, LONGEST_NAME].map(|len| format!("rewrap:{}*", "a".repeat(len)));
        assert!(bench.create(new(&longest, 60)).is_ok());
        for new in [new(&many, 60), new(&long, 60), new("seal:a", LONGEST_TTL + 1), new("seal:a", u64::MAX)] {
            assert_eq!(bench.create(new).unwrap_err().kind, Kind::Invalid);
        }
        assert!(bench.create(new("seal:a", LONGEST_TTL)).is_ok());
        let mut last = bench.create(new("seal:a", 3600)).unwrap().1;
        for _ in 0..DEEPEST {
            last = bench.child(&last).unwrap().1;
            assert!(bench.tokens.has(&last));
        }
        assert_eq!(bench.child(&last).unwrap_err().kind, Kind::Invalid);
        assert!(bench.renew(&last, 10).is_ok_and(|(_, lease)| lease == 10), "the deepest one");
    }
}
