//! Volumes that open, with entries that are damaged or not listed. One entry in each is sound.

use super::*;

pub(super) fn add(cases: &mut Vec<Case>) {
    headers(cases);
    holes(cases);
    chunks(cases);
    places(cases);
    long_names(cases);
}

/// A volume with a sound file.
fn sound(name: &str, comment: &str) -> (Case, Place) {
    let mut case = Case::new(name, comment);
    let root = case.root();
    case.file(&root, b"sound", &painted(3), &[]);
    (case, root)
}

/// A volume with a file made of these slots, with 100 bytes of content. It must be refused.
fn bad_header(cases: &mut Vec<Case>, name: &str, comment: &str, len: usize, slots: impl FnOnce(&Case) -> Vec<Slot>) {
    let (mut case, root) = sound(name, comment);
    let file_key = random("backing: file key");
    let mut file = case.writer.header_of(&file_key, slots(&case), len);
    let keys = reference::file_keys(&file_key, 1);
    file.extend(reference::seal_chunk(&keys, 12, 0, 1, &random::<16>("backing: nonce"), &painted(100)));
    case.damaged_file(&root, b"bad", file);
    cases.push(case);
}

fn slot_of(case: &Case) -> Slot {
    Slot::Key { key: case.writer.config.keys.files }
}

fn headers(cases: &mut Vec<Case>) {
    for len in [4095, 4097, 1024, 8192] {
        let name = format!("file-header-of-{len}");
        bad_header(cases, &name, "the header has another length than 4096 bytes", len, |case| vec![slot_of(case)]);
    }
    let comment = "a key slot of another volume";
    bad_header(cases, "file-of-another-volume", comment, 4096, |_| vec![Slot::Key { key: random("another K_files") }]);
    let comment = "a key slot for the key of the config";
    bad_header(cases, "file-for-the-key", comment, 4096, |_| vec![key_slot()]);
    let comment = "two key slots, both for this volume";
    bad_header(cases, "file-two-key-slots", comment, 4096, |case| vec![slot_of(case), slot_of(case)]);
    let comment = "a second key slot, for another key";
    bad_header(cases, "file-other-key-slot", comment, 4096, |case| vec![slot_of(case), other_key_slot()]);
    for (name, comment, slot) in [
        ("file-password-slot", "a password slot besides the key slot", password_slot(PASSWORD, CHEAP)),
        ("file-age-slot", "an age slot besides the key slot", raw(3, &painted(100))),
        ("file-unknown-slot", "a slot of an unknown type besides the key slot", raw(127, b"")),
        ("file-volume-slot", "a slot of type 16 besides the key slot", v::volume_slot(1, 0)),
        ("file-two-paddings", "two slots of type 0", padding(5)),
    ] {
        bad_header(cases, name, comment, 4096, |case| {
            // With a slot of type 16 the writer uses the label of configs. A file has its own label.
            let file_key = random("backing: file key");
            let key = reference::write_slot(&slot_of(case), &file_key)[3..].to_vec();
            vec![raw(2, &key), slot]
        });
    }

    let (mut case, root) = sound("file-empty", "a file of 0 bytes");
    case.damaged_file(&root, b"bad", Vec::new());
    cases.push(case);
    let (mut case, root) = sound("file-of-another-suite", "a file in suite 5 in a volume in suite 1");
    let config = v::Config { suite: 5, ..case.writer.config.clone() };
    case.damaged_file(&root, b"bad", v::seal_backing(&config, &random("k"), &[], &[], &[random("n")], &painted(10)));
    cases.push(case);
    let (mut case, root) = sound("file-of-another-chunk-size", "a file in chunks of 2^13 in a volume of 2^12");
    let config = v::Config { chunk_log2: 13, ..case.writer.config.clone() };
    case.damaged_file(&root, b"bad", v::seal_backing(&config, &random("k"), &[], &[], &[random("n")], &painted(10)));
    cases.push(case);
    let (mut case, root) = sound("file-is-the-config", "the config under the name of a file");
    let config = case.writer.bytes(b"phalanx.volume").clone();
    case.damaged_file(&root, b"bad", config);
    cases.push(case);
    let (mut case, root) = sound("file-tag", "a bit of the header's padding is wrong, and so its tag");
    let file = case.file(&root, b"bad", &painted(10), &[]);
    case.writer.bytes(&file.path)[2000] ^= 1;
    case.want(&file.path, Plain::File(None));
    cases.push(case);
}

fn holes(cases: &mut Vec<Case>) {
    let slot = |holes: &[(u64, u64)]| {
        let body = holes.iter().flat_map(|(first, count)| [first.to_le_bytes(), count.to_le_bytes()].concat());
        raw(17, &body.collect::<Vec<_>>())
    };
    let many: Vec<(u64, u64)> = (0..241).map(|i| (2 * i, 1)).collect();
    // A file of eight chunks. All but the last are zeros that were never written.
    let mut add = |name: &str, comment: &str, chunks: u64, slots: Vec<Slot>| {
        let (mut case, root) = sound(name, comment);
        let file_key = random("backing: file key");
        let slots = [vec![slot_of(&case)], slots].concat();
        let mut file = case.writer.header_of(&file_key, slots, 4096);
        file.resize(file.len() + 4144 * (chunks as usize - 1), 0);
        let keys = reference::file_keys(&file_key, 1);
        file.extend(reference::seal_chunk(&keys, 12, chunks - 1, 1, &random::<16>("backing: nonce"), &painted(100)));
        case.damaged_file(&root, b"bad", file);
        cases.push(case);
    };
    add("holes-two-slots", "two slots of type 17", 8, vec![slot(&[(0, 3)]), slot(&[(4, 3)])]);
    add("holes-none", "a slot of type 17 without a hole", 8, vec![slot(&[])]);
    add("holes-241", "more holes than may be", 500, vec![slot(&many)]);
    add("holes-half", "half a hole in the slot", 8, vec![raw(17, &[0; 8])]);
    let body = [&0u64.to_le_bytes()[..], &3u64.to_le_bytes(), &5u64.to_le_bytes()].concat();
    add("holes-one-and-a-half", "one hole and a half in the slot", 8, vec![raw(17, &body)]);
    add("holes-count-0", "a hole of no chunk", 8, vec![slot(&[(0, 3), (5, 0)])]);
    add("holes-overlap", "two holes overlap", 8, vec![slot(&[(0, 4), (3, 4)])]);
    add("holes-touch", "a hole begins where the one before ends", 8, vec![slot(&[(0, 4), (4, 3)])]);
    add("holes-backwards", "a hole begins before the one before", 8, vec![slot(&[(4, 3), (0, 3)])]);
    add("hole-last-chunk", "a hole contains the last chunk", 8, vec![slot(&[(0, 8)])]);
    add("hole-is-the-last-chunk", "a hole begins at the last chunk", 8, vec![slot(&[(0, 6), (7, 1)])]);
    add("hole-behind-the-end", "a hole lies behind the end of the file", 8, vec![slot(&[(0, 7), (9, 1)])]);
    add("hole-to-2-64", "a hole ends at 2^64", 8, vec![slot(&[(1, u64::MAX)])]);
}

fn chunks(cases: &mut Vec<Case>) {
    let two = |name: &str, comment: &str| {
        let (mut case, root) = sound(name, comment);
        let one = case.file(&root, b"one", &painted(4196), &[]);
        let other = case.file(&root, b"other", &painted(4196), &[]);
        (case, one, other)
    };
    let (mut case, one, other) =
        two("chunks-of-two-files-swapped", "the first chunks of two files have changed places");
    let first = 4096..4096 + 4144;
    let a = case.writer.bytes(&one.path)[first.clone()].to_vec();
    let b = case.writer.bytes(&other.path)[first.clone()].to_vec();
    case.writer.bytes(&one.path)[first.clone()].copy_from_slice(&b);
    case.writer.bytes(&other.path)[first].copy_from_slice(&a);
    for file in [one, other] {
        case.want(&file.path, Plain::File(Some(vec![None, Some(painted_from(4096, 100))])));
    }
    cases.push(case);

    let (mut case, one, other) = two("headers-of-two-files-swapped", "the headers of two files have changed places");
    let (a, b) = (case.writer.bytes(&one.path)[..4096].to_vec(), case.writer.bytes(&other.path)[..4096].to_vec());
    case.writer.bytes(&one.path)[..4096].copy_from_slice(&b);
    case.writer.bytes(&other.path)[..4096].copy_from_slice(&a);
    for file in [one, other] {
        case.want(&file.path, Plain::File(None));
    }
    cases.push(case);

    let mut add = |name: &str, comment: &str, edit: &dyn Fn(&mut Vec<u8>), chunks: Option<Vec<Option<Vec<u8>>>>| {
        let (mut case, root) = sound(name, comment);
        let file = case.file(&root, b"bad", &painted(4196), &[]);
        edit(case.writer.bytes(&file.path));
        case.want(&file.path, Plain::File(chunks));
        cases.push(case);
    };
    let flip = |bytes: &mut Vec<u8>| bytes[4096 + 48] ^= 1;
    add(
        "chunk-0-flipped",
        "a bit of the first of two chunks is wrong",
        &flip,
        Some(vec![None, Some(painted_from(4096, 100))]),
    );
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1);
    add("file-cut-by-1", "the last byte is missing", &cut, None);
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(4096 + 4144);
    add("file-cut-at-a-chunk", "the last chunk is missing", &cut, None);
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(4096 + 4144 + 48);
    add("file-cut-in-a-chunk", "the last chunk has no ciphertext", &cut, None);
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(4096);
    add("file-cut-at-the-header", "no chunk is there", &cut, None);
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(4095);
    add("file-cut-in-the-header", "the header is cut", &cut, None);
    let longer = |bytes: &mut Vec<u8>| bytes.resize(bytes.len() + 4096, 0);
    add("file-longer", "zeros behind the file", &longer, None);
    let flip = |bytes: &mut Vec<u8>| *bytes.last_mut().unwrap() ^= 1;
    add("last-chunk-flipped", "a bit of the last of two chunks is wrong, so the length is not known", &flip, None);
    let whole = |bytes: &mut Vec<u8>| bytes.truncate(4096 + 4144);
    let (mut case, root) = sound("file-cut-with-xattr", "the last chunk is missing, and there is an attribute");
    let file = case.file(&root, b"bad", &painted(4196), &[]);
    let id = case.writer.backing(&file).file_id;
    case.writer.xattr(&file.path, &id, b"n", b"value");
    whole(case.writer.bytes(&file.path));
    case.want(&file.path, Plain::File(None));
    cases.push(case);
}

fn places(cases: &mut Vec<Case>) {
    let (mut case, root) = sound("name-moved", "a file was moved into another folder");
    let folder = case.folder(&root, b"folder");
    let file = case.file(&root, b"file", &painted(5), &[]);
    case.unlisted(&file.path);
    case.stored().rename(&file.path, &v::join(&folder.path, &file.path));
    cases.push(case);

    let (mut case, root) = sound("folder-moved", "a folder was moved into another folder, with its name");
    let folder = case.folder(&root, b"folder");
    let inner = case.folder(&root, b"inner");
    case.file(&inner, b"file", &painted(5), &[]);
    case.unlisted(&inner.path);
    case.stored().rename(&inner.path, &v::join(&folder.path, &inner.path));
    cases.push(case);

    let (mut case, root) =
        sound("folder-moved-over-another", "a folder was moved to the place of another in another folder");
    let folder = case.folder(&root, b"folder");
    let target = case.folder(&folder, b"target");
    let inner = case.folder(&root, b"inner");
    case.file(&inner, b"file", &painted(5), &[]);
    case.unlisted(&inner.path);
    case.stored().remove(&target.path);
    case.stored().rename(&inner.path, &target.path);
    case.damaged_folder(&target.path);
    cases.push(case);

    let (mut case, root) = sound("folder-copied", "a folder was copied over another in the same folder");
    let one = case.folder(&root, b"one");
    case.file(&one, b"file", &painted(5), &[]);
    let other = case.folder(&root, b"other");
    case.file(&other, b"lost", &painted(6), &[]);
    case.stored().remove(&other.path);
    let copied: Vec<(Vec<u8>, Entry)> = case
        .stored()
        .entries
        .iter()
        .filter(|(path, _)| path.starts_with(&one.path))
        .map(|(p, e)| (p.clone(), e.clone()))
        .collect();
    for (path, entry) in copied {
        case.writer.put(&[&other.path, &path[one.path.len()..]].concat(), entry.kind);
    }
    case.damaged_folder(&other.path);
    cases.push(case);

    let (mut case, root) = sound("folder-without-id", "a folder has no phalanx.folder");
    let folder = case.folder(&root, b"folder");
    case.file(&folder, b"file", &painted(5), &[]);
    case.stored().remove(&v::join(&folder.path, b"phalanx.folder"));
    case.damaged_folder(&folder.path);
    cases.push(case);

    let (mut case, root) = sound("folder-id-of-another", "a folder has the phalanx.folder of its parent");
    let folder = case.folder(&root, b"folder");
    let record = case.writer.bytes(b"phalanx.folder").clone();
    *case.writer.bytes(&v::join(&folder.path, b"phalanx.folder")) = record;
    case.damaged_folder(&folder.path);
    cases.push(case);

    let (mut case, root) = sound("folder-id-is-a-link", "phalanx.folder is a symbolic link to the right file");
    let folder = case.folder(&root, b"folder");
    let id = v::join(&folder.path, b"phalanx.folder");
    case.stored().rename(&id, &v::join(&folder.path, b"phalanx.other"));
    case.writer.put(&id, Kind::Link(b"phalanx.other".to_vec()));
    case.damaged_folder(&folder.path);
    cases.push(case);

    let (mut case, root) = sound("files-swapped", "two files have changed names, which a reader cannot tell");
    let one = case.file(&root, b"one", &painted(5), &[]);
    let other = case.file(&root, b"other", &painted(6), &[]);
    case.stored().rename(&one.path, b"phalanx.new.1");
    case.stored().rename(&other.path, &one.path);
    case.stored().rename(b"phalanx.new.1", &other.path);
    case.want_content(&one, &painted(6));
    case.want_content(&other, &painted(5));
    cases.push(case);

    let (mut case, root) = sound("links-swapped", "two links have changed names");
    let (one, other) = (case.link(&root, b"one", b"1"), case.link(&root, b"other", b"2"));
    case.stored().rename(&one, b"phalanx.new.1");
    case.stored().rename(&other, &one);
    case.stored().rename(b"phalanx.new.1", &other);
    case.want(&one, Plain::Link(None));
    case.want(&other, Plain::Link(None));
    cases.push(case);

    let (mut case, root) = sound("link-moved", "a link was moved into another folder, to the name of a link there");
    let folder = case.folder(&root, b"folder");
    let there = case.link(&folder, b"link", b"target");
    let link = case.link(&root, b"link", b"target");
    case.unlisted(&link);
    case.stored().remove(&there);
    case.stored().rename(&link, &there);
    case.want(&there, Plain::Link(None));
    cases.push(case);

    let (mut case, root) = sound(
        "links-damaged",
        "links to what is no sealed target: plain, empty, too long, with a zero byte, with spare bits",
    );
    let keys = case.writer.config.keys.clone();
    for (name, target) in [(&b"empty"[..], vec![]), (b"long", vec![b'x'; 3001]), (b"zero", b"a\0b".to_vec())] {
        let stored = case.link(&root, name, b"replaced below");
        let points_to = v::seal_link(&keys, &root.id, &stored, &target);
        case.writer.put(&stored, Kind::Link(points_to));
        case.want(&stored, Plain::Link(None));
    }
    let stored = case.link(&root, b"plain", b"replaced below");
    case.writer.put(&stored, Kind::Link(b"/etc/passwd".to_vec()));
    case.want(&stored, Plain::Link(None));
    let stored = case.link(&root, b"spare bits", b"replaced below");
    let mut points_to = v::seal_link(&keys, &root.id, &stored, b"1234");
    *points_to.last_mut().unwrap() += 1; // of 27 letters for 20 bytes, the last has two spare bits
    case.writer.put(&stored, Kind::Link(points_to));
    case.want(&stored, Plain::Link(None));
    cases.push(case);
}

fn long_names(cases: &mut Vec<Case>) {
    let long = |name: &str, comment: &str| {
        let (mut case, root) = sound(name, comment);
        let file = case.file(&root, &[b'n'; 200], &painted(5), &[]);
        let full = [&file.path[..], b".full"].concat();
        case.unlisted(&file.path);
        (case, file, full)
    };
    let (mut case, _, full) = long("long-name-altered", "a bit of the whole name is wrong");
    case.writer.bytes(&full)[100] ^= 1;
    cases.push(case);
    let (mut case, _, full) = long("long-name-longer", "a byte more in the file with the whole name");
    case.writer.bytes(&full).push(0);
    cases.push(case);
    let (mut case, _, full) = long("long-name-without-full", "the file with the whole name is missing");
    case.stored().remove(&full);
    cases.push(case);
    let (mut case, _, full) = long("long-name-full-is-a-link", "the whole name is a symbolic link to the right file");
    case.stored().rename(&full, b"phalanx.other");
    case.writer.put(&full, Kind::Link(b"phalanx.other".to_vec()));
    cases.push(case);

    let (mut case, file, full) =
        long("long-name-of-another", "the whole name is another's, and so is the digest in the name");
    let root = case.root();
    let folder = case.folder(&root, b"folder");
    case.stored().rename(&file.path, &v::join(&folder.path, &file.path));
    case.stored().rename(&full, &v::join(&folder.path, &full));
    cases.push(case);

    let comment = "a short name is stored as a long one: it would be there twice";
    let (mut case, root) = sound("long-name-is-short", comment);
    let file = case.file(&root, b"short", &painted(5), &[]);
    let bytes = case.writer.bytes(&file.path).clone();
    let sealed = v::seal_name(&case.writer.config.keys, &root.id, b"short");
    let stored = [b"phalanx.name.", &v::base64url(&reference::sha3_256(&sealed))[..]].concat();
    case.writer.put(&stored, Kind::File(bytes));
    case.writer.put(&[&stored[..], b".full"].concat(), Kind::File(sealed));
    cases.push(case);
}
