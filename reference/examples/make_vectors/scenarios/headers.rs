//! Steps 1 to 3 of section 5: no magic, another version, a malformed header.
//!
//! Where possible, the header tag is right over the actual bytes, a good slot for the given key comes first, and valid chunks
//! follow. So a reader that omits only the check in question would open the file.

use super::*;

pub(super) fn add(all: &mut Scenarios) {
    not_ours(all);
    cut_headers(all);
    fields(all);
    slot_forms(all);
    password_parameters(all);
    volumes(all);
}

/// The config of a volume is no file (section 10.2).
fn volumes(all: &mut Scenarios) {
    let mut refuse = |name: &str, comment: &str, file: Vec<u8>| all.refuse(name, comment, "header", Hand::key(), file);
    let slots = vec![key_slot(), reference::volume::volume_slot(1, 0)];
    let config = reference::seal_file(&recipe("volume-config", 1, 12, slots), b"");
    refuse("volume-config", "the config of a volume", config);
    let wrapped = reference::write_slot(&key_slot(), &recipe("crafted", 1, 12, vec![]).file_key)[3..].to_vec();
    let file = crafted(vec![raw(2, &wrapped), reference::volume::volume_slot(1, 0)], |_| {});
    refuse("volume-slot-in-a-file", "a slot of type 16 behind a key slot whose wrapping is that of files", file);
}

/// A file with one key slot, and 100 bytes.
fn sound() -> Vec<u8> {
    reference::seal_file(&recipe("sound", 1, 12, vec![key_slot()]), &painted(100))
}

/// A file whose header, without tag, was edited before the tag was made.
fn crafted(slots: Vec<Slot>, edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let recipe = recipe("crafted", 1, 12, slots);
    let mut header = reference::seal_header(&recipe);
    header.truncate(header.len() - 32);
    edit(&mut header);
    let suite = header[12];
    // An unknown suite gets keys as if it were suite 1.
    let both = reference::kmac256(&recipe.file_key, &[suite], 512, "phalanx v1 file keys");
    let keys = match suite {
        1..=5 => reference::file_keys(&recipe.file_key, suite),
        _ => Keys { suite: shape(1), encrypt: both[..32].to_vec(), mac: both[32..].try_into().unwrap() },
    };
    header.extend(reference::header_tag(&keys, &header));
    header.extend(reference::seal_chunk(&keys, 12, 0, 1, &recipe.nonces[0], &painted(100)));
    header
}

fn put(header: &mut [u8], at: usize, bytes: &[u8]) {
    header[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Corrects header_len after the slots' length has changed.
fn set_len(header: &mut [u8]) {
    let len = header.len() as u32 + 32;
    put(header, 8, &len.to_le_bytes());
}

fn not_ours(all: &mut Scenarios) {
    for len in 0..8 {
        let (name, comment) = (format!("short-{len}"), format!("the first {len} bytes of a file"));
        all.refuse(&name, &comment, "not-phalanx", Hand::key(), sound()[..len].to_vec());
    }
    for (name, comment, at) in [("first", "first", 0), ("last", "last", 6)] {
        let (name, comment) = (format!("magic-{name}-byte"), format!("the {comment} byte of the magic is altered"));
        let file = crafted(vec![key_slot()], |header| header[at] ^= 0x20);
        all.refuse(&name, &comment, "not-phalanx", Hand::key(), file);
    }
    let file = crafted(vec![key_slot()], |header| put(header, 6, &[b'Y', 2]));
    all.refuse("magic-before-version", "neither magic nor version are right", "not-phalanx", Hand::key(), file);

    for version in [0, 2, 255] {
        let name = format!("version-{version}");
        let file = crafted(vec![key_slot()], |header| header[7] = version);
        all.refuse(&name, "another version, all else as in version 1", "version", Hand::key(), file);
    }
    all.refuse("version-2-alone", "8 bytes, of version 2", "version", Hand::key(), b"PHALANX\x02".to_vec());
    let file = crafted(vec![key_slot()], |header| put(header, 7, &[2, 0, 0, 0, 0, 9]));
    all.refuse("version-before-header", "another version, and not a header of version 1", "version", Hand::key(), file);
}

fn cut_headers(all: &mut Scenarios) {
    // The header of this file has 18 + 59 + 32 = 109 bytes.
    for len in [8, 9, 11, 12, 13, 17, 18, 19, 20, 21, 52, 53, 76, 77, 78, 108] {
        let (name, comment) =
            (format!("header-cut-{len}"), format!("the first {len} bytes of a file whose header has 109"));
        all.refuse(&name, &comment, "header", Hand::key(), sound()[..len].to_vec());
    }
}

fn fields(all: &mut Scenarios) {
    let mut refuse = |name: &str, comment: &str, file: Vec<u8>| all.refuse(name, comment, "header", Hand::key(), file);
    let one = || vec![key_slot()];
    let set_u32 = |len: u32| crafted(one(), move |header| put(header, 8, &len.to_le_bytes()));
    refuse("header-len-0", "header_len is 0", set_u32(0));
    refuse("header-len-52", "header_len is 52, less than any header has", set_u32(52));
    refuse("header-len-short-by-1", "header_len is a byte less than it should be", set_u32(108));
    refuse("header-len-long-by-1", "header_len is a byte more than it should be", set_u32(110));
    refuse("header-len-beyond-file", "header_len is a byte more than the file has", set_u32(109 + 148 + 1));
    refuse("header-len-big-endian", "header_len is big-endian", set_u32(109u32.swap_bytes()));
    refuse("header-len-most", "header_len is 2^32 - 1", set_u32(u32::MAX));
    let slots = vec![key_slot(), padding(65537 - 50 - 59 - 3)];
    refuse("header-len-65537", "a header that is sound but for being a byte too long", crafted(slots, |_| {}));

    for suite in [0, 6, 255] {
        let file = crafted(one(), |header| header[12] = suite);
        refuse(&format!("suite-{suite}"), "a suite that version 1 does not know", file);
    }
    for log2 in [0, 11, 25, 255] {
        let file = crafted(one(), |header| header[13] = log2);
        refuse(&format!("chunk-log2-{log2}"), "chunk_log2 is not in 12 to 24", file);
    }
    for flags in [1u16, 0x0100, 0x8000] {
        let file = crafted(one(), |header| put(header, 14, &flags.to_le_bytes()));
        refuse(&format!("flags-{flags:04x}"), "a flag is set", file);
    }
}

fn slot_forms(all: &mut Scenarios) {
    let mut refuse = |name: &str, comment: &str, file: Vec<u8>| all.refuse(name, comment, "header", Hand::key(), file);
    let one = || vec![key_slot()];
    let count = |slots: Vec<Slot>, count: u16| crafted(slots, move |header| put(header, 16, &count.to_le_bytes()));
    refuse("slot-count-0", "slot_count is 0, and a slot is there", count(one(), 0));
    let none = crafted(vec![], |_| {});
    refuse("slot-count-0-no-slot", "slot_count is 0, and so header_len is 50", none);
    let mut most = vec![key_slot()];
    most.extend(vec![padding(0); 64]);
    refuse("slot-count-65", "65 slots, sound but for their number", crafted(most, |_| {}));
    refuse("slot-count-too-many", "slot_count is 2, and one slot is there", count(one(), 2));
    refuse("slot-count-too-few", "slot_count is 1, and two slots are there", count(vec![key_slot(), padding(0)], 1));
    refuse("slot-count-most", "slot_count is 65535", count(one(), 65535));
    refuse("slot-count-big-endian", "slot_count is big-endian", count(one(), 256));

    for extra in [1, 2] {
        let name = format!("slot-cut-in-its-first-3-bytes-{extra}");
        let file = crafted(vec![key_slot(), padding(0)], |header| {
            header.truncate(header.len() - 3 + extra);
            set_len(header);
        });
        refuse(&name, "the second of two slots ends before its body_len does", file);
    }
    let set_body_len =
        |body_len: u16| crafted(vec![key_slot(), padding(10)], move |header| put(header, 78, &body_len.to_le_bytes()));
    refuse("slot-body-long-by-1", "the last slot runs a byte into the tag", set_body_len(11));
    refuse("slot-body-over-tag", "the last slot ends exactly where the header does", set_body_len(10 + 32));
    refuse("slot-body-most", "the last slot's body_len is 65535", set_body_len(65535));
    refuse("slot-body-short-by-1", "the last slot ends a byte before the tag", set_body_len(9));
    let stray = crafted(one(), |header| {
        header.push(0);
        set_len(header);
    });
    refuse("stray-byte-before-tag", "a byte stands between the last slot and the tag", stray);

    for (kind, name, right) in [(1, "password", 65), (2, "key", 56)] {
        for len in [0, right - 1, right + 1] {
            let mut body = password_body(CHEAP);
            body.resize(len, 0);
            let file = crafted(vec![key_slot(), raw(kind, &body)], |_| {});
            let comment = format!("a {name} slot whose body has {len} bytes, after a good slot");
            refuse(&format!("{name}-slot-body-{len}"), &comment, file);
        }
    }
    for len in [0, 16, 16401] {
        let file = crafted(vec![key_slot(), raw(3, &painted(len))], |_| {});
        let comment = format!("an age slot whose body has {len} bytes, after a good slot");
        refuse(&format!("age-slot-body-{len}"), &comment, file);
    }
}

fn password_parameters(all: &mut Scenarios) {
    let mut five = vec![key_slot()];
    five.extend(vec![raw(1, &password_body(CHEAP)); 5]);
    let file = crafted(five, |_| {});
    all.refuse("password-slots-5", "five password slots, and a key at hand", "header", Hand::key(), file);

    for (name, comment, memory, passes, lanes) in [
        ("passes-0", "passes is 0", 32, 0, 1),
        ("lanes-0", "lanes is 0", 32, 1, 0),
        ("memory-0", "memory is 0", 0, 1, 1),
        ("memory-7-lanes-1", "memory is less than 8 x lanes", 7, 1, 1),
        ("memory-31-lanes-4", "memory is less than 8 x lanes", 31, 1, 4),
        ("memory-2039-lanes-255", "memory is less than 8 x lanes", 2039, 1, 255),
        ("lanes-0-before-limits", "lanes is 0, and memory is above the limit", u32::MAX, 1, 0),
    ] {
        let body = password_body(Cost { memory, passes, lanes });
        let slots = || vec![key_slot(), raw(1, &body)];
        let with_key = format!("{comment} in a password slot, and a key at hand that would open the file");
        all.refuse(name, &with_key, "header", Hand::key(), crafted(slots(), |_| {}));
        let with_password = format!("{comment} in a password slot, and a password at hand");
        let name = format!("{name}-with-password");
        all.refuse(&name, &with_password, "header", Hand::password(PASSWORD), crafted(slots(), |_| {}));
    }
}
