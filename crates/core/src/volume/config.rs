//! The config of a volume: `docs/format-volumes.md`, section 10.2.

use crate::file::pipeline;
use crate::file::source::{Sink, Source};
use crate::format::chunk_size::ChunkSize;
use crate::format::header::Header;
use crate::format::purpose::Purpose;
use crate::format::slot::Slot;
use crate::keys::access::{Opened, Opener};
use crate::keys::key::SecretKey;
use crate::keys::recipient::{Recipient, slots_for};
use crate::keys::source::KeySource;
use crate::roster::Roster;
use crate::volume::keys::VolumeKeys;
use crate::{Error, Result, Suite};
use std::fmt;

/// The name of the config in the root folder of a volume.
pub const CONFIG: &str = "phalanx.volume";

/// The version of volumes that this program knows: the first half of the slot's body. The features are the other half.
const VERSION: [u8; 4] = [1, 0, 0, 0];
/// The bit of the feature [`Features::rollback_protection`].
const ROLLBACK_PROTECTION: u32 = 1;

/// What a volume has that not every volume has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Older states of its files are found: each header has the sums of the chunks, and a table has the tags of all
    /// headers.
    pub rollback_protection: bool,
}

impl Features {
    fn body(self) -> Vec<u8> {
        let bits = if self.rollback_protection { ROLLBACK_PROTECTION } else { 0 };
        [VERSION, bits.to_le_bytes()].concat()
    }

    /// The features that a slot's body names; `None` if it has another version or an unknown feature.
    fn parse(body: [u8; 8]) -> Option<Self> {
        let (version, bits) = body.split_at(4);
        let bits = u32::from_le_bytes(bits.try_into().expect("four bytes"));
        let features = Self { rollback_protection: bits & ROLLBACK_PROTECTION != 0 };
        (version == VERSION && bits & !ROLLBACK_PROTECTION == 0).then_some(features)
    }
}

/// The content of a volume's config.
#[derive(Clone)]
pub struct Config {
    suite: Suite,
    chunk_size: ChunkSize,
    features: Features,
    keys: VolumeKeys,
}

impl Config {
    /// Draws the keys of a new volume. Also returns the bytes of its config, which give them to the recipients.
    ///
    /// # Errors
    /// [`Error::Header`] for suite 4, which must not write a chunk twice. Those of
    /// [`NewFile::new`](crate::NewFile::new), and [`Error::Recipient`] for an age recipient.
    pub fn create(suite: Suite, chunk_size: ChunkSize, recipients: &[Recipient]) -> Result<(Vec<u8>, Self)> {
        Self::create_with(suite, chunk_size, Features::default(), recipients)
    }

    /// Draws the keys of a new volume with these features, as [`Config::create`] does.
    ///
    /// # Errors
    /// Those of [`Config::create`].
    pub fn create_with(
        suite: Suite,
        chunk_size: ChunkSize,
        features: Features,
        recipients: &[Recipient],
    ) -> Result<(Vec<u8>, Self)> {
        check_suite(suite)?;
        let file_key = SecretKey::random()?;
        let keys = file_key.file_keys(suite);
        let mut slots = slots_for(Purpose::Volume, recipients, &file_key, &keys)?;
        if slots.is_empty() {
            return Err(Error::KeyCount(0));
        }
        slots.push(Slot::Unknown { kind: Slot::VOLUME, body: features.body() });
        let header = Header::padded(suite, chunk_size.0, slots, &keys)?;
        let mut bytes = Vec::new();
        let sink = Sink::Stream(Box::new(&mut bytes));
        pipeline::seal(&Roster::cpu(), &header, &keys, Source::stream(&[][..]), sink, None, &())?;
        Ok((bytes, Self { suite, chunk_size, features, keys: VolumeKeys::new(&file_key) }))
    }

    /// Reads a config with the keys at hand, and checks it completely.
    ///
    /// # Errors
    /// If it cannot be read, is not the config of a volume, has an unknown version, or is not authentic; or if no key
    /// at hand opens it.
    pub fn open(mut source: Source<'_>, keys: &Opener<impl KeySource>) -> Result<Self> {
        let (header, Opened { file_key, keys, .. }) = source.open_for(check, keys)?;
        if pipeline::open(&Roster::cpu(), &header, &keys, source, Sink::Nothing, None, &())? > 0 {
            return Err(Error::Extended("the config of a volume has no content"));
        }
        let chunk_size = ChunkSize(header.chunk_log2());
        let features = features(&header)?;
        Ok(Self { suite: header.suite(), chunk_size, features, keys: VolumeKeys::new(&file_key) })
    }

    /// The suite of the volume's files.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The chunk size of the volume's files.
    #[must_use]
    pub fn chunk_size(&self) -> ChunkSize {
        self.chunk_size
    }

    /// What the volume has that not every volume has.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// The volume's keys.
    #[must_use]
    pub fn keys(&self) -> &VolumeKeys {
        &self.keys
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Config({}, …)", self.suite.name())
    }
}

/// The checks before any key is tried.
fn check(header: &Header) -> Result<()> {
    header.check_purpose(Purpose::Volume)?;
    check_suite(header.suite())?;
    features(header)?;
    let is_allowed =
        |slot: &Slot| !matches!(slot, Slot::Age { .. }) && (slot.kind() <= 2 || slot.kind() == Slot::VOLUME);
    if header.slots().iter().all(is_allowed) {
        Ok(())
    } else {
        Err(Error::Header("a volume opens by keys and passwords only"))
    }
}

fn features(header: &Header) -> Result<Features> {
    const NEWER: Error = Error::Header("a newer kind of volume, which this program does not know");
    const MALFORMED: Error = Error::Header("a volume slot of the wrong length, or several");
    let mut volume = header.slots().iter().filter(|slot| slot.kind() == Slot::VOLUME);
    match (volume.next(), volume.next()) {
        (Some(Slot::Unknown { body, .. }), None) => {
            let body = body.as_slice().try_into().map_err(|_| MALFORMED)?;
            Features::parse(body).ok_or(NEWER)
        }
        _ => Err(MALFORMED),
    }
}

fn check_suite(suite: Suite) -> Result<()> {
    match suite {
        Suite::Aes256Gcm => Err(Error::Header("suite 4 cannot write a chunk anew, so a volume cannot have it")),
        _ => Ok(()),
    }
}
