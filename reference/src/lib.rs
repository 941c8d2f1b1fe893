//! The Phalanx format, version 1, written from `docs/format.md` alone. It is slow, and meant to be read.
//!
//! Other implementations are compared with it, and it makes and checks the files in `vectors/`. **It is never shipped**: it is not
//! constant-time, it wipes no secrets, it draws no randomness (every nonce, salt and key is an argument), and it works on whole
//! files in memory. Only Argon2id comes from a library.
//!
//! The modules, top-down: [`server`], [`tree`], [`volume`], `file`, `header`, `slot`, `chunk` (which also holds messages) and `keys` are the format, and `sha3`,
//! `modes`, `siv` and `aes` are the primitives. "§" with a number alone is a section of `docs/format.md`; §10 is
//! `docs/format-volumes.md`. [`server`] is `docs/server-format.md`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod aes;
mod chunk;
mod file;
mod header;
mod keys;
mod modes;
pub mod server;
mod sha3;
mod siv;
mod slot;
pub mod tree;
pub mod volume;

pub use aes::Aes;
pub use chunk::{open_chunk, open_message, seal_chunk, seal_message, slice_len};
pub use file::{Recipe, open_file, open_file_with, seal_file};
pub use header::{Header, Service, open_header, open_header_with, read_header, seal_header};
pub use keys::{Authentication, Keys, Suite, file_keys, header_tag, message_keys};
pub use modes::{ctr, ecb_decrypt, ecb_encrypt, gcm_decrypt, gcm_encrypt, unwrap, wrap};
pub use sha3::{cshake256, keccak_f, kmac256, sha3_256, turboshake256};
pub use siv::{cmac, siv_decrypt, siv_encrypt};
pub use slot::{Cost, Slot, argon2id, key_id, key_kek, password_kek, write_slot};

/// `"PHALANX"`, the first 7 bytes of every file (§2.1).
pub const MAGIC: [u8; 7] = *b"PHALANX";
/// The version in byte 7 (§2.1).
pub const VERSION: u8 = 1;
/// The length of a header tag (§2.1).
pub const TAG_LEN: usize = 32;

/// Why a file or message does not open, in the order of the checks of §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Step 1: the file does not begin with the magic and a version byte.
    NotPhalanx,
    /// Step 2: a version other than 1.
    Version,
    /// Step 3: a malformed header.
    Header,
    /// Step 4: no given key opens the file, and trying the passwords would exceed the limits of §4.
    KdfLimit,
    /// Step 4: no given password or key opens the file, or its header was altered. The two cannot be distinguished.
    NoKey,
    /// Steps 5 and 6: the file was truncated, extended or altered.
    Altered,
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the right length")
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|four| u32::from_le_bytes(array(four)))
}
