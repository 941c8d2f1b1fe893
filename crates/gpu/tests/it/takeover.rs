//! A device that fails at every step of a job, in every way. Alone, it fails cleanly, and the job is unchanged. With
//! the CPU beside it or as its fallback, the bytes are right, and one fault is reported.

use crate::common::{AtHand, painted, sweep_by};
use crate::devices::faulty::{How, NEVER, Script};
use phalanx_core::batch::{BehindRoom, Message};
use phalanx_core::engine::{Bind, Buffer, CpuEngine, Engine, Job, Levels, Op, Unit};
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, ProtectedFile, Recipient, Roster, SecretKey, Sink, Source, Suite,
    batch,
};
use phalanx_gpu::GpuEngine;
use phalanx_kernels::keccak;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const KEY: [u8; 32] = [5; 32];
const HOWS: [How; 4] = [How::Once, How::OutOfMemory, How::Lost, How::Hangs];

/// An engine on an open device that fails at the given call, counted from after the opening.
fn engine(how: How, step: usize) -> (Arc<Script>, Arc<dyn Engine>) {
    let script = Script::new(how);
    let device = script.open().unwrap();
    device.set_time_limit(Duration::from_millis(1));
    script.fails.store(step, Ordering::SeqCst);
    (script, Arc::new(GpuEngine::new(device, keccak::Level::detect())))
}

fn cpu() -> Arc<dyn Engine> {
    Arc::new(CpuEngine::parallel(2, Levels::detect()))
}

/// A roster with this engine first, and the number of faults that it has reported.
fn before_cpu(engine: Arc<dyn Engine>, as_fallback: bool) -> (Roster, Arc<AtomicUsize>) {
    let told = Arc::new(AtomicUsize::new(0));
    let roster = match as_fallback {
        true => Roster::new(&[engine]).with_fallback(cpu()),
        false => Roster::new(&[engine, cpu()]),
    };
    let count = told.clone();
    let tell = move |fault: &phalanx_core::engine::Fault| {
        let text = fault.to_string();
        assert!(text.starts_with("engine gpu failed: faulty: ") && !text.contains('\n'), "{text}");
        count.fetch_add(1, Ordering::SeqCst);
    };
    (roster.on_fault(tell), told)
}

/// Whether the run ended before this step, so that the test is over. Also checks that a dead device is not called.
fn is_over(script: &Script, step: usize, least: usize) -> bool {
    script.wake_up();
    assert_eq!(script.mistakes(), 0, "step {step}: calls of a device that was given up");
    assert!(script.has_failed() || step >= least, "only {step} steps");
    !script.has_failed()
}

/// A job with two chunks. They are long enough for pinned memory, unless `short` is set.
fn job(op: Op, engine: &dyn Engine, short: bool) -> Job {
    let suite = Suite::default();
    let keys = SecretKey::from_slice(&KEY).unwrap().file_keys(suite).content().clone();
    let ranges = if short { [48..5000, 5048..6000] } else { [200..(1 << 20) + 99, (1 << 20) + 152..(1 << 20) + 9000] };
    let unit = |(i, data): (usize, std::ops::Range<usize>)| {
        let bind = Bind::Chunk { index: i as u64, last: i == 1 };
        Unit { key: 0, nonce: [i as u8; 16], bind, data, tag: [0; 32] }
    };
    let mut units: Vec<Unit> = ranges.into_iter().enumerate().map(unit).collect();
    let len = units[1].data.end + 77;
    let mut sealed = Job::of_chunks(Op::Seal, suite, 20, [keys.clone()].into(), Buffer::paged(len));
    sealed.buf.copy_from_slice(&painted(len));
    if op == Op::Open {
        sealed.units = units;
        assert!(cpu().run(&mut sealed).unwrap().all_passed());
        units = sealed.units.clone();
    }
    let mut job =
        Job::of_chunks(op, suite, 20, [keys].into(), engine.buffer(len).unwrap_or_else(|_| Buffer::paged(len)));
    job.buf.copy_from_slice(&sealed.buf);
    job.units = units;
    job
}

#[test]
fn a_failing_device_alone_leaves_the_job_unchanged() {
    for how in HOWS {
        for (op, short) in [(Op::Seal, true), (Op::Seal, false), (Op::Open, true), (Op::Open, false)] {
            let mut want = self::job(op, &*cpu(), short);
            assert!(cpu().run(&mut want).unwrap().all_passed());
            for step in (0..).step_by(sweep_by(1, 4)) {
                let (script, engine) = engine(how, step);
                let mut job = job(op, &*engine, short);
                let before = (job.buf.to_vec(), job.units.clone());
                let done = engine.run(&mut job);
                let what = format!("{how:?} {op:?} {short}, step {step}");
                match &done {
                    Ok(verdicts) => {
                        assert!(verdicts.all_passed() && (how != How::Hangs || !script.has_failed()), "{what}")
                    }
                    Err(fault) => {
                        assert!(fault.to_string().starts_with("engine gpu failed: faulty: "), "{what}: {fault}");
                        assert!(job.buf[..] == before.0, "{what}");
                        let same = job.units.iter().zip(&before.1).all(|(a, b)| a.tag == b.tag && a.data == b.data);
                        assert!(same || op == Op::Seal, "{what}");
                    }
                }
                // If the device wakes up, its results do not reach the job, and the CPU's bytes are right.
                script.wake_up();
                if done.is_err() {
                    assert!(job.buf[..] == before.0, "{what}");
                    assert!(cpu().run(&mut job).unwrap().all_passed());
                }
                assert!(job.buf[..] == want.buf[..], "{what}");
                assert!(job.units.iter().zip(&want.units).all(|(a, b)| a.tag == b.tag), "{what}");
                drop((job, engine));
                if is_over(&script, step, 15) {
                    break;
                }
            }
        }
    }
}

/// Seals data, which the CPU and then this roster open. Both ends are pipes.
fn round_trip(roster: &Roster, plain: &[u8]) -> Result<(), Error> {
    let key = SecretKey::from_slice(&KEY).unwrap();
    let new = NewFile::with_chunk_size(Suite::default(), ChunkSize::new(1 << 14).unwrap(), &[Recipient::key(&key)])?;
    let mut stored = Vec::new();
    new.protect(roster, Source::stream(plain), Sink::Stream(Box::new(&mut stored)), &())?;
    assert!(opened(&Roster::new(&[cpu()]), &stored)? == plain);
    assert!(opened(roster, &stored)? == plain);
    Ok(())
}

fn opened(roster: &Roster, stored: &[u8]) -> Result<Vec<u8>, Error> {
    let mut opened = Vec::new();
    let keys = vec![SecretKey::from_slice(&KEY).unwrap()];
    let opener = Opener::new(AtHand { keys, password: None }, KdfLimit::default());
    let protected = ProtectedFile::open(Source::stream(stored), &opener)?;
    protected.unprotect(roster, Sink::Stream(Box::new(&mut opened)), &())?;
    Ok(opened)
}

/// Does the work with a device that fails at each step in turn, in every way. The CPU takes over, and at most one fault
/// is reported. If the CPU is its fallback, the device takes at least `least` steps.
fn at_every_step(least: usize, work: impl Fn(&Roster, &Script)) {
    for how in HOWS {
        for as_fallback in [true, false] {
            // The order of the steps of several workers varies.
            for step in (0..10).chain((10..).step_by(sweep_by(11, 31))) {
                let (script, engine) = engine(how, step);
                let (roster, told) = before_cpu(engine.clone(), as_fallback);
                work(&roster, &script);
                let told = told.load(Ordering::SeqCst);
                assert!(
                    told <= 1 && (told == 1 || !script.has_failed() || script.has_failed_quietly()),
                    "{how:?} {as_fallback} {step}: told {told} times"
                );
                drop((roster, engine));
                // A device that works together with the CPU may get few jobs, or none.
                if is_over(&script, step, if as_fallback { least } else { 0 }) {
                    break;
                }
            }
        }
    }
}

/// The run continues with the CPU, whichever step of the device fails.
#[test]
fn a_run_continues_with_the_cpu() {
    let plain = painted(150_000);
    at_every_step(30, |roster, script| {
        round_trip(roster, &plain).unwrap();
        script.forget_mistakes();
        // In another run, the engine that failed is not used again.
        round_trip(roster, &plain[..100]).unwrap();
    });
}

#[test]
fn a_run_without_another_engine_fails_with_the_fault() {
    for how in HOWS {
        for step in [0, 5, 11] {
            let (script, engine) = engine(how, step);
            let error = round_trip(&Roster::new(&[engine]), &painted(150_000)).unwrap_err();
            assert!(matches!(error, Error::Fault(_)), "{how:?} {step}: {error}");
            assert!(error.to_string().starts_with("engine gpu failed: faulty: "), "{how:?} {step}: {error}");
            script.forget_mistakes();
            is_over(&script, step, NEVER);
        }
    }
}

#[test]
fn a_batch_continues_with_the_cpu() {
    let keys: Vec<SecretKey> = (0..7).map(|i| SecretKey::from_slice(&[i; 32]).unwrap()).collect();
    let plain: Vec<Vec<u8>> = (0..60).map(|i| painted(i * 611)).collect();
    at_every_step(10, |roster, script| {
        let suite = Suite::default();
        let mut data: Vec<Vec<u8>> = plain.iter().map(|p| batch::with_room(suite, p)).collect();
        let each = data.iter_mut().map(Vec::as_mut_slice).enumerate();
        let to_seal = |(i, data)| Message::to_seal(&keys[i % 7], b"ad", BehindRoom::new(suite, data).unwrap());
        batch::seal(roster, suite, &mut each.map(to_seal).collect::<Vec<_>>()).unwrap();
        script.forget_mistakes();
        let each = data.iter_mut().map(Vec::as_mut_slice).enumerate();
        let to_open = |(i, data): (usize, _)| Message::to_open(&keys[i % 7], b"ad", data);
        batch::open(&Roster::new(&[cpu()]), suite, &mut each.map(to_open).collect::<Vec<_>>()).unwrap();
        assert!(data.iter().zip(&plain).all(|(data, plain)| data[suite.overhead()..] == *plain));
    });
}

/// Work in a suite that the device lacks goes to the CPU, and no fault is reported.
#[test]
fn a_suite_that_the_device_lacks_is_no_fault() {
    let (_script, engine) = engine(How::Once, NEVER);
    let (roster, told) = before_cpu(engine.clone(), true);
    let key = SecretKey::from_slice(&KEY).unwrap();
    let seal = |roster: &Roster| {
        let new = NewFile::new(Suite::Aes256Gcm, &[Recipient::key(&key)]).unwrap();
        let mut stored = Vec::new();
        new.protect(roster, Source::stream(&b"text"[..]), Sink::Stream(Box::new(&mut stored)), &())?;
        assert_eq!(opened(&Roster::new(&[cpu()]), &stored)?, b"text");
        Ok::<(), Error>(())
    };
    seal(&roster).unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 0);
    let alone = seal(&Roster::new(&[engine])).unwrap_err();
    assert_eq!(alone.to_string(), "engine gpu failed: it has no AES-256-GCM");
}
