//! The disk below a volume becomes full during random work. Synced data stays, and refused writes are reported.

use super::kills::{rounds, seed};
use super::workload::{Random, Stop, Worker};
use super::{init, init_as, is_sound, mount, unmount};
use crate::common::{Mounted as Disk, Sandbox, has, skip, wait_for};
use crate::mount::{Mounted, is_fuse_here};
use rustix::fs::statvfs;
use rustix::io::Errno;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

/// A small file system on the folder disk. If this system does not allow mounts, prints a line and returns `None`.
pub fn disk(s: &Sandbox, kind: &str, mib: u64) -> Option<Disk> {
    fs::create_dir(s.path("disk")).unwrap();
    let mounted = match kind {
        "tmpfs" => {
            has("mount") && s.succeeds("mount", &["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs", "disk"])
        }
        _ => {
            if !["mount", "mkfs.ext4"].into_iter().all(has) {
                return None;
            }
            File::create(s.path("image")).unwrap().set_len(mib << 20).unwrap();
            assert!(s.succeeds("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", "image"]));
            s.succeeds("mount", &["-o", "loop", "image", "disk"])
        }
    };
    if !mounted {
        skip(kind);
        return None;
    }
    Some(Disk(s.path("disk")))
}

#[test]
fn a_full_disk_loses_nothing_that_was_synced() {
    // The journal reserves 40 MiB if there is enough space.
    fill_disks(&[("tmpfs", 16), ("tmpfs", 60), ("ext4", 80)], false);
}

#[test]
fn a_full_disk_loses_nothing_that_was_synced_with_rollback_protection() {
    fill_disks(&[("tmpfs", 16), ("ext4", 80)], true);
}

fn fill_disks(disks: &[(&str, u64)], is_protected: bool) {
    if !is_fuse_here() {
        return;
    }
    let seed = seed();
    println!("PHALANX_SEED={seed}");
    let rounds = rounds(1, 1);
    for (number, &(kind, mib)) in disks.iter().enumerate() {
        let s = Sandbox::new();
        let Some(_disk) = disk(&s, kind, mib) else { continue };
        let refused = fill(&s, seed + number as u64, rounds, is_protected);
        println!("{kind} of {mib} MiB: {refused} operations refused");
    }
}

/// ext4 becomes read-only when it finds an error, and a test can simulate one through a file of the kernel.
#[test]
fn a_file_system_that_becomes_read_only_is_reported_as_such() {
    let s = Sandbox::new();
    if !is_fuse_here() {
        return;
    }
    let Some(_disk) = disk(&s, "ext4", 80) else { return };
    assert!(s.succeeds("mount", &["-o", "remount,errors=remount-ro", "disk"]));
    init(&s, "disk/vol", "4K");
    let Some(mut mounted) = mount(&s, "disk/vol") else { return };
    fs::write(mounted.path("f"), "before").unwrap();
    File::open(mounted.path("f")).unwrap().sync_all().unwrap();
    let list = fs::read_to_string("/proc/self/mounts").unwrap();
    let folder = s.path("disk").canonicalize().unwrap();
    let line = list.lines().find(|line| line.split(' ').nth(1) == folder.to_str()).unwrap();
    let device = line.split(' ').next().unwrap().trim_start_matches("/dev/");
    if fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1").is_err() {
        return skip("ext4-errors");
    }
    let refused = |done: io::Result<()>| assert_eq!(done.unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
    let for_writing = || File::options().write(true).open(mounted.path("f"));
    // The kernel reports the end of the last open file to the mount some time after `close` has returned. Until then
    // the file in the folder is still open for writing.
    wait_for(|| for_writing().is_err());
    refused(for_writing().map(drop));
    refused(File::options().write(true).truncate(true).open(mounted.path("f")).map(drop));
    refused(fs::write(mounted.path("new"), "x"));
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"before");
    mounted.unmount();
    mounted.ended();
    let line = s.run(&["mount", "--key-file", "key", "disk/vol", "mnt"]).fails(4);
    assert!(line.contains("\nhint: --read-only mounts it for reading"), "{line}");
}

/// The journal still names the removed file, but must not keep its space in use.
#[test]
fn the_space_of_a_file_is_free_when_it_is_removed() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mounted) = mount(&s, "vol") else { return };
    let pid = mounted.child.as_ref().unwrap().id();
    let removed_ones = || {
        let links =
            fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
        links.filter(|target| target.to_string_lossy().ends_with(" (deleted)")).count()
    };
    let took = |is_synced| {
        let mut file = File::create(mounted.path("f")).unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        if is_synced {
            file.sync_all().unwrap();
        }
        file.write_all(&[2; 100_000]).unwrap();
        fs::remove_file(mounted.path("f")).unwrap();
        wait_for(|| removed_ones() > 0);
        let closed = Instant::now();
        drop(file);
        wait_for(|| removed_ones() == 0);
        closed.elapsed()
    };
    for is_synced in [true, false] {
        // An idle mount trims its journal after 5 seconds anyway. At least one of three attempts must be quicker: the
        // machine may pause during the others.
        assert!((0..3).any(|_| took(is_synced) < Duration::from_secs(4)), "it waits until the mount is idle");
    }
    unmount(mounted);
    is_sound(&s, "vol");
}

/// The journal takes no space that other data need.
#[test]
fn a_disk_that_is_nearly_full_keeps_its_space() {
    if !is_fuse_here() {
        return;
    }
    let s = Sandbox::new();
    let Some(_disk) = disk(&s, "ext4", 45) else { return };
    init(&s, "disk/vol", "4K");
    let free = || statvfs(s.path("disk")).unwrap().f_bavail;
    let before = free();
    let Some(mounted) = mount(&s, "disk/vol") else { return };
    assert!(free() > before - 1000, "{} {before}", free());
    fs::write(mounted.path("a"), "hi").unwrap();
    unmount(mounted);
    is_sound(&s, "disk/vol");
}

/// The journal has no reserved space on a small disk, and is trimmed when the disk is full.
#[test]
fn changes_continue_on_a_small_disk() {
    if !is_fuse_here() {
        return;
    }
    let s = Sandbox::new();
    let Some(_disk) = disk(&s, "tmpfs", 16) else { return };
    init(&s, "disk/vol", "4K");
    let Some(mounted) = mount(&s, "disk/vol") else { return };
    let file = File::create(mounted.path("f")).unwrap();
    for i in 0..24 {
        file.write_all_at(&vec![i; 1 << 20], 0).and_then(|()| file.sync_all()).unwrap_or_else(|e| panic!("{i}: {e}"));
    }
    assert!(fs::read(mounted.path("f")).unwrap() == vec![23; 1 << 20]);
    drop(file);
    unmount(mounted);
    is_sound(&s, "disk/vol");
}

/// A program takes for written what the kernel's cache has, which may need more holes than a file can have.
#[test]
fn cached_data_that_is_refused_is_reported() {
    if !is_fuse_here() {
        return;
    }
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mut mounted) = mount(&s, "vol") else { return };
    let path = mounted.path("f");
    let file = File::create(&path).unwrap();
    for piece in 0..300 {
        file.write_all_at(b"x", piece << 30).unwrap();
    }
    // A program that ignores errors.
    drop(file);
    wait_for(|| mounted.log().contains(" was dropped: "));
    let file = File::options().append(true).open(&path).unwrap();
    file.sync_all().unwrap_err();
    // The kernel reports it, and the mount.
    assert!((0..2).any(|_| file.sync_all().is_ok()));
    drop(file);
    mounted.unmount();
    assert!(mounted.ended().success() && mounted.log().lines().count() < 10, "{}", mounted.log());
    is_sound(&s, "vol");
}

/// A new process inherits all descriptors for a moment, and closing them also stores what is in memory. No program
/// receives the errors of that close, so the next sync must report them to each writer.
#[test]
fn lost_writes_are_reported_by_the_next_sync() {
    if !is_fuse_here() {
        return;
    }
    let s = Sandbox::new();
    let Some(_disk) = disk(&s, "tmpfs", 16) else { return };
    init(&s, "disk/vol", "4K");
    let Some(mut mounted) = mount(&s, "disk/vol") else { return };
    let path = mounted.path("f");
    let files: Vec<File> = (0..2)
        .map(|_| File::options().create(true).truncate(false).read(true).write(true).open(&path).unwrap())
        .collect();
    files[0].write_all_at(&[1; 1941], 0).and_then(|()| files[0].sync_all()).unwrap();
    fill_up(&mounted, 0);
    files[0].write_all_at(&[2; 90_000], 1941).unwrap();
    // The kernel passes on its cached data when the file is opened. The mount stores them a little later.
    let late = File::open(&path).unwrap();
    wait_for(|| mounted.log().contains("were dropped"));
    let heirs = std::process::Command::new("true").status();
    assert!(heirs.unwrap().success());
    for file in &files {
        let error = file.sync_all().unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC));
        file.sync_all().unwrap();
    }
    drop((files, late));
    // When all writers have got the error, it is not reported to a file that is opened after that.
    let mut file = File::options().append(true).open(&path).unwrap();
    file.sync_all().unwrap();

    // The file is closed by a process that ignores errors, and opened again.
    let reported = mounted.log().lines().count();
    file.write_all(&[3; 2_000_000]).unwrap();
    drop(file);
    wait_for(|| mounted.log().lines().count() > reported);
    fs::remove_file(mounted.path("filler")).unwrap();
    wait_for(|| statvfs(&mounted.mountpoint).unwrap().f_bavail > 2000);
    // The file can be truncated and written again, because this does not need the lost data.
    fs::write(&path, "hello").unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap_err();
    file.sync_all().unwrap();
    drop(file);
    mounted.unmount();
    let log = mounted.log();
    assert!(mounted.ended().success() && log.lines().all(|line| line.contains("were dropped: ")), "{log}");
    is_sound(&s, "disk/vol");
    let Some(mounted) = mount(&s, "disk/vol") else { return };
    assert_eq!(fs::read_to_string(mounted.path("f")).unwrap(), "hello");
}

fn fill(s: &Sandbox, seed: u64, rounds: u64, is_protected: bool) -> u64 {
    init_as(s, "disk/vol", "4K", is_protected);
    let mut random = Random::new(seed ^ 0xf011);
    let mut workers: Vec<_> = (0..2).map(|i| Worker::new(&s.path(&format!("mnt/{i}")), seed * 3 + i)).collect();
    for worker in &mut workers {
        (worker.full, worker.only_synced) = (Some(0), true);
    }
    for round in 0..rounds {
        let Some(mut mounted) = mount(s, "disk/vol") else { return 0 };
        let at = format!("PHALANX_SEED={seed}, round {round}");
        if round == 0 {
            workers.iter().for_each(|worker| fs::create_dir(&worker.root).unwrap());
        }
        for worker in &mut workers {
            worker.check().unwrap_or_else(|why| panic!("{at}: {}: {why}\n{}", worker.root.display(), mounted.log()));
        }
        fill_up(&mounted, random.below(1 << 20));
        let kills = random.below(2) == 0;
        let is_killed = kills && random.below(2) == 0;
        let until: Vec<_> = workers.iter().map(|worker| worker.full.unwrap() + 3 + random.below(20)).collect();
        let steps = 500 + random.below(500);
        thread::scope(|scope| {
            let working = workers.iter_mut().zip(&until).map(|(worker, until)| {
                let steps = worker.steps + steps;
                scope.spawn(move || worker.work(|worker| worker.full >= Some(*until) || worker.steps > steps))
            });
            let working: Vec<_> = working.collect();
            if is_killed {
                thread::sleep(Duration::from_millis(random.below(200)));
                mounted.signal(Signal::KILL);
            }
            for worker in working {
                let ended = worker.join().unwrap();
                assert!(matches!(ended, Ok(()) | Err(Stop::Gone)), "{at}: {ended:?}\n{}", mounted.log());
            }
        });
        // A process that was killed may still answer for a moment.
        if !is_killed && is_there(&mounted) {
            // When there is space again, the work continues.
            fs::remove_file(mounted.path("filler")).unwrap();
            workers.iter_mut().for_each(|worker| worker.remove_half().unwrap());
            let again = || {
                let mut file = File::create(mounted.path("after"))?;
                file.write_all(&[7; 10_000]).and_then(|()| file.sync_all())
            };
            // The kernel reports the end of a file some milliseconds later.
            wait_for(|| again().is_ok());
            assert!(fs::read(mounted.path("after")).unwrap() == [7; 10_000]);
            fs::remove_file(mounted.path("after")).unwrap();
            if random.below(2) == 0 {
                fill_up(&mounted, 0);
            }
        }
        let is_there = !is_killed && is_there(&mounted);
        if kills && is_there {
            mounted.signal(Signal::KILL);
        }
        let log = mounted.log();
        assert!(log.lines().all(|line| line.contains("were dropped: ")), "{at}: {log}");
        if is_there && !kills {
            workers.iter_mut().for_each(Worker::close_all);
            mounted.unmount();
            assert_eq!(mounted.ended().code(), Some(0), "{at}: {}", mounted.log());
            is_sound(s, "disk/vol");
        } else {
            workers.iter_mut().for_each(Worker::close_all);
            mounted.ended();
        }
    }
    let Some(mounted) = mount(s, "disk/vol") else { return 0 };
    workers.iter_mut().for_each(|worker| worker.check().unwrap());
    unmount(mounted);
    is_sound(s, "disk/vol");
    workers.iter().map(|worker| worker.full.unwrap()).sum()
}

fn is_there(mounted: &Mounted) -> bool {
    rustix::fs::statfs(&mounted.mountpoint).is_ok()
}

/// Writes the file filler until nothing more fits, and then makes it a little shorter.
fn fill_up(mounted: &Mounted, left: u64) {
    let is_full = |e: &io::Error| Errno::from_io_error(e) == Some(Errno::NOSPC);
    // The kernel reports the end of a removed file some milliseconds later.
    let mut created = None;
    wait_for(|| match File::create(mounted.path("filler")) {
        Ok(file) => created.insert(file).metadata().is_ok(),
        Err(e) if is_full(&e) => false,
        Err(e) => panic!("{e}"),
    });
    let mut file = created.unwrap();
    let mut stored = 4 << 10;
    // The space of an earlier filler comes back as late.
    wait_for(|| match file.write_all(&vec![0; stored as usize]).and_then(|()| file.sync_data()) {
        Ok(()) => true,
        Err(e) if is_full(&e) => {
            let _ = file.set_len(0).and_then(|()| file.rewind());
            false
        }
        Err(e) => panic!("{e}"),
    });
    for len in [1 << 20, 64 << 10, 4 << 10] {
        // Refused data are written again.
        file.set_len(stored).unwrap_or_else(|e| assert!(is_full(&e), "{e}"));
        file = File::options().append(true).open(mounted.path("filler")).unwrap();
        loop {
            match file.write_all(&vec![stored as u8; len]).and_then(|()| file.sync_data()) {
                Ok(()) => stored += len as u64,
                Err(e) if is_full(&e) => break,
                Err(e) => panic!("{e}"),
            }
        }
    }
    if left > 0 {
        file.set_len(stored.saturating_sub(left)).unwrap_or_else(|e| assert!(is_full(&e), "{e}"));
        let _ = file.sync_all();
    }
}
