//! The options of `mount`.

use super::StoreArgs;
use super::unprotect::CPU_ENGINES;
use clap::{Args, ValueEnum, ValueHint};
use phalanx_host::args::{EngineArgs, EngineName, OpenKeys};
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::Url;
use phalanx_host::paths;
use phalanx_volume::mount::{MountError, MountOptions, Way};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub struct Mount {
    /// A volume, or a folder or file that protect or mirror made
    ///
    /// A folder or file may be the URL of one in an object store. Only what is read of it is fetched.
    ///
    /// If the folder has a manifest that the keys open, or is in a mirror with one, what it does not list gives an error when it is
    /// opened, and so does what it lists otherwise: a file in another version or another place, a link that leads elsewhere, and
    /// what is missing. If the manifest is gone or not opened, a warning says so, and nothing is compared. A single file is not
    /// compared.
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
    /// Unmount once nobody has used the mount for this long (30s, 10m, 2h)
    ///
    /// Nobody has a file or folder open in it then, or works in a folder in it, and nothing has been asked of it for this long. What the
    /// kernel remembers for an hour (in protected trees for a second), the free space and the attributes of the mountpoint itself are not use: df keeps no mount.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    idle: Option<Duration>,
    /// By which way the kernel sends requests
    ///
    /// dev is /dev/fuse, which every kernel has. uring is io_uring, by which small files take less time, and reading a long file
    /// a little more. Linux 6.14 and later have it, once root has written Y to /sys/module/fuse/parameters/enable_uring. auto takes
    /// io_uring where it can be had.
    #[arg(long, value_name = "WAY", default_value_t, value_enum)]
    fuse: FuseWay,
    /// For the program itself: it was started by --daemon.
    #[arg(long, hide = true)]
    detached: bool,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    pub stores: StoreArgs,
}

/// By which way the kernel sends requests.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum FuseWay {
    /// io_uring if the kernel offers it, else /dev/fuse
    #[default]
    Auto,
    /// /dev/fuse
    Dev,
    /// io_uring; an error if the kernel does not offer it
    Uring,
}

/// What `mount` is to do.
pub struct MountPlan {
    /// Its path. That of a URL is for messages.
    pub tree: PathBuf,
    /// It as a URL, if it is one.
    pub url: Option<Url>,
    pub mountpoint: PathBuf,
    pub keys: OpenKeys,
    pub options: MountOptions,
    pub engine: EngineArgs,
    /// By which way the kernel sends requests.
    pub way: Way,
    pub background: Background,
    /// The mount ends when nobody has used it for this long.
    pub idle: Option<Duration>,
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
        let Self {
            tree,
            mountpoint,
            keys,
            read_only,
            allow_other,
            options: words,
            daemon,
            idle,
            fuse,
            detached,
            engine,
            ..
        } = self;
        let url = Url::of(&tree);
        let tree = url.as_ref().map_or(tree, |url| url.path().to_owned());
        if paths::is_dash(&tree) {
            return Err(Failure::usage("mount needs a file or folder, not - (which is read in order)"));
        }
        keys.validate(&[])?;
        if matches!(engine.engine, EngineName::Gpu | EngineName::Hybrid)
            && (url.is_some() || !phalanx_volume::is_volume(&tree))
        {
            return Err(Failure::usage("a mount of what protect made runs on the CPU").hint(CPU_ENGINES));
        }
        let absolute = || std::path::absolute(&tree).ok().filter(|_| url.is_none());
        let mut options = MountOptions::new(&absolute().unwrap_or_else(|| tree.clone()));
        (options.read_only, options.allow_other) = (read_only, allow_other);
        let wrong = |e: MountError| Failure::usage(e.to_string()).hint("phalanx mount --help");
        words.iter().try_for_each(|words| options.add(words)).map_err(wrong)?;
        options.check().map_err(wrong)?;
        let background = match (daemon, detached) {
            (_, true) => Background::Started,
            (true, _) => Background::Start,
            _ => Background::No,
        };
        let way = match fuse {
            FuseWay::Auto => Way::Auto,
            FuseWay::Dev => Way::Device,
            FuseWay::Uring => Way::Uring,
        };
        Ok(MountPlan { tree, url, mountpoint, keys, options, engine, way, background, idle })
    }
}

/// Digits, and a letter for seconds, minutes or hours.
fn duration(text: &str) -> Result<Duration, &'static str> {
    const WRONG: &str = "a time such as 30s, 10m or 2h";
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or(WRONG)?;
    let (digits, unit) = text.split_at(split);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(WRONG),
    };
    let number: u32 = digits.parse().ok().filter(|number| *number > 0).ok_or(WRONG)?;
    Ok(Duration::from_secs(u64::from(number) * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        for (text, seconds) in [("1s", 1), ("30s", 30), ("10m", 600), ("2h", 7200), ("4294967295h", 15461882262000)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "10", "0s", "0", "s", "-1s", "1d", "1 s", "1.5h", "10min", "4294967296s", "1ms", "1h30m"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
