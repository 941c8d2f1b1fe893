//! The mounted volume of Phalanx: a folder that is encrypted on disk and plain in use (`docs/format-volumes.md`).
//!
//! - [`Volume`] is the folder: made by [`create`], and opened for one mount at a time.
//! - [`tree`] has the names of all entries, without the content of files.
//! - [`Store`] has the content: each stored file is a [`Backing`], and a journal makes its changes whole.
//! - [`front`] answers the kernel with both. [`view`] shows what `protect` made, for reading only. [`mount`] runs the
//!   session of either, and [`fuse`] is the kernel's protocol.
// Only what talks to the kernel by io_uring and ioctl may contain unsafe code.
#![deny(unsafe_code)]
#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::must_use_candidate)]

mod backing;
mod disk;
mod error;
pub mod folder;
pub mod front;
pub mod fuse;
mod header;
mod journal;
pub mod mount;
pub mod names;
mod options;
mod recover;
mod shared;
mod store;
pub mod tree;
pub mod verify;
pub mod versions;
pub mod view;
mod volume;

pub use backing::drops::Witness;
pub use backing::{Backing, Times};
pub use disk::{Disk, System};
pub use error::{Result, VolumeError};
pub use journal::JOURNAL;
pub use options::StoreOptions;
pub use phalanx_host::volumes::{is_folder_of_volume, is_volume};
pub use store::Store;
pub use volume::{Volume, check_new, create, create_with};
