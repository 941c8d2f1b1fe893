//! The options of `rekey`.

use super::StoreArgs;
use super::changes::Changes;
use clap::Args;
use phalanx_host::args::OpenKeys;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::is_url;
use phalanx_host::lines::shown;
use phalanx_host::paths;
use std::path::PathBuf;

#[derive(Args)]
pub struct Rekey {
    /// Protected files or volumes, or URLs of objects
    #[arg(required = true, value_name = "PATH.phx")]
    paths: Vec<PathBuf>,
    /// Take all files and volumes in folders
    ///
    /// Only protected files count. The manifest of a mirror changes with its files, after them. With --fresh each volume is an error,
    /// but in a mirror volumes are passed over.
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    keys: OpenKeys,
    #[command(flatten)]
    changes: Changes,
    /// Write a whole new file, under a new file key
    ///
    /// Every key and password that stays must be at hand, since each is a way to the new file key. So must the identity of
    /// every public key that stays, unless the public key is added again. The old file is replaced by one rename. Copies of the old file still open as before.
    /// Of a mirror, only what is as its manifest lists it is written again, and then the manifest. If that is interrupted, the same
    /// command again completes it, with the added keys at hand.
    #[arg(long)]
    fresh: bool,
    /// With --fresh: do all work twice
    #[arg(long, requires = "fresh")]
    paranoid: bool,
    /// Print one line of JSON for each file
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub stores: StoreArgs,
}

/// What `rekey` is to do.
pub struct RekeyPlan {
    pub paths: Vec<PathBuf>,
    pub recursive: bool,
    pub keys: OpenKeys,
    pub changes: Changes,
    pub fresh: bool,
    pub paranoid: bool,
    pub json: bool,
}

impl Rekey {
    pub fn validate(self) -> Outcome<RekeyPlan> {
        let Self { paths, recursive, keys, changes, fresh, paranoid, json, stores: _ } = self;
        if paths.iter().any(|path| paths::is_dash(path)) {
            return Err(Failure::usage("rekey changes files in place, so it cannot take - (standard input)"));
        }
        if recursive {
            paths::no_urls("rekey --recursive", &paths)?;
        }
        if paths.len() > 1 && !changes.remove_slots.is_empty() {
            return Err(Failure::usage("--remove-slot takes one file: slot numbers differ from file to file"));
        }
        if let Some(link) = paths.iter().find(|path| !is_url(path) && paths::is_link(path) && !path.is_dir()) {
            let line = format!("{}: it is a link", shown(link));
            return Err(Failure::usage(line).hint("name the file that it leads to"));
        }
        let added = changes.add_key_files.iter().chain(&changes.add_password_file).chain(&changes.add_recipients_files);
        paths::one_stdin(keys.keys.files().chain(&keys.identities).chain(added))?;
        Ok(RekeyPlan { paths, recursive, keys, changes, fresh, paranoid, json })
    }
}
