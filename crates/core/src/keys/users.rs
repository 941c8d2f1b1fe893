//! Keys of users that are derived from one secret.

use crate::keys::key::SecretKey;
use crate::secret::wiped;
use phalanx_kernels::keccak::{self, Kmac256};
use std::fmt;

/// A secret from which the keys of any number of users are derived, so that a service stores no key for each:
///
/// ```text
/// key of a user = KMAC256(root, user, 256, label)
/// ```
///
/// A batch derives the keys of its messages side by side: see [`KeyOf`](crate::batch::KeyOf). Whoever has the root can
/// open the messages of all users; a user's key says nothing about those of others. It is wiped on drop.
///
/// ```
/// use phalanx_core::{SecretKey, UserKeys};
/// # fn main() -> phalanx_core::Result<()> {
/// let keys = UserKeys::new(&SecretKey::random()?, b"example.org addresses");
/// assert!(keys.key(b"ada").matches(&keys.key(b"ada")));
/// assert!(!keys.key(b"ada").matches(&keys.key(b"grace")));
/// # Ok(())
/// # }
/// ```
// The state never moves, because that would leave copies. It is as secret as the root, which can be computed from it.
pub struct UserKeys(Box<Kmac256>);

impl UserKeys {
    /// The keys that are derived from a root under a label. The label says what the keys are for. Keys under different
    /// labels are independent.
    ///
    /// It must not be a label of the format: these begin with `phalanx v1`, and some of what is derived under them is
    /// public.
    ///
    /// # Panics
    /// If the label is longer than 122 bytes.
    #[must_use]
    pub fn new(root: &SecretKey, label: &[u8]) -> Self {
        wiped(|| Self(Box::new(Kmac256::new(root.expose(), label))))
    }

    /// The key of a user. Any bytes name one, and they are not secret.
    #[must_use]
    pub fn key(&self, user: &[u8]) -> SecretKey {
        let mut key = SecretKey([0; 32]);
        wiped(|| key.0 = self.0.tag(user));
        key
    }

    /// The keys of many users, derived side by side.
    pub(crate) fn each<'a>(
        level: keccak::Level,
        users: impl Iterator<Item = (&'a Self, &'a [u8])> + Clone,
    ) -> Vec<SecretKey> {
        // It does not grow, because that would leave keys in freed memory.
        let mut keys = vec![SecretKey([0; 32]); users.clone().count()];
        if !keys.is_empty() {
            let inputs = users.map(|(of, user)| (&*of.0, user));
            keccak::kmac256_each(level, inputs, |i, key: &[u8; 32]| keys[i].0.copy_from_slice(key));
        }
        keys
    }
}

impl fmt::Debug for UserKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserKeys(…)")
    }
}
