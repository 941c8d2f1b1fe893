//! The files of `vectors/age`: files that were made once must always open.

use phalanx_age::{Identities, Plugins, Recipient};
use phalanx_core::format::Slot;
use phalanx_core::{Error, Opener, ProtectedFile, Roster, SecretKey, Sink, Source};
use phalanx_reference as reference;

#[test]
fn golden_files_open_by_each_of_their_ways() {
    let (mut seen, mut refused) = (0, 0);
    for (_, golden) in phalanx_vectors::age() {
        let (file, plaintext, key) = (&*golden.file, &*golden.plaintext, golden.key.array());
        // The reference skips age slots, and identifies their recipients by their tags.
        let (header, file_key) = reference::open_header(file, &[], &[key]).unwrap();
        assert_eq!(reference::open_file(file, &[], &[key]).unwrap(), *plaintext);
        let mac =
            SecretKey::from_slice(&file_key).unwrap().file_keys(phalanx_core::Suite::from_id(header.suite).unwrap());

        for way in &golden.refused {
            let mut hand = Identities::new(Plugins::default());
            hand.add("golden", way.identity.as_bytes()).unwrap();
            let opened = ProtectedFile::open(Source::stream(file), &Opener::new(hand, Default::default()));
            assert!(
                matches!(opened, Err(Error::NoKey { identity: true, .. })),
                "{}: {:?}",
                golden.comment,
                opened.err()
            );
            // It stops nobody who has another way in, also if both are tried.
            let mut hand = Identities::new(Plugins::default());
            hand.add("golden", way.identity.as_bytes()).unwrap();
            let others = golden.recipients.iter().try_for_each(|way| hand.add("golden", way.identity.as_bytes()));
            others.unwrap();
            let opened = ProtectedFile::open(Source::stream(file), &Opener::new(hand, Default::default())).unwrap();
            assert!(golden.recipients.iter().any(|way| way.slot + 1 == opened.opened_slot()), "{}", golden.comment);
            refused += 1;
        }
        for way in &golden.recipients {
            let (place, text) = (way.slot, &*way.recipient);
            let (kind, body) = &header.slots[place];
            let tag = reference::kmac256(mac.content().mac(), text.as_bytes(), 128, "phalanx v1 recipient");
            assert!(*kind == 3 && body[..16] == tag, "{text}");
            assert_eq!(Recipient::parse(text, &Plugins::default()).unwrap().text(), text);

            let mut hand = Identities::new(Plugins::default());
            hand.add("golden", way.identity.as_bytes()).unwrap();
            let opener = Opener::new(hand, Default::default());
            let opened = ProtectedFile::open(Source::stream(file), &opener).unwrap();
            assert_eq!(opened.opened_slot(), place + 1, "{text}");
            let Slot::Age { tag, .. } = opened.header().slots()[place] else { panic!("slot {place}") };
            assert_eq!(tag, opened.recipient_tag(text));
            let mut found = vec![0; plaintext.len()];
            let len = opened.unprotect(&Roster::cpu(), Sink::Stream(Box::new(&mut found[..])), &()).unwrap();
            assert!(len == plaintext.len() as u64 && found == *plaintext, "{text}");
            seen += 1;
        }
    }
    assert!(seen >= 15 && refused >= 10, "only {seen} ways and {refused} spoilt ones");
}
