//! Files: protecting and unprotecting them, whole, by range and together.

mod again;
mod cache;
pub(crate) mod chunks;
mod fetch;
mod look_ahead;
pub(crate) mod pipeline;
pub(crate) mod protected;
pub(crate) mod ranges;
pub(crate) mod read_at;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod salvage;
pub(crate) mod shared;
pub(crate) mod source;
mod survey;
mod todo;
pub(crate) mod write_at;
pub(crate) mod writer;

pub use crate::io::read_full;
pub use salvage::Salvage;
pub use shared::SharedFile;
pub use todo::Done;
pub use write_at::{Draft, Filling};
