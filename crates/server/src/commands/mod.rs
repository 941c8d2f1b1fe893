//! The commands.

pub mod backup;
pub mod check;
pub mod dates;
pub mod folder;
pub mod fresh;
pub mod init;
pub mod key;
pub mod key_options;
pub mod lock;
pub mod replaced;
mod report;
pub mod restore;
pub mod rewrap;
pub mod run;
pub mod say;
pub mod status;
pub mod token;
pub mod user;

use crate::args::Place;
use crate::client::Client;
use folder::Folder;
use phalanx_host::failure::Outcome;
use phalanx_host::verbosity::Verbosity;

/// What answers the requests of a command.
fn client(place: &Place, verbosity: Verbosity) -> Outcome<Client> {
    Client::new(&Folder::of(&place.dir)?, &place.keys, verbosity)
}
