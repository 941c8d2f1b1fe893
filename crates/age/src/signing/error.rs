//! Why a key cannot sign.

use super::public::NotAKey;

/// The most work for a passphrase: `ssh-keygen` itself takes 24 rounds, and 1000 take some ten seconds.
pub const MOST_ROUNDS: u32 = 1000;

/// Why a key cannot sign. It repeats nothing of a private key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It is no key.
    #[error("neither an SSH private key nor a public one")]
    None,
    /// It is a public key that cannot be used.
    #[error(transparent)]
    Public(#[from] NotAKey),
    /// It is in an old form.
    #[error("an old form of SSH key (ssh-keygen -p makes a new one of it)")]
    Old,
    /// The private key is in hardware.
    #[error("the key is in hardware: ssh-agent signs by it")]
    Hardware,
    /// Its passphrase was not given.
    #[error("nobody could be asked for its passphrase")]
    Nobody,
    /// Its passphrase was wrong.
    #[error("the passphrase is wrong")]
    Passphrase,
    /// It is locked by a cipher that is not known.
    #[error("its passphrase is for a cipher that this program does not know (ssh-keygen -p -Z aes256-ctr changes it)")]
    Cipher,
    /// Its passphrase is too much work.
    #[error("its passphrase costs more work than {MOST_ROUNDS} rounds of bcrypt")]
    Rounds,
    /// The parts of the key do not fit each other.
    #[error("the private key is damaged")]
    Damaged,
    /// The agent does not sign by it.
    #[error("{0}")]
    Agent(String),
    /// The key made a signature that is not valid.
    #[error("the signature that it made is not valid")]
    Invalid,
}
