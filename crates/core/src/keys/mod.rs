//! Keys, their derivation, and their sources.

pub mod access;
pub mod id;
pub mod key;
pub mod recipient;
pub mod source;
pub mod text;
pub mod users;
pub mod ways;
