//! Going on with the output of an interrupted run: `docs/format.md`, section 11.

use crate::file::input::Stamp;
use crate::file::marks::{Found, Identity, Kind, Marks, Noting, Recorder};
use crate::file::obstacle::Obstacle;
use crate::file::output::Output;
use crate::file::protected::{NewFile, ProtectedFile};
use crate::file::shared::SharedFile;
use crate::file::source::{Progress, Sink, Source};
use crate::file::survey::Partial;
use crate::format::header::Header;
use crate::format::layout::Layout;
use crate::format::slot::Slot;
use crate::keys::access::{KeySource, Opener, Recipient};
use crate::keys::key::FileKeys;
use crate::roster::Roster;
use crate::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::iter;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// What became of an interrupted run's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Past {
    /// Part of it was done.
    Continued {
        /// How many bytes of plaintext were done.
        done: u64,
        /// How many there are.
        all: u64,
    },
    /// The input has changed since then: all of it is done anew.
    Changed,
    /// It was for other keys or passwords, had another cipher or size of chunks, or is damaged: all is done anew.
    Different,
    /// No record proves that the file is what an interrupted run has left of this plaintext: all is done anew in a new file.
    Unproven,
}

/// How a run begins that may go on with an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Nothing was there.
    New,
    /// What was there is of no use, and is gone.
    Anew(Past),
    /// Part of it was done.
    Left {
        /// How many of the first chunks are on the disk. Which of the others are done shows by their tags.
        synced: u64,
    },
}

impl NewFile {
    /// Protects a regular file into an [`Output::resume`], and goes on with what an interrupted run for the same recipients has
    /// left there; `tell` is told of it. `opener` opens the header of that run: it has the keys and passwords of the
    /// recipients. Returns the plaintext's length in bytes.
    ///
    /// # Errors
    /// Those of [`NewFile::seal`]. What is done stays in the output, for a later run.
    #[allow(clippy::too_many_arguments, reason = "both ends, the keys, and those who are told")]
    pub fn seal_resumably(
        self,
        roster: &Roster,
        source: Source<'_>,
        output: &mut Output,
        recipients: &[Recipient],
        opener: &Opener<impl KeySource>,
        sync: bool,
        tell: impl FnOnce(Past),
        progress: &dyn Progress,
    ) -> Result<u64> {
        let Source::File(_, stamp) = source else { return Err(not_a_file()) };
        let (shared, begun) = self.begin(stamp, output, recipients, opener, sync)?;
        let (output, file) = (&*output, output.file());
        let layout = shared.header().layout_for_plaintext(stamp.len())?;
        let (mut missing, mut from) = (iter::once(0..layout.chunks()).collect::<Vec<_>>(), 0);
        match begun {
            Begun::Left { synced } => {
                from = synced;
                let partial = Partial::Protected(file);
                missing = shared.missing(roster, &layout, partial, synced..layout.chunks(), progress)?;
                let all = layout.plaintext_len();
                tell(Past::Continued { done: all - bytes(&layout, &missing), all });
            }
            Begun::Anew(past) => tell(past),
            Begun::New => {}
        }
        let marks = Marks::new(shared.recorder(Kind::Protected, stamp, file)?, output, from, &missing, layout.chunks());
        let seal =
            |progress: &dyn Progress| shared.seal(roster, source, sink(file, sync), Some(missing.clone()), progress);
        match sync {
            true => marks.keep(|| seal(&Noting { marks: &marks, progress }))?,
            false => seal(progress)?,
        };
        Ok(stamp.len())
    }

    /// Begins to protect a regular file into an [`Output::resume`]: the header is there afterwards. The file has this stamp.
    /// `opener` opens the header of an interrupted run: it has the keys and passwords of the recipients.
    ///
    /// # Errors
    /// If reading or writing failed, or the file is too long for its suite.
    pub fn begin(
        self,
        stamp: Stamp,
        output: &mut Output,
        recipients: &[Recipient],
        opener: &Opener<impl KeySource>,
        sync: bool,
    ) -> Result<(SharedFile, Begun)> {
        check(output, sync)?;
        let past = if output.is_begun() { self.past(output, &stamp, recipients, opener)? } else { Err(None) };
        match past {
            Ok((header, keys, synced)) => {
                let layout = header.layout_for_plaintext(stamp.len())?;
                // What lies behind its end is nobody's.
                let file = output.file();
                if file.metadata().map_err(Error::Write)?.len() > layout.file_len() {
                    file.set_len(layout.file_len()).map_err(Error::Write)?;
                }
                Ok((SharedFile::new(header, keys), Begun::Left { synced: synced.min(layout.chunks()) }))
            }
            Err(past) => {
                if output.is_begun() {
                    output.start_over()?;
                }
                let (header, keys) = self.fitted(stamp.len())?;
                let file = output.file();
                file.write_all_at(header.bytes(), 0).and_then(|()| file.sync_all()).map_err(Error::Write)?;
                let shared = SharedFile::new(header, keys);
                let record = shared.recorder(Kind::Protected, stamp, file)?.first();
                output.write_record(&record)?;
                output.keep();
                Ok((shared, past.map_or(Begun::New, Begun::Anew)))
            }
        }
    }

    /// What an interrupted run has left in an output, if this one can go on with it; or else what became of it. Without a
    /// record nobody knows what it is. The number is that of the first chunks which are on the disk.
    fn past(
        &self,
        output: &Output,
        stamp: &Stamp,
        recipients: &[Recipient],
        opener: &Opener<impl KeySource>,
    ) -> Result<std::result::Result<(Header, FileKeys, u64), Option<Past>>> {
        let different = Ok(Err(Some(Past::Different)));
        let Some(found) = output.record() else { return Ok(Err(None)) };
        // Suite 4 allows no chunk to be written twice.
        if self.is_written_once() {
            return different;
        }
        let (header, opened) = match Source::file(output.file()).and_then(|mut source| source.open(opener)) {
            Ok(opened) => opened,
            Err(Error::Read(e)) => return Err(Error::Write(e)),
            // Whatever it is, it can be done anew.
            Err(_) => return different,
        };
        let keys = opened.keys;
        let (kind, stamp) = (Kind::Protected, *stamp);
        let recorder =
            Recorder { kind, stamp, output: Identity::new(kind, output.file())?, header: &header, keys: &keys };
        let synced = match recorder.read(&found) {
            Found::Synced(synced) => synced,
            Found::Changed => return Ok(Err(Some(Past::Changed))),
            Found::Different => return different,
        };
        let is_same = self.has_shape_of(&header) && gives_to(&header, &keys, recipients, opener)?;
        if is_same { Ok(Ok((header, keys, synced))) } else { different }
    }
}

impl ProtectedFile<'_> {
    /// Writes the plaintext to an [`Output::resume`], and goes on with what an interrupted run has left there; `tell` is told of
    /// it. Returns the plaintext's length in bytes.
    ///
    /// # Errors
    /// Those of [`ProtectedFile::unprotect`]. What is done stays in the output, for a later run.
    pub fn unprotect_resumably(
        self,
        roster: &Roster,
        output: &mut Output,
        sync: bool,
        tell: impl FnOnce(Past),
        progress: &dyn Progress,
    ) -> Result<u64> {
        let Source::File(protected, stamp) = *self.source() else { return Err(not_a_file()) };
        let source = Source::File(protected, stamp);
        let shared = self.shared();
        // If its length cannot be right, opening it says why.
        let layout = shared.header().layout_for_file(stamp.len()).ok();
        let Some(layout) = layout else {
            return shared.open(roster, source, sink(output.file(), sync), None, progress);
        };
        let (mut missing, mut from) = (iter::once(0..layout.chunks()).collect::<Vec<_>>(), 0);
        let begun = shared.begin(stamp, output, sync)?;
        let (output, file) = (&*output, output.file());
        match begun {
            Begun::Left { synced } => {
                from = synced;
                let partial = Partial::Plaintext { output: file, protected };
                missing = shared.missing(roster, &layout, partial, synced..layout.chunks(), progress)?;
                let all = layout.plaintext_len();
                match all - bytes(&layout, &missing) {
                    0 => file.set_len(0).map_err(Error::Write)?,
                    done => tell(Past::Continued { done, all }),
                }
            }
            Begun::Anew(past) => tell(past),
            Begun::New => {}
        }
        let marks = Marks::new(shared.recorder(Kind::Plaintext, stamp, file)?, output, from, &missing, layout.chunks());
        let open =
            |progress: &dyn Progress| shared.open(roster, source, sink(file, sync), Some(missing.clone()), progress);
        match sync {
            true => marks.keep(|| open(&Noting { marks: &marks, progress }))?,
            false => open(progress)?,
        };
        file.set_len(layout.plaintext_len()).map_err(Error::Write)?;
        Ok(layout.plaintext_len())
    }
}

impl ProtectedFile<'_> {
    /// Whether it is for these recipients and for nobody else. `opener` has their keys and passwords.
    ///
    /// # Errors
    /// If one of its slots cannot be tried.
    pub fn is_for(&self, recipients: &[Recipient], opener: &Opener<impl KeySource>) -> Result<bool> {
        gives_to(self.header(), self.keys(), recipients, opener)
    }
}

impl SharedFile {
    /// Begins to unprotect this file, which has a stamp, into an [`Output::resume`]. What is there is gone on with only if its
    /// record proves that a run has made it: nobody else can have opened it then. Otherwise another file is begun.
    ///
    /// # Errors
    /// If what an interrupted run has left cannot be synced or removed, or the record cannot be written.
    pub fn begin(&self, stamp: Stamp, output: &mut Output, sync: bool) -> Result<Begun> {
        check(output, sync)?;
        let recorder = self.recorder(Kind::Plaintext, stamp, output.file())?;
        let found = output.record().filter(|_| recorder.output.is_unique).map(|record| recorder.read(&record));
        match found {
            Some(Found::Synced(synced)) => return Ok(Begun::Left { synced }),
            // Chunk by chunk, what is there may still be right.
            Some(Found::Changed) => {
                output.update_record(&recorder.first(), 0)?;
                return Ok(Begun::Left { synced: 0 });
            }
            Some(Found::Different) | None => {}
        }
        let mut begun = Begun::New;
        if output.is_begun() {
            // A run that was killed at its very beginning leaves an empty file.
            if output.file().metadata().map_err(Error::Write)?.len() > 0 {
                begun = Begun::Anew(Past::Unproven);
            }
            output.start_over()?;
        }
        let record = self.recorder(Kind::Plaintext, stamp, output.file())?.first();
        output.write_record(&record)?;
        output.keep();
        Ok(begun)
    }

    /// Notes in the record of an output, which has been begun for an input with this stamp, that its first chunks are on the
    /// disk. Each call notes more of them than the one before it; `turn` counts the calls.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn note_synced(
        &self,
        output: &Output,
        stamp: Stamp,
        is_protecting: bool,
        synced: u64,
        turn: u64,
    ) -> Result<()> {
        let kind = if is_protecting { Kind::Protected } else { Kind::Plaintext };
        self.recorder(kind, stamp, output.file())?.note(output, synced, turn)
    }
}

/// What an interrupted run has written may be lost, and only a sync says so.
fn check(output: &Output, sync: bool) -> Result<()> {
    if output.is_begun() && sync { output.sync_kept() } else { Ok(()) }
}

/// Whether a header gives its file to these recipients and to nobody else.
fn gives_to(
    header: &Header,
    keys: &FileKeys,
    recipients: &[Recipient],
    opener: &Opener<impl KeySource>,
) -> Result<bool> {
    let slots = || header.slots().iter().enumerate().filter(|(_, slot)| !matches!(slot, Slot::Padding(_)));
    if slots().count() != recipients.len() {
        return Ok(false);
    }
    // Each slot is somebody else's.
    let mut left: Vec<&Recipient> = recipients.iter().collect();
    for (place, slot) in slots() {
        let is_its = |recipient: &&Recipient| match (recipient, slot) {
            (Recipient::Key { id: its, .. }, Slot::Key { id, .. }) => its == id,
            (Recipient::Password { .. }, Slot::Password { .. }) => true,
            (Recipient::Age(recipient), Slot::Age { tag, .. }) => keys.recipient_tag(recipient.text()) == *tag,
            _ => false,
        };
        let Some(found) = left.iter().position(is_its) else { return Ok(false) };
        let recipient = left.swap_remove(found);
        if !matches!(recipient, Recipient::Age(_)) && !opens(opener, header, place)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn opens(opener: &Opener<impl KeySource>, header: &Header, place: usize) -> Result<bool> {
    match opener.open_slot(header, |slot| slot == place) {
        Ok(_) => Ok(true),
        Err(Error::NoKey { .. } | Error::WrongKey | Error::KeysRefused { .. } | Error::KdfLimit(_)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Frees what is missing of a plaintext in an output: blocks of zeros are not written, and must not show what was there before.
pub(crate) fn clear(file: &File, layout: &Layout, missing: &[Range<u64>]) -> io::Result<()> {
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
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(file, how, start, end - start).is_err() {
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

fn sink(file: &File, sync: bool) -> Sink<'_> {
    if sync { Sink::Synced(file) } else { Sink::File(file) }
}

fn not_a_file() -> Error {
    Error::Read(Obstacle::NotRegular.into())
}
