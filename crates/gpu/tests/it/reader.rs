//! Reading protected files into a device's memory, on every device: the bytes are those that were protected.

use crate::common::painted;
use crate::devices::faulty::{How, NEVER, Script};
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, ReadAt, Reader, Recipient, Roster, SecretKey, Sink, Source, Suite,
};
use phalanx_gpu::{Buffer, Device, DeviceReader, Module, Reason};
use phalanx_kernels::keccak;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
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

/// With too little memory for all lanes, fewer do the work. A lane that is not whole is not begun.
#[test]
fn with_little_memory_fewer_lanes_do_the_work() {
    let script = Script::new(How::Once);
    let device = script.open().unwrap();
    let plain = painted(40 << 20);
    let stored = protected(&plain, Suite::Aes256CtrTurboShake, 1 << 16);
    // The memory of one lane, without the place for what is read.
    let reader = open(&device, stored.clone()).unwrap();
    let before = script.room.load(Ordering::SeqCst);
    drop(reader.read(0..16 << 20).unwrap());
    let lane = before - script.room.load(Ordering::SeqCst);
    assert!(lane > 16 << 20, "{lane}");
    drop(reader);
    for (more, is_enough) in
        [(0, true), (lane - 16, true), (lane, true), (16 << 20, true), ((16 << 20) + 2048, true), (0, false)]
    {
        let room = plain.len() + lane + more - if is_enough { 0 } else { 16 };
        script.room.store(room, Ordering::SeqCst);
        let reader = open(&device, stored.clone()).unwrap();
        let read = reader.read(0..u64::MAX);
        script.room.fetch_add(NEVER, Ordering::SeqCst);
        match read {
            Ok(read) => assert!(is_enough && bytes_of(&device, &read) == plain, "{more}"),
            Err(error) => assert!(!is_enough && error.to_string().contains("out of device memory"), "{more}: {error}"),
        }
        drop(reader);
        assert_eq!(script.room.load(Ordering::SeqCst), room + NEVER, "{more}: memory was not freed");
    }
}

/// A self-test for which there was too little memory says nothing about the kernels, and is done again.
#[test]
fn a_self_test_without_memory_is_done_again() {
    let script = Script::new(How::Once);
    let device = script.open().unwrap();
    script.room.store(16, Ordering::SeqCst);
    // Those that were tested when the device was opened have passed.
    let is_full = |module: &Module| device.test(*module).is_err_and(|e| matches!(e.reason, Reason::OutOfMemory(_)));
    assert!(Module::ALL.iter().filter(|module| is_full(module)).count() > 0);
    script.room.store(NEVER, Ordering::SeqCst);
    for module in Module::ALL {
        device.test(module).unwrap();
    }
}

/// A source that counts the reads in it, and lets them go on when there are as many as were waited for.
struct Meeting {
    stored: Vec<u8>,
    inside: Mutex<usize>,
    most: Mutex<usize>,
    changed: Condvar,
    is_open: AtomicBool,
}

impl ReadAt for Meeting {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut inside = self.inside.lock().unwrap();
        *inside += 1;
        let mut most = self.most.lock().unwrap();
        *most = (*most).max(*inside);
        drop(most);
        self.changed.notify_all();
        let mut inside = self.changed.wait_while(inside, |_| !self.is_open.load(Ordering::SeqCst)).unwrap();
        *inside -= 1;
        drop(inside);
        self.stored.read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.stored.len() as u64)
    }
}

/// However many threads read, a reader has two lanes on such a device. A short range does not take the memory of a window.
#[test]
fn threads_share_the_lanes() {
    const THREADS: usize = 12;
    let script = Script::new(How::Once);
    let device = script.open().unwrap();
    let plain = painted(20 << 20);
    let source = Meeting {
        stored: protected(&plain, Suite::Aes256CtrTurboShake, 4096),
        inside: Mutex::new(0),
        most: Mutex::new(0),
        changed: Condvar::new(),
        is_open: AtomicBool::new(true),
    };
    let reader = open(&device, source).unwrap();
    let room = script.room.load(Ordering::SeqCst);
    drop(reader.read(5000..5001).unwrap());
    let lane = room - script.room.load(Ordering::SeqCst);
    assert!(lane < 64 << 10, "{lane} bytes for a short range");
    let one = script.allocations.load(Ordering::SeqCst);

    let source = reader.file().source();
    *source.most.lock().unwrap() = 0;
    source.is_open.store(false, Ordering::SeqCst);
    let (begun, plain, reader) = (AtomicUsize::new(0), &plain, &reader);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (begun, device) = (&begun, &device);
                scope.spawn(move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    let from = thread * 5000;
                    let read = reader.read(from as u64..from as u64 + 4000).unwrap();
                    assert!(bytes_of(device, &read)[..4000] == plain[from..from + 4000]);
                })
            })
            .collect();
        while begun.load(Ordering::SeqCst) < THREADS {
            std::thread::yield_now();
        }
        drop(source.changed.wait_while(source.inside.lock().unwrap(), |inside| *inside < 2).unwrap());
        source.is_open.store(true, Ordering::SeqCst);
        source.changed.notify_all();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(*source.most.lock().unwrap(), 2);
    assert_eq!(script.allocations.load(Ordering::SeqCst) - one, one, "of two lanes, which are kept");
    // Lanes that are too short make room for longer ones.
    assert!(bytes_of(&device, &reader.read(3..u64::MAX).unwrap())[..plain.len() - 3] == plain[3..]);
    assert_eq!(script.allocations.load(Ordering::SeqCst), 2 * one);
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
