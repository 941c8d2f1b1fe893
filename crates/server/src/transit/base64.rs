//! Base64 of texts, in constant time: the standard alphabet with padding.

use super::text::Text;
use crate::refusal::Refusal;
use phalanx_kernels::base64 as kernel;
use zeroize::Zeroizing;

/// The most bytes that this base64 stands for.
pub fn most(text: &str) -> usize {
    text.len().div_ceil(4) * 3
}

/// The bytes that this base64 stands for, if it is well-formed.
pub fn len(text: &str) -> usize {
    most(text) - text.bytes().rev().take(2).filter(|byte| *byte == b'=').count()
}

/// Decodes to the front of a place, and returns the length.
///
/// # Errors
/// If it is no base64.
pub fn decode(text: &str, place: &mut [u8]) -> Result<usize, Refusal> {
    let padding = most(text) - len(text);
    let chars = text.as_bytes().get(..text.len() - padding);
    chars.filter(|_| text.len().is_multiple_of(4)).and_then(|chars| kernel::decode(chars, place)).ok_or_else(illegal)
}

/// Decodes at the end of a buffer, which must have the room.
///
/// # Errors
/// If it is no base64, or longer than `longest` bytes.
pub fn decode_into(text: Text<'_>, out: &mut Zeroizing<Vec<u8>>, longest: usize, what: &str) -> Result<(), Refusal> {
    let text = text.without_lines();
    out.clear();
    if text.is_empty() {
        return Ok(());
    }
    if len(&text) > longest {
        return Err(Refusal::invalid(format!("{what} is longer than {longest} bytes")));
    }
    if out.capacity() < most(&text) {
        // Growing in place would leave a copy that is not wiped.
        *out = Zeroizing::new(Vec::with_capacity(most(&text)));
    }
    out.resize(most(&text), 0);
    let len = decode(&text, out)?;
    out.truncate(len);
    Ok(())
}

/// The length of the base64 of so many bytes.
pub fn encoded(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Appends the base64 of some bytes.
pub fn append(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + encoded(bytes.len()), 0);
    kernel::encode(bytes, &mut out[start..]);
}

/// The refusal of what is no base64.
pub fn illegal() -> Refusal {
    Refusal::invalid("illegal base64 data")
}
