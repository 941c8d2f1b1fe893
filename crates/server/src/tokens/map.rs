//! Tokens in memory, and how many there may be.

use super::{DEEPEST, Token, bytes_of};
use crate::refusal::{Kind, Refusal};
use std::collections::HashMap;
use std::sync::Arc;

/// The most tokens at a time.
const MOST: usize = 100_000;
/// The most of them that were not made by administrators. The others are left to these.
const MOST_OF_OTHERS: usize = MOST / 2;
/// The most tokens that come from one token whose owner is no administrator.
const MOST_BELOW: usize = 1_000;

/// Tokens in memory, by their hashes.
#[derive(Default)]
pub(super) struct Map {
    tokens: HashMap<[u8; 32], Entry>,
    /// The hashes of accessors.
    hashes: HashMap<String, [u8; 32]>,
}

/// A token, and with whom its requests are counted.
struct Entry {
    token: Arc<Token>,
    account: Arc<str>,
}

impl Map {
    /// These tokens, in any order.
    pub fn new(tokens: Vec<Arc<Token>>) -> Self {
        let mut map = Self::default();
        for token in tokens {
            let account = Arc::from("");
            map.add(Entry { token, account });
        }
        // The tokens by which they were made are all there now.
        let accounts: Vec<_> = map.tokens().map(|token| (token.record.hash, map.account(token))).collect();
        for (hash, account) in accounts {
            if let Some(entry) = map.tokens.get_mut(&hash) {
                entry.account = account;
            }
        }
        map
    }

    /// Takes a token. The one by which it was made is there already.
    pub fn insert(&mut self, token: Arc<Token>) {
        let account = self.account(&token);
        self.add(Entry { token, account });
    }

    fn add(&mut self, entry: Entry) {
        let record = &entry.token.record;
        self.hashes.insert(record.accessor.clone(), record.hash);
        self.tokens.insert(record.hash, entry);
    }

    /// Takes a token out.
    pub fn remove(&mut self, hash: &[u8; 32]) {
        if let Some(entry) = self.tokens.remove(hash) {
            self.hashes.remove(&entry.token.record.accessor);
        }
    }

    /// A valid token, and with whom its requests are counted.
    pub fn valid(&self, hash: &[u8; 32]) -> Option<(Arc<Token>, Arc<str>)> {
        let Entry { token, account } = self.tokens.get(hash).filter(|entry| self.is_valid(&entry.token))?;
        Some((token.clone(), account.clone()))
    }

    /// The token of a hash.
    pub fn token(&self, hash: &[u8; 32]) -> Option<&Arc<Token>> {
        self.tokens.get(hash).map(|entry| &entry.token)
    }

    /// All tokens.
    pub fn tokens(&self) -> impl Iterator<Item = &Arc<Token>> {
        self.tokens.values().map(|entry| &entry.token)
    }

    /// The token of an accessor.
    pub fn named(&self, accessor: &str) -> Option<&Arc<Token>> {
        self.token(self.hashes.get(accessor)?)
    }

    /// With whom the requests of a token are counted.
    fn account(&self, token: &Token) -> Arc<str> {
        let top = self.chain(token).take_while(|token| !token.rights.is_admin()).last().unwrap_or(token);
        format!("token:{}", top.record.accessor).into()
    }

    /// A token, the one by which it was made, and so on.
    fn chain<'a>(&'a self, token: &'a Token) -> impl Iterator<Item = &'a Token> {
        let parent = move |token: &&'a Token| self.named(token.record.parent.as_deref()?).map(|parent| &**parent);
        std::iter::successors(Some(token), parent).take(DEEPEST + 1)
    }

    /// Whether a token has not ended, and neither have those by which it was made.
    pub fn is_valid(&self, token: &Token) -> bool {
        let mut chain = self.chain(token);
        // The first token of all was made by none; if another one is the last, the one before it is gone.
        chain.try_fold(false, |_, token| (!token.has_ended()).then_some(token.record.parent.is_none())) == Some(true)
    }

    /// How many tokens there are, for a caller with the token of this accessor.
    pub fn census(&self, parent: Option<&str>) -> Census {
        let parent = parent.and_then(|parent| self.named(parent));
        let is_other = |token: &&Token| !token.rights.is_admin();
        let top = parent.and_then(|parent| self.chain(parent).filter(is_other).last());
        let mut census = Census::default();
        for token in self.tokens() {
            if !self.is_valid(token) {
                census.ended.add(token);
                continue;
            }
            census.valid.add(token);
            let Some(top) = top else { continue };
            if self.chain(token).skip(1).any(|token| is_other(&token)) {
                census.of_others.add(token);
            }
            if self.chain(token).skip(1).any(|token| token.record.hash == top.record.hash) {
                census.below.add(token);
            }
        }
        census
    }
}

/// How many tokens, and how many bytes are kept of them.
#[derive(Default)]
pub(super) struct Count {
    tokens: usize,
    bytes: usize,
}

impl Count {
    fn add(&mut self, token: &Token) {
        self.tokens += 1;
        self.bytes += bytes_of(&token.record);
    }

    /// Whether one more of so many bytes is one too many.
    pub fn is_full(&self, next: usize, tokens: usize, bytes: usize) -> bool {
        self.tokens >= tokens || self.bytes + next > bytes
    }
}

/// How many tokens there are.
#[derive(Default)]
pub(super) struct Census {
    valid: Count,
    /// Those that are valid no more.
    pub ended: Count,
    /// Of the valid ones, those that were not made by administrators; counted for callers who are none.
    of_others: Count,
    /// Of these, those that come from the same token as the next one of the caller.
    below: Count,
}

impl Census {
    /// Refuses a token of so many bytes that would be one too many, where all may have so many bytes, and those that come
    /// from one.
    pub fn check(&self, next: usize, (all, of_one): (usize, usize)) -> Result<(), Refusal> {
        let busy = |text: &'static str| Err(Refusal::new(Kind::Busy, text));
        if self.valid.is_full(next, MOST, all) || self.of_others.is_full(next, MOST_OF_OTHERS, all / 2) {
            return busy("there are too many tokens");
        }
        if self.below.is_full(next, MOST_BELOW, of_one) {
            busy("too many tokens were made by this one")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::NewToken;
    use crate::tokens::tests::new;

    /// A token in memory only.
    fn token(number: u32, rights: &str, parent: Option<u32>) -> Arc<Token> {
        let parent = parent.map(|number| number.to_string());
        let mut record = NewToken { parent, ..new(rights, 0) }.record(&number.to_string()).unwrap();
        record.accessor = number.to_string();
        Arc::new(Token::new(record).unwrap())
    }

    #[test]
    fn one_caller_does_not_make_all_tokens() {
        let mut map = Map::default();
        map.insert(token(0, "admin", None));
        (1..3).for_each(|i| map.insert(token(i, "seal:a", Some(0))));
        map.insert(token(3, "seal:a", Some(1)));
        let first = 4;
        (first..first + 999).for_each(|i| map.insert(token(i, "seal:a", Some(if i % 2 == 0 { 1 } else { 3 }))));
        let no_bytes = (usize::MAX, usize::MAX);
        let refused = |map: &Map, parent: Option<&str>| map.census(parent).check(0, no_bytes).is_err();
        assert!(refused(&map, Some("1")) && refused(&map, Some("3")) && refused(&map, Some("4")));
        assert!(!refused(&map, Some("2")) && !refused(&map, Some("0")) && !refused(&map, None));
        let mut next = first + 999;
        while map.tokens.len() < MOST_OF_OTHERS + 200 {
            let owner = next;
            map.insert(token(owner, "seal:a", Some(0)));
            (owner + 1..owner + 500).for_each(|i| map.insert(token(i, "seal:a", Some(owner))));
            next += 500;
        }
        assert!(refused(&map, Some("2")), "the others together");
        assert!(!refused(&map, Some("0")), "administrators go on");
    }
}
