//! Volumes, of the folder `volume`.
#![allow(missing_docs, reason = "README.md says what each field is")]

use crate::Expect;
use crate::bytes::{Hex, painted};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// The content of a file: what is authentic in one piece, and a `None` for each chunk that is not.
pub type Pieces = Vec<Option<Vec<u8>>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    pub comment: String,
    pub expect: Expect,
    pub password: Option<Hex>,
    pub key: Option<Hex>,
    #[serde(default)]
    pub needs_inodes: bool,
    pub volume_key: Option<Hex>,
    pub folder: Vec<Stored>,
    #[serde(default)]
    pub tree: Vec<Plain>,
    #[serde(default)]
    pub transactions: usize,
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    #[serde(default)]
    pub after: BTreeMap<String, Hex>,
}

/// A chunk that the journal has and that is left out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    pub file_id: Hex,
    pub index: u64,
}

/// An entry of `folder`.
#[derive(Debug, Deserialize)]
pub struct Stored {
    pub path: String,
    pub inode: u64,
    #[serde(flatten)]
    pub kind: StoredKind,
    #[serde(default)]
    pub xattrs: BTreeMap<String, Hex>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum StoredKind {
    Folder,
    File {
        #[serde(deserialize_with = "whole")]
        bytes: Vec<u8>,
    },
    Link {
        target: String,
    },
    Fifo,
}

/// An entry of `tree`.
#[derive(Debug, Deserialize)]
pub struct Plain {
    pub path: String,
    #[serde(flatten)]
    pub kind: PlainKind,
    #[serde(default)]
    pub damaged: bool,
    #[serde(default)]
    pub xattrs: BTreeMap<String, Option<Hex>>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum PlainKind {
    Folder,
    /// Without content if it is damaged.
    File {
        #[serde(default, deserialize_with = "pieces")]
        content: Option<Pieces>,
    },
    /// Without a target if it is damaged.
    Link {
        target: Option<Hex>,
    },
    Fifo,
}

/// A part of `bytes` or of `content`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Written(Hex),
    Zeros(usize),
    Painted(usize, usize),
}

impl Part {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Written(bytes) => bytes.to_vec(),
            Self::Zeros(len) => vec![0; len],
            Self::Painted(from, len) => painted(from, len),
        }
    }
}

pub(crate) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    Ok(Vec::<Part>::deserialize(from)?.into_iter().flat_map(Part::bytes).collect())
}

fn pieces<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Pieces>, D::Error> {
    let parts = Vec::<Option<Part>>::deserialize(from)?;
    Ok(Some(joined(parts.into_iter().map(|part| part.map(Part::bytes)))))
}

/// Joins what follows without a `None` between.
pub fn joined(parts: impl IntoIterator<Item = Option<Vec<u8>>>) -> Pieces {
    let mut pieces = Pieces::new();
    for part in parts {
        match (pieces.last_mut(), part) {
            (Some(Some(before)), Some(part)) => before.extend(part),
            (_, part) => pieces.push(part),
        }
    }
    // A file of 0 bytes has one chunk and no part.
    if pieces.is_empty() {
        pieces.push(Some(Vec::new()));
    }
    pieces
}
