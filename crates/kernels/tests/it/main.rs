//! The tests of the kernels, in one program: it is compiled and linked once.

#[path = "../common/mod.rs"]
mod common;

mod aes;
mod ecb;
mod keccak;
mod vectors;
