//! P3's CUDA part: all blocks of a file on the device, by 1000 to 50 million GPU threads, each of which loops over its
//! blocks.
//!
//! The paper's program looks bytes up in tables and encrypts each block by itself, so this is AES-128-ECB by the
//! kernels with tables. The threads come in blocks of 250, because that divides each of the printed numbers.

use crate::measure::device::{Aes, for_bytes, require_right};
use crate::measure::scratch::{random_vec, require_memory};
use crate::measure::sefps::layout::{BlockCipher, Kernels, in_parallel};
use crate::measure::times::rounds_by_clock;
use crate::measure::{Error, Over, Result, Row, Rows, Setup, Step, row_of};
use crate::names::hpc::{COPIED, EXPERIMENT, GPU};
use crate::names::kernel_only;
use crate::paper::{Printed, p3};
use phalanx_gpu::{AesLaunch, Device, Pinned, Variant};
use phalanx_kernels::aes::BLOCK;
use std::time::Instant;

/// The measure of the kernel alone, by the device's own clock. The printed times include no copies: to copy 1080 MB
/// over the bus of that machine would have taken longer than the printed 40 ms.
pub const ALONE: &str = "encryption only";
const GROUP: u32 = 250;
const KEY: [u8; 16] = [7; 16];
/// The size that a short run has besides the smallest printed one.
const SMALL: (&str, u64) = ("1MB", 1_000_000);

/// The steps: one for each size.
pub fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    let mut sizes = p3().sweep("cuda", "bytes");
    if setup.quick {
        sizes.truncate(1);
        sizes.insert(0, SMALL);
    }
    // Without a device, no memory is needed for it.
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

/// How many blocks each of this many threads takes. It is at least one.
fn share(blocks: u64, threads: u64) -> u32 {
    blocks.div_ceil(threads).max(1) as u32
}

/// Measures one size with all numbers of threads, one after another.
fn one_size(setup: &Setup, size: &str, bytes: u64, rows: &mut Rows<'_>) -> Result<()> {
    // Only whole blocks are encrypted.
    let blocks = bytes / BLOCK as u64;
    let mut first: [Option<f64>; 2] = [None, None];
    let mut work = for_bytes(setup, bytes).and_then(|device| Work::new(setup, device, blocks));
    for (_, threads) in p3().sweep("cuda", "gpu_threads") {
        let times = work.as_mut().map_err(|why| why.of_device()).map(|work| work.run(setup, threads));
        let times = match times {
            Ok(Ok(times)) => Ok(times),
            Ok(Err(error)) => Err(error.of_device().ok_or(error)?),
            Err(Some(why)) => Err(why),
            Err(None) => return work.map(drop),
        };
        if let Err(why) = &times {
            // If a device has failed, its other rows have no times either.
            work = Err(Error::NotRun(why.clone()));
        }
        for (i, (measure, printed)) in
            [(kernel_only(ALONE), printed(bytes, threads)), (COPIED.into(), Vec::new())].into_iter().enumerate()
        {
            let names = ["encrypt", &measure, "AES-128-ECB, T-tables", GPU];
            let row = Row {
                printed,
                note: (threads > blocks).then(|| format!("{blocks} threads work: one for each block")),
                ..row_of(EXPERIMENT, size, names, [blocks * BLOCK as u64, 1], threads as usize)
            };
            let row = match &times {
                Ok(times) => row.timed(times[i].clone()),
                Err(why) => row.not_run(why),
            };
            let over = first[i].filter(|_| row.median_s.is_some());
            first[i] = first[i].or(row.median_s);
            rows.write(match over {
                Some(median_s) => row.compared(Over { name: "the fewest GPU threads", median_s }, None),
                None => row,
            })?;
        }
    }
    Ok(())
}

fn printed(bytes: u64, threads: u64) -> Vec<Printed> {
    p3().printed(|v| v.experiment == "cuda" && v.case.bytes == Some(bytes) && v.case.gpu_threads == Some(threads))
}

/// The data, and AES on the device.
struct Work {
    aes: Aes,
    host: Pinned,
    plain: Vec<u8>,
    /// The data as the CPU encrypts them.
    sealed: Vec<u8>,
    blocks: u64,
}

impl Work {
    fn new(setup: &Setup, device: &Device, blocks: u64) -> Result<Self> {
        let plain = random_vec(blocks, blocks as usize * BLOCK);
        let mut sealed = plain.clone();
        let cipher = Kernels::new(setup.levels.aes, &KEY).expect("16 bytes");
        in_parallel(setup.threads, &mut sealed, |part| cipher.encrypt(part));
        let aes = Aes::new(device, AesLaunch::new(Variant::Table4), &KEY, None, plain.len())?;
        Ok(Self { aes, host: device.pinned(plain.len())?, plain, sealed, blocks })
    }

    /// The times of the kernel alone, and with the copies.
    fn run(&mut self, setup: &Setup, threads: u64) -> Result<[Vec<f64>; 2]> {
        let rounds = if setup.quick { 1 } else { 5 };
        let granularity = share(self.blocks, threads);
        self.aes.launch = AesLaunch { threads: GROUP, granularity, ..AesLaunch::new(Variant::Table4) };
        let copied = rounds_by_clock(rounds, || {
            self.host.copy_from_slice(&self.plain);
            let started = Instant::now();
            self.aes.run(&mut self.host)?;
            let time = started.elapsed();
            require_right(self.aes.stream.device(), self.host[..] == self.sealed[..]).map(|()| time)
        })?;
        let alone = rounds_by_clock(rounds, || self.aes.kernels(self.host.len()))?;
        Ok([alone.seconds, copied.seconds])
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

    /// This runs with OpenCL on the CPU: with few threads that loop over many blocks, and with more threads than
    /// blocks.
    #[test]
    fn any_number_of_threads_gives_the_cpus_bytes() {
        let Some(device) = device() else { return };
        let setup = Setup::of_tests(".");
        let mut work = Work::new(&setup, &device, 40_001).unwrap();
        for threads in [1000, 10_000, 50_000_000] {
            let [alone, copied] = work.run(&setup, threads).unwrap();
            assert_eq!((alone.len(), copied.len()), (1, 1));
        }
    }
}
