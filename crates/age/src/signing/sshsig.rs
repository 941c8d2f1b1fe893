//! The format SSHSIG, as OpenSSH's `PROTOCOL.sshsig` specifies it.

use super::NAMESPACE;
use super::public::{NotAKey, PublicKey};
use super::wire::{Reader, put_string};
use aws_lc_rs::digest::{SHA256, SHA512, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;

/// The longest armored signature that is read, in bytes. One by RSA with 8192 bits has less than 4 KiB.
pub const LONGEST_SIGNATURE: usize = 16 << 10;

const MAGIC: &[u8; 6] = b"SSHSIG";
const VERSION: u32 = 1;
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// The characters on a line, as `ssh-keygen` writes it.
const LINE: usize = 70;

/// A signature. Who made it and what for is known; whether it is one of some text says [`Signature::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    key: PublicKey,
    hash: String,
    reserved: Vec<u8>,
    signature: Vec<u8>,
}

/// Why a signature does not count. It repeats nothing of the file but short names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// It is no signature.
    #[error("not a signature of ssh-keygen")]
    Malformed,
    /// It has a version that is not known.
    #[error("a signature of version {0}, which this program does not know")]
    Version(u32),
    /// It was made for another purpose.
    #[error("a signature in the namespace {0}, not in phalanx")]
    Namespace(String),
    /// It names a hash function that is not accepted.
    #[error("a signature with the hash function {0}, which is not accepted")]
    Hash(String),
    /// Its key cannot be used.
    #[error("a signature that does not count: {0}")]
    Key(#[from] NotAKey),
    /// It is of a kind that its key does not make, or that is not accepted.
    #[error("a signature of a kind that is not accepted")]
    Kind,
    /// It is one of another text.
    #[error("a signature of something else")]
    Other,
}

impl Signature {
    /// Reads an armored signature in the namespace of Phalanx.
    ///
    /// # Errors
    /// [`SignatureError`] if it is no signature, or one that never counts.
    pub fn read(armored: &[u8]) -> Result<Self, SignatureError> {
        let bytes = disarmor(armored).ok_or(SignatureError::Malformed)?;
        let mut fields = Reader::new(&bytes);
        if fields.take(MAGIC.len()) != Some(MAGIC) {
            return Err(SignatureError::Malformed);
        }
        match fields.u32() {
            Some(VERSION) => {}
            Some(version) => return Err(SignatureError::Version(version)),
            None => return Err(SignatureError::Malformed),
        }
        let mut string = || fields.string().ok_or(SignatureError::Malformed);
        let (key, namespace, reserved, hash, signature) = (string()?, string()?, string()?, string()?, string()?);
        fields.end().ok_or(SignatureError::Malformed)?;
        if namespace != NAMESPACE.as_bytes() {
            return Err(SignatureError::Namespace(short(namespace)));
        }
        if hash_of(hash, b"").is_none() {
            return Err(SignatureError::Hash(short(hash)));
        }
        let key = PublicKey::read(key)?;
        Ok(Self { key, hash: short(hash), reserved: reserved.to_vec(), signature: signature.to_vec() })
    }

    /// A signature that a key has just made of [`Signature::data`].
    pub(super) fn new(key: PublicKey, signature: Vec<u8>) -> Self {
        Self { key, hash: "sha512".into(), reserved: Vec::new(), signature }
    }

    /// What a key signs that is to make a signature of a text.
    pub(super) fn data(text: &str) -> Vec<u8> {
        data(&[], "sha512", digest(&SHA512, text.as_bytes()).as_ref())
    }

    /// The key that has made it, if it is a signature of some text.
    #[must_use]
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// Whether its key, if it is in hardware, was touched to make it. Like all else, that is true only if [`Signature::check`] is.
    #[must_use]
    pub fn was_touched(&self) -> bool {
        self.key.was_touched(&self.signature)
    }

    /// Checks that its key has signed this text.
    ///
    /// # Errors
    /// [`SignatureError::Other`] if it has not, [`SignatureError::Kind`] if the signature cannot be checked.
    pub fn check(&self, text: &str) -> Result<(), SignatureError> {
        let hash = hash_of(self.hash.as_bytes(), text.as_bytes()).ok_or(SignatureError::Kind)?;
        match self.key.verifies(&data(&self.reserved, &self.hash, &hash), &self.signature) {
            Some(true) => Ok(()),
            Some(false) => Err(SignatureError::Other),
            None => Err(SignatureError::Kind),
        }
    }

    /// Its text, as `ssh-keygen` writes and reads it.
    #[must_use]
    pub fn armored(&self) -> String {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_be_bytes());
        for field in [self.key.blob(), NAMESPACE.as_bytes(), &self.reserved, self.hash.as_bytes(), &self.signature] {
            put_string(&mut bytes, field);
        }
        let (encoded, mut text) = (STANDARD.encode(bytes), format!("{BEGIN}\n"));
        for line in encoded.as_bytes().chunks(LINE) {
            let _ = writeln!(text, "{}", String::from_utf8_lossy(line));
        }
        text + END + "\n"
    }
}

/// The bytes that are signed. They begin with a word, so that they are never a message of another protocol.
fn data(reserved: &[u8], hash: &str, digest: &[u8]) -> Vec<u8> {
    let mut data = MAGIC.to_vec();
    for field in [NAMESPACE.as_bytes(), reserved, hash.as_bytes(), digest] {
        put_string(&mut data, field);
    }
    data
}

fn hash_of(name: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let algorithm = match name {
        b"sha512" => &SHA512,
        b"sha256" => &SHA256,
        _ => return None,
    };
    Some(digest(algorithm, text).as_ref().to_vec())
}

/// What is between the two lines of the armor. Like `ssh-keygen`, it does not mind how long lines are.
fn disarmor(armored: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(armored).ok().filter(|text| text.len() <= LONGEST_SIGNATURE)?;
    let (body, after) = text.strip_prefix(BEGIN)?.split_once(END)?;
    if !after.trim().is_empty() {
        return None;
    }
    let body: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(body).ok()
}

/// A name that somebody else has written, for a line of a message.
fn short(name: &[u8]) -> String {
    const LONGEST: usize = 64;
    String::from_utf8_lossy(name).chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}
