//! What rank 0 prepares before the work begins: it finds the paths, makes the roots of mirrors, and compares mirrors
//! with their manifests.

use crate::args::{Plan, What};
use crate::keys::Keys;
use crate::message::{Entry, Location, Task, Tree, Welcome};
use crate::tally::{Failures, Root};
use crate::{tree, worker};
use phalanx_core::{Error as CoreError, Roster};
use phalanx_host::Error;
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::file::{Existing, Made, Output};
use phalanx_host::folders::parent;
use phalanx_host::lines::{complain, shown};
use phalanx_host::mirror::manifest::{Above, Listed, Lost, Pins, refuse_lost};
use phalanx_host::mirror::state::Trees;
use phalanx_host::mirror::verdict::Compared;
use phalanx_host::paths::{End, Route};
use phalanx_host::signatures::Signing;
use rustix::fs::{Timespec, Timestamps};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files on the command line that have at least this length, in bytes, are divided among all processes.
const DIVIDED: u64 = 16 << 20;

/// What rank 0 prepares before the work begins.
pub struct Prepared {
    pub welcome: Welcome,
    pub tasks: Vec<Task>,
    pub files: u64,
    pub bytes: u64,
    /// The roots of the trees, by their numbers.
    pub roots: BTreeMap<u32, Root>,
    pub marks: Vec<Mark>,
    /// The trees that the driver walks through.
    pub walked: Vec<Walked>,
    /// The worst failure of paths that cannot be worked on.
    pub failed: Outcome,
}

impl Prepared {
    /// The roots of trees, and those of their mirrors.
    pub fn mirrors(&self) -> Vec<(PathBuf, PathBuf)> {
        self.roots.values().filter_map(|root| Some((root.input.clone(), root.output.clone()?))).collect()
    }
}

/// A tree that the driver walks through.
pub struct Walked {
    /// Its number.
    pub number: u32,
    pub input: PathBuf,
    pub output: Option<PathBuf>,
    /// What was found when it was compared with its manifest, if its files are opened.
    pub compared: Option<Compared>,
}

pub fn prepare(plan: &Plan, keys: Option<&Keys>, roster: &Arc<Roster>, tally: &Failures) -> Outcome<Prepared> {
    let folder = env::current_dir().map_err(|e| Failure::at(Path::new("."), Error::read(e)))?;
    let is_verifying = matches!(plan.what, What::Verify { .. });
    let (routes, named) = match is_verifying {
        true => (plan.paths.iter().cloned().map(nowhere).collect(), Ok(())),
        false => plan.destination.routes(&plan.paths, |name| plan.output_name(name))?,
    };
    let inputs: Vec<PathBuf> =
        routes.iter().map(|route| route.input.path().to_owned()).filter(|path| path.is_dir()).collect();
    let (mut trees, mut tasks, mut small, mut roots) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
    let mut walked = Vec::new();
    let (mut files, mut bytes) = (0, 0);
    let (made, key_files) = (Made::default(), worker::key_files(plan));
    let signing = plan.signers.signing()?;
    let routes_failed = failure::each(&routes, |route| {
        let input = route.input.path();
        let output = (!is_verifying).then(|| route.output.path());
        let of = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let meta = std::fs::metadata(input).map_err(|e| Failure::at(input, Error::read(e)))?;
        if !meta.is_dir() && signing.signers().is_some() {
            let line = format!("{}: --signers takes folders here", shown(input));
            return Err(Failure::usage(line).hint("phalanx checks the signatures of files"));
        }
        if meta.is_dir() {
            if !plan.destination.recursive {
                return Err(Failure::folder(input));
            }
            let takes = plan.destination.force || plan.destination.resume;
            let existing = if takes { Existing::Replace(&made) } else { Existing::Keep };
            let tree = u32::try_from(trees.len()).map_err(|_| Failure::usage("too many folders"))?;
            let compared = keys.map_or(Ok(None), |keys| compare(plan, keys, (roster, &signing), input))?;
            let (mut mirror, inode) = (None, tree::root(input)?.0.1);
            if let Some(output) = output.filter(|_| !plan.run.dry_run) {
                let inode = tree::make_root(&inputs, input, output, existing, plan.destination.carry)?;
                mirror = Some((of(output), inode));
            }
            let output = mirror.as_ref().and(output).map(Path::to_owned);
            let is_protecting = matches!(plan.what, What::Protect { .. }) && !plan.run.dry_run;
            let is_walked = is_protecting || compared.is_some();
            roots.insert(tree, Root { input: input.to_owned(), output: output.clone(), is_walked });
            trees.push(Tree { input: (of(input), inode), output: mirror });
            if is_walked {
                if let Some(Compared { wrong, outcome: Err(failure), .. }) = &compared {
                    (0..*wrong).for_each(|_| tally.of_all.fail(&Failure::written(failure.code())));
                }
                walked.push(Walked { number: tree, input: input.to_owned(), output, compared });
            } else {
                tasks.push(Task::Folder { tree, folder: Vec::new() });
            }
            return Ok(());
        }
        output.filter(|_| !plan.run.dry_run).map_or(Ok(()), |output| key_files.check_output(output))?;
        let (name, output, len) = (of(input), output.map(of), meta.len());
        files += 1;
        bytes += len;
        match () {
            () if plan.run.dry_run && plan.verbosity.verbose => complain(shown(input)),
            () if plan.run.dry_run => {}
            () if len >= DIVIDED && meta.is_file() => {
                tasks.push(Task::Begin {
                    file: 0,
                    location: Location { tree: None, folder: Vec::new(), name, output, listed: None },
                });
            }
            () => small.push(Entry { name, output, len, mtime: (meta.mtime(), meta.mtime_nsec()), listed: None }),
        }
        Ok(())
    });
    tasks.extend(batches(small));
    let outputs = routes.iter().map(|route| (route.input.path(), route.output.path()));
    let folders: BTreeSet<PathBuf> = match is_verifying || plan.run.dry_run {
        true => BTreeSet::new(),
        false => {
            outputs.map(|(input, output)| if input.is_dir() { output.into() } else { parent(output).into() }).collect()
        }
    };
    let marks: Vec<Mark> =
        folders.into_iter().take(MARKS).filter_map(|folder| mark(folder).transpose()).collect::<Outcome<_>>()?;
    let welcome = Welcome {
        folder: folder.into_os_string().into_vec(),
        trees,
        outputs: marks.iter().map(|(seen, _)| seen.clone()).collect(),
        umask: phalanx_host::file::umask(),
    };
    let failed = failure::worse(named, routes_failed);
    Ok(Prepared { welcome, tasks, files, bytes, roots, marks, walked, failed })
}

/// Prepares to write to a mirror that is there.
pub fn prepare_mirror(source: &Path, mirror: &Path) -> Outcome<Prepared> {
    let folder = env::current_dir().map_err(|e| Failure::at(Path::new("."), Error::read(e)))?;
    let of = |path: &Path| -> Outcome<_> { Ok((path.as_os_str().as_bytes().to_vec(), tree::root(path)?.0.1)) };
    let tree = Tree { input: of(source)?, output: Some(of(mirror)?) };
    let root = Root { input: source.to_owned(), output: Some(mirror.to_owned()), is_walked: true };
    let marks: Vec<Mark> = mark(mirror.to_owned())?.into_iter().collect();
    let welcome = Welcome {
        folder: folder.into_os_string().into_vec(),
        trees: vec![tree],
        outputs: marks.iter().map(|(seen, _)| seen.clone()).collect(),
        umask: phalanx_host::file::umask(),
    };
    let roots = BTreeMap::from([(0, root)]);
    let (tasks, walked) = (Vec::new(), Vec::new());
    Ok(Prepared { welcome, tasks, files: 0, bytes: 0, roots, marks, walked, failed: Ok(()) })
}

/// Gives the roots of mirrors the times of their originals again, after marks in them were deleted.
pub fn restore_times(roots: &[(PathBuf, PathBuf)]) {
    for (input, output) in roots {
        let (Ok(from), Ok(to)) = (tree::root(input), tree::root(output)) else { continue };
        let Ok(stat) = rustix::fs::fstat(&from.1) else { continue };
        let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        let times = Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec as _),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec as _),
        };
        // They are of no importance.
        let _ = rustix::fs::futimens(&to.1, &times);
    }
}

/// Compares a folder of protected files with its manifest. `None` if that is not to be done.
fn compare(
    plan: &Plan,
    keys: &Keys,
    (roster, signing): (&Arc<Roster>, &Signing),
    input: &Path,
) -> Outcome<Option<Compared>> {
    let Keys::Open(opener) = keys else { return Ok(None) };
    let (pins, quick) = match &plan.what {
        What::Unprotect { ignores_manifest: true, .. } => return Ok(None),
        What::Verify { pins, quick, .. } => (pins.clone(), *quick),
        _ => (Pins::default(), false),
    };
    let lost = match &plan.what {
        What::Verify { .. } if pins.accept => Lost::Forgotten,
        What::Verify { .. } => Lost::Refused("verify --accept goes on without it"),
        _ => Lost::Refused("--ignore-manifest restores what is there"),
    };
    match Listed::read_at_or_above(input, &**opener, roster.clone(), lost, signing.first())? {
        Some(Above { listed, root, within }) => {
            check_signature(plan, signing, &root, &listed)?;
            listed.compare_within(&root, &pins, &within).map(Some)
        }
        None if quick || pins.names_one() || signing.signers().is_some() => {
            let line = format!("{}: it has no manifest", shown(input));
            Err(Failure::new(Code::NotAuthentic, line).on(input))
        }
        None => refuse_lost(input, &Trees::of_user(), lost).map(|()| None),
    }
}

/// Checks the signature of a manifest, if somebody must have signed it, and says who has.
fn check_signature(plan: &Plan, signing: &Signing, mirror: &Path, listed: &Listed) -> Outcome {
    let Some(signers) = signing.signers() else { return Ok(()) };
    let name = signers.check_tree(mirror, listed.signed, &listed.listing)?;
    if !plan.verbosity.quiet {
        complain(format!("{}: signed by {name}", shown(mirror)));
    }
    Ok(())
}

/// A file in a folder of outputs, which shows all processes that they see the same folder: the folder, the file's name
/// and content, and the file. It is deleted when it is dropped.
pub type Mark = ((Vec<u8>, Vec<u8>, [u8; 32]), Output);

/// The most folders that are marked.
const MARKS: usize = 256;

/// Marks a folder. `None` if it does not exist: the process that writes to it reports that.
pub fn mark(folder: PathBuf) -> Outcome<Option<Mark>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let at = |e: Error| Failure::at(&folder, e);
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| at(CoreError::Random(e).into()))?;
    // The names are always the same, so that what a killed run has left is replaced. Other jobs may be using some of
    // them.
    let create = |number: u32| Output::create(&folder.join(format!("phalanx-mpi {number}")), Existing::Keep);
    let output = (1..64).find_map(|number| create(number).ok()).map_or_else(|| create(0), Ok).map_err(at)?;
    output.file().write_all_at(&bytes, 0).and_then(|()| output.file().sync_all()).map_err(|e| at(Error::write(e)))?;
    let name = output.temporary_name().as_bytes().to_vec();
    Ok(Some(((folder.into_os_string().into_vec(), name, bytes), output)))
}

/// Puts files on the command line into batches like those of a folder.
fn batches(files: Vec<Entry>) -> Vec<Task> {
    let mut batches: Vec<Vec<Entry>> = Vec::new();
    let mut bytes = 0;
    for file in files {
        bytes += file.len;
        match batches.last_mut() {
            Some(batch) if batch.len() < tree::BATCH_FILES && bytes < tree::BATCH_BYTES => batch.push(file),
            _ => {
                bytes = file.len;
                batches.push(vec![file]);
            }
        }
    }
    batches.into_iter().map(|files| Task::Files { tree: None, folder: Vec::new(), files }).collect()
}

fn nowhere(path: PathBuf) -> Route {
    Route { input: End::from(path), output: End::Standard }
}
