//! Ranges of an object that are fetched before they are wanted.

use crate::pinned::Pinned;
use crate::runtime::{caught, runtime};
use bytes::Bytes;
use phalanx_host::lock::lock;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use tokio::task::AbortHandle;

/// What comes of a request. Its error is kept as its kind and its text.
#[derive(Default)]
pub struct Answer(Mutex<Option<Result<Bytes, (io::ErrorKind, String)>>>, Condvar);

/// The kind of the error of a request that was given up.
pub const GIVEN_UP: io::ErrorKind = io::ErrorKind::BrokenPipe;

impl Answer {
    /// Begins to fetch a range. `held` is kept until the request has ended.
    ///
    /// # Errors
    /// If there are no more threads.
    pub fn begin<T: Send + 'static>(
        pinned: &Arc<Pinned>,
        range: Range<u64>,
        held: T,
    ) -> io::Result<(Arc<Self>, AbortHandle)> {
        let (answer, pinned) = (Arc::new(Self::default()), pinned.clone());
        let promise = Promise(answer.clone());
        let task = runtime()?.spawn(async move {
            let _held = held;
            promise.0.set(caught(pinned.fetch(range)).await);
        });
        Ok((answer, task.abort_handle()))
    }

    fn set(&self, answer: io::Result<Bytes>) {
        *lock(&self.0) = Some(answer.map_err(|e| (e.kind(), e.to_string())));
        self.1.notify_all();
    }

    /// Whether the request has ended.
    pub fn is_there(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Waits until the request has ended.
    ///
    /// # Errors
    /// Those of [`Pinned::fetch`], and [`GIVEN_UP`].
    pub fn wait(&self) -> io::Result<Bytes> {
        let answer = self.1.wait_while(lock(&self.0), |answer| answer.is_none());
        let answer = answer.unwrap_or_else(PoisonError::into_inner);
        match answer.as_ref() {
            Some(Ok(bytes)) => Ok(bytes.clone()),
            Some(Err((kind, why))) => Err(io::Error::new(*kind, why.clone())),
            None => Err(GIVEN_UP.into()),
        }
    }
}

/// Whoever waits for an answer gets one, even if the request is aborted or ends in a panic.
struct Promise(Arc<Answer>);

impl Drop for Promise {
    fn drop(&mut self) {
        let mut answer = lock(&self.0.0);
        if answer.is_none() {
            *answer = Some(Err((GIVEN_UP, "the request was given up".to_owned())));
            self.0.1.notify_all();
        }
    }
}
