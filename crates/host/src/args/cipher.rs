//! The names of suites.

use phalanx_core::Suite;

/// A suite, by the name that commands and programs give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Cipher {
    #[allow(missing_docs, reason = "what is said of a cipher is its help")]
    #[cfg_attr(feature = "clap", value(name = "aes-256"))]
    Aes256,
    #[allow(missing_docs, reason = "what is said of a cipher is its help")]
    #[cfg_attr(feature = "clap", value(name = "aes-192"))]
    Aes192,
    #[allow(missing_docs, reason = "what is said of a cipher is its help")]
    #[cfg_attr(feature = "clap", value(name = "aes-128"))]
    Aes128,
    /// As aes-256, and faster: digests by TurboSHAKE256, which has half the rounds of SHA-3
    #[cfg_attr(feature = "clap", value(name = "aes-256-turbo"))]
    Aes256Turbo,
    /// Faster on CPUs, and runs only there; its tags have 128 bits and do not commit to the key
    #[cfg_attr(feature = "clap", value(name = "aes-256-gcm"))]
    Aes256Gcm,
}

impl Cipher {
    /// All of them.
    pub const ALL: [Cipher; 5] =
        [Cipher::Aes256, Cipher::Aes192, Cipher::Aes128, Cipher::Aes256Turbo, Cipher::Aes256Gcm];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Cipher::Aes256 => "aes-256",
            Cipher::Aes192 => "aes-192",
            Cipher::Aes128 => "aes-128",
            Cipher::Aes256Turbo => "aes-256-turbo",
            Cipher::Aes256Gcm => "aes-256-gcm",
        }
    }
}

impl From<Cipher> for Suite {
    fn from(cipher: Cipher) -> Self {
        match cipher {
            Cipher::Aes256 => Suite::Aes256CtrSha3,
            Cipher::Aes192 => Suite::Aes192CtrSha3,
            Cipher::Aes128 => Suite::Aes128CtrSha3,
            Cipher::Aes256Turbo => Suite::Aes256CtrTurboShake,
            Cipher::Aes256Gcm => Suite::Aes256Gcm,
        }
    }
}
