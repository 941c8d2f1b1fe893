//! A folder that is mirrored again and again: `phalanx mirror` beside rsync, rclone and restic, on one tree in one run.

use crate::measure::programs::{command, failure, finish, require};
use crate::measure::{Contestant, Error, Random, Result, Row, Rows, Scratch, Setup, Step, in_turns, row_of, time};
use crate::measure::{peers::programs, scratch};
use crate::names::peers::EXPERIMENT;
use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const OURS: &str = "phalanx, suite 1";
const RSYNC: &str = "rsync -an --delete";
const RCLONE: &str = "rclone sync";
const RESTIC: &str = "restic backup";
const LS: &str = "ls -lR, twice";
/// What the times are of.
const WHOLE: &str = "whole command";
/// The most memory for a mirror of many entries, in KiB.
const MEMORY: u64 = 300 << 10;
/// Files in a folder of the tree.
const IN_A_FOLDER: u64 = 100;

/// What the project requires of a time beside that of another program.
#[derive(Clone, Copy)]
enum Asked {
    /// At most so many times its time.
    AtMost(f64),
    /// At least so many times as fast.
    AtLeast(f64),
}

/// The requirements of a phase: other programs, and what is required.
type Rules = &'static [(&'static str, Asked)];
/// Three times as fast as the faster of both is three times as fast as each.
const FIRST: Rules = &[(RCLONE, Asked::AtLeast(3.0)), (RESTIC, Asked::AtLeast(3.0))];
const UNCHANGED: Rules = &[(RSYNC, Asked::AtMost(1.5))];
const CHANGED: Rules = &[(RCLONE, Asked::AtLeast(3.0)), (RESTIC, Asked::AtLeast(3.0))];
const CHECKED: Rules = &[(LS, Asked::AtLeast(1.0))];

/// How much is measured.
#[derive(Clone, Copy)]
struct Sizes {
    files: u64,
    /// The longest of these files. The shortest has 1000 bytes.
    longest: u64,
    /// One more file, which is large.
    large: u64,
    /// The files that change between two runs.
    changed: u64,
    /// How often everything is mirrored for the first time.
    first_rounds: usize,
    rounds: usize,
    /// The seconds between removing an old mirror and making a new one. ext4 searches everything that was deleted in
    /// the last minute before it gives a new file its number.
    pause: u64,
    /// The entries of the mirror whose memory is measured.
    entries: u64,
}

const FULL: Sizes = Sizes {
    files: 100_000,
    longest: 64_000,
    large: 4 << 30,
    changed: 100,
    first_rounds: 2,
    rounds: 5,
    pause: 65,
    entries: 1_000_000,
};
const QUICK: Sizes = Sizes {
    files: 300,
    longest: 4_000,
    large: 1 << 20,
    changed: 5,
    first_rounds: 1,
    rounds: 2,
    pause: 0,
    entries: 1_000,
};

fn sizes(setup: &Setup) -> Sizes {
    if setup.quick { QUICK } else { FULL }
}

/// The step that measures times.
pub fn step<'a>(setup: &'a Setup, own: &'a Scratch) -> Result<Step<'a>> {
    let sizes = sizes(setup);
    let tree = sizes.files * (sizes.longest / 2 + 4096) + sizes.large;
    scratch::require_disk(folder(setup), 5 * tree + tree / 2)?;
    Ok(Step::new(format!("{EXPERIMENT} mirror"), tree / 30, move |rows| times(setup, own, sizes, rows)))
}

/// The step that measures memory.
pub fn memory_step<'a>(setup: &'a Setup, own: &'a Scratch) -> Result<Step<'a>> {
    let sizes = sizes(setup);
    // Each file of the mirror has a block, and both trees have inodes.
    scratch::require_disk(folder(setup), sizes.entries * 6_000)?;
    let weight = sizes.entries * 200;
    Ok(Step::new(format!("{EXPERIMENT} mirror-memory"), weight, move |rows| memory(setup, own, sizes, rows)))
}

/// What these measurements need that this machine lacks.
pub fn missing() -> Vec<String> {
    ["rsync", "rclone", "restic"].into_iter().filter(|name| require(name).is_err()).map(String::from).collect()
}

/// The folder that the user has named, or the run's own.
fn folder(setup: &Setup) -> &Path {
    setup.peers.folder.as_deref().unwrap_or(&setup.out)
}

/// A place for trees: in the folder that the user has named, or in the run's own.
fn place<'a>(setup: &Setup, own: &'a Scratch, made: &'a mut Option<Scratch>) -> Result<&'a Scratch> {
    Ok(match &setup.peers.folder {
        Some(folder) => made.insert(Scratch::within(folder, |_| {})?),
        None => own,
    })
}

/// The tree, and what is measured on it.
struct Tree {
    at: PathBuf,
    case: String,
    bytes: u64,
    sizes: Sizes,
}

impl Tree {
    /// Makes a tree, which is always the same.
    fn new(place: &Scratch, sizes: Sizes) -> Result<Self> {
        let Sizes { files, longest, large, .. } = sizes;
        let at = place.folder("source")?;
        let (mut random, mut bytes) = (Random::new(5), large);
        for i in 0..files {
            let path = path_of(&at, i);
            if i % IN_A_FOLDER == 0 {
                let folder = path.parent().expect("it is in a folder");
                fs::create_dir_all(folder).map_err(Error::at(folder))?;
            }
            let len = 1_000 + random.below(longest - 999);
            scratch::write(&path, len, i)?;
            bytes += len;
        }
        let path = at.join("large");
        scratch::write(&path, large, files)?;
        let large = if large < 1 << 30 { format!("{} MiB", large >> 20) } else { format!("{} GiB", large >> 30) };
        let case = format!("{files} files of 1 to {} KB and one of {large}", longest / 1000);
        Ok(Self { at, case, bytes, sizes })
    }

    fn row(&self, operation: &str, scheme: &str) -> Row {
        row_of(EXPERIMENT, &self.case, [operation, WHOLE, scheme, "command"], [self.bytes, self.sizes.files + 1], 0)
    }

    /// Writes some files again, with other lengths. Each round takes other files.
    fn change(&self, round: u64) -> Result<()> {
        let Sizes { files, longest, changed, .. } = self.sizes;
        let mut random = Random::new(1_000 + round);
        for i in 0..changed {
            let file = (i * (files / changed) + round) % files;
            let len = 1_000 + random.below(longest - 999);
            scratch::write(&path_of(&self.at, file), len, random.below(1 << 40))?;
        }
        Ok(())
    }
}

fn path_of(root: &Path, file: u64) -> PathBuf {
    let folder = file / IN_A_FOLDER;
    root.join(format!("part-{}", folder / 50)).join(format!("folder-{folder}")).join(format!("file-{file}.bin"))
}

/// A program that keeps a copy of the tree.
struct Keeper {
    name: &'static str,
    /// The command that brings the copy up to date, with the names of `paths` in braces.
    line: String,
    /// The command that prepares a new copy, if it needs one.
    init: Option<String>,
    paths: Vec<(&'static str, PathBuf)>,
    /// The folders that the program writes to.
    copies: Vec<PathBuf>,
}

impl Keeper {
    fn phalanx(setup: &Setup, place: &Scratch, tree: &Path) -> Result<Self> {
        let (mirror, state) = (place.path("mirror"), place.path("state"));
        let keyring = programs::keyring(&setup.program, place)?;
        Ok(Self {
            name: OURS,
            line: "{phalanx} mirror --delete --key bench --quiet {tree} {mirror}".into(),
            init: None,
            paths: vec![
                ("phalanx", setup.program.clone()),
                ("tree", tree.to_owned()),
                ("mirror", mirror.clone()),
                ("PHALANX_KEYRING", keyring),
                ("PHALANX_STATE", state.clone()),
            ],
            copies: vec![mirror, state],
        })
    }

    /// rclone, to a folder of encrypted files with encrypted names: its `crypt` remote.
    fn rclone(place: &Scratch, tree: &Path) -> Result<Self> {
        let (rclone, store) = (require("rclone")?, place.path("rclone"));
        let remote = programs::crypt(&rclone, &store, "")?;
        Ok(Self {
            name: RCLONE,
            line: "{rclone} --config /dev/null --quiet sync {tree} {remote}".into(),
            init: None,
            paths: vec![("rclone", rclone), ("tree", tree.to_owned()), ("remote", remote.into())],
            copies: vec![store],
        })
    }

    /// restic, to a repository, with its cache. Compression is off, because the others do not compress.
    fn restic(place: &Scratch, tree: &Path) -> Result<Self> {
        let (restic, store, cache) = (require("restic")?, place.path("restic"), place.path("restic-cache"));
        let password = place.secret("password", b"correct horse battery staple\n")?;
        let line = "{restic} --quiet --cache-dir {cache} --repo {store} --password-file {password}";
        Ok(Self {
            name: RESTIC,
            line: format!("{line} backup --compression off {{tree}}"),
            init: Some(format!("{line} init --repository-version 2")),
            paths: vec![
                ("restic", restic),
                ("tree", tree.to_owned()),
                ("store", store.clone()),
                ("cache", cache.clone()),
                ("password", password),
            ],
            copies: vec![store, cache],
        })
    }

    fn call(&self, line: &str) -> Command {
        let paths: Vec<_> = self.paths.iter().map(|(name, path)| (*name, path.as_path())).collect();
        let mut command = command(line, &paths);
        command.env_remove("PHALANX_PASSWORD").stdout(Stdio::null());
        for (name, path) in paths {
            if name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
                command.env(name, path);
            }
        }
        command
    }

    /// Brings the copy up to date.
    fn run(&self) -> Result<()> {
        finish(self.call(&self.line))
    }

    fn forget(&self) -> Result<()> {
        self.copies.iter().try_for_each(|path| scratch::remove(path))
    }

    fn prepare(&self) -> Result<()> {
        self.init.as_ref().map_or(Ok(()), |init| finish(self.call(init)))
    }
}

/// The time of some work. Pending writes of earlier work do not disturb it.
fn settled(place: &Path, work: impl FnOnce() -> Result<()>) -> Result<Vec<Option<f64>>> {
    let folder = File::open(place).map_err(Error::at(place))?;
    rustix::fs::syncfs(&folder).map_err(|e| Error::Path(place.to_owned(), e.into()))?;
    let (seconds, done) = time(work);
    done.map(|()| vec![Some(seconds)])
}

type Kept = Vec<(&'static str, Result<Keeper>)>;

fn times(setup: &Setup, own: &Scratch, sizes: Sizes, rows: &mut Rows<'_>) -> Result<()> {
    let mut made = None;
    let place = place(setup, own, &mut made)?;
    let tree = Tree::new(place, sizes)?;
    let keepers: Kept = vec![
        (OURS, Keeper::phalanx(setup, place, &tree.at)),
        (RCLONE, Keeper::rclone(place, &tree.at)),
        (RESTIC, Keeper::restic(place, &tree.at)),
    ];
    first(setup, &tree, &keepers, rows)?;
    let mirror = place.path("mirror");
    let verify = |more: &str| {
        let (_, ours) = &keepers[0];
        let ours = ours.as_ref().map_err(|missing| Error::NotRun(missing.to_string()))?;
        finish(ours.call(&format!("{{phalanx}} verify --recursive --quiet {more} {{mirror}}")))
    };
    verify("")?;
    unchanged(setup, place, &tree, &keepers, rows)?;
    changed(setup, &tree, &keepers, rows)?;
    checked(setup, &tree, &mirror, &|| verify("--quick"), rows)?;
    for (_, keeper) in &keepers {
        keeper.as_ref().map_or(Ok(()), Keeper::forget)?;
    }
    scratch::remove(&tree.at)
}

/// A contestant for each program. Those that are not here have rows with the reason.
fn contestants<'a>(
    tree: &'a Tree,
    operation: &str,
    keepers: &'a Kept,
    work: impl Fn(&Keeper) -> Result<Vec<Option<f64>>> + Copy + 'a,
) -> Vec<Contestant<'a>> {
    let of = |(name, keeper): &'a (&'static str, Result<Keeper>)| {
        let rows = vec![tree.row(operation, name)];
        match keeper {
            Ok(keeper) => Contestant::new(rows, move |_| work(keeper)),
            Err(missing) => Contestant::missing(rows, missing.to_string()),
        }
    };
    keepers.iter().map(of).collect()
}

/// Everything is new.
fn first(setup: &Setup, tree: &Tree, keepers: &Kept, rows: &mut Rows<'_>) -> Result<()> {
    // The copies of a round are removed together, before the next round.
    let (left, present) = (Cell::new(0), keepers.iter().filter(|(_, keeper)| keeper.is_ok()).count());
    let work = |keeper: &Keeper| {
        if left.get() == 0 {
            let mut removed = false;
            for keeper in keepers.iter().filter_map(|(_, keeper)| keeper.as_ref().ok()) {
                removed |= keeper.copies[0].exists();
                keeper.forget()?;
            }
            if removed {
                sleep(Duration::from_secs(tree.sizes.pause));
            }
            left.set(present);
        }
        left.set(left.get() - 1);
        keeper.prepare()?;
        settled(&tree.at, || keeper.run())
    };
    let operation = "mirror, first run";
    let all = in_turns(contestants(tree, operation, keepers, work), 0, tree.sizes.first_rounds)?;
    write(setup, tree, all.concat(), FIRST, rows)
}

/// Nothing has changed. rsync only compares the tree with a plain copy.
fn unchanged(setup: &Setup, place: &Scratch, tree: &Tree, keepers: &Kept, rows: &mut Rows<'_>) -> Result<()> {
    let operation = "mirror, nothing changed";
    let work = |keeper: &Keeper| settled(&tree.at, || keeper.run());
    let (copy, row) = (place.path("copy"), vec![tree.row(operation, RSYNC)]);
    let rsync = |how: &str| {
        // A path that ends with a slash means what is in the folder.
        let paths = [("from", &*tree.at.join("")), ("to", &*copy)];
        finish(command(&format!("rsync {how} {{from}} {{to}}"), &paths))
    };
    let mut all = contestants(tree, operation, keepers, work);
    all.push(match require("rsync") {
        Ok(_) => {
            rsync("-a")?;
            Contestant::new(row, |_| settled(&tree.at, || rsync("-an --delete")))
        }
        Err(missing) => Contestant::missing(row, missing.to_string()),
    });
    let all = in_turns(all, 1, tree.sizes.rounds)?.concat();
    write(setup, tree, all, UNCHANGED, rows)?;
    scratch::remove(&copy)
}

/// Some files have changed since the program ran last.
fn changed(setup: &Setup, tree: &Tree, keepers: &Kept, rows: &mut Rows<'_>) -> Result<()> {
    // How often the tree was changed, and how often each program has run since this began.
    let (changes, runs) = (Cell::new(0), RefCell::new(vec![0; keepers.len()]));
    let work = |keeper: &Keeper| {
        let run = &mut runs.borrow_mut()[keepers.iter().position(|(name, _)| *name == keeper.name).unwrap_or(0)];
        *run += 1;
        if *run > changes.get() {
            changes.set(*run);
            tree.change(*run)?;
        }
        settled(&tree.at, || keeper.run())
    };
    let operation = format!("mirror, {} files changed", tree.sizes.changed);
    let all = in_turns(contestants(tree, &operation, keepers, work), 1, tree.sizes.rounds)?;
    write(setup, tree, all.concat(), CHANGED, rows)
}

/// The mirror is compared with its manifest, beside two listings of it.
fn checked(
    setup: &Setup,
    tree: &Tree,
    mirror: &Path,
    verify: &dyn Fn() -> Result<()>,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let operation = "mirror, verify --quick";
    let ls = || {
        let mut ls = command("ls -lR {mirror}", &[("mirror", mirror)]);
        ls.stdout(Stdio::null());
        finish(ls)
    };
    let ours = Contestant::new(vec![tree.row(operation, OURS)], |_| settled(mirror, verify));
    let row = vec![tree.row(operation, LS)];
    let beside = match require("ls") {
        Ok(_) => Contestant::new(row, |_| settled(mirror, || (0..2).try_for_each(|_| ls()))),
        Err(missing) => Contestant::missing(row, missing.to_string()),
    };
    let all = in_turns(vec![ours, beside], 1, tree.sizes.rounds)?.concat();
    write(setup, tree, all, CHECKED, rows)
}

/// Writes the times, and Phalanx's ratios to those of the others.
fn write(setup: &Setup, tree: &Tree, all: Vec<Row>, rules: Rules, rows: &mut Rows<'_>) -> Result<()> {
    let ours = all.iter().find(|row| row.scheme == OURS).cloned().unwrap_or_default();
    rows.write_all(all.iter().cloned())?;
    for peer in all.iter().filter(|row| row.scheme != OURS) {
        let Some((mine, theirs)) = ours.median_s.zip(peer.median_s) else { continue };
        let asked = rules.iter().find(|(name, _)| *name == peer.scheme).map(|(_, asked)| *asked);
        let scheme = &peer.scheme;
        let row = Row { over: Some(scheme.clone()), ..tree.row(&ours.operation, OURS) };
        rows.write(match asked {
            Some(Asked::AtMost(most)) => {
                let ratio = mine / theirs;
                let bar = setup.bar(format!("at most {most} times the time of {scheme}"), ratio <= most);
                Row { measure: format!("{WHOLE}: times the time of {scheme}"), value: Some(ratio), bar, ..row }
            }
            _ => {
                let ratio = theirs / mine;
                let bar = match asked {
                    Some(Asked::AtLeast(1.0)) => setup.bar(format!("at least as fast as {scheme}"), ratio >= 1.0),
                    Some(Asked::AtLeast(least)) => {
                        setup.bar(format!("at least {least} times as fast as {scheme}"), ratio >= least)
                    }
                    _ => None,
                };
                Row { measure: format!("{WHOLE}: times as fast as {scheme}"), speedup: Some(ratio), bar, ..row }
            }
        })?;
    }
    Ok(())
}

/// The memory of a run that renews a mirror of many empty files and finds nothing to do, and of the first run.
fn memory(setup: &Setup, own: &Scratch, sizes: Sizes, rows: &mut Rows<'_>) -> Result<()> {
    let mut made = None;
    let place = place(setup, own, &mut made)?;
    let tree = place.folder("many")?;
    // Folders are entries too.
    let folders = sizes.entries / (1 + IN_A_FOLDER);
    for folder in 0..folders {
        let folder = tree.join(format!("folder-{folder}"));
        fs::create_dir(&folder).map_err(Error::at(&folder))?;
        for file in 0..IN_A_FOLDER {
            let path = folder.join(format!("file-{file}.bin"));
            File::create(&path).map_err(Error::at(&path))?;
        }
    }
    for i in 0..sizes.entries - folders * (1 + IN_A_FOLDER) {
        let path = tree.join(format!("file-{i}.bin"));
        File::create(&path).map_err(Error::at(&path))?;
    }
    let phalanx = Keeper::phalanx(setup, place, &tree)?;
    for operation in ["mirror, first run", "mirror, nothing changed"] {
        let run = phalanx.call(&phalanx.line);
        let failed = failure(&run);
        let (seconds, peak_kib) = time(|| programs::peak_memory(run));
        let peak_kib = peak_kib?.ok_or_else(|| failed("its memory is not known"))?;
        let bar = setup.bar(format!("at most {} MiB for 1,000,000 entries", MEMORY >> 10), peak_kib <= MEMORY);
        let case = format!("{} entries, empty files", sizes.entries);
        let row = row_of(EXPERIMENT, case, [operation, "peak memory", OURS, "command"], [0, sizes.entries], 0);
        rows.write(Row { peak_kib: Some(peak_kib), bar, ..row }.timed(vec![seconds]))?;
    }
    phalanx.forget()?;
    scratch::remove(&tree)
}
