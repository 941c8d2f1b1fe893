//! Records of uploads that have begun, so that a later run can go on with them or delete them.
//!
//! A record is a file in the user's state folder. Its first line says what is uploaded; each further line is a part that
//! the store has. Only the user can read it, and a run that uses it holds a lock on it.

use phalanx_core::tree::Digest;
use phalanx_host::file::Plan;
use phalanx_host::mirror::state::unhex_bytes;
use phalanx_system::files::{create_private_folder, cut_log, is_as_made_for_user, open_folder, open_private_log};
use phalanx_system::fs::{AtFlags, CWD, FileType, FlockOperation, flock, fstat, statat, sync_all};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// A longer record is not ours.
const LONGEST: u64 = 16 << 20;

/// What a record says first.
#[derive(Debug, Serialize, Deserialize)]
struct First {
    url: String,
    /// The store: its address and whose it is.
    place: String,
    /// The store's name of the upload. It is empty if the upload is about to begin; then a second line like this follows.
    upload: String,
    /// How the file is cut, if a later run may go on with it.
    plan: Option<Cut>,
}

/// A [`Plan`].
#[derive(Debug, Serialize, Deserialize)]
struct Cut {
    input: String,
    header: String,
    chunks: u64,
    record: u64,
    len: u64,
}

/// A part that the store has.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    part: u64,
    id: String,
}

/// What a record says.
#[derive(Debug)]
pub struct Found {
    /// The store's name of the upload.
    pub upload: String,
    /// How the file is cut, if a later run may go on with it.
    pub plan: Option<Plan>,
    /// The parts that the store has: their numbers and the store's names of them.
    pub parts: Vec<(u64, String)>,
}

/// What runs are sending.
#[derive(Debug, Default)]
pub struct InUse {
    /// The store's names of the uploads.
    pub uploads: BTreeSet<String>,
    /// The URLs of objects whose uploads begin at this moment, so that no record has the store's names of them.
    pub beginning: BTreeSet<String>,
}

/// The record of an object's upload, which nobody else uses meanwhile.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    file: File,
    object: Named,
}

/// An object, as records name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its URL.
    pub url: String,
    /// The store: its address and whose it is.
    pub place: String,
    /// The folder of what is remembered between runs.
    pub state: Option<PathBuf>,
}

impl Named {
    /// The name of its record.
    fn name(&self) -> String {
        let text = format!("{}\n{}", self.place, self.url);
        Digest(phalanx_kernels::keccak::sha3_256(text.as_bytes())).to_string()[..32].to_owned()
    }
}

impl Record {
    /// The record with which a later run goes on. It may be empty.
    ///
    /// # Errors
    /// If there is no home, if it cannot be opened, or if another run uses it.
    pub fn open(object: &Named) -> io::Result<Self> {
        let path = folder(object)?.join(object.name());
        loop {
            if let Some(record) = Self::lock(&path, object)? {
                return Ok(record);
            }
        }
    }

    /// A record of a run with which no later run goes on: it is only for [`Record::all`].
    ///
    /// # Errors
    /// If there is no home, or if it cannot be made.
    pub fn new(object: &Named) -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let path = folder(object)?.join(format!("{}-{:016x}", object.name(), u64::from_ne_bytes(random)));
        Self::lock(&path, object)?.ok_or_else(|| io::ErrorKind::ResourceBusy.into())
    }

    /// The records of an object that no run uses, and what runs are sending.
    ///
    /// # Errors
    /// If there is no home.
    pub fn all(object: &Named) -> io::Result<(Vec<Self>, InUse)> {
        let (folder, name) = (folder(object)?, object.name());
        let paths = fs::read_dir(&folder)?.flatten().map(|entry| entry.path());
        let own = paths.filter(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&name)));
        Ok(Self::sorted(own.map(|path| (path, object.clone()))))
    }

    /// The same for all objects whose URLs begin with that of `within` and a slash.
    ///
    /// # Errors
    /// If there is no home.
    pub fn below(within: &Named) -> io::Result<(Vec<Self>, InUse)> {
        let start = format!("{}/", within.url.trim_end_matches('/'));
        let paths = fs::read_dir(folder(within)?)?.flatten().map(|entry| entry.path());
        let own = paths.filter_map(|path| {
            let first = open(&path).ok().and_then(|file| read(&file))?.0;
            let is_own = first.place == within.place && first.url.starts_with(&start);
            is_own.then(|| (path, Named { url: first.url, ..within.clone() }))
        });
        Ok(Self::sorted(own))
    }

    /// Records, those that no run uses, and what the others say.
    fn sorted(records: impl Iterator<Item = (PathBuf, Named)>) -> (Vec<Self>, InUse) {
        let (mut free, mut used) = (Vec::new(), InUse::default());
        for (path, object) in records {
            match Self::lock(&path, &object) {
                Ok(record) => free.extend(record),
                Err(_) => {
                    let Ok(file) = open(&path) else { continue };
                    match (Self { path, file, object }).lines() {
                        Some((first, _)) if first.upload.is_empty() => drop(used.beginning.insert(first.url)),
                        Some((first, _)) => drop(used.uploads.insert(first.upload)),
                        None => {}
                    }
                }
            }
        }
        (free, used)
    }

    /// The URL of its object.
    pub fn url(&self) -> &str {
        &self.object.url
    }

    /// Opens and locks a record. `None` if it has just been deleted.
    fn lock(path: &Path, object: &Named) -> io::Result<Option<Self>> {
        let file = open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(phalanx_system::io::Errno::WOULDBLOCK) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another run is uploading it"));
            }
            Err(e) => return Err(e.into()),
        }
        // Whoever held the lock may have deleted it meanwhile.
        let own = fstat(&file)?.st_ino;
        let is_named = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_ino == own);
        Ok(is_named.then(|| Self { path: path.to_owned(), file, object: object.clone() }))
    }

    /// What it says, if it was begun for this object. A last line that is not whole is left out.
    pub fn read(&self) -> Option<Found> {
        let (first, parts) = self.lines().filter(|(first, _)| !first.upload.is_empty())?;
        Some(Found {
            upload: first.upload,
            plan: first.plan.and_then(Cut::plan),
            parts: parts.into_iter().map(|part| (part.part, part.id)).collect(),
        })
    }

    /// Its lines, if they are for this object.
    fn lines(&self) -> Option<(First, Vec<Part>)> {
        read(&self.file).filter(|(first, _)| first.url == self.object.url && first.place == self.object.place)
    }

    /// Says that an upload is about to begin, whose name nobody knows yet.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn announce(&self) -> io::Result<()> {
        cut_log(&self.file, 0)?;
        self.add(&self.first("", None))
    }

    /// Begins it: it is on the disk before the first part is sent.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(&self, upload: &str, plan: Option<&Plan>) -> io::Result<()> {
        // Others must not find it empty between the announcement and this.
        if self.lines().is_none_or(|(first, _)| !first.upload.is_empty()) {
            cut_log(&self.file, 0)?;
        }
        self.add(&self.first(upload, plan))?;
        sync_all(&self.file)?;
        self.path.parent().map_or(Ok(()), |folder| sync_all(&open_folder(folder)?))
    }

    fn first(&self, upload: &str, plan: Option<&Plan>) -> First {
        let Named { url, place, .. } = self.object.clone();
        First { url, place, upload: upload.to_owned(), plan: plan.map(Cut::of) }
    }

    /// Removes a last line that is not whole, before others follow it.
    ///
    /// # Errors
    /// If it cannot be changed.
    pub fn mend(&self) -> io::Result<()> {
        let mut text = Vec::new();
        let mut file = &self.file;
        file.rewind()?;
        file.take(LONGEST).read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole < text.len() { cut_log(&self.file, whole as u64) } else { Ok(()) }
    }

    /// Empties it: the store does not have what it says.
    pub fn forget(&self) {
        let _ = cut_log(&self.file, 0);
    }

    /// Adds a part that the store has.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&self, part: u64, id: &str) -> io::Result<()> {
        self.add(&Part { part, id: id.to_owned() })
    }

    fn add(&self, line: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        (&self.file).write_all(text.as_bytes())
    }

    /// Deletes it.
    pub fn end(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Cut {
    fn of(plan: &Plan) -> Self {
        let Plan { input, header, chunks, record, len } = plan.clone();
        let header = header.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { input, header, chunks, record, len }
    }

    fn plan(self) -> Option<Plan> {
        let Self { input, header, chunks, record, len } = self;
        let header = unhex_bytes(&header)?;
        (chunks > 0 && record > 0).then_some(Plan { input, header, chunks, record, len })
    }
}

/// The folder of the records, which only the user can look into.
fn folder(object: &Named) -> io::Result<PathBuf> {
    let state = object.state.as_ref().ok_or_else(|| io::Error::other("there is no home folder for the record"))?;
    let folder = state.join("uploads");
    create_private_folder(&folder, true)?;
    Ok(folder)
}

/// What a record says, whatever object it is of.
fn read(mut file: &File) -> Option<(First, Vec<Part>)> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).peekable();
    let mut first: First = serde_json::from_str(lines.next()?).ok()?;
    if let (true, Some(begun)) =
        (first.upload.is_empty(), lines.peek().and_then(|line| serde_json::from_str(line).ok()))
    {
        (first, _) = (begun, lines.next());
    }
    Some((first, lines.map_while(|line| serde_json::from_str(line).ok()).collect()))
}

fn open(path: &Path) -> io::Result<File> {
    let file = open_private_log(path)?;
    let stat = fstat(&file)?;
    let is_private = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && is_as_made_for_user(&file, &stat)
        && stat.st_uid == phalanx_system::process::geteuid().as_raw();
    if is_private { Ok(file) } else { Err(io::Error::other("the record of its upload is not the user's alone")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_again_without_its_torn_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let object = Named { url: "s3://b/k".into(), place: "https://h".into(), state: None };
        let record = Record { file: open(&path).unwrap(), path, object: object.clone() };
        assert!(record.read().is_none());
        let plan = Plan { input: "1 2".into(), header: vec![0, 255, 7], chunks: 8, record: 4144, len: 1 << 40 };
        record.begin("upload", Some(&plan)).unwrap();
        record.note(1, "\"b\"").unwrap();
        (&record.file).write_all(b"{\"part\":2,\"id\"").unwrap();
        record.mend().unwrap();
        record.note(0, "a").unwrap();
        (&record.file).write_all(b"{\"part\":2,\"id\"").unwrap();
        let found = record.read().unwrap();
        assert_eq!((found.upload.as_str(), found.plan), ("upload", Some(plan)));
        assert_eq!(found.parts, [(1, "\"b\"".to_owned()), (0, "a".to_owned())]);
        record.announce().unwrap();
        assert!(record.read().is_none());
        record.begin("other", None).unwrap();
        let found = record.read().unwrap();
        assert_eq!(found.upload, "other");
        assert!(found.plan.is_none() && found.parts.is_empty());
        for other in [Named { url: "s3://b/other".into(), ..object.clone() }, Named { place: String::new(), ..object }]
        {
            let (path, file) = (record.path.clone(), record.file.try_clone().unwrap());
            assert_ne!(other.name(), record.object.name());
            assert!(Record { path, file, object: other }.read().is_none());
        }
        record.forget();
        assert!(record.read().is_none());
    }
}
