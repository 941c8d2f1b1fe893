//! The record of an unfinished output is valid only for that output.

use phalanx_core::{ChunkSize, KdfLimit, NewFile, Opener, ProtectedFile, Recipient, Roster, SecretKey, Sink, Suite};
use phalanx_host::file::{self, Begun, Carry, Existing, Output, Past, Resumable, Stamp, begin_plaintext, note_synced};
use phalanx_system::os::fs::FileExt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The files in a folder that runs have left, with this ending.
fn left(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == ending)).collect()
}

#[test]
fn a_record_is_not_used_for_another_output() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, protected, target) = (dir.path().join("plain"), dir.path().join("f.phx"), dir.path().join("f"));
    fs::write(&plain, vec![7; 300_000]).unwrap();
    let key = SecretKey::random().unwrap();
    let new = NewFile::with_chunk_size(Suite::Aes256CtrSha3, ChunkSize::new(4096).unwrap(), &[Recipient::key(&key)]);
    let sealed = File::create(&protected).unwrap();
    let input = File::open(&plain).unwrap();
    new.unwrap()
        .protect(&Roster::cpu(), file::regular(&input).unwrap(), Sink::ranged(file::Disk::new(&sealed)), &())
        .unwrap();
    let opener = Opener::new(key, KdfLimit::default());
    let protected = File::open(&protected).unwrap();
    let open = || ProtectedFile::open(file::regular(&protected).unwrap(), &opener).unwrap();
    let (shared, stamp) = (open().shared(), Stamp::of(&protected).unwrap());

    // A run that has recorded 50 chunks as being on the disk, and was killed.
    let interrupted = || {
        let mut output = Output::resume(&target, Existing::Keep).unwrap();
        begin_plaintext(&shared, stamp, &mut output, true).unwrap();
        output.file().set_len(300_000).unwrap();
        note_synced(&shared, &output, stamp, false, 50, 0).unwrap();
    };
    let begun =
        || begin_plaintext(&shared, stamp, &mut Output::resume(&target, Existing::Keep).unwrap(), true).unwrap();
    interrupted();
    if fs::metadata(&left(dir.path(), "tmp")[0]).unwrap().created().is_err() {
        assert_eq!(begun(), Begun::Over(Past::Unproven));
        println!("skipped: no time of birth");
        return;
    }
    assert_eq!(begun(), Begun::Left { synced: 50 });
    // Its output is gone, but its record is not.
    fs::remove_file(&left(dir.path(), "tmp")[0]).unwrap();
    assert_eq!((left(dir.path(), "resume").len(), begun()), (1, Begun::New));
    // A run without --resume comes between.
    fs::remove_file(&left(dir.path(), "tmp")[0]).unwrap();
    interrupted();
    fs::remove_file(&left(dir.path(), "tmp")[0]).unwrap();
    drop(Output::create(&target, Existing::Keep).unwrap());
    assert!(left(dir.path(), "resume").is_empty());
    // It was killed between the two steps of making an output.
    interrupted();
    fs::remove_file(&left(dir.path(), "resume")[0]).unwrap();
    File::options().write(true).open(&left(dir.path(), "tmp")[0]).unwrap().set_len(0).unwrap();
    assert_eq!(begun(), Begun::New);
    // Another file of the same user is in its place, or the record was changed.
    interrupted();
    let (output, other) = (left(dir.path(), "tmp").remove(0), dir.path().join("other"));
    fs::copy(&output, &other).unwrap();
    fs::rename(&other, &output).unwrap();
    assert_eq!(begun(), Begun::Over(Past::Unproven));
    interrupted();
    let record = File::options().write(true).open(&left(dir.path(), "resume")[0]).unwrap();
    [50, 562].into_iter().for_each(|at| record.write_all_at(b"changed!", at).unwrap());
    assert_eq!(begun(), Begun::Over(Past::Unproven));
    // Another file of the same user gets the record's name while a run works. The record is emptied before others may
    // open the output, even under another name, so nothing goes on with it.
    let mut output = Output::resume(&target, Existing::Keep).unwrap();
    begin_plaintext(&shared, stamp, &mut output, true).unwrap();
    let (record, moved, letter) =
        (left(dir.path(), "resume").remove(0), dir.path().join("moved"), dir.path().join("letter"));
    fs::rename(&record, &moved).unwrap();
    fs::write(&letter, [b'x'; 1024]).unwrap();
    fs::rename(&letter, &record).unwrap();
    note_synced(&shared, &output, stamp, false, 50, 0).unwrap();
    assert!(fs::read(&record).unwrap() == [b'x'; 1024]);
    output.file().set_len(300_000).unwrap();
    output.carry(&input, Carry::New { umask: 0o077 }).unwrap();
    drop(output);
    fs::rename(&moved, &record).unwrap();
    assert_eq!(begun(), Begun::Over(Past::Unproven));
    // The plaintext is right, whatever the record says about another output.
    fs::remove_file(&left(dir.path(), "tmp")[0]).unwrap();
    interrupted();
    fs::remove_file(&left(dir.path(), "tmp")[0]).unwrap();
    let mut output = Output::resume(&target, Existing::Keep).unwrap();
    let resumable = Resumable { roster: &Roster::cpu(), output: &mut output, sync: true, progress: &() };
    resumable.unprotect(open(), &protected, |_| {}).unwrap();
    output.commit(Existing::Keep, true).unwrap();
    assert!(fs::read(&target).unwrap() == fs::read(&plain).unwrap());
}
