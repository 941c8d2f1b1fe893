//! Names that cannot be read.

use super::{init, is_sound, mount, unmount};
use crate::common::{Ended, Sandbox, has};
use crate::mount::Mounted;
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, without the right to read what permissions forbid. `None` if root cannot give that up here.
fn bound_by_permissions(s: &Sandbox, args: &[&str]) -> Option<Command> {
    let command = s.command(args);
    if !geteuid().is_root() {
        return Some(command);
    }
    if !has("setpriv") {
        return None;
    }
    let rights = "-dac_override,-dac_read_search";
    let mut bound = Command::new("setpriv");
    bound.args([format!("--bounding-set={rights}"), format!("--inh-caps={rights}")]);
    bound.arg(command.get_program()).args(command.get_args()).current_dir(s.path(""));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    Some(bound)
}

/// The names that a list has, and the error with which it ends.
fn listed(folder: &Path) -> (BTreeSet<String>, Option<Errno>) {
    let (mut names, mut error) = (BTreeSet::new(), None);
    for entry in fs::read_dir(folder).unwrap() {
        match entry {
            Ok(entry) => assert!(names.insert(entry.file_name().into_string().unwrap()), "{entry:?} comes twice"),
            Err(e) => error = Errno::from_io_error(&e),
        }
    }
    (names, error)
}

/// The files in the volume, by inode.
fn stored(volume: &Path) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(volume).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.metadata().unwrap().ino(), entry.path())).collect()
}

#[test]
fn a_name_that_cannot_be_read_is_an_error_at_the_end_of_the_list_and_hides_no_other() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mounted) = mount(&s, "vol") else { return };
    // The kernel asks for these in several pieces.
    let names: BTreeSet<_> = (0..150).map(|n| format!("{n:03}{}", "long".repeat(50))).chain(["short".into()]).collect();
    let mut unreadable = BTreeSet::new();
    let mut full = Vec::new();
    for name in &names {
        File::create(mounted.path(name)).unwrap();
    }
    let of_inode = stored(&s.path("vol"));
    for name in names.iter().step_by(7).filter(|name| name.len() > 200) {
        let inode = fs::metadata(mounted.path(name)).unwrap().ino();
        let (_, stored) = of_inode.iter().find(|(number, _)| *number == inode).unwrap();
        full.push(PathBuf::from(format!("{}.full", stored.display())));
        unreadable.insert(name.clone());
    }
    unmount(mounted);
    let set_mode = |mode| full.iter().for_each(|path| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap());
    let Some(command) = bound_by_permissions(&s, &["mount", "vol", "mnt", "--key-file", "key"]) else { return };
    let mut mounted = Mounted::start_by(&s, command).unwrap();

    set_mode(0);
    let readable: BTreeSet<_> = names.difference(&unreadable).cloned().collect();
    for _ in 0..3 {
        assert_eq!(listed(&mounted.mountpoint), (readable.clone(), Some(Errno::IO)));
    }
    // They are there for whoever knows their names.
    assert!(unreadable.iter().all(|name| mounted.path(name).exists()));
    let log = mounted.log();
    for path in &full {
        let stored = path.file_stem().unwrap().to_str().unwrap();
        let lines: Vec<_> = log.lines().filter(|line| line.contains(stored)).collect();
        assert_eq!(lines, [format!("phalanx: vol: {stored}: it cannot be listed: Permission denied (os error 13)")]);
    }
    assert_eq!(log.lines().count(), full.len(), "{log}");

    // The kernel has kept the list without them, which it must not take for a whole one.
    set_mode(0o600);
    for _ in 0..3 {
        assert_eq!(listed(&mounted.mountpoint), (names.clone(), None));
    }
    mounted.unmount();
    assert!(mounted.ended().success());
    is_sound(&s, "vol");

    set_mode(0);
    let run = |args: &[&str]| Ended(bound_by_permissions(&s, args).unwrap().output().unwrap());
    for args in [
        &["-q", "verify", "vol", "--key-file", "key"][..],
        &["-q", "unprotect", "-R", "vol", "-o", "out", "--key-file", "key"],
    ] {
        let said = run(args).fails_with_lines(4);
        assert!(full.iter().all(|path| said.contains(path.file_stem().unwrap().to_str().unwrap())), "{said}");
    }
    assert_eq!(listed(&s.path("out")), (readable, None));
}
