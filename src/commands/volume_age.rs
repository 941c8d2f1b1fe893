//! Whether a whole volume was put back: the last generation that this machine has seen is kept in the state folder.

use phalanx_core::tree::{Digest, TreeId};
use phalanx_host::lines::{complain_with, shown};
use phalanx_host::mirror::state::{Seen, Trees};
use phalanx_volume::versions::Generation;
use std::path::Path;

/// Warns if a volume is older than it was when it was seen last, or is another one of the same generation. Otherwise remembers
/// it. Returns whether it was remembered.
pub fn check(dir: &Path, generation: Generation) -> bool {
    let (id, now) = of(generation);
    match Trees::volumes_of_user().seen(id).filter(|seen| seen.is_set_back_by(&now)) {
        Some(seen) => {
            let how = match seen.generation == now.generation {
                true => "it is another one than was seen here last, of the same generation".into(),
                false => {
                    format!("it has generation {}, and generation {} was seen here", now.generation, seen.generation)
                }
            };
            complain_with(
                format!("warning: {}: {how}: the whole volume may have been put back", shown(dir)),
                Some("phalanx verify --accept takes it as it is"),
            );
            false
        }
        None => {
            note(dir, generation);
            true
        }
    }
}

/// Remembers the generation of a volume.
pub fn note(dir: &Path, generation: Generation) {
    let (id, now) = of(generation);
    let trees = Trees::volumes_of_user();
    if trees.seen(id) != Some(now)
        && let Err(e) = trees.note(id, now)
    {
        complain_with(format!("warning: the generation of {} could not be remembered: {e}", shown(dir)), None);
    }
}

/// Remembers the generation of a volume that the user accepts.
pub fn accept(dir: &Path, generation: Generation) {
    let (id, now) = of(generation);
    if let Err(e) = Trees::volumes_of_user().accept(id, now) {
        complain_with(format!("warning: the generation of {} could not be remembered: {e}", shown(dir)), None);
    }
}

/// The last generation that was seen of a volume.
pub fn seen(volume: [u8; 16]) -> u64 {
    Trees::volumes_of_user().seen(TreeId(volume)).map_or(0, |seen| seen.generation)
}

fn of(generation: Generation) -> (TreeId, Seen) {
    (TreeId(generation.volume), Seen { generation: generation.number, digest: Digest(generation.mac) })
}
