//! The mounted volume of Phalanx: a folder that is encrypted on disk and plain in use (`docs/format.md`, section 10).
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::must_use_candidate)]

mod error;
pub mod folder;
pub mod names;
pub mod tree;

pub use error::{Result, VolumeError};
