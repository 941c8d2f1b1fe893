//! Messages that a test cannot provoke on every machine. They are copied from the source.

use super::{Message, root};
use std::fs;

/// File, exit code, literal (with that of the hint on a second line), when, what to do.
const STATED: &[(&str, u8, &str, &str, &str)] = &[
    (
        "../crates/host/src/paths.rs",
        2,
        "{}: it is not UTF-8, as names of objects are",
        "`--output-dir` with the URL of a folder",
        "give the object a name with `--output`",
    ),
    ("commands/protect.rs", 2, "--abort needs the URL of an object as --output", "", ""),
    (
        "../crates/store/src/error.rs",
        4,
        "no such object or bucket",
        "reading an object, or writing to a bucket that does not exist",
        "look at the URL, the address and the region",
    ),
    (
        "../crates/store/src/error.rs",
        4,
        "the store denies access to it with these credentials",
        "the credentials are wrong, or do not give the right",
        "",
    ),
    (
        "../crates/host/src/outage.rs",
        4,
        "the store failed for {IN_A_ROW} objects in a row: it is not asked for more",
        "`verify -R` or `unprotect -R` of a folder in a store",
        "try again later; with `--force` what was restored is written again",
    ),
    (
        "../crates/host/src/transfer/objects/output.rs",
        4,
        "another folder has its name by now",
        "somebody has moved a folder of the output during `unprotect -R`",
        "run it again",
    ),
    (
        "../crates/host/src/mirror/unlisted.rs",
        4,
        "no file can have its name: left out",
        "`verify -R` or `unprotect -R` of a folder in a store without a manifest",
        "look who has written that object",
    ),
    (
        "../crates/store/src/error.rs",
        4,
        "no credentials were found for the store",
        "there is none in the places that [object stores](stores.md) lists",
        "set them as for the provider's own tools",
    ),
    (
        "../crates/store/src/error.rs",
        4,
        "the object has changed meanwhile",
        "somebody has written the object while it was read, or while `rekey` made a new one",
        "try again when nothing writes to it",
    ),
    (
        "../crates/store/src/location.rs",
        4,
        "it is reached without TLS: --allow-http insists on it",
        "the address of a store begins with `http://` and is not this machine",
        "",
    ),
    (
        "../crates/store/src/location.rs",
        4,
        "it names no object: BUCKET/NAME is needed",
        "a URL of a bucket or a folder",
        "",
    ),
    (
        "../crates/store/src/pinned.rs",
        4,
        "the store gave another range than was asked for",
        "a server that does not give ranges, or lies",
        "use another server, or copy the object",
    ),
    (
        "../crates/store/src/pinned.rs",
        4,
        "the store's answers break off",
        "the connection was lost again and again",
        "try again",
    ),
    (
        "../crates/store/src/record.rs",
        4,
        "another run is uploading it",
        "two runs with `--resume` at once",
        "wait for the other one",
    ),
    (
        "../crates/host/src/mirror/roots.rs",
        4,
        "the mirror that was there is gone, or its manifest is\nmount its disk, or make a new mirror with --new",
        "`mirror` to a path where this machine has seen a mirror",
        "if its disk is mounted, look who could delete it",
    ),
    (
        "../crates/host/src/mirror/manifests.rs",
        4,
        "this run does not name all recipients of the mirror's files\nname them too, or change them with rekey -R, which needs a key",
        "`mirror` with public keys alone, other ones than in the last run",
        "",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        3,
        "{}: its manifest is gone, which was there when it was seen last",
        "`verify -R` and `unprotect -R`: nothing tells what else is missing or older",
        "look who could delete it; the hint says how to go on without it",
    ),
    (
        "../crates/host/src/mirror/check/checked.rs",
        3,
        "{}: missing: it was there when the run began",
        "somebody has deleted or renamed it meanwhile",
        "",
    ),
    (
        "commands/rekey/object.rs",
        0,
        "the store copies no parts of objects, so all of it is received and sent again",
        "`rekey` of a large object at Google, at Azure, or in an S3 store that does not copy parts",
        "nothing needs to be done: Ctrl-C leaves the object as it is",
    ),
    (
        "commands/rekey.rs",
        0,
        "the manifest of its mirror does not list what was written\nmirror writes it again; --fresh of the whole mirror writes the manifest too",
        "`rekey --fresh` of a file or folder in a mirror",
        "",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        0,
        "it is another mirror than the one that was seen there before\nverify --accept takes it from now on",
        "it has another id: it was made again, comes from another disk, or somebody has exchanged it",
        "",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        0,
        "its manifest is gone, so nothing is known of what is missing or older",
        "`mount` of a mirror that had a manifest when this machine saw it last",
        "look who could delete it",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        4,
        "{}: another run writes to it",
        "two runs of `mirror` at once",
        "wait for the other one",
    ),
    (
        "../crates/host/src/mirror/run.rs",
        4,
        "it has none of the mirror's files, and all {listed} would be deleted",
        "`mirror --delete`; the disk of the source may not be mounted",
        "",
    ),
    (
        "../crates/host/src/mirror/run.rs",
        4,
        "{all} files would be deleted, and --max-delete allows {most}",
        "",
        "look with `--dry-run` what they are",
    ),
    (
        "../crates/host/src/mirror/run.rs",
        4,
        "{}: it was a folder, and is none at the source any more\n--delete removes it",
        "`mirror` without `--delete`",
        "",
    ),
    ("../crates/host/src/mirror/roots.rs", 2, "{}: {what} is within the source", "", "name another folder"),
    (
        "../crates/host/src/mirror/manifests.rs",
        3,
        "the keys at hand do not open it, and it is not the one that this machine wrote last\nmove it away, and --new writes all files again",
        "`mirror` with other keys, or after the state folder was lost",
        "give a key that opens it",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        3,
        "its manifest has the digest {}, not {expected}",
        "`verify --expect`",
        "the mirror is another one than you expect: look for the right one",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        3,
        "its manifest has generation {generation}, which is before {least}",
        "`verify --at-least`",
        "the mirror is older than you expect: look for a newer copy",
    ),
    (
        "../crates/host/src/mirror/check.rs",
        3,
        "missing: the manifest lists it",
        "`verify -R` or `unprotect -R` of a mirror; [mirrors](mirrors.md#the-check) has all of these lines",
        "restore it from another copy, or run `mirror` again",
    ),
    ("../crates/host/src/mirror/check.rs", 3, "additional: the manifest does not list it", "", "look what it is"),
    (
        "../crates/host/src/mirror/deletion.rs",
        4,
        "something else is in its place: not deleted",
        "`mirror --delete`, and a pipe or device is in the mirror",
        "look what it is",
    ),
    (
        "../crates/host/src/mirror/scan.rs",
        4,
        "its name in the mirror would be that of another entry: left out",
        "a folder `a.phx` beside a file `a`",
        "rename one of them",
    ),
    ("../crates/host/src/mirror/roots.rs", 4, "{}: not a folder\nprotect takes files", "`mirror` of a file", ""),
    (
        "../crates/host/src/mirror/run.rs",
        4,
        "the folder above it must exist",
        "`--backup-dir`: a line before this hint has the path",
        "",
    ),
    (
        "../crates/host/src/mirror/run.rs",
        4,
        "{source}: {line}: nothing was done",
        "`mirror --delete` would delete more than is allowed; see above",
        "",
    ),
    (
        "commands/verify.rs",
        3,
        "{}: it has no manifest",
        "`verify` with `--quick`, `--expect` or `--at-least`",
        "its manifest may have been deleted: look for another copy of the mirror",
    ),
    (
        "../crates/host/src/mirror/excludes.rs",
        2,
        "patterns and paths of --files-from are more than 1 MiB together",
        "",
        "mirror folders of the source one by one",
    ),
    ("../crates/host/src/mirror/excludes.rs", 2, "{}: .. may not be in a path of --files-from", "", ""),
    ("../crates/host/src/mirror/excludes.rs", 2, "--exclude-if-present {}: it is not the name of a file", "", ""),
    (
        "../crates/host/src/mirror/excludes/patterns.rs",
        2,
        "a pattern is empty",
        "`--exclude`, `--include` or `--exclude-from`",
        "",
    ),
    ("../crates/host/src/mirror/excludes/patterns.rs", 2, "too many patterns: {e}", "", ""),
    (
        "../crates/host/src/args/excludes.rs",
        4,
        "{}: it is too long for a list",
        "`--exclude-from` or `--files-from` of more than 16 MiB",
        "",
    ),
    ("../crates/host/src/args/pins.rs", 2, "--expect and --at-least are for one mirror", "", ""),
    ("../crates/host/src/args/mirror.rs", 2, "mirror takes two folders, not -", "", ""),
    (
        "../crates/host/src/args/mirror.rs",
        2,
        "--checksum needs a key or a password: public keys cannot open the mirror",
        "",
        "",
    ),
    (
        "commands/verify.rs",
        0,
        "{}: no manifest, so nothing is known of what is missing or older",
        "`verify -R` of a folder that is no mirror's root",
        "name the mirror's root; if its manifest is gone, take that as an alarm",
    ),
    (
        "commands/unprotect.rs",
        0,
        "no manifest was compared, so nothing is known of what is missing or older",
        "`unprotect -R` of a folder that is no mirror's root, or with `--ignore-manifest`",
        "",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        0,
        "no key at hand opens it, so nothing is known of what is missing or older",
        "`mount` of a mirror",
        "",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        0,
        "warning: {}: generation {generation}, and generation {seen} was seen before: {line}",
        "",
        "see below",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        0,
        "the mirror may have been set back\nverify --accept takes it from now on",
        "the manifest is older than the last one seen here",
        "look for a newer copy",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        0,
        "warning: the generation of {} could not be remembered: {e}",
        "the state folder cannot be written",
        "",
    ),
    (
        "../crates/host/src/mirror/manifest.rs",
        0,
        "a rekey --fresh was interrupted, and the manifest does not list what it has written\nthe same rekey again, with the added keys at hand, mends it, and so does mirror",
        "",
        "",
    ),
    (
        "../crates/host/src/mirror/manifests.rs",
        0,
        "warning: the manifest could not be kept for the next run: {e}",
        "`mirror` with public keys alone, and the state folder cannot be written",
        "the next run fails until `phalanx.tree` is moved away",
    ),
    (
        "../crates/host/src/mirror/manifests.rs",
        0,
        "warning: the generation of the mirror could not be remembered: {e}",
        "the state folder cannot be written",
        "",
    ),
    (
        "../crates/host/src/mirror/run.rs",
        0,
        "warning: something failed, so nothing is deleted in the mirror",
        "`mirror --delete`",
        "look at the lines before",
    ),
    (
        "../crates/host/src/mirror/run.rs",
        0,
        "warning: {source}: it has none of the mirror's {number}",
        "the disk of the source may not be mounted",
        "",
    ),
    (
        "commands/rekey/mirror.rs",
        0,
        "warning: the manifest could not be remembered for the next run: {e}",
        "the state folder cannot be written",
        "",
    ),
    (
        "../crates/host/src/engines/choice.rs",
        1,
        "engine {engine}: {why}\n--engine cpu works",
        "`--engine gpu`, and no device can be used",
        "`phalanx engines` shows what was found",
    ),
    (
        "../crates/core/src/error.rs",
        1,
        "the system's random generator failed: {0}",
        "an old system, or a sandbox that forbids the call",
        "allow the system call `getrandom`",
    ),
    (
        "commands/volume_tree.rs",
        0,
        "warning: {path}: extended attributes are left out, because they cannot be set: {e}",
        "`unprotect --recursive` of a volume to a file system without them",
        "",
    ),
    ("daemon.rs", 1, "cannot go on in the background: {e}", "`--daemon`", "mount without it, to see more"),
    ("commands/mount.rs", 1, "there is no thread for --idle: {e}", "a limit on processes", "mount without it"),
    ("daemon.rs", 1, "the mount in the background ended at once\nwithout --daemon it says more", "`--daemon`", ""),
    (
        "daemon.rs",
        1,
        "the mount in the background was ended by signal {signal}\nwithout --daemon it says more",
        "`--daemon`",
        "",
    ),
    (
        "../crates/host/src/signals.rs",
        1,
        "cannot catch signals: {error}",
        "the system refuses it",
        "look at the limits of the process",
    ),
    (
        "../crates/host/src/failure.rs",
        1,
        "internal error{place}: please report it",
        "a bug",
        "say what the command line was",
    ),
    (
        "commands/key_copies.rs",
        1,
        "{} keys are more than one file takes\nexport them one by one",
        "`key export --all` of more than 4 MiB of keys",
        "",
    ),
    (
        "../crates/host/src/secret_files.rs",
        2,
        "there is no home folder for keys\nset {KEYRING_VARIABLE} to a folder",
        "`PHALANX_KEYRING` is not set, and the user has no home",
        "",
    ),
    (
        "../crates/host/src/engines/cache.rs",
        2,
        "there is no home folder\nset {CACHE_VARIABLE} to a cache folder",
        "`engines --calibrate` by a user without a home",
        "",
    ),
    (
        "../crates/host/src/paths.rs",
        2,
        "protected bytes are not for a terminal\nname an --output, or - to insist",
        "`protect -` with a terminal as its output",
        "",
    ),
    (
        "commands/key_copies.rs",
        2,
        "these bytes are not for a terminal\nname an --output, or give --text",
        "`key export` at a terminal",
        "",
    ),
    ("../crates/host/src/secrets.rs", 2, "the two passwords differ", "", "run it again"),
    ("commands/key.rs", 2, "nothing was deleted", "`key rm` was not answered with `y`", ""),
    (
        "../crates/host/src/transfer/ends.rs",
        4,
        "{}: its output is on the disk, but the input could not be deleted: {e}",
        "`--remove`",
        "delete the input yourself; the output is whole",
    ),
    (
        "../crates/host/src/transfer/ends.rs",
        4,
        "its file system has no locks, which --resume needs\nrun without --resume",
        "`--resume` on some network file systems",
        "",
    ),
    (
        "../crates/host/src/transfer/folder/finish.rs",
        4,
        "{}: not deleted: {e}",
        "`--remove` of a folder that something new is in, or that was moved",
        "look what is in it",
    ),
    (
        "../src/transfer.rs",
        4,
        "the same line goes on with what was sent, and --abort deletes it",
        "a hint: `protect --resume` could not send all to a store",
        "when the store works again, run the same line",
    ),
    (
        "../crates/host/src/mirror/roots.rs",
        4,
        "{}: it lies in the mirror {}",
        "`mirror` or `protect -R` to a URL within a protected folder",
        "mirror the whole folder, or choose another name",
    ),
    (
        "../crates/host/src/mirror/run.rs",
        4,
        "{}: it has objects already, and no manifest\n--new makes a mirror there, and replaces objects of the same names",
        "the first `mirror` to a URL",
        "choose another name, or `--new`",
    ),
    (
        "../crates/host/src/mirror/gone.rs",
        4,
        "{more} more objects could not be deleted",
        "`mirror --delete` in a store that fails; the first ones are named",
        "when the store works again, run the same line",
    ),
    (
        "../crates/host/src/transfer/folder.rs",
        4,
        "its name is not UTF-8, as names of objects are",
        "`mirror` or `protect -R` to a store",
        "rename the file",
    ),
    (
        "../crates/host/src/transfer/folder.rs",
        4,
        "it is an output of this run: the output is within the input",
        "a link leads from the input into the output",
        "choose an output elsewhere",
    ),
    (
        "../crates/host/src/transfer/folder.rs",
        4,
        "the folder was moved meanwhile",
        "somebody changes the tree during the run",
        "run it again when nothing changes it",
    ),
    (
        "../crates/host/src/transfer/folder.rs",
        4,
        "it is the input itself: the input is within the output",
        "",
        "choose an output elsewhere",
    ),
    (
        "../crates/host/src/transfer/walk.rs",
        4,
        "it could not be opened again: the rest is left out",
        "a folder was moved or removed during the run",
        "run it again when nothing changes it",
    ),
    (
        "../crates/host/src/folders.rs",
        4,
        "somebody put another folder in its place",
        "an output in a folder that others may write to",
        "write to a folder of your own",
    ),
    (
        "../crates/host/src/folders.rs",
        4,
        "the folder in its place belongs to another user",
        "`--force`, and a folder of the mirror is there already and is somebody else's, who could read what is put there",
        "write to a folder of your own",
    ),
    (
        "../crates/host/src/key_files.rs",
        2,
        "{}: it holds identities, which no output replaces\nmove it away",
        "`protect --force` for public keys, with an output in the place of a private key",
        "",
    ),
    (
        "../crates/host/src/folders.rs",
        4,
        "the name of its output is one of a temporary file: left out",
        "`unprotect --recursive`, and a file named like `.phalanx-….tmp.phx`, which somebody has put there",
        "unprotect it alone, with another `--output`",
    ),
    (
        "commands/rekey.rs",
        4,
        "{}: its keys are changed, although this could not be printed",
        "`rekey`, and standard output is full or closed",
        "`phalanx inspect` shows its slots",
    ),
    (
        "../crates/host/src/warnings.rs",
        0,
        "warning: {path}: setuid, setgid and sticky bits are not kept",
        "`protect`, or `unprotect --preserve`: whoever can write to a protected file decides about its permissions",
        "set them again after restoring",
    ),
    (
        "../crates/host/src/folders.rs",
        4,
        "is in its way: both would be unprotected to the same name\ndelete the older one, or write a new mirror",
        "a mirror has `a.phx`, and a folder or link `a`: the entry `a` was of another kind earlier",
        "",
    ),
    (
        "../crates/host/src/file/rekey.rs",
        4,
        "another run is changing its keys, or its volume is mounted",
        "`rekey`",
        "wait for the other run, or unmount the volume",
    ),
    (
        "../crates/host/src/file/temporary.rs",
        4,
        "{name} is in the way: {e}",
        "something that no run has made has the name of a temporary file",
        "look at it, and delete or rename it",
    ),
    (
        "../crates/host/src/file/output.rs",
        4,
        "another run removed the temporary file",
        "two runs have the same output",
        "run it again when the other one has ended",
    ),
    ("../crates/host/src/file/output.rs", 4, "not a file's name", "an output such as `..`", "name a file"),
    (
        "../crates/host/src/engines/auto.rs",
        0,
        "warning: {name}: {why}: the CPU does the work",
        "a device fails when it is opened",
        "nothing needs to be done; `phalanx engines` shows more",
    ),
    (
        "../crates/host/src/engines/auto.rs",
        0,
        "warning: the GPU is no longer there: the CPU does the work",
        "",
        "`phalanx engines --calibrate`",
    ),
    (
        "../crates/host/src/engines/auto.rs",
        0,
        "warning: {e}: the CPU does the work",
        "an engine fails while it is measured",
        "`phalanx engines` shows more",
    ),
    (
        "../crates/host/src/engines/auto.rs",
        0,
        "measuring the CPU and {}, once: up to a second",
        "the first large file on a machine with a GPU",
        "",
    ),
    (
        "../crates/host/src/engines/choice.rs",
        0,
        "warning: {why}: hybrid runs on the CPU alone",
        "no device can be used",
        "",
    ),
    (
        "../crates/host/src/engines/choice.rs",
        0,
        "warning: this machine computes {kernel} wrongly: slower kernels do the work\ndo not trust this machine",
        "the processor gives wrong answers to known questions: it is overclocked, failing or badly emulated",
        "test the machine, and verify on another one what it has written",
    ),
    (
        "../crates/host/src/engines/ready.rs",
        0,
        "warning: {fault}; the CPU goes on",
        "a device fails, hangs or vanishes during the work",
        "nothing needs to be done: the output is whole",
    ),
    (
        "volume_engines.rs",
        0,
        "{} for jobs of {threshold} bytes and more in {}",
        "`mount --verbose` of a volume, with a GPU",
        "",
    ),
    (
        "daemon.rs",
        0,
        "warning: there is no system log (/dev/log): nobody will be told what goes wrong later",
        "`--daemon`, often in a container",
        "mount in the foreground and keep its standard error",
    ),
    (
        "commands/mount.rs",
        0,
        "{path}: in use: it ends when the last file in it is closed\na second signal ends it at once",
        "a signal ends the mount",
        "",
    ),
    (
        "commands/mount.rs",
        0,
        "{path}: something is mounted on top of it: it ends when that is unmounted\na second signal ends it at once",
        "a signal ends the mount",
        "",
    ),
    ("commands/mount.rs", 0, "{path}: {e}\na second signal ends it at once", "unmounting failed", ""),
    (
        "commands/mount.rs",
        0,
        "{path}: --idle cannot unmount it: {e}",
        "the mount goes on",
        "`fusermount3 -u MOUNTPOINT`",
    ),
    (
        "commands/mount.rs",
        0,
        "there is no thread to unmount with\na second signal ends it at once",
        "a limit on processes",
        "`fusermount3 -u MOUNTPOINT`",
    ),
    (
        "commands/mount.rs",
        0,
        "{from} {} {to}: mounted\nCtrl-C or fusermount3 -u {to} unmounts it",
        "a mount in the foreground, at a terminal",
        "",
    ),
    (
        "commands/rekey.rs",
        0,
        "warning: an interrupted change was finished. If it removed a key or password, whoever held that may have kept \
         the file key, which still opens the file\n--fresh writes the file again, under a new file key",
        "`rekey` after one that was killed",
        "for a volume: copy the files to a new one",
    ),
    (
        "../crates/host/src/engines/ready.rs",
        0,
        "warning: the GPU's driver does not work in a process that others cannot trace and whose memory is locked: \
         other processes of this user can read this one, and its memory can reach swap",
        "some drivers",
        "`--engine cpu` keeps the protection",
    ),
    ("commands/verify_volume.rs", 0, "{}: {}: whole and authentic", "`verify --verbose` of a volume", ""),
    (
        "../crates/host/src/secrets.rs",
        0,
        "opened by identity {name}; the sender is unknown",
        "a file is opened by a private key of age or SSH",
        "trust its content only if you know who sent it",
    ),
    (
        "transfer.rs",
        0,
        "warning: {path}: not deleted, because {why}",
        "`--remove` of a file that holds a key, a password or identities: what was protected may need it",
        "",
    ),
    (
        "../crates/host/src/mirror/run.rs",
        0,
        "{mirror}: another run has written its manifest meanwhile: it is compared again",
        "two runs of `mirror` to one URL at the same time",
        "",
    ),
    (
        "../crates/host/src/transfer/folder.rs",
        0,
        "warning: {path}: not deleted, because it leads to a key or password",
        "`--remove` of a folder with a link that leads to the keyring or a key file",
        "",
    ),
    (
        "../crates/host/src/warnings.rs",
        0,
        "warning: {tree} holds its own key or password ({key})\nkeep a copy of it elsewhere",
        "",
        "",
    ),
];

/// All these messages. Checks that each is still in its source file.
pub fn all() -> Vec<Message> {
    let from_source = |&(file, code, literal, when, then): &(&str, u8, &str, &'static str, &'static str)| {
        let text = joined(&fs::read_to_string(root().join("src").join(file)).unwrap());
        assert!(literal.lines().all(|line| text.contains(line)), "{file} no longer says: {literal}");
        let mut lines = literal.lines().map(filled);
        Message { code, line: lines.next().unwrap(), hint: lines.next(), when, then }
    };
    STATED.iter().map(from_source).collect()
}

/// The literal with words in capitals for what the program fills in.
fn filled(literal: &str) -> String {
    let mut line = String::new();
    for (i, piece) in literal.split(['{', '}']).enumerate() {
        match piece {
            _ if i % 2 == 0 => line += piece,
            "" if i == 1 && literal.starts_with("{}: ") => line += "PATH",
            "" => line += "…",
            "e" | "error" | "why" | "0" => line += "REASON",
            "place" => line += " (FILE:LINE)",
            "KEYRING_VARIABLE" => line += "PHALANX_KEYRING",
            "CACHE_VARIABLE" => line += "PHALANX_CACHE",
            name => line += &name.to_uppercase(),
        }
    }
    line
}

/// The literals of the messages in a source text: what is passed to the functions that make or write a message.
pub fn messages(text: &str) -> impl Iterator<Item = &str> {
    const BEFORE: [&str; 10] = [
        "Failure::usage(",
        "Failure::new(",
        "complain(",
        "complain_with(",
        ".hint(",
        "damaged(path, ",
        "let line =",
        "let why =",
        "io::Error::other(",
        "taken(",
    ];
    BEFORE.into_iter().flat_map(move |before| text.split(before).skip(1).filter_map(first_literal))
}

/// The literal that is the first argument, possibly inside `format!` or after an exit code.
fn first_literal(text: &str) -> Option<&str> {
    let end = text.find([';', '}']).unwrap_or(text.len());
    let start = text.find('"').filter(|start| *start < end)?;
    let literal = &text[start + 1..];
    Some(&literal[..literal.find('"')?])
}

/// The literal without the line breaks that a backslash removes.
fn joined(text: &str) -> String {
    let mut lines = text.split("\\\n");
    lines.next().into_iter().chain(lines.map(str::trim_start)).collect()
}

/// The longest piece of a literal between the places that the program fills in. `None` if it means nothing by itself.
pub fn longest_piece(literal: &str) -> Option<String> {
    const SHORTEST: usize = 12;
    let literal = joined(literal);
    let pieces = literal.split(['{', '}']).step_by(2).map(str::trim);
    pieces.max_by_key(|piece| piece.len()).filter(|piece| piece.len() >= SHORTEST).map(str::to_owned)
}
