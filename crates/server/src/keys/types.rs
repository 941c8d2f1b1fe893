//! The types of keys: suites, by the names that Vault has or would give them, and by those of Phalanx.

use phalanx_core::Suite;
use phalanx_host::args::Cipher;

/// The names, the default first.
const TYPES: [(&str, Suite); 5] = [
    ("aes256-ctr-sha3", Suite::Aes256CtrSha3),
    ("aes192-ctr-sha3", Suite::Aes192CtrSha3),
    ("aes128-ctr-sha3", Suite::Aes128CtrSha3),
    ("aes256-ctr-turboshake", Suite::Aes256CtrTurboShake),
    ("aes256-gcm96", Suite::Aes256Gcm),
];

/// The suite of a type, by either name.
pub fn suite_of(text: &str) -> Option<Suite> {
    let by_type = TYPES.iter().find(|(name, _)| *name == text).map(|(_, suite)| *suite);
    by_type.or_else(|| Cipher::ALL.into_iter().find(|cipher| cipher.name() == text).map(Into::into))
}

/// The type of a suite.
pub fn type_of(suite: Suite) -> &'static str {
    TYPES.iter().find(|(_, own)| *own == suite).map_or("", |(name, _)| name)
}

/// The type that a command line names.
///
/// # Errors
/// A line with all names.
pub fn parse(text: &str) -> Result<&'static str, String> {
    let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
    suite_of(text).map(type_of).ok_or_else(|| format!("one of {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_suite_has_both_names() {
        for cipher in Cipher::ALL {
            let name = type_of(cipher.into());
            assert_eq!((parse(cipher.name()), parse(name)), (Ok(name), Ok(name)));
        }
        assert!(!TYPES.iter().any(|(name, _)| name.is_empty()) && parse("rsa-2048").is_err());
    }
}
