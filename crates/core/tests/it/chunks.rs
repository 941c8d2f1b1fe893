//! Chunks that are sealed elsewhere make the usual file, in order, and no nonce is given out twice.

use crate::common::painted;
use phalanx_core::engine::{Buffer, ChunkWriter, CpuEngine, Engine, Job, Levels};
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, ProtectedFile, Recipient, Result, Roster, SecretKey, Sink, Source,
    Suite,
};
use phalanx_reference as reference;
use std::collections::HashSet;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

const KEY: [u8; 32] = [42; 32];
const CHUNK: usize = 4096;

fn key() -> SecretKey {
    SecretKey::from_slice(&KEY).unwrap()
}

fn writer<W: Write>(suite: Suite, output: W) -> ChunkWriter<W> {
    let new =
        NewFile::with_chunk_size(suite, ChunkSize::new(CHUNK as u64).unwrap(), &[Recipient::key(&key())]).unwrap();
    new.chunk_writer(output).unwrap()
}

fn open(stored: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    let protected = ProtectedFile::open(Source::stream(stored), &Opener::new(key(), KdfLimit::default()))?;
    protected.unprotect(&Roster::cpu(), Sink::Stream(Box::new(&mut plain)), &())?;
    Ok(plain)
}

/// Seals the job's chunks as an engine does that has their plaintext, and returns where they are stored.
fn seal(job: &mut Job, mut plain: &[u8]) -> Vec<u8> {
    let len = job.units.last().unwrap().data.end;
    let mut there = job.like(Buffer::paged(len));
    there.units.clone_from(&job.units);
    for unit in &there.units {
        let (data, rest) = plain.split_at(unit.data.len());
        there.buf[unit.data.clone()].copy_from_slice(data);
        plain = rest;
    }
    assert!(CpuEngine::parallel(2, Levels::detect()).run(&mut there).unwrap().all_passed());
    job.units.clone_from(&there.units);
    there.buf.to_vec()
}

#[test]
fn runs_of_any_length_make_the_usual_file() {
    for &suite in Suite::ALL {
        for (run, lengths) in [(1, &[0, 1, CHUNK, CHUNK + 1, 5 * CHUNK + 9][..]), (3, &[1, 3 * CHUNK, 7 * CHUNK + 9])] {
            for &len in lengths {
                let (plain, mut stored) = (painted(len), Vec::new());
                let mut writer = writer(suite, &mut stored);
                let mut jobs = Vec::new();
                let mut rest = &plain[..];
                loop {
                    let (part, behind) = rest.split_at(rest.len().min(run * CHUNK));
                    jobs.push((writer.job(part.len(), behind.is_empty()).unwrap(), part));
                    rest = behind;
                    if rest.is_empty() {
                        break;
                    }
                }
                // All jobs are out at once, and are sealed in another order than they are written.
                let mut sealed: Vec<_> = jobs
                    .into_iter()
                    .rev()
                    .map(|(mut job, plain)| {
                        let stored = seal(&mut job, plain);
                        (job, stored)
                    })
                    .collect();
                while let Some((job, mut stored)) = sealed.pop() {
                    writer.write(job, &mut stored).unwrap();
                }
                assert_eq!(writer.finish().unwrap(), len as u64);
                assert!(open(&stored).unwrap() == plain, "{len} in runs of {run}");
                assert!(reference::open_file(&stored, &[], &[KEY]).unwrap() == plain);
                // The header is as short as that of any other writer.
                let mut same = Vec::new();
                let new =
                    NewFile::with_chunk_size(suite, ChunkSize::new(CHUNK as u64).unwrap(), &[Recipient::key(&key())]);
                let mut other = new.unwrap().writer(Roster::cpu().into(), &mut same).unwrap();
                other.write_all(&plain).unwrap();
                other.finish().unwrap();
                assert_eq!(stored.len(), same.len(), "{len} in runs of {run}");
            }
        }
    }
}

#[test]
fn no_nonce_is_given_out_twice() {
    let mut nonces = HashSet::new();
    let mut writer = writer(Suite::default(), Vec::new());
    for _ in 0..50 {
        for unit in writer.job(4 * CHUNK, false).unwrap().units {
            assert!(nonces.insert(unit.nonce), "a nonce came again");
        }
    }
    assert_eq!(nonces.len(), 200);
}

#[test]
fn only_the_oldest_job_is_written_and_only_once() {
    let plain = painted(CHUNK);
    let text = "chunks are written in another order than they were given out";
    for wrong in 0..4 {
        let mut writer = writer(Suite::default(), Vec::new());
        let mut first = writer.job(CHUNK, false).unwrap();
        let mut second = writer.job(CHUNK, true).unwrap();
        let (mut of_first, mut of_second) = (seal(&mut first, &plain), seal(&mut second, &plain));
        let refused = match wrong {
            0 => writer.write(second, &mut of_second),
            1 => {
                let mut again = first.like(Buffer::paged(0));
                again.units.clone_from(&first.units);
                writer.write(first, &mut of_first).unwrap();
                writer.write(again, &mut of_first)
            }
            2 => {
                first.units[0].nonce[3] ^= 1;
                writer.write(first, &mut of_first)
            }
            _ => {
                first.units.clear();
                writer.write(first, &mut of_first)
            }
        };
        assert!(refused.unwrap_err().to_string().contains(text), "{wrong}");
        // The file is given up.
        let told = writer.job(CHUNK, true).err().map(|error| error.to_string()).unwrap();
        assert!(told.contains("an earlier write failed"), "{told}");
        assert!(writer.finish().unwrap_err().to_string().contains("an earlier write failed"));
    }
}

#[test]
fn a_file_without_its_end_is_not_finished() {
    for is_ended in [false, true] {
        let mut stored = Vec::new();
        let mut writer = writer(Suite::default(), &mut stored);
        let mut job = writer.job(CHUNK, false).unwrap();
        let mut sealed = seal(&mut job, &painted(CHUNK));
        writer.write(job, &mut sealed).unwrap();
        if is_ended {
            drop(writer.job(5, true).unwrap());
        }
        assert!(writer.finish().unwrap_err().to_string().contains("the last chunk was not written"));
        assert!(open(&stored).is_err());
    }
}

#[test]
fn lengths_that_are_no_chunks_are_mistakes() {
    for (before, len, last) in [(0, 0, false), (0, 1, false), (0, CHUNK + 1, false), (CHUNK, 0, true)] {
        let mut writer = writer(Suite::default(), Vec::new());
        if before > 0 {
            drop(writer.job(before, false).unwrap());
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(writer.job(len, last)))).is_err(), "{before} {len} {last}");
    }
    let mut writer = writer(Suite::default(), Vec::new());
    drop(writer.job(CHUNK, true).unwrap());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(writer.job(CHUNK, true)))).is_err());
}

/// An output with room for so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.0);
        self.0 -= len;
        if len == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(len) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_output_gives_the_file_up() {
    for room in [0, 100, 5000] {
        let mut writer = writer(Suite::default(), Full(room));
        let mut job = writer.job(2 * CHUNK, true).unwrap();
        let mut sealed = seal(&mut job, &painted(2 * CHUNK));
        let error = writer.write(job, &mut sealed).unwrap_err();
        assert!(matches!(&error, Error::Write(e) if e.kind() == io::ErrorKind::StorageFull), "{error}");
        assert!(writer.finish().unwrap_err().to_string().contains("an earlier write failed"));
    }
}
