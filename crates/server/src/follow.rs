//! Following what other servers change in a store that they share.
//!
//! The store is asked every second whether keys or tokens have changed, and also before a key, a version or a token is
//! refused because nobody knows it. A server that does not reach the store for a while serves no more: a token may have
//! been revoked meanwhile, or a version destroyed.

use crate::refusal::{Kind, Refusal};
use crate::server::Server;
use crate::store::{self, Stored};
use phalanx_host::lines::complain;
use phalanx_host::lock::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How often the store is asked.
const EVERY: Duration = Duration::from_secs(1);
/// What is not known makes the store asked not more often than this.
const LEAST: Duration = Duration::from_millis(250);
/// A server that has not heard of the store for longer serves no more.
pub const LEASE: Duration = Duration::from_secs(10);

/// What is known of the store's changes.
pub struct Follow {
    store: Arc<Stored>,
    /// The generation that memory has.
    seen: AtomicU64,
    /// When the store was asked for the last time that it answered.
    heard: Mutex<Instant>,
    /// When it was asked last because of something that is not known.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

impl Follow {
    /// Nothing is known yet.
    pub fn new(store: Arc<Stored>) -> Self {
        let (heard, asked) = (Mutex::new(Instant::now()), tokio::sync::Mutex::default());
        Self { store, seen: AtomicU64::new(0), heard, asked }
    }

    /// Whether other servers change the store too.
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }
}

impl Server {
    /// Reads keys and tokens again if they have changed.
    ///
    /// # Errors
    /// If the store fails, or a secret in it is damaged or of another root key. Memory then stays as it was.
    pub async fn refresh(&self) -> store::Result<()> {
        let (follow, began) = (&self.follow, Instant::now());
        // What is read here is not older than what this server has changed itself.
        let _keys = self.keys.changing().await;
        let _tokens = self.tokens.changing().await;
        let seen = follow.seen.load(Ordering::SeqCst);
        let news = follow.store.run(move |store| {
            // It is read first: what is read after it is not older.
            let generation = store.generation()?;
            if generation == seen { Ok(None) } else { Ok(Some((generation, store.keys()?, store.tokens()?))) }
        });
        if let Some((generation, keys, tokens)) = news.await? {
            self.keys.replace(keys)?;
            self.tokens.replace(tokens)?;
            follow.seen.fetch_max(generation, Ordering::SeqCst);
        }
        let mut heard = lock(&follow.heard);
        *heard = began.max(*heard);
        Ok(())
    }

    /// Asks the store before something is refused because nobody knows it. Many who ask at the same time are answered by
    /// one look at the store.
    ///
    /// # Errors
    /// If the store cannot say.
    pub async fn catch_up(&self) -> Result<(), Refusal> {
        if !self.follow.is_shared() {
            return Ok(());
        }
        let wanted = Instant::now();
        let mut asked = self.follow.asked.lock().await;
        if asked.is_some_and(|last| last > wanted) {
            return self.is_current();
        }
        if let Some(last) = *asked {
            sleep_until(last + LEAST).await;
        }
        *asked = Some(Instant::now());
        self.refresh().await.map_err(store::Error::told)
    }

    /// Knows what other servers have changed so far: before a decision that rests on it.
    ///
    /// # Errors
    /// If the store cannot say.
    pub async fn be_latest(&self) -> Result<(), Refusal> {
        if !self.follow.is_shared() {
            return Ok(());
        }
        self.refresh().await.map_err(store::Error::told)
    }

    /// Refuses to serve when what memory has may be too old.
    ///
    /// # Errors
    /// If the store was not heard of for too long.
    pub fn is_current(&self) -> Result<(), Refusal> {
        let is_old = || lock(&self.follow.heard).elapsed() > LEASE;
        if self.follow.is_shared() && is_old() {
            return Err(Refusal::new(Kind::Unavailable, "the store cannot be reached"));
        }
        Ok(())
    }

    /// Follows the store's changes for ever.
    pub async fn follow(self: Arc<Self>) {
        let mut last = String::new();
        loop {
            sleep(EVERY).await;
            let why = match self.refresh().await {
                // The store says that itself.
                Ok(()) | Err(store::Error::Unavailable(_)) => String::new(),
                Err(error) => error.to_string(),
            };
            if !why.is_empty() && why != last {
                complain(format!("warning: what other servers have changed cannot be read: {why}"));
            }
            last = why;
        }
    }
}
