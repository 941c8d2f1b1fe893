//! Passing a request on to the file system, and its answer back.

use super::awake::Traffic;
use super::wire::{Body, Entries, Fields, Head, WriteFlags, name, opcode};
use super::{Answer, Caching, Change, Filesystem, LONGEST, Opened, ROOT, Space, Time};
use rustix::io::Errno;
use rustix::param::page_size;
use std::time::Duration;

/// Whose requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// Those of all users that the kernel admits.
    All,
    /// Those of root and of the user who mounted.
    RootAndOwner(u32),
}

impl Admitted {
    /// What the kernel may keep for them, and for how long it may keep names and attributes. It gives all users what it keeps.
    pub fn caching(self, asked: Caching) -> (Caching, Duration) {
        match self {
            Self::All => (asked, asked.lifetime()),
            Self::RootAndOwner(_) => (Caching { is_exclusive: false, ..asked }, Duration::ZERO),
        }
    }
}

/// A file system, and who may use it.
pub struct Server<F> {
    filesystem: F,
    admitted: Admitted,
    lifetime: Duration,
    /// Whether the kernel may remember that a name does not exist.
    keeps_nothing: bool,
    /// Called for each request that shows that somebody uses the file system.
    used: Box<dyn Fn() + Send + Sync>,
    pub traffic: Traffic,
}

impl<F: Filesystem> Server<F> {
    pub fn new(filesystem: F, admitted: Admitted, used: Box<dyn Fn() + Send + Sync>) -> Self {
        let (caching, lifetime) = admitted.caching(filesystem.caching());
        Self { lifetime, keeps_nothing: caching.is_exclusive, filesystem, admitted, used, traffic: Traffic::new() }
    }

    /// Ends the file system.
    pub fn destroy(&self) {
        self.filesystem.destroy();
    }

    /// Serves a request: its numbers, and the names and data after them, which are the first `len` bytes of `data`. The
    /// answer is then in `data`, and its length is returned. No answer is longer than [`LONGEST`], and that is how long
    /// `data` has to be.
    pub fn serve(&self, head: &Head, numbers: &[u8], data: &mut [u8], len: usize) -> Answer<usize> {
        if !self.admits(head) {
            return Err(Errno::ACCESS);
        }
        if is_use(head) {
            (self.used)();
        }
        let mut fields = Fields(numbers);
        let given = data.get(..len).ok_or(Errno::IO)?;
        let body = match head.opcode {
            opcode::READ | opcode::READDIR | opcode::READDIRPLUS => return self.read(head, &mut fields, data),
            opcode::GETXATTR | opcode::LISTXATTR | opcode::READLINK => {
                let value = self.value(head, &mut fields, given)?;
                data.get_mut(..value.len()).ok_or(Errno::IO)?.copy_from_slice(&value);
                return Ok(value.len());
            }
            opcode::LOOKUP..=opcode::LINK | opcode::CREATE | opcode::RENAME2 => self.node(head, &mut fields, given)?,
            _ => self.opened(head, &mut fields, given)?,
        };
        let bytes = body.bytes();
        data.get_mut(..bytes.len()).ok_or(Errno::IO)?.copy_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Serves what has no answer.
    pub fn forget(&self, head: &Head, numbers: &[u8], data: &[u8]) -> Answer<()> {
        let mut fields = Fields(numbers);
        if head.opcode == opcode::FORGET {
            self.filesystem.forget(head.node, fields.u64()?);
            return Ok(());
        }
        let (count, mut forgotten) = (fields.u32()?, Fields(data));
        for _ in 0..count {
            let (number, times) = (forgotten.u64()?, forgotten.u64()?);
            self.filesystem.forget(number, times);
        }
        Ok(())
    }

    /// Whether the user may do this. The kernel makes some requests for nobody in particular, and a process that has
    /// opened a file may have become another user's.
    fn admits(&self, head: &Head) -> bool {
        let by = head.by.uid;
        let is_admitted = match self.admitted {
            Admitted::All => true,
            // The kernel's own requests, for what it has cached, are root's.
            Admitted::RootAndOwner(owner) => by == owner || by == 0,
        };
        is_admitted
            || matches!(
                head.opcode,
                opcode::READ
                    | opcode::WRITE
                    | opcode::READDIR
                    | opcode::READDIRPLUS
                    | opcode::FLUSH
                    | opcode::FSYNC
                    | opcode::FSYNCDIR
                    | opcode::RELEASE
                    | opcode::RELEASEDIR
                    | opcode::DESTROY
            )
    }

    /// Reads into `data`.
    fn read(&self, head: &Head, fields: &mut Fields<'_>, data: &mut [u8]) -> Answer<usize> {
        let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()? as usize);
        let room = size.min(LONGEST).min(data.len());
        let room = &mut data[..room];
        if head.opcode == opcode::READ {
            return self.filesystem.read(handle, offset, room);
        }
        let mut entries = Entries::new(room, self.lifetime);
        match head.opcode {
            opcode::READDIR => self.filesystem.readdir(head.node, handle, offset, &mut entries)?,
            _ => self.filesystem.readdirplus(head.node, handle, offset, &mut entries)?,
        }
        Ok(entries.len())
    }

    /// A value of any length: if there is no room for it at all, its length.
    fn value(&self, head: &Head, fields: &mut Fields<'_>, data: &[u8]) -> Answer<Vec<u8>> {
        let fs = &self.filesystem;
        if head.opcode == opcode::READLINK {
            let target = fs.readlink(head.node)?;
            // The kernel takes no longer one, and then nobody could go on with the mount.
            return if target.len() < page_size() { Ok(target) } else { Err(Errno::NAMETOOLONG) };
        }
        let room = fields.u32()? as usize;
        let value = match head.opcode {
            opcode::GETXATTR => fs.getxattr(head.node, name(data)?.0)?,
            _ => fs.listxattr(head.node)?,
        };
        match room {
            0 => Ok(Body::new().u32(value.len() as u32).u32(0).bytes().to_vec()),
            room if room < value.len() => Err(Errno::RANGE),
            _ => Ok(value),
        }
    }

    /// What concerns nodes and names.
    fn node(&self, head: &Head, fields: &mut Fields<'_>, data: &[u8]) -> Answer<Body> {
        let (fs, by, node) = (&self.filesystem, head.by, head.node);
        let attr = match head.opcode {
            opcode::GETATTR => return Ok(Body::new().attr(&fs.getattr(node)?, self.lifetime)),
            opcode::SETATTR => {
                let attr = fs.setattr(by, node, &change(fields)?)?;
                return Ok(Body::new().attr(&attr, self.lifetime));
            }
            opcode::UNLINK => return fs.unlink(node, name(data)?.0).map(|()| Body::new()),
            opcode::RMDIR => return fs.rmdir(node, name(data)?.0).map(|()| Body::new()),
            opcode::RENAME | opcode::RENAME2 => {
                let to = fields.u64()?;
                let flags = if head.opcode == opcode::RENAME2 { fields.u32()? } else { 0 };
                let (from, rest) = name(data)?;
                return fs.rename(node, from, to, name(rest)?.0, flags).map(|()| Body::new());
            }
            opcode::CREATE => {
                let (_flags, mode) = (fields.u32()?, fields.u32()?);
                let (attr, opened) = fs.create(by, node, name(data)?.0, mode)?;
                return Ok(open(Body::new().entry(&attr, self.lifetime), opened, KEEP));
            }
            opcode::LOOKUP => match fs.lookup(node, name(data)?.0) {
                Err(Errno::NOENT) if self.keeps_nothing => return Ok(Body::new().no_entry(self.lifetime)),
                found => found?,
            },
            opcode::MKNOD => {
                let (mode, device) = (fields.u32()?, fields.u32()?);
                fs.mknod(by, node, name(data)?.0, mode, device)?
            }
            opcode::MKDIR => fs.mkdir(by, node, name(data)?.0, fields.u32()?)?,
            opcode::SYMLINK => {
                let (link, rest) = name(data)?;
                fs.symlink(by, node, link, name(rest)?.0)?
            }
            opcode::LINK => fs.link(fields.u64()?, node, name(data)?.0)?,
            _ => return Err(Errno::NOSYS),
        };
        Ok(Body::new().entry(&attr, self.lifetime))
    }

    /// What concerns opened files and folders, and the rest.
    fn opened(&self, head: &Head, fields: &mut Fields<'_>, data: &[u8]) -> Answer<Body> {
        let (fs, by, node) = (&self.filesystem, head.by, head.node);
        match head.opcode {
            opcode::OPEN => return Ok(open(Body::new(), fs.open(node, fields.u32()?.cast_signed())?, KEEP)),
            opcode::OPENDIR => return Ok(open(Body::new(), fs.opendir(node)?, KEEP | KEEP_LIST)),
            opcode::WRITE => {
                let (handle, offset, size, flags) = (fields.u64()?, fields.u64()?, fields.u32()?, fields.u32()?);
                let data = data.get(..size as usize).ok_or(Errno::IO)?;
                fs.write(by, node, handle, offset, data, WriteFlags(flags))?;
                return Ok(Body::new().u32(size).u32(0));
            }
            opcode::LSEEK => {
                let (handle, offset, whence) = (fields.u64()?, fields.u64()?.cast_signed(), fields.u32()?);
                return Ok(Body::new().u64(fs.lseek(handle, offset, whence)?));
            }
            opcode::STATFS => return Ok(space(&fs.statfs()?)),
            opcode::FLUSH => fs.flush(fields.u64()?)?,
            opcode::RELEASE => fs.release(fields.u64()?),
            opcode::RELEASEDIR => fs.releasedir(fields.u64()?),
            opcode::FSYNC => {
                let (handle, flags) = (fields.u64()?, fields.u32()?);
                fs.fsync(node, handle, flags & 1 != 0)?;
            }
            opcode::FSYNCDIR => fs.fsyncdir(node)?,
            opcode::FALLOCATE => {
                let (handle, offset, len, mode) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u32()?);
                fs.fallocate(by, node, handle, offset, len, mode)?;
            }
            opcode::SETXATTR => {
                let (size, flags) = (fields.u32()?, fields.u32()?);
                let (name, rest) = name(data)?;
                fs.setxattr(node, name, rest.get(..size as usize).ok_or(Errno::IO)?, flags)?;
            }
            opcode::REMOVEXATTR => fs.removexattr(node, name(data)?.0)?,
            opcode::DESTROY => {}
            // Without an answer to ACCESS the kernel checks permissions by itself.
            _ => return Err(Errno::NOSYS),
        }
        Ok(Body::new())
    }
}

/// Whether a request shows that somebody uses the file system. The kernel itself makes some, and programs that show how
/// full disks are ask for the space and the topmost folder.
fn is_use(head: &Head) -> bool {
    match head.opcode {
        opcode::STATFS | opcode::DESTROY => false,
        opcode::GETATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::ACCESS => head.node != ROOT,
        _ => true,
    }
}

fn change(fields: &mut Fields<'_>) -> Answer<Change> {
    let valid = fields.u32()?;
    let _padding = fields.u32()?;
    let (handle, size, _lock_owner) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (atime, mtime, _ctime) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (atime_nanos, mtime_nanos, _ctime_nanos) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (mode, _unused, uid, gid) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let has = |bit: u32| valid & 1 << bit != 0;
    let time = |bit, now, seconds: u64, nanos| {
        has(bit).then(|| if has(now) { Time::Now } else { Time::At(seconds.cast_signed(), nanos) })
    };
    Ok(Change {
        mode: has(0).then_some(mode),
        uid: has(1).then_some(uid),
        gid: has(2).then_some(gid),
        size: has(3).then_some(size),
        handle: has(6).then_some(handle),
        takes_set_ids: has(11),
        atime: time(4, 7, atime, atime_nanos),
        mtime: time(5, 8, mtime, mtime_nanos),
    })
}

/// `FOPEN_KEEP_CACHE`: what the kernel has kept of a file or a folder's list is right.
const KEEP: u32 = 1 << 1;
/// `FOPEN_CACHE_DIR`: it may keep a folder's list.
const KEEP_LIST: u32 = 1 << 3;

fn open(body: Body, opened: Opened, keep: u32) -> Body {
    body.u64(opened.handle).u32(if opened.keeps { keep } else { 0 }).u32(0)
}

fn space(space: &Space) -> Body {
    let body = Body::new().u64(space.blocks).u64(space.free).u64(space.available);
    let body = body.u64(space.files).u64(space.free_files);
    let body = body.u32(space.block).u32(space.longest_name).u32(space.fragment).u32(0);
    body.u64(0).u64(0).u64(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::Caching;
    use crate::tree::{Attr, Owner};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Remembers what it forgets.
    #[derive(Default)]
    struct Forgetful(Mutex<Vec<(u64, u64)>>, bool);

    impl Filesystem for Forgetful {
        fn caching(&self) -> Caching {
            Caching { is_exclusive: self.1, ..Caching::default() }
        }
        fn lookup(&self, _: u64, _: &[u8]) -> Answer<Attr> {
            Err(Errno::NOENT)
        }
        fn forget(&self, number: u64, times: u64) {
            self.0.lock().unwrap().push((number, times));
        }
        fn getattr(&self, _: u64) -> Answer<Attr> {
            Err(Errno::STALE)
        }
        fn open(&self, _: u64, _: i32) -> Answer<Opened> {
            Ok(Opened { handle: 5, keeps: true })
        }
        fn read(&self, _: u64, _: u64, out: &mut [u8]) -> Answer<usize> {
            Ok(out.len())
        }
        fn write(&self, _: Owner, _: u64, _: u64, _: u64, data: &[u8], _: WriteFlags) -> Answer<()> {
            if data == b"data" { Ok(()) } else { Err(Errno::INVAL) }
        }
        fn release(&self, _: u64) {}
        fn opendir(&self, _: u64) -> Answer<Opened> {
            Ok(Opened { handle: 6, keeps: true })
        }
        fn readdir(&self, _: u64, _: u64, _: u64, _: &mut Entries<'_>) -> Answer<()> {
            Ok(())
        }
        fn statfs(&self) -> Answer<Space> {
            Ok(Space::default())
        }
    }

    fn head(opcode: u32, uid: u32) -> Head {
        Head { opcode, unique: 1, node: 3, by: Owner { uid, gid: 0 }, thread: 1 }
    }

    /// Numbers of 64 bits. Two of 32 bits are one of them.
    fn numbers(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    fn server(admitted: Admitted) -> Server<Forgetful> {
        Server::new(Forgetful::default(), admitted, Box::new(|| ()))
    }

    #[test]
    fn requests_that_are_cut_short_are_errors() {
        let server = server(Admitted::All);
        let mut data = [0; 64];
        data[..4].copy_from_slice(b"data");
        let serve = |code, fields: &[u8], len| server.serve(&head(code, 0), fields, &mut data.clone(), len);
        let write = |size: u64| numbers(&[1, 0, size, 0, 0]);
        assert_eq!(serve(opcode::WRITE, &write(4), 4), Ok(8));
        assert_eq!(serve(opcode::WRITE, &write(4), 3), Err(Errno::IO));
        assert_eq!(serve(opcode::WRITE, &write(4), 65), Err(Errno::IO));
        assert_eq!(serve(opcode::WRITE, &write(4)[..20], 4), Err(Errno::IO));
        assert_eq!(serve(opcode::WRITE, &write(u64::from(u32::MAX)), 4), Err(Errno::IO));
        assert_eq!(serve(opcode::READ, &write(1 << 30), 0), Ok(64), "there is no more room");
        assert_eq!(serve(opcode::LOOKUP, &[], 4), Err(Errno::IO), "no zero ends the name");
        assert_eq!(serve(opcode::LOOKUP, &[], 5), Err(Errno::NOENT));
        for code in (0..100).filter(|code| !matches!(code, 2 | 14 | 15 | 17 | 18 | 27 | 28 | 29 | 38)) {
            assert!(serve(code, &[], 0).is_err(), "{code}");
        }
        assert_eq!(serve(opcode::RELEASEDIR, &numbers(&[6, 0, 0]), 0), Ok(0));
        assert_eq!(serve(opcode::MKDIR, &numbers(&[0]), 5), Err(Errno::NOSYS), "what is not there");
        assert_eq!(serve(opcode::ACCESS, &numbers(&[0]), 0), Err(Errno::NOSYS));
    }

    #[test]
    fn only_where_nobody_else_makes_names_the_kernel_keeps_that_there_are_none() {
        for (is_exclusive, answer) in [(false, Err(Errno::NOENT)), (true, Ok(128))] {
            let forgetful = Forgetful(Mutex::default(), is_exclusive);
            let server = Server::new(forgetful, Admitted::All, Box::new(|| ()));
            let mut data = [1; 256];
            data[..5].copy_from_slice(b"name\0");
            assert_eq!(server.serve(&head(opcode::LOOKUP, 0), &[], &mut data, 5), answer);
            if is_exclusive {
                assert_eq!(data[..24], *numbers(&[0, 0, 3600]), "no node, and for how long");
            }
        }
    }

    #[test]
    fn what_is_forgotten_is_counted_by_what_is_there() {
        let server = server(Admitted::All);
        server.forget(&head(opcode::FORGET, 0), &numbers(&[9]), &[]).unwrap();
        let two = numbers(&[4, 5, 6, 7]);
        server.forget(&head(opcode::BATCH_FORGET, 0), &numbers(&[2]), &two).unwrap();
        assert_eq!(server.forget(&head(opcode::BATCH_FORGET, 0), &numbers(&[3]), &two), Err(Errno::IO));
        let forgotten = server.filesystem.0.lock().unwrap();
        assert_eq!(*forgotten, [(3, 9), (4, 5), (6, 7), (4, 5), (6, 7)]);
    }

    #[test]
    fn only_those_who_are_admitted_are_served() {
        let open = |admitted, uid| server(admitted).serve(&head(opcode::OPEN, uid), &numbers(&[0]), &mut [0; 64], 0);
        for (admitted, may) in [(Admitted::All, [true, true, true]), (Admitted::RootAndOwner(7), [true, true, false])] {
            for (uid, may) in [0, 7, 8].into_iter().zip(may) {
                assert_eq!(open(admitted, uid), if may { Ok(16) } else { Err(Errno::ACCESS) }, "{admitted:?} {uid}");
            }
        }
        let read = server(Admitted::RootAndOwner(7)).serve(
            &head(opcode::READ, 8),
            &numbers(&[0, 0, 5, 0, 0]),
            &mut [0; 64],
            0,
        );
        assert_eq!(read, Ok(5), "the kernel reads ahead for nobody in particular");
    }

    #[test]
    fn requests_for_the_space_are_no_use() {
        let used = std::sync::Arc::new(AtomicUsize::new(0));
        let count = used.clone();
        let counts = Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let server = Server::new(Forgetful::default(), Admitted::All, counts);
        let serve = |code, node| {
            let _ = server.serve(&Head { node, ..head(code, 0) }, &numbers(&[0, 0, 0]), &mut [0; 96], 0);
        };
        serve(opcode::STATFS, ROOT);
        serve(opcode::GETATTR, ROOT);
        assert_eq!(used.load(Ordering::Relaxed), 0);
        serve(opcode::GETATTR, 2);
        serve(opcode::OPENDIR, ROOT);
        assert_eq!(used.load(Ordering::Relaxed), 2);
    }
}
