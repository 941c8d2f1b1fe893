//! A store of the crate `object_store` that shows the plaintext of protected objects.

use crate::pinned::{Body, collect};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, Extensions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use phalanx_core::{KeySource, Opener, RangeOpening, RangeReader, Roster};
use phalanx_host::lock::lock;
use phalanx_host::mirror::MANIFEST;
use std::collections::HashMap;
use std::fmt::{self, Debug, Display};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The ending of the names of protected objects.
const ENDING: &str = ".phx";
/// So many bytes come with the first request for an object: the header, mostly.
const HEAD: u64 = 16 << 10;
/// A long range is fetched and opened in pieces of about so many bytes.
const PIECE: u64 = 8 << 20;
/// So many objects are remembered that have been opened.
const REMEMBERED: usize = 1024;
/// So many objects are opened at the same time for a list.
const OPENED: usize = 16;
const STORE: &str = "Phalanx";

/// A store that shows the plaintext of protected objects, and is only read. `table.parquet` is what the object
/// `table.parquet.phx` protects; other objects are not seen. Whatever takes an [`ObjectStore`], such as DataFusion or
/// the crate `parquet`, reads protected files through it by range.
///
/// A range fetches the chunks that it lies in, and each chunk is authenticated before any of its bytes is given out. The
/// first request for an object also fetches its header and its last chunk, which proves its length; this is remembered
/// for the version that was read. If the object is replaced, the next request opens the new version. A list opens each
/// object that it names, because only the header tells the length of the plaintext: two requests for each.
///
/// Errors of opening and authenticating have the [`phalanx_core::Error`] as their source.
///
/// ```
/// use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory};
/// use phalanx_core::{KdfLimit, Opener, Recipient, SecretKey, protect};
/// use phalanx_store::Plaintext;
/// use std::sync::Arc;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let key = SecretKey::random()?;
/// let bucket = Arc::new(InMemory::new());
/// bucket.put(&"a/table.csv.phx".into(), protect(b"1,2,3\n4,5,6\n", &[Recipient::key(&key)])?.into()).await?;
///
/// let plain = Plaintext::new(bucket, Opener::new(key, KdfLimit::default()));
/// assert_eq!(plain.get_range(&"a/table.csv".into(), 6..11).await?, "4,5,6");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Plaintext<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    store: Arc<dyn ObjectStore>,
    opener: Opener<K>,
    roster: Arc<Roster>,
    opened: Mutex<HashMap<Path, Opened>>,
}

/// A version of an object that has been opened.
#[derive(Clone)]
struct Opened {
    /// As the store describes it.
    stored: ObjectMeta,
    reader: Arc<RangeReader>,
}

impl<K: KeySource + Send + Sync + 'static> Plaintext<K> {
    /// Shows what the protected objects of a store hold, as far as the keys open them.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, opener: Opener<K>) -> Self {
        let (roster, opened) = (Arc::new(Roster::cpu()), Mutex::default());
        Self { shared: Arc::new(Shared { store, opener, roster, opened }) }
    }
}

impl<K> Display for Plaintext<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plaintext({})", self.shared.store)
    }
}

impl<K> Debug for Plaintext<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plaintext({:?})", self.shared.store)
    }
}

/// The name of the object that protects what has this name.
fn stored_name(location: &Path) -> Path {
    Path::parse(format!("{location}{ENDING}")).unwrap_or_else(|_| location.clone())
}

/// The name of what an object protects, if it is a protected file.
fn shown_name(stored: &Path) -> Option<Path> {
    if stored.filename() == Some(MANIFEST) {
        return None;
    }
    let name = stored.as_ref().strip_suffix(ENDING).filter(|name| !name.is_empty() && !name.ends_with('/'))?;
    Path::parse(name).ok()
}

fn refused(error: phalanx_core::Error) -> Error {
    Error::Generic { store: STORE, source: Box::new(error) }
}

fn changed() -> Error {
    refused(phalanx_core::Error::Changed)
}

/// Whether an object is no longer the version that was opened.
fn is_changed(error: &Error) -> bool {
    let Error::Generic { source, .. } = error else { return false };
    matches!(source.downcast_ref(), Some(phalanx_core::Error::Changed))
}

/// Whether a request depends on which version the store has now.
fn is_conditional(options: &GetOptions) -> bool {
    options.if_match.is_some()
        || options.if_none_match.is_some()
        || options.if_modified_since.is_some()
        || options.if_unmodified_since.is_some()
}

/// The body of an answer, which must have this length.
async fn whole(answer: GetResult, wanted: u64) -> Result<Bytes> {
    match collect(answer, wanted).await? {
        Body::Whole(bytes) => Ok(bytes),
        Body::Short | Body::Long => Err(changed()),
    }
}

fn cannot<T>(operation: &str) -> Result<T> {
    Err(Error::NotImplemented { operation: operation.to_owned(), implementer: STORE.to_owned() })
}

impl<K: KeySource + Send + Sync + 'static> Shared<K> {
    /// Opens an object, or takes what is known of it.
    async fn open(self: &Arc<Self>, location: &Path) -> Result<Opened> {
        let known = lock(&self.opened).get(location).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let name = stored_name(location);
        let first = GetOptions { range: Some(GetRange::Bounded(0..HEAD)), ..GetOptions::default() };
        let answer = self.store.get_opts(&name, first).await?;
        let stored = answer.meta.clone();
        let head = whole(answer, stored.size.min(HEAD)).await?;
        let mut opening = RangeOpening::new(stored.size);
        while let Some(range) = opening.needs() {
            let within = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
            let fed = match within.and_then(|(start, end)| head.get(start..end)) {
                Some(bytes) => opening.feed(bytes),
                None => opening.feed(&self.fetch(&stored, range).await?),
            };
            fed.map_err(refused)?;
        }
        let shared = self.clone();
        // A password costs its key derivation.
        let reader = tokio::task::spawn_blocking(move || opening.open(&shared.opener, shared.roster.clone()));
        let reader = reader.await?.map_err(refused)?;
        let opened = Opened { stored, reader: Arc::new(reader) };
        let mut known = lock(&self.opened);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(location.clone(), opened.clone());
        Ok(opened)
    }

    /// Fetches a range of the version of an object that was opened.
    async fn fetch(&self, stored: &ObjectMeta, range: Range<u64>) -> Result<Bytes> {
        let wanted = range.end - range.start;
        let range = Some(GetRange::Bounded(range));
        let options = GetOptions { range, if_match: stored.e_tag.clone(), ..GetOptions::default() };
        let answer = match self.store.get_opts(&stored.location, options).await {
            Err(Error::Precondition { .. }) => return Err(changed()),
            answer => answer?,
        };
        let is_same = (answer.meta.size, &answer.meta.e_tag) == (stored.size, &stored.e_tag);
        if is_same { whole(answer, wanted).await } else { Err(changed()) }
    }

    /// Reads a piece of the plaintext. If that fails, the object may have been replaced, so the next read opens it anew.
    async fn read(&self, location: &Path, opened: &Opened, range: Range<u64>) -> Result<Bytes> {
        let read = self.read_version(opened, range).await;
        if read.is_err() {
            self.forget(location, opened);
        }
        read
    }

    /// Forgets what was opened, unless another version has been opened since.
    fn forget(&self, location: &Path, opened: &Opened) {
        let mut known = lock(&self.opened);
        if known.get(location).is_some_and(|known| Arc::ptr_eq(&known.reader, &opened.reader)) {
            known.remove(location);
        }
    }

    async fn read_version(&self, opened: &Opened, range: Range<u64>) -> Result<Bytes> {
        let needed = opened.reader.needs(range.clone());
        let stored = self.fetch(&opened.stored, needed).await?;
        let reader = opened.reader.clone();
        let read = tokio::task::spawn_blocking(move || reader.read(range, &stored).map(|bytes| bytes.to_vec()));
        Ok(read.await?.map_err(refused)?.into())
    }

    /// Opens an object. If it was opened before and has changed, opens it again.
    async fn open_now(self: &Arc<Self>, location: &Path) -> Result<Opened> {
        let opened = self.open(location).await?;
        let now = self.store.get_opts(&stored_name(location), GetOptions { head: true, ..GetOptions::default() }).await;
        let is_same = now.is_ok_and(|now| {
            let then = &opened.stored;
            (now.meta.size, &now.meta.e_tag, now.meta.last_modified) == (then.size, &then.e_tag, then.last_modified)
        });
        if is_same {
            return Ok(opened);
        }
        self.forget(location, &opened);
        self.open(location).await
    }

    /// Answers a request. The first piece of what it reads is there: if the object was replaced since it was opened, that is
    /// an error of this function, and the next try opens the new version.
    async fn get(self: Arc<Self>, location: &Path, options: &GetOptions) -> Result<GetResult> {
        let mut opened = self.open(location).await?;
        let reads = opened.range(options).is_ok_and(|range| !range.is_empty());
        if is_conditional(options) || !reads {
            opened = self.open_now(location).await?;
        }
        let meta = opened.meta(location.clone());
        options.check_preconditions(&meta)?;
        let range = opened.range(options)?;
        let mut pieces = pieces(self, location.clone(), opened, range.clone()).fuse().boxed();
        let first = pieces.next().await.transpose()?;
        let pieces = stream::iter(first.map(Ok)).chain(pieces).boxed();
        let (attributes, extensions) = (Attributes::default(), Extensions::default());
        Ok(GetResult { payload: GetResultPayload::Stream(pieces), meta, range, attributes, extensions })
    }

    /// An object of a list, as it is shown. `None` if it protects nothing.
    async fn shown(self: Arc<Self>, stored: Result<ObjectMeta>) -> Option<Result<ObjectMeta>> {
        match stored {
            Ok(stored) => {
                let location = shown_name(&stored.location)?;
                Some(self.open_now(&location).await.map(|opened| opened.meta(location)))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// A range of the plaintext, piece by piece.
fn pieces<K: KeySource + Send + Sync + 'static>(
    shared: Arc<Shared<K>>,
    location: Path,
    opened: Opened,
    range: Range<u64>,
) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
    stream::unfold(range.start, move |at| {
        let (shared, location, opened) = (shared.clone(), location.clone(), opened.clone());
        async move {
            if at >= range.end {
                return None;
            }
            let next = at.saturating_add(PIECE).min(range.end);
            let read = shared.read(&location, &opened, at..next).await;
            let next = if read.is_ok() { next } else { range.end };
            Some((read, next))
        }
    })
}

impl Opened {
    /// The description of the plaintext.
    fn meta(&self, location: Path) -> ObjectMeta {
        ObjectMeta { location, size: self.reader.len(), ..self.stored.clone() }
    }

    /// What a request reads of the plaintext.
    fn range(&self, options: &GetOptions) -> Result<Range<u64>> {
        match &options.range {
            _ if options.head => Ok(0..0),
            Some(range) => {
                let bad = |e| Error::Generic { store: STORE, source: Box::new(e) };
                range.as_range(self.reader.len()).map_err(bad)
            }
            None => Ok(0..self.reader.len()),
        }
    }
}

#[async_trait]
impl<K: KeySource + Send + Sync + 'static> ObjectStore for Plaintext<K> {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.version.is_some() {
            return cannot("get_opts with a version");
        }
        match self.shared.clone().get(location, &options).await {
            // It was replaced since it was opened.
            Err(error) if is_changed(&error) => self.shared.clone().get(location, &options).await,
            got => got,
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let shared = self.shared.clone();
        let listed = shared.store.list(prefix);
        let shown = listed.map(move |stored| shared.clone().shown(stored)).buffered(OPENED);
        shown.filter_map(async |shown| shown).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.shared.store.list_with_delimiter(prefix).await?;
        let shared = self.shared.clone();
        let shown = stream::iter(listed.objects).map(move |stored| shared.clone().shown(Ok(stored))).buffered(OPENED);
        let shown: Vec<Result<ObjectMeta>> = shown.filter_map(async |shown| shown).collect().await;
        let (common_prefixes, extensions) = (listed.common_prefixes, listed.extensions);
        Ok(ListResult { objects: shown.into_iter().collect::<Result<_>>()?, common_prefixes, extensions })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        cannot("put_opts")
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        cannot("put_multipart_opts")
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::iter([cannot("delete_stream")]).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        cannot("copy_opts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::wait;
    use object_store::memory::InMemory;
    use object_store::{GetOptions, ObjectStoreExt};
    use phalanx_core::{KdfLimit, Recipient, SecretKey, protect};

    /// A store with the object `f`, and how to replace that.
    async fn store() -> (Plaintext<SecretKey>, impl AsyncFn(&[u8])) {
        let (key, bucket) = (SecretKey::random().unwrap(), Arc::new(InMemory::new()));
        let plain = Plaintext::new(bucket.clone(), Opener::new(key.clone(), KdfLimit::default()));
        let put = async move |bytes: &[u8]| {
            let protected = protect(bytes, &[Recipient::key(&key)]).unwrap();
            bucket.put(&"f.phx".into(), protected.into()).await.unwrap();
        };
        put(b"1,2,3").await;
        (plain, put)
    }

    #[test]
    fn an_object_that_was_replaced_is_opened_anew() {
        let test = async {
            let (plain, put) = store().await;
            assert_eq!(plain.get_range(&"f".into(), 2..5).await.unwrap(), "2,3");
            put(b"4,5,6").await;
            assert_eq!(plain.get_range(&"f".into(), 2..5).await.unwrap(), "5,6");
            put(b"7,8,9,10").await;
            let whole = plain.get(&"f".into()).await.unwrap();
            assert_eq!((whole.meta.size, whole.range.clone()), (8, 0..8));
            assert_eq!(whole.bytes().await.unwrap(), "7,8,9,10");
            put(b"").await;
            assert_eq!(plain.get(&"f".into()).await.unwrap().bytes().await.unwrap(), "");
            put(b"1,2,3").await;
            assert_eq!(plain.get(&"f".into()).await.unwrap().bytes().await.unwrap(), "1,2,3");
            put(b"4,5,6,7,8,9").await;
            assert_eq!(plain.get_range(&"f".into(), 8..9).await.unwrap(), "8");
            Ok(())
        };
        wait(test).unwrap();
    }

    #[test]
    fn what_is_read_on_of_a_replaced_object_is_an_error_once() {
        let test = async {
            let (plain, put) = store().await;
            put(&vec![7; PIECE as usize + 1]).await;
            let begun = plain.get(&"f".into()).await.unwrap();
            put(b"4,5,6").await;
            assert!(is_changed(&begun.bytes().await.unwrap_err()));
            assert_eq!(plain.get(&"f".into()).await.unwrap().bytes().await.unwrap(), "4,5,6");
            Ok(())
        };
        wait(test).unwrap();
    }

    #[test]
    fn conditions_are_those_of_the_version_that_the_store_has() {
        let test = async {
            let (plain, put) = store().await;
            let before = plain.get(&"f".into()).await.unwrap().meta.e_tag;
            let asked = async |options| plain.get_opts(&"f".into(), options).await;
            let unless = GetOptions { if_none_match: before.clone(), ..GetOptions::default() };
            let only = GetOptions { if_match: before, ..GetOptions::default() };
            assert!(matches!(asked(unless.clone()).await, Err(Error::NotModified { .. })));
            assert_eq!(asked(only.clone()).await.unwrap().bytes().await.unwrap(), "1,2,3");
            put(b"4,5,6").await;
            assert_eq!(asked(unless).await.unwrap().bytes().await.unwrap(), "4,5,6");
            assert!(matches!(asked(only).await, Err(Error::Precondition { .. })));
            let old = GetOptions { version: Some("1".to_owned()), ..GetOptions::default() };
            assert!(matches!(asked(old).await, Err(Error::NotImplemented { .. })));
            Ok(())
        };
        wait(test).unwrap();
    }
}
