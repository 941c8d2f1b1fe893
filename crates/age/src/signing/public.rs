//! Public keys of SSH, and what they have signed.

use super::wire::Reader;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use std::fmt;

/// A longer key is none of those that are known: one of RSA with 8192 bits has 1 KiB.
const LONGEST_KEY: usize = 4096;
/// The end of the names of all kinds of certificates.
const CERTIFICATE: &str = "-cert-v01@openssh.com";
/// RSA keys have at least so many bits, and at most those that the library takes.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// A public key of SSH. Two are equal if their bytes are.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    blob: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Ed25519(Vec<u8>),
    Ecdsa(Curve, Vec<u8>),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// One in hardware (FIDO), with its application.
    Hardware(Box<Kind>, Vec<u8>),
}

/// A curve of NIST.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Curve {
    /// The name of its keys and signatures.
    pub kind: &'static str,
    pub name: &'static str,
    /// The bytes of a coordinate.
    pub bytes: usize,
}

const P256: Curve = Curve { kind: "ecdsa-sha2-nistp256", name: "nistp256", bytes: 32 };
pub(super) const CURVES: [Curve; 3] = [
    P256,
    Curve { kind: "ecdsa-sha2-nistp384", name: "nistp384", bytes: 48 },
    Curve { kind: "ecdsa-sha2-nistp521", name: "nistp521", bytes: 66 },
];
const HARDWARE_ED25519: &str = "sk-ssh-ed25519@openssh.com";
const HARDWARE_P256: &str = "sk-ecdsa-sha2-nistp256@openssh.com";

/// Why bytes are not a public key that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAKey {
    /// They are no key at all.
    #[error("not a public key")]
    Malformed,
    /// A certificate.
    #[error("certificates are not supported")]
    Certificate,
    /// A key of another kind.
    #[error("keys of the kind {0} are not supported")]
    Kind(String),
    /// An RSA key that is too short, or longer than anybody needs.
    #[error("RSA keys must have 2048 to 8192 bits")]
    Rsa,
}

impl PublicKey {
    /// Reads a key as messages of SSH have it.
    ///
    /// # Errors
    /// [`NotAKey`] if it is none that can be used.
    pub fn read(blob: &[u8]) -> Result<Self, NotAKey> {
        let mut fields = Reader::new(blob);
        let kind = Some(&mut fields).filter(|_| blob.len() <= LONGEST_KEY).and_then(Reader::text);
        let kind = kind.filter(|kind| !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_graphic()));
        let kind = kind.ok_or(NotAKey::Malformed)?;
        if kind.ends_with(CERTIFICATE) {
            return Err(NotAKey::Certificate);
        }
        let point = |fields: &mut Reader<'_>, curve: Curve| {
            let is_curve = fields.text()? == curve.name;
            let point = fields.string().filter(|point| is_curve && point.len() == 1 + 2 * curve.bytes)?;
            Some(Kind::Ecdsa(curve, point.to_vec()))
        };
        let ed25519 =
            |fields: &mut Reader<'_>| Some(Kind::Ed25519(fields.string().filter(|key| key.len() == 32)?.to_vec()));
        let hardware = |kind: Option<Kind>, fields: &mut Reader<'_>| {
            Some(Kind::Hardware(Box::new(kind?), fields.string()?.to_vec()))
        };
        let key = match kind {
            "ssh-ed25519" => ed25519(&mut fields),
            "ssh-rsa" => {
                let (e, n) = (fields.number(), fields.number());
                e.zip(n).map(|(e, n)| Kind::Rsa { n: n.to_vec(), e: e.to_vec() })
            }
            HARDWARE_ED25519 => hardware(ed25519(&mut fields), &mut fields),
            HARDWARE_P256 => hardware(point(&mut fields, P256), &mut fields),
            _ => match CURVES.into_iter().find(|curve| curve.kind == kind) {
                Some(curve) => point(&mut fields, curve),
                None => return Err(NotAKey::Kind(kind.chars().take(64).collect())),
            },
        };
        let key = key.filter(|_| fields.end().is_some()).ok_or(NotAKey::Malformed)?;
        if let Kind::Rsa { n, .. } = &key {
            let bits = n.len() * 8 - n[0].leading_zeros() as usize;
            if !RSA_BITS.contains(&bits) {
                return Err(NotAKey::Rsa);
            }
        }
        Ok(Self { blob: blob.to_vec(), kind: key })
    }

    /// Reads the text of a key: its kind, and its bytes in Base64. Returns what follows on the line too.
    ///
    /// # Errors
    /// [`NotAKey`] if the text does not begin with a key that can be used.
    pub fn parse(text: &str) -> Result<(Self, &str), NotAKey> {
        let split = |text: &str| -> Option<(usize, usize)> {
            let kind = text.find([' ', '\t'])?;
            let start = kind + text[kind..].find(|c| c != ' ' && c != '\t')?;
            Some((kind, start))
        };
        let (kind, start) = split(text).ok_or(NotAKey::Malformed)?;
        let end = text[start..].find([' ', '\t']).map_or(text.len(), |len| start + len);
        let blob = STANDARD.decode(&text[start..end]).map_err(|_| NotAKey::Malformed)?;
        if Reader::new(&blob).text() != Some(&text[..kind]) {
            return Err(NotAKey::Malformed);
        }
        Ok((Self::read(&blob)?, text[end..].trim()))
    }

    /// Its bytes.
    #[must_use]
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// How `ssh-keygen -l` names it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", STANDARD_NO_PAD.encode(digest(&SHA256, &self.blob)))
    }

    /// Whether it is one of RSA.
    pub(super) fn is_rsa(&self) -> bool {
        matches!(self.kind, Kind::Rsa { .. })
    }

    /// Whether somebody was there when a signature was made: a key in hardware says whether it was touched. Others do not know.
    pub(super) fn was_touched(&self, signature: &[u8]) -> bool {
        let flags = || {
            let mut fields = Reader::new(signature);
            fields.string()?;
            fields.string()?;
            Some(fields.take(1)?[0])
        };
        !matches!(self.kind, Kind::Hardware(..)) || flags().is_some_and(|flags| flags & 1 == 1)
    }

    /// Whether it has made this signature of `data`. The signature is one of SSH's messages: its kind, and what follows. `None` if
    /// it is not of a kind that such a key makes, or malformed.
    pub(super) fn verifies(&self, data: &[u8], signature: &[u8]) -> Option<bool> {
        let mut fields = Reader::new(signature);
        let (kind, bytes) = (fields.text()?, fields.string()?);
        let Kind::Hardware(key, application) = &self.kind else {
            fields.end()?;
            return self.kind.verifies(kind, data, bytes);
        };
        // The device signs a digest of the data, behind what it knows itself.
        let after = fields.take(5)?;
        fields.end()?;
        let mut signed = digest(&SHA256, application).as_ref().to_vec();
        signed.extend(after);
        signed.extend(digest(&SHA256, data).as_ref());
        let inner = match kind {
            HARDWARE_ED25519 => "ssh-ed25519",
            HARDWARE_P256 => P256.kind,
            _ => return None,
        };
        key.verifies(inner, &signed, bytes)
    }
}

impl Kind {
    fn verifies(&self, kind: &str, data: &[u8], signature: &[u8]) -> Option<bool> {
        match self {
            Kind::Ed25519(key) if kind == "ssh-ed25519" => {
                Some(UnparsedPublicKey::new(&ED25519, key).verify(data, signature).is_ok())
            }
            Kind::Ecdsa(curve, point) if kind == curve.kind => {
                let mut numbers = Reader::new(signature);
                let (r, s) = (numbers.number()?, numbers.number()?);
                numbers.end()?;
                let fixed = [padded(r, curve.bytes)?, padded(s, curve.bytes)?].concat();
                Some(UnparsedPublicKey::new(curve.algorithm(), point).verify(data, &fixed).is_ok())
            }
            Kind::Rsa { n, e } => {
                let parameters = match kind {
                    "rsa-sha2-512" => &RSA_PKCS1_2048_8192_SHA512,
                    "rsa-sha2-256" => &RSA_PKCS1_2048_8192_SHA256,
                    _ => return None,
                };
                let signature = padded(signature, n.len())?;
                Some(RsaPublicKeyComponents { n, e }.verify(parameters, data, &signature).is_ok())
            }
            _ => None,
        }
    }
}

impl Curve {
    fn algorithm(self) -> &'static EcdsaVerificationAlgorithm {
        match self.bytes {
            32 => &ECDSA_P256_SHA256_FIXED,
            48 => &ECDSA_P384_SHA384_FIXED,
            _ => &ECDSA_P521_SHA512_FIXED,
        }
    }
}

/// A number with so many bytes; `None` if it is longer.
pub(super) fn padded(number: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut padded = vec![0; len.checked_sub(number.len())?];
    padded.extend(number);
    Some(padded)
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}
