//! Keys that sign: private keys in files of OpenSSH, and keys that an agent holds.

use super::agent::Agent;
use super::error::KeyError;
use super::private::{self, is_padding};
use super::public::{CURVES, Curve, NotAKey, PublicKey, padded};
use super::sshsig::Signature;
use super::wire::{Reader, put_number, put_string};
use crate::user::User;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPairComponents, PublicKeyComponents};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair,
    Ed25519KeyPair, RSA_PKCS1_SHA512, RsaKeyPair,
};
use rsa::BigUint;
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// A key that makes signatures.
pub struct SigningKey {
    public: PublicKey,
    holder: Holder,
}

/// Who holds the private key.
enum Holder {
    Ed25519(Box<Ed25519KeyPair>),
    Ecdsa(Curve, Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
    Agent(Agent),
}

impl SigningKey {
    /// Reads a private key of OpenSSH, for which `user` is asked for a passphrase if it has one, or a public key whose private
    /// half an agent holds. `label` names the file to the user.
    ///
    /// # Errors
    /// [`KeyError`] if the key cannot sign.
    pub fn read(label: &str, text: &[u8], user: &dyn User, agent: Option<Agent>) -> Result<Self, KeyError> {
        if text.starts_with(private::BEGIN.as_bytes()) {
            return Self::of_file(label, text, user);
        }
        if text.starts_with(b"-----BEGIN") {
            return Err(KeyError::Old);
        }
        let text = str::from_utf8(text).map_err(|_| KeyError::None)?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (Some(line), None) = (lines.next(), lines.next()) else { return Err(KeyError::None) };
        let (public, _) = PublicKey::parse(line).map_err(|e| match e {
            NotAKey::Malformed => KeyError::None,
            e => e.into(),
        })?;
        let agent =
            agent.ok_or_else(|| KeyError::Agent("a public key, and there is no ssh-agent to sign by it".into()))?;
        match agent.holds(&public).map_err(KeyError::Agent)? {
            true => Ok(Self { public, holder: Holder::Agent(agent) }),
            false => Err(KeyError::Agent("the ssh-agent does not hold its private key".into())),
        }
    }

    fn of_file(label: &str, text: &[u8], user: &dyn User) -> Result<Self, KeyError> {
        let private = private::open(label, text, user)?;
        let mut fields = Reader::new(&private);
        let kind = fields.text().ok_or(KeyError::Damaged)?;
        let mut blob = Vec::new();
        put_string(&mut blob, kind.as_bytes());
        let holder = match kind {
            "ssh-ed25519" => ed25519(&mut fields, &mut blob).map(|key| Holder::Ed25519(Box::new(key))),
            "ssh-rsa" => {
                let (n, e) = fields.number().zip(fields.number()).ok_or(KeyError::Damaged)?;
                put_number(&mut blob, e);
                put_number(&mut blob, n);
                // What is too short is said before the library refuses it.
                PublicKey::read(&blob)?;
                rsa(n, e, &mut fields).map(|key| Holder::Rsa(Box::new(key)))
            }
            kind if kind.starts_with("sk-") => return Err(KeyError::Hardware),
            kind => match CURVES.into_iter().find(|curve| curve.kind == kind) {
                Some(curve) => ecdsa(curve, &mut fields, &mut blob).map(|key| Holder::Ecdsa(curve, Box::new(key))),
                None => {
                    return Err(NotAKey::Kind(kind.chars().filter(char::is_ascii_graphic).take(64).collect()).into());
                }
            },
        };
        let holder = holder.filter(|_| fields.string().is_some() && is_padding(fields.rest()));
        Ok(Self { public: PublicKey::read(&blob)?, holder: holder.ok_or(KeyError::Damaged)? })
    }

    /// Its public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Makes a signature of a text, and checks it.
    ///
    /// # Errors
    /// [`KeyError::Agent`] if the agent does not sign, [`KeyError::Invalid`] if the signature is not valid.
    pub fn sign(&self, text: &str) -> Result<Signature, KeyError> {
        let data = Signature::data(text);
        let mut bytes = Vec::new();
        let random = SystemRandom::new();
        match &self.holder {
            Holder::Ed25519(key) => {
                put_string(&mut bytes, b"ssh-ed25519");
                put_string(&mut bytes, key.sign(&data).as_ref());
            }
            Holder::Ecdsa(curve, key) => {
                let made = key.sign(&random, &data).map_err(|_| KeyError::Damaged)?;
                let (r, s) = made.as_ref().split_at(curve.bytes);
                let mut numbers = Vec::new();
                put_number(&mut numbers, r);
                put_number(&mut numbers, s);
                put_string(&mut bytes, curve.kind.as_bytes());
                put_string(&mut bytes, &numbers);
            }
            Holder::Rsa(key) => {
                let mut made = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA512, &random, &data, &mut made).map_err(|_| KeyError::Damaged)?;
                put_string(&mut bytes, b"rsa-sha2-512");
                put_string(&mut bytes, &made);
            }
            Holder::Agent(agent) => bytes = agent.sign(&self.public, &data).map_err(KeyError::Agent)?,
        }
        let signature = Signature::new(self.public.clone(), bytes);
        signature.check(text).map_err(|_| KeyError::Invalid)?;
        Ok(signature)
    }
}

/// Reads the rest of an Ed25519 key, and appends the rest of its public half.
fn ed25519(fields: &mut Reader<'_>, blob: &mut Vec<u8>) -> Option<Ed25519KeyPair> {
    let (public, private) = (fields.string()?, fields.string()?);
    put_string(blob, public);
    let seed = private.strip_suffix(public).filter(|seed| seed.len() == 32)?;
    Ed25519KeyPair::from_seed_and_public_key(seed, public).ok()
}

/// Reads the rest of a key on a curve, and appends the rest of its public half.
fn ecdsa(curve: Curve, fields: &mut Reader<'_>, blob: &mut Vec<u8>) -> Option<EcdsaKeyPair> {
    let algorithm = match curve.bytes {
        32 => &ECDSA_P256_SHA256_FIXED_SIGNING,
        48 => &ECDSA_P384_SHA384_FIXED_SIGNING,
        _ => &ECDSA_P521_SHA512_FIXED_SIGNING,
    };
    let (name, point) = (fields.string()?, fields.string()?);
    put_string(blob, name);
    put_string(blob, point);
    let private = Zeroizing::new(padded(fields.number()?, curve.bytes)?);
    EcdsaKeyPair::from_private_key_and_public_key(algorithm, &private, point).ok()
}

/// Reads the rest of an RSA key. Files of OpenSSH lack two numbers that AWS-LC needs: the exponent modulo each prime less one.
fn rsa(n: &[u8], e: &[u8], fields: &mut Reader<'_>) -> Option<RsaKeyPair> {
    let (d, inverse, p, q) = (fields.number()?, fields.number()?, fields.number()?, fields.number()?);
    // Of a key they are not. Long ones would be divided for seconds.
    if [d, p, q].iter().any(|number| number.len() > n.len()) {
        return None;
    }
    let exponent = |prime: &[u8]| {
        let (mut less_one, mut whole) = (BigUint::from_bytes_be(prime), BigUint::from_bytes_be(d));
        if less_one.bits() < 2 {
            return None;
        }
        less_one -= 1u32;
        let mut rest = &whole % &less_one;
        let exponent = Zeroizing::new(rest.to_bytes_be());
        [&mut less_one, &mut whole, &mut rest].into_iter().for_each(Zeroize::zeroize);
        Some(exponent)
    };
    let (first, second) = (exponent(p)?, exponent(q)?);
    let public_key = PublicKeyComponents { n, e };
    RsaKeyPair::from_components(&KeyPairComponents { public_key, d, p, q, dP: &first, dQ: &second, qInv: inverse }).ok()
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.fingerprint())
    }
}
