//! Times of kernels alone, by the device's own clock, and the ceilings of the machine.

use super::check::{block_sizes, granularities};
use super::engine::HostToHost;
use phalanx_bench::head::Head;
use phalanx_bench::measure::machine;
use phalanx_bench::measure::setup::Setup;
use phalanx_bench::record::Line;
use phalanx_bench::row::Row;
use phalanx_core::engine::{CpuEngine, Engine, Fault, Levels, Op};
use phalanx_core::{Roster, Suite};
use phalanx_gpu::{
    AesLaunch, Device, DeviceInfo, Direction, GpuEngine, KeyDigest, Kind, Reason, Result, Slice, Span, Stream, Variant,
};
use phalanx_host::engines::measure::measure;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A row without times: its case, and the names of operation, measure and scheme.
fn row(case: String, names: [&str; 3], bytes: usize, items: usize) -> Row {
    let [operation, measure, scheme] = names;
    Row { bytes: bytes as u64, items: items as u64, ..Row::of("gpu", case, [operation, measure, scheme, "gpu"]) }
}

struct Bench<'a> {
    info: &'a DeviceInfo,
    stream: Stream,
    runs: usize,
    /// The length of the data that a kernel gets.
    bytes: usize,
}

/// Measures copies within the device, and both ways between it and the host.
pub fn ceilings(device: &Device, quick: bool) -> Result<()> {
    Bench::new(device, quick)?.ceilings(device)
}

/// Measures each kernel alone.
pub fn kernels(device: &Device, quick: bool) -> Result<()> {
    let mut bench = Bench::new(device, quick)?;
    // What the engine uses comes first, in case the time runs out.
    bench.hashes()?;
    for variant in Variant::ALL.into_iter().filter(|variant| device.has_room_for(variant.module())) {
        for key_len in [16, 24, 32] {
            bench.aes(device, variant, key_len, quick)?;
            bench.users(variant, key_len)?;
        }
    }
    Ok(())
}

/// Measures encryption and digests of data that lie on the device, which is the work of sealing.
pub fn resident(device: &Device, quick: bool) -> Result<()> {
    let mut bench = Bench::new(device, quick)?;
    if bench.bytes > 16 << 20 {
        bench.resident(16 << 20)?;
    }
    bench.resident(bench.bytes)
}

/// Measures the engine from host to host, by lanes and sizes of jobs, each compared with pinned copies alone.
pub fn engine(device: &Device, quick: bool) -> Result<()> {
    let mut bench = Bench::new(device, quick)?;
    // On a machine without a GPU this only shows that the engine runs.
    let (all_lanes, jobs, bytes): (&[usize], &[usize], usize) = match device.info().kind {
        Kind::Gpu => (&[4, 8, 12], &[16 << 20, 32 << 20, 64 << 20], 4 << 30),
        _ => (&[1, 2], &[1 << 20], 4 << 20),
    };
    // Each run pins its memory again, which takes longer than the copies.
    bench.runs = bench.runs.min(4);
    for lanes in all_lanes {
        for job in jobs {
            bench.engine(device, &HostToHost::new(device, if quick { bytes / 4 } else { bytes }, *lanes, *job))?;
        }
    }
    Ok(())
}

/// Measures the CPU's engine, the device's and both together, through the schedule, with a copy into each job: what a file
/// in memory would take. Together they are measured with a quarter, a half and all of the CPU's threads, because the
/// device's lanes need some too. A size that does not fit into the time for its engine is left out.
pub fn crews(device: &Device, quick: bool) -> Result<()> {
    const SIZES: [u64; 5] = [1 << 20, 16 << 20, 128 << 20, 1 << 30, 8 << 30];
    let sizes = if quick || device.info().kind != Kind::Gpu { &SIZES[..2] } else { &SIZES[..] };
    Bench::new(device, quick)?;
    let levels = Levels::detect();
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    let cpu = |threads: usize| Arc::new(CpuEngine::parallel(threads, levels)) as Arc<dyn Engine>;
    let gpu: Arc<dyn Engine> = Arc::new(GpuEngine::new(device.clone(), levels.keccak));
    let mut some: Vec<usize> = [cores / 4, cores / 2, cores].into_iter().filter(|threads| *threads > 0).collect();
    some.dedup();
    let mut all = vec![("cpu", cores, vec![cpu(cores)]), ("gpu", 0, vec![gpu.clone()])];
    all.extend(some.into_iter().map(|threads| ("hybrid", threads, vec![cpu(threads), gpu.clone()])));
    for (name, threads, engines) in all {
        let curve = measure(&Roster::new(&engines), levels, sizes, Duration::from_secs(5))
            .map_err(|error| device.info().error(Reason::Refused(error.to_string())))?;
        for (op, operation) in [(Op::Seal, "seal"), (Op::Open, "open")] {
            for (bytes, seconds) in curve.points(op) {
                let case = format!("{} {}: {} MiB", device.info().api, device.info().index, bytes >> 20);
                let names = [operation, "in memory", Suite::default().name(), name];
                let row = Row { bytes: *bytes, items: 1, threads, ..Row::of("gpu", case, names) };
                print!("{}", Line::Row(Box::new(row.timed(vec![*seconds]))).json());
            }
        }
    }
    Ok(())
}

/// Prints the head of rows.
pub(super) fn print_head(device: &Device, quick: bool) {
    print!("{}", Line::Head(Box::new(head(device, quick))).json());
}

/// The head, which names the machine and device of the rows.
fn head(device: &Device, quick: bool) -> Head {
    let setup = Setup {
        out: ".".into(),
        quick,
        resume: false,
        levels: Levels::detect(),
        threads: 1,
        device: Ok(device.clone()),
        program: PathBuf::new(),
        volume: Default::default(),
        hpc: Default::default(),
        peers: Default::default(),
        service: Default::default(),
    };
    machine::head(&setup, Vec::new())
}

impl<'a> Bench<'a> {
    /// Prints the head.
    fn new(device: &'a Device, quick: bool) -> Result<Self> {
        let info = device.info();
        // A device that is the CPU would take minutes for a gigabyte, and its speed does not matter here.
        let bytes: usize = match (info.kind, quick) {
            (Kind::Gpu, false) => 1 << 30,
            (Kind::Gpu, true) => 1 << 26,
            _ => 1 << 20,
        };
        print_head(device, quick);
        let bytes = bytes.min((info.largest_buffer / 4) as usize).next_multiple_of(1 << 20);
        Ok(Self { info, stream: device.stream()?, runs: if quick { 3 } else { 7 }, bytes })
    }

    /// Times the work after a run that is not counted, and prints the row.
    fn row(&mut self, row: Row, mut work: impl FnMut(&mut Stream) -> Result<Duration>) -> Result<()> {
        work(&mut self.stream)?;
        let times = (0..self.runs).map(|_| work(&mut self.stream).map(|time| time.as_secs_f64()));
        let seconds = times.collect::<Result<Vec<f64>>>()?;
        // Two devices of one kind have the same head, so their rows must differ.
        let case = format!("{} {}: {}", self.info.api, self.info.index, row.case);
        print!("{}", Line::Row(Box::new(Row { case, ..row }.timed(seconds))).json());
        Ok(())
    }

    /// Times a kernel by the device's own clock, and prints the row.
    fn kernel(&mut self, row: Row, mut work: impl FnMut(&mut Stream) -> Result<()>) -> Result<()> {
        self.row(row, |stream| stream.timed(&mut work).map(|((), time)| time))
    }

    /// Copies within the device, and both ways between it and the host, from pinned memory and from ordinary memory.
    fn ceilings(&mut self, device: &Device) -> Result<()> {
        let bytes = self.bytes;
        let case =
            |operation: &str, scheme: &str| row(format!("{bytes} bytes"), [operation, "ceiling", scheme], bytes, 1);
        let from = self.stream.buffer(bytes)?;
        let mut to = self.stream.buffer(bytes)?;
        self.kernel(case("copy", "device to device"), |stream| stream.copy(&from, &mut to, bytes))?;
        let mut pinned = device.pinned(bytes)?;
        let mut paged = vec![1u8; bytes];
        for (scheme, host) in [("pinned memory", &mut pinned[..]), ("ordinary memory", &mut paged[..])] {
            self.row(case("upload", scheme), |stream| {
                let start = Instant::now();
                stream.upload(&mut to, 0, host).map(|()| start.elapsed())
            })?;
            self.row(case("download", scheme), |stream| {
                let start = Instant::now();
                stream.download(&to, 0, host).map(|()| start.elapsed())
            })?;
        }
        Ok(())
    }

    fn engine(&mut self, device: &Device, whole: &HostToHost) -> Result<()> {
        let case = |names: [&str; 3], passes| row(whole.case(), names, passes * whole.bytes(), 1);
        let failed = |fault: Fault| device.info().error(Reason::Failed("the engine", fault.reason));
        let copies = case(["copy both ways", "ceiling", "pinned memory"], 1);
        self.row(copies, |_| whole.copies(device).map_err(failed))?;
        self.row(case(["seal", "host to host", "engine"], 1), |_| whole.run(&[Op::Seal]).map_err(failed))?;
        let both = case(["seal and open", "host to host", "engine"], 2);
        self.row(both, |_| whole.run(&[Op::Seal, Op::Open]).map_err(failed))
    }

    /// Measures the kernels that seal data of this length, as the engine does and in its order.
    fn resident(&mut self, bytes: usize) -> Result<()> {
        const SLICE: usize = 4096;
        let launch = AesLaunch::default();
        let most = self.stream.device().max_threads(launch.kernel("aes_ctr_spans"))?;
        let launch = AesLaunch { threads: launch.threads.min(most), ..launch };
        let longest = (launch.threads * launch.granularity) as usize * 16;
        let spans: Vec<Span> = (0..bytes)
            .step_by(longest)
            .map(|at| Span { at, len: longest.min(bytes - at), key: 0, counter: (at as u128 / 16).to_be_bytes() })
            .collect();
        let slices: Vec<Slice> = (0..bytes).step_by(SLICE).map(|at| Slice { at, len: SLICE }).collect();
        let (spans, slices) = (self.stream.spans(&spans)?, self.stream.slices(&slices)?);
        let mut data = self.stream.buffer(bytes)?;
        let mut digests = self.stream.buffer(32 * bytes / SLICE)?;
        for (key_len, turbo, suite) in [(32, false, "suite 1"), (16, false, "suite 3"), (32, true, "suite 5")] {
            let keys = self.stream.round_keys(&[&[7; 32][..key_len]], Direction::Encrypt)?;
            let hash = if turbo { "TurboSHAKE256" } else { "SHA3-256" };
            let scheme = format!("AES-{} and {hash}, {suite}", 8 * key_len);
            let case = row(format!("{} MiB", bytes >> 20), ["seal", "device memory", &scheme], bytes, 1);
            self.kernel(case, |stream| {
                stream.aes_ctr_spans(&launch, &keys, &spans, &mut data)?;
                match turbo {
                    true => stream.turboshake_slices(32, &slices, &data, &mut digests),
                    false => stream.sha3_slices(32, &slices, &data, &mut digests),
                }
            })?;
        }
        Ok(())
    }

    /// Measures CTR, and ECB both ways, at each granularity and block size.
    fn aes(&mut self, device: &Device, variant: Variant, key_len: usize, quick: bool) -> Result<()> {
        let bytes = self.bytes;
        let key = vec![7; key_len];
        let encrypt = self.stream.round_keys(&[&key], Direction::Encrypt)?;
        let decrypt = self.stream.round_keys(&[&key], Direction::Decrypt)?;
        let mut data = self.stream.buffer(bytes)?;
        let default = AesLaunch::new(variant);
        let default =
            AesLaunch { threads: default.threads.min(device.max_threads(default.kernel("aes_ctr"))?), ..default };
        for granularity in granularities(variant) {
            let launch = AesLaunch { granularity: *granularity, ..AesLaunch::new(variant) };
            for entry in ["aes_ctr", "aes_ecb_encrypt", "aes_ecb_decrypt"] {
                for threads in block_sizes(device, &launch, entry)? {
                    let launch = AesLaunch { threads, ..launch };
                    if (quick || entry != "aes_ctr") && launch != default {
                        continue;
                    }
                    let (mode, operation) = match entry {
                        "aes_ctr" => ("CTR", "encrypt"),
                        "aes_ecb_encrypt" => ("ECB", "encrypt"),
                        _ => ("ECB", "decrypt"),
                    };
                    let scheme = format!("AES-{}-{mode} {variant}", 8 * key_len);
                    let case = format!("{bytes} bytes, {} B a thread, {threads} threads a block", 16 * granularity);
                    self.kernel(row(case, [operation, "kernel", &scheme], bytes, 1), |stream| match entry {
                        "aes_ctr" => stream.aes_ctr(&launch, &encrypt, 0, &[9; 16], &mut data, 0..bytes),
                        "aes_ecb_encrypt" => stream.aes_ecb(&launch, &encrypt, 0, &mut data, 0..bytes),
                        _ => stream.aes_ecb(&launch, &decrypt, 0, &mut data, 0..bytes),
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Measures P2's three schemes on users of 92 KiB, the middle of its lengths. Its kernels have 256 threads of 16
    /// bytes.
    fn users(&mut self, variant: Variant, key_len: usize) -> Result<()> {
        const USER: usize = 92 << 10;
        let count = (self.bytes / USER).clamp(1, 10_000);
        let bytes = count * USER;
        let keys: Vec<Vec<u8>> = (0..count).map(|i| (0..key_len).map(|b| (b * 3 + i) as u8).collect()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let users: Vec<Span> = (0..count)
            .map(|i| Span { at: i * USER, len: USER, key: i as u32, counter: (i as u128).to_be_bytes() })
            .collect();
        let slices: Vec<Span> = (0..bytes / 4096)
            .map(|i| {
                let user = i * 4096 / USER;
                let block = (i * 4096 - user * USER) / 16;
                let counter = (user as u128 + block as u128).to_be_bytes();
                Span { at: i * 4096, len: 4096, key: user as u32, counter }
            })
            .collect();
        let launch = AesLaunch { threads: 256, ..AesLaunch::new(variant) };
        // Some of the bitsliced kernels use too many registers for that.
        let most = self.stream.device().max_threads(launch.kernel("aes_ctr_users"))?;
        let most = most.min(self.stream.device().max_threads(launch.kernel("aes_ctr_spans"))?);
        let launch = AesLaunch { threads: launch.threads.min(most), ..launch };
        let round_keys = self.stream.round_keys(&keys, Direction::Encrypt)?;
        let spans = self.stream.spans(&slices)?;
        let mut on_device = self.stream.users(&users, &keys)?;
        let mut data = self.stream.buffer(bytes)?;
        for scheme in ["GCS", "GCNS", "GNC"] {
            let case = format!("{count} users of {USER} bytes, {} threads a block", launch.threads);
            let name = format!("{scheme} AES-{}-CTR {variant}", 8 * key_len);
            self.kernel(row(case, ["encrypt", "kernel", &name], bytes, count), |stream| match scheme {
                "GCS" => stream.aes_ctr_spans(&launch, &round_keys, &spans, &mut data),
                "GCNS" => stream.aes_ctr_users(&launch, &mut on_device, &mut data),
                _ => users.iter().try_for_each(|user| {
                    let range = user.at..user.at + user.len;
                    stream.aes_ctr(&launch, &round_keys, user.key, &user.counter, &mut data, range)
                }),
            })?;
        }
        Ok(())
    }

    /// Measures SHA3-256 and TurboSHAKE256 of slices, the tags of chunks of 1 MiB, and the digests of many keys.
    fn hashes(&mut self) -> Result<()> {
        let bytes = self.bytes;
        let count = bytes / 4096;
        let slices: Vec<Slice> = (0..count).map(|i| Slice { at: i * 4096, len: 4096 }).collect();
        let slices = self.stream.slices(&slices)?;
        let data = self.stream.buffer(bytes)?;
        let mut digests = self.stream.buffer(32 * count)?;
        for scheme in ["SHA3-256", "TurboSHAKE256"] {
            for threads in [32, 64, 128, 256] {
                let case = format!("{count} slices of 4096 bytes, {threads} threads a block");
                self.kernel(row(case, ["hash", "kernel", scheme], bytes, count), |stream| match scheme {
                    "SHA3-256" => stream.sha3_slices(threads, &slices, &data, &mut digests),
                    _ => stream.turboshake_slices(threads, &slices, &data, &mut digests),
                })?;
            }
        }
        let label = self.stream.label("phalanx v1 chunk")?;
        let count = if self.info.kind == Kind::Gpu { 1 << 20 } else { 1 << 12 };
        let keys: Vec<[u8; 32]> = (0..count as u32)
            .map(|i| {
                let mut key = [3; 32];
                key[..4].copy_from_slice(&i.to_le_bytes());
                key
            })
            .collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let keys = self.stream.raw_keys(&keys)?;
        let mut out = self.stream.buffer(32 * count)?;
        for (digest, scheme) in [(KeyDigest::Kmac256, "KMAC256"), (KeyDigest::Md5, "MD5")] {
            for threads in [64, 128, 256] {
                let case = format!("{count} keys of 32 bytes, {threads} threads a block");
                let row = row(case, ["key digest", "kernel", scheme], 32 * count, count);
                self.kernel(row, |stream| stream.key_digests(threads, digest, &label, &keys, &mut out))?;
            }
        }
        Ok(())
    }
}
