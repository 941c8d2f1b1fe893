//! What one request may have in memory, as a share of what all requests may have.

use crate::refusal::{Kind, Refusal};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most that a request may have in memory. A client may send so much before it reads any answer.
pub const WINDOW: usize = 8 << 20;

/// The share grows by this much at once, if it can.
const STEP: usize = 256 << 10;

/// The share of one request.
pub struct Budget {
    in_flight: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    used: usize,
}

impl Budget {
    /// No share yet.
    pub fn new(in_flight: Arc<Semaphore>) -> Self {
        Self { in_flight, permit: None, used: 0 }
    }

    /// Whether nothing is used.
    pub fn is_unused(&self) -> bool {
        self.used == 0
    }

    /// Uses some more, if there is room.
    pub fn take(&mut self, cost: usize) -> bool {
        if !self.is_within(cost) {
            return false;
        }
        let lacking = self.lacking(cost);
        if lacking > 0 && !self.grow(lacking.max(STEP)) && !self.grow(lacking) {
            return false;
        }
        self.used += cost;
        true
    }

    /// Gives back what was used, and the share itself but for a step.
    pub fn give(&mut self, cost: usize) {
        self.used -= cost;
        let surplus = self.held().saturating_sub(self.used + STEP);
        if let Some(permit) = &mut self.permit {
            drop(permit.split(surplus));
        }
    }

    /// Waits until other requests leave room for some more. It does not use it.
    pub async fn more(&mut self, cost: usize) {
        let lacking = u32::try_from(self.lacking(cost)).unwrap_or(u32::MAX);
        if let Ok(permit) = self.in_flight.clone().acquire_many_owned(lacking).await {
            self.add(permit);
        }
    }

    /// Whether it is only others who leave no room.
    pub fn is_within(&self, cost: usize) -> bool {
        self.used == 0 || self.used + cost <= WINDOW
    }

    fn held(&self) -> usize {
        self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    fn lacking(&self, cost: usize) -> usize {
        (self.used + cost).saturating_sub(self.held())
    }

    fn grow(&mut self, by: usize) -> bool {
        let many = u32::try_from(by).unwrap_or(u32::MAX);
        let permit = self.in_flight.clone().try_acquire_many_owned(many);
        permit.map(|permit| self.add(permit)).is_ok()
    }

    fn add(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.permit {
            Some(own) => own.merge(permit),
            None => self.permit = Some(permit),
        }
    }
}

/// The refusal if others leave no room.
pub fn busy() -> Refusal {
    Refusal::new(Kind::Busy, "too many bytes are in flight")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_grows_and_shrinks_within_its_bounds() {
        let all = Arc::new(Semaphore::new(WINDOW + STEP));
        let mut one = Budget::new(all.clone());
        assert!(one.take(WINDOW));
        assert!(!one.take(1) && !one.is_within(1));
        let mut other = Budget::new(all.clone());
        assert!(other.take(STEP) && !other.take(1) && other.is_within(1));
        one.give(WINDOW);
        assert!(other.take(1));
        drop((one, other));
        assert_eq!(all.available_permits(), WINDOW + STEP);
    }

    #[test]
    fn the_first_record_may_be_longer_than_the_window() {
        let mut one = Budget::new(Arc::new(Semaphore::new(4 * WINDOW)));
        assert!(one.take(2 * WINDOW) && !one.take(1));
    }
}
