//! Other programs: where they are, which versions they have, and how they end.

use crate::error::{Error, Result};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The versions of those of these programs that are installed. Each comes with the argument that makes it print its version.
pub fn versions_of(programs: &[(&str, &str)]) -> Vec<String> {
    let version = |&(name, argument): &(&str, &str)| {
        let output = find(name).and_then(|path| Command::new(path).arg(argument).output().ok())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| !line.trim().is_empty())?.trim().to_owned();
        Some(if line.contains(name) { line } else { format!("{name} {line}") })
    };
    programs.iter().filter_map(version).collect()
}

/// Where a program is installed.
pub fn find(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Runs a command to its end; an error holds what it wrote to stderr.
pub fn finish(mut command: Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| Error::Program(format!("{name}: {why}"));
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output().map_err(|e| failed(e.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(format!("{}: {}", output.status, one_line(&output.stderr)))),
    }
}

/// What a command wrote to stderr, in one line.
pub fn one_line(stderr: &[u8]) -> String {
    String::from_utf8_lossy(stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}
