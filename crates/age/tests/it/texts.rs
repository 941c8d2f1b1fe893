//! Recipients and identities as text.

use crate::common::*;
use phalanx_age::{Identities, IdentityError, MAX_IDENTITIES, Outline, Plugins, Recipient, RecipientError, recipients};
use phalanx_core::AgeRecipient;

fn parse(text: &str) -> Result<Recipient, RecipientError> {
    Recipient::parse(text, &Plugins::default())
}

fn add(text: &str) -> Result<(), IdentityError> {
    Identities::new(Plugins::default()).add("test", text.as_bytes())
}

#[test]
fn a_recipient_has_one_canonical_text() {
    let alice = recipient_of("alice.txt").text().to_owned();
    for other in [alice.to_uppercase(), format!("  {alice}\r\n")] {
        assert_eq!(parse(&other).unwrap().text(), alice);
    }
    for name in ["ssh-ed25519", "ssh-rsa"] {
        let line = text(&format!("{name}.pub"));
        let [kind, key, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}") };
        let canonical = format!("{kind} {key}");
        for other in [line.clone(), canonical.clone(), format!(" {kind}\t {key}   with a comment\n")] {
            assert_eq!(parse(&other).unwrap().text(), canonical);
        }
        assert_eq!(parse(&canonical).unwrap().to_string(), canonical);
    }
}

/// Recipients of keys in hardware, whose identities are plugins'.
#[test]
fn tagged_recipients_get_their_stanzas() {
    const TAG: &str = "age1tag1qt8lw0ual6avlwmwatk888yqnmdamm7xfd0wak53ut6elz5c4swx2yqdj4e";
    let file = parse(TAG).unwrap().wrap(&file_key()).unwrap();
    let outline = Outline::of(&file).unwrap();
    assert_eq!(outline.stanzas()[0].kind(), "p256tag");
}

#[test]
fn what_is_no_recipient_is_told_apart_and_not_repeated() {
    let alice = recipient_of("alice.txt").text().to_owned();
    let ed25519 = text("ssh-ed25519.pub");
    let secret = text("alice.txt");
    let cases = [
        ("", RecipientError::Unknown),
        ("alice", RecipientError::Unknown),
        ("ssh-ed25519", RecipientError::Unknown),
        ("github:alice", RecipientError::Unknown),
        ("age1", RecipientError::Damaged),
        (&alice[..alice.len() - 1], RecipientError::Damaged),
        (&alice.replacen('q', "p", 1), RecipientError::Damaged),
        (&alice.replacen("age1", "Age1", 1), RecipientError::Damaged),
        ("age1test1qqqqqqqqgsf9km", RecipientError::Damaged),
        ("age1../../sh1qqqqqqqq", RecipientError::Damaged),
        (&ed25519[..60], RecipientError::Damaged),
        ("ssh-rsa AAAA", RecipientError::Damaged),
        (&text("ssh-rsa-short.pub"), RecipientError::RsaLength),
        (&text("ssh-ecdsa.pub"), RecipientError::SshType("ecdsa-sha2-nistp256".into())),
        (&text("ssh-ed25519"), RecipientError::Identity),
        ("AGE-PLUGIN-TEST-1QQQQQQQQJGX4L0", RecipientError::Identity),
        (secret.lines().last().unwrap(), RecipientError::Identity),
        (&"age1".repeat(10_000), RecipientError::Damaged),
    ];
    for (given, expected) in cases {
        let error = parse(given).unwrap_err();
        assert_eq!(error, expected, "{given}");
        let said = error.to_string();
        assert!(given.len() < 20 || !said.contains(&given[given.len() / 2..]), "{said}");
    }
}

#[test]
fn files_of_recipients_have_one_on_each_line() {
    let alice = recipient_of("alice.txt").text().to_owned();
    let rsa = text("ssh-rsa.pub");
    let found = recipients(&format!("# a comment\n\n{alice}\r\n{rsa}"), &Plugins::default()).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].text(), alice);
    assert_eq!(recipients(&format!("{alice}\nx\n"), &Plugins::default()).unwrap_err(), (2, RecipientError::Unknown));
    assert_eq!(recipients("# none\n", &Plugins::default()).unwrap_err(), (0, RecipientError::Unknown));
}

#[test]
fn what_is_no_file_of_identities_is_told_apart() {
    let alice = text("alice.txt");
    assert_eq!(add(&alice), Ok(()));
    assert_eq!(add(&alice.replace('\n', "\r\n")), Ok(()));
    assert_eq!(add(""), Err(IdentityError::None));
    assert_eq!(add("# a comment\n"), Err(IdentityError::None));
    assert_eq!(add(&format!("{alice}hello\n")), Err(IdentityError::Line(3)));
    assert_eq!(add("AGE-SECRET-KEY-1QQQ"), Err(IdentityError::Line(1)));
    assert_eq!(add("AGE-PLUGIN-TEST-1QQQQQQQQJGX4L1"), Err(IdentityError::Line(1)));
    assert_eq!(add(&text("pq.txt")), Err(IdentityError::PostQuantum(2)));
    assert_eq!(add(&text("ssh-ed25519.pub")), Err(IdentityError::Recipient(1)));
    assert_eq!(add(recipient_of("bob.txt").text()), Err(IdentityError::Recipient(1)));
    assert!(matches!(add(&text("ssh-ecdsa")), Err(IdentityError::Ssh(_))));
    assert!(matches!(add("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"), Err(IdentityError::Ssh(_))));
    assert!(matches!(add(&text("ssh-ed25519")[..200]), Err(IdentityError::Ssh(_))));
    assert_eq!(add("age-encryption.org/v1\nx"), Err(IdentityError::None));
    let alice_key: age::x25519::Recipient = recipient_of("alice.txt").text().parse().unwrap();
    let sealed = age::encrypt(&alice_key, alice.as_bytes()).unwrap();
    assert_eq!(Identities::new(Plugins::default()).add("test", &sealed), Err(IdentityError::NoPassphrase));
    assert_eq!(Identities::new(Plugins::default()).add("test", &[255; 40]), Err(IdentityError::None));
    assert_eq!(add(&"#\n".repeat(1 << 20)), Err(IdentityError::Long));

    let line = alice.lines().last().unwrap();
    assert_eq!(add(&format!("{line}\n").repeat(MAX_IDENTITIES)), Ok(()));
    assert_eq!(add(&format!("{line}\n").repeat(MAX_IDENTITIES + 1)), Err(IdentityError::Many));
}

#[test]
fn no_identity_shows_in_debug() {
    let hand = identities(&["alice.txt", "ssh-ed25519"], Plugins::default());
    assert_eq!(format!("{hand:?}"), "Identities(2)");
}
