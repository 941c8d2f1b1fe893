//! The folder of a server: its root key, its store and its socket.

use super::key_options;
use crate::args::Dir;
use crate::refusal::{Kind, Refusal};
use crate::store::{self, BUCKETS, Copies, ROWS, Stored};
use phalanx_core::{Error as CoreError, ProtectedFile, Roster, SecretKey, Sink, Zeroizing};
use phalanx_host::args::OpenKeys;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::file::Input;
use phalanx_host::lines::shown;
use phalanx_host::secrets;
use phalanx_host::verbosity::Verbosity;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The variable that names the folder.
const VARIABLE: &str = "PHALANX_SERVER_DIR";

/// Why a root key is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A server begins.
    ToServe,
    /// A backup is restored or checked.
    ToRestore,
    /// A command does its work without a server, because none runs.
    NoServerRuns,
}

/// The folder of a server.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder that the command line or the environment names.
    ///
    /// # Errors
    /// If neither does.
    pub fn of(dir: &Dir) -> Outcome<Self> {
        let named = || std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let dir = dir.dir.clone().or_else(named);
        let none = || Failure::usage("no folder is named").hint(format!("--dir DIR or {VARIABLE} names it"));
        dir.map(Self).ok_or_else(none)
    }

    /// The folder at a path.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether it is a backup.
    pub fn is_backup(&self) -> bool {
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        is_there(&Copies::in_folder(&self.0).rows) && !is_there(&self.store()) && !is_there(&self.shared())
    }

    /// Refuses a backup, and a folder without a root key: they are no server's, and nothing may be made in them.
    ///
    /// # Errors
    /// If it is one of them.
    pub fn must_be_a_servers(&self) -> Outcome {
        if self.is_backup() {
            let line = format!("{}: it is a backup, and no server's folder", shown(&self.0));
            let failure = Failure::new(Code::InputOutput, line).on(&self.0);
            let backup = key_options::word(&self.0);
            return Err(
                failure.hint(format!("phalanx-server restore {backup} --dir DIR makes a server's folder of it"))
            );
        }
        match self.root().symlink_metadata() {
            // Where a restore was interrupted, whoever locks the folder puts the old root key back.
            Err(e)
                if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
                    && !super::replaced::is_interrupted(self) =>
            {
                let dir = shown(&self.0);
                let failure = Failure::new(Code::InputOutput, format!("{dir}: not a server's folder")).on(&self.0);
                Err(failure.hint(format!("phalanx-server init --dir {} makes one", key_options::word(&self.0))))
            }
            // What else is wrong with it shows when it is opened.
            _ => Ok(()),
        }
    }

    /// Refuses a folder whose files another user could exchange. If `others` says so, root may use one of another user.
    ///
    /// # Errors
    /// What is wrong with it, if it exists.
    pub fn must_be_private(&self, others: bool) -> Outcome {
        let Ok(meta) = self.0.metadata() else { return Ok(()) };
        let refused = |why: String| Failure::new(Code::Other, format!("{}: {why}", shown(&self.0))).on(&self.0);
        let (owner, user) = (meta.uid(), rustix::process::geteuid().as_raw());
        if owner != user && owner != 0 && !(others && user == 0) {
            return Err(refused(format!("it belongs to another user (uid {owner}, not {user})")));
        }
        if meta.mode() & 0o022 != 0 {
            let failure = refused("other users may write to it".into());
            return Err(failure.hint(format!("chmod 700 {}", shown(&self.0))));
        }
        Ok(())
    }

    /// The root key, in a Phalanx file.
    pub fn root(&self) -> PathBuf {
        self.0.join("root.phx")
    }

    /// The store.
    pub fn store(&self) -> PathBuf {
        self.0.join("server.db")
    }

    /// Where the store of several servers is, if it is one: a file with its URL.
    pub fn shared(&self) -> PathBuf {
        self.0.join("store")
    }

    /// Opens the store: the one whose URL is in the folder or, if there is none, the folder's own. That of a backup is
    /// copied to memory, and nothing is written.
    ///
    /// # Errors
    /// If it cannot be opened, or is of another root key.
    pub fn open_store(&self, root: &SecretKey) -> Outcome<Stored> {
        let no_threads = |e| Failure::new(Code::Other, format!("cannot start a thread: {e}"));
        if self.is_backup() {
            let mut store = store::Sqlite::in_memory().map_err(|e| self.blame(e))?;
            Self::fill(&mut store, &Copies::in_folder(&self.0))?;
            return Stored::new(store).map_err(no_threads);
        }
        if self.shared().symlink_metadata().is_err() {
            let own = store::Sqlite::open(&self.store()).map_err(|e| Self::blame_at(&self.store(), e))?;
            return Stored::new(own).map_err(no_threads);
        }
        let shared = self.open_shared(root).map_err(|e| Self::blame_at(&self.shared(), e))?;
        Stored::new(shared).map_err(no_threads)
    }

    /// Fills a new store from a backup.
    ///
    /// # Errors
    /// If the backup is damaged, or something cannot be read or written.
    pub fn fill(store: &mut store::Sqlite, from: &Copies) -> Outcome {
        for (path, tables) in [(&from.rows, ROWS), (&from.buckets, BUCKETS)] {
            store.take_from(path, tables).map_err(|e| Self::blame_at(path, e))?;
        }
        Ok(())
    }

    #[cfg(feature = "postgres")]
    fn open_shared(&self, root: &SecretKey) -> store::Result<store::Postgres> {
        let path = self.shared();
        // Whoever can write it could send the server to another store.
        store::check_owner(&path)?;
        let url = std::fs::read_to_string(&path).map_err(|e| store::Error::Failed(e.to_string()))?;
        store::Postgres::open(store::Place::parse(url.trim())?, crate::keys::root::Root::new(root).mark())
    }

    #[cfg(not(feature = "postgres"))]
    fn open_shared(&self, _: &SecretKey) -> store::Result<store::Sqlite> {
        Err(store::Error::Failed("this program was built without PostgreSQL".into()))
    }

    /// The socket of a running server, for its own user.
    pub fn socket(&self) -> PathBuf {
        self.0.join("server.sock")
    }

    /// Opens the root key.
    ///
    /// # Errors
    /// If none of the keys opens it, or it is damaged.
    pub fn open_root(&self, keys: &OpenKeys, verbosity: Verbosity, why: Why) -> Outcome<SecretKey> {
        self.open_root_at(&self.root(), keys, verbosity, why)
    }

    /// Opens a copy of the root key. Failures are about the file of which it is a copy.
    ///
    /// # Errors
    /// Those of [`Folder::open_root`].
    pub fn open_root_at(&self, copy: &Path, keys: &OpenKeys, verbosity: Verbosity, why: Why) -> Outcome<SecretKey> {
        let path = self.root();
        let at = |error: phalanx_host::Error| Failure::at(&path, error);
        let opener = secrets::opener(keys, verbosity)?;
        let input = Input::open(copy).map_err(at)?;
        let opened = ProtectedFile::open(input.source().map_err(at)?, &opener);
        let file = opened.map_err(|error| self.does_not_open(keys, why, error))?;
        let mut plain = Zeroizing::new(Vec::with_capacity(64));
        file.unprotect(&Roster::cpu(), Sink::stream(&mut *plain), &()).map_err(|e| at(e.into()))?;
        let damaged = || Failure::new(Code::NotAuthentic, format!("{}: it is not a root key", shown(&path)));
        SecretKey::from_slice(&plain).ok_or_else(damaged)
    }

    /// The failure that the root key's file does not open.
    fn does_not_open(&self, keys: &OpenKeys, why: Why, error: CoreError) -> Failure {
        if !matches!(error, CoreError::NoKey { .. } | CoreError::WrongKey) {
            return Failure::at(&self.root(), error);
        }
        let (dir, given) = (shown(&self.0), key_options::names(keys));
        let what = match why {
            Why::ToRestore => shown(&self.root()),
            _ => format!("the root key of {dir}"),
        };
        let line = match (given.as_slice(), &error) {
            ([], CoreError::WrongKey) => format!("no key and no password at hand opens {what}"),
            ([], _) if why == Why::ToRestore => format!("{what}: what opens it is needed"),
            ([], _) if why == Why::ToServe => format!("{dir}: its root key is needed"),
            ([], _) => format!("{dir}: no server runs here, and its root key is needed"),
            ([one], _) => format!("{one} does not open {what}"),
            ([some @ .., last], _) => format!("neither {} nor {last} opens {what}", some.join(", ")),
        };
        let failure = Failure::new(Code::NotAuthentic, line).on(&self.root());
        match (given.is_empty(), why) {
            (false, _) => failure,
            (true, Why::ToServe | Why::ToRestore) => failure.hint(format!("name what opens it: {}", key_options::ALL)),
            (true, Why::NoServerRuns) => {
                failure.hint(format!("start the server, or name what opens the root key: {}", key_options::ALL))
            }
        }
    }

    /// A failure of the store.
    pub fn blame(&self, error: store::Error) -> Failure {
        let shared = self.shared();
        let path = if shared.symlink_metadata().is_ok() { shared } else { self.store() };
        Self::blame_at(&path, error)
    }

    /// A failure of the store at a path.
    pub fn blame_at(path: &Path, error: store::Error) -> Failure {
        let at = |code, text: &str| Failure::new(code, format!("{}: {text}", shown(path))).on(path);
        match error {
            store::Error::Refused(Refusal { kind: Kind::Failed, text }) => {
                at(Code::NotAuthentic, &text).hint("phalanx-server check names all that is damaged")
            }
            store::Error::Refused(Refusal { text, .. }) => Failure::new(Code::Other, text.into_owned()),
            store::Error::Damaged(text) => at(Code::NotAuthentic, &format!("it is damaged: {text}")),
            store::Error::Failed(text) | store::Error::Unavailable(text) => at(Code::InputOutput, &text),
            store::Error::Full => at(Code::InputOutput, "the disk is full"),
        }
    }
}
