//! The header of a stored file.

use crate::error::{Result, VolumeError};
use phalanx_core::format::{FileKeys, Header, Layout};
use phalanx_core::volume::{Config, HEADER_LEN, Holes, State};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A header that was opened.
pub(crate) struct Opened {
    pub header: Header,
    pub keys: FileKeys,
    pub holes: Holes,
    /// In a volume with a table of versions.
    pub state: Option<State>,
}

/// Reads and opens the header of a stored file.
///
/// # Errors
/// [`VolumeError::Core`] if it is not one of this volume.
pub(crate) fn read(file: &File, config: &Config) -> Result<Opened> {
    let mut bytes = [0; HEADER_LEN];
    file.read_exact_at(&mut bytes, 0).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => phalanx_core::Error::Truncated("its header is not whole").into(),
        _ => VolumeError::io("cannot read a stored file", e),
    })?;
    open(&bytes, config)
}

/// Opens a header.
///
/// # Errors
/// [`VolumeError::Core`] if it is not one of this volume.
pub(crate) fn open(bytes: &[u8; HEADER_LEN], config: &Config) -> Result<Opened> {
    let header = Header::read(&mut &bytes[..])?;
    let (keys, holes, state) = config.open_file(&header)?;
    Ok(Opened { header, keys, holes, state })
}

/// The layout of the chunks in a stored file of this length.
pub(crate) fn layout_of(config: &Config, stored_len: u64) -> phalanx_core::Result<Layout> {
    let chunk_log2 = config.chunk_size().bytes().ilog2() as u8;
    Layout::for_file(HEADER_LEN, config.suite(), chunk_log2, stored_len)
}
