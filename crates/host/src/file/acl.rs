//! Access control lists. With one, the group bits of a file's mode are not what its group may do, but the list's mask.
//!
//! Of files of secrets: systemd passes a credential to a service as a file of root that one entry
//! of such a list lets the service's user read. Its mode then shows group bits, although they are only the list's mask.

use crate::{Error, Result};
use phalanx_system::io::Errno;
use phalanx_system::os::fs::MetadataExt;
use std::fs::{File, Metadata};

/// The attribute that holds the list, as in `linux/posix_acl_xattr.h`.
const NAME: &str = "system.posix_acl_access";
const VERSION: u32 = 2;
/// What a file without a list says.
#[cfg(not(any(target_os = "macos", windows)))]
const NO_LIST: Errno = Errno::NODATA;
#[cfg(target_os = "macos")]
const NO_LIST: Errno = Errno::NOATTR;
#[cfg(windows)]
const NO_LIST: Errno = Errno::NOTSUP;
/// A longer list has entries for others.
const LONGEST: usize = 4 + 8 * 16;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Whether a list lets nobody access an opened file but root and this process's user.
pub fn is_for_user_alone(file: &File, meta: &Metadata) -> bool {
    let user = phalanx_system::process::geteuid().as_raw();
    if meta.mode() & 0o027 != 0 || ![0, user].contains(&meta.uid()) {
        return false;
    }
    let mut list = [0; LONGEST];
    match phalanx_system::fs::fgetxattr(file, NAME, &mut list) {
        Ok(len) => list.get(..len).is_some_and(|list| names_nobody_but(user, list)),
        Err(_) => false,
    }
}

/// The permissions that a file or folder has without its list. What its group may do is in the list.
///
/// # Errors
/// [`Error::Read`](phalanx_core::Error::Read) if nobody knows, because the list cannot be read.
pub(crate) fn without_list(file: &File, mode: u32) -> Result<u32> {
    const OF_GROUP: u32 = 0o070;
    match phalanx_system::fs::fgetxattr_query(file, NAME) {
        Ok(len) => {
            let mut list = vec![0; len];
            let len = phalanx_system::fs::fgetxattr(file, NAME, &mut list).map_err(Error::read)?;
            Ok(mode & !OF_GROUP | mode & OF_GROUP & group(&list[..len]) << 3)
        }
        // There is none, or the file system knows none.
        Err(NO_LIST | Errno::NOTSUP | Errno::NOSYS) => Ok(mode),
        Err(e) => Err(Error::read(e)),
    }
}

/// Whether a file or folder has a list.
pub(crate) fn has_list(file: &File) -> bool {
    phalanx_system::fs::fgetxattr_query(file, NAME).is_ok()
}

/// What a list lets a file's group do, by its own entry: three bits.
fn group(list: &[u8]) -> u32 {
    let entries = list.get(4..).unwrap_or_default().as_chunks::<8>().0;
    let of_group = entries.iter().find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == GROUP_OBJ);
    of_group.map_or(0, |entry| u32::from(u16::from_le_bytes([entry[2], entry[3]])) & 7)
}

/// Whether a list gives no access to others than its owner, root and a user.
fn names_nobody_but(user: u32, list: &[u8]) -> bool {
    let Some((version, entries)) = list.split_first_chunk::<4>() else { return false };
    let (entries, rest) = entries.as_chunks::<8>();
    u32::from_le_bytes(*version) == VERSION && rest.is_empty() && entries.iter().all(|entry| is_harmless(user, *entry))
}

fn is_harmless(user: u32, entry: [u8; 8]) -> bool {
    let [tag_low, tag_high, may_low, may_high, id @ ..] = entry;
    let may_nothing = [may_low, may_high] == [0, 0];
    match u16::from_le_bytes([tag_low, tag_high]) {
        USER_OBJ | MASK => true,
        USER => may_nothing || [0, user].contains(&u32::from_le_bytes(id)),
        GROUP_OBJ | OTHER => may_nothing,
        // Those of groups, and whatever else there may be.
        _ => may_nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: u32 = u32::MAX;
    const GROUP: u16 = 0x08;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut list = VERSION.to_le_bytes().to_vec();
        for (tag, may, id) in entries {
            list.extend_from_slice(&tag.to_le_bytes());
            list.extend_from_slice(&may.to_le_bytes());
            list.extend_from_slice(&id.to_le_bytes());
        }
        list
    }

    #[test]
    fn a_credential_of_systemd_is_for_one_user() {
        let credential = |group, other, id| {
            list(&[(USER_OBJ, 4, NONE), (USER, 4, id), (GROUP_OBJ, group, NONE), (MASK, 4, NONE), (OTHER, other, NONE)])
        };
        assert!(names_nobody_but(1000, &credential(0, 0, 1000)));
        assert!(!names_nobody_but(1000, &credential(4, 0, 1000)));
        assert!(!names_nobody_but(1000, &credential(0, 4, 1000)));
        assert!(!names_nobody_but(1000, &credential(0, 0, 1001)));
        let of_group = |may| list(&[(USER_OBJ, 4, NONE), (GROUP_OBJ, 0, NONE), (GROUP, may, 7), (OTHER, 0, NONE)]);
        assert!(names_nobody_but(1000, &of_group(0)));
        assert!(!names_nobody_but(1000, &of_group(4)));
    }

    #[test]
    fn the_mask_is_not_what_the_group_may_do() {
        let of_group =
            |may| group(&list(&[(USER_OBJ, 6, NONE), (USER, 4, 7), (GROUP_OBJ, may, NONE), (MASK, 7, NONE)]));
        assert_eq!((of_group(0), of_group(5)), (0, 5));
        assert_eq!((group(&[]), group(&[2, 0, 0, 0, 4])), (0, 0));
    }

    #[test]
    fn a_list_of_another_form_is_refused() {
        let whole = list(&[(USER_OBJ, 4, NONE), (USER, 4, 1000)]);
        assert!(names_nobody_but(1000, &whole));
        for len in [0, 3, 7, whole.len() - 1] {
            assert!(!names_nobody_but(1000, &whole[..len]), "{len}");
        }
        let mut other = whole;
        other[0] = 3;
        assert!(!names_nobody_but(1000, &other));
    }
}
