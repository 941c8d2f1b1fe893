//! The mounted volume of Phalanx: a folder that is encrypted on disk and plain in use (`docs/format.md`, section 10).
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::must_use_candidate)]

mod backing;
mod disk;
mod error;
mod journal;
mod recover;
mod store;

pub use backing::{Backing, Times};
pub use disk::{Disk, System};
pub use error::{Result, VolumeError};
pub use journal::JOURNAL;
pub use store::{Store, StoreOptions};
