//! A folder of a tree and its mirror, both open while they are near the work.
//!
//! Folders are opened one within the other, and links are never followed: what happens to paths meanwhile leads nowhere
//! else. A folder far above the work is closed, and opened again through its child, so that trees of any depth need few
//! open files; nothing here recurses over depth.

use super::tally::Tally;
use crate::failure::{Code, Failure, Outcome, complain, shown};
use crate::key_files::KeyFiles;
use phalanx_core::file::{Carry, Made, Removal, sync_folder};
use phalanx_core::{Error, Result};
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// For folders that need not be readable.
const SEARCHED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How a tree is mirrored, and what its threads share.
pub struct Tree {
    /// The root's path, for messages.
    pub input: PathBuf,
    /// Its device and inode, once it is open.
    pub input_id: OnceLock<(u64, u64)>,
    /// The mirror's path, for messages; `None` where there is no mirror.
    pub output: Option<PathBuf>,
    /// Whether what stands in the way is replaced.
    pub force: bool,
    /// Whether the input goes away.
    pub remove: bool,
    pub sync: bool,
    pub carry: Carry,
    pub tally: Arc<Tally>,
    pub made: Arc<Made>,
    pub keys: Arc<KeyFiles>,
    /// A file in the tree that holds a key or password which this command uses.
    pub key_inside: OnceLock<PathBuf>,
    /// How many folders are open, with their mirrors.
    pub open: Arc<AtomicUsize>,
}

/// A folder and its mirror, open.
pub struct Handles {
    pub input: Arc<File>,
    pub output: Option<Arc<File>>,
    /// How many there are.
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

/// A link that has been mirrored.
struct Link {
    name: OsString,
    /// The mirrored one's device and inode.
    made: (u64, u64),
    removal: Removal,
}

/// A folder and its mirror. When the last file in it is done, the mirror takes over permissions and times.
pub struct Folder {
    /// Its name in its parent, whose mirror has the same.
    name: OsString,
    parent: Parent,
    handles: Mutex<Option<Arc<Handles>>>,
    input_id: (u64, u64),
    output_id: Option<(u64, u64)>,
    links: Mutex<Vec<Link>>,
    /// Whether something in it stays, and so it does itself.
    stays: AtomicBool,
    /// Whether it is, or is in, the folder of the keyring.
    keyring: bool,
    /// Whether its mirror's entry is on the disk.
    durable: AtomicBool,
    tree: Arc<Tree>,
}

/// What a folder is in. It is done only after this one.
enum Parent {
    Folder(Arc<Folder>),
    /// The root's: the folders that it and its mirror are in, where they are known.
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
        let at_input = |e: Errno| Failure::at(&tree.input, Error::Read(e.into()));
        // Named on the command line, the input may be a link.
        let input = fs::open(&tree.input, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(at_input)?;
        let input_id = id(&input).map_err(at_input)?;
        tree.input_id.get_or_init(|| input_id);
        let (mut output, mut output_parent, mut output_id) = (None, None, None);
        if let Some(path) = &tree.output {
            let at_output = |e: Errno| Failure::at(path, Error::Write(e.into()));
            let (parent, name) = open_parent(path).map_err(at_output)?;
            let is_there = |stat: fs::Stat| (stat.st_dev, stat.st_ino) == input_id;
            if is_within(&parent, input_id).map_err(at_output)?
                || fs::statat(&parent, &name, AtFlags::empty()).is_ok_and(is_there)
            {
                return Err(Failure::usage(format!("{}: the output is within the input", shown(path))));
            }
            let made = make(&tree, &parent, &name).map_err(|e| Failure::at(path, e))?;
            output_id = Some(id(&made).map_err(at_output)?);
            (output, output_parent) = (Some(made), Some(parent));
        }
        let (parent, name) = match tree.remove.then(|| fs_path(&tree.input)).flatten() {
            Some((parent, name)) => (Some(parent), name),
            None => (None, OsString::new()),
        };
        Ok(Arc::new(Self {
            name,
            parent: Parent::Root { input: parent, output: output_parent },
            handles: Mutex::new(Some(Handles::new(&tree, input.into(), output))),
            input_id,
            output_id,
            links: Mutex::default(),
            stays: AtomicBool::new(false),
            keyring: tree.keys.is_keyring(input_id),
            durable: AtomicBool::new(false),
            tree,
        }))
    }

    /// Opens a folder in this one.
    pub fn open(&self, handles: &Handles, name: &OsStr) -> Result<File> {
        let folder = fs::openat(&handles.input, name, FOLDER, Mode::empty()).map_err(read_error)?;
        if self.tree.made.contains(id(&folder).map_err(read_error)?) {
            let why = "it is an output of this run: the output is within the input";
            return Err(Error::Read(std::io::Error::other(why)));
        }
        Ok(folder.into())
    }

    /// A folder in this one, which has been opened as `input`: makes its mirror.
    pub fn child(self: &Arc<Self>, handles: &Handles, name: &OsStr, input: File) -> Result<Arc<Self>> {
        let input_id = id(&input).map_err(read_error)?;
        let output = handles.output.as_ref().map(|output| make(&self.tree, output, name)).transpose()?;
        let output_id = output.as_ref().map(id).transpose().map_err(write_error)?;
        Ok(Arc::new(Self {
            name: name.to_owned(),
            parent: Parent::Folder(self.clone()),
            handles: Mutex::new(Some(Handles::new(&self.tree, input, output))),
            input_id,
            output_id,
            links: Mutex::default(),
            stays: AtomicBool::new(false),
            keyring: self.keyring || self.tree.keys.is_keyring(input_id),
            durable: AtomicBool::new(false),
            tree: self.tree.clone(),
        }))
    }

    /// What it shares with the rest of its tree.
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

    /// Something in it is not deleted, so it stays itself.
    pub fn stays(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// A file in it whose name does not end as those do that are worked on.
    pub fn pass_over(&self, name: &OsStr) {
        self.stays();
        if self.tree.output.is_some() {
            let line = format!("{}: the name does not end in .phx: left out", shown(&self.path(name)));
            self.tree.tally.fail(&Failure::new(Code::NotAuthentic, line));
        }
    }

    /// Something in it that is no file to work on.
    pub fn leave_out(&self, name: &OsStr, kind: &str) {
        self.stays();
        self.tree.tally.leave_out(format!("{}: {kind}: left out", shown(&self.path(name))));
    }

    /// Whether a file in it is to be deleted: all are, but for those that hold keys and passwords.
    pub fn deletes(&self, file: (u64, u64), name: &OsStr) -> bool {
        let tree = &self.tree;
        if tree.keys.is_in_use(file) {
            tree.key_inside.get_or_init(|| self.path(name));
        }
        let holds_key = self.keyring || tree.keys.holds(file);
        if tree.remove && holds_key {
            self.stays();
            complain(format!("warning: {}: not deleted, since it holds a key or password", shown(&self.path(name))));
        }
        tree.remove && !holds_key
    }

    /// Both ends, if they are open.
    pub fn handles(&self) -> Option<Arc<Handles>> {
        lock(&self.handles).clone()
    }

    /// Closes both ends, unless somebody still works with them.
    pub fn park(&self) {
        *lock(&self.handles) = None;
    }

    /// Both ends, opened again through a child's where they are closed.
    pub fn handles_above(&self, child: &Handles) -> Result<Arc<Handles>> {
        if let Some(handles) = self.handles() {
            return Ok(handles);
        }
        let above = |end: &File, wanted| -> Result<File> {
            let folder = fs::openat(end, "..", FOLDER, Mode::empty()).map_err(read_error)?;
            if id(&folder).map_err(read_error)? != wanted {
                return Err(Error::Read(std::io::Error::other("the folder was moved meanwhile")));
            }
            Ok(folder.into())
        };
        let output = match (&child.output, self.output_id) {
            (Some(output), Some(id)) => Some(above(output, id)?),
            _ => None,
        };
        Ok(Handles::new(&self.tree, above(&child.input, self.input_id)?, output))
    }

    /// Opens both ends again through a child's, where they are closed: the work is near again.
    pub fn reopen(&self, child: &Handles) -> Result<()> {
        let handles = self.handles_above(child)?;
        *lock(&self.handles) = Some(handles);
        Ok(())
    }

    /// Makes the same link in the mirror, wherever it leads.
    pub fn link(&self, handles: &Handles, name: &OsStr) -> Result<()> {
        let stat = fs::statat(&handles.input, name, AtFlags::SYMLINK_NOFOLLOW).map_err(read_error)?;
        let target = fs::readlinkat(&handles.input, name, Vec::new()).map_err(read_error)?;
        let Some(output) = &handles.output else { return Ok(()) };
        let made = self.tree.made.symlink(&target, output, name, self.tree.force)?;
        let removal = Removal::link(handles.input.clone(), name, &stat, target);
        lock(&self.links).push(Link { name: name.to_owned(), made, removal });
        Ok(())
    }

    /// Makes sure that the entries of its mirror, and of all mirrors above, are on the disk.
    pub fn make_durable(&self, handles: &Arc<Handles>) -> Result<()> {
        let (mut folder, mut handles) = (self, handles.clone());
        while !folder.durable.load(Ordering::Acquire) {
            match &folder.parent {
                Parent::Folder(parent) => {
                    let above = parent.handles_above(&handles)?;
                    sync_folder(above.output()).map_err(write_error)?;
                    folder.durable.store(true, Ordering::Release);
                    (folder, handles) = (&**parent, above);
                }
                Parent::Root { output: Some(output), .. } => {
                    sync_folder(output).map_err(write_error)?;
                    folder.durable.store(true, Ordering::Release);
                }
                Parent::Root { .. } | Parent::Closed => break,
            }
        }
        Ok(())
    }

    /// Permissions and times of the mirror, once nothing is written to it any more; then deletes the links and, if
    /// nothing is left in it, the folder.
    fn finish(&mut self, handles: &Arc<Handles>) {
        let Some(output) = &handles.output else { return };
        let tree = self.tree.clone();
        let nameless = OsStr::new("");
        let done = tree.carry.folder(&handles.input, output).and_then(|()| match tree.sync {
            true => sync_folder(output).map_err(write_error),
            false => Ok(()),
        });
        let done = done.and_then(|()| if tree.remove { self.make_durable(handles) } else { Ok(()) });
        if let Err(e) = done {
            self.stays();
            tree.tally.fail(&Failure::at(&self.mirrored(nameless), e));
        } else if tree.remove && self.keyring {
            // Its links may be what leads to the keys.
            self.stays();
        } else if tree.remove {
            for Link { name, made, removal } in std::mem::take(&mut *lock(&self.links)) {
                let in_place = link_id(output, &name).is_ok_and(|now| now == made);
                let removed = if in_place { removal.run() } else { Err(Error::Displaced) };
                if let Err(e) = removed {
                    self.stays();
                    tree.tally.fail(&Failure::at(&self.path(&name), e));
                }
            }
            if !self.stays.load(Ordering::Relaxed)
                && let Err(e) = self.remove(handles)
            {
                self.stays();
                tree.tally.fail(&Failure::new(
                    Code::InputOutput,
                    format!("{}: not deleted: {e}", shown(&self.path(nameless))),
                ));
            }
        }
        if let (Parent::Folder(parent), true) = (&self.parent, self.stays.load(Ordering::Relaxed)) {
            parent.stays();
        }
    }

    /// Deletes the folder, which must be empty.
    fn remove(&self, handles: &Arc<Handles>) -> Result<(), String> {
        let above;
        let parent: &File = match &self.parent {
            Parent::Folder(parent) => {
                above = parent.handles_above(handles).map_err(|e| e.to_string())?;
                &above.input
            }
            Parent::Root { input: Some(input), .. } => input,
            Parent::Root { .. } | Parent::Closed => return Err("its own folder is not known".into()),
        };
        match fs::statat(parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if (stat.st_dev, stat.st_ino) == self.input_id => {}
            Ok(_) => return Err("another folder has its name by now".into()),
            Err(e) => return Err(e.to_string()),
        }
        match fs::unlinkat(parent, &self.name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Err("something new is in it".into()),
            removed => removed.map_err(|e| e.to_string()),
        }
    }

    /// What is left to do when nobody works in it any more. Gives its parent.
    fn close(&mut self) -> Option<Arc<Folder>> {
        let handles = lock(&self.handles).take();
        if let Some(handles) = handles {
            self.finish(&handles);
        }
        match std::mem::replace(&mut self.parent, Parent::Closed) {
            Parent::Folder(parent) => Some(parent),
            Parent::Root { .. } | Parent::Closed => None,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // One after another, since each would drop its parent within its own drop.
        let mut above = self.close();
        while let Some(mut folder) = above.and_then(Arc::into_inner) {
            above = folder.close();
        }
    }
}

/// Makes a folder of a mirror, or takes the one that is there, but none that this run has made already.
fn make(tree: &Tree, parent: &File, name: &OsStr) -> Result<File> {
    let is_new = match fs::mkdirat(parent, name, Mode::RWXU) {
        Err(Errno::EXIST) if tree.force && tree.made.is_alias(parent, name)? => return Err(Error::OwnOutput),
        Err(Errno::EXIST) if tree.force => false,
        Err(Errno::EXIST) => return Err(Error::Exists),
        made => made.map(|()| true).map_err(write_error)?,
    };
    let opened = fs::openat(parent, name, FOLDER, Mode::empty()).and_then(|folder| Ok((id(&folder)?, folder)));
    let (made, folder) = opened.map_err(|e| {
        if is_new {
            let _ = fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        }
        match e {
            Errno::LOOP | Errno::NOTDIR => Error::Write(std::io::Error::other("a link or file is in its way")),
            e => write_error(e),
        }
    })?;
    if is_new && !is_ours(parent, &folder).map_err(write_error)? {
        return Err(Error::Write(std::io::Error::other("somebody put another folder in its place")));
    }
    tree.made.is_alias(parent, name)?;
    if tree.input_id.get() == Some(&made) {
        return Err(Error::Write(std::io::Error::other("it is the input itself: the input is within the output")));
    }
    if !tree.made.insert(made) {
        return Err(Error::OwnOutput);
    }
    Ok(folder.into())
}

/// Whether a folder that was made just now is the one that was opened: where others may rename it, it must be this user's,
/// and closed to them. (Where a file system has no permissions, all folders look the same.)
fn is_ours(parent: &File, folder: &impl std::os::fd::AsFd) -> rustix::io::Result<bool> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    /// FAT, exFAT, NTFS, FUSE, SMB.
    const WITHOUT_PERMISSIONS: [u64; 6] = [0x4d44, 0x2011_bab0, 0x7366_746e, 0x6573_5546, 0xff53_4d42, 0xfe53_4d42];
    let user = rustix::process::geteuid().as_raw();
    let (above, stat) = (fs::fstat(parent)?, fs::fstat(folder)?);
    let others_rename = above.st_uid != user || above.st_mode & OTHERS_WRITE != 0 && above.st_mode & STICKY == 0;
    let looks_like_all = || {
        let kind = fs::fstatfs(parent).map(|stat| stat.f_type as u64);
        stat.st_mode & 0o777 == above.st_mode & 0o777 && kind.is_ok_and(|kind| WITHOUT_PERMISSIONS.contains(&kind))
    };
    Ok(!others_rename || stat.st_uid == user && (stat.st_mode & 0o077 == 0 || looks_like_all()))
}

/// The folder that a path's last name is in, and the name; the path itself and `.` where there is no last name.
fn open_parent(path: &Path) -> rustix::io::Result<(File, OsString)> {
    let (parent, name) = match path.file_name() {
        Some(name) => (path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")), name),
        None => (path, OsStr::new(".")),
    };
    let parent = fs::open(parent, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty())?;
    Ok((parent.into(), name.to_owned()))
}

/// The same for an input that is to be deleted, whose true name may not be in its path.
fn fs_path(path: &Path) -> Option<(File, OsString)> {
    match path.file_name() {
        Some(_) => open_parent(path).ok(),
        None => open_parent(&path.canonicalize().ok()?).ok(),
    }
}

/// Whether a folder is the one with the id `outer`, or somewhere in it.
fn is_within(inner: &File, outer: (u64, u64)) -> rustix::io::Result<bool> {
    let mut folder = fs::openat(inner, ".", SEARCHED, Mode::empty())?;
    loop {
        let here = id(&folder)?;
        if here == outer {
            return Ok(true);
        }
        folder = fs::openat(&folder, "..", SEARCHED, Mode::empty())?;
        if id(&folder)? == here {
            return Ok(false);
        }
    }
}

fn id(file: &impl std::os::fd::AsFd) -> rustix::io::Result<(u64, u64)> {
    fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino))
}

fn link_id(dir: &File, name: &OsStr) -> Result<(u64, u64)> {
    let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(write_error)?;
    Ok((stat.st_dev, stat.st_ino))
}

fn read_error(e: Errno) -> Error {
    Error::Read(e.into())
}

fn write_error(e: Errno) -> Error {
    Error::Write(e.into())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
