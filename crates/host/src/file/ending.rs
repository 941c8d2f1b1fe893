//! The names of protected files.

use crate::file::regular::source;
use crate::{Error, Result};
use phalanx_core::{Error as CoreError, Source};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;

/// The name with `.phx` added.
#[must_use]
pub fn protected_name(name: &OsStr) -> OsString {
    let mut name = name.to_owned();
    name.push(".phx");
    name
}

/// The name without `.phx`. `None` if it does not end so.
#[must_use]
pub fn unprotected_name(name: &OsStr) -> Option<OsString> {
    let name = Path::new(name);
    name.extension().filter(|e| *e == "phx").and(name.file_stem()).map(OsStr::to_owned)
}

/// Refuses to protect a file that is protected already and has the name of a protected file. A pattern like `*` easily
/// matches outputs of an earlier run.
///
/// # Errors
/// [`Error::Protected`] if the name is that of a protected file, and the content is one or cannot be read.
pub fn refuse_protected(file: &File, path: &Path) -> Result<()> {
    refuse_protected_source(|| source(file), path)
}

/// Refuses to protect what is protected already: [`refuse_protected`].
///
/// # Errors
/// [`Error::Protected`], as above.
pub fn refuse_protected_source<'a>(source: impl FnOnce() -> Result<Source<'a>>, path: &Path) -> Result<()> {
    let has_the_name = path.file_name().is_some_and(|name| unprotected_name(name).is_some());
    let header = || source().and_then(|mut source| Ok(source.header()?));
    if has_the_name && !matches!(header(), Err(Error::Core(CoreError::NotPhalanx))) {
        Err(Error::Protected)
    } else {
        Ok(())
    }
}
