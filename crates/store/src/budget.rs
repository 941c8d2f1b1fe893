//! The memory that all objects of a process share for what is fetched early.

use phalanx_host::lock::lock;
use std::sync::{Arc, Mutex, Weak};

/// Who has taken memory, and can be asked for it.
pub trait Holder: Send + Sync {
    /// Gives back what has not been used for a while. It does not wait.
    fn give_back(&self);
}

/// The bytes that are taken.
static TAKEN: Mutex<u64> = Mutex::new(0);
static HOLDERS: Mutex<Vec<Weak<dyn Holder>>> = Mutex::new(Vec::new());

/// Enters a holder. It leaves when it is dropped.
pub fn enter(holder: &Arc<impl Holder + 'static>) {
    let holder: Weak<dyn Holder> = Arc::downgrade(holder) as Weak<dyn Holder>;
    let mut holders = lock(&HOLDERS);
    holders.retain(|holder| holder.strong_count() > 0);
    holders.push(holder);
}

/// A share of the memory. It is free again when this is dropped.
#[derive(Debug)]
pub struct Share(u64);

impl Share {
    /// Takes a share, if no more than `limit` bytes are then taken in all. Others may have to give something back first.
    pub fn take(bytes: u64, limit: u64) -> Option<Self> {
        Self::try_take(bytes, limit).or_else(|| {
            let holders: Vec<_> = lock(&HOLDERS).iter().filter_map(Weak::upgrade).collect();
            holders.iter().for_each(|holder| holder.give_back());
            Self::try_take(bytes, limit)
        })
    }

    fn try_take(bytes: u64, limit: u64) -> Option<Self> {
        let mut taken = lock(&TAKEN);
        let sum = taken.checked_add(bytes).filter(|sum| *sum <= limit)?;
        *taken = sum;
        Some(Self(bytes))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *lock(&TAKEN) -= self.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Keeps(Mutex<Option<Share>>);

    impl Holder for Keeps {
        fn give_back(&self) {
            lock(&self.0).take();
        }
    }

    #[test]
    fn a_share_is_given_back_to_who_needs_it() {
        // Other tests of this process take nothing.
        let first = Arc::new(Keeps(Mutex::new(Share::take(60, 100))));
        assert!(Share::take(60, 100).is_none(), "nobody gives anything back");
        enter(&first);
        let second = Share::take(60, 100);
        assert!(second.is_some() && lock(&first.0).is_none());
        assert!(Share::take(41, 100).is_none() && Share::take(u64::MAX, u64::MAX).is_none());
        drop(second);
        assert!(Share::take(100, 100).is_some());
    }
}
