//! The folder of a server: its root key, its store and its socket.

use crate::args::Dir;
use crate::refusal::{Kind, Refusal};
use crate::store;
use phalanx_core::{ProtectedFile, Roster, SecretKey, Sink, Zeroizing};
use phalanx_host::args::OpenKeys;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::file::Input;
use phalanx_host::lines::shown;
use phalanx_host::secrets;
use phalanx_host::verbosity::Verbosity;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The variable that names the folder.
const VARIABLE: &str = "PHALANX_SERVER_DIR";

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

    /// The socket of a running server, for its own user.
    pub fn socket(&self) -> PathBuf {
        self.0.join("server.sock")
    }

    /// Opens the root key.
    ///
    /// # Errors
    /// If none of the keys opens it, or it is damaged.
    pub fn open_root(&self, keys: &OpenKeys, verbosity: Verbosity) -> Outcome<SecretKey> {
        let path = self.root();
        let at = |error: phalanx_host::Error| Failure::at(&path, error);
        let opener = secrets::opener(keys, verbosity)?;
        let input = Input::open(&path).map_err(at)?;
        let file = ProtectedFile::open(input.source().map_err(at)?, &opener).map_err(|e| at(e.into()))?;
        let mut plain = Zeroizing::new(Vec::with_capacity(64));
        file.unprotect(&Roster::cpu(), Sink::stream(&mut *plain), &()).map_err(|e| at(e.into()))?;
        let damaged = || Failure::new(Code::NotAuthentic, format!("{}: it is not a root key", shown(&path)));
        SecretKey::from_slice(&plain).ok_or_else(damaged)
    }

    /// A failure of the store.
    pub fn blame(&self, error: store::Error) -> Failure {
        Self::blame_at(&self.store(), error)
    }

    /// A failure of the store at a path.
    pub fn blame_at(path: &Path, error: store::Error) -> Failure {
        let at = |code, text: &str| Failure::new(code, format!("{}: {text}", shown(path))).on(path);
        match error {
            store::Error::Refused(Refusal { kind: Kind::Failed, text }) => at(Code::NotAuthentic, &text),
            store::Error::Refused(Refusal { text, .. }) => Failure::new(Code::Other, text.into_owned()),
            store::Error::Damaged(text) => at(Code::NotAuthentic, &format!("it is damaged: {text}")),
            store::Error::Failed(text) => at(Code::InputOutput, &text),
        }
    }
}
