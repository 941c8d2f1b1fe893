//! Volumes in use: `phalanx init`, `phalanx mount` and `phalanx verify`, as their users meet them.

mod full;
mod kills;
mod model;
mod workload;

use crate::common::Sandbox;
use crate::mount::Mounted;

/// A sandbox with a volume `vol`, and its key in the file `key`.
fn with_volume(chunk_size: &str) -> Sandbox {
    let s = Sandbox::new();
    s.secret("key", [7; 32]);
    s.run(&["-q", "init", "vol", "--key-file", "key", "--chunk-size", chunk_size]).ok();
    s
}

/// Mounts it on the folder mnt.
fn mount(s: &Sandbox) -> Option<Mounted> {
    Mounted::start(s, &["vol", "mnt", "--key-file", "key"])
}

/// `phalanx verify` finds nothing.
#[track_caller]
fn is_sound(s: &Sandbox) {
    let ended = s.run(&["-q", "verify", "vol", "--key-file", "key"]);
    assert!(ended.0.status.success() && ended.error().is_empty(), "{:?}: {}", ended.0.status, ended.error());
}
