//! Each kind of recipient, opened by its identity.

use crate::common::*;
use phalanx_age::{Outline, Plugins, Stanza};
use phalanx_core::{KeySource, NewFile, OpenedBy, Opener, ProtectedFile, Roster, Sink, Source, Suite};

/// The key, and the type of its stanza.
const PLAIN: &[(&str, &str)] = &[
    ("alice.txt", "X25519"),
    ("bob.txt", "X25519"),
    ("ssh-ed25519", "ssh-ed25519"),
    ("ssh-rsa", "ssh-rsa"),
    ("ssh-rsa-pem", "ssh-rsa"),
];

#[test]
fn each_recipient_is_opened_by_its_identity_and_by_no_other() {
    for (i, (name, kind)) in PLAIN.iter().enumerate() {
        let header = header(vec![slot(&recipient_of(name))]);
        let (slot, said) = open(&header, identities(&[name], Plugins::default())).unwrap();
        assert!(slot == 1 && said.starts_with(name), "{said}");
        let others: Vec<&str> = PLAIN.iter().map(|(other, _)| *other).filter(|other| other != name).collect();
        not_for_these(open(&header, identities(&others, Plugins::default())));

        let phalanx_core::format::Slot::Age { file, .. } = &header.slots()[0] else { panic!("{i}") };
        let outline = Outline::of(file).unwrap();
        let kinds: Vec<_> = outline.stanzas().iter().filter(|s| !s.is_grease()).map(Stanza::kind).collect();
        assert_eq!(kinds, [*kind]);
    }
}

#[test]
fn the_right_slot_opens_in_any_order_of_identities() {
    let names: Vec<&str> = PLAIN.iter().map(|(name, _)| *name).collect();
    let header = header(names.iter().map(|name| slot(&recipient_of(name))).collect());
    for (i, name) in names.iter().enumerate() {
        assert_eq!(open(&header, identities(&[name], Plugins::default())).unwrap().0, i + 1);
    }
    let mut reversed = names.clone();
    reversed.reverse();
    let (slot, said) = open(&header, identities(&reversed, Plugins::default())).unwrap();
    assert!(slot == names.len() && said.starts_with("ssh-rsa-pem"), "{slot} {said}");
}

#[test]
fn a_passphrase_is_asked_for_once_and_only_where_it_may_help() {
    for (locked, recipient) in [
        ("ssh-ed25519-locked", "ssh-ed25519-locked"),
        ("ssh-rsa-locked", "ssh-rsa-locked"),
        ("alice-locked.age", "alice.txt"),
        ("bob-locked.txt", "bob.txt"),
    ] {
        let user = Answers::new(PASSPHRASE);
        let opener = Opener::new(identities(&[locked], Plugins::new(user.clone())), Default::default());
        let header = header(vec![slot(&recipient_of("ssh-ed25519")), slot(&recipient_of(recipient))]);
        for _ in 0..3 {
            assert_eq!(opener.open(&header).unwrap().slot, 2);
        }
        assert_eq!(user.asked(), 1, "{locked}");

        // For another SSH key alone, no passphrase helps.
        let other = crate::common::header(vec![slot(&recipient_of("ssh-ed25519"))]);
        let user = Answers::new(PASSPHRASE);
        not_for_these(open(&other, identities(&[locked], Plugins::new(user.clone()))));
        assert_eq!(user.asked(), 0, "{locked}");

        // An identity without a passphrase goes first.
        let user = Answers::new(PASSPHRASE);
        let both = identities(&[locked, "ssh-ed25519"], Plugins::new(user.clone()));
        assert_eq!(open(&header, both).unwrap().0, 1);
        assert_eq!(user.asked(), 0, "{locked}");
    }
}

/// As for a folder of files: all of them open, and the passphrase is asked for once.
#[test]
fn many_threads_wait_for_one_passphrase() {
    for (locked, recipient) in [("ssh-ed25519-locked", "ssh-ed25519-locked"), ("alice-locked.age", "alice.txt")] {
        let user = Answers::new(PASSPHRASE);
        let opener = Opener::new(identities(&[locked], Plugins::new(user.clone())), Default::default());
        let header = header(vec![slot(&recipient_of(recipient))]);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..8).for_each(|_| assert_eq!(opener.open(&header).unwrap().slot, 1)));
            }
        });
        assert_eq!(user.asked(), 1);
    }
}

#[test]
fn a_wrong_passphrase_and_no_passphrase_are_different_errors() {
    for (locked, recipient) in [
        ("ssh-ed25519-locked", "ssh-ed25519-locked"),
        ("ssh-rsa-locked", "ssh-rsa-locked"),
        ("alice-locked.age", "alice.txt"),
    ] {
        let header = header(vec![slot(&recipient_of(recipient))]);
        for wrong in ["open sesame ", "", "Open Sesame"] {
            let user = Answers::new(wrong);
            let opener = Opener::new(identities(&[locked], Plugins::new(user.clone())), Default::default());
            assert_eq!(refused(opener.open(&header)), format!("{locked}: the passphrase is wrong"));
            // The answer is kept.
            assert!(opener.open(&header).is_err());
            assert_eq!(user.asked(), 1);
        }
        let nobody = open(&header, identities(&[locked], Plugins::default()));
        assert_eq!(refused(nobody), format!("{locked}: nobody could be asked for its passphrase"));
        // Another identity may still open it.
        let both = header.slots()[0].clone();
        let both = crate::common::header(vec![both, slot(&recipient_of("bob.txt"))]);
        assert_eq!(open(&both, identities(&[locked, "bob.txt"], Plugins::default())).unwrap().0, 2);
    }
}

#[test]
fn opening_a_file_shows_the_recipients_of_its_slots() {
    let names: Vec<&str> = PLAIN.iter().map(|(name, _)| *name).collect();
    let header = header(names.iter().map(|name| slot(&recipient_of(name))).collect());
    let opened = Opener::new(identities(&["alice.txt"], Plugins::default()), Default::default()).open(&header).unwrap();
    let tags: Vec<_> = header
        .slots()
        .iter()
        .map(|slot| match slot {
            phalanx_core::format::Slot::Age { tag, .. } => *tag,
            other => panic!("{other:?}"),
        })
        .collect();
    for (i, name) in names.iter().enumerate() {
        let tag = opened.keys.recipient_tag(recipient_of(name).text());
        assert_eq!(tags.iter().position(|other| *other == tag), Some(i), "{name}");
        let reference = phalanx_reference::kmac256(
            keys().content().mac(),
            recipient_of(name).text().as_bytes(),
            128,
            "phalanx v1 recipient",
        );
        assert_eq!(tag[..], reference[..]);
    }
    // Under another file key the tags differ.
    let other = phalanx_core::SecretKey::from_slice(&[43; 32]).unwrap().file_keys(Suite::default());
    assert!(names.iter().all(|name| !tags.contains(&other.recipient_tag(recipient_of(name).text()))));
}

#[test]
fn a_file_round_trips_and_names_what_opened_it() {
    let plain: Vec<u8> = (0..5000).map(|i| (i % 251) as u8).collect();
    let alice = recipient_of("alice.txt");
    let password = phalanx_core::Recipient::key(&file_key());
    let new = NewFile::new(Suite::default(), &[password, alice.clone().into()]).unwrap();
    let (mut stored, mut found) = (Vec::new(), Vec::new());
    let roster = Roster::cpu();
    new.protect(&roster, Source::stream(&plain[..]), Sink::Stream(Box::new(&mut stored)), &()).unwrap();

    let opener = Opener::new(identities(&["alice.txt"], Plugins::default()), Default::default());
    let file = ProtectedFile::open(Source::stream(&stored[..]), &opener).unwrap();
    let name = format!("alice.txt ({})", alice.text());
    assert_eq!((file.opened_slot(), file.opened_by()), (2, &OpenedBy::Identity(name)));
    let phalanx_core::format::Slot::Age { tag, .. } = file.header().slots()[1] else { panic!("no age slot") };
    assert_eq!(tag, file.recipient_tag(alice.text()));
    file.unprotect(&roster, Sink::Stream(Box::new(&mut found)), &()).unwrap();
    assert_eq!(found, plain);

    // A named key is tried first.
    let opener = Opener::new(file_key(), Default::default());
    let file = ProtectedFile::open(Source::stream(&stored[..]), &opener).unwrap();
    assert_eq!((file.opened_slot(), file.opened_by()), (1, &OpenedBy::Key(file_key().id())));
}

/// A new file for the same recipients needs their public keys.
#[test]
fn identities_have_public_keys() {
    let names = ["alice.txt", "ssh-ed25519-locked", "bob-locked.txt"];
    let user = Answers::new(PASSPHRASE);
    let found = identities(&names, Plugins::new(user.clone()));
    let tells = |name: &str| {
        let recipient = recipient_of(name);
        found.age_recipient(&|text| text == recipient.text()).map(|found| found.text().to_owned())
    };
    for name in ["alice.txt", "ssh-ed25519-locked"] {
        assert_eq!(tells(name).as_deref(), Some(recipient_of(name).text()));
    }
    // Identities without a passphrase are tried first.
    assert_eq!(user.asked(), 0);
    assert_eq!(tells("bob.txt").as_deref(), Some(recipient_of("bob.txt").text()));
    assert_eq!(tells("ssh-rsa"), None);
    assert_eq!(user.asked(), 1);
    let nobody = identities(&["bob-locked.txt"], Plugins::default());
    assert!(nobody.age_recipient(&|_| true).is_none());
}
