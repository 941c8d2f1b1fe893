//! Identities: private keys from files, and opening age files with them.

use crate::file;
use crate::outline::Outline;
use crate::plugin::{PluginIdentity, Plugins};
use crate::pq;
use crate::recipient::Recipient;
use crate::ssh::SshKey;
use age::armor::ArmoredReader;
use age::secrecy::SecretString;
use age::{DecryptError, Decryptor, x25519};
use phalanx_core::{AgeRecipient, Error, KeyId, KeySource, Password, SecretKey};
use std::fmt;
use std::io::{self, BufReader, Read};
use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// The most identities that a reader accepts, including those protected by passphrases.
pub const MAX_IDENTITIES: usize = 256;
/// How many pairs of a stanza and an identity are tried for one file.
const MOST_TRIALS: usize = 4096;
/// How many of these an SSH key may have. Stanzas for an SSH key have its tag, so honest files have one for each key.
const MOST_SSH_TRIALS: usize = 16;
/// The type of the stanzas for a key of age that is not post-quantum.
const X25519: &str = "X25519";
/// The longest file of identities, in bytes.
const LONGEST: usize = 1 << 20;
/// The most work for a passphrase: scrypt with N = 2^20 takes 1 GiB. Age itself writes 2^18.
const MOST_SCRYPT: u8 = 20;

/// The error that identities which may open a file cannot be used, or that none opens it. `refused` says why, a line for each.
#[must_use]
pub fn refused_identities(refused: Vec<String>) -> Error {
    Error::KeysRefused {
        keys: Vec::new(),
        identity: true,
        services: Box::default(),
        password: false,
        tried: false,
        refused,
        remedy: None,
    }
}

/// Private keys at hand, in the order in which they were added.
pub struct Identities {
    entries: Vec<Entry>,
    plugins: Plugins,
    /// The number of identities. A file protected by a passphrase counts as one until it is opened.
    held: AtomicUsize,
}

/// Why a file is not a file of identities. The error repeats nothing of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// There is no identity in it.
    #[error("no identity is in it")]
    None,
    /// A line is not an identity.
    #[error("line {0} is no identity")]
    Line(usize),
    /// A line is a recipient.
    #[error("line {0} is a recipient: the identity is the secret that belongs to it")]
    Recipient(usize),
    /// An SSH key that cannot be used.
    #[error("{0}")]
    Ssh(String),
    /// An age file that is not protected by a passphrase.
    #[error("an age file without a passphrase cannot hold identities")]
    NoPassphrase,
    /// It is too long.
    #[error("a file of identities has at most {LONGEST} bytes")]
    Long,
    /// There are too many.
    #[error("more than {MAX_IDENTITIES} identities")]
    Many,
}

struct Entry {
    /// The name of the file that it comes from.
    label: String,
    identity: Identity,
}

enum Identity {
    X25519(Box<x25519::Identity>),
    Pq(Box<pq::Identity>),
    Ssh(Box<SshKey>),
    Plugin(PluginIdentity),
    Locked(Box<Locked>),
}

/// A file of identities that is protected by a passphrase.
struct Locked {
    bytes: Vec<u8>,
    state: Mutex<Option<Result<Arc<Vec<Identity>>, String>>>,
}

/// A new post-quantum key of age: the text of a file of identities, and its public key.
///
/// # Errors
/// If the system has no random numbers.
pub fn new_identity() -> io::Result<(Zeroizing<String>, Recipient)> {
    let key = pq::Identity::generate()?;
    let recipient = Recipient::from(key.to_public());
    let (private, public) = (key.text(), recipient.text());
    // A text that grows would leave copies behind.
    let mut text = Zeroizing::new(String::with_capacity(public.len() + private.len() + 32));
    for part in ["# public key: ", public, "\n", &private, "\n"] {
        text.push_str(part);
    }
    Ok((text, recipient))
}

impl Identities {
    /// Makes an empty set of identities. `plugins` says how plugins are run, and who is asked for passphrases.
    #[must_use]
    pub fn new(plugins: Plugins) -> Self {
        Self { entries: Vec::new(), plugins, held: AtomicUsize::new(0) }
    }

    /// Adds the identities of a file: lines as age writes them, such a file protected by a passphrase, or an SSH
    /// private key. `label` names the file to the user. A passphrase is asked for once, when an identity may open a
    /// file.
    ///
    /// # Errors
    /// [`IdentityError`] if it is not a file of identities.
    pub fn add(&mut self, label: &str, bytes: &[u8]) -> Result<(), IdentityError> {
        if bytes.len() > LONGEST {
            return Err(IdentityError::Long);
        }
        let identities = if bytes.starts_with(b"age-encryption.org/") || bytes.starts_with(b"-----BEGIN AGE ENCRYPTED")
        {
            vec![Locked::read(bytes)?]
        } else {
            read(str::from_utf8(bytes).map_err(|_| IdentityError::None)?)?
        };
        count(&self.held, identities.len())?;
        self.entries.extend(identities.into_iter().map(|identity| Entry { label: label.into(), identity }));
        Ok(())
    }

    /// The names of the files that they come from, each once.
    #[must_use]
    pub fn labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = self.entries.iter().map(|entry| &*entry.label).collect();
        labels.dedup();
        labels
    }

    /// Whether there are no identities.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl KeySource for Identities {
    fn key(&self, _: &KeyId) -> phalanx_core::Result<Option<SecretKey>> {
        Ok(None)
    }

    fn password(&self) -> phalanx_core::Result<Option<Password>> {
        Ok(None)
    }

    /// Identities without questions to the user are tried first, then those with a passphrase, then plugins.
    fn identity(
        &self,
        files: &[&[u8]],
        opens: &mut dyn FnMut(usize, &SecretKey) -> bool,
    ) -> phalanx_core::Result<Option<String>> {
        let outlines = files.iter().enumerate().filter_map(|(at, file)| Some((at, Outline::of(file).ok()?)));
        let outlines: Vec<_> = outlines.collect();
        if outlines.is_empty() {
            return Ok(None);
        }
        let mut search = Search {
            files,
            outlines,
            opens,
            plugins: &self.plugins,
            held: &self.held,
            left: Some(MOST_TRIALS),
            refused: Vec::new(),
        };
        for step in [Step::Silent, Step::Asking, Step::Plugins] {
            for Entry { label, identity } in &self.entries {
                if search.opens_by(label, identity, step) {
                    return Ok(Some(named(label, identity)));
                }
            }
        }
        let Search { left, mut refused, .. } = search;
        if left.is_none() {
            refused.push(format!("no more than {MOST_TRIALS} pairs of an identity and a stanza were tried"));
        }
        if refused.is_empty() {
            return Ok(None);
        }
        Err(refused_identities(refused))
    }

    /// A passphrase is asked for only if no other identity matches.
    fn age_recipient(&self, is_it: &dyn Fn(&str) -> bool) -> Option<Arc<dyn AgeRecipient>> {
        let mut found = self.entries.iter().filter_map(|entry| entry.identity.recipient());
        let inner = || {
            self.entries.iter().find_map(|Entry { label, identity }| {
                let Identity::Locked(locked) = identity else { return None };
                let inner = locked.open(label, &self.plugins, &self.held).ok()?;
                inner.iter().filter_map(Identity::recipient).find(|recipient| is_it(recipient.text()))
            })
        };
        let recipient = found.find(|recipient| is_it(recipient.text())).or_else(inner)?;
        Some(Arc::new(recipient))
    }
}

impl Identity {
    /// Its public key, if it is known without a plugin or a passphrase.
    fn recipient(&self) -> Option<Recipient> {
        match self {
            Identity::X25519(key) => Some(Recipient::from(key.to_public())),
            Identity::Pq(key) => Some(Recipient::from(key.to_public())),
            Identity::Ssh(key) => Some(key.recipient().clone()),
            Identity::Plugin(_) | Identity::Locked(_) => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Silent,
    Asking,
    Plugins,
}

/// The search for an identity that opens one file.
struct Search<'s> {
    files: &'s [&'s [u8]],
    /// The outlines of the files that may hold a file key, with their places.
    outlines: Vec<(usize, Outline<'s>)>,
    opens: &'s mut dyn FnMut(usize, &SecretKey) -> bool,
    plugins: &'s Plugins,
    held: &'s AtomicUsize,
    /// How many more pairs may be tried. `None` if there were too many.
    left: Option<usize>,
    refused: Vec<String>,
}

impl Search<'_> {
    fn opens_by(&mut self, label: &str, identity: &Identity, step: Step) -> bool {
        match (identity, step) {
            (Identity::X25519(key), Step::Silent) => self.by_age(X25519, &**key),
            (Identity::Pq(key), Step::Silent) => self.by_age(pq::KIND, &**key),
            (Identity::Ssh(key), Step::Silent) if !key.has_passphrase() => self.by_ssh(label, key),
            (Identity::Ssh(key), Step::Asking) if key.has_passphrase() => self.by_ssh(label, key),
            (Identity::Plugin(plugin), Step::Plugins) => self.by_plugin(label, plugin),
            (Identity::Locked(locked), Step::Asking | Step::Plugins) => {
                // SSH keys are not in such files.
                let is_ssh = |outline: &Outline<'_>| {
                    outline.stanzas().iter().all(|s| s.kind().starts_with("ssh-") || s.is_grease())
                };
                if self.outlines.iter().all(|(_, outline)| is_ssh(outline)) {
                    return false;
                }
                match locked.open(label, self.plugins, self.held) {
                    Ok(inner) if step == Step::Asking => {
                        inner.iter().any(|one| self.opens_by(label, one, Step::Silent))
                    }
                    Ok(inner) => inner.iter().any(|one| self.opens_by(label, one, Step::Plugins)),
                    Err(why) => self.refuse(why),
                }
            }
            _ => false,
        }
    }

    /// Tries a key of age's own, whose stanzas have this type.
    fn by_age(&mut self, kind: &str, key: &dyn age::Identity) -> bool {
        let trials = |outline: &Outline<'_>| outline.stanzas().iter().filter(|s| s.kind() == kind).count();
        let candidates: Vec<_> = self.outlines.iter().map(|(at, outline)| (*at, trials(outline))).collect();
        candidates.into_iter().any(|(at, trials)| trials > 0 && self.try_one(at, trials, key))
    }

    fn by_ssh(&mut self, label: &str, key: &SshKey) -> bool {
        let trials = |outline: &Outline<'_>| {
            let stanzas: Vec<_> = outline.stanzas().iter().filter(|s| key.is_for(s)).collect();
            // A file with one of another form is not age's.
            if stanzas.iter().all(|stanza| stanza.is_of_ssh()) { stanzas.len() } else { 0 }
        };
        let candidates: Vec<_> = self.outlines.iter().map(|(at, outline)| (*at, trials(outline))).collect();
        let mut left = MOST_SSH_TRIALS;
        for (at, trials) in candidates.into_iter().filter(|(_, trials)| *trials > 0) {
            let Some(rest) = left.checked_sub(trials) else {
                return self
                    .refuse(format!("{label}: no more than {MOST_SSH_TRIALS} stanzas for one SSH key were tried"));
            };
            left = rest;
            // A stanza is for this key, so it is worth asking for its passphrase.
            match key.open(label, self.plugins.user()) {
                Ok(identity) if self.try_one(at, trials, &*identity) => return true,
                Ok(_) => {}
                Err(why) => return self.refuse(why),
            }
        }
        false
    }

    fn by_plugin(&mut self, label: &str, plugin: &PluginIdentity) -> bool {
        match plugin.open(&self.outlines, self.plugins) {
            Ok(keys) => keys.iter().any(|(at, key)| self.try_one(*at, 1, key)),
            Err(why) => self.refuse(format!("{label}: {why}")),
        }
    }

    /// Tries an identity on one file with this number of stanzas for it.
    fn try_one(&mut self, at: usize, trials: usize, identity: &dyn age::Identity) -> bool {
        self.left = self.left.and_then(|left| left.checked_sub(trials));
        self.left.is_some() && file::unwrap(self.files[at], identity).is_some_and(|key| (self.opens)(at, &key))
    }

    /// Records why an identity cannot be used, and returns `false`, because it opens nothing.
    fn refuse(&mut self, why: String) -> bool {
        self.refused.push(why);
        false
    }
}

impl Locked {
    fn read(bytes: &[u8]) -> Result<Identity, IdentityError> {
        let is_scrypt = file::guarded(|| decryptor(bytes).map(|file| file.is_scrypt()));
        match is_scrypt {
            Some(Ok(true)) => Ok(Identity::Locked(Box::new(Self { bytes: bytes.to_vec(), state: Mutex::default() }))),
            Some(Ok(false)) => Err(IdentityError::NoPassphrase),
            Some(Err(_)) | None => Err(IdentityError::None),
        }
    }

    /// The identities in the file. The passphrase is asked for once. While one thread asks, the others wait for the
    /// answer.
    fn open(&self, label: &str, plugins: &Plugins, held: &AtomicUsize) -> Result<Arc<Vec<Identity>>, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ask = || {
            let passphrase = plugins.user().secret(&format!("Passphrase of {label}: "));
            let passphrase = passphrase.ok_or_else(|| format!("{label}: nobody could be asked for its passphrase"))?;
            let plain = file::guarded(|| self.decrypt(&passphrase)).unwrap_or(Err(DecryptError::DecryptionFailed));
            let plain = plain.map_err(|e| match e {
                DecryptError::ExcessiveWork { .. } => {
                    format!("{label}: its passphrase costs more work than scrypt with 1 GiB")
                }
                _ => format!("{label}: the passphrase is wrong"),
            })?;
            let text = str::from_utf8(&plain).map_err(|_| format!("{label}: {}", IdentityError::None))?;
            let found = lines(text).and_then(|found| count(held, found.len() - 1).map(|()| found));
            Ok(Arc::new(found.map_err(|e| format!("{label}: {e}"))?))
        };
        state.get_or_insert_with(ask).clone()
    }

    fn decrypt(&self, passphrase: &str) -> Result<Zeroizing<Vec<u8>>, DecryptError> {
        let mut identity = age::scrypt::Identity::new(SecretString::from(passphrase));
        identity.set_max_work_factor(MOST_SCRYPT);
        let mut plain = Zeroizing::new(vec![0; self.bytes.len()]);
        let mut reader = decryptor(&self.bytes)?.decrypt(iter::once(&identity as _))?;
        let mut len = 0;
        // The plaintext is shorter than the file.
        while len < plain.len() {
            match reader.read(&mut plain[len..])? {
                0 => break,
                more => len += more,
            }
        }
        plain.truncate(len);
        Ok(plain)
    }
}

/// Counts more identities, unless the limit is exceeded.
fn count(held: &AtomicUsize, more: usize) -> Result<(), IdentityError> {
    let sum = |held: usize| held.checked_add(more).filter(|sum| *sum <= MAX_IDENTITIES);
    held.try_update(Ordering::Relaxed, Ordering::Relaxed, sum).map(drop).map_err(|_| IdentityError::Many)
}

fn decryptor(bytes: &[u8]) -> Result<Decryptor<ArmoredReader<BufReader<&[u8]>>>, DecryptError> {
    Decryptor::new(ArmoredReader::new(bytes))
}

/// The identities of a plain file.
fn read(text: &str) -> Result<Vec<Identity>, IdentityError> {
    if text.trim_start().starts_with("-----BEGIN") {
        return Ok(vec![Identity::Ssh(Box::new(SshKey::read(text).map_err(IdentityError::Ssh)?))]);
    }
    lines(text)
}

/// The identities of a file as age writes it: one on each line. Empty lines and lines that begin with # are ignored.
fn lines(text: &str) -> Result<Vec<Identity>, IdentityError> {
    // The vector is allocated at its full length, because a growing one would leave copies of keys in freed memory.
    let lines = || text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    if lines().count() > MAX_IDENTITIES {
        return Err(IdentityError::Many);
    }
    let mut found = Vec::with_capacity(lines().count());
    for (i, line) in lines() {
        found.push(one(line.trim(), i + 1)?);
    }
    if found.is_empty() { Err(IdentityError::None) } else { Ok(found) }
}

fn one(line: &str, number: usize) -> Result<Identity, IdentityError> {
    if line.starts_with(pq::IDENTITY) {
        let key = pq::Identity::parse(line).ok_or(IdentityError::Line(number))?;
        return Ok(Identity::Pq(Box::new(key)));
    }
    if line.starts_with("AGE-SECRET-KEY-1") {
        let key = line.parse().map_err(|_| IdentityError::Line(number))?;
        return Ok(Identity::X25519(Box::new(key)));
    }
    if line.starts_with("AGE-PLUGIN-") {
        return PluginIdentity::read(line).map(Identity::Plugin).ok_or(IdentityError::Line(number));
    }
    let is_public = line.starts_with("age1") || line.starts_with("ssh-");
    Err(if is_public { IdentityError::Recipient(number) } else { IdentityError::Line(number) })
}

/// An identity's name for its user: where it comes from, and its recipient.
fn named(label: &str, identity: &Identity) -> String {
    match identity {
        Identity::X25519(key) => format!("{label} ({})", Recipient::from(key.to_public()).text()),
        Identity::Pq(key) => format!("{label} ({})", shortened(&key.to_public().text())),
        Identity::Ssh(key) => format!("{label} ({})", key.recipient().text().split(' ').next().unwrap_or_default()),
        Identity::Plugin(plugin) => format!("{label} (the plugin {})", plugin.name()),
        Identity::Locked(_) => label.into(),
    }
}

/// The beginning and the end of a text that has two thousand characters.
fn shortened(text: &str) -> String {
    format!("{}…{}", &text[..16], &text[text.len() - 8..])
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identities({})", self.entries.len())
    }
}
