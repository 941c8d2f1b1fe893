//! Opening into a device's memory and sealing from there, on every device: the bytes are those of the CPU's engine.

use crate::common::painted;
use crate::devices;
use crate::devices::faulty::{Event, How, Script};
use phalanx_core::engine::{Bind, Buffer, ContentKeys, CpuEngine, Engine, Job, Levels, Op, Unit};
use phalanx_core::{SecretKey, Suite};
use phalanx_gpu::{Device, Pinned, Reason, Resident, Sealed};
use phalanx_kernels::keccak;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes around what a call may write, in the plain memory and in the sealed one.
const GUARD: usize = 512;
const CANARY: u8 = 0xc5;

mod plain_c {
    #[test]
    fn resident() {
        crate::devices::plain_c().iter().for_each(super::everything);
    }
}

mod opencl {
    #[test]
    fn resident() {
        crate::devices::opencl().iter().for_each(super::everything);
    }
}

mod cuda {
    #[test]
    fn resident() {
        crate::devices::cuda().iter().for_each(super::everything);
    }
}

/// One test for each device, because opening it takes longest.
fn everything(device: &Device) {
    for suite in [Suite::Aes256CtrSha3, Suite::Aes128CtrSha3, Suite::Aes256CtrTurboShake] {
        for lengths in [
            &[][..],
            &[0],
            &[1],
            &[4096, 4096, 77],
            &[8192],
            &[16, 32, 0],
            &[70_000 & !15, 160_000],
            // Rows that one call copies: of every length of chunk, with others before, between and behind.
            &[16; 40],
            &[4096; 9],
            &[32, 4096, 4096, 4096, 16, 16, 16, 16, 4096, 4096, 5],
            &[65_536, 65_536, 65_536, 32],
            // Rows that are too far apart for the simulated device, and too long for one call.
            &[100_016, 100_016],
            &[(256 << 10) + 16, (256 << 10) + 16, 1],
        ] {
            for before in [0, 153] {
                opens(device, &Case::new(suite, lengths, before));
                seals(device, &Case::new(suite, lengths, before));
            }
        }
    }
    rejects(device);
    refuses(device);
    works_in_the_order_of_the_stream(device);
}

/// Chunks as the CPU seals them.
struct Case {
    keys: Arc<[ContentKeys]>,
    suite: Suite,
    units: Vec<Unit>,
    /// The sealed memory, with something before, between and behind the units.
    sealed: Vec<u8>,
    plain: Vec<u8>,
}

impl Case {
    fn new(suite: Suite, lengths: &[usize], before: usize) -> Self {
        let key = |seed| SecretKey::from_slice(&[seed; 32]).unwrap().file_keys(suite).content().clone();
        let keys: Arc<[ContentKeys]> = [key(7), key(8)].into();
        let (mut units, mut plain, mut at) = (Vec::new(), Vec::new(), before);
        for (i, len) in lengths.iter().enumerate() {
            let data = at + suite.overhead()..at + suite.overhead() + len;
            at = data.end;
            let bind = Bind::Chunk { index: i as u64, last: i + 1 == lengths.len() };
            units.push(Unit { key: i as u32 % 2, nonce: [i as u8 ^ 0xf0; 16], bind, data, tag: [0; 32] });
        }
        let mut job = Job::of_chunks(Op::Seal, suite, 20, keys.clone(), Buffer::paged(at + GUARD));
        let painted = painted(job.buf.len());
        job.buf.copy_from_slice(&painted);
        units.iter().for_each(|unit| plain.extend_from_slice(&painted[unit.data.clone()]));
        job.units = units;
        assert!(CpuEngine::parallel(2, Levels::detect()).run(&mut job).unwrap().all_passed());
        Self { keys, suite, units: job.units.clone(), sealed: job.buf.to_vec(), plain }
    }

    /// The same chunks, whose bytes lie elsewhere.
    fn job(&self, op: Op) -> Job {
        let mut job = Job::of_chunks(op, self.suite, 20, self.keys.clone(), Buffer::paged(0));
        job.units.clone_from(&self.units);
        if op == Op::Seal {
            job.units.iter_mut().for_each(|unit| unit.tag = [0xee; 32]);
        }
        job
    }

    fn pinned(&self, device: &Device) -> Pinned {
        let mut pinned = device.pinned(self.sealed.len()).unwrap();
        pinned.copy_from_slice(&self.sealed);
        pinned
    }
}

fn resident(device: &Device) -> Resident {
    Resident::new(device.stream().unwrap(), keccak::Level::detect()).unwrap()
}

/// Plain memory with a guard on both sides, and where the plaintext belongs.
fn plain_memory(resident: &mut Resident, len: usize) -> (phalanx_gpu::Buffer, Range<usize>) {
    let room = GUARD + len.next_multiple_of(16) + GUARD;
    (resident.stream().buffer_of(&vec![CANARY; room]).unwrap(), GUARD..GUARD + len)
}

fn bytes_of(resident: &mut Resident, buffer: &phalanx_gpu::Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    resident.stream().download(buffer, 0, &mut bytes).unwrap();
    bytes
}

/// The memory holds these bytes at the place, and the guards are as they were.
fn assert_holds(got: &[u8], place: &Range<usize>, want: &[u8]) {
    assert!(got[place.clone()] == *want, "the bytes");
    assert!(got[..place.start].iter().all(|byte| *byte == CANARY), "the guard before them");
    assert!(got[place.end..].iter().all(|byte| *byte == CANARY), "what lies behind the plaintext was written to");
}

fn opens(device: &Device, case: &Case) {
    let mut resident = resident(device);
    let pinned = case.pinned(device);
    let on_device = resident.stream().buffer_of(&case.sealed).unwrap();
    for sealed in [Sealed::Pinned(&pinned), Sealed::Device(&on_device)] {
        let (mut plain, place) = plain_memory(&mut resident, case.plain.len());
        let mut job = case.job(Op::Open);
        assert!(resident.open(&mut job, sealed, &mut plain, place.start).unwrap().all_passed());
        assert_holds(&bytes_of(&mut resident, &plain), &place, &case.plain);
    }
    assert!(pinned[..] == case.sealed && bytes_of(&mut resident, &on_device)[..case.sealed.len()] == case.sealed);
}

fn seals(device: &Device, case: &Case) {
    let mut resident = resident(device);
    let (mut plain, place) = plain_memory(&mut resident, case.plain.len());
    resident.stream().upload(&mut plain, place.start, &case.plain).unwrap();
    // Something else lies between the units: it stays.
    let mut around = case.sealed.clone();
    case.units.iter().for_each(|unit| around[unit.data.clone()].fill(CANARY));

    let mut sealed = resident.stream().buffer_of(&around).unwrap();
    let mut job = case.job(Op::Seal);
    resident.seal(&mut job, &plain, place.start, &mut sealed).unwrap();
    assert!(bytes_of(&mut resident, &sealed)[..case.sealed.len()] == case.sealed);
    assert!(job.units.iter().zip(&case.units).all(|(got, want)| got.tag == want.tag));

    let mut pinned = device.pinned(around.len()).unwrap();
    pinned.copy_from_slice(&around);
    let mut job = case.job(Op::Seal);
    let pinned = resident.seal_to_host(&mut job, &plain, place.start, pinned).unwrap();
    assert!(pinned[..] == case.sealed && job.units.iter().zip(&case.units).all(|(got, want)| got.tag == want.tag));
    assert_holds(&bytes_of(&mut resident, &plain), &place, &case.plain);
}

/// If one unit is not authentic, it is named, and no plaintext of the call is on the device.
fn rejects(device: &Device) {
    let case = Case::new(Suite::default(), &[4096, 8192, 100], 9);
    for (unit, at) in [(0, 0), (1, 8191), (2, 99)] {
        let mut resident = resident(device);
        let mut pinned = case.pinned(device);
        pinned[case.units[unit].data.start + at] ^= 4;
        let (mut plain, place) = plain_memory(&mut resident, case.plain.len());
        let verdicts =
            resident.open(&mut case.job(Op::Open), Sealed::Pinned(&pinned), &mut plain, place.start).unwrap();
        assert_eq!(verdicts.failed(), [unit]);
        // The last block belongs to the call as a whole.
        let place = place.start..place.end.next_multiple_of(16);
        assert_holds(&bytes_of(&mut resident, &plain), &place, &vec![0; place.len()]);
        // The same value goes on with other chunks.
        pinned.copy_from_slice(&case.sealed);
        assert!(
            resident.open(&mut case.job(Op::Open), Sealed::Pinned(&pinned), &mut plain, GUARD).unwrap().all_passed()
        );
        assert!(bytes_of(&mut resident, &plain)[GUARD..][..case.plain.len()] == case.plain);
    }
    // A chunk at another place in the file, and one that claims to be the last.
    for bind in [Bind::Chunk { index: 5, last: false }, Bind::Chunk { index: 1, last: true }] {
        let mut resident = resident(device);
        let pinned = case.pinned(device);
        let (mut plain, _) = plain_memory(&mut resident, case.plain.len());
        let mut job = case.job(Op::Open);
        job.units[1].bind = bind;
        assert_eq!(resident.open(&mut job, Sealed::Pinned(&pinned), &mut plain, GUARD).unwrap().failed(), [1]);
    }
}

/// What does not fit is refused in one line, and nothing is written.
fn refuses(device: &Device) {
    let case = Case::new(Suite::default(), &[4096, 100], 0);
    let mut resident = resident(device);
    let pinned = case.pinned(device);
    let (mut plain, _) = plain_memory(&mut resident, case.plain.len());
    let end = plain.len();
    let mut refused = |change: &dyn Fn(&mut Job), at: usize, why: &str| {
        let mut job = case.job(Op::Open);
        change(&mut job);
        let error = resident.open(&mut job, Sealed::Pinned(&pinned), &mut plain, at).unwrap_err();
        assert!(
            matches!(&error.reason, Reason::Refused(text) if text.contains(why) && !text.contains('\n')),
            "{error}"
        );
        assert!(bytes_of(&mut resident, &plain).iter().all(|byte| *byte == CANARY), "{why}");
    };
    refused(&|job| job.op = Op::Seal, 0, "the other operation");
    refused(&|job| job.suite = Suite::Aes256Gcm, 0, "no AES-256-GCM");
    refused(&|job| job.units[0].key = 2, 0, "no key");
    refused(&|job| job.suite = Suite::Aes128CtrSha3, 0, "another length");
    refused(&|job| job.buf = Buffer::paged(1), 0, "bytes of its own");
    refused(&|job| job.units[1].bind = Bind::Message { ad: 0..0 }, 0, "a job of messages");
    refused(&|job| job.units[0].data.end -= 1, 0, "chunk 0 has no whole blocks");
    refused(&|job| job.units[1].data.end = usize::MAX, 0, "chunk 1 at");
    refused(&|job| job.units[1].data.start = 0, 0, "chunk 1 at");
    refused(&|_| {}, 8, "4196 bytes at 8");
    refused(&|_| {}, end - 4096, "of plain memory");
    refused(&|_| {}, usize::MAX & !15, "of plain memory");
    let foreign = devices::plain_c().map(|other| other.stream().unwrap().buffer(8192).unwrap());
    if let Some(mut foreign) = foreign.filter(|_| device.info().name != "plain C") {
        let error = resident.open(&mut case.job(Op::Open), Sealed::Pinned(&pinned), &mut foreign, 0).unwrap_err();
        assert!(error.to_string().contains("another device"), "{error}");
    }
    if let Some(other) = devices::plain_c().filter(|_| device.info().name != "plain C") {
        let foreign = case.pinned(&other);
        let error = resident.open(&mut case.job(Op::Open), Sealed::Pinned(&foreign), &mut plain, 0).unwrap_err();
        assert!(error.to_string().contains("another device"), "{error}");
        let error = resident.seal_to_host(&mut case.job(Op::Seal), &plain, 0, foreign).unwrap_err();
        assert!(error.to_string().contains("another device"), "{error}");
    }
}

/// Work of the caller's before and after, on the same stream, without a wait in between.
fn works_in_the_order_of_the_stream(device: &Device) {
    let case = Case::new(Suite::default(), &[65_536, 4096], 3);
    let mut resident = resident(device);
    let pinned = case.pinned(device);
    let from = resident.stream().buffer_of(&vec![CANARY; case.plain.len()]).unwrap();
    let mut plain = resident.stream().buffer(case.plain.len()).unwrap();
    let mut copy = resident.stream().buffer(case.plain.len()).unwrap();
    for _ in 0..3 {
        // This comes before the opening, and must not overwrite what it gives.
        resident.stream().copy(&from, &mut plain, case.plain.len()).unwrap();
        assert!(
            resident.start_open(&mut case.job(Op::Open), Sealed::Pinned(&pinned), &mut plain, 0).unwrap().all_passed()
        );
        resident.stream().copy(&plain, &mut copy, case.plain.len()).unwrap();
        assert!(bytes_of(&mut resident, &copy) == case.plain);
    }
}

/// A device that fails at each call in turn: one line, no plaintext that is not authentic, and no use of a dead device.
#[test]
fn a_failure_at_any_step_is_one_line() {
    let case = Case::new(Suite::default(), &[4096, 100], 5);
    for how in [How::Once, How::OutOfMemory, How::Lost, How::Hangs] {
        for step in 0.. {
            let script = Script::new(how);
            let device = script.open().unwrap();
            device.set_time_limit(Duration::from_millis(1));
            let pinned = case.pinned(&device);
            let mut back = device.pinned(case.sealed.len()).unwrap();
            back.copy_from_slice(&case.sealed);
            let mut plain = device.stream().unwrap().buffer(case.plain.len()).unwrap();
            script.fails.store(step, Ordering::SeqCst);
            let work = || -> phalanx_gpu::Result<()> {
                let mut resident = Resident::new(device.stream()?, keccak::Level::detect())?;
                assert!(resident.open(&mut case.job(Op::Open), Sealed::Pinned(&pinned), &mut plain, 0)?.all_passed());
                let mut sealed = resident.stream().buffer(case.sealed.len())?;
                resident.seal(&mut case.job(Op::Seal), &plain, 0, &mut sealed)?;
                let back = resident.seal_to_host(&mut case.job(Op::Seal), &plain, 0, back)?;
                assert!(back[..] == case.sealed);
                Ok(())
            };
            if let Err(error) = work() {
                let text = error.to_string();
                assert!(text.starts_with("faulty: ") && !text.contains('\n'), "{how:?} {step}: {text}");
            }
            script.wake_up();
            drop((pinned, plain, device));
            assert_eq!(script.mistakes(), 0, "{how:?} {step}: calls of a device that was given up");
            assert!(script.has_failed() || step >= 40, "only {step} steps");
            if !script.has_failed() {
                break;
            }
        }
    }
}

/// The cipher's kernel is started only after the kernel of the digests has finished, and not at all if a tag is wrong: the
/// bytes in memory at the end would not show that.
#[test]
fn nothing_is_decrypted_before_the_tags_are_checked() {
    let case = Case::new(Suite::default(), &[4096, 8192, 100], 9);
    let script = Script::new(How::Once);
    let device = script.open().unwrap();
    let mut resident = resident(&device);
    for damaged in [None, Some(0), Some(1), Some(2)] {
        let mut pinned = case.pinned(&device);
        if let Some(unit) = damaged {
            pinned[case.units[unit].data.start] ^= 1;
        }
        let on_device = resident.stream().buffer_of(&pinned).unwrap();
        for sealed in [Sealed::Pinned(&pinned), Sealed::Device(&on_device)] {
            let (mut plain, place) = plain_memory(&mut resident, case.plain.len());
            drop(script.take_events());
            let verdicts = resident.open(&mut case.job(Op::Open), sealed, &mut plain, place.start).unwrap();
            assert_eq!(verdicts.failed(), damaged.as_slice());
            let events = script.take_events();
            let mut launches = events.iter().enumerate().filter(|(_, event)| matches!(event, Event::Launch(_)));
            let (hashes, kernel) = launches.next().unwrap();
            assert_eq!(*kernel, Event::Launch("sha3_slices"));
            match launches.next() {
                Some((decrypts, _)) => assert!(damaged.is_none() && events[hashes..decrypts].contains(&Event::Finish)),
                None => assert!(damaged.is_some(), "{events:?}"),
            }
        }
    }
}

/// After each call, the keys that were copied to the device are zeros there and here.
#[test]
fn keys_are_wiped_there_and_here() {
    let case = Case::new(Suite::default(), &[4096, 100], 5);
    let script = Script::new(How::Once);
    let device = script.open().unwrap();
    let mut resident = resident(&device);
    let mut damaged = case.sealed.clone();
    damaged[case.units[0].data.start] ^= 1;
    let mut memory = |bytes: &[u8]| resident.stream().buffer_of(bytes).unwrap();
    let (sealed, damaged) = (memory(&case.sealed), memory(&damaged));
    let (mut plain, mut to) = (memory(&vec![0; case.plain.len()]), memory(&vec![0; case.sealed.len()]));
    let back = device.pinned(case.sealed.len()).unwrap();
    let wiped = |after: &str| {
        let mut bytes = 0;
        for event in script.take_events() {
            let Event::Upload(here, there, len) = event else { continue };
            for address in [here, there] {
                // SAFETY: `resident` keeps its block, and this device is plain C, whose memory is the host's. Nothing
                // writes to it now.
                let copied = unsafe { std::slice::from_raw_parts(address as *const u8, len) };
                assert!(copied.iter().all(|byte| *byte == 0), "{after}");
            }
            bytes += len;
        }
        assert!(bytes >= 2 * 32, "{after}: only {bytes} bytes were copied");
    };
    drop(script.take_events());
    assert!(resident.open(&mut case.job(Op::Open), Sealed::Device(&sealed), &mut plain, 0).unwrap().all_passed());
    wiped("opening");
    let verdicts = resident.open(&mut case.job(Op::Open), Sealed::Device(&damaged), &mut plain, 0).unwrap();
    assert_eq!(verdicts.failed(), [0]);
    wiped("opening what is not authentic");
    resident.seal(&mut case.job(Op::Seal), &plain, 0, &mut to).unwrap();
    wiped("sealing");
    drop(resident.seal_to_host(&mut case.job(Op::Seal), &plain, 0, back).unwrap());
    wiped("sealing to the host");
}
