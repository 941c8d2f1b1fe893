//! A mirror of a folder: its manifest, and what is done to renew, check and restore it.

pub mod backup;
pub mod chain;
pub mod check;
pub mod deletion;
pub mod entry;
pub mod excludes;
pub mod journal;
pub mod listing;
pub mod manifest;
pub mod manifests;
pub mod renewal;
pub mod rewritten;
mod roots;
pub mod run;
pub mod scan;
pub mod selection;
pub mod state;
mod steady;
pub mod store;
pub mod verdict;
pub mod whole;

/// The name of the manifest in the root of a mirror.
pub const MANIFEST: &str = "phalanx.tree";
