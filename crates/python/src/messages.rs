//! Messages: one, or as many as there are.

use crate::bytes::Bytes;
use crate::engines::{engines, suite};
use crate::error;
use crate::key::{Key, KeyOrName};
use phalanx::engines::Crew;
use phalanx::engines::levels;
use phalanx_core::batch::{self, BehindRoom, Copied, Message};
use phalanx_core::engine::{CpuEngine, Op};
use phalanx_core::{Error, Roster, SecretKey, Suite};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use zeroize::Zeroizing;

/// The most bytes of stored messages that are sealed or opened at once, but for a single message. Between them, signals are
/// handled.
const GROUP: usize = 32 << 20;
/// What a short message costs besides its bytes, in bytes: keys and tag.
const EACH: usize = 1024;

/// One thread, for a single message.
static SERIAL: LazyLock<Roster> =
    LazyLock::new(|| Roster::new(&[Arc::new(CpuEngine::serial(levels().unwrap_or_else(|_| phalanx_core::engine::Levels::detect())))]));

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
    record: Bytes<'py>,
    ad: Option<Bytes<'py>>,
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
    sealed: Bytes<'py>,
    ad: Option<Bytes<'py>>,
    cipher: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let suite = suite(cipher)?;
    let (sealed, ad) = (&*sealed, ad.as_deref().unwrap_or_default());
    let opened = py.detach(|| {
        let mut data = Zeroizing::new(sealed.to_vec());
        batch::open(&SERIAL, suite, &mut [Message::to_open(&key.0, ad, &mut data)]).map(|()| data)
    });
    match opened {
        Ok(data) => Ok(PyBytes::new(py, &data[suite.overhead()..])),
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
    let inputs = set.inputs()?;
    let crew = engines.crew(Op::Seal, suite, Some(cost(&inputs)));
    let mut sealed = Vec::with_capacity(inputs.len());
    // These are ciphertext when they are read again. An error wipes them.
    let mut room = Vec::new();
    for group in groups(&inputs, |input| input.bytes.len() + suite.overhead()) {
        let inputs = &inputs[group];
        let len = inputs.iter().map(|input| input.bytes.len() + suite.overhead()).sum();
        let places = py.detach(|| {
            reserve(&mut room, len)?;
            batch::seal_into(&crew.roster, suite, inputs, &mut room[..len])
        });
        let places = places.map_err(|e| error::plain(py, e))?;
        sealed.extend(places.into_iter().map(|place| PyBytes::new(py, &room[place])));
        py.check_signals()?;
    }
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
    let inputs = set.inputs()?;
    let crew = engines.crew(Op::Open, suite, Some(cost(&inputs)));
    let mut opened = Vec::with_capacity(inputs.len());
    let mut failed = Vec::new();
    for group in groups(&inputs, |input| input.bytes.len()) {
        let at = group.start;
        let (room, places) = open_group(py, crew, suite, &inputs[group])?;
        failed.extend(places.iter().enumerate().filter(|(_, place)| place.is_none()).map(|(i, _)| at + i));
        opened.extend(places.into_iter().map(|place| place.map(|place| PyBytes::new(py, &room[place]))));
        py.check_signals()?;
    }
    if raises && !failed.is_empty() {
        return Err(error::not_authentic(py, failed));
    }
    PyList::new(py, opened)
}

/// Opens messages into one buffer, which is wiped when it is dropped. Those that are not authentic have no place in it.
pub fn open_group(
    py: Python<'_>,
    crew: &Crew,
    suite: Suite,
    inputs: &[Copied<'_>],
) -> PyResult<(Zeroizing<Vec<u8>>, Vec<Option<Range<usize>>>)> {
    let len = inputs.iter().map(|input| input.bytes.len()).sum();
    let opened = py.detach(|| {
        let mut room = Zeroizing::new(Vec::new());
        reserve(&mut room, len)?;
        let places = batch::open_into(&crew.roster, suite, inputs, &mut room)?;
        Ok((room, places))
    });
    opened.map_err(|e| error::plain(py, e))
}

/// Makes room for this many bytes.
fn reserve(room: &mut Vec<u8>, len: usize) -> phalanx_core::Result<()> {
    let more = len.saturating_sub(room.len());
    room.try_reserve_exact(more).map_err(|e| Error::Memory(e.to_string()))?;
    room.resize(room.len() + more, 0);
    Ok(())
}

/// Whether messages that are not authentic raise an exception.
pub fn raises(errors: &str) -> PyResult<bool> {
    match errors {
        "raise" => Ok(true),
        "none" => Ok(false),
        _ => Err(PyValueError::new_err("errors is raise or none")),
    }
}

/// A rough measure of the work, in bytes.
pub fn cost(inputs: &[Copied<'_>]) -> u64 {
    inputs.iter().map(|input| (input.bytes.len() + input.ad.len() + EACH) as u64).sum()
}

/// Runs of messages that have at most [`GROUP`] bytes each, but for a single message.
pub fn groups<'a>(
    inputs: &'a [Copied<'a>],
    len: impl Fn(&Copied<'a>) -> usize + 'a,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, mut sum) = (at, 0);
        while at < inputs.len() && (at == start || sum + len(&inputs[at]) <= GROUP) {
            sum += len(&inputs[at]);
            at += 1;
        }
        (at > start).then_some(start..at)
    })
}

/// One key for all messages, or one each.
pub enum Keys<'py> {
    One(Arc<SecretKey>),
    Each(Vec<Bound<'py, Key>>),
}

impl<'py> Keys<'py> {
    pub fn new(keys: &Bound<'py, PyAny>, count: usize) -> PyResult<Self> {
        if let Ok(one) = keys.extract::<KeyOrName>() {
            return Ok(Keys::One(one.0));
        }
        let wrong = |_| PyTypeError::new_err("keys is a phalanx.Key, or a sequence of them");
        let each = keys.try_iter().map_err(wrong)?.map(|key| key?.cast_into::<Key>().map_err(|e| wrong(e.into())));
        let each = each.collect::<PyResult<Vec<_>>>()?;
        if each.len() != count {
            return Err(PyValueError::new_err(format!("{} keys for {count} messages", each.len())));
        }
        Ok(Keys::Each(each))
    }

    pub fn get(&self, index: usize) -> &SecretKey {
        match self {
            Keys::One(key) => key,
            Keys::Each(keys) => &keys[index].get().secret,
        }
    }
}

/// The messages of a call.
struct Set<'py> {
    keys: Keys<'py>,
    messages: Vec<Bytes<'py>>,
    ads: Option<Vec<Bytes<'py>>>,
}

impl<'py> Set<'py> {
    fn new(
        keys: &Bound<'py, PyAny>,
        messages: &Bound<'py, PyAny>,
        ads: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let messages = all_bytes(messages)?;
        let keys = Keys::new(keys, messages.len())?;
        let ads = all_ads(ads, messages.len())?;
        Ok(Self { keys, messages, ads })
    }

    fn inputs(&self) -> PyResult<Vec<Copied<'_>>> {
        let ad = |i: usize| self.ads.as_ref().map_or(&[][..], |ads| &ads[i]);
        let input = |(i, bytes)| Copied { key: self.keys.get(i), ad: ad(i), bytes };
        Ok(self.messages.iter().map(|bytes| &**bytes).enumerate().map(input).collect())
    }
}

/// Associated data, one for each message, if there are any.
pub fn all_ads<'py>(ads: Option<&Bound<'py, PyAny>>, count: usize) -> PyResult<Option<Vec<Bytes<'py>>>> {
    let Some(ads) = ads else { return Ok(None) };
    let ads = all_bytes(ads)?;
    if ads.len() != count {
        return Err(PyValueError::new_err(format!("{} ads for {count} messages", ads.len())));
    }
    Ok(Some(ads))
}

fn all_bytes<'py>(objects: &Bound<'py, PyAny>) -> PyResult<Vec<Bytes<'py>>> {
    objects.try_iter()?.map(|object| object?.extract()).collect()
}
