//! Large files that are open in this process, and the paths of files.

use crate::message::{Listed, ReportedFailure};
use phalanx_core::file::SharedFile;
use phalanx_host::Error;
use phalanx_host::file::{Ends, InputFile, Output, Stamp, Target};
use rustix::fs::Stat;
use std::fs::File;
use std::path::PathBuf;

/// The paths of a file and of its output: for messages, and to open files that are not in a tree.
pub struct Paths {
    pub input: PathBuf,
    pub output: Option<PathBuf>,
}

impl Paths {
    /// Assigns an error to the path where it happened.
    pub fn blame(&self, error: &Error) -> ReportedFailure {
        let output = self.output.as_ref().filter(|_| error.is_of_output());
        ReportedFailure::at(output.unwrap_or(&self.input), error)
    }
}

/// A large file that was begun here.
pub struct Owned {
    pub shared: SharedFile,
    pub ends: Ends,
    /// The input's stamp when it was opened.
    pub stamp: Stamp,
    pub stat: Stat,
    pub paths: Paths,
    pub plaintext_len: u64,
    pub listed: Option<Listed>,
}

impl Owned {
    /// Lets nothing of the output stay for a later run.
    pub fn discard(&self) {
        self.output().filter(|output| output.is_kept()).into_iter().for_each(Output::discard);
    }

    /// The output, if there is one.
    pub fn output(&self) -> Option<&Output> {
        if let Target::File(output, _) = &self.ends.target { Some(output) } else { None }
    }
}

/// A large file on whose parts this process works.
pub struct Joined {
    pub shared: SharedFile,
    pub input: InputFile,
    pub output: Option<File>,
    pub paths: Paths,
    pub plaintext_len: u64,
}
