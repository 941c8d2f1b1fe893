//! Going on with an upload that an interrupted run has left.

use crate::file::ends::Input;
use crate::file::objects::{OutputObject, Plan};
use crate::file::regular::Regular;
use crate::file::resume::Past;
use crate::{Error, Result};
use phalanx_core::file::SharedFile;
use phalanx_core::format::Layout;
use phalanx_core::{KeySource, NewFile, Opener, Progress, ProtectedFile, Recipient, Roster, Sink, Source, Suite};
use std::io;
use std::ops::Range;

/// A part has about this many bytes, or more if there would be too many parts.
const PART: u64 = 8 << 20;

/// The most parts that a store takes.
const PARTS: u64 = 10_000;

/// A run that protects an input into an object, and leaves what it has sent if it is interrupted.
pub struct ResumableUpload<'a> {
    /// The engines.
    pub roster: &'a Roster,
    /// The object.
    pub object: &'a dyn OutputObject,
    /// Receives the progress.
    pub progress: &'a dyn Progress,
}

impl ResumableUpload<'_> {
    /// Protects an input of known length, and goes on with what an interrupted run for the same recipients has sent. If
    /// there was something, it calls `tell` with what happened to that. `opener` opens the header of that run: it has the
    /// keys and passwords of the recipients. Returns the plaintext's length in bytes.
    ///
    /// # Errors
    /// Those of [`NewFile::protect`]. What was sent stays, for a later run.
    pub fn protect(
        self,
        new: NewFile,
        input: &Input,
        recipients: &[Recipient],
        opener: &Opener<impl KeySource>,
        tell: impl FnOnce(Past),
    ) -> Result<u64> {
        let len = input.len().ok_or_else(|| Error::read(io::ErrorKind::Unsupported))?;
        let version = version(input);
        let (shared, missing) = match self.left(&new, &version, recipients, opener)? {
            Ok((shared, left)) => {
                self.object.go_on().map_err(Error::write)?;
                let layout = shared.header().layout_for_plaintext(len)?;
                let missing = missing(&left.0, &layout, &left.1);
                let to_do: u64 = missing.iter().map(|run| plaintext(&layout, run)).sum();
                self.progress.advance(len - to_do);
                tell(Past::Continued { done: len - to_do, all: len });
                (shared, Some(missing))
            }
            Err(past) => {
                if let Some(past) = past {
                    tell(past);
                }
                let shared = new.shared(Some(len))?;
                self.object.begin(plan(&shared, version, len)?).map_err(Error::write)?;
                (shared, None)
            }
        };
        let from = missing.as_ref().and_then(|missing| missing.first()).map_or(0, |run| run.start);
        let source = match input {
            Input::Object(object) => Source::ranged(object.ahead(from * shared.chunk_size().bytes() as u64)),
            // What has changed since its version was taken does not go into one object with what was sent before.
            Input::File(file) if len > 0 => Source::ranged(Regular { file: file.file(), stamp: file.stamp() }),
            Input::File(_) | Input::Stream(_) => input.source()?,
        };
        shared.seal(self.roster, source, Sink::ranged(self.object), missing, self.progress)?;
        Ok(len)
    }

    /// The file that an interrupted run has begun, if this one can go on with it, how it was cut, and which of its parts
    /// are done. Otherwise, what happened to it.
    #[expect(clippy::type_complexity, reason = "it is taken apart at once")]
    fn left(
        &self,
        new: &NewFile,
        version: &str,
        recipients: &[Recipient],
        opener: &Opener<impl KeySource>,
    ) -> Result<std::result::Result<(SharedFile, (Plan, Vec<u64>)), Option<Past>>> {
        let Some(left) = self.object.left() else { return Ok(Err(None)) };
        let different = Ok(Err(Some(Past::Different)));
        // Suite 4 allows no chunk to be sealed twice.
        if new.suite() == Suite::Aes256Gcm {
            return different;
        }
        // Whatever the error is, everything can be done again.
        let Ok(opened) = ProtectedFile::open(Source::ranged(&left.plan.header[..]), opener) else { return different };
        let shared = opened.shared();
        if left.plan.input != version {
            return Ok(Err(Some(Past::Changed)));
        }
        let has_its_shape = (shared.suite(), shared.chunk_size()) == (new.suite(), new.chunk_size());
        match has_its_shape && shared.is_for(recipients, opener)? {
            true => Ok(Ok((shared, (left.plan, left.done)))),
            false => different,
        }
    }
}

/// What identifies the content of an input.
fn version(input: &Input) -> String {
    match (input.object(), input.stamp()) {
        (Some(object), _) => object.version(),
        (None, Some(stamp)) => stamp.fields().map(|field| field.to_string()).join(" "),
        (None, None) => String::new(),
    }
}

/// How the protected file of a plaintext is cut.
fn plan(shared: &SharedFile, input: String, len: u64) -> Result<Plan> {
    let layout = shared.header().layout_for_plaintext(len)?;
    let record = shared.chunk_size().bytes() as u64 + shared.suite().overhead() as u64;
    let least = PART.max(layout.file_len().div_ceil(PARTS - 1));
    let header = shared.header().bytes().to_vec();
    Ok(Plan { input, header, chunks: least.div_ceil(record), record, len: layout.file_len() })
}

/// The chunks of the parts that are not done.
fn missing(plan: &Plan, layout: &Layout, done: &[u64]) -> Vec<Range<u64>> {
    let mut missing: Vec<Range<u64>> = Vec::new();
    for part in (0..plan.parts()).filter(|part| done.binary_search(part).is_err()) {
        let run = part * plan.chunks..((part + 1) * plan.chunks).min(layout.chunks());
        match missing.last_mut().filter(|last| last.end == run.start) {
            Some(last) => last.end = run.end,
            None => missing.push(run),
        }
    }
    missing
}

/// How many bytes of plaintext a run of chunks has.
fn plaintext(layout: &Layout, run: &Range<u64>) -> u64 {
    let last = run.end - 1;
    layout.plaintext_offset(last) + layout.data_len(last) as u64 - layout.plaintext_offset(run.start)
}
