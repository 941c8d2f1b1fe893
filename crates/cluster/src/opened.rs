//! Large files that are open in this process.

use crate::message::Told;
use phalanx_core::file::SharedFile;
use phalanx_host::Error;
use phalanx_host::file::{InputFile, Output};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// A large file that was begun here.
pub struct Owned {
    pub shared: SharedFile,
    pub input: InputFile,
    pub output: Option<Output>,
    /// The folder of the output.
    pub dir: Option<Arc<File>>,
    pub paths: (PathBuf, Option<PathBuf>),
    pub plaintext_len: u64,
}

/// A large file that parts are done of here.
pub struct Joined {
    pub shared: SharedFile,
    pub input: InputFile,
    pub output: Option<File>,
    pub paths: (PathBuf, Option<PathBuf>),
    pub plaintext_len: u64,
}

impl Owned {
    /// The failure of an error, at the path where it happened.
    pub fn blame(&self, error: &Error) -> Told {
        blame(&self.paths, error)
    }
}

/// The failure of an error, at the input or the output.
pub fn blame((input, output): &(PathBuf, Option<PathBuf>), error: &Error) -> Told {
    let output = output.as_ref().filter(|_| error.is_of_output());
    Told::at(output.unwrap_or(input), error)
}
