//! The work that is done in each folder.

use crate::error::{Error, Result};
use crate::measure::programs::{find, finish};
use crate::measure::scratch::{Random, Scratch, remove};
use crate::measure::times::time;
use crate::measure::volume::mounts::{fio, sources};
use fio::Access;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The sizes and counts of a run.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// The bytes that are written and read in order.
    pub sequential: u64,
    /// The bytes that are read and written at random.
    pub random: u64,
    /// The small files that are made, read and deleted.
    pub small_files: u64,
    /// The files of the source tree.
    pub sources: u64,
    /// The entries that are listed.
    pub entries: u64,
    /// The rounds that count.
    pub rounds: usize,
}

/// One round, because a round on a disk takes minutes: so all experiments together took 51 minutes on two cores.
pub const FULL: Sizes =
    Sizes { sequential: 1 << 30, random: 256 << 20, small_files: 10_000, sources: 3_000, entries: 20_000, rounds: 1 };
/// The sizes of a short run.
pub const QUICK: Sizes =
    Sizes { sequential: 32 << 20, random: 8 << 20, small_files: 300, sources: 200, entries: 10_000, rounds: 1 };

/// The block in which files are written and read in order.
const BLOCK: usize = 128 << 10;
/// The length of a small file.
const SMALL: usize = 4096;
/// The entries of a folder.
const IN_A_FOLDER: u64 = 1000;

/// What is measured together: phases that follow each other, with the same files.
pub struct Task {
    /// Its name.
    pub name: &'static str,
    pub weight: u64,
    /// The most bytes that it needs in a backing folder.
    pub disk: u64,
    /// Makes what it reads, outside the folders. A reason is why it is not run.
    pub prepare: Prepare,
    /// Fills a folder before the first round.
    pub fill: InFolder,
    pub phases: Vec<Phase>,
    /// Empties a folder after each round.
    pub clean: InFolder,
}

type Prepare = Box<dyn Fn(&Scratch) -> Result<Option<String>>>;
type InFolder = Box<dyn Fn(&Path) -> Result<()>>;

/// A measured piece of work.
pub struct Phase {
    pub operation: String,
    pub bytes: u64,
    pub items: u64,
    /// The least speed over gocryptfs, in suite 1 and in suite 5.
    pub asked: [Option<f64>; 2],
    /// Whether the volume is mounted anew before it, so that the kernel's cache of the mount is empty.
    pub is_fresh: bool,
    pub note: Option<&'static str>,
    /// Does it in a folder, and returns the seconds. Checks the outcome if asked to, which takes no time of it.
    pub run: Run,
}

type Run = Box<dyn Fn(&Scratch, &Path, bool) -> Result<f64>>;

const FRESH: &str =
    "mounted anew before: the kernel's cache of the mount is empty, what is stored is in the page cache";

/// All tasks.
pub fn tasks(sizes: Sizes) -> Vec<Task> {
    let Sizes { sequential, random, small_files, sources, entries, .. } = sizes;
    vec![
        sequential_task(sequential),
        random_task(random),
        small_files_task(small_files),
        tar_task(sources),
        git_task(sources),
        list_task(entries),
    ]
}

fn task(name: &'static str, weight: u64, disk: u64, phases: Vec<Phase>) -> Task {
    let (prepare, fill, clean) = (Box::new(|_: &Scratch| Ok(None)), Box::new(|_: &Path| Ok(())), Box::new(empty));
    Task { name, weight, disk, prepare, fill, phases, clean }
}

fn phase(operation: impl Into<String>, [bytes, items]: [u64; 2], at_least: f64, run: Run) -> Phase {
    let asked = [Some(at_least), None];
    Phase { operation: operation.into(), bytes, items, asked, is_fresh: false, note: None, run }
}

fn fresh(phase: Phase) -> Phase {
    Phase { is_fresh: true, note: Some(FRESH), ..phase }
}

/// Removes all that is in a folder.
fn empty(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::at(folder))? {
        remove(&entry.map_err(Error::at(folder))?.path())?;
    }
    Ok(())
}

/// Bytes that do not compress.
fn block() -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    Random::new(5).fill(&mut block);
    block
}

/// The block of a file at a place: no two are the same.
fn stamp(block: &mut [u8], i: u64) {
    block[..8].copy_from_slice(&i.to_le_bytes());
}

fn sequential_task(bytes: u64) -> Task {
    let size = |what: &str| format!("{what}, {} MiB", bytes >> 20);
    let write = |is_synced: bool| -> Run {
        Box::new(move |_, folder, _| {
            let path = folder.join("file");
            remove(&path)?;
            let mut block = block();
            let (seconds, done) = time(|| {
                let mut file = File::create(&path)?;
                for i in 0..bytes / BLOCK as u64 {
                    stamp(&mut block, i);
                    file.write_all(&block)?;
                }
                if is_synced { file.sync_all() } else { Ok(()) }
            });
            done.map_err(Error::at(&path)).map(|()| seconds)
        })
    };
    let read: Run = Box::new(move |_, folder, is_checked| {
        let path = folder.join("file");
        let (mut wanted, mut got) = (block(), vec![0; BLOCK]);
        let mut is_right = true;
        let (seconds, done) = time(|| {
            let mut file = File::open(&path)?;
            for i in 0..bytes / BLOCK as u64 {
                file.read_exact(&mut got)?;
                if is_checked {
                    stamp(&mut wanted, i);
                    is_right &= got == wanted;
                }
            }
            Ok(())
        });
        done.map_err(Error::at(&path))?;
        checked(&path, is_right).map(|()| seconds)
    });
    let synced = Phase { asked: [None, None], ..phase(size("sequential write, synced"), [bytes, 1], 1.0, write(true)) };
    let write = phase(size("sequential write"), [bytes, 1], 2.0, write(false));
    let write = Phase { asked: [Some(2.0), Some(2.5)], note: Some("closed at the end, in blocks of 128 KiB"), ..write };
    let read = fresh(phase(size("sequential read"), [bytes, 1], 1.5, read));
    let read = Phase { asked: [Some(1.5), Some(2.0)], ..read };
    task("sequential", bytes / 100, 2 * bytes, vec![synced, write, read])
}

fn checked(path: &Path, is_right: bool) -> Result<()> {
    match is_right {
        true => Ok(()),
        false => Err(Error::Program(format!("{}: what came back is not what was written", path.display()))),
    }
}

fn random_task(bytes: u64) -> Task {
    let mut phases = Vec::new();
    for jobs in [1, 4] {
        for (access, name, at_least) in [(Access::Read, "read", 1.2), (Access::Write, "write", 1.0)] {
            let jobs_name = if jobs == 1 { "1 job".into() } else { format!("{jobs} jobs") };
            let operation = format!("4 KiB random {name}, fio, {jobs_name}");
            let run: Run = Box::new(move |_, folder, _| fio::run(folder, access, jobs, bytes));
            phases.push(fresh(phase(operation, [bytes, bytes / fio::BLOCK], at_least, run)));
        }
    }
    Task {
        prepare: Box::new(|_| Ok(fio::missing())),
        fill: Box::new(move |folder| {
            [1, 4].into_iter().try_for_each(|jobs| fio::run(folder, Access::Layout, jobs, bytes).map(drop))
        }),
        // The files stay as they are.
        clean: Box::new(|_| Ok(())),
        ..task("random", bytes / 10, 9 * bytes, phases)
    }
}

fn small_files_task(count: u64) -> Task {
    let bytes = count * SMALL as u64;
    let path = |folder: &Path, i: u64| folder.join(format!("folder-{}", i / 100)).join(format!("file-{i}"));
    let create: Run = Box::new(move |_, folder, _| {
        let content = &mut block()[..SMALL];
        let (seconds, done) = time(|| {
            for i in 0..count {
                let path = path(folder, i);
                let made = match (i.is_multiple_of(100), path.parent()) {
                    (true, Some(parent)) => fs::create_dir(parent),
                    _ => Ok(()),
                };
                stamp(content, i);
                made.and_then(|()| fs::write(&path, &content)).map_err(|e| Error::Path(path, e))?;
            }
            Ok(())
        });
        done.map(|()| seconds)
    });
    let read: Run = Box::new(move |_, folder, is_checked| {
        let wanted = &mut block()[..SMALL];
        let (seconds, done) = time(|| {
            for i in 0..count {
                let path = path(folder, i);
                let got = fs::read(&path).map_err(Error::at(&path))?;
                if is_checked {
                    stamp(wanted, i);
                    checked(&path, got == *wanted)?;
                }
            }
            Ok(())
        });
        done.map(|()| seconds)
    });
    let delete: Run = Box::new(move |_, folder, _| {
        let (seconds, done) = time(|| empty(folder));
        done.map(|()| seconds)
    });
    let name = |what: &str| format!("{count} small files: {what}");
    let phases = vec![
        phase(name("create"), [bytes, count], 1.0, create),
        fresh(phase(name("read"), [bytes, count], 1.0, read)),
        fresh(phase(name("delete"), [bytes, count], 1.0, delete)),
    ];
    task("small files", count * 3000, count * 20_000, phases)
}

/// Counts the files below a folder.
fn files_below(folder: &Path) -> Result<u64> {
    let mut count = 0;
    for entry in fs::read_dir(folder).map_err(Error::at(folder))? {
        let entry = entry.map_err(Error::at(folder))?;
        let kind = entry.file_type().map_err(Error::at(folder))?;
        count += if kind.is_dir() { files_below(&entry.path())? } else { u64::from(kind.is_file()) };
    }
    Ok(count)
}

fn tar_task(files: u64) -> Task {
    let run: Run = Box::new(move |scratch, folder, is_checked| {
        let archive = sources::archive(scratch, files)?.map_err(Error::Program)?;
        let mut command = Command::new("tar");
        command.arg("-xf").arg(archive).arg("-C").arg(folder);
        let (seconds, done) = time(|| finish(command));
        done?;
        checked(folder, !is_checked || files_below(folder)? == files)?;
        Ok(seconds)
    });
    let phase = phase(format!("tar x of a source tree of {files} files"), [0, files], 1.0, run);
    let prepare = Box::new(move |scratch: &Scratch| Ok(sources::archive(scratch, files)?.err()));
    Task { prepare, ..task("tar", files * 5000, files * 40_000, vec![phase]) }
}

fn git_task(files: u64) -> Task {
    let run: Run = Box::new(move |scratch, folder, is_checked| {
        let repository = sources::repository(scratch, files)?.map_err(Error::Program)?;
        let (Some(program), to) = (find("git"), folder.join("clone")) else {
            return Err(Error::Program("no git".into()));
        };
        let mut command = sources::git(&program, &["clone", "--quiet", "--no-hardlinks"]);
        command.arg(&repository).arg(&to);
        let (seconds, done) = time(|| finish(command));
        done?;
        if is_checked {
            let mut command = sources::git(&program, &["fsck", "--full", "--no-progress"]);
            command.current_dir(&to);
            finish(command)?;
            let mut command = sources::git(&program, &["diff", "--quiet", "HEAD"]);
            command.current_dir(&to);
            finish(command)?;
        }
        Ok(seconds)
    });
    let phase = phase(format!("git clone of a repository of {files} files"), [0, files], 1.0, run);
    let prepare = Box::new(move |scratch: &Scratch| Ok(sources::repository(scratch, files)?.err()));
    Task { prepare, ..task("git", files * 5000, files * 60_000, vec![phase]) }
}

fn list_task(entries: u64) -> Task {
    let path = |folder: &Path, i: u64| folder.join(format!("folder-{}", i / IN_A_FOLDER)).join(format!("entry-{i}"));
    let run: Run = Box::new(move |_, folder, is_checked| {
        let mut command = Command::new("ls");
        command.arg("-lR").arg(folder).stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(if is_checked { Stdio::piped() } else { Stdio::null() });
        let failed = |e: std::io::Error| Error::Program(format!("ls: {e}"));
        let (seconds, output) = time(|| command.spawn().and_then(std::process::Child::wait_with_output));
        let output = output.map_err(failed)?;
        let count = String::from_utf8_lossy(&output.stdout).matches("entry-").count() as u64;
        checked(folder, output.status.success() && (!is_checked || count == entries))?;
        Ok(seconds)
    });
    let phase = fresh(phase(format!("ls -lR of {entries} entries"), [0, entries], 1.0, run));
    let fill = Box::new(move |folder: &Path| {
        for i in 0..entries {
            let path = path(folder, i);
            let made = match (i.is_multiple_of(IN_A_FOLDER), path.parent()) {
                (true, Some(parent)) => fs::create_dir(parent),
                _ => Ok(()),
            };
            made.and_then(|()| File::create(&path).map(drop)).map_err(|e| Error::Path(path, e))?;
        }
        Ok(())
    });
    let clean = Box::new(|_: &Path| Ok(()));
    Task { fill, clean, ..task("list", entries * 2000, entries * 20_000, vec![phase]) }
}
