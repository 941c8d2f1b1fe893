//! Whole files: one process works on a batch of them with all its threads.

use crate::args::What;
use crate::listed::stat_of;
use crate::message::name;
use crate::message::{Entry, Listed, Reply, Report, ReportedFailure, Request, Written};
use crate::opened::Paths;
use crate::roots::Dirs;
use crate::worker::Worker;
use phalanx_core::file::SharedFile;
use phalanx_core::tree::{Contents, Recorder};
use phalanx_core::{Progress, Roster};
use phalanx_host::Error;
use phalanx_host::failure::{Code, is_of_key};
use phalanx_host::file::{
    self, Ends, InputFile, Made, Output, OutputPlace, OutputRules, Sync, Target, carry, is_unfinished, refuse_protected,
};
use phalanx_host::folders::parent;
use phalanx_host::lines::shown;
use phalanx_host::lock::lock;
use phalanx_host::words::{arrow, size};
use rustix::fs::{self, AtFlags, FileType, Stat};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Files of at least this length, in bytes, are worked on by all threads of a process, one file at a time.
const LARGE: u64 = 16 << 20;
/// The most files that a thread syncs together.
const GROUP: usize = 128;

/// A file, with its opened folders and its paths.
pub struct Located<'e> {
    /// Its folder and the mirror of that, if it is in a tree.
    pub dirs: Option<Dirs>,
    pub paths: Paths,
    pub names: (&'e OsStr, Option<&'e OsStr>),
}

impl Located<'_> {
    pub fn open(&self) -> Result<InputFile, ReportedFailure> {
        self.reopen().map_err(|e| self.blame(&e))
    }

    fn reopen(&self) -> phalanx_host::Result<InputFile> {
        match &self.dirs {
            Some(dirs) => InputFile::open_in(dirs.input.clone(), self.names.0),
            None => InputFile::open(&self.paths.input),
        }
    }

    /// Begins the output of the opened input.
    pub fn begin(&self, input: InputFile, rules: &OutputRules<'_>) -> Result<Ends, ReportedFailure> {
        let begin = || {
            let target = self.target()?.map(|(dir, of)| OutputPlace::Entry(dir, of));
            Ends::begin(input.into(), target.unwrap_or(OutputPlace::Nowhere), rules)
        };
        begin().map_err(|e| self.blame(&e))
    }

    /// The folder of the output, and its name there.
    pub fn target(&self) -> Result<Option<(Arc<File>, &OsStr)>, Error> {
        let Some(path) = &self.paths.output else { return Ok(None) };
        if let Some(Dirs { output: Some(dir), .. }) = &self.dirs {
            return Ok(self.names.1.map(|of| (dir.clone(), of)));
        }
        let of = path.file_name().ok_or_else(|| Error::write(std::io::ErrorKind::InvalidInput))?;
        Ok(Some((Arc::new(File::open(parent(path)).map_err(Error::write)?), of)))
    }

    /// Assigns an error to the path where it happened.
    pub fn blame(&self, error: &Error) -> ReportedFailure {
        let failure = self.paths.blame(error);
        // A file outside a tree is named on the command line, so this is a mistake in its use.
        let is_usage = self.dirs.is_none() && is_of_key(error);
        if is_usage { ReportedFailure { code: Code::Usage.number(), ..failure } } else { failure }
    }
}

/// A file with all its bytes written.
struct Ready<'e> {
    output: Output,
    located: Located<'e>,
    bytes: u64,
    written: Option<Written>,
}

impl Worker<'_> {
    /// Opens the folders of a file, and puts its paths together.
    pub fn locate<'e>(
        &self,
        tree: Option<u32>,
        folder: &[u8],
        of: &'e [u8],
        output: Option<&'e [u8]>,
    ) -> Result<Located<'e>, ReportedFailure> {
        let input = self.roots.path(tree, folder, of);
        let dirs =
            tree.map(|tree| self.roots.open(tree, folder)).transpose().map_err(|e| ReportedFailure::at(&input, &e))?;
        let names = (name(of), output.map(name));
        let output = output.map(|output| self.roots.mirrored(tree, folder, output));
        Ok(Located { dirs, paths: Paths { input, output }, names })
    }

    /// Works on whole files.
    pub fn files(&self, tree: Option<u32>, folder: &[u8], files: &[Entry], report: &mut Report) {
        let (large, small): (Vec<_>, Vec<_>) = files.iter().partition(|entry| entry.len >= LARGE);
        let all = Mutex::new(std::mem::take(report));
        // The outputs of one batch only, so that the list stays short.
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
        group: &mut Vec<Ready<'e>>,
        report: &Mutex<Report>,
    ) {
        let located = self.locate(tree, folder, &entry.name, entry.output.as_deref());
        match located.and_then(|located| self.one(located, entry, roster, made, group, report)) {
            Ok(()) => {}
            Err(failure) => lock(report).failures.push(failure),
        }
        self.flush(&mut lock(report));
    }

    fn one<'e>(
        &self,
        located: Located<'e>,
        entry: &Entry,
        roster: &Roster,
        made: &Made,
        group: &mut Vec<Ready<'e>>,
        report: &Mutex<Report>,
    ) -> Result<(), ReportedFailure> {
        let at = |e: Error| located.blame(&e);
        let listed = entry.listed;
        let input = located.open()?;
        let stat = stat_of(input.file()).map_err(at)?;
        if (stat.st_size as u64, (stat.st_mtime, stat.st_mtime_nsec as i64)) != (entry.len, entry.mtime) {
            let why = "it has changed meanwhile, or this process sees another file here (is the folder shared?)";
            return Err(ReportedFailure::new(Code::InputOutput, format!("{}: {why}", shown(&located.paths.input))));
        }
        if self.is_done(&located, &input)? {
            let written = self.kept(&located, listed, &stat)?;
            let mut report = lock(report);
            report.kept += 1;
            report.kept_bytes += input.stamp().len();
            report.written.extend(written);
            return Ok(());
        }
        // The keys come first: a file that they do not open leaves no output.
        let shared = if self.is_protecting() {
            self.check_name(&located, &input)?;
            let len = Some(input.stamp().len()).filter(|len| *len > 0);
            self.outbox.keys(Request::New { len }).map_err(|failure| failure.placed(&located.paths.input))?
        } else {
            self.open_input(&located, &input)?
        };
        let rules = OutputRules { resume: false, ..self.rules(made) };
        let ends = located.begin(input, &rules)?;
        let (source, sink) = (ends.source().map_err(at)?, ends.sink());
        let recorder = listed.map(|_| Recorder::new(&*self.outbox));
        let progress: &dyn Progress = recorder.as_ref().map_or(&*self.outbox, |recorder| recorder);
        let done = match self.is_protecting() {
            true => shared.seal(roster, source, sink, None, progress),
            false => shared.open(roster, source, sink, None, progress),
        };
        let bytes = done.map_err(|e| at(e.into()))?;
        let listed = listed.zip(recorder.and_then(Recorder::contents));
        if let Some((listed, contents)) = &listed {
            listed.admit(contents).map_err(at)?;
        }
        let Ends { input, target } = ends;
        let Target::File(output, _) = target else {
            self.checked(located.paths, bytes, listed, &mut lock(report));
            return Ok(());
        };
        self.warn_of_special_bits(&located.paths.input, input.file(), &mut lock(report));
        carry(&input, &output, &rules).map_err(at)?;
        let written = self.written(listed, input.file(), &output, (&stat, bytes)).map_err(at)?;
        group.push(Ready { output, located, bytes, written });
        Ok(())
    }

    /// Reports a file that was checked. Those of a tree with a manifest are named with --verbose only.
    pub fn checked(&self, paths: Paths, bytes: u64, listed: Option<(Listed, Contents)>, report: &mut Report) {
        report.files += 1;
        report.bytes += bytes;
        report.written.extend(listed.map(|(listed, contents)| listed.opened(bytes, &contents)));
        if listed.is_none() || self.plan.verbosity.verbose {
            report.checked.push((paths.input.into_os_string().into_encoded_bytes(), bytes));
        }
    }

    /// The last steps for the output of a listed file, before it gets its name, and what rank 0 has to know of it.
    /// `stat` is that of the input when it was opened.
    pub fn written(
        &self,
        listed: Option<(Listed, Contents)>,
        input: &File,
        output: &Output,
        (stat, bytes): (&Stat, u64),
    ) -> phalanx_host::Result<Option<Written>> {
        let Some((listed, contents)) = listed else { return Ok(None) };
        if self.is_protecting() {
            return listed.written(Some(input), stat, output.file(), &contents).map(Some);
        }
        listed.restore(output, input, self.carry)?;
        Ok(Some(listed.opened(bytes, &contents)))
    }

    /// What rank 0 has to know of a listed file whose output an interrupted run has finished. `stat` is that of the
    /// input.
    pub fn kept(
        &self,
        located: &Located<'_>,
        listed: Option<Listed>,
        stat: &Stat,
    ) -> Result<Option<Written>, ReportedFailure> {
        let at = |e: Error| located.blame(&e);
        let (Some(listed), Some((dir, of))) = (listed, located.target().map_err(at)?) else { return Ok(None) };
        let stored = if self.is_protecting() { InputFile::open_in(dir, of) } else { located.reopen() };
        let stored = stored.map_err(at)?;
        let contents = Contents::read(stored.file()).map_err(|e| at(e.into()))?;
        listed.admit(&contents).map_err(at)?;
        match self.is_protecting() {
            true => listed.written(None, stat, stored.file(), &contents).map(Some).map_err(at),
            false => Ok(Some(listed.opened(stat.st_size as u64, &contents))),
        }
    }

    /// Lets rank 0 keep what these listed files replace, if the user wants that. Returns why some must not be replaced.
    pub fn replace<'w>(
        &self,
        written: impl ExactSizeIterator<Item = Option<&'w Written>>,
    ) -> Vec<Option<ReportedFailure>> {
        let len = written.len();
        let numbers: Vec<u64> = written.filter_map(|written| Some(written?.number)).collect();
        if !self.plan.keeps_replaced() || numbers.len() != len || len == 0 {
            return vec![None; len];
        }
        match self.outbox.ask(Request::Replace { numbers }) {
            Reply::Replaced(refused) if refused.len() == len => refused,
            _ => unreachable!("as many replies were asked for"),
        }
    }

    fn commit_all(&self, group: &mut Vec<Ready<'_>>, made: &Made, report: &Mutex<Report>) {
        let sync = if self.plan.destination.sync { Sync::Yes } else { Sync::No };
        let mut outputs = Vec::new();
        let mut origins = Vec::new();
        let refused = self.replace(group.iter().map(|ready| ready.written.as_ref()));
        for (Ready { output, located, bytes, written }, refused) in group.drain(..).zip(refused) {
            if let Some(failure) = refused {
                lock(report).failures.push(failure);
                continue;
            }
            outputs.push(output);
            origins.push((located, bytes, written));
        }
        let committed = Output::commit_all(outputs, self.existing(made), sync);
        let mut report = lock(report);
        for ((located, bytes, written), committed) in origins.into_iter().zip(committed) {
            match committed {
                Ok(_) => {
                    report.files += 1;
                    report.bytes += bytes;
                    report.written.extend(written);
                    if self.plan.names_outputs()
                        && let Some(output) = &located.paths.output
                    {
                        let (from, to) = (shown(&located.paths.input), shown(output));
                        report.lines.push(format!("{from} {} {to}: {}", arrow(), size(bytes)));
                    }
                }
                Err(e) => report.failures.push(located.blame(&e)),
            }
        }
        // If the run is killed, the next one need not write these files again.
        if !report.written.is_empty() {
            self.outbox.ask(Request::Report(Box::new(std::mem::take(&mut report))));
        }
    }

    /// Opens a protected file with the keys of rank 0.
    pub fn open_input(&self, located: &Located<'_>, input: &InputFile) -> Result<SharedFile, ReportedFailure> {
        let header = || Ok(file::regular(input.file())?.header()?.bytes().to_vec());
        let read = || header().map_err(|e: Error| located.blame(&e));
        let first = read()?;
        match self.open(&first, &located.paths.input) {
            Ok(shared) => Ok(shared),
            // Another program may be changing its keys at this moment.
            Err(failure) => match read()? {
                again if again != first => self.open(&again, &located.paths.input),
                _ if is_unfinished(input) => {
                    let line = format!("{}; a change of its keys was interrupted", failure.line);
                    Err(ReportedFailure { line, ..failure }.hint("phalanx rekey finishes it"))
                }
                _ => Err(failure),
            },
        }
    }

    /// Refuses a file on the command line that is protected already.
    pub fn check_name(&self, located: &Located<'_>, input: &InputFile) -> Result<(), ReportedFailure> {
        if located.dirs.is_some() {
            return Ok(());
        }
        refuse_protected(input.file(), &located.paths.input).map_err(|e| located.blame(&e))
    }

    /// Whether an interrupted run has finished an output. If so, it is a file of this user with one name, it has the
    /// length and the time that its input requires, and the keys at hand open its header. Its content is not read.
    pub fn is_done(&self, located: &Located<'_>, input: &InputFile) -> Result<bool, ReportedFailure> {
        if !self.plan.destination.resume {
            return Ok(false);
        }
        let Some((dir, of)) = located.target().map_err(|e| located.blame(&e))? else { return Ok(false) };
        let Ok(stat) = fs::statat(&dir, of, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(false) };
        let meta = input.file().metadata().map_err(|e| located.blame(&Error::read(e)))?;
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
            return Ok(has_shape && fits && self.open(header.bytes(), &located.paths.input).is_ok());
        }
        let shared = self.open_input(located, input)?;
        Ok(shared.header().layout_for_file(meta.len()).is_ok_and(|layout| layout.plaintext_len() == there))
    }
}
