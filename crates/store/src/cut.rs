//! How an object is cut into parts.

use crate::error;
use phalanx_host::file::Plan;
use std::io;
use std::ops::Range;

/// The bytes of a part, or more if there would be too many parts.
pub const PART: u64 = 8 << 20;

/// The bytes of a part that the store copies, or more if there would be too many parts. A store that copies them at 2 MB/s
/// still answers in time.
const COPIED: u64 = 64 << 20;

/// The most parts that stores take.
pub const PARTS: u64 = 10_000;

/// The longest object, in bytes: 5 TiB.
const LONGEST: u64 = 5 << 40;

/// How the object is cut.
#[derive(Clone, Debug)]
pub enum Cut {
    /// Into equal parts.
    Even(u64),
    /// Into parts that become longer, because nobody knows how many there will be.
    Growing,
    /// Into whole chunks.
    Chunks(Plan),
    /// Into a first part that is sent, and parts of this length that the store copies from another object.
    Copied(u64),
}

impl Default for Cut {
    fn default() -> Self {
        Cut::Even(PART)
    }
}

/// So many parts have the same length before those that are twice as long.
const STEP: u64 = 1000;

impl Cut {
    /// How an object is cut whose plaintext has this length.
    ///
    /// # Errors
    /// If it is too long for an object.
    pub fn of(len: Option<u64>) -> io::Result<Self> {
        let Some(len) = len else { return Ok(Cut::Growing) };
        if len > LONGEST {
            return Err(error::refusal("it is too long for an object"));
        }
        // Chunks and header make a protected file a little longer.
        Ok(Cut::Even(PART.max((len + len / 64).div_ceil(PARTS))))
    }

    /// How an object of this length is cut that the store copies from another one, all but its beginning.
    ///
    /// # Errors
    /// If it is too long for an object.
    pub fn copied(len: u64) -> io::Result<Self> {
        if len > LONGEST {
            return Err(error::refusal("it is too long for an object"));
        }
        Ok(Cut::Copied(COPIED.max(len.div_ceil(PARTS - 1))))
    }

    /// Where a part lies.
    pub fn part(&self, index: u64) -> Range<u64> {
        match self {
            Cut::Even(len) => index * len..(index + 1) * len,
            Cut::Growing => grown(index)..grown(index + 1),
            Cut::Chunks(plan) => plan.part(index),
            Cut::Copied(_) if index == 0 => 0..PART,
            Cut::Copied(len) => PART + (index - 1) * len..PART + index * len,
        }
    }

    /// The part that an offset lies in.
    pub fn index(&self, offset: u64) -> u64 {
        match self {
            Cut::Even(len) => offset / len,
            Cut::Growing => {
                let step = (0..PARTS / STEP).rev().find(|step| grown(step * STEP) <= offset).unwrap_or(0);
                step * STEP + (offset - grown(step * STEP)) / (PART << step)
            }
            Cut::Chunks(plan) => offset.saturating_sub(plan.header.len() as u64) / (plan.chunks * plan.record),
            Cut::Copied(len) => offset.checked_sub(PART).map_or(0, |beyond| 1 + beyond / len),
        }
    }
}

/// Where a part begins, if parts grow.
fn grown(index: u64) -> u64 {
    let step = (index / STEP).min(PARTS / STEP);
    PART * (STEP * ((1 << step) - 1) + ((index - step * STEP) << step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_grow_lie_side_by_side() {
        let cut = Cut::of(None).unwrap();
        for index in [0, 1, 999, 1000, 1001, 1999, 2000, 5500, 9999] {
            let part = cut.part(index);
            assert_eq!(part.end, cut.part(index + 1).start);
            assert_eq!(part.end - part.start, PART << (index / STEP));
            assert_eq!((cut.index(part.start), cut.index(part.end - 1)), (index, index));
        }
        assert!(cut.part(PARTS - 1).end > LONGEST);
    }

    #[test]
    fn no_object_has_too_many_parts() {
        for len in [0, 1, PART * PARTS, LONGEST] {
            let Cut::Even(part) = Cut::of(Some(len)).unwrap() else { panic!() };
            assert!((len + len / 64) / part < PARTS + 1);
        }
        assert!(Cut::of(Some(u64::MAX)).is_err());
    }

    #[test]
    fn what_is_copied_lies_behind_a_first_part() {
        for len in [PART + 1, PART + COPIED, PART + COPIED + 1, 100 * COPIED, LONGEST] {
            let cut = Cut::copied(len).unwrap();
            let last = cut.index(len - 1);
            assert!(last < PARTS && (cut.part(last).start..cut.part(last).end).contains(&(len - 1)));
            assert_eq!((cut.part(0), cut.part(1).start), (0..PART, PART));
            for index in [0, 1, last] {
                let part = cut.part(index);
                assert_eq!((cut.index(part.start), cut.index(part.end - 1)), (index, index));
                // Stores copy at most 5 GiB at once.
                assert!(part.end - part.start < 5 << 30);
            }
        }
        assert!(Cut::copied(LONGEST + 1).is_err());
    }
}
