//! Protecting a file again, under a new file key.

use crate::common::AtHand;
use crate::rekey::{CHUNK, Disk, by, cheap, key, opener, password};
use phalanx_core::tree::{Contents, Recorder};
use phalanx_core::{ChunkSize, Error, NewFile, ProtectedFile, Recipient, Roster, Sink, Suite, Ways};
use phalanx_host::file;
use std::fs::{self, File};

#[test]
fn the_old_file_key_opens_nothing_after_protecting_again() {
    for &suite in Suite::ALL {
        let disk = Disk::of(suite, &[Recipient::key(&key(1)), cheap("p"), Recipient::key(&key(2))]);
        let old = disk.header_bytes();
        let keys = opener(AtHand { keys: vec![key(1)], password: Some(password("p")) });
        let mut ways = Ways::open(disk.header(), &keys).unwrap();
        // The second key is not at hand.
        assert!(matches!(ways.recipients(&keys), Err(Error::NotAtHand(3))));
        ways.remove_key(&key(2).id());
        ways.add(&Recipient::key(&key(3)));
        let recipients = ways.recipients(&keys).unwrap();
        // The parameters of Argon2 are not those of the file.
        let kdfs: Vec<_> = recipients
            .iter()
            .filter_map(|r| if let Recipient::Password { kdf, .. } = r { Some(kdf) } else { None })
            .collect();
        assert!(matches!(kdfs[..], [kdf] if (kdf.memory_kib, kdf.passes, kdf.lanes) == (65536, 3, 4)));

        let file = File::open(disk.path("f")).unwrap();
        let protected = ProtectedFile::open(file::source(&file).unwrap(), &keys).unwrap();
        assert_eq!(protected.chunk_size(), ChunkSize::new(CHUNK as u64).unwrap());
        let new = NewFile::with_chunk_size(suite, protected.chunk_size(), &recipients).unwrap();
        let sink = File::create(disk.path("new")).unwrap();
        let (opened, sealed) = (Recorder::new(&()), Recorder::new(&()));
        let out = Sink::ranged(file::Disk::new(&sink));
        let len = protected.protect_again(&Roster::cpu(), new, out, [&opened, &sealed]).unwrap();
        assert_eq!(len, disk.plain.len() as u64);
        assert_eq!(opened.contents().unwrap(), Contents::read(&file).unwrap());
        assert_eq!(sealed.contents().unwrap(), Contents::read(&File::open(disk.path("new")).unwrap()).unwrap());
        fs::rename(disk.path("new"), disk.path("f")).unwrap();
        assert!(disk.opens(&by(1)) && disk.opens(&by(3)) && !disk.opens(&by(2)) && disk.opens(&opener(password("p"))));
        disk.overwrite(&old);
        assert!(!disk.opens(&by(1)) && !disk.opens(&by(2)));
    }
}

#[test]
fn damaged_files_are_not_protected_again() {
    let disk = Disk::new(&[Recipient::key(&key(1))]);
    let whole = disk.read();
    let again = || {
        let file = File::open(disk.path("f")).unwrap();
        let protected = ProtectedFile::open(file::source(&file).unwrap(), &by(1)).unwrap();
        let new = NewFile::new(Suite::default(), &[Recipient::key(&key(1))]).unwrap();
        let sink = Sink::Stream(Box::new(std::io::sink()));
        protected.protect_again(&Roster::cpu(), new, sink, [&(), &()])
    };
    again().unwrap();
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(disk.path("f"), damaged).unwrap();
    assert!(matches!(again(), Err(Error::Altered { .. })));
    fs::write(disk.path("f"), &whole[..whole.len() - 100 - 48]).unwrap();
    assert!(matches!(again(), Err(Error::Truncated(_))));
    // The sink accepts nothing.
    fs::write(disk.path("f"), &whole).unwrap();
    let file = File::open(disk.path("f")).unwrap();
    let protected = ProtectedFile::open(file::source(&file).unwrap(), &by(1)).unwrap();
    let new = NewFile::new(Suite::default(), &[Recipient::key(&key(1))]).unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let sink = Sink::Stream(Box::new(full));
    assert!(matches!(protected.protect_again(&Roster::cpu(), new, sink, [&(), &()]), Err(Error::Write(_))));
}
