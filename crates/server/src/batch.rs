//! The texts of one request, with what each is bound to, in one buffer.
//!
//! An item lies in the buffer as
//!
//! ```text
//! salt (if it has one)  context  associated data  suite  nonce  tag  text
//! ```
//!
//! so that nothing is copied again: the user's key is derived from salt and context, the message is bound to context and
//! associated data, and a ciphertext is what begins at the suite. See `docs/server.md`.

use crate::keys::{Key, SALT, Version};
use crate::refusal::Refusal;
use phalanx_core::batch::{BehindRoom, KeyOf, Message};
use phalanx_core::engine::Op;
use phalanx_core::{Suite, UserKeys};
use std::ops::Range;
use std::sync::Arc;

/// Items that are all sealed or all opened, in one call.
pub struct Batch {
    op: Op,
    /// What is freed is wiped: see `main.rs`.
    bytes: Vec<u8>,
    items: Vec<Item>,
}

struct Item {
    state: Result<Placed, Refusal>,
    /// The version that seals it again; `None` is the newest.
    again: Option<u32>,
}

/// Where an item lies.
#[derive(Clone)]
struct Placed {
    key: Arc<Key>,
    version: Arc<Version>,
    /// The version that is meant, which is newer than all that are known: another server may have made it.
    newer: Option<u32>,
    /// The salt, if the key has salts.
    salt: Range<usize>,
    /// Where the user's name is, in the context.
    user: Range<usize>,
    /// The end of the associated data, where the ciphertext begins.
    ciphertext: usize,
    end: usize,
}

impl Placed {
    fn suite(&self) -> Suite {
        self.key.suite
    }
}

/// An item to be added.
pub struct New<'a> {
    /// The key.
    pub key: &'a Arc<Key>,
    /// The user; empty if the key needs none.
    pub user: &'a [u8],
    /// The associated data.
    pub ad: &'a [u8],
    /// The most bytes that the text or the ciphertext may have.
    pub most: usize,
}

/// A sealed item.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'a> {
    /// The version of the key.
    pub version: u32,
    /// The suite's number, and the message.
    pub ciphertext: &'a [u8],
}

#[allow(clippy::wrong_self_convention, reason = "`to_seal` is what an item is added to do")]
impl Batch {
    /// An empty batch with room for this many bytes.
    pub fn new(op: Op, capacity: usize) -> Self {
        Self { op, bytes: Vec::with_capacity(capacity), items: Vec::new() }
    }

    /// Makes room for this many bytes more.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// The bytes for which there is room.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether it is to be sealed or opened.
    pub fn op(&self) -> Op {
        self.op
    }

    /// The number of items, those that were refused among them.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// The bytes of the buffer.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds an item that is refused already: it has a place in the answer.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.items.push(Item { state: Err(refusal), again: None });
    }

    /// Adds a text to seal, under the newest version or another one. `write` writes it to the front of the given place,
    /// and returns its length. What is wrong with it becomes the item's refusal.
    pub fn to_seal(
        &mut self,
        new: New<'_>,
        version: Option<u32>,
        write: impl FnOnce(&mut [u8]) -> Result<usize, Refusal>,
    ) {
        let most = new.most;
        self.seal_text(&new, version, |bytes| written(bytes, most, write).map(drop));
    }

    /// Adds a ciphertext to open. `write` writes the suite's number and the message to the front of the given place, and
    /// returns their length.
    pub fn to_open(&mut self, new: New<'_>, version: u32, write: impl FnOnce(&mut [u8]) -> Result<usize, Refusal>) {
        let most = new.most;
        self.open_message(&new, version, |bytes| {
            let message = written(bytes, most, write)?;
            may_be_of(new.key.suite, bytes[message.clone()].first(), message.len())
        });
    }

    /// Adds the beginning of a text to seal, which has `most` bytes. [`Batch::append`] adds the rest.
    pub fn begin_to_seal(&mut self, new: &New<'_>, text: &[u8]) {
        self.seal_text(new, None, |bytes| {
            bytes.extend_from_slice(text);
            Ok(())
        });
    }

    /// Adds the beginning of a ciphertext to open, of which the suite's number and the message have `most` bytes. The
    /// suite's number is there already. [`Batch::append`] adds the rest.
    pub fn begin_to_open(&mut self, new: &New<'_>, version: u32, message: &[u8]) {
        self.open_message(new, version, |bytes| {
            bytes.extend_from_slice(message);
            may_be_of(new.key.suite, message.first(), new.most)
        });
    }

    /// Adds more bytes to the last item. Those of one that is refused are kept for [`Batch::take_back`] only.
    pub fn append(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
        if let Some(Item { state: Ok(placed), .. }) = self.items.last_mut() {
            placed.end = self.bytes.len();
        }
    }

    /// Removes the last item, and returns what was appended since the buffer had this many bytes.
    pub fn take_back(&mut self, bytes: usize) -> Vec<u8> {
        let appended = self.bytes.split_off(bytes);
        if let Some(Item { state: Ok(placed), .. }) = self.items.pop() {
            self.bytes.truncate(placed.salt.start);
        }
        appended
    }

    fn seal_text(
        &mut self,
        new: &New<'_>,
        version: Option<u32>,
        text: impl FnOnce(&mut Vec<u8>) -> Result<(), Refusal>,
    ) {
        let state = new.key.to_seal(version).cloned().and_then(|version| {
            let room = new.key.suite.overhead();
            self.place(new, (version, None), 1 + room, |bytes| {
                bytes.push(new.key.record.suite);
                bytes.resize(bytes.len() + room, 0);
                text(bytes)
            })
        });
        self.items.push(Item { state, again: None });
    }

    fn open_message(&mut self, new: &New<'_>, version: u32, message: impl FnOnce(&mut Vec<u8>) -> Result<(), Refusal>) {
        let newer = (version > new.key.latest()).then_some(version);
        let known = newer.and_then(|_| new.key.newest()).map_or_else(|| new.key.to_open(version), Ok);
        // That no such version is known is said before all else.
        let said = |refusal| newer.and_then(|newer| new.key.to_open(newer).err()).unwrap_or(refusal);
        let state = known.cloned().and_then(|known| self.place(new, (known, newer), 0, message));
        self.items.push(Item { state: state.map_err(said), again: None });
    }

    /// Writes what the item is bound to. `write` appends the rest, of which `head` and `most` bytes are expected.
    fn place(
        &mut self,
        new: &New<'_>,
        (version, newer): (Arc<Version>, Option<u32>),
        head: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Refusal>,
    ) -> Result<Placed, Refusal> {
        if new.key.record.needs_user && new.user.is_empty() {
            return Err(Refusal::invalid(
                "missing 'context' for key derivation; the key was created using a derived key, which means additional, \
                 per-request information must be included in order to perform operations with the key",
            ));
        }
        let bytes = &mut self.bytes;
        let start = bytes.len();
        let salt = start..start + if new.key.record.shreddable { SALT } else { 0 };
        let context = new.key.context_len(new.user);
        bytes.reserve(salt.len() + context + new.ad.len() + head + new.most);
        bytes.resize(salt.end, 0);
        new.key.context(newer.unwrap_or(version.number), new.user, bytes);
        let user = bytes.len() - new.user.len()..bytes.len();
        bytes.extend_from_slice(new.ad);
        let ciphertext = bytes.len();
        match write(bytes) {
            Ok(()) => {
                let end = bytes.len();
                Ok(Placed { key: new.key.clone(), version, newer, salt, user, ciphertext, end })
            }
            Err(refusal) => {
                bytes.truncate(start);
                Err(refusal)
            }
        }
    }

    /// Whether an item is of a version that was not known when it was added.
    pub fn has_newer(&self) -> bool {
        self.placed().any(|(_, placed)| placed.newer.is_some())
    }

    /// Gives such items their versions, as `find` knows the keys now, or refuses them.
    pub fn resolve_newer(&mut self, find: impl Fn(&str) -> Result<Arc<Key>, Refusal>) {
        for item in &mut self.items {
            let Ok(placed) = &mut item.state else { continue };
            let Some(newer) = placed.newer.take() else { continue };
            // A key that was made again under the same name is another one.
            let key = find(&placed.key.record.name)
                .map(|key| if key.record.id == placed.key.record.id { key } else { placed.key.clone() });
            match key.and_then(|key| Ok((key.to_open(newer)?.clone(), key))) {
                Ok((version, key)) => (placed.version, placed.key) = (version, key),
                Err(refusal) => item.state = Err(refusal),
            }
        }
    }

    /// Names the version under which the last item is sealed again by [`Batch::into_sealing`]. `None` is the newest.
    pub fn seal_under(&mut self, version: Option<u32>) {
        if let Some(item) = self.items.last_mut() {
            item.again = version;
        }
    }

    /// The keys and versions of the items that are not refused, by the number of the item.
    pub fn versions(&self) -> impl Iterator<Item = (usize, &Arc<Key>, u32)> {
        self.placed().map(|(i, placed)| (i, &placed.key, placed.version.number))
    }

    /// The keys and users that have salts, by the number of the item.
    pub fn salted(&self) -> impl Iterator<Item = (usize, &Arc<Key>, &[u8])> {
        self.placed()
            .filter(|(_, placed)| !placed.salt.is_empty())
            .map(|(i, placed)| (i, &placed.key, &self.bytes[placed.user.clone()]))
    }

    /// Sets the salt of an item, or refuses it.
    pub fn set_salt(&mut self, item: usize, salt: Result<&[u8; SALT], Refusal>) {
        match (&self.items[item].state, salt) {
            (Ok(placed), Ok(salt)) => self.bytes[placed.salt.clone()].copy_from_slice(salt),
            (Ok(_), Err(refusal)) => self.items[item].state = Err(refusal),
            (Err(_), _) => {}
        }
    }

    fn placed(&self) -> impl Iterator<Item = (usize, &Placed)> {
        self.items.iter().enumerate().filter_map(|(i, item)| Some((i, item.state.as_ref().ok()?)))
    }

    /// The suites of the items that are not refused.
    pub fn suites(&self) -> Vec<Suite> {
        let mut suites: Vec<_> = self.placed().map(|(_, placed)| placed.suite()).collect();
        suites.sort_unstable();
        suites.dedup();
        suites
    }

    /// The messages of a suite, in place, and the numbers of their items.
    pub fn messages(&mut self, suite: Suite) -> (Vec<usize>, Vec<Message<'_>>) {
        let (mut numbers, mut messages) = (Vec::new(), Vec::new());
        let (mut at, mut rest) = (0, self.bytes.as_mut_slice());
        for (i, item) in self.items.iter().enumerate() {
            let Ok(placed) = &item.state else { continue };
            if placed.suite() != suite {
                continue;
            }
            let (before, behind) = rest.split_at_mut(placed.end - at);
            let (bound, message) = before[placed.salt.start - at..].split_at_mut(placed.ciphertext - placed.salt.start);
            let bound: &[u8] = bound;
            let salt = placed.salt.len();
            let context = placed.user.end - placed.salt.start;
            let key = KeyOf::User { keys: &placed.version.users, user: &bound[..context] };
            let message = &mut message[1..];
            messages.push(match self.op {
                Op::Seal => {
                    let plaintext = BehindRoom::new(suite, message).expect("it was placed with room");
                    Message::to_seal(key, &bound[salt..], plaintext)
                }
                Op::Open => Message::to_open(key, &bound[salt..], message),
            });
            numbers.push(i);
            (at, rest) = (placed.end, behind);
        }
        (numbers, messages)
    }

    /// The only item, as the coalescer takes it: the suite, from which the user's key is derived, the user, the
    /// associated data, and the bytes of the text or of the message.
    pub fn single(&self) -> Option<Single<'_>> {
        let [Item { state: Ok(placed), .. }] = self.items.as_slice() else { return None };
        let bytes = &self.bytes;
        let context = placed.user.end;
        let head = if self.op == Op::Seal { 1 + placed.suite().overhead() } else { 1 };
        Some(Single {
            suite: placed.suite(),
            keys: &placed.version.users,
            user: &bytes[placed.salt.start..context],
            ad: &bytes[placed.salt.end..placed.ciphertext],
            bytes: &bytes[placed.ciphertext + head..placed.end],
        })
    }

    /// Puts the result of the only item in its place: a message, or an opened text.
    pub fn set_single(&mut self, result: Result<&[u8], Refusal>) {
        let [item] = self.items.as_mut_slice() else { return };
        match (&item.state, result) {
            (Ok(placed), Ok(result)) => {
                // A message and an opened text both end where the item ends.
                let start = placed.end - result.len();
                self.bytes[start..placed.end].copy_from_slice(result);
            }
            (Ok(_), Err(refusal)) => item.state = Err(refusal),
            (Err(_), _) => {}
        }
    }

    /// Refuses an item after all.
    pub fn fail(&mut self, item: usize, refusal: Refusal) {
        self.items[item].state = Err(refusal);
    }

    /// Refuses every item that is not refused yet.
    pub fn fail_all(&mut self, refusal: &Refusal) {
        self.items.iter_mut().filter(|item| item.state.is_ok()).for_each(|item| item.state = Err(refusal.clone()));
    }

    /// What was sealed.
    ///
    /// # Errors
    /// Why the item was refused.
    pub fn sealed(&self, item: usize) -> Result<Sealed<'_>, &Refusal> {
        let placed = self.items[item].state.as_ref()?;
        Ok(Sealed { version: placed.version.number, ciphertext: &self.bytes[placed.ciphertext..placed.end] })
    }

    /// What was opened.
    ///
    /// # Errors
    /// Why the item was refused.
    pub fn opened(&self, item: usize) -> Result<&[u8], &Refusal> {
        let placed = self.items[item].state.as_ref()?;
        Ok(&self.bytes[placed.ciphertext + 1 + placed.suite().overhead()..placed.end])
    }

    /// Why an item was refused.
    pub fn refusal(&self, item: usize) -> Option<&Refusal> {
        self.items[item].state.as_ref().err()
    }

    /// How many items were refused.
    pub fn refused(&self) -> usize {
        self.items.iter().filter(|item| item.state.is_err()).count()
    }

    /// Turns an opened batch into one to seal, with the same keys, users, salts and associated data, under the newest
    /// versions or those that [`Batch::seal_under`] has named. With other salts, what was sealed for a user who has just
    /// been deleted would open again.
    ///
    /// A text stays where it is: nonce and tag were before it, and will be. Only the version in its context changes.
    pub fn into_sealing(mut self) -> Self {
        self.op = Op::Seal;
        for item in &mut self.items {
            let Ok(placed) = &mut item.state else { continue };
            match placed.key.to_seal(item.again.take()).cloned() {
                Ok(version) => {
                    let context = &mut self.bytes[placed.salt.end..placed.user.end];
                    placed.key.set_version(version.number, context);
                    placed.version = version;
                }
                Err(refusal) => item.state = Err(refusal),
            }
        }
        self
    }

    /// The buffer, and for each item where its result lies in it.
    pub fn into_done(self) -> (Vec<u8>, Vec<Result<Done, Refusal>>) {
        let head = |placed: &Placed| if self.op == Op::Seal { 0 } else { 1 + placed.suite().overhead() };
        let done = |placed: Placed| Done {
            version: (self.op == Op::Seal).then_some(placed.version.number),
            free: placed.salt.start,
            start: placed.ciphertext + head(&placed),
            end: placed.end,
        };
        (self.bytes, self.items.into_iter().map(|item| item.state.map(done)).collect())
    }
}

/// Where the result of an item lies: what was sealed, or what was opened.
pub struct Done {
    /// The version, if it was sealed.
    pub version: Option<u32>,
    /// From here to the result, nobody needs the bytes any more.
    pub free: usize,
    /// Where it begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// Has up to `most` bytes written to the end of the buffer, and says where they lie.
fn written(
    bytes: &mut Vec<u8>,
    most: usize,
    write: impl FnOnce(&mut [u8]) -> Result<usize, Refusal>,
) -> Result<Range<usize>, Refusal> {
    let start = bytes.len();
    bytes.resize(start + most, 0);
    let len = write(&mut bytes[start..])?;
    bytes.truncate(start + len);
    Ok(start..bytes.len())
}

/// Refuses what cannot be a ciphertext of this suite: one with another number, or one that is too short.
fn may_be_of(suite: Suite, number: Option<&u8>, len: usize) -> Result<(), Refusal> {
    let may_be = number == Some(&suite.id()) && len > suite.overhead();
    if may_be { Ok(()) } else { Err(not_authentic()) }
}

/// The only item of a batch.
pub struct Single<'a> {
    /// The suite.
    pub suite: Suite,
    /// From which the user's key is derived.
    pub keys: &'a Arc<UserKeys>,
    /// The user, as the key is derived from it.
    pub user: &'a [u8],
    /// The associated data, with the context.
    pub ad: &'a [u8],
    /// The text, or the message.
    pub bytes: &'a [u8],
}

/// The refusal of a ciphertext that is not authentic, in the words of Vault.
pub fn not_authentic() -> Refusal {
    Refusal::invalid("cipher: message authentication failed")
}
