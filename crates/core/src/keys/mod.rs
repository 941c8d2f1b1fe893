//! Keys, what is derived from them, who gives them, and where they are kept.

pub mod access;
pub mod id;
pub mod key;
pub mod text;
pub mod ways;
