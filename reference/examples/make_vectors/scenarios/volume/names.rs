//! Names, folders, links, special files and extended attributes.

use super::*;

pub(super) fn add(cases: &mut Vec<Case>) {
    names(cases);
    folders(cases);
    links_and_special_files(cases);
    xattrs(cases);
    others(cases);
}

fn names(cases: &mut Vec<Case>) {
    let mut case = Case::new("names-lengths", "names of 1, 175, 176 and 255 bytes: the last two are long names");
    let root = case.root();
    for len in [1, 175, 176, 255] {
        let name: Vec<u8> = (0..len).map(|i| b'a' + (i % 26) as u8).collect();
        case.file(&root, &name, &painted(len), &[]);
    }
    cases.push(case);

    let mut case = Case::new("names-bytes", "a name is any bytes but / and zero");
    let root = case.root();
    for name in [
        &b"\xff\xfe\x80"[..],
        b"line\nfeed",
        b"\\ \x01\x7f",
        b"...",
        b".hidden",
        b"phalanx.volume",
        b"phalanx.new.x",
        "größe".as_bytes(),
    ] {
        case.file(&root, name, b"", &[]);
    }
    cases.push(case);
}

fn folders(cases: &mut Vec<Case>) {
    let mut case = Case::new("folders", "folders in folders; the same name in two of them is stored under two names");
    let root = case.root();
    let a = case.folder(&root, b"a");
    let b = case.folder(&a, b"b");
    let c = case.folder(&b, b"c");
    case.folder(&root, b"empty");
    for (folder, len) in [(&root, 1), (&a, 2), (&c, 3)] {
        case.file(folder, b"same", &painted(len), &[]);
    }
    cases.push(case);

    let mut case = Case::new("folders-long-names", "a folder, a file, a link and a FIFO with long names");
    let root = case.root();
    let long = |letter: u8| vec![letter; 200];
    let folder = case.folder(&root, &long(b'd'));
    case.file(&folder, &long(b'f'), &painted(10), &[]);
    case.link(&folder, &long(b'l'), b"target");
    case.special(&folder, &long(b'p'), Special::Fifo);
    cases.push(case);

    for (which, comment) in [
        ("first", "two records, the first of them for this place: a rename that was not done"),
        ("second", "two records, the second of them for this place: a rename that was just done"),
    ] {
        let mut case = Case::new(&format!("folder-two-records-{which}"), comment);
        let root = case.root();
        let there = case.folder(&root, b"there");
        let folder = case.folder(&there, b"folder");
        case.file(&folder, b"file", &painted(5), &[]);
        let sealed = v::seal_name(&case.writer.config.keys, &root.id, b"elsewhere");
        let other = v::folder_record(&case.writer.config.keys, &root.id, &v::stored_name(&sealed), &folder.id);
        let records = case.writer.bytes(&v::join(&folder.path, b"phalanx.folder"));
        if which == "first" {
            records.extend(other);
        } else {
            records.splice(..0, other);
        }
        cases.push(case);
    }
}

fn links_and_special_files(cases: &mut Vec<Case>) {
    let mut case = Case::new("links", "symbolic links; a target is any bytes but zero");
    let root = case.root();
    let folder = case.folder(&root, b"folder");
    case.link(&root, b"short", b"x");
    case.link(&root, b"up", b"../../etc/passwd");
    case.link(&folder, b"absolute", b"/");
    case.link(&folder, b"not UTF-8", b"\xff/\x80");
    case.link(&folder, b"longest", &vec![b'/'; 3000]);
    cases.push(case);

    let mut case = Case::new("fifo", "a FIFO");
    let root = case.root();
    case.special(&root, b"pipe", Special::Fifo);
    cases.push(case);
}

fn xattrs(cases: &mut Vec<Case>) {
    let mut case = Case::new("xattrs", "extended attributes of a file, a folder and the root");
    let root = case.root();
    let folder = case.folder(&root, b"folder");
    let file = case.file(&root, b"file", b"", &[]);
    let file_id = case.writer.backing(&file).file_id;
    case.xattr(b"", &root.id, b"of the root", b"value");
    case.xattr(&folder.path, &folder.id, b"same", b"of the folder");
    case.xattr(&file.path, &file_id, b"same", b"of the file");
    case.xattr(&file.path, &file_id, b"empty", b"");
    case.xattr(&file.path, &file_id, b"binary", b"\0\xff\n");
    case.xattr(&file.path, &file_id, &[b'n'; 165], &painted(300));
    cases.push(case);

    let mut case = Case::new(
        "xattrs-damaged",
        "one value belongs to another attribute; others belong to another file, or have no lawful name",
    );
    let root = case.root();
    let file = case.file(&root, b"file", b"", &[]);
    let other = case.file(&root, b"other", b"", &[]);
    let (id, other_id) = (case.writer.backing(&file).file_id, case.writer.backing(&other).file_id);
    case.xattr(&file.path, &id, b"good", b"value");
    case.xattr(&file.path, &id, b"swapped", b"value");
    case.tree.get_mut(&case.plain[&file.path]).unwrap().1.insert(b"user.swapped".to_vec(), None);
    let keys = case.writer.config.keys.clone();
    let (name, _) = v::seal_xattr(&keys, &id, b"swapped", b"value");
    let (_, value) = v::seal_xattr(&keys, &id, b"good", b"value");
    let (foreign, foreign_value) = v::seal_xattr(&keys, &other_id, b"foreign", b"value");
    let (mut spare, spare_value) = v::seal_xattr(&keys, &id, b"bits", b"value");
    *spare.last_mut().unwrap() += 1; // of 27 letters for 20 bytes, the last has two spare bits
    let xattrs = &mut case.stored().entries.get_mut(&file.path).unwrap().xattrs;
    xattrs.insert(name, value);
    xattrs.insert(foreign, foreign_value);
    xattrs.insert(spare, spare_value);
    xattrs.extend([v::seal_xattr(&keys, &id, b"", b"value"), v::seal_xattr(&keys, &id, b"a\0b", b"value")]);
    xattrs.insert(b"user.phalanx.x".to_vec(), b"value".to_vec());
    xattrs.insert(b"user.plain".to_vec(), b"value".to_vec());
    cases.push(case);
}

fn others(cases: &mut Vec<Case>) {
    let mut case = Case::new("not-of-the-volume", "entries that are not listed");
    let root = case.root();
    let folder = case.folder(&root, b"folder");
    let file = case.file(&root, b"file", &painted(3), &[]);
    let bytes = case.writer.bytes(&file.path).clone();
    let sealed = v::seal_name(&case.writer.config.keys, &root.id, b"name");
    let name = v::stored_name(&sealed);
    // A sealed name of 20 bytes has 27 letters, of which the last has two spare bits.
    let spare = [&name[..26], &[name[26] + 1]].concat();
    let full = case.writer.name(&root, &[b'x'; 200]); // the file with the whole name, and no entry
    assert!(full.starts_with(b"phalanx.name."));
    for path in [
        &b"phalanx.new.1"[..],
        b"phalanx.gone.1",
        b"phalanx.other",
        b"notes.txt",
        b"Zm9v",
        b"phalanx.name.short",
        &[&name[..], b"="].concat(),
        &[&name[..], b".phx"].concat(),
        &spare,
        &v::join(&folder.path, b"phalanx.volume"),
        &v::join(&folder.path, b"phalanx.journal"),
    ] {
        case.writer.put(path, Kind::File(bytes.clone()));
    }
    for bad in [&b"."[..], b"..", b"", b"a/b", b"a\0b"] {
        let sealed = v::seal_name(&case.writer.config.keys, &folder.id, bad);
        case.writer.put(&v::join(&folder.path, &v::stored_name(&sealed)), Kind::File(bytes.clone()));
    }
    let long = v::seal_name(&case.writer.config.keys, &folder.id, &[b'y'; 256]);
    let stored = v::join(&folder.path, &v::stored_name(&long));
    case.writer.put(&stored, Kind::File(bytes));
    case.writer.put(&[&stored[..], b".full"].concat(), Kind::File(long));
    cases.push(case);
}
