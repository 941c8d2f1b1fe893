//! Step 4 of section 5: no given key opens the file, or trying its passwords would cost too much.

use super::*;

pub(super) fn add(all: &mut Scenarios) {
    wrong_keys(all);
    altered_headers(all);
    limits(all);
}

fn seal(name: &str, slots: Vec<Slot>) -> Vec<u8> {
    reference::seal_file(&recipe(name, 1, 12, slots), &painted(100))
}

fn wrong_keys(all: &mut Scenarios) {
    let mut refuse =
        |name: &str, comment: &str, hand: Hand, file: Vec<u8>| all.refuse(name, comment, "no-key", hand, file);
    let by_key = seal("by key", vec![key_slot()]);
    let by_password = seal("by password", vec![password_slot(PASSWORD, CHEAP)]);
    let wrong = b"correct horse battery staplE";
    refuse("wrong-key", "another key at hand", Hand::wrong_key(), by_key.clone());
    refuse("wrong-password", "another password at hand", Hand::password(wrong), by_password.clone());
    let line = [PASSWORD, b"\n"].concat();
    refuse("wrong-password-line-feed", "a line feed after the password", Hand::password(&line), by_password.clone());
    refuse("no-key-at-hand", "a key slot, and nothing at hand", Hand::default(), by_key.clone());
    refuse("no-password-at-hand", "a password slot, and nothing at hand", Hand::default(), by_password.clone());
    refuse("key-for-password-slot", "a password slot, and a key at hand", Hand::key(), by_password.clone());
    refuse("password-for-key-slot", "a key slot, and a password at hand", Hand::password(PASSWORD), by_key.clone());
    let comment = "a password slot, and as a password the very key's bytes of the key slot";
    let both = seal("both", vec![key_slot(), password_slot(PASSWORD, CHEAP)]);
    refuse("key-given-as-password", comment, Hand::password(&key()), both);
    refuse(
        "header-len-53",
        "the shortest header: one padding slot without body",
        Hand::key(),
        seal("53", vec![padding(0)]),
    );
    let mut of_volume = Vec::new();
    let name = "key-wrapped-for-a-volume";
    for slot in [key_slot(), password_slot(PASSWORD, CHEAP)] {
        // With a slot of type 16 the writer uses the label of volumes.
        let slots = vec![slot, reference::volume::volume_slot(1, 0)];
        let config = reference::seal_header(&recipe(name, 1, 12, slots));
        let (kind, body) = reference::read_header(&config).expect("a sound header").slots[0].clone();
        of_volume.push(raw(kind, &body));
    }
    let comment = "slots whose wrapping is that of a volume's config";
    refuse(name, comment, Hand::key().and_password(PASSWORD), seal(name, of_volume));
    let unknown = seal("unknown", vec![raw(4, &painted(56)), raw(200, b"")]);
    refuse("unknown-slots-only", "only slots of unknown types", Hand::key(), unknown);

    let mut cut = by_key.clone();
    cut.truncate(109 + 47);
    refuse("no-key-before-length", "another key at hand, and a file that is cut", Hand::wrong_key(), cut);
    let mut altered = by_key;
    *altered.last_mut().unwrap() ^= 1;
    refuse("no-key-before-chunks", "another key at hand, and a chunk that is altered", Hand::wrong_key(), altered);
    let mut altered = by_password;
    *altered.last_mut().unwrap() ^= 1;
    let comment = "another password at hand, and a chunk that is altered";
    refuse("no-password-before-chunks", comment, Hand::password(wrong), altered);
}

/// Headers that were altered while the tag was not. Their form is valid, so a reader only sees that no key opens them.
fn altered_headers(all: &mut Scenarios) {
    let mut refuse =
        |name: &str, comment: &str, hand: Hand, file: Vec<u8>| all.refuse(name, comment, "no-key", hand, file);

    // magic .. slot_count 18 | type, body_len 18 | key_id 21 | wrapped 37 | padding slot 77 | tag 90
    let by_key = seal("altered, by key", vec![key_slot(), padding(10)]);
    for (name, comment, at, bit) in [
        ("key-id-first-bit", "the first bit of key_id is altered", 21, 0x80),
        ("key-id-last-bit", "the last bit of key_id is altered", 36, 1),
        ("wrapped-first-bit", "the first bit of wrapped is altered", 37, 0x80),
        ("wrapped-last-bit", "the last bit of wrapped is altered", 76, 1),
        ("padding-body", "a bit of padding is altered", 85, 1),
        ("padding-type", "padding is made a slot of an unknown type", 77, 8),
        ("key-slot-type", "the key slot is made a slot of an unknown type", 18, 8),
        ("header-tag-first-bit", "the first bit of the header tag is altered", 90, 0x80),
        ("header-tag-last-bit", "the last bit of the header tag is altered", 121, 1),
        ("suite-1-to-3", "the suite is altered from 1 to 3", 12, 2),
        ("chunk-log2-12-to-13", "chunk_log2 is altered from 12 to 13", 13, 1),
    ] {
        let mut file = by_key.clone();
        file[at] ^= bit;
        refuse(&format!("altered-{name}"), comment, Hand::key(), file);
    }

    for (from, to) in [(1, 4), (4, 1)] {
        let name = format!("altered-suite-{from}-to-{to}");
        let comment = format!("the suite is altered from {from} to {to}");
        let mut file = reference::seal_file(&recipe(&name, from, 12, vec![key_slot()]), &painted(100));
        file[12] = to;
        refuse(&name, &comment, Hand::key(), file);
    }
    let name = "suite-4-header-tag-of-suite-1";
    let of_4 = recipe(name, 4, 12, vec![key_slot()]);
    let mut file = reference::seal_file(&of_4, &painted(100));
    let tag = reference::header_tag(&reference::file_keys(&of_4.file_key, 1), &file[..77]);
    file[77..109].copy_from_slice(&tag);
    refuse(name, "suite 4, with a header tag under the K_mac of suite 1", Hand::key(), file);

    // type, body_len 18 | salt 21 | memory 37 | passes 41 | lanes 45 | wrapped 46 | tag 86
    let by_password = seal("altered, by password", vec![password_slot(PASSWORD, CHEAP)]);
    for (name, comment, at, bit) in [
        ("salt", "a bit of the salt is altered", 21, 1),
        ("memory", "memory is altered from 32 to 33", 37, 1),
        ("passes", "passes is altered from 1 to 3", 41, 2),
        ("lanes", "lanes is altered from 1 to 3", 45, 2),
        ("password-wrapped", "a bit of a password's wrapped is altered", 60, 4),
        ("password-header-tag", "a bit of the header tag is altered", 100, 1),
    ] {
        let mut file = by_password.clone();
        file[at] ^= bit;
        refuse(&format!("altered-{name}"), comment, Hand::password(PASSWORD), file);
    }

    let three = vec![key_slot(), other_key_slot(), padding(5)];
    let reordered = vec![other_key_slot(), key_slot(), padding(5)];
    let tag_of_three = |slots: Vec<Slot>| {
        let recipe = |slots| recipe("altered, three slots", 1, 12, slots);
        let mut header = reference::seal_header(&recipe(slots));
        let tag_at = header.len() - 32;
        let whole = reference::seal_header(&recipe(three.clone()));
        header[tag_at..].copy_from_slice(&whole[whole.len() - 32..]);
        let file = reference::seal_file(&recipe(three.clone()), &painted(100));
        [&header[..], &file[whole.len()..]].concat()
    };
    refuse("slots-reordered", "two slots change places, the tag stays", Hand::key(), tag_of_three(reordered));
    let removed = vec![key_slot(), padding(5)];
    refuse("slot-removed", "a slot is taken out, the tag stays", Hand::key(), tag_of_three(removed));
    let mut added = three.clone();
    added.push(padding(0));
    refuse("slot-added", "a slot is put in, the tag stays", Hand::key(), tag_of_three(added));
    let comment = "padding grows by a byte, header_len with it, the tag stays";
    refuse("padding-grown", comment, Hand::key(), tag_of_three(vec![key_slot(), other_key_slot(), padding(6)]));

    let other = reference::write_slot(&key_slot(), &random("another file key"))[3..].to_vec();
    let comment = "the only slot unwraps a file key by which the header tag is wrong";
    refuse("slot-of-another-file", comment, Hand::key(), seal("slot of another file", vec![raw(2, &other)]));
}

/// The limits of section 4. Nothing is ever derived here, so the rest of these slots is filler.
fn limits(all: &mut Scenarios) {
    let slot = |memory, passes| raw(1, &password_body(Cost { memory, passes, lanes: 4 }));
    let gib = 1 << 20;
    let good = password_slot(PASSWORD, CHEAP);
    for (name, comment, slots) in [
        ("memory-over-1-gib", "a slot's memory is 1 KiB above 1 GiB", vec![slot(gib + 1, 1)]),
        ("memory-most", "a slot's memory and passes are 2^32 - 1", vec![slot(u32::MAX, u32::MAX)]),
        ("work-of-one", "memory x passes is above 1 GiB x 16 in one slot", vec![slot(gib, 17)]),
        (
            "work-of-one-by-passes",
            "memory x passes is just above 1 GiB x 16 in one slot",
            vec![slot(8192, 2049), good.clone()],
        ),
        (
            "work-of-two",
            "memory x passes is 1 GiB x 16 in one slot, and a little more in the other",
            vec![slot(gib, 16), good.clone()],
        ),
        (
            "work-of-four",
            "memory x passes is above 1 GiB x 16 in four slots together",
            vec![slot(gib, 5), slot(gib, 4), slot(gib, 4), slot(gib, 4)],
        ),
        (
            "work-wraps-32-bits",
            "memory x passes is 2^32, which is 0 in 32 bits",
            vec![slot(1 << 16, 1 << 16), good.clone()],
        ),
        ("work-wraps-64-bits", "the sum of memory x passes is above 2^64", vec![slot(u32::MAX, u32::MAX); 4]),
        (
            "after-the-right-slot",
            "a slot above the limit after one that the password would open",
            vec![good, slot(gib + 1, 1)],
        ),
    ] {
        let file = seal(name, slots);
        all.refuse(&format!("limit-{name}"), comment, "kdf-limit", Hand::password(PASSWORD), file);
    }
    let file = seal("limit with keys", vec![slot(gib + 1, 1), key_slot()]);
    let hand = Hand::wrong_key().and_password(PASSWORD);
    let comment = "a slot above the limit, a password at hand, and a key that opens nothing";
    all.refuse("limit-with-wrong-key", comment, "kdf-limit", hand, file.clone());
    let comment = "a slot above the limit, no password at hand, and a key that opens nothing";
    all.refuse("limit-without-password", comment, "no-key", Hand::wrong_key(), file);
}
