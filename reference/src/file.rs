//! Whole files (§2, §5).

use crate::Error;
use crate::chunk::{open_chunk, seal_chunk};
use crate::header::{Header, Service, open_header, open_header_with, seal_header};
use crate::keys::{Suite, file_keys};
use crate::slot::Slot;

/// Everything that determines a file, except its plaintext.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The file key (§3).
    pub file_key: [u8; 32],
    /// 1 to 5 (§2.2).
    pub suite: u8,
    /// The binary logarithm of a chunk's length (§2.1).
    pub chunk_log2: u8,
    /// The slots, in order (§4).
    pub slots: Vec<Slot>,
    /// One nonce for each chunk, of the suite's length.
    pub nonces: Vec<Vec<u8>>,
}

/// Writes a file (§2).
///
/// # Panics
/// If the recipe has an unknown suite or too few nonces.
pub fn seal_file(recipe: &Recipe, plaintext: &[u8]) -> Vec<u8> {
    let keys = file_keys(&recipe.file_key, recipe.suite);
    let mut file = seal_header(recipe);
    let chunks = split(plaintext, 1 << recipe.chunk_log2);
    for (i, chunk) in chunks.iter().enumerate() {
        let last = i + 1 == chunks.len();
        file.extend(seal_chunk(&keys, recipe.chunk_log2, i as u64, u8::from(last), &recipe.nonces[i], chunk));
    }
    file
}

/// Opens a file with the given passwords and keys, checking in the order of §5, and returns its plaintext.
pub fn open_file(file: &[u8], passwords: &[&[u8]], keys: &[[u8; 32]]) -> Result<Vec<u8>, Error> {
    let (header, file_key) = open_header(file, passwords, keys)?; // steps 1 to 4
    open_chunks(file, &header, &file_key)
}

/// [`open_file`] with keys and key services, and without passwords.
pub fn open_file_with(file: &[u8], keys: &[[u8; 32]], services: &[Service]) -> Result<Vec<u8>, Error> {
    let (header, file_key) = open_header_with(file, keys, services)?;
    open_chunks(file, &header, &file_key)
}

/// Steps 5 and 6 of §5: the plaintext of all chunks after the header.
pub(crate) fn open_chunks(file: &[u8], header: &Header, file_key: &[u8; 32]) -> Result<Vec<u8>, Error> {
    let keys = file_keys(file_key, header.suite);
    let chunks = stored_chunks(file, header)?; // step 5
    let last = chunks.len() - 1;

    // Step 6, chunks: nothing is returned before all tags have been checked.
    let open = |(i, chunk): (usize, &&[u8])| open_chunk(&keys, header.chunk_log2, i as u64, u8::from(i == last), chunk);
    let opened: Option<Vec<Vec<u8>>> = chunks.iter().enumerate().map(open).collect();
    opened.map(|plaintexts| plaintexts.concat()).ok_or(Error::Altered)
}

/// Step 5 of §5, length: all chunks before the last are full, and the last is not empty, unless it is the only one.
pub(crate) fn stored_chunks<'a>(file: &'a [u8], header: &Header) -> Result<Vec<&'a [u8]>, Error> {
    let overhead = Suite::of(header.suite).expect("a known suite").overhead();
    let chunks = split(&file[header.len..], overhead + (1 << header.chunk_log2));
    let last = chunks.len() - 1;
    if chunks[last].len() < overhead || (chunks[last].len() == overhead && last != 0) {
        return Err(Error::Altered);
    }
    Ok(chunks)
}

/// Splits bytes into parts of `len`, of which the last may be shorter. An empty input gives one empty part.
fn split(bytes: &[u8], len: usize) -> Vec<&[u8]> {
    if bytes.is_empty() { vec![bytes] } else { bytes.chunks(len).collect() }
}
