//! Random work in a folder of a mounted volume, with a model of what must be in the folder afterwards.

use super::model::{Model, Names, Node};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with, statfs};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

/// The most contents of one file that the model keeps.
const VERSIONS: usize = 12;
/// The longest file, in bytes.
const LONGEST: u64 = 3 << 20;
const OPEN: usize = 5;

/// A generator of random numbers. The same seed gives the same numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    pub fn bytes(&mut self, len: u64) -> Vec<u8> {
        let (first, step) = (self.next() as u8, 1 + self.below(200) as usize);
        (0..len as usize).map(|i| first.wrapping_add((i * step / 7) as u8)).collect()
    }

    pub fn len(&mut self) -> u64 {
        match self.below(20) {
            0 => 0,
            1..=9 => self.below(3000),
            10..=15 => self.below(20_000),
            16..=18 => self.below(150_000),
            // Longer data than the journal takes: they go to their place directly.
            _ => (256 << 10) + self.below(700_000),
        }
    }
}

/// Why a worker stops.
#[derive(Debug)]
pub enum Stop {
    /// The mount is gone.
    Gone,
    /// An error that must not happen.
    #[expect(dead_code, reason = "it is printed")]
    Wrong(String),
}

pub struct Worker {
    pub root: PathBuf,
    pub random: Random,
    pub model: Model,
    /// The names that are also possible if the last operation was cut short.
    pub maybe: Vec<Names>,
    open: Vec<(u64, File)>,
    /// How often the disk was full. `None` if it must not become full.
    pub full: Option<u64>,
    /// Whether only synced files count as stored.
    pub only_synced: bool,
    pub steps: u64,
}

type Step = io::Result<()>;

impl Worker {
    pub fn new(root: &Path, seed: u64) -> Self {
        Self {
            root: root.to_owned(),
            random: Random::new(seed),
            model: Model::default(),
            maybe: Vec::new(),
            open: Vec::new(),
            full: None,
            only_synced: false,
            steps: 0,
        }
    }

    /// Compares the folder with the model. Then the model becomes what was found.
    pub fn check(&mut self) -> Result<(), String> {
        self.open.clear();
        self.model.check(&self.root, &std::mem::take(&mut self.maybe))
    }

    /// Works until the mount is gone, `until` is true, or something is wrong.
    pub fn work(&mut self, until: impl Fn(&Self) -> bool) -> Result<(), Stop> {
        while !until(self) {
            self.steps += 1;
            let number = self.random.below(100);
            if let Err(error) = self.step(number) {
                self.failed(number, &error)?;
            }
        }
        Ok(())
    }

    /// Removes about half of the files.
    pub fn remove_half(&mut self) -> Result<(), Stop> {
        self.open.clear();
        for _ in 0..self.paths(|node| matches!(node, Node::File(_))).len() / 2 {
            if let Err(error) = self.unlink() {
                self.failed(100, &error)?;
            }
        }
        Ok(())
    }

    pub fn close_all(&mut self) {
        self.open.clear();
    }

    fn failed(&mut self, number: u64, error: &io::Error) -> Result<(), Stop> {
        if statfs(&self.root).is_err() {
            self.open.clear();
            return Err(Stop::Gone);
        }
        // ENOSPC
        match &mut self.full {
            Some(times) if error.raw_os_error() == Some(28) => {
                *times += 1;
                self.maybe.clear();
                Ok(())
            }
            _ => Err(Stop::Wrong(format!("step {}, operation {number}: {error}", self.steps))),
        }
    }

    fn step(&mut self, number: u64) -> Step {
        match number {
            0..18 => self.create(),
            18..40 => self.write(),
            40..46 => self.append(),
            46..51 => self.set_len(),
            51..54 => self.punch(),
            54..62 => self.sync(),
            62..68 => self.close(),
            68..70 => self.sync_folder(),
            70..79 => self.rename(),
            79..81 => self.exchange(),
            81..87 => self.unlink(),
            87..90 => self.link(),
            90..93 => self.symlink(),
            93..97 => self.mkdir(),
            97..99 => self.rmdir(),
            _ => self.rewrite(),
        }
    }

    // Files

    fn create(&mut self) -> Step {
        let Some(path) = self.free_path() else { return Ok(()) };
        let id = self.model.add_file(Vec::new());
        let mut after = self.model.names.clone();
        after.insert(path.clone(), Node::File(id));
        let mut made = None;
        let full = self.root.join(path);
        self.rename_model(after, &[], || {
            made = Some(OpenOptions::new().read(true).write(true).create_new(true).open(full)?);
            Ok(())
        })?;
        self.open.extend(made.map(|file| (id, file)));
        let len = self.random.len();
        let bytes = self.random.bytes(len);
        self.write_to(self.open.len() - 1, 0, &bytes)?;
        if self.open.len() > OPEN || self.random.below(3) > 0 { self.close_at(self.open.len() - 1) } else { Ok(()) }
    }

    /// A file that is open: in most cases one that was open already.
    fn some_file(&mut self) -> io::Result<Option<usize>> {
        if !self.open.is_empty() && self.random.below(3) > 0 {
            return Ok(Some(self.random.below(self.open.len() as u64) as usize));
        }
        if self.open.len() > OPEN {
            self.close()?;
        }
        let Some(path) = self.pick(|node| matches!(node, Node::File(_))) else { return Ok(None) };
        let Node::File(id) = self.model.names[&path] else { unreachable!() };
        let file = OpenOptions::new().read(true).write(true).open(self.root.join(path))?;
        self.open.push((id, file));
        Ok(Some(self.open.len() - 1))
    }

    /// Changes a file and its model. During the change both contents are possible.
    fn change(&mut self, at: usize, then: Vec<u8>, change: impl FnOnce(&File) -> io::Result<()>) -> Step {
        let (id, file) = &self.open[at];
        let content = self.model.files.get_mut(id).unwrap();
        content.versions.push(then);
        let done = change(file);
        content.is_tainted |= done.is_err();
        done?;
        if content.versions.len() > VERSIONS { self.sync_at(at) } else { Ok(()) }
    }

    fn write_to(&mut self, at: usize, offset: u64, bytes: &[u8]) -> Step {
        let mut then = self.model.files[&self.open[at].0].now().clone();
        let end = offset as usize + bytes.len();
        if then.len() < end && !bytes.is_empty() {
            then.resize(end, 0);
        }
        if !bytes.is_empty() {
            then[offset as usize..end].copy_from_slice(bytes);
        }
        self.change(at, then, |file| file.write_all_at(bytes, offset))
    }

    fn len_at(&self, at: usize) -> u64 {
        self.model.files[&self.open[at].0].now().len() as u64
    }

    fn write(&mut self) -> Step {
        let Some(at) = self.some_file()? else { return Ok(()) };
        let len = self.random.len();
        let most = match self.random.below(8) {
            // After the end.
            0 => (self.len_at(at) + 200_000).min(LONGEST),
            _ => self.len_at(at) + 1,
        };
        let (offset, bytes) = (self.random.below(most), self.random.bytes(len));
        self.write_to(at, offset, &bytes)
    }

    fn append(&mut self) -> Step {
        let Some(at) = self.some_file()? else { return Ok(()) };
        let (end, len) = (self.len_at(at), self.random.len());
        if end > LONGEST {
            return Ok(());
        }
        let bytes = self.random.bytes(len);
        self.write_to(at, end, &bytes)
    }

    /// Truncates a file and writes it again, as most programs do.
    fn rewrite(&mut self) -> Step {
        let Some(at) = self.some_file()? else { return Ok(()) };
        self.change(at, Vec::new(), |file| file.set_len(0))?;
        let len = self.random.len();
        let bytes = self.random.bytes(len);
        self.write_to(at, 0, &bytes)
    }

    fn set_len(&mut self) -> Step {
        let Some(at) = self.some_file()? else { return Ok(()) };
        let now = self.model.files[&self.open[at].0].now();
        let most = if self.random.below(2) == 0 { now.len() as u64 + 1 } else { LONGEST };
        let len = match self.random.below(10) {
            0 => most,
            _ => now.len() as u64 + 100_000,
        };
        let len = self.random.below(len.min(LONGEST));
        let mut then = now.clone();
        then.resize(len as usize, 0);
        self.change(at, then, |file| file.set_len(len))
    }

    fn punch(&mut self) -> Step {
        let Some(at) = self.some_file()? else { return Ok(()) };
        let mut then = self.model.files[&self.open[at].0].now().clone();
        let start = self.random.below(then.len() as u64 + 1);
        let len = 1 + self.random.below(100_000);
        let end = (start + len).min(then.len() as u64);
        then[start as usize..end as usize].fill(0);
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.change(at, then, |file| Ok(fallocate(file, how, start, len)?))
    }

    fn sync(&mut self) -> Step {
        if self.open.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.open.len() as u64) as usize;
        self.sync_at(at)
    }

    fn sync_at(&mut self, at: usize) -> Step {
        let (id, file) = &self.open[at];
        let content = self.model.files.get_mut(id).unwrap();
        let synced = if self.random.below(2) == 0 { file.sync_all() } else { file.sync_data() };
        content.is_tainted |= synced.is_err();
        synced?;
        content.stored();
        Ok(())
    }

    fn close(&mut self) -> Step {
        if self.open.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.open.len() as u64) as usize;
        self.close_at(at)
    }

    fn close_at(&mut self, at: usize) -> Step {
        if self.only_synced {
            // No program gets the errors of a close.
            self.sync_at(at)?;
        }
        let (id, file) = self.open.swap_remove(at);
        drop(file);
        // If the mount still answers, it has processed the close.
        statfs(&self.root)?;
        if !self.only_synced {
            self.model.files.get_mut(&id).unwrap().stored();
        }
        Ok(())
    }

    // Names

    fn sync_folder(&mut self) -> Step {
        let folder = self.pick(|node| *node == Node::Folder).unwrap_or_default();
        File::open(self.root.join(folder))?.sync_all()
    }

    /// Changes names. During the change, the old names, the new ones and those in between are possible.
    fn rename_model(&mut self, after: Names, between: &[Names], change: impl FnOnce() -> Step) -> Step {
        self.maybe = between.to_vec();
        self.maybe.push(after);
        change()?;
        self.model.names = self.maybe.pop().unwrap();
        self.maybe.clear();
        Ok(())
    }

    fn without(&self, path: &str) -> Names {
        let mut names = self.model.names.clone();
        names.remove(path);
        names
    }

    fn paths(&self, is_wanted: impl Fn(&Node) -> bool) -> Vec<String> {
        self.model.names.iter().filter(|(_, node)| is_wanted(node)).map(|(path, _)| path.clone()).collect()
    }

    fn pick(&mut self, is_wanted: impl Fn(&Node) -> bool) -> Option<String> {
        let paths = self.paths(is_wanted);
        (!paths.is_empty()).then(|| paths[self.random.below(paths.len() as u64) as usize].clone())
    }

    /// A path in some folder. It may exist already.
    fn some_path(&mut self) -> String {
        let folder = match self.random.below(3) {
            0 => String::new(),
            _ => self.pick(|node| *node == Node::Folder).unwrap_or_default(),
        };
        let number = self.random.below(14);
        // Some names are stored by their hashes.
        let name = if number < 4 { format!("{number:x>200}") } else { format!("n{number}") };
        if folder.is_empty() { name } else { format!("{folder}/{name}") }
    }

    fn free_path(&mut self) -> Option<String> {
        for _ in 0..8 {
            let path = self.some_path();
            if !self.model.names.contains_key(&path) && path.len() < 2500 {
                return Some(path);
            }
        }
        None
    }

    fn has_entries(&self, folder: &str) -> bool {
        let within = format!("{folder}/");
        self.model.names.keys().any(|path| path.starts_with(&within))
    }

    /// All names after one of them, with everything below it, has been moved to another.
    fn moved(&self, from: &str, to: &str) -> Names {
        let within = format!("{from}/");
        let mut names = Names::new();
        for (path, node) in self.model.names.iter().filter(|(path, _)| *path != to) {
            let path = match path.strip_prefix(&within) {
                _ if path == from => to.to_owned(),
                Some(rest) => format!("{to}/{rest}"),
                None => path.clone(),
            };
            names.insert(path, node.clone());
        }
        names
    }

    fn rename(&mut self) -> Step {
        let Some(from) = self.pick(|_| true) else { return Ok(()) };
        let to = self.some_path();
        let (node, old) = (self.model.names[&from].clone(), self.model.names.get(&to).cloned());
        let is_within = to == from || to.starts_with(&format!("{from}/")) || from.starts_with(&format!("{to}/"));
        let is_possible = match (&node, &old) {
            (_, None) => true,
            (Node::Folder, Some(Node::Folder)) => !self.has_entries(&to),
            (Node::Folder, _) | (_, Some(Node::Folder)) => false,
            // If both are names of the same file, both stay.
            (node, Some(old)) => node != old || matches!(node, Node::Link(_)),
        };
        if is_within || !is_possible || to.len() > 2500 {
            return Ok(());
        }
        let after = self.moved(&from, &to);
        let mut between = Vec::new();
        match node {
            // A link is made before the old one is removed.
            Node::Link(_) => {
                let mut both = self.model.names.clone();
                both.insert(to.clone(), node);
                between.push(both);
            }
            // An empty folder is removed before another takes its place.
            Node::Folder if old.is_some() => between.push(self.without(&to)),
            _ => {}
        }
        let (from, to) = (self.root.join(from), self.root.join(to));
        self.rename_model(after, &between, || fs::rename(from, to))
    }

    fn exchange(&mut self) -> Step {
        let is_no_link = |node: &Node| !matches!(node, Node::Link(_));
        let (Some(a), Some(b)) = (self.pick(is_no_link), self.pick(is_no_link)) else { return Ok(()) };
        if a == b || a.starts_with(&format!("{b}/")) || b.starts_with(&format!("{a}/")) {
            return Ok(());
        }
        let mut after = Names::new();
        for (path, node) in &self.model.names {
            let swapped = [(&a, &b), (&b, &a)].into_iter().find_map(|(from, to)| {
                let rest = path.strip_prefix(from.as_str())?;
                (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
            });
            after.insert(swapped.unwrap_or_else(|| path.clone()), node.clone());
        }
        let (a, b) = (self.root.join(a), self.root.join(b));
        self.rename_model(after, &[], || Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?))
    }

    fn unlink(&mut self) -> Step {
        let Some(path) = self.pick(|node| *node != Node::Folder) else { return Ok(()) };
        let after = self.without(&path);
        let path = self.root.join(path);
        self.rename_model(after, &[], || fs::remove_file(path))
    }

    fn link(&mut self) -> Step {
        let Some(from) = self.pick(|node| matches!(node, Node::File(_))) else { return Ok(()) };
        let Some(to) = self.free_path() else { return Ok(()) };
        let mut after = self.model.names.clone();
        after.insert(to.clone(), after[&from].clone());
        let (from, to) = (self.root.join(from), self.root.join(to));
        self.rename_model(after, &[], || fs::hard_link(from, to))
    }

    fn symlink(&mut self) -> Step {
        let Some(path) = self.free_path() else { return Ok(()) };
        let target = format!("to/{}", self.random.next());
        let mut after = self.model.names.clone();
        after.insert(path.clone(), Node::Link(target.clone()));
        let path = self.root.join(path);
        self.rename_model(after, &[], || symlink(target, path))
    }

    fn mkdir(&mut self) -> Step {
        let Some(path) = self.free_path() else { return Ok(()) };
        let mut after = self.model.names.clone();
        after.insert(path.clone(), Node::Folder);
        let path = self.root.join(path);
        self.rename_model(after, &[], || fs::create_dir(path))
    }

    fn rmdir(&mut self) -> Step {
        let Some(path) = self.pick(|node| *node == Node::Folder) else { return Ok(()) };
        if self.has_entries(&path) {
            return Ok(());
        }
        let after = self.without(&path);
        let path = self.root.join(path);
        self.rename_model(after, &[], || fs::remove_dir(path))
    }
}
