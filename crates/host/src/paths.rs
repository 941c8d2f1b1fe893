//! Which file goes where. Only the command line decides this, never the files that happen to exist.

use crate::Error;
use crate::failure::{self, Code, Failure, Outcome};
use crate::file::Existing;
use crate::file::{Carry, InputFile, Made, OutputRules, Url, is_url};
use crate::lines::shown;
use phalanx_core::Error as CoreError;
use phalanx_core::format::Header;
use phalanx_system::{files, parent};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
#[cfg(unix)]
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// One end of a transfer, as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Standard input or output, named by `-`.
    Standard,
    /// A file or folder.
    Path(PathBuf),
    /// An object in a store.
    Object(Url),
}

impl From<PathBuf> for End {
    fn from(path: PathBuf) -> Self {
        match Url::of(&path) {
            _ if is_dash(&path) => End::Standard,
            Some(url) => End::Object(url),
            None => End::Path(path),
        }
    }
}

impl End {
    /// The path, or `-`.
    pub fn path(&self) -> &Path {
        match self {
            End::Standard => Path::new("-"),
            End::Path(path) => path,
            End::Object(url) => url.path(),
        }
    }

    /// Whether it is standard input or output.
    pub fn is_standard(&self) -> bool {
        *self == End::Standard
    }
}

/// Where outputs go.
#[derive(Clone, Debug)]
pub enum Outputs {
    /// Each output goes beside its input.
    Beside,
    /// The path of the only output.
    At(End),
    /// An existing folder that outputs go into.
    In(PathBuf),
}

/// Where outputs go, and how.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Where they go.
    pub outputs: Outputs,
    /// Whether existing outputs are replaced.
    pub force: bool,
    /// Whether inputs are deleted.
    pub remove: bool,
    /// Whether outputs must be on the disk.
    pub sync: bool,
    /// Whether inputs may be folders.
    pub recursive: bool,
    /// Whether large outputs stay if the run is interrupted, and a later run goes on with them.
    pub resume: bool,
    /// Which permissions, times and attributes outputs get.
    pub carry: Carry,
}

/// One input and its output.
#[derive(Clone, Debug)]
pub struct Route {
    /// The input.
    pub input: End,
    /// The output.
    pub output: End,
}

impl Destination {
    /// For a run that writes no outputs.
    pub fn nowhere(recursive: bool) -> Self {
        Self {
            outputs: Outputs::Beside,
            force: false,
            remove: false,
            sync: false,
            recursive,
            resume: false,
            carry: Carry::All,
        }
    }

    /// Checks everything that can be checked without looking at the paths.
    pub fn check(&self, paths: &[PathBuf]) -> Outcome {
        let from_stdin = paths.iter().any(|p| is_dash(p));
        match &self.outputs {
            Outputs::At(_) if paths.len() > 1 => {
                return Err(
                    Failure::usage("--output names one output, and there are several inputs").hint("use --output-dir")
                );
            }
            Outputs::At(End::Standard) if self.recursive => {
                return Err(Failure::usage("--recursive writes folders: they cannot go to standard output"));
            }
            Outputs::At(End::Path(path)) if !self.recursive && files::ends_in_slash(path) => {
                let line = format!("{}: --output names a file", shown(path));
                return Err(Failure::usage(line).hint("use --output-dir for a folder"));
            }
            _ => {}
        }
        self.check_objects(paths)?;
        let to_stdout = self.writes_stdout(paths);
        if self.resume && (to_stdout || from_stdin) {
            return Err(Failure::usage("--resume does not work with -"));
        }
        if self.remove && (to_stdout || from_stdin) {
            return Err(Failure::usage("--remove does not work with -"));
        }
        if let Some(link) = paths.iter().find(|path| is_link(path)).filter(|_| self.remove) {
            return Err(Failure::usage(format!("{}: it is a link: --remove would leave its file", shown(link))));
        }
        Ok(())
    }

    /// Refuses what cannot be done with objects in stores.
    fn check_objects(&self, paths: &[PathBuf]) -> Outcome {
        match &self.outputs {
            Outputs::At(End::Path(path)) | Outputs::In(path) => no_misspelt_url(path)?,
            Outputs::At(_) | Outputs::Beside => {}
        }
        let at = |url: &Path, why: &str| Failure::usage(format!("{}: {why}", shown(End::from(url.to_owned()).path())));
        let output = match &self.outputs {
            Outputs::At(End::Object(url)) if url.name().is_none() && !self.recursive => {
                return Err(at(url.path(), "it names no object").hint("--output-dir takes the URL of a folder"));
            }
            Outputs::At(end @ End::Object(_)) => Some(end.path()),
            Outputs::In(folder) => Some(&**folder).filter(|folder| is_url(folder)),
            Outputs::At(_) | Outputs::Beside => None,
        };
        let input = paths.iter().find(|path| is_url(path));
        let Some(url) = input.map(|path| &**path).or(output) else { return Ok(()) };
        match () {
            () if self.remove => Err(at(url, "--remove works with files only, and this is an object")),
            () if self.resume && input.is_some() && output.is_none() => {
                Err(at(url, "--resume goes on with uploads, and not with downloads"))
            }
            () if input.is_some() && matches!(self.outputs, Outputs::Beside) => {
                Err(at(url, "where its output goes must be said").hint("name it with --output or --output-dir"))
            }
            () => Ok(()),
        }
    }

    /// Whether an output goes to standard output.
    pub fn writes_stdout(&self, paths: &[PathBuf]) -> bool {
        match &self.outputs {
            Outputs::Beside => paths.iter().any(|path| is_dash(path)),
            Outputs::At(end) => end.is_standard(),
            Outputs::In(_) => false,
        }
    }

    /// The routes of all inputs, and the failures of those that have none. `beside` returns the output that belongs
    /// beside an input.
    pub fn routes(
        &self,
        paths: &[PathBuf],
        beside: impl Fn(&OsStr) -> Option<OsString>,
    ) -> Outcome<(Vec<Route>, Outcome)> {
        if let Outputs::In(folder) = &self.outputs
            && !is_url(folder)
            && !folder.is_dir()
        {
            let line = format!("{}: no such folder", shown(folder));
            return Err(Failure::new(Code::InputOutput, line).hint("--output-dir needs an existing one"));
        }
        let mut routes = Vec::new();
        let named = failure::each(paths, |path| {
            let input = End::from(path.clone());
            let own = match &input {
                End::Standard => None,
                End::Path(path) => path.file_name(),
                End::Object(url) if self.recursive => url.folder_name().map(OsStr::new),
                End::Object(url) => url.name().map(OsStr::new),
            };
            let name = || own.and_then(&beside);
            let name = || name().ok_or_else(|| nameless(&input));
            let output = match &self.outputs {
                Outputs::At(output) => output.clone(),
                Outputs::In(folder) => match Url::of(folder) {
                    Some(url) => End::Object(url.join(text(&name()?)?)),
                    None => End::Path(folder.join(name()?)),
                },
                Outputs::Beside if input.is_standard() => End::Standard,
                Outputs::Beside => End::Path(path.with_file_name(name()?)),
            };
            if matches!(&output, End::Object(_)) && output == input {
                return Err(Failure::at_output(output.path(), Error::SameFile));
            }
            routes.push(Route { input, output });
            Ok(())
        });
        refuse_collisions(&routes)?;
        Ok((routes, named))
    }

    /// How outputs are made. `made` are the outputs of this run.
    pub fn rules<'a>(&self, made: &'a Made) -> OutputRules<'a> {
        OutputRules { existing: self.existing(made), sync: self.sync, resume: self.resume, carry: self.carry }
    }

    /// How existing outputs are treated. `made` are the outputs of this run.
    pub fn existing<'a>(&self, made: &'a Made) -> Existing<'a> {
        if self.force { Existing::Replace(made) } else { Existing::Keep }
    }
}

/// A name as the name of an object, which is always text.
fn text(name: &OsStr) -> Outcome<&str> {
    let not_text = || Failure::usage(format!("{}: it is not UTF-8, as names of objects are", shown(Path::new(name))));
    name.to_str().ok_or_else(not_text)
}

/// Why no output name can be made from an input's name.
fn nameless(input: &End) -> Failure {
    if let End::Path(path) = input
        && let Ok(file) = InputFile::open(path)
        && matches!(Header::read(&mut file.file()), Err(CoreError::NotPhalanx))
    {
        return Failure::at(path, CoreError::NotPhalanx);
    }
    Failure::usage(format!("{}: no name for the output", shown(input.path()))).hint("give one with --output")
}

/// Refuses routes whose output would replace another one, or an input that is still to be read.
fn refuse_collisions(routes: &[Route]) -> Outcome {
    if routes.len() < 2 {
        return Ok(());
    }
    // Inputs, and outputs with the route that they belong to.
    let inputs = routes.iter().filter_map(|route| Some((identity(&route.input)?, None)));
    let mut taken: HashMap<_, Option<&Route>> = inputs.collect();
    for route in routes {
        let Some(id) = identity(&route.output) else { continue };
        let (input, output) = (shown(route.input.path()), shown(route.output.path()));
        let line = match taken.insert(id, Some(route)) {
            None => continue,
            Some(None) => format!("{output}: it is an input, and would be the output of {input}"),
            Some(Some(other)) => {
                format!("{output}: it would be the output of both {} and {input}", shown(other.input.path()))
            }
        };
        return Err(Failure::usage(line));
    }
    Ok(())
}

/// Identifies the file that a path names: the folder that contains it, and its name there. An object is its URL.
fn identity(end: &End) -> Option<(u64, u64, OsString)> {
    let path = match end {
        End::Standard => return None,
        End::Object(url) => return Some((0, 0, OsString::from(url.text()))),
        End::Path(path) => path,
    };
    let (device, inode) = files::id_at(parent(path)).ok()?;
    Some((device, inode, path.file_name()?.to_owned()))
}

/// Refuses more than one standard input, which can be read only once: a dash, and what leads to the same pipe, such as `/dev/stdin`.
pub fn one_stdin<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Outcome {
    let named: Vec<_> = paths.into_iter().filter(|path| is_dash(path) || is_piped_in(path)).collect();
    match named[..] {
        [] | [_] => Ok(()),
        _ if named.iter().all(|path| is_dash(path)) => Err(Failure::usage("- is given more than once")),
        [first, second, ..] => {
            let line = format!("{} and {} are both standard input", shown(first), shown(second));
            Err(Failure::usage(line))
        }
    }
}

/// Whether a path leads to the pipe that is standard input. A file can be opened once more, and read from its beginning.
#[cfg(unix)]
fn is_piped_in(path: &Path) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().and_then(|stdin| File::from(stdin).metadata());
    let is_same = |stdin: std::fs::Metadata| {
        let is_same = |named: std::fs::Metadata| (named.dev(), named.ino()) == (stdin.dev(), stdin.ino());
        stdin.file_type().is_fifo() && path.metadata().is_ok_and(is_same)
    };
    stdin.is_ok_and(is_same)
}

/// Whether a path leads to the pipe that is standard input: it has no other name there.
#[cfg(not(unix))]
fn is_piped_in(_: &Path) -> bool {
    false
}

/// Refuses URLs where only paths make sense. `what` is the command or option.
///
/// # Errors
/// If one of them is a URL.
pub fn no_urls<'a>(what: &str, paths: impl IntoIterator<Item = &'a PathBuf>) -> Outcome {
    match paths.into_iter().find(|path| is_url(path)) {
        Some(url) => {
            let line = format!("{}: {what} does not take URLs of objects", shown(End::from(url.clone()).path()));
            Err(Failure::usage(line).hint("./ before the name makes it a path"))
        }
        None => Ok(()),
    }
}

/// Refuses URLs with `--recursive` where folders must lie on disks. `what` is the command.
///
/// # Errors
/// If one of them is a URL.
pub fn no_url_folders<'a>(what: &str, paths: impl IntoIterator<Item = &'a Path>) -> Outcome {
    match paths.into_iter().find(|path| is_url(path)) {
        Some(url) => {
            let url = shown(End::from(url.to_owned()).path());
            Err(Failure::usage(format!("{url}: {what} --recursive takes folders on disks only")))
        }
        None => Ok(()),
    }
}

/// Refuses a path that something is to be written to, and that looks like a URL which is misspelt or of an unknown kind.
///
/// # Errors
/// If it does.
pub fn no_misspelt_url(path: &Path) -> Outcome {
    let text = path.to_string_lossy();
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let scheme = text.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| is_word(scheme));
    let is_store = |scheme: &str| ["s3", "gs", "az"].contains(&&*scheme.to_ascii_lowercase());
    let looks_like_one = scheme.is_some_and(|scheme| is_store(scheme) || text[scheme.len()..].starts_with("://"));
    if is_url(path) || !looks_like_one {
        return Ok(());
    }
    let line = format!("{}: no URL of a store is written like that", shown(path));
    Err(Failure::usage(line).hint("s3://BUCKET/NAME is one; ./ before the name makes it a path"))
}

/// Whether an argument stands for standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses to write protected bytes to a terminal, unless standard output was named explicitly.
pub fn refuse_terminal(destination: &Destination, paths: &[PathBuf]) -> Outcome {
    let unsaid = matches!(destination.outputs, Outputs::Beside) && paths.iter().any(|p| is_dash(p));
    if unsaid && io::stdout().is_terminal() {
        return Err(Failure::usage("protected bytes are not for a terminal").hint("name an --output, or - to insist"));
    }
    Ok(())
}

/// Whether a path names a symbolic link, even if a slash follows its last name.
pub fn is_link(path: &Path) -> bool {
    path.components().as_path().is_symlink()
}

/// The length of a regular file. The length of anything else is unknown before it is opened.
pub fn file_len(path: &Path) -> Option<u64> {
    path.metadata().ok().filter(|meta| meta.is_file()).map(|meta| meta.len())
}
