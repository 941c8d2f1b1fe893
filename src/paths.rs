//! Which file goes where, and safely opening both ends.

use crate::failure::{Failure, Outcome, shown};
use phalanx_core::file::{Sink, Source};
use phalanx_core::output::{Existing, Output};
use phalanx_core::{Error, input};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where outputs go, and how.
#[derive(Clone)]
pub struct Destination {
    pub output: Option<PathBuf>,
    pub force: bool,
    pub remove: bool,
    pub sync: bool,
    /// Whether inputs may be folders.
    pub recursive: bool,
}

/// One input and its output.
pub struct Place {
    pub input: PathBuf,
    pub output: PathBuf,
}

impl Destination {
    /// Checks what can be wrong whatever the paths hold.
    pub fn check(&self, paths: &[PathBuf]) -> Outcome {
        let to_stdout = self.output.as_deref().map_or(paths.iter().any(|p| is_dash(p)), is_dash);
        if self.remove && (to_stdout || paths.iter().any(|p| is_dash(p))) {
            return Err(Failure::usage("--remove goes with files only, not with -"));
        }
        if paths.len() > 1 && self.output.as_deref().is_some_and(|o| !o.is_dir()) {
            return Err(Failure::usage("several inputs need an existing folder as --output"));
        }
        Ok(())
    }

    /// The places of all inputs; `beside` gives the output that belongs beside an input.
    pub fn places(&self, paths: &[PathBuf], beside: impl Fn(&Path) -> Option<PathBuf>) -> Outcome<Vec<Place>> {
        let folder = self.output.as_deref().filter(|o| !is_dash(o) && o.is_dir());
        let place = |input: &PathBuf| {
            let nameless =
                || Failure::usage(format!("{}: cannot tell the output's name: name it by --output", shown(input)));
            let beside = || Some(&**input).filter(|i| !is_dash(i)).and_then(&beside).ok_or_else(nameless);
            let output = match (&self.output, folder) {
                (Some(_), Some(folder)) => folder.join(beside()?.file_name().unwrap_or_default()),
                (Some(output), None) => output.clone(),
                (None, _) if is_dash(input) => "-".into(),
                (None, _) => beside()?,
            };
            Ok(Place { input: input.clone(), output })
        };
        paths.iter().map(place).collect()
    }

    /// The same, but no input is deleted.
    pub fn without_remove(&self) -> Self {
        Self { remove: false, ..self.clone() }
    }

    pub fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}

/// Standard input can be read only once.
pub fn one_stdin(paths: &[PathBuf]) -> Outcome {
    if paths.iter().filter(|p| is_dash(p)).count() > 1 {
        return Err(Failure::usage("- is given more than once"));
    }
    Ok(())
}

/// Whether the path stands for standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// An input that has been opened.
pub struct Input {
    path: PathBuf,
    file: File,
}

impl Input {
    /// Opens a path, or standard input.
    pub fn open(path: &Path) -> Outcome<Self> {
        let file = if is_dash(path) {
            io::stdin().as_fd().try_clone_to_owned().map(File::from).map_err(Error::Read)
        } else {
            input::open(path)
        };
        Ok(Self { path: path.to_owned(), file: file.map_err(|e| Failure::at(path, e))? })
    }

    /// Opens a file in a folder of a tree; no link is followed. `path` is for messages.
    pub fn open_in(folder: &File, name: &OsStr, path: PathBuf) -> Outcome<Self> {
        let file = input::open_in(folder, name).map_err(|e| Failure::at(&path, e))?;
        Ok(Self { path, file })
    }

    /// The opened file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// What the pipeline reads.
    pub fn source(&self) -> phalanx_core::Result<Source<'_>> {
        if is_dash(&self.path) {
            // Standard input may be a file that somebody has read a part of: it is taken as it comes.
            return Ok(Source::stream(&self.file));
        }
        Source::new(&self.file).map_err(Error::Read)
    }

    /// Deletes the input, if its name still stands for what was read.
    fn remove(&self) -> Outcome {
        let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let unchanged = self.file.metadata().and_then(|a| Ok(same(a, fs::metadata(&self.path)?)));
        match unchanged {
            Ok(true) => fs::remove_file(&self.path).map_err(|e| Failure::at(&self.path, Error::Write(e))),
            Ok(false) => Err(Failure::at(&self.path, Error::Changed)),
            Err(e) => Err(Failure::at(&self.path, Error::Read(e))),
        }
    }

    /// The input's length in bytes, where it tells.
    pub fn len(&self) -> Option<u64> {
        self.file.metadata().ok().filter(|m| m.is_file() && !is_dash(&self.path)).map(|m| m.len())
    }
}

/// An output that has been begun: a new file, or standard output.
pub enum Target {
    File(Output),
    Stdout(File),
}

impl Target {
    /// Begins the output of a place.
    pub fn create(place: &Place, input: &Input, destination: &Destination) -> Outcome<Self> {
        if is_dash(&place.output) {
            let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(Error::Write)?;
            return Ok(Target::Stdout(stdout.into()));
        }
        let at_output = |e| Failure::at(&place.output, e);
        if let (Ok(a), Ok(b)) = (input.file.metadata(), fs::metadata(&place.output))
            && (a.dev(), a.ino()) == (b.dev(), b.ino())
        {
            return Err(Failure::usage(format!("{}: input and output are the same file", shown(&place.output))));
        }
        // Nobody else reads a file in the making; a stream has no permissions to take over in the end.
        let mode = if is_dash(&place.input) { 0o666 } else { 0o600 };
        Output::create(&place.output, destination.existing(), mode).map(Target::File).map_err(at_output)
    }

    /// What the pipeline writes to.
    pub fn sink(&self) -> Sink<'_> {
        match self {
            Target::File(output) => Sink::File(output.file()),
            Target::Stdout(file) => Sink::Stream(Box::new(file)),
        }
    }

    /// Gives the output its name, and deletes the input where that is wished.
    pub fn commit(self, place: &Place, input: &Input, destination: &Destination) -> Outcome {
        let Target::File(output) = self else { return Ok(()) };
        let at_output = |e| Failure::at(&place.output, e);
        if !is_dash(&place.input) {
            output.copy_metadata(&input.file).map_err(at_output)?;
        }
        output.commit(destination.existing(), destination.sync).map_err(at_output)?;
        if destination.remove {
            input.remove()?;
        }
        Ok(())
    }
}

/// Refuses to write protected bytes to a terminal, unless that was asked for in so many words.
pub fn refuse_terminal(destination: &Destination, paths: &[PathBuf]) -> Outcome {
    if destination.output.is_none() && paths.iter().any(|p| is_dash(p)) && io::stdout().is_terminal() {
        return Err(Failure::usage("protected bytes are not for a terminal: name an --output, or - to insist"));
    }
    Ok(())
}

/// An error of the pipeline, at the path that it happened to.
pub fn blame(place: &Place, error: Error) -> Failure {
    match error {
        Error::Write(_) | Error::Exists => Failure::at(&place.output, error),
        error => Failure::at(&place.input, error),
    }
}
