//! Phalanx's core: the format (`docs/format.md`), the engines behind one seam, and the file pipeline.
//!
//! A byte's way through a file's protection: [`file`] reads it into a [`engine::Job`], the [`dispatcher`] hands the job
//! to an [`engine::Engine`], the [`cpu`] engine seals it by [`chunk`] and the kernels, and [`file`] writes it.
//!
//! Nothing here knows of a GPU, of MPI or of FUSE, and nothing here is `unsafe`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod access;
pub mod batch;
pub mod chunk;
pub mod coalescer;
pub mod cpu;
mod ctr_sha3;
mod disk;
pub mod dispatcher;
pub mod engine;
pub mod error;
pub mod file;
mod gcm;
pub mod header;
pub mod input;
pub mod key;
pub mod key_text;
pub mod keyring;
pub mod layout;
pub mod levels;
pub mod message;
pub mod metadata;
pub mod output;
pub mod private;
pub mod salvage;
mod share;
pub mod slot;
mod stack;
pub mod stream;
pub mod suite;
mod temporary;
mod threads;

pub use error::{Error, Result};
pub use suite::Suite;
