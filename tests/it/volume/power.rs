//! Power cuts: the disk below a volume is copied while the volume is being changed, as a power cut would leave it.
//! Synced data must be in the copy.

use super::full::disk;
use super::kills::{rounds, seed};
use super::model::Content;
use super::workload::Random;
use super::{init_as, is_sound, mount};
use crate::common::{Mounted as Disk, Sandbox};
use crate::mount::is_fuse_here;
use rustix::fs::statfs;
use rustix::process::Signal;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// What a path may lead to after a power cut: nothing, or one of these files. The last entry is what it leads to now.
type Alternatives = Vec<Option<u64>>;

/// The known state of a writer's folder.
#[derive(Clone, Default)]
struct Known {
    paths: BTreeMap<String, Alternatives>,
    files: HashMap<u64, Tracked>,
    next: u64,
    syncs: u64,
}

#[derive(Clone)]
struct Tracked {
    content: Content,
    /// Whether it has been synced. Before that, nothing is guaranteed.
    is_synced: bool,
}

impl Known {
    fn now(&self, path: &str) -> Option<u64> {
        self.paths.get(path).and_then(|all| *all.last()?)
    }

    /// Records that a path now leads to something else.
    fn leads(&mut self, path: &str, to: Option<u64>) {
        self.paths.entry(path.into()).or_insert_with(|| vec![None]).push(to);
    }

    fn add(&mut self, content: Vec<u8>) -> u64 {
        self.next += 1;
        self.files.insert(self.next, Tracked { content: Content::new(content), is_synced: false });
        self.next
    }

    fn folder_synced(&mut self) {
        self.paths.values_mut().for_each(|all| drop(all.drain(..all.len() - 1)));
    }

    fn file_synced(&mut self, path: &str, id: u64, is_whole: bool) {
        let file = self.files.get_mut(&id).unwrap();
        file.is_synced = true;
        file.content.stored();
        self.syncs += 1;
        let all = self.paths.get_mut(path).filter(|all| is_whole && all.last() == Some(&Some(id)));
        if let Some(all) = all {
            all.drain(..all.len() - 1);
        }
    }

    /// Compares the known state with a folder, and then takes over the state of the folder. Returns the paths for which
    /// nothing is guaranteed.
    fn check(&mut self, root: &Path) -> Result<Vec<String>, String> {
        let mut left = Known { next: self.next, ..Self::default() };
        let mut unsynced = Vec::new();
        for (path, all) in &self.paths {
            let found = fs::read(root.join(path));
            if all.iter().flatten().any(|id| !self.files[id].is_synced) {
                unsynced.push(path.clone());
                // The file may be damaged.
                let _ = fs::remove_file(root.join(path));
                continue;
            }
            let content = match found {
                Err(e) if e.kind() == io::ErrorKind::NotFound && all.contains(&None) => continue,
                Err(e) => return Err(format!("{path}: {e}, it was {all:?}")),
                Ok(content) => content,
            };
            let admitted: Vec<_> = all.iter().flatten().map(|id| self.files[id].content.admits(&content)).collect();
            if !admitted.iter().any(Result::is_ok) {
                return Err(format!("{path}: {admitted:?}"));
            }
            let id = left.add(content);
            left.files.get_mut(&id).unwrap().is_synced = true;
            left.paths.insert(path.clone(), vec![Some(id)]);
        }
        *self = left;
        Ok(unsynced)
    }
}

/// Works in a folder until an operation fails because the mount has ended.
fn work(root: &Path, random: &mut Random, known: &Mutex<Known>) -> io::Error {
    loop {
        if let Err(error) = step(root, random, known) {
            return error;
        }
    }
}

fn step(root: &Path, random: &mut Random, known: &Mutex<Known>) -> io::Result<()> {
    let path = format!("p{}", random.below(8));
    let now = known.lock().unwrap().now(&path);
    match (now, random.below(20)) {
        (None, 0..16) => {
            let is_synced = random.below(3) > 0;
            create(root, random, known, &path, is_synced).map(drop)
        }
        (Some(id), 0..11) => {
            let file = OpenOptions::new().write(true).open(root.join(&path))?;
            for _ in 0..=random.below(2) {
                change(random, known, id, &file)?;
            }
            if random.below(2) == 0 { sync(random, known, &path, id, &file) } else { Ok(()) }
        }
        // Saves a file like an editor.
        (Some(_), 11..14) => {
            // A power cut may have left this file.
            if known.lock().unwrap().now("new").is_some() {
                lead(known, &[("new", None)]);
                fs::remove_file(root.join("new"))?;
            }
            let id = create(root, random, known, "new", true)?;
            lead(known, &[(&path, Some(id)), ("new", None)]);
            fs::rename(root.join("new"), root.join(&path))
        }
        (Some(id), 14..16) => {
            let to = format!("p{}", random.below(8));
            if to == path {
                return Ok(());
            }
            lead(known, &[(&to, Some(id)), (&path, None)]);
            fs::rename(root.join(path), root.join(to))
        }
        (Some(_), 16..18) => {
            lead(known, &[(&path, None)]);
            fs::remove_file(root.join(path))
        }
        _ => {
            File::open(root)?.sync_all()?;
            known.lock().unwrap().folder_synced();
            Ok(())
        }
    }
}

fn lead(known: &Mutex<Known>, all: &[(&str, Option<u64>)]) {
    let mut known = known.lock().unwrap();
    all.iter().for_each(|(path, to)| known.leads(path, *to));
}

fn create(root: &Path, random: &mut Random, known: &Mutex<Known>, path: &str, is_synced: bool) -> io::Result<u64> {
    let id = known.lock().unwrap().add(Vec::new());
    lead(known, &[(path, Some(id))]);
    let file = OpenOptions::new().write(true).create_new(true).open(root.join(path))?;
    change(random, known, id, &file)?;
    if is_synced {
        sync(random, known, path, id, &file)?;
    }
    Ok(id)
}

/// Writes something, or changes the length. From then on the new content is possible too.
fn change(random: &mut Random, known: &Mutex<Known>, id: u64, file: &File) -> io::Result<()> {
    let mut then = known.lock().unwrap().files[&id].content.now().clone();
    let end = then.len() as u64;
    if random.below(6) == 0 {
        let len = random.below((end + 50_000).min(1 << 20));
        then.resize(len as usize, 0);
        known.lock().unwrap().files.get_mut(&id).unwrap().content.versions.push(then);
        return file.set_len(len);
    }
    let offset = if end > 1 << 20 || random.below(3) > 0 { random.below(end + 1) } else { end };
    let len = random.len();
    let bytes = random.bytes(len);
    let to = offset as usize + bytes.len();
    then.resize(to.max(then.len()), 0);
    then[offset as usize..to].copy_from_slice(&bytes);
    known.lock().unwrap().files.get_mut(&id).unwrap().content.versions.push(then);
    file.write_all_at(&bytes, offset)
}

fn sync(random: &mut Random, known: &Mutex<Known>, path: &str, id: u64, file: &File) -> io::Result<()> {
    let is_whole = random.below(4) > 0;
    if is_whole {
        file.sync_all()?
    } else {
        file.sync_data()?
    }
    known.lock().unwrap().file_synced(path, id, is_whole);
    Ok(())
}

#[test]
fn synced_data_survives_a_power_cut() {
    survive(rounds(1, 6), false);
}

#[test]
fn synced_data_survives_a_power_cut_with_rollback_protection() {
    survive(rounds(1, 3), true);
}

fn survive(rounds: u64, is_protected: bool) {
    if !is_fuse_here() {
        return;
    }
    let seed = seed();
    let is_long = rounds > 1;
    println!("PHALANX_SEED={seed}");
    let s = Sandbox::new();
    let Some(first) = disk(&s, "ext4", 96) else { return };
    init_as(&s, "disk/vol", "4K", is_protected);
    let Some(mut mounted) = mount(&s, "disk/vol") else { return };
    let mut all: Vec<Known> = (0..3).map(|_| Known::default()).collect();
    for writer in 0..all.len() {
        fs::create_dir(mounted.path(&writer.to_string())).unwrap();
    }
    mounted.unmount();
    assert_eq!(mounted.ended().code(), Some(0));
    drop(first);
    let mut random = Random::new(seed);
    let (mut cuts, mut syncs) = (0, 0);
    for round in 0..rounds {
        let at = format!("PHALANX_SEED={seed}, round {round}");
        let copies = cut(&s, &mut random, std::mem::take(&mut all), is_long);
        for (number, mut known) in copies.into_iter().enumerate() {
            cuts += 1;
            fs::rename(s.path(&format!("copy{number}")), s.path("image")).unwrap();
            let at = format!("{at}, copy {number}");
            syncs += known.iter().map(|known| known.syncs).sum::<u64>();
            let _disk = remount(&s);
            check(&s, &mut known, &at, is_protected);
            all = known;
        }
    }
    println!("{cuts} power cuts, {syncs} syncs");
}

fn remount(s: &Sandbox) -> Disk {
    assert!(s.succeeds("mount", &["-o", "loop", "image", "disk"]));
    Disk(s.path("disk"))
}

/// Checks that all guaranteed data are there, and that only data that were never synced are damaged.
fn check(s: &Sandbox, all: &mut [Known], at: &str, is_protected: bool) {
    // The copies of the disk are several pasts of one volume, which a machine would report.
    let _ = fs::remove_dir_all(s.path("state/volumes"));
    let mut mounted = mount(s, "disk/vol").unwrap();
    let mut unsynced = Vec::new();
    for (writer, known) in all.iter_mut().enumerate() {
        match known.check(&mounted.path(&writer.to_string())) {
            Ok(paths) => unsynced.extend(paths),
            Err(why) => panic!("{at}: {writer}: {why}\n{}", mounted.log()),
        }
    }
    assert!(mounted.log().is_empty() || !unsynced.is_empty(), "{at}: {}", mounted.log());
    mounted.unmount();
    assert_eq!(mounted.ended().code(), Some(0), "{at}: {}", mounted.log());
    if is_protected {
        // The removal of a file may have come to the disk, and not the record of it.
        let lines = s.run(&["-q", "verify", "disk/vol", "--key-file", "key"]).error();
        let is_of_removals = |line: &str| line.contains("of its last state") || line.starts_with("hint: ");
        assert!(lines.lines().all(is_of_removals), "{at}: {lines}");
        s.run(&["-q", "verify", "--accept", "disk/vol", "--key-file", "key"]).ok();
    }
    is_sound(s, "disk/vol");
}

/// Lets writers work, and copies the disk at some moments. Returns what was known at each. If `is_long`, the journal is
/// trimmed in some rounds.
fn cut(s: &Sandbox, random: &mut Random, all: Vec<Known>, is_long: bool) -> Vec<Vec<Known>> {
    let _disk = remount(s);
    let mut mounted = mount(s, "disk/vol").unwrap();
    let all: Vec<Mutex<Known>> = all.into_iter().map(Mutex::new).collect();
    let mut copies = Vec::new();
    thread::scope(|scope| {
        let mut working = Vec::new();
        for (writer, known) in all.iter().enumerate() {
            let (root, mut random) = (mounted.path(&writer.to_string()), Random::new(random.next()));
            working.push(scope.spawn(move || {
                let error = work(&root, &mut random, known);
                (error, statfs(&root).is_err())
            }));
        }
        for number in 0..=random.below(3) {
            let longest = if is_long && random.below(8) == 0 { 6000 } else { 400 };
            thread::sleep(Duration::from_millis(random.below(longest)));
            // Operations in progress finish. After that nothing more is synced.
            mounted.stop();
            let known = all.iter().map(|known| known.lock().unwrap().clone()).collect();
            copy_disk(s, &format!("copy{number}"));
            copies.push(known);
            mounted.signal(Signal::CONT);
        }
        mounted.signal(Signal::KILL);
        for writer in working {
            let (error, is_gone) = writer.join().unwrap();
            // ENOTCONN, or for operations in progress ECONNABORTED, and by io_uring also ECANCELED. EIO if the kernel still
            // had to write, because it does not keep the cause of that failure.
            let is_its = match error.raw_os_error() {
                Some(107 | 103 | 125) => true,
                Some(5) => is_gone && mounted.log().is_empty(),
                _ => false,
            };
            assert!(is_its, "{error}\n{}", mounted.log());
        }
    });
    mounted.ended();
    copies
}

/// Copies the image as it is at one moment. If the kernel writes to it during the copy, the copy is made again.
fn copy_disk(s: &Sandbox, to: &str) {
    let image = s.path("image").canonicalize().unwrap();
    let writes = || {
        let disks = fs::read_dir("/sys/block").unwrap().map(|disk| disk.unwrap().path());
        let is_its = |disk: &PathBuf| {
            fs::read_to_string(disk.join("loop/backing_file")).is_ok_and(|file| Path::new(file.trim_end()) == image)
        };
        let disk = disks.into_iter().find(is_its).unwrap();
        fs::read_to_string(disk.join("stat")).unwrap()
    };
    for _ in 0..100 {
        let before = writes();
        copy_sparse(&image, &s.path(to));
        if writes() == before {
            return;
        }
    }
    panic!("somebody writes to the disk all the time");
}

/// Copies a file in this process. A new process would close the writers' files when it starts, and wait for the mount.
fn copy_sparse(from: &Path, to: &Path) {
    let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
    let len = from.metadata().unwrap().len();
    to.set_len(len).unwrap();
    let (mut block, zeros) = (vec![0; 256 << 10], vec![0; 256 << 10]);
    for at in (0..len).step_by(block.len()) {
        from.read_exact_at(&mut block, at).unwrap();
        if block != zeros {
            to.write_all_at(&block, at).unwrap();
        }
    }
}
