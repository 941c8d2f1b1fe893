//! The commands.

pub mod folder;
pub mod fresh;
pub mod init;
pub mod lock;
pub mod run;
