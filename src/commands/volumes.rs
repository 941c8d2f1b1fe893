//! Folders that look like volumes but cannot be opened.

use phalanx_core::volume::CONFIG;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::shown;
use phalanx_volume::{is_folder_of_volume, is_volume};
use std::path::Path;

/// Refuses a folder that is a volume without its config, or a folder within a volume.
pub fn check(path: &Path) -> Outcome {
    if is_volume(path) || !is_folder_of_volume(path) {
        return Ok(());
    }
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let above = absolute.ancestors().skip(1).take_while(|above| is_folder_of_volume(above));
    let (line, hint) = match above.into_iter().find(|above| is_volume(above)) {
        Some(volume) => (format!("{}: it is a folder in the volume {}", shown(path), shown(volume)), "name the volume"),
        None => {
            let line = format!("{}: it is a volume whose {CONFIG} is missing", shown(path));
            (line, "put a copy of that file back: nothing opens without it")
        }
    };
    Err(Failure::new(Code::InputOutput, line).hint(hint))
}
