use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
pub struct Excludes;
impl Excludes {
    pub fn none() -> Self {
        Self
    }
    pub fn text(&self) -> String {
        String::new()
    }
    pub fn excludes(&self, _: &Path, _: bool) -> bool {
        false
    }
    pub fn keeps_only(&self, _: &File) -> Option<OsString> {
        None
    }
    pub fn one_file_system(&self) -> bool {
        false
    }
}
