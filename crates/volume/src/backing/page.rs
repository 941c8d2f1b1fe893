//! Plaintext of one chunk in memory. It is wiped before its memory is given up.

use std::sync::Mutex;

/// How much memory is kept for future pages, in bytes.
const KEPT: usize = 8 << 20;
/// The least memory of a page, in bytes.
const LEAST: usize = 4096;

/// The plaintext of one chunk. When it moves to other memory, the old memory is wiped.
#[derive(Default)]
pub(crate) struct Page(Vec<u8>);

impl Page {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Memory that it has, in bytes.
    pub fn room(&self) -> usize {
        self.0.capacity()
    }

    /// Writes at a place, which is at most the page's end. The page grows if necessary.
    pub fn write(&mut self, at: usize, data: &[u8], pool: &PagePool) {
        let over = (self.0.len() - at).min(data.len());
        let (inside, behind) = data.split_at(over);
        self.0[at..at + over].copy_from_slice(inside);
        self.make_room(at + data.len(), pool);
        self.0.extend_from_slice(behind);
    }

    /// Sets the length. New bytes are zeros; removed bytes are wiped.
    pub fn set_len(&mut self, len: usize, pool: &PagePool) {
        if len < self.0.len() {
            self.0[len..].fill(0);
            self.0.truncate(len);
        } else {
            self.make_room(len, pool);
            self.0.resize(len, 0);
        }
    }

    pub fn is_zeros(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    fn make_room(&mut self, len: usize, pool: &PagePool) {
        if len > self.0.capacity() {
            let mut larger = pool.take(len.next_power_of_two().max(LEAST).min(pool.chunk_len.max(len)));
            larger.0.extend_from_slice(&self.0);
            *self = larger;
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.0.fill(0);
        zeroize::optimization_barrier(&self.0);
    }
}

/// Wiped memory of whole chunks for future pages. Fresh memory from the system costs more than copying into it.
pub(crate) struct PagePool {
    chunk_len: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

impl PagePool {
    pub fn new(chunk_len: usize) -> Self {
        Self { chunk_len, free: Mutex::default() }
    }

    /// An empty page with room for `room` bytes.
    pub fn take(&self, room: usize) -> Page {
        if room == self.chunk_len
            && let Some(free) = self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop()
        {
            return Page(free);
        }
        Page(Vec::with_capacity(room))
    }

    /// A page of zeros.
    pub fn zeros(&self, len: usize) -> Page {
        let mut page = Page::default();
        page.set_len(len, self);
        page
    }

    /// Takes a page back.
    pub fn give(&self, mut page: Page) {
        if page.0.capacity() == self.chunk_len {
            page.0.fill(0);
            zeroize::optimization_barrier(&page.0);
            page.0.clear();
            let mut free = self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if free.len() < KEPT / self.chunk_len {
                free.push(std::mem::take(&mut page.0));
            }
        }
    }
}
