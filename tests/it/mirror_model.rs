//! Random histories of small trees. After each step the mirror holds what its source holds, and another run has nothing
//! to do.

use crate::common::{Content, Ended, Entries, Sandbox, difference, entries, is_exhaustive, without_inodes};
use crate::volume::workload::Random;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

/// The number of steps of a history.
const STEPS: u64 = 6;
/// The times that entries get are before this one, and those of the clock are after it.
const NOW: i64 = 1_500_000_000;
/// Names that collide often, and are odd.
const NAMES: [&[u8]; 14] = [
    b"a",
    b"b",
    b"c d ",
    b"a.phx",
    b"b.phx",
    b"a.phx.phx",
    b"new\nline",
    b"\xff\xfe",
    b"-k",
    b".hidden",
    b"~1~",
    b"phalanx.tree",
    "na\u{ef}ve \u{202e}".as_bytes(),
    // With the ending .phx it has the most bytes that a name may have.
    &[b'L'; 251],
];

/// A number that a variable names.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A few histories, or 100 if PHALANX_EXHAUSTIVE is set. PHALANX_HISTORIES names another number, and PHALANX_SEED the
/// first history.
#[test]
fn each_step_of_each_history_is_mirrored() {
    let number = variable("PHALANX_HISTORIES").unwrap_or_else(|| if is_exhaustive() { 100 } else { 30 });
    let first = variable("PHALANX_SEED").unwrap_or(0);
    let next = AtomicU64::new(first);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + number {
                return;
            }
            History::new(seed).run();
        }
    };
    thread::scope(|scope| [(); 2].map(|()| scope.spawn(work)).map(|worker| worker.join().unwrap()));
    println!("{number} histories of {STEPS} steps");
}

/// A source, which random steps change, and its mirror.
struct History {
    s: Sandbox,
    seed: u64,
    random: Random,
    /// How many times have been given.
    clock: u32,
    /// What the current step did.
    log: Vec<String>,
}

impl History {
    fn new(seed: u64) -> Self {
        let s = Sandbox::with_key();
        fs::create_dir(s.path("source")).unwrap();
        Self { s, seed, random: Random::new(seed + 1), clock: 0, log: Vec::new() }
    }

    fn run(mut self) {
        for step in 0..STEPS {
            self.log.clear();
            let changes = if step == 0 { 8 } else { 1 + self.random.below(4) };
            (0..changes).for_each(|_| self.change());
            self.free_names();
            self.set_times();
            if let Err(why) = self.check() {
                let log = self.log.join("\n    ");
                let seed = self.seed;
                panic!("PHALANX_SEED={seed} PHALANX_HISTORIES=1, step {step}: {why}\nchanges:\n    {log}");
            }
        }
    }

    /// Mirrors the source, and compares what is unprotected from the mirror with it.
    fn check(&mut self) -> Result<(), String> {
        let threads = ["1", "3"][self.random.below(2) as usize];
        let common = ["-k", "k", "--threads", threads, "--engine", "cpu"];
        let mirror = ["mirror", "source", "mirror", "--delete", "--max-delete", "1000000", "--no-sync"];
        let mirror = [&mirror[..], &common].concat();
        is_ok("the run", &self.s.run(&mirror))?;
        let source = entries(&self.s.path("source"));
        is_ok("unprotect", &self.s.run(&[&["unprotect", "-R", "mirror", "-o", "back"][..], &common].concat()))?;
        let back = entries(&self.s.path("back"));
        fs::remove_dir_all(self.s.path("back")).unwrap();
        same("the source and what was unprotected", &without_inodes(source.clone()), &without_inodes(back))?;
        let before = entries(&self.s.path("mirror"));
        if before.len() != source.len() + 1 {
            return Err(format!("the mirror has other entries: {:?}", before.keys()));
        }
        let second = if self.random.below(4) == 0 { [&mirror[..], &["--checksum"]].concat() } else { mirror };
        is_ok("the second run", &self.s.run(&second))?;
        same("the mirror before and after the second run", &before, &entries(&self.s.path("mirror")))?;
        let verified = self.s.run(&[&["verify", "-R", "mirror"][..], &common].concat());
        is_ok("verify", &verified)
    }

    /// A random change of the source.
    fn change(&mut self) {
        let (any, file) = (self.pick(|_| true), self.pick(|content| matches!(content, Content::File(_))));
        match (self.random.below(19), any, file) {
            (0..=2, ..) => self.make("file"),
            (3, ..) => self.make("folder"),
            (4, ..) => self.make("link"),
            (5, _, Some(file)) => {
                self.note("write", &[&file]);
                self.write(&file);
            }
            (6, _, Some(file)) => {
                self.note("change in place", &[&file]);
                let opened = OpenOptions::new().write(true).open(&file).unwrap();
                let len = opened.metadata().unwrap().len();
                let byte = [self.random.next() as u8];
                opened.write_all_at(&byte, self.random.below(len.max(1))).unwrap();
            }
            (7, _, Some(file)) => {
                self.note("set length", &[&file]);
                let len = self.random.below(20_000);
                OpenOptions::new().write(true).open(&file).unwrap().set_len(len).unwrap();
            }
            (8, Some(any), _) if !any.is_symlink() => {
                self.note("touch", &[&any]);
                File::open(&any).unwrap().set_modified(SystemTime::now()).unwrap();
            }
            (9, Some(any), _) if !any.is_symlink() => {
                let modes = if any.is_dir() { [0o700, 0o750, 0o755] } else { [0o600, 0o640, 0o644] };
                let mode = modes[self.random.below(3) as usize];
                self.note("chmod", &[&any]);
                fs::set_permissions(&any, Permissions::from_mode(mode)).unwrap();
            }
            (10 | 11, Some(any), _) => {
                let to = self.place();
                if !to.starts_with(&any) && fs::rename(&any, &to).is_ok() {
                    self.note("rename", &[&any, &to]);
                }
            }
            (12, Some(any), _) => {
                let other = self.pick(|_| true).expect("there is one");
                if renameat_with(CWD, &any, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                    self.note("swap", &[&any, &other]);
                }
            }
            (13 | 14, Some(any), _) => {
                self.note("delete", &[&any]);
                delete(&any);
            }
            (15, Some(any), _) => {
                self.note("replace", &[&any]);
                delete(&any);
                match self.random.below(3) {
                    0 => self.write(&any),
                    1 => {
                        fs::create_dir(&any).unwrap();
                        let inside = any.join(self.name());
                        self.write(&inside);
                    }
                    _ => symlink("a", &any).unwrap(),
                }
            }
            (16 | 17, _, Some(file)) => {
                let to = self.place();
                if fs::hard_link(&file, &to).is_ok() {
                    self.note("link", &[&file, &to]);
                }
            }
            _ => {
                let to = self.place();
                if let Ok(file) = File::create_new(&to) {
                    self.note("holes", &[&to]);
                    let len = 1 + self.random.below(3 << 20);
                    file.set_len(len).unwrap();
                    file.write_all_at(b"data", self.random.below(len)).unwrap();
                }
            }
        }
    }

    /// Makes something where nothing is.
    fn make(&mut self, kind: &str) {
        let to = self.place();
        if to.symlink_metadata().is_ok() {
            return;
        }
        self.note(kind, &[&to]);
        match kind {
            "file" => self.write(&to),
            "folder" => fs::create_dir(&to).unwrap(),
            _ => {
                let name = self.name();
                let target = [name.as_os_str(), OsStr::new("/nowhere"), OsStr::from_bytes(b"../\xff")];
                symlink(target[self.random.below(3) as usize], &to).unwrap();
            }
        }
    }

    fn write(&mut self, path: &Path) {
        let len = match self.random.below(4) {
            0 => 0,
            1 => self.random.below(100),
            _ => self.random.below(20_000),
        };
        fs::write(path, self.random.bytes(len)).unwrap();
    }

    fn name(&mut self) -> PathBuf {
        OsStr::from_bytes(NAMES[self.random.below(NAMES.len() as u64) as usize]).into()
    }

    /// A path in one of the folders, which may be in use.
    fn place(&mut self) -> PathBuf {
        let folder = self.pick(|content| *content == Content::Folder).unwrap_or_else(|| self.s.path("source"));
        let folder = if self.random.below(3) == 0 { self.s.path("source") } else { folder };
        folder.join(self.name())
    }

    /// An entry of this kind, if there is one.
    fn pick(&mut self, is_right: impl Fn(&Content) -> bool) -> Option<PathBuf> {
        let all = self.all();
        let right: Vec<_> = all.into_iter().filter(|(_, content)| is_right(content)).collect();
        let number = self.random.below(right.len().max(1) as u64) as usize;
        right.into_iter().nth(number).map(|(path, _)| path)
    }

    /// The entries of the source without its root.
    fn all(&self) -> Vec<(PathBuf, Content)> {
        let root = self.s.path("source");
        let all = entries(&root).into_iter().skip(1);
        all.map(|(path, entry)| (root.join(path), entry.content)).collect()
    }

    /// Deletes folders and links whose names in the mirror belong to other entries.
    fn free_names(&mut self) {
        for (path, content) in self.all() {
            let is_in_the_way = match path.as_os_str().as_bytes().strip_suffix(b".phx") {
                Some(stem) => Path::new(OsStr::from_bytes(stem)).symlink_metadata().is_ok_and(|meta| meta.is_file()),
                None => path == self.s.path("source/phalanx.tree"),
            };
            if is_in_the_way && !matches!(content, Content::File(_)) && path.symlink_metadata().is_ok() {
                self.note("free", &[&path]);
                delete(&path);
            }
        }
    }

    /// Gives each changed entry a time that no other has.
    fn set_times(&mut self) {
        let paths = self.all().into_iter().map(|(path, _)| path).chain([self.s.path("source")]);
        for path in paths.collect::<Vec<_>>() {
            let meta = path.symlink_metadata().unwrap();
            if !meta.is_symlink() && meta.mtime() > NOW {
                self.clock += 1;
                let nanoseconds = self.clock.wrapping_mul(7_919_777) % 1_000_000_000;
                let time = Duration::new(1_000_000_000 + u64::from(self.clock / 3), nanoseconds);
                File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH + time).unwrap();
            }
        }
    }

    fn note(&mut self, what: &str, paths: &[&Path]) {
        let root = self.s.path("source");
        let paths = paths.iter().map(|path| format!(" {:?}", path.strip_prefix(&root).unwrap()));
        self.log.push(what.to_owned() + &paths.collect::<String>());
    }
}

fn delete(path: &Path) {
    if path.symlink_metadata().unwrap().is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}

fn is_ok(what: &str, ended: &Ended) -> Result<(), String> {
    if ended.0.status.success() { Ok(()) } else { Err(format!("{what}: {}: {}", ended.0.status, ended.error())) }
}

fn same(what: &str, left: &Entries, right: &Entries) -> Result<(), String> {
    difference(left, right).map_or(Ok(()), |difference| Err(format!("{what}: {difference}")))
}
