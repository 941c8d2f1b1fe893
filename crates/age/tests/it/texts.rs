//! Recipients and identities as text.

use crate::common::*;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use phalanx_age::{
    Identities, IdentityError, MAX_IDENTITIES, Outline, Plugins, Recipient, RecipientError, is_public, recipients,
};
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

/// Bech32 of groups of 5 bits.
fn bech32(hrp: &str, groups: &[u8]) -> String {
    let step = |sum: u32, group: u8| {
        let generator = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
        let next = (sum & 0x1ff_ffff) << 5 ^ u32::from(group);
        generator.iter().enumerate().filter(|(i, _)| sum >> (25 + i) & 1 == 1).fold(next, |next, (_, g)| next ^ g)
    };
    let expanded = hrp.bytes().map(|c| c >> 5).chain([0]).chain(hrp.bytes().map(|c| c & 31));
    let sum = expanded.chain(groups.iter().copied()).chain([0; 6]).fold(1, step) ^ 1;
    let check = (0..6).map(|i| (sum >> (25 - 5 * i) & 31) as u8);
    let chars = groups.iter().copied().chain(check).map(|group| char::from(CHARS[usize::from(group)]));
    format!("{hrp}1{}", chars.collect::<String>())
}

const CHARS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// The last group of 5 bits has bits that belong to no byte. If readers ignored these, a key would have several texts.
#[test]
fn a_recipient_has_no_second_text_with_other_padding() {
    let alice = recipient_of("alice.txt").text().to_owned();
    let texts = [
        (&*alice, "age", 4),
        ("age1test1qqqqqqqqgsf9kn", "age1test", 0),
        (&bech32("age1test", &[0, 0]), "age1test", 2),
    ];
    for (text, hrp, spare) in texts {
        let body = &text[hrp.len() + 1..text.len() - 6];
        let groups: Vec<u8> = body.bytes().map(|c| CHARS.iter().position(|other| *other == c).unwrap() as u8).collect();
        assert_eq!(bech32(hrp, &groups), text);
        parse(text).unwrap();
        for padding in 1..1 << spare {
            let mut other = groups.clone();
            *other.last_mut().unwrap() |= padding;
            assert_ne!(other, groups);
            let other = bech32(hrp, &other);
            assert_eq!(parse(&other).unwrap_err(), RecipientError::Damaged, "{other}");
            assert_eq!(parse(&other.to_uppercase()).unwrap_err(), RecipientError::Damaged, "{other}");
        }
    }
}

/// Everybody knows the secrets that a point of low order makes (RFC 7748, section 6.1): the crate panics for one of X25519, and
/// makes a file that everybody can open for one of Ed25519.
#[test]
fn a_key_of_low_order_is_no_recipient() {
    let point = |hex: &str| -> Vec<u8> {
        (0..32).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    };
    let ends = |first: &str, middle: &str, last: &str| point(&format!("{first}{}{last}", middle.repeat(30)));
    let groups = |bytes: &[u8]| -> Vec<u8> {
        let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| (byte >> at) & 1)).collect();
        let group = |bits: &[u8]| (0..5).fold(0u8, |group, at| group << 1 | bits.get(at).copied().unwrap_or(0));
        bits.chunks(5).map(group).collect()
    };
    let age = |point: &[u8]| parse(&bech32("age", &groups(point))).map(drop);
    let ssh = |point: &[u8]| {
        let fields = [&b"ssh-ed25519"[..], point];
        let blob: Vec<u8> = fields.iter().flat_map(|f| [&(f.len() as u32).to_be_bytes()[..], *f].concat()).collect();
        parse(&format!("ssh-ed25519 {}", BASE64_STANDARD.encode(blob))).map(drop)
    };
    // The base points.
    assert_eq!(age(&ends("09", "00", "00")), Ok(()));
    assert_eq!(ssh(&ends("58", "66", "66")), Ok(()));
    let (zero, one) = (ends("00", "00", "00"), ends("01", "00", "00"));
    let minus_one = ends("ec", "ff", "7f");
    let eighth = point("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800");
    for point in [&zero, &one, &minus_one, &eighth] {
        assert_eq!(age(point), Err(RecipientError::Damaged), "{point:?}");
    }
    let eighth = point("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05");
    for point in [&one, &minus_one, &zero, &eighth] {
        assert_eq!(ssh(point), Err(RecipientError::Damaged), "{point:?}");
    }
}

/// An SSH key's tag is a hash of its whole text. If the text had other bytes in it, the slot would open for nobody.
#[test]
fn an_ssh_key_with_other_fields_is_refused() {
    let fields = |blob: &[u8]| {
        let (mut rest, mut fields) = (blob, Vec::new());
        while let Some((len, after)) = rest.split_first_chunk() {
            let (field, after) = after.split_at(u32::from_be_bytes(*len) as usize);
            fields.push(field.to_vec());
            rest = after;
        }
        fields
    };
    let blob_of = |fields: &[Vec<u8>]| -> Vec<u8> {
        fields.iter().flat_map(|field| [&(field.len() as u32).to_be_bytes()[..], field].concat()).collect()
    };
    for name in ["ssh-ed25519", "ssh-rsa"] {
        let line = text(&format!("{name}.pub"));
        let key = line.split(' ').nth(1).unwrap();
        let blob = BASE64_STANDARD.decode(key).unwrap();
        let parts = fields(&blob);
        assert_eq!(blob_of(&parts), blob);
        let with = |blob: &[u8]| parse(&format!("{name} {}", BASE64_STANDARD.encode(blob)));
        with(&blob).unwrap();
        let mut others =
            vec![[&blob[..], &[0]].concat(), [&blob[..], b"more"].concat(), blob[..blob.len() - 1].to_vec()];
        others.push([&blob[..], &[0, 0, 0, 0]].concat());
        for at in 0..parts.len() {
            // A number has no zeros before it.
            let mut longer = parts.clone();
            longer[at].insert(0, 0);
            others.push(blob_of(&longer));
            let mut longer = parts.clone();
            longer[at].push(0);
            // A longer modulus would be another key.
            if at != 2 {
                others.push(blob_of(&longer));
            }
            let mut missing = parts.clone();
            missing.remove(at);
            others.push(blob_of(&missing));
        }
        let other_kind = if name == "ssh-rsa" { "ssh-ed25519" } else { "ssh-rsa" };
        for other in others {
            let error = with(&other).unwrap_err();
            let is_type = matches!(&error, RecipientError::SshType(kind) if !name.starts_with(kind));
            assert!(error == RecipientError::Damaged || is_type, "{name}: {error}");
        }
        assert_eq!(parse(&format!("{other_kind} {key}")).unwrap_err(), RecipientError::Damaged);
        for text in [format!("{key}="), format!("{key}AAAA"), format!("{key}!"), key[..key.len() - 1].to_owned()] {
            assert_eq!(parse(&format!("{name} {text}")).unwrap_err(), RecipientError::Damaged, "{text}");
        }
    }
}

/// Recipients of hardware keys, whose identities belong to plugins.
#[test]
fn tagged_recipients_get_their_stanzas() {
    const TAG: &str = "age1tag1qt8lw0ual6avlwmwatk888yqnmdamm7xfd0wak53ut6elz5c4swx2yqdj4e";
    let file = parse(TAG).unwrap().wrap(&file_key()).unwrap();
    let outline = Outline::of(&file).unwrap();
    assert_eq!(outline.stanzas()[0].kind(), "p256tag");
}

/// Otherwise a warning would say that they are not.
#[test]
fn a_slot_is_post_quantum_if_its_recipient_is() {
    for (name, is_it) in [("pq.pub", true), ("tagpq.pub", true), ("ssh-ed25519.pub", false)] {
        let recipient = parse(text(name).trim()).unwrap();
        let file = recipient.wrap(&file_key()).unwrap();
        let of_slot = Outline::of(&file).unwrap().is_post_quantum();
        assert_eq!((recipient.is_post_quantum(), of_slot), (is_it, is_it), "{name}");
    }
}

#[test]
fn errors_of_recipients_say_why_and_repeat_nothing() {
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
    assert_eq!(found[0].recipient.text(), alice);
    assert_eq!(recipients(&format!("{alice}\nx\n"), &Plugins::default()).unwrap_err(), (2, RecipientError::Unknown));
    assert_eq!(recipients("# none\n", &Plugins::default()).unwrap_err(), (0, RecipientError::Unknown));
}

#[test]
fn files_of_recipients_name_them() {
    let (alice, bob) = (recipient_of("alice.txt"), recipient_of("bob.txt"));
    let (ssh, rsa) = (recipient_of("ssh-ed25519"), recipient_of("ssh-rsa"));
    let file = format!(
        "# the team\n\n#Alice \n{}\n{}\n# not this\n{}  carol@host two \n#\n{}\n",
        alice.text(),
        bob.text(),
        ssh.text(),
        rsa.text()
    );
    let found = recipients(&file, &Plugins::default()).unwrap();
    let names: Vec<_> = found.iter().map(|listed| listed.name.as_deref()).collect();
    assert_eq!(names, [Some("Alice"), None, Some("carol@host two"), None]);
    assert!(is_public(&file) && is_public(ssh.text()) && is_public(&text("ssh-ecdsa.pub")));
    for other in ["", "# nothing\n", "hello\n", &text("alice.txt"), &text("ssh-ed25519"), &format!("{file}hello\n")] {
        assert!(!is_public(other), "{other}");
    }
}

#[test]
fn errors_of_identity_files_say_why() {
    let alice = text("alice.txt");
    assert_eq!(add(&alice), Ok(()));
    assert_eq!(add(&alice.replace('\n', "\r\n")), Ok(()));
    assert_eq!(add(""), Err(IdentityError::None));
    assert_eq!(add("# a comment\n"), Err(IdentityError::None));
    assert_eq!(add(&format!("{alice}hello\n")), Err(IdentityError::Line(3)));
    assert_eq!(add("AGE-SECRET-KEY-1QQQ"), Err(IdentityError::Line(1)));
    assert_eq!(add("AGE-PLUGIN-TEST-1QQQQQQQQJGX4L1"), Err(IdentityError::Line(1)));
    assert_eq!(add(&text("pq.txt")), Ok(()));
    assert_eq!(add("AGE-SECRET-KEY-PQ-1QQQ"), Err(IdentityError::Line(1)));
    assert_eq!(add(&text("pq.pub")), Err(IdentityError::Recipient(1)));
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

/// Whatever the cipher is, and whatever follows the key: the crate `age` would do all the work.
#[test]
fn the_passphrase_of_an_ssh_key_does_not_cost_more_than_it_may() {
    let lines = text("ssh-ed25519-locked");
    let body: String = lines.lines().filter(|line| !line.starts_with("-----")).collect();
    let bytes = BASE64_STANDARD.decode(body).unwrap();
    let at = bytes.windows(6).position(|window| window == b"bcrypt").unwrap() + 6 + 4 + 4 + 16;
    let with = |rounds: u32, after: &str| {
        let mut bytes = bytes.clone();
        bytes[at..at + 4].copy_from_slice(&rounds.to_be_bytes());
        let body = BASE64_STANDARD.encode(bytes);
        add(&format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n{after}"))
    };
    let costly = "its passphrase costs more work than 10000 rounds of bcrypt (ssh-keygen -p -a 100 changes it)";
    let costly = Err(IdentityError::Ssh(costly.into()));
    assert_eq!(with(10_000, ""), Ok(()));
    for after in ["", "more\n"] {
        assert_eq!(with(10_001, after), costly);
        assert_eq!(with(u32::MAX, after), costly);
    }
}

/// The crate `age` reads a text again for each of its lines.
#[test]
fn texts_of_ssh_keys_are_not_longer_than_any_key() {
    let unreadable = Err(IdentityError::Ssh("not an SSH key that can be read".into()));
    let lines = "A\n".repeat(20_000);
    assert_eq!(add(&format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}")), unreadable);
    assert_eq!(add(&format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n", "A".repeat(64 << 10))), unreadable);
}

#[test]
fn no_identity_shows_in_debug() {
    let hand = identities(&["alice.txt", "ssh-ed25519"], Plugins::default());
    assert_eq!(format!("{hand:?}"), "Identities(2)");
}
