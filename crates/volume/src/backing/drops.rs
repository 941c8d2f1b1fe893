//! Changes that were accepted but could not be stored and were dropped, and to whom that was reported. As the system
//! does for its own files, the next sync reports it to everyone who has the file open, and to those who open it later
//! if no sync has reported it yet.

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

/// What has been reported to one of the users who have a file open.
///
/// A close reports once what was dropped since the file was opened. A sync reports it again, because an error of a
/// close may go unnoticed: a new process closes inherited files without looking at the result.
pub struct Witness {
    by_close: AtomicU64,
    by_sync: AtomicU64,
}

impl Drops {
    /// The drops of a file that is opened again. `why` is the reason if changes were dropped that no sync has reported.
    pub fn found(why: Option<Errno>) -> Self {
        Self { count: u64::from(why.is_some()), why, is_told: false }
    }

    pub fn add(&mut self, why: Errno) {
        (self.count, self.why, self.is_told) = (self.count + 1, Some(why), false);
    }

    /// Whether something was dropped that no sync has reported yet.
    pub fn is_untold(&self) -> bool {
        self.why.is_some() && !self.is_told
    }

    /// The witness of a user who opens the file now. A sync reports the last drop to them too, if no sync has reported
    /// it yet.
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
    fn a_drop_is_reported_once_by_a_close_and_once_by_a_sync() {
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
    fn an_unreported_drop_is_reported_after_the_file_is_opened_again() {
        let mut drops = Drops::found(Some(Errno::NOSPC));
        let witness = drops.witness();
        drops.tell_by_close(&witness).unwrap();
        drops.tell_by_sync(&witness).unwrap_err();
        drops.tell_by_sync(&drops.witness()).unwrap();
        let mut none = Drops::found(None);
        none.tell_by_sync(&none.witness()).unwrap();
    }
}
