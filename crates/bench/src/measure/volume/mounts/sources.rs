//! A source tree, as an archive and as a repository: made up, and always the same.

use crate::error::{Error, Result};
use crate::measure::programs::{find, finish};
use crate::measure::scratch::{Random, Scratch};
use crate::measure::volume::ciphertext::text;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files in a folder of the tree.
const IN_A_FOLDER: u64 = 16;

/// The tree, made once in a run.
fn tree(scratch: &Scratch, files: u64) -> Result<PathBuf> {
    let root = scratch.path("sources");
    if root.exists() {
        return Ok(root);
    }
    let (text, mut random) = (text(), Random::new(99));
    for i in 0..files {
        let folder = root.join(format!("module-{}", i / IN_A_FOLDER / 8)).join(format!("part-{}", i / IN_A_FOLDER));
        fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
        // Most files are short, and a few are long.
        let len = 100 + random.below(200) * random.below(200);
        let at = random.below(text.len() as u64 - len);
        let path = folder.join(format!("file-{i}.txt"));
        fs::write(&path, &text[at as usize..(at + len) as usize]).map_err(Error::at(&path))?;
    }
    Ok(root)
}

/// The archive of the tree. The error says why there is none.
pub fn archive(scratch: &Scratch, files: u64) -> Result<std::result::Result<PathBuf, String>> {
    let Some(tar) = find("tar") else { return Ok(Err("no tar".into())) };
    let path = scratch.path("sources.tar");
    if !path.exists() {
        let tree = tree(scratch, files)?;
        let mut command = Command::new(tar);
        command.arg("-cf").arg(&path).arg("-C").arg(&tree).arg(".");
        finish(command)?;
    }
    Ok(Ok(path))
}

/// Git without the user's settings.
pub fn git(git: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(git);
    command.args(["-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "gc.auto=0"]).args(args);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(variable);
    }
    command
}

/// The repository of the tree, in one pack. The error says why there is none.
pub fn repository(scratch: &Scratch, files: u64) -> Result<std::result::Result<PathBuf, String>> {
    let Some(program) = find("git") else { return Ok(Err("no git".into())) };
    let path = scratch.path("sources.git");
    if !path.exists() {
        let tree = tree(scratch, files)?;
        let call = |args: &[&str]| {
            let mut command = git(&program, args);
            command.env("GIT_DIR", &path).env("GIT_WORK_TREE", &tree);
            finish(command)
        };
        call(&["init", "-q"])?;
        call(&["add", "-A"])?;
        call(&["commit", "-q", "-m", "sources"])?;
        call(&["repack", "-a", "-d", "-q"])?;
    }
    Ok(Ok(path))
}
