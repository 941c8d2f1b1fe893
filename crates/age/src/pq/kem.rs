//! MLKEM768-X25519, also called X-Wing: a key encapsulation of two halves, ML-KEM-768 (FIPS 203) and X25519 (RFC 7748).
//! Source: draft-ietf-hpke-pq, section 4, and draft-connolly-cfrg-xwing-kem.

use crate::point::is_useful;
use hpke::generic_array::GenericArray;
use hpke::generic_array::typenum::{Sum, U32, U96, U192, U1024, Unsigned};
use hpke::kem::SharedSecret;
use hpke::{Deserializable, HpkeError, Serializable};
use ml_kem::kem::{Decapsulate, Encapsulate};
use ml_kem::{B32, EncodedSizeUser, KemCore, MlKem768};
use rand_core::{CryptoRng, RngCore};
use sha3_0_10::digest::{ExtendableOutput, FixedOutput, Update, XofReader};
use sha3_0_10::{Sha3_256, Shake256};
use x25519_dalek::{EphemeralSecret, StaticSecret};
use zeroize::{Zeroize, Zeroizing};

/// The bytes of ML-KEM's public key, and of what it encapsulates. Those of X25519 follow.
const KEY: usize = 1184;
const CIPHERTEXT: usize = 1088;
/// Makes this use of SHA3-256 different from others.
const LABEL: &[u8] = br"\.//^\";

type Encapsulation = <MlKem768 as KemCore>::EncapsulationKey;
type Decapsulation = <MlKem768 as KemCore>::DecapsulationKey;

/// The key encapsulation.
pub struct MlKem768X25519;

/// A public key.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicKey {
    mlkem: Encapsulation,
    x25519: x25519_dalek::PublicKey,
}

/// A private key: a seed of 32 bytes, from which both halves come.
#[derive(Clone)]
pub struct PrivateKey(Zeroizing<[u8; 32]>);

/// A shared secret, encapsulated.
#[derive(Clone)]
pub struct EncappedKey([u8; 1120]);

impl PrivateKey {
    /// The two halves.
    fn expand(&self) -> (Decapsulation, StaticSecret) {
        let (mut d, mut z, mut x25519) = (B32::default(), B32::default(), Zeroizing::new([0; 32]));
        let mut bytes = Shake256::default().chain(&self.0[..]).finalize_xof();
        for part in [&mut d[..], &mut z[..], &mut x25519[..]] {
            bytes.read(part);
        }
        let (mlkem, _) = MlKem768::generate_deterministic(&d, &z);
        [d, z].iter_mut().for_each(|part| part[..].zeroize());
        (mlkem, StaticSecret::from(*x25519))
    }
}

/// The shared secret of those of both halves, and of what the second one depends on.
fn combined(mlkem: &[u8], x25519: &[u8], share: &[u8], key: &[u8]) -> SharedSecret<MlKem768X25519> {
    let hash = Sha3_256::default().chain(mlkem).chain(x25519).chain(share).chain(key).chain(LABEL);
    let mut secret = SharedSecret(GenericArray::default());
    hash.finalize_into(&mut secret.0);
    secret
}

impl hpke::Kem for MlKem768X25519 {
    type PublicKey = PublicKey;
    type PrivateKey = PrivateKey;
    type EncappedKey = EncappedKey;
    type NSecret = U32;

    const KEM_ID: u16 = 0x647a;

    fn sk_to_pk(key: &PrivateKey) -> PublicKey {
        let (mlkem, x25519) = key.expand();
        PublicKey { mlkem: mlkem.encapsulation_key().clone(), x25519: (&x25519).into() }
    }

    /// Makes a key of 32 bytes, which must be secret and random. Age has no other seeds.
    fn derive_keypair(seed: &[u8]) -> (PrivateKey, PublicKey) {
        let key = PrivateKey::from_bytes(seed).expect("a seed has 32 bytes");
        let public = Self::sk_to_pk(&key);
        (key, public)
    }

    fn decap(
        key: &PrivateKey,
        sender: Option<&PublicKey>,
        sent: &EncappedKey,
    ) -> Result<SharedSecret<Self>, HpkeError> {
        let (ciphertext, share) = sent.0.split_at(CIPHERTEXT);
        let share = <[u8; 32]>::try_from(share).map_err(|_| HpkeError::DecapError)?;
        let ciphertext = <[u8; CIPHERTEXT]>::try_from(ciphertext).map_err(|_| HpkeError::DecapError)?.into();
        let (mlkem, x25519) = key.expand();
        let mut first = mlkem.decapsulate(&ciphertext).map_err(|()| HpkeError::DecapError)?;
        let second = x25519.diffie_hellman(&share.into());
        // Nobody may claim to be a sender here, and a share of low order makes a secret that everybody knows.
        let is_secret = sender.is_none() && second.was_contributory();
        let own = x25519_dalek::PublicKey::from(&x25519);
        let secret = combined(&first, second.as_bytes(), &share, own.as_bytes());
        first[..].zeroize();
        if is_secret { Ok(secret) } else { Err(HpkeError::DecapError) }
    }

    fn encap<R: CryptoRng + RngCore>(
        key: &PublicKey,
        sender: Option<(&PrivateKey, &PublicKey)>,
        random: &mut R,
    ) -> Result<(SharedSecret<Self>, EncappedKey), HpkeError> {
        let (ciphertext, mut first) = key.mlkem.encapsulate(random).map_err(|()| HpkeError::EncapError)?;
        let ephemeral = EphemeralSecret::random_from_rng(random);
        let share = x25519_dalek::PublicKey::from(&ephemeral);
        let second = ephemeral.diffie_hellman(&key.x25519);
        let is_secret = sender.is_none() && second.was_contributory();
        let secret = combined(&first, second.as_bytes(), share.as_bytes(), key.x25519.as_bytes());
        first[..].zeroize();
        if !is_secret {
            return Err(HpkeError::EncapError);
        }
        let mut sent = [0; 1120];
        sent[..CIPHERTEXT].copy_from_slice(&ciphertext);
        sent[CIPHERTEXT..].copy_from_slice(share.as_bytes());
        Ok((secret, EncappedKey(sent)))
    }
}

fn wrong_length<T: Serializable>(bytes: &[u8]) -> HpkeError {
    HpkeError::IncorrectInputLength(T::OutputSize::to_usize(), bytes.len())
}

impl Deserializable for PublicKey {
    fn from_bytes(bytes: &[u8]) -> Result<Self, HpkeError> {
        let (mlkem, x25519) = bytes.split_at_checked(KEY).ok_or_else(|| wrong_length::<Self>(bytes))?;
        let x25519 = <[u8; 32]>::try_from(x25519).map_err(|_| wrong_length::<Self>(bytes))?;
        let encoded = <[u8; KEY]>::try_from(mlkem).map_err(|_| wrong_length::<Self>(bytes))?;
        let mlkem = Encapsulation::from_bytes(&encoded.into());
        // FIPS 203, section 7.2: numbers that are not reduced are refused. RFC 7748, section 6.1: so is a point of low order.
        match mlkem.as_bytes()[..] == encoded && is_useful(x25519) {
            true => Ok(Self { mlkem, x25519: x25519.into() }),
            false => Err(HpkeError::ValidationError),
        }
    }
}

impl Serializable for PublicKey {
    type OutputSize = Sum<U1024, U192>;

    fn write_exact(&self, out: &mut [u8]) {
        out[..KEY].copy_from_slice(&self.mlkem.as_bytes());
        out[KEY..].copy_from_slice(self.x25519.as_bytes());
    }
}

impl Deserializable for PrivateKey {
    fn from_bytes(bytes: &[u8]) -> Result<Self, HpkeError> {
        let mut seed = Zeroizing::new([0; 32]);
        if bytes.len() != seed.len() {
            return Err(wrong_length::<Self>(bytes));
        }
        seed.copy_from_slice(bytes);
        Ok(Self(seed))
    }
}

impl Serializable for PrivateKey {
    type OutputSize = U32;

    fn write_exact(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0[..]);
    }
}

impl Deserializable for EncappedKey {
    fn from_bytes(bytes: &[u8]) -> Result<Self, HpkeError> {
        bytes.try_into().map(Self).map_err(|_| wrong_length::<Self>(bytes))
    }
}

impl Serializable for EncappedKey {
    type OutputSize = Sum<U1024, U96>;

    fn write_exact(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }
}

impl Eq for PublicKey {}

/// Keys are compared by their public keys: comparing seeds would take a time that depends on them.
impl PartialEq for PrivateKey {
    fn eq(&self, other: &Self) -> bool {
        <MlKem768X25519 as hpke::Kem>::sk_to_pk(self) == <MlKem768X25519 as hpke::Kem>::sk_to_pk(other)
    }
}

impl Eq for PrivateKey {}

#[cfg(test)]
mod tests;
