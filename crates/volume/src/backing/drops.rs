//! Changes that were accepted, could not be stored and were dropped: who has been told. As the system does it for its own
//! files: each who has a file open hears of it from their next sync.

use crate::error::{Result, VolumeError};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often changes of a file were dropped.
#[derive(Default)]
pub(super) struct Drops {
    count: u64,
    /// Why, the last time.
    why: Option<Errno>,
    /// Whether somebody has been told of the last time.
    is_told: bool,
}

/// What one of those who have a file open has been told of.
#[derive(Default)]
pub struct Witness(AtomicU64);

impl Drops {
    pub fn add(&mut self, why: Errno) {
        (self.count, self.why, self.is_told) = (self.count + 1, Some(why), false);
    }

    /// Somebody has opened the file. What nobody was told of, they are told.
    pub fn witness(&self) -> Witness {
        Witness(AtomicU64::new(if self.is_told { self.count } else { self.count.saturating_sub(1) }))
    }

    /// What somebody is told who has not been told yet.
    pub fn tell(&self, witness: &Witness) -> Result<()> {
        match self.why {
            Some(why) if witness.0.load(Ordering::Acquire) < self.count => Err(VolumeError::Dropped(why)),
            _ => Ok(()),
        }
    }

    /// They have been told of everything.
    pub fn told(&mut self, witness: &Witness) {
        witness.0.store(self.count, Ordering::Release);
        self.is_told = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once() {
        let mut drops = Drops::default();
        let first = drops.witness();
        drops.tell(&first).unwrap();
        drops.add(Errno::NOSPC);
        let second = drops.witness();
        for witness in [&first, &second] {
            assert!(drops.tell(witness).is_err() && drops.tell(witness).is_err());
            drops.told(witness);
            drops.tell(witness).unwrap();
        }
        drops.tell(&drops.witness()).unwrap();
        drops.add(Errno::IO);
        assert!(matches!(drops.tell(&first), Err(VolumeError::Dropped(Errno::IO))));
    }
}
