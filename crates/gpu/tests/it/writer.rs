//! Protecting what lies in a device's memory, on every device: the file is the usual one.

use crate::common::{painted, sweep_by};
use crate::devices;
use crate::devices::faulty::{How, NEVER, Script};
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, ProtectedFile, Recipient, Result, Roster, SecretKey, Sink, Source,
    Suite,
};
use phalanx_gpu::{Api, Buffer, Device, DeviceWriter, Reason};
use phalanx_kernels::keccak;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

mod plain_c {
    #[test]
    fn writer() {
        crate::devices::plain_c().iter().for_each(super::everything);
    }
}

mod opencl {
    #[test]
    fn writer() {
        crate::devices::opencl().iter().for_each(super::everything);
    }
}

mod cuda {
    #[test]
    fn writer() {
        crate::devices::cuda().iter().for_each(super::everything);
    }
}

fn everything(device: &Device) {
    makes_the_usual_file(device);
    goes_through_several_windows(device);
    refuses(device);
    if device.info().api == Api::Cuda {
        takes_memory_of_others(device);
    }
}

fn key() -> SecretKey {
    SecretKey::from_slice(&[7; 32]).unwrap()
}

fn new(suite: Suite, chunk: u64) -> NewFile {
    NewFile::with_chunk_size(suite, ChunkSize::new(chunk).unwrap(), &[Recipient::key(&key())]).unwrap()
}

fn writer<W: Write>(device: &Device, suite: Suite, chunk: u64, output: W) -> Result<DeviceWriter<W>> {
    DeviceWriter::new(new(suite, chunk), output, device.clone(), keccak::Level::detect())
}

/// What the CPU opens.
fn open(stored: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    let protected = ProtectedFile::open(Source::stream(stored), &Opener::new(key(), KdfLimit::default()))?;
    protected.unprotect(&Roster::cpu(), Sink::stream(&mut plain), &())?;
    Ok(plain)
}

fn memory(device: &Device, bytes: &[u8]) -> Buffer {
    device.stream().unwrap().buffer_of(bytes).unwrap()
}

fn bytes_of(device: &Device, buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    device.stream().unwrap().download(buffer, 0, &mut bytes).unwrap();
    bytes
}

/// Pieces of all lengths, from the device and from the host in turn, at places that are no multiples of anything.
fn makes_the_usual_file(device: &Device) {
    for (suite, chunk, lengths) in [
        (Suite::Aes256CtrSha3, 4096, &[0, 1, 4096, 3 * 4096 + 77][..]),
        (Suite::Aes128CtrSha3, 65_536, &[65_536, 65_537]),
        (Suite::Aes256CtrTurboShake, 1 << 20, &[0, 70_001]),
    ] {
        for &len in lengths {
            let plain = painted(len);
            let there = memory(device, &plain);
            for piece in [1000, 4096, 1 << 20] {
                let mut stored = Vec::new();
                let mut writer = writer(device, suite, chunk, &mut stored).unwrap();
                for (i, from) in (0..len).step_by(piece).enumerate() {
                    let range = from..(from + piece).min(len);
                    match i % 3 {
                        2 => writer.write_host(&plain[range]).unwrap(),
                        _ => writer.write(&there, range).unwrap(),
                    }
                }
                writer.write(&there, 0..0).unwrap();
                assert_eq!(writer.finish().unwrap(), len as u64);
                assert!(open(&stored).unwrap() == plain, "{len} in pieces of {piece}");
                // As long as that of the CPU's writer, its header included.
                let mut same = Vec::new();
                let mut other = new(suite, chunk).writer(Roster::cpu().into(), &mut same).unwrap();
                other.write_all(&plain).unwrap();
                other.finish().unwrap();
                assert_eq!(stored.len(), same.len());
            }
            assert!(bytes_of(device, &there)[..len] == plain, "what is written does not change");
        }
    }
}

/// More windows than there are lanes. The memory may change as soon as a call has returned.
fn goes_through_several_windows(device: &Device) {
    for (chunk, len) in [(1 << 20, (33 << 20) + 5), (16 << 20, (16 << 20) + 1)] {
        let plain = painted(len);
        let mut there = memory(device, &plain[..10 << 20]);
        let mut stored = Vec::new();
        let mut writer = writer(device, Suite::Aes256CtrTurboShake, chunk, &mut stored).unwrap();
        for part in plain.chunks(10 << 20) {
            device.stream().unwrap().upload(&mut there, 0, part).unwrap();
            writer.write(&there, 0..part.len()).unwrap();
        }
        writer.finish().unwrap();
        assert!(open(&stored).unwrap() == plain, "chunks of {chunk}");
    }
}

fn refuses(device: &Device) {
    let error = writer(device, Suite::Aes256Gcm, 4096, Vec::new()).unwrap_err();
    assert!(error.to_string().ends_with("it has no AES-256-GCM"), "{error}");
    let there = memory(device, &[1; 64]);
    for range in [0..65, 64..65, usize::MAX - 1..usize::MAX] {
        let mut writer = writer(device, Suite::default(), 4096, Vec::new()).unwrap();
        let error = writer.write(&there, range.clone()).unwrap_err().to_string();
        assert!(error.contains("of a buffer of 64 bytes") && !error.contains('\n'), "{range:?}: {error}");
        // A part may have been taken: the file is given up.
        assert!(writer.write(&there, 0..1).unwrap_err().to_string().contains("an earlier write failed"));
        assert!(writer.finish().unwrap_err().to_string().contains("an earlier write failed"));
    }
    if let Some(other) = devices::plain_c().filter(|_| device.info().name != "plain C") {
        let mut writer = writer(device, Suite::default(), 4096, Vec::new()).unwrap();
        let error = writer.write(&memory(&other, &[1; 64]), 0..64).unwrap_err();
        assert!(error.to_string().contains("another device"), "{error}");
    }
    if device.info().api != Api::Cuda {
        // SAFETY: nothing is at that address, and nothing is taken.
        let error = unsafe { device.foreign(16, 16) }.unwrap_err();
        assert!(matches!(&error.reason, Reason::Refused(why) if why.contains("not taken here")), "{error}");
        assert!(matches!(device.gate().unwrap_err().reason, Reason::Refused(_)));
    }
}

/// Memory by its address, as other libraries give it.
fn takes_memory_of_others(device: &Device) {
    let plain = painted(9001);
    let there = memory(device, &plain);
    let shared = there.share().unwrap();
    let mut stored = Vec::new();
    let mut writer = writer(device, Suite::default(), 4096, &mut stored).unwrap();
    let gate = device.gate().unwrap();
    assert_ne!(gate.stream(), 0);
    gate.wait().unwrap();
    for (from, len) in [(0, 3), (3, 5000), (5003, 3998)] {
        // SAFETY: the memory is the buffer's, which lives and is not written to.
        let foreign = unsafe { device.foreign(shared.address() + from, len) }.unwrap();
        assert_eq!((foreign.len(), foreign.is_empty()), (len, false));
        writer.write_foreign(&foreign).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), 9001);
    assert!(open(&stored).unwrap() == plain);
    assert!(bytes_of(device, &there)[..9001] == plain, "memory of others is neither wiped nor freed");
    let pinned = device.pinned(64).unwrap();
    let of_host = pinned.as_ptr() as u64;
    for (address, len, why) in [
        (of_host, 16, "is the host's"),
        (shared.address() - 1, 2, "is not of a GPU, or was freed"),
        (shared.address(), (1 << 30) + there.len(), "is not of a GPU, or was freed"),
        (0, 1, "is not of a GPU, or was freed"),
        (u64::MAX, 2, "2 bytes at"),
        (shared.address(), 0, "0 bytes at"),
    ] {
        // SAFETY: it is refused.
        let error = unsafe { device.foreign(address, len) }.unwrap_err();
        assert!(matches!(&error.reason, Reason::Refused(text) if text.contains(why)), "{address:#x} {len}: {error}");
    }
}

/// An output that others look at, and that fails when it is full.
#[derive(Clone)]
struct Seen(Arc<Mutex<Vec<u8>>>, usize);

impl Write for Seen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stored = self.0.lock().unwrap();
        if stored.len() + bytes.len() > self.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        stored.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A full output ends the file, and the memory is freed.
#[test]
fn a_full_output_gives_the_file_up() {
    let script = Script::new(How::Once);
    let device = script.open().unwrap();
    let before = script.allocations.load(Ordering::SeqCst);
    let there = memory(&device, &painted(20 << 20));
    let output = Seen(Arc::default(), 17 << 20);
    let mut writer = writer(&device, Suite::Aes256CtrTurboShake, 1 << 20, output.clone()).unwrap();
    let mut error = None;
    for _ in 0..4 {
        error = error.or(writer.write(&there, 0..20 << 20).err());
    }
    let error = error.unwrap();
    assert!(matches!(&error, Error::Write(e) if e.kind() == io::ErrorKind::StorageFull), "{error}");
    assert!(writer.finish().unwrap_err().to_string().contains("an earlier write failed"));
    assert!(open(&output.0.lock().unwrap()).is_err());
    drop(there);
    assert_eq!(script.allocations.load(Ordering::SeqCst), before);
}

/// Files whose memory was given back leave nothing behind, and one that is dropped in the middle neither.
#[test]
fn memory_is_given_back() {
    let script = Script::new(How::Once);
    let device = script.open().unwrap();
    let there = memory(&device, &painted(40 << 20));
    let before = script.allocations.load(Ordering::SeqCst);
    for is_finished in [true, false] {
        let mut writer = writer(&device, Suite::Aes256CtrTurboShake, 1 << 20, io::sink()).unwrap();
        writer.write(&there, 0..40 << 20).unwrap();
        // Two lanes are all that such a device gets.
        let taken = script.allocations.load(Ordering::SeqCst) - before;
        if is_finished {
            writer.finish().unwrap();
        } else {
            drop(writer);
        }
        assert_eq!(script.allocations.load(Ordering::SeqCst), before, "of {taken}");
    }
}

/// With too little memory for more lanes, one does the work. Without the memory for that one, nothing is begun.
#[test]
fn with_little_memory_fewer_lanes_do_the_work() {
    let script = Script::new(How::Once);
    let device = script.open().unwrap();
    let plain = painted(40 << 20);
    let there = memory(&device, &plain);
    let before = script.room.load(Ordering::SeqCst);
    let new = || writer(&device, Suite::Aes256CtrTurboShake, 1 << 20, Seen(Arc::default(), NEVER));
    // All kernels are tested.
    let mut first = new().unwrap();
    first.write(&there, 0..17 << 20).unwrap();
    first.finish().unwrap();
    let first = new().unwrap();
    let lane = before - script.room.load(Ordering::SeqCst);
    drop(first);
    for more in [0, 16, lane - 16, lane] {
        script.room.store(lane + more, Ordering::SeqCst);
        let output = Seen(Arc::default(), NEVER);
        let mut writer = writer(&device, Suite::Aes256CtrTurboShake, 1 << 20, output.clone()).unwrap();
        writer.write(&there, 0..plain.len()).unwrap();
        writer.finish().unwrap();
        assert!(open(&output.0.lock().unwrap()).unwrap() == plain, "{more}");
        assert_eq!(script.room.load(Ordering::SeqCst), lane + more, "{more}: memory was not freed");
    }
    script.room.store(lane - 16, Ordering::SeqCst);
    assert!(new().unwrap_err().to_string().contains("out of device memory"));
}

/// A device that fails at each call in turn: one line, and what is stored is no file, or a whole one.
#[test]
fn a_failure_at_any_step_is_one_line() {
    let plain = painted(9000);
    for (how, part) in [(How::Once, 2), (How::OutOfMemory, 5), (How::Lost, 3), (How::Hangs, 3)] {
        for step in (0..).step_by(sweep_by(1, part)) {
            let script = Script::new(how);
            let device = script.open().unwrap();
            device.set_time_limit(Duration::from_millis(1));
            let there = memory(&device, &plain);
            // A kernel whose self-test fails is not used again, so they are tested before.
            let mut first = writer(&device, Suite::default(), 4096, io::sink()).unwrap();
            first.write(&there, 0..9000).unwrap();
            first.finish().unwrap();
            script.fails.store(step, Ordering::SeqCst);
            let output = Seen(Arc::default(), NEVER);
            let work = || -> Result<u64> {
                let mut writer = writer(&device, Suite::default(), 4096, output.clone())?;
                writer.write(&there, 0..5000)?;
                writer.write_host(&plain[5000..5010])?;
                writer.write(&there, 5010..9000)?;
                writer.finish()
            };
            let done = work();
            let has_failed = script.has_failed();
            script.fails.store(NEVER, Ordering::SeqCst);
            let stored = output.0.lock().unwrap().clone();
            match done {
                Ok(len) => assert!(len == 9000 && open(&stored).unwrap() == plain, "{how:?} {step}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.starts_with("engine gpu failed: faulty: ") && !text.contains('\n'), "{text}");
                    assert!(open(&stored).is_err(), "{how:?} {step}: an error, and a whole file");
                }
            }
            script.wake_up();
            drop((there, device));
            assert_eq!(script.mistakes(), 0, "{how:?} {step}: calls of a device that was given up");
            assert!(has_failed || step >= 20, "only {step} steps");
            if !has_failed {
                break;
            }
        }
    }
}

/// The plaintext that gathered, and the keys, are wiped when a window is sealed, and when the writer is dropped before.
#[test]
fn no_window_keeps_plaintext() {
    use crate::devices::faulty::Event;
    let script = Script::new(How::Once);
    let device = script.open().unwrap();
    let plain = vec![0x5a; 9000];
    let there = memory(&device, &plain);
    let mut writer = writer(&device, Suite::default(), 4096, io::sink()).unwrap();
    drop((script.take_events(), script.take_copies()));
    writer.write(&there, 0..9000).unwrap();
    let window = script.take_copies();
    assert_eq!(window.len(), 1);
    let (address, _) = window[0];
    // SAFETY: this device is plain C, whose memory is the host's. The writer keeps the window, and nothing writes to it now.
    let held = |len| unsafe { std::slice::from_raw_parts(address as *const u8, len) }.to_vec();
    assert!(held(9000) == plain);
    // A window that is full goes to the device's work with the next byte.
    let long = memory(&device, &vec![0x5a; 17 << 20]);
    writer.write(&long, 0..17 << 20).unwrap();
    let keys: usize =
        script.take_events().iter().map(|event| if let Event::Upload(.., len) = event { *len } else { 0 }).sum();
    assert!(keys > 32, "no keys were sent");
    assert!(held(9000).iter().all(|byte| *byte == 0), "a window that was sealed holds plaintext");
    drop(writer);
}
