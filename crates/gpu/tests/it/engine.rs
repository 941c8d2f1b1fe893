//! The engine on every device of this machine, compared with the reference: the checks of the core, and tests that only
//! concern devices.

use crate::common::{self, painted};
use crate::devices;
use phalanx_core::batch::{BehindRoom, Message};
use phalanx_core::engine::{Bind, Buffer, CpuEngine, Engine, Job, Levels, Op, Unit};
use phalanx_core::{Error, Roster, SecretKey, Suite, batch};
use phalanx_gpu::{Device, GpuEngine};
use phalanx_kernels::keccak;
use std::sync::Arc;

#[path = "../../../core/tests/checks/engines.rs"]
mod checks;

fn devices() -> Vec<Device> {
    [devices::plain_c(), devices::opencl(), devices::cuda()].into_iter().flatten().collect()
}

fn engines() -> Vec<Arc<dyn Engine>> {
    let engine = |device| Arc::new(GpuEngine::new(device, keccak::Level::detect())) as Arc<dyn Engine>;
    devices().into_iter().map(engine).collect()
}

fn cpu() -> Arc<dyn Engine> {
    Arc::new(CpuEngine::parallel(2, Levels::detect()))
}

/// A job with chunks of these lengths, as for sealing a file with a header of `before` bytes.
fn chunks(suite: Suite, lengths: &[usize], before: usize, buffer: impl FnOnce(usize) -> Buffer) -> Job {
    let keys = SecretKey::from_slice(&[7; 32]).unwrap().file_keys(suite).content().clone();
    let mut units = Vec::new();
    let mut at = before;
    for (i, len) in lengths.iter().enumerate() {
        let data = at + suite.overhead()..at + suite.overhead() + len;
        at = data.end;
        let bind = Bind::Chunk { index: i as u64, last: i + 1 == lengths.len() };
        units.push(Unit { key: 0, nonce: [i as u8 ^ 0xff; 16], bind, data, tag: [0; 32] });
    }
    let mut job = Job::of_chunks(Op::Seal, suite, 20, [keys].into(), buffer(at));
    job.units = units;
    let bytes = painted(job.buf.len());
    job.buf.copy_from_slice(&bytes);
    job
}

/// Pinned buffers of the engine, and other buffers. Jobs that fit into the device's memory, and jobs that take several
/// windows.
#[test]
fn jobs_of_any_length_are_right_in_any_buffer() {
    let cpu = cpu();
    for engine in engines() {
        let window = engine.info().preferred_job;
        let long = window + window / 2 + 4097;
        for lengths in [vec![1 << 20], vec![300_000, 1, 0, 5_000_000], vec![long], vec![5, long, long, 4096]] {
            for own in [true, false] {
                let make = |buffer: &dyn Fn(usize) -> Buffer| chunks(Suite::Aes192CtrSha3, &lengths, 153, buffer);
                let mut want = make(&Buffer::paged);
                let mut job = if own { make(&|len| engine.buffer(len).unwrap()) } else { make(&Buffer::paged) };
                assert!(cpu.run(&mut want).unwrap().all_passed());
                assert!(engine.run(&mut job).unwrap().all_passed());
                assert!(job.buf[..] == want.buf[..], "{lengths:?} {own}");
                assert!(job.units.iter().zip(&want.units).all(|(a, b)| a.tag == b.tag), "{lengths:?} {own}");

                // Opening finds the altered unit in any window.
                (job.op, want.op) = (Op::Open, Op::Open);
                let last = job.units.len() - 1;
                for job in [&mut job, &mut want] {
                    let at = job.units[last].data.end - 1;
                    job.buf[at] ^= 1;
                }
                assert_eq!(engine.run(&mut job).unwrap().failed(), [last]);
                assert_eq!(cpu.run(&mut want).unwrap().failed(), [last]);
                let end = job.units[last].data.start;
                assert!(job.buf[..end] == want.buf[..end], "{lengths:?} {own}");
            }
        }
    }
}

/// So many windows that the engine waits before the end of the job, and gathers more than a lane first has room for.
#[test]
fn jobs_of_many_windows_are_right() {
    for device in devices() {
        let engine = GpuEngine::with_lanes(device, keccak::Level::detect(), 1, 64 << 10);
        for suite in [Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake] {
            let lengths = [(3 << 20) + 77, 5000, 0, 700_001];
            let mut want = chunks(suite, &lengths, 9, Buffer::paged);
            let mut job = chunks(suite, &lengths, 9, |len| engine.buffer(len).unwrap());
            let plain = job.buf.to_vec();
            assert!(cpu().run(&mut want).unwrap().all_passed() && engine.run(&mut job).unwrap().all_passed());
            assert!(job.buf[..] == want.buf[..] && job.units.iter().zip(&want.units).all(|(a, b)| a.tag == b.tag));
            job.op = Op::Open;
            job.units[0].tag[3] ^= 4;
            assert_eq!(engine.run(&mut job).unwrap().failed(), [0]);
            let data = job.units[0].data.clone();
            assert!(job.buf[data.clone()] == want.buf[data.clone()], "what is not authentic is not decrypted");
            assert!(job.buf[data.end..] == plain[data.end..] && job.buf[..data.start] == plain[..data.start]);
        }
    }
}

/// If there are more threads than workers, they wait for each other.
#[test]
fn many_threads_run_jobs_at_once() {
    for engine in engines() {
        let mut want = chunks(Suite::default(), &[100_000, 5000], 0, Buffer::paged);
        assert!(cpu().run(&mut want).unwrap().all_passed());
        let want = want.buf.to_vec();
        // See `devices::opencl`.
        assert!(engine.run(&mut chunks(Suite::default(), &[100_000, 5000], 0, Buffer::paged)).unwrap().all_passed());
        std::thread::scope(|scope| {
            for _ in 0..3 * engine.info().workers {
                scope.spawn(|| {
                    for _ in 0..3 {
                        let mut job = chunks(Suite::default(), &[100_000, 5000], 0, Buffer::paged);
                        drop(engine.run(&mut job).unwrap());
                        assert!(job.buf[..] == want);
                    }
                });
            }
        });
    }
}

/// A batch that is sealed on a device, or on a device and the CPU together, opens on the CPU, and the other way round.
#[test]
fn batches_of_messages_open_on_other_engines() {
    let mut rosters = vec![Roster::new(&[cpu()])];
    for engine in engines() {
        rosters.push(Roster::new(&[engine.clone(), cpu()]));
        rosters.push(Roster::new(&[engine]));
    }
    let keys: Vec<SecretKey> = (0..40).map(|i| SecretKey::from_slice(&[i; 32]).unwrap()).collect();
    let lengths = (0..150).map(|i| [0, 1, 16, 4095, 4096, 4097, 40_000, 300][i % 8] + i);
    let plain: Vec<Vec<u8>> = lengths.chain([3 << 20]).map(painted).collect();
    for (from, to) in (0..rosters.len()).flat_map(|i| [(i, 0), (0, i)]) {
        for suite in [Suite::Aes256CtrSha3, Suite::Aes128CtrSha3] {
            let mut data: Vec<Vec<u8>> = plain.iter().map(|text| batch::with_room(suite, text)).collect();
            let (key, ad) = (|i: usize| &keys[i % keys.len()], |i: usize| &[7; 200][..i % 200]);
            let to_seal = |(i, data)| Message::to_seal(key(i), ad(i), BehindRoom::new(suite, data).unwrap());
            let mut set: Vec<_> = data.iter_mut().map(Vec::as_mut_slice).enumerate().map(to_seal).collect();
            batch::seal(&rosters[from], suite, &mut set).unwrap();
            *data[33].last_mut().unwrap() ^= 1;
            let to_open = |(i, data)| Message::to_open(key(i), ad(i), data);
            let mut set: Vec<_> = data.iter_mut().map(Vec::as_mut_slice).enumerate().map(to_open).collect();
            let opened = batch::open(&rosters[to], suite, &mut set);
            assert!(matches!(opened, Err(Error::NotAuthentic { failed }) if failed == [33]));
            for (i, (data, plain)) in data.iter().zip(&plain).enumerate() {
                assert!(i == 33 || data[suite.overhead()..] == *plain, "{from} {to} {i}");
            }
            assert!(data[33].iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn a_suite_without_a_kernel_is_refused() {
    for engine in engines() {
        assert!(!engine.info().suites.contains(&Suite::Aes256Gcm));
        let mut job = chunks(Suite::Aes256Gcm, &[100], 0, Buffer::paged);
        let before = job.buf.to_vec();
        let fault = engine.run(&mut job).unwrap_err().to_string();
        assert!(fault.contains("has no AES-256-GCM") && job.buf[..] == before, "{fault}");
    }
}

/// Pinned memory is used again, and is zeroed before that.
#[test]
fn buffers_are_wiped_before_they_are_used_again() {
    for engine in engines() {
        for _ in 0..3 {
            let mut buffer = engine.buffer(3 << 20).unwrap();
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
        }
        // The buffer that a job swaps out is zeroed too.
        let mut job = chunks(Suite::default(), &[2 << 20], 0, |len| engine.buffer(len).unwrap());
        drop(engine.run(&mut job).unwrap());
        drop(job);
        let mut job = chunks(Suite::default(), &[16], 0, |_| engine.buffer(3 << 20).unwrap());
        job.buf.fill(0);
        drop(engine.run(&mut job).unwrap());
        assert!(job.buf[100..].iter().all(|byte| *byte == 0));
    }
}
