//! The state of a file in a volume with protection against rollback: `docs/format-versions.md`.

use crate::format::slot::Slot;

/// How many groups the chunks of a file are divided into at most.
pub const MAX_GROUPS: u64 = 128;
const SUM: usize = 16;

/// What a file's header says of its chunks: a sum for each group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// How many chunks a group has, as a power of two. The last group may have fewer.
    pub group_log2: u8,
    /// The sums of the groups.
    pub sums: Vec<[u8; SUM]>,
}

impl State {
    /// How many chunks each group of a file with this many chunks has, as a power of two, and how many groups there are.
    #[must_use]
    pub fn shape(chunks: u64) -> (u8, u64) {
        let mut log2 = 0;
        while groups(chunks, log2) > MAX_GROUPS {
            log2 += 1;
        }
        (log2, groups(chunks, log2))
    }

    /// Whether it is one of a file with this many chunks.
    #[must_use]
    pub fn fits(&self, chunks: u64) -> bool {
        (self.group_log2, self.sums.len() as u64) == Self::shape(chunks)
    }

    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let (group_log2, sums) = body.split_first()?;
        let count = sums.len() / SUM;
        let is_lawful = *group_log2 < 64 && sums.len() == count * SUM;
        let sums = sums.chunks_exact(SUM).filter_map(|sum| sum.try_into().ok()).collect();
        let state = Self { group_log2: *group_log2, sums };
        (is_lawful && (1..=MAX_GROUPS).contains(&(count as u64))).then_some(state)
    }

    pub(crate) fn slot(&self) -> Slot {
        let mut body = Vec::with_capacity(1 + SUM * self.sums.len());
        body.push(self.group_log2);
        self.sums.iter().for_each(|sum| body.extend_from_slice(sum));
        Slot::Unknown { kind: Slot::STATE, body }
    }
}

fn groups(chunks: u64, log2: u8) -> u64 {
    chunks.div_ceil(1 << log2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_are_the_smallest_that_suffice() {
        for (chunks, shape) in [(1, (0, 1)), (128, (0, 128)), (129, (1, 65)), (256, (1, 128)), (257, (2, 65))] {
            assert_eq!(State::shape(chunks), shape, "{chunks}");
        }
        assert_eq!(State::shape(1 << 52), (45, 128));
    }

    #[test]
    fn a_slot_is_read_as_it_was_written_and_others_are_refused() {
        let state = State { group_log2: 3, sums: vec![[1; 16], [2; 16]] };
        let Slot::Unknown { body, .. } = state.slot() else { panic!() };
        assert_eq!(State::parse(&body), Some(state));
        let with_log2 = |log2: u8| [&[log2], &body[1..]].concat();
        for refused in [&[], &body[..1], &body[..16], &[&body[..], &[0]].concat(), &*with_log2(64)] {
            assert_eq!(State::parse(refused), None);
        }
        assert!(State::parse(&with_log2(63)).is_some());
        assert_eq!(State::parse(&[&[3][..], &[0; 129 * 16]].concat()), None);
    }
}
