//! Committing: changes in memory are sealed, written to the journal, and then to their places.

use crate::backing::Backing;
use crate::backing::content::Content;
use crate::backing::drops::{Drops, Witness};
use crate::backing::page::Page;
use crate::backing::plan::{LONG, Part, Plan};
use crate::backing::state::{NextState, Tags};
use crate::error::{Result, VolumeError};
use crate::fuse::roam;
use crate::journal::{Journal, Table};
use crate::shared::Uncommitted;
use crate::versions::Version;
use phalanx_core::format::Header;
use phalanx_core::volume::{Place, Records};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

impl Uncommitted for Backing {
    fn dirty_bytes(&self) -> usize {
        Backing::dirty_bytes(self)
    }

    fn commit_quietly(&self) -> bool {
        Backing::commit_quietly(self)
    }
}

impl Backing {
    /// A record, for a user who opens the file now, of which dropped changes still have to be reported.
    #[must_use]
    pub fn witness(&self) -> Witness {
        self.read_content().drops.witness()
    }

    /// Stores the changes in memory, so that they survive the end of this process. The system may still lose them. This
    /// is called when somebody closes the file.
    ///
    /// # Errors
    /// [`VolumeError::Full`] if there is no space: the changes are dropped. [`VolumeError::Dropped`] once, if that
    /// happened to changes of this file since the witness was made.
    pub fn commit(&self, witness: &Witness) -> Result<()> {
        self.store(false, |drops| drops.tell_by_close(witness))
    }

    /// Stores the changes in memory and makes sure that they are on the disk. With `data_only` its times may not be
    /// there.
    ///
    /// # Errors
    /// Those of [`Backing::commit`], but [`VolumeError::Dropped`] also if it happened earlier and no sync has reported
    /// it; or if the system reports that something was not written.
    pub fn sync(&self, witness: &Witness, data_only: bool) -> Result<()> {
        if !data_only && self.times_set.swap(false, Ordering::AcqRel) {
            self.mark_named();
        }
        self.store(true, |drops| {
            let told = drops.tell_by_sync(witness);
            if told.is_err() {
                self.shared.forget_drop(self.owner.id);
            }
            told
        })
    }

    /// Stores the changes in memory for a caller that has not opened the file.
    ///
    /// # Errors
    /// [`VolumeError::Full`] if there is no space: the changes are dropped. Earlier drops are not reported.
    pub fn settle(&self) -> Result<()> {
        self.store(false, |_| Ok(()))
    }

    fn store(&self, sync: bool, tell: impl FnOnce(&mut Drops) -> Result<()>) -> Result<()> {
        if self.shared.options.read_only {
            return Ok(());
        }
        let mut content = self.write_content();
        let done = self.commit_content(&mut content, sync);
        let told = tell(&mut content.drops);
        done.and(told)
    }

    /// Commits without reporting a failure to this caller: a later commit or sync reports it. Returns whether the
    /// memory is free.
    pub(crate) fn commit_quietly(&self) -> bool {
        let mut content = self.write_content();
        let _ = self.commit_content(&mut content, false);
        !content.has_chunks()
    }

    /// Commits the content that the caller has locked. No chunk is in memory afterwards, unless there was an error
    /// which leaves the changes as they are.
    pub(super) fn commit_content(&self, content: &mut Content, sync: bool) -> Result<()> {
        let shared = &*self.shared;
        let journal = shared.writable()?;
        if content.is_changed() {
            self.commit_changes(content, journal, sync)?;
        } else {
            self.unlist(content);
        }
        if sync { self.sync_stored(content, journal) } else { Ok(()) }
    }

    fn commit_changes(&self, content: &mut Content, journal: &Journal, sync: bool) -> Result<()> {
        let shared = &*self.shared;
        let plan = self.plan(content)?;
        if !Journal::could_hold(plan.cost, plan.data_len) {
            // No write produces changes this long.
            return Err(VolumeError::Refused(Errno::FBIG));
        }
        let mut is_first = true;
        // The epoch does not end before the commit does.
        let (epoch, _promise, durable, prepared) = loop {
            let epoch = shared.epoch.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            // The store may have been closed meanwhile.
            shared.writable()?;
            if shared.should_end_epoch() || !journal.promise(plan.cost) {
                drop(epoch);
                shared.checkpoint().map_err(|e| self.not_begun(content, e, &plan))?;
                continue;
            }
            let promise = Promise { journal, cost: plan.cost };
            if content.named.is_some_and(|named| named < *epoch) {
                // The checkpoint has synced the file.
                (content.is_fresh, content.direct_unsynced) = (false, false);
            }
            let durable = sync || !content.is_fresh;
            match self.prepare(content, journal, &plan, *epoch, durable) {
                Ok(prepared) => break (epoch, promise, durable, prepared),
                // Ending the epoch makes room in the journal, which helps if no space could be reserved for it.
                Err(VolumeError::Full) if std::mem::take(&mut is_first) && self.cut_back(content, &plan).is_ok() => {
                    drop((epoch, promise));
                    shared.checkpoint().map_err(|e| self.not_begun(content, e, &plan))?;
                }
                Err(e) => return Err(self.abort(content, e, &plan)),
            }
        };
        if durable {
            self.sync_journal(content, journal)?;
        }
        self.write_in_place(content, &plan, &prepared).inspect_err(|e| shared.break_off(e))?;
        if let (Some(versions), Some((header, _))) = (&shared.versions, &prepared.header) {
            versions.set(self.owner.id, Version::of(header.bytes()));
        }
        drop(epoch);
        self.finish(content, plan, prepared);
        Ok(())
    }

    /// Handles a checkpoint that has failed before a commit. If the disk is full, the changes are dropped, as when there is
    /// no space for them.
    fn not_begun(&self, content: &mut Content, why: VolumeError, plan: &Plan) -> VolumeError {
        if matches!(why, VolumeError::Full) { self.abort(content, why, plan) } else { why }
    }

    /// Everything that can fail without harm: reserves space, seals all chunks, writes those that replace nothing, and
    /// then writes the transaction.
    fn prepare(
        &self,
        content: &mut Content,
        journal: &Journal,
        plan: &Plan,
        epoch: u64,
        durable: bool,
    ) -> Result<Prepared> {
        let shared = &*self.shared;
        let (disk, keys) = (shared.disk(), shared.config.keys());
        self.reserve(content, plan)?;
        if !plan.direct.is_empty() && content.logged != Some(epoch) {
            let mut table = Table::default();
            table.length(self.owner, content.stored.file_len());
            content.transactions = journal.append(disk, keys, &table, 0, std::iter::empty())?;
            self.is_logged(content, epoch);
            if !content.is_fresh {
                self.sync_journal(content, journal)?;
            }
        }
        let (sealed, tags) = self.seal(content, plan)?;
        let header = if plan.has_header { Some(self.next_header(content, plan, &tags)?) } else { None };
        if durable && (content.direct_unsynced || !plan.direct.is_empty()) {
            // The system reports lost writes only once. A second sync would succeed.
            let synced = disk.sync_data(&self.file).map_err(|e| VolumeError::io("cannot sync a stored file", e));
            synced.inspect_err(|e| shared.break_off(e))?;
            content.direct_unsynced = false;
        }
        let mut table = Table::default();
        if let Some((header, _)) = &header {
            table.header(self.owner, header.bytes());
        }
        table.length(self.owner, content.layout.file_len());
        let overhead = self.chunks.overhead();
        let mut data = Vec::new();
        for (part, records) in plan.parts.iter().zip(&sealed) {
            if part.is_direct {
                continue;
            }
            let (records, first) = part.records(content, records.as_ref());
            for (place, &index) in part.chunks.iter().enumerate() {
                let record = records.record(first + place, content.layout.data_len(index));
                let (seal, ciphertext) = record.split_at(overhead);
                table.chunk(self.owner, index, ciphertext.len(), seal);
                data.push(ciphertext);
            }
        }
        plan.direct.iter().for_each(|run| table.written(self.owner, run));
        content.transactions = journal.append(disk, keys, &table, plan.data_len, data.into_iter())?;
        self.is_logged(content, epoch);
        content.direct_unsynced |= !durable && !plan.direct.is_empty();
        Ok(Prepared { sealed, header })
    }

    /// The header after a commit of these chunks.
    fn next_header(&self, content: &Content, plan: &Plan, tags: &Tags) -> Result<(Header, Option<NextState>)> {
        let next = content.stored_state.as_ref().map(|state| self.next_state(content, state, tags)).transpose()?;
        let state = next.as_ref().map(|next| &next.state);
        Ok((self.shared.config.with(&content.header, &self.keys, &plan.holes, state)?, next))
    }

    fn is_logged(&self, content: &mut Content, epoch: u64) {
        (content.logged, content.named) = (Some(epoch), Some(epoch));
        self.shared.name(self.owner, &self.file, content.is_fresh);
    }

    /// Reserves space for the journaled chunks that are new in the file. If the file system cannot do that, the commit
    /// goes on without.
    fn reserve(&self, content: &Content, plan: &Plan) -> Result<()> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for &index in plan.parts.iter().filter(|part| !part.is_direct).flat_map(|part| &part.chunks) {
            // The chunk that was the last may become longer.
            if content.is_free(index) || content.stored.is_last(index) {
                match runs.last_mut() {
                    Some(run) if run.end == index => run.end += 1,
                    _ => runs.push(index..index + 1),
                }
            }
        }
        for run in runs {
            let start = content.layout.file_offset(run.start);
            let end = content.layout.file_offset(run.end - 1)
                + (self.chunks.overhead() + content.layout.data_len(run.end - 1)) as u64;
            match self.shared.disk().reserve(&self.file, start, end - start) {
                Ok(()) => {}
                Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL)) => {
                    break;
                }
                Err(e) => return Err(VolumeError::io("cannot reserve space for a stored file", e)),
            }
        }
        Ok(())
    }

    /// Seals all parts that are not sealed yet, and writes those that need no journal to their places.
    /// Also returns the tags of all chunks, if the file has sums of them.
    fn seal(&self, content: &Content, plan: &Plan) -> Result<(Vec<Option<Records>>, Tags)> {
        let sealed: Vec<OnceLock<Records>> = plan.parts.iter().map(|_| OnceLock::new()).collect();
        let tags = Mutex::new(Tags::default());
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let work = || {
            while let Some((part, place)) = {
                let at = next.fetch_add(1, Ordering::Relaxed);
                plan.parts.get(at).zip(sealed.get(at))
            } {
                if let Err(e) = self.prepare_part(content, part, place, &tags) {
                    // The others need not go on.
                    next.store(plan.parts.len(), Ordering::Relaxed);
                    failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(e);
                }
            }
        };
        let threads = if plan.unsealed_len > LONG { self.shared.threads.min(plan.parts.len()) } else { 1 };
        if threads > 1 {
            roam();
        }
        thread::scope(|scope| {
            for _ in 1..threads {
                // If the system gives no thread, this one does everything.
                if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        match failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(e) => Err(e),
            None => {
                let tags = tags.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
                Ok((sealed.into_iter().map(OnceLock::into_inner).collect(), tags.sorted()))
            }
        }
    }

    fn prepare_part(
        &self,
        content: &Content,
        part: &Part,
        sealed: &OnceLock<Records>,
        tags: &Mutex<Tags>,
    ) -> Result<()> {
        let records = if part.is_sealed { None } else { Some(self.seal_part(content, part)?) };
        if content.stored_state.is_some() {
            let (records, first) = part.records(content, records.as_ref());
            let mut tags = tags.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            for (place, &index) in part.chunks.iter().enumerate() {
                tags.add(index, records.record(first + place, 0));
            }
        }
        let written = if part.is_direct { self.write_part(content, part, records.as_ref()) } else { Ok(()) };
        match records {
            Some(records) if part.is_direct => self.shared.give_records(records, 0),
            Some(records) => drop(sealed.set(records)),
            None => {}
        }
        written
    }

    fn seal_part(&self, content: &Content, part: &Part) -> Result<Records> {
        let mut records = self.shared.records(&self.chunks, part.chunks.len())?;
        let mut places = Vec::with_capacity(part.chunks.len());
        let mut all = 0;
        for (place, &index) in part.chunks.iter().enumerate() {
            let plaintext = content.dirty.get(&index).map_or(&[][..], Page::bytes);
            debug_assert_eq!(plaintext.len(), content.layout.data_len(index));
            records.chunk_mut(place, plaintext.len()).copy_from_slice(plaintext);
            places.push(Place { index, last: content.layout.is_last(index), len: plaintext.len() });
            all += plaintext.len();
        }
        self.chunks.seal(self.shared.roster(all), &mut records, &places)?;
        Ok(records)
    }

    /// Writes sealed chunks to their places, and neighbours together.
    fn write_part(&self, content: &Content, part: &Part, own: Option<&Records>) -> Result<()> {
        let record_len = self.chunks.overhead() + self.chunks.chunk_len();
        let (records, first) = part.records(content, own);
        let mut from = 0;
        while from < part.chunks.len() {
            let mut to = from + 1;
            while to < part.chunks.len() && part.chunks[to] == part.chunks[to - 1] + 1 {
                to += 1;
            }
            let last_len = self.chunks.overhead() + content.layout.data_len(part.chunks[to - 1]);
            let bytes = &records.bytes()[(first + from) * record_len..(first + to - 1) * record_len + last_len];
            let written = self.shared.disk().write(&self.file, bytes, content.layout.file_offset(part.chunks[from]));
            written.map_err(|e| VolumeError::io("cannot write a stored file", e))?;
            from = to;
        }
        Ok(())
    }

    /// Writes the chunks that the journal already has to their places in the file.
    fn write_in_place(&self, content: &Content, plan: &Plan, prepared: &Prepared) -> Result<()> {
        let disk = self.shared.disk();
        let failed = |e| VolumeError::io("cannot write a stored file", e);
        for (part, records) in plan.parts.iter().zip(&prepared.sealed).filter(|(part, _)| !part.is_direct) {
            self.write_part(content, part, records.as_ref())?;
        }
        if let Some((header, _)) = &prepared.header {
            disk.write(&self.file, header.bytes(), 0).map_err(failed)?;
        }
        if content.layout.file_len() < content.stored.file_len() {
            disk.set_len(&self.file, content.layout.file_len()).map_err(failed)?;
        }
        for hole in content.holes.iter().filter(|hole| !content.stored_holes.ranges().contains(hole)) {
            let end = hole.end.min(content.stored.chunks());
            if hole.start < end {
                let (start, end) = (content.layout.file_offset(hole.start), content.layout.file_offset(end));
                // The space is given back where that is possible.
                let _ = disk.punch(&self.file, start, end - start);
            }
        }
        Ok(())
    }

    /// Updates the content after the changes in memory were committed.
    fn finish(&self, content: &mut Content, plan: Plan, prepared: Prepared) {
        let Prepared { sealed, header } = prepared;
        content.stored = content.layout;
        content.stored_holes = plan.holes;
        if let Some((header, next)) = header {
            content.header = header;
            if let Some(next) = next {
                content.stored_state = Some(self.take_state(next, content.stored_state.as_ref()));
            }
        }
        content.generation += 1;
        self.remove_changes(content, 0..u64::MAX);
        sealed.into_iter().flatten().for_each(|records| self.shared.give_records(records, 0));
        self.unlist(content);
    }

    /// Records that nothing is only in memory any more.
    fn unlist(&self, content: &mut Content) {
        self.restore_mtime();
        if content.is_listed {
            content.is_listed = false;
            self.shared.remove_dirty(self.key);
        }
    }

    /// Leaves the file as it was committed before. If the disk caused the failure, the changes are dropped, since they
    /// could not be stored later either.
    fn abort(&self, content: &mut Content, why: VolumeError, plan: &Plan) -> VolumeError {
        let shared = &*self.shared;
        if shared.writable().is_err() {
            return why;
        }
        if let Err(e) = self.cut_back(content, plan) {
            // What was written after its end would hide the last chunk. The journal has the right length, so the next
            // mount repairs that.
            shared.break_off(&VolumeError::io("cannot cut a stored file", e));
            return why;
        }
        if matches!(why, VolumeError::Full | VolumeError::Io { .. } | VolumeError::Damaged(_)) {
            content.drops.add(why.errno());
            shared.remember_drop(self.owner.id, why.errno());
            content.layout = content.stored;
            content.holes = content.stored_holes.ranges().to_vec();
            self.remove_changes(content, 0..u64::MAX);
            self.len.store(content.layout.plaintext_len(), Ordering::Release);
            self.unlist(content);
            shared.tell(&format!("changes of the stored file with inode {} were dropped: {why}", self.owner.inode));
        }
        why
    }

    /// Records that data was lost which a program has written to the kernel's cache, and takes for written: it was refused.
    pub fn lost(&self, why: &VolumeError) {
        // What a commit has dropped is recorded already.
        let (VolumeError::Refused(_) | VolumeError::Damaged(_)) = why else { return };
        let mut content = self.write_content();
        let is_first = !content.drops.is_untold();
        content.drops.add(why.errno());
        self.shared.remember_drop(self.owner.id, why.errno());
        if is_first {
            let inode = self.owner.inode;
            self.shared.tell(&format!("data for the stored file with inode {inode} was dropped: {why}"));
        }
    }

    /// Removes what was written after the end of the file as it was committed, and the space that was reserved there.
    fn cut_back(&self, content: &Content, plan: &Plan) -> std::io::Result<()> {
        if plan.parts.is_empty() { Ok(()) } else { self.shared.disk().set_len(&self.file, content.stored.file_len()) }
    }

    fn sync_journal(&self, content: &Content, journal: &Journal) -> Result<()> {
        let synced = journal.sync(self.shared.disk(), content.transactions);
        synced.map_err(|e| VolumeError::io("cannot sync the journal", e)).inspect_err(|e| self.shared.break_off(e))
    }

    /// Makes sure that what is committed is on the disk.
    fn sync_stored(&self, content: &mut Content, journal: &Journal) -> Result<()> {
        let shared = &*self.shared;
        let failed = |e| VolumeError::io("cannot sync a stored file", e);
        // A checkpoint syncs the same file, and the system reports lost writes only once. The lock makes sure that no
        // checkpoint runs now.
        let epoch = shared.epoch.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_whole = self.needs_fsync.swap(false, Ordering::AcqRel);
        if content.direct_unsynced && !is_whole {
            shared.disk().sync_data(&self.file).map_err(failed).inspect_err(|e| shared.break_off(e))?;
        }
        self.sync_journal(content, journal)?;
        if is_whole {
            shared.disk().sync_all(&self.file).map_err(failed).inspect_err(|e| shared.break_off(e))?;
        }
        // The system may have reported lost writes of this file to a checkpoint.
        shared.writable()?;
        content.direct_unsynced = false;
        if std::mem::replace(&mut content.is_fresh, false) && content.named == Some(*epoch) {
            shared.name(self.owner, &self.file, false);
        }
        Ok(())
    }
}

/// What a commit has prepared: the sealed chunks, and the new header with what it says of them.
struct Prepared {
    sealed: Vec<Option<Records>>,
    header: Option<(Header, Option<NextState>)>,
}

/// Room in the journal that a commit may use.
struct Promise<'j> {
    journal: &'j Journal,
    cost: u64,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.journal.release(self.cost);
    }
}
