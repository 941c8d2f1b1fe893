//! Authentic data in the wrong place: exchanged, moved, removed, or restored to an earlier state.

use super::{CHUNK, HEADER, Lab, RECORD, Seen, check_found, lost, make, painted, path};
use crate::mounted::{Mounted, Unsynced};
use crate::vectors::model::Want;
use phalanx_volume::tree::RenameMode;
use phalanx_volume::{Backing, Disk, JOURNAL};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// Checks that a change was not found: the content is what `want` says, and nothing is reported. `docs/volumes.md`
/// lists the change in these `words`.
fn check_not_found(lab: &Lab, want: &Seen, words: &str) {
    assert!(super::NOT_FOUND.contains(&words), "{words}");
    let (after, told) = lab.look();
    assert!(after == *want, "{words}: {after:?}, not {want:?}");
    assert!(told.is_empty(), "{words}: {told:?}");
}

fn content(bytes: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
    let chunks: Vec<_> = bytes.chunks(CHUNK).map(|chunk| Some(chunk.to_vec())).collect();
    Some(if chunks.is_empty() { vec![Some(Vec::new())] } else { chunks })
}

/// The content of a volume with other bytes in one file, which has no attributes.
fn with(seen: &Seen, place: &str, bytes: &[u8]) -> Seen {
    let mut seen = seen.clone();
    let xattrs = Default::default();
    assert!(seen.insert(place.into(), Want::File { content: content(bytes), xattrs }).is_some());
    seen
}

fn open(mounted: &Mounted, names: &[&[u8]]) -> Arc<Backing> {
    let number = names.iter().fold(1, |parent, name| mounted.tree.lookup(parent, name).unwrap().number);
    mounted.store.open_file(mounted.tree.open_file(number, true).unwrap()).unwrap()
}

/// Changes a file through the mount.
fn change(lab: &Lab, name: &[u8], change: impl FnOnce(&Backing)) {
    let mounted = lab.mount();
    change(&open(&mounted, &[name]));
    mounted.store.close().unwrap();
}

fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

#[test]
fn files_that_are_exchanged_or_copied_over_others_are_not_found() {
    let lab = Lab::new();
    let before = lab.look().0;
    let files: [&[&[u8]]; 4] = [&[b"three"], &[b"sparse"], &[b"folder", b"inner"], &[b"folder", b"one"]];
    for one in files {
        for other in files.into_iter().filter(|other| *other != one) {
            let (a, b) = (lab.stored(one), lab.stored(other));
            exchange(&a, &b);
            let mut want = before.clone();
            want.insert(path(one), before[&path(other)].clone());
            want.insert(path(other), before[&path(one)].clone());
            check_not_found(&lab, &want, "Exchanged files.");
            exchange(&a, &b);

            let whole = fs::read(&b).unwrap();
            fs::copy(&a, &b).unwrap();
            want.insert(path(one), before[&path(one)].clone());
            check_not_found(&lab, &want, "Exchanged files.");
            fs::write(&b, whole).unwrap();
        }
    }
    // Attributes are bound to their file. If another file is copied over one with an attribute, the new content shows,
    // and the attribute is reported and left out.
    let (one, three) = (lab.stored(&[b"one"]), lab.stored(&[b"three"]));
    fs::copy(three, one).unwrap();
    let (after, told) = lab.look();
    let Want::File { content, .. } = &before[&path(&[b"three"])] else { panic!("a file") };
    assert!(after[&path(&[b"one"])] == Want::File { content: content.clone(), xattrs: Default::default() });
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn chunks_and_headers_of_other_places_are_found() {
    let lab = Lab::new();
    let before = lab.look().0;
    let (three, long) = (lab.stored(&[b"three"]), lab.stored(&[&[b'n'; 200]]));
    let (bytes, other) = (fs::read(&three).unwrap(), fs::read(&long).unwrap());
    let record = |bytes: &[u8], index: usize| {
        let start = HEADER + index * RECORD;
        bytes[start..bytes.len().min(start + RECORD)].to_vec()
    };
    let put = |start: usize, part: &[u8], what: &str| {
        let mut altered = bytes.clone();
        altered.resize(altered.len().max(start + part.len()), 0);
        altered[start..start + part.len()].copy_from_slice(part);
        fs::write(&three, altered).unwrap();
        check_found(&lab, &before, &[&path(&[b"three"])], what);
    };
    put(HEADER, &record(&bytes, 1), "chunk 1 in the place of 0");
    put(HEADER + RECORD, &record(&bytes, 0), "chunk 0 in the place of 1");
    put(HEADER + RECORD, &record(&bytes, 2), "the last chunk in the place of 1");
    put(HEADER, &record(&other, 0), "chunk 0 of another file");
    put(bytes.len(), &record(&bytes, 2), "the last chunk once more behind it");
    put(0, &other[..HEADER], "the header of another file");
    fs::write(&three, &bytes).unwrap();
    for name in ["phalanx.volume", "phalanx.folder"] {
        fs::copy(lab.path().join(name), &three).unwrap();
        check_found(&lab, &before, &[&path(&[b"three"])], name);
    }
    fs::write(&three, bytes).unwrap();
    assert!(lab.look() == (before, Vec::new()));
}

#[test]
fn moved_or_renamed_entries_show_nowhere_else() {
    let lab = Lab::new();
    let before = lab.look().0;
    let folder = lab.stored(&[b"folder"]);
    let other = lab.stored(&[b"other"]);
    for names in [&[b"three" as &[u8]][..], &[b"link"], &[b"other"], &[&[b'n'; 200]]] {
        let stored = lab.stored(names);
        let to = folder.join(stored.file_name().unwrap());
        fs::rename(&stored, &to).unwrap();
        check_found(&lab, &before, &[&path(names)], "moved to another folder");
        fs::rename(&to, &stored).unwrap();
    }
    // The same name is stored differently in two folders.
    let (here, there) = (lab.stored(&[b"link"]), lab.stored(&[b"folder", b"link"]));
    exchange(&here, &there);
    check_found(&lab, &before, &[&path(&[b"link"]), &path(&[b"folder", b"link"])], "links exchanged");
    exchange(&here, &there);
    exchange(&folder, &other);
    check_found(&lab, &before, &[&path(&[b"folder"]), &path(&[b"other"])], "folders exchanged");
    exchange(&folder, &other);
    let (own, root) = (folder.join("phalanx.folder"), lab.path().join("phalanx.folder"));
    let record = fs::read(&own).unwrap();
    for from in [root, other.join("phalanx.folder")] {
        fs::copy(from, &own).unwrap();
        check_found(&lab, &before, &[&path(&[b"folder"])], "the id of another folder");
    }
    fs::write(&own, record).unwrap();
    assert!(lab.look() == (before, Vec::new()));
}

#[test]
fn old_states_are_not_found() {
    let lab = Lab::new();
    let (three, sparse) = (lab.stored(&[b"three"]), lab.stored(&[b"sparse"]));
    let before = lab.look().0;
    let old = fs::read(&three).unwrap();
    let old_content = painted(2, 2 * CHUNK + 100);
    let mut new_content = old_content.clone();
    new_content[..2 * CHUNK].copy_from_slice(&painted(99, 2 * CHUNK));
    change(&lab, b"three", |file| file.write_at(0, &new_content).unwrap());
    let new = fs::read(&three).unwrap();
    let place = path(&[b"three"]);
    assert!(lab.look().0 == with(&before, &place, &new_content));
    // The whole file.
    fs::write(&three, &old).unwrap();
    check_not_found(&lab, &before, "Old states.");
    // One chunk.
    let mut mixed = new.clone();
    mixed[HEADER..HEADER + RECORD].copy_from_slice(&old[HEADER..HEADER + RECORD]);
    fs::write(&three, &mixed).unwrap();
    let mixed_content = [&old_content[..CHUNK], &new_content[CHUNK..]].concat();
    check_not_found(&lab, &with(&before, &place, &mixed_content), "Old states.");
    // An earlier end of the file.
    change(&lab, b"three", |file| file.set_len(CHUNK as u64 + 5).unwrap());
    let short = fs::read(&three).unwrap();
    let short_content = &mixed_content[..CHUNK + 5];
    change(&lab, b"three", |file| file.write_at(0, &painted(7, 3 * CHUNK)).unwrap());
    let mut cut = fs::read(&three).unwrap();
    cut.truncate(short.len());
    cut[HEADER + RECORD..].copy_from_slice(&short[HEADER + RECORD..]);
    fs::write(&three, &cut).unwrap();
    let cut_content = [&painted(7, CHUNK)[..], &short_content[CHUNK..]].concat();
    check_not_found(&lab, &with(&before, &place, &cut_content), "Old states.");
    fs::write(&three, &old).unwrap();
    // A header whose holes have been written to since.
    let with_hole = fs::read(&sparse).unwrap();
    change(&lab, b"sparse", |file| file.write_at(CHUNK as u64, &painted(8, 2 * CHUNK)).unwrap());
    let sparse_content = [painted(3, CHUNK), painted(8, 2 * CHUNK), painted(4, 10)].concat();
    let full = with(&before, &path(&[b"sparse"]), &sparse_content);
    assert!(lab.look() == (full.clone(), Vec::new()));
    let mut bytes = fs::read(&sparse).unwrap();
    assert_ne!(bytes[..HEADER], with_hole[..HEADER]);
    bytes[..HEADER].copy_from_slice(&with_hole[..HEADER]);
    fs::write(&sparse, &bytes).unwrap();
    check_not_found(&lab, &before, "Old states.");
}

#[test]
fn an_old_journal_brings_back_what_it_names() {
    let lab = Lab::new();
    let before = lab.look().0;
    let mounted = lab.mount();
    let file = open(&mounted, &[b"three"]);
    file.write_at(10, &painted(50, 20)).unwrap();
    file.sync(&file.witness(), false).unwrap();
    let journal = fs::read(lab.path().join(JOURNAL)).unwrap();
    let mut content = painted(2, 2 * CHUNK + 100);
    content[10..30].copy_from_slice(&painted(50, 20));
    let then = with(&before, &path(&[b"three"]), &content);
    file.write_at(10, &painted(90, 20)).unwrap();
    mounted.store.close().unwrap();
    drop((file, mounted));
    assert!(lab.look().0 != then);
    fs::write(lab.path().join(JOURNAL), journal).unwrap();
    check_not_found(&lab, &then, "Old states.");
}

#[test]
fn a_folder_that_is_put_back_where_it_was_is_not_found() {
    let lab = Lab::new();
    let before = lab.look().0;
    let there = lab.stored(&[b"folder"]);
    let record = fs::read(there.join("phalanx.folder")).unwrap();
    let mounted = lab.mount();
    mounted.tree.rename(1, b"folder", 1, b"elsewhere", RenameMode::Replace).unwrap();
    mounted.store.close().unwrap();
    drop(mounted);
    fs::rename(lab.stored(&[b"elsewhere"]), &there).unwrap();
    fs::write(there.join("phalanx.folder"), record).unwrap();
    check_not_found(&lab, &before, "Folders put back.");
}

/// A disk on which only the journal is written, as after a power cut before everything else.
struct OnlyJournal(u64);

impl Disk for OnlyJournal {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if file.metadata()?.ino() == self.0 { file.write_all_at(bytes, offset) } else { Ok(()) }
    }
    fn sync_data(&self, file: &File) -> io::Result<()> {
        Unsynced.sync_data(file)
    }
    fn sync_all(&self, file: &File) -> io::Result<()> {
        Unsynced.sync_all(file)
    }
}

#[test]
fn a_journal_that_was_removed_is_not_found() {
    let lab = Lab::new();
    let before = lab.look().0;
    let journal = lab.path().join(JOURNAL);
    let inode = fs::metadata(&journal).unwrap().ino();
    let mounted = lab.mount_on(Arc::new(OnlyJournal(inode)));
    let file = open(&mounted, &[b"three"]);
    file.write_at(10, &painted(50, 20)).unwrap();
    file.sync(&file.witness(), false).unwrap();
    drop((file, mounted));
    let kept = fs::read(&journal).unwrap();
    fs::remove_file(&journal).unwrap();
    check_not_found(&lab, &before, "A journal that was removed");
    // The journal is put back.
    fs::write(&journal, kept).unwrap();
    let mut content = painted(2, 2 * CHUNK + 100);
    content[10..30].copy_from_slice(&painted(50, 20));
    assert!(lab.look() == (with(&before, &path(&[b"three"]), &content), Vec::new()));

    // A half-written chunk is reported as damage.
    let three = lab.stored(&[b"three"]);
    let mut half = fs::read(&three).unwrap();
    half[HEADER..HEADER + RECORD / 2].fill(1);
    fs::write(&three, half).unwrap();
    check_found(&lab, &lab_content(&before, &content), &[&path(&[b"three"])], "half a chunk");
}

fn lab_content(before: &Seen, content: &[u8]) -> Seen {
    with(before, &path(&[b"three"]), content)
}

#[test]
fn names_that_are_gone_or_come_back_are_not_found() {
    let lab = Lab::new();
    let before = lab.look().0;
    for names in [&[b"three" as &[u8]][..], &[b"link"], &[b"folder", b"inner"], &[&[b'n'; 200]], &[b"folder"]] {
        let stored = lab.stored(names);
        let aside = tempfile::tempdir_in(lab.path().parent().unwrap()).unwrap();
        let kept = aside.path().join("kept");
        fs::rename(&stored, &kept).unwrap();
        let (after, told) = lab.look();
        assert!(told.is_empty(), "{told:?}");
        assert!(lost(&before, &after).iter().all(|place| super::is_in(place, &[&path(names)])));
        assert!(!after.contains_key(&path(names)));
        check_not_found(&lab, &after, "Names that are gone");
        fs::rename(&kept, &stored).unwrap();
        check_not_found(&lab, &before, "Names that are gone");
    }
    // A file that the mount itself deleted.
    let stored = lab.stored(&[b"three"]);
    let bytes = fs::read(&stored).unwrap();
    let mounted = lab.mount();
    mounted.tree.unlink(1, b"three").unwrap();
    mounted.store.close().unwrap();
    drop(mounted);
    assert!(!lab.look().0.contains_key(&path(&[b"three"])));
    fs::write(&stored, bytes).unwrap();
    check_not_found(&lab, &before, "Names that are gone");
    // An attribute.
    let one = lab.stored(&[b"one"]);
    let mut list = vec![0; 1000];
    let len = rustix::fs::listxattr(&one, &mut list[..]).unwrap();
    for name in list[..len].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.phalanx.")) {
        rustix::fs::removexattr(&one, name).unwrap();
    }
    let want = with(&before, &path(&[b"one"]), &painted(1, 100));
    check_not_found(&lab, &want, "Names that are gone");
}

#[test]
fn modes_times_and_kinds_are_not_found() {
    let lab = Lab::new();
    let before = lab.look().0;
    let words = "Modes, owners, times, the kind of an entry and the numbers of devices";
    let stored = lab.stored(&[b"three"]);
    fs::set_permissions(&stored, fs::Permissions::from_mode(0o640)).unwrap();
    OpenOptions::new().write(true).open(&stored).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    check_not_found(&lab, &before, words);
    let mounted = lab.mount();
    let attr = mounted.tree.lookup(1, b"three").unwrap();
    assert_eq!((attr.mode, attr.mtime), (0o640, (0, 0)));
    drop(mounted);

    let bytes = fs::read(&stored).unwrap();
    fs::remove_file(&stored).unwrap();
    mknodat(CWD, &stored, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let mut want = before.clone();
    want.insert(path(&[b"three"]), Want::Fifo);
    check_not_found(&lab, &want, words);
    fs::remove_file(&stored).unwrap();
    // A folder or a link in its place is found, since it was not made for it.
    fs::create_dir(&stored).unwrap();
    check_found(&lab, &before, &[&path(&[b"three"])], "a folder");
    fs::remove_dir(&stored).unwrap();
    std::os::unix::fs::symlink("phalanx.volume", &stored).unwrap();
    check_found(&lab, &before, &[&path(&[b"three"])], "a link");
    fs::remove_file(&stored).unwrap();
    fs::write(&stored, bytes).unwrap();
    assert!(lab.look() == (before, Vec::new()));
}

/// Open files find alterations of a mounted volume too.
#[test]
fn alterations_under_a_mount_are_found() {
    let lab = Lab::new();
    let stored = lab.stored(&[b"three"]);
    let mounted = lab.mount();
    let file = open(&mounted, &[b"three"]);
    let bytes = fs::read(&stored).unwrap();
    fs::write(&stored, &bytes[..HEADER + RECORD]).unwrap();
    assert_eq!(file.read_at(0, CHUNK).unwrap(), painted(2, CHUNK));
    assert!(file.read_at(CHUNK as u64, CHUNK).is_err());
    assert_eq!(mounted.told.lock().unwrap().len(), 1);
    let other = make(&mounted, 1, b"new", &[(0, painted(1, 10))]).1;
    assert_eq!(other.read_at(0, 10).unwrap(), painted(1, 10));
}
