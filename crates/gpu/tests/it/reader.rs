//! Reading protected files into a device's memory, on every device: the bytes are those that were protected.

use crate::common::painted;
use crate::devices::faulty::{How, NEVER, Script};
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, ReadAt, Reader, Recipient, Roster, SecretKey, Sink, Source, Suite,
};
use phalanx_gpu::{Api, Buffer, Device, DeviceReader, Module, Reason, Target};
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
    fills_what_exists(device);
    wipes_windows_before_the_wrong_one(device);
    fills_memory_of_others(device);
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

/// What memory holds before it is read into.
const BEFORE: u8 = 0xd3;

/// Reads into the first `len` bytes of memory that has some more, and returns all of it.
fn read_into<S: ReadAt + Send + Sync + 'static>(
    reader: &DeviceReader<S>,
    range: (u64, u64),
    len: usize,
) -> (phalanx_core::Result<usize>, Vec<u8>) {
    let device = reader.device();
    let buffer = device.stream().unwrap().buffer_of(&vec![BEFORE; len + 21]).unwrap();
    let done = reader.read_into(range.0..range.1, &mut buffer.target());
    let mut bytes = bytes_of(device, &buffer);
    bytes.truncate(len + 21);
    (done, bytes)
}

/// The range is read to the beginning of the memory, and the bytes after it do not change. If a tag is wrong, the whole range becomes zeros.
fn fills_what_exists(device: &Device) {
    let (plain, end) = (painted(3 * 4096 + 77), 3 * 4096 + 77);
    let mut stored = protected(&plain, Suite::default(), 4096);
    let reader = open(device, stored.clone()).unwrap();
    for (from, to) in
        [(0, end), (1, 2), (15, 4100), (4095, 2 * 4096), (9, 9), (end - 1, end + 9), (end, end + 1), (50, 3)]
    {
        let want = plain.get(from..to.min(end)).unwrap_or_default();
        let (done, bytes) = read_into(&reader, (from as u64, to as u64), want.len());
        assert_eq!(done.unwrap(), want.len());
        assert!(bytes[..want.len()] == *want && bytes[want.len()..].iter().all(|byte| *byte == BEFORE), "{from}..{to}");
    }
    // Too short, by a byte beyond the block that the length is rounded up to: nothing is begun.
    let short = device.stream().unwrap().buffer_of(&[BEFORE; 32]).unwrap();
    let error = reader.read_into(0..33, &mut short.target()).unwrap_err();
    assert!(
        matches!(&error, Error::Fault(fault) if fault.reason.contains("bytes 0..33 of a buffer of 32 bytes")),
        "{error}"
    );
    assert!(bytes_of(device, &short) == [BEFORE; 32]);
    if let Some(other) = crate::devices::plain_c().filter(|_| device.info().name != "plain C") {
        let there = other.stream().unwrap().buffer_of(&[BEFORE; 32]).unwrap();
        let error = reader.read_into(0..32, &mut there.target()).unwrap_err();
        assert!(error.to_string().contains("another device"), "{error}");
        assert!(bytes_of(&other, &there) == [BEFORE; 32]);
    }

    let place = stored.len() - 4196;
    stored[place] ^= 1;
    let reader = open(device, stored).unwrap();
    let (done, bytes) = read_into(&reader, (3, end as u64), end - 3);
    assert!(matches!(done.unwrap_err(), Error::Altered { chunk: 2, last: false }));
    assert!(bytes[..end - 3].iter().all(|byte| *byte == 0) && bytes[end - 3..].iter().all(|byte| *byte == BEFORE));
    let (done, bytes) = read_into(&reader, (3, 8192), 8189);
    assert!(done.unwrap() == 8189 && bytes[..8189] == plain[3..8192]);
}

/// Windows before the wrong one were copied there already.
fn wipes_windows_before_the_wrong_one(device: &Device) {
    let (plain, len) = (painted(18 << 20), (18 << 20) - 5);
    let mut stored = protected(&plain, Suite::Aes256CtrTurboShake, 1 << 20);
    let (done, bytes) = read_into(&open(device, stored.clone()).unwrap(), (5, u64::MAX), len);
    assert!(done.unwrap() == len && bytes[..len] == plain[5..] && bytes[len..].iter().all(|byte| *byte == BEFORE));
    let place = stored.len() - (3 << 20) / 2;
    stored[place] ^= 4;
    let (done, bytes) = read_into(&open(device, stored).unwrap(), (5, u64::MAX), len);
    let error = done.unwrap_err();
    assert!(matches!(error, Error::Altered { chunk: 16, last: false }), "{error}");
    assert!(bytes[..len].iter().all(|byte| *byte == 0) && bytes[len..].iter().all(|byte| *byte == BEFORE));
}

/// Memory by its address, from any place on, as other libraries give it.
fn fills_memory_of_others(device: &Device) {
    if device.info().api != Api::Cuda {
        // SAFETY: nothing is at that address, and nothing is taken.
        let error = unsafe { device.foreign_target(16, 16) }.unwrap_err();
        assert!(matches!(&error.reason, Reason::Refused(why) if why.contains("not taken here")), "{error}");
        return;
    }
    let plain = painted(9000);
    let mut stored = protected(&plain, Suite::default(), 4096);
    let reader = open(device, stored.clone()).unwrap();
    let there = device.stream().unwrap().buffer_of(&[BEFORE; 9100]).unwrap();
    let shared = there.share().unwrap();
    // SAFETY: the memory is the buffer's, which lives, and which nothing else uses.
    let mut target: Target = unsafe { device.foreign_target(shared.address() + 7, 9001) }.unwrap();
    assert_eq!((target.len(), target.is_empty(), format!("{target:?}")), (9001, false, "Target(9001 bytes)".into()));
    assert_eq!(reader.read_into(1..u64::MAX, &mut target).unwrap(), 8999);
    let mut want = vec![BEFORE; there.len()];
    want[7..7 + 8999].copy_from_slice(&plain[1..]);
    let mut now = bytes_of(device, &there);
    now[9100..].fill(BEFORE);
    assert!(now == want);
    assert!(reader.read_into(0..9000, &mut there.target()).unwrap() == 9000);
    let place = stored.len() - 2000;
    stored[place] ^= 1;
    let error = open(device, stored).unwrap().read_into(1..u64::MAX, &mut target).unwrap_err();
    assert!(matches!(error, Error::Altered { chunk: 1, last: false }), "{error}");
    let now = bytes_of(device, &there);
    assert!(
        now[..7] == plain[..7] && now[7..7 + 8999].iter().all(|byte| *byte == 0) && now[9006..9100] == want[9006..9100]
    );
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

/// A device that fails at each call in turn: a given place has all of the range, nothing of it, or what was there before.
#[test]
fn a_failure_at_any_step_leaves_no_part() {
    let plain = painted(9000);
    let stored = protected(&plain, Suite::default(), 4096);
    let mut wiped = 0;
    for step in 0.. {
        let script = Script::new(How::Once);
        let device = script.open().unwrap();
        let reader = open(&device, stored.clone()).unwrap();
        drop(reader.read(0..9000).unwrap());
        let place = device.stream().unwrap().buffer_of(&[BEFORE; 9010]).unwrap();
        script.fails.store(step, Ordering::SeqCst);
        let done = reader.read_into(10..9000, &mut place.target());
        let has_failed = script.has_failed();
        script.fails.store(NEVER, Ordering::SeqCst);
        let bytes = bytes_of(&device, &place);
        assert!(bytes[8990..9010].iter().all(|byte| *byte == BEFORE), "{step}");
        match done {
            Ok(len) => assert!(len == 8990 && bytes[..8990] == plain[10..], "{step}"),
            Err(_) if bytes[..8990].iter().all(|byte| *byte == 0) => wiped += 1,
            Err(error) => assert!(step == 0 && bytes[..8990].iter().all(|byte| *byte == BEFORE), "{step}: {error}"),
        }
        assert!(has_failed || step >= 10, "only {step} steps");
        if !has_failed {
            break;
        }
    }
    assert!(wiped >= 10, "{wiped}");
}
