//! Which file goes where, and safely opening both ends.

use crate::failure::{Failure, Outcome, shown};
use phalanx_core::file::{Sink, Source};
use phalanx_core::output::{Existing, Output};
use phalanx_core::{Error, input};
use rustix::pipe::fcntl_setpipe_size;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
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
        let not_a_folder = self.output.as_deref().filter(|o| !o.is_dir());
        if paths.len() > 1 && not_a_folder.is_some() {
            return Err(Failure::usage("several inputs need an existing folder as --output"));
        }
        if let Some(output) = not_a_folder.filter(|o| o.as_os_str().as_bytes().ends_with(b"/")) {
            return Err(Failure::usage(format!("{}: no such folder", shown(output))));
        }
        let is_link = |path: &&PathBuf| path.is_symlink();
        if let Some(link) = paths.iter().find(is_link).filter(|_| self.remove) {
            return Err(Failure::usage(format!("{}: it is a link: --remove would leave its file", shown(link))));
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
        let places = paths.iter().map(place).collect::<Outcome<Vec<_>>>()?;
        refuse_collisions(&places)?;
        Ok(places)
    }

    /// The same, but no input is deleted.
    pub fn without_remove(&self) -> Self {
        Self { remove: false, ..self.clone() }
    }

    pub fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}

/// No output may take the place of another, or of an input that is still to be read.
fn refuse_collisions(places: &[Place]) -> Outcome {
    if places.len() < 2 {
        return Ok(());
    }
    let mut taken: HashSet<_> = places.iter().filter_map(|place| identity(&place.input)).collect();
    for place in places {
        if identity(&place.output).is_some_and(|output| !taken.insert(output)) {
            let line = format!("{}: the output of one input is another's output or input", shown(&place.output));
            return Err(Failure::usage(line));
        }
    }
    Ok(())
}

/// What a path names, whatever way it goes: the folder that it is in, and the name there.
fn identity(path: &Path) -> Option<(u64, u64, OsString)> {
    if is_dash(path) {
        return None;
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::metadata(parent).ok()?;
    Some((folder.dev(), folder.ino(), path.file_name()?.to_owned()))
}

/// Standard input can be read only once.
pub fn one_stdin<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Outcome {
    if paths.into_iter().filter(|p| is_dash(p)).count() > 1 {
        return Err(Failure::usage("- is given more than once"));
    }
    Ok(())
}

/// Standard input, without a buffer.
pub fn stdin() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(widened)
}

/// Standard output, without a buffer.
pub fn stdout() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(widened)
}

/// A pipe that holds as much as the system lets anybody have: fewer, longer turns for both ends.
fn widened(end: OwnedFd) -> File {
    const PIPE: usize = 1 << 20;
    let _ = fcntl_setpipe_size(&end, PIPE);
    File::from(end)
}

/// The name without `.phx`.
pub fn unprotected_name(name: &OsStr) -> Option<OsString> {
    let name = Path::new(name);
    name.extension().filter(|e| *e == "phx").and(name.file_stem()).map(OsStr::to_owned)
}

/// Whether the path stands for standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// An input that has been opened.
pub struct Input {
    path: PathBuf,
    file: File,
    /// As it was when it was opened.
    meta: Metadata,
}

impl Input {
    /// Opens a path, or standard input.
    pub fn open(path: &Path) -> Outcome<Self> {
        let with_meta = |file: File| file.metadata().map(|meta| (file, meta));
        let opened = if is_dash(path) { stdin().and_then(with_meta).map_err(Error::Read) } else { input::open(path) };
        Self::new(path.to_owned(), opened)
    }

    fn new(path: PathBuf, opened: phalanx_core::Result<(File, Metadata)>) -> Outcome<Self> {
        let (file, meta) = opened.map_err(|e| Failure::at(&path, e))?;
        Ok(Self { path, file, meta })
    }

    /// Opens a file in a folder of a tree; no link is followed. `path` is for messages.
    pub fn open_in(folder: &File, name: &OsStr, path: PathBuf) -> Outcome<Self> {
        Self::new(path, input::open_in(folder, name))
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

    /// Whether this is still what was read: the same file, not written to since it was opened.
    pub fn is_unchanged(&self, now: &Metadata) -> bool {
        let stamp = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec());
        stamp(&self.meta) == stamp(now)
    }

    /// Deletes the input, if its name still stands for what was read.
    fn remove(&self) -> Outcome {
        match fs::symlink_metadata(&self.path) {
            Ok(now) if self.is_unchanged(&now) => {
                fs::remove_file(&self.path).map_err(|e| Failure::at(&self.path, Error::Write(e)))
            }
            Ok(_) => Err(Failure::at(&self.path, Error::Changed)),
            Err(e) => Err(Failure::at(&self.path, Error::Read(e))),
        }
    }

    /// The input's length in bytes, where it tells.
    pub fn len(&self) -> Option<u64> {
        Some(&self.meta).filter(|m| m.is_file() && !is_dash(&self.path)).map(|m| m.len())
    }

    /// The same, for choosing an engine: files that do not tell their length, as under /proc, have none.
    pub fn known_len(&self) -> Option<u64> {
        self.len().filter(|len| *len > 0)
    }
}

/// An output that has been begun: a new file, or standard output.
pub enum Target {
    /// With whether it will be synced.
    File(Output, bool),
    Stdout(File),
}

impl Target {
    /// Begins the output of a place.
    pub fn create(place: &Place, input: &Input, destination: &Destination) -> Outcome<Self> {
        if is_dash(&place.output) {
            let stdout = stdout().map_err(Error::Write)?;
            if stdout.metadata().is_ok_and(|output| output.is_file() && is_same(&output, &input.meta)) {
                return Err(same(&place.input));
            }
            return Ok(Target::Stdout(stdout));
        }
        let at_output = |e| Failure::at(&place.output, e);
        if fs::metadata(&place.output).is_ok_and(|output| is_same(&output, &input.meta)) {
            return Err(same(&place.output));
        }
        // Nobody else reads a file in the making; a stream has no permissions to take over in the end.
        let mode = if is_dash(&place.input) { 0o666 } else { 0o600 };
        let output = Output::create(&place.output, destination.existing(), mode).map_err(at_output)?;
        Ok(Target::File(output, destination.sync))
    }

    /// What the pipeline writes to.
    pub fn sink(&self) -> Sink<'_> {
        match self {
            Target::File(output, true) => Sink::Synced(output.file()),
            Target::File(output, false) => Sink::File(output.file()),
            Target::Stdout(file) => Sink::Stream(Box::new(file)),
        }
    }

    /// Gives the output its name, and deletes the input where that is wished.
    pub fn commit(self, place: &Place, input: &Input, destination: &Destination) -> Outcome {
        let Target::File(output, _) = self else { return Ok(()) };
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

fn is_same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

fn same(path: &Path) -> Failure {
    Failure::usage(format!("{}: input and output are the same file", shown(path)))
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

/// The length of a regular file; of anything else nothing is known before it is opened.
pub fn file_len(path: &Path) -> Option<u64> {
    path.metadata().ok().filter(|meta| meta.is_file()).map(|meta| meta.len())
}
