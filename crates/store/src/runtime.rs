//! The asynchronous runtime in which requests run. Callers wait for it.

use crate::error::wrong;
use phalanx_host::lock::lock;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;
use tokio::runtime::{Builder, Runtime};

/// Threads that send and receive. Those that call do the rest.
const THREADS: usize = 2;

/// The runtime. It starts with the first request. A process that was forked starts its own, because the threads stay with
/// its parent.
///
/// # Errors
/// If there are no more threads.
pub fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: Mutex<Option<(u32, &Runtime)>> = Mutex::new(None);
    let mut started = lock(&RUNTIME);
    let process = std::process::id();
    if let Some((_, runtime)) = started.filter(|(of, _)| *of == process) {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name("stores").enable_all().build()?;
    let runtime = Box::leak(Box::new(runtime));
    *started = Some((process, runtime));
    Ok(runtime)
}

/// Waits for what comes of some requests.
///
/// # Errors
/// Those of the future, and if there are no more threads.
pub fn wait<T>(future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    runtime()?.block_on(caught(future))
}

/// What comes of some requests. The client of a store panics at some answers that no store should give: then this is an
/// error.
///
/// # Errors
/// Those of the future, and if it panics.
pub async fn caught<T>(future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let mut future = pin!(future);
    // A future that has panicked is not polled again.
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll,
        Err(_) => Poll::Ready(Err(wrong("the store's answer makes no sense"))),
    })
    .await
}
