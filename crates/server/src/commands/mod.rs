//! The commands.

pub mod folder;
pub mod init;
pub mod run;
