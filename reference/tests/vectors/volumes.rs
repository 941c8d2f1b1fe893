//! The volumes of `vectors/volume`.

use crate::{bytes, decode, outcome, read_folder, text};
use phalanx_reference::volume::{
    self as v, Entry, Kind, Opened, Plain, PlainEntry, Refusal, Special, Stored, Xattrs, open_volume,
};
use serde_json::Value;
use std::collections::BTreeMap;

#[test]
fn volumes() {
    for (name, file) in read_folder("volume", 177) {
        let stored = stored(&file);
        let password = bytes(&file, "password");
        let passwords: Vec<&[u8]> = password.iter().map(Vec::as_slice).collect();
        let keys: Vec<[u8; 32]> = bytes(&file, "key").map(|key| key.try_into().unwrap()).into_iter().collect();

        let opened = open_volume(&stored, &passwords, &keys);
        let found = match &opened {
            Ok(_) => "ok",
            Err(Refusal::NoConfig) => "no-config",
            Err(Refusal::Config(error)) => outcome(&Err(*error)),
            Err(Refusal::Root) => "root",
            Err(Refusal::Journal) => "journal",
        };
        assert_eq!(found, text(&file, "expect"), "{name}");
        if let Ok(opened) = opened {
            assert_eq!(opened.config.keys.volume[..], bytes(&file, "volume_key").unwrap(), "{name}");
            check_tree(&name, &file, &opened.tree);
            check_journal(&name, &file, &stored, &opened);
            // The journal has been applied.
            let again = open_volume(&opened.stored, &passwords, &keys).unwrap();
            assert_eq!((again.applied, again.stored), (v::Applied::default(), opened.stored), "{name}");
            assert_eq!(again.tree, opened.tree, "{name}");
        }
    }
}

fn check_tree(name: &str, file: &Value, tree: &[PlainEntry]) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let path_of = |entry: &PlainEntry| entry.path.iter().map(|part| hex(part)).collect::<Vec<_>>().join("/");
    let found: Vec<String> = tree.iter().map(path_of).collect();
    let wanted: Vec<&str> = file["tree"].as_array().unwrap().iter().map(|entry| text(entry, "path")).collect();
    assert_eq!(found, wanted, "{name}");
    for (entry, wanted) in tree.iter().zip(file["tree"].as_array().unwrap()) {
        let path = format!("{name}: {}", text(wanted, "path"));
        let damaged = wanted["damaged"] == true;
        let kind = match &entry.plain {
            Plain::Folder(id) => {
                assert_eq!(id.is_none(), damaged, "{path}");
                "folder"
            }
            Plain::File(chunks) => {
                let content = (!damaged).then(|| pieces(&parts(&wanted["content"])));
                assert!(chunks.as_deref().map(pieces) == content, "{path}");
                "file"
            }
            Plain::Link(target) => {
                let wanted = (!damaged).then(|| bytes(wanted, "target").unwrap());
                assert_eq!(*target, wanted, "{path}");
                "link"
            }
            Plain::Special(special) => name_of(*special),
        };
        assert_eq!(kind, text(wanted, "kind"), "{path}");
        let xattrs: BTreeMap<String, Option<Vec<u8>>> =
            entry.xattrs.iter().map(|(name, value)| (hex(name), value.clone())).collect();
        let wanted = wanted["xattrs"].as_object().cloned().unwrap_or_default();
        assert_eq!(
            xattrs,
            wanted.into_iter().map(|(name, value)| (name, value.as_str().map(decode))).collect(),
            "{path}"
        );
    }
}

fn check_journal(name: &str, file: &Value, before: &Stored, opened: &Opened) {
    let wanted = file["transactions"].as_u64().unwrap_or(0);
    assert_eq!(opened.applied.transactions as u64, wanted, "{name}");
    let left_out = file["left_out"].as_array().cloned().unwrap_or_default();
    let left_out: Vec<([u8; 16], u64)> = left_out
        .iter()
        .map(|chunk| (bytes(chunk, "file_id").unwrap().try_into().unwrap(), chunk["index"].as_u64().unwrap()))
        .collect();
    assert_eq!(opened.applied.left_out, left_out, "{name}");

    // Only the files that `after` names are altered.
    let after = file["after"].as_object().cloned().unwrap_or_default();
    for (path, entry) in &before.entries {
        match after.get(std::str::from_utf8(path).unwrap()) {
            None => assert!(opened.stored.entries[path] == *entry, "{name}"),
            Some(digest) => {
                let found = phalanx_reference::sha3_256(opened.stored.file(path).unwrap());
                assert_eq!(found[..], decode(digest.as_str().unwrap()), "{name}");
            }
        }
    }
}

/// A folder from the field `folder`.
fn stored(file: &Value) -> Stored {
    let mut stored = Stored::default();
    for entry in file["folder"].as_array().unwrap() {
        let kind = match text(entry, "kind") {
            "folder" => Kind::Folder,
            "file" => Kind::File(pieces(&parts(&entry["bytes"])).pop().flatten().unwrap_or_default()),
            "link" => Kind::Link(text(entry, "target").into()),
            "fifo" => Kind::Special(Special::Fifo),
            other => panic!("unknown kind {other}"),
        };
        let xattrs = entry["xattrs"].as_object().cloned().unwrap_or_default();
        let xattrs: Xattrs =
            xattrs.into_iter().map(|(name, value)| (name.into_bytes(), decode(value.as_str().unwrap()))).collect();
        let inode = entry["inode"].as_u64().unwrap();
        stored.entries.insert(text(entry, "path").into(), Entry { kind, inode, xattrs });
    }
    stored
}

fn name_of(special: Special) -> &'static str {
    match special {
        Special::Fifo => "fifo",
        Special::Socket => "socket",
        Special::Device => "device",
    }
}

/// The parts of `bytes` or `content`, with `None` for `null`.
fn parts(value: &Value) -> Vec<Option<Vec<u8>>> {
    let part = |part: &Value| match part {
        Value::Null => None,
        Value::String(hex) => Some(decode(hex)),
        Value::Number(zeros) => Some(vec![0; zeros.as_u64().unwrap() as usize]),
        painted => {
            let (from, len) = (painted[0].as_u64().unwrap(), painted[1].as_u64().unwrap());
            Some((from..from + len).map(|i| (i % 251) as u8).collect())
        }
    };
    value.as_array().unwrap().iter().map(part).collect()
}

/// Joins parts that have no `None` between them.
fn pieces(parts: &[Option<Vec<u8>>]) -> Vec<Option<Vec<u8>>> {
    let mut pieces: Vec<Option<Vec<u8>>> = Vec::new();
    for part in parts {
        match (pieces.last_mut(), part) {
            (Some(Some(before)), Some(part)) => before.extend(part),
            _ => pieces.push(part.clone()),
        }
    }
    // A file of 0 bytes has one chunk and no part.
    if pieces.is_empty() {
        pieces.push(Some(Vec::new()));
    }
    pieces
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
    // These have neither extended attributes nor special files, so that any file system can hold them.
    let names = ["volume/files-suite-1-chunk-12.json", "volume/folders.json", "volume/journal-two-files.json"];
    let files: Vec<_> = read_folder("volume", 177).into_iter().filter(|(name, _)| names.contains(&&name[..])).collect();
    assert_eq!(files.len(), names.len());
    for (name, file) in files {
        let folder = root.join(name.replace('/', "-"));
        for (path, entry) in &stored(&file).entries {
            let at = folder.join(std::str::from_utf8(path).unwrap());
            match &entry.kind {
                Kind::Folder => std::fs::create_dir(at).unwrap(),
                Kind::File(bytes) => std::fs::write(at, bytes).unwrap(),
                other => panic!("{other:?}"),
            }
        }
        let loaded = v::load_folder(&folder, &|_| Ok(Xattrs::new())).unwrap();
        let keys = [bytes(&file, "key").unwrap().try_into().unwrap()];
        check_tree(&name, &file, &open_volume(&loaded, &[], &keys).unwrap().tree);
    }
    std::fs::remove_dir_all(root).unwrap();
}
