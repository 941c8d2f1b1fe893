//! How the files of a mount are stored.

use crate::disk::{Disk, System};
use phalanx_core::Roster;
use std::sync::Arc;
use std::time::Duration;

/// How the files of a mount are stored: by which engines and when, and how damage is reported.
pub struct StoreOptions {
    /// Seals and opens jobs of fewer bytes than the threshold.
    pub small: Arc<Roster>,
    /// Seals and opens the other jobs.
    pub large: Arc<Roster>,
    /// The length of the first job that is large, in bytes.
    pub threshold: usize,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether files of any version are opened, also in a volume that finds older ones, and even if its table of versions is
    /// missing. Only for reading.
    pub any_version: bool,
    /// The caller sets the time of each change by [`Backing::set_mtime`](crate::Backing::set_mtime). Otherwise a change
    /// has the time at which it is made.
    pub has_explicit_times: bool,
    /// How much plaintext of all files waits in memory to be committed, in bytes.
    pub dirty_limit: usize,
    /// How long changes wait in memory until they are committed.
    pub commit_after: Duration,
    /// How long the journal stays as it is, before an idle mount trims it.
    pub trim_after: Duration,
    /// Called with a text for everything that was altered from outside, once for each, and for changes that were
    /// dropped.
    pub on_damage: Box<dyn Fn(&str) + Send + Sync>,
    /// The calls that change files.
    pub disk: Arc<dyn Disk>,
}

impl Default for StoreOptions {
    /// All cores, 48 MiB of changes in memory for a second at most, and nothing is reported.
    fn default() -> Self {
        let roster = Arc::new(Roster::cpu());
        Self {
            small: roster.clone(),
            large: roster,
            threshold: usize::MAX,
            read_only: false,
            any_version: false,
            has_explicit_times: false,
            dirty_limit: 48 << 20,
            commit_after: Duration::from_secs(1),
            trim_after: Duration::from_secs(5),
            on_damage: Box::new(|_| {}),
            disk: Arc::new(System),
        }
    }
}
