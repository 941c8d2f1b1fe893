//! Bytes in lines of text: what a line cannot have is `%` and two hexadecimal digits.

use phalanx_system::os::ffi::{OsStrExt, OsStringExt};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;

/// Bytes as text. Letters stay what they are.
pub(super) fn escaped(bytes: &OsStr) -> String {
    let mut text = String::new();
    let escape = |text: &mut String, byte: u8| {
        let _ = write!(text, "%{byte:02x}");
    };
    for chunk in bytes.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '%' | '\0'..='\x1f' | '\x7f' => escape(&mut text, c as u8),
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| escape(&mut text, *byte));
    }
    text
}

/// The bytes again.
pub(super) fn unescaped(text: &str) -> Option<OsString> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Some(OsString::from_vec(bytes))
}
