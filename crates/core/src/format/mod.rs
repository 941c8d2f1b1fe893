//! The layout of a protected file (`docs/format.md`): reading and writing headers, and the places of chunks.

pub(crate) mod chunk_size;
pub(crate) mod header;
pub(crate) mod layout;
pub(crate) mod purpose;
pub(crate) mod slot;
pub(crate) mod suite;

pub use crate::keys::access::Opened;
pub use crate::keys::key::{FileKeys, Kdf, WRAPPED, WrappingKey};
pub use header::Header;
pub use layout::Layout;
pub use purpose::Purpose;
pub use slot::{MAX_AGE_FILE, MAX_RUN_KEY, MAX_SERVICE_URI, Slot, is_service_uri};
