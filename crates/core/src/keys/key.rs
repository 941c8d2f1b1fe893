//! Secrets and the keys derived from them: `docs/format.md`, sections 3 and 4. All are wiped on drop, and Debug shows
//! none of them.

use crate::format::purpose::Purpose;
use crate::keys::id::KeyId;
use crate::secret::{wipe, wiped};
use crate::{Error, Result, Suite};
use aes_kw::{KeyInit, KwAes256};
use phalanx_kernels::aes;
use phalanx_kernels::keccak::{self, Kmac256, Label, RATE};
use std::sync::{Arc, LazyLock};
use std::{fmt, iter};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The length of a wrapped 32-byte key (RFC 3394).
pub const WRAPPED: usize = 40;

/// 32 secret bytes: a named key, a file key, or a key-encrypting key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SecretKey(pub(super) [u8; 32]);

impl SecretKey {
    /// A new random key.
    ///
    /// # Errors
    /// [`Error::Random`] if the system gives no random bytes.
    pub fn random() -> Result<Self> {
        let mut key = Self([0; 32]);
        getrandom::fill(&mut key.0).map_err(Error::Random)?;
        Ok(key)
    }

    /// The key of exactly 32 bytes, or `None`.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// The key's bytes. Use them only to store the key.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether both are the same.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        subtle::ConstantTimeEq::ct_eq(&self.0[..], &other.0[..]).into()
    }

    /// The key's public name in slots and messages.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let mut id = [0; 16];
        let full = Kmac256::new(&self.0, b"phalanx v1 key id").tag(b"");
        id.copy_from_slice(&full[..16]);
        KeyId(id)
    }

    /// The key-encrypting keys of slots with this secret.
    #[must_use]
    pub fn wrapping_key(&self) -> WrappingKey {
        WrappingKey(self.clone())
    }

    /// Fills `out` with KMAC256(key, "", bits of `out`, label).
    pub(crate) fn derive(&self, label: &[u8], out: &mut [u8]) {
        Kmac256::new(&self.0, label).derive(b"", out);
    }

    /// A key derived by [`SecretKey::derive`].
    pub(crate) fn derived(&self, label: &[u8]) -> Self {
        let mut key = Self([0; 32]);
        self.derive(label, &mut key.0);
        key
    }

    /// The keys of a file with this file key.
    #[must_use]
    pub fn file_keys(&self, suite: Suite) -> FileKeys {
        static LABEL: LazyLock<Label> = LazyLock::new(|| Label::new(b"phalanx v1 file keys"));
        wiped(|| {
            let mut content: Arc<[_]> =
                ContentKeys::derive(keccak::Level::Portable, suite, &LABEL, iter::once(self)).as_slice().into();
            Arc::get_mut(&mut content).expect("nobody else has it")[0].expand();
            FileKeys::new(content)
        })
    }

    /// The keys of messages under this user's key.
    #[must_use]
    pub fn message_keys(&self, suite: Suite) -> ContentKeys {
        ContentKeys::of_messages(keccak::Level::Portable, suite, iter::once(self))[0].clone()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

/// The source of a slot's key-encrypting keys, one for each [`Purpose`]. They wrap and unwrap file keys (AES-256 key
/// wrap, RFC 3394).
#[derive(Clone, Debug)]
pub struct WrappingKey(SecretKey);

impl WrappingKey {
    /// Wraps a file key.
    #[must_use]
    pub fn wrap(&self, purpose: Purpose, file_key: &SecretKey) -> [u8; WRAPPED] {
        wiped(|| self.kek(purpose).wrap(file_key))
    }

    /// Unwraps a file key; `None` if its integrity check fails.
    #[must_use]
    pub fn unwrap(&self, purpose: Purpose, wrapped: &[u8; WRAPPED]) -> Option<SecretKey> {
        wiped(|| self.kek(purpose).unwrap(wrapped))
    }

    /// The key-encrypting key of one purpose. It is derived once for many files.
    pub(crate) fn kek(&self, purpose: Purpose) -> Kek {
        static FILE: LazyLock<Label> = LazyLock::new(|| Label::new(b"phalanx v1 key wrap"));
        static VOLUME: LazyLock<Label> = LazyLock::new(|| Label::new(b"phalanx v1 volume wrap"));
        let label = match purpose {
            Purpose::File => &FILE,
            Purpose::Volume => &VOLUME,
        };
        let mut kek = SecretKey([0; 32]);
        label.key(&self.0.0).derive(b"", &mut kek.0);
        Kek(kek)
    }
}

/// A key-encrypting key.
#[derive(Clone)]
pub(crate) struct Kek(SecretKey);

impl Kek {
    pub fn wrap(&self, file_key: &SecretKey) -> [u8; WRAPPED] {
        let mut wrapped = [0; WRAPPED];
        self.cipher().wrap_key(&file_key.0, &mut wrapped).expect("32 bytes wrap into 40");
        wrapped
    }

    pub fn unwrap(&self, wrapped: &[u8; WRAPPED]) -> Option<SecretKey> {
        let mut key = SecretKey([0; 32]);
        self.cipher().unwrap_key(wrapped, &mut key.0).ok()?;
        Some(key)
    }

    fn cipher(&self) -> KwAes256 {
        KwAes256::new((&self.0.0).into())
    }
}

/// The label of the KMAC of headers.
static HEADER: LazyLock<Label> = LazyLock::new(|| Label::new(b"phalanx v1 header"));

/// The keys that are derived from a file key: those of its chunks, and that of its header's tag.
///
/// They stay in one place. Moving them would leave copies on the stack, and a moved enum carries such copies into freed
/// memory.
#[derive(Clone, Debug)]
pub struct FileKeys(Arc<Secrets>);

#[derive(Debug)]
struct Secrets {
    /// The keys of the chunks: one entry.
    content: Arc<[ContentKeys]>,
    header: Kmac256,
}

/// The length in bytes of a file's keys for another process.
pub(crate) const SHARED: usize = 64;

impl FileKeys {
    fn new(content: Arc<[ContentKeys]>) -> Self {
        Self(Arc::new(Secrets { header: HEADER.key(&content[0].mac), content }))
    }

    /// The keys of the chunks.
    #[must_use]
    pub fn content(&self) -> &ContentKeys {
        &self.0.content[0]
    }

    /// The keys for jobs of the file's chunks.
    #[must_use]
    pub fn of_jobs(&self) -> Arc<[ContentKeys]> {
        self.0.content.clone()
    }

    /// The keys as bytes for another process: K_encrypt, padded with zeros to 32 bytes, then K_mac.
    pub(crate) fn to_bytes(&self) -> Zeroizing<[u8; SHARED]> {
        let mut bytes = Zeroizing::new([0; SHARED]);
        bytes[..32].copy_from_slice(&self.content().encrypt);
        bytes[32..].copy_from_slice(&self.content().mac);
        bytes
    }

    pub(crate) fn from_bytes(suite: Suite, bytes: &[u8; SHARED]) -> Self {
        wiped(|| {
            let mut content = Arc::new([ContentKeys { suite, encrypt: [0; 32], mac: [0; 32], expanded: None }]);
            let [keys] = Arc::get_mut(&mut content).expect("nobody else has it");
            keys.encrypt.copy_from_slice(&bytes[..32]);
            keys.mac.copy_from_slice(&bytes[32..]);
            keys.expand();
            Self::new(content)
        })
    }

    /// The tag of a header, given all its bytes before the tag.
    #[must_use]
    pub fn header_tag(&self, header: &[u8]) -> [u8; 32] {
        self.0.header.tag(header)
    }

    /// The tag of the record of an unfinished file, given its bytes before the tag, the output's name, if it is a
    /// plaintext, and the file's header: KMAC256(K_mac, ·, 256, "phalanx v1 resume").
    #[must_use]
    pub fn record_tag(&self, record: &[u8], output: &[u8], header: &[u8]) -> [u8; 32] {
        Kmac256::new(&self.content().mac, b"phalanx v1 resume").tag(&[record, output, header].concat())
    }

    /// The value that names a file of a volume in the volume's journal and binds its extended attributes:
    /// KMAC256(K_mac, "", 128, "phalanx v1 volume file").
    #[must_use]
    pub fn volume_file_id(&self) -> [u8; 16] {
        Kmac256::new(&self.content().mac, b"phalanx v1 volume file").tag_128(b"")
    }

    /// Makes the sums of the file's chunks, if it is a volume's with protection against rollback.
    #[must_use]
    pub fn volume_sums(&self) -> Sums {
        static LABEL: LazyLock<Label> = LazyLock::new(|| Label::new(b"phalanx v1 volume group"));
        Sums(LABEL.key(&self.content().mac))
    }

    /// The tag that identifies a recipient in its age slot, given the recipient's canonical text. Anybody who can open
    /// the file can match slots to recipients.
    #[must_use]
    pub fn recipient_tag(&self, recipient: &str) -> [u8; 16] {
        Kmac256::new(&self.content().mac, b"phalanx v1 recipient").tag_128(recipient.as_bytes())
    }
}

/// Makes the sums of a file's groups of chunks: `docs/format-versions.md`.
#[derive(Clone, Debug)]
pub struct Sums(Kmac256);

impl Sums {
    /// The sum of a group, given the tags of its chunks in order, 32 bytes each:
    /// KMAC256(K_mac, group ‖ tags, 128, "phalanx v1 volume group").
    #[must_use]
    pub fn sum(&self, group: u64, tags: &[u8]) -> [u8; 16] {
        // Most groups have one chunk.
        if let Ok(tag) = <&[u8; 32]>::try_from(tags) {
            let mut message = [0; 40];
            message[..8].copy_from_slice(&group.to_le_bytes());
            message[8..].copy_from_slice(tag);
            return self.0.tag_128(&message);
        }
        self.0.tag_128(&[&group.to_le_bytes()[..], tags].concat())
    }
}

/// The keys of one file's chunks or of one user's messages, as the format derives them: an engine expands them as it
/// needs them.
#[derive(Clone)]
pub struct ContentKeys {
    suite: Suite,
    encrypt: [u8; 32],
    mac: [u8; 32],
    /// Only the keys of a file have it.
    expanded: Option<Arc<ChunkKeys>>,
}

/// The label of the KMACs of chunks.
pub(crate) static CHUNK: LazyLock<Label> = LazyLock::new(|| Label::new(b"phalanx v1 chunk"));

/// Expanded keys that all chunks of a file share, in suites with SHA-3.
pub(crate) struct ChunkKeys {
    /// The key schedule of K_encrypt.
    pub schedule: aes::Key,
    /// The KMAC256 of the chunks' tags, with K_mac absorbed.
    pub mac: Kmac256,
}

impl ContentKeys {
    /// [`SecretKey::message_keys`] of many users, derived side by side.
    pub(crate) fn of_messages<'a>(
        level: keccak::Level,
        suite: Suite,
        users: impl ExactSizeIterator<Item = &'a SecretKey>,
    ) -> Vec<Self> {
        static LABEL: LazyLock<Label> = LazyLock::new(|| Label::new(b"phalanx v1 message keys"));
        Self::derive(level, suite, &LABEL, users)
    }

    /// K_encrypt ‖ K_mac of each secret.
    fn derive<'a>(
        level: keccak::Level,
        suite: Suite,
        label: &Label,
        secrets: impl ExactSizeIterator<Item = &'a SecretKey>,
    ) -> Vec<Self> {
        /// The secret's block, and the suite.
        const INPUT: usize = RATE + 1;
        let mut keys = vec![Self { suite, encrypt: [0; 32], mac: [0; 32], expanded: None }; secrets.len()];
        let mut inputs = vec![suite.id(); secrets.len() * INPUT];
        for (input, secret) in inputs.chunks_mut(INPUT).zip(secrets) {
            keccak::key_block(&secret.0, input.first_chunk_mut().expect("longer than a block"));
        }
        let each = inputs.chunks(INPUT).map(|input| (label.unkeyed(), input));
        // The output length is part of the computation.
        match suite.key_len() {
            32 => keccak::kmac256_each(level, each, |i, both: &[u8; 64]| keys[i].fill(both)),
            24 => keccak::kmac256_each(level, each, |i, both: &[u8; 56]| keys[i].fill(both)),
            _ => keccak::kmac256_each(level, each, |i, both: &[u8; 48]| keys[i].fill(both)),
        }
        wipe(&mut inputs);
        keys
    }

    /// Prepares for many chunks.
    fn expand(&mut self) {
        if self.suite != Suite::Aes256Gcm {
            let keys = || ChunkKeys { schedule: aes::Key::new(self.encrypt()), mac: CHUNK.key(&self.mac) };
            self.expanded = Some(wiped(|| Arc::new(keys())));
        }
    }

    /// The expanded keys, if these are the keys of a file.
    pub(crate) fn chunk_keys(&self) -> Option<&ChunkKeys> {
        self.expanded.as_deref()
    }

    /// Copies K_encrypt ‖ K_mac into the keys.
    fn fill(&mut self, both: &[u8]) {
        let (encrypt, mac) = both.split_at(self.suite.key_len());
        self.encrypt[..encrypt.len()].copy_from_slice(encrypt);
        self.mac.copy_from_slice(mac);
    }

    /// K_encrypt: as many bytes as the suite's AES key has.
    #[must_use]
    pub fn encrypt(&self) -> &[u8] {
        &self.encrypt[..self.suite.key_len()]
    }

    /// K_mac. The chunks and messages of suite 4 do not use it.
    #[must_use]
    pub fn mac(&self) -> &[u8; 32] {
        &self.mac
    }
}

impl Drop for ContentKeys {
    fn drop(&mut self) {
        wipe(&mut self.encrypt);
        wipe(&mut self.mac);
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
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both are the same.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        subtle::ConstantTimeEq::ct_eq(&self.0[..], &other.0[..]).into()
    }

    /// The key-encrypting key of a password slot: Argon2id (RFC 9106), then KMAC256.
    ///
    /// # Errors
    /// [`Error::KdfMemory`] if there is not enough memory, [`Error::Header`] if Argon2 does not allow such parameters.
    pub fn wrapping_key(&self, kdf: &Kdf) -> Result<WrappingKey> {
        let refused = |_| Error::Header("Argon2 parameters out of range");
        let params = argon2::Params::new(kdf.memory_kib, kdf.passes, kdf.lanes.into(), Some(32)).map_err(refused)?;
        let mut memory: Vec<argon2::Block> = Vec::new();
        let short = |_| Error::KdfMemory(kdf.memory_kib);
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
    ///
    /// # Errors
    /// [`Error::Random`] if the system gives no random bytes.
    pub fn recommended() -> Result<Self> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(Error::Random)?;
        Ok(Self { salt, memory_kib: 64 * 1024, passes: 3, lanes: 4 })
    }

    /// The work in KiB × passes.
    #[must_use]
    pub fn work(&self) -> u64 {
        u64::from(self.memory_kib) * u64::from(self.passes)
    }

    /// The rules that no reader may relax.
    #[must_use]
    pub fn is_lawful(&self) -> bool {
        self.passes > 0 && self.lanes > 0 && self.memory_kib >= 8 * u32::from(self.lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another process gets the keys of a file as bytes.
    #[test]
    fn the_keys_of_a_file_pass_as_bytes() {
        for suite in Suite::ALL {
            let key = |byte| SecretKey::from_slice(&[byte; 32]).unwrap().file_keys(*suite);
            let (keys, other) = (key(1), key(2));
            let passed = FileKeys::from_bytes(*suite, &keys.to_bytes());
            assert_eq!(passed.to_bytes(), keys.to_bytes());
            assert_eq!(passed.header_tag(b"header"), keys.header_tag(b"header"));
            assert_ne!(passed.header_tag(b"header"), other.header_tag(b"header"));
        }
    }
}
