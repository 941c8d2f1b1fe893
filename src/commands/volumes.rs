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
    let line = match above.into_iter().find(|above| is_volume(above)) {
        Some(volume) => {
            format!("{}: it is a folder in the volume {}: name the volume", shown(path), shown(volume))
        }
        None => format!(
            "{}: it is a volume whose {CONFIG} is missing: nothing in it can be opened before a copy of that file is back",
            shown(path)
        ),
    };
    Err(Failure::new(Code::InputOutput, line))
}
