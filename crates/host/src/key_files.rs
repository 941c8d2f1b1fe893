//! The files that hold the user's keys, passwords and identities. Nothing that a program does with a key
//! deletes or replaces that key.

use crate::args::KeyArgs;
use crate::failure::{Failure, Outcome};
use crate::file::{Made, Spared, Stamp, has_resource_fork};
use crate::lines::shown;
use crate::paths::is_dash;
use crate::{folders, secret_files};
use phalanx_system::files;
use phalanx_system::os::fs::FileExt;
use phalanx_system::stdio::output_file;
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// Device and inode.
type Id = (u64, u64);

/// Where the keys of a command are kept.
#[derive(Debug, Default)]
pub struct KeyFiles {
    /// The folder of the keyring.
    keyring: Option<Id>,
    /// The files of the keys in the keyring.
    kept: HashSet<Id>,
    /// The files of the keys and passwords that this command uses.
    in_use: HashSet<Id>,
    /// The links on the way to the keyring and to all these files.
    links: HashSet<Id>,
    /// All of these, which no output replaces.
    spared: Arc<Spared>,
    /// Whether files of identities are not deleted.
    spares_identities: bool,
}

/// The files of keys and identities that this process has read, as a library that keeps keys for its caller.
static NOTED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Records a file of a key or of identities for [`KeyFiles::of_process`], because its caller may have no other copy.
pub fn note_file(path: &Path) {
    // A dash is standard input. The working folder may change.
    let path =
        if is_dash(path) { path.to_owned() } else { std::path::absolute(path).unwrap_or_else(|_| path.to_owned()) };
    NOTED.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
}

/// Why an input is not deleted.
pub const HOLDS_KEY: &str = "it holds a key or password";
const HOLDS_IDENTITIES: &str = "it holds identities";
const HAS_RESOURCE_FORK: &str = "it has a resource fork, which is not protected";

impl KeyFiles {
    /// The key files of a command line. A file that cannot be found cannot be deleted either.
    pub fn new(args: &KeyArgs, identities: &[PathBuf]) -> Self {
        let keyring = secret_files::keyring().ok();
        let dir = keyring.as_ref().map(|ring| ring.dir());
        let named = args.keys.iter().filter_map(|name| Some(dir?.join(format!("{name}.key"))));
        let given = args.files().chain(identities).cloned();
        let entries = dir.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
        let kept: Vec<_> = entries.map(|entry| entry.path()).collect();
        let in_use: Vec<_> = named.chain(given).collect();
        let mut links = HashSet::new();
        let paths = kept.iter().chain(&in_use).map(PathBuf::as_path);
        dir.into_iter().chain(paths).for_each(|path| collect_links(path, &mut links));
        let keyring = dir.and_then(id);
        let ids = |paths: &[PathBuf]| paths.iter().filter_map(|path| id(path)).collect::<HashSet<_>>();
        let (kept, in_use) = (ids(&kept), ids(&in_use));
        let spared = Spared {
            ids: kept.iter().chain(&in_use).chain(&links).copied().collect(),
            folders: keyring.into_iter().collect(),
        };
        Self { keyring, kept, in_use, links, spared: Arc::new(spared), spares_identities: false }
    }

    /// The key files of the keyring only.
    pub fn of_keyring() -> Self {
        Self::new(&KeyArgs::default(), &[])
    }

    /// The key files of the keyring, and all that this process has noted by [`note_file`].
    pub fn of_process() -> Self {
        let noted: Vec<_> = NOTED.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        Self::new(&KeyArgs::default(), &noted)
    }

    /// Also spares files of identities, for a command that protects for public keys: any of them may be the one that
    /// opens its outputs.
    pub fn sparing_identities(self) -> Self {
        Self { spares_identities: true, ..self }
    }

    /// Also spares standard output, if that is a file: it has a generated password that nobody else has.
    pub fn sparing_output(mut self) -> Self {
        if output_file().is_some()
            && let Ok(id) = folders::id(&io::stdout())
        {
            self.in_use.insert(id);
            let ids = self.spared.ids.iter().copied().chain([id]).collect();
            self.spared = Arc::new(Spared { ids, folders: self.spared.folders.clone() });
        }
        self
    }

    /// The outputs of a run that replaces none of these files.
    pub fn made(&self) -> Made {
        Made::sparing(self.spared.clone())
    }

    /// Refuses an output in the place of a file that holds identities, if such files are spared.
    pub fn check_output(&self, path: &Path) -> Outcome {
        if !self.spares_identities || !path.is_file() {
            return Ok(());
        }
        let is_of_identities = |file: &File| file.metadata().map_or(true, |meta| holds_identities(file, meta.len()));
        match File::open(path) {
            Ok(file) if is_of_identities(&file) => {
                let line = format!("{}: it holds identities, which no output replaces", shown(path));
                Err(Failure::usage(line).hint("move it away"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a link is on the path to the keyring, or to a key or password that this command uses.
    pub fn leads_to_key(&self, link: Id) -> bool {
        self.links.contains(&link)
    }

    /// Why an input must not be deleted. `None` if it may be.
    pub fn spares(&self, input: &File, stamp: Stamp) -> Option<&'static str> {
        if self.holds(stamp.id()) {
            return Some(HOLDS_KEY);
        }
        if has_resource_fork(input) {
            return Some(HAS_RESOURCE_FORK);
        }
        (self.spares_identities && holds_identities(input, stamp.len())).then_some(HOLDS_IDENTITIES)
    }

    /// Whether a folder is the keyring's.
    pub fn is_keyring(&self, folder: Id) -> bool {
        self.keyring == Some(folder)
    }

    /// Whether a file holds a key of the keyring, or a key or password that this command uses.
    pub fn holds(&self, file: Id) -> bool {
        self.kept.contains(&file) || self.is_in_use(file)
    }

    /// Whether a file holds a key or a password that this command uses.
    pub fn is_in_use(&self, file: Id) -> bool {
        self.in_use.contains(&file)
    }
}

/// Whether the beginning of a file looks like identities of age or SSH. Returns true for a file that cannot be read, to
/// be safe.
fn holds_identities(file: &File, len: u64) -> bool {
    /// Longer files do not hold identities.
    const LONGEST: u64 = 1 << 20;
    let mut begin = Zeroizing::new([0; 4096]);
    len <= LONGEST && file.read_at(&mut *begin, 0).map_or(true, |read| begins_identities(&begin[..read]))
}

fn begins_identities(begin: &[u8]) -> bool {
    /// The beginnings of lines of such a file. The last one is `LOCKED` in base64.
    const LINES: [&str; 3] = ["AGE-SECRET-KEY-", "AGE-PLUGIN-", "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdC"];
    /// The beginning of a file of identities that a passphrase protects.
    const LOCKED: &[u8] = b"age-encryption.org/v1\n-> scrypt ";
    let is_of_identity = |line: &[u8]| {
        let is_private_key = || line.windows(11).any(|part| part == b"PRIVATE KEY");
        LINES.iter().any(|with| line.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with.as_bytes())))
            || line.starts_with(b"-----BEGIN ") && is_private_key()
    };
    begin.starts_with(LOCKED) || begin.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start).any(is_of_identity)
}

/// Adds the links that the kernel follows on its way along a path.
fn collect_links(path: &Path, links: &mut HashSet<Id>) {
    /// No kernel follows more links than this.
    const MOST: usize = 40;
    let names = |path: &Path| path.components().rev().map(|name| name.as_os_str().to_owned()).collect::<Vec<_>>();
    let (mut at, mut left, mut followed) = (PathBuf::new(), names(path), 0);
    while let Some(name) = left.pop() {
        let here = at.join(name);
        match fs::symlink_metadata(&here) {
            Ok(meta) if meta.is_symlink() && followed < MOST => {
                followed += 1;
                links.extend(files::id_of_link(&here, &meta));
                left.extend(fs::read_link(&here).map(|target| names(&target)).unwrap_or_default());
            }
            Ok(meta) if !meta.is_symlink() => at = here,
            _ => return,
        }
    }
}

/// The file that a path of the command line leads to. Standard input may be a file too: `--key-file - <key.bin`.
fn id(path: &Path) -> Option<Id> {
    if is_dash(path) {
        return folders::id(&io::stdin()).ok();
    }
    files::id_at(path).ok()
}
