//! Key services: which are asked, how often, and what they open.

use phalanx_core::format::{Header, Purpose, Slot};
use phalanx_core::{
    Error, KdfLimit, KeyId, KeySource, OpenedBy, Opener, Password, Recipient, Result, SecretKey, Suite,
};
use phalanx_core::{NewFile, ProtectedFile, Source, Ways};
use phalanx_vectors::Expect;
use std::sync::Mutex;

const URI: &str = "test://one";
const OTHER: &str = "test://two";

/// A user who has named services, each of which unwraps what it knows.
#[derive(Default)]
struct User {
    named: Vec<&'static str>,
    knows: Vec<(String, Vec<u8>, SecretKey)>,
    /// What was asked.
    asked: Mutex<Vec<String>>,
}

impl User {
    fn new(named: &[&'static str]) -> Self {
        Self { named: named.to_vec(), ..Self::default() }
    }

    /// Wraps a new run key, as a service would.
    fn wrap(&mut self, uri: &str, wrapped: &[u8]) -> Recipient {
        let run_key = SecretKey::random().unwrap();
        let recipient = Recipient::service(uri, wrapped, &run_key).unwrap();
        self.knows.push((uri.into(), wrapped.into(), run_key));
        recipient
    }

    fn opener(self) -> Opener<Self> {
        Opener::new(self, KdfLimit::default())
    }
}

impl KeySource for User {
    fn key(&self, _: &KeyId) -> Result<Option<SecretKey>> {
        Ok(None)
    }

    fn password(&self) -> Result<Option<Password>> {
        Ok(None)
    }

    fn service(&self, uri: &str, wrapped: &[u8]) -> Result<Option<SecretKey>> {
        if !self.named.contains(&uri) {
            return Ok(None);
        }
        self.asked.lock().unwrap().push(uri.into());
        let known = self.knows.iter().find(|(its, bytes, _)| its == uri && bytes == wrapped);
        known.map(|(_, _, key)| Some(key.clone())).ok_or_else(|| refused(uri))
    }

    fn service_recipient(&self, uri: &str) -> Result<Option<Recipient>> {
        let run_key = SecretKey::from_slice(&[9; 32]).unwrap();
        self.named.contains(&uri).then(|| Recipient::service(uri, b"anew", &run_key)).transpose()
    }
}

fn refused(uri: &str) -> Error {
    let refused = vec![format!("{uri} says no")];
    Error::KeysRefused {
        keys: Vec::new(),
        identity: false,
        services: Box::default(),
        password: false,
        tried: false,
        refused,
        remedy: None,
    }
}

fn key(n: u8) -> SecretKey {
    SecretKey::from_slice(&[n; 32]).unwrap()
}

fn file(recipients: &[Recipient]) -> Vec<u8> {
    phalanx_core::protect(b"content", recipients).unwrap()
}

fn header(file: &[u8]) -> Header {
    Header::read(&mut &file[..]).unwrap()
}

#[test]
fn a_named_service_opens_and_another_is_not_asked() {
    let mut user = User::new(&[URI]);
    let recipients = [user.wrap(OTHER, b"stranger"), user.wrap(URI, b"run key")];
    let file = file(&recipients);
    let opener = user.opener();
    let opened = ProtectedFile::open(Source::ranged(&file[..]), &opener).unwrap();
    assert_eq!((opened.opened_slot(), opened.opened_by()), (2, &OpenedBy::Service(URI.into())));
    assert_eq!(&**phalanx_core::unprotect(&file, &opener).unwrap(), b"content");
    assert_eq!(*opener.source().asked.lock().unwrap(), [URI, URI]);
    let nobody = User::default().opener();
    let error = nobody.open(&header(&file)).unwrap_err();
    assert!(nobody.source().asked.lock().unwrap().is_empty());
    assert_eq!(
        error.to_string(),
        "no key at hand opens it: it needs the key service test://two or the key service test://one"
    );
}

#[test]
fn a_service_that_refuses_does_not_stop_the_search() {
    let mut user = User::new(&[URI, OTHER]);
    let mut forgetful = User::new(&[]);
    let recipients = [forgetful.wrap(OTHER, b"forgotten"), user.wrap(URI, b"run key")];
    let file = file(&recipients);
    let opener = user.opener();
    assert_eq!(opener.open(&header(&file)).unwrap().slot, 2);
    assert_eq!(*opener.source().asked.lock().unwrap(), [OTHER, URI]);
    let error = User::new(&[OTHER]).opener().open(&header(&file)).unwrap_err();
    assert!(matches!(&error, Error::KeysRefused { services, refused, .. }
        if **services == [OTHER, URI] && *refused == ["test://two says no"]));
}

/// The service answers, but with a key that does not open the slot.
#[test]
fn a_service_that_lies_opens_nothing() {
    let mut user = User::new(&[URI]);
    let file = file(&[user.wrap(URI, b"run key")]);
    user.knows[0].2 = key(1);
    assert!(matches!(user.opener().open(&header(&file)), Err(Error::WrongKey)));
}

#[test]
fn at_most_eight_slots_are_tried() {
    let (file_key, mut user) = (key(1), User::new(&[URI]));
    user.wrap(URI, b"good");
    let run_key = user.knows[0].2.clone();
    let wrapped = run_key.wrapping_key().wrap(Purpose::File, &file_key);
    let slot = |run_key: &[u8]| Slot::Service { uri: URI.into(), run_key: run_key.into(), wrapped };
    let stranger = Slot::Service { uri: OTHER.into(), run_key: b"x".into(), wrapped };
    for (bad, opens) in [(7, true), (8, false), (40, false)] {
        // The slots of services that are not named do not count.
        let mut slots = vec![stranger.clone(); 20];
        slots.extend((0..bad).map(|n| slot(&[n])));
        slots.push(slot(b"good"));
        let keys = file_key.file_keys(Suite::default());
        let header = Header::new(Suite::default(), 12, slots, &keys).unwrap();
        let knows = user.knows.clone();
        let opener = User { named: vec![URI], knows, asked: Mutex::default() }.opener();
        assert_eq!(opener.open(&header).is_ok(), opens, "{bad}");
        assert_eq!(opener.source().asked.lock().unwrap().len(), 8, "{bad}");
    }
}

#[test]
fn only_what_fits_into_a_slot_becomes_a_recipient() {
    let service = |uri: &str, len: usize| Recipient::service(uri, &vec![7; len], &key(1));
    let long = format!("test://{}", "x".repeat(1024 - 7));
    for (uri, len) in [("t", 1), (&long[..], 4096), ("test://~!", 40)] {
        let protected = file(&[service(uri, len).unwrap()]);
        assert!(matches!(&header(&protected).slots()[0], Slot::Service { uri: its, run_key, .. }
            if its == uri && run_key.len() == len));
    }
    let too_long = format!("{long}x");
    for (uri, len) in [("", 1), (&too_long, 1), ("a b", 1), ("tést://", 1), ("a\n", 1), (URI, 0), (URI, 4097)] {
        assert!(matches!(service(uri, len), Err(Error::Recipient { recipient, .. }) if recipient == uri), "{uri:?}");
    }
    // A recipient that is put together by hand is checked too.
    let Recipient::Service { run_key, kek, .. } = service(URI, 1).unwrap() else { panic!("no service") };
    let made = Recipient::Service { uri: "a b".into(), run_key, kek };
    assert!(matches!(NewFile::new(Suite::default(), &[made]), Err(Error::Header(_))));
}

/// A slot whose body is malformed counts as one of an unknown type: it is kept, and the file opens by its other ways.
#[test]
fn malformed_slots_are_unknown_ones() {
    let body = |uri: &[u8], run_key: &[u8], wrapped: usize| {
        let len = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_le_bytes().to_vec();
        [len(uri), uri.to_vec(), len(run_key), run_key.to_vec(), vec![5; wrapped]].concat()
    };
    let good = body(URI.as_bytes(), b"run key", 40);
    let mut bad = vec![
        body(b"", b"run key", 40),
        body(&[b'x'; 1025], b"run key", 40),
        body(b"a b", b"run key", 40),
        body(b"a\x7f", b"run key", 40),
        body(&[0xff], b"run key", 40),
        body(URI.as_bytes(), b"", 40),
        body(URI.as_bytes(), &[1; 4097], 40),
        body(URI.as_bytes(), b"run key", 39),
        body(URI.as_bytes(), b"run key", 41),
    ];
    bad.extend((0..good.len()).map(|len| good[..len].to_vec()));
    let (file_key, keys) = (key(1), key(1).file_keys(Suite::default()));
    let key_slot = Slot::Key { id: key(2).id(), wrapped: key(2).wrapping_key().wrap(Purpose::File, &file_key) };
    for body in bad {
        let slots = vec![Slot::Unknown { kind: 4, body: body.clone() }, key_slot.clone()];
        let written = Header::new(Suite::default(), 12, slots.clone(), &keys).unwrap();
        let read = Header::read(&mut written.bytes()).unwrap();
        assert_eq!(read.slots(), slots, "{body:?}");
        assert_eq!(Opener::new(key(2), KdfLimit::default()).open(&read).unwrap().slot, 2);
        let opener = User::new(&[URI]).opener();
        assert!(matches!(opener.open(&read), Err(Error::NoKey { services, .. }) if services.is_empty()));
    }
    // A sound one is never written as an unknown one, since it would be read as something else.
    let sound = Slot::Unknown { kind: 4, body: good };
    assert!(matches!(Header::new(Suite::default(), 12, vec![sound], &keys), Err(Error::Header(_))));
}

#[test]
fn volumes_take_no_services() {
    use phalanx_core::{ChunkSize, volume::Config};
    let service = Recipient::service(URI, b"run key", &key(1)).unwrap();
    let refused = Config::create(Suite::default(), ChunkSize::default(), &[Recipient::key(&key(2)), service]);
    assert!(
        matches!(refused, Err(Error::Recipient { reason, .. }) if reason == "a volume opens by keys and passwords only")
    );
}

#[test]
fn the_ways_in_change() {
    let mut user = User::new(&[URI, OTHER]);
    let recipients = [Recipient::key(&key(1)), user.wrap(URI, b"old"), user.wrap(OTHER, b"other")];
    let file = file(&recipients);
    let (anew, again) = (user.wrap(URI, b"new"), user.wrap(URI, b"newer"));
    let opener = user.opener();
    let uris = |header: &Header| -> Vec<(String, Vec<u8>)> {
        let of = |slot: &Slot| match slot {
            Slot::Service { uri, run_key, .. } => Some((uri.clone(), run_key.clone())),
            _ => None,
        };
        header.slots().iter().filter_map(of).collect()
    };
    // A service that is there gets a new slot in place of the old one, and nobody has lost a way in.
    let mut ways = Ways::open(header(&file), &opener).unwrap();
    ways.add(&anew);
    ways.add(&again);
    assert!(ways.is_changed() && !ways.is_reduced());
    let changed = ways.changed(&opener).unwrap();
    assert_eq!(uris(&changed), [(OTHER.into(), b"other".to_vec()), (URI.into(), b"new".to_vec())]);
    assert!(opener.open(&changed).is_ok());

    let mut ways = Ways::open(header(&file), &opener).unwrap();
    assert!(ways.remove_service(URI) && !ways.remove_service("test://none"));
    assert!(ways.is_reduced());
    assert_eq!(uris(&ways.changed(&opener).unwrap()), [(OTHER.into(), b"other".to_vec())]);

    // Under a new file key, each service that stays wraps a new run key.
    let mut ways = Ways::open(header(&file), &opener).unwrap();
    ways.remove_key(&key(1).id());
    let recipients = ways.recipients(&opener).unwrap();
    let run_keys: Vec<_> = recipients
        .iter()
        .map(|recipient| match recipient {
            Recipient::Service { uri, run_key, .. } => (&**uri, &**run_key),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(run_keys, [(URI, &b"anew"[..]), (OTHER, b"anew")]);
    let without = User::new(&[]).opener();
    let mut ways = Ways::open(header(&file), &Opener::new(key(1), KdfLimit::default())).unwrap();
    ways.remove_slot(1).unwrap();
    assert!(matches!(ways.recipients(&without), Err(Error::NotAtHand(2))));
}

#[test]
fn every_scenario_has_its_expected_outcome() {
    for (name, scenario) in phalanx_vectors::services() {
        let answer = |uri: &str, wrapped: &[u8]| {
            let answer = scenario.services.iter().find(|its| its.uri == uri && *its.wrapped_run_key == *wrapped);
            answer.and_then(|answer| answer.run_key.as_ref()).map(|key| SecretKey::from_slice(key).unwrap())
        };
        let opener = Opener::new(Answers { scenario: &scenario, answer: &answer }, KdfLimit::default());
        let opened = phalanx_core::unprotect(&scenario.file, &opener);
        let expect = match &opened {
            Ok(_) => Expect::Ok,
            Err(Error::NoKey { .. } | Error::WrongKey | Error::KeysRefused { .. }) => Expect::NoKey,
            Err(other) => panic!("{name}: {other}"),
        };
        assert_eq!(expect, scenario.expect, "{name}: {opened:?}");
        if let Ok(plaintext) = opened {
            assert_eq!(Some(&plaintext[..]), scenario.plaintext.as_deref(), "{name}");
        }
    }
}

struct Answers<'a> {
    scenario: &'a phalanx_vectors::Services,
    answer: &'a dyn Fn(&str, &[u8]) -> Option<SecretKey>,
}

impl KeySource for Answers<'_> {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        let key = self.scenario.key.iter().map(|key| SecretKey::from_slice(key).unwrap());
        Ok(key.into_iter().find(|key| key.id() == *id))
    }

    fn password(&self) -> Result<Option<Password>> {
        Ok(None)
    }

    fn service(&self, uri: &str, wrapped: &[u8]) -> Result<Option<SecretKey>> {
        if self.scenario.services.iter().all(|service| service.uri != uri) {
            return Ok(None);
        }
        (self.answer)(uri, wrapped).map(Some).ok_or_else(|| refused(uri))
    }
}
