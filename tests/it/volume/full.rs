//! A full disk.
