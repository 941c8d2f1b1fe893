//! Ending requests before their answers have come.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::watch;

/// Ends the requests of the clients that have it. Its clones end the same ones.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<watch::Sender<bool>>);

impl Cancellation {
    /// Ends all requests, those under way and those to come. What reads or writes an object fails, and what was sent of it
    /// is deleted.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// What comes of some requests, unless they are ended.
    ///
    /// # Errors
    /// Those of the requests, and if they are ended.
    pub(crate) async fn or<T>(&self, requests: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let mut cancelled = self.0.subscribe();
        let mut ended = pin!(cancelled.wait_for(|is_cancelled| *is_cancelled));
        let mut requests = pin!(requests);
        poll_fn(|context| match ended.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(Err(io::Error::other("it was cancelled"))),
            Poll::Pending => requests.as_mut().poll(context),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::wait;
    use std::future::pending;
    use std::thread;

    #[test]
    fn requests_without_an_answer_are_ended() {
        let cancellation = Cancellation::default();
        assert_eq!(wait(cancellation.or(async { Ok(1) })).unwrap(), 1);
        let waits = cancellation.clone();
        let waiting = thread::spawn(move || wait(waits.or(pending::<io::Result<()>>())));
        cancellation.cancel();
        assert!(waiting.join().unwrap().is_err());
        assert!(wait(cancellation.or(async { Ok(1) })).is_err());
    }
}
