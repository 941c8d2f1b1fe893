//! Changing the ways into a file: which slots stay in the header, and which limits hold.

use crate::common::{AtHand, painted};
use crate::rekey::{Disk, by, cheap, key, opener};
use phalanx_core::format::{Header, Purpose, Slot};
use phalanx_core::{Error, OpenedBy, Recipient, SecretKey, Suite, Ways};

#[test]
fn missing_slots_cannot_be_removed() {
    let disk = Disk::new(&[Recipient::key(&key(1))]);
    let mut ways = Ways::open(disk.header(), &by(1)).unwrap();
    assert_eq!(ways.opened_slot(), 1);
    // The second is padding.
    for number in [0, 2, 3, usize::MAX] {
        assert!(matches!(ways.remove_slot(number), Err(Error::NoSuchSlot(n)) if n == number));
    }
    assert!(!ways.is_changed());
}

#[test]
fn the_last_way_in_stays() {
    let file_key = SecretKey::random().unwrap();
    let keys = file_key.file_keys(Suite::default());
    let slot = |n| Slot::Key { id: key(n).id(), wrapped: key(n).wrapping_key().wrap(Purpose::File, &file_key) };
    let unknown = Slot::Unknown { kind: 77, body: vec![1; 9] };
    // A slot with the second key's id that the key does not open.
    let false_one = Slot::Key { id: key(2).id(), wrapped: [0; 40] };
    let header =
        |slots: &[Slot]| Header::new(Suite::default(), 12, [slots, &[Slot::Padding(vec![0; 500])]].concat(), &keys);
    let both = || opener(AtHand { keys: vec![key(1), key(2)], password: None });
    for (others, by, is_last) in [
        (vec![], both(), true),
        (vec![unknown], both(), true),
        (vec![false_one], both(), true),
        (vec![slot(2)], opener(AtHand { keys: vec![key(1)], password: None }), true),
        (vec![slot(2)], both(), false),
        (vec![slot(1)], both(), true),
    ] {
        let slots = [vec![slot(1)], others].concat();
        let mut ways = Ways::open(header(&slots).unwrap(), &by).unwrap();
        ways.remove_key(&key(1).id());
        assert_eq!(matches!(ways.changed(&by), Err(Error::LastWay)), is_last, "{slots:?}");
        ways.add(&Recipient::key(&key(3)));
        ways.changed(&by).unwrap();
    }
    // A key is added even if there is a slot with its id that it does not open.
    let slots = [slot(1), Slot::Key { id: key(2).id(), wrapped: [0; 40] }];
    let mut ways = Ways::open(header(&slots).unwrap(), &both()).unwrap();
    assert!(!ways.open_to(&by(2)).unwrap());
    ways.add(&Recipient::key(&key(2)));
    let header = ways.changed(&both()).unwrap();
    assert_eq!(header.slots()[..2], [slot(1), slot(2)]);
}

#[test]
fn unknown_slots_are_kept_as_they_are() {
    let file_key = SecretKey::random().unwrap();
    let keys = file_key.file_keys(Suite::default());
    let unknown = |kind| Slot::Unknown { kind, body: painted(usize::from(kind)) };
    let slots = vec![
        unknown(4),
        Slot::Padding(vec![1; 40]),
        Slot::Key { id: key(1).id(), wrapped: key(1).wrapping_key().wrap(Purpose::File, &file_key) },
        unknown(255),
        Slot::Padding(vec![1; 40]),
    ];
    let header = Header::new(Suite::default(), 12, slots, &keys).unwrap();
    let len = header.bytes().len();
    let mut ways = Ways::open(header, &by(1)).unwrap();
    assert_eq!((ways.opened_slot(), ways.opened_by()), (3, &OpenedBy::Key(key(1).id())));
    ways.remove_key(&key(1).id());
    ways.add(&Recipient::key(&key(2)));
    let header = ways.changed(&by(1)).unwrap();
    assert_eq!(header.bytes().len(), len);
    assert_eq!(header.slots()[..2], [unknown(4), unknown(255)]);
    assert!(matches!(&header.slots()[2], Slot::Key { id, .. } if *id == key(2).id()));
    assert!(matches!(&header.slots()[3..], [Slot::Padding(body)] if body.len() == 83 && body.iter().all(|b| *b == 0)));
    // A slot is removed by its number.
    let mut ways = Ways::open(header, &by(2)).unwrap();
    ways.remove_slot(1).unwrap();
    assert_eq!(ways.changed(&by(2)).unwrap().slots()[0], unknown(255));
}

#[test]
fn the_limits_on_slots_are_enforced() {
    let disk = Disk::new(&[Recipient::key(&key(1))]);
    let mut ways = Ways::open(disk.header(), &by(1)).unwrap();
    (0..4).for_each(|i| ways.add(&cheap(&format!("{i}"))));
    ways.changed(&by(1)).unwrap();
    ways.add(&cheap("4"));
    assert!(matches!(ways.changed(&by(1)), Err(Error::TooManyPasswords)));

    let mut ways = Ways::open(disk.header(), &by(1)).unwrap();
    (2..=63).for_each(|n| ways.add(&Recipient::key(&key(n))));
    assert_eq!(ways.changed(&by(1)).unwrap().slots().len(), 64);
    // One more slot leaves no room for the padding.
    ways.add(&Recipient::key(&key(64)));
    assert!(matches!(ways.changed(&by(1)), Err(Error::HeaderRoom)));

    // A header without padding takes no more slots. One may replace another, and there may be fewer.
    let file_key = SecretKey::random().unwrap();
    let keys = file_key.file_keys(Suite::default());
    let slot = |n| Slot::Key { id: key(n).id(), wrapped: key(n).wrapping_key().wrap(Purpose::File, &file_key) };
    let full = |n| Header::new(Suite::default(), 12, (1..=n).map(slot).collect(), &keys).unwrap();
    for n in [2, 64] {
        let len = full(n).bytes().len();
        let mut ways = Ways::open(full(n), &by(1)).unwrap();
        ways.add(&Recipient::key(&key(200)));
        assert!(matches!(ways.changed(&by(1)), Err(Error::HeaderRoom | Error::KeyCount(_))));
        ways.remove_key(&key(2).id());
        assert_eq!(ways.changed(&by(1)).unwrap().bytes().len(), len);
        let mut ways = Ways::open(full(n), &by(1)).unwrap();
        ways.remove_key(&key(2).id());
        let header = ways.changed(&by(1)).unwrap();
        assert_eq!(header.bytes().len(), len);
        Ways::open(header, &by(1)).unwrap();
    }
    // Two bytes would be left over, which is less than a slot.
    let body = vec![1; 59 - 3 + 2];
    let slots = vec![slot(1), Slot::Unknown { kind: 9, body }];
    let mut ways = Ways::open(Header::new(Suite::default(), 12, slots, &keys).unwrap(), &by(1)).unwrap();
    ways.remove_slot(2).unwrap();
    ways.add(&Recipient::key(&key(2)));
    assert!(matches!(ways.changed(&by(1)), Err(Error::HeaderRoom)));
}

#[test]
fn slots_that_would_be_read_differently_are_not_written() {
    let keys = SecretKey::random().unwrap().file_keys(Suite::default());
    let new = |slot: &Slot| Header::new(Suite::default(), 12, vec![slot.clone()], &keys);
    // Before the slot's body come 18 bytes and its own 3, and after it the tag of 32.
    let longest = 65536 - 18 - 3 - 32;
    let unknown = |kind, len| Slot::Unknown { kind, body: vec![0; len] };
    let age = |len| Slot::Age { tag: [0; 16], file: vec![0; len] };
    for slot in [Slot::Padding(vec![0; longest]), unknown(4, longest), unknown(255, 0), age(1), age(16384)] {
        assert_eq!(Header::read(&mut new(&slot).unwrap().bytes()).unwrap().slots(), [slot]);
    }
    for len in [longest + 1, 65535, 65536, 1 << 20] {
        for slot in [Slot::Padding(vec![0; len]), unknown(4, len)] {
            assert!(matches!(new(&slot), Err(Error::HeaderLen(n)) if n == len + 53), "{len}");
        }
    }
    for len in [0, 16385, 65536, 1 << 20] {
        assert!(matches!(new(&age(len)), Err(Error::Header(_))), "{len}");
    }
    for kind in 0..4 {
        assert!(matches!(new(&unknown(kind, 59)), Err(Error::Header(_))), "{kind}");
    }
}
