//! The salts of users who came lately. Only a server whose store nobody else changes may have one.

use super::Salt;
use crate::keys::SALT;
use crate::store::{KeyId, UserId};
use std::collections::HashMap;
use std::mem;
use zeroize::Zeroize;

/// A user of a key.
pub type Name = (KeyId, UserId);

/// The most salts of a generation. There are two of them.
const GENERATION: usize = 32 << 10;

/// Salts by their users: those used lately, and those used before. When there are too many of the first, they become
/// those used before, and these are wiped.
pub struct Cache {
    new: HashMap<Name, Salt>,
    old: HashMap<Name, Salt>,
    most: usize,
    /// How often a salt was forgotten.
    epoch: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self::with_generations_of(GENERATION)
    }
}

impl Cache {
    fn with_generations_of(most: usize) -> Self {
        // They never grow later, because that would leave copies of salts in freed memory.
        Self { new: HashMap::with_capacity(most), old: HashMap::with_capacity(most), most, epoch: 0 }
    }

    /// The salt of a user.
    pub fn get(&mut self, name: &Name) -> Option<&[u8; SALT]> {
        if !self.new.contains_key(name) {
            let salt = Salt::clone(self.old.get(name)?);
            self.insert(*name, salt);
        }
        self.new.get(name).map(|salt| &**salt)
    }

    /// A number that changes when a salt is forgotten: what was read from the store before may be wrong since then.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Remembers a salt that was read from the store at a time after this epoch, unless one was forgotten since then.
    pub fn put(&mut self, name: Name, salt: &[u8; SALT], epoch: u64) {
        if epoch == self.epoch {
            self.insert(name, Salt::new(*salt));
        }
    }

    fn insert(&mut self, name: Name, salt: Salt) {
        if self.new.len() >= self.most {
            mem::swap(&mut self.new, &mut self.old);
            self.new.clear();
        }
        self.new.insert(name, salt);
    }

    /// Wipes the salt of a user.
    pub fn forget(&mut self, name: &Name) {
        self.epoch += 1;
        for generation in [&mut self.new, &mut self.old] {
            // Where it lay would not be wiped by removing it.
            if let Some(salt) = generation.get_mut(name) {
                salt.zeroize();
            }
            generation.remove(name);
        }
    }

    /// Whether there is no salt.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }

    /// Wipes all salts.
    pub fn clear(&mut self) {
        self.epoch += 1;
        self.new.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(user: u8) -> Name {
        ([0; 16], [user; 32])
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_used() {
        let mut cache = Cache::with_generations_of(4);
        for user in 0..100 {
            cache.put(name(user), &[user; 32], 0);
            assert_eq!(cache.get(&name(0)), Some(&[0; 32]), "it is used all the time");
            assert!(cache.new.len() <= 4 && cache.old.len() <= 4);
        }
        assert_eq!(cache.get(&name(99)), Some(&[99; 32]));
        assert_eq!(cache.get(&name(50)), None);
        assert!(cache.new.capacity() < 16 && cache.old.capacity() < 16);
    }

    #[test]
    fn what_was_read_before_a_salt_was_forgotten_is_not_remembered() {
        let mut cache = Cache::with_generations_of(4);
        let epoch = cache.epoch();
        cache.put(name(1), &[1; 32], epoch);
        cache.forget(&name(1));
        cache.put(name(1), &[1; 32], epoch);
        assert_eq!(cache.get(&name(1)), None);
        cache.put(name(1), &[2; 32], cache.epoch());
        assert_eq!(cache.get(&name(1)), Some(&[2; 32]));
        cache.clear();
        assert_eq!(cache.get(&name(1)), None);
    }

    #[test]
    fn a_salt_of_the_older_generation_is_forgotten_too() {
        let mut cache = Cache::with_generations_of(2);
        (0..3).for_each(|user| cache.put(name(user), &[user; 32], 0));
        assert!(cache.old.contains_key(&name(0)));
        cache.forget(&name(0));
        assert_eq!(cache.get(&name(0)), None);
    }
}
