//! Hostile slots. They open nothing and stop nothing, and a good slot after them still opens.

use crate::common::*;
use phalanx_age::{NotASlot, Outline, Plugins, Recipient};
use phalanx_core::AgeRecipient;
use phalanx_core::format::{MAX_AGE_FILE, Slot};
use std::time::{Duration, Instant};

fn sound(recipient: &Recipient) -> Vec<u8> {
    recipient.wrap(&file_key()).unwrap()
}

fn alice() -> Recipient {
    recipient_of("alice.txt")
}

/// The header of an age file, and its payload.
fn parts(file: &[u8]) -> (String, Vec<u8>) {
    let (header, payload) = file.split_at(file.len() - 64);
    (String::from_utf8(header.to_vec()).unwrap(), payload.to_vec())
}

/// Asserts that the slot opens nothing, and that a good slot after it still opens.
#[track_caller]
fn opens_nothing(file: &[u8], what: &str) {
    let hand = || identities(&["alice.txt", "ssh-ed25519", "ssh-rsa"], Plugins::default());
    not_for_these(open(&header(vec![raw(file.to_vec())]), hand()));
    let (at, _) = open(&header(vec![raw(file.to_vec()), slot(&alice())]), hand()).unwrap();
    assert_eq!(at, 2, "{what}");
}

#[test]
fn passphrases_are_refused_before_anything_is_derived() {
    let recipient = age::scrypt::Recipient::new(age::secrecy::SecretString::from("x"));
    let file = age::encrypt(&recipient, &[7; 32]).unwrap();
    assert_eq!(Outline::of(&file), Err(NotASlot::Passphrase));
    opens_nothing(&file, "scrypt alone");
    // This also holds if the stanza asks for very much work, alone or together with a good one.
    let (header_text, payload) = parts(&sound(&alice()));
    let scrypt = format!("-> scrypt {} 40\n{}\n", "A".repeat(22), "A".repeat(43));
    for text in [
        header_text.replacen("-> ", &format!("{scrypt}-> "), 1),
        header_text.replacen("\n--- ", &format!("\n{scrypt}--- "), 1),
    ] {
        let file = [text.as_bytes(), &payload].concat();
        assert_eq!(Outline::of(&file), Err(NotASlot::Passphrase));
        let begun = Instant::now();
        opens_nothing(&file, "scrypt beside another");
        // The work would take years.
        assert!(begun.elapsed() < Duration::from_secs(120));
    }
}

#[test]
fn junk_and_truncated_files_open_nothing() {
    opens_nothing(b"x", "one byte");
    opens_nothing(&[0; 300], "zeros");
    opens_nothing(b"age-encryption.org/v1\n", "no stanza");
    opens_nothing(b"-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n-----END AGE ENCRYPTED FILE-----\n", "armor");
    opens_nothing(&vec![b'-'; MAX_AGE_FILE], "the longest");
    let whole = sound(&alice());
    for len in (1..whole.len()).step_by(7) {
        assert!(Outline::of(&whole[..len]).is_err(), "{len}");
        opens_nothing(&whole[..len], "cut");
    }
}

#[test]
fn any_change_to_an_age_file_is_found() {
    for name in ["alice.txt", "ssh-ed25519"] {
        let whole = sound(&recipient_of(name));
        for at in 0..whole.len() {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            let found = open(&header(vec![raw(altered)]), identities(&[name], Plugins::default()));
            assert!(found.is_err(), "{name}: byte {at}");
        }
    }
}

#[test]
fn a_payload_that_is_no_file_key_opens_nothing() {
    let key: age::x25519::Recipient = alice().text().parse().unwrap();
    for len in [0, 1, 31, 33, 64, 4000] {
        let file = age::encrypt(&key, &vec![42; len]).unwrap();
        assert_eq!(Outline::of(&file), Err(NotASlot::Payload), "{len}");
        opens_nothing(&file, "another length");
    }
    // The right length, but another key.
    opens_nothing(&age::encrypt(&key, &[43; 32]).unwrap(), "another file key");
}

/// A recipient whose SSH stanza has an argument more.
struct Longer(age::ssh::Recipient);

impl age::Recipient for Longer {
    fn wrap_file_key(
        &self,
        key: &age_core::format::FileKey,
    ) -> Result<(Vec<age_core::format::Stanza>, std::collections::HashSet<String>), age::EncryptError> {
        let (mut stanzas, labels) = self.0.wrap_file_key(key)?;
        stanzas.iter_mut().for_each(|stanza| stanza.args.push("more".into()));
        Ok((stanzas, labels))
    }
}

/// age itself and the program in Java refuse it; the crate would take it.
#[test]
fn ssh_stanzas_of_another_form_open_nothing() {
    for name in ["ssh-ed25519", "ssh-rsa"] {
        let key: age::ssh::Recipient = recipient_of(name).text().parse().unwrap();
        let whole = age::encrypt(&key, file_key().expose()).unwrap();
        open(&header(vec![raw(whole)]), identities(&[name], Plugins::default())).unwrap();
        opens_nothing(&age::encrypt(&Longer(key), file_key().expose()).unwrap(), name);
    }
}

#[test]
fn many_stanzas_are_refused() {
    let bob: age::x25519::Recipient = recipient_of("bob.txt").text().parse().unwrap();
    let alice_key: age::x25519::Recipient = alice().text().parse().unwrap();
    let with = |others: usize| {
        let recipients = std::iter::repeat_n(&bob as &dyn age::Recipient, others).chain([&alice_key as _]);
        let mut file = Vec::new();
        let mut writer = age::Encryptor::with_recipients(recipients).unwrap().wrap_output(&mut file).unwrap();
        std::io::Write::write_all(&mut writer, file_key().expose()).unwrap();
        writer.finish().unwrap();
        file
    };
    // With the meaningless stanza there are eight.
    assert!(Outline::of(&with(6)).is_ok());
    assert_eq!(Outline::of(&with(7)), Err(NotASlot::Stanzas));
    opens_nothing(&with(7), "nine stanzas");
    opens_nothing(&with(80), "the most stanzas that fit");
}

#[test]
fn the_work_for_one_file_is_bounded() {
    // As many stanzas as a header can have, all of the right type, but for no key.
    let stanza = format!("-> X25519 {}\n{}\n", "B".repeat(43), "A".repeat(43));
    let text = format!("age-encryption.org/v1\n{}--- {}\n", stanza.repeat(8), "A".repeat(43));
    let file = [text.as_bytes(), &[0; 64]].concat();
    assert!(Outline::of(&file).is_ok());
    let full = header(vec![raw(file); 62]);
    let mut hand = phalanx_age::Identities::new(Plugins::default());
    for _ in 0..20 {
        hand.add("alice.txt", &data("alice.txt")).unwrap();
    }
    let begun = Instant::now();
    let said = refused(open(&full, hand));
    assert_eq!(said, "no more than 4096 pairs of an identity and a stanza were tried");
    println!("{:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(60));

    // A stanza with an SSH key's tag costs a private key's work: only a few are tried.
    let (text, payload) = parts(&sound(&recipient_of("ssh-rsa")));
    let mut body = text.clone().into_bytes();
    let at = text.find('\n').unwrap() + "-> ssh-rsa 123456".len() + 30;
    body[at] = if body[at] == b'A' { b'B' } else { b'A' };
    let wrong = [body, payload].concat();
    assert!(Outline::of(&wrong).is_ok());
    let full = header(vec![raw(wrong); 62]);
    let begun = Instant::now();
    let said = refused(open(&full, identities(&["ssh-rsa"], Plugins::default())));
    assert_eq!(said, "ssh-rsa: no more than 16 stanzas for one SSH key were tried");
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// Identities that are protected by a passphrase count as soon as they are decrypted.
#[test]
fn identities_with_passphrases_count_towards_the_limit() {
    let bob = text("bob.txt").lines().last().unwrap().to_owned() + "\n";
    let locked = |identities: usize| {
        let mut recipient = age::scrypt::Recipient::new(age::secrecy::SecretString::from(PASSPHRASE));
        recipient.set_work_factor(2);
        age::encrypt(&recipient, bob.repeat(identities).as_bytes()).unwrap()
    };
    let made = header(vec![slot(&alice())]);
    let hand = |numbers: &[usize]| {
        let mut hand = phalanx_age::Identities::new(Plugins::new(Answers::new(PASSPHRASE)));
        hand.add("plain", bob.repeat(10).as_bytes()).unwrap();
        for number in numbers {
            hand.add(&format!("with {number}"), &locked(*number)).unwrap();
        }
        hand
    };
    not_for_these(open(&made, hand(&[246])));
    not_for_these(open(&made, hand(&[200, 46])));
    assert_eq!(refused(open(&made, hand(&[247]))), "with 247: more than 256 identities");
    assert_eq!(refused(open(&made, hand(&[200, 47, 45]))), "with 47: more than 256 identities");
    // Identities of a refused file open nothing.
    let for_bob = header(vec![slot(&recipient_of("bob.txt"))]);
    let mut only = phalanx_age::Identities::new(Plugins::new(Answers::new(PASSPHRASE)));
    only.add("with 257", &locked(257)).unwrap();
    assert_eq!(refused(open(&for_bob, only)), "with 257: more than 256 identities");
}

#[test]
fn lengths_of_slots_are_those_of_the_format() {
    let read = |body_len: usize| {
        let sound = header(vec![Slot::Unknown { kind: 200, body: vec![0; body_len] }]);
        let mut bytes = sound.bytes().to_vec();
        bytes[18] = 3;
        phalanx_core::format::Header::read(&mut &bytes[..])
    };
    assert!(read(16).is_err() && read(16 + MAX_AGE_FILE + 1).is_err() && read(0).is_err());
    for len in [17, 16 + MAX_AGE_FILE] {
        let found = read(len).unwrap();
        let Slot::Age { file, .. } = &found.slots()[0] else { panic!("{:?}", found.slots()) };
        assert_eq!(file.len(), len - 16);
        assert_eq!(found.slots()[0].kind(), 3);
    }
}
