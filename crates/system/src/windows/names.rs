//! Names. The programs treat names as bytes: on Windows these are their UTF-8.

use super::io::{Errno, Result};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::OsStrExt as _;
use std::path::Path;

/// Stands for a name that is not Unicode. Windows allows none like it, and [`checked`] refuses it in its own words.
const NOT_UNICODE: &str = "<not Unicode>";

/// Stands for a name of another system that would be a path here, or that names a stream of a file.
const NO_NAME: &str = "<no name on Windows>";

/// A name in a folder, as it is stored, perhaps by another system. One that no file has on Windows, or that would lead elsewhere, becomes
/// a name that no file can have.
#[must_use]
pub fn stored_name(bytes: &[u8]) -> &OsStr {
    if bytes.iter().any(|byte| b"\\/:".contains(byte)) { OsStr::new(NO_NAME) } else { OsStr::from_bytes(bytes) }
}

/// Refuses a name that nothing new can have.
///
/// # Errors
/// [`Errno::BADNAME`] if Windows does not allow it, or [`Errno::ILSEQ`] if it is not Unicode.
pub fn check_new(name: &OsStr) -> Result<()> {
    checked_new(name).map(drop)
}

/// The bytes of a relative path, with slashes between the names.
#[must_use]
pub fn slashed(path: &Path) -> Cow<'_, [u8]> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&b'\\') {
        bytes.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect::<Vec<_>>().into()
    } else {
        bytes.into()
    }
}

/// What std has for names on Unix.
pub trait OsStrExt {
    /// The name of these bytes. One that is not UTF-8 becomes a name that no file can have.
    fn from_bytes(bytes: &[u8]) -> &Self;

    /// The bytes of the name: UTF-8, if it is Unicode.
    fn as_bytes(&self) -> &[u8];
}

impl OsStrExt for OsStr {
    fn from_bytes(bytes: &[u8]) -> &Self {
        Self::new(str::from_utf8(bytes).unwrap_or(NOT_UNICODE))
    }

    fn as_bytes(&self) -> &[u8] {
        self.as_encoded_bytes()
    }
}

/// The same for names that own their bytes.
pub trait OsStringExt {
    /// The name of these bytes. One that is not UTF-8 becomes a name that no file can have.
    fn from_vec(bytes: Vec<u8>) -> Self;

    /// The bytes of the name: UTF-8, if it is Unicode.
    fn into_vec(self) -> Vec<u8>;
}

impl OsStringExt for OsString {
    fn from_vec(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|_| NOT_UNICODE.into(), Self::from)
    }

    fn into_vec(self) -> Vec<u8> {
        self.into_encoded_bytes()
    }
}

/// A name in a folder as NT takes it.
///
/// # Errors
/// [`Errno::BADNAME`] if it is none: it has a character that no name has, or it names a stream of a file.
pub(super) fn checked(name: &OsStr) -> Result<Vec<u16>> {
    if name == NOT_UNICODE {
        return Err(Errno::ILSEQ);
    }
    let wide: Vec<u16> = name.encode_wide().collect();
    let is_allowed = |unit: u16| unit >= 32 && u8::try_from(unit).map_or(true, |c| !b"\"*/:<>?\\|".contains(&c));
    if wide.is_empty() || !wide.iter().copied().all(is_allowed) { Err(Errno::BADNAME) } else { Ok(wide) }
}

/// The name of something that is to be made. NT would make also what the programs of Windows cannot open then: names of devices,
/// and names with a space or a dot at their end.
///
/// # Errors
/// [`Errno::BADNAME`] if it is such a name, or [`Errno::ILSEQ`] if it is not Unicode.
pub(super) fn checked_new(name: &OsStr) -> Result<Vec<u16>> {
    let wide = checked(name)?;
    let text = name.to_str().ok_or(Errno::ILSEQ)?;
    if text.ends_with([' ', '.']) || is_device(text) { Err(Errno::BADNAME) } else { Ok(wide) }
}

/// Whether a name means a device in every folder: `NUL`, `con.txt`, `COM1`. Some versions of Windows mean it only without an
/// ending, but files are taken to other ones.
fn is_device(name: &str) -> bool {
    const NAMES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
    let base = name.split('.').next().unwrap_or(name).trim_end_matches(' ');
    let is_numbered = || {
        let start = base.get(..3).is_some_and(|port| ["COM", "LPT"].iter().any(|name| port.eq_ignore_ascii_case(name)));
        let mut digits = base.get(3..).unwrap_or_default().chars();
        start && digits.next().is_some_and(|c| matches!(c, '1'..='9' | '¹' | '²' | '³')) && digits.next().is_none()
    };
    NAMES.iter().any(|name| base.eq_ignore_ascii_case(name)) || is_numbered()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_programs_of_windows_cannot_open_are_not_made() {
        for name in
            ["NUL", "nul", "con.txt", "aux.tar.phx", "COM1", "lpt9.a.b", "com²", "x.phx.", "x ", "a:b", "a\\b", "a?"]
        {
            assert_eq!(checked_new(OsStr::new(name)).err(), Some(Errno::BADNAME), "{name}");
        }
        for name in ["null", "com0", "com10", "console", ".phalanx-1.tmp", "ä", "x.nul", "lpt"] {
            assert!(checked_new(OsStr::new(name)).is_ok(), "{name}");
        }
        for name in [&b"..\\a"[..], b"C:\\a", b"a/b", b"a:b"] {
            assert_eq!(checked(stored_name(name)).err(), Some(Errno::BADNAME));
        }
        assert_eq!(stored_name(b"a.b"), "a.b");
        assert_eq!(&*slashed(Path::new("a\\b/c")), b"a/b/c");
        assert_eq!(checked(OsStr::from_bytes(b"\xff")).err(), Some(Errno::ILSEQ));
        assert_eq!(checked(&OsString::from_vec(b"\xff".to_vec())).err(), Some(Errno::ILSEQ));
    }
}
