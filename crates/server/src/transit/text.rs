//! JSON values as they stand in a body, and the texts of JSON strings. Texts may be secret: no copy of them is left behind.

use serde_json::value::RawValue;
use std::ops::Deref;
use zeroize::Zeroizing;

/// A value of JSON, as its text. A parser has found it well-formed.
#[derive(Clone, Copy, Debug)]
pub enum Raw<'a> {
    /// A string, between its quotes, with its escapes.
    String(&'a str),
    /// The literal of a number.
    Number(&'a str),
    /// True or false.
    Bool(bool),
    /// Nothing.
    Null,
    /// An array, with its brackets.
    Array(&'a str),
    /// An object, with its braces.
    Object(&'a str),
}

impl<'a> Raw<'a> {
    /// The value of this text.
    pub fn of(text: &'a str) -> Self {
        match text.as_bytes().first() {
            Some(b'"') => Self::String(text.get(1..text.len() - 1).unwrap_or("")),
            Some(b'[') => Self::Array(text),
            Some(b'{') => Self::Object(text),
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number(text),
        }
    }

    /// The text, if it is a string.
    pub fn string(self) -> Option<Text<'a>> {
        let Self::String(inner) = self else { return None };
        Some(if inner.as_bytes().contains(&b'\\') { Text::Unescaped(unescape(inner)) } else { Text::Plain(inner) })
    }

    /// The elements, if it is an array.
    pub fn elements(self) -> Option<Vec<Raw<'a>>> {
        let Self::Array(text) = self else { return None };
        let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        Some(elements.into_iter().map(|value| Raw::of(value.get())).collect())
    }

    /// What Go calls its type.
    pub fn go_type(self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Number(_) => "json.Number",
            Self::Bool(_) => "bool",
            Self::Null => "nil",
            Self::Array(_) => "[]interface {}",
            Self::Object(_) => "map[string]interface {}",
        }
    }
}

/// The text of a JSON string.
pub enum Text<'a> {
    /// It had no escapes, and stands in the body.
    Plain(&'a str),
    /// It had some, and is wiped on drop.
    Unescaped(Zeroizing<String>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Unescaped(text) => text,
        }
    }
}

impl Text<'_> {
    /// Without ends of lines, which base64 may have anywhere. Only a string with escapes can have any.
    pub fn without_lines(self) -> Self {
        match self {
            Self::Unescaped(mut text) if text.contains(['\r', '\n']) => {
                text.retain(|c| c != '\r' && c != '\n');
                Self::Unescaped(text)
            }
            other => other,
        }
    }
}

/// Resolves the escapes of a string. What is no character becomes U+FFFD, as in Go. The text never gets longer, so that
/// its buffer is never moved.
fn unescape(inner: &str) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(inner.len()));
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let kind = rest.as_bytes().get(at + 1).copied();
        rest = rest.get(at + 2..).unwrap_or("");
        match kind {
            Some(b'u') => text.push(unicode(&mut rest)),
            Some(b'n') => text.push('\n'),
            Some(b'r') => text.push('\r'),
            Some(b't') => text.push('\t'),
            Some(b'b') => text.push('\u{8}'),
            Some(b'f') => text.push('\u{c}'),
            Some(other) => text.push(char::from(other)),
            None => {}
        }
    }
    text.push_str(rest);
    text
}

/// The character of the digits after `\u`, and of a second half that follows.
fn unicode(rest: &mut &str) -> char {
    let Some(first) = unit(rest) else { return char::REPLACEMENT_CHARACTER };
    *rest = &rest[4..];
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER);
    }
    let second = rest.strip_prefix("\\u").and_then(unit);
    match second.and_then(|second| char::decode_utf16([first, second]).next()?.ok()) {
        Some(both) => {
            *rest = &rest[6..];
            both
        }
        None => char::REPLACEMENT_CHARACTER,
    }
}

/// The number of the first four hexadecimal digits.
fn unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_resolved_as_serde_json_does() {
        for text in [r#""""#, r#""a\/b""#, r#""\n\r\t\b\f\\\"""#, r#""\u00e9\ud83d\ude00x""#, r#""caf\u0065é""#] {
            let wanted: String = serde_json::from_str(text).unwrap();
            assert_eq!(&*Raw::of(text).string().unwrap(), wanted, "{text}");
        }
        for text in [r#""\ud800""#, r#""\ud800x""#, r#""\udc00""#] {
            assert!(Raw::of(text).string().unwrap().starts_with('\u{fffd}'), "{text}");
        }
        assert_eq!(&*Raw::of(r#""\ud800\u0041""#).string().unwrap(), "\u{fffd}A");
        assert_eq!(&*Raw::of(r#""QU\nJD\r\n""#).string().unwrap().without_lines(), "QUJD");
    }
}
