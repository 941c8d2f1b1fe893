//! Following what other servers change in a store that they share.
//!
//! The store is asked every second whether keys or tokens have changed, and also before a key, a version or a token is
//! refused because nobody knows it. A server that does not reach the store for a while serves no more: a token may have
//! been revoked meanwhile, or a version destroyed. It serves again when it has read what has changed.

use crate::refusal::{Kind, Refusal};
use crate::server::Server;
use crate::store::{self, Stored};
use phalanx_host::lines::complain;
use phalanx_host::lock::lock;
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How often the store is asked.
const EVERY: Duration = Duration::from_secs(1);
/// What is not known makes the store asked not more often than this.
const LEAST: Duration = Duration::from_millis(250);
/// A server that has not heard of the store for longer serves no more.
pub const LEASE: Duration = Duration::from_secs(10);
/// So long after that it does not serve yet although it has heard of it again.
const SETTLING: Duration = Duration::from_secs(1);

/// The time since this machine began. Other clocks stand still while a machine is suspended, and the store goes on.
fn awake_or_not() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// What is known of the store's changes.
pub struct Follow {
    store: Arc<Stored>,
    /// The generation that memory has, if it has one.
    seen: Mutex<Option<u64>>,
    /// When the store was asked for the last time that it answered, by [`awake_or_not`].
    heard: Mutex<Duration>,
    /// When it was asked last because of something that is not known, and what came of it.
    asked: tokio::sync::Mutex<Option<Asked>>,
}

/// A look at the store.
struct Asked {
    began: Instant,
    /// `None` if it was given up before its end.
    outcome: Option<Result<(), Refusal>>,
}

impl Follow {
    /// Nothing is known yet.
    pub fn new(store: Arc<Stored>) -> Self {
        let (heard, asked) = (Mutex::new(awake_or_not()), tokio::sync::Mutex::default());
        Self { store, seen: Mutex::default(), heard, asked }
    }

    /// Whether other servers change the store too.
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// As if the store had not been heard of for too long.
    #[cfg(test)]
    pub fn end_lease(&self) {
        let long_ago = awake_or_not().checked_sub(2 * LEASE).expect("the machine has just been started");
        *lock(&self.heard) = long_ago;
    }
}

impl Server {
    /// Reads keys and tokens again if they have changed.
    ///
    /// # Errors
    /// If the store fails, or a secret in it is damaged or of another root key. Memory then stays as it was.
    pub async fn refresh(&self) -> store::Result<()> {
        let began = self.read_news().await?;
        if self.is_current().is_err() {
            // What was decided by old memory a moment ago is still refused meanwhile.
            sleep(SETTLING).await;
        }
        let mut heard = lock(&self.follow.heard);
        *heard = began.max(*heard);
        Ok(())
    }

    /// Returns when the store was asked. What was waited for before that makes nothing older.
    async fn read_news(&self) -> store::Result<Duration> {
        let follow = &self.follow;
        // What is read here is not older than what this server has changed itself.
        let _keys = self.keys.changing().await;
        let _tokens = self.tokens.changing().await;
        let seen = *lock(&follow.seen);
        let news = follow.store.run_next(move |store| {
            let began = awake_or_not();
            // It is read first: what is read after it is not older.
            let generation = store.generation()?;
            let is_new = Some(generation) != seen;
            let news = if is_new { Some((generation, store.keys()?, store.tokens()?)) } else { None };
            Ok((began, news))
        });
        let (began, news) = news.await?;
        if let Some((generation, keys, tokens)) = news {
            self.keys.replace(keys)?;
            self.tokens.replace(tokens)?;
            *lock(&follow.seen) = Some(generation);
        }
        Ok(began)
    }

    /// Asks the store before something is refused because nobody knows it. Many who ask at the same time are answered by
    /// one look at the store, if it began after they asked.
    ///
    /// # Errors
    /// If the store cannot say.
    pub async fn catch_up(&self) -> Result<(), Refusal> {
        if !self.follow.is_shared() {
            return Ok(());
        }
        let wanted = Instant::now();
        let mut asked = self.follow.asked.lock().await;
        if let Some(last) = &*asked {
            match &last.outcome {
                Some(outcome) if last.began >= wanted => return outcome.clone(),
                _ => sleep_until(last.began + LEAST).await,
            }
        }
        let began = Instant::now();
        // Whoever asks may go away before there is an answer.
        *asked = Some(Asked { began, outcome: None });
        let outcome = self.refresh().await.map_err(told);
        *asked = Some(Asked { began, outcome: Some(outcome.clone()) });
        outcome
    }

    /// Knows what other servers have changed so far: before a decision that rests on it.
    ///
    /// # Errors
    /// If the store cannot say.
    pub async fn be_latest(&self) -> Result<(), Refusal> {
        if !self.follow.is_shared() {
            return Ok(());
        }
        self.refresh().await.map_err(told)
    }

    /// Refuses to serve when what memory has may be too old.
    ///
    /// # Errors
    /// If the store was not heard of for too long.
    pub fn is_current(&self) -> Result<(), Refusal> {
        let is_old = || awake_or_not().saturating_sub(*lock(&self.follow.heard)) > LEASE;
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

/// What clients are told when the changes cannot be read. The name of a damaged key goes to standard error only, because clients may
/// be strangers.
fn told(error: store::Error) -> Refusal {
    match error {
        store::Error::Refused(refusal) if refusal.kind == Kind::Failed => {
            store::Error::Damaged(refusal.text.into()).told()
        }
        error => error.told(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::By;
    use crate::keys::NewKey;
    use crate::server::tests::Bench;
    use phalanx_core::Suite;

    /// Asks twice, before the first of both looks at the store.
    async fn asked_twice(server: &Server) -> [Result<(), Refusal>; 2] {
        let held = server.follow.asked.lock().await;
        let release = async { drop(held) };
        let (first, second, ()) = tokio::join!(biased; server.catch_up(), server.catch_up(), release);
        [first, second]
    }

    #[tokio::test]
    async fn one_look_answers_those_who_asked_before_it() {
        let bench = Bench::new(true).await;
        let transactions = || bench.switches.transactions.load(std::sync::atomic::Ordering::SeqCst);
        let before = transactions();
        assert_eq!(asked_twice(&bench.server).await, [Ok(()), Ok(())]);
        assert_eq!(transactions(), before + 1);
        assert_eq!(bench.server.catch_up().await, Ok(()));
        assert_eq!(transactions(), before + 2, "it may have changed since then");
    }

    #[tokio::test]
    async fn what_a_look_waits_for_makes_it_no_older() {
        let bench = Bench::new(true).await;
        for held_up in [true, false] {
            let mut held = Some(bench.server.tokens.changing().await);
            if !held_up {
                bench.switches.hangs.store(true, std::sync::atomic::Ordering::SeqCst);
                let store = bench.store.clone();
                drop(tokio::spawn(async move { store.run(|_| Ok(())).await }));
                drop(held.take());
            }
            let server = bench.server.clone();
            let looking = tokio::spawn(async move { server.refresh().await });
            sleep(Duration::from_millis(300)).await;
            assert!(!looking.is_finished());
            let before = awake_or_not();
            drop(held);
            bench.switches.hangs.store(false, std::sync::atomic::Ordering::SeqCst);
            looking.await.unwrap().unwrap();
            assert!(*lock(&bench.server.follow.heard) >= before, "{held_up}");
        }
    }

    #[tokio::test]
    async fn nobody_is_told_which_key_is_damaged() {
        let bench = Bench::new(true).await;
        let new = NewKey { suite: Suite::default(), shreddable: false, needs_user: false };
        bench.server.create_key(&By::Admin, "orders", new).await.unwrap();
        let damage = bench.store.run(|store| {
            let mut key = store.key("orders")?.unwrap();
            key.mac[0] ^= 1;
            store.put_key(&key)
        });
        damage.await.unwrap();
        let asked = [
            bench.server.find_token("phx.nobody").await.map(drop),
            bench.server.find_key("nothing").await.map(drop),
            bench.server.be_latest().await,
        ];
        assert_eq!(asked, [(); 3].map(|()| Err(Refusal::failed("the store failed"))));
    }

    #[tokio::test]
    async fn a_look_that_fails_answers_nobody_that_all_is_known() {
        let bench = Bench::new(true).await;
        bench.switches.is_away.store(true, std::sync::atomic::Ordering::SeqCst);
        for outcome in asked_twice(&bench.server).await {
            assert_eq!(outcome.map_err(|refusal| refusal.kind), Err(Kind::Unavailable));
        }
        bench.switches.is_away.store(false, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(asked_twice(&bench.server).await, [Ok(()), Ok(())]);
    }
}
