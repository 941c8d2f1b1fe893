//! Writing the plaintext of a stored file of a volume. Each piece is authentic before it is written.

use phalanx_core::Progress;
use phalanx_host::Error;
use phalanx_volume::{Backing, VolumeError};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use zeroize::Zeroizing;

/// What is read at once, in bytes.
const PIECE: usize = 1 << 20;

/// Why it was not written.
pub enum Failed {
    /// The stored file cannot be read.
    Volume(VolumeError),
    /// The output cannot be written.
    Output(Error),
}

impl Failed {
    fn output(error: std::io::Error) -> Self {
        Self::Output(Error::write(error))
    }
}

/// Memory for a piece.
pub fn piece() -> Zeroizing<Vec<u8>> {
    Zeroizing::new(vec![0; PIECE])
}

/// Writes it from beginning to end.
pub fn write(backing: &Backing, mut output: impl Write, meter: &dyn Progress) -> Result<(), Failed> {
    let (mut at, mut piece) = (0, piece());
    while at < backing.len() {
        let len = backing.read_into(at, &mut piece).map_err(Failed::Volume)?;
        output.write_all(&piece[..len]).map_err(Failed::output)?;
        at += len as u64;
        meter.advance(len as u64);
    }
    output.flush().map_err(Failed::output)
}

/// Writes it to a new file. Holes stay holes.
pub fn write_sparse(backing: &Backing, output: &File, piece: &mut [u8], meter: &dyn Progress) -> Result<(), Failed> {
    let (len, mut at) = (backing.len(), 0);
    while at < len {
        let data = backing.seek_data(at).map_err(Failed::Volume)?;
        meter.advance(data - at);
        let read = backing.read_into(data, piece).map_err(Failed::Volume)?;
        output.write_all_at(&piece[..read], data).map_err(Failed::output)?;
        meter.advance(read as u64);
        at = data + read as u64;
    }
    output.set_len(len).map_err(Failed::output)
}
