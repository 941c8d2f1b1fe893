//! Folder ids, names, links and extended attributes (§10.4, §10.5).

use super::VolumeKeys;
use crate::siv::{siv_decrypt, siv_encrypt};
use crate::{array, sha3_256};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The longest name that a file system stores, in bytes (§10.4).
const NAME_MAX: usize = 255;
/// The longest target of a link, in bytes (§10.5).
const TARGET_MAX: usize = 3000;
/// The longest name of an extended attribute without `user.`, in bytes (§10.5).
const XATTR_MAX: usize = 165;
/// The longest value of an extended attribute, in bytes (§10.5).
const XATTR_VALUE_MAX: usize = 65520;
/// The prefix of long names (§10.4).
const LONG: &[u8] = b"phalanx.name.";
/// The prefix of the names of extended attributes (§10.5).
const XATTR: &[u8] = b"user.phalanx.";

/// base64url without padding (RFC 4648 §5; §10).
pub fn base64url(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for three in bytes.chunks(3) {
        let mut padded = [0; 4];
        padded[1..=three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes(padded);
        text.extend((0..=three.len()).map(|i| ALPHABET[(bits >> (18 - 6 * i) & 63) as usize]));
    }
    text
}

/// The bytes of a base64url text. `None` if it is not one. Each text has one encoding, so spare bits are 0.
pub fn unbase64url(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for four in text.chunks(4) {
        let mut bits = 0;
        for (i, letter) in four.iter().enumerate() {
            bits |= (ALPHABET.iter().position(|other| other == letter)? as u32) << (18 - 6 * i);
        }
        bytes.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    (base64url(&bytes) == text).then_some(bytes)
}

// ---- Folders (§10.4) -----------------------------------------------------------------------------------------------

/// A record of `phalanx.folder`.
pub fn folder_record(keys: &VolumeKeys, parent: &[u8; 16], stored: &[u8], folder_id: &[u8; 16]) -> Vec<u8> {
    siv_encrypt(&keys.folders, &[parent, stored], folder_id)
}

/// The id of the folder that was found in `parent` under the name `stored`, from the content of its `phalanx.folder`. `None` if the
/// folder does not belong there.
pub fn folder_id(keys: &VolumeKeys, parent: &[u8; 16], stored: &[u8], records: &[u8]) -> Option<[u8; 16]> {
    if ![32, 64].contains(&records.len()) {
        return None;
    }
    let id = records.chunks(32).find_map(|record| siv_decrypt(&keys.folders, &[parent, stored], record))?;
    Some(array(&id))
}

// ---- Names (§10.4) -------------------------------------------------------------------------------------------------

/// Whether a name is one that an entry may have.
pub fn name_is_valid(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

/// `sealed` of a name.
pub fn seal_name(keys: &VolumeKeys, folder_id: &[u8; 16], name: &[u8]) -> Vec<u8> {
    siv_encrypt(&keys.names, &[folder_id], name)
}

/// The stored name of a sealed name.
pub fn stored_name(sealed: &[u8]) -> Vec<u8> {
    if full_is_needed(sealed) { [LONG, &base64url(&sha3_256(sealed))].concat() } else { base64url(sealed) }
}

/// Whether a sealed name is stored as a long name, and so in a file with `.full` at the end of its name.
pub fn full_is_needed(sealed: &[u8]) -> bool {
    base64url(sealed).len() > NAME_MAX
}

/// The name of an entry. `full` is the content of the file with `.full` at the end of its name, if there is one. `None` if the entry
/// is not listed.
pub fn plain_name(keys: &VolumeKeys, folder_id: &[u8; 16], stored: &[u8], full: Option<&[u8]>) -> Option<Vec<u8>> {
    let sealed = if stored.starts_with(LONG) { full?.to_vec() } else { unbase64url(stored)? };
    // A name has one stored name only: no long one in place of a short one.
    if stored_name(&sealed) != stored {
        return None;
    }
    siv_decrypt(&keys.names, &[folder_id], &sealed).filter(|name| name_is_valid(name))
}

// ---- Links and extended attributes (§10.5) -------------------------------------------------------------------------

/// What the stored link points to.
pub fn seal_link(keys: &VolumeKeys, folder_id: &[u8; 16], stored: &[u8], target: &[u8]) -> Vec<u8> {
    base64url(&siv_encrypt(&keys.links, &[folder_id, stored], target))
}

/// The target of a link. `None` if it is damaged.
pub fn link_target(keys: &VolumeKeys, folder_id: &[u8; 16], stored: &[u8], points_to: &[u8]) -> Option<Vec<u8>> {
    let target = siv_decrypt(&keys.links, &[folder_id, stored], &unbase64url(points_to)?)?;
    ((1..=TARGET_MAX).contains(&target.len()) && !target.contains(&0)).then_some(target)
}

/// The stored name and value of the extended attribute `user.n`.
pub fn seal_xattr(keys: &VolumeKeys, owner: &[u8; 16], n: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let name = [XATTR, &base64url(&siv_encrypt(&keys.xattrs, &[owner, b"name"], n))].concat();
    (name, siv_encrypt(&keys.xattrs, &[owner, b"value", n], value))
}

/// The name `user.n` of a stored extended attribute, and its value unless that is damaged. `None` if the attribute is not listed.
pub fn plain_xattr(
    keys: &VolumeKeys,
    owner: &[u8; 16],
    stored_name: &[u8],
    stored_value: &[u8],
) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let sealed = unbase64url(stored_name.strip_prefix(XATTR)?)?;
    let n = siv_decrypt(&keys.xattrs, &[owner, b"name"], &sealed)?;
    if !(1..=XATTR_MAX).contains(&n.len()) || n.contains(&0) {
        return None;
    }
    let value = siv_decrypt(&keys.xattrs, &[owner, b"value", &n], stored_value);
    let value = value.filter(|value| value.len() <= XATTR_VALUE_MAX);
    Some(([b"user.", &n[..]].concat(), value))
}
