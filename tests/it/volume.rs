//! Volumes in use: `phalanx init`, `phalanx mount` and `phalanx verify`.

mod copies;
mod daily;
mod full;
pub mod kills;
mod model;
mod power;
mod restore;
mod rollback;
mod unlisted;
mod ways;
pub mod workload;

use crate::common::Sandbox;
use crate::mount::Mounted;

/// Makes a volume, and its key in the file key. If PHALANX_ROLLBACK is set, it is one with protection against rollback.
fn init(s: &Sandbox, volume: &str, chunk_size: &str) {
    init_as(s, volume, chunk_size, std::env::var_os("PHALANX_ROLLBACK").is_some());
}

/// Makes a volume with or without protection against rollback.
fn init_as(s: &Sandbox, volume: &str, chunk_size: &str, is_protected: bool) {
    s.secret("key", [7; 32]);
    let args = ["-q", "init", volume, "--key-file", "key", "--chunk-size", chunk_size];
    let protection: &[&str] = if is_protected { &["--rollback-protection"] } else { &[] };
    s.run(&[&args, protection].concat()).ok();
}

/// Mounts a volume on the folder mnt. If this system does not allow mounts, prints a line and returns `None`.
fn mount(s: &Sandbox, volume: &str) -> Option<Mounted> {
    let mounted = Mounted::start(s, &[volume, "mnt", "--key-file", "key"])?;
    // It is listed as mounted shortly before it can answer.
    rustix::fs::statfs(&mounted.mountpoint).unwrap();
    Some(mounted)
}

/// Checks that `phalanx verify` finds nothing.
#[track_caller]
fn is_sound(s: &Sandbox, volume: &str) {
    let ended = s.run(&["-q", "verify", volume, "--key-file", "key"]);
    assert!(ended.0.status.success() && ended.error().is_empty(), "{:?}: {}", ended.0.status, ended.error());
}

/// Unmounts a volume, whose log must be empty.
#[track_caller]
fn unmount(mut mounted: Mounted) {
    mounted.unmount();
    assert_eq!((mounted.ended().code(), mounted.log()), (Some(0), String::new()));
}
