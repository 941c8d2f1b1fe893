//! crates/kernels
