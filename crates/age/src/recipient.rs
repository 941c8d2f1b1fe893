//! Recipients: public keys, from their text.

use crate::file;
use crate::plugin::{PluginRecipient, Plugins};
use crate::point::is_useful;
use crate::pq;
use age::ssh::ParseRecipientKeyError;
use age_core::primitives::{bech32_decode, bech32_encode};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use phalanx_core::{AgeRecipient, Error, SecretKey};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// The longest text of a recipient, in bytes. Post-quantum ones have about 2000.
const LONGEST: usize = 16384;

/// A public key that files are protected for.
#[derive(Clone)]
pub struct Recipient {
    text: String,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    X25519(age::x25519::Recipient),
    Pq(Box<pq::Recipient>),
    Tag(Box<age::tag::Recipient>),
    TagPq(Box<age::tagpq::Recipient>),
    Ssh(Box<age::ssh::Recipient>),
    Plugin(PluginRecipient),
}

/// Why a text is not a recipient. The error does not repeat the text, which may be a private key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipientError {
    /// It is a private key.
    #[error("this is an identity, which is secret, and not a recipient")]
    Identity,
    /// It does not begin like a recipient.
    #[error("not a recipient: one begins with age1, ssh-ed25519 or ssh-rsa")]
    Unknown,
    /// It begins like a recipient, but is not one.
    #[error("not a recipient: a character is wrong or missing")]
    Damaged,
    /// SSH keys of this type cannot encrypt.
    #[error("SSH keys of the type {0} cannot be recipients (ssh-ed25519 and ssh-rsa can)")]
    SshType(String),
    /// An RSA key must have 2048 to 4096 bits.
    #[error("an RSA key with fewer than 2048 or more than 4096 bits cannot be a recipient")]
    RsaLength,
}

impl Recipient {
    /// Reads a recipient: `age1…`, or an SSH key's type and Base64, whatever follows. An `age1…` that is not of age's
    /// own kind is for the plugin that it names. `plugins` says where to look for that plugin.
    ///
    /// # Errors
    /// [`RecipientError`] if it is not a recipient.
    pub fn parse(text: &str, plugins: &Plugins) -> Result<Self, RecipientError> {
        let text = text.trim();
        if text.len() > LONGEST {
            return Err(RecipientError::Damaged);
        }
        let lower = text.to_ascii_lowercase();
        if lower.starts_with("age-secret-key-") || lower.starts_with("age-plugin-") || text.starts_with("-----BEGIN") {
            return Err(RecipientError::Identity);
        }
        if lower.starts_with("age1") {
            return Self::parse_age(text, plugins);
        }
        let mut words = text.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some(kind), Some(key)) if is_ssh(kind) => Self::parse_ssh(kind, key),
            _ => Err(RecipientError::Unknown),
        }
    }

    fn parse_age(text: &str, plugins: &Plugins) -> Result<Self, RecipientError> {
        let damaged = || RecipientError::Damaged;
        let (hrp, bytes) =
            bech32_decode(text, |_| damaged(), |_| Ok(()), |hrp, bytes| Ok((hrp, bytes.collect::<Vec<_>>())))?;
        let lower = text.to_ascii_lowercase();
        // If the bits after the last byte could be anything but zero, one key would have several texts and tags.
        if bech32_encode(hrp, &bytes) != lower {
            return Err(damaged());
        }
        let kind = match &*hrp.to_lowercase() {
            "age" if !<[u8; 32]>::try_from(&bytes[..]).is_ok_and(is_useful) => return Err(damaged()),
            "age" => Kind::X25519(lower.parse().map_err(|_| damaged())?),
            "age1pq" => Kind::Pq(Box::new(pq::Recipient::parse(&lower).ok_or_else(damaged)?)),
            "age1tag" => Kind::Tag(Box::new(lower.parse().map_err(|_| damaged())?)),
            "age1tagpq" => Kind::TagPq(Box::new(lower.parse().map_err(|_| damaged())?)),
            other => {
                let name = other.strip_prefix("age1").ok_or_else(damaged)?;
                Kind::Plugin(PluginRecipient::new(name, &lower, plugins).ok_or_else(damaged)?)
            }
        };
        Ok(Self { text: lower, kind })
    }

    fn parse_ssh(kind: &str, key: &str) -> Result<Self, RecipientError> {
        let parsed = file::guarded(|| format!("{kind} {key}").parse::<age::ssh::Recipient>());
        let parsed = parsed.ok_or(RecipientError::Damaged)?.map_err(|e| match e {
            ParseRecipientKeyError::RsaModulusTooLarge | ParseRecipientKeyError::RsaModulusTooSmall => {
                RecipientError::RsaLength
            }
            // What follows the type is wrong.
            ParseRecipientKeyError::Unsupported(kind) if is_usable(&kind) => RecipientError::Damaged,
            ParseRecipientKeyError::Unsupported(kind) => RecipientError::SshType(kind),
            _ => RecipientError::Damaged,
        })?;
        // The crate would make a file that everybody can open.
        let is_small = matches!(&parsed, age::ssh::Recipient::SshEd25519(_, point) if point.is_small_order());
        let recipient = Self::from(parsed);
        // The crate age takes what follows the key as a part of it. The tag of its stanza would then match no identity.
        let blob = BASE64_STANDARD.decode(key).map_err(|_| RecipientError::Damaged)?;
        let is_whole = is_whole_ssh(kind, &blob) && recipient.text.split_once(' ') == Some((kind, key));
        if is_whole && !is_small { Ok(recipient) } else { Err(RecipientError::Damaged) }
    }

    /// Its canonical text: `age1…` in small letters, or an SSH key's type and Base64 with one space between them.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The beginning of the stanzas for an SSH key: its type, and a tag of 32 bits. Stanzas for other keys do not
    /// identify their recipient.
    #[must_use]
    pub fn ssh_stanza(&self) -> Option<(&str, String)> {
        let (kind, key) = self.text.split_once(' ')?;
        let key = BASE64_STANDARD.decode(key).ok()?;
        Some((kind, BASE64_STANDARD_NO_PAD.encode(&Sha256::digest(&key)[..4])))
    }

    /// Whether no quantum computer is known to break it. What a plugin does is not known.
    #[must_use]
    pub fn is_post_quantum(&self) -> bool {
        matches!(self.kind, Kind::Pq(_) | Kind::TagPq(_))
    }

    /// Whether files can be protected for it now.
    ///
    /// # Errors
    /// A sentence that names the missing plugin.
    pub fn check(&self) -> Result<(), String> {
        if let Kind::Plugin(plugin) = &self.kind { plugin.check() } else { Ok(()) }
    }
}

fn is_ssh(kind: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"].iter().any(|prefix| kind.starts_with(prefix))
}

/// Whether SSH keys of this type can be recipients.
fn is_usable(kind: &str) -> bool {
    ["ssh-ed25519", "ssh-rsa"].contains(&kind)
}

/// Whether an SSH public key has the fields of its type as OpenSSH writes them, and nothing else.
fn is_whole_ssh(kind: &str, blob: &[u8]) -> bool {
    let mut rest = blob;
    let mut field = || {
        let (len, after) = rest.split_first_chunk()?;
        let (field, after) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
        rest = after;
        Some(field)
    };
    // A positive number, with a leading zero byte only where its first bit would otherwise be a sign.
    let is_number = |field: &[u8]| match field {
        [0, next, ..] => *next >= 0x80,
        [first, ..] => *first < 0x80 && *first > 0,
        [] => false,
    };
    let are_valid = field() == Some(kind.as_bytes())
        && match kind {
            "ssh-ed25519" => field().is_some_and(|key| key.len() == 32),
            "ssh-rsa" => field().is_some_and(is_number) && field().is_some_and(is_number),
            _ => false,
        };
    are_valid && rest.is_empty()
}

/// A recipient in a file of them.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The public key.
    pub recipient: Recipient,
    /// The text after an SSH key on its line, or otherwise the comment on the line before.
    pub name: Option<String>,
}

/// Whether each line of a text begins like a public key.
#[must_use]
pub fn is_public(text: &str) -> bool {
    let mut keys = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).peekable();
    let begins = |line: &str| {
        let word = line.split_ascii_whitespace().next().unwrap_or_default();
        word.to_ascii_lowercase().starts_with("age1") || is_ssh(word)
    };
    keys.peek().is_some() && keys.all(begins)
}

/// The recipients in a file of them: one on each line. Empty lines and lines that begin with # are ignored, but a
/// comment names the recipient on the next line.
///
/// # Errors
/// The number of the first line that is no recipient, from 1, and why; or [`RecipientError::Unknown`] at line 0, if
/// there is none in the file.
pub fn recipients(text: &str, plugins: &Plugins) -> Result<Vec<Listed>, (usize, RecipientError)> {
    let (mut found, mut comment) = (Vec::new(), None);
    for (i, line) in text.lines().enumerate() {
        if let Some(words) = line.strip_prefix('#') {
            comment = Some(words.trim());
        } else if line.trim().is_empty() {
            comment = None;
        } else {
            let recipient = Recipient::parse(line, plugins).map_err(|e| (i + 1, e))?;
            let behind = match recipient.kind {
                Kind::Ssh(_) => line.trim().splitn(3, |c: char| c.is_ascii_whitespace()).nth(2).map(str::trim),
                _ => None,
            };
            let name = behind.or(comment.take()).filter(|name| !name.is_empty());
            found.push(Listed { recipient, name: name.map(str::to_owned) });
        }
    }
    if found.is_empty() { Err((0, RecipientError::Unknown)) } else { Ok(found) }
}

impl From<age::ssh::Recipient> for Recipient {
    fn from(key: age::ssh::Recipient) -> Self {
        Self { text: key.to_string(), kind: Kind::Ssh(Box::new(key)) }
    }
}

impl From<age::x25519::Recipient> for Recipient {
    fn from(key: age::x25519::Recipient) -> Self {
        Self { text: key.to_string(), kind: Kind::X25519(key) }
    }
}

impl From<pq::Recipient> for Recipient {
    fn from(key: pq::Recipient) -> Self {
        Self { text: key.text(), kind: Kind::Pq(Box::new(key)) }
    }
}

impl From<Recipient> for phalanx_core::Recipient {
    fn from(recipient: Recipient) -> Self {
        phalanx_core::Recipient::Age(Arc::new(recipient))
    }
}

impl AgeRecipient for Recipient {
    fn text(&self) -> &str {
        &self.text
    }

    fn wrap(&self, file_key: &SecretKey) -> phalanx_core::Result<Vec<u8>> {
        let wrapped = match &self.kind {
            Kind::X25519(key) => file::wrap(key, file_key),
            Kind::Pq(key) => file::wrap(&**key, file_key),
            Kind::Tag(key) => file::wrap(&**key, file_key),
            Kind::TagPq(key) => file::wrap(&**key, file_key),
            Kind::Ssh(key) => file::wrap(&**key, file_key),
            Kind::Plugin(plugin) => file::wrap(plugin, file_key),
        };
        wrapped.map_err(|reason| Error::Recipient { recipient: self.text.clone(), reason })
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({self})")
    }
}
