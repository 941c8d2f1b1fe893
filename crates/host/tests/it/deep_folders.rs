//! Folders that lie deep within each other. Where time or memory grew with the square of their depth, these tests would take
//! minutes.

use phalanx_core::tree::{Digest, Entry, Head, Kind, MAX_DEPTH, Manifest, ManifestWriter, Time, TreeId};
use phalanx_host::mirror::deletion::Deletion;
use phalanx_host::mirror::excludes::Excludes;
use phalanx_host::mirror::listing::{Listing, NodeId, State};
use phalanx_host::mirror::scan::{OldManifest, Plan, Scan};
use phalanx_host::mirror::stray::Stray;
use phalanx_host::mirror::there::There;
use phalanx_host::transfer::tally::Tally;
use phalanx_system::fs::{FileType, Mode, OFlags, mkdirat, openat};
use phalanx_system::os::fs::symlink;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A source, its mirror, and a path for messages.
struct Disk {
    folder: tempfile::TempDir,
    tally: Tally,
}

impl Disk {
    fn new() -> Self {
        // In memory, if there is such a file system: disks take long for so many folders.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let disk = Self { folder, tally: Tally::keeping() };
        ["source", "m"].iter().for_each(|name| fs::create_dir(disk.path(name)).unwrap());
        disk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn root(&self, name: &str) -> File {
        File::open(self.path(name)).unwrap()
    }

    /// Makes this many folders within each other, and calls `in_each` with each.
    fn nest(&self, root: &str, name: &str, depth: usize, in_each: impl Fn(&File)) {
        let mut folder = self.root(root);
        for _ in 0..depth {
            mkdirat(&folder, name, Mode::RWXU).unwrap();
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            folder = openat(&folder, name, flags, Mode::empty()).unwrap().into();
            in_each(&folder);
        }
    }

    /// Deletes a folder as a stray, which needs no path of it.
    fn delete(&self, root: &str, name: &str) -> u64 {
        let mirror = &self.root(root);
        let takes =
            |path: &Path, kind| kind != FileType::RegularFile || path.extension().is_some_and(|end| end == "phx");
        let stray = Stray::find(Some(mirror), &There::folder(None).unwrap(), name.into(), &takes).unwrap();
        let mut deleted = 0;
        let deletion = Deletion { mirror, backup: None, sync: false };
        stray.delete(&deletion, &mut |_, is_folder| deleted += u64::from(!is_folder)).unwrap();
        assert_eq!(deleted, stray.count());
        deleted
    }

    fn scan(&self, old: Option<OldManifest<'_>>) -> Plan {
        let excludes = Excludes::none();
        let source_path = self.path("source");
        let scan = Scan {
            source: self.root("source"),
            source_path: &source_path,
            mirror: There::folder(Some(self.root("m"))).unwrap(),
            excludes: &excludes,
            delete_excluded: false,
            owners: false,
            checksum: false,
            all: false,
            tally: &self.tally,
            written_before: &|_, _| None,
            rewritten: None,
            progress: &(),
        };
        scan.run(old).unwrap().0
    }
}

/// A manifest that lists folders within each other.
fn listed(name: &str, depth: usize) -> Vec<u8> {
    let (tree, previous) = (TreeId([1; 16]), Digest([0; 32]));
    let head = Head { tree, generation: 1, written: 0, previous, rules: String::new() };
    let modified = Time { seconds: 0, nanoseconds: 0 };
    let mut writer = ManifestWriter::new(Vec::new(), &head).unwrap();
    for number in 0..=depth {
        let name = if number == 0 { Vec::new() } else { name.into() };
        writer.entry(&Entry { name, mode: 0o700, modified, kind: Kind::Folder }).unwrap();
    }
    (0..=depth).for_each(|_| writer.end_folder().unwrap());
    writer.into_output()
}

fn open(manifest: &[u8]) -> OldManifest<'_> {
    let boxed: Box<dyn io::Read + '_> = Box::new(manifest);
    Manifest::open(boxed).unwrap().1
}

fn states(plan: &Plan) -> Vec<State> {
    plan.listing.all().skip(1).map(|id| plan.listing.state(id)).collect()
}

#[test]
fn what_a_manifest_cannot_list_is_left_out_alone() {
    let disk = Disk::new();
    disk.nest("source", "d", MAX_DEPTH + 3, |_| ());
    fs::write(disk.path("source/file"), "content").unwrap();
    let plan = disk.scan(None);
    // The root, the folders, and the file.
    assert_eq!(plan.listing.all().count(), MAX_DEPTH + 1);
    let head =
        Head { tree: TreeId([1; 16]), generation: 1, written: 0, previous: Digest([0; 32]), rules: String::new() };
    let mut listing = plan.listing;
    let folders: Vec<_> = listing.all().filter(|id| listing.is_folder(*id)).collect();
    folders.into_iter().for_each(|id| listing.set_state(id, State::Unchanged));
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut listing.manifest(&head).unwrap(), &mut bytes).unwrap();
    Listing::read(open(&bytes)).unwrap();
    let failures = disk.tally.take().failures;
    assert_eq!(failures.len(), 1);
    let deepest = failures[0].path().unwrap().strip_prefix(disk.path("source")).unwrap();
    assert_eq!(deepest.iter().count(), MAX_DEPTH);
    assert!(failures[0].line().unwrap().ends_with("too many folders lie within each other: left out"));
    disk.delete("source", "d");
}

#[test]
fn deep_folders_that_are_gone_are_found_and_deleted() {
    const DEPTH: usize = 10_000;
    let disk = Disk::new();
    disk.nest("m", "d", DEPTH, |_| ());
    let manifest = listed("d", DEPTH);
    let plan = disk.scan(Some(open(&manifest)));
    assert_eq!(states(&plan), [State::Gone; DEPTH]);
    let mirror = disk.root("m");
    let deletion = Deletion { mirror: &mirror, backup: None, sync: false };
    let mut listing = plan.listing;
    let mut deleted = 0;
    let all = listing.all().collect::<Vec<_>>();
    deletion.gone(&mut listing, &mut all.into_iter(), |_, _| deleted += 1, |path, e| panic!("{path:?}: {e}"));
    assert_eq!(deleted, DEPTH);
    assert!(!disk.path("m/d").exists());
}

#[test]
fn folders_that_the_mirror_has_lost_are_not_listed_with_all_in_them() {
    let disk = Disk::new();
    let manifest = listed("d", 6);
    for there in [0, 3] {
        for at_source in [0, 2, 4] {
            disk.nest("m", "d", there, |_| ());
            disk.nest("source", "d", at_source, |_| ());
            let plan = disk.scan(Some(open(&manifest)));
            let expected = (1..=6).map(|level| match (level <= at_source, level <= there) {
                (true, false) => State::New,
                (true, true) => State::Metadata,
                (false, true) => State::Gone,
                (false, false) => State::Dropped,
            });
            assert_eq!(states(&plan), expected.collect::<Vec<_>>(), "{there} there, {at_source} at the source");
            ["m", "source"].iter().for_each(|root| assert_eq!(disk.delete(root, "d"), 0));
        }
    }
}

/// What cannot be looked at is not gone.
#[test]
fn what_lies_in_the_place_of_a_folder_does_not_make_it_lost() {
    let disk = Disk::new();
    disk.nest("m", "d", 2, |_| ());
    fs::write(disk.path("m/d/d/d"), "in the way").unwrap();
    let manifest = listed("d", 4);
    assert_eq!(states(&disk.scan(Some(open(&manifest)))), [State::Gone; 4]);
}

#[test]
fn gone_entries_in_folders_all_over_the_tree_are_deleted() {
    let disk = Disk::new();
    let (mut listing, modified) = (Listing::default(), Time { seconds: 0, nanoseconds: 0 });
    let folder = |name: &str| Entry { name: name.into(), mode: 0o700, modified, kind: Kind::Folder };
    let link = |name: &str| Entry { name: name.into(), mode: 0o777, modified, kind: Kind::Link("to".into()) };
    listing.push(&folder(""), State::Unchanged);
    for a in ["a", "b"] {
        listing.push(&folder(a), State::Unchanged);
        for (b, state) in [("c", State::Gone), ("d", State::Unchanged), ("e", State::Gone)] {
            listing.push(&folder(b), state);
            listing.push(&link("x"), State::Gone);
            listing.push(&link("y"), state);
            let path = disk.path("m").join(a).join(b);
            fs::create_dir_all(&path).unwrap();
            ["x", "y"].iter().for_each(|name| symlink("to", path.join(name)).unwrap());
            listing.end_folder();
        }
        listing.end_folder();
    }
    // A folder that is not there any more, with all in it.
    fs::remove_dir_all(disk.path("m/b/c")).unwrap();
    listing.push(&link("z"), State::Gone);
    listing.end_folder();
    let all: Vec<NodeId> = listing.all().collect();
    let mirror = disk.root("m");
    let deletion = Deletion { mirror: &mirror, backup: None, sync: false };
    deletion.gone(&mut listing, &mut all.into_iter(), |_, _| (), |path, e| panic!("{path:?}: {e}"));
    assert!(listing.all().all(|id| listing.state(id) != State::Gone));
    let left = |folder: &str| {
        let found = fs::read_dir(disk.path("m").join(folder)).unwrap();
        found.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    for (folder, expected) in [("a", "d"), ("b", "d"), ("a/d", "y"), ("b/d", "y")] {
        assert_eq!(left(folder), [expected]);
    }
}

/// The most memory that this process has used, in KiB.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn deep_strays_with_long_names_are_deleted_in_little_memory() {
    let disk = Disk::new();
    let name = "n".repeat(255);
    disk.nest("m", &name, 3000, |folder| {
        openat(folder, "f.phx", OFlags::WRONLY | OFlags::CREATE, Mode::RUSR).map(drop).unwrap();
    });
    let before = peak();
    // All paths of these folders together have more than a gigabyte.
    assert_eq!(disk.delete("m", &name), 3000);
    let more = peak() - before;
    assert!(more < 300 << 10, "{more} KiB");
    assert_eq!(fs::read_dir(disk.path("m")).unwrap().count(), 0);
}
