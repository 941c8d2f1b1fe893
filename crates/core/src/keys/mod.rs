//! Keys, what is derived from them, and where they come from.

pub mod access;
pub mod id;
pub mod key;
pub mod text;
pub mod ways;
