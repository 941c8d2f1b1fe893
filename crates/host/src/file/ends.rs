//! Both ends of a file that is moved: the input that has been opened, and the output that has been begun.

use crate::file::disk::sink;
use crate::file::input::InputFile;
use crate::file::metadata::Carry;
use crate::file::output::{Committed, Existing, Output};
use crate::file::regular::source;
use crate::{Error, Result};
use phalanx_core::{Error as CoreError, Sink, Source};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// An input and its output. An error belongs to the output if [`Error::is_of_output`] says so, and else to the input.
#[derive(Debug)]
pub struct Ends<'a> {
    input: InputFile,
    output: Output,
    existing: Existing<'a>,
    sync: bool,
}

impl<'a> Ends<'a> {
    /// Opens a file, and begins another one that will be named `output`. With `sync`, the content of the output will be on the disk
    /// before its name is, and its name when it is committed.
    ///
    /// # Errors
    /// Those of [`InputFile::open`] and [`Output::create`], and [`Error::SameFile`].
    pub fn begin(input: &Path, output: &Path, existing: Existing<'a>, sync: bool) -> Result<Self> {
        let input = InputFile::open(input)?;
        let id = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let is_input = |meta: std::io::Result<fs::Metadata>| meta.is_ok_and(|meta| id(meta) == input.stamp().id());
        if is_input(fs::metadata(output)) {
            return Err(Error::SameFile);
        }
        let output = Output::create(output, existing)?;
        // Somebody may have given the input the name of an unfinished file.
        if is_input(output.file().metadata()) {
            return Err(Error::SameFile);
        }
        Ok(Self { input, output, existing, sync })
    }

    /// The input.
    #[must_use]
    pub fn input(&self) -> &InputFile {
        &self.input
    }

    /// What is to be read.
    ///
    /// # Errors
    /// [`Error::Read`](phalanx_core::Error::Read) if the input cannot be looked at.
    pub fn source(&self) -> Result<Source<'_>> {
        source(self.input.file())
    }

    /// What is to be written to.
    #[must_use]
    pub fn sink(&self) -> Sink<'_> {
        sink(self.output.file(), self.sync)
    }

    /// Carries over metadata, and gives the output its name.
    ///
    /// # Errors
    /// Those of [`Output::carry`] and [`Output::commit`].
    pub fn commit(self, carry: Carry) -> Result<Committed> {
        let at_output = |error| if let Error::Core(CoreError::Read(e)) = error { Error::write(e) } else { error };
        self.output.carry(self.input.file(), carry)?;
        self.output.commit(self.existing, self.sync).map_err(at_output)
    }
}

/// The process's file mode creation mask. The system shows it; setting it, to read it, would disturb other threads. If it is not
/// shown, nobody else gets permissions.
#[must_use]
pub fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o077)
}
