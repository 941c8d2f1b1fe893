//! P5's GPU mode, in which the device makes the key's digest and encrypts, and its CPU-GPU mode, in which the CPU makes
//! the digest. Also finding a key among many by digests that the device makes.
//!
//! Times are from host to host. Key and data go to the device from pinned memory, and digest and ciphertext come back.

use crate::measure::device::{Aes, for_bytes, require_right, window};
use crate::measure::keys::{again_and_again, key, rounds};
use crate::measure::scratch::random_vec;
use crate::measure::sefps::layout::{BlockCipher, Kernels};
use crate::measure::times::{rounds_by_clock, try_rounds};
use crate::measure::{Error, Random, Result, Row, Rows, Setup, Times};
use crate::names::keys::{FIND_KMAC, FIND_MD5, OURS, PRINTED};
use crate::paper::{Value, p5};
use md5::{Digest, Md5};
use phalanx_core::SecretKey;
use phalanx_gpu::{
    AesLaunch, Buffer, Device, Direction, EnergyCounter, KeyDigest, Label, Pinned, RawKeys, Stream, Variant,
};
use phalanx_kernels::aes;
use std::hint::black_box;
use std::time::Duration;

/// The modes, which differ in where the digest is made: the paper's name, and the engine in rows.
const MODES: [(&str, &str); 2] = [("GPU", "gpu"), ("CPU-GPU", "hybrid")];
/// The threads per block in the paper's Table I. Each thread encrypts one block of 16 bytes.
const THREADS: u32 = 64;
/// The threads per block in its Table II.
const MORE_THREADS: [u32; 4] = [128, 256, 512, 1024];
/// Blocks of 16 bytes per thread, besides the paper's one.
const GRANULARITIES: [u32; 3] = [2, 4, 16];
/// Threads per block for digests of keys.
const DIGEST_THREADS: u32 = 128;
const LABEL: &str = "phalanx v1 key id";

/// One way of encrypting, and the paper's figures for it.
struct Way {
    mode: (&'static str, &'static str),
    scheme: String,
    launch: AesLaunch,
    /// The table and its threads per block, if it is the paper's own.
    printed: Option<(&'static str, u32)>,
}

/// The paper's way and Phalanx's kernels, in both modes. With `is_varied`, also the paper's way with other block sizes
/// and granularities.
fn ways(is_varied: bool) -> Vec<Way> {
    let as_printed = |threads, granularity| AesLaunch { variant: Variant::Table4, threads, granularity };
    let mut ways = Vec::new();
    for mode in MODES {
        let mut way = |scheme: String, launch, printed| ways.push(Way { mode, scheme, launch, printed });
        way(PRINTED.into(), as_printed(THREADS, 1), Some(("sizes", THREADS)));
        way(OURS.into(), AesLaunch::default(), None);
        if is_varied {
            for threads in MORE_THREADS {
                let scheme = format!("{PRINTED}, {threads} threads a block");
                way(scheme, as_printed(threads, 1), Some(("threads", threads)));
            }
            for blocks in GRANULARITIES {
                way(format!("{PRINTED}, {} bytes a thread", 16 * blocks), as_printed(THREADS, blocks), None);
            }
        }
    }
    ways
}

/// Measures one size of Table I. `row` makes a row from scheme, engine and threads. `over` is the median of the paper's
/// CPU mode.
pub fn one_size(
    setup: &Setup,
    bytes: u64,
    row: impl Fn(&str, &str, usize) -> Row,
    over: Option<f64>,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let is_in_table_ii = |v: &Value| v.experiment == "threads" && v.case.bytes == Some(bytes);
    let is_varied = if setup.quick { bytes == 1 << 20 } else { p5().values.iter().any(is_in_table_ii) };
    for Way { mode: (program, engine), scheme, launch, printed } in ways(is_varied) {
        let is_printed = |v: &Value| {
            let is_it = |(table, threads): (&str, u32)| {
                v.experiment == table && v.case.threads_per_block == Some(threads.into())
            };
            printed.is_some_and(is_it) && v.program.as_deref() == Some(program) && v.case.bytes == Some(bytes)
        };
        let row = Row { printed: p5().printed(is_printed), ..row(&scheme, engine, 0) };
        let times = for_bytes(setup, bytes).and_then(|device| {
            let work = Encryption::new(device, launch, engine == "gpu", bytes as usize, window(device.info()))?;
            work.times(rounds(setup), setup.levels.aes)
        });
        rows.with_kernels(row, times, over.map(|median| ("the paper's CPU mode", median)))?;
    }
    Ok(())
}

/// Measures the energy that a byte takes in the GPU mode, as printed and with Phalanx's kernels. It is the energy of
/// the device alone.
pub fn energy(setup: &Setup, bytes: u64, row: impl Fn(&str) -> Row, rows: &mut Rows<'_>) -> Result<()> {
    for Way { scheme, launch, .. } in ways(false).into_iter().filter(|way| way.mode.0 == "GPU") {
        let measured = for_bytes(setup, bytes).and_then(|device| {
            let counter = EnergyCounter::of(device.info())?;
            let mut work = Encryption::new(device, launch, true, bytes as usize, window(device.info()))?;
            work.host_to_host()?;
            let before = counter.joules()?;
            let rounds = again_and_again(|| work.host_to_host().map(drop))?;
            Ok((counter.joules()? - before) * 1e9 / (rounds * bytes) as f64)
        });
        rows.valued(row(&scheme), measured)?;
    }
    Ok(())
}

/// Data in pinned memory, and what encrypting them on the device needs.
struct Encryption {
    aes: Aes,
    host: Pinned,
    /// Where the device makes the digest.
    digests: Option<Digests>,
}

impl Encryption {
    fn new(
        device: &Device,
        launch: AesLaunch,
        digest_there: bool,
        bytes: usize,
        room: usize,
    ) -> phalanx_gpu::Result<Self> {
        let mut aes = Aes::new(device, launch, &aes_key(), None, bytes.min(room))?;
        let mut host = device.pinned(bytes)?;
        Random::new(bytes as u64).fill(&mut host);
        let digests = digest_there.then(|| Digests::new(&mut aes.stream, KeyDigest::Md5, &[&aes_key()])).transpose()?;
        Ok(Self { aes, host, digests })
    }

    /// Checks the bytes, and then returns the times from host to host and those of the kernels alone.
    fn times(mut self, rounds: usize, level: aes::Level) -> Result<[Times; 2]> {
        let digest = self.host_to_host()?;
        self.check(&digest, level)?;
        let whole = try_rounds(rounds, || self.host_to_host().map(|digest| drop(black_box(digest))))?;
        Ok([whole, rounds_by_clock(rounds, || self.kernels())?])
    }

    /// Makes the key's digest, and encrypts the data in place.
    fn host_to_host(&mut self) -> phalanx_gpu::Result<Vec<u8>> {
        let key = aes_key();
        let digest = match &mut self.digests {
            Some(digests) => digests.of(&mut self.aes.stream, &[&key])?,
            None => Md5::digest(key).to_vec(),
        };
        self.aes.bring_key(Direction::Encrypt)?;
        self.aes.run(&mut self.host)?;
        Ok(digest)
    }

    /// How long the kernels take, by the device's clock.
    fn kernels(&mut self) -> phalanx_gpu::Result<Duration> {
        let digest = self.digests.as_mut().map(|digests| digests.kernel(&mut self.aes.stream)).transpose()?;
        Ok(digest.unwrap_or_default() + self.aes.kernels(self.host.len())?)
    }

    /// Compares the digest and the data after one run with those of the CPU.
    fn check(&self, digest: &[u8], level: aes::Level) -> Result<()> {
        let mut wanted = random_vec(self.host.len() as u64, self.host.len());
        Kernels::new(level, &aes_key()).expect("a valid length").encrypt(&mut wanted);
        let is_right = self.host[..] == wanted && digest == &Md5::digest(aes_key())[..];
        require_right(self.aes.stream.device(), is_right)
    }
}

fn aes_key() -> [u8; 16] {
    key(0)[..16].try_into().expect("16 bytes")
}

/// Keys on a device, and room for their digests.
struct Digests {
    digest: KeyDigest,
    label: Label,
    keys: Option<RawKeys>,
    out: Buffer,
    len: usize,
}

impl Digests {
    fn new(stream: &mut Stream, digest: KeyDigest, keys: &[&[u8]]) -> phalanx_gpu::Result<Self> {
        let len = keys.len() * digest.digest_len();
        let keys = Some(stream.raw_keys(keys)?);
        Ok(Self { digest, label: stream.label(LABEL)?, keys, out: stream.buffer(len)?, len })
    }

    /// Copies the keys to the device, and their digests back.
    fn of(&mut self, stream: &mut Stream, keys: &[&[u8]]) -> phalanx_gpu::Result<Vec<u8>> {
        self.keys = Some(stream.raw_keys_again(keys, self.keys.take())?);
        self.launch(stream)?;
        let mut digests = vec![0; self.len];
        stream.download(&self.out, 0, &mut digests)?;
        Ok(digests)
    }

    fn launch(&mut self, stream: &mut Stream) -> phalanx_gpu::Result<()> {
        let Self { digest, label, keys, out, .. } = self;
        let keys = keys.as_ref().expect("they were brought before");
        stream.key_digests(DIGEST_THREADS, *digest, label, keys, out)
    }

    fn kernel(&mut self, stream: &mut Stream) -> phalanx_gpu::Result<Duration> {
        stream.timed(|stream| self.launch(stream)).map(|((), time)| time)
    }
}

/// Measures finding the last of the keys by the digest that the message names. `row` makes a row from a scheme.
pub fn one_set(setup: &Setup, keys: &[[u8; 32]], row: impl Fn(&str) -> Row, rows: &mut Rows<'_>) -> Result<()> {
    for (digest, scheme, len) in [(KeyDigest::Md5, FIND_MD5, 16), (KeyDigest::Kmac256, FIND_KMAC, 32)] {
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..len]).collect();
        let times = for_bytes(setup, 0).and_then(|device| find_times(device, rounds(setup), digest, &keys));
        rows.with_kernels(row(scheme), times, None)?;
    }
    Ok(())
}

fn find_times(device: &Device, rounds: usize, digest: KeyDigest, keys: &[&[u8]]) -> Result<[Times; 2]> {
    let last = keys.len() - 1;
    let name = match digest {
        KeyDigest::Md5 => Md5::digest(keys[last]).to_vec(),
        KeyDigest::Kmac256 => SecretKey::from_slice(keys[last]).expect("32 bytes").id().0.to_vec(),
    };
    let mut stream = device.stream()?;
    let mut digests = Digests::new(&mut stream, digest, keys)?;
    let mut find = || -> Result<()> {
        let all = digests.of(&mut stream, keys)?;
        match all.chunks(digest.digest_len()).position(|digest| digest[..name.len()] == name) {
            Some(found) if found == last => Ok(()),
            _ => Err(Error::Program(format!("{}: it did not find the key", device.info().name))),
        }
    };
    let whole = try_rounds(rounds, &mut find)?;
    Ok([whole, rounds_by_clock(rounds, || digests.kernel(&mut stream))?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data pass in one window and in several, in each of the paper's ways that the device supports.
    #[test]
    fn every_way_gives_the_cpus_bytes() {
        let Some(device) = crate::measure::device::tests::device() else { return };
        let mut refused = 0;
        for Way { mode: (_, engine), launch, .. } in ways(true) {
            for room in [4096, 1 << 20] {
                let mut work = Encryption::new(&device, launch, engine == "gpu", 40_000, room).unwrap();
                match work.host_to_host() {
                    Ok(digest) => work.check(&digest, aes::Level::detect()).unwrap(),
                    Err(error) => {
                        assert!(error.to_string().contains("threads a group"), "{error}");
                        refused += 1;
                        continue;
                    }
                }
                assert!(work.kernels().unwrap() > Duration::ZERO);
                work.host[17] ^= 1;
                assert!(work.check(&[0; 16], aes::Level::detect()).is_err());
            }
        }
        assert!(refused < 8, "the device refuses nearly everything");
    }

    #[test]
    fn the_papers_own_ways_are_compared_with_its_tables() {
        let printed = |is_varied| ways(is_varied).iter().filter(|way| way.printed.is_some()).count();
        assert_eq!((printed(false), printed(true)), (2, 10));
    }

    #[test]
    fn keys_are_found() {
        let Some(device) = crate::measure::device::tests::device() else { return };
        for count in [1, 2, 129] {
            let keys: Vec<[u8; 32]> = (0..count).map(key).collect();
            for (digest, len) in [(KeyDigest::Md5, 16), (KeyDigest::Kmac256, 32)] {
                let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..len]).collect();
                find_times(&device, 1, digest, &keys).unwrap();
            }
        }
    }
}
