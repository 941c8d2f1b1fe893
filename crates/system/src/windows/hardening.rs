//! Keeps the secrets of this process out of files that are written when it fails. Windows locks only a little memory for a process,
//! so the rest may go to its page file, and other programs of the same user may read it: `docs/files.md`.

/// Hardens the process. Called before everything else.
pub fn harden() {
    super::process::refuse_dumps();
}

/// Windows would lock a few pages only, so none are locked.
pub fn lock_memory() {}

/// No memory is locked, so drivers have room.
pub fn make_room_for_drivers() {}

/// Tries something. Hardening is never in its way here.
pub fn or_without<T>(mut attempt: impl FnMut() -> T, _has_failed: impl Fn(&T) -> bool) -> (T, bool) {
    (attempt(), false)
}
