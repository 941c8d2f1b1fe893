//! The roots of trees, and the folders in them. A folder is opened from its root, name by name, and no link is
//! followed. So a change to the tree cannot lead a process out of it.

use crate::message::{Welcome, name};
use phalanx_core::Error as CoreError;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::folders::{self, FOLDER};
use phalanx_host::lines::shown;
use phalanx_host::lock::lock;
use phalanx_host::{Error, Result};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// FUSE_SUPER_MAGIC
const FUSE: u64 = 0x6573_5546;

/// The roots of the trees and of their mirrors.
pub struct Roots {
    roots: Vec<Root>,
    /// The folder that was opened last. The next task is often in the same folder.
    last: Mutex<Option<(u32, Vec<u8>, Dirs)>>,
}

/// A root and its mirror. They stay open as long as the process runs.
struct Root {
    input: (PathBuf, File),
    output: Option<(PathBuf, File)>,
}

/// A folder and its mirror.
#[derive(Clone)]
pub struct Dirs {
    pub input: Arc<File>,
    pub output: Option<Arc<File>>,
}

impl Roots {
    /// Opens the roots that rank 0 has found and made.
    pub fn new(welcome: &Welcome) -> Outcome<Self> {
        welcome.outputs.iter().try_for_each(|(folder, mark, bytes)| check_output(folder, mark, bytes))?;
        let open = |(path, inode): &(Vec<u8>, u64), more: OFlags| -> Outcome<(PathBuf, File)> {
            let path = PathBuf::from(name(path));
            let flags = FOLDER.difference(OFlags::NOFOLLOW).union(more);
            let opened = fs::open(&path, flags, Mode::empty()).map_err(|e| Failure::at(&path, Error::read(e)))?;
            let stat = fs::fstat(&opened).map_err(|e| Failure::at(&path, Error::read(e)))?;
            // A FUSE file system may use other inode numbers on each machine.
            let has_numbers = fs::fstatfs(&opened).is_ok_and(|stat| stat.f_type as u64 != FUSE);
            if has_numbers && stat.st_ino != *inode {
                let why = "this process sees another folder here than rank 0 (is it shared?)";
                return Err(Failure::new(Code::InputOutput, format!("{}: {why}", shown(&path))));
            }
            Ok((path, opened.into()))
        };
        let roots = welcome.trees.iter().map(|tree| {
            // The input is named on the command line, and may be a link. The mirror was made by this run.
            let input = open(&tree.input, OFlags::empty())?;
            let output = tree.output.as_ref().map(|output| open(output, OFlags::NOFOLLOW)).transpose()?;
            Ok(Root { input, output })
        });
        Ok(Self { roots: roots.collect::<Outcome<_>>()?, last: Mutex::default() })
    }

    /// The path of an entry of a tree's folder, for messages. Without a tree: the path itself.
    pub fn path(&self, tree: Option<u32>, folder: &[u8], of: &[u8]) -> PathBuf {
        let root = tree.map_or_else(PathBuf::new, |tree| self.roots[tree as usize].input.0.clone());
        joined(root, folder, of)
    }

    /// The path of an entry of a mirror's folder, for messages. Without a tree: the path itself.
    pub fn mirrored(&self, tree: Option<u32>, folder: &[u8], of: &[u8]) -> PathBuf {
        let root = tree.and_then(|tree| Some(self.roots[tree as usize].output.as_ref()?.0.clone()));
        joined(root.unwrap_or_default(), folder, of)
    }

    /// Opens a folder and its mirror.
    pub fn open(&self, tree: u32, folder: &[u8]) -> Result<Dirs> {
        if let Some((its, path, dirs)) = &*lock(&self.last)
            && (*its, path.as_slice()) == (tree, folder)
        {
            return Ok(dirs.clone());
        }
        let Root { input, output } = &self.roots[tree as usize];
        let mirror = |(_, root): &(PathBuf, File)| descend(root, folder).map_err(as_write);
        let dirs = Dirs {
            input: Arc::new(descend(&input.1, folder)?),
            output: output.as_ref().map(mirror).transpose()?.map(Arc::new),
        };
        *lock(&self.last) = Some((tree, folder.to_vec(), dirs.clone()));
        Ok(dirs)
    }

    /// Whether an opened folder is the root of a tree, or, with `of_mirror`, of a mirror.
    pub fn is_root(&self, folder: &File, of_mirror: bool) -> Result<bool> {
        let id = folders::id(folder).map_err(Error::read)?;
        let root = |root: &Root| match of_mirror {
            true => root.output.as_ref().is_some_and(|(_, output)| folders::id(output) == Ok(id)),
            false => folders::id(&root.input.1) == Ok(id),
        };
        Ok(self.roots.iter().any(root))
    }
}

/// Makes sure that this process sees the same folder as rank 0, by the file that rank 0 has made in it.
fn check_output(folder: &[u8], mark: &[u8], bytes: &[u8; 32]) -> Outcome {
    let path = Path::new(name(folder));
    let at = |e: std::io::Error| Failure::at(path, Error::write(e));
    let dir = fs::open(path, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(|e| at(e.into()))?;
    let mut there = [0; 32];
    let is_same = match open_begun(&dir.into(), mark) {
        Ok(file) => file.read_exact_at(&mut there, 0).is_ok() && there == *bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
        Err(e) => return Err(at(e)),
    };
    if !is_same {
        let why = "this process sees another folder here than rank 0 (is it shared?)";
        return Err(Failure::new(Code::InputOutput, format!("{}: {why}", shown(path))));
    }
    Ok(())
}

fn joined(mut path: PathBuf, folder: &[u8], of: &[u8]) -> PathBuf {
    [folder, of].into_iter().filter(|part| !part.is_empty()).for_each(|part| path.push(name(part)));
    path
}

fn descend(root: &File, folder: &[u8]) -> Result<File> {
    let mut at = fs::openat(root, ".", FOLDER, Mode::empty()).map_err(Error::read)?;
    for part in folder.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        at = fs::openat(&at, part, FOLDER, Mode::empty()).map_err(Error::read)?;
    }
    Ok(at.into())
}

/// A read that fails while an output is made counts as a failed write.
pub fn as_write(error: Error) -> Error {
    if let Error::Core(CoreError::Read(e)) = error { Error::write(e) } else { error }
}

/// Opens an output that has been begun. It may take a while until all machines see it.
pub fn open_begun(dir: &File, temporary: &[u8]) -> io::Result<File> {
    const TIMES: u32 = 100;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut left = TIMES;
    loop {
        // Opening the folder again makes a network file system refresh its entries.
        let opened = fs::openat(dir, ".", FOLDER, Mode::empty())
            .and_then(|folder| fs::openat(&folder, temporary, flags, Mode::empty()));
        match opened {
            Ok(file) => return Ok(file.into()),
            Err(Errno::NOENT | Errno::STALE) if left > 0 => {
                left -= 1;
                thread::sleep(Duration::from_millis(100));
            }
            Err(e) => return Err(e.into()),
        }
    }
}
