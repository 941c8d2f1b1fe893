//! Reading protected files into a device's memory, on every device: the bytes are those that were protected.

use crate::common::painted;
use crate::devices::faulty::{How, NEVER, Script};
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, ReadAt, Reader, Recipient, Roster, SecretKey, Sink, Source, Suite,
};
use phalanx_gpu::{Buffer, Device, DeviceReader, Reason};
use phalanx_kernels::keccak;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod plain_c {
    #[test]
    fn reader() {
        crate::devices::plain_c().iter().for_each(super::everything);
    }
}

mod opencl {
    #[test]
    fn reader() {
        crate::devices::opencl().iter().for_each(super::everything);
    }
}

mod cuda {
    #[test]
    fn reader() {
        crate::devices::cuda().iter().for_each(super::everything);
    }
}

fn everything(device: &Device) {
    gives_ranges(device);
    names_what_is_altered(device);
    refuses_other_suites(device);
}

fn key() -> SecretKey {
    SecretKey::from_slice(&[7; 32]).unwrap()
}

fn protected(plain: &[u8], suite: Suite, chunk: u64) -> Vec<u8> {
    let new = NewFile::with_chunk_size(suite, ChunkSize::new(chunk).unwrap(), &[Recipient::key(&key())]).unwrap();
    let mut stored = Vec::new();
    new.protect(&Roster::cpu(), Source::stream(plain), Sink::stream(&mut stored), &()).unwrap();
    stored
}

fn open<S: ReadAt + Send + Sync + 'static>(device: &Device, source: S) -> phalanx_gpu::Result<DeviceReader<S>> {
    let file = Reader::open(source, &Opener::new(key(), KdfLimit::default())).unwrap();
    DeviceReader::new(file, device.clone(), keccak::Level::detect())
}

fn bytes_of(device: &Device, buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    device.stream().unwrap().download(buffer, 0, &mut bytes).unwrap();
    bytes
}

/// All ranges between places of interest, of several suites and sizes of chunks.
fn gives_ranges(device: &Device) {
    for (suite, chunk, len) in [
        (Suite::Aes256CtrSha3, 4096, 3 * 4096 + 77),
        (Suite::Aes128CtrSha3, 65_536, 65_536),
        (Suite::Aes256CtrTurboShake, 4096, 1),
        (Suite::Aes256CtrTurboShake, 1 << 20, 0),
    ] {
        let plain = painted(len);
        let reader = open(device, protected(&plain, suite, chunk)).unwrap();
        let places = [0, 1, 15, 4095, 4096, 4100, 2 * 4096, len.saturating_sub(1), len, len + 9, usize::MAX];
        for from in places {
            for to in places {
                let read = bytes_of(device, &reader.read(from as u64..to as u64).unwrap());
                let want = plain.get(from..to.min(len)).unwrap_or_default();
                assert!(read[..want.len()] == *want, "{from}..{to} of {len}");
                assert!(read[want.len()..].iter().all(|byte| *byte == 0), "behind {from}..{to} of {len}");
                assert!(read.len() - want.len() <= 16);
            }
        }
    }
    // Several windows and lanes, whose ends are no multiples of blocks in the range.
    let plain = painted(35 << 20);
    let reader = open(device, protected(&plain, Suite::Aes256CtrTurboShake, 1 << 20)).unwrap();
    for from in [0, 3, (16 << 20) - 5] {
        let read = bytes_of(device, &reader.read(from as u64..u64::MAX).unwrap());
        assert!(read[..plain.len() - from] == plain[from..], "from {from}");
    }
}

/// A wrong byte anywhere names the first chunk that has one, and other ranges can still be read.
fn names_what_is_altered(device: &Device) {
    let plain = painted(34 << 20);
    let mut stored = protected(&plain, Suite::Aes256CtrTurboShake, 1 << 20);
    let record = (1 << 20) + Suite::Aes256CtrTurboShake.overhead();
    let last = stored.len() - record;
    for place in [last - record, last - 20 * record] {
        stored[place + 100] ^= 2;
    }
    let reader = open(device, stored).unwrap();
    for _ in 0..3 {
        let error = reader.read(0..u64::MAX).unwrap_err();
        assert!(matches!(error, Error::Altered { chunk: 13, last: false }), "{error}");
    }
    let read = bytes_of(device, &reader.read(5..13 << 20).unwrap());
    assert!(read[..(13 << 20) - 5] == plain[5..13 << 20]);
    let error = reader.read((33 << 20) - 1..(33 << 20) + 1).unwrap_err();
    assert!(matches!(error, Error::Altered { chunk: 32, last: false }), "{error}");
}

fn refuses_other_suites(device: &Device) {
    let error = open(device, protected(b"a record", Suite::Aes256Gcm, 4096)).unwrap_err();
    assert!(matches!(&error.reason, Reason::Refused(why) if why == "it has no AES-256-GCM"), "{error}");
}

/// A source that changes after it was opened.
struct Shrinks(Mutex<Vec<u8>>);

impl ReadAt for Shrinks {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.lock().unwrap().read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }
}

#[test]
fn a_source_that_becomes_shorter_is_an_error() {
    let device = Script::new(How::Once).open().unwrap();
    let reader = open(&device, Shrinks(Mutex::new(protected(&painted(9000), Suite::default(), 4096)))).unwrap();
    assert_eq!(bytes_of(&device, &reader.read(0..9000).unwrap())[..9000], painted(9000));
    reader.file().source().0.lock().unwrap().truncate(6000);
    assert!(matches!(reader.read(0..9000).unwrap_err(), Error::Changed));
    assert_eq!(bytes_of(&device, &reader.read(0..100).unwrap())[..100], painted(9000)[..100]);
}

/// A device that fails at each call in turn: one line, and the file can be read when the device works again.
#[test]
fn a_failure_at_any_step_is_one_line() {
    let plain = painted(9000);
    let stored = protected(&plain, Suite::default(), 4096);
    for how in [How::Once, How::OutOfMemory, How::Lost, How::Hangs] {
        for step in 0.. {
            let script = Script::new(how);
            let device = script.open().unwrap();
            device.set_time_limit(Duration::from_millis(1));
            let reader = open(&device, stored.clone()).unwrap();
            // A kernel whose self-test fails is not used again, so they are tested before.
            drop(open(&device, stored.clone()).unwrap().read(0..9000).unwrap());
            script.fails.store(step, Ordering::SeqCst);
            let read = reader.read(10..9000);
            let has_failed = script.has_failed();
            script.fails.store(NEVER, Ordering::SeqCst);
            match read {
                Ok(buffer) if !device.is_dead() => assert!(bytes_of(&device, &buffer)[..8990] == plain[10..]),
                Ok(_) => assert!(has_failed, "{how:?} {step}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.starts_with("engine gpu failed: faulty: ") && !text.contains('\n'), "{text}");
                }
            }
            if !device.is_dead() {
                assert!(bytes_of(&device, &reader.read(10..9000).unwrap())[..8990] == plain[10..], "{how:?} {step}");
            }
            script.wake_up();
            drop((reader, device));
            assert_eq!(script.mistakes(), 0, "{how:?} {step}: calls of a device that was given up");
            assert!(has_failed || step >= 20, "only {step} steps");
            if !has_failed {
                break;
            }
        }
    }
}
