//! The asynchronous runtime in which requests run. Callers wait for it.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// Threads that send and receive. Those that call do the rest.
const THREADS: usize = 2;

/// The runtime. It starts with the first request.
///
/// # Errors
/// If there are no more threads.
pub fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let started = Builder::new_multi_thread().worker_threads(THREADS).thread_name("stores").enable_all().build()?;
    Ok(RUNTIME.get_or_init(|| started))
}

/// Waits for what comes of some requests.
///
/// # Errors
/// Those of the future, and if there are no more threads.
pub fn wait<T>(future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    runtime()?.block_on(future)
}
