//! P2's schemes on a device. All users' data are in one buffer of pinned memory, as for the schemes on the CPU.
//!
//! Times from host to host cover the same as the paper's: keys, data and the place of each slice's key go to the
//! device, and the data come back. Device memory is allocated before, in the run that is not counted. Data that do not
//! fit into one window pass through several.

use crate::measure::device::{for_bytes, require_right, window};
use crate::measure::times::{rounds_by_clock, try_rounds};
use crate::measure::users::data::{COUNTER, Data};
use crate::measure::users::rounds;
use crate::measure::{Error, Result, Row, Rows, Setup, Times};
use phalanx_core::engine::SLICE;
use phalanx_gpu::{AesLaunch, Buffer, Device, Direction, Pinned, RoundKeys, Span, Spans, Stream, Users, Variant};
use phalanx_kernels::aes::{self, BLOCK, counter_after};
use std::ops::Range;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Coalesced and sliced: one slice for each block of threads, with keys expanded by the CPU.
    Gcs,
    /// Coalesced, not sliced: one user for each block of threads. One of the threads expands the key.
    Gcns,
    /// Not coalesced: one user after another, each on the whole device.
    Gnc,
}

const KINDS: [Kind; 3] = [Kind::Gcs, Kind::Gcns, Kind::Gnc];
/// Phalanx's default, and the variant closest to the paper's: four tables.
const VARIANTS: [Variant; 2] = [Variant::Bitsliced, Variant::Table4];
const THREADS: u32 = 256;
const ENCRYPT: Direction = Direction::Encrypt;

impl Kind {
    /// Its name, its kernel, and the alignment of each user's data. Slices are padded (Eq. 10), and blocks are not
    /// divided.
    fn what(self) -> (&'static str, &'static str, usize) {
        match self {
            Kind::Gcs => ("GCS", "aes_ctr_spans", SLICE),
            Kind::Gcns => ("GCNS", "aes_ctr_users", BLOCK),
            Kind::Gnc => ("GNC", "aes_ctr", BLOCK),
        }
    }

    /// The name in rows.
    fn scheme(self, variant: Variant) -> String {
        self.what().0.to_owned() + if variant == Variant::Bitsliced { "" } else { ", T-tables" }
    }
}

/// The paper's name for this name in rows.
pub fn printed_name(scheme: &str) -> &str {
    scheme.split(", ").next().unwrap_or(scheme)
}

/// Measures all schemes on the same data, compared with one CPU thread. `row` makes a row from a scheme.
pub fn one_count(
    setup: &Setup,
    data: &Data,
    key_len: usize,
    one_thread: Option<f64>,
    row: impl Fn(&str) -> Row,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let device = match for_bytes(setup, data.plaintext() as u64) {
        Ok(device) => device,
        Err(why) => return rows.not_run(KINDS.map(|kind| row(kind.what().0)), &why.to_string()),
    };
    let over = one_thread.map(|median| ("1 thread", median));
    for variant in VARIANTS.into_iter().filter(|variant| device.has_room_for(variant.module())) {
        for kind in KINDS {
            let work = Work::new(device, kind, variant, data, key_len, window(device.info()));
            let times = work.map_err(Error::from).and_then(|work| work.times(setup, data, key_len));
            rows.with_kernels(row(&kind.scheme(variant)), times, over)?;
        }
    }
    Ok(())
}

/// The users that are on the device at a time.
struct Window {
    users: Range<usize>,
    /// The place of their data in the host's memory.
    bytes: Range<usize>,
    /// The users or slices to launch, counted from the window's beginning. Keys are counted from its first user's.
    spans: Vec<Span>,
}

/// Lays out consecutive users, each at a multiple of the scheme's alignment. Returns where each begins, and windows of
/// at most `room` bytes or of one user.
fn windows(kind: Kind, lengths: &[usize], room: usize) -> (Vec<usize>, Vec<Window>) {
    let (mut starts, mut windows) = (Vec::new(), Vec::<Window>::new());
    let mut at = 0;
    for (i, len) in lengths.iter().copied().enumerate() {
        let end = at + len.next_multiple_of(kind.what().2);
        // This scheme has one user at a time on the device.
        let fits = |window: &Window| kind != Kind::Gnc && end - window.bytes.start <= room;
        if !windows.last().is_some_and(fits) {
            windows.push(Window { users: i..i, bytes: at..at, spans: Vec::new() });
        }
        let window = windows.last_mut().expect("there is one now");
        let (first, key) = (at - window.bytes.start, window.users.len() as u32);
        let piece = if kind == Kind::Gcs { SLICE } else { len.max(1) };
        window.spans.extend((0..len).step_by(piece).map(|start| Span {
            at: first + start,
            len: piece.min(len - start),
            key,
            counter: counter_after(&COUNTER, (start / BLOCK) as u64),
        }));
        starts.push(at);
        (window.users.end, window.bytes.end, at) = (i + 1, end, end);
    }
    (starts, windows)
}

/// All users' data in pinned memory, and the device memory that the scheme needs.
struct Work<'a> {
    stream: Stream,
    launch: AesLaunch,
    host: Pinned,
    /// The beginning of each user in it.
    starts: Vec<usize>,
    windows: Vec<Window>,
    keys: Vec<&'a [u8]>,
    data: Buffer,
    beside: Beside,
}

/// The device memory beside the data. Each window reuses the memory of the one before.
struct Beside {
    kind: Kind,
    round_keys: Option<RoundKeys>,
    spans: Option<Spans>,
    users: Option<Users>,
}

impl<'a> Work<'a> {
    fn new(
        device: &Device,
        kind: Kind,
        variant: Variant,
        data: &'a Data,
        key_len: usize,
        room: usize,
    ) -> phalanx_gpu::Result<Self> {
        let mut stream = device.stream()?;
        let launch = AesLaunch { threads: THREADS, ..AesLaunch::new(variant) };
        // Some kernels use too many registers for the paper's number of threads.
        let threads = THREADS.min(device.max_threads(launch.kernel(kind.what().1))?);
        let lengths: Vec<usize> = data.each().map(|(_, data)| data.len()).collect();
        let keys: Vec<&[u8]> = data.each().map(|(key, _)| &key.expose()[..key_len]).collect();
        let (starts, windows) = windows(kind, &lengths, room);
        let mut host = device.pinned(windows.last().map_or(0, |last| last.bytes.end))?;
        for (start, (_, data)) in starts.iter().zip(data.each()) {
            host[*start..start + data.len()].copy_from_slice(data);
        }
        let longest = windows.iter().map(|window| window.bytes.len()).max().unwrap_or(0);
        let buffer = stream.buffer(longest)?;
        let beside = Beside { kind, round_keys: None, spans: None, users: None };
        let launch = AesLaunch { threads, ..launch };
        Ok(Self { stream, launch, host, starts, windows, keys, data: buffer, beside })
    }

    /// Checks the bytes, and then returns the times from host to host and those of the kernels alone.
    fn times(mut self, setup: &Setup, data: &Data, key_len: usize) -> Result<[Times; 2]> {
        self.host_to_host()?;
        self.check(data, key_len, setup.levels.aes)?;
        let whole = try_rounds(rounds(setup), || self.host_to_host())?;
        Ok([whole, rounds_by_clock(rounds(setup), || self.kernels())?])
    }

    /// Encrypts everything, from the host's memory and back into it.
    fn host_to_host(&mut self) -> phalanx_gpu::Result<()> {
        let Self { stream, launch, host, windows, keys, data, beside, .. } = self;
        windows.iter().try_for_each(|window| {
            let host = &mut host[window.bytes.clone()];
            beside.bring(stream, window, keys)?;
            stream.upload(data, 0, host)?;
            beside.launch(stream, launch, window, data)?;
            stream.download(data, 0, host)
        })
    }

    /// How long the kernels take, by the device's clock.
    fn kernels(&mut self) -> phalanx_gpu::Result<Duration> {
        let Self { stream, launch, windows, keys, data, beside, .. } = self;
        windows.iter().try_fold(Duration::ZERO, |sum, window| {
            beside.bring(stream, window, keys)?;
            let ((), time) = stream.timed(|stream| beside.launch(stream, launch, window, data))?;
            Ok(sum + time)
        })
    }

    /// Runs once, and compares the data in the host's memory with the CPU's result.
    fn check(&self, data: &Data, key_len: usize, level: aes::Level) -> Result<()> {
        self.starts.iter().zip(data.each()).try_for_each(|(start, (key, data))| {
            let mut want = data.to_vec();
            aes::ctr_xor(level, &aes::Key::new(&key.expose()[..key_len]), &COUNTER, &mut want);
            require_right(self.stream.device(), self.host[*start..start + want.len()] == want)
        })
    }
}

impl Beside {
    /// Copies a window's keys to the device, and the places where they belong.
    fn bring(&mut self, stream: &mut Stream, window: &Window, keys: &[&[u8]]) -> phalanx_gpu::Result<()> {
        let keys = &keys[window.users.clone()];
        match self.kind {
            Kind::Gcs | Kind::Gnc => {
                self.round_keys = Some(stream.round_keys_again(keys, ENCRYPT, self.round_keys.take())?);
            }
            Kind::Gcns => self.users = Some(stream.users_again(&window.spans, keys, self.users.take())?),
        }
        if self.kind == Kind::Gcs {
            self.spans = Some(stream.spans_again(&window.spans, self.spans.take())?);
        }
        Ok(())
    }

    fn launch(
        &mut self,
        stream: &mut Stream,
        launch: &AesLaunch,
        window: &Window,
        data: &mut Buffer,
    ) -> phalanx_gpu::Result<()> {
        match (&self.round_keys, &self.spans, &mut self.users) {
            (Some(round_keys), Some(spans), _) => stream.aes_ctr_spans(launch, round_keys, spans, data),
            (Some(round_keys), None, _) => window.spans.iter().try_for_each(|user| {
                stream.aes_ctr(launch, round_keys, user.key, &user.counter, data, user.at..user.at + user.len)
            }),
            (None, _, users) => stream.aes_ctr_users(launch, users.as_mut().expect("they were brought"), data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_go_through_the_device_in_windows() {
        let lengths = [5000, 4096, 0, 1, 20_000];
        let (starts, gcs) = windows(Kind::Gcs, &lengths, 16_384);
        assert_eq!(starts, [0, 8192, 12_288, 12_288, 16_384]);
        let users: Vec<_> = gcs.iter().map(|window| (window.users.clone(), window.bytes.clone())).collect();
        assert_eq!(users, [(0..4, 0..16_384), (4..5, 16_384..36_864)]);
        let slices: Vec<_> = gcs[0].spans.iter().map(|span| (span.at, span.len, span.key)).collect();
        assert_eq!(slices, [(0, 4096, 0), (4096, 904, 0), (8192, 4096, 1), (12_288, 1, 3)]);
        assert_eq!(gcs[0].spans[1].counter, counter_after(&COUNTER, 256));
        assert_eq!(gcs[1].spans.iter().map(|span| span.at).collect::<Vec<_>>(), [0, 4096, 8192, 12_288, 16_384]);
        let (starts, gcns) = windows(Kind::Gcns, &lengths, 16_384);
        assert_eq!(starts, [0, 5008, 9104, 9104, 9120]);
        assert_eq!(gcns.iter().map(|window| window.users.clone()).collect::<Vec<_>>(), [0..4, 4..5]);
        let (_, gnc) = windows(Kind::Gnc, &lengths, 1 << 30);
        assert_eq!(gnc.len(), lengths.len());
    }

    /// The windows have room for one user, for some, and for all.
    #[test]
    fn every_scheme_gives_the_cpus_bytes() {
        let Some(device) = crate::measure::device::tests::device() else { return };
        let level = aes::Level::detect();
        let data = Data::new(vec![35_001, 4096, 1, 16_384, 100_000], 0);
        for variant in VARIANTS {
            for kind in KINDS {
                for (room, key_len) in [(4096, 16), (65_536, 24), (1 << 20, 32)] {
                    let mut work = Work::new(&device, kind, variant, &data, key_len, room).unwrap();
                    work.host_to_host().unwrap();
                    work.check(&data, key_len, level).unwrap_or_else(|e| panic!("{kind:?}, {variant}, {room}: {e}"));
                    // Encrypting twice gives the plaintext again.
                    work.host_to_host().unwrap();
                    work.check(&data, key_len, level).unwrap_err();
                    assert!(work.kernels().unwrap() > Duration::ZERO);
                }
            }
        }
    }
}
