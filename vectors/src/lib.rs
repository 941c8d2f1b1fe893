//! The test vectors of Phalanx as values, for tests in Rust. `README.md` beside this crate states the schema, and the types here
//! have the same fields.
//!
//! A file that is not as the schema says is a panic: a test can do nothing else about it.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod bytes;
pub mod primitives;
pub mod tree;
pub mod volume;

pub use bytes::{Hex, hex, unhex};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// What a reader must find: that all is well, or the first check that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "README.md says what each of them means")]
pub enum Expect {
    Ok,
    NotPhalanx,
    Version,
    Header,
    KdfLimit,
    NoKey,
    Altered,
    NoConfig,
    Root,
    Journal,
    Versions,
}

/// A protected file, of the folder `format`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md says what each field is")]
pub struct Format {
    pub comment: String,
    pub expect: Expect,
    pub password: Option<Hex>,
    pub key: Option<Hex>,
    pub file: Hex,
    pub suite: Option<u8>,
    pub chunk_log2: Option<u8>,
    pub header_len: Option<usize>,
    pub file_key: Option<Hex>,
    pub nonces: Option<Vec<Hex>>,
    pub plaintext: Option<Hex>,
}

/// A message, of the folder `messages`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md says what each field is")]
pub struct Message {
    pub comment: String,
    pub expect: Expect,
    pub suite: u8,
    pub key: Hex,
    pub ad: Hex,
    pub message: Hex,
    pub nonce: Option<Hex>,
    pub plaintext: Option<Hex>,
}

/// A file with age slots, of the folder `age`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md says what each field is")]
pub struct Age {
    pub comment: String,
    pub key: Hex,
    pub recipients: Vec<Recipient>,
    #[serde(default)]
    pub refused: Vec<Recipient>,
    pub plaintext: Hex,
    pub file: Hex,
}

/// Somebody who can open a file with age slots.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md says what each field is")]
pub struct Recipient {
    pub recipient: String,
    pub identity: String,
    pub slot: usize,
}

/// A file with slots of key services, of the folder `services`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md says what each field is")]
pub struct Services {
    pub comment: String,
    pub expect: Expect,
    pub key: Option<Hex>,
    pub services: Vec<Answer>,
    pub file: Hex,
    pub suite: Option<u8>,
    pub chunk_log2: Option<u8>,
    pub header_len: Option<usize>,
    pub file_key: Option<Hex>,
    pub nonces: Option<Vec<Hex>>,
    pub plaintext: Option<Hex>,
}

/// What a key service answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md says what each field is")]
pub struct Answer {
    pub uri: String,
    pub wrapped_run_key: Hex,
    pub run_key: Option<Hex>,
}

/// A ciphertext of the server, of the folder `server`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md says what each field is")]
pub struct Server {
    pub comment: String,
    pub expect: Expect,
    pub secret: Hex,
    pub name: String,
    pub version: u32,
    pub user: Hex,
    pub salt: Option<Hex>,
    pub suite: u8,
    pub ad: Hex,
    pub ciphertext: Hex,
    pub text: Option<String>,
    pub context: Option<Hex>,
    pub user_key: Option<Hex>,
    pub nonce: Option<Hex>,
    pub plaintext: Option<Hex>,
}

/// A request to the server and its answer, of the folder `streams`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md says what each field is")]
pub struct Stream {
    pub comment: String,
    pub action: String,
    pub secrets: Vec<Hex>,
    pub records: Vec<StreamRecord>,
    pub request: Hex,
    pub answers: Vec<StreamAnswer>,
    pub answer: Hex,
}

/// A record of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md says what each field is")]
pub struct StreamRecord {
    pub key: Hex,
    pub user: Hex,
    pub ad: Hex,
    pub text: Hex,
}

/// An answer to a record.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md says what each field is")]
pub struct StreamAnswer {
    pub status: u16,
    pub bytes: Hex,
}

/// All files of `services`, each with its name.
pub fn services() -> Vec<(String, Services)> {
    all("services", 50)
}

/// All files of `server`, each with its name.
pub fn server() -> Vec<(String, Server)> {
    all("server", 64)
}

/// All files of `streams`, each with its name.
pub fn streams() -> Vec<(String, Stream)> {
    all("streams", 9)
}

/// All files of `format`, each with its name.
pub fn format() -> Vec<(String, Format)> {
    all("format", 527)
}

/// All files of `messages`, each with its name.
pub fn messages() -> Vec<(String, Message)> {
    all("messages", 153)
}

/// All files of `age`, each with its name.
pub fn age() -> Vec<(String, Age)> {
    all("age", 12)
}

/// All files of `volume`, each with its name.
pub fn volumes() -> Vec<(String, volume::Volume)> {
    all("volume", 177)
}

/// All files of `contents`, each with its name.
pub fn contents() -> Vec<(String, tree::Contents)> {
    all("contents", 62)
}

/// All files of `manifests`, each with its name. There is something to read in those to be accepted, and in no others.
pub fn manifests() -> Vec<(String, tree::Manifest)> {
    let all = all("manifests", 80);
    let is_sound = |(_, file): &(String, tree::Manifest)| (file.expect == tree::Rule::Ok) == file.read.is_some();
    assert!(all.iter().all(is_sound), "expected and read do not fit");
    all
}

/// The names of the files in a folder, without `.json`, in order.
pub fn names(folder: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap().path())).collect();
    names.sort();
    names
}

/// A file's text.
pub fn text(folder: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(format!("{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn load<T: DeserializeOwned>(folder: &str, name: &str) -> T {
    serde_json::from_str(&text(folder, name)).unwrap_or_else(|error| panic!("{folder}/{name}: {error}"))
}

/// Fewer files than `least` mean that something was lost.
fn all<T: DeserializeOwned>(folder: &str, least: usize) -> Vec<(String, T)> {
    let names = names(folder);
    assert!(names.len() >= least, "{folder}: only {} files of {least}", names.len());
    names.into_iter().map(|name| (name.clone(), load(folder, &name))).collect()
}
