//! SSH private keys as identities. The passphrase of a key is asked for once, and only if a stanza has the key's tag.

use crate::file;
use crate::recipient::Recipient;
use crate::signing;
use crate::user::User;
use age::ssh::{Identity, UnsupportedKey};
use age_core::secrecy::SecretString;
use std::sync::{Arc, Mutex, PoisonError};

const KIND: &str = "SSH keys of this kind cannot be identities (ssh-ed25519 and ssh-rsa can)";

/// The most work for a passphrase, a minute or two. `ssh-keygen` itself takes 24 rounds.
const MOST_ROUNDS: u32 = 10_000;

/// The longest text of a key, in bytes and lines: several times what a key of RSA with 16,384 bits takes. The crate reads a
/// text again for each of its lines.
const MOST_TEXT: usize = 64 << 10;
const MOST_LINES: usize = 1024;

/// An SSH private key.
pub struct SshKey {
    /// The type of its stanzas.
    kind: String,
    tag: String,
    recipient: Recipient,
    has_passphrase: bool,
    state: Mutex<State>,
}

enum State {
    Locked(Box<age::ssh::EncryptedKey>),
    Open(Arc<Identity>),
    /// The right passphrase was not given, and it is not asked for again.
    Refused(String),
}

impl SshKey {
    /// Reads an OpenSSH private key, or an RSA key as PEM. The error says why it cannot be used.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > MOST_TEXT || text.bytes().filter(|byte| *byte == b'\n').count() > MOST_LINES {
            return Err("not an SSH key that can be read".into());
        }
        // The crate would do all the work that a file asks for.
        if signing::rounds(text).is_some_and(|rounds| rounds > MOST_ROUNDS) {
            return Err(format!(
                "its passphrase costs more work than {MOST_ROUNDS} rounds of bcrypt (ssh-keygen -p -a 100 changes it)"
            ));
        }
        let parsed = file::guarded(|| {
            let key = Identity::from_buffer(text.as_bytes(), None).ok()?;
            let public = age::ssh::Recipient::try_from(key.clone());
            Some((key, public))
        });
        let (key, public) = parsed.flatten().ok_or("not an SSH key that can be read")?;
        let state = match key {
            Identity::Unencrypted(_) => State::Open(Arc::new(key)),
            Identity::Encrypted(key) => State::Locked(Box::new(key)),
            Identity::Unsupported(UnsupportedKey::EncryptedPem) => {
                return Err("an old form of SSH key with a passphrase (ssh-keygen -p makes a new one of it)".into());
            }
            Identity::Unsupported(UnsupportedKey::Hardware(_)) => {
                return Err("SSH keys in hardware cannot be identities".into());
            }
            Identity::Unsupported(UnsupportedKey::EncryptedSsh(cipher)) => {
                let cipher: String = cipher.chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
                return Err(format!(
                    "an SSH key whose passphrase is for the cipher {cipher}, which this program does not know (ssh-keygen -p -Z aes256-ctr changes it)"
                ));
            }
            Identity::Unsupported(_) => return Err(KIND.into()),
        };
        let recipient = Recipient::from(public.map_err(|_| KIND)?);
        let (kind, tag) = recipient.ssh_stanza().ok_or("not an SSH key that can be read")?;
        let kind = kind.to_owned();
        let has_passphrase = matches!(state, State::Locked(_));
        Ok(Self { kind, tag, recipient, has_passphrase, state: Mutex::new(state) })
    }

    /// Whether a stanza has the type of this key and its tag of 32 bits.
    pub fn is_for(&self, stanza: &crate::Stanza<'_>) -> bool {
        stanza.kind() == self.kind && stanza.arguments().next() == Some(&*self.tag)
    }

    /// The public key.
    pub fn recipient(&self) -> &Recipient {
        &self.recipient
    }

    /// Whether it is protected by a passphrase, which may have been given since.
    pub fn has_passphrase(&self) -> bool {
        self.has_passphrase
    }

    /// The key as an identity of the crate `age`; `label` names it when its passphrase is asked for.
    ///
    /// While one thread asks, the others wait for the answer.
    pub fn open(&self, label: &str, user: &dyn User) -> Result<Arc<Identity>, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Locked(key) = &*state {
            *state = match user.secret(&format!("Passphrase of {label}: ")) {
                None => State::Refused(format!("{label}: nobody could be asked for its passphrase")),
                Some(passphrase) => match file::guarded(|| key.decrypt(SecretString::from(passphrase.as_str()))) {
                    Some(Ok(open)) => State::Open(Arc::new(open.into())),
                    _ => State::Refused(format!("{label}: the passphrase is wrong")),
                },
            };
        }
        match &*state {
            State::Open(key) => Ok(key.clone()),
            State::Refused(why) => Err(why.clone()),
            State::Locked(_) => unreachable!("it was opened or refused above"),
        }
    }
}
