//! The parts of a mounted volume (`docs/format-volumes.md`): its config, its keys, and the headers and chunks of its
//! files. The crate `phalanx-volume` mounts it.

mod chunks;
mod config;
mod file;
mod keys;
mod state;

pub use crate::keys::key::Sums;
pub use chunks::{Chunks, Place, Records};
pub use config::{CONFIG, Config, Features};
pub use file::{HEADER_LEN, Holes, MAX_HOLES};
pub use keys::{SivKey, VolumeKeys};
pub use state::{MAX_GROUPS, State};
