//! The messages of one call, worked on in groups.

use crate::bytes::Bytes;
use crate::engines::Team;
use crate::error;
use crate::key::{Key, KeyOrName};
use phalanx_core::batch::Copied;
use phalanx_core::{Error, Roster, SecretKey};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use zeroize::Zeroizing;

/// The length of a group in bytes. A few groups fit into the caches together.
const GROUP: usize = 1 << 20;
/// What a short message costs besides its bytes, in bytes: keys and tag.
const EACH: usize = 1024;

/// The objects of a list or tuple. They are fetched when it is their group's turn, while other threads work on earlier
/// groups. With a million objects, fetching alone takes a large part of the time.
pub enum Items<'py> {
    List(Bound<'py, PyList>),
    Tuple(Bound<'py, PyTuple>),
}

impl<'py> Items<'py> {
    pub fn new(objects: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(list) = objects.cast_exact::<PyList>() {
            return Ok(Items::List(list.clone()));
        }
        if let Ok(tuple) = objects.cast_exact::<PyTuple>() {
            return Ok(Items::Tuple(tuple.clone()));
        }
        // `list()` is not used, because it would reserve memory for the length that the object claims.
        let list = PyList::empty(objects.py());
        for object in objects.try_iter()? {
            list.append(object?)?;
        }
        Ok(Items::List(list))
    }

    pub fn len(&self) -> usize {
        match self {
            Items::List(list) => list.len(),
            Items::Tuple(tuple) => tuple.len(),
        }
    }

    fn get(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Items::List(list) => {
                list.get_item(index).map_err(|_| PyRuntimeError::new_err("the list changed size during the call"))
            }
            Items::Tuple(tuple) => tuple.get_item(index),
        }
    }
}

/// One key for all messages, or one each.
pub enum Keys<'py> {
    One(Arc<SecretKey>),
    Each(Items<'py>),
}

fn no_key() -> PyErr {
    PyTypeError::new_err("keys is a phalanx.Key, or a sequence of them")
}

impl<'py> Keys<'py> {
    pub fn new(keys: &Bound<'py, PyAny>, count: usize) -> PyResult<Self> {
        if keys.is_instance_of::<Key>() || keys.is_instance_of::<PyString>() {
            return Ok(Keys::One(keys.extract::<KeyOrName>()?.0));
        }
        let type_error = |e: PyErr| if e.is_instance_of::<PyTypeError>(keys.py()) { no_key() } else { e };
        let each = Items::new(keys).map_err(type_error)?;
        if each.len() != count {
            return Err(PyValueError::new_err(format!("{} keys for {count} messages", each.len())));
        }
        Ok(Keys::Each(each))
    }

    pub fn get(&self, index: usize) -> PyResult<KeyOf> {
        match self {
            Keys::One(key) => Ok(KeyOf::All(key.clone())),
            Keys::Each(keys) => Ok(KeyOf::One(keys.get(index)?.cast_into::<Key>().map_err(|_| no_key())?.unbind())),
        }
    }
}

/// The key of a message.
pub enum KeyOf {
    All(Arc<SecretKey>),
    One(Py<Key>),
}

impl KeyOf {
    fn get(&self) -> &SecretKey {
        match self {
            KeyOf::All(key) => key,
            KeyOf::One(key) => &key.get().secret,
        }
    }
}

/// Associated data, one for each message, if there are any.
pub struct Ads<'py>(Option<Items<'py>>);

impl<'py> Ads<'py> {
    pub fn new(ads: Option<&Bound<'py, PyAny>>, count: usize) -> PyResult<Self> {
        let ads = ads.map(Items::new).transpose()?;
        match ads.as_ref().map(Items::len) {
            Some(len) if len != count => Err(PyValueError::new_err(format!("{len} ads for {count} messages"))),
            _ => Ok(Self(ads)),
        }
    }

    pub fn get(&self, index: usize) -> PyResult<Option<Bytes>> {
        self.0.as_ref().map(|ads| ads.get(index)?.extract()).transpose()
    }
}

/// Messages in separate objects.
pub struct Set<'py> {
    keys: Keys<'py>,
    messages: Items<'py>,
    ads: Ads<'py>,
}

impl<'py> Set<'py> {
    pub fn new(
        keys: &Bound<'py, PyAny>,
        messages: &Bound<'py, PyAny>,
        ads: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let messages = Items::new(messages)?;
        let keys = Keys::new(keys, messages.len())?;
        let ads = Ads::new(ads, messages.len())?;
        Ok(Self { keys, messages, ads })
    }
}

impl Messages for Set<'_> {
    type Text = Bytes;

    fn len(&self) -> usize {
        self.messages.len()
    }

    fn get(&self, index: usize) -> PyResult<One<Bytes>> {
        let text = self.messages.get(index)?.extract()?;
        Ok(One { key: self.keys.get(index)?, ad: self.ads.get(index)?, text })
    }

    fn bytes(&self) -> usize {
        /// Only some lengths are read, because reading all of them would fetch each object from memory again.
        const SOME: usize = 64;
        let len = self.len();
        let some = (0..len).step_by(len.div_ceil(SOME).max(1));
        let lens = some.map(|index| self.messages.get(index).and_then(|object| object.len()).unwrap_or(0));
        let (count, sum) = lens.fold((0, 0usize), |(count, sum), len| (count + 1, sum.saturating_add(len)));
        sum.checked_div(count).unwrap_or(0).saturating_mul(len)
    }
}

/// Messages to be sealed or opened.
pub trait Messages {
    /// The type that has the bytes of a message.
    type Text: Deref<Target = [u8]> + Send + Sync;

    /// The number of messages.
    fn len(&self) -> usize;

    /// One message.
    fn get(&self, index: usize) -> PyResult<One<Self::Text>>;

    /// About how many bytes they have together.
    fn bytes(&self) -> usize;

    /// A rough measure of the work, in bytes.
    fn cost(&self) -> u64 {
        self.bytes().saturating_add(self.len().saturating_mul(EACH)) as u64
    }

    /// The next messages, until they have [`GROUP`] bytes together, with `more` for each.
    fn group(&self, more: usize, at: &mut usize) -> PyResult<Group<Self::Text>> {
        let mut group = Group { messages: Vec::new(), bytes: 0 };
        while *at < self.len() && group.bytes < GROUP {
            let message = self.get(*at)?;
            group.bytes += message.text.len() + more;
            group.messages.push(message);
            *at += 1;
        }
        Ok(group)
    }
}

/// A message.
pub struct One<T> {
    key: KeyOf,
    ad: Option<Bytes>,
    text: T,
}

impl<T> One<T> {
    pub fn new(key: KeyOf, ad: Option<Bytes>, text: T) -> Self {
        Self { key, ad, text }
    }
}

/// Messages that are worked on together.
pub struct Group<T> {
    messages: Vec<One<T>>,
    /// The length of the messages together with what the work adds to them.
    pub bytes: usize,
}

impl<T: Deref<Target = [u8]>> Group<T> {
    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn inputs(&self) -> Vec<Copied<'_>> {
        let mut inputs = Vec::with_capacity(self.messages.len());
        for One { key, ad, text } in &self.messages {
            inputs.push(Copied { key: key.get().into(), ad: ad.as_deref().unwrap_or_default(), bytes: text });
        }
        inputs
    }
}

/// Memory for the results of a group. It is wiped when it is dropped, because it may have plaintext.
#[derive(Default)]
pub struct Room(Zeroizing<Vec<u8>>);

impl Room {
    /// This many bytes of the memory.
    pub fn of(&mut self, len: usize) -> phalanx_core::Result<&mut [u8]> {
        if self.0.len() < len {
            // The memory is replaced and not grown, because growing would leave a copy.
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(len).map_err(|e| Error::Memory(e.to_string()))?;
            bytes.resize(len, 0);
            self.0 = Zeroizing::new(bytes);
        }
        Ok(&mut self.0[..len])
    }
}

impl Deref for Room {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The rooms that no group uses.
#[derive(Default)]
pub struct Rooms(RefCell<Vec<Room>>);

impl Rooms {
    pub fn take(&self) -> Room {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    pub fn put(&self, room: Room) {
        self.0.borrow_mut().push(room);
    }
}

/// Does the work for groups of messages on other threads. Each group gets a `place`. Meanwhile this thread takes the
/// results of earlier groups in their order, fetches the messages of later groups, and handles signals.
pub fn in_groups<M: Messages, P: Send, T: Send>(
    py: Python<'_>,
    team: &Team<'_>,
    messages: &M,
    more: usize,
    mut place: impl FnMut(usize) -> P,
    work: impl Fn(&Roster, &[Copied<'_>], P) -> phalanx_core::Result<T> + Sync,
    mut take: impl FnMut(T) -> PyResult<()>,
) -> PyResult<()> {
    let run = |roster: &Roster, group: &Group<M::Text>, place| work(roster, &group.inputs(), place);
    let mut at = 0;
    let mut next = messages.group(more, &mut at)?;
    if at == messages.len() {
        // A single group is done here.
        let place = place(next.bytes);
        let done = py.detach(|| run(team.divided(1).1, &next, place));
        return take(done.map_err(|e| error::plain(py, e))?);
    }
    let bytes = messages.bytes().saturating_add(messages.len().saturating_mul(more));
    let (workers, roster) = team.divided(bytes / GROUP);
    let (give, tasks) = mpsc::channel::<(Group<M::Text>, P, mpsc::SyncSender<_>)>();
    let (run, tasks) = (&run, &Mutex::new(tasks));
    thread::scope(|scope| {
        // The workers end when this is dropped.
        let give = give;
        let worker = move || {
            let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
            while let Ok((group, place, finish)) = next() {
                let done = run(roster, &group, place);
                // The group goes back to the calling thread, because its objects belong to Python.
                let _ = finish.send((group, done));
            }
        };
        let start = || thread::Builder::new().spawn_scoped(scope, worker);
        start().map_err(|e| error::plain(py, Error::Read(e)))?;
        // If the system gives no more threads, the existing ones do the work.
        let workers = 1 + (1..workers).map_while(|_| start().ok()).count();
        let mut given: VecDeque<mpsc::Receiver<_>> = VecDeque::new();
        while !given.is_empty() || !next.is_empty() {
            let mut done = None;
            if given.len() > workers || next.is_empty() {
                let Some(first) = given.pop_front() else { break };
                let Ok(first) = py.detach(move || first.recv()) else {
                    // The worker has panicked, so the scope will panic too.
                    break;
                };
                done = Some(first);
            }
            if !next.is_empty() {
                let (finish, finished) = mpsc::sync_channel(1);
                let place = place(next.bytes);
                if give.send((next, place, finish)).is_err() {
                    break;
                }
                given.push_back(finished);
            }
            if let Some((group, done)) = done {
                drop(group);
                take(done.map_err(|e| error::plain(py, e))?)?;
            }
            next = messages.group(more, &mut at)?;
            py.check_signals()?;
        }
        Ok(())
    })
}
