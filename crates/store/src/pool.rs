//! The buffers of parts that are sent and of blocks that are fetched. A few of them are kept for those that follow: the
//! allocator would keep some for each thread.

use crate::cut::PART;
use bytes::Bytes;
use phalanx_host::lock::lock;
use std::fmt;
use std::sync::Mutex;

/// So many buffers are kept.
const KEPT: usize = 6;

/// Empty buffers with room for [`PART`] bytes that nobody uses.
static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty buffer for so many bytes.
fn take(len: u64) -> Vec<u8> {
    match len > PART / 2 && len <= PART {
        true => lock(&FREE).pop().unwrap_or_else(|| Vec::with_capacity(PART as usize)),
        false => Vec::with_capacity(len as usize),
    }
}

fn give_back(mut bytes: Vec<u8>) {
    let mut free = lock(&FREE);
    if bytes.capacity() as u64 == PART && free.len() < KEPT {
        bytes.clear();
        free.push(bytes);
    }
}

/// A part that is being filled. What was not written is zero.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// The end of what was written.
    end: usize,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({})", self.end)
    }
}

impl Buffer {
    /// A buffer for a part of this length, of which so many bytes are likely to be written.
    pub fn new(len: u64, likely: u64) -> Self {
        let len = if likely <= PART / 2 { likely.min(len) } else { len.max(PART) };
        let mut bytes = take(len);
        bytes.resize(len as usize, 0);
        Self { bytes, end: 0 }
    }

    /// Writes a piece. The buffer becomes longer if it must.
    pub fn write(&mut self, at: usize, piece: &[u8]) {
        let end = at + piece.len();
        if end > self.bytes.len() {
            self.bytes.resize(end.next_power_of_two(), 0);
        }
        self.bytes[at..end].copy_from_slice(piece);
        self.end = self.end.max(end);
    }

    /// What was written, up to this length.
    pub fn written(&self, len: usize) -> &[u8] {
        &self.bytes[..len.min(self.end)]
    }

    /// What was written as the bytes of a request. When it is done with them, the buffer is free again.
    pub fn into_request(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.written(self.end)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.bytes));
    }
}

/// A block that comes piece by piece.
pub struct Block(Vec<u8>);

impl Block {
    /// An empty block with room for so many bytes.
    pub fn new(len: u64) -> Self {
        Self(take(len))
    }

    /// How many bytes have come.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }

    /// All that has come. When nobody uses it any more, the buffer is free again.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the bytes of a buffer lie.
    fn place(buffer: &Buffer) -> *const u8 {
        buffer.bytes.as_ptr()
    }

    #[test]
    fn buffers_are_used_again_without_what_was_in_them() {
        // Other tests of this process send nothing.
        let mut first = Buffer::new(PART, PART);
        first.write(5, &[7; 1000]);
        first.write(PART as usize - 3, &[7; 3]);
        let (at, request) = (place(&first), first.into_request());
        assert_eq!((request.len() as u64, request[4], request[5], request[1005]), (PART, 0, 7, 0));
        let clone = request.clone();
        drop(request);
        let other = Buffer::new(PART, PART);
        assert_ne!(place(&other), at, "a request still has it");
        drop(clone);
        let mut again = Buffer::new(PART, PART);
        assert_eq!(place(&again), at);
        assert!(again.bytes.iter().all(|byte| *byte == 0));
        again.write(0, b"short");
        assert_eq!(&*again.into_request(), b"short");
        let mut block = Block::new(PART - 1);
        assert_eq!((block.len(), block.0.as_ptr()), (0, at));
        block.push(b"all");
        block.push(b" of it");
        assert_eq!((block.len(), &*block.into_bytes()), (9, &b"all of it"[..]));
        // A part that was given up is free too, and no more are kept than are needed.
        let many: Vec<Buffer> = (0..2 * KEPT).map(|_| Buffer::new(PART - 1, PART)).collect();
        drop((other, many));
        let free = lock(&FREE);
        assert_eq!(free.len(), KEPT);
        assert!(free.iter().all(|bytes| bytes.capacity() as u64 == PART && bytes.is_empty()));
    }

    #[test]
    fn small_and_long_parts_have_buffers_of_their_own() {
        let mut small = Buffer::new(PART, 10);
        small.write(8, b"more than was likely");
        assert!(small.bytes.len() < 100 && small.written(9) == b"\0\0\0\0\0\0\0\0m");
        assert_eq!(small.as_ref().len(), 28);
        let mut long = Buffer::new(2 * PART, 2 * PART);
        long.write(2 * PART as usize - 1, b"x");
        assert_eq!(long.as_ref().len() as u64, 2 * PART);
    }
}
