//! crates/core
