//! A source tree, as an archive, as a repository and as packages of npm. It is made up, and always the same.

use crate::measure::programs::{command, finish, require};
use crate::measure::volume::ciphertext::text;
use crate::measure::{Error, Random, Result, Scratch};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files in a folder of the tree.
pub const IN_A_FOLDER: u64 = 16;

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

/// The archive of the tree. The error explains why there is none.
pub fn archive(scratch: &Scratch, files: u64) -> Result<PathBuf> {
    let (tar, path) = (require("tar")?, scratch.path("sources.tar"));
    if !path.exists() {
        let tree = tree(scratch, files)?;
        finish(command("{tar} -cf {path} -C {tree} .", &[("tar", &tar), ("path", &path), ("tree", &tree)]))?;
    }
    Ok(path)
}

/// Git without the user's settings.
pub fn git(line: &str, paths: &[(&str, &Path)]) -> Command {
    let settings = "-c user.name=bench -c user.email=bench@example.com -c gc.auto=0";
    let mut command = command(&format!("git {settings} {line}"), paths);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(variable);
    }
    command
}

/// The repository of the tree, in one pack. The error explains why there is none.
pub fn repository(scratch: &Scratch, files: u64) -> Result<PathBuf> {
    require("git")?;
    let path = scratch.path("sources.git");
    if !path.exists() {
        let tree = tree(scratch, files)?;
        for line in ["init -q", "add -A", "commit -q -m sources", "repack -a -d -q"] {
            let mut command = git(line, &[]);
            command.env("GIT_DIR", &path).env("GIT_WORK_TREE", &tree);
            finish(command)?;
        }
    }
    Ok(path)
}

/// An application that depends on packages with so many files of the tree in all: `package.json` and its lock file, which
/// names the packages' archives. The error explains why there is none.
pub fn application(scratch: &Scratch, files: u64) -> Result<PathBuf> {
    require("npm")?;
    let (tar, path) = (require("tar")?, scratch.path("application"));
    if path.exists() {
        return Ok(path);
    }
    let (tree, archives) = (tree(scratch, files)?, scratch.path("archives"));
    fs::create_dir_all(&archives).map_err(Error::at(&archives))?;
    let (mut dependencies, mut locked) = (Map::new(), Map::new());
    for part in 0..files.div_ceil(IN_A_FOLDER) {
        let folder = tree.join(format!("module-{}", part / 8)).join(format!("part-{part}"));
        let (name, archive) = (format!("part-{part}"), archives.join(format!("part-{part}.tgz")));
        write(&archives.join("package.json"), &json!({ "name": name, "version": "1.0.0" }))?;
        // In the archive of a package everything lies in one folder, whose name does not matter.
        let parts = [("tar", &*tar), ("archive", &*archive), ("archives", &*archives), ("folder", &*folder)];
        let line = "{tar} -czf {archive} --transform s,^\\./,,;s,^,package/, -C {archives} package.json -C {folder} .";
        finish(command(line, &parts))?;
        let source = json!(format!("file:{}", archive.display()));
        locked.insert(format!("node_modules/{name}"), json!({ "version": "1.0.0", "resolved": source }));
        dependencies.insert(name, source);
    }
    let root = json!({ "name": "bench", "version": "1.0.0", "dependencies": dependencies });
    locked.insert(String::new(), root.clone());
    let lock =
        json!({ "name": "bench", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": locked });
    fs::create_dir(&path).map_err(Error::at(&path))?;
    write(&path.join("package.json"), &root)?;
    write(&path.join("package-lock.json"), &lock)?;
    Ok(path)
}

fn write(path: &Path, value: &Value) -> Result<()> {
    fs::write(path, value.to_string()).map_err(Error::at(path))
}
