//! What this user's machine remembers of trees, in the state folder: the last generation seen of each. What cannot be read is
//! reported, since nothing tells a user otherwise that a mirror may have been set back.

use super::MANIFEST;
use super::log::Log;
use crate::Error;
use crate::file::{Existing, InputFile, Made, Output, is_url};
use crate::folders::{id, make_private, parent};
use crate::home;
use crate::lines::{complain, shown};
use phalanx_core::Error as CoreError;
use phalanx_core::tree::{Digest, Head, TreeId};
use phalanx_system::files::{cut_log, open_folder, open_private_log};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A file of the state folder that is longer is not ours.
const LONGEST: u64 = 64 << 10;

/// A manifest of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its generation.
    pub generation: u64,
    /// Its digest.
    pub digest: Digest,
}

impl Seen {
    /// Whether a manifest that is found after it is older, or another one of the same generation: the mirror was set back.
    #[must_use]
    pub fn is_set_back_by(&self, found: &Self) -> bool {
        self.generation > found.generation || self.generation == found.generation && self.digest != found.digest
    }
}

#[derive(Serialize, Deserialize)]
struct Record {
    tree: String,
    generation: u64,
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    digest: Digest,
}

/// What was seen at a path.
#[derive(Serialize, Deserialize)]
struct Place {
    trees: Vec<String>,
}

/// The trees that this user's machine has seen. Without a home it remembers none.
#[derive(Clone, Debug)]
pub struct Trees {
    folder: Option<PathBuf>,
}

impl Trees {
    /// Those in the user's state folder.
    #[must_use]
    pub fn of_user() -> Self {
        Self { folder: home::state().map(|state| state.join("trees")) }
    }

    /// The mounted volumes with a table of versions, of which the generation and the MAC of the last batch are remembered in the
    /// same way.
    #[must_use]
    pub fn volumes_of_user() -> Self {
        Self { folder: home::state().map(|state| state.join("volumes")) }
    }

    #[cfg(test)]
    pub(super) fn in_folder(folder: PathBuf) -> Self {
        Self { folder: Some(folder) }
    }

    /// The last manifest seen of a tree. `None`, and a warning, if that cannot be read.
    #[must_use]
    pub fn seen(&self, tree: TreeId) -> Option<Seen> {
        or_warned(self.read_seen(tree))
    }

    /// The last manifest seen of a tree.
    ///
    /// # Errors
    /// [`Error::Remembered`] if that cannot be read.
    pub fn read_seen(&self, tree: TreeId) -> crate::Result<Option<Seen>> {
        let record: Option<Record> = self.read(&format!("{tree}.json"))?;
        Ok(record.map(|record| Seen { generation: record.generation, digest: record.digest }))
    }

    /// The tree whose last manifest had this digest.
    #[must_use]
    pub fn find(&self, digest: Digest) -> Option<(TreeId, Seen)> {
        let entries = fs::read_dir(self.folder.as_ref()?).ok()?.flatten();
        let paths = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
        let mut records = paths.filter_map(|path| or_warned(read::<Record>(&path)));
        let record = records.find(|record| record.digest == digest)?;
        Some((TreeId(unhex(&record.tree)?), Seen { generation: record.generation, digest }))
    }

    /// Remembers the manifest that was written or found last.
    ///
    /// # Errors
    /// If it cannot be written, or what was seen before cannot be read: it stays then, since a mirror that was set back would be
    /// forgotten otherwise.
    pub fn note(&self, tree: TreeId, seen: Seen) -> crate::Result<()> {
        self.read_seen(tree)?;
        self.accept(tree, seen)
    }

    /// Remembers a manifest that the user accepts, whatever was seen before.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn accept(&self, tree: TreeId, seen: Seen) -> crate::Result<()> {
        let record = Record { tree: tree.to_string(), generation: seen.generation, digest: seen.digest };
        let text = serde_json::to_string(&record).expect("it is plain data");
        self.write(&format!("{tree}.json"), |file| file.write_all(text.as_bytes()))
    }

    /// Whether this machine wrote a manifest of a tree, and took nothing from one that it did not write. That it has seen one, as
    /// [`Trees::seen`] says, is less: whoever can open the files can write one.
    ///
    /// # Errors
    /// [`Error::Remembered`] if that cannot be read.
    pub fn is_own(&self, tree: TreeId, digest: Digest) -> crate::Result<bool> {
        let own: Option<Vec<String>> = self.read(&format!("{tree}.own"))?;
        Ok(own.is_some_and(|own| own.contains(&digest.to_string())))
    }

    /// Remembers a manifest that this machine is about to write, beside the one that it replaces, if that is an own one: it is in
    /// its place until the new one has its name. One of somebody else does not become an own one by being replaced.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note_own(&self, tree: TreeId, digest: Digest, before: Option<Digest>) -> crate::Result<()> {
        let before = before.filter(|before| self.is_own(tree, *before).unwrap_or(false));
        let own: Vec<String> = before.into_iter().chain([digest]).map(|digest| digest.to_string()).collect();
        let text = serde_json::to_string(&own).expect("it is plain data");
        self.write(&format!("{tree}.own"), |file| file.write_all(text.as_bytes()))
    }

    /// The trees whose manifests were seen in the mirror at a path: one, or several if disks are mounted there in turn. None, and a
    /// warning, if that cannot be read.
    #[must_use]
    pub fn at(&self, mirror: &Path) -> Vec<TreeId> {
        or_warned(self.read_at(mirror).map(Some)).unwrap_or_default()
    }

    /// The trees whose manifests were seen in the mirror at a path.
    ///
    /// # Errors
    /// [`Error::Remembered`] if that cannot be read.
    pub fn read_at(&self, mirror: &Path) -> crate::Result<Vec<TreeId>> {
        let place: Option<Place> = self.place(mirror).map_or(Ok(None), |path| read(&path))?;
        Ok(place.map_or(Vec::new(), |place| place.trees.iter().filter_map(|tree| unhex(tree)).map(TreeId).collect()))
    }

    /// Remembers that the mirror at a path has the manifest of a tree.
    ///
    /// # Errors
    /// If it cannot be written, or what was seen there before cannot be read.
    pub fn note_at(&self, mirror: &Path, tree: TreeId) -> crate::Result<()> {
        let mut trees = self.read_at(mirror)?;
        let (Some(path), false) = (self.place(mirror), trees.contains(&tree)) else { return Ok(()) };
        trees.push(tree);
        let place = Place { trees: trees.iter().map(ToString::to_string).collect() };
        let text = serde_json::to_string(&place).expect("it is plain data");
        self.write_to(&path, |file| file.write_all(text.as_bytes()))
    }

    /// Forgets which trees were seen at a path.
    pub fn forget(&self, mirror: &Path) {
        if let Some(path) = self.place(mirror) {
            let _ = fs::remove_file(path);
        }
    }

    fn place(&self, mirror: &Path) -> Option<PathBuf> {
        self.path(&format!("{}.place", hash_of(&whole(mirror)?)))
    }

    /// The plaintext of the last manifest of a tree, for a machine that cannot open it.
    #[must_use]
    pub fn copy(&self, tree: TreeId) -> Option<File> {
        InputFile::open(&self.path(&format!("{tree}.{MANIFEST}"))?).ok()?.file().try_clone().ok()
    }

    /// What identifies the folder of these copies.
    pub(super) fn copies(&self) -> Option<(u64, u64)> {
        id(&open_folder(self.folder.as_ref()?).ok()?).ok()
    }

    /// The length of the longest plaintext that is kept; `None` if none is.
    pub(super) fn longest_copy(&self) -> Option<u64> {
        let entries = fs::read_dir(self.folder.as_ref()?).ok()?.flatten();
        let copies = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(&format!(".{MANIFEST}")));
        copies.filter_map(|entry| Some(entry.metadata().ok()?.len())).max()
    }

    /// Keeps the plaintext of a manifest. Only the user can read it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_copy(&self, tree: TreeId, mut manifest: impl Read) -> crate::Result<()> {
        self.write(&format!("{tree}.{MANIFEST}"), |file| io::copy(&mut manifest, file).map(drop))
    }

    /// The fingerprints of the recipients of a tree, for a machine that cannot open it.
    #[must_use]
    pub fn recipients(&self, tree: TreeId) -> Vec<String> {
        or_warned(self.read(&format!("{tree}.recipients"))).unwrap_or_default()
    }

    /// Keeps the fingerprints of the recipients of a tree.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep_recipients(&self, tree: TreeId, recipients: &[String]) -> crate::Result<()> {
        let text = serde_json::to_string(recipients).expect("it is plain data");
        self.write(&format!("{tree}.recipients"), |file| file.write_all(text.as_bytes()))
    }

    /// The path of the file that lists what an unfinished run has written to a mirror.
    #[must_use]
    pub fn journal(&self, mirror: &Path) -> Option<PathBuf> {
        self.notes(mirror, "journal").into_iter().next()
    }

    /// The paths of files with this ending that list what an unfinished run has done with a mirror. New ones are written beside the first.
    /// Earlier versions named them after the path as it was given.
    pub(super) fn notes(&self, mirror: &Path, ending: &str) -> Vec<PathBuf> {
        let given = if is_url(mirror) { None } else { std::path::absolute(mirror).ok() };
        let wholes = whole(mirror).into_iter().chain(given);
        let mut paths: Vec<_> =
            wholes.filter_map(|whole| self.path(&format!("{}.{ending}", hash_of(&whole)))).collect();
        paths.dedup();
        paths
    }

    /// The path of the file that lists what `rekey --fresh` has written to the mirror of a tree, and no manifest lists yet.
    pub(super) fn rewritten(&self, tree: TreeId) -> Option<PathBuf> {
        self.path(&format!("{tree}.rewritten"))
    }

    /// The head of the next manifest of a tree, or of a new one. Its generation is greater than all that are known, and than those that
    /// another machine wrote before now. `before` is the head and the digest of the manifest in its place.
    ///
    /// # Errors
    /// Those of [`TreeId::random`].
    pub fn next_head(
        &self,
        tree: Option<TreeId>,
        before: Option<(&Head, Digest)>,
        rules: String,
    ) -> phalanx_core::Result<Head> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let tree = tree.map_or_else(TreeId::random, Ok)?;
        let seen = self.seen(tree).map_or(0, |seen| seen.generation);
        let before = before.filter(|(head, _)| head.tree == tree);
        let last = before.map_or(0, |(head, _)| head.generation).max(seen);
        let previous = before.map_or(Digest([0; 32]), |(_, digest)| digest);
        let generation = now.max(last.saturating_add(1));
        Ok(Head { tree, generation, written: now as i64, previous, rules })
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(name))
    }

    fn read<T: for<'a> Deserialize<'a>>(&self, name: &str) -> crate::Result<Option<T>> {
        self.path(name).map_or(Ok(None), |path| read(&path))
    }

    fn write(&self, name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> crate::Result<()> {
        self.path(name).map_or(Ok(()), |path| self.write_to(&path, write))
    }

    fn write_to(&self, path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> crate::Result<()> {
        make_private(parent(path)).map_err(Error::write)?;
        let made = Made::default();
        let output = Output::create(path, Existing::Replace(&made))?;
        write(&mut output.file().try_clone().map_err(Error::write)?).map_err(Error::write)?;
        output.set_mode(0o600)?;
        output.commit(Existing::Replace(&made), true).map(drop)
    }
}

/// The one path of a mirror, however it is spelled. The mirror itself may be gone.
fn whole(mirror: &Path) -> Option<PathBuf> {
    if is_url(mirror) {
        return Some(without_slash(mirror));
    }
    let by_parent = || Some(fs::canonicalize(parent(mirror)).ok()?.join(mirror.file_name()?));
    fs::canonicalize(mirror).ok().or_else(by_parent)
}

/// The URL of a folder without a slash at its end.
fn without_slash(url: &Path) -> PathBuf {
    PathBuf::from(url.to_string_lossy().trim_end_matches('/'))
}

/// A file name for a path.
fn hash_of(path: &Path) -> String {
    let hash = phalanx_kernels::keccak::sha3_256(path.as_os_str().as_encoded_bytes());
    Digest(hash).to_string()[..32].to_owned()
}

/// Opens a file of records that only the user can read, and reads it. Records are appended to it.
pub(super) fn open_records(path: &Path, record: usize) -> io::Result<(Log, Vec<u8>)> {
    make_private(parent(path))?;
    let mut file = open_private_log(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // A record that was cut short is followed by whole ones, so it is removed.
    bytes.truncate(bytes.len() - bytes.len() % record);
    cut_log(&file, bytes.len() as u64)?;
    Ok((Log::new(file), bytes))
}

fn as_text<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(digest)
}

fn from_text<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
    unhex(&String::deserialize(from)?).map(Digest).ok_or_else(|| de::Error::custom("no digest"))
}

/// Reads what is remembered in a file. `None` if it is not there.
fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> crate::Result<Option<T>> {
    let at = |why: Error| Error::Remembered(shown(path), Box::new(why));
    let file = match InputFile::open(path) {
        Err(Error::Core(CoreError::Read(e))) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(at)?,
    };
    let mut text = String::new();
    file.file().take(LONGEST).read_to_string(&mut text).map_err(|e| at(Error::read(e)))?;
    let not_ours = |_| at(Error::read(io::Error::other("it is not what Phalanx has written there")));
    serde_json::from_str(&text).map(Some).map_err(not_ours)
}

/// What was read, or nothing and a warning. Each file is named once.
pub(super) fn or_warned<T>(read: crate::Result<Option<T>>) -> Option<T> {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    read.unwrap_or_else(|e| {
        let line = format!("warning: what this machine remembers of a mirror or volume: {e}");
        let is_new = TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone());
        if is_new {
            complain(line);
        }
        None
    })
}

/// Reads hexadecimal digits, however many there are.
#[must_use]
pub fn unhex_bytes(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes().chunks(2).map(|digits| str::from_utf8(digits).ok().and_then(unhex::<1>));
    bytes.map(|byte| byte.map(|[byte]| byte)).collect()
}

/// Reads hexadecimal digits.
#[must_use]
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_remembered_and_found_by_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let trees = Trees { folder: Some(folder.path().join("state/trees")) };
        let (tree, seen) = (TreeId([7; 16]), Seen { generation: 3, digest: Digest([0xab; 32]) });
        assert_eq!(trees.seen(tree), None);
        trees.note(tree, seen).unwrap();
        trees.note(TreeId([8; 16]), Seen { generation: 9, digest: Digest([0; 32]) }).unwrap();
        assert_eq!(trees.seen(tree), Some(seen));
        assert_eq!(trees.find(seen.digest), Some((tree, seen)));
        assert_eq!(trees.find(Digest([1; 32])), None);
        let newer = Seen { generation: 4, ..seen };
        trees.note(tree, newer).unwrap();
        assert_eq!(trees.seen(tree), Some(newer));
    }

    #[test]
    fn a_path_remembers_each_tree_that_was_seen_there() {
        let folder = tempfile::tempdir().unwrap();
        let trees = Trees { folder: Some(folder.path().join("state/trees")) };
        let (mirror, link) = (folder.path().join("m"), folder.path().join("link"));
        fs::create_dir(&mirror).unwrap();
        phalanx_system::os::fs::symlink("m", &link).unwrap();
        assert_eq!(trees.at(&mirror), []);
        for tree in [7, 8, 7] {
            trees.note_at(&mirror, TreeId([tree; 16])).unwrap();
        }
        assert_eq!(trees.at(&link), [TreeId([7; 16]), TreeId([8; 16])]);
        assert_eq!(trees.at(folder.path()), []);
        fs::remove_dir(&mirror).unwrap();
        assert_eq!(trees.at(&mirror).len(), 2);
        trees.forget(&mirror);
        assert_eq!(trees.at(&mirror), []);
    }

    #[test]
    fn a_manifest_that_was_only_seen_is_not_an_own_one() {
        let folder = tempfile::tempdir().unwrap();
        let trees = Trees { folder: Some(folder.path().join("state/trees")) };
        let (tree, digest) = (TreeId([7; 16]), |byte| Digest([byte; 32]));
        trees.note(tree, Seen { generation: 3, digest: digest(1) }).unwrap();
        let is_own = |tree, digest| trees.is_own(tree, digest).unwrap();
        assert!(!is_own(tree, digest(1)));
        trees.note_own(tree, digest(2), None).unwrap();
        trees.note_own(tree, digest(3), Some(digest(2))).unwrap();
        assert!(is_own(tree, digest(2)) && is_own(tree, digest(3)));
        assert!(!is_own(TreeId([8; 16]), digest(3)));
        trees.note_own(tree, digest(4), Some(digest(3))).unwrap();
        assert!(!is_own(tree, digest(2)));
        // Nor does one become an own one because an own one takes its place.
        trees.note_own(tree, digest(5), Some(digest(1))).unwrap();
        assert!(is_own(tree, digest(5)) && !is_own(tree, digest(1)));
    }

    #[test]
    fn a_damaged_record_is_an_error_and_otherwise_no_record() {
        let folder = tempfile::tempdir().unwrap();
        let trees = Trees { folder: Some(folder.path().to_owned()) };
        let tree = TreeId([7; 16]);
        for text in ["", "{", "{\"tree\":\"07\",\"generation\":1,\"digest\":\"zz\"}"] {
            fs::write(folder.path().join(format!("{tree}.json")), text).unwrap();
            assert_eq!(trees.seen(tree), None, "{text}");
            assert_eq!(trees.find(Digest([0; 32])), None, "{text}");
            let error = trees.read_seen(tree).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{tree}.json: cannot read: it is not what Phalanx has written there")),
                "{error}"
            );
        }
        // A folder cannot be read as a file.
        fs::create_dir(folder.path().join(format!("{tree}.own"))).unwrap();
        let error = trees.is_own(tree, Digest([0; 32])).unwrap_err();
        assert!(matches!(error, Error::Remembered(..)), "{error}");
        assert!(!trees.is_own(TreeId([8; 16]), Digest([0; 32])).unwrap());
    }
}
