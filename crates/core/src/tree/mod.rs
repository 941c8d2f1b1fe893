//! A protected tree: what its manifest lists, and how a stored file is known without a key. `docs/format.md`, section 13.
//!
//! A [`Manifest`] lists every entry of a tree. It is the plaintext of an ordinary protected file. [`Contents`] identify what a
//! protected file holds: they are made while the file is written or opened, or read from it later without a key. A
//! [`SignedText`] is what a signature of a file or tree is made of.

mod contents;
mod hash_tree;
mod manifest;
mod signed;

pub use contents::{Contents, LastChunk, Recorder};
pub use manifest::{Digest, Entry, FileEntry, Head, Invalid, Kind, MAX_DEPTH, Manifest, ManifestWriter, Time, TreeId};
pub use signed::{Signed, SignedText};
