//! Points of X25519 (RFC 7748).

use x25519_dalek::{PublicKey, StaticSecret};

/// Whether a point is not of low order: everybody knows the secrets that one of low order makes (RFC 7748, section 6.1).
pub fn is_useful(point: [u8; 32]) -> bool {
    StaticSecret::from([1; 32]).diffie_hellman(&PublicKey::from(point)).was_contributory()
}
