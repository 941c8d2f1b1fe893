//! Objects in stores such as S3. This crate only knows what a program does with them: programs that are built with stores
//! [`install`] the crate that reaches them.

use crate::{Error, Result};
use phalanx_core::{Error as CoreError, Progress, ReadAt, Snapshot, WriteAt};
use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The schemes of the URLs that a path may be.
const SCHEMES: [&str; 5] = ["s3", "gs", "az", "https", "http"];

/// Whether an argument is a URL of an object, and not a path. A file whose path looks like one is named `./s3:/…`.
#[must_use]
pub fn is_url(path: &Path) -> bool {
    path.to_str().and_then(|text| text.split_once("://")).is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

/// The URL of an object.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    text: String,
    /// As messages show it.
    shown: PathBuf,
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({})", self.shown.display())
    }
}

impl Url {
    /// The URL, if the path is one.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        path.to_str().filter(|_| is_url(path)).map(Self::new)
    }

    fn new(text: &str) -> Self {
        let is_web = text.starts_with("http");
        let shown = if is_web { text.split(['?', '#']).next().unwrap_or(text) } else { text };
        Self { text: text.to_owned(), shown: PathBuf::from(without_user(shown)) }
    }

    /// Its text. That of a web address may have a signature, which is a secret. A user and a password are refused later.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// It as a path, for messages, without a signature and without a user and a password. It is never opened as one.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// The last part of the object's name. `None` if it ends in a slash, or names only a bucket.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let (_, rest) = self.shown.to_str()?.split_once("://")?;
        let (_, key) = rest.split_once('/')?;
        key.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// The last part of the name of a folder of objects, which a slash may follow. `None` if it is a whole bucket.
    #[must_use]
    pub fn folder_name(&self) -> Option<&str> {
        let (_, rest) = self.shown.to_str()?.split_once("://")?;
        let (_, key) = rest.split_once('/')?;
        key.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// The URL whose name goes on like this. A web address loses its signature, which is one for its own object.
    #[must_use]
    pub fn with_ending(&self, ending: &str) -> Self {
        match self.text.starts_with("http") {
            true => Self::new(&format!("{}{ending}", self.shown.display())),
            false => Self::new(&format!("{}{ending}", self.text)),
        }
    }

    /// The folders that it is in, each with its path from there on: the nearest one first, the whole bucket last.
    #[must_use]
    pub fn folders_above(&self) -> Vec<(Self, PathBuf)> {
        let text = self.text.trim_end_matches('/');
        let start = text.find("://").map_or(text.len(), |at| at + 3);
        let slashes = text[start..].rmatch_indices('/').map(|(at, _)| start + at);
        slashes.map(|at| (Self::new(&text[..at]), PathBuf::from(&text[at + 1..]))).collect()
    }

    /// The URL of a name in the folder that this URL names.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        Self::new(&format!("{}/{name}", self.text.trim_end_matches('/')))
    }
}

/// A URL without the user and the password before its host or bucket, which have no place there, but may be secrets. If the password
/// has characters that end the place, nothing of it is left but the scheme.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (place, name) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if let Some((_, place)) = place.rsplit_once('@') {
        return format!("{scheme}://{place}{name}");
    }
    let is_port = |end: &str| scheme.starts_with("http") && end.bytes().all(|byte| byte.is_ascii_digit());
    match place.split_once(':') {
        Some((_, end)) if !place.starts_with('[') && !is_port(end) => format!("{scheme}://"),
        _ => url.to_owned(),
    }
}

/// An object that is read. Each [`ReadAt::read_at`](phalanx_core::ReadAt::read_at) asks the store for no more than the
/// bytes that are wanted. All reads see the same version of it.
pub trait InputObject: Snapshot + Debug {
    /// The object as a source that is read from an offset to its end. What comes next is fetched early.
    fn ahead(&self, from: u64) -> Box<dyn Snapshot + '_>;

    /// The object as a source that is read in whatever order, as programs read a mounted file. Where reads go on without a
    /// jump, what comes next is fetched early. All such sources of a process share a bound on memory.
    fn adaptive(&self) -> Arc<dyn ReadAt + Send + Sync>;

    /// What identifies its content, as far as the store says it.
    fn version(&self) -> String;

    /// Its URL.
    fn url(&self) -> &Url;

    /// Begins an object that is to take the place of this one by [`OutputObject::commit_over`]. `len` is its length or a
    /// bound of it.
    ///
    /// # Errors
    /// Errors of the store.
    fn successor(&self, len: Option<u64>) -> io::Result<Box<dyn OutputObject>>;

    /// A whole object that is to take the place of this one by [`OutputObject::commit_over`]: it begins with `start`, and
    /// goes on as this one does, so that both are equally long. Unless it is small, the store copies nearly all of it by
    /// itself. `None` if the store cannot do that.
    ///
    /// # Errors
    /// Errors of the store, and if this object has changed.
    fn with_start(&self, start: &[u8], progress: &dyn Progress) -> io::Result<Option<Box<dyn OutputObject>>>;
}

/// An object that is written. It appears when it is committed, and not before. If it is dropped before that, what was
/// sent is deleted, unless it was begun with [`NewObject::resume`] and [`OutputObject::begin`].
pub trait OutputObject: WriteAt + Debug {
    /// What an interrupted run with [`NewObject::resume`] has left.
    fn left(&self) -> Option<Left>;

    /// Goes on with what was left.
    ///
    /// # Errors
    /// Errors of the record.
    fn go_on(&self) -> io::Result<()>;

    /// Begins from the beginning, and keeps a record so that a later run can go on. What was left is deleted.
    ///
    /// # Errors
    /// Errors of the store or of the record.
    fn begin(&self, plan: Plan) -> io::Result<()>;

    /// How many bytes have been written.
    fn written(&self) -> u64;

    /// Gives the object its name.
    ///
    /// # Errors
    /// Errors of the store. [`io::ErrorKind::AlreadyExists`] if the name is in use and may not be replaced.
    fn commit(self: Box<Self>) -> io::Result<()>;

    /// Gives the object its name, if what has it now is this version: [`InputObject::version`].
    ///
    /// # Errors
    /// Errors of the store, and if it is another version.
    fn commit_over(self: Box<Self>, version: &str) -> io::Result<()>;
}

/// The objects whose names begin with that of a folder and a slash. Their names are given from there on.
pub trait ObjectFolder: Send + Sync + Debug {
    /// All of its objects, in the order of their names as bytes.
    ///
    /// # Errors
    /// Errors of the store.
    fn list(&self) -> io::Result<Vec<ListedObject>>;

    /// Opens an object for reading.
    ///
    /// # Errors
    /// Errors of the store.
    fn open(&self, name: &str) -> io::Result<Arc<dyn InputObject>>;

    /// Begins an object: [`Stores::create`].
    ///
    /// # Errors
    /// As there.
    fn create(&self, name: &str, new: NewObject) -> io::Result<Box<dyn OutputObject>>;

    /// Copies an object within the store. What has the new name is replaced.
    ///
    /// # Errors
    /// Errors of the store, which may refuse long objects.
    fn copy(&self, from: &str, to: &str) -> io::Result<()>;

    /// Deletes objects, and returns those that could not be deleted. One that is not there counts as deleted.
    fn delete(&self, names: &[String]) -> Vec<(String, io::Error)>;
}

/// An object of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Its name, from the folder on.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
}

/// How a protected file is cut into the parts of an upload, and what a later run must know to go on with it.
///
/// Each part has whole chunks, so that no chunk lies in a part that was sent and in one that was not: a chunk that is
/// sealed again gets another nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What identifies the input.
    pub input: String,
    /// The header.
    pub header: Vec<u8>,
    /// How many chunks a part has. The first part also has the header.
    pub chunks: u64,
    /// The bytes of a chunk in the file.
    pub record: u64,
    /// The length of the protected file in bytes.
    pub len: u64,
}

impl Plan {
    /// Where a part lies in the protected file.
    #[must_use]
    pub fn part(&self, index: u64) -> Range<u64> {
        let at = |part: u64| match part {
            0 => 0,
            part => (self.header.len() as u64).saturating_add(part.saturating_mul(self.chunks * self.record)),
        };
        at(index).min(self.len)..at(index + 1).min(self.len)
    }

    /// How many parts there are.
    #[must_use]
    pub fn parts(&self) -> u64 {
        (self.len.saturating_sub(self.header.len() as u64)).div_ceil(self.chunks * self.record).max(1)
    }
}

/// What an interrupted run has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// How it was cut.
    pub plan: Plan,
    /// The parts that the store has, in ascending order.
    pub done: Vec<u64>,
}

/// What is known of an object that is about to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewObject {
    /// Whether an existing object is replaced.
    pub replaces: bool,
    /// Its length, or a bound of it, if that is known.
    pub len: Option<u64>,
    /// Whether what an interrupted run has left is looked for.
    pub resume: bool,
}

/// The stores that a program can reach.
pub trait Stores: Send + Sync {
    /// Opens an object for reading.
    ///
    /// # Errors
    /// Errors of the store.
    fn open(&self, url: &Url) -> io::Result<Arc<dyn InputObject>>;

    /// Begins an object.
    ///
    /// # Errors
    /// Errors of the store. [`io::ErrorKind::AlreadyExists`] if the name is in use and may not be replaced.
    fn create(&self, url: &Url, new: NewObject) -> io::Result<Box<dyn OutputObject>>;

    /// The objects in a folder. Nothing is asked of the store yet.
    ///
    /// # Errors
    /// If the URL is none of a folder, or the client cannot be made.
    fn folder(&self, url: &Url) -> io::Result<Arc<dyn ObjectFolder>>;

    /// Deletes what interrupted runs have sent for an object that has not appeared, or for all those of a folder. Returns
    /// how many uploads these were.
    ///
    /// # Errors
    /// Errors of the store.
    fn abort(&self, url: &Url, is_folder: bool) -> io::Result<u64>;

    /// Deletes what this process has sent for objects that have not appeared, unless a later run may go on with it. The
    /// process is about to end: this takes a few seconds at most.
    fn give_up(&self);
}

/// Gives up all objects that this process has begun: [`Stores::give_up`].
pub fn give_up() {
    if let Some(stores) = STORES.get() {
        stores.give_up();
    }
}

static STORES: OnceLock<Box<dyn Stores>> = OnceLock::new();

/// Sets the stores that this program can reach. Only the first call counts.
pub fn install(stores: impl Stores + 'static) {
    let _ = STORES.set(Box::new(stores));
}

/// The stores that this program can reach.
///
/// # Errors
/// [`Error::NoStores`] if it was built without stores.
pub fn stores() -> Result<&'static dyn Stores> {
    STORES.get().map(|stores| &**stores).ok_or(Error::NoStores)
}

/// An error of writing an object.
pub(crate) fn object_error(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists,
        _ => CoreError::Write(error).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for url in ["s3://b/k", "gs://b/k", "az://c/b", "https://h/p", "http://h/p"] {
            assert!(is_url(Path::new(url)), "{url}");
        }
        for (url, shown) in [
            ("https://user:c2VjcmV0@h/p?q", "https://h/p"),
            ("http://c2VjcmV0@h", "http://h"),
            ("https://h/a@b", "https://h/a@b"),
            ("s3://user:c2VjcmV0@b/k@x", "s3://b/k@x"),
            ("https://h:8443/a@b", "https://h:8443/a@b"),
            ("https://[::1]:8443/a@b", "https://[::1]:8443/a@b"),
            ("s3://AKIA:c2V/jcmV0@b/k", "s3://"),
            ("s3://AKIA:12/c2VjcmV0@b/k", "s3://"),
            ("https://user:c2V?jcmV0@h/x", "https://"),
            ("https://user:c2V#jcmV0@h/x", "https://"),
        ] {
            let url = Url::of(Path::new(url)).unwrap();
            assert_eq!((url.path(), format!("{url:?}")), (Path::new(shown), format!("Url({shown})")));
            assert!(url.text().contains('@'), "what is refused is not taken for another place");
        }
        let beside = Url::of(Path::new("s3://user@b/k")).unwrap().with_ending(".sig");
        assert_eq!(beside.text(), "s3://user@b/k.sig");
        for path in ["s3:/b/k", "./s3://b/k", "file://x", "a/s3://b", "S3://b", "-", ""] {
            assert!(!is_url(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn names_are_the_last_part() {
        let name = |text: &str| Url::of(Path::new(text)).unwrap().name().map(str::to_owned);
        assert_eq!(name("s3://b/dir/run.h5.phx").as_deref(), Some("run.h5.phx"));
        assert_eq!(name("https://h/x.phx?token=a/b#c").as_deref(), Some("x.phx"));
        assert_eq!(name("s3://b/run#1?.phx").as_deref(), Some("run#1?.phx"));
        let signed = Url::of(Path::new("https://h/x.phx?X-Amz-Signature=abc")).unwrap();
        assert!(!format!("{signed:?}{}", signed.path().display()).contains("abc") && signed.text().contains("abc"));
        for nameless in ["s3://b", "s3://b/", "s3://b/dir/"] {
            assert_eq!(name(nameless), None, "{nameless}");
        }
        let folder = |text: &str| Url::of(Path::new(text)).unwrap().folder_name().map(str::to_owned);
        for named in ["s3://b/a/dir.phx", "s3://b/a/dir.phx/"] {
            assert_eq!(folder(named).as_deref(), Some("dir.phx"), "{named}");
        }
        assert_eq!((folder("s3://b"), folder("s3://b/")), (None, None));
        let above = Url::of(Path::new("s3://b/a/dir.phx/c/")).unwrap().folders_above();
        let above: Vec<_> = above.iter().map(|(url, within)| (url.text(), within.to_str().unwrap())).collect();
        assert_eq!(above, [("s3://b/a/dir.phx", "c"), ("s3://b/a", "dir.phx/c"), ("s3://b", "a/dir.phx/c")]);
        let joined = Url::of(Path::new("s3://b/dir/")).unwrap().join("x.phx");
        assert_eq!(joined.text(), "s3://b/dir/x.phx");
    }

    #[test]
    fn parts_have_whole_chunks_and_cover_the_file() {
        for len in [100, 101, 100 + 7 * 48, 100 + 8 * 48, 100 + 8 * 48 + 1, 100 + 80 * 48 - 1] {
            let plan = Plan { input: String::new(), header: vec![0; 100], chunks: 4, record: 48, len };
            let mut end = 0;
            for index in 0..plan.parts() {
                let part = plan.part(index);
                assert_eq!(part.start, end);
                assert!(part.end == len || (part.end - 100).is_multiple_of(48));
                end = part.end;
            }
            assert_eq!(end, len);
        }
    }
}
