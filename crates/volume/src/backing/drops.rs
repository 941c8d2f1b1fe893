//! Changes that were accepted, could not be stored and were dropped: who knows of it. As the system does it for its own
//! files, each who has a file open hears of it from their next sync, and whoever opens it later if nobody has heard of it yet.

use crate::error::{Result, VolumeError};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often changes of a file were dropped.
#[derive(Default)]
pub(super) struct Drops {
    count: u64,
    /// Why, the last time.
    why: Option<Errno>,
    /// Whether a sync has reported the last time.
    is_told: bool,
}

/// What has been reported to one of those who have a file open.
///
/// A close tells what was dropped since the file was opened, once. That does not count for a sync: a process that is started
/// closes what it has inherited, and nobody hears what that says.
pub struct Witness {
    by_close: AtomicU64,
    by_sync: AtomicU64,
}

impl Drops {
    /// Those of a file that is opened again: `why` if changes were dropped that no sync has reported.
    pub fn found(why: Option<Errno>) -> Self {
        Self { count: u64::from(why.is_some()), why, is_told: false }
    }

    pub fn add(&mut self, why: Errno) {
        (self.count, self.why, self.is_told) = (self.count + 1, Some(why), false);
    }

    /// Somebody has opened the file. Their sync tells them also of the last drop if nobody has heard of it yet.
    pub fn witness(&self) -> Witness {
        let heard = if self.is_told { self.count } else { self.count.saturating_sub(1) };
        Witness { by_close: AtomicU64::new(self.count), by_sync: AtomicU64::new(heard) }
    }

    pub fn tell_by_close(&self, witness: &Witness) -> Result<()> {
        self.tell(&witness.by_close)
    }

    pub fn tell_by_sync(&mut self, witness: &Witness) -> Result<()> {
        self.is_told = true;
        self.tell(&witness.by_sync)
    }

    fn tell(&self, heard: &AtomicU64) -> Result<()> {
        match self.why {
            Some(why) if heard.swap(self.count, Ordering::AcqRel) < self.count => Err(VolumeError::Dropped(why)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_by_a_close_and_once_by_a_sync() {
        let mut drops = Drops::default();
        let first = drops.witness();
        drops.tell_by_sync(&first).unwrap();
        drops.add(Errno::NOSPC);
        let second = drops.witness();
        drops.tell_by_close(&first).unwrap_err();
        drops.tell_by_close(&first).unwrap();
        drops.tell_by_close(&second).unwrap();
        for witness in [&first, &second] {
            drops.tell_by_sync(witness).unwrap_err();
            drops.tell_by_sync(witness).unwrap();
        }
        let third = drops.witness();
        drops.tell_by_sync(&third).unwrap();
        drops.add(Errno::IO);
        assert!(matches!(drops.tell_by_sync(&first), Err(VolumeError::Dropped(Errno::IO))));
    }

    #[test]
    fn what_no_sync_has_told_is_told_to_who_opens_the_file_again() {
        let mut drops = Drops::found(Some(Errno::NOSPC));
        let witness = drops.witness();
        drops.tell_by_close(&witness).unwrap();
        drops.tell_by_sync(&witness).unwrap_err();
        drops.tell_by_sync(&drops.witness()).unwrap();
        let mut none = Drops::found(None);
        none.tell_by_sync(&none.witness()).unwrap();
    }
}
