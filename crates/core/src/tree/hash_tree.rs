//! The hash tree over the nonces and tags of a file's chunks: a Merkle tree as in RFC 9162, section 2.1, with SHA3-256.

use phalanx_kernels::keccak::sha3_256;
use std::collections::HashMap;

pub(super) type Hash = [u8; 32];

/// The hash of a leaf: the nonce and tag of one chunk, 28 or 48 bytes.
pub(super) fn leaf(nonce: &[u8], tag: &[u8]) -> Hash {
    let mut input = [0; 1 + 48];
    let tag_at = 1 + nonce.len();
    input[1..tag_at].copy_from_slice(nonce);
    input[tag_at..tag_at + tag.len()].copy_from_slice(tag);
    sha3_256(&input[..tag_at + tag.len()])
}

fn node(left: &Hash, right: &Hash) -> Hash {
    let mut input = [1; 1 + 64];
    input[1..33].copy_from_slice(left);
    input[33..].copy_from_slice(right);
    sha3_256(&input)
}

/// A tree whose leaves arrive in any order. Complete subtrees are kept as one hash, so leaves that arrive nearly in order need
/// little memory.
#[derive(Debug, Default)]
pub(super) struct HashTree {
    /// Complete subtrees of 2^level leaves, by level and number.
    subtrees: HashMap<(u32, u64), Hash>,
    leaves: u64,
}

impl HashTree {
    /// Adds the hash of leaf `index`, which must be new.
    pub fn add(&mut self, index: u64, leaf: Hash) {
        let (mut level, mut index, mut hash) = (0, index, leaf);
        while let Some(sibling) = self.subtrees.remove(&(level, index ^ 1)) {
            hash = if index & 1 == 0 { node(&hash, &sibling) } else { node(&sibling, &hash) };
            (level, index) = (level + 1, index >> 1);
        }
        self.subtrees.insert((level, index), hash);
        self.leaves += 1;
    }

    /// The root of a tree of `leaves` leaves; `None` if one of them is missing.
    pub fn root(&self, leaves: u64) -> Option<Hash> {
        let whole = self.leaves == leaves && leaves > 0 && self.subtrees.len() == leaves.count_ones() as usize;
        let mut root: Option<Hash> = None;
        // From the right: the smallest subtree first.
        for level in (0..u64::BITS).filter(|level| leaves >> level & 1 == 1) {
            let left = self.subtrees.get(&(level, (leaves >> level) - 1))?;
            root = Some(root.map_or(*left, |right| node(left, &right)));
        }
        root.filter(|_| whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(n: u64) -> Vec<Hash> {
        (0..n).map(|i| leaf(&i.to_le_bytes(), &[7; 32])).collect()
    }

    /// The definition of RFC 9162, section 2.1.1, word for word.
    fn defined(leaves: &[Hash]) -> Hash {
        match leaves {
            [one] => *one,
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                node(&defined(&leaves[..split]), &defined(&leaves[split..]))
            }
        }
    }

    #[test]
    fn leaves_in_any_order_give_the_root_of_the_standard() {
        for n in 1..if cfg!(miri) { 6 } else { 70 } {
            let all = leaves(n);
            // 73 is prime, so this visits each leaf once, in another order for each n.
            for step in [1, n + 1, 73 - n] {
                let mut tree = HashTree::default();
                (0..73).map(|i| i * step % 73).filter(|i| *i < n).for_each(|i| tree.add(i, all[i as usize]));
                assert_eq!(tree.root(n), Some(defined(&all)), "{n} leaves, step {step}");
            }
        }
    }

    #[test]
    fn a_missing_leaf_gives_no_root() {
        for n in 1..if cfg!(miri) { 4 } else { 20 } {
            for missing in 0..n {
                let mut tree = HashTree::default();
                leaves(n).into_iter().enumerate().filter(|(i, _)| *i as u64 != missing).for_each(|(i, leaf)| {
                    tree.add(i as u64, leaf);
                });
                assert_eq!(tree.root(n), None, "{missing} of {n}");
            }
        }
        assert_eq!(HashTree::default().root(0), None);
    }
}
