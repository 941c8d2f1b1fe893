//! Protecting a file again, under a new file key. It is opened and sealed at the same time, and the plaintext stays in
//! memory.

use crate::file::protected::{NewFile, ProtectedFile};
use crate::file::source::{Progress, Sink, Source};
use crate::roster::Roster;
use crate::{Error, Result};
use std::io::{self, Read, Write};
use std::panic;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use zeroize::Zeroizing;

/// The most pieces that wait between opening and sealing, and the longest piece in bytes.
const PIECES: usize = 4;
const PIECE: usize = 1 << 20;

/// The pieces of plaintext that go from opening to sealing. An empty piece marks the end.
type Piece = Zeroizing<Vec<u8>>;

impl ProtectedFile<'_> {
    /// Protects the plaintext again, as `new`, and writes that to `sink`. The new file key is independent of the old
    /// one. The plaintext goes through memory only. The first of `progress` hears of what is opened, the second of what is sealed.
    /// Returns the plaintext's length in bytes.
    ///
    /// # Errors
    /// Those of [`ProtectedFile::unprotect`] and [`NewFile::protect`]. What `sink` holds is then no protected file.
    pub fn protect_again(
        self,
        roster: &Roster,
        new: NewFile,
        sink: Sink<'_>,
        progress: [&dyn Progress; 2],
    ) -> Result<u64> {
        let [opening, sealing] = progress;
        let (to, from) = sync_channel(PIECES);
        thread::scope(|scope| {
            let open = move || {
                let opened = self.unprotect(roster, Sink::Stream(Box::new(Pour(to.clone()))), opening);
                if opened.is_ok() {
                    // If nothing receives it any more, sealing has failed.
                    let _ = to.send(Piece::default());
                }
                opened
            };
            let opened = thread::Builder::new().name("open".into()).spawn_scoped(scope, open);
            let opened = opened.map_err(|e| Error::Memory(format!("no more threads: {e}")))?;
            let draw = Draw { from, piece: Piece::default(), taken: 0, ended: false };
            let sealed = new.protect(roster, Source::stream(draw), sink, sealing);
            match opened.join().unwrap_or_else(|cause| panic::resume_unwind(cause)) {
                // Sealing failed first, and its error is the cause.
                Ok(_) | Err(Error::Write(_)) => sealed,
                Err(error) => Err(error),
            }
        })
    }
}

struct Pour(SyncSender<Piece>);

impl Write for Pour {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(PIECE);
        if len > 0 {
            let piece = Piece::new(bytes[..len].to_vec());
            self.0.send(piece).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Draw {
    from: Receiver<Piece>,
    piece: Piece,
    taken: usize,
    ended: bool,
}

impl Read for Draw {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() && !self.ended {
            // Without the empty piece, opening did not reach the end.
            self.piece = self.from.recv().map_err(|_| io::Error::other("the protected file could not be opened"))?;
            self.taken = 0;
            self.ended = self.piece.is_empty();
        }
        let len = buf.len().min(self.piece.len() - self.taken);
        buf[..len].copy_from_slice(&self.piece[self.taken..][..len]);
        self.taken += len;
        Ok(len)
    }
}
