//! Checking what a mount needs: the kernel's device, the program for users, and an empty folder.

use super::table::Table;
use super::{MountError, MountOptions};
use phalanx_host::folders::{SEARCHED, id, is_within};
use rustix::fs::{self, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Checks that this user can mount on this system.
///
/// # Errors
/// The first thing that is missing: the kernel's device, the program fusermount3, or the permission to mount for
/// others.
pub fn check_system(options: &MountOptions) -> Result<(), MountError> {
    if let Err(e) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        return Err(match e.kind() {
            io::ErrorKind::PermissionDenied => MountError::DeviceDenied,
            _ => MountError::NoDevice,
        });
    }
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    if fusermount().is_none() {
        return Err(MountError::NoFusermount);
    }
    if options.lets_others() && !std::fs::read_to_string("/etc/fuse.conf").is_ok_and(|text| allows_others(&text)) {
        return Err(MountError::NoAllowOther);
    }
    Ok(())
}

fn allows_others(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "user_allow_other")
}

/// The program by which users other than root mount and unmount.
pub(super) fn fusermount() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FUSERMOUNT_PATH") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = || std::env::split_paths(&path).chain(["/sbin".into(), "/bin".into()]);
    let mut programs = ["fusermount3", "fusermount"].into_iter().flat_map(|name| folders().map(move |f| f.join(name)));
    programs.find(|program| program.is_file())
}

/// An empty folder that something can be mounted on.
#[derive(Clone, Debug)]
pub struct Mountpoint {
    path: PathBuf,
    /// It keeps the inode in use, so that no other folder gets its number.
    folder: Arc<OwnedFd>,
}

impl Mountpoint {
    /// Checks a mountpoint for a mount that shows `source`.
    ///
    /// # Errors
    /// If it is missing, not a folder or not empty, if something is mounted there, or if one of the two paths lies in
    /// the other.
    pub fn new(path: &Path, source: &Path) -> Result<Self, MountError> {
        Self::checked(path, Some(source))
    }

    /// Checks a mountpoint for a mount that shows what lies in no file system.
    ///
    /// # Errors
    /// If it is missing, not a folder or not empty, or if something is mounted there.
    pub fn for_objects(path: &Path) -> Result<Self, MountError> {
        Self::checked(path, None)
    }

    fn checked(path: &Path, source: Option<&Path>) -> Result<Self, MountError> {
        let path = path.canonicalize().map_err(|e| explain(e, "looking for the mountpoint"))?;
        if is_fuse(&path) {
            let is_dead = matches!(fs::stat(&path), Err(Errno::NOTCONN));
            return Err(if is_dead { MountError::Dead } else { MountError::Mounted });
        }
        let opened = |e: Errno| explain(e.into(), "opening the mountpoint");
        let folder = fs::open(&path, SEARCHED, Mode::empty()).map_err(opened)?;
        if let Some(source) = source.filter(|source| source.is_dir()) {
            let failed = MountError::io("comparing the mountpoint with what it is to show");
            let overlap = overlap(&folder, source).map_err(failed)?;
            overlap.map_or(Ok(()), |why| Err(MountError::Overlap(why)))?;
        }
        check_empty(&folder)?;
        Ok(Self { path, folder: Arc::new(folder) })
    }

    /// Checks that the folder still has its path, and is still empty: the user may have taken long to type a password.
    pub(super) fn check_again(&self) -> Result<(), MountError> {
        if is_fuse(&self.path) {
            return Err(MountError::Mounted);
        }
        let now = fs::open(&self.path, SEARCHED | OFlags::NOFOLLOW, Mode::empty());
        let ids = now.and_then(|now| Ok((id(&now)?, id(&*self.folder)?)));
        match ids {
            Ok((now, checked)) if now == checked => check_empty(&self.folder),
            Ok(_) | Err(Errno::NOTDIR | Errno::LOOP) => Err(MountError::Replaced),
            Err(e) => Err(explain(e.into(), "looking at the mountpoint again")),
        }
    }

    /// The folder that was checked.
    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Where it is now: it, or a folder above it, may have been renamed since it was checked.
    pub(super) fn place(&self) -> PathBuf {
        let shown = std::fs::read_link(format!("/proc/self/fd/{}", self.folder.as_raw_fd()));
        shown.unwrap_or_else(|_| self.path.clone())
    }

    /// Its path, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether a FUSE file system is mounted at a path without links.
fn is_fuse(path: &Path) -> bool {
    Table::read().is_some_and(|table| table.at(path).is_some_and(|entry| entry.is_fuse))
}

fn check_empty(folder: &OwnedFd) -> Result<(), MountError> {
    let opened = |e: Errno| explain(e.into(), "opening the mountpoint");
    let listed = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for entry in Dir::new(fs::openat(folder, ".", listed, Mode::empty()).map_err(opened)?).map_err(opened)? {
        if !matches!(entry.map_err(opened)?.file_name().to_bytes(), b"." | b"..") {
            return Err(MountError::NotEmpty);
        }
    }
    Ok(())
}

fn explain(error: io::Error, doing: &'static str) -> MountError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => MountError::Missing,
        Some(Errno::NOTDIR) => MountError::NotFolder,
        Some(Errno::NOTCONN) => MountError::Dead,
        _ => MountError::Io { doing, source: error },
    }
}

/// How a mountpoint and a source overlap, if they do.
fn overlap(mountpoint: &OwnedFd, source: &Path) -> rustix::io::Result<Option<&'static str>> {
    let source = fs::open(source, SEARCHED, Mode::empty())?;
    let (here, there) = (id(mountpoint)?, id(&source)?);
    Ok(match () {
        () if here == there => Some("it is the folder itself that is to be mounted"),
        // The mount would send its requests to itself.
        () if is_within(mountpoint, there)? => Some("it lies within the folder that is to be mounted"),
        () if is_within(&source, here)? => Some("it contains the folder that is to be mounted"),
        () => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_folders_are_found() {
        let root = tempfile::tempdir().unwrap();
        let [tree, inner, beside] = ["tree", "tree/inner", "beside"].map(|name| root.path().join(name));
        for folder in [&tree, &inner, &beside] {
            std::fs::create_dir(folder).unwrap();
        }
        let refused = |mountpoint: &Path, source: &Path| Mountpoint::new(mountpoint, source).unwrap_err();
        for (mountpoint, source) in [(&tree, &tree), (&inner, &tree), (&tree, &inner)] {
            assert!(matches!(refused(mountpoint, source), MountError::Overlap(_)));
        }
        assert!(matches!(refused(&tree, &beside), MountError::NotEmpty));
        assert!(matches!(refused(&root.path().join("none"), &tree), MountError::Missing));
        std::fs::write(root.path().join("file"), "x").unwrap();
        assert!(matches!(refused(&root.path().join("file"), &tree), MountError::NotFolder));
        let mountpoint = Mountpoint::new(&beside, &tree).unwrap();
        assert_eq!(mountpoint.path(), beside.canonicalize().unwrap());

        // What happens to the folder before something is mounted.
        mountpoint.check_again().unwrap();
        let file = beside.join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(matches!(mountpoint.check_again(), Err(MountError::NotEmpty)));
        std::fs::remove_file(file).unwrap();
        let is_replaced = || matches!(mountpoint.check_again(), Err(MountError::Replaced));
        std::fs::remove_dir(&beside).unwrap();
        assert!(matches!(mountpoint.check_again(), Err(MountError::Missing)));
        std::fs::create_dir(&beside).unwrap();
        assert!(is_replaced());
        std::fs::remove_dir(&beside).unwrap();
        std::os::unix::fs::symlink(&inner, &beside).unwrap();
        assert!(is_replaced());
    }

    #[test]
    fn user_allow_other_must_be_a_line_of_its_own() {
        assert!(allows_others("# x\n user_allow_other \n"));
        assert!(!allows_others("#user_allow_other\nmount_max = 10\n"));
    }
}
