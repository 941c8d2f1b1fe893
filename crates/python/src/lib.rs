//! The native part of the Python package `phalanx`. The part in Python is in `python/phalanx`, and has the public
//! names.
//!
//! While anything is read, written, sealed or opened, the thread is detached from the interpreter, so that others run.
//! The content of a `bytes` object cannot change meanwhile, so it is used in place. Everything else is copied first.
#![deny(unsafe_code)]

mod arrays;
mod bytes;
mod column;
mod cuda;
mod dlpack;
mod engines;
mod error;
mod file;
mod gather;
mod key;
mod memory;
mod messages;
mod mirror;
mod place;
mod ranges;
mod reader;
mod set;
mod signing;
mod source;
mod stores;
mod tensor;
mod tree;
mod turn;
mod ways;
mod writer;

/// `phalanx._native`.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::column::{seal_column, unseal_column};
    #[pymodule_export]
    use super::cuda::{Gpu, GpuBytes, GpuReader};
    #[pymodule_export]
    use super::file::{check_output, protect, unprotect, verify};
    #[pymodule_export]
    use super::gather::Gatherer;
    #[pymodule_export]
    use super::key::{Key, check_key_name};
    #[pymodule_export]
    use super::messages::{seal, seal_many, unseal, unseal_many};
    #[pymodule_export]
    use super::mirror::mirror;
    #[pymodule_export]
    use super::ranges::{RangeOpening, RangeReader};
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::tree::verify_tree;
    #[pymodule_export]
    use super::writer::Writer;

    #[pymodule_init]
    fn init() {
        // A library never writes to the terminal by itself. It also never asks for anything, because nothing is set for
        // that.
        phalanx_host::lines::complain_to(super::error::keep_line);
        phalanx_host::file::install_stores(super::stores::OfCall);
    }
}
