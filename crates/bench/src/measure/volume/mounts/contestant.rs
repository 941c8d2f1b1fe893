//! The contestants: Phalanx, gocryptfs, bindfs, and the backing folder itself. Only their commands are known here.

use crate::measure::mounted::{Mounted, missing};
use crate::measure::programs::{command, failure, finish, require};
use crate::measure::scratch::random;
use crate::measure::{Error, Result, Scratch};
use crate::names::mounts::{BINDFS, BY_DEVICE, BY_URING, GOCRYPTFS, PLAIN, SUITE_1, SUITE_5};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether the kernel sends requests by io_uring.
const ENABLED: &str = "/sys/module/fuse/parameters/enable_uring";

/// A folder to work in: a mounted volume, or a plain folder.
pub struct Volume {
    pub name: &'static str,
    pub at: PathBuf,
    /// The backing folder, where the data are stored.
    stored: PathBuf,
    /// The command that mounts it. A plain folder has none.
    command: Option<Box<dyn Fn() -> Command>>,
    mounted: Option<Mounted>,
    /// The largest resident memory of its mounts so far.
    pub peak_kib: Option<u64>,
}

/// All contestants, with new volumes that are not mounted yet. The error of one explains why it does not take part.
pub fn volumes(phalanx: &Path, place: &Scratch) -> Vec<(&'static str, Result<Volume>)> {
    vec![
        (PLAIN, Volume::plain(place)),
        (BINDFS, Volume::bindfs(place)),
        (GOCRYPTFS, Volume::gocryptfs(place)),
        (SUITE_1, Volume::phalanx(phalanx, place, SUITE_1, "", "")),
        (SUITE_5, Volume::phalanx(phalanx, place, SUITE_5, "--cipher aes-256-turbo", "")),
        (BY_DEVICE, Volume::phalanx(phalanx, place, BY_DEVICE, "", "--fuse dev")),
        (BY_URING, Volume::phalanx(phalanx, place, BY_URING, "", "--fuse uring")),
    ]
}

impl Volume {
    pub fn plain(place: &Scratch) -> Result<Self> {
        let at = place.folder("plain")?;
        Ok(Self { name: PLAIN, stored: at.clone(), at, command: None, mounted: None, peak_kib: None })
    }

    /// A new volume in a folder of its own. `init` and `mount` are commands with `{program}`, `{key}`, `{stored}` and
    /// `{at}`.
    fn new(
        name: &'static str,
        place: &Scratch,
        program: &Path,
        key: &[u8],
        init: Option<&str>,
        mount: &str,
    ) -> Result<Self> {
        if let Some(why) = missing() {
            return Err(Error::NotRun(why));
        }
        let folder = name.replace(", ", "-").replace([' ', '/'], "-");
        let make = |what: &str| place.folder(&format!("{folder}-{what}"));
        let (stored, at) = (make("stored")?, make("mounted")?);
        let key = place.secret(&format!("{folder}-key"), key)?;
        let call = {
            let (program, keyring) = (program.to_owned(), place.path("keyring"));
            let (stored, at) = (stored.clone(), at.clone());
            move |line: &str| {
                let paths = [("program", &*program), ("key", &key), ("stored", &stored), ("at", &at)];
                let mut command = command(line, &paths);
                command.env("PHALANX_KEYRING", &keyring).env_remove("PHALANX_PASSWORD");
                command
            }
        };
        init.map_or(Ok(()), |init| finish(call(init)))?;
        let mount = mount.to_owned();
        Ok(Self { name, at, stored, command: Some(Box::new(move || call(&mount))), mounted: None, peak_kib: None })
    }

    /// bindfs with several threads and long requests, like the others. It has no write-back cache.
    fn bindfs(place: &Scratch) -> Result<Self> {
        let mount = "{program} --multithreaded --no-allow-other -o big_writes {stored} {at}";
        Self::new(BINDFS, place, &require("bindfs")?, b"", None, mount)
    }

    /// gocryptfs with its defaults, except for a cheap derivation of the key from the password. Only mounting depends
    /// on that.
    fn gocryptfs(place: &Scratch) -> Result<Self> {
        let init = "{program} -init -q -scryptn 10 -passfile {key} {stored}";
        let mount = "{program} -q -passfile {key} {stored} {at}";
        Self::new(GOCRYPTFS, place, &require("gocryptfs")?, b"correct horse battery staple\n", Some(init), mount)
    }

    /// Phalanx, with the options that name a suite and a way if they are not the default.
    fn phalanx(program: &Path, place: &Scratch, name: &'static str, cipher: &str, way: &str) -> Result<Self> {
        if !program.is_file() {
            return Err(Error::NotRun("no phalanx (--phalanx names one)".into()));
        }
        let help = |of: &str| {
            let mut help = command(&format!("{{program}} {of} --help"), &[("program", program)]);
            let help = help.output().map_err(|e| failure(&help)(&e.to_string()))?;
            Ok::<_, Error>(help.status.success().then(|| String::from_utf8_lossy(&help.stdout).into_owned()))
        };
        let Some(of_init) = help("init")? else {
            return Err(Error::NotRun("this phalanx has no volumes".into()));
        };
        if !of_init.contains(cipher.trim_start_matches("--cipher ")) {
            return Err(Error::NotRun("this phalanx does not have the suite".into()));
        }
        if !way.is_empty() && !help("mount")?.is_some_and(|text| text.contains("--fuse")) {
            return Err(Error::NotRun("this phalanx has one way alone".into()));
        }
        if way.ends_with("uring") && !std::fs::read_to_string(ENABLED).is_ok_and(|text| text.starts_with('Y')) {
            return Err(Error::NotRun("no FUSE by io_uring".into()));
        }
        let init = format!("{{program}} init {{stored}} --key-file {{key}} {cipher}");
        let mount = format!("{{program}} mount {{stored}} {{at}} --key-file {{key}} --daemon {way}");
        Self::new(name, place, program, &random::<32>(7), Some(&init), &mount)
    }

    pub fn mount(&mut self) -> Result<()> {
        if let Some(command) = &self.command {
            self.mounted = Some(Mounted::new(&self.at, command)?);
        }
        Ok(())
    }

    /// Unmounts the volume, so that everything is written.
    pub fn unmount(&mut self) -> Result<()> {
        let Some(mounted) = self.mounted.take() else { return Ok(()) };
        self.peak_kib = self.peak_kib.max(mounted.peak_kib());
        mounted.unmount()
    }

    /// Waits until the backing file system has written all pending data.
    pub fn settle(&self) -> Result<()> {
        let folder = File::open(&self.stored).map_err(Error::at(&self.stored))?;
        rustix::fs::syncfs(&folder).map_err(|e| Error::Path(self.stored.clone(), e.into()))
    }
}
