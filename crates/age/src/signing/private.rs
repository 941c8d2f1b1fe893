//! Files of private keys, as OpenSSH's `PROTOCOL.key` specifies them. The key inside is for `key` to read.
//!
//! The crate `ssh-key` reads these files too, but refuses about half of all keys on the curve P-521, whose numbers it expects to have
//! their full length, and every key whose lines are not as long as it likes.

use super::error::{KeyError, MOST_ROUNDS};
use super::wire::Reader;
use crate::user::User;
use aws_lc_rs::cipher::{AES_128, AES_192, AES_256, Algorithm, DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

pub const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8; 15] = b"openssh-key-v1\0";
/// The length of a block of AES, and of what begins its modes.
const BLOCK: usize = 16;

/// The private part of a file: the key, its comment, and padding. A passphrase is asked for if it is locked by one.
pub fn open(label: &str, text: &[u8], user: &dyn User) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let bytes = disarmor(text).ok_or(KeyError::None)?;
    let mut fields = Reader::new(&bytes);
    let mut parts = || {
        fields.take(MAGIC.len()).filter(|magic| magic == MAGIC)?;
        let (cipher, derivation, options) = (fields.text()?, fields.text()?, fields.string()?);
        let (number, _public) = (fields.u32()?, fields.string()?);
        let private = fields.string().filter(|_| number == 1)?;
        Some((cipher, derivation, options, private))
    };
    let (cipher, derivation, options, private) = parts().ok_or(KeyError::None)?;
    let mut private = Zeroizing::new(private.to_vec());
    if cipher == "none" {
        return checked(private).ok_or(KeyError::Damaged);
    }
    let (algorithm, key_len, is_ctr) = match cipher {
        "aes256-ctr" => (&AES_256, 32, true),
        "aes192-ctr" => (&AES_192, 24, true),
        "aes128-ctr" => (&AES_128, 16, true),
        "aes256-cbc" => (&AES_256, 32, false),
        "aes192-cbc" => (&AES_192, 24, false),
        "aes128-cbc" => (&AES_128, 16, false),
        _ => return Err(KeyError::Cipher),
    };
    let mut options = Reader::new(options);
    let (salt, rounds) = options.string().zip(options.u32()).ok_or(KeyError::None)?;
    if derivation != "bcrypt" || private.is_empty() || !private.len().is_multiple_of(BLOCK) {
        return Err(KeyError::None);
    }
    if rounds > MOST_ROUNDS {
        return Err(KeyError::Rounds);
    }
    let passphrase = user.secret(&format!("Passphrase of {label}: ")).ok_or(KeyError::Nobody)?;
    let mut derived = Zeroizing::new(vec![0; key_len + BLOCK]);
    bcrypt_pbkdf::bcrypt_pbkdf(passphrase.as_bytes(), salt, rounds, &mut derived).map_err(|_| KeyError::Passphrase)?;
    let (key, iv) = derived.split_at(key_len);
    decrypt(algorithm, is_ctr, key, iv, &mut private).ok_or(KeyError::Passphrase)?;
    checked(private).ok_or(KeyError::Passphrase)
}

fn decrypt(algorithm: &'static Algorithm, is_ctr: bool, key: &[u8], iv: &[u8], bytes: &mut [u8]) -> Option<()> {
    let key = UnboundCipherKey::new(algorithm, key).ok()?;
    let key = if is_ctr { DecryptingKey::ctr(key) } else { DecryptingKey::cbc(key) }.ok()?;
    let context = DecryptionContext::Iv128(FixedLength::try_from(iv).ok()?);
    key.decrypt(bytes, context).ok().map(drop)
}

/// What follows the two numbers that begin it. These are the same, but under a wrong passphrase.
fn checked(mut private: Zeroizing<Vec<u8>>) -> Option<Zeroizing<Vec<u8>>> {
    let mut fields = Reader::new(&private);
    if fields.u32()? != fields.u32()? {
        return None;
    }
    private.drain(..8);
    Some(private)
}

/// How many rounds of bcrypt the passphrase of a key takes, if it has one. What follows the key does not matter.
pub fn rounds(text: &str) -> Option<u32> {
    let (body, _) = text.strip_prefix(BEGIN)?.split_once(END)?;
    let bytes = decoded(body)?;
    let mut fields = Reader::new(&bytes);
    fields.take(MAGIC.len()).filter(|magic| magic == MAGIC)?;
    let (_cipher, derivation, options) = (fields.string()?, fields.string()?, fields.string()?);
    let mut options = Reader::new(options);
    options.string()?;
    options.u32().filter(|_| derivation == b"bcrypt")
}

/// The bytes of the armor.
fn disarmor(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let text = str::from_utf8(text).ok()?;
    let (body, after) = text.strip_prefix(BEGIN)?.split_once(END)?;
    after.trim().is_empty().then(|| decoded(body))?
}

/// The bytes of Base64 in lines.
fn decoded(body: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut chars = Zeroizing::new(Vec::with_capacity(body.len()));
    chars.extend(body.bytes().filter(|byte| !byte.is_ascii_whitespace()));
    let mut bytes = Zeroizing::new(vec![0; chars.len()]);
    let len = Base64::decode(&chars, &mut bytes).ok()?.len();
    bytes.truncate(len);
    Some(bytes)
}

/// Whether what is left behind the comment is the padding of a private part: 1, 2, 3 and so on, less than a block.
pub fn is_padding(rest: &[u8]) -> bool {
    rest.len() < BLOCK && rest.iter().zip(1..).all(|(byte, number)| *byte == number)
}
