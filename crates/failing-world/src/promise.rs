//! What a volume has promised by its answers: which names and contents may be there after a kill or a power cut.

use crate::runner::painted;
use crate::volume::{NAMES, Request};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of a volume's chunk.
const CHUNK: usize = 4096;

/// The contents of a file since it was last on the disk: that first, the present one last.
#[derive(Clone)]
struct File {
    versions: Vec<Vec<u8>>,
    is_synced: bool,
}

/// What names may lead to: that which is surely on the disk first, the present last.
type Names = BTreeMap<usize, Vec<Option<usize>>>;

/// What is known of a volume.
#[derive(Clone)]
pub struct Known {
    names: Names,
    files: HashMap<usize, File>,
    /// The files that are surely there, under one of their names: their content and a name of theirs were synced, and nothing has
    /// removed or replaced them since.
    kept: BTreeSet<usize>,
    /// Whether the power was cut. A kill alone loses no names, and no content that was handed over.
    is_cut: bool,
    /// Whether the volume finds what was put back. Then a removal may be known before it is on the disk, and the file is refused.
    finds_removals: bool,
}

impl Known {
    /// After [`crate::volume::Script::Begin`].
    fn new(is_cut: bool, finds_removals: bool) -> Self {
        let (names, files, kept) = (Names::new(), HashMap::new(), BTreeSet::new());
        let mut known = Self { names, files, kept, is_cut, finds_removals };
        for (name, len) in [(0, 9000), (3, 100)] {
            known.names.insert(name, vec![Some(name)]);
            known.files.insert(name, File { versions: vec![painted(len, 100 + name as u64)], is_synced: true });
            known.kept.insert(name);
        }
        known
    }

    /// After these requests, of which so many were acknowledged. The next one may have been done, in part.
    /// `is_closed` says that the volume was closed afterwards.
    pub fn after(
        requests: &[Request],
        acknowledged: usize,
        is_closed: bool,
        is_cut: bool,
        finds_removals: bool,
    ) -> Vec<Self> {
        let mut known = Self::new(is_cut, finds_removals);
        requests[..acknowledged].iter().for_each(|request| known.follow(request, true));
        if is_closed && !is_cut {
            // What an error has reported as dropped is not there. It was of the files of that request.
            let names = requests.get(acknowledged).map_or(vec![], Request::names);
            let failed: Vec<usize> = names.iter().filter_map(|name| *known.names.get(name)?.last()?).collect();
            let others = known.files.iter_mut().filter(|(id, _)| !failed.contains(id));
            others.for_each(|(_, file)| drop(file.versions.drain(..file.versions.len() - 1)));
        }
        let mut all = vec![known.clone()];
        if let Some(next) = requests.get(acknowledged) {
            known.follow(next, false);
            all.push(known);
        }
        all
    }

    fn leads(&mut self, name: usize, to: Option<usize>) {
        let all = self.names.entry(name).or_insert_with(|| vec![None]);
        if let Some(gone) = all.last().copied().flatten() {
            self.kept.remove(&gone);
        }
        if !self.is_cut {
            all.clear();
        }
        all.push(to);
    }

    fn now(&self, name: usize) -> usize {
        self.names[&name].last().copied().flatten().expect("a file of the script")
    }

    fn change(&mut self, name: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let id = self.now(name);
        let versions = &mut self.files.get_mut(&id).expect("a file").versions;
        let mut then = versions.last().expect("a version").clone();
        change(&mut then);
        versions.push(then);
    }

    /// Content that is on the disk, or handed over to the system.
    fn stored(&mut self, name: usize) {
        let id = self.now(name);
        let versions = &mut self.files.get_mut(&id).expect("a file").versions;
        versions.drain(..versions.len() - 1);
    }

    fn follow(&mut self, request: &Request, is_done: bool) {
        match request {
            Request::Create(name) => {
                let id = self.files.len() + 10;
                self.files.insert(id, File { versions: vec![Vec::new()], is_synced: false });
                self.leads(*name, Some(id));
            }
            Request::Write(name, offset, bytes) => {
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                // One that fails may have been done up to a chunk.
                let chunks = (start / CHUNK + 1..).map(|chunk| chunk * CHUNK).take_while(|at| !is_done && *at < end);
                for end in chunks.chain([end]) {
                    self.change(*name, |content| {
                        content.resize(content.len().max(end), 0);
                        content[start..end].copy_from_slice(&bytes[..end - start]);
                    });
                }
            }
            Request::Len(name, len) => self.change(*name, |content| content.resize(*len as usize, 0)),
            Request::Flush(name) if is_done && !self.is_cut => self.stored(*name),
            Request::Sync(name) if is_done => {
                self.stored(*name);
                let id = self.now(*name);
                self.files.get_mut(&id).expect("a file").is_synced = true;
                self.kept.insert(id);
                let all = self.names.get_mut(name).expect("a name");
                all.drain(..all.len() - 1);
            }
            Request::SyncFolder(is_root) if is_done => {
                let names = self.names.iter_mut().filter(|(name, _)| NAMES[**name].starts_with("d/") != *is_root);
                for (_, all) in names {
                    all.drain(..all.len() - 1);
                    self.kept.extend(all[0].filter(|id| self.files[id].is_synced));
                }
            }
            Request::Rename(from, to) => {
                let id = self.now(*from);
                let is_kept = self.kept.contains(&id);
                self.leads(*to, Some(id));
                self.leads(*from, None);
                // It is the same file.
                self.kept.extend(is_kept.then_some(id));
            }
            Request::Remove(name) => self.leads(*name, None),
            Request::Flush(_) | Request::Sync(_) | Request::SyncFolder(_) => {}
        }
    }

    /// Whether something was never synced, so that a power cut may damage it.
    pub fn may_be_damaged(&self) -> bool {
        let is_unsynced = self.files.values().any(|file| !file.is_synced);
        self.is_cut && (is_unsynced || self.finds_removals && self.names.values().any(|all| all.len() > 1))
    }

    /// Compares with what was found. Under the names in `refused` there may be files that cannot be read.
    pub fn admits(&self, found: &BTreeMap<String, Option<Vec<u8>>>, refused: &[usize]) -> Result<(), String> {
        if let Some(path) = found.keys().find(|path| !NAMES.contains(&&***path)) {
            return Err(format!("{path} is there"));
        }
        let mut choices = Vec::new();
        for (name, path) in NAMES.iter().enumerate() {
            let none = vec![None];
            let all = self.names.get(&name).unwrap_or(&none);
            let content = found.get(*path).map(Option::as_ref);
            let mut fitting = self.fitting(all, content);
            if content == Some(None) && refused.contains(&name) {
                fitting.extend(all);
            }
            if fitting.is_empty() {
                let found = found.get(*path).map(|content| content.as_ref().map(Vec::len));
                let lens: Vec<Vec<usize>> =
                    all.iter().flatten().map(|id| self.files[id].versions.iter().map(Vec::len).collect()).collect();
                return Err(format!("{path}: {found:?}; it led to {all:?}, with lengths {lens:?}"));
            }
            choices.push(fitting);
        }
        if fits(&choices, &mut BTreeSet::new(), &self.kept) {
            return Ok(());
        }
        let lens: Vec<_> = found.iter().map(|(path, content)| (path, content.as_ref().map(Vec::len))).collect();
        Err(format!(
            "files {:?} are to be there, each once, under the names {:?}; there is {lens:?}",
            self.kept, self.names
        ))
    }

    /// Which files it may be that was found under a name that may lead to these. `None` stands for no file.
    fn fitting(&self, all: &[Option<usize>], found: Option<Option<&Vec<u8>>>) -> BTreeSet<Option<usize>> {
        let fits = |to: &Option<usize>| {
            let Some(id) = to else { return found.is_none() };
            let file = &self.files[id];
            let is_torn = self.is_cut && !file.is_synced;
            match found {
                // A file that was not synced may be lost though its name is there.
                None => is_torn,
                // And a removal may be known before it is on the disk.
                Some(None) => is_torn || self.finds_removals && all.len() > 1 && !self.kept.contains(id),
                Some(Some(content)) => file.versions.contains(content) || is_torn && file.may_be_torn_to(content),
            }
        };
        all.iter().filter(|to| fits(to)).copied().collect()
    }
}

impl File {
    /// Whether content may be what a power cut has left of it: each chunk is that of a version, or has not come to the disk.
    fn may_be_torn_to(&self, content: &[u8]) -> bool {
        content.chunks(CHUNK).enumerate().all(|(number, chunk)| {
            let was = |version: &Vec<u8>| version.get(number * CHUNK..).is_some_and(|rest| rest.starts_with(chunk));
            self.versions.iter().any(was) || chunk.iter().all(|byte| *byte == 0)
        })
    }
}

/// Whether there is one file for each name, no file for two, and all that are to be there for one.
fn fits(choices: &[BTreeSet<Option<usize>>], used: &mut BTreeSet<usize>, kept: &BTreeSet<usize>) -> bool {
    let Some((first, rest)) = choices.split_first() else { return kept.is_subset(used) };
    first.iter().any(|to| match to {
        None => fits(rest, used, kept),
        Some(id) if used.insert(*id) => {
            let is_right = fits(rest, used, kept);
            used.remove(id);
            is_right
        }
        Some(_) => false,
    })
}
