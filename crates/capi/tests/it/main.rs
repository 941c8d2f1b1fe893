//! The header, programs in C that use it, and the package in Go.

mod go;
mod header;
mod programs;
