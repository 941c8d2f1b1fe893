//! Tokens: who a caller is, and what the caller may do. Only their hashes are kept.

use crate::keys::now;
use crate::refusal::Refusal;
use crate::rights::Rights;
use crate::server::to_the_end;
use crate::store::{self, Memory, Stored, TokenRecord, Transaction};
use base64ct::{Base64UrlUnpadded, Encoding};
use phalanx_core::Zeroizing;
use phalanx_kernels::keccak::sha3_256;
use std::sync::{Arc, PoisonError, RwLock};

/// The start of every token.
pub const PREFIX: &str = "phx.";

/// How long a token lives if nothing else is asked for, in seconds: 32 days, as in Vault.
pub const DEFAULT_TTL: u64 = 32 * 24 * 3600;

/// A token as it is now.
#[derive(Debug)]
pub struct Token {
    /// What is kept of it.
    pub record: TokenRecord,
    /// What it allows.
    pub rights: Arc<Rights>,
}

impl Token {
    fn new(record: TokenRecord) -> Result<Self, Refusal> {
        let texts = record.rights.split(',').filter(|text| !text.is_empty());
        let rights = Rights::parse(texts, record.user.clone());
        let unknown = |_| Refusal::failed(format!("the token {} has an unknown right", record.accessor));
        let rights = rights.map_err(unknown)?;
        Ok(Self { record, rights: Arc::new(rights) })
    }

    /// How many seconds it still lives; `None` is for ever.
    pub fn left(&self) -> Option<u64> {
        self.record.expires.map(|end| end.saturating_sub(now()))
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.left() == Some(0)
    }
}

/// The tokens whose rights cannot be read, by their accessors.
pub fn damaged_tokens(records: Vec<TokenRecord>) -> Vec<String> {
    let accessor = |record: TokenRecord| (record.accessor.clone(), Token::new(record).is_err());
    records.into_iter().map(accessor).filter(|(_, is_damaged)| *is_damaged).map(|(accessor, _)| accessor).collect()
}

/// A token to be made.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// What it allows.
    pub rights: Rights,
    /// How long it lives, in seconds; 0 is for ever.
    pub ttl: u64,
    /// Whether it may be renewed.
    pub renewable: bool,
    /// The accessor of the token by which it is made.
    pub parent: Option<String>,
    /// What it is called in lists.
    pub name: Option<String>,
}

/// All tokens. Changes go on to their end also if the client goes away meanwhile.
#[derive(Clone)]
pub struct Tokens {
    store: Arc<Stored>,
    map: Arc<RwLock<Memory<[u8; 32], Token>>>,
}

impl Tokens {
    /// Tokens without any.
    pub fn new(store: Arc<Stored>) -> Self {
        Self { store, map: Arc::default() }
    }

    /// Takes all tokens, as they were read from the store in this generation.
    ///
    /// # Errors
    /// If one has an unknown right.
    pub fn replace(&self, generation: u64, records: Vec<TokenRecord>) -> store::Result<()> {
        let known = |record: &TokenRecord| {
            let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
            map.get(&record.hash).filter(|token| token.record == *record).cloned()
        };
        let open = |record: TokenRecord| match known(&record) {
            Some(token) => Ok((record.hash, token)),
            None => Ok((record.hash, Arc::new(Token::new(record)?))),
        };
        let tokens = records.into_iter().map(open).collect::<Result<Vec<_>, Refusal>>()?;
        self.map.write().unwrap_or_else(PoisonError::into_inner).replace(generation, tokens.into_iter());
        Ok(())
    }

    /// The token of this text, if it exists and has not ended.
    ///
    /// It is found by its hash. How long that takes says nothing of use about the token: it is 32 random bytes, and nobody
    /// can choose its hash.
    pub fn find(&self, text: &str) -> Option<Arc<Token>> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.get(&sha3_256(text.as_bytes())).filter(|token| !token.has_ended()).cloned()
    }

    /// Whether a token that was found still exists and has not ended.
    pub fn has(&self, token: &Token) -> bool {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.get(&token.record.hash).is_some_and(|token| !token.has_ended())
    }

    /// The token of an accessor.
    pub fn by_accessor(&self, accessor: &str) -> Option<Arc<Token>> {
        self.all().into_iter().find(|token| token.record.accessor == accessor)
    }

    /// All tokens that have not ended, the oldest first.
    pub fn all(&self) -> Vec<Arc<Token>> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = map.all().filter(|token| !token.has_ended()).cloned().collect();
        all.sort_by(|a, b| (a.record.created, &a.record.accessor).cmp(&(b.record.created, &b.record.accessor)));
        all
    }

    /// Makes a token, and returns its text, which is kept nowhere.
    ///
    /// # Errors
    /// If the store fails, or the system gives no random bytes.
    pub async fn create(&self, new: NewToken) -> store::Result<(Zeroizing<String>, Arc<Token>)> {
        let mut random = Zeroizing::new([0; 32]);
        let mut accessor = [0; 9];
        getrandom::fill(&mut *random).map_err(|e| Refusal::failed(e.to_string()))?;
        getrandom::fill(&mut accessor).map_err(|e| Refusal::failed(e.to_string()))?;
        let mut text = Zeroizing::new(PREFIX.to_owned());
        text.push_str(&Zeroizing::new(Base64UrlUnpadded::encode_string(&*random)));
        let created = now();
        let rights: Vec<String> = new.rights.list.iter().map(ToString::to_string).collect();
        let record = TokenRecord {
            hash: sha3_256(text.as_bytes()),
            accessor: Base64UrlUnpadded::encode_string(&accessor),
            rights: rights.join(","),
            user: new.rights.user,
            created,
            expires: (new.ttl > 0).then(|| created.saturating_add(new.ttl)),
            ttl: new.ttl,
            renewable: new.renewable && new.ttl > 0,
            parent: new.parent,
            name: new.name,
        };
        let parent = record.parent.clone();
        let token = self.put(record, parent).await?;
        Ok((text, token))
    }

    /// Lets a token live for its whole time again, or for another time.
    ///
    /// # Errors
    /// If it may not be renewed, or the store fails.
    pub async fn renew(&self, token: &Token, ttl: Option<u64>) -> store::Result<Arc<Token>> {
        let mut record = token.record.clone();
        if !record.renewable {
            return Err(Refusal::invalid("lease is not renewable").into());
        }
        // Never longer than it was made for.
        let ttl = ttl.filter(|ttl| *ttl > 0).unwrap_or(record.ttl).min(record.ttl);
        record.expires = Some(now().saturating_add(ttl));
        let own = record.accessor.clone();
        self.put(record, Some(own)).await
    }

    /// Ends the token of an accessor, and those that were made by it. Returns whether there was one.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn revoke(&self, accessor: &str) -> store::Result<bool> {
        let accessor = accessor.to_owned();
        let work = move |store: &mut dyn Transaction| {
            let ended = store.delete_token(&accessor)?;
            Ok((ended, store.generation()?, store.tokens()?))
        };
        let (ended, generation, left) = self.store.run(work).await?;
        self.replace(generation, left)?;
        Ok(ended > 0)
    }

    /// Keeps a token, if another one has not been revoked meanwhile.
    async fn put(&self, record: TokenRecord, needs: Option<String>) -> store::Result<Arc<Token>> {
        let kept = record.clone();
        let work = move |store: &mut dyn Transaction| {
            if let Some(accessor) = &needs
                && !store.has_token(accessor)?
            {
                return Err(Refusal::denied().into());
            }
            store.put_token(&kept)?;
            store.generation()
        };
        let tokens = self.clone();
        to_the_end(async move {
            let generation = tokens.store.run(work).await?;
            let token = Arc::new(Token::new(record)?);
            let mut map = tokens.map.write().unwrap_or_else(PoisonError::into_inner);
            map.put(generation, token.record.hash, Some(token.clone()));
            drop(map);
            Ok(token)
        })
        .await
    }
}
