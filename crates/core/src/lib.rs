//! Protects files, streams and messages with AES and SHA-3, in the format of `docs/format.md`.
//!
//! [`protect`] and [`unprotect`], [`seal`] and [`open`] work on bytes in memory. Most programs need no more than the
//! names at the root of this crate:
//!
//! - [`NewFile`] protects a [`Source`] for [`Recipient`]s, and writes it to a [`Sink`]. [`ProtectedFile`] opens one
//!   with an [`Opener`] and the keys of a [`KeySource`]: [`SecretKey`]s and [`Password`]s.
//! - [`Ways`] are the ways into a file. They are changed in place, or in a new file.
//! - [`Reader`] reads a protected file by range, and [`RangeReader`] does so from bytes that the caller fetches.
//!   [`Writer`] protects what is written piece by piece.
//! - [`batch`] seals and opens many users' messages in one call. Its [`Coalescer`](batch::coalescer::Coalescer) does so
//!   for messages that arrive one by one.
//! - A [`Roster`] is the set of engines that do the work. [`Roster::cpu`] is all cores.
//!
//! [`volume`] has the parts of a mounted volume. [`engine`] is for authors of engines, [`format`](mod@format) for tools
//! that examine files, and [`file`](mod@file) for several processes that protect a file together. The crate
//! `phalanx-host` works with files on a machine: it writes and deletes them without leaving half-written ones or losing
//! data.
//!
//! The data take this path: a `pipeline` or a batch makes jobs of them. The `schedule` passes these to an
//! [`engine::Engine`] of the roster. The CPU's engine seals them in chunks with the kernels. Nothing in this crate
//! depends on files of a host, GPUs, MPI or FUSE.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::must_use_candidate)]

pub mod batch;
mod bytes;
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
mod twice;

/// The interface for authors of engines, and of work for them.
pub mod engine {
    pub use crate::cpu::chunk::tag;
    pub use crate::cpu::{CpuEngine, Levels, NoSuchKernel};
    pub use crate::error::Fault;
    pub use crate::file::chunks::ChunkWriter;
    pub use crate::keys::key::ContentKeys;
    pub use crate::op::Op;
    pub use crate::schedule::{Extent, Share, Work, run};
    pub use crate::seam::*;
    pub use crate::twice::Twice;
}

/// The parts of a mounted volume: its config, its keys, and the files in it.
pub mod volume;

pub mod tree;

/// The interface for tools that examine files: headers, slots, and the places of chunks.
pub mod format;

pub use bytes::{open, protect, seal, unprotect};
pub use error::{Class, Error, Result};
pub use file::protected::{NewFile, ProtectedFile};
pub use file::ranges::{RangeOpening, RangeReader};
pub use file::read_at::{ReadAt, Snapshot};
pub use file::reader::{Reader, ReaderOptions};
pub use file::source::{ChunkHead, Progress, Sink, Source};
pub use file::write_at::WriteAt;
pub use file::writer::Writer;
pub use format::chunk_size::ChunkSize;
pub use format::suite::Suite;
pub use keys::access::{KdfLimit, OpenedBy, Opener};
pub use keys::id::KeyId;
pub use keys::key::{Password, SecretKey};
pub use keys::recipient::{AgeRecipient, Recipient};
pub use keys::source::KeySource;
pub use keys::text as key_text;
pub use keys::users::UserKeys;
pub use keys::ways::Ways;
pub use roster::Roster;
pub use secret::wiped;
pub use zeroize::Zeroizing;
