//! The mounted volume of Phalanx: a folder that is encrypted on disk and plain in use (`docs/format.md`, section 10).
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::must_use_candidate)]

pub mod error;
pub mod folder;
pub mod mount;
pub mod names;
pub mod tree;
pub mod view;
mod volume;

pub use error::VolumeError;
pub use volume::{Volume, check_new, create, is_volume};
