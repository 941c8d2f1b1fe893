//! Ciphertexts as clients see them: `docs/server.md`.
//!
//! As text they are `vault:v` and the version, `:`, and base64 of the suite's number and the message. In octet streams
//! they are the version as `u32` in little-endian order, the suite's number and the message.

use crate::refusal::Refusal;

/// The bytes of a ciphertext in an octet stream before its message.
pub const HEAD: usize = 5;

/// The version of a ciphertext in text, and its base64.
///
/// # Errors
/// In the words of Vault, if it is none.
pub fn parse(text: &str) -> Result<(u32, &str), Refusal> {
    let no_prefix = || Refusal::invalid("invalid ciphertext: no prefix");
    let rest = text.strip_prefix("vault:v").ok_or_else(no_prefix)?;
    let (version, base64) =
        rest.split_once(':').ok_or_else(|| Refusal::invalid("invalid ciphertext: wrong number of fields"))?;
    // A version is written in one way only, so that nobody makes a second text of a ciphertext: no zeros before it.
    let is_number = version.bytes().all(|b| b.is_ascii_digit()) && !version.starts_with('0');
    match is_number.then(|| version.parse().ok()).flatten() {
        None => Err(Refusal::invalid("invalid ciphertext: version number could not be decoded")),
        Some(version) => Ok((version, base64)),
    }
}

/// The version of a ciphertext in an octet stream, and the rest of it: the suite's number and the message.
///
/// # Errors
/// If it is too short.
pub fn split(bytes: &[u8]) -> Result<(u32, &[u8]), Refusal> {
    match bytes.split_first_chunk::<4>() {
        Some((version, rest)) if !rest.is_empty() => Ok((u32::from_le_bytes(*version), rest)),
        _ => Err(Refusal::invalid("invalid ciphertext: too short")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ciphertexts_are_parsed_as_vault_does() {
        assert_eq!(parse("vault:v12:QUI="), Ok((12, "QUI=")));
        for text in [
            "",
            "v1:QUI=",
            "vault:1:QUI=",
            "vault:v1",
            "vault:v0:a",
            "vault:v01:a",
            "vault:v-1:a",
            "vault:v+1:a",
            "vault:v99999999999:a",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(split(&[2, 1, 0, 0, 9]), Ok((258, &[9][..])));
        assert!(split(&[1, 0, 0, 0]).is_err());
    }
}
