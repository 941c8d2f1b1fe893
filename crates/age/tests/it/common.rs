//! Shared helpers of the tests: headers for recipients, and identities that open them.

use phalanx_age::{Identities, Plugins, Recipient, User};
use phalanx_core::format::{FileKeys, Header, Slot};
use phalanx_core::{AgeRecipient, Error, KdfLimit, OpenedBy, Opener, Result, SecretKey, Suite};
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use zeroize::Zeroizing;

/// The passphrase of all test keys that have one.
pub const PASSPHRASE: &str = "open sesame";

pub fn data(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn text(name: &str) -> String {
    String::from_utf8(data(name)).unwrap()
}

/// The recipient of a test key of age, which its file names in a comment, or of an SSH key.
pub fn recipient_of(name: &str) -> Recipient {
    let line = match text(name).lines().find_map(|line| line.strip_prefix("# public key: ").map(str::to_owned)) {
        Some(line) => line,
        None => text(&format!("{name}.pub")),
    };
    Recipient::parse(&line, &Plugins::default()).unwrap()
}

/// Gives the same secret each time, and counts how often.
pub struct Answers {
    pub secret: Option<&'static str>,
    pub asked: AtomicUsize,
}

impl Answers {
    pub fn new(secret: &'static str) -> Arc<Self> {
        Arc::new(Self { secret: Some(secret), asked: AtomicUsize::new(0) })
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl User for Answers {
    fn secret(&self, _: &str) -> Option<Zeroizing<String>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.secret.map(|secret| Zeroizing::new(secret.to_owned()))
    }
}

pub fn identities(names: &[&str], plugins: Plugins) -> Identities {
    let mut found = Identities::new(plugins);
    for name in names {
        found.add(name, &data(name)).unwrap();
    }
    found
}

pub fn file_key() -> SecretKey {
    SecretKey::from_slice(&[42; 32]).unwrap()
}

pub fn keys() -> FileKeys {
    file_key().file_keys(Suite::default())
}

/// The slot of a recipient under [`file_key`].
pub fn slot(recipient: &Recipient) -> Slot {
    Slot::Age { tag: keys().recipient_tag(recipient.text()), file: recipient.wrap(&file_key()).unwrap() }
}

/// A slot that holds these bytes as its age file.
pub fn raw(file: Vec<u8>) -> Slot {
    Slot::Age { tag: [0; 16], file }
}

/// A header under [`file_key`], as a reader gets it.
pub fn header(slots: Vec<Slot>) -> Header {
    let header = Header::new(Suite::default(), 20, slots, &keys()).unwrap();
    Header::read(&mut header.bytes()).unwrap()
}

/// Opens a header, and returns which slot opened it and by which identity.
pub fn open(header: &Header, identities: Identities) -> Result<(usize, String)> {
    let opened = Opener::new(identities, KdfLimit::default()).open(header)?;
    assert!(header.is_authentic(&opened.keys));
    let OpenedBy::Identity(name) = opened.by else { panic!("{:?}", opened.by) };
    Ok((opened.slot, name))
}

/// Why identities that could open the file are refused.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(Error::KeysRefused { refused, identity: true, tried: false, .. }) => refused.join("; "),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn not_for_these<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::NoKey { identity: true, .. })), "{result:?}");
}

/// A program, if it is installed. Otherwise reports that the test is skipped, or fails if PHALANX_REQUIRE names `what`.
pub fn program(program: &str, what: &str) -> Option<Command> {
    let found = env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).is_file()));
    if !found {
        let required = env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(!required.split([',', ' ']).any(|name| name == what), "PHALANX_REQUIRE names {what}, which is missing");
        println!("skipped: no {what}");
    }
    found.then(|| Command::new(program))
}
