//! Paths and queries, decoded strictly: what two programs could read differently is refused.

use crate::refusal::Refusal;
use crate::tokens::PREFIX;

/// A path in its parts, which are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The parts, without a last one that is empty.
    pub parts: Vec<String>,
    /// Whether it ends with a slash.
    pub is_folder: bool,
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// If it is not UTF-8, has empty parts or parts of dots, or characters that cannot be printed.
    pub fn parse(path: &str) -> Result<Self, Refusal> {
        let invalid = || Refusal::invalid("the path is not valid");
        let path = path.strip_prefix('/').ok_or_else(invalid)?;
        let (path, is_folder) = match path.strip_suffix('/') {
            Some(path) => (path, true),
            None => (path, false),
        };
        if path.is_empty() {
            return if is_folder { Err(invalid()) } else { Ok(Self { parts: Vec::new(), is_folder }) };
        }
        let parts: Option<Vec<String>> = path.split('/').map(decode).collect();
        let parts = parts.ok_or_else(invalid)?;
        let is_bad = |part: &String| part.is_empty() || part == "." || part == ".." || part.contains(char::is_control);
        if parts.iter().any(is_bad) { Err(invalid()) } else { Ok(Self { parts, is_folder }) }
    }

    /// The path for the audit log, without tokens that somebody has put there.
    pub fn shown(&self) -> String {
        let part = |part: &String| if part.contains(PREFIX) { "-".to_owned() } else { part.clone() };
        format!("/{}", self.parts.iter().map(part).collect::<Vec<_>>().join("/"))
    }
}

/// The names and values of a query.
///
/// # Errors
/// If one of them is not well encoded, or not UTF-8.
pub fn parse_query(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Some((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
    };
    let pairs: Option<Vec<_>> = query.split('&').filter(|part| !part.is_empty()).map(pair).collect();
    pairs.ok_or_else(|| Refusal::invalid("the query is not valid"))
}

/// What Go's `ParseBool` makes of a text, as Vault reads `?list=`.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Decodes %XX.
fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let ([high, low], behind) = rest.split_first_chunk()?;
        bytes.push(digit(*high)? << 4 | digit(*low)?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

/// The value of a hexadecimal digit.
pub fn digit(hex: u8) -> Option<u8> {
    char::from(hex).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str) -> Option<Vec<String>> {
        Path::parse(path).ok().map(|path| path.parts)
    }

    #[test]
    fn paths_are_read_strictly() {
        assert_eq!(
            parts("/v1/transit/encrypt/a%2db"),
            Some(["v1", "transit", "encrypt", "a-b"].map(Into::into).to_vec())
        );
        assert_eq!(parts("/"), Some(Vec::new()));
        assert_eq!(parts("/a%2Fb"), Some(vec!["a/b".into()]));
        assert!(Path::parse("/v1/keys/").unwrap().is_folder && !Path::parse("/v1/keys").unwrap().is_folder);
        for bad in [
            "",
            "*",
            "v1/a",
            "//",
            "//a",
            "/a//b",
            "/a//",
            "/a/../b",
            "/..",
            "/a/.",
            "/%2e%2e/a",
            "/%",
            "/%2",
            "/%zz",
            "/%+1",
            "/%-1",
            "/%ff",
            "/%C3",
            "/a%00b",
            "/a%0d%0ab",
            "/%7f",
        ] {
            assert_eq!(parts(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn queries_are_read_strictly() {
        let pairs = parse_query("list=true&&a=b%20c+d&e").unwrap();
        let expected = [("list", "true"), ("a", "b c d"), ("e", "")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(parse_query("a=%zz").is_err() && parse_query("%ff=a").is_err());
    }
}
