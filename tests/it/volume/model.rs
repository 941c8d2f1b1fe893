//! What a folder may contain after a kill: names, and for each file the contents that it has had since it was last
//! stored.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The length of a page in bytes. The kernel writes pages in any order.
const PAGE: usize = 4096;

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Folder,
    Link(String),
    /// A file of the model, by its number.
    File(u64),
}

/// Paths below the folder.
pub type Names = BTreeMap<String, Node>;

/// The contents of a file since it was last stored: first the stored one, then each later one.
#[derive(Clone)]
pub struct Content {
    pub versions: Vec<Vec<u8>>,
    /// Whether a write was refused, so that it is not known what is stored.
    pub is_tainted: bool,
}

impl Content {
    pub fn new(now: Vec<u8>) -> Self {
        Self { versions: vec![now], is_tainted: false }
    }

    pub fn now(&self) -> &Vec<u8> {
        self.versions.last().unwrap()
    }

    /// Notes that the present content is stored.
    pub fn stored(&mut self) {
        if !self.is_tainted {
            self.versions.drain(..self.versions.len() - 1);
        }
    }

    /// Checks a content that was found. Its length must be one that the file has had, or lie between two of them at the
    /// end of a page. Each byte must be that of some version.
    pub fn admits(&self, found: &[u8]) -> Result<(), String> {
        if self.versions.iter().any(|version| version == found) {
            return Ok(());
        }
        let lens: Vec<usize> = self.versions.iter().map(Vec::len).collect();
        let (least, most) = (*lens.iter().min().unwrap(), *lens.iter().max().unwrap());
        let is_between = (least..=most).contains(&found.len()) && found.len().is_multiple_of(PAGE);
        if !is_between && !lens.contains(&found.len()) {
            return Err(format!("{} bytes; it had {lens:?}", found.len()));
        }
        for at in 0..found.len() {
            let had = |version: &Vec<u8>| version.get(at).copied().unwrap_or(0) == found[at];
            if !self.versions.iter().any(had) {
                let all: Vec<_> = self.versions.iter().map(|version| version.get(at)).collect();
                return Err(format!(
                    "byte {at} of {} is {}; it was {all:?}, and lengths {lens:?}",
                    found.len(),
                    found[at]
                ));
            }
        }
        Ok(())
    }
}

/// A folder's names and contents.
#[derive(Default)]
pub struct Model {
    pub names: Names,
    pub files: HashMap<u64, Content>,
    next: u64,
}

/// The entries found in a folder: a file with its inode and its content.
type Found = BTreeMap<String, (Node, Vec<u8>)>;

impl Model {
    pub fn add_file(&mut self, now: Vec<u8>) -> u64 {
        self.next += 1;
        self.files.insert(self.next, Content::new(now));
        self.next
    }

    /// Compares a folder with the model's names, and with `others` that are possible too. Then the model becomes what
    /// was found.
    pub fn check(&mut self, root: &Path, others: &[Names]) -> Result<(), String> {
        let found = found(root).map_err(|e| e.to_string())?;
        let mut reasons = Vec::new();
        for names in std::iter::once(&self.names).chain(others) {
            match self.compare(names, &found) {
                Ok(()) => {
                    self.names = names.clone();
                    let all: Vec<(u64, Vec<u8>)> = self.contents(&found);
                    self.files = all.into_iter().map(|(id, now)| (id, Content::new(now))).collect();
                    return Ok(());
                }
                Err(reason) => reasons.push(reason),
            }
        }
        Err(reasons.join("\n or "))
    }

    fn contents(&self, found: &Found) -> Vec<(u64, Vec<u8>)> {
        let of = |(path, node): (&String, &Node)| match node {
            Node::File(id) => Some((*id, found[path].1.clone())),
            _ => None,
        };
        self.names.iter().filter_map(of).collect()
    }

    fn compare(&self, names: &Names, found: &Found) -> Result<(), String> {
        if let Some(lost) = names.keys().find(|path| !found.contains_key(*path)) {
            return Err(format!("{lost} is lost ({:?})", names[lost]));
        }
        if let Some(more) = found.keys().find(|path| !names.contains_key(*path)) {
            return Err(format!("{more} is there"));
        }
        let (mut inodes, mut ids) = (HashMap::new(), HashMap::new());
        for (path, node) in names {
            match (node, &found[path]) {
                (Node::File(id), (Node::File(inode), content)) => {
                    if *inodes.entry(*id).or_insert(*inode) != *inode || *ids.entry(*inode).or_insert(*id) != *id {
                        return Err(format!("{path} is another file"));
                    }
                    self.files[id].admits(content).map_err(|why| format!("{path}: {why}"))?;
                }
                (node, (other, _)) if node == other => {}
                (node, (other, _)) => return Err(format!("{path} is {other:?} and not {node:?}")),
            }
        }
        Ok(())
    }
}

fn found(root: &Path) -> io::Result<Found> {
    let (mut all, mut folders) = (Found::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let at = |e: io::Error| io::Error::other(format!("{}: {e}", path.display()));
            let meta = path.symlink_metadata().map_err(at)?;
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let what = if meta.is_dir() {
                folders.push(path);
                (Node::Folder, Vec::new())
            } else if meta.is_symlink() {
                (Node::Link(fs::read_link(&path).map_err(at)?.to_str().unwrap().to_owned()), Vec::new())
            } else {
                let content = fs::read(&path).map_err(at)?;
                assert_eq!(content.len() as u64, meta.len(), "{}", path.display());
                (Node::File(meta.ino()), content)
            };
            all.insert(name, what);
        }
    }
    Ok(all)
}
