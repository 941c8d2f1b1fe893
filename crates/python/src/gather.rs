//! Messages that the tasks of an event loop seal or open one by one, gathered into batches.

use crate::bytes::{Bytes, new_bytes};
use crate::engines::{cpu, suite};
use crate::error::{self, check_process};
use crate::key::KeyOrName;
use phalanx_core::Suite;
use phalanx_core::batch::coalescer::{Coalescer, Failure, Limits, Submission, Wiped};
use phalanx_host::lock::lock;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

/// Gathers the messages of one event loop. ``phalanx.aio`` makes it.
///
/// Locks are taken only while the thread is detached from the interpreter.
#[pyclass(frozen, weakref, module = "phalanx._native")]
pub struct Gatherer {
    shared: Arc<Shared>,
    state: Mutex<State>,
    pid: u32,
}

/// What the threads that seal and open share.
struct Shared {
    /// Makes the event loop call :meth:`Gatherer.drain`, from any thread. Returns whether the loop will do so.
    schedule: Py<PyAny>,
    ready: Mutex<Ready>,
}

#[derive(Default)]
struct Ready {
    /// The messages that may be done.
    ids: Vec<u64>,
    /// Whether the loop has been woken since they were last taken.
    is_woken: bool,
}

impl Shared {
    fn add(&self, id: u64) {
        let is_woken = {
            let mut ready = lock(&self.ready);
            ready.ids.push(id);
            mem::replace(&mut ready.is_woken, true)
        };
        if is_woken {
            return;
        }
        let woken = Python::try_attach(|py| self.schedule.call0(py)?.extract::<bool>(py));
        if !matches!(woken, Some(Ok(true))) {
            // The loop is closed, or there is no memory. The next message tries to wake it again.
            lock(&self.ready).is_woken = false;
        }
    }
}

#[derive(Default)]
struct State {
    is_closed: bool,
    /// Dropping a coalescer waits for its threads. They leave the state only when it is closed, so that no other call
    /// drops one.
    coalescers: HashMap<(bool, Suite), Coalescer>,
    waiting: HashMap<u64, (Submission, Py<PyAny>)>,
    next: u64,
}

/// Wakes the event loop for a message.
struct Bell {
    shared: Arc<Shared>,
    id: u64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.shared.add(self.id);
    }
}

#[pymethods]
impl Gatherer {
    #[new]
    fn new(schedule: Py<PyAny>) -> Self {
        let shared = Arc::new(Shared { schedule, ready: Mutex::default() });
        Self { shared, state: Mutex::default(), pid: std::process::id() }
    }

    /// Seals or opens a message, and gives the future its result or its exception.
    #[expect(clippy::too_many_arguments, reason = "phalanx.aio knows them")]
    fn submit(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        seals: bool,
        key: KeyOrName,
        data: Bytes,
        ad: Bytes,
        cipher: &str,
    ) -> PyResult<()> {
        check_process(py, self.pid)?;
        let suite = suite(cipher)?;
        self.begin(py, seals, suite)?;
        let (data, ad) = (&*data, &*ad);
        let done = py.detach(|| {
            let mut state = lock(&self.state);
            let mut submission = state.coalescers.get(&(seals, suite))?.submit_async(&key.0, ad, data);
            state.next += 1;
            let id = state.next;
            Some(match self.poll(id, &mut submission) {
                Poll::Ready(done) => Poll::Ready((done, future)),
                Poll::Pending => {
                    state.waiting.insert(id, (submission, future));
                    Poll::Pending
                }
            })
        });
        match done {
            Some(Poll::Ready((done, future))) => settle(py, &future, done),
            Some(Poll::Pending) => Ok(()),
            None => Err(closed()),
        }
    }

    /// Gives the messages that are done their results. The event loop calls it.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        check_process(py, self.pid)?;
        let waiting: Vec<_> = py.detach(|| {
            let ready = mem::take(&mut *lock(&self.shared.ready));
            let mut state = lock(&self.state);
            ready.ids.into_iter().filter_map(|id| Some((id, state.waiting.remove(&id)?))).collect()
        });
        let wanted: Vec<_> = waiting.into_iter().filter(|(_, (_, future))| !is_done(py, future)).collect();
        let done = py.detach(|| {
            let (mut done, mut state) = (Vec::with_capacity(wanted.len()), lock(&self.state));
            for (id, (mut submission, future)) in wanted {
                match self.poll(id, &mut submission) {
                    Poll::Ready(result) => done.push((result, future)),
                    Poll::Pending => drop(state.waiting.insert(id, (submission, future))),
                }
            }
            done
        });
        // Each future gets its result, even if the loop fails with another one.
        let settled: Vec<_> = done.into_iter().map(|(result, future)| settle(py, &future, result)).collect();
        settled.into_iter().collect()
    }

    /// Takes no more messages, gives up all that it has, and waits for the threads.
    fn close(&self, py: Python<'_>) {
        if self.pid == std::process::id() {
            let closed = State { is_closed: true, ..State::default() };
            let state = py.detach(|| mem::replace(&mut *lock(&self.state), closed));
            let State { coalescers, waiting, .. } = state;
            // Futures are Python objects. The others wait for threads when they are dropped, and these may wait for the
            // interpreter. So the others are dropped while this thread is detached.
            let (submissions, futures): (Vec<_>, Vec<_>) = waiting.into_values().unzip();
            py.detach(|| drop((submissions, coalescers)));
            drop(futures);
        }
    }
}

impl Gatherer {
    /// Makes the threads that seal or open, if there are none.
    fn begin(&self, py: Python<'_>, seals: bool, suite: Suite) -> PyResult<()> {
        if py.detach(|| lock(&self.state).coalescers.contains_key(&(seals, suite))) {
            return Ok(());
        }
        let roster = cpu(py, None)?;
        let make = if seals { Coalescer::to_seal } else { Coalescer::to_open };
        let coalescer = make(roster, suite, Limits::default())?;
        let is_closed = py.detach(|| {
            let mut state = lock(&self.state);
            if state.is_closed {
                drop(state);
                drop(coalescer);
                return true;
            }
            state.coalescers.insert((seals, suite), coalescer);
            false
        });
        if is_closed { Err(closed()) } else { Ok(()) }
    }

    fn poll(&self, id: u64, submission: &mut Submission) -> Poll<Result<Wiped, Failure>> {
        let waker = Waker::from(Arc::new(Bell { shared: self.shared.clone(), id }));
        Pin::new(submission).poll(&mut Context::from_waker(&waker))
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        let state = mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        if self.pid != std::process::id() {
            // The drop would wait for threads that only the parent has.
            let _ = mem::ManuallyDrop::new(state);
            return;
        }
        // The threads may wait for something that this thread was doing when the garbage was collected, so another
        // thread waits for them. If the system gives no thread, they stay.
        let state = mem::ManuallyDrop::new(state);
        let _ = thread::Builder::new().spawn(move || drop(mem::ManuallyDrop::into_inner(state)));
    }
}

fn closed() -> PyErr {
    PyRuntimeError::new_err("the interpreter is ending")
}

/// Whether a future is done or cancelled, so that nothing waits for it.
fn is_done(py: Python<'_>, future: &Py<PyAny>) -> bool {
    future.call_method0(py, "done").and_then(|done| done.extract::<bool>(py)).unwrap_or(false)
}

fn settle(py: Python<'_>, future: &Py<PyAny>, result: Result<Wiped, Failure>) -> PyResult<()> {
    if is_done(py, future) {
        return Ok(());
    }
    match result {
        Ok(bytes) => match new_bytes(py, &bytes) {
            Ok(bytes) => future.call_method1(py, "set_result", (bytes,)),
            Err(error) => future.call_method1(py, "set_exception", (error,)),
        },
        Err(failure) => future.call_method1(py, "set_exception", (exception(py, &failure),)),
    }
    .map(drop)
}

fn exception(py: Python<'_>, failure: &Failure) -> PyErr {
    match failure {
        Failure::NotAuthentic => error::message_not_authentic(py),
        Failure::TooLong => pyo3::exceptions::PyValueError::new_err(failure.to_string()),
        _ => error::other(py, &failure.to_string()),
    }
}
