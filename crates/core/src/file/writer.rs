//! Protecting bytes that come piece by piece.

use crate::file::records::{Memory, Records};
use crate::format::header::Header;
use crate::keys::key::FileKeys;
use crate::roster::{Member, Roster};
use crate::{Error, Result};
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How many bytes one job seals, unless a single chunk is longer.
const JOB: usize = 1 << 20;
/// The most that is gathered before it is sealed, unless a single chunk is longer, in bytes.
const BATCH: usize = 64 << 20;

/// Protects what is written to it. Made by [`NewFile::writer`](crate::NewFile::writer).
///
/// Chunks gather until there are two jobs for each worker of the roster, but no more than 64 MiB. All cores then seal
/// them, and they are written to the output in order. Every chunk records whether it is the last one of its file, so
/// [`Writer::finish`] must be called. A writer that is dropped before leaves an unfinished file, which every reader
/// refuses. [`Write::flush`] passes on what is sealed already and seals nothing.
///
/// After an error, the output does not hold a protected file, and all further calls fail.
///
/// ```
/// use phalanx_core::{NewFile, Recipient, Roster, SecretKey, Suite};
/// use std::{io::Write, sync::Arc};
///
/// let new = NewFile::new(Suite::default(), &[Recipient::key(&SecretKey::random()?)])?;
/// let mut stored = Vec::new();
/// let mut writer = new.writer(Arc::new(Roster::cpu()), &mut stored)?;
/// for line in 1..=1000 {
///     writeln!(writer, "line {line}")?;
/// }
/// assert_eq!(writer.finish()?, 8893);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer<W> {
    output: W,
    header: Header,
    keys: FileKeys,
    records: Records,
    roster: Arc<Roster>,
    /// The gathered plaintext, in buffers of the length of a job.
    jobs: Vec<Memory>,
    /// How many chunks a job holds.
    job: usize,
    /// How many jobs are gathered before they are sealed.
    most: usize,
    /// How much of the plaintext has gathered, in bytes.
    gathered: usize,
    /// How many chunks have been sealed.
    sealed: u64,
    len: u64,
    has_failed: bool,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(header: Header, keys: &FileKeys, roster: Arc<Roster>, output: W) -> Result<Self> {
        let records = Records::new(&header, keys);
        let job = (JOB / records.record_len()).max(1);
        let most = (2 * roster.workers(records.suite)?.len()).min(BATCH / (job * records.record_len())).max(1);
        let (jobs, gathered, sealed, len, has_failed) = (Vec::new(), 0, 0, 0, false);
        Ok(Self {
            output,
            header,
            keys: keys.clone(),
            records,
            roster,
            jobs,
            job,
            most,
            gathered,
            sealed,
            len,
            has_failed,
        })
    }

    /// Seals the last chunk, writes what is left and flushes the output. Returns the plaintext's length in bytes.
    ///
    /// The output is dropped. A caller who still needs it, to sync a file for example, makes the writer with `&mut
    /// output`.
    ///
    /// # Errors
    /// If an engine or writing failed, now or before, or if the plaintext is too long for its suite.
    pub fn finish(mut self) -> Result<u64> {
        self.seal(true)?;
        self.output.flush().map_err(Error::Write)?;
        Ok(self.len)
    }

    fn check(&self) -> Result<()> {
        if self.has_failed { Err(Error::Write(io::Error::other("an earlier write failed"))) } else { Ok(()) }
    }

    /// Takes more of the plaintext, as far as there is room in the job that it belongs to.
    fn gather(&mut self, bytes: &[u8]) -> Result<usize> {
        let (place, skip) = (self.gathered / self.records.chunk_len, self.gathered % self.records.chunk_len);
        if place / self.job == self.jobs.len() {
            let len = self.job * self.records.record_len();
            self.jobs.push(Memory::new(len, self.records.suite.overhead())?);
        }
        let room = self.records.data(place % self.job, self.records.chunk_len);
        let room = &mut self.jobs[place / self.job].bytes_mut()[room][skip..];
        let len = room.len().min(bytes.len());
        room[..len].copy_from_slice(&bytes[..len]);
        self.gathered += len;
        self.len += len as u64;
        Ok(len)
    }

    /// Seals and writes what has gathered; with `end`, as the end of the file.
    fn seal(&mut self, end: bool) -> Result<()> {
        self.check()?;
        self.has_failed = true;
        if self.jobs.is_empty() {
            self.gather(&[])?;
        }
        let chunk_len = self.records.chunk_len;
        // Only an empty file has an empty chunk.
        let chunks = self.gathered.div_ceil(chunk_len).max(1);
        if self.records.suite.max_chunks() - self.sealed < chunks as u64 {
            return Err(Error::Write(io::ErrorKind::FileTooLarge.into()));
        }
        let mut units: Vec<Vec<_>> = Vec::new();
        for chunk in 0..chunks {
            if chunk % self.job == 0 {
                units.push(Vec::new());
            }
            let (index, last) = (self.sealed + chunk as u64, end && chunk + 1 == chunks);
            let len = chunk_len.min(self.gathered - chunk * chunk_len);
            let unit = self.records.unit(chunk % self.job, index, last, len);
            units.last_mut().expect("there is one").push(unit);
        }
        let stored: Vec<_> = units.iter().map(|units| units.last().map_or(0, |unit| unit.data.end)).collect();
        self.run(units)?;
        if self.sealed == 0 {
            if end {
                // Nothing was written yet, and now its length is known.
                self.header = self.header.clone().fitted(Some(self.len), &self.keys)?;
            }
            self.output.write_all(self.header.bytes()).map_err(Error::Write)?;
        }
        for (memory, stored) in self.jobs.iter().zip(stored) {
            self.output.write_all(&memory.bytes()[..stored]).map_err(Error::Write)?;
        }
        self.sealed += chunks as u64;
        self.gathered = 0;
        self.has_failed = false;
        Ok(())
    }

    /// Seals jobs by as many threads as the roster has workers.
    fn run(&mut self, units: Vec<Vec<crate::engine::Unit>>) -> Result<()> {
        let (roster, records, count) = (&*self.roster, &self.records, units.len());
        let jobs = Mutex::new(self.jobs.iter_mut().zip(units));
        let failure = Mutex::new(None);
        let work = |member: &Member| {
            loop {
                let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((memory, units)) = next else { return };
                if let Err(error) = records.seal(roster, member, memory, units) {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    return;
                }
            }
        };
        let workers = roster.workers(records.suite)?;
        thread::scope(|scope| {
            let work = &work;
            for member in workers.iter().take(count).skip(1) {
                // If the system gives no more threads, the existing ones do the work.
                if thread::Builder::new().spawn_scoped(scope, move || work(member)).is_err() {
                    break;
                }
            }
            work(workers[0]);
        });
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.check()?;
        let mut done = 0;
        while done < buf.len() {
            // Which chunk is the last is known only at the end. So the gathered bytes wait for the next byte.
            if self.gathered == self.most * self.job * self.records.chunk_len {
                self.seal(false)?;
            }
            // If it fails, a part of `buf` has been taken, which the caller cannot know: nothing may follow.
            self.has_failed = true;
            done += self.gather(&buf[done..])?;
            self.has_failed = false;
        }
        Ok(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.check()?;
        self.output.flush()
    }
}

impl<W> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({}, {} bytes)", self.records.suite.name(), self.len)
    }
}
