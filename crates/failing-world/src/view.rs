//! What the entries of a folder mean: which plaintext a protected file holds, and which keys open it.

use crate::tree::{Entry, Node, Tree};
use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::{KdfLimit, Opener, ProtectedFile, Roster, SecretKey, Sink, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an entry means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    Folder,
    Link(Vec<u8>),
    /// A protected file: its plaintext, and which keys open it.
    Protected(Vec<u8>, Vec<usize>),
    /// A protected file that no key opens, or that is not whole.
    Broken,
    /// The manifest of a mirror, which opens.
    Manifest,
    /// A key of a keyring.
    Key,
    /// A key that is locked.
    Locked,
    /// A signature. Whether it is one of what it should be, the proof says.
    Signature,
    /// A file of a volume.
    Opaque,
    Plain(Vec<u8>),
}

pub type View = BTreeMap<PathBuf, Meaning>;

/// The keys of all cases. Key number n is n + 1 in each byte.
pub fn key(number: usize) -> [u8; 32] {
    [number as u8 + 1; 32]
}

const KEYS: usize = 3;

/// Opens protected files.
pub struct Eye {
    roster: Roster,
    keys: Vec<Opener<SecretKey>>,
}

impl Eye {
    pub fn new() -> Self {
        let opener = |number| {
            let secret = SecretKey::from_slice(&key(number)).expect("32 bytes");
            Opener::new(secret, KdfLimit::default())
        };
        let engine = CpuEngine::serial(Levels::detect());
        Self { roster: Roster::new(&[Arc::new(engine)]), keys: (0..KEYS).map(opener).collect() }
    }

    /// The plaintext of a protected file, and which keys open it.
    pub fn open(&self, bytes: &[u8]) -> Option<(Vec<u8>, Vec<usize>)> {
        let mut found: Option<Vec<u8>> = None;
        let mut by = Vec::new();
        for (number, opener) in self.keys.iter().enumerate() {
            let Ok(file) = ProtectedFile::open(Source::ranged(bytes), opener) else { continue };
            if found.is_none() {
                let mut plain = Vec::with_capacity(bytes.len());
                file.unprotect(&self.roster, Sink::stream(&mut plain), &()).ok()?;
                found = Some(plain);
            }
            by.push(number);
        }
        found.map(|plain| (plain, by))
    }

    fn meaning(&self, path: &Path, node: &Node) -> Meaning {
        let bytes = match &node.kind {
            Entry::Folder => return Meaning::Folder,
            Entry::Link(target) => return Meaning::Link(target.clone()),
            Entry::File(bytes) => bytes,
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.starts_with("keyring") && name.ends_with(".key.phx") {
            return if bytes.len() > 32 { Meaning::Locked } else { Meaning::Broken };
        }
        if name.ends_with(".phx") {
            return self.open(bytes).map_or(Meaning::Broken, |(plain, by)| Meaning::Protected(plain, by));
        }
        if name.ends_with(".sig") {
            return if is_signature(bytes) { Meaning::Signature } else { Meaning::Broken };
        }
        if name == "phalanx.tree" {
            return self.open(bytes).map_or(Meaning::Broken, |_| Meaning::Manifest);
        }
        if path.starts_with("vol") {
            return Meaning::Opaque;
        }
        if path.starts_with("keyring") && name.ends_with(".key") {
            return if bytes.len() == 32 { Meaning::Key } else { Meaning::Broken };
        }
        Meaning::Plain(bytes.clone())
    }

    /// What a tree means. The state folder and temporary files are left out.
    pub fn view(&self, tree: &Tree) -> View {
        let kept = tree.iter().filter(|(path, _)| !path.starts_with("state") && !is_temporary(path));
        kept.map(|(path, node)| (path.clone(), self.meaning(path, node))).collect()
    }
}

/// Whether a signature is there from its first line to its last. OpenSSH's are text.
fn is_signature(bytes: &[u8]) -> bool {
    let is_framed =
        bytes.starts_with(b"-----BEGIN SSH SIGNATURE-----\n") && bytes.ends_with(b"-----END SSH SIGNATURE-----\n");
    is_framed && !bytes.contains(&0)
}

/// Whether a path is a temporary file's, or in a temporary folder.
pub fn is_temporary(path: &Path) -> bool {
    path.iter().any(|name| {
        let name = name.to_string_lossy();
        name.starts_with(".phalanx-") || name.starts_with("phalanx.new.")
    })
}

/// The temporary files of a tree.
pub fn temporaries(tree: &Tree) -> Vec<&PathBuf> {
    tree.keys().filter(|path| is_temporary(path) && !path.starts_with("state")).collect()
}

fn text(meaning: &Meaning) -> Option<&Vec<u8>> {
    match meaning {
        Meaning::Protected(text, _) | Meaning::Plain(text) => Some(text),
        _ => None,
    }
}

/// All plaintexts.
pub fn texts(view: &View) -> BTreeSet<&Vec<u8>> {
    let others = view.iter().filter(|(path, _)| !path.starts_with("keyring"));
    others.filter_map(|(_, meaning)| text(meaning)).collect()
}
