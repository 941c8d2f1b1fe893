//! Who takes part: Phalanx, gocryptfs, bindfs, and the backing folder itself. Each is known by its commands only.

use crate::error::{Error, Result};
use crate::measure::mounted::{Mounted, missing};
use crate::measure::programs::{find, finish};
use crate::measure::scratch::{Random, Scratch};
use crate::names::mounts::{BINDFS, GOCRYPTFS, PLAIN, SUITE_1, SUITE_5};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Who takes part, or why not.
pub type Contestants = Vec<std::result::Result<Contestant, (&'static str, String)>>;

/// A folder to work in: a mounted volume, or a plain folder.
pub struct Contestant {
    /// Its name in rows.
    pub name: &'static str,
    /// Where the work is done.
    at: PathBuf,
    /// Where what is done there ends up.
    stored: PathBuf,
    /// The command that mounts it. A plain folder has none.
    command: Option<Box<dyn Fn() -> Command>>,
    mounted: Option<Mounted>,
    peak_kib: Option<u64>,
}

/// All contestants, with new volumes, not mounted yet.
pub fn contestants(phalanx: &Path, place: &Scratch) -> Contestants {
    vec![
        Contestant::plain(place).map_err(|e| (PLAIN, e.to_string())),
        Contestant::bindfs(place).map_err(|why| (BINDFS, why)),
        Contestant::gocryptfs(place).map_err(|why| (GOCRYPTFS, why)),
        Contestant::phalanx(phalanx, place, SUITE_1, None).map_err(|why| (SUITE_1, why)),
        Contestant::phalanx(phalanx, place, SUITE_5, Some("aes-256-turbo")).map_err(|why| (SUITE_5, why)),
    ]
}

impl Contestant {
    /// A plain folder.
    pub fn plain(place: &Scratch) -> Result<Self> {
        let at = place.folder("plain")?;
        Ok(Self { name: PLAIN, stored: at.clone(), at, command: None, mounted: None, peak_kib: None })
    }

    /// A new volume (`init` gives the command that makes it, if there is one), and the folders that it is in and that it is mounted at. `folder` is their name.
    fn volume(
        name: &'static str,
        place: &Scratch,
        folder: &str,
        init: impl FnOnce(&Path) -> Option<Command>,
        mount: impl Fn(&Path, &Path) -> Command + 'static,
    ) -> std::result::Result<Self, String> {
        if let Some(why) = missing() {
            return Err(why);
        }
        let make = |what: &str| place.folder(&format!("{folder}-{what}")).map_err(|e| e.to_string());
        let (stored, at) = (make("stored")?, make("mounted")?);
        init(&stored).map_or(Ok(()), finish).map_err(|e| e.to_string())?;
        let command = {
            let (stored, at) = (stored.clone(), at.clone());
            move || mount(&stored, &at)
        };
        Ok(Self { name, at, stored, command: Some(Box::new(command)), mounted: None, peak_kib: None })
    }

    /// bindfs with several threads and long requests, as the others have them. It has no write-back cache.
    fn bindfs(place: &Scratch) -> std::result::Result<Self, String> {
        let program = find("bindfs").ok_or("no bindfs")?;
        Self::volume(
            BINDFS,
            place,
            "bindfs",
            |_| None,
            move |stored, at| {
                let mut command = Command::new(&program);
                command.args(["--multithreaded", "--no-allow-other", "-o", "big_writes"]).args([stored, at]);
                command
            },
        )
    }

    /// gocryptfs with its defaults. How its password becomes a key is made cheap, because only mounting depends on it.
    fn gocryptfs(place: &Scratch) -> std::result::Result<Self, String> {
        let program = find("gocryptfs").ok_or("no gocryptfs")?;
        let password = secret(&place.path("password"), b"correct horse battery staple\n")?;
        let call = move |args: &[&str], paths: &[&Path]| {
            let mut command = Command::new(&program);
            command.args(args).arg("-passfile").arg(&password).args(paths);
            command
        };
        let init = call.clone();
        let init = move |stored: &Path| Some(init(&["-init", "-q", "-scryptn", "10"], &[stored]));
        Self::volume(GOCRYPTFS, place, "gocryptfs", init, move |stored, at| call(&["-q"], &[stored, at]))
    }

    /// Phalanx, in a suite that is named if it is not the default.
    pub fn phalanx(
        program: &Path,
        place: &Scratch,
        name: &'static str,
        cipher: Option<&'static str>,
    ) -> std::result::Result<Self, String> {
        if !program.is_file() {
            return Err("no phalanx (--phalanx names one)".into());
        }
        let (program, keyring) = (program.to_owned(), place.path("keyring"));
        let call = move |args: &[&str]| {
            let mut command = Command::new(&program);
            command.args(args).env("PHALANX_KEYRING", &keyring).env_remove("PHALANX_PASSWORD");
            command
        };
        let help = call(&["init", "--help"]).output().map_err(|e| e.to_string())?;
        if !help.status.success() {
            return Err("this phalanx has no volumes".into());
        }
        if cipher.is_some_and(|cipher| !String::from_utf8_lossy(&help.stdout).contains(cipher)) {
            return Err("this phalanx does not have the suite".into());
        }
        let mut key = [0; 32];
        Random::new(7).fill(&mut key);
        let key = secret(&place.path(&format!("{name}.key")), &key)?;
        let init = {
            let (call, key) = (call.clone(), key.clone());
            move |stored: &Path| {
                let mut command = call(&["init"]);
                command.arg(stored).arg("--key-file").arg(key);
                if let Some(cipher) = cipher {
                    command.args(["--cipher", cipher]);
                }
                Some(command)
            }
        };
        let folder = name.replace(", ", "-").replace(' ', "-");
        Self::volume(name, place, &folder, init, move |stored, at| {
            let mut command = call(&["mount"]);
            command.arg(stored).arg(at).arg("--key-file").arg(&key).arg("--daemon");
            command
        })
    }

    /// Where the work is done.
    pub fn folder(&self) -> &Path {
        &self.at
    }

    /// Mounts it.
    pub fn mount(&mut self) -> Result<()> {
        if let Some(command) = &self.command {
            self.mounted = Some(Mounted::new(&self.at, command)?);
        }
        Ok(())
    }

    /// Unmounts it, so that everything is written.
    pub fn unmount(&mut self) -> Result<()> {
        let Some(mounted) = self.mounted.take() else { return Ok(()) };
        self.peak_kib = self.peak_kib.max(mounted.peak_kib());
        mounted.unmount()
    }

    /// Mounts it anew. Then nothing of it is in the kernel's cache but what is stored.
    pub fn mount_again(&mut self) -> Result<()> {
        self.unmount()?;
        self.mount()
    }

    /// Waits until the backing file system has written what it has.
    pub fn settle(&self) -> Result<()> {
        let folder = File::open(&self.stored).map_err(Error::at(&self.stored))?;
        rustix::fs::syncfs(&folder).map_err(|e| Error::Path(self.stored.clone(), e.into()))
    }

    /// The largest resident memory of its mounts, in KiB.
    pub fn peak_kib(&self) -> Option<u64> {
        self.peak_kib
    }
}

/// A file that only its owner can read.
fn secret(path: &Path, bytes: &[u8]) -> std::result::Result<PathBuf, String> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(bytes));
    written.map(|()| path.to_owned()).map_err(|e| format!("its key could not be written: {e}"))
}
