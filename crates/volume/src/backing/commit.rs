//! Committing: what is changed in memory is sealed, written to the journal, and then to its places.

use crate::backing::Backing;
use crate::backing::page::Page;
use crate::backing::state::State;
use crate::error::{Result, VolumeError};
use crate::journal::{Journal, Table};
use phalanx_core::format::Header;
use phalanx_core::volume::{Holes, Place, Records};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

/// Longer runs of chunks that replace nothing go to their places without the journal, in bytes. Longer commits are sealed by
/// several threads.
const LONG: usize = 256 << 10;
/// How much one thread seals at once, in bytes, unless a chunk is longer.
const PART: usize = 512 << 10;
/// The longest job that is made for engines which like them large, in bytes.
const LARGEST: usize = 16 << 20;

/// What a commit does.
struct Plan {
    /// The new header, if the holes have changed.
    header: Option<Header>,
    holes: Holes,
    parts: Vec<Part>,
    /// The chunks that go to their places without the journal.
    direct: Vec<Range<u64>>,
    /// How many bytes of ciphertext go to the journal.
    data_len: usize,
    /// What the journal needs at most, in bytes.
    cost: u64,
}

/// Chunks that are sealed together, in ascending order.
struct Part {
    chunks: Vec<u64>,
    is_direct: bool,
}

impl Backing {
    /// Stores the changes in memory: from now on they survive the end of this process. The system may still lose them.
    ///
    /// # Errors
    /// [`VolumeError::Full`] if there is no space: the changes are dropped. [`VolumeError::Dropped`] once, if that happened
    /// before to changes of this file that nobody was told of.
    pub fn commit(&self) -> Result<()> {
        self.store(false)
    }

    /// Stores the changes in memory and makes sure that they are on the disk. With `data_only` its times may not be there.
    ///
    /// # Errors
    /// Those of [`Backing::commit`], or if the system reports that something was not written.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        if !data_only && self.times_set.swap(false, Ordering::AcqRel) {
            self.mark_named();
        }
        self.store(true)
    }

    fn store(&self, sync: bool) -> Result<()> {
        if self.shared.options.read_only {
            return Ok(());
        }
        let mut st = self.write_state();
        let done = self.commit_state(&mut st, sync);
        let dropped = st.dropped.take();
        done?;
        dropped.map_or(Ok(()), |errno| Err(VolumeError::Dropped(errno)))
    }

    /// Commits for others. What fails is told to the next who asks. Returns whether the memory is free.
    pub(crate) fn commit_quietly(&self) -> bool {
        let mut st = self.write_state();
        let _ = self.commit_state(&mut st, false);
        st.dirty.is_empty()
    }

    /// Commits the state that the caller has locked. No page is in memory afterwards, unless there was an error which leaves
    /// the changes as they are.
    pub(super) fn commit_state(&self, st: &mut State, sync: bool) -> Result<()> {
        let shared = &*self.shared;
        let journal = shared.writable()?;
        if st.is_changed() {
            self.commit_changes(st, journal, sync)?;
        } else {
            self.unlist(st);
        }
        if sync { self.sync_stored(st, journal) } else { Ok(()) }
    }

    fn commit_changes(&self, st: &mut State, journal: &Journal, sync: bool) -> Result<()> {
        let shared = &*self.shared;
        let plan = self.plan(st)?;
        let mut is_first = true;
        // From here to the end of the commit the epoch stays.
        let (epoch, _promise, durable, sealed) = loop {
            let epoch = shared.epoch.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            if shared.should_end_epoch() || !journal.promise(plan.cost) {
                drop(epoch);
                shared.checkpoint()?;
                continue;
            }
            let promise = Promise { journal, cost: plan.cost };
            if st.named.is_some_and(|named| named < *epoch) {
                // The checkpoint has synced the file.
                (st.is_fresh, st.direct_unsynced) = (false, false);
            }
            let durable = sync || !st.is_fresh;
            match self.prepare(st, journal, &plan, *epoch, durable) {
                Ok(sealed) => break (epoch, promise, durable, sealed),
                // The end of the epoch makes room in the journal, where no space could be reserved for it.
                Err(VolumeError::Full) if std::mem::take(&mut is_first) && self.cut_back(st, &plan).is_ok() => {
                    drop((epoch, promise));
                    shared.checkpoint()?;
                }
                Err(e) => return Err(self.abort(st, e, &plan)),
            }
        };
        if durable {
            self.sync_journal(st, journal)?;
        }
        self.write_in_place(st, &plan, &sealed).inspect_err(|e| shared.break_off(e))?;
        drop(epoch);
        self.finish(st, plan, sealed);
        Ok(())
    }

    fn plan(&self, st: &State) -> Result<Plan> {
        let chunk_len = self.chunks.chunk_len();
        let holes = Holes::new(st.holes.clone())
            .ok_or(VolumeError::Core(phalanx_core::Error::Header("a malformed list of holes")))?;
        let header = if holes == st.stored_holes {
            None
        } else {
            Some(self.shared.config.with_holes(&st.header, &self.keys, &holes)?)
        };
        let mut direct: Vec<Range<u64>> = Vec::new();
        for index in st.dirty.keys().copied().filter(|index| st.is_free(*index)) {
            match direct.last_mut() {
                Some(run) if run.end == index => run.end += 1,
                _ => direct.push(index..index + 1),
            }
        }
        let len_of = |run: &Range<u64>| run.clone().map(|index| st.layout.data_len(index)).sum::<usize>();
        direct.retain(|run| len_of(run) > LONG);
        let is_direct = |index: u64| {
            let place = direct.partition_point(|run| run.end <= index);
            direct.get(place).is_some_and(|run| run.contains(&index))
        };
        let all: usize = st.dirty.values().map(|page| page.bytes().len()).sum();
        let threshold = self.shared.options.threshold;
        let part_len = if all >= threshold { all.min(threshold.max(LARGEST)) } else { PART };
        let mut parts: Vec<Part> = Vec::new();
        let (mut data_len, mut journaled) = (0, 0);
        for (&index, page) in &st.dirty {
            let is_direct = is_direct(index);
            if !is_direct {
                data_len += page.bytes().len();
                journaled += 1;
            }
            match parts.last_mut() {
                Some(part) if part.is_direct == is_direct && part.chunks.len() < part_len / chunk_len => {
                    part.chunks.push(index);
                }
                _ => parts.push(Part { chunks: vec![index], is_direct }),
            }
        }
        // The records of chunks have 88 bytes, those of lengths 36, of ranges 44, and of headers 4124.
        let table_len = 36 + 88 * journaled + 44 * direct.len() + header.as_ref().map_or(0, |_| 4124);
        let cost = Journal::cost(table_len, data_len) + Journal::cost(36, 0);
        Ok(Plan { header, holes, parts, direct, data_len, cost })
    }

    /// All that can fail without harm: what is needed of space is reserved, all chunks are sealed, those that replace nothing
    /// are written, and last the transaction.
    fn prepare(
        &self,
        st: &mut State,
        journal: &Journal,
        plan: &Plan,
        epoch: u64,
        durable: bool,
    ) -> Result<Vec<Option<Records>>> {
        let shared = &*self.shared;
        let (disk, keys) = (shared.disk(), shared.config.keys());
        self.reserve(st, plan)?;
        if !plan.direct.is_empty() && st.logged != Some(epoch) {
            let mut table = Table::default();
            table.length(self.owner, st.stored.file_len());
            st.transactions = journal.append(disk, keys, &table, 0, std::iter::empty())?;
            self.is_logged(st, epoch);
            if !st.is_fresh {
                self.sync_journal(st, journal)?;
            }
        }
        let sealed = self.seal(st, plan)?;
        if durable && (st.direct_unsynced || !plan.direct.is_empty()) {
            // The system tells of what was not written once. A second sync would succeed.
            let synced = disk.sync_data(&self.file).map_err(|e| VolumeError::io("cannot sync a stored file", e));
            synced.inspect_err(|e| shared.break_off(e))?;
            st.direct_unsynced = false;
        }
        let mut table = Table::default();
        if let Some(header) = &plan.header {
            table.header(self.owner, header.bytes());
        }
        table.length(self.owner, st.layout.file_len());
        let overhead = self.chunks.overhead();
        let mut data = Vec::new();
        for (part, records) in plan.parts.iter().zip(&sealed) {
            let Some(records) = records else { continue };
            for (place, &index) in part.chunks.iter().enumerate() {
                let (seal, ciphertext) = records.record(place, st.layout.data_len(index)).split_at(overhead);
                table.chunk(self.owner, index, ciphertext.len(), seal);
                data.push(ciphertext);
            }
        }
        plan.direct.iter().for_each(|run| table.written(self.owner, run));
        st.transactions = journal.append(disk, keys, &table, plan.data_len, data.into_iter())?;
        self.is_logged(st, epoch);
        st.direct_unsynced |= !durable && !plan.direct.is_empty();
        Ok(sealed)
    }

    fn is_logged(&self, st: &mut State, epoch: u64) {
        (st.logged, st.named) = (Some(epoch), Some(epoch));
        self.shared.name(self.owner.id, &self.file, st.is_fresh);
    }

    /// Reserves what the chunks of the journal need that are new in the file. Where the file system cannot do that, it is tried
    /// without.
    fn reserve(&self, st: &State, plan: &Plan) -> Result<()> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for &index in plan.parts.iter().filter(|part| !part.is_direct).flat_map(|part| &part.chunks) {
            // The chunk that was the last may become longer.
            if st.is_free(index) || st.stored.is_last(index) {
                match runs.last_mut() {
                    Some(run) if run.end == index => run.end += 1,
                    _ => runs.push(index..index + 1),
                }
            }
        }
        for run in runs {
            let start = st.layout.file_offset(run.start);
            let end =
                st.layout.file_offset(run.end - 1) + (self.chunks.overhead() + st.layout.data_len(run.end - 1)) as u64;
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

    /// Seals all parts. Those that need no journal are written to their places at once.
    fn seal(&self, st: &State, plan: &Plan) -> Result<Vec<Option<Records>>> {
        let sealed: Vec<OnceLock<Records>> = plan.parts.iter().map(|_| OnceLock::new()).collect();
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let work = || {
            while let Some((part, place)) = {
                let at = next.fetch_add(1, Ordering::Relaxed);
                plan.parts.get(at).zip(sealed.get(at))
            } {
                let done = self.seal_part(st, part).and_then(|records| {
                    if part.is_direct {
                        let written = self.write_part(st, part, &records);
                        self.shared.give_records(records, 0);
                        return written;
                    }
                    let _ = place.set(records);
                    Ok(())
                });
                if let Err(e) = done {
                    // The others need not go on.
                    next.store(plan.parts.len(), Ordering::Relaxed);
                    failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(e);
                }
            }
        };
        let all: usize = st.dirty.values().map(|page| page.bytes().len()).sum();
        let threads = if all > LONG { self.shared.threads.min(plan.parts.len()) } else { 1 };
        thread::scope(|scope| {
            for _ in 1..threads {
                // Where the system gives no thread, this one does all of it.
                if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        match failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(e) => Err(e),
            None => Ok(sealed.into_iter().map(OnceLock::into_inner).collect()),
        }
    }

    fn seal_part(&self, st: &State, part: &Part) -> Result<Records> {
        let mut records = self.shared.records(&self.chunks, part.chunks.len())?;
        let mut places = Vec::with_capacity(part.chunks.len());
        let mut all = 0;
        for (place, &index) in part.chunks.iter().enumerate() {
            let plaintext = st.dirty.get(&index).map_or(&[][..], Page::bytes);
            debug_assert_eq!(plaintext.len(), st.layout.data_len(index));
            records.chunk_mut(place, plaintext.len()).copy_from_slice(plaintext);
            places.push(Place { index, last: st.layout.is_last(index), len: plaintext.len() });
            all += plaintext.len();
        }
        self.chunks.seal(self.shared.roster(all), &mut records, &places)?;
        Ok(records)
    }

    /// Writes sealed chunks to their places, neighbours at once.
    fn write_part(&self, st: &State, part: &Part, records: &Records) -> Result<()> {
        let record_len = self.chunks.overhead() + self.chunks.chunk_len();
        let mut from = 0;
        while from < part.chunks.len() {
            let mut to = from + 1;
            while to < part.chunks.len() && part.chunks[to] == part.chunks[to - 1] + 1 {
                to += 1;
            }
            let last_len = self.chunks.overhead() + st.layout.data_len(part.chunks[to - 1]);
            let bytes = &records.bytes()[from * record_len..(to - 1) * record_len + last_len];
            let written = self.shared.disk().write(&self.file, bytes, st.layout.file_offset(part.chunks[from]));
            written.map_err(|e| VolumeError::io("cannot write a stored file", e))?;
            from = to;
        }
        Ok(())
    }

    /// The journal has everything: the file follows.
    fn write_in_place(&self, st: &State, plan: &Plan, sealed: &[Option<Records>]) -> Result<()> {
        let disk = self.shared.disk();
        let failed = |e| VolumeError::io("cannot write a stored file", e);
        for (part, records) in plan.parts.iter().zip(sealed) {
            records.as_ref().map_or(Ok(()), |records| self.write_part(st, part, records))?;
        }
        if let Some(header) = &plan.header {
            disk.write(&self.file, header.bytes(), 0).map_err(failed)?;
        }
        if st.layout.file_len() < st.stored.file_len() {
            disk.set_len(&self.file, st.layout.file_len()).map_err(failed)?;
        }
        for hole in st.holes.iter().filter(|hole| !st.stored_holes.ranges().contains(hole)) {
            let end = hole.end.min(st.stored.chunks());
            if hole.start < end {
                let (start, end) = (st.layout.file_offset(hole.start), st.layout.file_offset(end));
                // The space is given back where that is possible.
                let _ = disk.punch(&self.file, start, end - start);
            }
        }
        Ok(())
    }

    /// What was in memory is committed.
    fn finish(&self, st: &mut State, plan: Plan, sealed: Vec<Option<Records>>) {
        st.stored = st.layout;
        st.stored_holes = plan.holes;
        if let Some(header) = plan.header {
            st.header = header;
        }
        st.generation += 1;
        std::mem::take(&mut st.dirty).into_values().for_each(|page| self.shared.pages.give(page));
        sealed.into_iter().flatten().for_each(|records| self.shared.give_records(records, 0));
        self.count_pages(st);
        self.unlist(st);
    }

    /// Nothing is only in memory any more.
    fn unlist(&self, st: &mut State) {
        self.restore_mtime();
        if st.is_listed {
            st.is_listed = false;
            self.shared.remove_dirty(self.key);
        }
    }

    /// The file stays as it was committed. If the disk is the reason, the changes are dropped: nobody could store them later.
    fn abort(&self, st: &mut State, why: VolumeError, plan: &Plan) -> VolumeError {
        let shared = &*self.shared;
        if shared.writable().is_err() {
            return why;
        }
        if let Err(e) = self.cut_back(st, plan) {
            // What was written behind its end would hide the last chunk. The journal knows its length.
            shared.break_off(&VolumeError::io("cannot cut a stored file", e));
            return why;
        }
        if matches!(why, VolumeError::Full | VolumeError::Io { .. }) {
            st.dropped = Some(why.errno());
            st.layout = st.stored;
            st.holes = st.stored_holes.ranges().to_vec();
            std::mem::take(&mut st.dirty).into_values().for_each(|page| shared.pages.give(page));
            self.count_pages(st);
            self.len.store(st.layout.plaintext_len(), Ordering::Release);
            self.unlist(st);
            shared.tell(&format!("changes of the stored file with inode {} were dropped: {why}", self.owner.inode));
        }
        why
    }

    /// Takes away what was written behind the end of the file as it was committed, and the space that was reserved there.
    fn cut_back(&self, st: &State, plan: &Plan) -> std::io::Result<()> {
        if plan.parts.is_empty() { Ok(()) } else { self.shared.disk().set_len(&self.file, st.stored.file_len()) }
    }

    fn sync_journal(&self, st: &State, journal: &Journal) -> Result<()> {
        let synced = journal.sync(self.shared.disk(), st.transactions);
        synced.map_err(|e| VolumeError::io("cannot sync the journal", e)).inspect_err(|e| self.shared.break_off(e))
    }

    /// Makes sure that what is committed is on the disk.
    fn sync_stored(&self, st: &mut State, journal: &Journal) -> Result<()> {
        let shared = &*self.shared;
        let failed = |e| VolumeError::io("cannot sync a stored file", e);
        let is_whole = self.needs_fsync.swap(false, Ordering::AcqRel);
        if st.direct_unsynced && !is_whole {
            shared.disk().sync_data(&self.file).map_err(failed).inspect_err(|e| shared.break_off(e))?;
        }
        self.sync_journal(st, journal)?;
        if is_whole {
            shared.disk().sync_all(&self.file).map_err(failed).inspect_err(|e| shared.break_off(e))?;
        }
        // A checkpoint may have been told of what was not written of this file.
        shared.writable()?;
        st.direct_unsynced = false;
        if std::mem::replace(&mut st.is_fresh, false) && st.named == Some(shared.epochs()) {
            shared.name(self.owner.id, &self.file, false);
        }
        Ok(())
    }
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
