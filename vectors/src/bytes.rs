//! Bytes in hexadecimal.

use serde::Deserialize;
use std::ops::Deref;

/// Bytes that a file has in lowercase hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Hex(Vec<u8>);

impl Hex {
    /// The bytes, of which there must be `N`.
    pub fn array<const N: usize>(&self) -> [u8; N] {
        self.0[..].try_into().unwrap_or_else(|_| panic!("{} bytes instead of {N}", self.0.len()))
    }
}

impl Deref for Hex {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digit = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let (pairs, odd) = text.as_bytes().as_chunks();
        let byte = |&[high, low]: &[u8; 2]| Some((digit(high)? << 4) | digit(low)?);
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        bytes.filter(|_| odd.is_empty()).map(Self).ok_or_else(|| format!("not lowercase hexadecimal: {text}"))
    }
}

/// The bytes that a text in lowercase hexadecimal stands for.
pub fn unhex(text: &str) -> Vec<u8> {
    Hex::try_from(text.to_owned()).unwrap().0
}

/// Bytes as lowercase hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `len` bytes, of which byte i is (from + i) mod 251.
pub(crate) fn painted(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i % 251) as u8).collect()
}
