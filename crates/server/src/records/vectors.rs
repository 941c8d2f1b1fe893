//! The vectors, against this server and against the core alone.

use super::tests::{Bench, split};
use crate::keys::root::Root;
use crate::store::{KeyRecord, VersionRecord};
use phalanx_core::batch::{self, KeyOf, Message};
use phalanx_core::{Roster, SecretKey, Suite, UserKeys};
use phalanx_vectors::{Expect, Hex};

/// A key of these versions.
fn record(root: &SecretKey, name: &str, suite: u8, versions: &[(u32, [u8; 32])]) -> KeyRecord {
    let (root, id) = (Root::new(root), [9; 16]);
    let version = |(number, secret): &(u32, [u8; 32])| {
        let place = [b"version".as_slice(), &id, &number.to_le_bytes()].concat();
        let sealed = root.seal(&place, &SecretKey::from_slice(secret).unwrap()).unwrap();
        VersionRecord { number: *number, created: 0, sealed }
    };
    let mut record = KeyRecord {
        id,
        name: name.to_owned(),
        suite,
        shreddable: false,
        needs_user: false,
        deletion_allowed: false,
        min_decryption: 1,
        min_encryption: 0,
        min_available: 0,
        versions: versions.iter().map(version).collect(),
        mac: [0; 32],
    };
    root.sign_key(&mut record);
    record
}

#[test]
fn ciphertexts_open_under_the_users_key() {
    for (name, file) in phalanx_vectors::server() {
        let suite = Suite::from_id(file.suite).unwrap();
        let mut context = vec![u8::from(file.salt.is_some()), file.name.len() as u8];
        context.extend_from_slice(file.name.as_bytes());
        context.extend_from_slice(&file.version.to_le_bytes());
        context.extend_from_slice(&(file.user.len() as u32).to_le_bytes());
        context.extend_from_slice(&file.user);
        let user = [file.salt.as_deref().unwrap_or_default(), &context[..]].concat();
        let keys = UserKeys::new(&SecretKey::from_slice(&file.secret).unwrap(), b"phalanx server v1 user key");
        let ad = [&context[..], &file.ad].concat();
        let head = [&file.version.to_le_bytes()[..], &[file.suite]].concat();
        let mut message = file.ciphertext.get(5..).unwrap_or_default().to_vec();
        let key = KeyOf::User { keys: &keys, user: &user };
        let opened = file.ciphertext.starts_with(&head)
            && batch::open(&Roster::cpu(), suite, &mut [Message::to_open(key, &ad, &mut message)]).is_ok();
        assert_eq!(opened, file.expect == Expect::Ok, "{name}");
        if opened {
            assert_eq!(message[suite.overhead()..], **file.plaintext.as_ref().unwrap(), "{name}");
            assert!(
                keys.key(&user).matches(&SecretKey::from_slice(file.user_key.as_ref().unwrap()).unwrap()),
                "{name}"
            );
            assert_eq!(context, **file.context.as_ref().unwrap(), "{name}");
        }
    }
}

#[test]
fn the_server_opens_ciphertexts() {
    // In shreddable mode the salt is the server's.
    for (name, file) in phalanx_vectors::server().into_iter().filter(|(_, file)| file.salt.is_none()) {
        let key = |root: &SecretKey| record(root, &file.name, file.suite, &[(file.version, file.secret.array())]);
        let bench = Bench::of_keys(key);
        let answers = bench.records("open", &[[file.name.as_bytes(), &file.user, &file.ad, &file.ciphertext]]);
        match file.expect {
            Expect::Ok => assert_eq!(answers, [(0, file.plaintext.unwrap().to_vec())], "{name}"),
            _ => assert_eq!(answers[0].0, 400, "{name}"),
        }
    }
}

#[test]
fn the_server_answers_streams() {
    for (name, file) in phalanx_vectors::streams() {
        let secrets: Vec<[u8; 32]> = file.secrets.iter().map(Hex::array).collect();
        let versions = if file.action == "rewrap" { 2 } else { 1 };
        let versions: Vec<_> = (1..=versions).zip(secrets).collect();
        let bench = Bench::of_keys(|root| record(root, "orders", 1, &versions));
        let (status, answers) = bench.chunks(&file.action, None, vec![file.request.to_vec()]);
        assert_eq!(status, 200);
        if file.action == "open" {
            let expected: Vec<_> = file.answers.iter().map(|answer| (answer.status, answer.bytes.to_vec())).collect();
            assert_eq!(answers, expected, "{name}");
        } else {
            let shape = |answers: Vec<(u16, Vec<u8>)>| -> Vec<(u16, usize, Vec<u8>)> {
                answers.into_iter().map(|(status, bytes)| (status, bytes.len(), bytes[..5].to_vec())).collect()
            };
            assert_eq!(shape(answers), shape(split(&file.answer)), "{name}");
        }
    }
}
