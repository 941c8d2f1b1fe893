//! The messages between processes. They have keys of files, sizes, names and results, and never a file's content.
//!
//! Rank 0 leads. Each message of a worker has exactly one answer, and a worker waits for it before it sends the next
//! message. So no two processes ever wait for each other.

use phalanx_core::Error as CoreError;
use phalanx_core::tree::{Contents, LastChunk};
use phalanx_host::Error;
use phalanx_host::failure::{self, Code, Failure};
use phalanx_host::folders;
use phalanx_host::lines::shown;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use zeroize::Zeroizing;

/// The keys and the header of a file. They are wiped when they are dropped.
#[derive(Clone, Serialize, Deserialize)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }

    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A failure as it is reported to rank 0: its line, exit code and hint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReportedFailure {
    pub code: u8,
    pub line: String,
    /// Advice for the user.
    pub hint: Option<String>,
}

impl ReportedFailure {
    pub fn new(code: Code, line: impl Into<String>) -> Self {
        Self { code: code.number(), line: line.into(), hint: None }
    }

    /// Adds advice for the user.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub fn at(path: &Path, error: &Error) -> Self {
        Self::of(error, format!("{}: {error}", shown(path)))
    }

    fn of(error: &Error, line: String) -> Self {
        Self { code: Code::of(error).number(), line, hint: hint(error) }
    }

    /// Puts the path before the line, which has none.
    pub fn placed(self, path: &Path) -> Self {
        Self { line: format!("{}: {}", shown(path), self.line), ..self }
    }
}

impl From<&Failure> for ReportedFailure {
    fn from(failure: &Failure) -> Self {
        let hint = failure.advice().map(str::to_owned);
        Self { code: failure.code().number(), line: failure.line().unwrap_or_default().to_owned(), hint }
    }
}

impl From<CoreError> for ReportedFailure {
    fn from(error: CoreError) -> Self {
        Error::from(error).into()
    }
}

impl From<Error> for ReportedFailure {
    fn from(error: Error) -> Self {
        Self::of(&error, error.to_string())
    }
}

/// What the user may do about an error. The options of this program are not all those of `phalanx`.
fn hint(error: &Error) -> Option<String> {
    match error {
        Error::NoLocks => Some("run without --resume".into()),
        Error::Core(CoreError::Altered { .. } | CoreError::Truncated(_) | CoreError::Extended(_)) => {
            Some("phalanx unprotect --salvage saves the rest".into())
        }
        Error::Core(CoreError::Write(e)) if folders::is_rival(e) => Some(folders::RIVAL_HINT.into()),
        Error::Core(CoreError::Read(_) | CoreError::Write(_)) | Error::Protected => None,
        error => failure::hint(error),
    }
}

/// Where a file is: in a folder of a tree, or at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// The number of the tree.
    pub tree: Option<u32>,
    /// In a tree: the path of the folder from the tree's root.
    pub folder: Vec<u8>,
    /// The name in that folder. Without a tree: the path.
    pub name: Vec<u8>,
    /// The output's name in the mirror of that folder. Without a tree: the output's path.
    pub output: Option<Vec<u8>>,
    pub listed: Option<Listed>,
}

/// What a process needs to work on a part of a large file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Join {
    pub location: Location,
    pub shared: Secret,
    /// The input's length in bytes, and its modification time in seconds and nanoseconds.
    pub len: u64,
    pub mtime: (i64, i64),
    /// The output's name until it is finished.
    pub temporary: Vec<u8>,
    /// The length of the plaintext, and of the plaintext of a chunk, in bytes.
    pub plaintext_len: u64,
    pub chunk_len: u64,
    /// For an output that has no header: these bytes are after its end while it is written, so that each process knows
    /// that it has the same file.
    pub mark: [u8; 32],
}

/// A file of a batch, with its length in bytes, and its modification time in seconds and nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub name: Vec<u8>,
    pub output: Option<Vec<u8>>,
    pub len: u64,
    pub mtime: (i64, i64),
    pub listed: Option<Listed>,
}

/// A file that rank 0 has found in a tree with a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Rank 0 knows it by this number.
    pub number: u64,
    /// What the stored file must hold, if it is opened.
    pub holds: Option<Holds>,
    /// The permissions and the time that it had when its mirror was written, in seconds and nanoseconds.
    pub metadata: Option<(u32, (i64, u32))>,
}

/// What a stored file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// Nonce and tag of its last chunk.
    last: ([u8; 24], [u8; 24]),
    /// The root of its hash tree.
    root: [u8; 32],
}

impl From<Contents> for Holds {
    fn from(Contents { last, root }: Contents) -> Self {
        let (mut nonce, mut tag) = ([0; 24], [0; 24]);
        nonce.copy_from_slice(&last.0[..24]);
        tag.copy_from_slice(&last.0[24..]);
        Self { last: (nonce, tag), root }
    }
}

impl From<Holds> for Contents {
    fn from(Holds { last, root }: Holds) -> Self {
        let mut bytes = [0; 48];
        bytes[..24].copy_from_slice(&last.0);
        bytes[24..].copy_from_slice(&last.1);
        Contents { last: LastChunk(bytes), root }
    }
}

/// A file of a tree with a manifest that is done, as the manifest lists it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Written {
    /// The number by which rank 0 knows it.
    pub number: u64,
    /// The length of the plaintext.
    pub len: u64,
    pub stored_len: u64,
    /// The device, the inode, the permissions and the time of the input.
    pub device: u64,
    pub inode: u64,
    pub mode: u32,
    pub mtime: (i64, u32),
    pub holds: Holds,
}

/// Nonces and tags of a run of chunks, one after another.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Heads {
    pub nonce_len: u8,
    /// The length of a nonce and a tag.
    pub len: u8,
    pub bytes: Vec<u8>,
}

impl Heads {
    /// The nonces and tags of this many chunks. `None` if these are not all of them.
    pub fn split(&self, chunks: u64) -> Option<impl Iterator<Item = (&[u8], &[u8])>> {
        let (nonce_len, len) = (usize::from(self.nonce_len), usize::from(self.len));
        let is_right = len <= 48 && nonce_len < len && Some(self.bytes.len() as u64) == chunks.checked_mul(len as u64);
        is_right.then(|| self.bytes.chunks_exact(len).map(move |head| head.split_at(nonce_len)))
    }
}

/// A task for a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Begin a large file. The process that does this owns its output.
    Begin { file: u64, location: Location },
    /// Do a run of chunks of a large file. With `goes_on`, do only those of them that are not done yet.
    Part { file: u64, join: Box<Join>, run: Range<u64>, goes_on: bool },
    /// Bring all parts of a large file to the disk, and close it.
    Leave { file: u64, syncs: bool },
    /// Give a large file its name. `edges` are the chunks around the places where the parts of two machines meet.
    /// `holds` is what the stored file holds, if it is listed and all chunks were done in this run.
    Commit { file: u64, edges: Vec<u64>, holds: Option<Holds> },
    /// Record that the first chunks of a large file are on the disk. `turn` counts these tasks.
    Mark { file: u64, synced: u64, turn: u64 },
    /// Give up a large file. With `discards`, nothing of it stays for a later run.
    Abandon { file: u64, discards: bool },
    /// Work on whole files of a folder.
    Files { tree: Option<u32>, folder: Vec<u8>, files: Vec<Entry> },
    /// Find the files of a folder, and make its mirror.
    Folder { tree: u32, folder: Vec<u8> },
    /// Give the mirrors of all folders below this one their permissions and times.
    FinishBelow { tree: u32, folder: Vec<u8> },
    /// Give the mirror of this folder its permissions and times.
    Finish { tree: u32, folder: Vec<u8> },
}

/// The results of a task, or of a part of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// How many whole files are done.
    pub files: u64,
    /// How many bytes of plaintext they have.
    pub bytes: u64,
    /// How many files an interrupted run had done, and how many bytes of plaintext they have.
    pub kept: u64,
    pub kept_bytes: u64,
    pub failures: Vec<ReportedFailure>,
    pub left_out: Vec<String>,
    /// Files that were checked, and their lengths.
    pub checked: Vec<(Vec<u8>, u64)>,
    /// Lines about files, for the user.
    pub lines: Vec<String>,
    pub warnings: Vec<(Warned, String)>,
    pub strays: Vec<FolderStrays>,
    /// Trees with files to work on that this process has not reported before.
    pub filled: Vec<u32>,
    /// Files of trees with manifests that are done.
    pub written: Vec<Written>,
}

/// What a warning is about. Each is printed once, even if several processes report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Warned {
    /// Permissions that are not carried over.
    SpecialBits,
    /// A key in use lies in this tree.
    KeyInside(u32),
}

/// What a folder of a mirror holds without having an input for it.
#[derive(Debug, Serialize, Deserialize)]
pub struct FolderStrays {
    pub tree: u32,
    pub number: u64,
    /// The first few paths.
    pub first: Vec<Vec<u8>>,
}

impl Report {
    pub fn is_long(&self) -> bool {
        let Self { failures, left_out, checked, lines, strays, written, .. } = self;
        failures.len() + left_out.len() + checked.len() + lines.len() + strays.len() + written.len() >= 256
    }
}

/// The end of a task: its report, and what rank 0 needs to go on.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Done {
    pub report: Report,
    /// The large file that was begun. If an interrupted run had done parts of it, also how many of its first chunks are
    /// on the disk.
    pub begun: Option<(Join, Option<u64>)>,
    /// Whether something that was written may be lost.
    pub lost: bool,
    /// How many bytes of a part an interrupted run had done.
    pub was_done: u64,
    /// Nonces and tags of a part of a listed file.
    pub heads: Option<Heads>,
    /// The time that the work took, in microseconds.
    pub busy: u64,
}

/// A request of a process at work to rank 0.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Asks for a new file key, and a header for a plaintext of this length.
    New { len: Option<u64> },
    /// Asks for the keys of the file with this header at this path.
    Open { header: Vec<u8>, path: Vec<u8> },
    /// Offers tasks that were found. Rank 0 takes them if there is room. `files` and `bytes` are their totals.
    Offer { tasks: Vec<Task>, files: u64, bytes: u64 },
    /// Sends a part of a report.
    Report(Box<Report>),
    /// Asks that what the outputs of these listed files replace is kept elsewhere.
    Replace { numbers: Vec<u64> },
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    Keys(Secret),
    Refused(ReportedFailure),
    /// Whether there was room.
    Taken(bool),
    /// For each file, why it must not be replaced.
    Replaced(Vec<Option<ReportedFailure>>),
}

/// The first message of a process.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: String,
    pub host: String,
    /// Processes with the same number see the same mounts of the same running system.
    pub machine: u64,
    /// The arguments. `None` if they are wrong, because they may then have a secret among them.
    pub args: Option<Vec<Vec<u8>>>,
}

/// A message of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct Message {
    /// How many bytes were done since the last message.
    pub advanced: u64,
    /// How long this process has waited for answers so far, in microseconds.
    pub talked: u64,
    /// The most memory that this process has used so far, in bytes.
    pub memory: u64,
    pub body: Body,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Body {
    Hello(Hello),
    /// Its last task is done. The first message of this kind comes before any task.
    Ready(Box<Done>),
    Requests(Vec<(u64, Request)>),
    /// It is at work.
    Alive,
    /// It is at work, and asks for one more task to do afterwards.
    More,
    /// It cannot take part.
    Unfit(ReportedFailure),
}

/// The answer of rank 0.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    Welcome(Welcome),
    /// `waited` is how long rank 0 had no task for the process, in microseconds.
    Task {
        task: Box<Task>,
        waited: u64,
    },
    Replies(Vec<(u64, Reply)>),
    GoOn,
    End,
}

/// What rank 0 sends to all processes at the beginning.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// The working folder, where relative paths begin.
    pub folder: Vec<u8>,
    pub trees: Vec<Tree>,
    /// The folders of outputs: the path of each, and the name and content of a file that rank 0 has made in it.
    pub outputs: Vec<(Vec<u8>, Vec<u8>, [u8; 32])>,
    /// The file mode creation mask.
    pub umask: u32,
}

/// The path and inode of the root of a tree, and of its mirror.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tree {
    pub input: (Vec<u8>, u64),
    pub output: Option<(Vec<u8>, u64)>,
}

pub fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_holds_passes_through_a_message() {
        let last = LastChunk(std::array::from_fn(|i| i as u8));
        let contents = Contents { last, root: [7; 32] };
        let bytes = postcard::to_allocvec(&Holds::from(contents)).unwrap();
        let back: Holds = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(Contents::from(back), contents);
    }

    #[test]
    fn heads_that_are_not_those_of_the_chunks_are_refused() {
        let heads = |nonce_len, len, bytes| Heads { nonce_len, len, bytes: vec![1; bytes] };
        assert_eq!(heads(16, 48, 96).split(2).unwrap().count(), 2);
        for (heads, chunks) in [
            (heads(16, 48, 95), 2),
            (heads(16, 48, 96), 3),
            (heads(48, 48, 96), 2),
            (heads(0, 0, 0), 2),
            (heads(16, 200, 400), 2),
            (heads(16, 48, 96), u64::MAX),
        ] {
            assert!(heads.split(chunks).is_none());
        }
    }
}
