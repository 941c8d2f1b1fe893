//! A mounted volume behaves like a disk.

use super::{init, init_as, is_sound, mount, unmount};
use crate::common::{Sandbox, has, painted, skip, wait_for};
use crate::mount::{Mounted, listing};
use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, SeekFrom as Seek, StatxFlags,
    XattrFlags, fallocate, flock, getxattr, listxattr, renameat_with, seek, setxattr, statvfs, statx,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

const LENS: [usize; 12] = [0, 1, 15, 16, 4095, 4096, 4097, 8192, 100_000, 262_144, 262_145, 3_000_001];

/// Unmounts the volume and mounts it again.
fn again(s: &Sandbox, mounted: Mounted) -> Mounted {
    unmount(mounted);
    mount(s, "vol").unwrap()
}

fn editable(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn files_hold_what_was_written() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mut mounted) = mount(&s, "vol") else { return };
    for len in LENS {
        fs::write(mounted.path(&format!("{len}")), painted(len)).unwrap();
    }
    // Lengths are changed, and bytes are written after the end.
    let file = editable(&mounted.path("100000"));
    file.set_len(5000).unwrap();
    file.set_len(70_000).unwrap();
    file.write_all_at(b"middle", 30_000).unwrap();
    let mut appending = OpenOptions::new().append(true).open(mounted.path("100000")).unwrap();
    appending.write_all(b"end").unwrap();
    let mut expected = painted(5000);
    expected.resize(70_000, 0);
    expected[30_000..30_006].copy_from_slice(b"middle");
    expected.extend_from_slice(b"end");
    let check = |mounted: &Mounted| {
        for len in LENS.into_iter().filter(|len| *len != 100_000) {
            assert!(fs::read(mounted.path(&format!("{len}"))).unwrap() == painted(len), "{len}");
        }
        assert!(fs::read(mounted.path("100000")).unwrap() == expected);
    };
    check(&mounted);
    drop((file, appending));
    mounted = again(&s, mounted);
    check(&mounted);

    // Direct reads and writes do not use the kernel's cache.
    let mut direct = OpenOptions::new();
    direct.read(true).write(true).custom_flags(OFlags::DIRECT.bits() as i32);
    let mut direct = direct.open(mounted.path("3000001")).unwrap();
    direct.seek(SeekFrom::Start(4096)).unwrap();
    direct.write_all(&[9; 8192]).unwrap();
    let mut around = vec![0; 8192 + 2];
    File::open(mounted.path("3000001")).unwrap().read_exact_at(&mut around, 4095).unwrap();
    assert!(
        around[1..8193] == [9; 8192] && around[0] == painted(4096)[4095] && around[8193] == painted(12_289)[12_288]
    );
    direct.seek(SeekFrom::Start(0)).unwrap();
    let mut block = [0; 4096];
    direct.read_exact(&mut block).unwrap();
    assert!(block[..] == painted(4096));
    drop(direct);
    unmount(mounted);
    is_sound(&s, "vol");
}

#[test]
fn holes_take_no_space() {
    let s = Sandbox::new();
    // A table of versions has space of its own reserved.
    init_as(&s, "vol", "4K", false);
    let Some(mut mounted) = mount(&s, "vol") else { return };
    const TB: u64 = 1 << 40;
    let file = File::create(mounted.path("sparse")).unwrap();
    file.set_len(TB).unwrap();
    file.write_all_at(b"far", TB / 2).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let check = |mounted: &Mounted, shows_holes: bool| {
        let file = File::open(mounted.path("sparse")).unwrap();
        assert_eq!(file.metadata().unwrap().len(), TB);
        let data = seek(&file, Seek::Data(8192)).unwrap();
        let hole = seek(&file, Seek::Hole(TB / 2)).unwrap();
        if shows_holes {
            assert!(data <= TB / 2 && data > TB / 2 - 8192, "{data}");
            assert!(hole > TB / 2 && hole <= TB / 2 + 8192, "{hole}");
        } else {
            assert_eq!((data, hole), (8192, TB));
        }
        let mut bytes = [1; 10];
        file.read_exact_at(&mut bytes, TB / 2 - 3).unwrap();
        assert_eq!(&bytes, b"\0\0\0far\0\0\0\0");
        file.read_exact_at(&mut bytes, TB - 10).unwrap();
        assert_eq!(bytes, [0; 10]);
    };
    check(&mounted, false);
    mounted = again(&s, mounted);
    check(&mounted, false);
    let stored: u64 = stored_blocks(&s.path("vol"));
    assert!(stored < 2048, "{stored} blocks of 512 bytes");

    // Holes can be punched.
    let whole = painted(1 << 20);
    fs::write(mounted.path("punched"), &whole).unwrap();
    let file = editable(&mounted.path("punched"));
    let before = stored_blocks(&s.path("vol"));
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 100_001, 700_000).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let mut expected = whole;
    expected[100_001..800_001].fill(0);
    assert!(fs::read(mounted.path("punched")).unwrap() == expected);
    assert!(stored_blocks(&s.path("vol")) + 1300 < before);
    mounted = again(&s, mounted);
    assert!(fs::read(mounted.path("punched")).unwrap() == expected);
    unmount(mounted);
    is_sound(&s, "vol");
}

/// The blocks of 512 bytes that files take, without the journal.
fn stored_blocks(root: &Path) -> u64 {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_name() != "phalanx.journal");
    files.map(|entry| entry.metadata().unwrap().blocks()).sum()
}

#[test]
fn names_links_and_folders_work_as_on_a_disk() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mut mounted) = mount(&s, "vol") else { return };
    let at = |name: &str| mounted.path(name);
    let long = format!("{}é", "long ".repeat(50));
    for folder in ["a", "a/b", "a/b/c", "empty", "full", &long] {
        fs::create_dir(at(folder)).unwrap();
    }
    for (name, content) in
        [("one", "1"), ("two", "2"), ("a/b/c/deep", "3"), ("full/x", "4"), (&format!("{long}/{long}"), "5")]
    {
        fs::write(at(name), content).unwrap();
    }
    let errno = |done: std::io::Result<()>| Errno::from_io_error(&done.unwrap_err()).unwrap();
    fs::rename(at("one"), at("two")).unwrap();
    fs::rename(at("a"), at("empty")).unwrap();
    assert_eq!(errno(fs::rename(at("empty"), at("full"))), Errno::NOTEMPTY);
    assert_eq!(errno(fs::rename(at("empty"), at("empty/b/x"))), Errno::INVAL);
    assert_eq!(errno(fs::remove_dir(at("full"))), Errno::NOTEMPTY);
    assert_eq!(errno(fs::create_dir(at("full"))), Errno::EXIST);
    assert_eq!(errno(fs::write(at(&"x".repeat(256)), "")), Errno::NAMETOOLONG);
    assert_eq!(errno(fs::remove_file(at("none"))), Errno::NOENT);
    assert_eq!(renameat_with(CWD, at("two"), CWD, at("full/x"), RenameFlags::NOREPLACE), Err(Errno::EXIST));
    renameat_with(CWD, at("two"), CWD, at("full/x"), RenameFlags::EXCHANGE).unwrap();
    fs::hard_link(at("two"), at("empty/second")).unwrap();
    OpenOptions::new().append(true).open(at("empty/second")).unwrap().write_all(b"+").unwrap();
    assert_eq!((fs::read(at("two")).unwrap(), fs::metadata(at("two")).unwrap().nlink()), (b"4+".to_vec(), 2));
    symlink("empty/b/c/deep", at("link")).unwrap();
    symlink("/nowhere", at(&format!("{}n", "l".repeat(200)))).unwrap();
    fs::rename(at("link"), at("renamed")).unwrap();
    assert_eq!(fs::read(at("renamed")).unwrap(), b"3");
    fs::set_permissions(at("two"), Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(at("full"), Permissions::from_mode(0o2711)).unwrap();

    // An open file can lose its name.
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(at("gone")).unwrap();
    file.write_all(&painted(50_000)).unwrap();
    fs::remove_file(at("gone")).unwrap();
    file.write_all_at(b"late", 10).unwrap();
    file.sync_all().unwrap();
    let mut content = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut content).unwrap();
    assert!(content.len() == 50_000 && content[10..14] == *b"late" && file.metadata().unwrap().nlink() == 0);
    drop(file);

    // Extended attributes, if the file system below has them.
    let has_xattrs = setxattr(s.path("vol"), "user.probe", b"", XattrFlags::empty()).is_ok();
    if has_xattrs {
        setxattr(at("two"), "user.mime", b"text/plain", XattrFlags::CREATE).unwrap();
        setxattr(at("full"), "user.empty", b"", XattrFlags::empty()).unwrap();
        assert_eq!(setxattr(at("two"), "user.mime", b"", XattrFlags::CREATE), Err(Errno::EXIST));
    } else {
        skip("xattr");
    }
    let before = listing(&mounted.mountpoint);
    mounted = again(&s, mounted);
    assert!(listing(&mounted.mountpoint) == before);
    let at = |name: &str| mounted.path(name);
    let meta = fs::metadata(at("two")).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.nlink()), (0o640, 2));
    assert_eq!(meta.ino(), fs::metadata(at("empty/second")).unwrap().ino());
    assert_eq!(fs::metadata(at("full")).unwrap().mode() & 0o7777, 0o2711);
    assert_eq!(fs::read(at(&format!("{long}/{long}"))).unwrap(), b"5");
    if has_xattrs {
        let mut value = [0; 100];
        let len = getxattr(at("two"), "user.mime", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"text/plain");
        assert_eq!(getxattr(at("full"), "user.empty", &mut value[..]).unwrap(), 0);
        let len = listxattr(at("two"), &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"user.mime\0".as_slice());
    }
    // The stored files show no name and no content of the volume. Shorter words could appear by chance.
    for (name, (_, content)) in listing(&s.path("vol")) {
        for secret in ["second", "renamed", "nowhere", "user.mime", "text/plain"] {
            assert!(!name.contains(secret) && !content.windows(secret.len()).any(|w| w == secret.as_bytes()), "{name}");
        }
    }
    unmount(mounted);
    is_sound(&s, "vol");
}

#[test]
fn times_are_kept() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mut mounted) = mount(&s, "vol") else { return };
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    let times = FileTimes::new().set_modified(then).set_accessed(then + Duration::from_nanos(5));
    let mut file = File::create(mounted.path("written")).unwrap();
    file.write_all(&painted(100_000)).unwrap();
    // This is what cp -p does.
    file.set_times(times).unwrap();
    drop(file);
    fs::write(mounted.path("touched"), "x").unwrap();
    File::open(mounted.path("touched")).unwrap().set_times(times).unwrap();
    let mut names = vec!["written", "touched"];
    if has("cp") && has("touch") {
        assert!(s.succeeds("cp", &["-p", "mnt/written", "mnt/copied"]));
        assert!(s.succeeds("touch", &["-d", "2009-02-13 23:31:30.123456789 UTC", "mnt/new"]));
        names.extend(["copied", "new"]);
    }
    let check = |mounted: &Mounted| {
        for name in &names {
            assert_eq!(fs::metadata(mounted.path(name)).unwrap().modified().unwrap(), then, "{name}");
        }
    };
    check(&mounted);
    mounted = again(&s, mounted);
    check(&mounted);
    // These times are not set by any program.
    for i in 0..100 {
        fs::write(mounted.path(&format!("small {i}")), painted(i)).unwrap();
    }
    let shown = listing(&mounted.mountpoint);
    mounted = again(&s, mounted);
    assert!(listing(&mounted.mountpoint) == shown);
    let before = SystemTime::now();
    fs::write(mounted.path("touched"), "changed").unwrap();
    let changed = |mounted: &Mounted| fs::metadata(mounted.path("touched")).unwrap().modified().unwrap();
    let modified = changed(&mounted);
    assert!(modified + Duration::from_secs(5) > before && modified <= SystemTime::now());
    mounted = again(&s, mounted);
    assert_eq!(changed(&mounted), modified);
}

#[test]
fn programs_can_use_it_like_a_disk() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mounted) = mount(&s, "vol") else { return };
    let (here, below) = (statvfs(&mounted.mountpoint).unwrap(), statvfs(s.path("vol")).unwrap());
    assert_eq!((here.f_blocks, here.f_frsize, here.f_namemax), (below.f_blocks, below.f_frsize, 255));
    // Locks of open files exclude each other.
    let (first, second) = (File::create(mounted.path("lock")).unwrap(), File::open(mounted.path("lock")).unwrap());
    flock(&first, FlockOperation::LockExclusive).unwrap();
    assert_eq!(flock(&second, FlockOperation::NonBlockingLockShared), Err(Errno::WOULDBLOCK));
    drop(first);
    wait_for(|| flock(&second, FlockOperation::NonBlockingLockShared).is_ok());
    if !has("python3") {
        return;
    }
    // Several processes at once: appending, making one file, mapping, and locking ranges.
    let script = r#"
import fcntl, mmap, os, sys
os.chdir(sys.argv[1])
def processes(count, work):
    children = []
    for i in range(count):
        child = os.fork()
        if child == 0:
            os._exit(work(i))
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

def append(i):
    file = os.open('appended', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for line in range(300):
        os.write(file, b'%d %d\n' % (i, line))
    return 0
processes(3, append)
lines = open('appended').read().splitlines()
for i in range(3):
    assert [line for line in lines if line.startswith(f'{i} ')] == [f'{i} {line}' for line in range(300)]
assert len(lines) == 900

def make(i):
    try:
        os.open('made', os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return 1
    return 0
assert sorted(processes(8, make)) == [0] + 7 * [1]

with open('mapped', 'w+b') as file:
    file.truncate(100000)
    view = mmap.mmap(file.fileno(), 100000)
    def write(i):
        view[i * 20000:(i + 1) * 20000] = bytes([65 + i]) * 20000
        return 0
    assert processes(5, write) == 5 * [0]
    view.flush()
    assert view[19999:20001] == b'AB'
    file.seek(0)
    assert file.read() == b''.join(bytes([65 + i]) * 20000 for i in range(5))

with open('made', 'r+b') as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
    def lock(i):
        with open('made', 'r+b') as mine:
            try:
                fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 10 * i)
            except OSError:
                return 1
        return 0
    assert processes(3, lock) == [1, 0, 0]
"#;
    let ended = Command::new("python3").args(["-c", script]).arg(&mounted.mountpoint).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let mapped = || (0..5).flat_map(|i| [b'A' + i; 20_000]).collect::<Vec<u8>>();
    drop(second);
    let mounted = again(&s, mounted);
    assert!(fs::read(mounted.path("mapped")).unwrap() == mapped());
    assert_eq!(fs::read(mounted.path("appended")).unwrap().iter().filter(|byte| **byte == b'\n').count(), 900);
    unmount(mounted);
    is_sound(&s, "vol");
}

/// The written bytes are in the kernel's cache, and no program has synced them.
#[test]
fn a_file_that_is_being_written_is_copied_completely() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mounted) = mount(&s, "vol") else { return };
    let mut log = File::create(mounted.path("log")).unwrap();
    log.write_all(&[65; 200_000]).unwrap();
    let holed = File::create(mounted.path("holed")).unwrap();
    holed.set_len(8 << 20).and_then(|()| holed.sync_all()).unwrap();
    holed.write_all_at(&[66; 1 << 20], 2 << 20).unwrap();
    for name in ["log", "holed"] {
        assert_eq!(seek(File::open(mounted.path(name)).unwrap(), Seek::Data(0)), Ok(0), "{name}");
        if has("cp") {
            let (from, to) = (format!("mnt/{name}"), format!("mnt/{name}.copy"));
            assert!(s.succeeds("cp", &[&from, &to]));
            assert!(fs::read(s.path(&to)).unwrap() == fs::read(s.path(&from)).unwrap(), "{name}");
        }
    }
    assert!(fs::read(s.path("mnt/log")).unwrap() == [65; 200_000]);
    drop((log, holed));
    unmount(mounted);
    // A mount for reading only reports holes too.
    let Some(mounted) = Mounted::start(&s, &["vol", "mnt", "--key-file", "key", "--read-only"]) else { return };
    let file = File::open(mounted.path("holed")).unwrap();
    assert_eq!(seek(&file, Seek::Data(8192)), Ok(2 << 20));
    assert_eq!(seek(&file, Seek::Hole(2 << 20)), Ok(3 << 20));
}

#[test]
fn a_folder_can_be_read_again_from_its_beginning() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mounted) = mount(&s, "vol") else { return };
    let mut folder = Dir::read_from(File::open(&mounted.mountpoint).unwrap()).unwrap();
    let names = |folder: &mut Dir| folder.map(|entry| entry.unwrap().file_name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&mut folder).len(), 2);
    fs::write(mounted.path("new"), "").unwrap();
    folder.rewind();
    assert_eq!(names(&mut folder).len(), 3);
    let mut unread = Dir::read_from(File::open(&mounted.mountpoint).unwrap()).unwrap();
    fs::write(mounted.path("newer"), "").unwrap();
    unread.rewind();
    assert_eq!(names(&mut unread).len(), 4);
}

#[test]
fn reading_changes_no_times() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mounted) = mount(&s, "vol") else { return };
    let path = mounted.path("f");
    fs::write(&path, painted(10_000)).unwrap();
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let times = fs::FileTimes::new().set_accessed(old).set_modified(old);
    editable(&path).set_times(times).unwrap();
    let accessed = || fs::metadata(&path).unwrap().accessed().unwrap();
    drop(editable(&path));
    assert!(fs::read(&path).unwrap() == painted(10_000));
    assert_eq!(accessed(), old);
    let mounted = again(&s, mounted);
    assert!(fs::read(mounted.path("f")).unwrap() == painted(10_000));
    assert_eq!(fs::metadata(mounted.path("f")).unwrap().accessed().unwrap(), old);
}

#[test]
fn changing_a_file_clears_its_set_ids() {
    if !geteuid().is_root() {
        return skip("root");
    }
    if !has("setpriv") {
        return skip("setpriv");
    }
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mounted) = Mounted::start(&s, &["vol", "mnt", "--key-file", "key", "-o", "allow_other"]) else { return };
    fs::set_permissions(&mounted.mountpoint, Permissions::from_mode(0o755)).unwrap();
    // A plain request returns the mode that the kernel has cached.
    let mode = || {
        let state = statx(CWD, mounted.path("f"), AtFlags::empty(), StatxFlags::MODE).unwrap();
        u32::from(state.stx_mode) & 0o7777
    };
    let run = |user: &[&str], line: &str| {
        let mut command = Command::new("setpriv");
        command.args(user).args(["sh", "-c", line]).current_dir(&mounted.mountpoint);
        assert!(command.status().unwrap().success(), "{line}");
    };
    let changes = [
        "printf x >> f",
        "printf x > f",
        "truncate -s 9000 f",
        "dd if=/dev/zero of=f bs=4096 count=1 conv=notrunc oflag=direct status=none",
        "fallocate -p -o 0 -l 4096 f",
    ];
    for mode_before in [0o6777, 0o6767] {
        for line in ["cat f > /dev/null"].into_iter().chain(changes) {
            let again = || {
                let _ = fs::remove_file(mounted.path("f"));
                fs::write(mounted.path("f"), painted(9000)).unwrap();
                editable(&mounted.path("f")).sync_all().unwrap();
                fs::set_permissions(mounted.path("f"), Permissions::from_mode(mode_before)).unwrap();
                // From here on the kernel knows the mode.
                assert_eq!(mode(), mode_before);
            };
            again();
            run(&[], line);
            assert_eq!(mode(), mode_before, "the superuser: {line}");
            if !line.starts_with("cat") && !line.starts_with("fallocate") {
                again();
                run(&["--bounding-set=-fsetid", "--inh-caps=-fsetid"], line);
                // The file has this group. Without the group's right to execute, the set-group-ID bit has another
                // meaning.
                let left = if mode_before & 0o010 == 0 { mode_before & 0o2777 } else { mode_before & 0o777 };
                assert_eq!(mode(), left, "the superuser without this right: {line}");
            }
            again();
            run(&["--reuid=65534", "--regid=65534", "--clear-groups"], line);
            let left = if line.starts_with("cat") { mode_before } else { mode_before & 0o777 };
            assert_eq!(mode(), left, "somebody else: {line}");
        }
    }
    unmount(mounted);
}

#[test]
fn the_time_of_a_change_lasts_if_the_kernel_passes_it_on_by_itself() {
    if !geteuid().is_root() {
        return skip("root");
    }
    if !has("setpriv") {
        return skip("setpriv");
    }
    let for_all = Mode::ROTH | Mode::WOTH;
    if !rustix::fs::stat("/dev/fuse").is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode).contains(for_all)) {
        return skip("user-fuse");
    }
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let program = s.copy_of_the_program();
    fs::create_dir(s.path("mnt")).unwrap();
    let stored = fs::read_dir(s.path("vol")).unwrap().map(|entry| entry.unwrap().path());
    for path in ["", "vol", "mnt", "key"].map(|name| s.path(name)).into_iter().chain(stored) {
        chown(path, Some(65534), Some(65534)).unwrap();
    }
    let by_user = |program: &str, args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).args(args);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", s.path(""));
        command.current_dir(s.path(""));
        command
    };
    let mount =
        || Mounted::start_by(&s, by_user(program.to_str().unwrap(), &["mount", "vol", "mnt", "--key-file", "key"]));
    let Some(mounted) = mount() else { return };
    // The kernel syncs in a thread of its own, which is root's.
    let line = "exec >>mnt/f; touch -d @1000000000 mnt/f; printf x; sync -f mnt/f";
    assert!(by_user("sh", &["-ec", line]).status().unwrap().success());
    unmount(mounted);
    let mounted = mount().unwrap();
    let modified = by_user("stat", &["-c", "%Y", "mnt/f"]).output().unwrap();
    let seconds: u64 = String::from_utf8(modified.stdout).unwrap().trim().parse().unwrap();
    assert!(seconds > 1_000_000_000, "{seconds}");
    unmount(mounted);
}
