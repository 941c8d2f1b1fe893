//! Phalanx's format in memory. Its two parts, AES and the hashes of slices, are measured separately. The whole is
//! measured on the CPU, on a device, and on both. Both share the work by one queue, from which faster lanes take more,
//! or by P1's fixed ratio (Eq. 1).

use crate::measure::device::{self, Crew, fixed_part};
use crate::measure::sefps::{Case, format};
use crate::measure::threads::each;
use crate::measure::times::{rounds as times_of, try_rounds};
use crate::measure::{Error, Result, Row, Rows, Setup, lock};
use crate::names::sefps::{CPU, GPU, HYBRID, IN_MEMORY, SERIAL};
use phalanx_core::engine::{
    self, Bind, Buffer, ContentKeys, CpuEngine, Engine, Extent, Job, Op, SLICE, Share, Tag, Unit, Verdicts, Work,
};
use phalanx_core::{Roster, SecretKey, Suite};
use phalanx_kernels::{aes, keccak};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

const SUITE: Suite = Suite::Aes256CtrSha3;
const CHUNK: usize = 1 << 20;
/// The most bytes that a thread takes at once, of data that are only encrypted or only hashed.
const PART: usize = 64 * SLICE;

/// Measures AES of whole slices, and the hashes of slices.
pub(super) fn parts_of_format(
    setup: &Setup,
    case: &Case,
    plain: &Path,
    rounds: usize,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let mut data = fs::read(plain).map_err(Error::at(plain))?;
    let row = |measure: &str, suite: Suite, engine: &str, threads: usize| Row {
        note: Some("in memory, apart from the rest: the format does AES and hashing in one go".into()),
        ..case.row(["protect", measure, &format(suite), engine], threads)
    };
    for (engine, threads) in [(SERIAL, 1), (CPU, setup.threads)] {
        for suite in [Suite::Aes128CtrSha3, SUITE] {
            let key = aes::Key::new(&[7; 32][..suite.key_len()]);
            let encrypt = |part: &mut [u8]| aes::ctr_xor(setup.levels.aes, &key, &[0; 16], part);
            let times = times_of(rounds, || each(threads, data.chunks_mut(PART), encrypt));
            rows.write(times.of(row("AES", suite, engine, threads)))?;
        }
        let hash = |part: &[u8]| {
            let slices: Vec<&[u8]> = part.chunks(SLICE).collect();
            let mut digests = vec![[0; keccak::DIGEST]; slices.len()];
            keccak::sha3_256_many(setup.levels.keccak, &slices, &mut digests);
            std::hint::black_box(&digests);
        };
        let times = times_of(rounds, || each(threads, data.chunks(PART), hash));
        rows.write(times.of(row("hash", SUITE, engine, threads)))?;
    }
    Ok(())
}

enum Split {
    /// All lanes take from one queue.
    Queue(Crew),
    /// The device takes this part of the chunks, and the CPU the others.
    Fixed { part: f64, device: Roster, cpu: Roster },
}

/// Measures each way of sealing a file's chunks in memory. All must produce the CPU's bytes.
pub(super) fn splits(setup: &Setup, case: &Case, plain: &Path, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let bytes = fs::read(plain).map_err(Error::at(plain))?;
    let mut sealed = vec![0; bytes.len()];
    let (mut wanted, mut on_cpu) = (None, None);
    let cpu = |threads| -> Arc<dyn Engine> { Arc::new(CpuEngine::parallel(threads, setup.levels)) };
    let device = || device::engine(setup, case.bytes);
    let both = || Ok(Split::Queue(Crew::new(&[cpu(setup.threads), device()?])));
    let fixed = || {
        let (device, part) = (device()?, fixed_part(setup)?);
        Ok(Split::Fixed { part, device: Roster::new(&[device]), cpu: Roster::new(&[cpu(setup.threads - 1)]) })
    };
    for (engine, threads, scheme, split) in [
        (CPU, setup.threads, format(SUITE), Ok(Split::Queue(Crew::new(&[cpu(setup.threads)])))),
        (GPU, 0, format(SUITE), device().map(|device| Split::Queue(Crew::new(&[device])))),
        (HYBRID, setup.threads, format!("{}, one queue", format(SUITE)), both()),
        (HYBRID, setup.threads, format!("{}, fixed ratio (Eq. 1)", format(SUITE)), fixed()),
    ] {
        let times = split.and_then(|split| {
            let tags = split.seal(&bytes, &mut sealed)?;
            match &wanted {
                None => wanted = Some((sealed.clone(), tags)),
                Some((bytes, wanted)) if *bytes == sealed && *wanted == tags => {}
                Some(_) => return Err(Error::Program(format!("{scheme}, {engine}: other bytes than the CPU's"))),
            }
            let times = try_rounds(rounds, || split.seal(&bytes, &mut sealed).map(drop))?;
            match &split {
                Split::Queue(crew) => crew.check().map(|()| [times]),
                Split::Fixed { .. } => Ok([times]),
            }
        });
        let row = case.row(["protect", IN_MEMORY, &scheme, engine], threads);
        rows.measured([row], times, on_cpu.map(|median| ("the CPU in memory", median)))?;
        on_cpu = on_cpu.or_else(|| rows.all().last().and_then(|row| row.median_s));
    }
    Ok(())
}

impl Split {
    /// Seals all chunks, and returns their tags.
    fn seal(&self, plain: &[u8], sealed: &mut [u8]) -> Result<Vec<Tag>> {
        let chunks: Vec<_> = sealed.chunks_mut(CHUNK).map(|bytes| Mutex::new((bytes, [0; 32]))).collect();
        let keys = SecretKey::from_slice(&[7; 32]).expect("32 bytes").file_keys(SUITE).content().clone();
        let keys: Arc<[ContentKeys]> = [keys].into();
        let work = |range: Range<usize>| {
            let count = range.len();
            InMemory { plain, chunks: &chunks, keys: keys.clone(), count, left: Mutex::new(range) }
        };
        match self {
            Split::Queue(crew) => engine::run(&crew.roster, &work(0..chunks.len()))?,
            Split::Fixed { part, device, cpu } => {
                let first = ((chunks.len() as f64 * part).round() as usize).min(chunks.len());
                let run = |roster: &Roster, range: Range<usize>| match range.is_empty() {
                    true => Ok(()),
                    false => engine::run(roster, &work(range)),
                };
                thread::scope(|scope| {
                    let others = scope.spawn(|| run(cpu, first..chunks.len()));
                    let mine = run(device, 0..first);
                    mine.and(others.join().expect("the CPU does not panic"))
                })?;
            }
        }
        Ok(chunks.iter().map(|chunk| lock(chunk).1).collect())
    }
}

/// Jobs take chunks from one buffer and put the sealed chunks into another, as if files were read and written.
struct InMemory<'a> {
    plain: &'a [u8],
    chunks: &'a [Mutex<(&'a mut [u8], Tag)>],
    keys: Arc<[ContentKeys]>,
    count: usize,
    /// The chunks that no job has taken yet.
    left: Mutex<Range<usize>>,
}

impl Work for InMemory<'_> {
    type Error = phalanx_core::Error;

    fn suite(&self) -> Suite {
        SUITE
    }

    fn extent(&self) -> Extent {
        Extent { len: Some((self.count * CHUNK) as u64), granule: CHUNK }
    }

    fn room(&self, len: usize) -> usize {
        len
    }

    fn job(&self, buf: Buffer) -> Job {
        Job::of_chunks(Op::Seal, SUITE, CHUNK.ilog2() as u8, self.keys.clone(), buf)
    }

    fn fill(&self, job: &mut Job, share: Share) -> phalanx_core::Result<bool> {
        let mut left = lock(&self.left);
        let count = share.of(left.len() as u64).min((job.buf.len() / CHUNK).max(1) as u64) as usize;
        let mine = left.start..left.end.min(left.start + count);
        left.start = mine.end;
        drop(left);
        job.units.clear();
        for (i, index) in mine.enumerate() {
            let chunk = self.plain.chunks(CHUNK).nth(index).expect("it is there");
            let data = i * CHUNK..i * CHUNK + chunk.len();
            job.buf[data.clone()].copy_from_slice(chunk);
            let bind = Bind::Chunk { index: index as u64, last: index + 1 == self.chunks.len() };
            job.units.push(Unit { key: 0, nonce: [index as u8; 16], bind, data, tag: [0; 32] });
        }
        Ok(!job.units.is_empty())
    }

    fn finish(&self, job: &mut Job, _: &Verdicts) -> phalanx_core::Result<()> {
        for unit in &job.units {
            let Bind::Chunk { index, .. } = unit.bind else { continue };
            let mut chunk = lock(&self.chunks[index as usize]);
            chunk.0.copy_from_slice(&job.buf[unit.data.clone()]);
            chunk.1 = unit.tag;
        }
        Ok(())
    }

    fn abort(&self) {
        let mut left = lock(&self.left);
        left.start = left.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::engine::Levels;
    use phalanx_gpu::GpuEngine;

    /// The CPU alone and every split with a device give the same bytes and tags.
    #[test]
    fn every_split_gives_the_same_bytes() {
        let levels = Levels::detect();
        let cpu = || -> Arc<dyn Engine> { Arc::new(CpuEngine::parallel(2, levels)) };
        let plain: Vec<u8> = (0..=250).cycle().take(5 * CHUNK + 4097).collect();
        let mut wanted = vec![0; plain.len()];
        let tags = Split::Queue(Crew::new(&[cpu()])).seal(&plain, &mut wanted).unwrap();
        assert!(wanted != plain && tags.len() == 6 && tags[0] != tags[1]);
        let fixed = |part, device| Split::Fixed { part, device: Roster::new(&[device]), cpu: Roster::new(&[cpu()]) };
        let mut splits = vec![fixed(0.0, cpu()), fixed(0.5, cpu()), fixed(1.0, cpu())];
        if let Some(device) = crate::measure::device::tests::device() {
            let engine: Arc<dyn Engine> = Arc::new(GpuEngine::new(device, levels.keccak));
            splits.push(Split::Queue(Crew::new(std::slice::from_ref(&engine))));
            splits.push(Split::Queue(Crew::new(&[cpu(), engine.clone()])));
            splits.push(fixed(0.7, engine));
        }
        for (i, split) in splits.iter().enumerate() {
            let mut sealed = vec![0; plain.len()];
            assert!(split.seal(&plain, &mut sealed).unwrap() == tags && sealed == wanted, "split {i}");
        }
    }
}
