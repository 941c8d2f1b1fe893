//! P3's CUDA part: all blocks of a file on the device, by 1000 to 50 million GPU threads, each of which loops over its
//! blocks.
//!
//! The paper's program looks bytes up in tables and encrypts each block by itself, so this is AES-128-ECB by the kernels with
//! tables. The threads come in blocks of 250, because that divides each of the printed numbers.

use crate::error::{Error, Result};
use crate::measure::device::for_bytes;
use crate::measure::scratch::{Random, require_memory};
use crate::measure::sefps::layout::{BlockCipher, Kernels, in_parallel};
use crate::measure::setup::Setup;
use crate::measure::steps::{Rows, Step};
use crate::measure::times::told_rounds;
use crate::names::hpc::{EXPERIMENT, GPU};
use crate::names::kernel_only;
use crate::paper::{Printed, p3};
use crate::row::{Over, Row};
use phalanx_gpu::{AesLaunch, Buffer, Device, Direction, Pinned, RoundKeys, Stream, Variant};
use phalanx_kernels::aes::BLOCK;
use std::time::{Duration, Instant};

/// The measure with the copies of the data both ways.
pub const COPIED: &str = "encryption and copies";
/// The measure of the kernel alone, by the device's own clock. The printed times hold no copies: 1080 MB would have taken
/// longer than the 40 ms that they are, over the bus of that machine.
pub const ALONE: &str = "encryption only";
/// The threads of a group.
const GROUP: u32 = 250;
const KEY: [u8; 16] = [7; 16];
/// What a short run has besides the smallest printed size.
const SMALL: (&str, u64) = ("1MB", 1_000_000);

/// The steps: one for each size.
pub fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    let mut sizes = p3().sweep("cuda", "bytes");
    if setup.quick {
        sizes.truncate(1);
        sizes.insert(0, SMALL);
    }
    // A machine without a device needs no memory for it.
    if setup.device.is_ok() {
        require_memory(4 * sizes.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0))?;
    }
    let steps = sizes.into_iter().map(|(size, bytes)| {
        Step::new(format!("{EXPERIMENT} {size} on the device"), bytes / 50, move |rows| {
            one_size(setup, size, bytes, rows)
        })
    });
    Ok(steps.collect())
}

/// How many blocks each of this many threads takes: at least one.
fn share(blocks: u64, threads: u64) -> u32 {
    blocks.div_ceil(threads).max(1) as u32
}

/// All numbers of threads in turn, in several rounds.
fn one_size(setup: &Setup, size: &str, bytes: u64, rows: &mut Rows<'_>) -> Result<()> {
    // Whole blocks.
    let blocks = bytes / BLOCK as u64;
    let threads = p3().sweep("cuda", "gpu_threads");
    let mut work = match for_bytes(&setup.device, setup.quick, bytes).map(|device| Work::new(setup, device, blocks)) {
        Ok(Ok(work)) => Ok(work),
        Ok(Err(error)) => Err(error.of_device().ok_or(error)?),
        Err(why) => Err(why),
    };
    let mut first: [Option<f64>; 2] = [None, None];
    for (_, threads) in threads {
        let times = match &mut work {
            Ok(work) => work.run(setup, threads).map_err(|error| error.of_device().ok_or(error)),
            Err(why) => Err(Ok(why.clone())),
        };
        let times = match times {
            Ok(times) => Ok(times),
            // A device that failed loses its rows.
            Err(why) => Err(why?),
        };
        if let Err(why) = &times {
            work = Err(why.clone());
        }
        for (i, measure) in [ALONE, COPIED].into_iter().enumerate() {
            let row = Row {
                bytes: blocks * BLOCK as u64,
                items: 1,
                threads: threads as usize,
                printed: if measure == ALONE { printed(bytes, threads) } else { Vec::new() },
                note: (threads > blocks).then(|| format!("{blocks} threads work: one for each block")),
                ..Row::of(
                    EXPERIMENT,
                    size,
                    [
                        "encrypt",
                        &if measure == ALONE { kernel_only(ALONE) } else { COPIED.into() },
                        "AES-128-ECB, T-tables",
                        GPU,
                    ],
                )
            };
            let row = match &times {
                Ok([alone, copied]) => row.timed(if measure == ALONE { alone.clone() } else { copied.clone() }),
                Err(why) => row.not_run(why),
            };
            let row = match (first[i], row.median_s) {
                (Some(median_s), Some(_)) => row.compared(Over { name: "the fewest GPU threads", median_s }, None),
                (_, median_s) => {
                    first[i] = median_s;
                    row
                }
            };
            rows.write(row)?;
        }
    }
    Ok(())
}

fn printed(bytes: u64, threads: u64) -> Vec<Printed> {
    p3().printed(|v| v.experiment == "cuda" && v.case.bytes == Some(bytes) && v.case.gpu_threads == Some(threads))
}

/// The data, on the host and on the device.
struct Work {
    stream: Stream,
    keys: RoundKeys,
    data: Buffer,
    host: Pinned,
    plain: Vec<u8>,
    /// What the CPU makes of it.
    sealed: Vec<u8>,
    blocks: u64,
}

impl Work {
    fn new(setup: &Setup, device: &Device, blocks: u64) -> Result<Self> {
        let len = blocks as usize * BLOCK;
        let mut plain = vec![0; len];
        Random::new(blocks).fill(&mut plain);
        let mut sealed = plain.clone();
        let cipher = Kernels::new(setup.levels.aes, &KEY).expect("16 bytes");
        in_parallel(setup.threads, &mut sealed, |part| cipher.encrypt(part));
        let mut stream = device.stream()?;
        let keys = stream.round_keys(&[&KEY], Direction::Encrypt)?;
        let (data, host) = (stream.buffer(len)?, device.pinned(len)?);
        Ok(Self { stream, keys, data, host, plain, sealed, blocks })
    }

    /// The times of the kernel alone, and with the copies.
    fn run(&mut self, setup: &Setup, threads: u64) -> Result<[Vec<f64>; 2]> {
        let rounds = if setup.quick { 1 } else { 5 };
        let granularity = share(self.blocks, threads);
        let launch = AesLaunch { threads: GROUP, granularity, ..AesLaunch::new(Variant::Table4) };
        let mut alone = Vec::new();
        let copied = told_rounds(rounds, || {
            self.host.copy_from_slice(&self.plain);
            let (time, kernel) = self.once(&launch)?;
            if self.host[..] != self.sealed[..] {
                return Err(Error::Program(format!("{threads} GPU threads gave other bytes than the CPU")));
            }
            alone.push(kernel.as_secs_f64());
            Ok(time)
        })?;
        // The first round is not counted.
        alone.remove(0);
        Ok([alone, copied.seconds])
    }

    /// The time with the copies, and that of the kernel.
    fn once(&mut self, launch: &AesLaunch) -> phalanx_gpu::Result<(Duration, Duration)> {
        let Self { stream, keys, data, host, .. } = self;
        let (started, len) = (Instant::now(), host.len());
        stream.upload(data, 0, host)?;
        let ((), kernel) = stream.timed(|stream| stream.aes_ecb(launch, keys, 0, data, 0..len))?;
        stream.download(data, 0, host)?;
        Ok((started.elapsed(), kernel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::device::tests::device;

    #[test]
    fn threads_share_all_blocks() {
        for (_, bytes) in p3().sweep("cuda", "bytes") {
            for (_, threads) in p3().sweep("cuda", "gpu_threads") {
                let blocks = bytes / BLOCK as u64;
                assert!(threads.is_multiple_of(GROUP.into()));
                let each = u64::from(share(blocks, threads));
                assert!(each * threads >= blocks && (each - 1) * threads < blocks, "{bytes} {threads}");
                assert_eq!(printed(bytes, threads).len(), 1, "{bytes} {threads}");
            }
        }
    }

    /// Through OpenCL on the CPU: few threads that loop over many blocks, and more threads than blocks.
    #[test]
    fn any_number_of_threads_gives_the_cpus_bytes() {
        let Some(device) = device() else { return };
        let setup = Setup::of_tests(".");
        let mut work = Work::new(&setup, &device, 40_001).unwrap();
        for threads in [1000, 10_000, 50_000_000] {
            let [alone, copied] = work.run(&setup, threads).unwrap();
            assert_eq!((alone.len(), copied.len()), (1, 1));
            assert!(alone[0] <= copied[0]);
        }
    }
}
