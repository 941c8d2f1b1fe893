//! Where keys and passwords come from. They are never arguments, and never part of a message.

use crate::Keyring;
use crate::args::{OpenKeys, ProtectKeys};
use crate::failure::{self, Outcome};
use crate::lines::{complain, complain_with, shown};
use crate::lock::lock;
use crate::secret_files::{keyring, read_key};
use crate::services::Services;
use crate::verbosity::Verbosity;
use crate::words::count;
use crate::{age, ask, locked_keys, passwords};
use phalanx_age::{Identities, refused_identities};
use phalanx_core::{
    AgeRecipient, Error, KdfLimit, KeyId, KeySource, OpenedBy, Opener, Password, Recipient, Result, SecretKey, wiped,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The key with this id in a keyring, and its name. [`Error::KeysRefused`] means that it may be a refused key, or that
/// the whole keyring is refused. Another way in may still open the file.
pub fn find_key(keyring: &Keyring, id: &KeyId) -> Result<Option<(String, SecretKey)>> {
    let mut errors = Vec::new();
    match keyring.find(id, |e| errors.push(e)) {
        Ok(Some(found)) => return Ok(Some(found)),
        Ok(None) if errors.is_empty() => return Ok(None),
        Ok(None) => {}
        Err(e) => errors.push(e),
    }
    let refused = errors.iter().map(ToString::to_string).collect();
    let remedy = errors.iter().find_map(failure::hint);
    Err(Error::KeysRefused {
        keys: vec![*id],
        identity: false,
        services: Box::default(),
        password: false,
        tried: false,
        refused,
        remedy,
    })
}

/// The recipients of new files.
pub struct Recipients {
    keys: ProtectKeys,
    /// Whether the keys and the password are kept for [`Recipients::opener`].
    keeps: bool,
    found: OnceLock<Loaded>,
}

/// The recipients, after the keys were read and the password was asked for.
struct Loaded {
    recipients: Vec<Recipient>,
    opener: Opener<Own>,
}

/// The keys and the password of the recipients, which open what an interrupted run has left.
pub struct Own {
    /// The keys.
    pub keys: Vec<SecretKey>,
    /// The password.
    pub password: Option<Password>,
    /// The key services.
    pub services: Services,
}

impl KeySource for Own {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        Ok(self.keys.iter().find(|key| key.id() == *id).cloned())
    }

    fn password(&self) -> Result<Option<Password>> {
        Ok(self.password.clone())
    }

    fn service(&self, uri: &str, wrapped: &[u8]) -> Result<Option<SecretKey>> {
        self.services.unwrap(uri, wrapped)
    }

    fn service_recipient(&self, uri: &str) -> Result<Option<Recipient>> {
        self.services.recipient(uri)
    }
}

impl Recipients {
    /// With `keeps`, [`Recipients::opener`] opens files for these recipients. Without it, it opens none.
    pub fn new(keys: ProtectKeys, keeps: bool) -> Self {
        Self { keys, keeps, found: OnceLock::new() }
    }

    /// Those that are known already. `own` opens what an interrupted run has left, and the manifests of mirrors.
    pub fn known(recipients: Vec<Recipient>, own: Own) -> Self {
        let opener = Opener::new(own, KdfLimit::default());
        Self { keys: ProtectKeys::default(), keeps: true, found: OnceLock::from(Loaded { recipients, opener }) }
    }

    /// Reads the keys and asks for the password, unless that has been done.
    pub fn find(&self) -> Outcome {
        if self.found.get().is_none() {
            let _ = self.found.set(self.ask()?);
        }
        Ok(())
    }

    /// The recipients that were found.
    ///
    /// # Panics
    /// If [`Recipients::find`] has not succeeded before.
    pub fn found(&self) -> &[Recipient] {
        &self.found.get().expect("the action was prepared").recipients
    }

    /// A fingerprint of each recipient that is a public key.
    ///
    /// # Panics
    /// If [`Recipients::find`] has not succeeded before.
    pub fn fingerprints(&self) -> Vec<String> {
        let of = |recipient: &Recipient| match recipient {
            Recipient::Age(recipient) => {
                let hash = phalanx_kernels::keccak::sha3_256(recipient.text().as_bytes());
                Some(hash.iter().map(|byte| format!("{byte:02x}")).collect())
            }
            _ => None,
        };
        self.found().iter().filter_map(of).collect()
    }

    /// Opens files with the keys and the password of the recipients.
    ///
    /// # Panics
    /// If [`Recipients::find`] has not succeeded before.
    pub fn opener(&self) -> &Opener<Own> {
        &self.found.get().expect("the action was prepared").opener
    }

    /// Whether they are all public keys, so that [`Recipients::opener`] opens nothing.
    ///
    /// # Panics
    /// If [`Recipients::find`] has not succeeded before.
    pub fn opens_nothing(&self) -> bool {
        let own = self.opener().source();
        own.keys.is_empty() && own.password.is_none() && own.services.is_empty()
    }

    fn ask(&self) -> Outcome<Loaded> {
        let args = &self.keys.keys;
        let named = load_keys(&args.keys, &args.key_files)?;
        // These are references, because sorting the keys themselves would leave copies in memory.
        let mut keys: Vec<&SecretKey> = named.iter().map(|(_, key)| key).collect();
        keys.sort_by_key(|key| key.id());
        keys.dedup_by_key(|key| key.id());
        let others = age::recipients("--recipient", &self.keys.recipients, &self.keys.recipients_files)?;
        age::warn_of_mixed(&others);
        let services = Services::new("--kms", &self.keys.services)?;
        let asked = self.keys.password || keys.is_empty() && others.is_empty() && services.is_empty();
        let given = match (keys.is_empty(), others.is_empty()) {
            (false, _) => "a key",
            (true, false) => "a recipient",
            (true, true) => "a key service",
        };
        let why = format!("since {given} was given");
        let password = match self.keys.generate_password {
            true => Some(passwords::generate()?),
            false => passwords::for_new(args, asked, &why, Some("--password adds it"))?,
        };
        let mut recipients: Vec<_> = keys.iter().map(|key| Recipient::key(key)).collect();
        recipients.extend(others.into_iter().map(Recipient::from));
        if let Some(password) = &password {
            recipients.push(Recipient::password(password)?);
        }
        recipients.extend(services.recipients()?);
        let own = match self.keeps {
            true => Own { keys: keys.into_iter().cloned().collect(), password, services },
            false => Own { keys: Vec::new(), password: None, services: Services::default() },
        };
        Ok(Loaded { recipients, opener: Opener::new(own, KdfLimit::default()) })
    }
}

/// The keys that may open a file.
pub struct AtHand {
    /// The keys of --key and --key-file, with their names.
    given: Vec<(String, SecretKey)>,
    /// The identities of --identity.
    identities: Identities,
    /// The key services of --kms, and if nothing is named those of the user's file.
    services: Services,
    /// The identities that were reported to the user.
    told: Mutex<BTreeSet<String>>,
    quiet: bool,
    /// The keyring, which is searched if no key is given.
    keyring: Option<Keyring>,
    /// The keys that were found there. Each is looked up once in a run. Each is allocated separately, because the list
    /// grows.
    found: Mutex<Vec<Arc<(String, SecretKey)>>>,
    /// Held while a locked key is opened: a thread that needs it too waits, and others do not.
    unlocking: Mutex<()>,
    given_password: Option<Password>,
    /// Whether a password may come from the variable or the user.
    ask: bool,
    password: OnceLock<Option<Password>>,
    /// The keys of the keyring that were refused, and why, with a command that mends one of them.
    refused: Mutex<BTreeMap<String, Option<String>>>,
}

/// Opens files with these keys.
pub fn opener(args: &OpenKeys, verbosity: Verbosity) -> Outcome<Opener<AtHand>> {
    let identities = age::identities(&args.identities)?;
    let services = Services::new("--kms", &args.services)?;
    let args = &args.keys;
    // The keyring is the user's as the file of services is.
    let lockers = services.clone().or_configured();
    let ways = locked_keys::Ways { identities: Some(&identities), services: Some(&lockers) };
    let given = load_keys_with(&args.keys, &args.key_files, ways)?;
    let none_given = given.is_empty() && identities.is_empty() && services.is_empty();
    let at_hand = AtHand {
        identities,
        services: if none_given { lockers } else { services },
        told: Mutex::default(),
        quiet: verbosity.quiet,
        keyring: if none_given { keyring().ok().map(wherever_it_is) } else { None },
        found: Mutex::default(),
        unlocking: Mutex::default(),
        ask: none_given && !args.names_password(),
        given_password: passwords::for_opening(args)?,
        given,
        password: OnceLock::new(),
        refused: Mutex::default(),
    };
    Ok(Opener::new(at_hand, KdfLimit::default()))
}

/// Makes the path of the keyring absolute, so that it stays valid when the program changes its folder.
fn wherever_it_is(keyring: Keyring) -> Keyring {
    std::path::absolute(keyring.dir()).map_or(keyring, Keyring::new)
}

impl KeySource for AtHand {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        let mut found = lock(&self.found);
        if let Some(key) = self.known(id, &found) {
            return Ok(Some(key));
        }
        let Some(keyring) = &self.keyring else { return Ok(None) };
        let key = match find_key(keyring, id) {
            // Its turn comes if nothing else opens the file.
            Err(_) if matches!(keyring.locked_with(id), Ok(Some(_))) => None,
            found => found.map_err(|e| self.refuse(e))?,
        };
        Ok(key.map(|(name, key)| {
            found.push(Arc::new((name, key.clone())));
            key
        }))
    }

    fn locked_key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        let Some(keyring) = &self.keyring else { return Ok(None) };
        if !matches!(keyring.locked_with(id), Ok(Some(_))) {
            return Ok(None);
        }
        let _alone = lock(&self.unlocking);
        if let Some(key) = self.known(id, &lock(&self.found)) {
            return Ok(Some(key));
        }
        let ways = locked_keys::Ways { identities: Some(&self.identities), services: Some(&self.services) };
        let Some((name, key)) = locked_keys::find(keyring, id, ways) else {
            return find_key(keyring, id).map(|found| found.map(|(_, key)| key)).map_err(|e| self.refuse(e));
        };
        lock(&self.found).push(Arc::new((name, key.clone())));
        Ok(Some(key))
    }

    fn password(&self) -> Result<Option<Password>> {
        // Other threads wait while one asks the user.
        Ok(self.password.get_or_init(|| self.find_password()).clone())
    }

    fn identity(&self, files: &[&[u8]], opens: &mut dyn FnMut(usize, &SecretKey) -> bool) -> Result<Option<String>> {
        match self.identities.identity(files, opens) {
            Ok(None) if !self.identities.is_empty() => Err(refused_identities(vec![unfit(&self.identities.labels())])),
            found => found,
        }
    }

    fn age_recipient(&self, is_it: &dyn Fn(&str) -> bool) -> Option<Arc<dyn AgeRecipient>> {
        self.identities.age_recipient(is_it)
    }

    fn service(&self, uri: &str, wrapped: &[u8]) -> Result<Option<SecretKey>> {
        self.services.unwrap(uri, wrapped).map_err(|e| self.refuse(e))
    }

    fn service_recipient(&self, uri: &str) -> Result<Option<Recipient>> {
        self.services.recipient(uri)
    }
}

impl AtHand {
    /// A key that was given or found before.
    fn known(&self, id: &KeyId, found: &[Arc<(String, SecretKey)>]) -> Option<SecretKey> {
        let mut all = self.given.iter().chain(found.iter().map(Arc::as_ref));
        all.find(|(_, key)| key.id() == *id).map(|(_, key)| key.clone())
    }

    /// Notes the keys that an error refuses, and returns it.
    fn refuse(&self, error: Error) -> Error {
        if let Error::KeysRefused { refused, remedy, .. } = &error {
            let new = refused.iter().map(|key| (key.clone(), remedy.clone()));
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
        }
        error
    }

    /// What opened a file, in words.
    pub fn describe(&self, slot: usize, by: &OpenedBy) -> String {
        let what = match by {
            OpenedBy::Key(id) => {
                let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                let name = self
                    .given
                    .iter()
                    .chain(found.iter().map(Arc::as_ref))
                    .find(|(_, key)| key.id() == *id)
                    .map(|(name, _)| name);
                name.map_or_else(|| format!("key {id}"), |name| format!("key {name}"))
            }
            OpenedBy::Identity(name) => format!("identity {name}"),
            OpenedBy::Password => "a password".into(),
            OpenedBy::Service(uri) => format!("key service {uri}"),
            _ => "a key".into(),
        };
        format!("slot {slot}: {what}")
    }

    /// Reports that the sender of a file is unknown, if an identity opened it. If only identities are named, this holds
    /// for all files, so it is reported once for each identity. Otherwise it is reported for each file.
    pub fn tell_sender(&self, path: impl FnOnce() -> PathBuf, by: &OpenedBy) {
        let OpenedBy::Identity(name) = by else { return };
        if self.quiet {
            return;
        }
        let line = format!("opened by identity {name}; the sender is unknown");
        if !self.given.is_empty() || self.given_password.is_some() {
            complain(format!("{}: {line}", shown(&path())));
        } else if self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
            complain(line);
        }
    }

    fn find_password(&self) -> Option<Password> {
        if self.given_password.is_some() || !self.ask {
            return self.given_password.clone();
        }
        match passwords::of_environment() {
            Ok(None) => {}
            Ok(found) => return found,
            // Another way may open the file, so it is no failure yet.
            Err(e) => complain_with(e.line().unwrap_or_default(), e.advice()),
        }
        // Without a terminal, the user cannot be asked.
        ask::can_ask().then_some(())?;
        // A user who is asked for a password should know why the key did not work.
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().for_each(|(key, remedy)| complain_with(format!("warning: {key}"), remedy.as_deref()));
        ask::password("Password: ").ok()
    }
}

/// The message that no identity of these files opens a file.
fn unfit(labels: &[&str]) -> String {
    /// How many files are named. More are only counted.
    const NAMED: usize = 3;
    match labels.split_at_checked(NAMED) {
        Some((first, more)) if !more.is_empty() => {
            format!("no identity in {} and {} opens it", first.join(", "), count(more.len() as u64, "other file"))
        }
        _ => format!("no identity in {} opens it", labels.join(", ")),
    }
}

/// Keys of the keyring, and keys in files, with their names for the user. If a key is locked, a service of the user's file
/// opens it, or its password is asked for.
pub fn load_keys(names: &[String], files: &[PathBuf]) -> Outcome<Vec<(String, SecretKey)>> {
    let services = Services::default().or_configured();
    load_keys_with(names, files, locked_keys::Ways { services: Some(&services), ..locked_keys::Ways::default() })
}

/// Loads keys as [`load_keys`] does. What the user has named opens locked keys too.
fn load_keys_with(
    names: &[String],
    files: &[PathBuf],
    ways: locked_keys::Ways<'_>,
) -> Outcome<Vec<(String, SecretKey)>> {
    // It has its final capacity from the start, because growing would leave copies in memory.
    let mut keys = Vec::with_capacity(names.len() + files.len());
    // What is moved to the heap later may take along what lies on the stack.
    let load = || -> Outcome {
        for name in names {
            keys.push((name.clone(), locked_keys::load(&keyring()?, name, ways)?));
        }
        for path in files {
            keys.push((shown(path), read_key(path)?));
        }
        Ok(())
    };
    wiped(load)?;
    Ok(keys)
}
