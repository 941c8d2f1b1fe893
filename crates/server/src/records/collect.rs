//! Puts records into batches, also one whose text is still coming: what there is of it lies in its place already.

use super::frame::Record;
use crate::audit::{Names, Note};
use crate::batch::{Batch, New};
use crate::caller::Caller;
use crate::keys::{Key, ciphertext};
use crate::refusal::Refusal;
use crate::rights::{Action, Rights};
use crate::server::Server;
use phalanx_core::engine::Op;
use std::sync::Arc;
use tokio::time::Instant;

/// A batch is full at this cost.
const FULL: usize = 1 << 20;

/// A batch is full with so many records.
const MOST: usize = 8192;

/// The room that is made for each byte of cost.
const fn room(cost: usize) -> usize {
    cost + cost / 4
}

/// Room for this cost is made for a first batch, of which only the client says how long it will be.
const FIRST: usize = 64 << 10;

/// The batch that is being filled.
///
/// No limit counts the room that is made before records come, and what is freed is wiped as a whole. So it is made when
/// the first record has come, and for not much more than the batch before had.
pub struct Collect {
    action: Action,
    batch: Batch,
    /// The cost for which room is made.
    expected: usize,
    /// The record that has begun and is not whole: the last item.
    begun: Option<Begun>,
    known: Option<Known>,
    /// The names of the keys, if the records name several that exist.
    keys: Names,
    /// Whose records they are, if that is to be written.
    users: Names,
    /// What its records count as.
    cost: usize,
    bytes: u64,
}

/// A record that is not whole.
struct Begun {
    since: Instant,
    /// The bytes of the batch at that time.
    bytes: usize,
}

/// A batch that is full, or the last one.
pub struct Full {
    /// The records.
    pub batch: Batch,
    /// What they count as.
    pub cost: usize,
    /// What is known for the audit log.
    pub note: Note,
}

/// The key that the last record named.
struct Known {
    name: String,
    key: Result<Arc<Key>, Refusal>,
    /// Whether the caller may do it with this key, for a user that the caller is allowed.
    permitted: Result<(), Refusal>,
    /// Whether it is among the names of the batch.
    is_counted: bool,
}

impl Known {
    fn find(server: &Server, rights: &Rights, action: Action, name: &[u8]) -> Self {
        let key = match std::str::from_utf8(name) {
            Ok(name) => server.keys.get(name),
            Err(_) => Err(Refusal::invalid("the key's name is not valid")),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let permitted = rights.permit(action, &name, rights.user.as_deref().unwrap_or(b""));
        Self { name, key, permitted, is_counted: false }
    }

    /// The key, if the caller may do it for this user. A caller without the right learns nothing of the key.
    fn for_user(&self, rights: &Rights, user: &[u8]) -> Result<&Arc<Key>, Refusal> {
        self.permitted.clone()?;
        if rights.user.as_deref().is_some_and(|own| own != user) {
            return Err(Refusal::denied());
        }
        self.key.as_ref().map_err(Clone::clone)
    }
}

impl Collect {
    /// An empty batch, for records of this cost, of which only the client says that they come.
    pub fn new(action: Action, expected: usize) -> Self {
        Self::after(action, expected.min(FIRST))
    }

    fn after(action: Action, expected: usize) -> Self {
        let batch = Self::empty(action);
        let (keys, users) = (Names::default(), Names::default());
        Self { action, batch, expected, begun: None, known: None, keys, users, cost: 0, bytes: 0 }
    }

    fn empty(action: Action) -> Batch {
        Batch::new(if action == Action::Seal { Op::Seal } else { Op::Open }, 0)
    }

    /// Whether there is no record, or only a part of one.
    pub fn is_empty(&self) -> bool {
        self.batch.len() == usize::from(self.begun.is_some())
    }

    /// Whether no more should be added.
    pub fn is_full(&self) -> bool {
        self.cost >= FULL || self.batch.len() >= MOST
    }

    /// Adds a record, or the beginning of one. What is wrong with it becomes its refusal.
    pub fn add(&mut self, server: &Server, caller: &Caller, record: Record<'_>, cost: usize) {
        if self.known.as_ref().is_none_or(|known| known.name.as_bytes() != record.key) {
            self.known = Some(Known::find(server, &caller.rights, self.action, record.key));
        }
        let Some(known) = &self.known else { return };
        if self.batch.capacity() == 0 {
            self.batch.reserve(room(self.expected));
        }
        match known.for_user(&caller.rights, record.user) {
            Ok(key) => place(&mut self.batch, self.action, key, record),
            Err(refusal) => self.batch.refuse(refusal),
        }
        if record.is_whole() {
            self.count(server, record, cost);
        } else {
            self.begun = Some(Begun { since: Instant::now(), bytes: self.batch.bytes() });
        }
    }

    /// Adds more of the text of the record that has begun.
    pub fn more(&mut self, text: &[u8]) {
        self.batch.append(text);
    }

    /// The record that has begun is whole.
    pub fn end(&mut self, server: &Server, record: Record<'_>, cost: usize) {
        self.begun = None;
        self.count(server, record, cost);
    }

    /// Takes out the record that has begun, and returns what came of its text after its beginning.
    pub fn take_back(&mut self) -> Option<Vec<u8>> {
        let begun = self.begun.take()?;
        // Its key will be looked for again.
        self.known = None;
        let text = self.batch.take_back(begun.bytes);
        if self.is_empty() {
            // An idle stream keeps no room.
            self.batch = Self::empty(self.action);
        }
        Some(text)
    }

    /// Since when it holds a record that is not whole.
    pub fn begun(&self) -> Option<Instant> {
        self.begun.as_ref().map(|begun| begun.since)
    }

    fn count(&mut self, server: &Server, record: Record<'_>, cost: usize) {
        self.cost += cost;
        self.bytes += record.len as u64;
        // A name that no key has may be a text.
        if let Some(known) = self.known.as_mut().filter(|known| known.key.is_ok() && !known.is_counted) {
            known.is_counted = true;
            self.keys.add(record.key);
        }
        if server.audit.names_users() && !record.user.is_empty() {
            self.users.add(record.user);
        }
    }

    /// Takes the batch, and begins another one, for records of this cost at most.
    pub fn take(&mut self, expected: usize) -> Full {
        let next = Self::after(self.action, expected.min(self.cost).min(FULL));
        let full = std::mem::replace(self, next);
        let several = full.keys.iter().count() > 1;
        let key = if several { "*" } else { full.keys.only().and_then(|key| str::from_utf8(key).ok()).unwrap_or("") };
        let note = Note {
            action: self.action.name(),
            key: key.to_owned(),
            keys: if several { full.keys } else { Names::default() },
            users: full.users,
            items: full.batch.len() as u64,
            bytes: full.bytes,
            ..Note::default()
        };
        Full { batch: full.batch, cost: full.cost, note }
    }
}

fn place(batch: &mut Batch, action: Action, key: &Arc<Key>, record: Record<'_>) {
    let new = New { key, user: record.user, ad: record.ad, most: record.len };
    if action == Action::Seal {
        return batch.begin_to_seal(&new, record.text);
    }
    match ciphertext::split(record.text) {
        Ok((version, message)) => {
            let version_len = record.text.len() - message.len();
            batch.begin_to_open(&New { most: record.len - version_len, ..new }, version, message);
        }
        Err(refusal) => batch.refuse(refusal),
    }
}
