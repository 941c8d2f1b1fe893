//! What the journal and the table of versions say of new, removed and linked files, in volumes that find older states.

use crate::error::{Result, VolumeError};
use crate::journal::{Journal, Owner, RESERVED, Table};
use crate::shared::{Key, Shared, Uncommitted};
use crate::versions::{Failed, Versions};
use rustix::fs::fstatvfs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, RwLockReadGuard};

/// Whether there is so much space that some may be reserved.
pub(crate) fn is_room(root: impl AsFd) -> bool {
    fstatvfs(root).is_ok_and(|state| state.f_bavail.saturating_mul(state.f_frsize) >= 2 * RESERVED)
}

impl<F: Uncommitted> Shared<F> {
    /// Puts the versions of all files into the table, and begins the epoch that it then names.
    pub(super) fn end_epoch(&self, versions: &Versions, journal: &Journal) -> Result<(), Failed> {
        let (disk, keys) = (self.disk(), self.config.keys());
        let epoch = versions.checkpoint(disk, keys, || is_room(&self.root))?;
        journal.restart(disk, epoch);
        match versions.compact(disk, keys) {
            Ok(Some(epoch)) => journal.restart(disk, epoch),
            // The old table is as good as a shorter one.
            Ok(None) | Err(Failed::Softly(_)) => {}
            Err(failed) => return Err(failed),
        }
        Ok(())
    }

    /// Writes a short transaction. Returns the number of transactions that the mount has written with it, and the epoch,
    /// which does not end while the caller has it.
    pub fn append(&self, table: &Table) -> Result<(u64, RwLockReadGuard<'_, u64>)> {
        let journal = self.writable()?;
        let cost = Journal::cost(table.len(), 0);
        loop {
            let epoch = self.epoch.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            // The store may have been closed meanwhile.
            self.writable()?;
            if self.should_end_epoch() || !journal.promise(cost) {
                drop(epoch);
                self.checkpoint()?;
                continue;
            }
            let appended = journal.append(self.disk(), self.config.keys(), table, 0, std::iter::empty());
            journal.release(cost);
            return Ok((appended?, epoch));
        }
    }

    /// Records that a file is about to lose a name, which may be its last. If a run is killed after the removal, the next
    /// one knows of it. If it fails, the file is still there, and the record says nothing. If it is replaced, what replaces it
    /// is known after a power cut. The epoch does not end while the caller has the result.
    pub fn removing(
        &self,
        key: Key,
        id: [u8; 16],
        is_last: bool,
        is_replaced: bool,
    ) -> Result<RwLockReadGuard<'_, u64>> {
        let mut table = Table::default();
        table.gone(Owner { inode: key.1, id });
        let appended = match is_last.then(|| self.append(&table)) {
            // A full disk keeps nobody from removing files, unless it has ended all changes. Without the record, the removal
            // counts when the epoch ends.
            Some(Err(VolumeError::Full)) | None => {
                self.writable()?;
                None
            }
            Some(appended) => Some(appended?),
        };
        if is_replaced {
            self.sync_records()?;
        }
        Ok(match appended {
            Some((_, epoch)) => epoch,
            None => self.epoch.read().unwrap_or_else(|poisoned| poisoned.into_inner()),
        })
    }

    /// Records that a file was removed from a folder. The removal may not be on the disk yet. The caller holds the lock of
    /// the epoch.
    pub fn removed(&self, id: [u8; 16], folder: (u64, &Arc<OwnedFd>)) {
        if let Some(versions) = &self.versions {
            versions.gone(id, folder);
        }
    }

    /// Records that a file is about to get one more name. Otherwise the removal of one would be taken for its own.
    pub fn linking(&self, key: Key, id: [u8; 16]) -> Result<()> {
        let Some(versions) = &self.versions else { return Ok(()) };
        if versions.get(id).is_some_and(|version| !version.is_linked()) {
            let mut table = Table::default();
            table.linked(Owner { inode: key.1, id });
            let (_, _epoch) = self.append(&table)?;
            // If the name came to the disk and the record did not, the removal of one name would be that of the file.
            self.sync_records()?;
            versions.link(id);
        }
        Ok(())
    }

    /// Makes sure that what the journal says of new, removed and linked files is on the disk.
    pub fn sync_records(&self) -> Result<()> {
        let (Some(_), Some(journal)) = (&self.versions, &self.journal) else { return Ok(()) };
        let synced = journal.sync(self.disk(), journal.written());
        synced.map_err(|e| VolumeError::io("cannot sync the journal", e)).inspect_err(|e| self.break_off(e))
    }
}
