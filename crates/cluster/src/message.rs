//! What the processes say to each other: keys of files, sizes, names and verdicts, and never a file's content.
//!
//! Rank 0 leads. Each message of a worker has exactly one answer, and a worker sends none before it has it. So no two
//! processes ever wait for each other.

use phalanx_core::Error as CoreError;
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

/// The keys and the header of a file: wiped when they are dropped.
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

/// A failure's line and exit code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    pub code: u8,
    pub line: String,
    /// Advice for the user.
    pub hint: Option<String>,
}

impl Told {
    pub fn new(code: Code, line: impl Into<String>) -> Self {
        Self { code: code.number(), line: line.into(), hint: None }
    }

    /// The same failure with advice for the user.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub fn at(path: &Path, error: &Error) -> Self {
        Self::of(error, format!("{}: {error}", shown(path)))
    }

    fn of(error: &Error, line: String) -> Self {
        Self { code: Code::of(error).number(), line, hint: hint(error) }
    }

    /// The same for a line without its path.
    pub fn placed(self, path: &Path) -> Self {
        Self { line: format!("{}: {}", shown(path), self.line), ..self }
    }
}

impl From<&Failure> for Told {
    fn from(failure: &Failure) -> Self {
        let hint = failure.advice().map(str::to_owned);
        Self { code: failure.code().number(), line: failure.line().unwrap_or_default().to_owned(), hint }
    }
}

impl From<CoreError> for Told {
    fn from(error: CoreError) -> Self {
        Error::from(error).into()
    }
}

impl From<Error> for Told {
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

/// Where a file is: in a folder of a tree, or anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// The number of the tree.
    pub tree: Option<u32>,
    /// In a tree: the names of the folders that lead there from its root, with slashes between them.
    pub folder: Vec<u8>,
    /// The name in that folder. Without a tree: the path.
    pub name: Vec<u8>,
    /// The same for the output.
    pub output: Option<Vec<u8>>,
}

/// What a process needs to work on a part of a large file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Join {
    pub spot: Spot,
    pub shared: Secret,
    /// The input's length in bytes, and when it was changed: seconds and nanoseconds.
    pub len: u64,
    pub mtime: (i64, i64),
    /// The output's name until it is finished.
    pub temporary: Vec<u8>,
    /// The length of the plaintext, and of the plaintext of a chunk, in bytes.
    pub plaintext_len: u64,
    pub chunk_len: u64,
    /// For an output that has no header: these bytes lie after its end while it is written, so that each process knows that it
    /// has the same file.
    pub mark: [u8; 32],
}

/// A file of a batch: its length in bytes, and when it was changed, in seconds and nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub name: Vec<u8>,
    pub output: Option<Vec<u8>>,
    pub len: u64,
    pub mtime: (i64, i64),
}

/// Something to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Begin a large file: whoever does so owns its output.
    Begin { file: u64, spot: Spot },
    /// Do a run of the chunks of a large file; with `goes_on`, what of it is not done yet.
    Part { file: u64, join: Box<Join>, run: Range<u64>, goes_on: bool },
    /// Bring all parts of a large file to the disk, and close it.
    Leave { file: u64, syncs: bool },
    /// Give a large file its name. These chunks lie where the parts of two machines meet.
    Commit { file: u64, edges: Vec<u64> },
    /// Note that the first chunks of a large file are on the disk: `turn` counts these tasks.
    Mark { file: u64, synced: u64, turn: u64 },
    /// Give up a large file. With `discards`, nothing of it stays for a later run.
    Abandon { file: u64, discards: bool },
    /// Do whole files of a folder.
    Files { tree: Option<u32>, folder: Vec<u8>, files: Vec<Entry> },
    /// Find the files of a folder, and make its mirror.
    Folder { tree: u32, folder: Vec<u8> },
    /// Give the mirrors of all folders below this one their permissions and times.
    FinishBelow { tree: u32, folder: Vec<u8> },
    /// Give the mirror of this folder its permissions and times.
    Finish { tree: u32, folder: Vec<u8> },
}

/// What became of a task, or of a part of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Whole files that are done.
    pub files: u64,
    /// Bytes of plaintext in them.
    pub bytes: u64,
    /// Files that an interrupted run had done, and the bytes of plaintext in them.
    pub kept: u64,
    pub kept_bytes: u64,
    pub failures: Vec<Told>,
    pub left_out: Vec<String>,
    /// Files that were checked, and their lengths.
    pub checked: Vec<(Vec<u8>, u64)>,
    /// What is said of each file.
    pub lines: Vec<String>,
    pub warnings: Vec<(Warned, String)>,
    pub strays: Vec<Astray>,
    /// Trees that hold files to work on, as far as they have not been reported.
    pub filled: Vec<u32>,
}

/// What a warning is about. It is said once, whichever process finds it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Warned {
    /// Permissions that are not carried over.
    SpecialBits,
    /// A key in use lies in this tree.
    KeyInside(u32),
}

/// What lies in a folder of a mirror and has no input.
#[derive(Debug, Serialize, Deserialize)]
pub struct Astray {
    pub tree: u32,
    pub number: u64,
    /// The first few paths.
    pub first: Vec<Vec<u8>>,
}

impl Report {
    pub fn is_long(&self) -> bool {
        let Self { failures, left_out, checked, lines, strays, .. } = self;
        failures.len() + left_out.len() + checked.len() + lines.len() + strays.len() >= 256
    }
}

/// What a task gave, beside its report.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Done {
    pub report: Report,
    /// A large file has been begun. If parts of it are there, the number is that of the first chunks which are on the disk.
    pub begun: Option<(Join, Option<u64>)>,
    /// Something that was written may be lost.
    pub lost: bool,
    /// How many bytes of a part an interrupted run had done.
    pub was_done: u64,
    /// The time that the work took, in microseconds.
    pub busy: u64,
}

/// What a process at work asks rank 0 for.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// A new file key, and a header for a plaintext of this length.
    New { len: Option<u64> },
    /// The keys of a file with this header, which lies at this path.
    Open { header: Vec<u8>, path: Vec<u8> },
    /// Takes tasks that were found, if there is room. `files` and `bytes` say how much is in them.
    Offer { tasks: Vec<Task>, files: u64, bytes: u64 },
    /// Takes part of a report.
    Tell(Report),
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    Keys(Secret),
    Refused(Told),
    /// Whether there was room.
    Taken(bool),
}

/// The first message of a process.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: String,
    pub host: String,
    /// Processes with the same number see the same mounts of the same running system.
    pub machine: u64,
    /// `None` if they are wrong: a secret may be among them.
    pub args: Option<Vec<Vec<u8>>>,
}

/// A message of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct Letter {
    /// Bytes that were done since the last one.
    pub advanced: u64,
    /// What the messages of this process have cost so far, in microseconds.
    pub talked: u64,
    /// The most memory that this process has had so far, in bytes.
    pub memory: u64,
    pub body: Body,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Body {
    Hello(Hello),
    /// Nothing to do: with what the last task gave.
    Ready(Box<Done>),
    Requests(Vec<(u64, Request)>),
    /// It is at work.
    Alive,
    /// It is at work, and takes one more task to do afterwards, if there is one.
    More,
    /// It cannot take part.
    Unfit(Told),
}

/// The answer of rank 0.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    Welcome(Welcome),
    /// `waited` is how long rank 0 had no task, in microseconds.
    Task {
        task: Box<Task>,
        waited: u64,
    },
    Replies(Vec<(u64, Reply)>),
    GoOn,
    End,
}

/// What all processes are given at the beginning.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// The folder that paths begin at.
    pub folder: Vec<u8>,
    pub trees: Vec<Tree>,
    /// The folders of outputs: their paths, the name of a file that rank 0 has made there, and what is in it.
    pub outputs: Vec<(Vec<u8>, Vec<u8>, [u8; 32])>,
    /// The file mode creation mask.
    pub umask: u32,
}

/// The root of a tree, and that of its mirror: their paths and inodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tree {
    pub input: (Vec<u8>, u64),
    pub output: Option<(Vec<u8>, u64)>,
}

pub fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}
