//! Checks of the device's engine against the CPU's, and of the CPU taking over when the device does not answer.

use phalanx_core::engine::{Bind, Buffer, CpuEngine, Engine, Job, Levels, Op, Unit};
use phalanx_core::{KdfLimit, NewFile, Opener, ProtectedFile, Recipient, Roster, SecretKey, Sink, Source, Suite};
use phalanx_gpu::{Device, GpuEngine, Reason, Result};
use phalanx_kernels::keccak;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(super) fn wrong(device: &Device, what: impl std::fmt::Display) -> phalanx_gpu::Error {
    device.info().error(Reason::SelfTest(what.to_string()))
}

/// A job with chunks of these lengths.
pub(super) fn job(suite: Suite, lens: &[usize], buffer: Buffer) -> Job {
    let keys = SecretKey::from_slice(&[7; 32]).expect("32 bytes").file_keys(suite).content().clone();
    let mut job = Job::of_chunks(Op::Seal, suite, 20, [keys].into(), buffer);
    let mut at = 0;
    for (i, len) in lens.iter().enumerate() {
        let bind = Bind::Chunk { index: i as u64, last: i + 1 == lens.len() };
        let data = at + suite.overhead()..at + suite.overhead() + len;
        at = data.end;
        job.units.push(Unit { key: 0, nonce: [i as u8 ^ 0xff; 16], bind, data, tag: [0; 32] });
    }
    for (i, byte) in job.buf.iter_mut().enumerate() {
        *byte = (i % 251) as u8;
    }
    job
}

/// Seals and opens jobs of all suites of the engine, with its own buffers and with others, and one altered job.
pub fn engines(device: &Device, quick: bool) -> Result<()> {
    let cpu = CpuEngine::parallel(4, Levels::detect());
    let engine = GpuEngine::new(device.clone(), keccak::Level::detect());
    let long = if quick { 3 << 20 } else { 2 * engine.info().preferred_job + 4097 };
    let mut checks = 0;
    for suite in engine.info().suites {
        for lens in [vec![1], vec![1 << 20; 3], vec![300_000, 1, 0, 70_000], vec![long], vec![5, long, 4096]] {
            let len = lens.iter().map(|len| len + suite.overhead()).sum();
            for own in [true, false] {
                let buffer = match own {
                    true => engine.buffer(len).map_err(|fault| wrong(device, fault))?,
                    false => Buffer::paged(len),
                };
                let (mut got, mut want) = (job(*suite, &lens, buffer), job(*suite, &lens, Buffer::paged(len)));
                let plain = want.buf.to_vec();
                let seals = [engine.run(&mut got), cpu.run(&mut want)];
                let same = |got: &Job, want: &Job| {
                    got.buf[..] == want.buf[..] && got.units.iter().zip(&want.units).all(|(a, b)| a.tag == b.tag)
                };
                let what = format!("the engine, {} with {lens:?}", suite.name());
                if seals.into_iter().any(|done| !done.is_ok_and(|verdicts| verdicts.all_passed())) || !same(&got, &want)
                {
                    return Err(wrong(device, format!("{what}: sealing gave other bytes than the CPU's")));
                }
                got.op = Op::Open;
                let last = lens.len() - 1;
                let mut altered = job(*suite, &lens, Buffer::paged(len));
                altered.buf.copy_from_slice(&got.buf);
                (altered.op, altered.units) = (Op::Open, got.units.clone());
                altered.units[last].tag[0] ^= 1;
                if !engine.run(&mut got).is_ok_and(|verdicts| verdicts.all_passed()) || got.buf[..] != plain {
                    return Err(wrong(device, format!("{what}: opening did not give the plaintext")));
                }
                if !engine.run(&mut altered).is_ok_and(|verdicts| verdicts.failed() == [last]) {
                    return Err(wrong(device, format!("{what}: what was altered was not found, or more")));
                }
                checks += 3;
            }
        }
    }
    eprintln!("{checks} checks of the engine passed");
    Ok(())
}

/// Lets the device time out at once. There must be one fault, and the CPU's bytes. The device cannot be used after
/// this.
pub fn takeover(device: &Device) -> Result<()> {
    let faults = Arc::new(AtomicUsize::new(0));
    let count = faults.clone();
    let engine: Arc<dyn Engine> = Arc::new(GpuEngine::new(device.clone(), keccak::Level::detect()));
    let cpu: Arc<dyn Engine> = Arc::new(CpuEngine::parallel(4, Levels::detect()));
    let roster = Roster::new(&[engine]).with_fallback(cpu.clone()).on_fault(move |fault| {
        eprintln!("as it should be: {fault}");
        count.fetch_add(1, Ordering::SeqCst);
    });
    let plain: Vec<u8> = (0..=250u8).cycle().take(20 << 20).collect();
    let key = SecretKey::from_slice(&[5; 32]).expect("32 bytes");
    device.set_time_limit(Duration::ZERO);
    let round_trip = || -> phalanx_core::Result<Vec<u8>> {
        let (mut stored, mut opened) = (Vec::new(), Vec::new());
        let new = NewFile::new(Suite::default(), &[Recipient::key(&key)])?;
        new.protect(&roster, Source::stream(&plain[..]), Sink::Stream(Box::new(&mut stored)), &())?;
        let opener = Opener::new(key.clone(), KdfLimit::default());
        let protected = ProtectedFile::open(Source::stream(&stored[..]), &opener)?;
        protected.unprotect(&Roster::new(std::slice::from_ref(&cpu)), Sink::Stream(Box::new(&mut opened)), &())?;
        Ok(opened)
    };
    let opened = round_trip().map_err(|error| wrong(device, format!("the CPU did not take over: {error}")))?;
    match (opened == plain, faults.load(Ordering::SeqCst), device.is_dead()) {
        (true, 1, true) => Ok(()),
        (same, faults, dead) => Err(wrong(device, format!("takeover: same {same}, {faults} faults, dead {dead}"))),
    }
}
