//! The work that is done in each folder.

use crate::measure::programs::{command, failure, finish, require};
use crate::measure::scratch::{random_vec, remove};
use crate::measure::volume::mounts::{fio, sources};
use crate::measure::{Error, Result, Scratch, time};
use fio::Access;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// The sizes and counts of a run.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// The bytes that are written and read in order.
    pub sequential: u64,
    /// The bytes that are read and written at random.
    pub random: u64,
    /// The small files that are made, read and deleted.
    pub small_files: u64,
    pub sources: u64,
    pub entries: u64,
    pub rounds: usize,
}

/// The sizes of a full run. There is only one round, because a round on a disk takes minutes. With this, all
/// experiments together took 51 minutes on two cores.
pub const FULL: Sizes =
    Sizes { sequential: 1 << 30, random: 256 << 20, small_files: 10_000, sources: 3_000, entries: 20_000, rounds: 1 };
pub const QUICK: Sizes =
    Sizes { sequential: 32 << 20, random: 8 << 20, small_files: 300, sources: 200, entries: 10_000, rounds: 1 };

/// The block in which files are written and read in order.
const BLOCK: usize = 128 << 10;
const SMALL: usize = 4096;

/// Phases that follow each other on the same files, and are measured together.
pub struct Task<'a> {
    pub name: &'static str,
    pub weight: u64,
    /// The most bytes that it needs in a backing folder.
    pub disk: u64,
    /// Makes what the task reads, outside the folders.
    pub prepare: Box<dyn Fn() -> Result<()> + 'a>,
    /// Fills a folder before the first round.
    pub fill: InFolder,
    pub phases: Vec<Phase<'a>>,
    /// Empties a folder after each round.
    pub clean: InFolder,
}

type InFolder = Box<dyn Fn(&Path) -> Result<()>>;

pub struct Phase<'a> {
    pub operation: String,
    pub bytes: u64,
    pub items: u64,
    /// The least speed over gocryptfs, in suite 1 and in suite 5.
    pub asked: [Option<f64>; 2],
    /// Whether the volume is mounted again before the phase, so that the kernel's cache of the mount is empty.
    pub is_fresh: bool,
    pub note: Option<&'static str>,
    /// Does the phase in a folder, and returns the seconds. On request it also checks the outcome, which is not timed.
    pub run: Run<'a>,
}

type Run<'a> = Box<dyn Fn(&Path, bool) -> Result<f64> + 'a>;

const FRESH: &str =
    "mounted anew before: the kernel's cache of the mount is empty, what is stored is in the page cache";

/// All tasks. What they read is made in `scratch`.
pub fn tasks(sizes: Sizes, scratch: &Scratch) -> Vec<Task<'_>> {
    vec![
        sequential_task(sizes.sequential),
        random_task(sizes.random),
        small_files_task(sizes.small_files),
        tar_task(sizes.sources, scratch),
        git_task(sizes.sources, scratch),
        npm_task(sizes.sources, scratch),
        list_task(sizes.entries),
    ]
}

fn task<'a>(name: &'static str, weight: u64, disk: u64, phases: Vec<Phase<'a>>) -> Task<'a> {
    let (prepare, fill, clean) = (Box::new(|| Ok(())), Box::new(|_: &Path| Ok(())), Box::new(empty));
    Task { name, weight, disk, prepare, fill, phases, clean }
}

fn phase<'a>(
    operation: impl Into<String>,
    [bytes, items]: [u64; 2],
    at_least: f64,
    run: impl Fn(&Path, bool) -> Result<f64> + 'a,
) -> Phase<'a> {
    let asked = [Some(at_least), None];
    Phase { operation: operation.into(), bytes, items, asked, is_fresh: false, note: None, run: Box::new(run) }
}

fn fresh(phase: Phase<'_>) -> Phase<'_> {
    Phase { is_fresh: true, note: Some(FRESH), ..phase }
}

/// The time of work that must succeed.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (seconds, done) = time(work);
    done.map(|()| seconds)
}

/// Removes everything in a folder.
fn empty(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::at(folder))? {
        remove(&entry.map_err(Error::at(folder))?.path())?;
    }
    Ok(())
}

/// Makes a block of bytes that do not compress. No two blocks are the same.
fn stamp(block: &mut [u8], i: u64) {
    block[..8].copy_from_slice(&i.to_le_bytes());
}

fn checked(path: &Path, is_right: bool) -> Result<()> {
    match is_right {
        true => Ok(()),
        false => Err(Error::Program(format!("{}: what came back is not what was written", path.display()))),
    }
}

fn sequential_task(bytes: u64) -> Task<'static> {
    let size = |what: &str| format!("{what}, {} MiB", bytes >> 20);
    let write = move |folder: &Path, is_synced: bool| {
        let path = folder.join("file");
        remove(&path)?;
        let mut block = random_vec(5, BLOCK);
        let (seconds, done) = time(|| {
            let mut file = File::create(&path)?;
            for i in 0..bytes / BLOCK as u64 {
                stamp(&mut block, i);
                file.write_all(&block)?;
            }
            if is_synced { file.sync_all() } else { Ok(()) }
        });
        done.map_err(Error::at(&path)).map(|()| seconds)
    };
    let read = move |folder: &Path, is_checked: bool| {
        let path = folder.join("file");
        let (mut wanted, mut got, mut is_right) = (random_vec(5, BLOCK), vec![0; BLOCK], true);
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
    };
    let synced = phase(size("sequential write, synced"), [bytes, 1], 1.0, move |folder, _| write(folder, true));
    let write = phase(size("sequential write"), [bytes, 1], 2.0, move |folder, _| write(folder, false));
    let write = Phase { asked: [Some(2.0), Some(2.5)], note: Some("closed at the end, in blocks of 128 KiB"), ..write };
    let read = fresh(phase(size("sequential read"), [bytes, 1], 1.5, read));
    let read = Phase { asked: [Some(1.5), Some(2.0)], ..read };
    task("sequential", bytes / 100, 2 * bytes, vec![Phase { asked: [None, None], ..synced }, write, read])
}

fn random_task(bytes: u64) -> Task<'static> {
    let mut phases = Vec::new();
    for (jobs, jobs_name) in [(1, "1 job"), (4, "4 jobs")] {
        let asked_of_reads = if jobs == 1 { 1.3 } else { 1.5 };
        for (access, name, at_least) in [(Access::Read, "read", asked_of_reads), (Access::Write, "write", 1.0)] {
            let run = move |folder: &Path, _| fio::run(folder, access, jobs, bytes);
            let operation = format!("4 KiB random {name}, fio, {jobs_name}");
            phases.push(fresh(phase(operation, [bytes, bytes / fio::BLOCK], at_least, run)));
        }
    }
    Task {
        prepare: Box::new(|| require("fio").map(drop)),
        fill: Box::new(move |folder| {
            [1, 4].into_iter().try_for_each(|jobs| fio::run(folder, Access::Layout, jobs, bytes).map(drop))
        }),
        // The files stay as they are.
        clean: Box::new(|_| Ok(())),
        ..task("random", bytes / 10, 9 * bytes, phases)
    }
}

/// Makes `count` files with `make`, a fixed number in each folder.
fn make_files(
    count: u64,
    in_a_folder: u64,
    path: impl Fn(u64) -> PathBuf,
    mut make: impl FnMut(u64, &Path) -> io::Result<()>,
) -> Result<()> {
    for i in 0..count {
        let path = path(i);
        let made = match (i.is_multiple_of(in_a_folder), path.parent()) {
            (true, Some(parent)) => fs::create_dir(parent),
            _ => Ok(()),
        };
        made.and_then(|()| make(i, &path)).map_err(Error::at(&path))?;
    }
    Ok(())
}

fn small_files_task(count: u64) -> Task<'static> {
    let bytes = count * SMALL as u64;
    let path = |folder: &Path, i: u64| folder.join(format!("folder-{}", i / 100)).join(format!("file-{i}"));
    let create = move |folder: &Path, _| {
        let mut content = random_vec(5, SMALL);
        timed(|| {
            make_files(
                count,
                100,
                |i| path(folder, i),
                |i, path| {
                    stamp(&mut content, i);
                    fs::write(path, &content)
                },
            )
        })
    };
    let read = move |folder: &Path, is_checked: bool| {
        let mut wanted = random_vec(5, SMALL);
        timed(|| {
            for i in 0..count {
                let path = path(folder, i);
                let got = fs::read(&path).map_err(Error::at(&path))?;
                if is_checked {
                    stamp(&mut wanted, i);
                    checked(&path, got == wanted)?;
                }
            }
            Ok(())
        })
    };
    let name = |what: &str| format!("{count} small files: {what}");
    let phases = vec![
        phase(name("create"), [bytes, count], 1.5, create),
        fresh(phase(name("read"), [bytes, count], 2.0, read)),
        fresh(phase(name("delete"), [bytes, count], 1.5, |folder, _| timed(|| empty(folder)))),
    ];
    task("small files", count * 3000, count * 20_000, phases)
}

fn files_below(folder: &Path) -> Result<u64> {
    let mut count = 0;
    for entry in fs::read_dir(folder).map_err(Error::at(folder))? {
        let entry = entry.map_err(Error::at(folder))?;
        let kind = entry.file_type().map_err(Error::at(folder))?;
        count += if kind.is_dir() { files_below(&entry.path())? } else { u64::from(kind.is_file()) };
    }
    Ok(count)
}

fn tar_task(files: u64, scratch: &Scratch) -> Task<'_> {
    let run = move |folder: &Path, is_checked: bool| {
        let archive = sources::archive(scratch, files)?;
        let command = command("tar -xf {archive} -C {folder}", &[("archive", &archive), ("folder", folder)]);
        let seconds = timed(|| finish(command))?;
        checked(folder, !is_checked || files_below(folder)? == files)?;
        Ok(seconds)
    };
    let phase = phase(format!("tar x of a source tree of {files} files"), [0, files], 1.3, run);
    let prepare = Box::new(move || sources::archive(scratch, files).map(drop));
    Task { prepare, ..task("tar", files * 5000, files * 40_000, vec![phase]) }
}

fn git_task(files: u64, scratch: &Scratch) -> Task<'_> {
    let run = move |folder: &Path, is_checked: bool| {
        let (repository, to) = (sources::repository(scratch, files)?, folder.join("clone"));
        let paths = [("repository", &*repository), ("to", &*to)];
        let clone = sources::git("clone --quiet --no-hardlinks {repository} {to}", &paths);
        let seconds = timed(|| finish(clone))?;
        if is_checked {
            finish(sources::git("-C {to} fsck --full --no-progress", &paths))?;
            finish(sources::git("-C {to} diff --quiet HEAD", &paths))?;
        }
        Ok(seconds)
    };
    let status = move |folder: &Path, is_checked: bool| {
        let mut status = sources::git("-C {to} status --porcelain", &[("to", &folder.join("clone"))]);
        let failed = failure(&status);
        let (seconds, output) = time(|| status.stdin(Stdio::null()).output());
        let output = output.map_err(|e| failed(&e.to_string()))?;
        checked(folder, output.status.success() && (!is_checked || output.stdout.is_empty()))?;
        Ok(seconds)
    };
    let phases = vec![
        phase(format!("git clone of a repository of {files} files"), [0, files], 1.3, run),
        fresh(phase(format!("git status of {files} files"), [0, files], 1.3, status)),
    ];
    let prepare = Box::new(move || sources::repository(scratch, files).map(drop));
    Task { prepare, ..task("git", files * 6000, files * 60_000, phases) }
}

/// What npm itself keeps lies outside the folder that is measured.
fn npm_task(files: u64, scratch: &Scratch) -> Task<'_> {
    let run = move |folder: &Path, is_checked: bool| {
        let (application, to) = (sources::application(scratch, files)?, folder.join("application"));
        fs::create_dir(&to).map_err(Error::at(&to))?;
        for name in ["package.json", "package-lock.json"] {
            fs::copy(application.join(name), to.join(name)).map_err(Error::at(&to))?;
        }
        let options = "--offline --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error";
        let paths = [("to", &*to), ("cache", &*scratch.path("npm-cache"))];
        let install = command(&format!("npm ci {options} --cache {{cache}} --prefix {{to}}"), &paths);
        let seconds = timed(|| finish(install))?;
        // Each package has a file that describes it, and npm makes one of all packages.
        let expected = files + files.div_ceil(sources::IN_A_FOLDER) + 1;
        checked(&to, !is_checked || files_below(&to.join("node_modules"))? == expected)?;
        Ok(seconds)
    };
    let phase = phase(format!("npm ci of packages with {files} files"), [0, files], 1.3, run);
    let prepare = Box::new(move || sources::application(scratch, files).map(drop));
    Task { prepare, ..task("npm", files * 8000, files * 40_000, vec![phase]) }
}

fn list_task(entries: u64) -> Task<'static> {
    let run = move |folder: &Path, is_checked: bool| {
        let mut command = command("ls -lR {folder}", &[("folder", folder)]);
        let failed = failure(&command);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(if is_checked { Stdio::piped() } else { Stdio::null() });
        let (seconds, output) = time(|| command.spawn().and_then(Child::wait_with_output));
        let output = output.map_err(|e| failed(&e.to_string()))?;
        let count = String::from_utf8_lossy(&output.stdout).matches("entry-").count() as u64;
        checked(folder, output.status.success() && (!is_checked || count == entries))?;
        Ok(seconds)
    };
    let phase = fresh(phase(format!("ls -lR of {entries} entries"), [0, entries], 1.0, run));
    let fill = Box::new(move |folder: &Path| {
        let path = |i: u64| folder.join(format!("folder-{}", i / 1000)).join(format!("entry-{i}"));
        make_files(entries, 1000, path, |_, path| File::create(path).map(drop))
    });
    Task { fill, clean: Box::new(|_| Ok(())), ..task("list", entries * 2000, entries * 20_000, vec![phase]) }
}
