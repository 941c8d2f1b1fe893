//! The keys of a volume: `docs/format-volumes.md`, section 10.3. All are wiped on drop, and Debug shows none of them.

use crate::format::purpose::Purpose;
use crate::keys::id::KeyId;
use crate::keys::key::{Kek, SecretKey};
use phalanx_kernels::keccak::Kmac256;
use std::fmt;
use zeroize::Zeroizing;

/// A key for AES-SIV, as in `AEAD_AES_SIV_CMAC_512`.
pub type SivKey = Zeroizing<[u8; 64]>;

/// The keys of a volume.
#[derive(Clone)]
pub struct VolumeKeys {
    /// The named key that opens the volume's files.
    files: SecretKey,
    /// Its id and its key-encrypting key.
    pub(crate) files_id: KeyId,
    pub(crate) files_kek: Kek,
    /// Encrypts the ids of folders.
    pub folders: SivKey,
    /// Encrypts names.
    pub names: SivKey,
    /// Encrypts the targets of symbolic links.
    pub links: SivKey,
    /// Encrypts extended attributes.
    pub xattrs: SivKey,
    journal: SecretKey,
    versions: SecretKey,
}

impl VolumeKeys {
    /// Derives them from the file key of the config.
    pub(crate) fn new(file_key: &SecretKey) -> Self {
        let volume = file_key.derived(b"phalanx v1 volume");
        let siv = |label: &[u8]| {
            let mut key = Zeroizing::new([0; 64]);
            volume.derive(label, &mut *key);
            key
        };
        let files = volume.derived(b"phalanx v1 volume files");
        Self {
            files_id: files.id(),
            files_kek: files.wrapping_key().kek(Purpose::File),
            files,
            folders: siv(b"phalanx v1 volume folders"),
            names: siv(b"phalanx v1 volume names"),
            links: siv(b"phalanx v1 volume links"),
            xattrs: siv(b"phalanx v1 volume xattrs"),
            journal: volume.derived(b"phalanx v1 volume journal"),
            versions: volume.derived(b"phalanx v1 volume versions"),
        }
    }

    /// The MAC of a transaction of the journal, given all its bytes before the MAC.
    #[must_use]
    pub fn journal_mac(&self, transaction: &[u8]) -> [u8; 32] {
        Kmac256::new(self.journal.expose(), b"phalanx v1 volume transaction").tag(transaction)
    }

    /// The MAC of a batch of the table of versions, given the MAC of the batch before and all its bytes before the MAC.
    #[must_use]
    pub fn batch_mac(&self, before: &[u8; 32], batch: &[u8]) -> [u8; 32] {
        Kmac256::new(self.versions.expose(), b"phalanx v1 volume batch").tag(&[before, batch].concat())
    }

    /// A value that names the volume, for what is remembered of it elsewhere. Only those who can open the volume know it.
    #[must_use]
    pub fn volume_id(&self) -> [u8; 16] {
        Kmac256::new(self.versions.expose(), b"phalanx v1 volume id").tag_128(b"")
    }

    /// The named key that opens the volume's files, for tools that open single files.
    #[must_use]
    pub fn files(&self) -> &SecretKey {
        &self.files
    }
}

impl fmt::Debug for VolumeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKeys(…)")
    }
}
