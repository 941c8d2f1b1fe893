//! The sums of a file's chunks, in a volume that finds older states: checked when chunks are read, and made anew when they
//! are committed (`docs/format-versions.md`).

use crate::backing::Backing;
use crate::backing::content::Content;
use crate::error::{Result, VolumeError};
use crate::journal::SEAL;
use phalanx_core::format::FileKeys;
use phalanx_core::volume::{Records, State};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use subtle::ConstantTimeEq;

const TAG: usize = 32;
/// The memory that the tags of all files take, in bytes, unless each has only those that it used last.
const LIMIT: usize = 64 << 20;
/// How many bytes of tags are kept from one commit.
const KEPT: usize = 8 << 20;

/// The tags of chunks that are committed.
#[derive(Default)]
pub(super) struct Tags(Vec<(u64, [u8; TAG])>);

impl Tags {
    /// Adds that of a chunk with this nonce and tag.
    pub fn add(&mut self, index: u64, record: &[u8]) {
        self.0.push((index, tag_of(record)));
    }

    pub fn sorted(mut self) -> Self {
        self.0.sort_unstable_by_key(|(index, _)| *index);
        self
    }

    fn get(&self, index: u64) -> Option<&[u8; TAG]> {
        let place = self.0.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        Some(&self.0[place].1)
    }

    fn has_any(&self, chunks: &Range<u64>) -> bool {
        let place = self.0.partition_point(|(index, _)| *index < chunks.start);
        self.0.get(place).is_some_and(|(index, _)| chunks.contains(index))
    }
}

/// The tag in a chunk's stored form.
fn tag_of(record: &[u8]) -> [u8; TAG] {
    record[SEAL - TAG..SEAL].try_into().expect("a record begins with nonce and tag")
}

/// The tags of groups that were found to be right, each with those of all its chunks that are in no hole.
#[derive(Default)]
pub(super) struct KnownTags {
    groups: HashMap<u64, Arc<Vec<u8>>>,
    bytes: usize,
    /// Groups whose tags are not those of their sums. They are not read again for each of their chunks.
    bad: HashSet<u64>,
}

/// The state after a commit, and the tags of the groups whose sums are new.
pub(super) struct NextState {
    pub state: State,
    groups: Vec<(u64, Arc<Vec<u8>>)>,
    /// The groups whose sums are new.
    changed: Vec<u64>,
}

/// The state of a new file whose only chunk has this nonce and tag.
pub(super) fn first(keys: &FileKeys, record: &[u8]) -> State {
    State { group_log2: 0, sums: vec![keys.volume_sums().sum(0, &tag_of(record))] }
}

/// The chunks of a group.
fn chunks_of(group: u64, log2: u8, chunks: u64) -> Range<u64> {
    let end = (group + 1).checked_shl(log2.into()).filter(|end| end >> log2 == group + 1).unwrap_or(u64::MAX);
    group << log2..end.min(chunks)
}

/// The parts of a range that are in no hole.
fn data(holes: &[Range<u64>], range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let first = holes.partition_point(|hole| hole.end <= range.start);
    let inside = holes[first..].iter().take_while({
        let end = range.end;
        move |hole| hole.start < end
    });
    let starts = std::iter::once(range.start).chain(inside.clone().map(|hole| hole.end));
    let ends = inside.map(|hole| hole.start).chain(std::iter::once(range.end));
    starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end)
}

/// How many chunks of a range lie before `index` and in no hole.
fn rank(holes: &[Range<u64>], range: Range<u64>, index: u64) -> usize {
    data(holes, range.start..index).map(|part| part.end - part.start).sum::<u64>() as usize
}

impl Backing {
    /// The tags of a run of stored chunks that were just read, if the file has sums.
    pub(super) fn stored_tags(&self, content: &Content, run: &Range<u64>, records: &Records) -> Vec<u8> {
        if content.stored_state.is_none() {
            return Vec::new();
        }
        let count = (run.end - run.start) as usize;
        (0..count).flat_map(|place| tag_of(records.record(place, 0))).collect()
    }

    /// Checks that stored chunks with these tags are those of the file's last version.
    pub(super) fn check_tags(&self, content: &Content, run: &Range<u64>, tags: &[u8]) -> Result<()> {
        let (Some(state), Some(sums)) = (&content.stored_state, &self.sums) else { return Ok(()) };
        let (log2, chunks) = (state.group_log2, content.stored.chunks());
        let mut index = run.start;
        let mut tags = tags.chunks_exact(TAG);
        while index < run.end {
            let group = index >> log2;
            let of_group = chunks_of(group, log2, chunks);
            let end = of_group.end.min(run.end);
            let known = if log2 == 0 { None } else { Some(self.group_tags(content, state, group)?) };
            let first = rank(content.stored_holes.ranges(), of_group, index);
            for index in index..end {
                let tag = tags.next().expect("there is one for each chunk");
                let is_right = match &known {
                    Some(known) => {
                        known[(first + (index - run.start.max(group << log2)) as usize) * TAG..][..TAG].ct_eq(tag)
                    }
                    None => sums.sum(group, tag).ct_eq(&state.sums[group as usize]),
                };
                if !bool::from(is_right) {
                    return Err(self.old(index..index + 1));
                }
            }
            index = end;
        }
        Ok(())
    }

    /// The tags of the chunks of a stored group that are in no hole. They are read once, and are right.
    fn group_tags(&self, content: &Content, state: &State, group: u64) -> Result<Arc<Vec<u8>>> {
        let chunks = chunks_of(group, state.group_log2, content.stored.chunks());
        let (known, is_bad) = {
            let known = self.known_tags();
            (known.groups.get(&group).cloned(), known.bad.contains(&group))
        };
        match known {
            Some(known) => return Ok(known),
            None if is_bad => return Err(self.old(chunks)),
            None => {}
        }
        let mut tags = Vec::new();
        for part in data(content.stored_holes.ranges(), chunks.clone()) {
            for index in part {
                let at = tags.len();
                tags.resize(at + TAG, 0);
                self.read_tag(content, index, &mut tags[at..])?;
            }
        }
        let sum = self.sums.as_ref().map(|sums| sums.sum(group, &tags));
        let is_right = sum.zip(state.sums.get(group as usize)).is_some_and(|(sum, known)| sum.ct_eq(known).into());
        if !is_right {
            self.known_tags().bad.insert(group);
            return Err(self.old(chunks));
        }
        let tags = Arc::new(tags);
        self.keep_tags(group, tags.clone());
        Ok(tags)
    }

    /// Reads the tag of a stored chunk. Where the file is too short, it is left as it is.
    fn read_tag(&self, content: &Content, index: u64, tag: &mut [u8]) -> Result<()> {
        let at = content.stored.file_offset(index) + (SEAL - TAG) as u64;
        match self.file.read_exact_at(tag, at) {
            Err(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => {
                Err(VolumeError::io("cannot read a stored file", e))
            }
            _ => Ok(()),
        }
    }

    /// The state after a commit of chunks with these tags. What stays as it is must be the file's last version, so that
    /// nothing that was put back gets a sum.
    pub(super) fn next_state(&self, content: &Content, old: &State, tags: &Tags) -> Result<NextState> {
        let chunks = content.layout.chunks();
        let (group_log2, count) = State::shape(chunks);
        let is_same_size = group_log2 == old.group_log2;
        let mut next = NextState {
            state: State { group_log2, sums: Vec::with_capacity(count as usize) },
            groups: Vec::new(),
            changed: Vec::new(),
        };
        let mut kept = 0;
        for group in 0..count {
            let range = chunks_of(group, group_log2, chunks);
            let is_same = is_same_size
                && (group as usize) < old.sums.len()
                && range == chunks_of(group, group_log2, content.stored.chunks())
                && !tags.has_any(&range)
                && data(&content.holes, range.clone()).eq(data(content.stored_holes.ranges(), range.clone()));
            if is_same {
                next.state.sums.push(old.sums[group as usize]);
                continue;
            }
            let of_group = Arc::new(self.next_tags(content, old, tags, range)?);
            let sums = self.sums.as_ref().ok_or_else(|| VolumeError::Damaged("a file without sums".into()))?;
            next.state.sums.push(sums.sum(group, &of_group));
            next.changed.push(group);
            kept += of_group.len();
            if group_log2 > 0 && kept <= KEPT {
                next.groups.push((group, of_group));
            }
        }
        Ok(next)
    }

    /// The tags that the chunks of a range will have, without those in holes.
    fn next_tags(&self, content: &Content, old: &State, tags: &Tags, range: Range<u64>) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        let mut known: Option<(u64, Range<u64>, Arc<Vec<u8>>)> = None;
        for index in data(&content.holes, range).flatten() {
            if let Some(tag) = tags.get(index) {
                all.extend_from_slice(tag);
                continue;
            }
            let group = index >> old.group_log2;
            if known.as_ref().is_none_or(|(known, ..)| *known != group) {
                let of_group = chunks_of(group, old.group_log2, content.stored.chunks());
                known = Some((group, of_group, self.group_tags(content, old, group)?));
            }
            let Some((_, of_group, known)) = &known else { continue };
            let place = rank(content.stored_holes.ranges(), of_group.clone(), index);
            all.extend_from_slice(&known[place * TAG..][..TAG]);
        }
        Ok(all)
    }

    /// Takes the state of a commit that was made.
    pub(super) fn take_state(&self, next: NextState, was: Option<&State>) -> State {
        {
            let mut known = self.known_tags();
            known.bad.clear();
            let is_same_size = was.is_some_and(|was| was.group_log2 == next.state.group_log2);
            let stale = |group: &u64| {
                !is_same_size || *group >= next.state.sums.len() as u64 || next.changed.binary_search(group).is_ok()
            };
            let gone: Vec<u64> = known.groups.keys().copied().filter(|group| stale(group)).collect();
            for group in gone {
                let freed = known.groups.remove(&group).map_or(0, |tags| tags.len());
                known.bytes -= freed;
                self.shared.tag_bytes.fetch_sub(freed, Ordering::Relaxed);
            }
        }
        for (group, tags) in next.groups {
            self.keep_tags(group, tags);
        }
        next.state
    }

    /// Keeps the tags of a group for the next use.
    fn keep_tags(&self, group: u64, tags: Arc<Vec<u8>>) {
        let len = tags.len();
        let mut known = self.known_tags();
        if self.shared.tag_bytes.load(Ordering::Relaxed) + len > LIMIT {
            let freed = std::mem::take(&mut *known).bytes;
            self.shared.tag_bytes.fetch_sub(freed, Ordering::Relaxed);
        }
        if known.groups.insert(group, tags).is_none() {
            known.bytes += len;
            self.shared.tag_bytes.fetch_add(len, Ordering::Relaxed);
        }
    }

    /// Gives the memory of all tags back.
    pub(super) fn forget_tags(&self) {
        let freed = std::mem::take(&mut *self.known_tags()).bytes;
        self.shared.tag_bytes.fetch_sub(freed, Ordering::Relaxed);
    }

    fn known_tags(&self) -> std::sync::MutexGuard<'_, KnownTags> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error for chunks that are not those of the file's last version. It is reported once.
    fn old(&self, chunks: Range<u64>) -> VolumeError {
        let which = match chunks.end - chunks.start {
            1 => format!("chunk {}", chunks.start),
            _ => format!("one of the chunks {} to {}", chunks.start, chunks.end - 1),
        };
        let text = format!("the stored file with inode {}: {which} is not that of the last version", self.owner.inode);
        self.shared.tell_once(self.key, Some(chunks.start), &text);
        VolumeError::Damaged(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_left_out_of_ranges() {
        let holes = [2..4, 6..7, 9..20];
        let parts = |range| data(&holes, range).collect::<Vec<_>>();
        assert_eq!(parts(0..30), [0..2, 4..6, 7..9, 20..30]);
        assert_eq!(parts(3..8), [4..6, 7..8]);
        assert_eq!(parts(10..15), [] as [Range<u64>; 0]);
        assert_eq!(parts(5..5), [] as [Range<u64>; 0]);
        assert!(data(&[], 3..5).eq(std::iter::once(3..5)));
        assert_eq!(rank(&holes, 0..30, 8), 5);
        assert_eq!(rank(&holes, 4..8, 5), 1);
    }

    #[test]
    fn the_last_group_ends_with_the_file() {
        assert_eq!(chunks_of(0, 0, 1), 0..1);
        assert_eq!(chunks_of(2, 3, 20), 16..20);
        assert_eq!(chunks_of(1, 3, 20), 8..16);
        assert_eq!(chunks_of(0, 63, 5), 0..5);
    }
}
