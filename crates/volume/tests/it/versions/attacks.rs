//! What is put back from outside is found.

use super::*;
use std::os::unix::fs::FileExt;

/// Lengths with one chunk, with a group for each chunk, and with several chunks in a group.
const LENGTHS: [usize; 4] = [0, 100, 50 * CHUNK + 7, 700 * CHUNK + 7];

#[test]
fn a_file_put_back_is_refused_and_others_are_not() {
    for len in LENGTHS {
        let lab = Lab::new();
        lab.put("file", &painted(1, len));
        lab.put("other", &painted(1, len));
        let old = lab.copy();
        lab.put("file", &painted(2, len + 1));
        let stored = lab.stored("file");
        let new = fs::read(&stored).unwrap();
        lab.put_back(&old, |path| path == stored);
        assert_eq!(lab.get("file"), None, "{len}");
        assert_eq!(lab.get("other").unwrap(), painted(1, len));
        fs::write(&stored, new).unwrap();
        assert_eq!(lab.get("file").unwrap(), painted(2, len + 1));
    }
}

#[test]
fn a_chunk_put_back_is_refused() {
    for (len, chunk, others) in [(50 * CHUNK, 20, 49), (700 * CHUNK, 300, 692), (100 * CHUNK, 99, 0), (100, 0, 0)] {
        let lab = Lab::new();
        lab.put("file", &painted(1, len));
        let stored = lab.stored("file");
        let old = fs::read(&stored).unwrap();
        let mounted = lab.mount();
        open(&mounted, "file").unwrap().write_at((chunk * CHUNK) as u64, b"new").unwrap();
        mounted.store.close().unwrap();
        drop(mounted);
        let at = HEADER + chunk * RECORD;
        let file = fs::OpenOptions::new().write(true).open(&stored).unwrap();
        file.write_all_at(&old[at..(at + RECORD).min(old.len())], at as u64).unwrap();
        assert_eq!(lab.get("file"), None, "{len}");
        // The chunks of other groups can still be read, unless the file's end is in doubt.
        let mounted = lab.mount();
        let read = |index: usize| match &open(&mounted, "file") {
            Ok(backing) => backing.read_at((index * CHUNK) as u64, CHUNK).is_ok(),
            Err(_) => false,
        };
        assert_eq!((0..len / CHUNK).filter(|index| read(*index)).count(), others, "{len}");
    }
}

#[test]
fn a_header_put_back_is_refused() {
    for len in LENGTHS {
        let lab = Lab::new();
        lab.put("file", &painted(1, len));
        let stored = lab.stored("file");
        let old = fs::read(&stored).unwrap();
        let mounted = lab.mount();
        open(&mounted, "file").unwrap().write_at(0, b"new").unwrap();
        mounted.store.close().unwrap();
        drop(mounted);
        fs::OpenOptions::new().write(true).open(&stored).unwrap().write_all_at(&old[..HEADER], 0).unwrap();
        assert_eq!(lab.get("file"), None, "{len}");
    }
}

#[test]
fn a_file_cut_to_an_old_end_is_refused() {
    for (short, long) in [(0, 1), (10, 20), (5, 140), (300, 301), (300, 600)] {
        let lab = Lab::new();
        lab.put("file", &painted(1, short * CHUNK + 10));
        let stored = lab.stored("file");
        let old = fs::read(&stored).unwrap();
        let mounted = lab.mount();
        let backing = open(&mounted, "file").unwrap();
        backing.write_at((short * CHUNK + 10) as u64, &painted(2, (long - short) * CHUNK)).unwrap();
        drop(backing);
        mounted.store.close().unwrap();
        drop(mounted);
        // The last header, and the old chunks with the old end.
        let header = fs::read(&stored).unwrap()[..HEADER].to_vec();
        fs::write(&stored, [&header, &old[HEADER..]].concat()).unwrap();
        assert_eq!(lab.get("file"), None, "{short} of {long}");
    }
}

#[test]
fn two_old_states_do_not_make_a_new_one() {
    let lab = Lab::new();
    let len = 300 * CHUNK;
    lab.put("file", &painted(1, len));
    let stored = lab.stored("file");
    let mut states = vec![fs::read(&stored).unwrap()];
    let mounted = lab.mount();
    for (version, part) in [(2, 0), (3, 150 * CHUNK)] {
        open(&mounted, "file").unwrap().write_at(part as u64, &painted(version, 20 * CHUNK)).unwrap();
        open(&mounted, "file").unwrap().settle().unwrap();
        states.push(fs::read(&stored).unwrap());
    }
    mounted.store.close().unwrap();
    drop(mounted);
    let middle = HEADER + 150 * RECORD;
    for (first, second) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        fs::write(&stored, [&states[first][..middle], &states[second][middle..]].concat()).unwrap();
        // The chunks that are the same in both are as they should be.
        let same = first == 1 && second == 2 && states[1][..HEADER] == states[2][..HEADER];
        assert!(same || lab.get("file").is_none(), "{first} and {second}");
    }
    fs::write(&stored, &states[2]).unwrap();
    assert!(lab.get("file").is_some());
}

#[test]
fn a_deleted_file_does_not_come_back() {
    let lab = Lab::new();
    lab.put("file", b"secret");
    let old = lab.copy();
    let stored = lab.stored("file");
    let mounted = lab.mount();
    mounted.tree.unlink(ROOT, b"file").unwrap();
    mounted.store.close().unwrap();
    drop(mounted);
    lab.put_back(&old, |path| path == stored);
    assert_eq!(lab.get("file"), None);
}

#[test]
fn a_file_with_a_link_that_the_volume_did_not_make_is_deleted_with_its_name() {
    let lab = Lab::new();
    lab.put("file", b"secret");
    let stored = lab.stored("file");
    let beside = tempfile::tempdir_in(lab.path().parent().unwrap()).unwrap();
    fs::hard_link(&stored, beside.path().join("kept")).unwrap();
    let mounted = lab.mount();
    mounted.tree.unlink(ROOT, b"file").unwrap();
    mounted.store.close().unwrap();
    drop(mounted);
    fs::hard_link(beside.path().join("kept"), &stored).unwrap();
    assert_eq!(lab.get("file"), None);
}

#[test]
fn an_old_journal_does_nothing() {
    let lab = Lab::new();
    lab.put("file", &painted(1, 5000));
    let mounted = lab.mount();
    put(&mounted, "file", &painted(2, 5000));
    // The run is killed, and the next one applies the journal.
    let journal = fs::read(lab.path().join(JOURNAL)).unwrap();
    let killed = lab.copy();
    drop(mounted);
    assert_eq!(lab.get("file").unwrap(), painted(2, 5000));
    lab.put("file", &painted(3, 5000));
    fs::write(lab.path().join(JOURNAL), &journal).unwrap();
    assert_eq!(lab.get("file").unwrap(), painted(3, 5000));
    // With the file, it is an old file.
    let stored = lab.stored("file");
    fs::write(lab.path().join(JOURNAL), &journal).unwrap();
    lab.put_back(&killed, |path| path == stored);
    assert_eq!(lab.get("file"), None);
}

#[test]
fn a_journal_of_a_run_that_lost_it_does_not_replace_the_next_one() {
    let lab = Lab::new();
    lab.put("file", &painted(1, 5000));
    let before = lab.copy();
    // A run whose changes a power cut takes away.
    let mounted = lab.mount();
    put(&mounted, "file", &painted(2, 5000));
    let journal = fs::read(lab.path().join(JOURNAL)).unwrap();
    drop(mounted);
    lab.put_back(&before, |_| true);
    let mounted = lab.mount();
    put(&mounted, "file", &painted(3, 5000));
    let own = fs::read(lab.path().join(JOURNAL)).unwrap();
    drop(mounted);
    assert_ne!(own[8..24], journal[8..24], "two runs have the same epoch");
    fs::write(lab.path().join(JOURNAL), &journal).unwrap();
    assert_ne!(lab.get("file"), Some(painted(2, 5000)));
}

#[test]
fn an_old_table_makes_new_files_old_ones() {
    let lab = Lab::new();
    lab.put("file", b"one");
    lab.put("same", b"same");
    let old = lab.copy();
    lab.put("file", b"two");
    let generation = lab.mount().store.generation().unwrap();
    lab.put_back(&old, |path| path.ends_with(TABLE));
    assert_eq!(lab.get("file"), None);
    assert_eq!(lab.get("same").unwrap(), b"same");
    // All of the volume put back cannot be told from within. Its generation can.
    lab.put_back(&old, |_| true);
    assert_eq!(lab.get("file").unwrap(), b"one");
    let now = lab.mount().store.generation().unwrap();
    assert_eq!(now.volume, generation.volume);
    assert!(now.number < generation.number);
}

#[test]
fn a_volume_without_a_whole_table_is_refused() {
    let lab = Lab::new();
    for version in 0..3 {
        lab.put("file", &painted(version, 100));
    }
    let table = lab.path().join(TABLE);
    let whole = fs::read(&table).unwrap();
    let refused = |what: &str| {
        for read_only in [false, true] {
            let refused = lab.try_mount(read_only).err();
            let is_versions = matches!(refused, Some(Refused::Store(VolumeError::Versions(_))));
            assert!(is_versions, "{what}: {refused:?}");
        }
    };
    fs::remove_file(&table).unwrap();
    refused("removed");
    for len in [0, 1, 71] {
        fs::write(&table, &whole[..len]).unwrap();
        refused("cut");
    }
    let mut altered = whole.clone();
    for at in [0, 20, 60] {
        altered[at] ^= 1;
        fs::write(&table, &altered).unwrap();
        refused("altered");
        altered[at] ^= 1;
    }
    altered[80 + 20] ^= 1;
    fs::write(&table, &altered).unwrap();
    refused("altered in the middle");
    fs::remove_file(&table).unwrap();
    std::os::unix::fs::symlink("elsewhere", &table).unwrap();
    refused("a link");
    fs::remove_file(&table).unwrap();
    fs::create_dir(&table).unwrap();
    refused("a folder");
    fs::remove_dir(&table).unwrap();
    fs::write(&table, &whole).unwrap();
    assert_eq!(lab.get("file").unwrap(), painted(2, 100));
}

#[test]
fn a_batch_that_was_torn_is_absent_and_the_next_one_takes_its_place() {
    let lab = Lab::new();
    lab.put("file", b"one");
    let before = fs::read(lab.path().join(TABLE)).unwrap();
    let mounted = lab.mount();
    put(&mounted, "file", b"two");
    let journal = fs::read(lab.path().join(JOURNAL)).unwrap();
    // The batch before the first transaction.
    let begun = fs::read(lab.path().join(TABLE)).unwrap();
    mounted.store.close().unwrap();
    drop(mounted);
    let after = fs::read(lab.path().join(TABLE)).unwrap();
    assert!(before.len() < begun.len() && begun.len() < after.len());
    for len in begun.len() + 1..after.len() {
        fs::write(lab.path().join(TABLE), &after[..len]).unwrap();
        fs::write(lab.path().join(JOURNAL), &journal).unwrap();
        assert_eq!(lab.get("file").unwrap(), b"two", "{len}");
    }
    lab.put("file", b"three");
    assert_eq!(lab.get("file").unwrap(), b"three");
}

#[test]
fn what_the_table_refuses_cannot_be_changed_and_has_no_attributes() {
    let lab = Lab::new();
    lab.put("file", b"one");
    let old = lab.copy();
    lab.put("file", b"two");
    lab.put_back(&old, |path| !path.ends_with(TABLE));
    let mounted = lab.mount();
    let error = open(&mounted, "file").unwrap_err();
    assert_eq!(error.errno(), Errno::IO);
    assert!(error.to_string().contains("not the last version"), "{error}");
}

#[test]
fn a_chunk_put_back_gets_no_new_sum() {
    let lab = Lab::new();
    let len = 700 * CHUNK;
    lab.put("file", &painted(1, len));
    let stored = lab.stored("file");
    let old = fs::read(&stored).unwrap();
    lab.put("file", &painted(2, len));
    let at = HEADER + 10 * RECORD;
    let file = fs::OpenOptions::new().write(true).open(&stored).unwrap();
    file.write_all_at(&old[at..at + RECORD], at as u64).unwrap();
    let mounted = lab.mount();
    let backing = open(&mounted, "file").unwrap();
    // In its group, at its edge, and a growth that makes all groups anew: none of them is stored.
    for (at, bytes) in
        [(11 * CHUNK, painted(3, CHUNK)), (12 * CHUNK + 5, painted(3, 9)), (len, painted(3, 800 * CHUNK))]
    {
        let written = backing.write_at(at as u64, &bytes).and_then(|()| backing.commit(&backing.witness()));
        assert_eq!(written.unwrap_err().errno(), Errno::IO);
    }
    // The others can be changed.
    backing.write_at(600 * CHUNK as u64, b"new").unwrap();
    backing.commit(&backing.witness()).unwrap();
    assert!(backing.read_at(10 * CHUNK as u64, CHUNK).is_err());
    assert_eq!(backing.read_at(600 * CHUNK as u64, 3).unwrap(), b"new");
    // A file that is written anew is whole again.
    backing.set_len(0).unwrap();
    backing.write_at(0, &painted(4, len)).unwrap();
    drop(backing);
    mounted.store.close().unwrap();
    drop(mounted);
    assert_eq!(lab.get("file").unwrap(), painted(4, len));
}

#[test]
fn a_file_hidden_while_the_journal_is_applied_does_not_come_back_as_it_was() {
    let lab = Lab::new();
    lab.put("file", &painted(1, 5000));
    let (stored, old) = (lab.stored("file"), lab.copy());
    let mounted = lab.mount();
    put(&mounted, "file", &painted(2, 5000));
    drop(mounted);
    let new = fs::read(&stored).unwrap();
    fs::remove_file(&stored).unwrap();
    drop(lab.mount());
    lab.put_back(&old, |path| path == stored);
    assert_eq!(lab.get("file"), None);
    fs::write(&stored, new).unwrap();
    assert_eq!(lab.get("file").unwrap(), painted(2, 5000));
}

#[test]
fn a_copy_of_a_removed_file_undoes_no_removal() {
    let lab = Lab::new();
    lab.put("file", b"secret");
    lab.put("other", b"one");
    let (stored, other) = (lab.stored("file"), lab.stored("other"));
    let beside = tempfile::tempdir_in(lab.path().parent().unwrap()).unwrap();
    let (kept, copy, aside) = (beside.path().join("kept"), beside.path().join("copy"), beside.path().join("aside"));
    // So the copy has another inode than the file had.
    fs::hard_link(&stored, kept).unwrap();
    fs::copy(&stored, &copy).unwrap();
    let mounted = lab.mount();
    put(&mounted, "other", b"two");
    mounted.tree.unlink(ROOT, b"file").unwrap();
    drop(mounted);
    // While a file is missing, the others of the journal are looked for under all names.
    fs::rename(&other, &aside).unwrap();
    fs::rename(&copy, &stored).unwrap();
    drop(lab.mount());
    fs::rename(&aside, &other).unwrap();
    assert_eq!(lab.get("file"), None);
    assert_eq!(lab.get("other").unwrap(), b"two");
}

#[test]
fn a_copy_of_an_open_file_is_not_opened_beside_it() {
    let lab = Lab::new();
    lab.put("file", b"one");
    lab.put("other", b"other");
    let (file, other) = (lab.stored("file"), lab.stored("other"));
    fs::copy(&file, &other).unwrap();
    let mounted = lab.mount();
    let backing = open(&mounted, "file").unwrap();
    assert_eq!(get(&mounted, "other"), None);
    backing.write_at(0, b"two").unwrap();
    backing.sync(&backing.witness(), false).unwrap();
    drop(backing);
    // Now it is an old version.
    assert_eq!(get(&mounted, "other"), None);
    assert_eq!(get(&mounted, "file").unwrap(), b"two");
    mounted.store.close().unwrap();
    drop(mounted);
    assert_eq!(lab.get("file").unwrap(), b"two");
}

#[test]
fn a_journal_without_a_table_is_trimmed_by_an_acceptance() {
    let lab = Lab::new();
    lab.put("file", b"one");
    let mounted = lab.mount();
    put(&mounted, "file", b"two");
    drop(mounted);
    fs::remove_file(lab.path().join(TABLE)).unwrap();
    super::accept::accept(&lab);
    assert!(!fs::read(lab.path().join(JOURNAL)).unwrap().starts_with(b"PHXJRNL1"));
    assert_eq!(lab.get("file").unwrap(), b"two");
}
