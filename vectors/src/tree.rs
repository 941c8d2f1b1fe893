//! Trees, of the folders `contents` and `manifests`.
#![allow(missing_docs, reason = "README.md says what each field is")]

use crate::bytes::Hex;
use crate::volume::whole;
use crate::{Expect, Format, load};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::str::FromStr;

/// The contents of a stored file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    pub comment: String,
    pub expect: Expect,
    format: Option<String>,
    #[serde(default, deserialize_with = "some_whole")]
    file: Option<Vec<u8>>,
    pub last: Option<Hex>,
    pub root: Option<Hex>,
}

impl Contents {
    /// The stored file, its own or that of a scenario of `format`.
    pub fn file(&self) -> Vec<u8> {
        match (&self.file, &self.format) {
            (Some(file), None) => file.clone(),
            (None, Some(name)) => load::<Format>("format", name).file.to_vec(),
            _ => panic!("{}: file or format", self.comment),
        }
    }
}

/// A manifest.
#[derive(Debug, Deserialize)]
pub struct Manifest {
    pub comment: String,
    pub expect: Rule,
    pub manifest: Hex,
    /// What it says, if it is one.
    #[serde(flatten)]
    pub read: Option<Read>,
}

/// That a manifest keeps all rules, or the one that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    Ok,
    Magic,
    Version,
    Cut,
    Rules,
    Root,
    Kind,
    Name,
    Order,
    Mode,
    Time,
    Length,
    Target,
    Count,
    Extended,
}

/// What a manifest says.
#[derive(Debug, Deserialize)]
pub struct Read {
    pub tree: Hex,
    #[serde(deserialize_with = "decimal")]
    pub generation: u64,
    #[serde(deserialize_with = "decimal")]
    pub written: i64,
    pub previous: Hex,
    pub rules: Hex,
    pub entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
pub struct Entry {
    pub depth: usize,
    pub name: Hex,
    pub mode: u32,
    #[serde(deserialize_with = "decimal")]
    pub seconds: i64,
    pub nanoseconds: u32,
    #[serde(flatten)]
    pub kind: Kind,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Kind {
    Folder,
    File {
        #[serde(deserialize_with = "decimal")]
        len: u64,
        #[serde(deserialize_with = "decimal")]
        stored_len: u64,
        #[serde(deserialize_with = "decimal")]
        device: u64,
        #[serde(deserialize_with = "decimal")]
        inode: u64,
        last: Hex,
        root: Hex,
    },
    Link {
        target: Hex,
    },
}

fn decimal<'de, D: Deserializer<'de>, T: FromStr>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| D::Error::custom(format!("no number: {text}")))
}

fn some_whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
    whole(from).map(Some)
}
