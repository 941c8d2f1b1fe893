//! Where a program reads an object, and what it is going to read next.

use std::ops::Range;

/// The longest range that is fetched early at once, and the shortest, in bytes.
pub const LONGEST: u64 = 4 << 20;
const SHORTEST: u64 = 256 << 10;
/// Reads of several threads arrive out of order, by so many bytes at most.
const NEAR: u64 = 2 << 20;

/// Reads that go on without a jump.
#[derive(Clone, Debug)]
pub struct Course {
    /// The end of what was read.
    next: u64,
    /// How much was read without a jump.
    run: u64,
    /// The end of what was fetched early.
    fetched: u64,
}

impl Course {
    /// Begins with a read.
    pub fn new(read: &Range<u64>) -> Self {
        Self { next: read.end, run: read.end - read.start, fetched: read.end }
    }

    /// Whether a read goes on from here. It may be early by its own length, or late by a few of them.
    pub fn has(&self, read: &Range<u64>) -> bool {
        let len = read.end - read.start;
        let (early, late) = (len.min(NEAR / 2), len.saturating_mul(4).min(NEAR));
        read.start <= self.next.saturating_add(early) && self.next <= read.start.saturating_add(late).max(read.end)
    }

    /// Notes a read that goes on. Returns whether it went further than those before.
    pub fn go_on(&mut self, read: &Range<u64>) -> bool {
        let more = read.end.saturating_sub(self.next).min(read.end - read.start);
        self.run += more;
        self.next = self.next.max(read.end);
        self.fetched = self.fetched.max(self.next);
        more > 0
    }

    /// Whether a range lies so far behind that it will not be read again.
    pub fn has_passed(&self, range: &Range<u64>) -> bool {
        range.end.saturating_add(NEAR) <= self.next
    }

    /// The next range to fetch early, in an object of this length: in all no more than was read without a jump, and than
    /// `most` bytes.
    pub fn wanted(&self, len: u64, most: u64) -> Option<Range<u64>> {
        let target = self.next.saturating_add(self.run.min(most)).min(len);
        // Few lengths are easier for the allocator.
        let piece = (1 << (self.run / 2).max(1).ilog2()).clamp(SHORTEST, LONGEST);
        let end = self.fetched + piece.min(len.saturating_sub(self.fetched));
        (self.fetched < end && end <= target).then_some(self.fetched..end)
    }

    /// Notes that a range was begun.
    pub fn begun(&mut self, range: &Range<u64>) {
        self.fetched = range.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1 << 30;
    const MOST: u64 = 16 << 20;

    /// What is fetched early after these reads.
    fn after(reads: &[Range<u64>]) -> Vec<Range<u64>> {
        let (mut course, mut fetched) = (None::<Course>, Vec::new());
        for read in reads {
            match course.as_mut().filter(|course| course.has(read)) {
                Some(course) => {
                    let is_further = course.go_on(read);
                    while let Some(range) = course.wanted(LEN, MOST).filter(|_| is_further) {
                        course.begun(&range);
                        fetched.push(range);
                    }
                }
                None => course = Some(Course::new(read)),
            }
        }
        fetched
    }

    #[test]
    fn jumps_fetch_nothing_early() {
        let jumps: Vec<_> = (0..50).map(|i| (i * 7 % 50) << 24).map(|at| at..at + (1 << 20)).collect();
        assert!(after(&jumps).is_empty());
        // Nor do a few small reads one after another, or one that is repeated.
        let small: Vec<_> = (0..8).map(|i| i << 14..(i + 1) << 14).collect();
        assert!(after(&small).is_empty());
        assert!(after(&[0..1 << 20, 0..1 << 20, 5..1 << 20]).is_empty());
    }

    #[test]
    fn reads_in_order_fetch_more_and_more_without_gaps() {
        let reads: Vec<_> = (0..100).map(|i| i << 20..(i + 1) << 20).collect();
        let fetched = after(&reads);
        assert!(fetched.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(fetched[0], 2 << 20..3 << 20);
        assert!(fetched.iter().all(|range| range.end - range.start <= LONGEST));
        let end = fetched.last().unwrap().end;
        assert!(end > 110 << 20 && end <= (100 << 20) + MOST, "{end}");
    }

    #[test]
    fn the_order_of_threads_does_not_matter() {
        let mut reads: Vec<_> = (0..100).map(|i| i << 20..(i + 1) << 20).collect();
        reads[1..].chunks_mut(2).for_each(|pair| pair.reverse());
        assert!(after(&reads).last().unwrap().end > 110 << 20);
    }

    #[test]
    fn the_end_of_the_object_is_the_end() {
        let mut course = Course::new(&(0..1 << 20));
        course.go_on(&(1 << 20..2 << 20));
        let len = (2 << 20) + 5;
        assert_eq!(course.wanted(len, MOST), Some(2 << 20..len));
        course.begun(&(2 << 20..len));
        assert_eq!(course.wanted(len, MOST), None);
        course.go_on(&(2 << 20..len));
        assert_eq!(course.wanted(len, MOST), None);
    }
}
