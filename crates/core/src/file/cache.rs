//! The cache of opened chunks: which ones are there, which ones a thread is about to open, and which ones are evicted
//! first.

use crate::file::records::{Memory, Records};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Consecutive opened chunks. The memory is wiped when its last user drops it.
pub(crate) struct Block {
    pub chunks: Range<u64>,
    memory: Memory,
}

impl Block {
    pub fn new(chunks: Range<u64>, memory: Memory) -> Self {
        Self { chunks, memory }
    }

    /// The plaintext of one of the chunks, which has `len` bytes.
    pub fn chunk(&self, records: &Records, chunk: u64, len: usize) -> &[u8] {
        &self.memory.bytes()[records.data((chunk - self.chunks.start) as usize, len)]
    }
}

/// What the cache knows of a chunk.
pub(crate) enum ChunkState {
    Opened(Arc<Block>),
    /// A thread is about to open it.
    Claimed,
    Absent,
}

/// Chunks that a thread is about to open, and the memory for them. It goes back to the cache by [`Cache::keep`] or
/// [`Cache::release`].
pub(crate) struct Claim {
    place: usize,
    pub chunks: Range<u64>,
    /// Memory of evicted chunks, if it has the right length.
    pub memory: Option<Memory>,
}

/// Opened chunks. The least recently used ones are evicted first.
pub(crate) struct Cache {
    /// The most that is kept, in bytes.
    limit: usize,
    /// The memory of kept and claimed chunks, in bytes.
    used: usize,
    /// The place of each chunk.
    chunks: HashMap<u64, usize>,
    places: Vec<CachePlace>,
    free: Vec<usize>,
    newest: usize,
    oldest: usize,
}

struct CachePlace {
    chunks: Range<u64>,
    bytes: usize,
    /// `None` while it is claimed. Then it is not in the list.
    block: Option<Arc<Block>>,
    /// Read ahead and not used yet.
    is_fresh: bool,
    newer: usize,
    older: usize,
}

/// No place: the end of the list.
const NONE: usize = usize::MAX;

impl Cache {
    pub fn new(limit: usize) -> Self {
        let (chunks, places, free) = (HashMap::new(), Vec::new(), Vec::new());
        Self { limit, used: 0, chunks, places, free, newest: NONE, oldest: NONE }
    }

    /// What the cache knows of a chunk. Finding an opened chunk counts as using it.
    pub fn find(&mut self, chunk: u64) -> ChunkState {
        let Some(&place) = self.chunks.get(&chunk) else { return ChunkState::Absent };
        let Some(block) = self.places[place].block.clone() else { return ChunkState::Claimed };
        self.unlink(place);
        self.link(place);
        self.places[place].is_fresh = false;
        ChunkState::Opened(block)
    }

    /// The first consecutive chunks of the range that are neither kept nor claimed, at most `most` of them.
    pub fn absent(&self, chunks: Range<u64>, most: u64) -> Range<u64> {
        let is_absent = |chunk: &u64| !self.chunks.contains_key(chunk);
        let Some(start) = chunks.clone().find(is_absent) else { return chunks.end..chunks.end };
        let more = start + 1..chunks.end.min(start.saturating_add(most));
        start..start + 1 + more.take_while(is_absent).count() as u64
    }

    /// Claims absent chunks, which take `bytes` of memory. Others are evicted until there is room. If all are claimed,
    /// more memory is used. Evicted blocks are added to `gone`, to be dropped after the lock is released.
    pub fn claim(&mut self, chunks: Range<u64>, bytes: usize, gone: &mut Vec<Arc<Block>>) -> Claim {
        let memory = self.make_room(bytes, gone);
        self.insert(chunks, bytes, false, memory)
    }

    /// Claims absent chunks that are read ahead, as [`Self::claim`] does. `None` if this would evict a chunk that was
    /// read ahead too and is not used yet.
    pub fn claim_ahead(&mut self, chunks: Range<u64>, bytes: usize, gone: &mut Vec<Arc<Block>>) -> Option<Claim> {
        let (mut free, mut place) = (self.limit.saturating_sub(self.used), self.oldest);
        while free < bytes {
            let old = self.places.get(place).filter(|old| !old.is_fresh)?;
            (free, place) = (free + old.bytes, old.newer);
        }
        let memory = self.make_room(bytes, gone);
        Some(self.insert(chunks, bytes, true, memory))
    }

    /// Keeps what was claimed. If the block has fewer chunks, only these are kept.
    pub fn keep(&mut self, claim: &Claim, block: Arc<Block>) {
        for chunk in block.chunks.end..claim.chunks.end {
            self.chunks.remove(&chunk);
        }
        let place = &mut self.places[claim.place];
        place.chunks = block.chunks.clone();
        place.block = Some(block);
        self.link(claim.place);
    }

    /// Gives up what was claimed.
    pub fn release(&mut self, claim: &Claim) {
        self.remove(claim.place);
    }

    /// Evicts blocks until there is room. Returns the memory of one of them, if nothing else uses it and it has the
    /// right length.
    fn make_room(&mut self, bytes: usize, gone: &mut Vec<Arc<Block>>) -> Option<Memory> {
        let mut memory = None;
        while self.used + bytes > self.limit && self.oldest != NONE {
            let place = self.oldest;
            self.unlink(place);
            let block = self.remove(place).expect("what is in the list is opened");
            match Arc::try_unwrap(block) {
                Ok(block) if memory.is_none() && block.memory.bytes().len() == bytes => memory = Some(block.memory),
                Ok(block) => gone.push(Arc::new(block)),
                Err(shared) => gone.push(shared),
            }
        }
        memory
    }

    fn insert(&mut self, chunks: Range<u64>, bytes: usize, is_fresh: bool, memory: Option<Memory>) -> Claim {
        let new = CachePlace { chunks: chunks.clone(), bytes, block: None, is_fresh, newer: NONE, older: NONE };
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place] = new;
                place
            }
            None => {
                self.places.push(new);
                self.places.len() - 1
            }
        };
        for chunk in chunks.clone() {
            self.chunks.insert(chunk, place);
        }
        self.used += bytes;
        Claim { place, chunks, memory }
    }

    /// Forgets a place that is not in the list.
    fn remove(&mut self, place: usize) -> Option<Arc<Block>> {
        for chunk in self.places[place].chunks.clone() {
            self.chunks.remove(&chunk);
        }
        self.used -= self.places[place].bytes;
        self.free.push(place);
        self.places[place].block.take()
    }

    /// Adds a place at the new end of the list.
    fn link(&mut self, place: usize) {
        let before = self.newest;
        (self.places[place].older, self.places[place].newer) = (before, NONE);
        match before {
            NONE => self.oldest = place,
            before => self.places[before].newer = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: usize) {
        let CachePlace { older, newer, .. } = self.places[place];
        match older {
            NONE => self.oldest = newer,
            older => self.places[older].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.places[newer].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(chunks: Range<u64>) -> Arc<Block> {
        Arc::new(Block::new(chunks.clone(), Memory::new(10 * (chunks.end - chunks.start) as usize, 0).unwrap()))
    }

    fn keep(cache: &mut Cache, chunks: Range<u64>) -> bool {
        let mut gone = Vec::new();
        let claim = cache.claim(chunks.clone(), 10 * (chunks.end - chunks.start) as usize, &mut gone);
        let reused = claim.memory.is_some();
        cache.keep(&claim, block(chunks));
        reused
    }

    fn has(cache: &Cache, chunks: Range<u64>) -> Vec<bool> {
        chunks.map(|chunk| cache.absent(chunk..chunk + 1, 1).is_empty()).collect()
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = Cache::new(30);
        assert!(!keep(&mut cache, 0..1) && !keep(&mut cache, 1..2) && !keep(&mut cache, 2..3));
        assert!(matches!(cache.find(0), ChunkState::Opened(_)));
        // The memory of evicted chunks is used again if it has the right length.
        assert!(keep(&mut cache, 3..4));
        assert_eq!(has(&cache, 0..5), [true, false, true, true, false]);
        assert!(!keep(&mut cache, 5..7));
        assert_eq!(has(&cache, 0..8), [false, false, false, true, false, true, true, false]);
        assert_eq!((cache.used, cache.places.len() - cache.free.len()), (30, 2));
        // More than there is room for: it is kept alone.
        assert!(!keep(&mut cache, 10..20));
        assert_eq!(cache.used, 100);
        assert!(!keep(&mut cache, 0..1));
        assert_eq!(cache.used, 10);
    }

    #[test]
    fn memory_in_use_is_not_used_again() {
        let mut cache = Cache::new(10);
        keep(&mut cache, 0..1);
        let ChunkState::Opened(held) = cache.find(0) else { panic!("it is there") };
        assert!(!keep(&mut cache, 1..2));
        assert_eq!(held.chunks, 0..1);
    }

    #[test]
    fn claims_are_kept_in_part_or_given_up() {
        let mut cache = Cache::new(100);
        let mut gone = Vec::new();
        let claim = cache.claim(2..6, 40, &mut gone);
        assert!(matches!(cache.find(3), ChunkState::Claimed));
        assert_eq!(cache.absent(0..9, 9), 0..2);
        assert_eq!(cache.absent(2..9, 2), 6..8);
        assert_eq!(cache.absent(2..5, 2), 5..5);
        cache.keep(&claim, block(2..4));
        assert_eq!(has(&cache, 2..6), [true, true, false, false]);
        let claim = cache.claim(4..6, 20, &mut gone);
        cache.release(&claim);
        assert_eq!(has(&cache, 2..6), [true, true, false, false]);
        assert_eq!(cache.used, 40);
    }

    #[test]
    fn read_ahead_does_not_evict_read_ahead() {
        let mut cache = Cache::new(20);
        let mut gone = Vec::new();
        keep(&mut cache, 0..1);
        keep(&mut cache, 1..2);
        let ahead = cache.claim_ahead(2..3, 10, &mut gone).unwrap();
        assert!(cache.claim_ahead(3..5, 20, &mut gone).is_none(), "one of the two is claimed");
        cache.keep(&ahead, block(2..3));
        let ahead = cache.claim_ahead(3..4, 10, &mut gone).unwrap();
        cache.keep(&ahead, block(3..4));
        assert!(cache.claim_ahead(4..5, 10, &mut gone).is_none());
        assert!(matches!(cache.find(2), ChunkState::Opened(_)));
        // The oldest is still fresh.
        assert!(cache.claim_ahead(4..5, 10, &mut gone).is_none());
        assert!(matches!(cache.find(3), ChunkState::Opened(_)));
        assert!(cache.claim_ahead(4..5, 10, &mut gone).is_some());
        assert_eq!(has(&cache, 2..5), [false, true, true]);
    }
}
