//! The public names of keys.

use std::fmt;

/// The public name of a 32-byte key: 16 bytes, shown as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 16]);

impl KeyId {
    /// Parses 32 hexadecimal digits.
    #[must_use]
    pub fn from_hex(digits: &str) -> Option<Self> {
        let is_hex = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex.then(|| u128::from_str_radix(digits, 16).ok()).flatten().map(|id| Self(id.to_be_bytes()))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_ids_are_read_back() {
        let id = KeyId(std::array::from_fn(|i| (i * 17) as u8));
        assert_eq!(KeyId::from_hex(&id.to_string()), Some(id));
        assert_eq!(KeyId::from_hex(&id.to_string().to_uppercase()), Some(id));
        for wrong in ["", "00", "+0112233445566778899aabbccddeeff", "g0112233445566778899aabbccddeeff"] {
            assert_eq!(KeyId::from_hex(wrong), None, "{wrong}");
        }
        assert_eq!(KeyId::from_hex(&format!("{id}0")), None);
        assert_eq!(format!("{id:?}"), format!("KeyId({id})"));
    }
}
