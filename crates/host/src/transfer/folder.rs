//! A folder of a tree and its mirror. Both are open while they are near the work.
//!
//! Each folder is opened within its parent, and links are never followed, so a change of a path meanwhile has no
//! effect. A folder far above the work is closed, and opened again through its child, so trees of any depth need few
//! open files. No function recurses over the depth.

mod finish;

pub use finish::Emptied;

use super::tally::Tally;
use crate::failure::{Code, Failure, Outcome};
use crate::file::{Carry, Existing, Input, Made, ObjectFolder, Removal, unprotected_name};
use crate::folders::{self, FOLDER, RESERVED_NAME, RIVAL_HINT, SAME_NAME, id, is_within, open_parent, true_parent};
use crate::key_files::{HOLDS_KEY, KeyFiles};
use crate::lines::{complain, shown};
use crate::lock::lock;
use crate::mirror::entry::entry;
use crate::mirror::is_of_manifest;
use crate::mirror::listing::NodeId;
use crate::mirror::selection::{Key, Selection};
use crate::{Error, Result};
use phalanx_core::tree::Kind;
use phalanx_system::fs::{self, AtFlags, FileType, Mode, OFlags};

use phalanx_system::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// How a tree is mirrored, and what its threads share.
pub struct Tree {
    /// The root's path, for messages.
    pub input: PathBuf,
    /// Its device and inode, once it is open.
    pub input_id: OnceLock<(u64, u64)>,
    /// The mirror's path, for messages; `None` if there is no mirror.
    pub output: Option<PathBuf>,
    /// The mirror, if it lies in a store. Then no folder has an open mirror.
    pub objects: Option<Arc<dyn ObjectFolder>>,
    /// Whether existing files are replaced.
    pub force: bool,
    /// Whether the input is deleted.
    pub remove: bool,
    /// Whether its files are opened. If so, volumes and files without the ending of protected files are left out.
    pub opens: bool,
    /// Whether outputs must be on the disk.
    pub sync: bool,
    /// Which permissions, times and attributes outputs get.
    pub carry: Carry,
    /// The results so far.
    pub tally: Arc<Tally>,
    /// The outputs of the run.
    pub made: Arc<Made>,
    /// The files that hold keys.
    pub keys: Arc<KeyFiles>,
    /// A file in the tree that holds a key or password which this command uses.
    pub key_inside: OnceLock<PathBuf>,
    /// How many folders are open, with their mirrors.
    pub open: Arc<AtomicUsize>,
    /// The entries that are worked on; `None` for all.
    pub selection: Option<Arc<dyn Selection>>,
}

impl Tree {
    /// Whether only some of its entries are worked on.
    pub fn is_partial(&self) -> bool {
        self.selection.as_ref().is_some_and(|selection| !selection.takes_others())
    }
}

/// A folder and its mirror, open.
pub struct Handles {
    /// The folder itself.
    pub input: Arc<File>,
    /// Its mirror, if there is one.
    pub output: Option<Arc<File>>,
    /// The number of open handles.
    count: Arc<AtomicUsize>,
}

impl Drop for Handles {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handles {
    fn new(tree: &Tree, input: File, output: Option<File>) -> Arc<Self> {
        tree.open.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { input: Arc::new(input), output: output.map(Arc::new), count: tree.open.clone() })
    }

    /// The mirror.
    ///
    /// # Panics
    /// If there is none.
    pub fn output(&self) -> &Arc<File> {
        self.output.as_ref().expect("the tree has a mirror")
    }
}

/// A symbolic link that has been mirrored.
struct Link {
    name: OsString,
    /// The device and inode of its mirror.
    made: (u64, u64),
    /// Its entry, if a manifest lists it.
    key: Option<Key>,
    removal: Removal,
}

/// A folder and its mirror. When the last file in it is done, the mirror gets its permissions and times.
pub struct Folder {
    /// Its name in its parent. Its mirror has the same name.
    name: OsString,
    parent: Parent,
    handles: Mutex<Option<Arc<Handles>>>,
    input_id: (u64, u64),
    output_id: Option<(u64, u64)>,
    /// Whether this run has made its mirror, so that nothing older is in it.
    is_new: bool,
    links: Mutex<Vec<Link>>,
    /// The signatures that go with their files.
    signatures: Mutex<Vec<OsString>>,
    /// Whether something in it stays, so that it stays too.
    stays: AtomicBool,
    /// Whether it is the folder of the keyring or lies within it.
    keyring: bool,
    /// Whether its mirror's entry is on the disk.
    durable: AtomicBool,
    selected: Option<Selected>,
    tree: Arc<Tree>,
}

/// A folder of a selection.
struct Selected {
    node: NodeId,
    /// Its entries that are worked on.
    children: HashMap<OsString, NodeId>,
}

/// What a selection says of an entry.
pub enum Choice {
    /// It is worked on, as this entry of the selection if there is one.
    Work(Option<NodeId>),
    /// It is not.
    Pass,
    /// It is not of the kind that is expected.
    Changed,
}

/// The parent of a folder. It is finished only after the folder.
enum Parent {
    Folder(Arc<Folder>),
    /// For the root: the folders that contain it and its mirror, if they are known.
    Root {
        input: Option<File>,
        output: Option<File>,
    },
    /// The folder has been closed.
    Closed,
}

impl Folder {
    /// Opens the root of a tree, and makes its mirror.
    pub fn root(tree: Arc<Tree>) -> Outcome<Arc<Self>> {
        let at_input = |e: Errno| Failure::at(&tree.input, Error::read(e));
        // The command line names the input, so it may be a link.
        let input: File =
            fs::open(&tree.input, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(at_input)?.into();
        let input_id = id(&input).map_err(at_input)?;
        tree.input_id.get_or_init(|| input_id);
        let (mut output, mut output_parent, mut output_id, mut is_new) = (None, None, None, false);
        if let (Some(path), None) = (&tree.output, &tree.objects) {
            let at_output = |e: Errno| Failure::at(path, Error::write(e));
            let (parent, name) = open_parent(path).map_err(at_output)?;
            let is_there = |stat: fs::Stat| (stat.st_dev, stat.st_ino) == input_id;
            if is_within(&parent, input_id).map_err(at_output)?
                || fs::statat(&parent, &name, AtFlags::empty()).is_ok_and(is_there)
            {
                return Err(Failure::usage(format!("{}: the output is within the input", shown(path))));
            }
            let made;
            (made, is_new) = make(&tree, &parent, &name, &input).map_err(|e| Failure::at(path, e))?;
            output_id = Some(id(&made).map_err(at_output)?);
            (output, output_parent) = (Some(made), Some(parent));
        }
        let handles = Handles::new(&tree, input, output);
        if let (Some(selection), Some(output)) = (&tree.selection, &handles.output) {
            selection.begin(output);
        }
        let (parent, name) = match tree.remove.then(|| true_parent(&tree.input)).flatten() {
            Some((parent, name)) => (Some(parent), name),
            None => (None, OsString::new()),
        };
        Ok(Arc::new(Self {
            name,
            parent: Parent::Root { input: parent, output: output_parent },
            handles: Mutex::new(Some(handles)),
            input_id,
            output_id,
            is_new,
            links: Mutex::default(),
            signatures: Mutex::default(),
            stays: AtomicBool::new(false),
            keyring: tree.keys.is_keyring(input_id),
            durable: AtomicBool::new(false),
            selected: Selected::new(&tree, tree.selection.as_ref().map(|selection| selection.root())),
            tree,
        }))
    }

    /// Opens a folder in this one.
    pub fn open(&self, handles: &Handles, name: &OsStr) -> Result<File> {
        let folder = fs::openat(&handles.input, name, FOLDER, Mode::empty()).map_err(Error::read)?;
        if self.tree.made.contains(id(&folder).map_err(Error::read)?) {
            let why = "it is an output of this run: the output is within the input";
            return Err(Error::read(std::io::Error::other(why)));
        }
        Ok(folder.into())
    }

    /// A folder in this one, which has been opened as `input`. Makes its mirror. `node` is its entry in the selection.
    pub fn child(
        self: &Arc<Self>,
        handles: &Handles,
        name: &OsStr,
        input: File,
        node: Option<NodeId>,
    ) -> Result<Arc<Self>> {
        let input_id = id(&input).map_err(Error::read)?;
        self.check_kind(handles, name, false)?;
        let made = handles.output.as_ref().map(|output| make(&self.tree, output, name, &input)).transpose()?;
        let (output, is_new) = made.map_or((None, false), |(output, is_new)| (Some(output), is_new));
        let output_id = output.as_ref().map(id).transpose().map_err(Error::write)?;
        if let (Some(selection), Some(key @ Key::Path(_))) = (&self.tree.selection, self.key_of(name, node)) {
            selection.written(&key, &entry(name, &fs::fstat(&input).map_err(Error::read)?, Kind::Folder));
        }
        Ok(Arc::new(Self {
            name: name.to_owned(),
            parent: Parent::Folder(self.clone()),
            handles: Mutex::new(Some(Handles::new(&self.tree, input, output))),
            input_id,
            output_id,
            is_new,
            links: Mutex::default(),
            signatures: Mutex::default(),
            stays: AtomicBool::new(false),
            keyring: self.keyring || self.tree.keys.is_keyring(input_id),
            durable: AtomicBool::new(false),
            selected: Selected::new(&self.tree, node),
            tree: self.tree.clone(),
        }))
    }

    /// Whether an entry of this name and kind is worked on.
    pub fn choice(&self, name: &OsStr, kind: FileType) -> Choice {
        let (Some(selection), Some(selected)) = (&self.tree.selection, &self.selected) else {
            return Choice::Work(None);
        };
        match selected.children.get(name) {
            None if selection.takes_others() => Choice::Work(None),
            None => Choice::Pass,
            Some(id) => {
                selection.meet(*id);
                if selection.is_kind(*id, kind) { Choice::Work(Some(*id)) } else { Choice::Changed }
            }
        }
    }

    /// The entry of this name in it, if a manifest lists it. `node` is its entry in the selection.
    pub fn key_of(&self, name: &OsStr, node: Option<NodeId>) -> Option<Key> {
        let selection = self.tree.selection.as_ref()?;
        match node {
            Some(node) => Some(Key::Node(node)),
            None if selection.takes_others() => Some(Key::Path(self.join(Path::new(""), name))),
            None => None,
        }
    }

    /// The values that it shares with the rest of its tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The path of something in it, for messages.
    pub fn path(&self, name: &OsStr) -> PathBuf {
        self.join(&self.tree.input, name)
    }

    /// The path of something in its mirror, for messages.
    pub fn mirrored(&self, name: &OsStr) -> PathBuf {
        self.join(self.tree.output.as_deref().unwrap_or(&self.tree.input), name)
    }

    /// The name of the object for an output in its mirror, which lies in a store.
    pub fn object_name(&self, output_name: &OsStr) -> Result<String> {
        let path = self.join(Path::new(""), output_name);
        let why = "its name is not UTF-8, as names of objects are";
        let not_text = |_| Error::write(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
        path.into_os_string().into_string().map_err(not_text)
    }

    fn join(&self, root: &Path, name: &OsStr) -> PathBuf {
        let (mut names, mut folder) = (vec![name], self);
        while let Parent::Folder(parent) = &folder.parent {
            names.push(&folder.name);
            folder = parent;
        }
        let mut path = root.to_owned();
        path.extend(names.into_iter().rev().filter(|name| !name.is_empty()));
        path
    }

    /// Tells the selection that the list of what is in the folder was read.
    pub fn listed(&self) {
        if let (Some(selection), Some(selected)) = (&self.tree.selection, &self.selected) {
            selection.listed(selected.node);
        }
    }

    /// Records that something in the folder is not deleted, so that the folder stays too.
    pub fn stays(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Passes over an entry that is not selected.
    pub fn pass_by(&self, name: &OsStr) {
        if !self.is_manifest(name) {
            self.stays();
        }
    }

    /// Whether a name is that of the manifest of the tree, or of its signature.
    fn is_manifest(&self, name: &OsStr) -> bool {
        is_of_manifest(name) && matches!(self.parent, Parent::Root { .. })
    }

    /// Whether a name is that of the signature of a protected file.
    fn is_of_signature(name: &OsStr) -> bool {
        Path::new(name).extension().is_some_and(|end| end == "sig")
            && Path::new(name).file_stem().is_some_and(|file| unprotected_name(file).is_some())
    }

    /// Passes over a file whose name does not have the ending of the files to work on.
    pub fn pass_over(&self, name: &OsStr) {
        if self.tree.remove && self.tree.opens && Self::is_of_signature(name) {
            lock(&self.signatures).push(name.to_owned());
        } else if self.tree.opens && !self.is_manifest(name) {
            self.leave_out(name, "the name does not end in .phx")
        } else {
            self.stays()
        }
    }

    /// Refuses a file whose output would have the name of a temporary file.
    pub fn refuse(&self, name: &OsStr) {
        self.stays();
        let line = format!("{}: {RESERVED_NAME}", shown(&self.path(name)));
        self.tree.tally.fail(&Failure::new(Code::InputOutput, line).on(&self.path(name)));
    }

    /// Leaves out something that is not a file to work on.
    pub fn leave_out(&self, name: &OsStr, why: &str) {
        self.stays();
        self.tree.tally.leave_out(&self.path(name), why);
    }

    /// Whether a file in it is to be deleted: every file is, except those that hold keys, passwords or identities.
    pub fn deletes(&self, input: &Input, name: &OsStr) -> bool {
        let tree = &self.tree;
        let Some(stamp) = input.stamp() else { return false };
        if tree.keys.is_in_use(stamp.id()) {
            tree.key_inside.get_or_init(|| self.path(name));
        }
        if !tree.remove {
            return false;
        }
        let spared = if self.keyring { Some(HOLDS_KEY) } else { tree.keys.spares(input.file(), stamp) };
        if let Some(why) = spared {
            self.stays();
            complain(format!("warning: {}: not deleted, because {why}", shown(&self.path(name))));
        }
        spared.is_none()
    }

    /// Refuses an entry whose kind is not that of its older entry in the mirror.
    pub fn check_kind(&self, handles: &Handles, name: &OsStr, is_file: bool) -> Result<()> {
        match &handles.output {
            Some(mirror) if self.tree.force && !self.tree.opens && !self.is_new => {
                folders::check_kind(mirror, name, is_file)
            }
            _ => Ok(()),
        }
    }

    /// Why a protected file could not be unprotected with its tree, although it is authentic.
    pub fn rival(&self, handles: &Handles, name: &OsStr, output_name: &OsStr) -> Outcome {
        let rival = folders::rival(&handles.input, output_name, true).unwrap_or_default();
        let Some(rival) = rival else { return Ok(()) };
        let line = format!("{}: {} {SAME_NAME}", shown(&self.path(name)), shown(&self.path(&rival)));
        Err(Failure::new(Code::InputOutput, line).hint(RIVAL_HINT).on(&self.path(name)))
    }

    /// Both ends, if they are open.
    pub fn handles(&self) -> Option<Arc<Handles>> {
        lock(&self.handles).clone()
    }

    /// Closes both ends as soon as they are not in use.
    pub fn park(&self) {
        *lock(&self.handles) = None;
    }

    /// Both ends. If they are closed, they are opened again through a child's.
    pub fn handles_above(&self, child: &Handles) -> Result<Arc<Handles>> {
        if let Some(handles) = self.handles() {
            return Ok(handles);
        }
        let above = |end: &File, wanted| -> Result<File> {
            let folder = fs::openat(end, "..", FOLDER, Mode::empty()).map_err(Error::read)?;
            if id(&folder).map_err(Error::read)? != wanted {
                return Err(Error::read(std::io::Error::other("the folder was moved meanwhile")));
            }
            Ok(folder.into())
        };
        let output = match (&child.output, self.output_id) {
            (Some(output), Some(id)) => Some(above(output, id)?),
            _ => None,
        };
        Ok(Handles::new(&self.tree, above(&child.input, self.input_id)?, output))
    }

    /// Opens both ends again through a child's if they are closed, because the work is near again.
    pub fn reopen(&self, child: &Handles) -> Result<()> {
        let handles = self.handles_above(child)?;
        *lock(&self.handles) = Some(handles);
        Ok(())
    }

    /// Makes a copy of a symbolic link in the mirror, wherever it leads. `node` is its entry in the selection.
    pub fn link(&self, handles: &Handles, name: &OsStr, node: Option<NodeId>) -> Result<()> {
        let stat = fs::statat(&handles.input, name, AtFlags::SYMLINK_NOFOLLOW).map_err(Error::read)?;
        let target = fs::readlinkat(&handles.input, name, Vec::new()).map_err(Error::read)?;
        let selected = self.tree.selection.as_deref().zip(node);
        let listed = selected.and_then(|(selection, node)| selection.target(node));
        if listed.is_some_and(|listed| listed.as_encoded_bytes() != target.as_bytes()) {
            return Err(Error::NotListed("the link leads elsewhere"));
        }
        let listed = || entry(name, &stat, Kind::Link(target.as_bytes().to_vec()));
        let key = self.key_of(name, node);
        let written = || {
            if let (Some(selection), Some(key)) = (&self.tree.selection, &key) {
                selection.written(key, &listed());
            }
        };
        if self.tree.objects.is_some() {
            // A store has no links: the manifest lists it.
            written();
        }
        let Some(output) = &handles.output else { return Ok(()) };
        self.check_kind(handles, name, false)?;
        if let Some((selection, node)) = selected {
            selection.replace(node, output, name)?;
            selection.replaced().map_err(Error::write)?;
        }
        let made = self.tree.made.symlink(&target, output, name, self.tree.force)?;
        written();
        if self.tree.remove && self.tree.keys.leads_to_key((stat.st_dev, stat.st_ino)) {
            self.stays();
            let path = shown(&self.path(name));
            complain(format!("warning: {path}: not deleted, because it leads to a key or password"));
            return Ok(());
        }
        let removal = Removal::link(handles.input.clone(), name, &stat, target);
        lock(&self.links).push(Link { name: name.to_owned(), made, key, removal });
        Ok(())
    }
}

impl Selected {
    fn new(tree: &Tree, node: Option<NodeId>) -> Option<Self> {
        let (selection, node) = tree.selection.as_deref().zip(node)?;
        Some(Self { node, children: selection.children(node) })
    }
}

/// Makes a folder of a mirror, or uses an existing one unless this run has made it. Returns also whether it is new.
fn make(tree: &Tree, parent: &File, name: &OsStr, original: &File) -> Result<(File, bool)> {
    let existing = if tree.force { Existing::Replace(&tree.made) } else { Existing::Keep };
    let (folder, is_new) = folders::make_or_open(parent, name, existing, original, tree.carry)?;
    let made = id(&folder).map_err(Error::write)?;
    tree.made.is_alias(parent, name)?;
    if tree.input_id.get() == Some(&made) {
        return Err(Error::write(std::io::Error::other("it is the input itself: the input is within the output")));
    }
    if !tree.made.insert(made) {
        return Err(Error::OwnOutput);
    }
    Ok((folder, is_new))
}
