//! The suites of the format: `docs/format.md`, section 2.2.

/// A pair of cipher and authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Suite {
    /// AES-256-CTR + SHA-3.
    #[default]
    Aes256CtrSha3 = 1,
    /// AES-192-CTR + SHA-3.
    Aes192CtrSha3 = 2,
    /// AES-128-CTR + SHA-3.
    Aes128CtrSha3 = 3,
    /// AES-256-GCM: on CPUs only, for chunks that are written once, with a tag of 128 bits that does not commit to the
    /// key.
    Aes256Gcm = 4,
    /// AES-256-CTR + TurboSHAKE: like the default, with half the rounds of Keccak in the digests of slices.
    Aes256CtrTurboShake = 5,
}

impl Suite {
    /// Every suite, in the order of its number.
    pub const ALL: &[Suite] = &[
        Suite::Aes256CtrSha3,
        Suite::Aes192CtrSha3,
        Suite::Aes128CtrSha3,
        Suite::Aes256Gcm,
        Suite::Aes256CtrTurboShake,
    ];

    /// The suite of a header's byte.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|s| s.id() == id)
    }

    /// The suite's byte in the header.
    #[must_use]
    pub fn id(self) -> u8 {
        self as u8
    }

    /// The length of the AES key in bytes.
    #[must_use]
    pub fn key_len(self) -> usize {
        match self {
            Suite::Aes256CtrSha3 | Suite::Aes256Gcm | Suite::Aes256CtrTurboShake => 32,
            Suite::Aes192CtrSha3 => 24,
            Suite::Aes128CtrSha3 => 16,
        }
    }

    /// The length of a stored nonce in bytes.
    #[must_use]
    pub fn nonce_len(self) -> usize {
        if self == Suite::Aes256Gcm { 12 } else { 16 }
    }

    /// The length of a stored tag in bytes.
    #[must_use]
    pub fn tag_len(self) -> usize {
        if self == Suite::Aes256Gcm { 16 } else { 32 }
    }

    /// How many bytes a stored chunk or message is longer than its plaintext.
    #[must_use]
    pub fn overhead(self) -> usize {
        self.nonce_len() + self.tag_len()
    }

    /// The longest plaintext of a message in bytes: AES-GCM's (SP 800-38D, section 5.2.1.1), or what memory holds.
    #[must_use]
    pub fn longest_message(self) -> usize {
        if self == Suite::Aes256Gcm { usize::try_from((1u64 << 36) - 32).unwrap_or(usize::MAX) } else { usize::MAX }
    }

    /// The most chunks that may be sealed under one file key. With more, two random nonces of 96 bits are too likely to
    /// be equal.
    #[must_use]
    pub fn max_chunks(self) -> u64 {
        if self == Suite::Aes256Gcm { 1 << 32 } else { u64::MAX }
    }

    /// The suite's name in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Suite::Aes256CtrSha3 => "AES-256-CTR + SHA-3",
            Suite::Aes192CtrSha3 => "AES-192-CTR + SHA-3",
            Suite::Aes128CtrSha3 => "AES-128-CTR + SHA-3",
            Suite::Aes256Gcm => "AES-256-GCM",
            Suite::Aes256CtrTurboShake => "AES-256-CTR + TurboSHAKE",
        }
    }
}
