//! Both ends of a file that is processed: the opened input and the begun output.

use crate::file::disk::{sink, slow_sink};
use crate::file::input::{InputFile, Removal, Stamp};
use crate::file::metadata::{Carry, umask};
use crate::file::objects::{InputObject, NewObject, ObjectFolder, OutputObject, Url, object_error, stores};
use crate::file::output::{Committed, Existing, Found, Output, check_close, folder_and_name};
use crate::file::regular::source;
use crate::file::rekey::is_unfinished;
use crate::{Error, Result};
use phalanx_core::{Error as CoreError, ReadAt, Sink, Source};
use phalanx_system::fs::{self, FileType, Stat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// An input that has been opened.
#[derive(Debug)]
pub enum Input {
    /// Something that is read in order, such as standard input.
    Stream(File),
    /// A regular file.
    File(InputFile),
    /// An object in a store.
    Object(Arc<dyn InputObject>),
}

impl From<InputFile> for Input {
    fn from(file: InputFile) -> Self {
        Input::File(file)
    }
}

#[expect(clippy::len_without_is_empty, reason = "the length may be unknown")]
impl Input {
    /// Opens a regular file: [`InputFile::open`].
    ///
    /// # Errors
    /// Those of [`InputFile::open`].
    pub fn open(path: &Path) -> Result<Self> {
        InputFile::open(path).map(Input::File)
    }

    /// Opens a regular file in an opened folder. Links are not followed.
    ///
    /// # Errors
    /// Those of [`InputFile::open_in`].
    pub fn open_in(folder: Arc<File>, name: &OsStr) -> Result<Self> {
        InputFile::open_in(folder, name).map(Input::File)
    }

    /// Opens an object.
    ///
    /// # Errors
    /// [`Error::Read`](phalanx_core::Error::Read) if it cannot be opened, [`Error::NoStores`] if this program was built
    /// without stores.
    pub fn open_object(url: &Url) -> Result<Self> {
        stores()?.open(url).map(Input::Object).map_err(Error::read)
    }

    /// The opened file.
    ///
    /// # Panics
    /// If it is an object. Only what a command line names can be one.
    #[must_use]
    pub fn file(&self) -> &File {
        match self {
            Input::Stream(file) => file,
            Input::File(input) => input.file(),
            Input::Object(_) => panic!("an object is not a file"),
        }
    }

    /// The object, if it is one.
    #[must_use]
    pub fn object(&self) -> Option<&dyn InputObject> {
        if let Input::Object(object) = self { Some(&**object) } else { None }
    }

    /// The input as a source that is read here and there.
    ///
    /// # Errors
    /// [`Error::Read`](phalanx_core::Error::Read) if the file cannot be opened a second time.
    pub fn read_at(&self) -> Result<Box<dyn ReadAt + Send + Sync>> {
        match self {
            Input::Stream(file) => Ok(Box::new(file.try_clone().map_err(Error::read)?)),
            Input::File(input) => Ok(Box::new(input.file().try_clone().map_err(Error::read)?)),
            Input::Object(object) => Ok(Box::new(object.clone())),
        }
    }

    /// The source that the pipeline reads.
    ///
    /// # Errors
    /// [`Error::Read`](phalanx_core::Error::Read) if the file cannot be looked at.
    pub fn source(&self) -> Result<Source<'_>> {
        match self {
            // The stream may have been read in part. Reading continues from there.
            Input::Stream(file) => Ok(Source::stream(file)),
            Input::File(input) => source(input.file()),
            Input::Object(object) => Ok(Source::ranged(object.ahead(0))),
        }
    }

    /// The state of the file, to detect writes to it. `None` for a stream.
    #[must_use]
    pub fn stamp(&self) -> Option<Stamp> {
        if let Input::File(input) = self { Some(input.stamp()) } else { None }
    }

    /// Device and inode of a regular file, even of one that is read in order.
    fn id(&self) -> Option<(u64, u64)> {
        match self {
            Input::Stream(file) => {
                let stat = fs::fstat(file).ok()?;
                let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                is_file.then_some((stat.st_dev, stat.st_ino))
            }
            Input::File(input) => Some(input.stamp().id()),
            Input::Object(_) => None,
        }
    }

    /// Whether a change of the file's keys may have been interrupted.
    #[must_use]
    pub fn rekey_interrupted(&self) -> bool {
        matches!(self, Input::File(input) if is_unfinished(input))
    }

    /// The error for an input that does not open: it says so if a change of its keys may have been interrupted.
    #[must_use]
    pub fn interrupted(&self, error: impl Into<Error>) -> Error {
        let error = error.into();
        let is_of_header = matches!(
            error,
            Error::Core(
                CoreError::Header(_)
                    | CoreError::NotPhalanx
                    | CoreError::Version(_)
                    | CoreError::Read(_)
                    | CoreError::NoKey { .. }
                    | CoreError::KeysRefused { .. }
                    | CoreError::WrongKey
                    | CoreError::KdfLimit(_)
            )
        );
        if is_of_header && self.rekey_interrupted() { Error::Interrupted(Box::new(error)) } else { error }
    }

    /// The removal of the input.
    #[must_use]
    pub fn removal(&self) -> Option<Removal> {
        if let Input::File(input) = self { input.removal() } else { None }
    }

    /// The input's length in bytes, if it is known.
    #[must_use]
    pub fn len(&self) -> Option<u64> {
        match self {
            Input::Stream(_) => None,
            Input::File(input) => Some(input.stamp().len()),
            Input::Object(object) => object.size().ok(),
        }
    }

    /// The length for choosing an engine. Files that report a length of 0, as under /proc, have none.
    #[must_use]
    pub fn known_len(&self) -> Option<u64> {
        self.len().filter(|len| *len > 0)
    }
}

/// Where an output goes.
#[derive(Debug)]
pub enum OutputPlace<'a> {
    /// To a path.
    Path(&'a Path),
    /// To a name in an opened folder.
    Entry(Arc<File>, &'a OsStr),
    /// To an object in a store.
    Object(&'a Url),
    /// To an object of a folder in a store.
    ObjectIn(&'a dyn ObjectFolder, &'a str),
    /// To something that is written in order, such as standard output.
    Stream(File),
    /// Nowhere: the bytes are only checked.
    Nowhere,
}

/// How an output is made.
#[derive(Clone, Copy, Debug)]
pub struct OutputRules<'a> {
    /// How an existing file of the same name is treated.
    pub existing: Existing<'a>,
    /// Whether the content must be on the disk before the output has its name, and the name when it is committed.
    pub sync: bool,
    /// Whether the output stays if the run is interrupted, and goes on where an interrupted run was:
    /// [`Output::resume`].
    pub resume: bool,
    /// Which metadata of the input it takes over.
    pub carry: Carry,
}

/// An existing file stays and is an error, the output is synced, and it takes over all metadata.
impl Default for OutputRules<'_> {
    fn default() -> Self {
        Self { existing: Existing::Keep, sync: true, resume: false, carry: Carry::All }
    }
}

/// An output that has been begun.
#[derive(Debug)]
pub enum Target {
    /// A new file, and whether it will be synced.
    File(Output, bool),
    /// Something that is written in order, such as standard output.
    Stream(File),
    /// A new object in a store, and whether it stays if the run is interrupted.
    Object(Box<dyn OutputObject>, bool),
    /// The bytes are only checked.
    Nothing,
}

impl Target {
    /// Begins an output, which must not be the input, even by another path.
    fn begin(input: &Input, place: OutputPlace<'_>, rules: &OutputRules<'_>) -> Result<Self> {
        let is_there = |stat: Stat| input.id() == Some((stat.st_dev, stat.st_ino));
        let (dir, name) = match place {
            OutputPlace::Nowhere => return Ok(Target::Nothing),
            OutputPlace::Stream(file) => {
                let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                let is_same = fs::fstat(&file).is_ok_and(|stat| is_file(&stat) && is_there(stat));
                return if is_same { Err(Error::SameFile) } else { Ok(Target::Stream(file)) };
            }
            OutputPlace::Object(url) => {
                let replaces = matches!(rules.existing, Existing::Replace(_));
                let new = NewObject { replaces, len: input.known_len(), resume: rules.resume };
                return Ok(Target::Object(stores()?.create(url, new).map_err(object_error)?, rules.resume));
            }
            OutputPlace::ObjectIn(folder, name) => {
                let replaces = matches!(rules.existing, Existing::Replace(_));
                let new = NewObject { replaces, len: input.known_len(), resume: false };
                return Ok(Target::Object(folder.create(name, new).map_err(object_error)?, false));
            }
            OutputPlace::Path(path) => folder_and_name(path)?,
            OutputPlace::Entry(dir, name) => (dir, name),
        };
        let found = Found::look(&dir, name)?;
        if input.stamp().is_some_and(|stamp| found.leads_to(stamp.id())) {
            return Err(Error::SameFile);
        }
        found.check(&dir, rules.existing)?;
        let begin = if rules.resume { Output::resume_checked } else { Output::create_checked };
        let output = begin(dir, name)?;
        // The input may have been renamed to the name of an unfinished file.
        if input.stamp().is_some_and(|stamp| output.id().is_ok_and(|id| id == stamp.id())) {
            return Err(Error::SameFile);
        }
        Ok(Target::File(output, rules.sync))
    }

    /// The output that stays if the run is interrupted, and whether it will be synced.
    pub fn resumable(&mut self) -> Option<(&mut Output, bool)> {
        match self {
            Target::File(output, sync) if output.is_kept() => Some((output, *sync)),
            _ => None,
        }
    }

    /// The sink that the pipeline writes to. What it writes comes from this input.
    #[must_use]
    pub fn sink(&self, input: &Input) -> Sink<'_> {
        match self {
            Target::File(output, sync) if input.object().is_some() => slow_sink(output.file(), *sync),
            Target::File(output, sync) => sink(output.file(), *sync),
            Target::Stream(file) => Sink::Stream(Box::new(file)),
            Target::Object(object, _) => Sink::ranged(&**object),
            Target::Nothing => Sink::Nothing,
        }
    }

    /// The opened file, to write to it directly.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        match self {
            Target::File(output, _) => Some(output.file()),
            Target::Stream(file) => Some(file),
            Target::Object(..) | Target::Nothing => None,
        }
    }

    /// The output, to write to it in order.
    #[must_use]
    pub fn writer(&self) -> Box<dyn Write + '_> {
        match self {
            Target::File(output, _) => Box::new(output.file()),
            Target::Stream(file) => Box::new(file),
            Target::Object(object, _) => Box::new(InOrder { output: &**object, at: 0 }),
            Target::Nothing => Box::new(io::sink()),
        }
    }
}

/// Writes an output that is written at offsets in order.
struct InOrder<'a> {
    output: &'a dyn OutputObject,
    at: u64,
}

impl Write for InOrder<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An input and its output. An error belongs to the output if [`Error::is_of_output`] says so, and otherwise to the
/// input.
#[derive(Debug)]
pub struct Ends {
    /// The input.
    pub input: Input,
    /// The output.
    pub target: Target,
}

impl Ends {
    /// Begins the output of an input.
    ///
    /// # Errors
    /// Those of [`Output::create`] and [`Output::resume`], and [`Error::SameFile`]. All are of the output.
    pub fn begin(input: Input, place: OutputPlace<'_>, rules: &OutputRules<'_>) -> Result<Self> {
        let target = Target::begin(&input, place, rules).map_err(of_output)?;
        Ok(Self { input, target })
    }

    /// Opens a regular file, and begins another one that will be named `output`.
    ///
    /// # Errors
    /// Those of [`InputFile::open`] and [`Ends::begin`].
    pub fn of_paths(input: &Path, output: &Path, rules: &OutputRules<'_>) -> Result<Self> {
        Self::begin(Input::open(input)?, OutputPlace::Path(output), rules)
    }

    /// An input without an output.
    #[must_use]
    pub fn only(input: Input) -> Self {
        Self { input, target: Target::Nothing }
    }

    /// The source to read from.
    ///
    /// # Errors
    /// [`Error::Read`](phalanx_core::Error::Read) if the input cannot be looked at.
    pub fn source(&self) -> Result<Source<'_>> {
        self.input.source()
    }

    /// The sink to write to.
    #[must_use]
    pub fn sink(&self) -> Sink<'_> {
        self.target.sink(&self.input)
    }

    /// Carries over metadata, and gives an output file its name.
    ///
    /// # Errors
    /// Those of [`carry`], [`Output::commit`] and [`check_close`].
    pub fn commit(self, rules: &OutputRules<'_>) -> Result<Option<Committed>> {
        match self.target {
            Target::File(output, sync) => {
                carry(&self.input, &output, rules)?;
                output.commit(rules.existing, sync).map(Some).map_err(of_output)
            }
            Target::Stream(file) => check_close(&file).map(|()| None),
            Target::Object(object, _) => object.commit().map(|()| None).map_err(object_error),
            Target::Nothing => Ok(None),
        }
    }
}

/// Carries over metadata to an output that is written completely. Afterwards other users may be able to open it.
///
/// # Errors
/// Those of [`Output::sync_kept`], [`Output::carry`] and [`Output::set_mode`], which are of the output, and
/// [`Error::Changed`](phalanx_core::Error::Changed) if the input has changed since it was opened.
pub fn carry(input: &Input, output: &Output, rules: &OutputRules<'_>) -> Result<()> {
    if rules.sync && output.is_kept() {
        // This may take long. Until it is done, only the user can open the file, and a later run can go on with it.
        output.sync_kept()?;
    }
    match input {
        Input::File(input) => output.carry(input.file(), rules.carry).and_then(|()| require_unchanged(input)),
        Input::Stream(_) | Input::Object(_) => output.set_mode(0o666 & !umask()),
    }
    .map_err(of_output)
}

/// The output has the input's time as it is now. If that is not the time of what was read, a later run would take the
/// output for done.
fn require_unchanged(input: &InputFile) -> Result<()> {
    let now = Stamp::of(input.file()).map_err(CoreError::Read)?;
    if input.stamp().has_same_content(&now) { Ok(()) } else { Err(CoreError::Changed.into()) }
}

/// A read that fails while an output is made counts as a failed write.
fn of_output(error: Error) -> Error {
    if let Error::Core(CoreError::Read(e)) = error { Error::write(e) } else { error }
}
