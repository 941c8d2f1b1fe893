//! Which faults an operation can meet, and their names.

use crate::random::Random;
use crate::world::{Fault, Kind, Op};
use std::ops::Range;

/// Errors by their names.
const ERRORS: [(&str, i32); 22] = [
    ("EPERM", 1),
    ("EINTR", 4),
    ("EIO", 5),
    ("ENXIO", 6),
    ("EBADF", 9),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EBUSY", 16),
    ("EXDEV", 18),
    ("EINVAL", 22),
    ("ENFILE", 23),
    ("EMFILE", 24),
    ("EFBIG", 27),
    ("ENOSPC", 28),
    ("EROFS", 30),
    ("EMLINK", 31),
    ("ENOLCK", 37),
    ("ENOSYS", 38),
    ("EOPNOTSUPP", 95),
    ("ESTALE", 116),
    ("EDQUOT", 122),
];

const SIGTERM: i32 = 15;

/// Calls by their numbers on x86-64.
pub const CALLS: [(u32, &str); 60] = [
    (0, "read"),
    (1, "write"),
    (2, "open"),
    (3, "close"),
    (4, "stat"),
    (5, "fstat"),
    (6, "lstat"),
    (8, "lseek"),
    (17, "pread64"),
    (18, "pwrite64"),
    (19, "readv"),
    (20, "writev"),
    (21, "access"),
    (32, "dup"),
    (72, "fcntl"),
    (73, "flock"),
    (74, "fsync"),
    (75, "fdatasync"),
    (76, "truncate"),
    (77, "ftruncate"),
    (82, "rename"),
    (83, "mkdir"),
    (84, "rmdir"),
    (85, "creat"),
    (86, "link"),
    (87, "unlink"),
    (88, "symlink"),
    (89, "readlink"),
    (90, "chmod"),
    (91, "fchmod"),
    (93, "fchown"),
    (137, "statfs"),
    (138, "fstatfs"),
    (190, "fsetxattr"),
    (193, "fgetxattr"),
    (194, "listxattr"),
    (195, "llistxattr"),
    (196, "flistxattr"),
    (199, "fremovexattr"),
    (217, "getdents64"),
    (221, "fadvise64"),
    (257, "openat"),
    (258, "mkdirat"),
    (260, "fchownat"),
    (262, "newfstatat"),
    (263, "unlinkat"),
    (264, "renameat"),
    (265, "linkat"),
    (266, "symlinkat"),
    (267, "readlinkat"),
    (268, "fchmodat"),
    (269, "faccessat"),
    (280, "utimensat"),
    (285, "fallocate"),
    (306, "syncfs"),
    (316, "renameat2"),
    (326, "copy_file_range"),
    (332, "statx"),
    (437, "openat2"),
    (439, "faccessat2"),
];

/// A call's name.
pub fn call(nr: u32) -> String {
    CALLS.iter().find(|(number, _)| *number == nr).map_or_else(|| format!("call {nr}"), |(_, name)| (*name).into())
}

fn error(name: &str) -> i32 {
    ERRORS.iter().find(|(known, _)| *known == name).expect("an error").1
}

fn errors_of(call: &str, op: &Op) -> &'static [&'static str] {
    match call {
        "open" | "openat" | "openat2" if op.created => {
            &["EIO", "EACCES", "EMFILE", "ENOSPC", "ESTALE", "EINTR", "EROFS"]
        }
        "open" | "openat" | "openat2" => &["EIO", "EACCES", "EMFILE", "ESTALE", "EINTR"],
        "read" | "pread64" | "readv" => &["EIO", "EINTR", "ESTALE"],
        "write" | "pwrite64" | "writev" => &["EIO", "ENOSPC", "EDQUOT", "EFBIG", "EINTR", "ESTALE"],
        "fsync" | "fdatasync" | "syncfs" => &["EIO", "ENOSPC", "EDQUOT", "EINTR"],
        "rename" | "renameat" | "renameat2" => {
            &["EIO", "ENOSPC", "EACCES", "EBUSY", "EXDEV", "EINVAL", "EROFS", "EINTR"]
        }
        "link" | "linkat" => &["EIO", "EPERM", "EMLINK", "ENOSPC", "EOPNOTSUPP"],
        "unlink" | "unlinkat" | "rmdir" => &["EIO", "EACCES", "EBUSY", "EROFS"],
        "mkdir" | "mkdirat" | "symlink" | "symlinkat" => &["EIO", "ENOSPC", "EACCES", "EDQUOT", "EROFS"],
        "stat" | "fstat" | "lstat" | "newfstatat" | "statx" | "access" | "faccessat" | "faccessat2" | "readlink"
        | "readlinkat" => &["EIO", "EACCES", "ESTALE", "EINTR"],
        "getdents64" => &["EIO", "ESTALE"],
        "flock" => &["EINTR", "ENOLCK", "EOPNOTSUPP", "EIO"],
        "fcntl" | "dup" => &["EMFILE"],
        "fallocate" => &["EOPNOTSUPP", "ENOSPC", "EIO", "EINTR"],
        "ftruncate" | "truncate" => &["EIO", "ENOSPC", "EINTR", "EFBIG"],
        "close" => &["EIO", "EINTR", "ENOSPC", "EDQUOT"],
        "fchmod" | "fchmodat" | "chmod" | "fchown" | "fchownat" | "utimensat" => {
            &["EIO", "EPERM", "EOPNOTSUPP", "EROFS"]
        }
        "fsetxattr" | "fgetxattr" | "flistxattr" | "fremovexattr" | "listxattr" | "llistxattr" => {
            &["EIO", "EOPNOTSUPP", "ENOSPC", "EACCES"]
        }
        "fstatfs" | "statfs" => &["EIO", "ENOSYS"],
        _ => &["EIO", "EINVAL"],
    }
}

/// Whether a call changes the disk.
pub fn changes(call: &str, op: &Op) -> bool {
    match call {
        "open" | "openat" | "openat2" => op.created || op.truncated,
        "write" | "pwrite64" | "writev" | "fsync" | "fdatasync" | "syncfs" | "rename" | "renameat" | "renameat2"
        | "link" | "linkat" | "unlink" | "unlinkat" | "rmdir" | "mkdir" | "mkdirat" | "symlink" | "symlinkat"
        | "ftruncate" | "truncate" | "fallocate" | "fchmod" | "fchmodat" | "chmod" | "fchown" | "fchownat"
        | "utimensat" | "fsetxattr" | "fremovexattr" => true,
        _ => false,
    }
}

/// All faults that an operation can meet.
pub fn of(op: &Op) -> Vec<(Kind, i32)> {
    let call = call(op.nr);
    let mut all: Vec<_> = errors_of(&call, op).iter().map(|name| (Kind::Error, error(name))).collect();
    all.extend([(Kind::Kill, 0), (Kind::Stop, error("EIO")), (Kind::Signal, SIGTERM)]);
    match &*call {
        "read" | "pread64" | "readv" => all.push((Kind::Short, 0)),
        "write" | "pwrite64" | "writev" => all.extend([(Kind::Short, 0), (Kind::Torn, 0)]),
        _ => {}
    }
    if changes(&call, op) {
        let more = [(Kind::Late, "EIO"), (Kind::Full, "ENOSPC"), (Kind::ReadOnly, "EROFS")];
        all.extend(more.map(|(kind, name)| (kind, error(name))));
        all.push((Kind::KillAfter, 0));
    }
    all
}

/// A fault at one of these operations, at random.
pub fn random(random: &mut Random, ops: &[Op], among: Range<usize>) -> Fault {
    let at = among.start + random.below(among.len());
    let (kind, value) = *random.of(&of(&ops[at]));
    Fault { at: at as u32, kind, value }
}

/// Whether a fault is an error that passes by itself.
pub fn passes(fault: &Fault) -> bool {
    fault.kind == Kind::Error && [error("EMFILE"), error("EINTR")].contains(&fault.value)
}

/// A fault in words: `12:error:EIO`.
pub fn text(fault: &Fault) -> String {
    let value = ERRORS.iter().find(|(_, number)| *number == fault.value).map(|(name, _)| *name);
    let value = match (fault.kind, value) {
        (Kind::Signal, _) => ":SIGTERM".into(),
        (_, Some(name)) => format!(":{name}"),
        _ => String::new(),
    };
    format!("{}:{}{value}", fault.at, fault.kind.name())
}

/// A fault that [`text`] has written.
pub fn parse(text: &str) -> Option<Fault> {
    let mut parts = text.split(':');
    let at = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let kind = Kind::ALL.iter().find(|(_, known)| *known == name)?.0;
    let value = match parts.next() {
        None => 0,
        Some("SIGTERM") => SIGTERM,
        Some(name) => ERRORS.iter().find(|(known, _)| *known == name)?.1,
    };
    Some(Fault { at, kind, value })
}
