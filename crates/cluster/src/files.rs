//! Whole files, one process each: those of a batch are worked on by all threads of the process.

use crate::args::What;
use crate::message::name;
use crate::message::{Entry, Report, Request, Told};
use crate::roots::{Dirs, as_write};
use crate::worker::Worker;
use phalanx_core::file::SharedFile;
use phalanx_core::{Error as CoreError, Roster, Sink};
use phalanx_host::Error;
use phalanx_host::failure::{Code, is_of_key};
use phalanx_host::file::{self, Existing, InputFile, Made, Output, Stamp, Sync, is_unfinished};
use phalanx_host::lines::shown;
use phalanx_host::lock::lock;
use phalanx_host::words::{arrow, size};
use rustix::fs::{self, AtFlags, FileType};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Files of at least this length, in bytes, are worked on by all threads of a process, one file at a time.
const LARGE: u64 = 16 << 20;
/// The most files of a thread that are synced together.
const GROUP: usize = 128;

/// A file of a batch, and how it is found.
pub struct Ends<'e> {
    /// The folder in a tree.
    pub dirs: Option<Dirs>,
    /// The paths, for messages and, without a tree, for opening.
    pub input: PathBuf,
    pub output: Option<PathBuf>,
    pub names: (&'e OsStr, Option<&'e OsStr>),
}

impl Ends<'_> {
    pub fn open(&self) -> Result<InputFile, Told> {
        let opened = match &self.dirs {
            Some(dirs) => InputFile::open_in(dirs.input.clone(), self.names.0),
            None => InputFile::open(&self.input),
        };
        opened.map_err(|e| Told::at(&self.input, &e))
    }

    /// The folder of the output, and its name there.
    pub fn target(&self) -> Result<Option<(Arc<File>, &OsStr)>, Error> {
        let Some(path) = &self.output else { return Ok(None) };
        if let Some(Dirs { output: Some(dir), .. }) = &self.dirs {
            return Ok(self.names.1.map(|of| (dir.clone(), of)));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let of = path.file_name().ok_or_else(|| Error::write(std::io::ErrorKind::InvalidInput.into()))?;
        Ok(Some((Arc::new(File::open(parent).map_err(Error::write)?), of)))
    }

    /// Assigns an error to the path where it happened.
    pub fn blame(&self, error: &Error) -> Told {
        let Some(output) = self.output.as_ref().filter(|_| error.is_of_output()) else {
            return Told::at(&self.input, error);
        };
        let told = Told::at(output, error);
        // Without a tree, the command line names it.
        let is_usage = self.dirs.is_none() && is_of_key(error);
        if is_usage { Told { code: Code::Usage.number(), ..told } } else { told }
    }
}

/// A file with all its bytes written.
struct Written<'e> {
    output: Output,
    ends: Ends<'e>,
    bytes: u64,
}

impl Worker<'_> {
    /// How a file is found.
    pub fn ends<'e>(
        &self,
        tree: Option<u32>,
        folder: &[u8],
        of: &'e [u8],
        output: Option<&'e [u8]>,
    ) -> Result<Ends<'e>, Told> {
        let input = self.roots.path(tree, folder, of);
        let dirs = tree.map(|tree| self.roots.open(tree, folder)).transpose().map_err(|e| Told::at(&input, &e))?;
        let names = (name(of), output.map(name));
        let output = output.map(|output| self.roots.mirrored(tree, folder, output));
        Ok(Ends { dirs, input, output, names })
    }

    /// Does whole files.
    pub fn files(&self, tree: Option<u32>, folder: &[u8], files: &[Entry], report: &mut Report) {
        let (large, small): (Vec<_>, Vec<_>) = files.iter().partition(|entry| entry.len >= LARGE);
        let all = Mutex::new(std::mem::take(report));
        // Of each batch, so that it stays short.
        let made = self.made();
        let next = AtomicUsize::new(0);
        let each = || {
            let roster = self.engines.single();
            let mut group = Vec::new();
            while let Some(entry) = small.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.file(tree, folder, entry, &roster, &made, &mut group, &all);
                if group.len() >= GROUP {
                    self.commit_all(&mut group, &made, &all);
                }
            }
            self.commit_all(&mut group, &made, &all);
        };
        thread::scope(|scope| {
            for _ in 1..self.engines.threads.min(small.len()) {
                // If the system gives no more threads, the existing ones do the work.
                if thread::Builder::new().spawn_scoped(scope, each).is_err() {
                    break;
                }
            }
            each();
        });
        for entry in large {
            let mut group = Vec::new();
            self.file(tree, folder, entry, &self.engines.crew.roster, &made, &mut group, &all);
            self.commit_all(&mut group, &made, &all);
        }
        *report = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    }

    #[allow(clippy::too_many_arguments, reason = "the file, where it is, and what is shared by a batch")]
    fn file<'e>(
        &self,
        tree: Option<u32>,
        folder: &[u8],
        entry: &'e Entry,
        roster: &Roster,
        made: &Made,
        group: &mut Vec<Written<'e>>,
        report: &Mutex<Report>,
    ) {
        let seen = (entry.len, entry.mtime.0, entry.mtime.1);
        let ends = self.ends(tree, folder, &entry.name, entry.output.as_deref());
        match ends.and_then(|ends| self.one(ends, seen, roster, made, group, report)) {
            Ok(()) => {}
            Err(told) => lock(report).failures.push(told),
        }
        self.flush(&mut lock(report));
    }

    fn one<'e>(
        &self,
        ends: Ends<'e>,
        seen: (u64, i64, i64),
        roster: &Roster,
        made: &Made,
        group: &mut Vec<Written<'e>>,
        report: &Mutex<Report>,
    ) -> Result<(), Told> {
        let input = ends.open()?;
        let meta = input.file().metadata().map_err(|e| ends.blame(&Error::read(e)))?;
        if (meta.len(), meta.mtime(), meta.mtime_nsec()) != seen {
            let why = "it has changed meanwhile, or this process sees another file here (is the folder shared?)";
            return Err(Told::new(Code::InputOutput, format!("{}: {why}", shown(&ends.input))));
        }
        let source = || file::source(input.file()).map_err(|e| ends.blame(&e));
        if self.is_done(&ends, &input)? {
            let mut report = lock(report);
            report.kept += 1;
            report.kept_bytes += input.stamp().len();
            return Ok(());
        }
        check_input(&ends, &input, None)?;
        // The keys come first: what they do not open leaves nothing behind.
        let shared = if self.is_protecting() {
            self.check_name(&ends, &input)?;
            let len = Some(input.stamp().len()).filter(|len| *len > 0);
            self.desk.keys(Request::New { len }).map_err(|told| told.placed(&ends.input))?
        } else {
            self.open_input(&ends, &input)?
        };
        let output = match ends.target().map_err(|e| ends.blame(&e))? {
            Some((dir, of)) => {
                let output = Output::create_in(dir, of, self.existing(made)).map_err(|e| ends.blame(&as_write(e)))?;
                check_input(&ends, &input, Some(&output))?;
                Some(output)
            }
            None => None,
        };
        let sink = match &output {
            Some(output) => file::sink(output.file(), self.plan.destination.sync),
            None => Sink::Nothing,
        };
        let done = match self.is_protecting() {
            true => shared.seal(roster, source()?, sink, None, &*self.desk),
            false => shared.open(roster, source()?, sink, None, &*self.desk),
        };
        let bytes = done.map_err(|e| ends.blame(&e.into()))?;
        match output {
            Some(output) => {
                self.warn_of_special_bits(&ends.input, input.file(), &mut lock(report));
                output.carry(input.file(), self.carry).map_err(|e| ends.blame(&as_write(e)))?;
                group.push(Written { output, ends, bytes });
            }
            None => {
                let mut report = lock(report);
                report.files += 1;
                report.bytes += bytes;
                report.checked.push((ends.input.as_os_str().as_bytes().to_vec(), bytes));
            }
        }
        Ok(())
    }

    fn commit_all(&self, group: &mut Vec<Written<'_>>, made: &Made, report: &Mutex<Report>) {
        let sync = if self.plan.destination.sync { Sync::Yes } else { Sync::No };
        let mut outputs = Vec::new();
        let mut origins = Vec::new();
        for Written { output, ends, bytes } in group.drain(..) {
            outputs.push(output);
            origins.push((ends, bytes));
        }
        let committed = Output::commit_all(outputs, self.existing(made), sync);
        let mut report = lock(report);
        for ((ends, bytes), committed) in origins.into_iter().zip(committed) {
            match committed {
                Ok(_) => {
                    report.files += 1;
                    report.bytes += bytes;
                    if self.plan.verbosity.verbose
                        && let Some(output) = &ends.output
                    {
                        let (from, to) = (shown(&ends.input), shown(output));
                        report.lines.push(format!("{from} {} {to}: {}", arrow(), size(bytes)));
                    }
                }
                Err(e) => report.failures.push(ends.blame(&e)),
            }
        }
    }

    /// Opens a protected file: rank 0 has the keys.
    pub fn open_input(&self, ends: &Ends<'_>, input: &InputFile) -> Result<SharedFile, Told> {
        let header = || Ok(file::regular(input.file())?.header()?.bytes().to_vec());
        let read = || header().map_err(|e: Error| ends.blame(&e));
        let first = read()?;
        match self.open(&first, &ends.input) {
            Ok(shared) => Ok(shared),
            // Somebody may be changing its keys at this moment.
            Err(told) => match read()? {
                again if again != first => self.open(&again, &ends.input),
                _ if is_unfinished(input) => {
                    let line = format!("{}; a change of its keys was interrupted", told.line);
                    Err(Told { line, ..told }.hint("phalanx rekey finishes it"))
                }
                _ => Err(told),
            },
        }
    }

    /// A pattern like `*` easily matches outputs of an earlier run.
    pub fn check_name(&self, ends: &Ends<'_>, input: &InputFile) -> Result<(), Told> {
        let is_named = ends.dirs.is_none() && ends.input.extension().is_some_and(|ending| ending == "phx");
        let is_protected = || file::regular(input.file()).and_then(|mut source| Ok(source.header()?));
        if is_named && !matches!(is_protected(), Err(Error::Core(CoreError::NotPhalanx))) {
            return Err(ends.blame(&Error::Protected));
        }
        Ok(())
    }

    /// Whether an interrupted run has finished an output: it is this user's file under one name, with the length and the time that
    /// the input gives, and the keys at hand open its header. Its content is not read.
    pub fn is_done(&self, ends: &Ends<'_>, input: &InputFile) -> Result<bool, Told> {
        if !self.plan.destination.resume {
            return Ok(false);
        }
        let Some((dir, of)) = ends.target().map_err(|e| ends.blame(&e))? else { return Ok(false) };
        let Ok(stat) = fs::statat(&dir, of, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(false) };
        let meta = input.file().metadata().map_err(|e| ends.blame(&Error::read(e)))?;
        let is_as_old = stat.st_mtime == meta.mtime() && [0, meta.mtime_nsec()].contains(&(stat.st_mtime_nsec as i64));
        let is_own = stat.st_nlink == 1 && stat.st_uid == rustix::process::geteuid().as_raw();
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !is_as_old || !is_own {
            return Ok(false);
        }
        let there = stat.st_size as u64;
        if let What::Protect { suite, chunk_size, .. } = &self.plan.what {
            let Ok(output) = InputFile::open_in(dir, of) else { return Ok(false) };
            let Ok(header) = file::regular(output.file()).and_then(|mut source| Ok(source.header()?)) else {
                return Ok(false);
            };
            let has_shape = header.suite() == *suite && 1 << header.chunk_log2() == chunk_size.bytes();
            let fits = header.layout_for_plaintext(meta.len()).is_ok_and(|layout| layout.file_len() == there);
            return Ok(has_shape && fits && self.open(header.bytes(), &ends.input).is_ok());
        }
        let shared = self.open_input(ends, input)?;
        Ok(shared.header().layout_for_file(meta.len()).is_ok_and(|layout| layout.plaintext_len() == there))
    }
}

/// An output must not replace its own input, whatever paths lead there.
pub fn check_input(ends: &Ends<'_>, input: &InputFile, output: Option<&Output>) -> Result<(), Told> {
    let Some(path) = &ends.output else { return Ok(()) };
    let there = match output {
        Some(output) => Stamp::of(output.file()).ok().map(|stamp| stamp.id()),
        None => std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino())),
    };
    if there == Some(input.stamp().id()) {
        let line = format!("{}: input and output are the same file", shown(path));
        return Err(Told::new(Code::Usage, line));
    }
    Ok(())
}

/// Begins the output of a large file.
pub fn begin(worker: &Worker<'_>, dir: Arc<File>, of: &OsStr, existing: Existing<'_>) -> Result<Output, Error> {
    let resumes = worker.plan.destination.resume;
    let begun = if resumes { Output::resume_in(dir, of, existing) } else { Output::create_in(dir, of, existing) };
    begun.map_err(as_write)
}
