//! Changing the ways in in place: whole or not at all, whatever an attacker has planted.

use crate::common::{AtHand, painted};
use phalanx_core::format::{Header, Kdf};
use phalanx_core::{
    ChunkSize, Class, Error as CoreError, KdfLimit, KeyId, KeySource, NewFile, Opener, Password, ProtectedFile, Reader,
    Recipient, Result, Roster, SecretKey, Sink, Source, Suite, Ways,
};
use phalanx_host::Error;
use phalanx_host::file::{self, InPlace, InputFile, Unfinished, is_temporary, is_unfinished};
use phalanx_system::files::open_private_log;
use phalanx_system::os::fs::{MetadataExt, symlink};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

pub const CHUNK: usize = 4096;

pub fn key(n: u8) -> SecretKey {
    SecretKey::from_slice(&[n; 32]).unwrap()
}

pub fn opener(source: impl KeySource) -> Opener<impl KeySource> {
    Opener::new(source, KdfLimit::default())
}

pub fn by(n: u8) -> Opener<impl KeySource> {
    opener(key(n))
}

pub fn password(text: &str) -> Password {
    Password::new(text.into())
}

/// A password that is cheap to try.
pub fn cheap(text: &str) -> Recipient {
    let kdf = Kdf { salt: [7; 16], memory_kib: 8, passes: 1, lanes: 1 };
    Recipient::Password { kdf, kek: password(text).wrapping_key(&kdf).unwrap() }
}

/// A protected file in its own folder.
pub struct Disk {
    folder: tempfile::TempDir,
    pub plain: Vec<u8>,
}

impl Disk {
    pub fn new(recipients: &[Recipient]) -> Self {
        Self::of(Suite::default(), recipients)
    }

    pub fn of(suite: Suite, recipients: &[Recipient]) -> Self {
        let disk = Self { folder: tempfile::tempdir().unwrap(), plain: painted(5 * CHUNK + 100) };
        disk.protect("f", suite, recipients);
        disk
    }

    fn protect(&self, name: &str, suite: Suite, recipients: &[Recipient]) {
        let new = NewFile::with_chunk_size(suite, ChunkSize::new(CHUNK as u64).unwrap(), recipients).unwrap();
        let sink = File::create(self.path(name)).unwrap();
        new.protect(&Roster::cpu(), Source::stream(&self.plain[..]), Sink::ranged(file::Disk::new(&sink)), &())
            .unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn read(&self) -> Vec<u8> {
        fs::read(self.path("f")).unwrap()
    }

    pub fn header(&self) -> Header {
        Header::read(&mut &self.read()[..]).unwrap()
    }

    pub fn header_bytes(&self) -> Vec<u8> {
        self.read()[..4096].to_vec()
    }

    fn input(&self) -> InputFile {
        InputFile::open(&self.path("f")).unwrap()
    }

    /// A test beside this one that starts a program has for a moment copies of all open files, and so of the lock of a change
    /// that is over.
    fn in_place(&self) -> InPlace {
        loop {
            match InPlace::open(&self.input()) {
                Err(e) if e.to_string().contains("another run") => std::thread::yield_now(),
                opened => return opened.unwrap(),
            }
        }
    }

    /// Changes the ways in.
    fn change(&self, keys: &Opener<impl KeySource>, change: impl FnOnce(&mut Ways)) -> phalanx_host::Result<Header> {
        let mut target = self.in_place();
        let (mut ways, _) = target.ways(keys)?;
        change(&mut ways);
        target.write(&ways, keys)
    }

    pub fn opens(&self, keys: &Opener<impl KeySource>) -> bool {
        let file = File::open(self.path("f")).unwrap();
        let sink = tempfile::NamedTempFile::new().unwrap();
        let opened = ProtectedFile::open(file::source(&file).unwrap(), keys)
            .and_then(|file| file.unprotect(&Roster::cpu(), Sink::ranged(file::Disk::new(sink.as_file())), &()));
        match opened {
            Ok(_) => assert!(fs::read(sink.path()).unwrap() == self.plain),
            Err(e) => assert_eq!(e.class(), Class::NotAuthentic, "{e}"),
        }
        sink.as_file().metadata().unwrap().len() > 0
    }

    /// The path of the side file.
    fn side(&self) -> PathBuf {
        let hash = phalanx_reference::sha3_256(b"f");
        let hash: String = hash[..16].iter().map(|b| format!("{b:02x}")).collect();
        self.path(&format!(".phalanx-{hash}.rekey"))
    }

    /// Leaves a side file, as a run of this user makes it.
    fn leave_side(&self, header: &[u8], modified: SystemTime) {
        let mut side = open_private_log(&self.side()).unwrap();
        side.write_all(header).unwrap();
        side.set_modified(modified).unwrap();
    }

    /// All names in the folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Writes over the beginning of the file.
    pub fn overwrite(&self, bytes: &[u8]) {
        let mut all = self.read();
        all[..bytes.len()].copy_from_slice(bytes);
        fs::write(self.path("f"), all).unwrap();
    }
}

/// The changed header of the disk's file. It is not written.
fn changed(disk: &Disk, keys: &Opener<impl KeySource>, change: impl FnOnce(&mut Ways)) -> Vec<u8> {
    let mut ways = Ways::open(disk.header(), keys).unwrap();
    change(&mut ways);
    ways.changed(keys).unwrap().bytes().to_vec()
}

#[test]
fn new_headers_have_room() {
    let few = |n: u8| (1..=n).map(|n| Recipient::key(&key(n))).collect::<Vec<_>>();
    for (keys, small, large) in [
        (1, 1024, 4096),
        (10, 1024, 4096),
        (11, 1024, 4096),
        (12, 2048, 4096),
        (63, 4096, 4096),
        (64, 18 + 64 * 59 + 32, 18 + 64 * 59 + 32),
    ] {
        for (plain, expected) in [(0, small), (16384, small), (16385, large), (70_000, large)] {
            let disk = Disk { folder: tempfile::tempdir().unwrap(), plain: painted(plain) };
            disk.protect("f", Suite::default(), &few(keys));
            assert_eq!(disk.header().bytes().len(), expected, "{keys} keys, {plain} bytes");
            // A file gives the same as a stream.
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), &disk.plain).unwrap();
            let new = NewFile::with_chunk_size(Suite::default(), ChunkSize::new(4096).unwrap(), &few(keys)).unwrap();
            let sink = File::create(disk.path("g")).unwrap();
            let source = file::regular(file.as_file()).unwrap();
            new.protect(&Roster::cpu(), source, Sink::ranged(file::Disk::new(&sink)), &()).unwrap();
            assert_eq!(fs::metadata(disk.path("g")).unwrap().len(), disk.read().len() as u64);
            assert!(plain == 0 || disk.opens(&by(1)) && disk.opens(&by(keys)));
        }
    }
}

#[test]
fn ways_in_are_added_and_removed_in_place() {
    for &suite in Suite::ALL {
        let disk = Disk::of(suite, &[Recipient::key(&key(1))]);
        let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789);
        File::options().write(true).open(disk.path("f")).unwrap().set_modified(modified).unwrap();
        let (before, inode) = (disk.read(), fs::metadata(disk.path("f")).unwrap().ino());

        disk.change(&by(1), |ways| {
            ways.add(&Recipient::key(&key(2)));
            ways.add(&cheap("p"));
        })
        .unwrap();
        assert!(disk.opens(&by(1)) && disk.opens(&by(2)) && disk.opens(&opener(password("p"))));
        // The key is a way in already.
        let same = disk.read();
        disk.change(&by(2), |ways| ways.add(&Recipient::key(&key(1)))).unwrap();
        assert!(disk.read() == same);

        disk.change(&by(2), |ways| assert!(ways.remove_key(&key(1).id()) && !ways.remove_key(&key(9).id()))).unwrap();
        assert!(!disk.opens(&by(1)) && disk.opens(&by(2)) && disk.opens(&opener(password("p"))));
        disk.change(&by(2), |ways| assert!(ways.remove_passwords())).unwrap();
        assert!(!disk.opens(&opener(password("p"))));
        disk.change(&by(2), |ways| {
            ways.remove_slot(1).unwrap();
            ways.add(&Recipient::key(&key(3)));
        })
        .unwrap();
        assert!(!disk.opens(&by(2)) && disk.opens(&by(3)));

        let meta = fs::metadata(disk.path("f")).unwrap();
        assert_eq!((meta.modified().unwrap(), meta.ino()), (modified, inode), "{suite:?}");
        assert!(disk.read().len() == before.len() && disk.read()[4096..] == before[4096..]);
        assert_eq!(disk.names(), ["f"]);
    }
}

#[test]
fn a_torn_header_is_repaired_wherever_it_is_torn() {
    for suite in [Suite::Aes256CtrSha3, Suite::Aes256Gcm] {
        let disk = Disk::of(suite, &[Recipient::key(&key(1))]);
        let modified = fs::metadata(disk.path("f")).unwrap().modified().unwrap();
        let old = disk.header().bytes().to_vec();
        let new = changed(&disk, &by(1), |ways| {
            ways.remove_key(&key(1).id());
            ways.add(&Recipient::key(&key(2)));
        });
        let mut finished = 0;
        for cut in (0..old.len()).step_by(37).chain([old.len()]) {
            for (first, second) in [(&new, &old), (&old, &new)] {
                disk.overwrite(&[&first[..cut], &second[cut..]].concat());
                disk.leave_side(&new, modified);
                assert!(is_unfinished(&disk.input()) && is_temporary(disk.side().file_name().unwrap()));
                let now = disk.header_bytes();
                // The removed key opens only the old header, where that is whole.
                let mut target = disk.in_place();
                let keys = opener(AtHand { keys: vec![key(1), key(2)], password: None });
                let (_, unfinished) = target.ways(&keys).unwrap();
                let is_whole = now == old || now == new;
                assert_eq!(unfinished, if is_whole { Unfinished::Discarded } else { Unfinished::Finished }, "{cut}");
                assert!(disk.header_bytes() == if now == old { old.clone() } else { new.clone() });
                finished += usize::from(!is_whole);
                assert_eq!(disk.names(), ["f"]);
                if now != old {
                    assert_eq!(fs::metadata(disk.path("f")).unwrap().modified().unwrap(), modified, "{cut}");
                    assert!(disk.opens(&by(2)) && !disk.opens(&by(1)));
                }
            }
        }
        assert!(finished > 100, "{finished}");
    }
}

#[test]
fn a_torn_header_stays_if_the_keys_at_hand_do_not_repair_it() {
    let disk = Disk::new(&[Recipient::key(&key(1))]);
    let new = changed(&disk, &by(1), |ways| ways.add(&Recipient::key(&key(2))));
    fs::write(disk.side(), &new).unwrap();
    disk.overwrite(&new[..100]);
    let torn = disk.read();
    let error = disk.in_place().ways(&by(3)).unwrap_err();
    assert!(matches!(&error, Error::Interrupted(_)) && error.class() == Class::NotAuthentic, "{error}");
    assert!(disk.read() == torn && fs::read(disk.side()).unwrap() == new);
    assert_eq!(disk.in_place().ways(&by(2)).unwrap().1, Unfinished::Finished);
    assert!(disk.opens(&by(1)) && disk.opens(&by(2)));

    // The header can be changed again in the same run, whatever the times of the file and the side file are.
    for torn in [true, false] {
        let new = changed(&disk, &by(1), |ways| {
            ways.remove_key(&key(2).id());
            ways.add(&cheap("p"));
        });
        disk.overwrite(if torn { &new[..200] } else { &new });
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        disk.leave_side(&new, modified);
        disk.change(&by(1), |ways| {
            ways.add(&Recipient::key(&key(2)));
            ways.remove_passwords();
        })
        .unwrap();
        assert!(disk.opens(&by(2)) && !disk.opens(&opener(password("p"))));
        assert_eq!(fs::metadata(disk.path("f")).unwrap().modified().unwrap(), modified);
    }
}

#[test]
fn planted_side_files_are_not_trusted() {
    let disk = Disk::new(&[Recipient::key(&key(1))]);
    // The header of the attacker's file, which has a key in common with the user's.
    disk.protect("other", Suite::default(), &[Recipient::key(&key(1)), Recipient::key(&key(66))]);
    let foreign = fs::read(disk.path("other")).unwrap()[..4096].to_vec();
    let before = disk.read();
    let torn = {
        let mut torn = before.clone();
        torn[4000..4096].fill(0);
        torn
    };
    let beside = disk.path("precious");
    let plant: [(&str, &dyn Fn()); 6] = [
        ("random bytes", &|| fs::write(disk.side(), painted(4096)).unwrap()),
        ("nothing", &|| fs::write(disk.side(), "").unwrap()),
        ("a header of another file", &|| fs::write(disk.side(), &foreign).unwrap()),
        ("bytes behind the header", &|| fs::write(disk.side(), [&before[..4096], b"x"].concat()).unwrap()),
        ("a link to a whole header", &|| symlink("precious", disk.side()).unwrap()),
        ("a pipe", &|| assert!(Command::new("mkfifo").arg(disk.side()).status().unwrap().success())),
    ];
    for (what, plant) in plant {
        fs::write(&beside, &before[..4096]).unwrap();
        // If the header in place is whole, what was planted is removed, and nothing else changes.
        fs::write(disk.path("f"), &before).unwrap();
        plant();
        assert_eq!(disk.in_place().ways(&by(1)).unwrap().1, Unfinished::Discarded, "{what}");
        assert!(disk.read() == before && fs::symlink_metadata(disk.side()).is_err(), "{what}");
        // This also holds if it is planted between reading and changing the header.
        let mut target = disk.in_place();
        let (mut ways, _) = target.ways(&by(1)).unwrap();
        ways.add(&Recipient::key(&key(2)));
        plant();
        target.write(&ways, &by(1)).unwrap();
        assert!(disk.opens(&by(2)) && fs::symlink_metadata(disk.side()).is_err(), "{what}");
        drop(target);
        // If the header in place is torn, everything stays as it is.
        fs::write(disk.path("f"), &torn).unwrap();
        plant();
        let error = disk.in_place().ways(&by(1)).unwrap_err();
        assert!(matches!(error, Error::Interrupted(_)), "{what}: {error}");
        assert!(disk.read() == torn && fs::symlink_metadata(disk.side()).is_ok(), "{what}");
        assert!(fs::read(&beside).unwrap() == before[..4096], "{what}: what the link leads to has changed");
        fs::remove_file(disk.side()).unwrap();
    }
    // A folder is in the way.
    fs::write(disk.path("f"), &before).unwrap();
    fs::create_dir(disk.side()).unwrap();
    assert_eq!(disk.in_place().ways(&by(1)).unwrap_err().class(), Class::InputOutput);
}

/// Whoever can write to the folder can copy the header into a side file, with any time.
#[cfg(unix)]
#[test]
fn a_side_file_of_others_sets_no_time() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let disk = Disk::new(&[Recipient::key(&key(1))]);
    let [modified, planted] = [1_000_000_000, 1].map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    let readable = || fs::set_permissions(disk.side(), fs::Permissions::from_mode(0o644)).unwrap();
    let linked = || fs::hard_link(disk.side(), disk.path("other name")).unwrap();
    let foreign = || chown(disk.side(), Some(65534), None).unwrap();
    let mut others: Vec<(&str, &dyn Fn())> = vec![("others can read it", &readable), ("it has two names", &linked)];
    if phalanx_system::process::geteuid().is_root() {
        others.push(("another user's", &foreign));
    } else {
        let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(!required.split([',', ' ']).any(|name| name == "root"), "PHALANX_REQUIRE names root, and this is not");
        println!("skipped: no root");
    }
    for (what, make) in others {
        File::options().write(true).open(disk.path("f")).unwrap().set_modified(modified).unwrap();
        disk.leave_side(&disk.header_bytes(), planted);
        make();
        assert_eq!(disk.in_place().ways(&by(1)).unwrap().1, Unfinished::Discarded, "{what}");
        assert_eq!(fs::metadata(disk.path("f")).unwrap().modified().unwrap(), modified, "{what}");
    }
}

#[test]
fn an_old_header_does_not_come_back() {
    let disk = Disk::new(&[Recipient::key(&key(1)), Recipient::key(&key(2))]);
    let old = disk.header_bytes();
    disk.change(&by(1), |ways| assert!(ways.remove_key(&key(2).id()))).unwrap();
    let now = disk.read();
    // The holder of the removed key plants it. Neither a key that stayed nor the removed one brings it back.
    fs::write(disk.side(), &old).unwrap();
    let error = disk.in_place().ways(&by(2)).unwrap_err();
    assert!(matches!(error, Error::Core(CoreError::NoKey { .. })), "{error}");
    assert!(disk.read() == now && disk.side().exists());
    assert_eq!(disk.in_place().ways(&by(1)).unwrap().1, Unfinished::Discarded);
    assert!(disk.read() == now && !disk.opens(&by(2)));
}

#[test]
fn only_one_run_at_a_time_changes_the_opened_file() {
    let disk = Disk::new(&[Recipient::key(&key(1))]);
    let busy = {
        let _first = disk.in_place();
        InPlace::open(&disk.input()).unwrap_err()
    };
    assert!(
        matches!(&busy, Error::Core(CoreError::Write(e)) if e.kind() == std::io::ErrorKind::ResourceBusy),
        "{busy}"
    );
    // Another file takes the name, before it is opened for writing and after.
    let input = disk.input();
    disk.protect("other", Suite::default(), &[Recipient::key(&key(1))]);
    fs::rename(disk.path("other"), disk.path("f")).unwrap();
    assert!(matches!(InPlace::open(&input), Err(Error::Core(CoreError::Changed))));
    let mut target = disk.in_place();
    let (mut ways, _) = target.ways(&by(1)).unwrap();
    ways.add(&Recipient::key(&key(2)));
    disk.protect("other", Suite::default(), &[Recipient::key(&key(1))]);
    fs::rename(disk.path("other"), disk.path("f")).unwrap();
    assert!(matches!(target.write(&ways, &by(1)), Err(Error::Core(CoreError::Changed))));
    assert_eq!(disk.names(), ["f"], "the side file is gone");
    // The side file that is there then belongs to a run which changes the other file.
    let mut target = disk.in_place();
    disk.protect("other", Suite::default(), &[Recipient::key(&key(1))]);
    fs::rename(disk.path("other"), disk.path("f")).unwrap();
    fs::write(disk.side(), disk.header_bytes()).unwrap();
    assert!(matches!(target.ways(&by(1)), Err(Error::Core(CoreError::Changed))));
    assert!(disk.side().exists());
    fs::remove_file(disk.side()).unwrap();
    drop(target);
    // Another program writes a header.
    let mut target = disk.in_place();
    let (mut ways, _) = target.ways(&by(1)).unwrap();
    ways.add(&Recipient::key(&key(2)));
    let other = changed(&disk, &by(1), |ways| ways.add(&Recipient::key(&key(3))));
    disk.overwrite(&other);
    assert!(matches!(target.write(&ways, &by(1)), Err(Error::Core(CoreError::Changed))));
    assert!(disk.header_bytes() == other);
    drop(target);
    // Nothing is written through a link.
    fs::rename(disk.path("f"), disk.path("real")).unwrap();
    symlink("real", disk.path("f")).unwrap();
    assert!(InPlace::open(&disk.input()).unwrap_err().to_string().contains("it is a link"));
}

#[test]
fn a_concurrent_reader_reads_the_old_or_the_new_header() {
    let disk = Disk::new(&[Recipient::key(&key(1))]);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The readers end, whatever happens, also a panic.
        let ends = Ends(&over);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut times = 0;
                    while !over.load(Ordering::Relaxed) {
                        let file = File::open(disk.path("f")).unwrap();
                        ProtectedFile::open(file::source(&file).unwrap(), &by(1)).unwrap();
                        times += 1;
                    }
                    times
                })
            })
            .collect();
        let changed = (0..200).try_for_each(|n| {
            let other = key(2 + n % 2);
            disk.change(&by(1), |ways| {
                ways.remove_key(&key(3 - n % 2).id());
                ways.add(&Recipient::key(&other));
            })
            .map(drop)
        });
        drop(ends);
        changed.unwrap();
        assert!(readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u32>() > 100);
    });
}

/// Says that something is over when it goes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A key that runs a function when it is asked for, which is after the header was read.
struct Meanwhile<F>(SecretKey, F);

impl<F: Fn()> KeySource for Meanwhile<F> {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        (self.1)();
        self.0.key(id)
    }

    fn password(&self) -> Result<Option<Password>> {
        Ok(None)
    }
}

#[test]
fn a_header_that_was_read_while_it_was_written_is_read_again() {
    let disk = Disk::new(&[Recipient::key(&key(1))]);
    let old = disk.header_bytes();
    let new = changed(&disk, &by(1), |ways| ways.add(&Recipient::key(&key(2))));
    // The old slots with the new tag.
    disk.overwrite(&[&old[..4064], &new[4064..]].concat());
    let torn = disk.header_bytes();
    assert!(torn != old && torn != new);
    let file = File::open(disk.path("f")).unwrap();
    let open = |write: &dyn Fn()| ProtectedFile::open(file::source(&file).unwrap(), &opener(Meanwhile(key(1), write)));
    open(&|| disk.overwrite(&new)).unwrap();
    disk.overwrite(&torn);
    let reader = Reader::open(File::open(disk.path("f")).unwrap(), &opener(Meanwhile(key(1), || disk.overwrite(&new))));
    assert_eq!(reader.unwrap().len(), disk.plain.len() as u64);
    // It is not read again without end.
    disk.overwrite(&torn);
    assert!(matches!(open(&|| ()), Err(CoreError::WrongKey)));
    let times = AtomicUsize::new(0);
    let other = |n: usize| [&torn[..4000], &[n as u8 + 1; 10], &torn[4010..]].concat();
    let again = open(&|| disk.overwrite(&other(times.fetch_add(1, Ordering::Relaxed))));
    assert!(matches!(again, Err(CoreError::WrongKey)) && times.into_inner() < 10);
}
