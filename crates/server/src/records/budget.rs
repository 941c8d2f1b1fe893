//! What one request may have in memory, as a share of what all requests may have.

use crate::in_flight::{Permit, Share};

/// The most that a request may have in memory. A client may send so much before it reads any answer.
pub const WINDOW: usize = 8 << 20;

/// The share grows by this much at once, if it can.
const STEP: usize = 256 << 10;

/// The share of one request.
pub struct Budget {
    share: Share,
    permit: Option<Permit>,
    used: usize,
}

impl Budget {
    /// No share yet.
    pub fn new(share: Share) -> Self {
        Self { share, permit: None, used: 0 }
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
            permit.give_back(surplus);
        }
    }

    /// Waits until other requests leave room for some more. It does not use it.
    pub async fn more(&mut self, cost: usize) {
        if let Some(permit) = self.share.take(self.lacking(cost)).await {
            self.add(permit);
        }
    }

    /// Whether it is only others who leave no room.
    pub fn is_within(&self, cost: usize) -> bool {
        self.used == 0 || self.used + cost <= WINDOW
    }

    fn held(&self) -> usize {
        self.permit.as_ref().map_or(0, Permit::bytes)
    }

    fn lacking(&self, cost: usize) -> usize {
        (self.used + cost).saturating_sub(self.held())
    }

    fn grow(&mut self, by: usize) -> bool {
        self.share.try_take(by).map(|permit| self.add(permit)).is_some()
    }

    fn add(&mut self, permit: Permit) {
        match &mut self.permit {
            Some(own) => own.merge(permit),
            None => self.permit = Some(permit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::Shares;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    /// Two requests of a caller who may have this in flight.
    fn two(all: &Arc<Semaphore>) -> [Budget; 2] {
        let shares = Shares::new(all.clone(), all.available_permits() * 5);
        [(); 2].map(|()| Budget::new(shares.of("ada")))
    }

    #[test]
    fn a_share_grows_and_shrinks_within_its_bounds() {
        let all = Arc::new(Semaphore::new(WINDOW + STEP));
        let [mut one, mut other] = two(&all);
        assert!(one.take(WINDOW));
        assert!(!one.take(1) && !one.is_within(1));
        assert!(other.take(STEP) && !other.take(1) && other.is_within(1));
        one.give(WINDOW);
        assert!(other.take(1));
        drop((one, other));
        assert_eq!(all.available_permits(), WINDOW + STEP);
    }

    #[test]
    fn the_first_record_may_be_longer_than_the_window() {
        let [mut one, _] = two(&Arc::new(Semaphore::new(4 * WINDOW)));
        assert!(one.take(2 * WINDOW) && !one.take(1));
    }
}
