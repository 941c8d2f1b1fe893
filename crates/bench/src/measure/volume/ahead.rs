//! P4's pad that is made ahead, in its sound form: AES-CTR keystream is made before the data exist, and then XORed.
//! This measures whether a write ends sooner, and what it costs.

use crate::measure::scratch::{random, random_vec, require_memory};
use crate::measure::times::{rounds, try_rounds};
use crate::measure::volume::study::input::PART;
use crate::measure::{Error, Over, Result, Rows, Setup, Step, row_of};
use crate::names::ahead::{AHEAD, AT_ONCE, LATENCY, OPERATION, SUITES, WORK, sealed};
use crate::names::volume::EXPERIMENT;
use phalanx_core::engine::{Bind, CpuEngine, Engine, Job, Nonce, Op, Unit};
use phalanx_core::{SecretKey, Suite};
use phalanx_kernels::aes::{self, counter_after};
use std::sync::Arc;

/// The steps: one for each length of a write.
pub fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    // This is too much for any processor's cache, so pads come from memory when they are used.
    let all = if setup.quick { 16 << 20 } else { 512 << 20 };
    require_memory(2 * all as u64)?;
    let cases = [("4 KiB", 4 << 10), ("32000 bytes", PART), ("1 MiB", 1 << 20)];
    let step = |(name, len): (&'static str, usize)| {
        Step::new(format!("{EXPERIMENT} ahead {name}"), 300_000, move |rows| one_length(setup, name, len, all, rows))
    };
    Ok(cases.map(step).into())
}

fn one_length(setup: &Setup, case: &str, len: usize, all: usize, rows: &mut Rows<'_>) -> Result<()> {
    let count = if setup.quick { 3 } else { 7 };
    let row = |measure: &str, scheme: &str| {
        row_of(EXPERIMENT, case, [OPERATION, measure, scheme, "serial"], [len as u64, 1], 1)
    };
    let (mut data, mut pads) = (random_vec(len as u64, len), Pads::new(setup, len, all));
    pads.check(&data)?;
    let at_once = rounds(count, || pads.encrypt(&mut data)).of(row(LATENCY, AT_ONCE));
    let ahead = rounds(count, || pads.xor_next(&mut data)).of(row(LATENCY, AHEAD));
    let work = rounds(count, || pads.make_and_xor(&mut data)).of(row(WORK, AHEAD));
    let median_s = at_once.median_s.unwrap_or_default();
    rows.write(at_once)?;
    rows.write_all([ahead, work].map(|row| row.compared(Over { name: AT_ONCE, median_s }, None)))?;
    for suite in SUITES {
        let (engine, mut job) = seal(setup, suite, &data)?;
        let times = try_rounds(count, || engine.run(&mut job).map(drop));
        rows.write(times.map_err(|fault| Error::Core(fault.into()))?.of(row(LATENCY, &sealed(suite))))?;
    }
    Ok(())
}

/// Pads in one large buffer, used in turn.
struct Pads {
    level: aes::Level,
    key: aes::Key,
    len: usize,
    bytes: Vec<u8>,
    next: usize,
}

impl Pads {
    /// Pads of `len` bytes, `all` bytes of them together.
    fn new(setup: &Setup, len: usize, all: usize) -> Self {
        let count = (all / len).max(2);
        let (level, key) = (setup.levels.aes, aes::Key::new(&random::<32>(3)));
        let mut pads = Self { level, key, len, bytes: vec![0; count * len], next: 0 };
        (0..count).for_each(|i| pads.make(i));
        pads
    }

    fn count(&self) -> usize {
        self.bytes.len() / self.len
    }

    /// The counter of a pad. Each pad has its own, as if each write had a nonce.
    fn counter(&self, i: usize) -> Nonce {
        counter_after(&Nonce::default(), (i * self.len.div_ceil(aes::BLOCK)) as u64)
    }

    /// Makes a pad. This overwrites the used pad in its place.
    fn make(&mut self, i: usize) {
        let counter = self.counter(i);
        let pad = &mut self.bytes[i * self.len..][..self.len];
        pad.fill(0);
        aes::ctr_xor(self.level, &self.key, &counter, pad);
    }

    fn xor(&self, i: usize, data: &mut [u8]) {
        let pad = &self.bytes[i * self.len..][..self.len];
        data.iter_mut().zip(pad).for_each(|(byte, key)| *byte ^= *key);
    }

    /// Encrypts without a pad.
    fn encrypt(&mut self, data: &mut [u8]) {
        self.next = (self.next + 1) % self.count();
        aes::ctr_xor(self.level, &self.key, &self.counter(self.next), data);
    }

    /// Encrypts with the next pad.
    fn xor_next(&mut self, data: &mut [u8]) {
        self.next = (self.next + 1) % self.count();
        self.xor(self.next, data);
    }

    /// Encrypts with the next pad, and makes one for later. That one is far from the pad in use, so that each pad comes
    /// from memory.
    fn make_and_xor(&mut self, data: &mut [u8]) {
        self.xor_next(data);
        self.make((self.next + self.count() / 2) % self.count());
    }

    /// Fails unless both ways produce the same ciphertext.
    fn check(&mut self, data: &[u8]) -> Result<()> {
        for i in [0, self.count() - 1] {
            let (mut at_once, mut ahead) = (data.to_vec(), data.to_vec());
            aes::ctr_xor(self.level, &self.key, &self.counter(i), &mut at_once);
            self.xor(i, &mut ahead);
            if at_once != ahead {
                return Err(Error::Program("keystream made ahead gives other bytes".into()));
            }
        }
        Ok(())
    }
}

/// One chunk as a job of the CPU's engine with one thread.
fn seal(setup: &Setup, suite: Suite, data: &[u8]) -> Result<(CpuEngine, Job)> {
    let engine = CpuEngine::parallel(1, setup.levels);
    let key = SecretKey::from_slice(&[7; 32]).expect("32 bytes");
    let mut buffer = engine.buffer(data.len()).map_err(phalanx_core::Error::from)?;
    buffer.copy_from_slice(data);
    let log = data.len().next_power_of_two().ilog2() as u8;
    let keys: Arc<[_]> = key.file_keys(suite).of_jobs();
    let mut job = Job::of_chunks(Op::Seal, suite, log, keys, buffer);
    job.units = vec![Unit {
        key: 0,
        nonce: [1; 16],
        bind: Bind::Chunk { index: 0, last: true },
        data: 0..data.len(),
        tag: [0; 32],
    }];
    Ok((engine, job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pad_has_the_bytes_of_the_cipher_and_can_be_made_again() {
        let setup = Setup::of_tests("");
        for len in [16, 4096, 32_000] {
            let mut pads = Pads::new(&setup, len, 5 * len);
            let data: Vec<u8> = (0..=250).cycle().take(len).collect();
            pads.check(&data).unwrap();
            let mut back = data.clone();
            pads.make_and_xor(&mut back);
            pads.check(&data).unwrap();
            assert!(back != data);
            pads.bytes[0] ^= 1;
            assert!(pads.check(&data).is_err());
        }
    }
}
