//! Opening into a device's memory, and sealing from there.
//!
//! What crosses to the device is ciphertext, and what lies there afterwards is plaintext. The host hashes nothing and
//! sees no plaintext. It computes the tags from the digests of the slices, as [`crate::GpuEngine`] does. Unlike there,
//! the caller's memory is the target, so nothing is decrypted before all tags are found to be right.

use crate::cipher::{AesLaunch, Direction, RoundKeys, Spans};
use crate::device::{ALIGN, Block, Buffer, Pinned, Stream};
use crate::digests::Digests;
use crate::engine::{SLICE_LEN, SPAN_LEN, SUITES, constant_time_launch};
use crate::error::Result;
use crate::hash::Slices;
use crate::plan::{self, Limits, Window};
use crate::rows::runs;
use crate::schedule::KEY_WORDS;
use phalanx_core::Suite;
use phalanx_core::engine::{self, Bind, Job, Op, Unit, Verdicts};
use phalanx_kernels::aes::BLOCK;
use phalanx_kernels::keccak::{self, DIGEST};
use std::fmt;
use std::mem;
use std::ops::Range;

/// The most bytes and slices of one call: what spans and slices can name.
const LIMITS: Limits = Limits { len: 1 << 35, slices: 1 << 26 };

/// Where sealed chunks lie that are to be opened.
#[derive(Clone, Copy, Debug)]
pub enum Sealed<'a> {
    /// In pinned memory of the host: they are copied to the device.
    Pinned(&'a Pinned),
    /// In memory of the device: they are copied there, and do not change.
    Device(&'a Buffer),
}

/// Opens sealed chunks into memory of a device, and seals what lies there, on one stream of the caller's.
///
/// A [`Job`] of chunks says what is done. Its buffer is empty, because the bytes lie elsewhere: the range of a unit is
/// the place of its ciphertext in the *sealed* memory, in bytes, at any alignment, and the units need not touch there.
/// In the *plain* memory they lie one after another, without gaps, from a place on that is a multiple of 16. So the
/// chunks of a file become one array. All units but the last have a multiple of 16 bytes, as whole chunks have.
///
/// The caller chooses the windows: each call takes the chunks that it names, in the first 32 GiB of the plain
/// memory. All work is done on the
/// stream that was given to [`Resident::new`], after what the caller has started on it. Several values with their own
/// streams overlap copies with kernels.
///
/// Keys are wiped on the device and in the host's memory, but for the stack, before a call returns or, after
/// [`Resident::start_open`], when the stream is finished. Plaintext is wiped when its [`Buffer`] is dropped.
///
/// ```no_run
/// # fn open(device: &phalanx_gpu::Device, job: &mut phalanx_core::engine::Job, sealed: &phalanx_gpu::Pinned) -> phalanx_gpu::Result<()> {
/// use phalanx_gpu::{Resident, Sealed};
///
/// let mut stream = device.stream()?;
/// let mut plain = stream.buffer(16 << 20)?;
/// let mut resident = Resident::new(stream, phalanx_kernels::keccak::Level::detect())?;
/// if resident.open(job, Sealed::Pinned(sealed), &mut plain, 0)?.all_passed() {
///     // Kernels on any stream of the device can now read `plain`.
/// }
/// # Ok(()) }
/// ```
pub struct Resident {
    /// This is the first field, so that it is finished before the memory is freed.
    stream: Stream,
    launch: AesLaunch,
    keccak: keccak::Level,
    /// Keys, spans and slices. `None` while a call gathers them, and after a failure.
    block: Option<Block>,
    digests: Digests,
    /// Where sealing encrypts. Its plaintext is wiped when it is dropped.
    work: Option<Buffer>,
    /// The length of the digests of a call that has started and not finished, in bytes.
    started: usize,
}

/// A call's work, ready to start.
struct Plan {
    keys: RoundKeys,
    spans: Spans,
    slices: Slices,
    /// The length of the digests in bytes.
    digests: usize,
}

impl Resident {
    /// Works on this stream. The CPU computes the tags with `keccak`.
    ///
    /// # Errors
    /// As for [`Stream::buffer`] and [`Device::pinned`](crate::Device::pinned), and
    /// [`Reason::Build`](crate::Reason::Build) if a kernel does not build.
    pub fn new(mut stream: Stream, keccak: keccak::Level) -> Result<Self> {
        let launch = constant_time_launch(stream.device())?;
        let digests = Digests::new(&mut stream, DIGEST)?;
        Ok(Self { stream, launch, keccak, block: None, digests, work: None, started: 0 })
    }

    /// The stream, for the caller's own work in its order.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Allocates what calls need for up to this many chunks of this length, so that they do not run out of memory.
    pub(crate) fn reserve(&mut self, chunks: usize, chunk: usize) -> Result<()> {
        // The first span of a chunk may be shorter than the others.
        let spans = chunks * (chunk.div_ceil(self.longest_span()) + 1);
        let slices = chunks * chunk.div_ceil(engine::slice_len(chunk.ilog2() as u8));
        self.block = Some(Block::new(self.stream.device(), room(spans, slices, 1))?);
        self.digests.make_room(&mut self.stream, slices * DIGEST)
    }

    /// With spans of this length in bytes all threads of a group have the same key.
    fn longest_span(&self) -> usize {
        (self.launch.threads * self.launch.granularity) as usize * BLOCK
    }

    /// Opens chunks into `plain`, from byte `at` on, and waits until that is done. Any stream can then use them.
    ///
    /// If the verdicts name a unit, nothing was decrypted, and the place of all units of this call holds zeros.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused), before anything is started, if
    /// - the job seals, has messages, bytes in its buffer, or a suite without kernels,
    /// - a unit's key is missing, a key has another length than the suite's, a unit's range is not in `sealed`, or a unit but the last has no whole blocks,
    /// - `at` is not a multiple of 16, or the plaintext does not fit into `plain` from there on, or into its first 32 GiB,
    /// - memory is on another device, or `sealed` and `plain` are the same.
    ///
    /// Otherwise as for [`Stream::aes_ctr_spans`]. After a failure the place in `plain` may hold anything but
    /// plaintext that is not authentic.
    pub fn open(&mut self, job: &mut Job, sealed: Sealed<'_>, plain: &mut Buffer, at: usize) -> Result<Verdicts> {
        let verdicts = self.start_open(job, sealed, plain, at)?;
        let done = self.stream.finish();
        self.settle(done).map(|()| verdicts)
    }

    /// Opens chunks as [`Resident::open`] does, but only starts decrypting. The tags are checked already, and the
    /// sealed memory is not needed any more. Work that the caller starts on [`Resident::stream`] finds the plaintext;
    /// before other streams use it, that stream must be finished.
    ///
    /// # Errors
    /// As for [`Resident::open`]. A failure of the decryption is reported when the stream is finished.
    pub fn start_open(&mut self, job: &mut Job, sealed: Sealed<'_>, plain: &mut Buffer, at: usize) -> Result<Verdicts> {
        self.check_job(job, Op::Open)?;
        let end = match sealed {
            Sealed::Pinned(pinned) => {
                self.stream.check_pinned(pinned)?;
                pinned.len()
            }
            Sealed::Device(buffer) => buffer.len(),
        };
        let place = self.check_places(job, end, plain, at)?;
        let Some((window, units)) = window(&job.units, job.slice_len()) else {
            return Ok(Verdicts::from_failed(engine::tag(self.keccak, job, &[])));
        };
        let done = self.open_window(job, (&window, &units), sealed, plain, place);
        self.settle(done)
    }

    /// Seals chunks of `plain`, which does not change, from byte `at` on, to memory of the device, and waits until that
    /// is done. Sets the tags of the units. `sealed` does not change between the units. Device memory of the same
    /// length is used for the work.
    ///
    /// # Errors
    /// Those of [`Resident::open`], but the job seals. After a failure, what was to be sealed may hold anything but
    /// plaintext.
    pub fn seal(&mut self, job: &mut Job, plain: &Buffer, at: usize, sealed: &mut Buffer) -> Result<()> {
        self.check_job(job, Op::Seal)?;
        let place = self.check_places(job, sealed.len(), plain, at)?;
        let done = self.seal_window(job, plain, place, |stream, work, units, placed| {
            let mut pairs = units.iter().zip(placed);
            pairs.try_for_each(|(unit, placed)| stream.copy_range(work, placed.data.clone(), sealed, unit.data.start))
        });
        self.settle(done)
    }

    /// Seals chunks as [`Resident::seal`] does, to pinned memory of the host, and returns that.
    ///
    /// # Errors
    /// Those of [`Resident::seal`]. The pinned memory is then dropped, because the device may still write to it.
    pub fn seal_to_host(&mut self, job: &mut Job, plain: &Buffer, at: usize, mut sealed: Pinned) -> Result<Pinned> {
        self.check_job(job, Op::Seal)?;
        self.stream.check_pinned(&sealed)?;
        let place = self.check_places(job, sealed.len(), plain, at)?;
        let done = self.seal_window(job, plain, place, |stream, work, units, placed| {
            // SAFETY: `seal_window` finishes the stream. If it fails, this function returns an error: the pinned memory
            // is dropped after `settle` has waited, and if the device is dead, it is not freed.
            unsafe { download(stream, work, &mut sealed, units, placed) }
        });
        self.settle(done).map(|()| sealed)
    }

    /// Starts sealing chunks where they lie, from the beginning of `plain` on, and copying them to pinned memory. Their
    /// place in `plain` will hold zeros. [`Resident::finish_seal`] waits for that, and nothing else is done before.
    ///
    /// # Errors
    /// Those of [`Resident::seal`].
    ///
    /// # Safety
    /// Nothing uses `sealed` until the stream is finished. If it is never finished, nothing ever uses it.
    pub(crate) unsafe fn start_seal_in_place(
        &mut self,
        job: &Job,
        plain: &mut Buffer,
        sealed: &mut Pinned,
    ) -> Result<()> {
        self.check_job(job, Op::Seal)?;
        self.stream.check_pinned(sealed)?;
        let place = self.check_places(job, sealed.len(), plain, 0)?;
        let Some((window, units)) = window(&job.units, job.slice_len()) else { return Ok(()) };
        let started = self.plan(job, &window, &units, 0).and_then(|plan| {
            self.start_sealing(job.suite, &plan, plain, place.len(), |stream, work| {
                // SAFETY: this is what the caller promises.
                unsafe { download(stream, work, sealed, &job.units, &units) }
            })
        });
        self.settle(started)
    }

    /// Waits for what [`Resident::start_seal_in_place`] has started for this job, and sets the tags of its units.
    pub(crate) fn finish_seal(&mut self, job: &mut Job) -> Result<()> {
        let done = self.finish_sealing(job);
        self.settle(done)
    }

    /// After a failure nothing may be in progress that uses memory of the caller's, and what was gathered is dropped.
    fn settle<T>(&mut self, done: Result<T>) -> Result<T> {
        done.inspect_err(|_| {
            let _ = self.stream.finish();
            self.stream.stop_gathering();
            self.block = None;
            self.work = None;
            self.started = 0;
        })
    }

    fn check_job(&self, job: &Job, op: Op) -> Result<()> {
        let device = self.stream.device();
        if job.op != op {
            return device.refuse("the job is for the other operation");
        }
        if !SUITES.contains(&job.suite) {
            return device.refuse(format!("it has no {}", job.suite.name()));
        }
        if !job.buf.is_empty() || job.units.iter().any(|unit| !matches!(unit.bind, Bind::Chunk { .. })) {
            return device.refuse("a job of messages, or with bytes of its own");
        }
        if job.units.iter().any(|unit| unit.key as usize >= job.keys.len()) {
            return device.refuse("a chunk has no key");
        }
        if job.keys.iter().any(|keys| keys.encrypt().len() != job.suite.key_len()) {
            return device.refuse("a key has another length than the suite's");
        }
        Ok(())
    }

    /// The place of the plaintext.
    fn check_places(&self, job: &Job, end_of_sealed: usize, plain: &Buffer, at: usize) -> Result<Range<usize>> {
        let device = self.stream.device();
        let (mut before, mut len, mut slices) = (0, 0, 0);
        for (i, Unit { data, .. }) in job.units.iter().enumerate() {
            if data.start < before || data.start > data.end || data.end > end_of_sealed {
                return device.refuse(format!("chunk {i} at {data:?} of {end_of_sealed} sealed bytes"));
            }
            if i + 1 < job.units.len() && !data.len().is_multiple_of(BLOCK) {
                return device.refuse(format!("chunk {i} has no whole blocks, and is not the last"));
            }
            before = data.end;
            len += data.len();
            slices += data.len().div_ceil(job.slice_len());
        }
        if slices > LIMITS.slices {
            return device.refuse(format!("{slices} slices, more than {}", LIMITS.slices));
        }
        // A span owns its whole last block.
        let end = at.checked_add(len).and_then(|end| end.checked_next_multiple_of(ALIGN));
        match end.filter(|end| *end <= plain.len() && at.is_multiple_of(ALIGN) && *end < LIMITS.len) {
            Some(_) => Ok(at..at + len),
            None => device.refuse(format!("{len} bytes at {at} of {} bytes of plain memory", plain.len())),
        }
    }

    fn open_window(
        &mut self,
        job: &mut Job,
        (window, units): (&Window, &[Unit]),
        sealed: Sealed<'_>,
        plain: &mut Buffer,
        place: Range<usize>,
    ) -> Result<Verdicts> {
        let plan = self.plan(job, window, units, place.start)?;
        match sealed {
            Sealed::Pinned(from) => {
                for run in runs(&job.units, units) {
                    let at = place.start + run.plain_at;
                    // SAFETY: the bytes are borrowed until this call ends, and the stream is finished before that. If
                    // finishing fails, the device is dead, and what it reads later has no effect on the host.
                    unsafe { self.stream.start_upload_rows(plain, at, from, run.sealed_at, &run.rows)? }
                }
            }
            Sealed::Device(from) => {
                for (unit, placed) in job.units.iter().zip(units) {
                    self.stream.copy_range(from, unit.data.clone(), plain, place.start + placed.data.start)?;
                }
            }
        }
        self.digests.make(&mut self.stream, job.suite, &plan.slices, plain, 0..plan.digests)?;
        self.stream.finish()?;
        let keys_len = self.clear_host();
        let failed = engine::tag(self.keccak, job, self.digests.of(0..plan.digests));
        if failed.is_empty() {
            self.stream.aes_ctr_spans(&self.launch, &plan.keys, &plan.spans, plain)?;
        } else {
            self.stream.zero(&plain.part(place.start..place.end.next_multiple_of(ALIGN)), place.len())?;
        }
        self.clear_device(keys_len)?;
        Ok(Verdicts::from_failed(failed))
    }

    /// `give` starts copies of units from their places in the work buffer to those in the sealed memory.
    fn seal_window(
        &mut self,
        job: &mut Job,
        plain: &Buffer,
        place: Range<usize>,
        give: impl FnOnce(&mut Stream, &Buffer, &[Unit], &[Unit]) -> Result<()>,
    ) -> Result<()> {
        let Some((window, units)) = window(&job.units, job.slice_len()) else {
            engine::tag(self.keccak, job, &[]);
            return Ok(());
        };
        let mut work = match self.work.take().filter(|work| work.len() >= place.len()) {
            Some(work) => work,
            None => self.stream.buffer(place.len())?,
        };
        let plan = self.plan(job, &window, &units, 0)?;
        let len = place.len();
        self.stream.copy_range(plain, place, &mut work, 0)?;
        self.start_sealing(job.suite, &plan, &mut work, len, |stream, work| give(stream, work, &job.units, &units))?;
        self.finish_sealing(job)?;
        self.work = Some(work);
        Ok(())
    }

    /// Starts encrypting and hashing the chunks at the beginning of `work`, which are `len` bytes, giving them, and wiping
    /// them and the keys.
    fn start_sealing(
        &mut self,
        suite: Suite,
        plan: &Plan,
        work: &mut Buffer,
        len: usize,
        give: impl FnOnce(&mut Stream, &Buffer) -> Result<()>,
    ) -> Result<()> {
        self.stream.aes_ctr_spans(&self.launch, &plan.keys, &plan.spans, work)?;
        self.digests.make(&mut self.stream, suite, &plan.slices, work, 0..plan.digests)?;
        give(&mut self.stream, work)?;
        self.stream.zero(work, len)?;
        let used = self.block.as_ref().map_or(0, |block| block.memory().1);
        self.clear_device(used)?;
        self.started = plan.digests;
        Ok(())
    }

    /// Waits for the end of what `start_sealing` has started, and sets the tags.
    fn finish_sealing(&mut self, job: &mut Job) -> Result<()> {
        self.stream.finish()?;
        self.clear_host();
        engine::tag(self.keccak, job, self.digests.of(0..mem::take(&mut self.started)));
        Ok(())
    }

    /// Gathers the keys, spans and slices, and starts copying them to the device. They name bytes from `at` on.
    fn plan(&mut self, job: &Job, window: &Window, units: &[Unit], at: usize) -> Result<Plan> {
        let keys: Vec<&[u8]> = job.keys.iter().map(|keys| keys.encrypt()).collect();
        let (mut spans, mut slices) = (window.spans(units, &[], self.longest_span()), window.slices());
        spans.iter_mut().for_each(|span| span.at += at);
        slices.iter_mut().for_each(|slice| slice.at += at);
        let digests = slices.len() * DIGEST;
        let room = room(spans.len(), slices.len(), keys.len());
        let block = match self.block.take().filter(|block| block.len() >= room) {
            Some(block) => block,
            None => Block::new(self.stream.device(), room)?,
        };
        self.digests.make_room(&mut self.stream, digests)?;
        self.stream.gather(block);
        let keys = self.stream.round_keys(&keys, Direction::Encrypt)?;
        let (spans, slices) = (self.stream.spans(&spans)?, self.stream.slices(&slices)?);
        // SAFETY: the block is cleared when the stream is finished. If that fails, `settle` drops it, and if the device
        // is dead, its memory is neither used again nor freed.
        self.block = Some(unsafe { self.stream.send_gathered() }?);
        Ok(Plan { keys, spans, slices, digests })
    }

    /// Wipes the host's keys. No copy from there is in progress. Returns the length of the device's.
    fn clear_host(&mut self) -> usize {
        let Some(block) = &mut self.block else { return 0 };
        let used = block.memory().1;
        block.clear();
        used
    }

    /// Starts wiping the device's keys, after all work so far.
    fn clear_device(&mut self, used: usize) -> Result<()> {
        let Some(block) = &self.block else { return Ok(()) };
        self.stream.zero(block.memory().0, used)
    }
}

impl fmt::Debug for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resident on {:?}", self.stream.device())
    }
}

/// Starts copying units from their places on the device to those in pinned memory.
///
/// # Safety
/// As for [`Stream::start_download`].
unsafe fn download(stream: &mut Stream, from: &Buffer, to: &mut Pinned, units: &[Unit], placed: &[Unit]) -> Result<()> {
    runs(units, placed).iter().try_for_each(|run| {
        // SAFETY: this is what the caller promises.
        unsafe { stream.start_download_rows(from, run.plain_at, to, run.sealed_at, &run.rows) }
    })
}

/// The length of a block for so many spans, slices and keys.
fn room(spans: usize, slices: usize, keys: usize) -> usize {
    Block::room([spans * SPAN_LEN, slices * SLICE_LEN, keys * KEY_WORDS * 4])
}

/// The units as they lie in the plain memory, from 0 on, and all of them in one window. `None` if they have no bytes.
fn window(units: &[Unit], slice_len: usize) -> Option<(Window, Vec<Unit>)> {
    let mut end = 0;
    let mut units = units.to_vec();
    for unit in &mut units {
        let len = unit.data.len();
        unit.data = end..end + len;
        end += len;
    }
    let mut windows = plan::windows(&units, slice_len, LIMITS);
    debug_assert!(windows.len() <= 1, "`check_places` refuses more");
    windows.pop().map(|window| (window, units))
}
