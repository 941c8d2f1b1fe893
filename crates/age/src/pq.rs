//! Post-quantum keys of age: `age1pq1…` and `AGE-SECRET-KEY-PQ-1…`.
//!
//! A stanza of the type `mlkem768x25519` has the key of the age file, encrypted by HPKE (RFC 9180, section 5.1.1) with
//! HKDF-SHA256 and ChaCha20-Poly1305. The key encapsulation is MLKEM768-X25519 of draft-ietf-hpke-pq, which is X-Wing. Who
//! breaks only one of its two halves learns nothing. Source: the age format, <https://c2sp.org/age>.

mod kem;

use age::{DecryptError, EncryptError};
use age_core::format::{FILE_KEY_BYTES, FileKey, Stanza};
use age_core::primitives::{bech32_decode, bech32_encode, hpke_open, hpke_seal};
use age_core::secrecy::ExposeSecret;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use hpke::{Deserializable, Kem as _, Serializable};
use kem::{EncappedKey, MlKem768X25519, PrivateKey, PublicKey};
use rand_core::{OsRng, RngCore};
use std::collections::HashSet;
use std::io;
use zeroize::Zeroizing;

/// The type of the stanzas.
pub const KIND: &str = "mlkem768x25519";
/// What an identity's text begins with.
pub const IDENTITY: &str = "AGE-SECRET-KEY-PQ-1";

const PRIVATE: bech32::Hrp = bech32::Hrp::parse_unchecked("age-secret-key-pq-");
const RECIPIENT: bech32::Hrp = bech32::Hrp::parse_unchecked("age1pq");
const INFO: &[u8] = b"age-encryption.org/mlkem768x25519";
/// Recipients of one file have the same labels, so that none makes another one useless.
const LABEL: &str = "postquantum";
/// The length of the authentication tag.
const TAG: usize = 16;

/// A public key.
#[derive(Clone, Debug)]
pub struct Recipient(PublicKey);

/// A private key.
pub struct Identity(PrivateKey);

impl Recipient {
    /// Reads `age1pq1…`, whose characters were checked before.
    pub fn parse(text: &str) -> Option<Self> {
        let read = |bytes: &[u8]| PublicKey::from_bytes(bytes).map(Self).map_err(drop);
        bech32_decode(text, |_| (), |_| Ok(()), |_, bytes| read(&bytes.collect::<Vec<_>>())).ok()
    }

    /// Its text.
    pub fn text(&self) -> String {
        bech32_encode(RECIPIENT, &self.0.to_bytes())
    }
}

impl age::Recipient for Recipient {
    fn wrap_file_key(&self, file_key: &FileKey) -> Result<(Vec<Stanza>, HashSet<String>), EncryptError> {
        let (enc, body) = hpke_seal::<MlKem768X25519, _>(&self.0, INFO, file_key.expose_secret(), &mut OsRng);
        let args = vec![BASE64_STANDARD_NO_PAD.encode(enc.to_bytes())];
        Ok((vec![Stanza { tag: KIND.to_owned(), args, body }], [LABEL.to_owned()].into()))
    }
}

impl Identity {
    /// Reads `AGE-SECRET-KEY-PQ-1…`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_own = text.starts_with(IDENTITY);
        let read = |bytes: &[u8]| PrivateKey::from_bytes(bytes).map(Self).map_err(drop);
        let secret = |bytes: &mut dyn Iterator<Item = u8>| {
            // A vector that grows would leave copies behind.
            let mut found = Zeroizing::new(Vec::with_capacity(text.len()));
            found.extend(bytes);
            found
        };
        let found = is_own.then(|| bech32_decode(text, |_| (), |_| Ok(()), |_, mut bytes| read(&secret(&mut bytes))));
        // A key has one text: no other prefix, and no other bits after the last byte.
        found?.ok().filter(|key: &Self| *key.text() == text)
    }

    /// Makes a new one.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn generate() -> io::Result<Self> {
        let mut seed = Zeroizing::new([0; 32]);
        OsRng.try_fill_bytes(&mut seed[..]).map_err(io::Error::other)?;
        PrivateKey::from_bytes(&seed[..]).map(Self).map_err(|e| io::Error::other(e.to_string()))
    }

    /// Its text.
    pub fn text(&self) -> Zeroizing<String> {
        let mut seed = Zeroizing::new([0; 32]);
        self.0.write_exact(&mut seed[..]);
        let mut text = Zeroizing::new(bech32_encode(PRIVATE, &seed[..]));
        text.make_ascii_uppercase();
        text
    }

    /// Its public key.
    pub fn to_public(&self) -> Recipient {
        Recipient(MlKem768X25519::sk_to_pk(&self.0))
    }

    fn open(&self, stanza: &Stanza) -> Result<FileKey, DecryptError> {
        let [enc] = &stanza.args[..] else { return Err(DecryptError::InvalidHeader) };
        let enc = BASE64_STANDARD_NO_PAD.decode(enc).map_err(|_| DecryptError::InvalidHeader)?;
        let enc = EncappedKey::from_bytes(&enc).map_err(|_| DecryptError::InvalidHeader)?;
        if stanza.body.len() != FILE_KEY_BYTES + TAG {
            return Err(DecryptError::InvalidHeader);
        }
        let opened = hpke_open::<MlKem768X25519>(&enc, &self.0, INFO, &stanza.body).map_err(|e| match e {
            hpke::HpkeError::OpenError => DecryptError::DecryptionFailed,
            _ => DecryptError::InvalidHeader,
        })?;
        let opened = Zeroizing::new(opened);
        Ok(FileKey::init_with_mut(|key| key.copy_from_slice(&opened)))
    }
}

impl age::Identity for Identity {
    fn unwrap_stanza(&self, stanza: &Stanza) -> Option<Result<FileKey, DecryptError>> {
        if stanza.tag != KIND {
            return None;
        }
        match self.open(stanza) {
            // It is for another key.
            Err(DecryptError::DecryptionFailed) => None,
            done => Some(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_keys_are_read() {
        let public = include_str!("../tests/data/pq.pub").trim();
        let text = include_str!("../tests/data/pq.txt").lines().last().unwrap();
        let key = Identity::parse(text).unwrap();
        assert_eq!(key.to_public().text(), public);
        assert_eq!(Recipient::parse(public).unwrap().text(), public);
        assert_eq!(*key.text(), text);
        let new = Identity::generate().unwrap();
        assert_eq!(Identity::parse(&new.text()).unwrap().to_public().text(), new.to_public().text());
        assert_ne!(new.to_public().text(), public);
        for wrong in [&text[..text.len() - 1], &text.to_lowercase(), &text.replace("-PQ-", "-"), ""] {
            assert!(Identity::parse(wrong).is_none(), "{wrong}");
        }
        let mut bytes = key.to_public().0.to_bytes();
        assert!(PublicKey::from_bytes(&bytes[1..]).is_err());
        // Twelve bits of one: more than the modulus.
        bytes[0] = 255;
        bytes[1] |= 15;
        assert!(PublicKey::from_bytes(&bytes).is_err());
        // Points of low order: RFC 7748, section 6.1, and numbers beyond the modulus.
        let ends = [(0, 0), (1, 0), (0xec, 0x7f), (0xed, 0x7f), (0xee, 0x7f)];
        let orders = ends.map(|(first, last)| {
            let mut point = [if last == 0 { 0 } else { 255 }; 32];
            (point[0], point[31]) = (first, last);
            point
        });
        let eight = "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800";
        let eight: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&eight[2 * at..2 * at + 2], 16).unwrap()).collect();
        for point in orders.iter().map(|point| &point[..]).chain([&eight[..]]) {
            let mut bytes = key.to_public().0.to_bytes();
            bytes[1184..].copy_from_slice(point);
            assert!(PublicKey::from_bytes(&bytes).is_err(), "{point:?}");
        }
    }

    #[test]
    fn a_private_key_has_one_text() {
        let key = Identity::generate().unwrap();
        let mut seed = key.0.to_bytes().to_vec();
        let other = bech32::Hrp::parse_unchecked("age-secret-key-pq-1x");
        assert!(Identity::parse(&bech32_encode(other, &seed).to_ascii_uppercase()).is_none());
        seed.push(0x80);
        assert!(Identity::parse(&bech32_encode(PRIVATE, &seed).to_ascii_uppercase()).is_none());
        let text = key.text();
        let (data, _) = text.split_at(text.len() - 6);
        let alphabet = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";
        let again = &data[..data.len() - 1];
        let accepted = (0..32).filter(|value| {
            let data: String = format!("{again}{}", &alphabet[*value..=*value]);
            Identity::parse(&with_checksum(&data)).is_some()
        });
        // The last of 52 characters has one bit of the key, and four that are zero.
        assert_eq!(accepted.collect::<Vec<_>>(), [0, 16]);
    }

    /// The text in capital letters with the six characters that Bech32 (BIP 173) adds.
    fn with_checksum(text: &str) -> String {
        const ALPHABET: &[u8] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
        let lower = text.to_ascii_lowercase();
        let (hrp, data) = lower.rsplit_once('1').unwrap();
        let values = data.bytes().map(|byte| ALPHABET.iter().position(|one| *one == byte).unwrap() as u32);
        let high = hrp.bytes().map(|byte| u32::from(byte >> 5));
        let low = hrp.bytes().map(|byte| u32::from(byte & 31));
        let all = high.chain([0]).chain(low).chain(values).chain([0; 6]);
        let sum = all.fold(1u32, |sum, value| {
            let top = sum >> 25;
            let generators = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
            let next = (sum & 0x1ff_ffff) << 5 ^ value;
            (0..5).filter(|bit| top >> bit & 1 == 1).fold(next, |next, bit| next ^ generators[bit])
        }) ^ 1;
        let sum: String = (0..6).map(|at| ALPHABET[(sum >> (5 * (5 - at)) & 31) as usize] as char).collect();
        format!("{lower}{sum}").to_ascii_uppercase()
    }

    #[test]
    fn nothing_is_sealed_twice_in_the_same_way() {
        let public = Identity::generate().unwrap().to_public();
        let [one, two] = [(); 2].map(|()| {
            let (stanzas, _) = age::Recipient::wrap_file_key(&public, &FileKey::new(Box::new([7; 16]))).unwrap();
            BASE64_STANDARD_NO_PAD.decode(&stanzas[0].args[0]).unwrap()
        });
        assert!(one.len() == 1120 && one[..1088] != two[..1088] && one[1088..] != two[1088..]);
    }
}
