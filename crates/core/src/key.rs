//! Secrets and what is derived from them: `docs/format.md`, sections 3 and 4. All are wiped on drop, none shows in Debug.

use crate::{Error, Result, Suite};
use aes_kw::{KeyInit, KwAes256};
use phalanx_kernels::aes;
use phalanx_kernels::keccak::Kmac256;
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The length of a wrapped 32-byte key (RFC 3394).
pub const WRAPPED: usize = 40;

/// 32 secret bytes: a named key, a file key, or a key-encrypting key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SecretKey([u8; 32]);

impl SecretKey {
    /// A new random key.
    pub fn random() -> Result<Self> {
        let mut key = Self([0; 32]);
        getrandom::fill(&mut key.0).map_err(Error::Random)?;
        Ok(key)
    }

    /// The key of exactly 32 bytes, or `None`.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// The key's bytes: for storing it, and for nothing else.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key's public name in slots and messages.
    pub fn id(&self) -> KeyId {
        let mut id = [0; 16];
        let full = Kmac256::new(&self.0, b"phalanx v1 key id").tag(b"");
        id.copy_from_slice(&full[..16]);
        KeyId(id)
    }

    /// The key-encrypting key of a slot whose secret this is.
    pub fn wrapping_key(&self) -> WrappingKey {
        let mut kek = Zeroizing::new([0; 32]);
        Kmac256::new(&self.0, b"phalanx v1 key wrap").derive(b"", &mut *kek);
        WrappingKey(Self(*kek))
    }

    /// The keys of a file whose file key this is.
    pub fn file_keys(&self, suite: Suite) -> FileKeys {
        let (encrypt, mac) = self.split(suite, b"phalanx v1 file keys");
        FileKeys {
            header: Kmac256::new(&mac[..], b"phalanx v1 header"),
            content: ContentKeys::new(suite, &encrypt, &mac, b"phalanx v1 chunk"),
        }
    }

    /// The keys of the messages whose user's key this is.
    pub fn message_keys(&self, suite: Suite) -> ContentKeys {
        let (encrypt, mac) = self.split(suite, b"phalanx v1 message keys");
        ContentKeys::new(suite, &encrypt, &mac, b"phalanx v1 message")
    }

    /// K_encrypt, padded with zeros to 32 bytes, and K_mac.
    fn split(&self, suite: Suite, label: &[u8]) -> (Zeroizing<[u8; 32]>, Zeroizing<[u8; 32]>) {
        let n = suite.key_len();
        let mut both = Zeroizing::new([0; 64]);
        Kmac256::new(&self.0, label).derive(&[suite.id()], &mut both[..n + 32]);
        let (mut encrypt, mut mac) = (Zeroizing::new([0; 32]), Zeroizing::new([0; 32]));
        encrypt[..n].copy_from_slice(&both[..n]);
        mac.copy_from_slice(&both[n..n + 32]);
        (encrypt, mac)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

/// The public name of a 32-byte key: 16 bytes, shown as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 16]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// A key-encrypting key: wraps and unwraps file keys (AES-256 key wrap, RFC 3394).
#[derive(Clone, Debug)]
pub struct WrappingKey(SecretKey);

impl WrappingKey {
    /// Wraps a file key.
    pub fn wrap(&self, file_key: &SecretKey) -> [u8; WRAPPED] {
        let mut wrapped = [0; WRAPPED];
        self.cipher().wrap_key(&file_key.0, &mut wrapped).expect("32 bytes wrap into 40");
        wrapped
    }

    /// Unwraps a file key; `None` where its integrity check fails.
    pub fn unwrap(&self, wrapped: &[u8; WRAPPED]) -> Option<SecretKey> {
        let mut key = SecretKey([0; 32]);
        self.cipher().unwrap_key(wrapped, &mut key.0).ok()?;
        Some(key)
    }

    fn cipher(&self) -> KwAes256 {
        KwAes256::new((&self.0.0).into())
    }
}

/// What a file key gives: the keys of its chunks, and the key of its header's tag.
#[derive(Clone, Debug)]
pub struct FileKeys {
    /// The keys of the chunks.
    pub content: ContentKeys,
    header: Kmac256,
}

impl FileKeys {
    /// The tag of a header, given all its bytes before the tag.
    pub fn header_tag(&self, header: &[u8]) -> [u8; 32] {
        self.header.tag(header)
    }
}

/// The keys of one file's chunks or of one user's messages, made ready for the CPU's kernels once.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct ContentKeys {
    #[zeroize(skip)]
    suite: Suite,
    encrypt: [u8; 32],
    mac: [u8; 32],
    schedule: aes::Key,
    tagger: Kmac256,
}

impl ContentKeys {
    fn new(suite: Suite, encrypt: &[u8; 32], mac: &[u8; 32], label: &[u8]) -> Self {
        let schedule = aes::Key::new(&encrypt[..suite.key_len()]);
        Self { suite, encrypt: *encrypt, mac: *mac, schedule, tagger: Kmac256::new(mac, label) }
    }

    /// K_encrypt: as many bytes as the suite's AES key has.
    pub fn encrypt(&self) -> &[u8] {
        &self.encrypt[..self.suite.key_len()]
    }

    /// K_mac.
    pub fn mac(&self) -> &[u8; 32] {
        &self.mac
    }

    /// K_encrypt, expanded.
    pub fn schedule(&self) -> &aes::Key {
        &self.schedule
    }

    /// KMAC256 under K_mac with the label of chunks, or of messages.
    pub fn tagger(&self) -> &Kmac256 {
        &self.tagger
    }
}

impl fmt::Debug for ContentKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentKeys({}, …)", self.suite.name())
    }
}

/// A password: any bytes.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Password(Vec<u8>);

impl Password {
    /// Takes the password's bytes as they are.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Whether there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both are the same.
    pub fn matches(&self, other: &Self) -> bool {
        subtle::ConstantTimeEq::ct_eq(&self.0[..], &other.0[..]).into()
    }

    /// The key-encrypting key of a password slot: Argon2id (RFC 9106), then KMAC256.
    pub fn wrapping_key(&self, kdf: &Kdf) -> Result<WrappingKey> {
        let refused = |_| Error::Header("Argon2 parameters out of range");
        let params = argon2::Params::new(kdf.memory_kib, kdf.passes, kdf.lanes.into(), Some(32)).map_err(refused)?;
        let mut memory: Vec<argon2::Block> = Vec::new();
        let short = |_| Error::Key(format!("not enough memory: Argon2 needs {} KiB", kdf.memory_kib));
        memory.try_reserve_exact(params.block_count()).map_err(short)?;
        memory.resize(params.block_count(), argon2::Block::new());
        let mut secret = SecretKey([0; 32]);
        let argon2 = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
        let done = argon2.hash_password_into_with_memory(&self.0, &kdf.salt, &mut secret.0, &mut memory);
        memory.iter_mut().for_each(Zeroize::zeroize);
        done.map_err(refused)?;
        Ok(secret.wrapping_key())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Argon2id's parameters in a password slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kdf {
    /// Random, one for each password or run.
    pub salt: [u8; 16],
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Argon2's parallelism.
    pub lanes: u8,
}

impl Kdf {
    /// What writers use: 64 MiB, 3 passes, 4 lanes, a new salt.
    pub fn recommended() -> Result<Self> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(Error::Random)?;
        Ok(Self { salt, memory_kib: 64 * 1024, passes: 3, lanes: 4 })
    }

    /// The work in KiB × passes.
    pub fn work(&self) -> u64 {
        u64::from(self.memory_kib) * u64::from(self.passes)
    }

    /// The rules that no reader may relax.
    pub fn is_lawful(&self) -> bool {
        self.passes > 0 && self.lanes > 0 && self.memory_kib >= 8 * u32::from(self.lanes)
    }
}
