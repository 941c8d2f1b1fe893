//! The tables of all rows of an experiment.

mod cluster;
mod gpu;
mod hpc;
mod java;
mod keys;
mod mounts;
mod peers;
mod sefps;
mod users;
mod volume;

use crate::report::section::Section;
use crate::row::Row;

/// The tables of one experiment's rows.
pub fn sections(experiment: &str, rows: &[Row]) -> Vec<Section> {
    match experiment {
        "sefps" => sefps::sections(rows),
        "users" => users::sections(rows),
        "hpc" => hpc::sections(rows),
        "volume" => volume::sections(rows),
        "keys" => keys::sections(rows),
        "peers" => peers::sections(rows),
        _ => gpu::sections(rows),
    }
}
