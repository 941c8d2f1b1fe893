//! Sealing and opening on Phalanx's workers, never on the threads that speak to clients.
//!
//! A single item goes through a coalescer, which joins those of many requests. A batch of a request is sealed or opened
//! by a thread of the pool, which shares it among the workers of the engine that suits its size.

use crate::batch::{Batch, Single, not_authentic};
use crate::refusal::{Kind, Refusal};
use phalanx_core::batch::coalescer::{Coalescer, Failure, Limits};
use phalanx_core::engine::Op;
use phalanx_core::{Error, Suite, batch};
use phalanx_host::engines::Engines;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{io, thread};
use tokio::sync::oneshot;

/// The most batches that wait for a thread of the pool.
const WAITING: usize = 1024;

/// A longer single item is a batch of its own.
const SINGLE: usize = 64 << 10;

/// The workers.
pub struct Work {
    engines: Arc<Engines>,
    singles: Vec<OnceLock<Result<Coalescer, String>>>,
    pool: SyncSender<Piece>,
}

type Piece = (Batch, oneshot::Sender<Batch>);

impl Work {
    /// Starts the pool.
    ///
    /// # Errors
    /// If the system cannot start its threads.
    pub fn new(engines: Engines) -> io::Result<Self> {
        let engines = Arc::new(engines);
        let (pool, waiting) = sync_channel(WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..engines.threads {
            let (engines, waiting) = (engines.clone(), waiting.clone());
            thread::Builder::new().name("batches".into()).spawn(move || serve(&engines, &waiting))?;
        }
        Ok(Self { engines, singles: (0..2 * Suite::ALL.len()).map(|_| OnceLock::new()).collect(), pool })
    }

    /// Seals or opens all items that are not refused. What fails becomes the refusal of its items.
    ///
    /// # Errors
    /// If there is too much to do already.
    pub async fn run(&self, mut batch: Batch) -> Result<Batch, Refusal> {
        if let Some(single) = batch.single().filter(|single| single.bytes.len() <= SINGLE) {
            let result = self.single(batch.op(), single).await;
            batch.set_single(result.as_deref().map_err(Clone::clone));
            return Ok(batch);
        }
        if batch.suites().is_empty() {
            return Ok(batch);
        }
        let (sender, answer) = oneshot::channel();
        self.pool.try_send((batch, sender)).map_err(|error| match error {
            TrySendError::Full(_) => busy(),
            TrySendError::Disconnected(_) => ended(),
        })?;
        answer.await.map_err(|_| ended())
    }

    async fn single(&self, op: Op, item: Single<'_>) -> Result<batch::coalescer::Wiped, Refusal> {
        let number = Suite::ALL.iter().position(|suite| *suite == item.suite).unwrap_or_default();
        let coalescer = self.singles[2 * number + usize::from(op == Op::Open)].get_or_init(|| {
            let roster = self.engines.message_crew().roster;
            let new = if op == Op::Seal { Coalescer::to_seal } else { Coalescer::to_open };
            new(roster, item.suite, Limits::default()).map_err(|e| e.to_string())
        });
        let coalescer = coalescer.as_ref().map_err(|why| Refusal::failed(why.clone()))?;
        let key = (item.keys, item.user);
        let ticket = coalescer.try_submit(key, item.ad, item.bytes).map_err(|failure| refusal(&failure))?;
        ticket.await.map_err(|failure| refusal(&failure))
    }
}

fn refusal(failure: &Failure) -> Refusal {
    match failure {
        Failure::NotAuthentic => not_authentic(),
        Failure::Full => busy(),
        Failure::TooLong => Refusal::new(Kind::TooLarge, "the text is too long"),
        _ => Refusal::failed("an engine failed"),
    }
}

fn busy() -> Refusal {
    Refusal::new(Kind::Busy, "the server has too much to do")
}

fn ended() -> Refusal {
    Refusal::failed("a worker has ended")
}

fn serve(engines: &Engines, waiting: &Mutex<Receiver<Piece>>) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((mut batch, answer)) = next else { return };
        if !answer.is_closed() {
            survive(&mut batch, |batch| run(engines, batch));
            let _ = answer.send(batch);
        }
    }
}

/// Does work on a batch. A panic costs this batch, and not the thread.
fn survive(batch: &mut Batch, work: impl FnOnce(&mut Batch)) {
    if catch_unwind(AssertUnwindSafe(|| work(batch))).is_err() {
        batch.fail_all(&Refusal::failed("an engine failed"));
    }
}

/// Seals or opens a batch on this thread, and on others if that is worthwhile.
fn run(engines: &Engines, batch: &mut Batch) {
    let op = batch.op();
    for suite in batch.suites() {
        let roster = &engines.crew(op, suite, Some(batch.bytes() as u64)).roster;
        let (numbers, mut messages) = batch.messages(suite);
        let result = match op {
            Op::Seal => batch::seal(roster, suite, &mut messages),
            Op::Open => batch::open(roster, suite, &mut messages),
        };
        drop(messages);
        match result {
            Ok(()) => {}
            Err(Error::NotAuthentic { failed }) => {
                failed.into_iter().for_each(|i| batch.fail(numbers[i], not_authentic()));
            }
            Err(Error::Message { index, reason }) => {
                let refusal = Refusal::new(Kind::TooLarge, reason);
                numbers.iter().enumerate().for_each(|(i, number)| {
                    batch.fail(
                        *number,
                        if i == index { refusal.clone() } else { Refusal::failed("another text is too long") },
                    );
                });
            }
            Err(_) => numbers.into_iter().for_each(|number| batch.fail(number, Refusal::failed("an engine failed"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_costs_one_batch() {
        survive(&mut Batch::new(Op::Seal, 0), |_| panic!("on purpose"));
    }
}
