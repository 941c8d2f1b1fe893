//! Other programs: where they are, which versions they have, how they are called, and how they end.

use crate::measure::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The versions of the programs that are installed. Each program comes with the argument that makes it print its
/// version.
pub fn versions_of(programs: &[(&str, &str)]) -> Vec<String> {
    let version = |&(name, argument): &(&str, &str)| {
        let line = first_line(Command::new(find(name)?).arg(argument))?;
        Some(if line.contains(name) { line } else { format!("{name} {line}") })
    };
    programs.iter().filter_map(version).collect()
}

/// The first line of a command's output that is not empty.
pub fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

pub fn find(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The path of an installed program. It is an error if it is not installed.
pub fn require(name: &str) -> Result<PathBuf> {
    find(name).ok_or_else(|| Error::NotRun(format!("no {name}")))
}

/// A command from a line of words. A name in braces, even within a word, stands for the path with that name.
///
/// # Panics
/// If there is no path with such a name.
pub fn command(line: &str, paths: &[(&str, &Path)]) -> Command {
    let mut words = line.split_whitespace().map(|word| -> OsString {
        let Some((before, rest)) = word.split_once('{') else { return word.into() };
        let (name, after) = rest.split_once('}').expect("a name ends");
        let (_, path) = paths.iter().find(|(of, _)| *of == name).expect("a name has a path");
        [OsStr::new(before), path.as_os_str(), OsStr::new(after)].into_iter().collect()
    });
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    command
}

/// Runs a command to its end. An error contains what it wrote to stderr.
pub fn finish(mut command: Command) -> Result<()> {
    let failed = failure(&command);
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output().map_err(|e| failed(&e.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(&format!("{}: {}", output.status, one_line(&output.stderr)))),
    }
}

pub fn failure(command: &Command) -> impl Fn(&str) -> Error + use<> {
    let name = command.get_program().to_string_lossy().into_owned();
    move |why| Error::Program(format!("{name}: {why}"))
}

/// What a command wrote to stderr, in one line.
pub fn one_line(stderr: &[u8]) -> String {
    String::from_utf8_lossy(stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}
