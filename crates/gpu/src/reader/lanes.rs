//! The lanes of a reader: how many there are, and which of them no read is using.

use crate::device::{Buffer, Pinned};
use crate::error::Result;
use crate::resident::Resident;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A stream, the stored bytes of a window in the host's memory, and its plaintext on the device.
pub struct Lane {
    pub resident: Resident,
    pub sealed: Pinned,
    pub plain: Buffer,
}

impl Lane {
    /// Waits for all its work, and wipes the plaintext.
    pub fn clear(&mut self) -> Result<()> {
        let stream = self.resident.stream();
        stream.zero(&self.plain, self.plain.len())?;
        stream.finish()
    }
}

/// All lanes of a reader, at most so many. Those that no read is using keep their memory, because pinning takes long.
pub struct Lanes {
    most: usize,
    state: Mutex<State>,
    /// One more is idle, or may be made.
    free: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Lane>,
    /// How many there are, also those that reads are using.
    count: usize,
}

impl Lanes {
    pub fn new(most: usize) -> Self {
        Self { most, state: Mutex::default(), free: Condvar::new() }
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// A lane with room for `len` bytes of plaintext. If reads are using all, this waits for one, or gives `None`.
    pub fn take(&self, len: usize, waits: bool, make: impl Fn() -> Result<Lane>) -> Result<Option<Taken<'_>>> {
        let mut state = self.state();
        loop {
            if let Some(fitting) = state.idle.iter().position(|lane| lane.plain.len() >= len) {
                let lane = state.idle.swap_remove(fitting);
                return Ok(Some(Taken { lanes: self, lane: Some(lane), is_clean: false }));
            }
            if state.count < self.most || !state.idle.is_empty() {
                break;
            }
            if !waits {
                return Ok(None);
            }
            state = self.free.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // If there are as many as there may be, a longer one takes the place of one that is too short.
        let short = if state.count < self.most { None } else { state.idle.pop() };
        state.count += usize::from(short.is_none());
        drop(state);
        let mut taken = Taken { lanes: self, lane: None, is_clean: false };
        drop(short);
        taken.lane = Some(make()?);
        Ok(Some(taken))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane that a read is using. It is kept for the next read only if it was cleared.
pub struct Taken<'l> {
    lanes: &'l Lanes,
    /// `None` until it is made.
    lane: Option<Lane>,
    is_clean: bool,
}

impl Taken<'_> {
    pub fn lane(&mut self) -> &mut Lane {
        self.lane.as_mut().expect("it was made")
    }

    /// Gives it back for the next read.
    pub fn give_back(mut self) -> Result<()> {
        self.lane().clear()?;
        self.is_clean = true;
        Ok(())
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Freeing takes long, so it is done before the lock is taken.
        let lane = self.lane.take().filter(|_| self.is_clean);
        let mut state = self.lanes.state();
        match lane {
            Some(lane) => state.idle.push(lane),
            None => state.count -= 1,
        }
        drop(state);
        self.lanes.free.notify_one();
    }
}
