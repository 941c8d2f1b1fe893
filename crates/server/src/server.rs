//! The server: what all requests share.

use crate::audit::Audit;
use crate::batch::Batch;
use crate::follow::{Follow, LEASE};
use crate::in_flight::Shares;
use crate::keys::root::Root;
use crate::keys::{Config, Key, Keys, NewKey, now};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::rates::Rates;
use crate::refusal::Refusal;
use crate::store::{self, Stored};
use crate::tokens::{NewToken, Token, Tokens};
use crate::users::Users;
use crate::work::Work;
use phalanx_core::{SecretKey, Zeroizing};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// A batch that began in time is sealed within this, for all that matters.
const SEALING: Duration = Duration::from_secs(5);

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
        store.run(|store| store.delete_ended_tokens(now())).await?;
        let server = Self::unread(root, store, work, audit, limits);
        server.refresh().await?;
        Ok(server)
    }

    /// A server that knows no key and no token, for checking a store that may be damaged.
    pub fn unread(root: &SecretKey, store: Arc<Stored>, work: Work, audit: Audit, limits: Limits) -> Self {
        let root = Arc::new(Root::new(root));
        let in_flight = Arc::new(Semaphore::new(limits.in_flight));
        Self {
            keys: Keys::new(root.clone(), store.clone()),
            users: Users::new(root.clone(), store.clone()),
            tokens: Tokens::new(root, store.clone()),
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
    pub async fn create_key(self: &Arc<Self>, name: &str, new: NewKey) -> store::Result<(Arc<Key>, bool)> {
        let (server, name) = (self.clone(), name.to_owned());
        to_the_end(async move { server.keys.create(&name, new).await }).await
    }

    /// Adds a version to a key.
    ///
    /// # Errors
    /// Those of [`Keys::rotate`].
    pub async fn rotate_key(self: &Arc<Self>, name: &str) -> store::Result<Arc<Key>> {
        let (server, name) = (self.clone(), name.to_owned());
        to_the_end(async move { server.keys.rotate(&name).await }).await
    }

    /// Changes what a key allows.
    ///
    /// # Errors
    /// Those of [`Keys::configure`].
    pub async fn configure_key(self: &Arc<Self>, name: &str, config: Config) -> store::Result<Arc<Key>> {
        let (server, name) = (self.clone(), name.to_owned());
        to_the_end(async move { server.keys.configure(&name, config).await }).await
    }

    /// Destroys a key, with its users.
    ///
    /// # Errors
    /// Those of [`Keys::delete`].
    pub async fn delete_key(self: &Arc<Self>, name: &str) -> store::Result<()> {
        let (server, name) = (self.clone(), name.to_owned());
        to_the_end(async move {
            server.keys.delete(&name).await?;
            server.users.forget_all();
            Ok(())
        })
        .await
    }

    /// Destroys old versions of a key.
    ///
    /// Where there are other servers, it waits until none of them can still seal under these versions.
    ///
    /// # Errors
    /// Those of [`Keys::trim`].
    pub async fn trim_key(self: &Arc<Self>, name: &str, min_available: u32) -> store::Result<Arc<Key>> {
        let (server, name) = (self.clone(), name.to_owned());
        to_the_end(async move {
            if server.follow.is_shared() {
                server.refresh().await?;
                server.keys.may_trim(&name, min_available)?;
                tokio::time::sleep(LEASE + SEALING).await;
            }
            server.keys.trim(&name, min_available).await
        })
        .await
    }

    /// The key of this name.
    ///
    /// # Errors
    /// If there is none, or the store cannot say.
    pub async fn find_key(&self, name: &str) -> Result<Arc<Key>, Refusal> {
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
    pub async fn create_token(self: &Arc<Self>, new: NewToken) -> store::Result<(Zeroizing<String>, Arc<Token>)> {
        let server = self.clone();
        to_the_end(async move { server.tokens.create(new).await }).await
    }

    /// Lets a token live on, and says for how long.
    ///
    /// # Errors
    /// Those of [`Tokens::renew`].
    pub async fn renew_token(self: &Arc<Self>, token: &Arc<Token>, ttl: u64) -> store::Result<(Arc<Token>, u64)> {
        let (server, token) = (self.clone(), token.clone());
        to_the_end(async move { server.tokens.renew(&token, Some(ttl)).await }).await
    }

    /// Ends a token, and those that were made by it. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`Tokens::revoke`].
    pub async fn revoke(self: &Arc<Self>, accessor: &str) -> store::Result<bool> {
        let (server, accessor) = (self.clone(), accessor.to_owned());
        to_the_end(async move { server.tokens.revoke(&accessor).await }).await
    }

    /// Seals or opens a batch. What fails becomes the refusal of its items.
    ///
    /// # Errors
    /// If there is too much to do already.
    pub async fn run(&self, mut batch: Batch) -> Result<Batch, Refusal> {
        if self.is_current().is_err() {
            // The store may answer again, or a command without a server has waited for its input.
            self.catch_up().await?;
        }
        if batch.has_newer() {
            let known = self.catch_up().await;
            batch.resolve_newer(|name| known.clone().and_then(|()| self.keys.get(name)));
        }
        self.users.fill_salts(&mut batch).await;
        self.work.run(batch).await
    }

    /// Opens a batch and seals it again under the newest versions.
    ///
    /// # Errors
    /// If there is too much to do already.
    pub async fn rewrap(&self, batch: Batch) -> Result<Batch, Refusal> {
        let opened = self.run(batch).await?;
        // It has its salts already.
        self.work.run(opened.into_sealing()).await
    }
}

/// Does something also if the client goes away meanwhile. Otherwise the store would know of a change, and memory not.
pub async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = store::Result<T>> + Send + 'static,
) -> store::Result<T> {
    let ended = |_| store::Error::Failed("a task has ended".into());
    tokio::spawn(work).await.map_err(ended)?
}
