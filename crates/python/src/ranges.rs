//! Reading a protected file by range from bytes that Python fetches, which may come from a store, with or without asyncio.

use crate::bytes::Bytes;
use crate::engines::{cores, cpu};
use crate::error;
use crate::key::KeyOrName;
use crate::ways::{self, Keys, Secret};
use phalanx_core::{Error, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How much of the plaintext is opened at once, unless a single chunk is longer, in bytes.
const PIECE: u64 = 1 << 20;

/// A protected file that is about to be opened by range.
#[pyclass(module = "phalanx._native")]
pub struct RangeOpening {
    /// `None` when it has been opened.
    inner: Option<phalanx_core::RangeOpening>,
}

#[pymethods]
impl RangeOpening {
    #[new]
    fn new(size: u64) -> Self {
        Self { inner: Some(phalanx_core::RangeOpening::new(size)) }
    }

    /// Which bytes of the file are needed next; `None` when it can be opened.
    fn needs(&self) -> Option<(u64, u64)> {
        self.inner.as_ref()?.needs().map(|range| (range.start, range.end))
    }

    /// Takes the bytes that are needed next.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 extracts it")]
    fn feed(&mut self, py: Python<'_>, data: Bytes) -> PyResult<()> {
        let inner = self.inner.as_mut().ok_or_else(is_open)?;
        inner.feed(&data).map_err(|e| error::plain(py, e))
    }

    /// Opens the file. A password costs its key derivation.
    #[pyo3(signature = (*, key = None, keys = Vec::new(), password = None, identities = Vec::new(), kms = Vec::new(), threads = None))]
    #[expect(clippy::too_many_arguments, reason = "Python has them by name")]
    fn open(
        &mut self,
        py: Python<'_>,
        key: Option<KeyOrName>,
        keys: Vec<KeyOrName>,
        password: Option<Secret>,
        identities: Vec<PathBuf>,
        kms: Vec<String>,
        threads: Option<usize>,
    ) -> PyResult<RangeReader> {
        let opener = ways::opener(py, Keys { key, keys, password, kms }, &identities)?;
        let roster = Arc::new(cpu(py, threads)?);
        let inner = self.inner.take().ok_or_else(is_open)?;
        let threads = threads.unwrap_or_else(cores);
        let opened = py.detach(|| inner.open(&opener, roster)).map_err(|e| error::plain(py, e))?;
        Ok(RangeReader { inner: opened, threads })
    }
}

fn is_open() -> PyErr {
    PyValueError::new_err("the file has been opened")
}

/// A protected file that is read by range. It has no input of its own: each call brings the stored bytes that it needs.
#[pyclass(frozen, module = "phalanx._native")]
pub struct RangeReader {
    inner: phalanx_core::RangeReader,
    threads: usize,
}

#[pymethods]
impl RangeReader {
    #[getter]
    fn size(&self) -> u64 {
        self.inner.len()
    }

    #[getter]
    fn chunk_size(&self) -> usize {
        self.inner.chunk_size().bytes()
    }

    /// Which bytes of the file a range of the plaintext needs; `(0, 0)` if it is empty.
    fn needs(&self, start: u64, stop: u64) -> (u64, u64) {
        let range = self.inner.needs(start..stop);
        (range.start, range.end)
    }

    /// The plaintext of a range. `stored` is a part of the file that begins at `stored_start` and has what the range needs.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 extracts it")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        stored: Bytes,
        stored_start: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let wanted = stop.min(self.inner.len()).saturating_sub(start);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        PyBytes::new_with(py, wanted, |out| {
            py.detach(|| self.fill(start, out, &stored, stored_start)).map_err(|e| error::plain(py, e))
        })
    }
}

impl RangeReader {
    /// Opens a range piece by piece, with other threads if there are several pieces. Of several errors, the one nearest
    /// to the beginning is returned.
    fn fill(&self, start: u64, out: &mut [u8], stored: &[u8], stored_start: u64) -> Result<()> {
        let pieces = self.pieces(start, out);
        let helpers = pieces.len().min(self.threads).saturating_sub(1);
        let pieces = Mutex::new(pieces.into_iter());
        let failed: Mutex<Option<(u64, Error)>> = Mutex::default();
        let take = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            while let Some((at, piece)) = take() {
                let Err(error) = self.fill_piece(at, piece, stored, stored_start) else { continue };
                // No other piece is begun. All pieces before this one have been begun, and may fail too.
                while take().is_some() {}
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                    *failed = Some((at, error));
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..helpers {
                // If the system gives no thread, the existing ones do the work.
                let _ = thread::Builder::new().name("phalanx-ranges".into()).spawn_scoped(scope, work);
            }
            work();
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Divides a range into pieces that end where chunks end, so that no chunk is opened twice.
    fn pieces<'o>(&self, start: u64, mut out: &'o mut [u8]) -> Vec<(u64, &'o mut [u8])> {
        // Both sizes are powers of two.
        let piece = PIECE.max(self.inner.chunk_size().bytes() as u64);
        let (mut pieces, mut at) = (Vec::new(), start);
        while !out.is_empty() {
            let len = ((piece - at % piece) as usize).min(out.len());
            let (first, rest) = out.split_at_mut(len);
            pieces.push((at, first));
            (at, out) = (at + len as u64, rest);
        }
        pieces
    }

    fn fill_piece(&self, start: u64, out: &mut [u8], stored: &[u8], stored_start: u64) -> Result<()> {
        let range = start..start + out.len() as u64;
        let needed = within(self.inner.needs(range.clone()), stored_start).and_then(|needed| stored.get(needed));
        out.copy_from_slice(&self.inner.read(range, needed.ok_or(Error::Changed)?)?);
        Ok(())
    }
}

/// The place of a range of the file within a part of the file.
fn within(range: Range<u64>, part_start: u64) -> Option<Range<usize>> {
    let place = |at: u64| usize::try_from(at.checked_sub(part_start)?).ok();
    Some(place(range.start)?..place(range.end)?)
}
