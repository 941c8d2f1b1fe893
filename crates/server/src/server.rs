//! The server: what all requests share.

use crate::audit::Audit;
use crate::batch::Batch;
use crate::in_flight::Shares;
use crate::keys::root::Root;
use crate::keys::{Key, Keys};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::store::{self, Stored};
use crate::tokens::Tokens;
use crate::users::Users;
use crate::work::Work;
use phalanx_core::SecretKey;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What all requests share.
pub struct Server {
    /// The keys.
    pub keys: Keys,
    /// The users of keys in `shreddable` mode.
    pub users: Users,
    /// The tokens.
    pub tokens: Tokens,
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
    /// How many of them each caller may have.
    pub shares: Shares,
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
        let root = Arc::new(Root::new(root));
        let in_flight = Arc::new(Semaphore::new(limits.in_flight));
        let server = Self {
            keys: Keys::new(root.clone(), store.clone()),
            users: Users::new(root, store.clone()),
            tokens: Tokens::new(store),
            work,
            audit,
            shares: Shares::new(in_flight.clone(), limits.in_flight),
            in_flight,
            limits,
            metrics: Metrics::default(),
            creates_keys: false,
        };
        server.keys.load().await?;
        server.tokens.load().await?;
        Ok(server)
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
    /// # Errors
    /// Those of [`Keys::trim`].
    pub async fn trim_key(self: &Arc<Self>, name: &str, min_available: u32) -> store::Result<Arc<Key>> {
        let (server, name) = (self.clone(), name.to_owned());
        to_the_end(async move { server.keys.trim(&name, min_available).await }).await
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
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = store::Result<T>> + Send + 'static,
) -> store::Result<T> {
    let ended = |_| store::Error::Failed("a task has ended".into());
    tokio::spawn(work).await.map_err(ended)?
}
