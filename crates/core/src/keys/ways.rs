//! The ways into a file, opened to be changed: which slots exist, which are removed, and which are new.

use crate::file::read_at::ReadAt;
use crate::file::salvage;
use crate::file::source::Source;
use crate::format::header::Header;
use crate::format::slot::Slot;
use crate::keys::access::{MOST_SERVICE_SLOTS, Opened, OpenedBy, Opener};
use crate::keys::id::KeyId;
use crate::keys::key::{FileKeys, SecretKey};
use crate::keys::recipient::Recipient;
use crate::keys::source::KeySource;
use crate::{Class, Error, Result};
use std::fmt;

/// The ways into a protected file that a key at hand opens, and their intended changes.
///
/// Removing and adding here changes no file. The changes take effect by `InPlace::write` of `phalanx-host`, or in a
/// [`NewFile`](crate::NewFile) for [`Ways::recipients`].
pub struct Ways {
    header: Header,
    file_key: SecretKey,
    keys: FileKeys,
    /// The number of the slot that opened the header.
    opened: usize,
    by: OpenedBy,
    /// Whether each of the header's slots stays. Padding never does, because it is made again.
    kept: Vec<bool>,
    added: Vec<Recipient>,
    /// Whether the header differs from the one that a caller may have seen before.
    renumbered: bool,
}

impl Ways {
    /// Opens a header with the keys at hand, and keeps the file key.
    ///
    /// # Errors
    /// Those of [`Opener::open`].
    pub fn open(header: Header, opener: &Opener<impl KeySource>) -> Result<Self> {
        let opened = opener.open(&header)?;
        Ok(Self::new(header, opened))
    }

    /// Reads a header, which may be that of a volume's config, and opens it. The header of a file is read again if
    /// another process may have been writing it.
    ///
    /// # Errors
    /// Those of [`Source::header`] and [`Opener::open`].
    pub fn read(source: &mut Source, opener: &Opener<impl KeySource>) -> Result<Self> {
        let (header, opened) = source.open_for(|_| Ok(()), opener)?;
        Ok(Self::new(header, opened))
    }

    fn new(header: Header, opened: Opened) -> Self {
        let Opened { file_key, keys, slot, by } = opened;
        let kept = header.slots().iter().map(|slot| !matches!(slot, Slot::Padding(_))).collect();
        Self { header, file_key, keys, opened: slot, by, kept, added: Vec::new(), renumbered: false }
    }

    /// The header as it was opened.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What opened the header.
    #[must_use]
    pub fn opened_by(&self) -> &OpenedBy {
        &self.by
    }

    /// The [number](Header::slots) of the slot that opened it.
    #[must_use]
    pub fn opened_slot(&self) -> usize {
        self.opened
    }

    /// Whether the ways in are to change.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.is_reduced() || !self.added.is_empty()
    }

    /// Whether a way in is to be removed.
    #[must_use]
    pub fn is_reduced(&self) -> bool {
        let mut slots = self.header.slots().iter().zip(&self.kept);
        let is_gone = |slot: &Slot| match slot {
            Slot::Padding(_) => false,
            Slot::Key { id, .. } => {
                !self.added.iter().any(|recipient| matches!(recipient, Recipient::Key { id: other, .. } if other == id))
            }
            Slot::Age { tag, .. } => !self.added.iter().any(|recipient| self.is_of(recipient, tag)),
            Slot::Service { uri, .. } => !self.has_added_service(uri),
            _ => true,
        };
        slots.any(|(slot, kept)| !kept && is_gone(slot))
    }

    /// Whether this service is added.
    fn has_added_service(&self, uri: &str) -> bool {
        self.added.iter().any(|recipient| matches!(recipient, Recipient::Service { uri: other, .. } if **other == *uri))
    }

    /// Whether an age slot with this tag is the recipient's.
    fn is_of(&self, recipient: &Recipient, tag: &[u8; 16]) -> bool {
        matches!(recipient, Recipient::Age(recipient) if self.keys.recipient_tag(recipient.text()) == *tag)
    }

    /// Whether the slot with this [number](Header::slots) is an age slot for the recipient with this canonical text.
    #[must_use]
    pub fn is_for(&self, number: usize, text: &str) -> bool {
        let slot = self.header.numbered().find(|(other, _)| *other == number);
        matches!(slot, Some((_, Slot::Age { tag, .. })) if self.keys.recipient_tag(text) == *tag)
    }

    /// Adds a recipient. A named key that is already a way in, and stays one, is not added again. An age recipient that
    /// has a slot gets a new one in its place, because only the recipient can tell whether the old one opens. So does a
    /// key service.
    pub fn add(&mut self, recipient: &Recipient) {
        if let Recipient::Age(age) = recipient {
            self.remove_recipient(age.text());
            if self.added.iter().any(|other| matches!(other, Recipient::Age(other) if other.text() == age.text())) {
                return;
            }
        }
        if let Recipient::Service { uri, .. } = recipient {
            self.remove_service(uri);
            if self.has_added_service(uri) {
                return;
            }
        }
        let purpose = self.header.purpose();
        if let Recipient::Key { id, kek } = recipient {
            for (slot, kept) in self.header.slots().iter().zip(&mut self.kept).filter(|(_, kept)| **kept) {
                if let Slot::Key { id: other, wrapped } = slot
                    && other == id
                {
                    if kek.unwrap(purpose, wrapped).is_some_and(|key| key.matches(&self.file_key)) {
                        return;
                    }
                    // It has the key's id, but the key does not open it.
                    *kept = false;
                }
            }
            if self.added.iter().any(|other| matches!(other, Recipient::Key { id: other, .. } if other == id)) {
                return;
            }
        }
        self.added.push(recipient.clone());
    }

    /// Whether a slot that stays opens with these keys or this password.
    ///
    /// # Errors
    /// What the source of keys reports, or [`Error::KdfMemory`].
    pub fn open_to(&self, opener: &Opener<impl KeySource>) -> Result<bool> {
        match opener.open_slot(&self.header, |number| self.kept[number - 1]) {
            Ok(_) => Ok(true),
            Err(e) if e.class() == Class::NotAuthentic => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Removes all slots of a named key. Returns whether there were any.
    pub fn remove_key(&mut self, id: &KeyId) -> bool {
        self.remove(|slot| matches!(slot, Slot::Key { id: other, .. } if other == id))
    }

    /// Removes all slots of an age recipient, given its canonical text. Returns whether there were any.
    pub fn remove_recipient(&mut self, text: &str) -> bool {
        let tag = self.keys.recipient_tag(text);
        self.remove(|slot| matches!(slot, Slot::Age { tag: other, .. } if *other == tag))
    }

    /// Removes all slots of a key service, given its URI. Returns whether there were any.
    pub fn remove_service(&mut self, uri: &str) -> bool {
        self.remove(|slot| matches!(slot, Slot::Service { uri: other, .. } if other == uri))
    }

    /// Removes all password slots. Returns whether there were any.
    pub fn remove_passwords(&mut self) -> bool {
        self.remove(|slot| matches!(slot, Slot::Password { .. }))
    }

    /// Removes the slot with this [number](Header::slots), whatever its type.
    ///
    /// # Errors
    /// [`Error::NoSuchSlot`] if there is none, or if it is padding. [`Error::Renumbered`] if an interrupted change was
    /// finished when these ways were opened: the number may then be one of the earlier header.
    pub fn remove_slot(&mut self, number: usize) -> Result<()> {
        if self.renumbered {
            return Err(Error::Renumbered);
        }
        match self.header.numbered().find(|(other, _)| *other == number) {
            None | Some((_, Slot::Padding(_))) => Err(Error::NoSuchSlot(number)),
            Some(_) => {
                self.kept[number - 1] = false;
                Ok(())
            }
        }
    }

    fn remove(&mut self, goes: impl Fn(&Slot) -> bool) -> bool {
        let mut found = false;
        for (_, kept) in self.header.slots().iter().zip(&mut self.kept).filter(|(slot, _)| goes(slot)) {
            *kept = false;
            found = true;
        }
        found
    }

    /// The header with the changed ways in. It has the length of the one that was opened, so that it can replace that
    /// in place. Slots of unknown types stay as they are.
    ///
    /// # Errors
    /// [`Error::LastWay`] if no slot would be left that is new or opens with a key at hand. [`Error::HeaderRoom`],
    /// [`Error::KeyCount`] or [`Error::TooManyPasswords`] if the slots do not fit. [`Error::Recipient`] if an age
    /// recipient cannot be added. Also what the source of keys reports.
    pub fn changed(&self, opener: &Opener<impl KeySource>) -> Result<Header> {
        self.check_last(opener)?;
        let kept = self.header.slots().iter().zip(&self.kept).filter(|(_, kept)| **kept).map(|(slot, _)| slot.clone());
        let Self { header, keys, file_key, .. } = self;
        let added = self.added.iter().map(|recipient| recipient.slot(header.purpose(), file_key, keys));
        let slots: Vec<Slot> = kept.map(Ok).chain(added).collect::<Result<_>>()?;
        check_services(&slots)?;
        Header::with_len(header.suite(), header.chunk_log2(), slots, keys, header.bytes().len())
    }

    /// The recipients of a new file that has the changed ways in. Each needs its key or password at hand, since a new
    /// file has a new file key. A password gets a new salt, and the recommended parameters.
    ///
    /// # Errors
    /// [`Error::NotAtHand`] if a slot that stays cannot be made again. [`Error::LastWay`] if no recipient is left.
    /// Those of [`Recipient::password`], and what the source of keys reports.
    pub fn recipients(&self, opener: &Opener<impl KeySource>) -> Result<Vec<Recipient>> {
        let mut recipients =
            opener.recipients(&self.header, |number| self.kept[number - 1], &self.file_key, &self.keys)?;
        recipients.extend(self.added.iter().cloned());
        if recipients.is_empty() { Err(Error::LastWay) } else { Ok(recipients) }
    }

    /// Checks that a way in is left that is known to work. A slot that was never opened may open for nobody.
    fn check_last(&self, opener: &Opener<impl KeySource>) -> Result<()> {
        if self.kept[self.opened - 1] || !self.added.is_empty() || self.open_to(opener)? {
            return Ok(());
        }
        Err(Error::LastWay)
    }

    /// Records that this header is new in its place, so nobody can have seen its slot numbers. Afterwards no slot is
    /// removed by its number.
    pub fn renumber(&mut self) {
        self.renumbered = true;
    }

    /// Whether the chunks of a file are sealed under the file key of this header: the last one is authentic, or else
    /// the first.
    ///
    /// # Errors
    /// If the file cannot be read, or if there is not enough memory.
    pub fn open_content(&self, file: &dyn ReadAt) -> Result<bool> {
        salvage::opens(&self.header, &self.keys, file)
    }

    /// Whether a header was written by somebody who knows the file key.
    #[must_use]
    pub fn vouch_for(&self, header: &Header) -> bool {
        header.is_authentic(&self.file_key.file_keys(header.suite()))
    }
}

/// Refuses more service slots than a reader tries.
fn check_services(slots: &[Slot]) -> Result<()> {
    let mut services = slots.iter().filter_map(|slot| match slot {
        Slot::Service { uri, .. } => Some(uri),
        _ => None,
    });
    services.nth(MOST_SERVICE_SLOTS).map_or(Ok(()), |uri| {
        let reason = format!("a file has at most {MOST_SERVICE_SLOTS} key services");
        Err(Error::Recipient { recipient: uri.clone(), reason })
    })
}

impl fmt::Debug for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ways({} slots)", self.header.slots().len())
    }
}
