//! The key of a message that waits for its batch.

use crate::batch::key::KeyOf;
use crate::keys::key::SecretKey;
use crate::keys::users::UserKeys;
use std::fmt;
use std::sync::Arc;

/// The key of a submitted message.
#[derive(Clone)]
pub enum MessageKey {
    /// This key.
    Own(Arc<SecretKey>),
    /// The key of a user, which the batch derives: see [`UserKeys::key`].
    User(Arc<UserKeys>, Box<[u8]>),
}

impl MessageKey {
    pub(super) fn as_ref(&self) -> KeyOf<'_> {
        match self {
            Self::Own(key) => KeyOf::Own(key),
            Self::User(keys, user) => KeyOf::User { keys, user },
        }
    }

    /// The bytes that it takes in the queue, beyond those of any message.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Own(_) => 0,
            Self::User(_, user) => user.len(),
        }
    }
}

impl From<&Arc<SecretKey>> for MessageKey {
    fn from(key: &Arc<SecretKey>) -> Self {
        Self::Own(key.clone())
    }
}

impl From<Arc<SecretKey>> for MessageKey {
    fn from(key: Arc<SecretKey>) -> Self {
        Self::Own(key)
    }
}

impl From<(&Arc<UserKeys>, &[u8])> for MessageKey {
    fn from((keys, user): (&Arc<UserKeys>, &[u8])) -> Self {
        Self::User(keys.clone(), user.into())
    }
}

impl fmt::Debug for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageKey(…)")
    }
}
