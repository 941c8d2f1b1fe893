//! Which chunks of a file remain to be done. Workers take them run by run.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Chunks that no worker has taken yet.
pub(crate) struct Todo(Mutex<Left>);

struct Left {
    /// In ascending order.
    runs: VecDeque<Range<u64>>,
    count: u64,
}

impl Todo {
    /// Makes a list of these runs, which are in ascending order.
    pub fn new(runs: impl IntoIterator<Item = Range<u64>>) -> Self {
        let runs: VecDeque<_> = runs.into_iter().filter(|run| !run.is_empty()).collect();
        let count = runs.iter().map(|run| run.end - run.start).sum();
        Self(Mutex::new(Left { runs, count }))
    }

    /// How many are left.
    pub fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// Takes consecutive chunks. `most` gets how many are left, and returns how many to take at most.
    pub fn take(&self, most: impl FnOnce(u64) -> u64) -> Option<Range<u64>> {
        let left = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let run = left.runs.front_mut()?;
        let end = run.start.saturating_add(most(left.count).max(1)).min(run.end);
        let taken = run.start..end;
        run.start = end;
        if run.is_empty() {
            left.runs.pop_front();
        }
        left.count -= end - taken.start;
        Some(taken)
    }
}

/// Chunks that are done. Runs that touch each other are one.
#[derive(Default)]
pub struct Done(BTreeMap<u64, u64>);

impl Done {
    /// Adds a run that shares no chunk with any other.
    pub fn add(&mut self, mut run: Range<u64>) {
        if let Some(end) = self.0.remove(&run.end) {
            run.end = end;
        }
        if let Some((_, end)) = self.0.range_mut(..run.start).next_back().filter(|(_, end)| **end == run.start) {
            *end = run.end;
        } else if !run.is_empty() {
            self.0.insert(run.start, run.end);
        }
    }

    /// How many chunks are done from the first one on.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.0.get(&0).copied().unwrap_or(0)
    }

    /// The runs, in ascending order.
    pub fn runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().map(|(start, end)| *start..*end)
    }

    /// The rest of a run that contains them, as runs.
    #[must_use]
    pub fn others(&self, of: Range<u64>) -> Vec<Range<u64>> {
        let starts = std::iter::once(of.start).chain(self.0.values().copied());
        let ends = self.0.keys().copied().chain([of.end]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|run| !run.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_taken_in_order() {
        let todo = Todo::new([0..3, 5..5, 7..20]);
        assert_eq!(todo.count(), 16);
        assert_eq!(todo.take(|left| left / 8), Some(0..2));
        assert_eq!(todo.take(|_| 100), Some(2..3));
        assert_eq!(todo.take(|left| left - 1), Some(7..19));
        assert_eq!(todo.take(|_| 0), Some(19..20));
        assert_eq!((todo.take(|_| 1), todo.count()), (None, 0));
    }

    #[test]
    fn the_rest_lies_between_the_runs() {
        let mut done = Done::default();
        assert_eq!(done.others(0..3).len(), 1);
        for run in [4..6, 0..1, 8..9, 6..8, 2..2, 1..2] {
            done.add(run);
        }
        assert_eq!(done.runs().collect::<Vec<_>>(), [0..2, 4..9]);
        assert_eq!(done.others(0..12), [2..4, 9..12]);
        assert_eq!(done.others(0..9).len(), 1);
    }
}
