//! What memory has of the store.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Things by their names, each as of a generation of the store. What is older never replaces what is newer, in whatever
/// order it arrives.
pub struct Memory<K, V> {
    /// `None` was deleted.
    map: BTreeMap<K, (u64, Option<Arc<V>>)>,
    /// The generation of what was read last.
    read: u64,
}

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self { map: BTreeMap::new(), read: 0 }
    }
}

impl<K: Ord, V> Memory<K, V> {
    /// The thing of this name.
    pub fn get<Q: Ord + ?Sized>(&self, name: &Q) -> Option<&Arc<V>>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.map.get(name)?.1.as_ref()
    }

    /// All things, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = &Arc<V>> {
        self.map.values().filter_map(|(_, value)| value.as_ref())
    }

    /// A thing was changed, or deleted, in the transaction that made this generation.
    pub fn put(&mut self, generation: u64, name: K, value: Option<Arc<V>>) {
        let known = self.map.get(&name).map_or(0, |(known, _)| *known);
        if generation > self.read && generation >= known {
            self.map.insert(name, (generation, value));
        }
    }

    /// All things were read, as they are in this generation or later.
    pub fn replace(&mut self, generation: u64, all: impl Iterator<Item = (K, Arc<V>)>) {
        if generation < self.read {
            return;
        }
        let old =
            std::mem::replace(&mut self.map, all.map(|(name, value)| (name, (generation, Some(value)))).collect());
        self.map.extend(old.into_iter().filter(|(_, (known, _))| *known > generation));
        self.read = generation;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_replaces_nothing() {
        let mut memory = Memory::default();
        let all = |memory: &Memory<&str, i32>| memory.all().map(|value| **value).collect::<Vec<_>>();
        memory.replace(5, [("a", Arc::new(1)), ("b", Arc::new(2))].into_iter());
        memory.put(7, "a", Some(Arc::new(7)));
        memory.put(6, "a", Some(Arc::new(6)));
        memory.put(5, "b", None);
        assert_eq!(all(&memory), [7, 2]);
        memory.put(8, "b", None);
        // It was read before both changes, and after the one of another server.
        memory.replace(6, [("a", Arc::new(1)), ("b", Arc::new(2)), ("c", Arc::new(3))].into_iter());
        assert_eq!(all(&memory), [7, 3]);
        memory.replace(5, [].into_iter());
        assert_eq!(all(&memory), [7, 3]);
        memory.replace(8, [("c", Arc::new(4))].into_iter());
        assert_eq!((all(&memory), memory.map.len()), (vec![4], 1));
    }
}
