//! Going on with the output of an interrupted run: `docs/format.md`, section 11.

use crate::file::input::Stamp;
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
use std::ops::Range;
use std::os::unix::fs::FileExt;
use subtle::ConstantTimeEq;

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
}

const TAG: usize = 32;
/// The length of a record in bytes.
const RECORD: usize = 16 + 6 * 8 + TAG;
const MAGIC: [u8; 16] = *b"PHXRESUM\x01\0\0\0\0\0\0\0";

/// The record of an input, under the file's key.
fn record(stamp: &Stamp, header: &Header, keys: &FileKeys) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    let (body, tag) = record.split_at_mut(RECORD - TAG);
    let (magic, fields) = body.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    for (place, field) in fields.as_chunks_mut::<8>().0.iter_mut().zip(stamp.fields()) {
        *place = field.to_le_bytes();
    }
    tag.copy_from_slice(&keys.record_tag(body, header.bytes()));
    record
}

/// How a run begins that may go on with an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Nothing was there.
    New,
    /// What was there is of no use, and is gone.
    Anew(Past),
    /// Part of it was done. Which chunks shows by their tags.
    Left,
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
        output: &Output,
        recipients: &[Recipient],
        opener: &Opener<impl KeySource>,
        sync: bool,
        tell: impl FnOnce(Past),
        progress: &dyn Progress,
    ) -> Result<u64> {
        let Source::File(_, stamp) = source else { return Err(not_a_file()) };
        let file = output.file();
        let (shared, begun) = self.begin(stamp, output, recipients, opener, sync)?;
        let runs = match begun {
            Begun::Left => {
                let layout = shared.header().layout_for_plaintext(stamp.len())?;
                let missing =
                    shared.missing(roster, &layout, Partial::Protected(file), 0..layout.chunks(), progress)?;
                let all = layout.plaintext_len();
                tell(Past::Continued { done: all - bytes(&layout, &missing), all });
                Some(missing)
            }
            Begun::Anew(past) => {
                tell(past);
                None
            }
            Begun::New => None,
        };
        shared.seal(roster, source, sink(file, sync), runs, progress)?;
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
        output: &Output,
        recipients: &[Recipient],
        opener: &Opener<impl KeySource>,
        sync: bool,
    ) -> Result<(SharedFile, Begun)> {
        let file = output.file();
        check(output, sync)?;
        let past = if output.is_begun() { self.past(output, &stamp, recipients, opener)? } else { Err(None) };
        match past {
            Ok((header, keys)) => {
                let layout = header.layout_for_plaintext(stamp.len())?;
                // What lies behind its end is nobody's.
                if file.metadata().map_err(Error::Write)?.len() > layout.file_len() {
                    file.set_len(layout.file_len()).map_err(Error::Write)?;
                }
                Ok((SharedFile::new(header, keys), Begun::Left))
            }
            Err(past) => {
                let (header, keys) = self.fitted(stamp.len())?;
                file.set_len(0).and_then(|()| file.write_all_at(header.bytes(), 0)).map_err(Error::Write)?;
                file.sync_all().map_err(Error::Write)?;
                output.write_record(&record(&stamp, &header, &keys))?;
                output.keep();
                Ok((SharedFile::new(header, keys), past.map_or(Begun::New, Begun::Anew)))
            }
        }
    }

    /// What an interrupted run has left in an output, if this one can go on with it; or else what became of it. Without a
    /// record nobody knows what it is.
    fn past(
        &self,
        output: &Output,
        stamp: &Stamp,
        recipients: &[Recipient],
        opener: &Opener<impl KeySource>,
    ) -> Result<std::result::Result<(Header, FileKeys), Option<Past>>> {
        let different = Ok(Err(Some(Past::Different)));
        let Some(found) = output.record::<RECORD>() else { return Ok(Err(None)) };
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
        let (body, tag) = found.split_at(RECORD - TAG);
        let is_authentic: bool = keys.record_tag(body, header.bytes()).ct_eq(tag).into();
        if !is_authentic || !body.starts_with(&MAGIC) {
            return different;
        }
        if found != record(stamp, &header, &keys) {
            return Ok(Err(Some(Past::Changed)));
        }
        let is_same = self.has_shape_of(&header) && gives_to(&header, &keys, recipients, opener)?;
        if is_same { Ok(Ok((header, keys))) } else { different }
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
        output: &Output,
        sync: bool,
        tell: impl FnOnce(Past),
        progress: &dyn Progress,
    ) -> Result<u64> {
        let Source::File(protected, stamp) = *self.source() else { return Err(not_a_file()) };
        let source = Source::File(protected, stamp);
        let (shared, file) = (self.shared(), output.file());
        // If its length cannot be right, opening it says why.
        let layout = shared.header().layout_for_file(stamp.len()).ok();
        let begun = if layout.is_some() { shared.begin(output, sync)? } else { Begun::New };
        let runs = match layout {
            Some(layout) if begun == Begun::Left => {
                let partial = Partial::Plaintext { output: file, protected };
                let missing = shared.missing(roster, &layout, partial, 0..layout.chunks(), progress)?;
                let all = layout.plaintext_len();
                match all - bytes(&layout, &missing) {
                    0 => file.set_len(0).map_err(Error::Write)?,
                    done => tell(Past::Continued { done, all }),
                }
                Some(missing)
            }
            _ => None,
        };
        shared.open(roster, source, sink(file, sync), runs, progress)?;
        let len = shared.header().layout_for_file(stamp.len())?.plaintext_len();
        file.set_len(len).map_err(Error::Write)?;
        Ok(len)
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
    /// Begins to unprotect this file into an [`Output::resume`].
    ///
    /// # Errors
    /// If what an interrupted run has left cannot be synced.
    pub fn begin(&self, output: &Output, sync: bool) -> Result<Begun> {
        check(output, sync)?;
        if output.is_begun() {
            return Ok(Begun::Left);
        }
        output.keep();
        Ok(Begun::New)
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
    Error::Read(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}
