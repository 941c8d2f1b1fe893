//! The thread of a store, and passing work to it.

use super::{Copies, Error, Result, Store, Transaction};
use crate::refusal::{Kind, Refusal};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The most pieces of work that wait for the store, but for those of [`Stored::run_next`].
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
    /// What comes before all that waits.
    Next(Work, Done),
    Alone(Alone),
    Close(oneshot::Sender<Result<()>>),
}

/// A piece, and its place among those that wait.
type Placed = (Piece, Option<OwnedSemaphorePermit>);

/// A store on its own thread.
pub struct Stored {
    pieces: Option<Sender<Placed>>,
    places: Arc<Semaphore>,
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
        let (pieces, waiting) = channel();
        let is_shared = store.is_shared();
        let thread = thread::Builder::new().name("store".into()).spawn(move || serve(Box::new(store), &waiting))?;
        let places = Arc::new(Semaphore::new(WAITING));
        Ok(Self { pieces: Some(pieces), places, thread: Some(thread), is_shared })
    }

    /// Runs work in a transaction, and returns its result when the changes are on the disk.
    ///
    /// # Errors
    /// Those of the work, and [`Error::Failed`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut dyn Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_as(Piece::Work, work).await
    }

    /// Does the same before all that waits, however much that is. For work that comes one after another.
    ///
    /// # Errors
    /// Those of the work, and [`Error::Failed`].
    pub async fn run_next<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut dyn Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_as(Piece::Next, work).await
    }

    async fn run_as<T: Send + 'static>(
        &self,
        kind: fn(Work, Done) -> Piece,
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
        self.pass(kind(work, done))?;
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
        let (sender, answer) = oneshot::channel();
        self.pass(Piece::Close(sender))?;
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
        let busy = |_| Refusal::new(Kind::Busy, "the store has too much to do");
        let place = match piece {
            Piece::Work(..) | Piece::Alone(_) => Some(self.places.clone().try_acquire_owned().map_err(busy)?),
            Piece::Next(..) | Piece::Close(_) => None,
        };
        self.pieces.as_ref().ok_or_else(ended)?.send((piece, place)).map_err(|_| ended())
    }
}

fn ended() -> Error {
    Error::Failed("its thread has ended".into())
}

/// Takes in what has come. Waits for something if there is nothing. Returns whether there is something to do.
fn take_in(queue: &mut VecDeque<Placed>, from: &Receiver<Placed>) -> bool {
    let first = if queue.is_empty() { from.recv().ok() } else { None };
    for placed in first.into_iter().chain(from.try_iter()) {
        match placed.0 {
            Piece::Next(..) => queue.push_front(placed),
            _ => queue.push_back(placed),
        }
    }
    !queue.is_empty()
}

fn serve(mut store: Box<dyn Store>, waiting: &Receiver<Placed>) {
    let mut queue = VecDeque::new();
    while take_in(&mut queue, waiting) {
        let mut together = Vec::new();
        let (mut after, mut closing) = (Vec::new(), None);
        while together.len() < TOGETHER
            && closing.is_none()
            && let Some((piece, _place)) = queue.pop_front()
        {
            match piece {
                Piece::Work(work, done) | Piece::Next(work, done) => together.push((work, done)),
                Piece::Alone(work) => after.push(work),
                Piece::Close(done) => closing = Some(done),
            }
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
    use std::sync::{Arc, Mutex};

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
    async fn what_comes_next_has_a_place_before_all_that_waits() {
        let folder = tempfile::tempdir().unwrap();
        let stored = Arc::new(Stored::new(Sqlite::create(&folder.path().join("db")).unwrap()).unwrap());
        let ((open, gate), (tell, is_held)) = (channel::<()>(), oneshot::channel());
        let held = tokio::spawn({
            let stored = stored.clone();
            async move { stored.alone(move |_| Ok(tell.send(()).is_ok() && gate.recv().is_ok())).await }
        });
        is_held.await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let order = order.clone();
            move |_: &mut dyn Transaction| {
                order.lock().unwrap().push(what);
                Ok(())
            }
        };
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| {
                tokio::spawn({
                    let (stored, work) = (stored.clone(), note("another"));
                    async move { stored.run(work).await }
                })
            })
            .collect();
        while stored.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = stored.run(|_| Ok(())).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal { kind: Kind::Busy, .. }))));
        let next = tokio::spawn({
            let (stored, work) = (stored.clone(), note("next"));
            async move { stored.run_next(work).await }
        });
        tokio::task::yield_now().await;
        drop(open);
        held.await.unwrap().unwrap();
        next.await.unwrap().unwrap();
        for work in waiting {
            work.await.unwrap().unwrap();
        }
        let order = order.lock().unwrap();
        assert_eq!((order.len(), order[0]), (WAITING + 1, "next"));
        assert_eq!(stored.places.available_permits(), WAITING);
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
