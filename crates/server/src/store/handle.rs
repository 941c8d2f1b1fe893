//! The thread of a store, and passing work to it.

use super::{Copies, Error, Result, Store, Transaction};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use tokio::sync::oneshot;

/// The most pieces of work that wait for the store.
const WAITING: usize = 4096;
/// The most pieces of work in one transaction.
const TOGETHER: usize = 512;
/// The most pieces that may refuse to run before each of the others gets a transaction of its own.
const REFUSALS: usize = 8;

/// A piece of work. It may run again, after a conflict or after another piece has failed.
type Work = Box<dyn FnMut(&mut dyn Transaction) -> Result<()> + Send>;
/// Called when it is known whether the work is on the disk.
type Done = Box<dyn FnOnce(Result<()>) + Send>;

/// Work on the store outside of a transaction.
type Alone = Box<dyn FnOnce(&mut dyn Store) + Send>;

enum Piece {
    Work(Work, Done),
    Alone(Alone),
    Close(oneshot::Sender<Result<()>>),
}

/// A store on its own thread.
pub struct Stored {
    pieces: Option<SyncSender<Piece>>,
    thread: Option<JoinHandle<()>>,
    is_shared: bool,
}

/// Waits until the store has done what was passed to it, and is closed.
impl Drop for Stored {
    fn drop(&mut self) {
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Stored {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn new(store: impl Store + 'static) -> io::Result<Self> {
        let (pieces, waiting) = sync_channel(WAITING);
        let is_shared = store.is_shared();
        let thread = thread::Builder::new().name("store".into()).spawn(move || serve(Box::new(store), &waiting))?;
        Ok(Self { pieces: Some(pieces), thread: Some(thread), is_shared })
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
        if matches!(result, Err(Error::Failed(_) | Error::Full | Error::Unavailable(_))) {
            crate::metrics::STORE_FAILURES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        result
    }

    /// Whether other servers change the store too.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Leaves as little as possible of what was deleted.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub async fn scrub(&self) -> Result<()> {
        self.alone(|store| store.scrub()).await
    }

    /// Does what was passed before, scrubs the store and closes it: its log is merged then. Work that is passed later fails.
    ///
    /// # Errors
    /// Those of [`Stored::scrub`].
    pub async fn close(&self) -> Result<()> {
        let pieces = self.pieces.clone().ok_or_else(ended)?;
        let (sender, answer) = oneshot::channel();
        // There may be no place for it at first.
        let passed = tokio::task::spawn_blocking(move || pieces.send(Piece::Close(sender)));
        passed.await.map_err(|_| ended())?.map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Writes a copy of everything to two new files. Other work on the store waits for it.
    ///
    /// # Errors
    /// Those of [`Store::copy`].
    pub async fn copy(&self, to: Copies) -> Result<()> {
        self.alone(move |store| store.copy(&to)).await
    }

    /// Finds damage of the store's own structure. Other work on the store waits for it.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub async fn damage(&self) -> Result<Vec<String>> {
        self.alone(|store| store.damage()).await
    }

    async fn alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, answer) = oneshot::channel();
        self.pass(Piece::Alone(Box::new(move |store| drop(sender.send(work(store))))))?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    fn pass(&self, piece: Piece) -> Result<()> {
        use std::sync::mpsc::TrySendError::{Disconnected, Full};
        self.pieces.as_ref().ok_or_else(ended)?.try_send(piece).map_err(|error| match error {
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
        let (mut after, mut closing) = (Vec::new(), None);
        while let Some(piece) = next {
            match piece {
                Piece::Work(work, done) => together.push((work, done)),
                Piece::Alone(work) => after.push(work),
                Piece::Close(done) => closing = Some(done),
            }
            next = if together.len() < TOGETHER && closing.is_none() { waiting.try_recv().ok() } else { None };
        }
        transact(store.as_mut(), together);
        for work in after {
            // The caller learns of a panic because no answer comes.
            let _ = catch_unwind(AssertUnwindSafe(|| work(store.as_mut())));
        }
        if let Some(done) = closing {
            let scrubbed = store.scrub();
            drop(store);
            let _ = done.send(scrubbed);
            return;
        }
    }
}

/// Runs pieces in one transaction, without those that refuse to run. These then run in transactions of their own, as all
/// do if the store fails.
fn transact(store: &mut dyn Store, mut together: Vec<(Work, Done)>) {
    let mut alone = Vec::new();
    while together.len() > 1 && alone.len() < REFUSALS {
        let mut at = 0;
        let all = run(store, &mut |transaction| {
            at = 0;
            together.iter_mut().try_for_each(|(work, _)| work(transaction).inspect(|()| at += 1))
        });
        match all {
            Ok(()) => {
                together.drain(..).for_each(|(_, done)| done(Ok(())));
            }
            // It refuses perhaps only because of what another one did, so that it is asked again.
            Err(Error::Refused(_)) if at < together.len() => alone.push(together.remove(at)),
            // None of them could do anything, or it is not known whether all of them have.
            Err(Error::Unavailable(why)) => {
                for (_, done) in together.drain(..).chain(alone.drain(..)) {
                    done(Err(Error::Unavailable(why.clone())));
                }
            }
            Err(_) => break,
        }
    }
    for (mut work, done) in together.into_iter().chain(alone) {
        done(run(store, &mut *work));
    }
}

/// Runs work in one transaction. A panic is a failure of this work: its changes are gone, and the store goes on.
fn run(store: &mut dyn Store, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(|| store.transaction(work))).unwrap_or_else(|_| Err(Error::Failed("a panic".into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Sqlite;
    use std::sync::Arc;

    /// Work that makes a bucket, and then panics if its number can be divided by three.
    async fn put(stored: Arc<Stored>, bucket: u16) -> bool {
        let work = move |transaction: &mut dyn Transaction| {
            transaction.put_bucket(&[7; 16], bucket, b"sealed")?;
            assert!(!bucket.is_multiple_of(3), "an error in the program");
            Ok(())
        };
        stored.run(work).await.is_ok()
    }

    #[tokio::test]
    async fn work_that_panics_fails_alone_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let stored = Arc::new(Stored::new(Sqlite::create(&folder.path().join("db")).unwrap()).unwrap());
        // This holds the thread until the others wait, so that they share a transaction.
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let held = tokio::spawn({
            let stored = stored.clone();
            async move { stored.alone(move |_| Ok(gate.recv().is_ok())).await }
        });
        let waiting: Vec<_> = (1..=6).map(|bucket| tokio::spawn(put(stored.clone(), bucket))).collect();
        tokio::task::yield_now().await;
        drop(open);
        held.await.unwrap().unwrap();
        let mut done = Vec::new();
        for work in waiting {
            done.push(work.await.unwrap());
        }
        assert_eq!(done, [true, true, false, true, true, false]);
        let panics = stored.alone(|_| -> Result<()> { panic!("an error in the program") }).await;
        assert!(matches!(panics, Err(Error::Failed(_))));
        assert!(put(stored.clone(), 7).await);
        assert_eq!(stored.run(|transaction| transaction.buckets(&[7; 16])).await.unwrap(), [1, 2, 4, 5, 7]);
    }
}
