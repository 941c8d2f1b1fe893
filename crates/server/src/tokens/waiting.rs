//! Changes of tokens come one after another. How many of one account may wait for their turn is bounded: of several
//! servers, each must hear of the store in time, and what it hears waits for these changes too.

use crate::refusal::{Kind, Refusal};
use phalanx_host::lock::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The most changes of one account that wait or are under way.
pub(super) const MOST: usize = 32;

/// How many there are, by account.
#[derive(Default)]
pub(super) struct Waiting(Mutex<HashMap<Arc<str>, usize>>);

/// One of them, for as long as this exists.
pub(super) struct Place<'a> {
    all: &'a Waiting,
    /// `None` counts nowhere.
    account: Option<Arc<str>>,
}

impl Waiting {
    /// Takes a place. What is of no account takes none.
    ///
    /// # Errors
    /// If the account has none left.
    pub fn enter(&self, account: Option<Arc<str>>) -> Result<Place<'_>, Refusal> {
        if let Some(account) = &account {
            let mut all = lock(&self.0);
            let count = all.entry(account.clone()).or_default();
            if *count >= MOST {
                return Err(Refusal::new(Kind::Busy, "too many changes of tokens wait"));
            }
            *count += 1;
        }
        Ok(Place { all: self, account })
    }

    /// How many places are taken.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        lock(&self.0).values().sum()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(account) = &self.account else { return };
        let mut all = lock(&self.all.0);
        if let Some(count) = all.get_mut(account) {
            *count -= 1;
            if *count == 0 {
                all.remove(account);
            }
        }
    }
}
