//! The names of users or of keys in a request, for its line.

use std::collections::BTreeSet;

/// The most bytes of the names in a line.
const MOST: usize = 64 << 10;

/// Names, each once. What does not fit is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    names: BTreeSet<Vec<u8>>,
    bytes: usize,
    /// How often a name found no room.
    pub left_out: u64,
}

impl Names {
    /// One name.
    pub fn one(name: &[u8]) -> Self {
        let mut names = Self::default();
        names.add(name);
        names
    }

    /// Adds a name.
    pub fn add(&mut self, name: &[u8]) {
        if self.names.contains(name) {
            return;
        }
        // An empty one takes room too.
        let bytes = self.bytes + name.len() + 4;
        if bytes > MOST {
            self.left_out += 1;
            return;
        }
        self.bytes = bytes;
        self.names.insert(name.to_vec());
    }

    /// All names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(Vec::as_slice)
    }

    /// The only name.
    pub fn only(&self) -> Option<&[u8]> {
        if self.names.len() == 1 && self.left_out == 0 { self.iter().next() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_and_within_a_bound() {
        let mut names = Names::one(b"ada");
        names.add(b"ada");
        assert_eq!(names.only(), Some(&b"ada"[..]));
        names.add(b"");
        assert_eq!((names.iter().count(), names.only()), (2, None));
        (0..100_000_u32).for_each(|i| names.add(&i.to_le_bytes().repeat(4)));
        assert!(names.bytes <= MOST && names.left_out > 0);
        assert_eq!(names.iter().count() as u64 + names.left_out, 100_002);
    }
}
