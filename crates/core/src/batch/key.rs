//! The keys that messages name, and what is derived from them.

use crate::Suite;
use crate::batch::message::Message;
use crate::keys::key::{ContentKeys, SecretKey};
use crate::keys::users::UserKeys;
use phalanx_kernels::keccak;
use std::sync::Arc;
use std::{fmt, ptr};

/// The key of a message.
#[derive(Clone, Copy)]
pub enum KeyOf<'a> {
    /// This key.
    Own(&'a SecretKey),
    /// The key of a user. The batch derives it, which costs less than [`UserKeys::key`].
    User {
        /// What the user's key is derived from.
        keys: &'a UserKeys,
        /// The user, as in [`UserKeys::key`].
        user: &'a [u8],
    },
}

impl KeyOf<'_> {
    /// Whether both are certainly the same: the same place, and the same user. Keys are not compared.
    fn is(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Own(a), Self::Own(b)) => ptr::eq(a, b),
            (Self::User { keys: a, user: of_a }, Self::User { keys: b, user: of_b }) => ptr::eq(a, b) && of_a == of_b,
            _ => false,
        }
    }
}

impl<'a> From<&'a SecretKey> for KeyOf<'a> {
    fn from(key: &'a SecretKey) -> Self {
        Self::Own(key)
    }
}

impl<'a> From<&'a Arc<SecretKey>> for KeyOf<'a> {
    fn from(key: &'a Arc<SecretKey>) -> Self {
        Self::Own(key)
    }
}

impl<'a> From<(&'a UserKeys, &'a [u8])> for KeyOf<'a> {
    fn from((keys, user): (&'a UserKeys, &'a [u8])) -> Self {
        Self::User { keys, user }
    }
}

impl fmt::Debug for KeyOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyOf(…)")
    }
}

/// The keys of the messages, and the number of the key of each message. Consecutive messages with the same key share
/// one.
pub(crate) fn derive<'a>(
    level: keccak::Level,
    suite: Suite,
    messages: &[Message<'a>],
) -> (Vec<usize>, Vec<ContentKeys>) {
    let mut named: Vec<KeyOf<'a>> = Vec::with_capacity(messages.len());
    let which = |message: &Message<'a>| {
        if named.last().is_none_or(|last| !last.is(&message.key)) {
            named.push(message.key);
        }
        named.len() - 1
    };
    let which = messages.iter().map(which).collect();
    let users = named.iter().filter_map(|key| match *key {
        KeyOf::Own(_) => None,
        KeyOf::User { keys, user } => Some((keys, user)),
    });
    // They are wiped when they are dropped.
    let users = UserKeys::each(level, users);
    let mut next = users.iter();
    let keys = named.iter().map(|key| match *key {
        KeyOf::Own(key) => key,
        KeyOf::User { .. } => next.next().expect("each user's key has been derived"),
    });
    (which, ContentKeys::of_messages(level, suite, keys))
}
