//! The file in which users name the key services that may open files without `--kms`.

use super::program::{self, Trouble};
use super::{RETRY, Service, TIME};
use crate::file::{check_private_folder, check_unwritable};
use crate::home;
use crate::lines::{one_line, shown};
use crate::{Error, Refused};
use phalanx_system::fs::{self, Mode, OFlags};
use phalanx_system::io::Errno;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The most lines that count.
const MOST: usize = 64;
/// The most bytes of the file.
const LONGEST: u64 = 64 << 10;

/// The file. It is read once, when a file names a service: whoever needs none is not troubled by it.
pub struct Configured {
    path: Option<PathBuf>,
    programs: Option<OsString>,
    services: OnceLock<Result<Vec<Service>, Trouble>>,
}

impl Configured {
    /// The user's file.
    pub fn of_user() -> Self {
        // A program may change its folder later.
        let path = home::key_services().and_then(|path| std::path::absolute(path).ok());
        Self::at(path, env::var_os("PATH"))
    }

    pub(super) fn at(path: Option<PathBuf>, programs: Option<OsString>) -> Self {
        Self { path, programs, services: OnceLock::new() }
    }

    /// The service of a URI, and whether a line names exactly this one. `None` if no line names it.
    ///
    /// # Errors
    /// If the file is refused, cannot be read or is malformed. Then none of its lines count.
    pub fn find(&self, uri: &str) -> Result<Option<(&Service, bool)>, Trouble> {
        let services = self.services.get_or_init(|| self.read()).as_ref().map_err(Clone::clone)?;
        let exact = services.iter().find(|service| !service.is_prefix && service.uri == uri);
        let prefix = || services.iter().find(|service| service.is_prefix && begins(uri, &service.uri));
        Ok(exact.map(|service| (service, true)).or_else(|| Some((prefix()?, false))))
    }

    fn read(&self) -> Result<Vec<Service>, Trouble> {
        let Some(path) = &self.path else { return Ok(Vec::new()) };
        match text(path) {
            Ok(None) => Ok(Vec::new()),
            Ok(Some(text)) => self.parse(path, &text),
            Err(e) => {
                let remedy = crate::failure::hint(&e).unwrap_or_else(|| "--kms names a service without it".into());
                Err(Trouble { line: e.to_string(), remedy, stays: false })
            }
        }
    }

    fn parse(&self, path: &Path, text: &str) -> Result<Vec<Service>, Trouble> {
        let trouble = |line: String, remedy: &str| Trouble {
            line: format!("{}: {line}", shown(path)),
            remedy: remedy.into(),
            stays: false,
        };
        let mut services = Vec::new();
        for (n, line) in text.lines().map(str::trim).enumerate().filter(|(_, line)| !is_comment(line)) {
            let (uri, is_prefix) = line.strip_suffix('*').map_or((line, false), |prefix| (prefix, true));
            // What follows a prefix may be anything.
            let whole = if is_prefix { format!("{uri}x") } else { uri.to_owned() };
            let program = program::name(&whole).ok_or_else(|| {
                let line = format!("line {}: {} is not the URI of a key service", n + 1, one_line(line));
                trouble(line, "it looks like NAME://KEY, or like NAME://TEAM-* for all that begin like that")
            })?;
            services.push(Service::new(uri.into(), is_prefix, program, self.programs.clone(), [TIME, RETRY]));
        }
        if services.len() > MOST {
            let line = format!("it names {} services", services.len());
            return Err(trouble(
                line,
                &format!("at most {MOST} lines may name services; one that ends in * names many"),
            ));
        }
        Ok(services)
    }
}

/// Whether a URI begins like this, and goes on with the name of a key and nothing more: what follows a `?` or `#` can
/// choose another engine, region or server.
fn begins(uri: &str, prefix: &str) -> bool {
    let has_more = |rest: &str| ['?', '#'].iter().any(|mark| rest.contains(*mark) && !prefix.contains(*mark));
    uri.strip_prefix(prefix).is_some_and(|rest| !has_more(rest))
}

fn is_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with('#')
}

/// The text of the file. `None` if there is none. Neither the file nor its folder may be one that other users can change.
fn text(path: &Path) -> crate::Result<Option<String>> {
    let what = format!("the file of key services {}", shown(path));
    let failed = |e: io::Error| Error::read(io::Error::new(e.kind(), format!("{}: {e}", shown(path))));
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let dir = match fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        dir => File::from(dir.map_err(|e| failed(e.into()))?),
    };
    // A pipe must not be waited for, and a link could lead to what a stranger writes.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let file = match fs::openat(&dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(Refused::new(&what, "it is a link").into()),
        Err(Errno::NXIO) => return Err(Refused::new(&what, "it is not a regular file").into()),
        file => File::from(file.map_err(|e| failed(e.into()))?),
    };
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(Refused::new(&what, "it is not a regular file").into());
    }
    let folder_of = format!("the folder of key services {}", shown(folder));
    check_private_folder(&folder_of, &dir, &dir.metadata().map_err(failed)?, folder)?;
    check_unwritable(&what, &file, &meta, path)?;
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LONGEST {
        return Err(Refused::new(&what, "it is longer than 64 KiB").into());
    }
    Ok(Some(text))
}
