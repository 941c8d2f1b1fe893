//! The config and the keys of a volume (§10.2, §10.3).

use crate::file::open_chunks;
use crate::header::{SLOT_VOLUME, find_file_key, read_header};
use crate::sha3::kmac256;
use crate::slot::{Slot, VOLUME_WRAP};
use crate::{Error, array, u32_at};

/// A config that has been opened (§10.2).
#[derive(Clone, Debug)]
pub struct Config {
    /// The suite of all files of the volume.
    pub suite: u8,
    /// The binary logarithm of the length of their chunks.
    pub chunk_log2: u8,
    /// Whether bit 0 of the features is set: the volume has rollback protection (§10.9).
    pub has_versions: bool,
    /// The volume's keys.
    pub keys: VolumeKeys,
}

/// The keys of a volume (§10.3).
#[derive(Clone, Debug)]
pub struct VolumeKeys {
    /// `volume_key`.
    pub volume: [u8; 32],
    /// `K_files`.
    pub files: [u8; 32],
    /// `K_folders`.
    pub folders: [u8; 64],
    /// `K_names`.
    pub names: [u8; 64],
    /// `K_links`.
    pub links: [u8; 64],
    /// `K_xattrs`.
    pub xattrs: [u8; 64],
    /// `K_journal`.
    pub journal: [u8; 32],
    /// `K_versions`.
    pub versions: [u8; 32],
}

impl VolumeKeys {
    /// The keys of the volume whose config has this file key (§10.3).
    pub fn new(file_key: &[u8; 32]) -> Self {
        let volume = array(&kmac256(file_key, b"", 256, "phalanx v1 volume"));
        let of_32 = |label: &str| array(&kmac256(&volume, b"", 256, label));
        let of_64 = |label: &str| array(&kmac256(&volume, b"", 512, label));
        Self {
            volume,
            files: of_32("phalanx v1 volume files"),
            folders: of_64("phalanx v1 volume folders"),
            names: of_64("phalanx v1 volume names"),
            links: of_64("phalanx v1 volume links"),
            xattrs: of_64("phalanx v1 volume xattrs"),
            journal: of_32("phalanx v1 volume journal"),
            versions: of_32("phalanx v1 volume versions"),
        }
    }
}

/// A slot of type 16 (§10.2).
pub fn volume_slot(version: u32, features: u32) -> Slot {
    Slot::Raw { kind: SLOT_VOLUME, body: [version.to_le_bytes(), features.to_le_bytes()].concat() }
}

/// Opens a volume's config, checking in the order of §5.
pub fn open_config(file: &[u8], passwords: &[&[u8]], keys: &[[u8; 32]]) -> Result<Config, Error> {
    let header = read_header(file)?;
    let count = |wanted: u8| header.slots.iter().filter(|(kind, _)| *kind == wanted).count();
    let has_others = header.slots.iter().any(|(kind, _)| ![0, 1, 2, SLOT_VOLUME].contains(kind));
    if header.suite == 4 || has_others || count(SLOT_VOLUME) != 1 {
        return Err(Error::Header);
    }
    let (_, body) = header.slots.iter().find(|(kind, _)| *kind == SLOT_VOLUME).unwrap();
    if body.len() != 8 || u32_at(body, 0) != Some(1) || ![Some(0), Some(1)].contains(&u32_at(body, 4)) {
        return Err(Error::Header);
    }
    let has_versions = body[4] == 1;
    let file_key = find_file_key(VOLUME_WRAP, file, &header, passwords, keys, &[])?;
    if !open_chunks(file, &header, &file_key)?.is_empty() {
        return Err(Error::Altered);
    }
    let keys = VolumeKeys::new(&file_key);
    Ok(Config { suite: header.suite, chunk_log2: header.chunk_log2, has_versions, keys })
}
