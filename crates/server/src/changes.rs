//! The order in which keys, and tokens, are changed: one after another.
//!
//! Of several servers, each must hear of the store in time, and what it hears waits for these changes too. So a look at
//! the store, and what administrators change, come before what all others change: of that, one at a time waits for its
//! turn. How many changes of one account may wait is bounded as well.

use crate::refusal::{Kind, Refusal};
use phalanx_host::lock::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::MutexGuard;

/// The most changes of one account that wait or are under way.
pub const MOST: usize = 32;

/// By whom something is changed.
#[derive(Clone, Debug)]
pub enum By {
    /// By an administrator, whose changes come first and are not counted.
    Admin,
    /// By somebody whose changes are counted with others of this account.
    Account(Arc<str>),
}

impl By {
    /// The same for a revocation. These are counted apart, because whoever has stolen a token could fill the other count,
    /// which is also that of the token by which it was made.
    pub fn to_revoke(&self) -> Self {
        match self {
            Self::Admin => Self::Admin,
            Self::Account(account) => Self::Account(format!("{account}, revoking").into()),
        }
    }
}

/// The changes of something, and what only whoever has the turn may see.
#[derive(Default)]
pub struct Changes<T> {
    /// Held from before a change of the store until memory has it too. Otherwise a task that is slower than the one after
    /// it would leave in memory what is no more. Whoever holds it must not be cancelled: see [`crate::server`].
    turn: tokio::sync::Mutex<T>,
    /// Held before that, and as long, by all but those who come first.
    others: tokio::sync::Mutex<()>,
    /// How many wait or are under way, by account.
    counts: Mutex<HashMap<Arc<str>, usize>>,
}

/// The turn of a change, for as long as this exists.
pub struct Turn<'a, T> {
    /// What only whoever has the turn may see.
    pub state: MutexGuard<'a, T>,
    _others: Option<MutexGuard<'a, ()>>,
    _place: Option<Place<'a>>,
}

impl<T> Changes<T> {
    /// Waits for a turn before all changes but those of administrators.
    pub async fn first(&self) -> Turn<'_, T> {
        Turn { state: self.turn.lock().await, _others: None, _place: None }
    }

    /// Waits for the turn of somebody's change.
    ///
    /// # Errors
    /// If too many of this account wait already.
    pub async fn turn(&self, by: &By) -> Result<Turn<'_, T>, Refusal> {
        let By::Account(account) = by else { return Ok(self.first().await) };
        let place = self.place(account)?;
        let others = self.others.lock().await;
        Ok(Turn { _others: Some(others), _place: Some(place), ..self.first().await })
    }

    fn place(&self, account: &Arc<str>) -> Result<Place<'_>, Refusal> {
        let mut counts = lock(&self.counts);
        let count = counts.entry(account.clone()).or_default();
        if *count >= MOST {
            return Err(Refusal::new(Kind::Busy, "too many changes wait"));
        }
        *count += 1;
        Ok(Place { counts: &self.counts, account: account.clone() })
    }

    /// How many changes are counted.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        lock(&self.counts).values().sum()
    }
}

/// A change that is counted, for as long as this exists.
struct Place<'a> {
    counts: &'a Mutex<HashMap<Arc<str>, usize>>,
    account: Arc<str>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut counts = lock(self.counts);
        if let Some(count) = counts.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets a change wait, and notes its name when it has its turn.
    fn wait(
        changes: &Arc<Changes<Vec<&'static str>>>,
        by: Option<By>,
        name: &'static str,
    ) -> tokio::task::JoinHandle<()> {
        let changes = changes.clone();
        tokio::spawn(async move {
            let mut turn = match by {
                Some(by) => changes.turn(&by).await.unwrap(),
                None => changes.first().await,
            };
            turn.state.push(name);
        })
    }

    #[tokio::test]
    async fn what_comes_first_waits_for_one_change_of_others_at_most() {
        let changes = Arc::new(Changes::default());
        let mut held = Some(changes.first().await);
        let mut waiting = Vec::new();
        let account = |name: &str| Some(By::Account(name.into()));
        for (by, name) in [
            (account("a"), "one"),
            (account("a"), "two"),
            (account("b"), "three"),
            (Some(By::Admin), "administrator"),
            (None, "look"),
        ] {
            waiting.push(wait(&changes, by, name));
            tokio::task::yield_now().await;
        }
        assert_eq!(changes.count(), 3);
        drop(held.take());
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*changes.first().await.state, ["one", "administrator", "look", "two", "three"]);
        assert_eq!(changes.count(), 0);
    }

    #[tokio::test]
    async fn the_changes_of_one_account_that_wait_have_a_bound() {
        let changes = Arc::new(Changes::default());
        let held = changes.first().await;
        let by = By::Account("a".into());
        let waiting: Vec<_> = (0..MOST).map(|_| wait(&changes, Some(by.clone()), "a")).collect();
        while changes.count() < MOST {
            tokio::task::yield_now().await;
        }
        assert_eq!(changes.turn(&by).await.map(drop).unwrap_err().kind, Kind::Busy);
        // Revocations, and what others change, wait still.
        let others = [by.to_revoke(), By::Account("b".into()), By::Admin];
        let others: Vec<_> = others.into_iter().map(|by| wait(&changes, Some(by), "other")).collect();
        while changes.count() < MOST + 2 {
            tokio::task::yield_now().await;
        }
        drop(held);
        for task in waiting.into_iter().chain(others) {
            task.await.unwrap();
        }
        assert_eq!((changes.first().await.state.len(), changes.count()), (MOST + 3, 0));
    }
}
