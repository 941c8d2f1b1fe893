//! Names, targets of links, extended attributes and ids of folders, encrypted one by one: `docs/format-volumes.md`,
//! sections 10.4 and 10.5. Nothing here touches a file.

use aes_siv::KeyInit;
use aes_siv::siv::Aes256Siv;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use phalanx_core::volume::{SivKey, VolumeKeys};
pub use phalanx_host::volumes::RECORD_LEN;
use phalanx_kernels::keccak::sha3_256;
use rustix::io::Errno;
use std::sync::{Mutex, PoisonError};

/// Identifies a folder, wherever it is moved.
pub type FolderId = [u8; 16];

/// The longest name, in bytes.
pub const MAX_NAME: usize = 255;
/// The longest target of a symbolic link, in bytes.
pub const MAX_TARGET: usize = 3000;
/// The longest name of an extended attribute without `user.`, in bytes: its stored name has at most 255.
pub const MAX_ATTRIBUTE: usize = 165;
/// The longest value of an extended attribute, in bytes: what is stored has at most 65536.
pub const MAX_VALUE: usize = 65536 - TAG;
/// The prefix of the stored form of a long name.
pub const LONG: &[u8] = b"phalanx.name.";
/// The suffix of the name of the file that holds a long name.
pub const FULL: &[u8] = b".full";
/// The prefix of the stored name of an extended attribute.
pub const ATTRIBUTE: &str = "user.phalanx.";

const TAG: usize = 16;
/// The longest sealed name that is stored in the name itself: 255 characters of base64url.
const MAX_SHORT: usize = 191;
/// How many ciphers with their key schedules are kept for each key: as many as threads use it at once.
const KEPT: usize = 64;

/// A name as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The name of the entry.
    pub entry: Box<[u8]>,
    /// The content of the file beside a long name.
    pub full: Option<Box<[u8]>>,
}

/// AES-SIV under one key. Ciphers with their key schedules are kept and used again.
struct Siv {
    key: SivKey,
    /// The ciphers are boxed, because moving them would leave copies of the schedules in memory.
    #[allow(clippy::vec_box)]
    kept: Mutex<Vec<Box<Aes256Siv>>>,
}

impl Siv {
    fn new(key: &SivKey) -> Self {
        Self { key: key.clone(), kept: Mutex::default() }
    }

    fn with<R>(&self, run: impl FnOnce(&mut Aes256Siv) -> R) -> R {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = kept().pop();
        let mut cipher = taken.unwrap_or_else(|| Box::new(Aes256Siv::new((&*self.key).into())));
        let result = run(&mut cipher);
        let mut kept = kept();
        if kept.len() < KEPT {
            kept.push(cipher);
        }
        result
    }

    fn seal(&self, bindings: &[&[u8]], plain: &[u8]) -> Vec<u8> {
        // It fails only for more than 126 bindings.
        self.with(|cipher| cipher.encrypt(bindings, plain)).unwrap_or_default()
    }

    fn open(&self, bindings: &[&[u8]], sealed: &[u8]) -> Option<Vec<u8>> {
        self.with(|cipher| cipher.decrypt(bindings, sealed)).ok()
    }
}

/// The keys for everything that is encrypted outside of files.
pub struct Names {
    folders: Siv,
    names: Siv,
    links: Siv,
    xattrs: Siv,
}

impl Names {
    /// Takes the keys of a volume.
    #[must_use]
    pub fn new(keys: &VolumeKeys) -> Self {
        let [folders, names, links, xattrs] = [&keys.folders, &keys.names, &keys.links, &keys.xattrs].map(Siv::new);
        Self { folders, names, links, xattrs }
    }

    /// A name as it is stored in a folder.
    ///
    /// # Errors
    /// `ENAMETOOLONG` above [`MAX_NAME`], and `EINVAL` if it is no name.
    pub fn seal(&self, folder: &FolderId, name: &[u8]) -> Result<Stored, Errno> {
        check(name)?;
        let sealed = self.names.seal(&[folder], name);
        if sealed.len() <= MAX_SHORT {
            return Ok(Stored { entry: encode(&sealed).into_bytes().into(), full: None });
        }
        Ok(Stored { entry: long(&sealed).into(), full: Some(sealed.into()) })
    }

    /// The plain name for a stored name that is not long; `None` if it is not authentic.
    #[must_use]
    pub fn open(&self, folder: &FolderId, stored: &[u8]) -> Option<Vec<u8>> {
        self.open_sealed(folder, &decode(stored)?).filter(|_| stored.len() <= MAX_NAME)
    }

    /// The plain name for a stored long name, given the content of the file beside it; `None` if it is not authentic.
    #[must_use]
    pub fn open_long(&self, folder: &FolderId, stored: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let is_its = sealed.len() > MAX_SHORT && sealed.len() <= MAX_NAME + TAG && long(sealed) == stored;
        is_its.then(|| self.open_sealed(folder, sealed)).flatten()
    }

    fn open_sealed(&self, folder: &FolderId, sealed: &[u8]) -> Option<Vec<u8>> {
        self.names.open(&[folder], sealed).filter(|name| check(name).is_ok())
    }

    /// The record that binds a folder to its place.
    #[must_use]
    pub fn seal_folder(&self, parent: &FolderId, stored: &[u8], id: &FolderId) -> [u8; RECORD_LEN] {
        let sealed = self.folders.seal(&[parent, stored], id);
        let mut record = [0; RECORD_LEN];
        record.copy_from_slice(&sealed);
        record
    }

    /// The id in a record of `phalanx.folder`; `None` if the folder does not belong in this place.
    #[must_use]
    pub fn open_folder(&self, parent: &FolderId, stored: &[u8], record: &[u8]) -> Option<FolderId> {
        self.folders.open(&[parent, stored], record)?.try_into().ok()
    }

    /// The target of a symbolic link, as it is stored.
    ///
    /// # Errors
    /// `ENAMETOOLONG` above [`MAX_TARGET`], `ENOENT` if it is empty, and `EINVAL` if it contains a zero byte.
    pub fn seal_link(&self, folder: &FolderId, stored: &[u8], target: &[u8]) -> Result<String, Errno> {
        check_target(target)?;
        Ok(encode(&self.links.seal(&[folder, stored], target)))
    }

    /// The plain target for a stored target; `None` if it is not authentic.
    #[must_use]
    pub fn open_link(&self, folder: &FolderId, stored: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.links.open(&[folder, stored], &decode(sealed)?).filter(|target| check_target(target).is_ok())
    }

    /// The name of an extended attribute, as it is stored. `name` is without `user.`.
    ///
    /// # Errors
    /// `ERANGE` above [`MAX_ATTRIBUTE`], and `EINVAL` if it is no name.
    pub fn seal_attribute(&self, owner: &[u8; 16], name: &[u8]) -> Result<String, Errno> {
        match name {
            [] => Err(Errno::INVAL),
            _ if name.contains(&0) => Err(Errno::INVAL),
            _ if name.len() > MAX_ATTRIBUTE => Err(Errno::RANGE),
            _ => Ok(format!("{ATTRIBUTE}{}", encode(&self.xattrs.seal(&[owner, b"name"], name)))),
        }
    }

    /// The plain name, without `user.`, for the stored name of an extended attribute; `None` if it is not authentic.
    #[must_use]
    pub fn open_attribute(&self, owner: &[u8; 16], stored: &[u8]) -> Option<Vec<u8>> {
        let name = self.xattrs.open(&[owner, b"name"], &decode(stored.strip_prefix(ATTRIBUTE.as_bytes())?)?)?;
        ((1..=MAX_ATTRIBUTE).contains(&name.len()) && !name.contains(&0)).then_some(name)
    }

    /// The value of an extended attribute, as it is stored.
    #[must_use]
    pub fn seal_value(&self, owner: &[u8; 16], name: &[u8], value: &[u8]) -> Vec<u8> {
        self.xattrs.seal(&[owner, b"value", name], value)
    }

    /// The plain value for the stored value of an extended attribute; `None` if it is not authentic.
    #[must_use]
    pub fn open_value(&self, owner: &[u8; 16], name: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.xattrs.open(&[owner, b"value", name], sealed)
    }
}

/// The length of the target of a symbolic link, given the stored length; `None` if no target has such a length.
#[must_use]
pub fn target_len(stored: u64) -> Option<u64> {
    // Four characters hold three bytes. Two or three characters at the end hold one or two bytes.
    let bytes = match stored % 4 {
        1 => return None,
        0 => stored / 4 * 3,
        rest => stored / 4 * 3 + rest - 1,
    };
    bytes.checked_sub(TAG as u64).filter(|len| (1..=MAX_TARGET as u64).contains(len))
}

/// Whether an entry of a folder with this stored name is an entry of the volume.
#[must_use]
pub fn is_entry(stored: &[u8]) -> bool {
    !stored.contains(&b'.') || is_long(stored)
}

/// Whether this is the stored name of an entry with a long name.
#[must_use]
pub fn is_long(stored: &[u8]) -> bool {
    stored.strip_prefix(LONG).is_some_and(|rest| !rest.contains(&b'.'))
}

/// The name of the file beside an entry with a long name.
#[must_use]
pub fn full_name(stored: &[u8]) -> Vec<u8> {
    [stored, FULL].concat()
}

fn long(sealed: &[u8]) -> Vec<u8> {
    [LONG, encode(&sha3_256(sealed)).as_bytes()].concat()
}

fn check(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"" | b"." | b".." => Err(Errno::INVAL),
        _ if name.len() > MAX_NAME => Err(Errno::NAMETOOLONG),
        _ if name.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

fn check_target(target: &[u8]) -> Result<(), Errno> {
    match target {
        [] => Err(Errno::NOENT),
        _ if target.len() > MAX_TARGET => Err(Errno::NAMETOOLONG),
        _ if target.contains(&0) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Refuses padding, and spare bits that are not 0.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
