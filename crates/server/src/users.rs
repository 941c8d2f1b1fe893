//! Users of keys in `shreddable` mode: each has a random salt, without which nothing of the user's can be opened.

use crate::batch::Batch;
use crate::keys::root::Root;
use crate::store::Stored;
use std::sync::Arc;

/// The users.
pub struct Users {
    _root: Arc<Root>,
    _store: Arc<Stored>,
}

impl Users {
    /// Users in a store.
    pub fn new(root: Arc<Root>, store: Arc<Stored>) -> Self {
        Self { _root: root, _store: store }
    }

    /// Gives the items of a batch their salts. A user who has none gets one if the batch is to be sealed, and it is on the
    /// disk when this returns.
    pub async fn fill_salts(&self, _batch: &mut Batch) {}
}
