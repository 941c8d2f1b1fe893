//! The options of `mount`.

use super::{EngineArgs, EngineName, OpenKeys};
use crate::failure::{Failure, Outcome};
use crate::paths;
use clap::{Args, ValueHint};
use phalanx_volume::mount::{MountError, MountOptions};
use std::path::PathBuf;

#[derive(Args)]
pub struct Mount {
    /// A volume, or a folder or file that protect made
    #[arg(value_name = "DIR|TREE", value_hint = ValueHint::AnyPath)]
    tree: PathBuf,
    /// An empty folder
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    mountpoint: PathBuf,
    #[command(flatten)]
    keys: OpenKeys,
    /// Mount for reading only (protected files always are)
    #[arg(long)]
    read_only: bool,
    /// Let other users use the mount
    ///
    /// They get what the modes and owners of the protected files allow, which are not authenticated. Users other than root
    /// may do this only if /etc/fuse.conf has the line user_allow_other.
    #[arg(long)]
    allow_other: bool,
    /// Mount options, with commas between them
    ///
    /// These are ro, rw, suid, nosuid, dev, nodev, exec, noexec, atime, noatime, sync, async, dirsync, allow_other, allow_root,
    /// auto_unmount, default_permissions, fsname=NAME, subtype=NAME and max_read=BYTES. Without suid and dev, set-user-ID bits
    /// and devices do not count. default_permissions is always on. auto_unmount needs allow_other or allow_root.
    #[arg(short, long, value_name = "OPTS")]
    options: Vec<String>,
    /// Run in the background once mounted
    ///
    /// What goes wrong later is written to the system's log.
    #[arg(long)]
    daemon: bool,
    /// For the program itself: it was started by --daemon.
    #[arg(long, hide = true)]
    detached: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// What `mount` is to do.
pub struct MountPlan {
    pub tree: PathBuf,
    pub mountpoint: PathBuf,
    pub keys: OpenKeys,
    pub options: MountOptions,
    pub engine: EngineArgs,
    pub background: Background,
}

/// Whether the program goes on in the background.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Background {
    No,
    /// It starts itself again.
    Start,
    /// It was started for this.
    Started,
}

impl Mount {
    pub fn validate(self) -> Outcome<MountPlan> {
        let Self { tree, mountpoint, keys, read_only, allow_other, options: words, daemon, detached, engine } = self;
        if paths::is_dash(&tree) {
            return Err(Failure::usage("mount needs a file or folder, not - (which is read in order)"));
        }
        keys.validate(&[])?;
        if matches!(engine.engine, EngineName::Gpu | EngineName::Hybrid) && !phalanx_volume::is_volume(&tree) {
            return Err(Failure::usage("a mount of what protect made runs on the CPU: --engine serial or cpu"));
        }
        let mut options = MountOptions::new(&std::path::absolute(&tree).unwrap_or_else(|_| tree.clone()));
        (options.read_only, options.allow_other) = (read_only, allow_other);
        let wrong = |e: MountError| Failure::usage(format!("{e} (phalanx mount --help)"));
        words.iter().try_for_each(|words| options.add(words)).map_err(wrong)?;
        options.check().map_err(wrong)?;
        let background = match (daemon, detached) {
            (_, true) => Background::Started,
            (true, _) => Background::Start,
            _ => Background::No,
        };
        Ok(MountPlan { tree, mountpoint, keys, options, engine, background })
    }
}
