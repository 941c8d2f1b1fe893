//! What may be in flight at the same time: of all callers together, and of one of them.

use crate::refusal::{Kind, Refusal};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The share of the callers who have something in flight.
pub struct Shares {
    all: Arc<Semaphore>,
    most: usize,
    callers: Mutex<HashMap<String, Weak<Own>>>,
}

/// What a caller has.
struct Own {
    /// A permit for each byte.
    bytes: Arc<Semaphore>,
    /// Whose turn it is to have a large body.
    large: Arc<Semaphore>,
}

impl Shares {
    /// Shares of so many bytes, of which there is a permit each.
    pub fn new(all: Arc<Semaphore>, bytes: usize) -> Self {
        Self { all, most: share(bytes), callers: Mutex::default() }
    }

    /// The share of a caller: two fifths of the whole, so that no caller can take everything from the others.
    pub fn of(&self, caller: &str) -> Share {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = callers.get(caller).and_then(Weak::upgrade) {
            return Share { all: self.all.clone(), own, most: self.most };
        }
        if callers.len() >= 64 && callers.len().is_power_of_two() {
            callers.retain(|_, own| own.strong_count() > 0);
        }
        let own = Own { bytes: Arc::new(Semaphore::new(self.most)), large: Arc::new(Semaphore::new(1)) };
        let own = Arc::new(own);
        callers.insert(caller.to_owned(), Arc::downgrade(&own));
        Share { all: self.all.clone(), own, most: self.most }
    }
}

/// The share of a caller, of so many bytes in flight. By default it is what the longest body in JSON takes, with the batch
/// and the answer.
pub fn share(bytes: usize) -> usize {
    (bytes / 5).saturating_mul(2).max(1)
}

/// The refusal if others leave no room.
pub fn busy() -> Refusal {
    Refusal::new(Kind::Busy, "too many bytes are in flight")
}

/// What one caller may have in flight.
#[derive(Clone)]
pub struct Share {
    all: Arc<Semaphore>,
    own: Arc<Own>,
    most: usize,
}

impl Share {
    /// The most bytes that the caller may ever have in flight.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Takes so many bytes, if they are free.
    pub fn try_take(&self, bytes: usize) -> Option<Permit> {
        let many = u32::try_from(bytes).unwrap_or(u32::MAX);
        let own = self.own.bytes.clone().try_acquire_many_owned(many).ok()?;
        let all = self.all.clone().try_acquire_many_owned(many).ok()?;
        Some(Permit { all, own })
    }

    /// Takes so many bytes, or as many as are free.
    pub fn take_some(&self, bytes: u64) -> Option<Permit> {
        let free = self.own.bytes.available_permits().min(self.all.available_permits()) as u64;
        let some = usize::try_from(bytes.min(free)).ok().filter(|some| *some > 0)?;
        self.try_take(some)
    }

    /// Waits until so many bytes are free, and takes them.
    pub async fn take(&self, bytes: usize) -> Option<Permit> {
        let many = u32::try_from(bytes).unwrap_or(u32::MAX);
        let own = self.own.bytes.clone().acquire_many_owned(many).await.ok()?;
        let all = self.all.clone().acquire_many_owned(many).await.ok()?;
        Some(Permit { all, own })
    }

    /// Waits for the turn of a body that takes a large part of the share. The caller has one such body at a time: of two
    /// that have half of what they need, neither would go on.
    pub async fn turn(&self) -> Option<Turn> {
        self.own.large.clone().acquire_owned().await.ok().map(Turn)
    }
}

/// Bytes that are in flight for as long as this exists.
#[derive(Debug)]
pub struct Permit {
    all: OwnedSemaphorePermit,
    own: OwnedSemaphorePermit,
}

/// The turn of a large body, for as long as this exists.
pub struct Turn(#[allow(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Permit {
    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.all.num_permits()
    }

    /// Adds those of another permit of the same share.
    pub fn merge(&mut self, other: Self) {
        self.all.merge(other.all);
        self.own.merge(other.own);
    }

    /// Gives some of them back.
    pub fn give_back(&mut self, bytes: usize) {
        drop((self.all.split(bytes), self.own.split(bytes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_leaves_some_for_others() {
        let all = Arc::new(Semaphore::new(100));
        let shares = Shares::new(all.clone(), 100);
        let ada = shares.of("token:ada");
        let mut held = ada.try_take(30).unwrap();
        assert!(shares.of("token:ada").try_take(11).is_none(), "the same caller");
        held.merge(shares.of("token:ada").take_some(1000).unwrap());
        assert_eq!((held.bytes(), all.available_permits()), (40, 60));
        let others: Vec<Permit> =
            ["bob", "eve"].map(|name| shares.of(name).take_some(1000)).into_iter().flatten().collect();
        assert_eq!((others.len(), all.available_permits()), (2, 0));
        held.give_back(15);
        assert_eq!(all.available_permits(), 15);
        drop((held, others));
        assert_eq!(all.available_permits(), 100);
        for i in 0..1000 {
            shares.of(&i.to_string());
        }
        assert!(shares.callers.lock().unwrap().len() <= 64, "those with nothing in flight are forgotten");
    }
}
