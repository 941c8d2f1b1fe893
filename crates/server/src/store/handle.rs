//! The thread of a store, and passing work to it.

use super::{Error, Result, Store, Transaction};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use tokio::sync::oneshot;

/// The most pieces of work that wait for the store.
const WAITING: usize = 4096;
/// The most pieces of work in one transaction.
const TOGETHER: usize = 512;

/// A piece of work. It may run again, after a conflict or after another piece has failed.
type Work = Box<dyn FnMut(&mut dyn Transaction) -> Result<()> + Send>;
/// Called when it is known whether the work is on the disk.
type Done = Box<dyn FnOnce(Result<()>) + Send>;

enum Piece {
    Work(Work, Done),
    Scrub(oneshot::Sender<Result<()>>),
}

/// A store on its own thread.
pub struct Stored {
    pieces: SyncSender<Piece>,
}

impl Stored {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn new(store: impl Store + 'static) -> io::Result<Self> {
        let (pieces, waiting) = sync_channel(WAITING);
        thread::Builder::new().name("store".into()).spawn(move || serve(Box::new(store), &waiting))?;
        Ok(Self { pieces })
    }

    /// Runs work in a transaction, and returns its result when the changes are on the disk.
    ///
    /// # Errors
    /// Those of the work, and [`Error::Failed`].
    pub async fn run<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut dyn Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, answer) = oneshot::channel();
        let (give, result) = std::sync::mpsc::channel();
        let work: Work = Box::new(move |transaction| {
            let value = work(transaction)?;
            // Of several runs of the work, the last one counts.
            let _ = give.send(value);
            Ok(())
        });
        let done: Done = Box::new(move |outcome| {
            let value = outcome.and_then(|()| result.try_iter().last().ok_or_else(ended));
            let _ = sender.send(value);
        });
        self.pass(Piece::Work(work, done))?;
        let result = answer.await.unwrap_or_else(|_| Err(ended()));
        if matches!(result, Err(Error::Failed(_))) {
            crate::metrics::STORE_FAILURES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        result
    }

    /// Leaves as little as possible of what was deleted.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub async fn scrub(&self) -> Result<()> {
        let (sender, answer) = oneshot::channel();
        self.pass(Piece::Scrub(sender))?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    fn pass(&self, piece: Piece) -> Result<()> {
        use std::sync::mpsc::TrySendError::{Disconnected, Full};
        self.pieces.try_send(piece).map_err(|error| match error {
            Full(_) => crate::refusal::Refusal::new(crate::refusal::Kind::Busy, "the store has too much to do").into(),
            Disconnected(_) => ended(),
        })
    }
}

fn ended() -> Error {
    Error::Failed("its thread has ended".into())
}

fn serve(mut store: Box<dyn Store>, waiting: &Receiver<Piece>) {
    while let Ok(first) = waiting.recv() {
        let mut together = Vec::new();
        let mut next = Some(first);
        let mut scrubs = Vec::new();
        while let Some(piece) = next {
            match piece {
                Piece::Work(work, done) => together.push((work, done)),
                Piece::Scrub(done) => scrubs.push(done),
            }
            next = if together.len() < TOGETHER { waiting.try_recv().ok() } else { None };
        }
        transact(store.as_mut(), together);
        for done in scrubs {
            let _ = done.send(store.scrub());
        }
    }
}

/// Runs all pieces in one transaction. If one of them fails, each runs in a transaction of its own.
fn transact(store: &mut dyn Store, mut together: Vec<(Work, Done)>) {
    if together.len() > 1 {
        let all = store.transaction(&mut |transaction| together.iter_mut().try_for_each(|(work, _)| work(transaction)));
        if all.is_ok() {
            return together.into_iter().for_each(|(_, done)| done(Ok(())));
        }
    }
    for (mut work, done) in together {
        done(store.transaction(&mut *work));
    }
}
