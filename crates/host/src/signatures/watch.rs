//! Comparing a file with its signature while it is read: no chunk of another file is written.
//!
//! What is written to a stream cannot be taken back. So the tags that the signed text was made from are compared again, each when
//! its chunk is opened. If the file is exchanged meanwhile, the chunks before the first other one have been written: they are
//! signed, but the stream ends early.

use crate::file::{Input, Target};
use crate::{Error, Result};
use phalanx_core::tree::{Contents, Recorder, Signed, SignedText};
use phalanx_core::{ChunkHead, Progress};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes of a tag in all suites whose tags commit to the content. Whole tags are compared, so another suite, chunk size or
/// key would have to give the same tag, and a tag of suite 4, which anybody with the file key makes as they like, never fits.
const TAG: usize = 32;
/// Of more chunks the tags would take too much memory.
const MOST_CHUNKS: u64 = 1 << 25;

/// The tags of a file whose signature was checked before it is read.
pub struct Tags(Vec<[u8; TAG]>);

impl Tags {
    /// Reads a file's text and tags, if its output is one that cannot be taken back.
    ///
    /// # Errors
    /// If it cannot be read, or has too many chunks.
    pub fn read(input: &Input, target: &Target, signed: Signed) -> Result<Option<(Option<SignedText>, Self)>> {
        if !matches!(target, Target::Stream(_)) {
            return Ok(None);
        }
        if SignedText::chunks(&input.read_at()?)? > MOST_CHUNKS {
            let why = "it has too many chunks to be compared with its signature on the way to standard output";
            return Err(Error::read(io::Error::new(io::ErrorKind::FileTooLarge, why)));
        }
        let (mut tags, mut others) = (Vec::new(), false);
        let text = SignedText::read(&input.read_at()?, signed, |head| match whole(head) {
            Some(tag) => tags.push(tag),
            None => others = true,
        })?;
        // Suite 4 has no text, so that its tags are never compared.
        let text = text.filter(|_| !others);
        Ok(Some((text, Self(tags))))
    }
}

/// A tag of a suite whose tags commit to the content; `None` in suite 4.
fn whole(head: &ChunkHead<'_>) -> Option<[u8; TAG]> {
    head.tag.try_into().ok()
}

/// Records a file's contents, and ends the work at a chunk that is not the one whose tag was read before.
pub struct Watch<'a> {
    recorder: Recorder<'a>,
    tags: Option<&'a Tags>,
    is_other: AtomicBool,
}

impl<'a> Watch<'a> {
    /// Passes progress on to `progress`.
    pub fn new(progress: &'a dyn Progress, tags: Option<&'a Tags>) -> Self {
        Self { recorder: Recorder::new(progress), tags, is_other: AtomicBool::new(false) }
    }

    /// Whether another file was read than the one whose tags were.
    pub fn is_other(&self) -> bool {
        self.is_other.load(Ordering::Relaxed)
    }

    /// The contents; `None` if not all chunks were sealed or opened in this run.
    pub fn contents(self) -> Option<Contents> {
        self.recorder.contents()
    }
}

impl Progress for Watch<'_> {
    fn advance(&self, bytes: u64) {
        self.recorder.advance(bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.is_other() || self.recorder.is_cancelled()
    }

    fn written(&self, chunks: Range<u64>) {
        self.recorder.written(chunks);
    }

    fn record(&self, head: &ChunkHead<'_>) {
        let Some(Tags(tags)) = self.tags else { return self.recorder.record(head) };
        let place = usize::try_from(head.index).ok().and_then(|index| tags.get(index));
        let is_same =
            place.is_some() && place == whole(head).as_ref() && head.is_last == (head.index + 1 == tags.len() as u64);
        match is_same {
            true => self.recorder.record(head),
            false => self.is_other.store(true, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(index: u64, is_last: bool, tag: &[u8]) -> ChunkHead<'_> {
        ChunkHead { index, is_last, nonce: &[0; 16], tag }
    }

    #[test]
    fn a_file_that_is_exchanged_is_not_written_on() {
        let tags = Tags(vec![[1; TAG], [2; TAG]]);
        let is_other = |heads: &[ChunkHead<'_>]| {
            let watch = Watch::new(&(), Some(&tags));
            heads.iter().for_each(|head| watch.record(head));
            assert_eq!(watch.is_cancelled(), watch.is_other());
            watch.is_other()
        };
        assert!(!is_other(&[head(1, true, &[2; 32]), head(0, false, &[1; 32])]));
        // A file in suite 4, whose tags were made equal to the first bytes of these.
        assert!(is_other(&[head(0, false, &[1; 16])]));
        assert!(is_other(&[head(0, false, &[[1; 31].as_slice(), &[0]].concat())]));
        // Another tag, another order, an end that comes earlier or later, and chunks behind the end.
        assert!(is_other(&[head(0, false, &[3; 32])]));
        assert!(is_other(&[head(1, true, &[1; 32])]));
        assert!(is_other(&[head(0, true, &[1; 32])]));
        assert!(is_other(&[head(1, false, &[2; 32])]));
        assert!(is_other(&[head(2, true, &[2; 32])]));
    }
}
