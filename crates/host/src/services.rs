//! The key services that the user has named. Each wraps one run key for all files of a run, and unwraps the run keys of
//! the files that it is asked about.

mod configured;
mod program;

use crate::failure::{Failure, Outcome};
use crate::lines::one_line;
use crate::lock::lock;
use configured::Configured;
use phalanx_core::{Error, Recipient, Result, SecretKey};
use phalanx_kernels::keccak::sha3_256;
use program::{Operation, Trouble};
use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a service may take for one call.
const TIME: Duration = Duration::from_secs(30);
/// How long a service is not asked again about a run key that it did not unwrap: a mount must not stay without its files
/// because the service was away for a moment.
const RETRY: Duration = Duration::from_secs(10);
/// A service that did not answer in time is not asked at all for this many times as long.
const BROKEN: u32 = 30;
/// How many services a command may name: no more are tried for one file.
const MOST: usize = 8;

/// The key services that the user has named, and what they have answered in this run. Clones share the answers.
#[derive(Clone, Default)]
pub struct Services {
    named: Arc<Vec<Service>>,
    /// Those of the user's file, if they may be asked too.
    configured: Option<Arc<Configured>>,
}

/// A service, or all whose URIs begin alike. It is asked by one thread at a time, and once for each run key.
struct Service {
    uri: String,
    /// Whether its URI is the beginning of others.
    is_prefix: bool,
    /// The program that asks it.
    program: String,
    /// The folders of programs, written as in PATH.
    path: Option<OsString>,
    time: Duration,
    retry: Duration,
    /// Held while it is asked, which can take long.
    asking: Mutex<()>,
    known: Mutex<Known>,
}

/// What is known from earlier calls.
#[derive(Default)]
struct Known {
    /// The recipient for the files that this run protects.
    recipient: Option<Recipient>,
    /// The run keys, by the SHA3-256 of their URIs and wrapped forms. A key is allocated separately, because the map grows.
    run_keys: HashMap<[u8; 32], Box<SecretKey>>,
    /// Why it did not unwrap one of them, and when.
    refused: HashMap<[u8; 32], (Trouble, Instant)>,
    /// Why the service is not asked, and since when.
    broken: Option<(Trouble, Instant)>,
}

impl Known {
    /// The run key, or why there is none now. `None` if the service must be asked.
    fn answer(&self, hash: &[u8; 32], retry: Duration) -> Option<Result<Box<SecretKey>, Trouble>> {
        if let Some(run_key) = self.run_keys.get(hash) {
            return Some(Ok(run_key.clone()));
        }
        let (trouble, when) = self.refused.get(hash)?;
        (when.elapsed() < retry).then(|| Err(trouble.clone()))
    }
}

impl Services {
    /// The services that an option names, each once.
    ///
    /// # Errors
    /// If a URI is malformed, or if there are too many.
    pub fn new(option: &str, uris: &[String]) -> Outcome<Self> {
        Self::in_path(option, uris, env::var_os("PATH"), [TIME, RETRY])
    }

    fn in_path(option: &str, uris: &[String], path: Option<OsString>, times: [Duration; 2]) -> Outcome<Self> {
        let mut all: Vec<Service> = Vec::new();
        for uri in uris {
            let program = program::name(uri).ok_or_else(|| {
                let line = format!("{option}: {} is not the URI of a key service", one_line(uri));
                Failure::usage(line).hint("it looks like NAME://KEY, and the program phalanx-kms-NAME asks it")
            })?;
            if all.iter().all(|other| other.uri != *uri) {
                all.push(Service::new(uri.clone(), false, program, path.clone(), times));
            }
        }
        if all.len() > MOST {
            return Err(Failure::usage(format!("{option}: a file has at most {MOST} key services")));
        }
        Ok(Self { named: Arc::new(all), configured: None })
    }

    /// These, and for opening those of the user's file.
    #[must_use]
    pub fn or_configured(self) -> Self {
        Self { configured: Some(Arc::new(Configured::of_user())), ..self }
    }

    /// Whether none is named, those of the user's file aside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The run key that a service wrapped. `None` if that service is not named.
    ///
    /// # Errors
    /// [`Error::KeysRefused`] if it is named and does not unwrap it, or if the user's file is refused.
    pub fn unwrap(&self, uri: &str, wrapped: &[u8]) -> Result<Option<SecretKey>> {
        let Some((service, _)) = self.find(uri)? else { return Ok(None) };
        // A clone, since a key that is moved out of its box would leave a copy.
        let run_key = service.unwrap(uri, wrapped).map(|key| Some(SecretKey::clone(&key)));
        run_key.map_err(|trouble| {
            let line = format!("the key service {uri}: {}", trouble.line);
            refused(Trouble { line, ..trouble })
        })
    }

    /// The service with this URI, and whether it was named itself, and not only how it begins.
    fn find(&self, uri: &str) -> Result<Option<(&Service, bool)>> {
        let named = self.named.iter().find(|service| service.uri == uri);
        match (named, &self.configured) {
            (Some(service), _) => Ok(Some((service, true))),
            (None, Some(configured)) => configured.find(uri).map_err(refused),
            (None, None) => Ok(None),
        }
    }

    /// The recipient that a service is, for a file that it opens already. `None` if that service is not named: how its URI
    /// begins is not enough, because files say how it goes on.
    ///
    /// # Errors
    /// [`Error::Recipient`] if it is named and does not wrap a run key.
    pub fn recipient(&self, uri: &str) -> Result<Option<Recipient>> {
        let service = self.find(uri)?.filter(|(_, is_named)| *is_named).map(|(service, _)| service);
        service.map(|service| service.recipient().map_err(|trouble| service.cannot_protect(trouble.line))).transpose()
    }

    /// All of them but those of the user's file, as recipients of new files.
    ///
    /// # Errors
    /// As for [`Self::recipient`], with advice.
    pub fn recipients(&self) -> Outcome<Vec<Recipient>> {
        let recipient = |service: &Service| {
            service
                .recipient()
                .map_err(|Trouble { line, remedy, .. }| Failure::from(service.cannot_protect(line)).hint(remedy))
        };
        self.named.iter().map(recipient).collect()
    }
}

/// Why nothing was unwrapped. Another way in may open the file.
fn refused(trouble: Trouble) -> Error {
    Error::KeysRefused {
        keys: Vec::new(),
        identity: false,
        services: Box::default(),
        password: false,
        tried: false,
        refused: vec![trouble.line],
        remedy: Some(trouble.remedy),
    }
}

/// What a run key is remembered by. A URI has no zeros.
fn name_of(uri: &str, wrapped: &[u8]) -> [u8; 32] {
    sha3_256(&[uri.as_bytes(), &[0], wrapped].concat())
}

impl Service {
    fn new(
        uri: String,
        is_prefix: bool,
        program: String,
        path: Option<OsString>,
        [time, retry]: [Duration; 2],
    ) -> Self {
        let (asking, known) = (Mutex::default(), Mutex::default());
        Self { uri, is_prefix, program, path, time, retry, asking, known }
    }

    fn unwrap(&self, uri: &str, wrapped: &[u8]) -> Result<Box<SecretKey>, Trouble> {
        let hash = name_of(uri, wrapped);
        if let Some(answer) = lock(&self.known).answer(&hash, self.retry) {
            return answer;
        }
        let _turn = lock(&self.asking);
        if let Some(answer) = lock(&self.known).answer(&hash, self.retry) {
            return answer;
        }
        let answer = self.ask(uri, Operation::Unwrap, wrapped);
        let run_key = answer.and_then(|bytes| match SecretKey::from_slice(&bytes) {
            Some(key) => Ok(Box::new(key)),
            None => Err(self.trouble(format!("it unwrapped {} bytes, and a run key has 32", bytes.len()))),
        });
        let mut known = lock(&self.known);
        match &run_key {
            Ok(key) => drop(known.run_keys.insert(hash, key.clone())),
            Err(trouble) => drop(known.refused.insert(hash, (trouble.clone(), Instant::now()))),
        }
        run_key
    }

    fn recipient(&self) -> Result<Recipient, Trouble> {
        let _turn = lock(&self.asking);
        if let Some(recipient) = &lock(&self.known).recipient {
            return Ok(recipient.clone());
        }
        let run_key = SecretKey::random().map_err(|e| self.trouble(e.to_string()))?;
        let wrapped = self.ask(&self.uri, Operation::Wrap, run_key.expose())?;
        // Whoever reads the file would have its key.
        if wrapped.windows(run_key.expose().len()).any(|part| part == run_key.expose()) {
            return Err(self.trouble("it has wrapped nothing: its answer contains the run key".into()));
        }
        let recipient = Recipient::service(&self.uri, &wrapped, &run_key).map_err(|e| match e {
            Error::Recipient { reason, .. } => self.trouble(reason),
            e => self.trouble(e.to_string()),
        })?;
        let mut known = lock(&self.known);
        // The run opens what it protects, such as the manifest of a mirror.
        known.run_keys.insert(name_of(&self.uri, &wrapped), Box::new(run_key));
        known.recipient = Some(recipient.clone());
        Ok(recipient)
    }

    fn cannot_protect(&self, reason: String) -> Error {
        Error::Recipient { recipient: self.uri.clone(), reason }
    }

    fn ask(&self, uri: &str, operation: Operation, bytes: &[u8]) -> Result<program::Secret, Trouble> {
        if let Some((trouble, when)) = &lock(&self.known).broken
            && when.elapsed() < self.retry * BROKEN
        {
            return Err(trouble.clone());
        }
        let answer = program::ask(self, uri, operation, bytes);
        if let Err(trouble) = &answer
            && trouble.stays
        {
            lock(&self.known).broken = Some((trouble.clone(), Instant::now()));
        }
        answer
    }

    fn trouble(&self, line: String) -> Trouble {
        Trouble { line, remedy: self.advice(), stays: false }
    }

    fn advice(&self) -> String {
        format!("docs/key-services.md says what {} needs; another way into a file opens it without", self.program)
    }
}

#[cfg(test)]
mod tests;
