//! Sealing and opening messages, one or many in a call.

use crate::bytes::{Bytes, copy, new_bytes};
use crate::engines::{Team, engines, suite};
use crate::error;
use crate::key::KeyOrName;
use crate::set::{Messages, Room, Rooms, Set, in_groups};
use phalanx_core::batch::{self, BehindRoom, Copied, Message};
use phalanx_core::engine::{CpuEngine, Levels, Op};
use phalanx_core::{Error, Roster};
use phalanx_host::engines::levels;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// The engine for a single message: one thread.
static SERIAL: LazyLock<Roster> = LazyLock::new(|| {
    let levels = levels().unwrap_or_else(|_| Levels::detect());
    Roster::new(&[Arc::new(CpuEngine::serial(levels))])
});

/// Seals a record under a key, and binds it to associated data, which are not stored.
///
/// The result is 48 bytes longer, or 28 with aes-256-gcm. To open it, name the same cipher.
///
/// >>> key = phalanx.Key.generate()
/// >>> sealed = phalanx.seal(key, b"record", ad=b"user 7")
/// >>> phalanx.unseal(key, sealed, ad=b"user 7")
/// b'record'
#[pyfunction]
#[pyo3(signature = (key, record, *, ad=None, cipher="aes-256"))]
pub fn seal<'py>(
    py: Python<'py>,
    key: KeyOrName,
    record: Bytes,
    ad: Option<Bytes>,
    cipher: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let suite = suite(cipher)?;
    let (record, ad) = (&*record, ad.as_deref().unwrap_or_default());
    PyBytes::new_with(py, suite.overhead() + record.len(), |out| {
        py.detach(|| {
            out[suite.overhead()..].copy_from_slice(record);
            let plaintext = BehindRoom::new(suite, out).expect("it has room");
            batch::seal(&SERIAL, suite, &mut [Message::to_seal(&key.0, ad, plaintext)])
        })
        .map_err(|e| error::plain(py, e))
    })
}

/// Opens a sealed record with the key, the associated data and the cipher that it was sealed with.
///
/// >>> phalanx.unseal(phalanx.Key.generate(), bytes(54))
/// Traceback (most recent call last):
///     ...
/// phalanx.AuthenticationError: the message is not authentic
#[pyfunction]
#[pyo3(signature = (key, sealed, *, ad=None, cipher="aes-256"))]
pub fn unseal<'py>(
    py: Python<'py>,
    key: KeyOrName,
    sealed: Bytes,
    ad: Option<Bytes>,
    cipher: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let suite = suite(cipher)?;
    let (sealed, ad) = (&*sealed, ad.as_deref().unwrap_or_default());
    let mut data = copy(sealed)?;
    let opened =
        py.detach(|| batch::open(&SERIAL, suite, &mut [Message::to_open(&key.0, ad, &mut data)]).map(|()| data));
    match opened {
        Ok(data) => new_bytes(py, &data[suite.overhead()..]),
        Err(Error::NotAuthentic { .. }) => Err(error::message_not_authentic(py)),
        Err(e) => Err(error::plain(py, e)),
    }
}

/// Seals many records in one call, on all cores: each under its own key, or all under one.
///
/// ``records`` and ``ads`` are sequences of bytes-like objects of the same length, and ``keys`` is a key or a sequence of as
/// many. Returns a list of as many ``bytes``, each as :func:`seal` makes it.
///
/// >>> keys = [phalanx.Key.generate() for _ in range(3)]
/// >>> sealed = phalanx.seal_many(keys, [b"a", b"b", b"c"], ads=[b"1", b"2", b"3"])
/// >>> phalanx.unseal_many(keys, sealed, ads=[b"1", b"2", b"3"])
/// [b'a', b'b', b'c']
#[pyfunction]
#[pyo3(signature = (keys, records, ads=None, *, cipher="aes-256", threads=None, engine="auto"))]
pub fn seal_many<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    records: &Bound<'py, PyAny>,
    ads: Option<&Bound<'py, PyAny>>,
    cipher: &str,
    threads: Option<usize>,
    engine: &str,
) -> PyResult<Bound<'py, PyList>> {
    let suite = suite(cipher)?;
    let set = Set::new(keys, records, ads)?;
    let engines = engines(py, engine, threads)?;
    let team = &Team::new(py, &engines, Op::Seal, suite, set.cost(), threads);
    let seal = |roster: &Roster, inputs: &[Copied<'_>], (mut room, len): (Room, usize)| {
        batch::seal_into(roster, suite, inputs, room.of(len)?).map(|places| (room, places))
    };
    let (rooms, mut sealed) = (Rooms::default(), Vec::with_capacity(set.len()));
    let take = |(room, places): (Room, Vec<Range<usize>>)| {
        for place in places {
            sealed.push(new_bytes(py, &room[place])?);
        }
        rooms.put(room);
        Ok(())
    };
    in_groups(py, team, &set, suite.overhead(), |len| (rooms.take(), len), seal, take)?;
    PyList::new(py, sealed)
}

/// Opens many sealed records in one call, on all cores.
///
/// If some are not authentic, :class:`AuthenticationError` has their places in ``failed``; with ``errors="none"`` they are
/// ``None`` in the list instead.
///
/// >>> key = phalanx.Key.generate()
/// >>> sealed = phalanx.seal_many(key, [b"a", b"b"])
/// >>> phalanx.unseal_many(key, [sealed[0], b"altered"], errors="none")
/// [b'a', None]
#[pyfunction]
#[pyo3(signature = (keys, sealed, ads=None, *, cipher="aes-256", threads=None, engine="auto", errors="raise"))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn unseal_many<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    sealed: &Bound<'py, PyAny>,
    ads: Option<&Bound<'py, PyAny>>,
    cipher: &str,
    threads: Option<usize>,
    engine: &str,
    errors: &str,
) -> PyResult<Bound<'py, PyList>> {
    let (suite, raises) = (suite(cipher)?, raises(errors)?);
    let set = Set::new(keys, sealed, ads)?;
    let engines = engines(py, engine, threads)?;
    let team = &Team::new(py, &engines, Op::Open, suite, set.cost(), threads);
    let open = |roster: &Roster, inputs: &[Copied<'_>], (mut room, len): (Room, usize)| {
        batch::open_into(roster, suite, inputs, room.of(len)?).map(|places| (room, places))
    };
    let (rooms, mut opened) = (Rooms::default(), Vec::with_capacity(set.len()));
    let mut failed = Vec::new();
    let take = |(room, places): (Room, Vec<Option<Range<usize>>>)| {
        for place in places {
            if place.is_none() {
                failed.push(opened.len());
            }
            opened.push(place.map(|place| new_bytes(py, &room[place])).transpose()?);
        }
        rooms.put(room);
        Ok(())
    };
    in_groups(py, team, &set, 0, |len| (rooms.take(), len), open, take)?;
    if raises && !failed.is_empty() {
        return Err(error::not_authentic(py, failed));
    }
    PyList::new(py, opened)
}

/// Whether messages that are not authentic raise an exception.
pub fn raises(errors: &str) -> PyResult<bool> {
    match errors {
        "raise" => Ok(true),
        "none" => Ok(false),
        _ => Err(PyValueError::new_err("errors is raise or none")),
    }
}
