//! Messages made from the libraries' errors, at least one of each kind.

use super::{Message, root};
use phalanx::volume_failures;
use phalanx_core::engine::Fault;
use phalanx_core::tree::Invalid;
use phalanx_core::{Error, KeyId, key_text};
use phalanx_host::Error as HostError;
use phalanx_host::failure::{self, Failure};
use phalanx_host::file::{Obstacle, check_private};
use phalanx_volume::VolumeError;
use phalanx_volume::mount::MountError;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const FILE: &str = "run42.h5.phx";
const LIBRARY: &str = "Only from the libraries";

pub fn all() -> Vec<Message> {
    let mut all = core();
    all.extend(volume());
    all.extend(mount());
    all
}

/// A variant of an error, and its message.
struct Made(String, Message);

fn made(debug: String, failure: &Failure, when: &'static str, then: &'static str) -> Made {
    let variant = debug.split(['(', ' ', '{']).next().unwrap().to_owned();
    let hint = failure.advice().map(str::to_owned);
    Made(variant, Message { code: failure.code().number(), line: failure.line().unwrap().to_owned(), hint, when, then })
}

fn at(error: impl Debug + Into<HostError>, when: &'static str, then: &'static str) -> Made {
    made(format!("{error:?}"), &Failure::at(Path::new(FILE), error), when, then)
}

fn alone(error: impl Debug + Into<HostError>, when: &'static str, then: &'static str) -> Made {
    made(format!("{error:?}"), &Failure::from(error.into()), when, then)
}

/// The variants of an enum in a source file.
fn variants(file: &str, name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let (_, text) = text.split_once(&format!("pub enum {name} {{\n")).unwrap();
    let text = text.split("\n}\n").next().unwrap();
    let indented = text.lines().filter_map(|line| line.strip_prefix("    "));
    let begins = indented.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    begins.map(|line| line.split(['(', ' ', '{', ',']).next().unwrap().to_owned()).collect()
}

/// The messages. Checks that all variants have one, except those that `elsewhere` names. The enums may grow, so no
/// `match` here is complete.
fn complete(all: Vec<Made>, elsewhere: &[&str], enums: &[(&str, &str)]) -> Vec<Message> {
    let found: BTreeSet<String> =
        all.iter().map(|made| made.0.clone()).chain(elsewhere.iter().map(|&name| name.to_owned())).collect();
    let variants: BTreeSet<String> = enums.iter().flat_map(|(file, name)| variants(file, name)).collect();
    assert_eq!(found, variants, "the variants of {enums:?}");
    all.into_iter().map(|made| made.1).collect()
}

fn full() -> io::Error {
    io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error())
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(Errno::IO.raw_os_error())
}

/// The refusal of a file that others may read.
fn refused() -> HostError {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_permissions(fs::Permissions::from_mode(0o644)).unwrap();
    let meta = file.as_file().metadata().unwrap();
    check_private("the key work", file.as_file(), &meta, Path::new("/home/ann/.config/phalanx/keys/work.key"))
        .unwrap_err()
        .into()
}

fn core() -> Vec<Message> {
    let id = || KeyId(*b"0123456789abcdef");
    let key = "phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ";
    let typed = |text: &str, when, then| {
        let error = Error::from(key_text::read(text.as_bytes()).unwrap_err());
        made(format!("{error:?}"), &Failure::at(Path::new("work.txt"), error), when, then)
    };
    let fault = |engine: &str, reason: &str| Error::Fault(Fault { engine: engine.into(), reason: reason.into() });
    let all = vec![
        at(Error::Version(2), "written by a later Phalanx", "use the newest version"),
        at(
            Error::KdfLimit("too much memory"),
            "no Phalanx makes such a file: it is damaged or made to do harm",
            "do not open it",
        ),
        at(
            Error::NoKey {
                keys: vec![id()],
                identity: true,
                services: ["hashivault://orders".into()].into(),
                password: true,
            },
            "the file has several ways in, and none is at hand",
            "`phalanx key list` shows your keys with their ids",
        ),
        at(
            Error::NoKey { keys: Vec::new(), identity: false, services: Box::default(), password: false },
            "all ways in are of a later kind",
            "use the newest version",
        ),
        at(
            Error::KeysRefused {
                keys: vec![id()],
                identity: false,
                services: Box::default(),
                password: true,
                tried: false,
                refused: vec![refused().to_string()],
                remedy: failure::hint(&refused()),
            },
            "the right key may be one that is refused",
            "",
        ),
        at(
            HostError::Interrupted(Box::new(Error::WrongKey.into())),
            "a `rekey` was killed while it wrote",
            "do not rename or replace the file before that",
        ),
        at(Error::Truncated("it ends within a chunk"), "a pipe or a copy ended early", "copy it again"),
        at(Error::Extended("it goes on after its last chunk"), "something was appended", "copy it again"),
        alone(
            Error::NotAuthentic { failed: vec![4, 7] },
            LIBRARY,
            "the other messages are opened; the error names these",
        ),
        at(Error::Read(broken()), "the disk or the network fails", "look at the system's log (`dmesg`)"),
        at(Error::Write(full()), "", "make room, and run it again"),
        at(
            Error::Write(io::Error::from_raw_os_error(Errno::ACCESS.raw_os_error())),
            "",
            "ask for the permission, or name another `--output`",
        ),
        at(Error::Write(Obstacle::FolderInTheWay.into()), "a mirror has a folder where the input now has a file", ""),
        at(Error::Write(Obstacle::FileInTheWay.into()), "the other way round", ""),
        at(
            Error::Write(Obstacle::HoldsKey.into()),
            "`--force`, and the output would replace a key, key file, password file or identity that is in use, or something in \
             the keyring; the code is 2 for one that the command line names",
            "",
        ),
        at(
            Error::Write(io::Error::new(io::ErrorKind::ResourceBusy, "another run is writing it")),
            "two runs have the same output",
            "wait for the other one",
        ),
        at(Error::Changed, "a program writes to the input during the run", ""),
        at(
            HostError::Unsynced(broken()),
            "the disk or the network failed at the end",
            "`phalanx verify` it; the input was not deleted",
        ),
        at(HostError::SameFile, "the output is another name of the input", "name another output"),
        at(
            HostError::OwnOutput,
            "the file system takes two names for one",
            "use a folder for each, with `--output-dir`",
        ),
        at(HostError::Displaced, "`--remove`, and somebody changes the output meanwhile", "look what is there"),
        at(
            HostError::Aside(".phalanx-8c05dc28e92b83a9".into()),
            "`--remove`, and somebody changes the input meanwhile",
            "look into that file",
        ),
        at(
            HostError::Uncleared(Box::new(HostError::write(broken()))),
            "`rekey` is done, but the disk fails",
            "run `phalanx rekey` once more",
        ),
        at(HostError::Manifest(Invalid::Version), "the manifest of a mirror", "use the newest version"),
        at(
            HostError::Manifest(Invalid::Malformed("its names are not in order")),
            "the manifest of a mirror, written by something else than Phalanx",
            "move it away: `mirror` writes another one",
        ),
        at(
            HostError::NotListed("it is older, newer or foreign"),
            "somebody who has a key of the file has changed it",
            "restore it from another copy",
        ),
        alone(
            HostError::Remembered("NOTE".into(), Box::new(HostError::read(std::io::ErrorKind::PermissionDenied))),
            "a file of the state folder: whether a mirror was set back is not known, so nothing is signed",
            "mend it; if that cannot be, delete the file",
        ),
        at(HostError::NoStores, "the URL of an object, and a program without object stores", ""),
        at(HostError::NoLocks, "`rekey` on some network file systems", ""),
        alone(
            HostError::KeyDamaged("work".into()),
            "its file in the keyring was altered",
            "`phalanx key rm` it, and import it again from your copy",
        ),
        alone(HostError::KeyLocked("work".into()), "nobody could be asked for its password, or it was wrong", ""),
        typed("hello", "the text of a key was typed wrongly", "compare it with the copy"),
        typed(&key[..40], "", ""),
        typed(&key.replace('Q', "9"), "", ""),
        typed(&key.replace("PWQAM", "PWQAN"), "", ""),
        at(Error::HeaderRoom, "`rekey` adds more than fits", ""),
        at(Error::Renumbered, "`rekey --remove-slot` after one that was killed", ""),
        at(Error::NotAtHand(2), "`rekey --fresh` would lose a way in", ""),
        alone(Error::KeyCount(65), "", "protect for fewer, or share one key"),
        alone(Error::TooManyPasswords, "", "remove one first, or share a key"),
        alone(Error::HeaderLen(70_000), "", "protect for fewer, or share one key"),
        alone(Error::Memory("2097152 bytes are needed".into()), "", "end other programs, or use `--threads 1`"),
        alone(Error::KdfMemory(65_536), "a password needs memory to open", "end other programs, or raise the limit"),
        alone(
            Error::Recipient {
                recipient: "age1yubikey1q…".into(),
                reason: "age-plugin-yubikey is not installed".into(),
            },
            "a plugin of age is missing or fails",
            "install it, and see that it is in `PATH`",
        ),
        alone(fault("gpu", "the device does not answer"), "`--engine gpu`", "`--engine auto` goes on with the CPU"),
        alone(fault("gpu", "it has no AES-256-GCM"), "`--engine gpu` with a cipher that only the CPU has", ""),
        alone(
            fault("cpu", "this machine computes AES portable wrongly"),
            "no kernel is left that computes rightly, or `PHALANX_KERNELS` names one that does not",
            "use another machine",
        ),
        alone(
            fault("cpu", "two computations of the same gave different bytes: this machine computes wrongly"),
            "`--paranoid`",
            "use another machine, and verify on it what this one has written",
        ),
        alone(Error::Message { index: 3, reason: "it has no room for nonce and tag" }, LIBRARY, ""),
        alone(Error::Cancelled, LIBRARY, ""),
    ];
    let runs = [
        "Core",
        "NotPhalanx",
        "Protected",
        "Random",
        "Altered",
        "Header",
        "Refused",
        "Volume",
        "WrongKey",
        "Exists",
        "NoSuchKey",
        "KeyName",
        "LastWay",
        "NoSuchSlot",
    ];
    complete(all, &runs, &[("crates/core/src/error.rs", "Error"), ("crates/host/src/error.rs", "Error")])
}

fn volume() -> Vec<Message> {
    let at = |error: VolumeError, when, then| {
        made(format!("{error:?}"), &volume_failures::of_volume(Path::new("vault"), error), when, then)
    };
    let all = vec![
        at(
            VolumeError::Damaged("phalanx.folder of the root is missing or was altered".into()),
            "the stored files of a volume were changed from outside",
            "restore the stored file of that name from a backup",
        ),
        at(
            VolumeError::Io { what: "cannot read the journal", error: broken() },
            "the disk below a volume fails",
            "look at the system's log (`dmesg`)",
        ),
        at(VolumeError::Refused(Errno::EXIST), "`init` of a volume", "`phalanx rekey` changes its ways in"),
        at(VolumeError::Refused(Errno::NOTEMPTY), "`init`", ""),
        at(VolumeError::Refused(Errno::ACCESS), "", "ask for the permission"),
        at(VolumeError::Refused(Errno::ROFS), "mounting for writing", ""),
        at(VolumeError::Busy, "", "if it is another run, wait for it"),
        at(VolumeError::Full, "", "make room below the volume"),
        at(
            VolumeError::Dropped(Errno::NOSPC),
            "the disk below a volume was full or failed",
            "the programs that wrote were told; write those files again",
        ),
        at(
            VolumeError::Unlisted { stored: "STORED".into(), errno: Errno::ACCESS },
            "the name of an entry in a volume cannot be read",
            "look at the permissions of `STORED.full` in the volume's folder, and at the disk below",
        ),
        at(VolumeError::ReadOnly, "it is mounted with `--read-only`, or the disk failed", ""),
        at(VolumeError::Unfinished, "a mount was killed", ""),
        at(
            VolumeError::Versions("is missing"),
            "`phalanx.versions` was removed from a volume with rollback protection",
            "restore it, if you have it",
        ),
        at(
            VolumeError::Versions("was altered"),
            "`phalanx.versions` was altered or cut, or something else lies in its place",
            "restore it, if you have it",
        ),
    ];
    complete(all, &["Core", "Host"], &[("crates/volume/src/error.rs", "VolumeError")])
}

fn mount() -> Vec<Message> {
    let at = |error: MountError, when, then| {
        made(format!("{error:?}"), &volume_failures::of_mount(Path::new("plain"), error), when, then)
    };
    let overlap = "the mountpoint lies within what is to be mounted";
    let all = vec![
        at(MountError::Option("the mount options ro and rw exclude each other".into()), "", ""),
        at(MountError::Overlap(overlap), "", "choose a mountpoint elsewhere"),
        at(MountError::NoDevice, "often in a container", ""),
        at(MountError::DeviceDenied, "", ""),
        at(MountError::NoFusermount, "users other than root need it", ""),
        at(MountError::NoAllowOther, "", ""),
        at(MountError::NoUring, "with `--fuse uring`", ""),
        at(MountError::Missing, "", "make it: `mkdir plain`"),
        at(MountError::NotFolder, "", ""),
        at(MountError::NotEmpty, "", ""),
        at(MountError::Replaced, "somebody changed the mountpoint while a password was asked for", ""),
        at(MountError::Mounted, "", ""),
        at(MountError::Dead, "a mount was killed", ""),
        at(MountError::NotSeen, "`/proc` is not mounted, and a signal ends a mount", ""),
        at(MountError::Covered, "", ""),
        at(
            MountError::Forced,
            "`umount -f`, or the kernel's file `abort`, while the mount was in use",
            "mount it again",
        ),
        at(
            MountError::Io { doing: "mounting", source: io::Error::from_raw_os_error(Errno::PERM.raw_os_error()) },
            "a container or a policy forbids it",
            "allow it `CAP_SYS_ADMIN`, or mount outside",
        ),
    ];
    complete(all, &["UnknownOption"], &[("crates/volume/src/mount.rs", "MountError")])
}
