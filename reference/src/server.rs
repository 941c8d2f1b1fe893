//! The ciphertexts and the streams of the server, written from `docs/server-format.md`. "§" is a section of that page.

use crate::{Error, array, kmac256, open_message, seal_message};

/// Under what a record is sealed (§1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The secret of the key's version.
    pub secret: [u8; 32],
    /// The name of the key.
    pub name: String,
    /// The number of the version.
    pub version: u32,
    /// The user.
    pub user: Vec<u8>,
    /// The user's salt, if the key is in shreddable mode.
    pub salt: Option<[u8; 32]>,
}

impl Place {
    /// The context (§1).
    pub fn context(&self) -> Vec<u8> {
        let mut context = vec![u8::from(self.salt.is_some()), self.name.len() as u8];
        context.extend(self.name.as_bytes());
        context.extend(self.version.to_le_bytes());
        context.extend((self.user.len() as u32).to_le_bytes());
        context.extend(&self.user);
        context
    }

    /// The key of the user (§1).
    pub fn user_key(&self) -> [u8; 32] {
        let salt = self.salt.map(Vec::from).unwrap_or_default();
        array(&kmac256(&self.secret, &[salt, self.context()].concat(), 256, "phalanx server v1 user key"))
    }

    /// Writes a ciphertext in its binary form (§2).
    ///
    /// # Panics
    /// If the suite is unknown, or the nonce has another length than the suite's.
    pub fn seal(&self, suite: u8, ad: &[u8], nonce: &[u8], text: &[u8]) -> Vec<u8> {
        let message = seal_message(&self.user_key(), suite, &[&self.context(), ad].concat(), nonce, text);
        [&self.version.to_le_bytes()[..], &[suite], &message].concat()
    }

    /// Reads a ciphertext in its binary form (§2). `suite` is that of the key.
    pub fn open(&self, suite: u8, ad: &[u8], ciphertext: &[u8]) -> Result<Vec<u8>, Error> {
        let (version, rest) = ciphertext.split_at_checked(4).ok_or(Error::Altered)?;
        let (number, message) = rest.split_first().ok_or(Error::Altered)?;
        if version != self.version.to_le_bytes() || *number != suite {
            return Err(Error::Altered);
        }
        open_message(&self.user_key(), suite, &[&self.context(), ad].concat(), message)
    }
}

/// The text form of a ciphertext (§2).
pub fn ciphertext_text(ciphertext: &[u8]) -> String {
    let version = u32::from_le_bytes(array(&ciphertext[..4]));
    format!("vault:v{version}:{}", base64(&ciphertext[4..]))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i)) as usize % 64];
            text.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// A record of a request (§3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name of the key.
    pub key: Vec<u8>,
    /// The user.
    pub user: Vec<u8>,
    /// The associated data.
    pub ad: Vec<u8>,
    /// The text, or the ciphertext in its binary form.
    pub text: Vec<u8>,
}

impl Record {
    /// Writes the record (§3).
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((self.key.len() as u16).to_le_bytes());
        bytes.extend((self.user.len() as u16).to_le_bytes());
        bytes.extend((self.ad.len() as u32).to_le_bytes());
        bytes.extend((self.text.len() as u32).to_le_bytes());
        [&bytes, &self.key, &self.user, &self.ad, &self.text].into_iter().flatten().copied().collect()
    }
}

/// Reads a request (§3): its records, and whether it ends behind one of them.
pub fn read_records(mut bytes: &[u8]) -> (Vec<Record>, bool) {
    let mut records = Vec::new();
    while let Some((record, rest)) = read_record(bytes) {
        records.push(record);
        bytes = rest;
    }
    (records, bytes.is_empty())
}

fn read_record(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let (head, mut rest) = bytes.split_at_checked(12)?;
    let lens = [&head[..2], &head[2..4], &head[4..8], &head[8..]];
    let mut parts = lens.iter().map(|len| {
        let len = len.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
        let (part, behind) = rest.split_at_checked(len)?;
        rest = behind;
        Some(part.to_vec())
    });
    let mut next = || parts.next().flatten();
    let record = Record { key: next()?, user: next()?, ad: next()?, text: next()? };
    Some((record, rest))
}

/// Writes an answer (§4).
pub fn write_answer(status: u16, bytes: &[u8]) -> Vec<u8> {
    [&status.to_le_bytes()[..], &[0, 0], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
}
