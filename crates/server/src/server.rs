//! The server: what all requests share.

use crate::audit::Audit;
use crate::batch::Batch;
use crate::changes::By;
use crate::follow::{Follow, LEASE};
use crate::in_flight::Shares;
use crate::keys::root::Root;
use crate::keys::{Config, Key, Keys, NewKey};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::rates::Rates;
use crate::refusal::{Kind, Refusal};
use crate::store::{self, Stored};
use crate::tokens::{NewToken, Token, Tokens};
use crate::users::Users;
use crate::work::Work;
use phalanx_core::engine::Op;
use phalanx_core::{SecretKey, Zeroizing};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// So long after it was sealed a batch is answered, for all that matters.
const ANSWERING: Duration = Duration::from_secs(5);

/// What all requests share.
pub struct Server {
    /// The keys.
    pub keys: Keys,
    /// The users of keys in `shreddable` mode.
    pub users: Users,
    /// The tokens.
    pub tokens: Tokens,
    /// What other servers change.
    pub follow: Follow,
    /// The workers.
    pub work: Work,
    /// The audit log.
    pub audit: Audit,
    /// The bounds.
    pub limits: Limits,
    /// What is counted.
    pub metrics: Metrics,
    /// A permit for each byte that may be in flight.
    pub in_flight: Arc<Semaphore>,
    /// Its folder.
    pub folder: PathBuf,
    /// How many of them each caller may have.
    pub shares: Shares,
    /// How fast each caller may ask.
    pub rates: Rates,
    /// Whether encrypting with a key that does not exist makes it.
    pub creates_keys: bool,
}

impl Server {
    /// Opens what the store has.
    ///
    /// # Errors
    /// If the store fails, or what is in it is damaged or of another root key.
    pub async fn open(
        root: &SecretKey,
        store: Arc<Stored>,
        work: Work,
        audit: Audit,
        limits: Limits,
    ) -> store::Result<Self> {
        let server = Self::unread(root, store, work, audit, limits);
        server.refresh().await?;
        Ok(server)
    }

    /// A server that knows no key and no token, for checking a store that may be damaged.
    pub fn unread(root: &SecretKey, store: Arc<Stored>, work: Work, audit: Audit, limits: Limits) -> Self {
        let root = Arc::new(Root::new(root));
        let in_flight = Arc::new(Semaphore::new(limits.in_flight));
        Self {
            keys: Keys::new(root.clone(), store.clone(), &limits),
            users: Users::new(root.clone(), store.clone()),
            tokens: Tokens::new(root, store.clone(), &limits),
            follow: Follow::new(store),
            work,
            audit,
            shares: Shares::new(in_flight.clone(), limits.in_flight),
            in_flight,
            rates: Rates::new(limits.requests_a_second),
            limits,
            metrics: Metrics::default(),
            folder: PathBuf::new(),
            creates_keys: false,
        }
    }

    /// Makes a key. If there is one of this name, it stays as it is; the second result says whether it is new.
    ///
    /// # Errors
    /// Those of [`Keys::create`].
    pub async fn create_key(self: &Arc<Self>, by: &By, name: &str, new: NewKey) -> store::Result<(Arc<Key>, bool)> {
        let (server, by, name) = (self.clone(), by.clone(), name.to_owned());
        to_the_end(self.is_current(), async move { server.keys.create(&by, &name, new).await }).await
    }

    /// Adds a version to a key.
    ///
    /// # Errors
    /// Those of [`Keys::rotate`].
    pub async fn rotate_key(self: &Arc<Self>, by: &By, name: &str) -> store::Result<Arc<Key>> {
        let (server, by, name) = (self.clone(), by.clone(), name.to_owned());
        to_the_end(self.is_current(), async move { server.keys.rotate(&by, &name).await }).await
    }

    /// Changes what a key allows.
    ///
    /// # Errors
    /// Those of [`Keys::configure`].
    pub async fn configure_key(self: &Arc<Self>, by: &By, name: &str, config: Config) -> store::Result<Arc<Key>> {
        let (server, by, name) = (self.clone(), by.clone(), name.to_owned());
        to_the_end(self.is_current(), async move { server.keys.configure(&by, &name, config).await }).await
    }

    /// Destroys a key, with its users.
    ///
    /// Where there are other servers, it then waits until all of them know that. One that does not would still seal, and if
    /// the name is given to another key, nobody would notice that this opens nowhere. It also waits after an error that
    /// leaves open whether the key is gone, and where there is no such key: an earlier call may have deleted it a moment
    /// ago, and have failed after that.
    ///
    /// # Errors
    /// Those of [`Keys::delete`] and [`Keys::scrub`], and if there is no such key.
    pub async fn delete_key(self: &Arc<Self>, by: &By, name: &str) -> store::Result<()> {
        let (server, by, name) = (self.clone(), by.clone(), name.to_owned());
        to_the_end(self.is_current(), async move {
            let deleted = match server.keys.delete(&by, &name).await {
                // Nothing has changed.
                Err(store::Error::Refused(refusal)) => return Err(refusal.into()),
                // Also if there is no such key: an earlier call may have failed here.
                Ok(was_there) => server.keys.scrub().await.map(|()| was_there),
                Err(error) => Err(error),
            };
            server.users.forget_all();
            if server.follow.is_shared() {
                tokio::time::sleep(LEASE + ANSWERING).await;
            }
            let not_found = || Refusal::invalid("could not delete key; not found").into();
            if deleted? { Ok(()) } else { Err(not_found()) }
        })
        .await
    }

    /// Destroys old versions of a key.
    ///
    /// Where there are other servers, it waits until none of them can still seal under these versions: the memory of some
    /// may be as old as it may be.
    ///
    /// # Errors
    /// Those of [`Keys::trim`].
    pub async fn trim_key(self: &Arc<Self>, by: &By, name: &str, min_available: u32) -> store::Result<Arc<Key>> {
        let (server, by, name) = (self.clone(), by.clone(), name.to_owned());
        to_the_end(self.is_current(), async move {
            if server.follow.is_shared() {
                server.refresh().await?;
                server.keys.may_trim(&name, min_available)?;
                tokio::time::sleep(LEASE + ANSWERING).await;
            }
            server.keys.trim(&by, &name, min_available).await
        })
        .await
    }

    /// The key of this name.
    ///
    /// # Errors
    /// If there is none, or the store cannot say.
    pub async fn find_key(&self, name: &str) -> Result<Arc<Key>, Refusal> {
        // It is asked first: what is found then is not too old.
        self.is_current()?;
        if let Ok(key) = self.keys.get(name) {
            return Ok(key);
        }
        self.catch_up().await?;
        self.keys.get(name)
    }

    /// The token of this text, if it exists and has not ended.
    ///
    /// # Errors
    /// If the store cannot say.
    pub async fn find_token(&self, text: &str) -> Result<Option<Arc<Token>>, Refusal> {
        self.is_current()?;
        if let Some(token) = self.tokens.find(text) {
            return Ok(Some(token));
        }
        self.catch_up().await?;
        Ok(self.tokens.find(text))
    }

    /// Makes a token, and returns its text.
    ///
    /// # Errors
    /// Those of [`Tokens::create`].
    pub async fn create_token(
        self: &Arc<Self>,
        by: &By,
        new: NewToken,
    ) -> store::Result<(Zeroizing<String>, Arc<Token>)> {
        let (server, by) = (self.clone(), by.clone());
        to_the_end(self.is_current(), async move { server.tokens.create(&by, new).await }).await
    }

    /// Lets a token live on, and says for how long.
    ///
    /// # Errors
    /// Those of [`Tokens::renew`].
    pub async fn renew_token(
        self: &Arc<Self>,
        by: &By,
        token: &Arc<Token>,
        ttl: u64,
    ) -> store::Result<(Arc<Token>, u64)> {
        let (server, by, token) = (self.clone(), by.clone(), token.clone());
        to_the_end(self.is_current(), async move { server.tokens.renew(&by, &token, Some(ttl)).await }).await
    }

    /// Ends a token, and those that were made by it. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`Tokens::revoke`].
    pub async fn revoke(self: &Arc<Self>, by: &By, accessor: &str) -> store::Result<bool> {
        let (server, by, accessor) = (self.clone(), by.clone(), accessor.to_owned());
        to_the_end(self.is_current(), async move { server.tokens.revoke(&by, &accessor).await }).await
    }

    /// Seals or opens a batch. What fails becomes the refusal of its items.
    ///
    /// # Errors
    /// If there is too much to do already, or the store cannot be reached.
    pub async fn run(&self, batch: Batch) -> Result<Batch, Refusal> {
        self.in_time(self.work_on(batch)).await
    }

    /// Opens a batch and seals it again under the newest versions.
    ///
    /// # Errors
    /// Those of [`Server::run`].
    pub async fn rewrap(&self, batch: Batch) -> Result<Batch, Refusal> {
        let rewrap = async {
            let opened = self.work_on(batch).await?;
            // It has its salts already.
            self.work.run(opened.into_sealing()).await
        };
        self.in_time(rewrap).await
    }

    /// Does work on a batch, and refuses what was sealed under versions that may seal no longer: the batch has taken its
    /// keys some time ago.
    async fn in_time(&self, work: impl Future<Output = Result<Batch, Refusal>>) -> Result<Batch, Refusal> {
        self.is_current()?;
        let mut done = work.await?;
        // Before the look at the keys, so that what is found then is not too old.
        self.is_current()?;
        if done.op() == Op::Seal {
            let may_seal = |key: &Key, version| {
                let now = self.keys.get(&key.record.name).ok().filter(|now| now.record.id == key.record.id);
                now.is_some_and(|now| now.to_seal(Some(version)).is_ok())
            };
            // Most items have the key and version of the one before.
            let (mut last, mut is_outdated) = (None, false);
            let mut outdated = Vec::new();
            for (item, key, version) in done.versions() {
                if last.replace((Arc::as_ptr(key), version)) != Some((Arc::as_ptr(key), version)) {
                    is_outdated = !may_seal(key, version);
                }
                if is_outdated {
                    outdated.push(item);
                }
            }
            let changed = || Refusal::new(Kind::Unavailable, "the key was changed meanwhile");
            outdated.into_iter().for_each(|item| done.fail(item, changed()));
        }
        Ok(done)
    }

    async fn work_on(&self, mut batch: Batch) -> Result<Batch, Refusal> {
        if batch.has_newer() {
            let known = self.catch_up().await;
            batch.resolve_newer(|name| known.clone().and_then(|()| self.keys.get(name)));
        }
        self.users.fill_salts(&mut batch).await;
        self.work.run(batch).await
    }
}

/// Does something if the server may serve now, also if the client goes away meanwhile. Otherwise the store would know of a
/// change, and memory not.
async fn to_the_end<T: Send + 'static>(
    may: Result<(), Refusal>,
    work: impl Future<Output = store::Result<T>> + Send + 'static,
) -> store::Result<T> {
    may?;
    let ended = |_| store::Error::Failed("a task has ended".into());
    tokio::spawn(work).await.map_err(ended)?
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::batch::New;
    use crate::changes;
    use crate::rights::Rights;
    use crate::store::{Copies, Error, Sqlite, Store, Transaction};
    use phalanx_core::Suite;
    use phalanx_core::engine::Op;
    use phalanx_host::args::{EngineArgs, EngineName};
    use phalanx_host::engines::Engines;
    use phalanx_host::verbosity::Verbosity;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use tempfile::TempDir;

    /// What a store does beside its work.
    #[derive(Default)]
    pub struct Switches {
        pub is_shared: bool,
        /// Whether it cannot be reached.
        pub is_away: AtomicBool,
        /// Whether it answers nothing for a while.
        pub hangs: AtomicBool,
        /// Whether the connection breaks when the next transaction has been committed.
        pub breaks: AtomicBool,
        /// Whether it cannot be scrubbed.
        pub is_stained: AtomicBool,
        /// How many transactions it was asked for.
        pub transactions: AtomicUsize,
        pub scrubs: AtomicUsize,
    }

    struct Odd(Sqlite, Arc<Switches>);

    impl Store for Odd {
        fn is_shared(&self) -> bool {
            self.1.is_shared
        }

        fn transaction(
            &mut self,
            work: &mut dyn FnMut(&mut dyn Transaction) -> store::Result<()>,
        ) -> store::Result<()> {
            self.1.transactions.fetch_add(1, SeqCst);
            while self.1.hangs.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            if self.1.is_away.load(SeqCst) {
                return Err(Error::Unavailable("it is away".into()));
            }
            self.0.transaction(work)?;
            match self.1.breaks.swap(false, SeqCst) {
                true => Err(Error::Unavailable("the connection broke".into())),
                false => Ok(()),
            }
        }

        fn scrub(&mut self) -> store::Result<()> {
            self.1.scrubs.fetch_add(1, SeqCst);
            if self.1.is_stained.load(SeqCst) { Err(Error::Failed("it is stained".into())) } else { self.0.scrub() }
        }

        fn copy(&mut self, to: &Copies) -> store::Result<()> {
            self.0.copy(to)
        }

        fn damage(&mut self) -> store::Result<Vec<String>> {
            self.0.damage()
        }
    }

    async fn open(root: &SecretKey, store: &Arc<Stored>, limits: Limits) -> Arc<Server> {
        let args = EngineArgs { engine: EngineName::Cpu, threads: None, paranoid: false };
        let engines = Engines::new(&args, Verbosity::default()).unwrap_or_else(|_| panic!("no engines"));
        let work = Work::new(engines).unwrap();
        Arc::new(Server::open(root, store.clone(), work, Audit::default(), limits).await.unwrap())
    }

    /// A server without sockets.
    pub struct Bench {
        _folder: TempDir,
        root: SecretKey,
        pub switches: Arc<Switches>,
        pub store: Arc<Stored>,
        pub server: Arc<Server>,
    }

    impl Bench {
        /// One whose store is for itself, or one whose store other servers could change too.
        pub async fn new(is_shared: bool) -> Self {
            let folder = TempDir::new().unwrap();
            let switches = Arc::new(Switches { is_shared, ..Switches::default() });
            let store = Odd(Sqlite::create(&folder.path().join("db")).unwrap(), switches.clone());
            let store = Arc::new(Stored::new(store).unwrap());
            let root = SecretKey::random().unwrap();
            let server = open(&root, &store, Limits::default()).await;
            Self { _folder: folder, root, switches, store, server }
        }

        /// Begins again with the same store.
        async fn reopen(&mut self, limits: Limits) {
            self.server = open(&self.root, &self.store, limits).await;
        }

        async fn key(&self, shreddable: bool) -> Arc<Key> {
            let new = NewKey { suite: Suite::default(), shreddable, needs_user: shreddable };
            self.server.create_key(&By::Admin, "orders", new).await.unwrap().0
        }
    }

    fn text(key: &Arc<Key>) -> Batch {
        let mut batch = Batch::new(Op::Seal, 256);
        batch.to_seal(New { key, user: b"ada", ad: b"", most: 1 }, None, |place| {
            place[0] = b'a';
            Ok(1)
        });
        batch
    }

    #[tokio::test]
    async fn keys_and_versions_have_bounds() {
        let mut bench = Bench::new(false).await;
        let limits = Limits { versions: 5, versions_of_one: 3, ..Limits::default() };
        bench.reopen(limits.clone()).await;
        let new = NewKey { suite: Suite::default(), shreddable: false, needs_user: false };
        let kind = |error: Error| error.told().kind;
        bench.key(false).await;
        bench.server.rotate_key(&By::Admin, "orders").await.unwrap();
        bench.server.rotate_key(&By::Admin, "orders").await.unwrap();
        assert_eq!(kind(bench.server.rotate_key(&By::Admin, "orders").await.map(drop).unwrap_err()), Kind::Invalid);
        for name in ["a", "b"] {
            bench.server.create_key(&By::Admin, name, new).await.unwrap();
        }
        assert_eq!(kind(bench.server.create_key(&By::Admin, "c", new).await.map(drop).unwrap_err()), Kind::Busy);
        assert_eq!(kind(bench.server.rotate_key(&By::Admin, "a").await.map(drop).unwrap_err()), Kind::Busy);
        // One that exists stays as it is.
        assert!(bench.server.create_key(&By::Admin, "a", new).await.is_ok_and(|(_, is_new)| !is_new));
        // A server that begins has all of them, also where its own bounds are narrower.
        bench.reopen(Limits { versions: 1, versions_of_one: 1, ..limits.clone() }).await;
        assert_eq!(bench.server.keys.all().len(), 3);
        assert_eq!(bench.server.keys.get("orders").unwrap().latest(), 3);
        // What was destroyed makes room.
        bench.reopen(limits).await;
        let config = Config { min_decryption: Some(3), min_encryption: Some(3), ..Config::default() };
        bench.server.configure_key(&By::Admin, "orders", config).await.unwrap();
        bench.server.trim_key(&By::Admin, "orders", 3).await.unwrap();
        bench.server.rotate_key(&By::Admin, "orders").await.unwrap();
    }

    #[tokio::test]
    async fn a_look_at_the_store_waits_for_one_change_of_others_at_most() {
        let bench = Bench::new(true).await;
        bench.key(false).await;
        let configure = |account: &str| {
            let (server, by) = (bench.server.clone(), By::Account(account.into()));
            let change = async move { server.configure_key(&by, "orders", Config::default()).await.map(drop) };
            tokio::spawn(change)
        };
        let (keys, tokens) = (bench.server.keys.changing().await, bench.server.tokens.changing().await);
        let accounts = ["a", "b", "c"];
        let changes: Vec<_> = (0..3 * changes::MOST).map(|number| configure(accounts[number % 3])).collect();
        while bench.server.keys.changes.count() < 3 * changes::MOST {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for account in accounts {
            let refused = configure(account).await.unwrap().unwrap_err().told();
            assert_eq!(refused.kind, Kind::Busy);
        }
        let looking = tokio::spawn({
            let server = bench.server.clone();
            async move { server.refresh().await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let transactions = || bench.switches.transactions.load(SeqCst);
        let before = transactions();
        drop(keys);
        // The look has the turn of keys then, and waits for that of tokens.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(transactions(), before + 1);
        drop(tokens);
        looking.await.unwrap().unwrap();
        for change in changes {
            change.await.unwrap().unwrap();
        }
        assert_eq!(bench.server.keys.changes.count(), 0);
    }

    #[tokio::test]
    async fn a_server_that_begins_deletes_no_token() {
        let mut bench = Bench::new(false).await;
        let (text, token) = bench.server.create_token(&By::Admin, NewToken { ttl: 1, ..admin() }).await.unwrap();
        while bench.server.tokens.has(&token) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bench.reopen(Limits::default()).await;
        // It is known, and opens nothing.
        assert!(bench.server.tokens.known(&text).is_some() && bench.server.tokens.find(&text).is_none());
        assert_eq!(bench.store.run(|store| store.tokens()).await.unwrap().len(), 1);
    }

    pub fn admin() -> NewToken {
        let rights = Rights::parse(["admin"], None).unwrap();
        NewToken { rights, ttl: 0, renewable: false, parent: None, name: None }
    }

    #[tokio::test]
    async fn what_began_with_old_memory_does_not_go_on_when_the_store_is_back() {
        let bench = Bench::new(true).await;
        let server = &bench.server;
        let key = bench.key(false).await;
        let (token, known) = server.create_token(&By::Admin, admin()).await.unwrap();
        assert!(server.run(text(&key)).await.is_ok_and(|batch| batch.refused() == 0));
        server.follow.end_lease();
        // The store answers, but keys and rights were taken from memory before.
        let is_away = |refusal: Refusal| assert_eq!(refusal.kind, Kind::Unavailable);
        is_away(server.run(text(&key)).await.map(drop).unwrap_err());
        is_away(server.rewrap(text(&key)).await.map(drop).unwrap_err());
        is_away(server.find_key("orders").await.map(drop).unwrap_err());
        is_away(server.find_token(&token).await.map(drop).unwrap_err());
        is_away(server.create_token(&By::Admin, admin()).await.map(drop).unwrap_err().told());
        is_away(server.renew_token(&By::Admin, &known, 1).await.map(drop).unwrap_err().told());
        is_away(server.revoke(&By::Admin, &known.record.accessor).await.map(drop).unwrap_err().told());
        is_away(server.rotate_key(&By::Admin, "orders").await.map(drop).unwrap_err().told());
        is_away(server.delete_key(&By::Admin, "orders").await.unwrap_err().told());
        // Another server changes something meanwhile, which is known before anything else is served.
        let accessor = known.record.accessor.clone();
        bench.store.run(move |store| store.delete_token(&accessor)).await.unwrap();
        assert!(server.tokens.find(&token).is_some());
        server.refresh().await.unwrap();
        assert!(server.find_token(&token).await.unwrap().is_none());
        assert!(server.run(text(&key)).await.is_ok_and(|batch| batch.refused() == 0));
    }

    #[tokio::test]
    async fn a_key_is_deleted_for_good_by_a_second_try() {
        let bench = Bench::new(false).await;
        let (server, switches) = (&bench.server, &bench.switches);
        let key = bench.key(true).await;
        let allowed = Config { min_decryption: None, min_encryption: None, deletion_allowed: Some(true) };
        server.configure_key(&By::Admin, "orders", allowed).await.unwrap();
        assert!(server.run(text(&key)).await.is_ok_and(|batch| batch.refused() == 0));
        assert!(server.users.remembers_somebody());
        switches.is_stained.store(true, SeqCst);
        assert!(matches!(server.delete_key(&By::Admin, "orders").await, Err(Error::Failed(_))));
        assert!(!server.users.remembers_somebody());
        switches.is_stained.store(false, SeqCst);
        let before = switches.scrubs.load(SeqCst);
        assert!(matches!(server.delete_key(&By::Admin, "orders").await, Err(Error::Refused(_))));
        assert_eq!(switches.scrubs.load(SeqCst), before + 1);
    }

    #[tokio::test]
    async fn trimming_waits_for_those_who_use_the_versions() {
        let bench = Bench::new(false).await;
        let server = bench.server.clone();
        let key = bench.key(false).await;
        let batch = text(&key);
        drop(key);
        server.rotate_key(&By::Admin, "orders").await.unwrap();
        let config = Config { min_decryption: Some(2), min_encryption: Some(2), deletion_allowed: None };
        server.configure_key(&By::Admin, "orders", config).await.unwrap();
        let trimming = server.clone();
        let trimmed = tokio::spawn(async move { trimming.trim_key(&By::Admin, "orders", 2).await.map(drop) });
        while server.keys.get("orders").unwrap().record.min_available < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // If it does not wait, it is over long before that.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let is_over = trimmed.is_finished();
        drop(batch);
        assert!(!is_over);
        trimmed.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_key_is_deleted_when_all_servers_know_it() {
        for is_shared in [false, true] {
            let bench = Bench::new(is_shared).await;
            bench.key(false).await;
            let config = Config { deletion_allowed: Some(true), ..Config::default() };
            bench.server.configure_key(&By::Admin, "orders", config).await.unwrap();
            let begun = std::time::Instant::now();
            bench.server.delete_key(&By::Admin, "orders").await.unwrap();
            assert_eq!(begun.elapsed() >= LEASE + ANSWERING, is_shared);
            assert!(bench.server.keys.get("orders").is_err());
        }
    }

    #[tokio::test]
    async fn a_deletion_whose_answer_was_lost_waits_and_so_does_its_second_try() {
        let bench = Bench::new(true).await;
        bench.key(false).await;
        let config = Config { deletion_allowed: Some(true), ..Config::default() };
        bench.server.configure_key(&By::Admin, "orders", config).await.unwrap();
        let delete = || {
            let server = bench.server.clone();
            tokio::spawn(async move {
                let begun = std::time::Instant::now();
                let deleted = server.delete_key(&By::Admin, "orders").await;
                (deleted, begun.elapsed() >= LEASE + ANSWERING)
            })
        };
        bench.switches.breaks.store(true, SeqCst);
        let first = delete();
        while bench.switches.breaks.load(SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let second = delete();
        assert!(matches!(first.await.unwrap(), (Err(Error::Unavailable(_)), true)));
        assert!(matches!(second.await.unwrap(), (Err(Error::Refused(_)), true)));
    }

    #[tokio::test]
    async fn what_is_sealed_under_a_version_that_may_not_seal_is_not_given_out() {
        for is_shared in [false, true] {
            let bench = Bench::new(is_shared).await;
            let server = &bench.server;
            let key = bench.key(false).await;
            let [kept, batch] = [text(&key), text(&key)];
            server.rotate_key(&By::Admin, "orders").await.unwrap();
            assert!(server.run(kept).await.is_ok_and(|batch| batch.refused() == 0), "the old version may seal");
            let config = Config { min_decryption: Some(2), min_encryption: Some(2), deletion_allowed: None };
            server.configure_key(&By::Admin, "orders", config).await.unwrap();
            let done = server.run(batch).await.unwrap();
            assert_eq!(done.refusal(0).map(|refusal| refusal.kind), Some(Kind::Unavailable));
        }
    }
}
