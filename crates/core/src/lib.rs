//! Phalanx's core: the format (`docs/format.md`), the engines behind one seam, and the file pipeline.
//!
//! A byte's way through a file's protection: [`file`] reads it into a [`engine::Job`], the [`dispatcher`] hands the job
//! to an [`engine::Engine`], the [`cpu`] engine seals it by [`chunk`] and the kernels, and [`file`] writes it.
//!
//! Nothing here knows of a GPU, of MPI or of FUSE, and nothing here is `unsafe`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod access;
pub mod chunk;
pub mod cpu;
pub mod dispatcher;
pub mod engine;
pub mod error;
pub mod file;
pub mod header;
pub mod input;
pub mod key;
pub mod keyring;
pub mod layout;
pub mod output;
pub mod salvage;
pub mod slot;
pub mod stream;
pub mod suite;

pub use error::{Error, Result};
pub use suite::Suite;
