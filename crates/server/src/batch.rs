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

    /// Whether it is to be sealed or opened.
    pub fn op(&self) -> Op {
        self.op
    }

    /// The number of items, those that were refused among them.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
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
        let state = new.key.to_seal(version).cloned().and_then(|version| {
            let head = 1 + new.key.suite.overhead();
            self.place(&new, (version, None), head, |place| {
                place[0] = new.key.record.suite;
                Ok(head + write(&mut place[head..])?)
            })
        });
        self.items.push(Item { state, again: None });
    }

    /// Adds a ciphertext to open. `write` writes the suite's number and the message to the front of the given place, and
    /// returns their length.
    pub fn to_open(&mut self, new: New<'_>, version: u32, write: impl FnOnce(&mut [u8]) -> Result<usize, Refusal>) {
        let newer = (version > new.key.latest()).then_some(version);
        let known = newer.and_then(|_| new.key.newest()).map_or_else(|| new.key.to_open(version), Ok);
        // That no such version is known is said before all else.
        let said = |refusal| newer.and_then(|newer| new.key.to_open(newer).err()).unwrap_or(refusal);
        let state = known.cloned().and_then(|known| {
            let suite = new.key.suite;
            self.place(&new, (known, newer), 0, |place| {
                let len = write(place)?;
                match place[..len].split_first() {
                    Some((number, message)) if *number == suite.id() && message.len() >= suite.overhead() => Ok(len),
                    _ => Err(not_authentic()),
                }
            })
        });
        let state = state.map_err(said);
        self.items.push(Item { state, again: None });
    }

    fn place(
        &mut self,
        new: &New<'_>,
        (version, newer): (Arc<Version>, Option<u32>),
        head: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize, Refusal>,
    ) -> Result<Placed, Refusal> {
        if new.key.record.needs_user && new.user.is_empty() {
            return Err(Refusal::invalid(
                "missing 'context' for key derivation; the key was created using a derived key, which means additional, \
                 per-request information must be included in order to perform operations with the key",
            ));
        }
        let start = self.bytes.len();
        let salt = start..start + if new.key.record.shreddable { SALT } else { 0 };
        let context = new.key.context_len(new.user);
        self.bytes.reserve(salt.len() + context + new.ad.len() + head + new.most);
        let bytes = &mut self.bytes;
        bytes.resize(salt.end, 0);
        new.key.context(newer.unwrap_or(version.number), new.user, bytes);
        let user = bytes.len() - new.user.len()..bytes.len();
        bytes.extend_from_slice(new.ad);
        let ciphertext = bytes.len();
        bytes.resize(ciphertext + head + new.most, 0);
        match write(&mut bytes[ciphertext..]) {
            Ok(len) => {
                self.bytes.truncate(ciphertext + len);
                let end = ciphertext + len;
                Ok(Placed { key: new.key.clone(), version, newer, salt, user, ciphertext, end })
            }
            Err(refusal) => {
                self.bytes.truncate(start);
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
    pub fn into_sealing(self) -> Self {
        let mut sealing = Self::new(Op::Seal, self.bytes() + 64 * self.len());
        for item in self.items {
            match item.state {
                Err(refusal) => sealing.refuse(refusal),
                Ok(placed) => {
                    let bytes = &self.bytes;
                    let text = &bytes[placed.ciphertext + 1 + placed.suite().overhead()..placed.end];
                    let (user, ad) = (&bytes[placed.user.clone()], &bytes[placed.user.end..placed.ciphertext]);
                    let new = New { key: &placed.key, user, ad, most: text.len() };
                    sealing.to_seal(new, item.again, |place| {
                        place[..text.len()].copy_from_slice(text);
                        Ok(text.len())
                    });
                    if let Some(salt) = bytes[placed.salt.clone()].first_chunk() {
                        sealing.set_salt(sealing.len() - 1, Ok(salt));
                    }
                }
            }
        }
        sealing
    }
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
