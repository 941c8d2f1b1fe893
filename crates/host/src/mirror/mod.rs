//! Mirrors: protected copies of folders.

pub mod excludes;
