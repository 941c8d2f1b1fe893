//! Large files that are open in this process, and the paths of files.

use crate::message::Told;
use phalanx_core::file::SharedFile;
use phalanx_host::Error;
use phalanx_host::file::{Ends, InputFile, Output, Stamp, Target};
use std::fs::File;
use std::path::PathBuf;

/// The paths of a file and of its output, for messages and for opening what is not in a tree.
pub struct Paths {
    pub input: PathBuf,
    pub output: Option<PathBuf>,
}

impl Paths {
    /// Assigns an error to the path where it happened.
    pub fn blame(&self, error: &Error) -> Told {
        let output = self.output.as_ref().filter(|_| error.is_of_output());
        Told::at(output.unwrap_or(&self.input), error)
    }
}

/// A large file that was begun here.
pub struct Owned {
    pub shared: SharedFile,
    pub ends: Ends,
    /// The state of the input when it was opened.
    pub stamp: Stamp,
    pub paths: Paths,
    pub plaintext_len: u64,
}

impl Owned {
    /// The output, if there is one.
    pub fn output(&self) -> Option<&Output> {
        if let Target::File(output, _) = &self.ends.target { Some(output) } else { None }
    }
}

/// A large file that parts are done of here.
pub struct Joined {
    pub shared: SharedFile,
    pub input: InputFile,
    pub output: Option<File>,
    pub paths: Paths,
    pub plaintext_len: u64,
}
