//! The server: what all requests share.

use crate::audit::Audit;
use crate::batch::Batch;
use crate::keys::Keys;
use crate::keys::root::Root;
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
        let server = Self {
            keys: Keys::new(root.clone(), store.clone()),
            users: Users::new(root, store.clone()),
            tokens: Tokens::new(store),
            work,
            audit,
            in_flight: Arc::new(Semaphore::new(limits.in_flight)),
            limits,
            metrics: Metrics::default(),
            creates_keys: false,
        };
        server.keys.load().await?;
        server.tokens.load().await?;
        Ok(server)
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
