//! The volumes of `vectors/volume`.

use crate::refused;
use phalanx_reference::volume::{
    self as v, Entry, Kind, Opened, Plain, PlainEntry, Refusal, Special, Stored, Xattrs, open_volume,
};
use phalanx_vectors::volume::{PlainKind, StoredKind, Volume, joined};
use phalanx_vectors::{Expect, Hex, hex, volumes as all};
use std::collections::BTreeMap;

#[test]
fn volumes() {
    for (name, file) in all() {
        let stored = stored(&file);
        let passwords: Vec<&[u8]> = file.password.iter().map(|password| &password[..]).collect();
        let keys: Vec<[u8; 32]> = file.key.iter().map(Hex::array).collect();

        let opened = open_volume(&stored, &passwords, &keys);
        let found = match &opened {
            Ok(_) => Expect::Ok,
            Err(Refusal::NoConfig) => Expect::NoConfig,
            Err(Refusal::Config(error)) => refused(*error),
            Err(Refusal::Root) => Expect::Root,
            Err(Refusal::Journal) => Expect::Journal,
            Err(Refusal::Versions) => Expect::Versions,
        };
        assert_eq!(found, file.expect, "{name}");
        if let Ok(opened) = opened {
            assert_eq!(opened.config.keys.volume[..], **file.volume_key.as_ref().unwrap(), "{name}");
            check_tree(&name, &file, &opened.tree);
            check_journal(&name, &file, &stored, &opened);
            // The journal has been applied.
            let again = open_volume(&opened.stored, &passwords, &keys).unwrap();
            assert_eq!((again.applied, again.stored), (v::Applied::default(), opened.stored), "{name}");
            assert_eq!(again.tree, opened.tree, "{name}");
        }
    }
}

fn check_tree(name: &str, file: &Volume, tree: &[PlainEntry]) {
    let path_of = |entry: &PlainEntry| entry.path.iter().map(|part| hex(part)).collect::<Vec<_>>().join("/");
    let found: Vec<String> = tree.iter().map(path_of).collect();
    let wanted: Vec<&str> = file.tree.iter().map(|entry| &*entry.path).collect();
    assert_eq!(found, wanted, "{name}");
    for (entry, wanted) in tree.iter().zip(&file.tree) {
        let path = format!("{name}: {}", wanted.path);
        match (&entry.plain, &wanted.kind) {
            (Plain::Folder(id), PlainKind::Folder) => assert_eq!(id.is_none(), wanted.damaged, "{path}"),
            (Plain::File(chunks), PlainKind::File { content }) => {
                assert_eq!(chunks.is_none(), wanted.damaged, "{path}");
                assert!(chunks.clone().map(joined) == *content, "{path}");
            }
            (Plain::Link(target), PlainKind::Link { target: wanted_target }) => {
                assert_eq!(target.is_none(), wanted.damaged, "{path}");
                assert_eq!(target.as_deref(), wanted_target.as_deref(), "{path}");
            }
            (Plain::Special(Special::Fifo), PlainKind::Fifo) => {}
            (found, wanted) => panic!("{path}: {found:?} instead of {wanted:?}"),
        }
        let xattrs: BTreeMap<String, Option<&[u8]>> =
            entry.xattrs.iter().map(|(name, value)| (hex(name), value.as_deref())).collect();
        let wanted = wanted.xattrs.iter().map(|(name, value)| (name.clone(), value.as_deref()));
        assert_eq!(xattrs, wanted.collect(), "{path}");
    }
}

fn check_journal(name: &str, file: &Volume, before: &Stored, opened: &Opened) {
    assert_eq!(opened.applied.transactions, file.transactions, "{name}");
    let left_out: Vec<([u8; 16], u64)> =
        file.left_out.iter().map(|chunk| (chunk.file_id.array(), chunk.index)).collect();
    assert_eq!(opened.applied.left_out, left_out, "{name}");

    // Only the files that `after` names are altered.
    for (path, entry) in &before.entries {
        if path == b"phalanx.versions" && file.transactions > 0 {
            continue; // a batch was appended
        }
        match file.after.get(std::str::from_utf8(path).unwrap()) {
            None => assert!(opened.stored.entries[path] == *entry, "{name}"),
            Some(digest) => {
                let found = phalanx_reference::sha3_256(opened.stored.file(path).unwrap());
                assert_eq!(found[..], **digest, "{name}");
            }
        }
    }
}

/// A folder from the field `folder`.
fn stored(file: &Volume) -> Stored {
    let mut stored = Stored::default();
    for entry in &file.folder {
        let kind = match &entry.kind {
            StoredKind::Folder => Kind::Folder,
            StoredKind::File { bytes } => Kind::File(bytes.clone()),
            StoredKind::Link { target } => Kind::Link(target.clone().into()),
            StoredKind::Fifo => Kind::Special(Special::Fifo),
        };
        let xattrs = entry.xattrs.iter().map(|(name, value)| (name.clone().into_bytes(), value.to_vec())).collect();
        stored.entries.insert(entry.path.clone().into(), Entry { kind, inode: entry.inode, xattrs });
    }
    stored
}

#[test]
fn the_document_has_the_worked_example() {
    let document = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/format-volumes.md");
    let (_, _, example) = crate::scenarios::volume::worked_volume::made();
    let message = "docs/format-volumes.md, 10.8: run the example worked_volume and look at the difference";
    assert!(std::fs::read_to_string(document).unwrap().contains(&example), "{message}");
}

/// A volume that is written to a folder, loaded and opened is what the vectors describe.
#[cfg(unix)]
#[test]
fn a_folder_on_a_disk() {
    let root = std::env::temp_dir().join(format!("phalanx-reference-{}", std::process::id()));
    std::fs::create_dir(&root).unwrap();
    // These have neither extended attributes nor special files, so that any file system holds them.
    let names = ["files-suite-1-chunk-12", "folders", "journal-two-files"];
    let files: Vec<_> = all().into_iter().filter(|(name, _)| names.contains(&&name[..])).collect();
    assert_eq!(files.len(), names.len());
    for (name, file) in files {
        let folder = root.join(&name);
        for (path, entry) in &stored(&file).entries {
            let at = folder.join(std::str::from_utf8(path).unwrap());
            match &entry.kind {
                Kind::Folder => std::fs::create_dir(at).unwrap(),
                Kind::File(bytes) => std::fs::write(at, bytes).unwrap(),
                other => panic!("{other:?}"),
            }
        }
        let loaded = v::load_folder(&folder, &|_| Ok(Xattrs::new())).unwrap();
        let keys = [file.key.as_ref().unwrap().array()];
        check_tree(&name, &file, &open_volume(&loaded, &[], &keys).unwrap().tree);
    }
    std::fs::remove_dir_all(root).unwrap();
}
