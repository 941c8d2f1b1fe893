//! The trees of `vectors/contents` and `vectors/manifests`.

use crate::refused;
use phalanx_reference::tree::{
    Broken, Contents, Entry, Kind, Manifest, contents as read_contents, read_manifest, write_manifest,
};
use phalanx_vectors::tree::{self as vectors, Rule};
use phalanx_vectors::{Expect, Hex};

#[test]
fn contents() {
    for (name, file) in phalanx_vectors::contents() {
        let found = read_contents(&file.file());
        let outcome = found.as_ref().map_or_else(|error| refused(*error), |_| Expect::Ok);
        assert_eq!(outcome, file.expect, "{name}");
        let expected = file.last.zip(file.root).map(|(last, root)| Contents { last: last.array(), root: root.array() });
        assert_eq!(found.ok(), expected, "{name}");
    }
}

#[test]
fn manifests() {
    for (name, file) in phalanx_vectors::manifests() {
        let found = read_manifest(&file.manifest);
        assert_eq!(found.as_ref().map_or_else(|broken| rule(*broken), |_| Rule::Ok), file.expect, "{name}");
        if let Ok(manifest) = found {
            assert_eq!(manifest, expected(file.read.as_ref().unwrap()), "{name}");
            assert_eq!(write_manifest(&manifest), *file.manifest, "{name}");
        }
    }
}

fn expected(read: &vectors::Read) -> Manifest {
    let entry = |entry: &vectors::Entry| Entry {
        depth: entry.depth,
        name: entry.name.to_vec(),
        mode: entry.mode,
        seconds: entry.seconds,
        nanoseconds: entry.nanoseconds,
        kind: kind(&entry.kind),
    };
    Manifest {
        tree: read.tree.array(),
        generation: read.generation,
        written: read.written,
        previous: read.previous.array(),
        rules: read.rules.to_vec(),
        entries: read.entries.iter().map(entry).collect(),
    }
}

fn kind(kind: &vectors::Kind) -> Kind {
    let contents = |last: &Hex, root: &Hex| Contents { last: last.array(), root: root.array() };
    match kind {
        vectors::Kind::Folder => Kind::Folder,
        vectors::Kind::Link { target } => Kind::Link(target.to_vec()),
        vectors::Kind::File { len, stored_len, device, inode, last, root } => Kind::File {
            len: *len,
            stored_len: *stored_len,
            device: *device,
            inode: *inode,
            contents: contents(last, root),
        },
    }
}

/// The word of the vectors for a broken rule.
fn rule(broken: Broken) -> Rule {
    match broken {
        Broken::Magic => Rule::Magic,
        Broken::Version => Rule::Version,
        Broken::Cut => Rule::Cut,
        Broken::Rules => Rule::Rules,
        Broken::Root => Rule::Root,
        Broken::Kind => Rule::Kind,
        Broken::Name => Rule::Name,
        Broken::Order => Rule::Order,
        Broken::Depth => panic!("no vector is so deep"),
        Broken::Mode => Rule::Mode,
        Broken::Time => Rule::Time,
        Broken::Length => Rule::Length,
        Broken::Target => Rule::Target,
        Broken::Count => Rule::Count,
        Broken::Extended => Rule::Extended,
    }
}
