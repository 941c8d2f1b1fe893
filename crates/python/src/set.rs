//! The messages of one call, worked on in groups.

use crate::bytes::Bytes;
use crate::error;
use crate::key::{Key, KeyOrName};
use phalanx_core::batch::Copied;
use phalanx_core::{Error, SecretKey};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::mem;
use std::panic;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use zeroize::Zeroizing;

/// The most bytes of a group, but for a single message: what the caches of a few cores hold.
const GROUP: usize = 4 << 20;
/// What a short message costs besides its bytes, in bytes: keys and tag.
const EACH: usize = 1024;

/// One key for all messages, or one each.
pub enum Keys<'py> {
    One(Arc<SecretKey>),
    Each(Vec<Bound<'py, Key>>),
}

impl<'py> Keys<'py> {
    pub fn new(keys: &Bound<'py, PyAny>, count: usize) -> PyResult<Self> {
        if keys.is_instance_of::<Key>() || keys.is_instance_of::<PyString>() {
            return Ok(Keys::One(keys.extract::<KeyOrName>()?.0));
        }
        let wrong = || PyTypeError::new_err("keys is a phalanx.Key, or a sequence of them");
        let type_error = |e: PyErr| if e.is_instance_of::<PyTypeError>(keys.py()) { wrong() } else { e };
        let mut each = Vec::with_capacity(expected(keys)?.min(count));
        for key in keys.try_iter().map_err(type_error)? {
            each.push(key?.cast_into::<Key>().map_err(|_| wrong())?);
        }
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

/// Messages that lie in objects of their own.
pub struct Set<'py> {
    keys: Keys<'py>,
    messages: Vec<Bytes<'py>>,
    ads: Option<Vec<Bytes<'py>>>,
    /// How many bytes the messages have together. To add them up later would fetch each object from memory once more.
    bytes: usize,
}

impl<'py> Set<'py> {
    pub fn new(
        keys: &Bound<'py, PyAny>,
        messages: &Bound<'py, PyAny>,
        ads: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let mut bytes = 0usize;
        let messages = all_bytes(messages, |len| bytes = bytes.saturating_add(len))?;
        let keys = Keys::new(keys, messages.len())?;
        let ads = all_ads(ads, messages.len())?;
        Ok(Self { keys, messages, ads, bytes })
    }
}

impl Messages for Set<'_> {
    fn len(&self) -> usize {
        self.messages.len()
    }

    fn get(&self, index: usize) -> Copied<'_> {
        let ad = self.ads.as_ref().map_or(&[][..], |ads| &ads[index]);
        Copied { key: self.keys.get(index), ad, bytes: &self.messages[index] }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Messages to be sealed or opened.
pub trait Messages {
    /// How many there are.
    fn len(&self) -> usize;

    /// One of them.
    fn get(&self, index: usize) -> Copied<'_>;

    /// How many bytes they have together.
    fn bytes(&self) -> usize;

    /// A rough measure of the work, in bytes.
    fn cost(&self) -> u64 {
        self.bytes().saturating_add(self.len().saturating_mul(EACH)) as u64
    }
}

/// Memory for the results of a group. It is wiped when it is dropped, because it may have plaintext.
#[derive(Default)]
pub struct Room {
    pub bytes: Zeroizing<Vec<u8>>,
}

impl Room {
    /// This many bytes of it.
    pub fn of(&mut self, len: usize) -> phalanx_core::Result<&mut [u8]> {
        if self.bytes.len() < len {
            // It is not grown, which would leave a copy behind.
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(len).map_err(|e| Error::Memory(e.to_string()))?;
            bytes.resize(len, 0);
            self.bytes = Zeroizing::new(bytes);
        }
        Ok(&mut self.bytes[..len])
    }
}

/// Does the work for groups of messages. While one group is worked on, the result of the one before is taken, and between them
/// signals are handled. `more` is what the work adds to a message, in bytes.
pub fn in_groups<T: Send>(
    py: Python<'_>,
    messages: &impl Messages,
    more: usize,
    work: impl Fn(&[Copied<'_>], &mut Room) -> phalanx_core::Result<T> + Sync,
    mut take: impl FnMut(&Room, T),
) -> PyResult<()> {
    let (mut room, mut before) = (Room::default(), Room::default());
    let (mut done, mut at) = (None, 0);
    let mut group = next_group(messages, more, &mut at);
    while !group.is_empty() {
        let into = Mutex::new(&mut room);
        let work = || work(&group, &mut into.lock().unwrap_or_else(PoisonError::into_inner));
        let (result, next) = thread::scope(|scope| {
            let is_alone = done.is_none() && at == messages.len();
            let working = if is_alone { None } else { thread::Builder::new().spawn_scoped(scope, work).ok() };
            if let Some(done) = done.take() {
                take(&before, done);
            }
            let next = next_group(messages, more, &mut at);
            // If there is nothing else to do meanwhile, or the system gives no thread, this one does the work.
            let result = py.detach(|| match working {
                Some(working) => working.join().unwrap_or_else(|cause| panic::resume_unwind(cause)),
                None => work(),
            });
            (result, next)
        });
        done = Some(result.map_err(|e| error::plain(py, e))?);
        group = next;
        mem::swap(&mut room, &mut before);
        py.check_signals()?;
    }
    if let Some(done) = done {
        take(&before, done);
    }
    Ok(())
}

/// The next messages that have at most [`GROUP`] bytes together, and at least one if there is one.
fn next_group<'a>(messages: &'a impl Messages, more: usize, at: &mut usize) -> Vec<Copied<'a>> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    while *at < messages.len() {
        let message = messages.get(*at);
        bytes += message.bytes.len() + more;
        if bytes > GROUP && !group.is_empty() {
            break;
        }
        group.push(message);
        *at += 1;
    }
    group
}

/// Associated data, one for each message, if there are any.
pub fn all_ads<'py>(ads: Option<&Bound<'py, PyAny>>, count: usize) -> PyResult<Option<Vec<Bytes<'py>>>> {
    let Some(ads) = ads else { return Ok(None) };
    let ads = all_bytes(ads, |_| {})?;
    if ads.len() != count {
        return Err(PyValueError::new_err(format!("{} ads for {count} messages", ads.len())));
    }
    Ok(Some(ads))
}

/// How many objects an iterable says that it has, within reason. A generator does not say it.
fn expected(objects: &Bound<'_, PyAny>) -> PyResult<usize> {
    const REASON: usize = 1 << 20;
    match objects.len() {
        Ok(len) => Ok(len.min(REASON)),
        Err(error) if error.is_instance_of::<PyTypeError>(objects.py()) => Ok(0),
        Err(error) => Err(error),
    }
}

fn all_bytes<'py>(objects: &Bound<'py, PyAny>, mut count: impl FnMut(usize)) -> PyResult<Vec<Bytes<'py>>> {
    let mut all = Vec::with_capacity(expected(objects)?);
    for object in objects.try_iter()? {
        let bytes: Bytes<'py> = object?.extract()?;
        count(bytes.len());
        all.push(bytes);
    }
    Ok(all)
}
