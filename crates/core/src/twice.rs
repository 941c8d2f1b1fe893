//! An engine that does each job twice, with different kernels, and compares the results, for machines that are not
//! trusted.

use crate::cpu::{Levels, chunk};
use crate::error::Fault;
use crate::op::Op;
use crate::seam::{Buffer, Engine, EngineInfo, Job, Unit, Verdicts};
use crate::secret::{DEPTH, equal};
use crate::{Error, Suite};
use phalanx_kernels::aes::{self, BLOCK, ctr_xor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use subtle::{Choice, ConstantTimeEq};

/// Wraps another engine, and does all its jobs again with other kernels of the CPU. If the results differ, the job
/// fails, its bytes are unchanged, and no other engine takes over.
///
/// There are no other kernels for AES-256-GCM. Instead, the library opens each chunk that it has sealed, and the
/// AES-CTR of Phalanx must give the same text.
pub struct Twice {
    info: EngineInfo,
    engine: Arc<dyn Engine>,
    levels: Levels,
    /// Whether results have differed.
    is_wrong: AtomicBool,
    allocate: fn(usize) -> Result<Buffer, Error>,
}

impl Twice {
    /// Does the jobs of the engine again with these kernels: [`Levels::second`].
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>, levels: Levels) -> Self {
        let mut info = engine.info().clone();
        info.detail = format!("{}, again by AES {}, SHA-3 {}", info.detail, levels.aes, levels.keccak);
        Self { info, engine, levels, is_wrong: AtomicBool::new(false), allocate: Buffer::try_paged }
    }

    fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault { engine: self.info.name.clone(), reason: reason.into() }
    }

    /// A copy of a job in ordinary memory.
    fn copy(&self, job: &Job) -> Result<Job, Fault> {
        let mut copy = job.like((self.allocate)(job.buf.len()).map_err(|e| self.fault(e.to_string()))?);
        copy.buf.copy_from_slice(&job.buf);
        copy.units.clone_from(&job.units);
        Ok(copy)
    }

    /// Whether other kernels give the same result.
    fn agrees(&self, before: &Job, done: &Job, verdicts: &Verdicts) -> Result<bool, Fault> {
        let mut schedules = done.keys.iter().filter_map(|keys| keys.chunk_keys());
        if !schedules.all(|keys| keys.schedule.is_right()) {
            return Ok(false);
        }
        if done.suite == Suite::Aes256Gcm {
            return self.agrees_in_gcm(before, done, verdicts);
        }
        let mut again = self.copy(before)?;
        if chunk::run(self.levels, &mut again) != verdicts.failed() {
            return Ok(false);
        }
        let same = |(i, (one, other)): (usize, (&Unit, &Unit))| {
            let has_failed = verdicts.failed().binary_search(&i).is_ok();
            let same_text = equal(&done.buf[one.data.clone()], &again.buf[other.data.clone()]);
            has_failed || (one.tag.ct_eq(&other.tag) & Choice::from(u8::from(same_text))).into()
        };
        Ok(done.units.iter().zip(&again.units).enumerate().all(same))
    }

    fn agrees_in_gcm(&self, before: &Job, done: &Job, verdicts: &Verdicts) -> Result<bool, Fault> {
        if done.op == Op::Seal {
            let mut opened = self.copy(done)?;
            opened.op = Op::Open;
            if !chunk::run(self.levels, &mut opened).is_empty() {
                return Ok(false);
            }
        }
        let mut text = self.copy(before)?;
        for (i, unit) in done.units.iter().enumerate() {
            let mut counter = [0; BLOCK];
            counter[..12].copy_from_slice(&unit.nonce[..12]);
            // The first counter block is used for the tag.
            counter[15] = 2;
            let key = aes::Key::new(done.keys[unit.key as usize].encrypt());
            let data = &mut text.buf[unit.data.clone()];
            ctr_xor(self.levels.aes, &key, &counter, data);
            let has_failed = verdicts.failed().binary_search(&i).is_ok();
            if !key.is_right() || !has_failed && !equal(data, &done.buf[unit.data.clone()]) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Engine for Twice {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn stack(&self) -> usize {
        DEPTH.max(self.engine.stack()) + 1024
    }

    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        self.engine.buffer(len)
    }

    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        let before = self.copy(job)?;
        let verdicts = self.engine.run(job)?;
        let fault = match self.agrees(&before, job, &verdicts) {
            Ok(true) => return Ok(verdicts),
            Ok(false) => {
                self.is_wrong.store(true, Ordering::Relaxed);
                self.fault("two computations of the same gave different bytes: this machine computes wrongly")
            }
            Err(fault) => fault,
        };
        // Another engine may get the job. If it sealed ciphertext with the same nonces, that would be plaintext again.
        job.buf.copy_from_slice(&before.buf);
        job.units.clone_from(&before.units);
        Err(fault)
    }

    fn is_wrong(&self) -> bool {
        self.is_wrong.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuEngine;
    use crate::keys::key::{ContentKeys, SecretKey};
    use crate::roster::Roster;
    use crate::seam::Bind;
    use std::cell::Cell;

    const LEN: usize = 3 * 4096 + 77;

    /// A processor whose keystream has a wrong bit: it seals an authentic file with a wrong plaintext, and opens what
    /// it sealed.
    struct Wrong(CpuEngine, AtomicBool);

    impl Engine for Wrong {
        fn info(&self) -> &EngineInfo {
            self.0.info()
        }

        fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
            self.0.buffer(len)
        }

        fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
            let spoil = |job: &mut Job| {
                if self.1.load(Ordering::Relaxed) {
                    job.buf[5000] ^= 4;
                }
            };
            if job.op == Op::Seal {
                spoil(job);
            }
            let verdicts = self.0.run(job)?;
            if job.op == Op::Open {
                spoil(job);
            }
            Ok(verdicts)
        }
    }

    fn job(suite: Suite, op: Op, keys: ContentKeys) -> Job {
        let mut job = Job::of_chunks(op, suite, 20, Arc::new([keys]), Buffer::paged(2 * LEN));
        job.buf.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251) as u8);
        for i in 0..2 {
            let (bind, data) = (Bind::Chunk { index: i as u64, last: i == 1 }, i * LEN..(i + 1) * LEN);
            job.units.push(Unit { key: 0, nonce: [9; 16], bind, data, tag: [0; 32] });
        }
        job
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many chunks, and AES-GCM, which is assembly")]
    fn a_wrong_keystream_is_found_and_a_right_one_passes() {
        let key = SecretKey::random().unwrap();
        let levels = Levels::detect();
        let engine = Arc::new(Wrong(CpuEngine::serial(levels), AtomicBool::new(false)));
        let twice = Twice::new(engine.clone(), levels.second());
        for suite in Suite::ALL.iter().copied() {
            for keys in [key.file_keys(suite).content().clone(), key.message_keys(suite)] {
                let set = |wrong| engine.1.store(wrong, Ordering::Relaxed);
                let mut sealed = job(suite, Op::Seal, keys.clone());
                let plain = sealed.buf.to_vec();
                set(true);
                assert!(Wrong(CpuEngine::serial(levels), AtomicBool::new(true)).run(&mut sealed).is_ok(), "{suite:?}");
                let mut opened = sealed;
                opened.op = Op::Open;
                assert!(CpuEngine::serial(levels).run(&mut opened).unwrap().all_passed(), "{suite:?}: it is authentic");
                assert_ne!(*opened.buf, plain[..], "{suite:?}: and another file");

                let mut sealed = job(suite, Op::Seal, keys.clone());
                let fault = twice.run(&mut sealed).unwrap_err();
                assert!(fault.reason.contains("computes wrongly"), "{fault}");
                assert_eq!(*sealed.buf, plain[..], "{suite:?}: it is as it was");
                assert!(sealed.units.iter().all(|unit| unit.tag == [0; 32]));

                set(false);
                assert!(twice.run(&mut sealed).unwrap().all_passed(), "{suite:?}");
                sealed.op = Op::Open;
                sealed.units[1].tag[3] ^= 1;
                let before = sealed.buf.to_vec();
                set(true);
                assert!(twice.run(&mut sealed).is_err(), "{suite:?}");
                assert_eq!(*sealed.buf, before[..], "{suite:?}");
                set(false);
                assert_eq!(twice.run(&mut sealed).unwrap().failed(), [1], "{suite:?}");
                assert_eq!(sealed.buf[..LEN], plain[..LEN], "{suite:?}");
            }
        }
    }

    /// Seals a job by engines of which each takes over from the one before it.
    fn seal_by(engines: &[Arc<dyn Engine>], job: &mut Job) -> Result<Verdicts, Fault> {
        let roster = Roster::new(engines);
        let first = roster.first(job.suite)?;
        roster.by_turns(first, job.suite, |engine| engine.run(job)).map(|(verdicts, _)| verdicts)
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many chunks, and AES-GCM, which is assembly")]
    fn no_engine_takes_over_from_one_that_computes_wrongly() {
        let levels = Levels::detect();
        let suite = Suite::ALL[0];
        let keys = SecretKey::random().unwrap().message_keys(suite);
        let wrong = Arc::new(Wrong(CpuEngine::serial(levels), AtomicBool::new(true)));
        let twice: Arc<dyn Engine> = Arc::new(Twice::new(wrong, levels.second()));
        let other: Arc<dyn Engine> = Arc::new(CpuEngine::serial(levels));
        let fault = seal_by(&[twice, other], &mut job(suite, Op::Seal, keys)).unwrap_err();
        assert!(fault.reason.contains("computes wrongly"), "{fault}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many chunks, and AES-GCM, which is assembly")]
    fn what_takes_over_when_memory_is_short_gets_the_plaintext() {
        thread_local!(static LEFT: Cell<usize> = const { Cell::new(0) });
        fn allocate(len: usize) -> Result<Buffer, Error> {
            match LEFT.replace(LEFT.get().saturating_sub(1)) {
                0 => Err(Error::Memory("none is left".into())),
                _ => Buffer::try_paged(len),
            }
        }
        let levels = Levels::detect();
        for suite in Suite::ALL.iter().copied() {
            for copies in 0..3 {
                let keys = SecretKey::random().unwrap().message_keys(suite);
                let serial: Arc<dyn Engine> = Arc::new(CpuEngine::serial(levels));
                let twice = Twice { allocate, ..Twice::new(serial.clone(), levels.second()) };
                let mut job = job(suite, Op::Seal, keys);
                let plain = job.buf.to_vec();
                LEFT.set(copies);
                assert!(seal_by(&[Arc::new(twice), serial.clone()], &mut job).unwrap().all_passed());
                assert_ne!(*job.buf, plain[..], "{suite:?} {copies}");
                job.op = Op::Open;
                assert!(serial.run(&mut job).unwrap().all_passed(), "{suite:?} {copies}");
                assert_eq!(*job.buf, plain[..], "{suite:?} {copies}");
            }
        }
    }
}
