//! The version of an object that is read: every request is for it.

use crate::client::Client;
use crate::error::{self, changed, is_changed, wrong};
use crate::pool::Block;
use crate::runtime::wait;
use crate::there::version_of;
use bytes::Bytes;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStoreExt};
use std::future::poll_fn;
use std::io;
use std::ops::Range;

/// So many bytes from the beginning come with the first request: the header of a protected file, mostly.
const HEAD: u64 = 16 << 10;

/// An answer that breaks off is asked for again so often.
const AGAIN: usize = 4;

/// The version of an object that is read.
#[derive(Debug)]
pub struct Pinned {
    client: Client,
    meta: ObjectMeta,
    head: Bytes,
}

/// The description of an object and its first bytes.
async fn begin(client: &Client) -> io::Result<(ObjectMeta, Bytes)> {
    let options = GetOptions { range: Some(GetRange::Bounded(0..HEAD)), ..GetOptions::default() };
    let error = match client.store.get_opts(&client.key, options).await {
        Ok(answer) => {
            let (meta, range) = (answer.meta.clone(), answer.range.clone());
            if range != (0..meta.size.min(HEAD)) {
                return Err(wrong(OTHER_RANGE));
            }
            return Ok((meta, whole(answer, range.end).await?));
        }
        Err(error) => error,
    };
    if matches!(error, object_store::Error::NotSupported { .. }) {
        return Err(wrong("the server gives no ranges: fetch it, and take it from a pipe"));
    }
    // An empty object has no range.
    match client.store.head(&client.key).await {
        Ok(meta) if meta.size == 0 => Ok((meta, Bytes::new())),
        _ => Err(error::of(error)),
    }
}

impl Pinned {
    /// Finds an object, and pins its version. This is one request.
    ///
    /// # Errors
    /// If the store fails, has no such object or gives no ranges.
    pub fn find(client: Client) -> io::Result<Self> {
        let (meta, head) = client.wait(begin(&client))?;
        let pinned = Self { client, meta, head };
        if !pinned.has_version() {
            return Err(wrong("the store gives the object neither an etag nor a time, so a change would go unseen"));
        }
        Ok(pinned)
    }

    /// The client of the object.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The etag, if it is of all bytes.
    pub fn e_tag(&self) -> Option<&str> {
        self.meta.e_tag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }

    /// The length of the object in bytes.
    pub fn len(&self) -> u64 {
        self.meta.size
    }

    /// Whether the object still is this version.
    ///
    /// # Errors
    /// If the store fails.
    pub fn is_unchanged(&self) -> io::Result<bool> {
        // A signed address is valid for GET only, and an empty object has no range.
        match self.len() {
            0 => {
                let client = &self.client;
                let now = client.wait(async { client.store.head(&client.key).await.map_err(error::of) });
                now.map(|now| self.is_same(&now))
            }
            _ => wait(self.fetch(0..1)).map(|_| true).or_else(|e| if is_changed(&e) { Ok(false) } else { Err(e) }),
        }
    }

    /// What identifies the version.
    pub fn version(&self) -> String {
        version_of(&self.meta)
    }

    /// The first bytes, if the offset is among them.
    pub fn head(&self, offset: u64) -> &[u8] {
        usize::try_from(offset).ok().and_then(|offset| self.head.get(offset..)).unwrap_or_default()
    }

    /// Fetches a range that is not empty and within the object.
    ///
    /// # Errors
    /// If the store fails, gives something else, or the object has changed.
    pub async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.client.cancellation.or(self.fetch_patiently(range)).await
    }

    async fn fetch_patiently(&self, range: Range<u64>) -> io::Result<Bytes> {
        let mut last = None;
        for _ in 0..AGAIN {
            match self.fetch_once(range.clone()).await {
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => last = Some(e),
                done => return done,
            }
        }
        Err(last.unwrap_or_else(changed))
    }

    async fn fetch_once(&self, range: Range<u64>) -> io::Result<Bytes> {
        let wanted = range.end - range.start;
        let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..self.condition() };
        let answer = self.client.store.get_opts(&self.client.key, options).await.map_err(error::of)?;
        if !self.is_same(&answer.meta) {
            return Err(changed());
        }
        if answer.range != range {
            return Err(wrong(OTHER_RANGE));
        }
        whole(answer, wanted).await
    }

    /// That the object is still what it was. A weak etag is no condition for ranges: then its time is.
    fn condition(&self) -> GetOptions {
        let strong = self.e_tag().map(str::to_owned);
        let time = Some(self.meta.last_modified).filter(|time| strong.is_none() && time.timestamp() > 0);
        GetOptions { if_match: strong, if_unmodified_since: time, ..GetOptions::default() }
    }

    fn has_version(&self) -> bool {
        self.meta.e_tag.is_some() || self.meta.last_modified.timestamp() > 0
    }

    /// Whether an answer is of the same version. A store need not say the time in the same way each time.
    fn is_same(&self, now: &ObjectMeta) -> bool {
        let then = &self.meta;
        let is_same_time = then.e_tag.is_some() || now.last_modified == then.last_modified;
        (now.size, &now.e_tag) == (then.size, &then.e_tag) && is_same_time
    }
}

const OTHER_RANGE: &str = "the store gave another range than was asked for";

/// The body of an answer, which must have this length.
async fn whole(answer: GetResult, wanted: u64) -> io::Result<Bytes> {
    match collect(answer, wanted).await.map_err(error::of)? {
        Body::Whole(bytes) => Ok(bytes),
        Body::Short => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the store's answers break off")),
        Body::Long => Err(wrong("the store gave more than was asked for")),
    }
}

/// What has come of the bytes that were asked for.
pub enum Body {
    /// All of them.
    Whole(Bytes),
    /// Fewer.
    Short,
    /// More.
    Long,
}

/// The body of an answer that should have this length. No more is kept in memory.
///
/// # Errors
/// If the store fails.
pub async fn collect(answer: GetResult, wanted: u64) -> object_store::Result<Body> {
    let mut block = Block::new(wanted);
    let mut frames = answer.into_stream();
    while let Some(frame) = poll_fn(|context| frames.as_mut().poll_next(context)).await {
        let frame = frame?;
        if frame.len() as u64 > wanted - block.len() {
            return Ok(Body::Long);
        }
        block.push(&frame);
    }
    Ok(if block.len() == wanted { Body::Whole(block.into_bytes()) } else { Body::Short })
}
