//! Going on with the output of an interrupted run: `docs/format.md`, section 11.

use crate::file::disk::sink;
use crate::file::input::Stamp;
use crate::file::marks::{Kind, Marks, Noting, Recorded, Recorder};
use crate::file::output::Output;
use crate::file::regular::{Leftover, Regular, regular};
use crate::{Error, Result};
use phalanx_core::file::SharedFile;
use phalanx_core::format::Layout;
use phalanx_core::{
    Error as CoreError, KeySource, NewFile, Opener, Progress, ProtectedFile, Recipient, Roster, Source, Suite,
};
use phalanx_system::fs;
use phalanx_system::os::fs::FileExt;
use std::fs::File;
use std::io;
use std::iter;
use std::ops::Range;

/// What happened to an interrupted run's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Past {
    /// Part of it was done.
    Continued {
        /// How many bytes of plaintext were done.
        done: u64,
        /// How many there are in all.
        all: u64,
    },
    /// The input has changed since then: everything is done again.
    Changed,
    /// It was for other keys or passwords, had another cipher or chunk size, or is damaged: everything is done again.
    Different,
    /// No record proves that an interrupted run has made the file from this input: everything is done in a new file.
    Unproven,
}

/// The state in which a run finds an output that it may go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// There was no output.
    New,
    /// The old output is of no use and was discarded.
    Over(Past),
    /// Part of it was done.
    Left {
        /// How many of the first chunks are on the disk. The tags of the others show which of them are done.
        synced: u64,
    },
}

/// A run whose output stays if it is interrupted, and which goes on with what an earlier run has left of it.
pub struct Resumable<'a> {
    /// The engines.
    pub roster: &'a Roster,
    /// An [`Output::resume`].
    pub output: &'a mut Output,
    /// Whether the output is to be synced. A later run then has less to check.
    pub sync: bool,
    /// Receives the progress.
    pub progress: &'a dyn Progress,
}

impl Resumable<'_> {
    /// Protects a regular file, and goes on with what an interrupted run for the same recipients has left. If there was
    /// an output, it calls `tell` with what happened to that. `opener` opens the header of that run: it has the keys
    /// and passwords of the recipients. Returns the plaintext's length in bytes.
    ///
    /// # Errors
    /// Those of [`NewFile::protect`]. The finished part stays in the output, for a later run.
    pub fn protect(
        self,
        new: NewFile,
        input: &File,
        recipients: &[Recipient],
        opener: &Opener<impl KeySource>,
        tell: impl FnOnce(Past),
    ) -> Result<u64> {
        let Self { roster, output, sync, progress } = self;
        let input = Regular::new(input)?;
        let stamp = input.stamp;
        let (shared, begun) = begin_protected(new, stamp, output, recipients, opener, sync)?;
        let (output, file) = (&*output, output.file());
        let layout = shared.header().layout_for_plaintext(stamp.len())?;
        let (mut missing, mut from) = (iter::once(0..layout.chunks()).collect::<Vec<_>>(), 0);
        match begun {
            Begun::Left { synced } => {
                from = synced;
                missing = not_sealed(&shared, roster, file, stamp.len(), synced..layout.chunks(), progress)?;
                let all = layout.plaintext_len();
                tell(Past::Continued { done: all - bytes(&layout, &missing), all });
            }
            Begun::Over(past) => tell(past),
            Begun::New => {}
        }
        let recorder = Recorder::new(&shared, Kind::Protected, stamp, file)?;
        let marks = Marks::new(recorder, output, from, &missing, layout.chunks());
        let seal = |progress: &dyn Progress| {
            Ok(shared.seal(roster, Source::ranged(input), sink(file, sync), Some(missing.clone()), progress)?)
        };
        match sync {
            true => marks.keep(|| seal(&Noting { marks: &marks, progress }))?,
            false => seal(progress)?,
        };
        Ok(stamp.len())
    }

    /// Writes the plaintext of a protected file, which was opened from the regular file `input`, and goes on with what
    /// an interrupted run has left. If there was an output, it calls `tell` with what happened to that. Returns the
    /// plaintext's length in bytes.
    ///
    /// # Errors
    /// Those of [`ProtectedFile::unprotect`]. The finished part stays in the output, for a later run.
    pub fn unprotect(self, protected: ProtectedFile<'_>, input: &File, tell: impl FnOnce(Past)) -> Result<u64> {
        let Self { roster, output, sync, progress } = self;
        let input = Regular::new(input)?;
        let stamp = input.stamp;
        let shared = protected.shared();
        // If its length is impossible, opening it reports why.
        let layout = shared.header().layout_for_file(stamp.len()).ok();
        let Some(layout) = layout else {
            return Ok(shared.open(roster, Source::ranged(input), sink(output.file(), sync), None, progress)?);
        };
        let (mut missing, mut from) = (iter::once(0..layout.chunks()).collect::<Vec<_>>(), 0);
        let begun = begin_plaintext(&shared, stamp, output, sync)?;
        let (output, file) = (&*output, output.file());
        match begun {
            Begun::Left { synced } => {
                from = synced;
                missing = not_opened(&shared, roster, input.file, file, synced..layout.chunks(), progress)?;
                let all = layout.plaintext_len();
                match all - bytes(&layout, &missing) {
                    0 => file.set_len(0).map_err(Error::write)?,
                    done => tell(Past::Continued { done, all }),
                }
            }
            Begun::Over(past) => tell(past),
            Begun::New => {}
        }
        let recorder = Recorder::new(&shared, Kind::Plaintext, stamp, file)?;
        let marks = Marks::new(recorder, output, from, &missing, layout.chunks());
        let open = |progress: &dyn Progress| {
            Ok(shared.open(roster, Source::ranged(input), sink(file, sync), Some(missing.clone()), progress)?)
        };
        match sync {
            true => marks.keep(|| open(&Noting { marks: &marks, progress }))?,
            false => open(progress)?,
        };
        file.set_len(layout.plaintext_len()).map_err(Error::write)?;
        Ok(layout.plaintext_len())
    }
}

/// Begins to protect a regular file with this stamp into an [`Output::resume`], and writes the header. `opener` opens
/// the header of an interrupted run: it has the keys and passwords of the recipients.
///
/// # Errors
/// If reading or writing failed, or the file is too long for its suite.
pub fn begin_protected(
    new: NewFile,
    stamp: Stamp,
    output: &mut Output,
    recipients: &[Recipient],
    opener: &Opener<impl KeySource>,
    sync: bool,
) -> Result<(SharedFile, Begun)> {
    check(output, sync)?;
    let past = if output.is_begun() { past(&new, output, stamp, recipients, opener)? } else { Err(None) };
    match past {
        Ok((shared, synced)) => {
            let layout = shared.header().layout_for_plaintext(stamp.len())?;
            // Bytes after its end belong to nothing.
            let file = output.file();
            if file.metadata().map_err(Error::write)?.len() > layout.file_len() {
                file.set_len(layout.file_len()).map_err(Error::write)?;
            }
            Ok((shared, Begun::Left { synced: synced.min(layout.chunks()) }))
        }
        Err(past) => {
            if output.is_begun() {
                output.start_over()?;
            }
            let shared = new.shared(Some(stamp.len()))?;
            let file = output.file();
            let header = shared.header().bytes();
            file.write_all_at(header, 0).and_then(|()| fs::sync_all(file)).map_err(Error::write)?;
            let record = Recorder::new(&shared, Kind::Protected, stamp, file)?.first();
            output.write_record(&record)?;
            output.keep();
            Ok((shared, past.map_or(Begun::New, Begun::Over)))
        }
    }
}

/// The file that an interrupted run has left in an output, if this one can go on with it, and how many of the first
/// chunks are on the disk. Otherwise, what happened to it. Without a record, nothing is known about it.
fn past(
    new: &NewFile,
    output: &Output,
    stamp: Stamp,
    recipients: &[Recipient],
    opener: &Opener<impl KeySource>,
) -> Result<std::result::Result<(SharedFile, u64), Option<Past>>> {
    let different = Ok(Err(Some(Past::Different)));
    let Some(found) = output.record() else { return Ok(Err(None)) };
    // Suite 4 allows no chunk to be written twice.
    if new.suite() == Suite::Aes256Gcm {
        return different;
    }
    let file = output.file();
    let shared = match regular(file).and_then(|source| Ok(ProtectedFile::open(source, opener)?)) {
        Ok(protected) => protected.shared(),
        Err(Error::Core(CoreError::Read(e))) => return Err(Error::write(e)),
        // Whatever the error is, everything can be done again.
        Err(_) => return different,
    };
    let synced = match Recorder::new(&shared, Kind::Protected, stamp, file)?.read(&found) {
        Recorded::Synced(synced) => synced,
        Recorded::Changed => return Ok(Err(Some(Past::Changed))),
        Recorded::Different => return different,
    };
    let has_its_shape = (shared.suite(), shared.chunk_size()) == (new.suite(), new.chunk_size());
    if has_its_shape && shared.is_for(recipients, opener)? { Ok(Ok((shared, synced))) } else { different }
}

/// Begins to unprotect a file with this stamp into an [`Output::resume`]. It goes on with what is there only if its
/// record proves that a run has made it, so that nobody else can have opened it. Otherwise it begins a new file.
///
/// # Errors
/// If what an interrupted run has left cannot be synced or removed, or the record cannot be written.
pub fn begin_plaintext(shared: &SharedFile, stamp: Stamp, output: &mut Output, sync: bool) -> Result<Begun> {
    check(output, sync)?;
    let recorder = Recorder::new(shared, Kind::Plaintext, stamp, output.file())?;
    let found = output.record().filter(|_| recorder.output.is_unique).map(|record| recorder.read(&record));
    match found {
        Some(Recorded::Synced(synced)) => return Ok(Begun::Left { synced }),
        // Some chunks may still be right.
        Some(Recorded::Changed) => {
            output.update_record(&recorder.first(), 0)?;
            return Ok(Begun::Left { synced: 0 });
        }
        Some(Recorded::Different) | None => {}
    }
    let mut begun = Begun::New;
    if output.is_begun() {
        // A run that was killed at its very beginning leaves an empty file.
        if output.file().metadata().map_err(Error::write)?.len() > 0 {
            begun = Begun::Over(Past::Unproven);
        }
        output.start_over()?;
    }
    let record = Recorder::new(shared, Kind::Plaintext, stamp, output.file())?.first();
    output.write_record(&record)?;
    output.keep();
    Ok(begun)
}

/// Writes into the record of an output that its first chunks are on the disk. The output was begun for an input with
/// this stamp. Each call is for more chunks than the one before it; `turn` counts the calls.
///
/// # Errors
/// If the record cannot be written.
pub fn note_synced(
    shared: &SharedFile,
    output: &Output,
    stamp: Stamp,
    is_protecting: bool,
    synced: u64,
    turn: u64,
) -> Result<()> {
    let kind = if is_protecting { Kind::Protected } else { Kind::Plaintext };
    Recorder::new(shared, kind, stamp, output.file())?.note(output, synced, turn)
}

/// Whether a file begins with the header of a shared file.
///
/// # Errors
/// If it cannot be read.
pub fn begins_with(shared: &SharedFile, file: &File) -> io::Result<bool> {
    let mut bytes = vec![0; shared.header().bytes().len()];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(bytes == shared.header().bytes()),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// The chunks of a run that are not done yet in an output that is being protected: [`SharedFile::not_sealed`].
///
/// # Errors
/// Those of [`SharedFile::not_sealed`].
pub fn not_sealed(
    shared: &SharedFile,
    roster: &Roster,
    output: &File,
    len: u64,
    within: Range<u64>,
    progress: &dyn Progress,
) -> Result<Vec<Range<u64>>> {
    Ok(shared.not_sealed(roster, &Leftover(output), len, within, progress)?)
}

/// The chunks of a run that are not done yet in the plaintext `output` of the file `protected`:
/// [`SharedFile::not_opened`]. This clears them to holes or zeros.
///
/// # Errors
/// Those of [`SharedFile::not_opened`], and [`Error::Write`](phalanx_core::Error::Write) if the output cannot be
/// cleared.
pub fn not_opened(
    shared: &SharedFile,
    roster: &Roster,
    protected: &File,
    output: &File,
    within: Range<u64>,
    progress: &dyn Progress,
) -> Result<Vec<Range<u64>>> {
    let missing = shared.not_opened(roster, protected, &Leftover(output), within, progress)?;
    let len = protected.metadata().map_err(Error::read)?.len();
    clear(output, &shared.header().layout_for_file(len)?, &missing).map_err(Error::write)?;
    Ok(missing)
}

/// Syncs what an interrupted run has written: it may be lost, and only a sync reports that.
fn check(output: &Output, sync: bool) -> Result<()> {
    if output.is_begun() && sync { output.sync_kept() } else { Ok(()) }
}

/// Clears the missing parts of a plaintext in an output. Blocks of zeros are not written, so old content would show
/// there.
fn clear(file: &File, layout: &Layout, missing: &[Range<u64>]) -> io::Result<()> {
    let len = file.metadata()?.len();
    for run in missing {
        let start = layout.plaintext_offset(run.start);
        let end = layout.plaintext_offset(run.end - 1) + layout.data_len(run.end - 1) as u64;
        let end = end.min(len);
        if start >= end {
            continue;
        }
        if end == len {
            file.set_len(start)?;
            continue;
        }
        if fs::punch_hole(file, start, end - start).is_err() {
            zero(file, start..end)?;
        }
    }
    Ok(())
}

fn zero(file: &File, range: Range<u64>) -> io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let mut at = range.start;
    while at < range.end {
        let len = (range.end - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

/// How many bytes of plaintext the chunks have.
fn bytes(layout: &Layout, runs: &[Range<u64>]) -> u64 {
    let of_run = |run: &Range<u64>| {
        let last = run.end - 1;
        layout.plaintext_offset(last) + layout.data_len(last) as u64 - layout.plaintext_offset(run.start)
    };
    runs.iter().map(of_run).sum()
}
