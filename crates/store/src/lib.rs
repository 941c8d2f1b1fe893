//! Protected files in object stores: S3 and what speaks like it, Google Cloud Storage, Azure, and HTTP servers that give
//! ranges.
//!
//! [`open`] opens a protected object as a [`Reader`]: a read fetches and decrypts the chunks that it needs, and no more.
//! [`Stores`] is what programs [`install`](phalanx_host::file::install_stores), so that a URL may stand where a path may.
//!
//! Calls block. The asynchronous runtime that the clients need stays inside this crate.
//!
//! Credentials and regions come from where the tools of each provider take them: `docs/stores.md`.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod adaptive;
mod ahead;
mod answer;
mod bounded;
mod budget;
mod cancellation;
mod client;
mod connection;
mod course;
mod cut;
mod environment;
mod error;
mod folder;
mod forgotten;
#[cfg(test)]
mod lies;
mod list;
mod location;
mod object;
mod options;
mod patience;
mod pinned;
mod plaintext;
mod pool;
mod profile;
mod record;
mod runtime;
mod signed;
#[cfg(test)]
mod slow;
mod stores;
mod there;
mod upload;

pub use cancellation::Cancellation;
pub use connection::prepare;
pub use environment::Environment;
pub use object::Object;
pub use options::Options;
pub use plaintext::Plaintext;
pub use stores::Stores;
pub use upload::Upload;

use phalanx_core::{Error, KeySource, Opener, Reader};

/// Opens a protected object for reading at offsets.
///
/// # Errors
/// [`Error::Read`] if the URL is none of an object, or the store fails; and those of [`Reader::open`].
///
/// ```no_run
/// use phalanx_core::{KdfLimit, Opener, SecretKey};
/// use std::io::{Read, Seek, SeekFrom};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let key = SecretKey::read(&mut std::fs::File::open("work.key")?)?.ok_or("not a key")?;
/// let opener = Opener::new(key, KdfLimit::default());
/// let mut reader = phalanx_store::open("s3://bucket/run42.h5.phx", &opener)?;
/// reader.seek(SeekFrom::Start(1 << 30))?;
/// let mut bytes = [0; 4096];
/// reader.read_exact(&mut bytes)?;
/// # Ok(())
/// # }
/// ```
pub fn open(url: &str, opener: &Opener<impl KeySource>) -> phalanx_core::Result<Reader<Object>> {
    let object = Object::open(url, &Options::default()).map_err(Error::Read)?;
    Reader::open(object, opener)
}
