//! Both ways by which the kernel sends requests, with a file system that is made up.

use phalanx_volume::fuse::{Answer, Caching, Change, Entries, Filesystem, Opened, ROOT, Space, WriteFlags};
use phalanx_volume::mount::{MountError, MountOptions, Mountpoint, Session, Stopper, Way};
use phalanx_volume::tree::{Attr, Kind, Owner};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// The number of the only file, and its name.
const FILE: u64 = 2;
const NAME: &[u8] = b"file";
/// The number of a link with a target of n bytes is n higher. Its name is n.
const LINKS: u64 = 100_000;

/// One file in memory.
struct Memory {
    content: Mutex<Vec<u8>>,
    /// Told of each `fsync` that has begun; it ends when the other one says so.
    begun: Mutex<Sender<()>>,
    may_end: Mutex<Receiver<()>>,
    destroyed: Sender<()>,
    forgotten: Mutex<Sender<u64>>,
    is_exclusive: bool,
}

impl Memory {
    fn attr(&self, number: u64) -> Attr {
        let (kind, size) = match number {
            ROOT => (Kind::Folder, 0),
            LINKS.. => (Kind::Link, number - LINKS),
            _ => (Kind::File, self.len()),
        };
        let mode = if number == ROOT { 0o755 } else { 0o644 };
        let time = (-1, 500_000_000);
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (atime, mtime, ctime) = (time, time, time);
        Attr {
            number,
            kind,
            size,
            blocks: 1,
            atime,
            mtime,
            ctime,
            mode,
            links: 1,
            uid,
            gid,
            device: 0,
            block_size: 4096,
        }
    }

    fn len(&self) -> u64 {
        self.content.lock().unwrap().len() as u64
    }
}

impl Filesystem for Memory {
    fn caching(&self) -> Caching {
        Caching { is_exclusive: self.is_exclusive, ..Caching::default() }
    }

    fn destroy(&self) {
        self.destroyed.send(()).unwrap();
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer<Attr> {
        if (parent, name) == (ROOT, NAME) {
            return Ok(self.attr(FILE));
        }
        let len: u64 = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()).ok_or(Errno::NOENT)?;
        Ok(self.attr(LINKS + len))
    }

    fn readlink(&self, number: u64) -> Answer<Vec<u8>> {
        Ok(vec![b'x'; (number - LINKS) as usize])
    }

    fn forget(&self, number: u64, _: u64) {
        // An error: the test does not look.
        let _ = self.forgotten.lock().unwrap().send(number);
    }

    fn unlink(&self, _: u64, _: &[u8]) -> Answer<()> {
        Ok(())
    }

    fn getattr(&self, number: u64) -> Answer<Attr> {
        Ok(self.attr(number))
    }

    fn setattr(&self, _: Owner, number: u64, change: &Change) -> Answer<Attr> {
        if let Some(size) = change.size {
            self.content.lock().unwrap().resize(size as usize, 0);
        }
        Ok(self.attr(number))
    }

    fn open(&self, _: u64, _: i32) -> Answer<Opened> {
        Ok(Opened { handle: 1, keeps: false })
    }

    fn read(&self, _: u64, offset: u64, out: &mut [u8]) -> Answer<usize> {
        let content = self.content.lock().unwrap();
        let rest = content.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write(&self, _: Owner, _: u64, _: u64, offset: u64, data: &[u8], _: WriteFlags) -> Answer<()> {
        let mut content = self.content.lock().unwrap();
        let end = offset as usize + data.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn flush(&self, _: u64) -> Answer<()> {
        Ok(())
    }

    fn release(&self, _: u64) {}

    fn fsync(&self, _: u64, _: u64, _: bool) -> Answer<()> {
        self.begun.lock().unwrap().send(()).unwrap();
        // An error: the test has ended.
        let _ = self.may_end.lock().unwrap().recv();
        Ok(())
    }

    fn opendir(&self, _: u64) -> Answer<Opened> {
        Ok(Opened { handle: 2, keeps: true })
    }

    fn readdir(&self, _: u64, _: u64, offset: u64, entries: &mut Entries<'_>) -> Answer<()> {
        // Enough for several requests.
        for at in offset..10_000 {
            let name = format!("an entry with a long name {at:05}");
            if entries.add(FILE + at, at + 1, Kind::File, name.as_bytes()) {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self) -> Answer<Space> {
        Ok(Space { block: 4096, fragment: 4096, blocks: 11, longest_name: 255, ..Space::default() })
    }

    fn getxattr(&self, _: u64, name: &[u8]) -> Answer<Vec<u8>> {
        match name {
            b"user.long" => Ok(vec![7; 60_000]),
            b"user.wrong" => panic!("as the test wants"),
            _ => Err(Errno::NODATA),
        }
    }
}

/// A mount that is served by threads of this process.
struct Mounted {
    folder: tempfile::TempDir,
    stopper: Stopper,
    served: Option<JoinHandle<Result<(), MountError>>>,
    begun: Receiver<()>,
    may_end: Option<Sender<()>>,
    destroyed: Receiver<()>,
    forgotten: Receiver<u64>,
}

impl Mounted {
    /// `None` if this system has no such way.
    fn new(way: Way) -> Option<Self> {
        Self::within(way, "")
    }

    /// A mount in a folder within its own.
    fn within(way: Way, inner: &str) -> Option<Self> {
        Self::with(way, inner, MountOptions::new(Path::new("test")))
    }

    /// A mount with these options.
    fn with(way: Way, inner: &str, options: MountOptions) -> Option<Self> {
        if !OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok_and(|_| is_root()) {
            skip("root and FUSE", "fuse");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mountpoint = folder.path().join(inner);
        fs::create_dir_all(&mountpoint).unwrap();
        let ((begins, begun), (ends, may_end)) = (channel(), channel());
        let ((destroys, destroyed), (forgets, forgotten)) = (channel(), channel());
        let content = Mutex::new(Vec::new());
        let memory = Memory {
            content,
            begun: Mutex::new(begins),
            may_end: Mutex::new(may_end),
            destroyed: destroys,
            forgotten: Mutex::new(forgets),
            is_exclusive: options.lets_others(),
        };
        let mountpoint = Mountpoint::for_objects(&mountpoint).unwrap();
        let session = match Session::mount(memory, &mountpoint, &options, way, None) {
            Err(MountError::NoUring) => {
                assert!(!is_mounted(folder.path()), "a mount that is refused is gone");
                skip("uring", "uring");
                return None;
            }
            session => session.unwrap(),
        };
        assert_eq!(session.way(), way);
        let stopper = session.stopper();
        let served = Some(thread::spawn(move || session.run()));
        Some(Self { folder, stopper, served, begun, may_end: Some(ends), destroyed, forgotten })
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    /// Unmounts, and checks that the session has ended.
    fn end(mut self) {
        self.stopper.stop().unwrap();
        self.served.take().unwrap().join().unwrap().unwrap();
        self.destroyed.try_recv().unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(self.may_end.take());
        let _ = self.stopper.stop();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn skip(what: &str, word: &str) {
    let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
    assert!(!required.split([',', ' ']).any(|r| r == word), "PHALANX_REQUIRE names {word}, which is missing");
    println!("skipped: no {what}");
}

fn is_mounted(folder: &Path) -> bool {
    fs::read_to_string("/proc/self/mountinfo").unwrap().contains(folder.to_str().unwrap())
}

fn ways() -> impl Iterator<Item = Mounted> {
    [Way::Device, Way::Uring].into_iter().filter_map(Mounted::new)
}

#[test]
fn requests_of_all_lengths_arrive_and_so_do_their_answers() {
    for mounted in ways() {
        let file = mounted.file();
        // More than one request has room for, and not whole pages.
        let content: Vec<u8> = (0..3_000_001u32).flat_map(|i| (i / 7).to_le_bytes()).take(3_000_001).collect();
        fs::write(&file, &content).unwrap();
        assert!(fs::read(&file).unwrap() == content);
        let opened = OpenOptions::new().read(true).write(true).open(&file).unwrap();
        opened.write_all_at(b"changed", 1_500_000).unwrap();
        let mut changed = [0; 9];
        opened.read_exact_at(&mut changed, 1_499_999).unwrap();
        assert_eq!(&changed[1..8], b"changed");
        opened.set_len(10).unwrap();
        let metadata = opened.metadata().unwrap();
        assert_eq!(metadata.len(), 10);
        assert_eq!(std::os::unix::fs::MetadataExt::mtime(&metadata), -1);
        let folder = mounted.folder.path();
        assert_eq!(fs::read_dir(folder).unwrap().count(), 10_000);
        assert_eq!(fs::metadata(folder.join("x")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        let refused = fs::create_dir(folder.join("x")).unwrap_err();
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::NOSYS), "what is not there has an error");
        let mut value = vec![0; 65536];
        assert_eq!(rustix::fs::getxattr_query(&file, "user.long"), Ok(60_000));
        assert_eq!(rustix::fs::getxattr(&file, "user.long", &mut value[..100]), Err(Errno::RANGE));
        assert_eq!(rustix::fs::getxattr(&file, "user.long", &mut value), Ok(60_000));
        assert!(value[..60_000].iter().all(|byte| *byte == 7));
        assert_eq!(rustix::fs::statvfs(folder).unwrap().f_blocks, 11);
        drop(opened);
        mounted.end();
    }
}

#[test]
fn a_link_that_is_too_long_for_the_kernel_does_not_end_the_mount() {
    for mounted in ways() {
        let page = rustix::param::page_size();
        let target = |len: usize| fs::read_link(mounted.folder.path().join(len.to_string()));
        assert_eq!(target(page - 1).unwrap().as_os_str().len(), page - 1);
        for len in [page, page + 904, 65_535] {
            assert_eq!(Errno::from_io_error(&target(len).unwrap_err()), Some(Errno::NAMETOOLONG), "{len}");
        }
        assert_eq!(target(3).unwrap(), Path::new("xxx"), "it goes on");
        mounted.end();
    }
}

#[test]
fn allow_root_keeps_other_users_out_of_what_the_kernel_has_seen() {
    for words in ["allow_root", "allow_other"] {
        let mut options = MountOptions::new(Path::new("test"));
        options.add(words).unwrap();
        for mounted in
            [Way::Device, Way::Uring].into_iter().filter_map(|way| Mounted::with(way, "mnt", options.clone()))
        {
            fs::set_permissions(mounted.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
            let mountpoint = mounted.folder.path().join("mnt");
            fs::write(mountpoint.join("file"), "content").unwrap();
            let sees = |uid: u32, args: &[&str]| {
                let mut command = Command::new(args[0]);
                command.uid(uid).current_dir("/").arg(mountpoint.join(args[1])).output().unwrap().status.success()
            };
            let asks: [&[&str]; 3] = [&["stat", "file"], &["readlink", "5"], &["cat", "file"]];
            for ask in asks {
                assert!(sees(0, ask), "root, {ask:?}");
                assert_eq!(sees(65_534, ask), words == "allow_other", "another user, {words}, {ask:?}");
            }
            mounted.end();
        }
    }
}

#[test]
fn a_thread_that_fails_ends_the_mount_with_an_error() {
    for mut mounted in ways() {
        let file = mounted.file();
        fs::write(&file, "content").unwrap();
        let mut value = [0; 10];
        assert!(rustix::fs::getxattr(&file, "user.wrong", &mut value).is_err());
        let served = mounted.served.take().unwrap().join().unwrap();
        assert_eq!(served.unwrap_err().to_string(), "serving the mount failed: a thread has panicked");
        assert!(!is_mounted(mounted.folder.path()));
        mounted.destroyed.try_recv().unwrap();
    }
}

#[test]
fn what_is_removed_is_forgotten() {
    for mounted in ways() {
        let file = mounted.file();
        fs::write(&file, "content").unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(mounted.forgotten.recv_timeout(std::time::Duration::from_secs(60)), Ok(FILE));
        mounted.end();
    }
}

#[test]
fn many_threads_get_their_own_answers() {
    for mounted in ways() {
        let file = mounted.file();
        let content: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
        fs::write(&file, &content).unwrap();
        let read = |seed: u64| {
            let opened = File::open(&file).unwrap();
            let mut at = seed;
            for _ in 0..300 {
                at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (offset, len) = ((at >> 33) as usize % 3_900_000, 1 + at as usize % 90_000);
                let mut bytes = vec![0; len];
                // Not from the kernel's cache.
                let _ = rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed);
                opened.read_exact_at(&mut bytes, offset as u64).unwrap();
                assert!(bytes == content[offset..offset + len], "{len} bytes at {offset}");
            }
        };
        thread::scope(|scope| (0..6).for_each(|seed| drop(scope.spawn(move || read(seed)))));
        mounted.end();
    }
}

#[test]
fn a_request_that_takes_long_stops_no_other_on_its_core() {
    for mounted in ways() {
        let file = mounted.file();
        fs::write(&file, "content").unwrap();
        // All on one core, which has one queue.
        let all = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)).unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        let slow = thread::spawn({
            let (file, one) = (file.clone(), one);
            move || {
                sched_setaffinity(None, &one).unwrap();
                OpenOptions::new().write(true).open(file).unwrap().sync_all()
            }
        });
        mounted.begun.recv().unwrap();
        let other = thread::spawn(move || {
            sched_setaffinity(None, &one).unwrap();
            let mut text = String::new();
            File::open(file).unwrap().read_to_string(&mut text).unwrap();
            text
        });
        assert_eq!(other.join().unwrap(), "content");
        mounted.may_end.as_ref().unwrap().send(()).unwrap();
        slow.join().unwrap().unwrap();
        mounted.end();
    }
}

/// The device number of what is mounted at a path.
fn device(mountpoint: &Path) -> u64 {
    rustix::fs::stat(mountpoint).unwrap().st_dev
}

/// Ends a session by force.
fn abort(device: u64) {
    let control = tempfile::tempdir().unwrap();
    mount("none", control.path(), "fusectl", MountFlags::empty(), None).unwrap();
    let abort = control.path().join(rustix::fs::minor(device).to_string()).join("abort");
    let aborted = fs::write(abort, "1");
    unmount(control.path(), UnmountFlags::empty()).unwrap();
    aborted.unwrap();
}

#[test]
fn a_session_that_the_kernel_ends_leaves_no_thread() {
    for mut mounted in ways() {
        let file = mounted.file();
        fs::write(&file, "content").unwrap();
        let slow = thread::spawn(move || OpenOptions::new().write(true).open(file).unwrap().sync_all());
        mounted.begun.recv().unwrap();
        abort(device(mounted.folder.path()));
        let error = slow.join().unwrap().unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::CONNABORTED));
        // The request is still being served, and then there is nobody to answer.
        mounted.may_end.as_ref().unwrap().send(()).unwrap();
        let ended = mounted.served.take().unwrap().join().unwrap();
        assert!(matches!(ended, Err(MountError::Forced)), "{ended:?}");
        mounted.destroyed.try_recv().unwrap();
        // Its name is gone too.
        let again = unmount(mounted.folder.path(), UnmountFlags::DETACH);
        assert_eq!(again, Err(Errno::INVAL));
    }
}

#[test]
fn a_session_that_is_ended_by_force_is_reported_if_its_mountpoint_was_renamed() {
    for mut mounted in [Way::Device, Way::Uring].into_iter().filter_map(|way| Mounted::within(way, "above/mnt")) {
        let [above, below] = ["above", "below"].map(|name| mounted.folder.path().join(name));
        fs::rename(above, &below).unwrap();
        abort(device(&below.join("mnt")));
        let ended = mounted.served.take().unwrap().join().unwrap();
        assert!(matches!(ended, Err(MountError::Forced)), "{ended:?}");
        assert!(!is_mounted(mounted.folder.path()));
    }
}

#[test]
fn a_session_that_is_ended_by_force_is_reported_if_it_is_covered() {
    for mut mounted in ways() {
        let mountpoint = mounted.folder.path().to_owned();
        let device = device(&mountpoint);
        mount("x", &mountpoint, "tmpfs", MountFlags::empty(), None).unwrap();
        abort(device);
        let ended = mounted.served.take().unwrap().join().unwrap();
        // What lies on top stays, and so does what cannot be reached.
        unmount(&mountpoint, UnmountFlags::empty()).unwrap();
        unmount(&mountpoint, UnmountFlags::DETACH).unwrap();
        assert!(matches!(ended, Err(MountError::Forced)), "{ended:?}");
    }
}
