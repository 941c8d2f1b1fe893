//! Finding volumes, and folders that look like volumes but cannot be opened.

use phalanx_core::Opener;
use phalanx_core::volume::CONFIG;
use phalanx_host::Error;
use phalanx_host::args::EngineArgs;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::file::Made;
use phalanx_host::lines::shown;
use phalanx_host::paths::Destination;
use phalanx_host::secrets::AtHand;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::volumes::{is_folder_of_volume, is_volume};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What all volumes of a run share that are unprotected.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "no volume is opened"))]
pub struct Shared<'a> {
    pub opener: &'a Opener<AtHand>,
    pub engine: &'a EngineArgs,
    pub destination: &'a Destination,
    pub made: &'a Made,
    pub verbosity: Verbosity,
}

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

/// All volumes in a folder. Links are not followed.
pub fn within(dir: &Path) -> Outcome<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        let failed = |e| Failure::at(&folder, Error::read(e));
        let entries = match fs::read_dir(&folder) {
            // The path is too long for the system, so no volume there could be opened by it.
            Err(e) if e.kind() == ErrorKind::InvalidFilename => continue,
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_dir() {
                let path = entry.path();
                // A volume without its config is found too, and is refused when it is opened.
                let is_found = is_volume(&path) || is_folder_of_volume(&path);
                if is_found { &mut found } else { &mut folders }.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}
