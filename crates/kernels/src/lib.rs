//! The two kernels that Phalanx is made of, AES in counter mode and SHA-3 over many inputs at once.
//!
//! No I/O, no threads, no allocation. Each kernel exists in several *levels*, one for each instruction set it is
//! written for; all levels give the same bytes. [`aes::Level`] and [`keccak::Level`] are chosen each on its own.
//! No level looks up a table, or branches, by a secret.
#![deny(missing_docs)]

pub mod aes;
pub mod keccak;
