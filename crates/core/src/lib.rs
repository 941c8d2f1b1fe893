//! Protects files, streams and messages with AES and SHA-3, in the format of `docs/format.md`.
//!
//! Most programs need no more than the names at the root of this crate:
//!
//! - [`NewFile`] protects a [`Source`] for [`Recipient`]s into a [`Sink`]; [`ProtectedFile`] opens one by an [`Opener`], with
//!   the keys that a [`KeySource`] gives: [`SecretKey`]s, which a [`Keyring`] keeps, and [`Password`]s.
//! - [`Ways`] are the ways into a file, to be changed: in place by [`file::InPlace`], or in a new file.
//! - [`batch`] seals and opens many users' messages in one call, and its [`Coalescer`](batch::coalescer::Coalescer) those
//!   that arrive one by one.
//! - A [`Roster`] is the engines that do the work: [`Roster::cpu`] is all cores.
//!
//! [`engine`] is for authors of engines, [`format`](mod@format) for tools that look into files, and [`file`](mod@file) for
//! programs that write and delete files: nothing appears half written, and nothing is lost.
//!
//! The way of a byte: a `pipeline` or a batch makes jobs of it, the `schedule` hands these to an [`engine::Engine`] of the
//! roster, the CPU's seals them by chunks and the kernels. Nothing here knows of a GPU, of MPI or of FUSE.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::must_use_candidate)]

pub mod batch;
mod cpu;
mod error;
pub mod file;
mod io;
mod keys;
mod op;
mod roster;
mod schedule;
mod seam;
mod secret;

/// For authors of engines, and of work for them: the one seam.
pub mod engine {
    pub use crate::cpu::chunk::tag;
    pub use crate::cpu::{CpuEngine, Levels, NoSuchKernel};
    pub use crate::error::Fault;
    pub use crate::keys::key::ContentKeys;
    pub use crate::op::Op;
    pub use crate::schedule::{Extent, Share, Work, run};
    pub use crate::seam::*;
}

/// For tools that look into files: headers, slots, and what lies where.
pub mod format;

pub use error::{Class, Error, Result};
pub use file::protected::{ChunkSize, NewFile, ProtectedFile};
pub use file::salvage::Salvage;
pub use file::source::{Progress, Sink, Source};
pub use format::suite::Suite;
pub use keys::access::{AgeRecipient, KdfLimit, KeySource, OpenedBy, Opener, Recipient};
pub use keys::id::KeyId;
pub use keys::key::{Password, SecretKey};
pub use keys::keyring::Keyring;
pub use keys::text as key_text;
pub use keys::ways::Ways;
pub use roster::Roster;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
