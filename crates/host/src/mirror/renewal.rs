//! Renewing a mirror: what is worked on, and what becomes of it.

use super::backup::Backup;
use super::entries::Entries;
use super::entry::{entry, modified, number_of_open};
use super::journal::Journal;
use super::listing::{Listing, NodeId, State};
use super::removals::Removals;
use super::root::Root;
use super::selection::{Key, Place, Selection, Target};
use super::there::open_stored;
use crate::file::{Carry, InputFile, ObjectFolder, Stamp, source};
use crate::folders::open_within;
use crate::lock::lock;
use crate::transfer::folder::Emptied;
use crate::{Error, Result};
use phalanx_core::Source;
use phalanx_core::tree::{Contents, Entry, Invalid, Kind, LastChunk};
use phalanx_system::fs::{self, FileType, RenameFlags, Stat};
use phalanx_system::io::Errno;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// What the plaintext of each manifest begins with, of whichever version.
const MANIFESTS: &[u8] = b"PHXTREE";
const IS_MANIFEST: &str =
    "it begins as a manifest does: as a stored file it could be put in the place of the mirror's own";

/// Below so many levels, entries are not noted before they are deleted at the source, because each note has all folders above them.
const DEEPEST: usize = 100;

/// Compares a file with the stored file that should hold its content.
pub type Compare<'a> = dyn Fn(&File, Source<'_>, &Contents) -> Result<bool> + Send + Sync + 'a;

/// Called with each entry that is done, and how.
pub type Witness<'a> = dyn Fn(&Listing, NodeId, State) + Send + Sync + 'a;

/// What was done.
#[derive(Debug, Default)]
pub struct Counts {
    /// Files and links that are new in the mirror.
    pub new: AtomicU64,
    /// Files and links that were written again.
    pub changed: AtomicU64,
    /// Files that were renamed in the mirror.
    pub moved: AtomicU64,
    /// Files that got other permissions or times only.
    pub metadata: AtomicU64,
    /// Files that were compared with their stored files, and need nothing.
    pub same: AtomicU64,
}

/// The entries of a plan that are to be written, and the listing that records what was.
pub struct Renewal<'a> {
    listing: Mutex<Listing>,
    moved_from: HashMap<NodeId, NodeId>,
    /// The folders in which something is to be done.
    busy: HashSet<NodeId>,
    /// The mirror's root, once it is open.
    mirror: OnceLock<Root>,
    /// Where replaced entries go.
    pub backup: Option<Backup>,
    /// Which metadata stored files take over.
    pub carry: Carry,
    /// Compares content, if that is asked for.
    pub compare: Option<Box<Compare<'a>>>,
    /// Records what has been written.
    pub journal: Option<Journal>,
    /// The files that the old manifest lists as they are at the source. If one is written again, the next run has to hear of it.
    pub doubtful: HashSet<NodeId>,
    /// Records what is deleted at the source.
    pub removals: Option<Removals>,
    /// The folder that holds copies of manifests on this machine. Others cannot write to it.
    pub copies: Option<(u64, u64)>,
    /// The source's root, which is deleted once the manifest is there.
    root: Mutex<Option<Emptied>>,
    /// Whether entries that are not part of the plan are worked on too.
    pub takes_others: bool,
    /// These: the source got them after it was scanned, or they could not be looked at then.
    others: Mutex<Entries>,
    /// Hears of each entry.
    pub witness: Box<Witness<'a>>,
    /// What was done so far.
    pub counts: Counts,
    /// Whether the listing is not that of the old manifest any more.
    is_new: AtomicBool,
}

impl<'a> Renewal<'a> {
    /// Works on what a plan says is new or changed.
    #[must_use]
    pub fn new(listing: Listing, moved_from: HashMap<NodeId, NodeId>, carry: Carry) -> Self {
        let busy = busy(&listing);
        Self {
            listing: Mutex::new(listing),
            moved_from,
            busy,
            mirror: OnceLock::new(),
            backup: None,
            carry,
            compare: None,
            journal: None,
            doubtful: HashSet::new(),
            removals: None,
            copies: None,
            root: Mutex::default(),
            takes_others: false,
            others: Mutex::default(),
            witness: Box::new(|_, _, _| {}),
            counts: Counts::default(),
            is_new: AtomicBool::new(false),
        }
    }

    /// The mirror's root; `None` before it was made.
    pub fn mirror(&self) -> Option<&Root> {
        self.mirror.get()
    }

    /// Sets the mirror's root.
    pub fn begin_at(&self, mirror: &Root) {
        let _ = self.mirror.set(mirror.clone());
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// Whether the listing is still that of the old manifest, but for what was deleted.
    #[must_use]
    pub fn is_same(&self) -> bool {
        !self.is_new.load(Ordering::Relaxed)
    }

    /// The folders in the mirror that files were moved from. This may have been after they got their times.
    #[must_use]
    pub fn left(&self) -> BTreeSet<PathBuf> {
        let listing = lock(&self.listing);
        let moved = self.moved_from.values().filter(|from| listing.state(**from) == State::Dropped);
        moved.map(|from| listing.path(listing.parent(*from))).collect()
    }

    /// Lists an entry as it is now. Returns whether it was listed like that.
    fn list(&self, listing: &mut Listing, id: NodeId, entry: &Entry) -> bool {
        let is_same = matches!(listing.state(id), State::Unchanged | State::Compared) && listing.entry(id) == *entry;
        listing.update(id, entry);
        self.is_new.fetch_or(!is_same, Ordering::Relaxed);
        is_same
    }

    /// The source's root, if it is to be deleted.
    pub fn take_root(&self) -> Option<Emptied> {
        lock(&self.root).take()
    }

    /// Lists also what was worked on and is not part of the plan, and the folders in which something was, whatever failed there.
    ///
    /// # Errors
    /// If they make no manifest.
    pub fn list_all(&self) -> std::result::Result<(), Invalid> {
        let mut listing = lock(&self.listing);
        listing.list_folders();
        let others = std::mem::take(&mut *lock(&self.others));
        if others.is_empty() { Ok(()) } else { others.add_to(&mut listing) }
    }

    /// The listing as it is now.
    pub fn with_listing<T>(&self, act: impl FnOnce(&mut Listing) -> T) -> T {
        act(&mut lock(&self.listing))
    }

    /// Brings permissions and times of a stored file up to date, and lists them.
    fn refresh(&self, id: NodeId, input: &InputFile, stored: &File, state: State) -> Result<bool> {
        let stat = fs::fstat(input.file()).map_err(Error::read)?;
        self.carry.file(input.file(), stored)?;
        self.list_again(id, input, &stat, state)
    }

    /// Lists a stored file as its source is now.
    fn list_again(&self, id: NodeId, input: &InputFile, stat: &Stat, state: State) -> Result<bool> {
        let mut listing = lock(&self.listing);
        let source = match state {
            State::Moved => self.moved_from.get(&id).copied().unwrap_or(id),
            _ => id,
        };
        let Some(mut file) = listing.file(source).copied() else { return Ok(false) };
        if file.len != stat.st_size as u64 || state != State::Compared && listing.modified(id) != modified(stat) {
            // It has changed since it was looked at.
            return Ok(false);
        }
        (file.device, file.inode) = (stat.st_dev, number_of_open(input.file()));
        let name = listing.name(id).to_owned();
        let is_same = self.list(&mut listing, id, &entry(&name, stat, Kind::File(file)));
        if source != id {
            listing.set_state(source, State::Dropped);
        }
        (self.witness)(&listing, id, state);
        let count = match state {
            State::Moved => &self.counts.moved,
            _ if is_same => &self.counts.same,
            _ => &self.counts.metadata,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Renames a stored file to its new place. Returns its last chunk; `None` if it is not where it was, or something else is in its place.
    fn rename(&self, id: NodeId, output: &File, output_name: &OsStr) -> Result<Option<LastChunk>> {
        let Some((from, last)) = self.moved(id) else { return Ok(None) };
        let (Some(parent), Some(name)) = (from.parent(), from.file_name()) else { return Ok(None) };
        let mirror = self.mirror().and_then(Root::folder);
        let Some(dir) = mirror.and_then(|mirror| open_within(mirror, parent).ok()) else { return Ok(None) };
        let Ok(stored) = open_stored(&dir, name) else { return Ok(None) };
        // A file that somebody else put there is not renamed: the right content is written instead.
        if !LastChunk::read(&stored).is_ok_and(|(found, ..)| found == last) {
            return Ok(None);
        }
        match fs::renameat_with(&dir, name, output, output_name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                // Whatever comes of it, nothing is in its old place any more.
                if let Some(from) = self.moved_from.get(&id) {
                    self.with_listing(|listing| listing.set_state(*from, State::Dropped));
                }
                Ok(Some(last))
            }
            // Busy: on Windows, the root of the mirror, which the run has locked.
            Err(Errno::EXIST | Errno::NOENT | Errno::XDEV | Errno::INVAL | Errno::BUSY) => Ok(None),
            Err(e) => Err(Error::write(e)),
        }
    }

    /// Where the stored file of an entry that is moved lies, and its last chunk.
    fn moved(&self, id: NodeId) -> Option<(PathBuf, LastChunk)> {
        let listing = lock(&self.listing);
        let from = self.moved_from.get(&id).copied()?;
        Some((listing.stored_path(from), listing.file(from)?.contents.last))
    }

    /// Copies a stored file in a store to where it belongs now. Returns where it was; `None` if it is not there, or the store does
    /// not copy it.
    fn copy_object(&self, id: NodeId, folder: &dyn ObjectFolder, name: &str) -> Option<String> {
        let (from, last) = self.moved(id)?;
        let from = from.into_os_string().into_string().ok()?;
        // A store may go on copying after its answer.
        let is_copied = holds(folder, &from, &last) && folder.copy(&from, name).is_ok() && holds(folder, name, &last);
        is_copied.then_some(from)
    }

    /// Does what is to be done with an object whose content need not be sent. It has neither permissions nor times, so these are
    /// only listed.
    fn settle_object(
        &self,
        id: NodeId,
        state: State,
        place: &Place<'_>,
        to: (&dyn ObjectFolder, &str),
    ) -> Result<bool> {
        let (folder, name) = to;
        let input = InputFile::open_in(Arc::new(place.input.try_clone().map_err(Error::read)?), place.name)?;
        let (mut was, contents) = (None, self.contents_of(id));
        let is_settled = match state {
            // Somebody else may have put another object there.
            State::Metadata => contents.is_some_and(|contents| holds(folder, name, &contents.last)),
            State::Moved => {
                was = self.copy_object(id, folder, name);
                was.is_some()
            }
            State::Compared => match (&self.compare, folder.open(name), contents) {
                (Some(compare), Ok(stored), Some(contents)) => {
                    compare(input.file(), Source::ranged(stored.ahead(0)), &contents)?
                }
                _ => false,
            },
            _ => false,
        };
        let stat = fs::fstat(input.file()).map_err(Error::read)?;
        if !is_settled || has_changed(&input)? || !self.list_again(id, &input, &stat, state)? {
            return Ok(false);
        }
        if let Some(was) = was
            && !folder.delete(&[was]).is_empty()
            && let Some(from) = self.moved_from.get(&id)
        {
            // It stays, and stays listed, like all that is gone at the source and not deleted.
            self.with_listing(|listing| listing.set_state(*from, State::Gone));
        }
        Ok(true)
    }

    fn contents_of(&self, id: NodeId) -> Option<Contents> {
        lock(&self.listing).file(id).map(|file| file.contents)
    }

    /// Does what is to be done with an entry whose content need not be written, and says whether that was so.
    fn settle_entry(&self, id: NodeId, place: &Place<'_>) -> Result<bool> {
        let state = lock(&self.listing).state(id);
        let (output, output_name) = match place.output {
            Target::Entry(output, output_name) => (output, output_name),
            Target::Object(folder, name) => {
                let is_settled = matches!(state, State::Metadata | State::Moved | State::Compared);
                return Ok(is_settled && self.settle_object(id, state, place, (folder, name))?);
            }
        };
        let open = || InputFile::open_in(Arc::new(place.input.try_clone().map_err(Error::read)?), place.name);
        match state {
            State::Metadata => {
                let Ok(stored) = open_stored(output, output_name) else { return Ok(false) };
                let last = self.contents_of(id).map(|contents| contents.last);
                // A file that somebody else put there gets neither an owner nor permissions.
                if LastChunk::read(&stored).ok().map(|(found, ..)| found) != last {
                    return Ok(false);
                }
                self.refresh(id, &open()?, &stored, state)
            }
            State::Moved => {
                let Some(last) = self.rename(id, output, output_name)? else { return Ok(false) };
                let stored = open_stored(output, output_name).map_err(Error::write)?;
                // Somebody else may have exchanged it after it was looked at.
                let is_it = LastChunk::read(&stored).is_ok_and(|(found, ..)| found == last);
                Ok(is_it && self.refresh(id, &open()?, &stored, state)?)
            }
            State::Compared => {
                let Some(compare) = &self.compare else { return Ok(false) };
                let Ok(stored) = open_stored(output, output_name) else { return Ok(false) };
                let Some(contents) = self.contents_of(id) else { return Ok(false) };
                let input = open()?;
                let is_same = compare(input.file(), source(&stored)?, &contents)?;
                Ok(is_same && !has_changed(&input)? && self.refresh(id, &input, &stored, state)?)
            }
            _ => Ok(false),
        }
    }

    /// Notes that a file is about to be written again, though it looks the same to the next run. An object has its name at once.
    fn doubt(&self, id: NodeId, at_once: bool) -> io::Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let (path, modified, len) = {
            let listing = lock(&self.listing);
            let Some(file) = listing.file(id) else { return Ok(()) };
            (listing.path(id), listing.modified(id), file.len)
        };
        journal.doubt(&path, modified, len)?;
        if at_once { journal.doubted() } else { Ok(()) }
    }
}

impl Selection for Renewal<'_> {
    fn begin(&self, mirror: &Arc<File>) {
        self.begin_at(&Root::Folder(mirror.clone()));
    }

    fn children(&self, folder: NodeId) -> HashMap<OsString, NodeId> {
        let listing = lock(&self.listing);
        let is_busy = |id: &NodeId| is_worked_on(listing.state(*id)) || self.busy.contains(id);
        listing.children(folder).filter(is_busy).map(|id| (listing.name(id).to_owned(), id)).collect()
    }

    fn takes_others(&self) -> bool {
        self.takes_others
    }

    fn is_summed_up(&self) -> bool {
        !self.takes_others
    }

    fn expected(&self) -> Option<(u64, u64)> {
        Some(lock(&self.listing).totals(is_worked_on))
    }

    fn is_kind(&self, id: NodeId, kind: FileType) -> bool {
        lock(&self.listing).is_kind(id, kind)
    }

    fn settle(&self, id: NodeId, place: &Place<'_>) -> Result<bool> {
        let is_settled = self.settle_entry(id, place)?;
        if !is_settled && self.doubtful.contains(&id) {
            self.doubt(id, matches!(place.output, Target::Object(..))).map_err(Error::write)?;
        }
        Ok(is_settled)
    }

    fn vet(&self, folder: &File, file: &File) -> Result<()> {
        match begins_as_manifest(file) && crate::folders::id(folder).ok() != self.copies {
            true => Err(Error::read(io::Error::other(IS_MANIFEST))),
            false => Ok(()),
        }
    }

    fn replace(&self, id: NodeId, dir: &File, output_name: &OsStr) -> Result<()> {
        let Some(backup) = &self.backup else { return Ok(()) };
        match fs::statat(dir, output_name, fs::AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            found => found.map_err(Error::write)?,
        };
        let path = lock(&self.listing).stored_path(id);
        backup.keep(dir, output_name, &path)
    }

    fn replaced(&self) -> io::Result<()> {
        self.journal.as_ref().map_or(Ok(()), Journal::doubted)?;
        Ok(self.backup.as_ref().map_or(Ok(()), Backup::kept)?)
    }

    fn written(&self, key: &Key, entry: &Entry) {
        let id = match key {
            Key::Node(id) => *id,
            Key::Path(path) => return lock(&self.others).put(path.clone(), entry.clone()),
        };
        let mut listing = lock(&self.listing);
        let state = listing.state(id);
        self.list(&mut listing, id, entry);
        let count = if state == State::New || state == State::Moved { &self.counts.new } else { &self.counts.changed };
        count.fetch_add(1, Ordering::Relaxed);
        (self.witness)(&listing, id, state);
        if let (Some(journal), Kind::File(file)) = (&self.journal, &entry.kind) {
            journal.note(&listing.path(id), entry.modified, file);
        }
    }

    fn removes(&self, keys: &[&Key]) -> io::Result<()> {
        let Some(removals) = &self.removals else { return Ok(()) };
        let entries = {
            let (listing, others) = (lock(&self.listing), lock(&self.others));
            let mut nodes = Vec::new();
            let mut more = Entries::default();
            for key in keys {
                match key {
                    Key::Node(id) if is_within(&listing, *id, DEEPEST) => nodes.push(*id),
                    Key::Path(path) if path.components().take(DEEPEST + 1).count() <= DEEPEST => {
                        path.ancestors().for_each(|path| match (others.get(path), listing.folder_at(path)) {
                            (Some(entry), _) => more.put(path.to_owned(), entry.clone()),
                            (None, Some(id)) => nodes.push(id),
                            (None, None) => {}
                        })
                    }
                    _ => {}
                }
            }
            let mut entries = Entries::of(&listing, nodes.into_iter());
            entries.put_all(more);
            entries
        };
        if entries.is_empty() { Ok(()) } else { removals.note(&entries) }
    }

    fn keep_root(&self, root: Emptied) -> Option<Emptied> {
        *lock(&self.root) = Some(root);
        None
    }

    fn folder_done(&self, id: NodeId, stat: &Stat) {
        let mut listing = lock(&self.listing);
        let (name, state) = (listing.name(id).to_owned(), listing.state(id));
        self.list(&mut listing, id, &entry(&name, stat, Kind::Folder));
        if state == State::New {
            (self.witness)(&listing, id, state);
        }
    }
}

/// Whether a file of the source would be stored as a manifest that whoever wrote the file has made up. What cannot be read is not.
fn begins_as_manifest(file: &File) -> bool {
    use phalanx_system::os::fs::FileExt;
    let mut begin = [0; MANIFESTS.len()];
    file.read_exact_at(&mut begin, 0).is_ok() && begin == MANIFESTS
}

/// Whether an entry in this state is worked on.
fn is_worked_on(state: State) -> bool {
    matches!(state, State::New | State::Changed | State::Compared | State::Metadata | State::Moved)
}

/// Whether an entry lies at most so many levels below the root.
fn is_within(listing: &Listing, mut id: NodeId, levels: usize) -> bool {
    for _ in 0..levels {
        id = listing.parent(id);
    }
    id == NodeId::ROOT
}

/// The folders in which something is to be done, and all folders that contain them.
fn busy(listing: &Listing) -> HashSet<NodeId> {
    let mut busy = HashSet::new();
    for id in listing.all().filter(|id| is_worked_on(listing.state(*id))) {
        if listing.is_folder(id) {
            busy.insert(id);
        }
        let mut folder = listing.parent(id);
        while busy.insert(folder) && folder != NodeId::ROOT {
            folder = listing.parent(folder);
        }
    }
    busy
}

/// Whether an object is a protected file with this last chunk.
fn holds(folder: &dyn ObjectFolder, name: &str, last: &LastChunk) -> bool {
    folder.open(name).is_ok_and(|stored| LastChunk::read(&stored).is_ok_and(|(found, ..)| found == *last))
}

/// Whether a file was written to since it was opened.
fn has_changed(input: &InputFile) -> Result<bool> {
    Ok(!input.stamp().has_same_content(&Stamp::of(input.file()).map_err(Error::read)?))
}

/// A writer that compares what is written with what a file holds.
pub struct Comparison<'a> {
    file: &'a File,
    offset: u64,
    /// Set when something differs.
    pub differs: &'a std::sync::atomic::AtomicBool,
}

impl<'a> Comparison<'a> {
    /// Compares with a file from its beginning.
    #[must_use]
    pub fn new(file: &'a File, differs: &'a std::sync::atomic::AtomicBool) -> Self {
        Self { file, offset: 0, differs }
    }
}

impl io::Write for Comparison<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        use phalanx_system::os::fs::FileExt;
        let mut own = zeroize::Zeroizing::new(vec![0; buf.len()]);
        match self.file.read_exact_at(&mut own, self.offset) {
            Ok(()) if **own == *buf => {
                self.offset += buf.len() as u64;
                Ok(buf.len())
            }
            Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => Err(e),
            _ => {
                self.differs.store(true, Ordering::Relaxed);
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
