//! The folder that has a path's last name.

use std::path::Path;

/// The path without its last name. If nothing is left, the current folder.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
