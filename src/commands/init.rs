//! `phalanx init`: a new volume.

use super::key_copies::{self, KeyCopy};
use crate::args::InitPlan;
use crate::volume_failures;
use phalanx_core::{Recipient, SecretKey};
use phalanx_host::args::ProtectKeys;
use phalanx_host::failure::Outcome;
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain_with, shown};
use phalanx_host::secrets::Recipients;
use phalanx_host::verbosity::Verbosity;

pub fn run(plan: InitPlan, verbosity: Verbosity) -> Outcome {
    let InitPlan { dir, keys, password, generate_password, recovery_key, suite, chunk_size, features } = plan;
    phalanx_volume::check_new(&dir).map_err(|e| volume_failures::of_volume(&dir, e))?;
    let key_files = KeyFiles::new(&keys, &[]);
    let recipients =
        Recipients::new(ProtectKeys { keys, password, generate_password, ..ProtectKeys::default() }, false);
    // A bad path fails here, before the user is asked for a password.
    let copy = recovery_key.map(|output| KeyCopy::begin_new(output, &key_files)).transpose()?;
    recipients.find()?;
    let mut ways = recipients.found().to_vec();
    if let Some(copy) = copy {
        let key = SecretKey::random()?;
        // The recovery key is on the disk before the volume is made, so no volume has a recovery key that its user
        // lacks.
        copy.finish(&key_copies::line(&key))?;
        ways.push(Recipient::key(&key));
    }
    phalanx_volume::create_with(&dir, suite, chunk_size, features, &ways)
        .map_err(|e| volume_failures::of_volume(&dir, e))?;
    if !verbosity.quiet {
        let dir = shown(&dir);
        complain_with(format!("{dir}: new volume made"), Some(&format!("phalanx mount {dir} MOUNTPOINT mounts it")));
    }
    Ok(())
}
