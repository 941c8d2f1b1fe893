//! How volumes and mounts fail.

use phalanx_host::failure::{Code, Failure};
use phalanx_host::lines::shown;
use phalanx_volume::VolumeError;
use phalanx_volume::mount::MountError;
use rustix::io::Errno;
use std::io;
use std::path::Path;

const UNMOUNT: &str = "fusermount3 -u unmounts it";
const FINISH: &str = "mount the volume once for writing, which finishes them";

const ACCEPT: &str = "phalanx verify --accept takes the volume as it is";

/// A failure of a volume.
pub fn of_volume(dir: &Path, error: VolumeError) -> Failure {
    let line = |text: &str| format!("{}: {text}", shown(dir));
    let failure = match error {
        VolumeError::Core(error) => Failure::at(dir, error),
        VolumeError::Host(error) => Failure::at(dir, error),
        VolumeError::Damaged(text) => Failure::new(Code::NotAuthentic, line(&text)),
        VolumeError::Versions(_) => Failure::new(Code::NotAuthentic, line(&error.to_string())).hint(ACCEPT),
        VolumeError::Refused(Errno::ROFS) => Failure::new(Code::InputOutput, line("its file system is read-only"))
            .hint("--read-only mounts it for reading"),
        VolumeError::Refused(errno) => {
            let error = io::Error::from(errno);
            let text = match error.kind() {
                io::ErrorKind::AlreadyExists => "it is a volume already".into(),
                io::ErrorKind::DirectoryNotEmpty => "not empty: a volume is made of a new or an empty folder".into(),
                _ => error.to_string(),
            };
            Failure::new(Code::InputOutput, line(&text))
        }
        VolumeError::Busy => Failure::new(Code::InputOutput, line(&error.to_string())).hint(UNMOUNT),
        VolumeError::Unfinished => Failure::new(Code::InputOutput, line(&error.to_string())).hint(FINISH),
        error => Failure::new(Code::InputOutput, line(&error.to_string())),
    };
    failure.on(dir)
}

/// A failure of a mount.
pub fn of_mount(mountpoint: &Path, error: MountError) -> Failure {
    let at = || format!("{}: {error}", shown(mountpoint));
    let other = || Failure::new(Code::Other, error.to_string());
    match error {
        MountError::UnknownOption(_) | MountError::Option(_) => Failure::usage(error.to_string()),
        MountError::Overlap(_) => Failure::usage(at()),
        MountError::NoDevice => {
            other().hint("load the kernel module fuse, or run the container with --device /dev/fuse")
        }
        MountError::DeviceDenied => other().hint("ask for permission to read and write it"),
        MountError::NoFusermount => other().hint("install the package fuse3"),
        MountError::NoAllowOther => other(),
        MountError::NoUring => other().hint("as root: echo Y >/sys/module/fuse/parameters/enable_uring"),
        MountError::Mounted | MountError::Dead | MountError::NotSeen => {
            Failure::new(Code::InputOutput, at()).hint(UNMOUNT)
        }
        MountError::Covered => Failure::new(Code::InputOutput, at()).hint("unmount that first"),
        _ => Failure::new(Code::InputOutput, at()),
    }
}
