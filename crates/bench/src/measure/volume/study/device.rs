//! The study on a device, from host memory to host memory, with one stream or several. Each stream has its own thread,
//! so that copies of one stream overlap with kernels of another.

use crate::measure::device::{Aes, for_bytes, require_right, window};
use crate::measure::times::{rounds_by_clock, try_rounds};
use crate::measure::volume::crew;
use crate::measure::volume::study::input::{COUNTER, Input, PART, are, rounds};
use crate::measure::{Error, Result, Row, Rows, Setup, Times};
use crate::names::study::{FASTEST, GRANULARITIES, MORE_THREADS, scheme, scheme_of_threads};
use phalanx_gpu::{AesLaunch, Device, Kind, Pinned, Variant};
use phalanx_kernels::aes::{BLOCK, counter_after};

/// Threads in a block of threads; the paper does not print them.
const THREADS: u32 = 256;
/// The streams of an input that the paper does not divide.
const STREAMS: usize = 4;

struct Way {
    granularity: Option<u32>,
    /// The number of threads, if it is not the usual one.
    threads: Option<u32>,
    streams: usize,
}

impl Way {
    fn scheme(&self) -> String {
        self.threads.map_or_else(|| scheme(self.granularity, self.streams), scheme_of_threads)
    }
}

fn ways(input: Input) -> Vec<Way> {
    let several = if input.parts > 1 { input.parts } else { STREAMS };
    let programs = GRANULARITIES.into_iter().map(Some).chain([None]);
    let usual =
        programs.flat_map(|granularity| [1, several].map(|streams| Way { granularity, threads: None, streams }));
    let others = MORE_THREADS.into_iter().filter(|_| input.part == PART);
    let others = others.map(|threads| Way { granularity: Some(FASTEST), threads: Some(threads), streams: 1 });
    usual.chain(others).collect()
}

/// All programs on the device. `row` makes a row of scheme, engine and threads.
pub fn rows_of(
    setup: &Setup,
    input: Input,
    key: &[u8],
    plain: &[u8],
    wanted: &[u8],
    row: &impl Fn(&str, &str, usize) -> Row,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let device = for_bytes(setup, input.bytes() as u64).map_err(|why| why.to_string());
    let note = device.as_ref().ok().map(|device| device.info()).filter(|info| info.kind != Kind::Gpu);
    let note = note.map(|info| format!("through {} on the CPU ({}), not on a GPU", info.api, info.name));
    for way in ways(input) {
        let Way { granularity, threads, streams } = way;
        let row = Row { note: note.clone(), ..row(&way.scheme(), "gpu", streams) };
        let lanes = device.as_ref().map_err(|why| Error::NotRun(why.clone())).and_then(|device| {
            let launch = launch(device, granularity, threads)?;
            Ok(lanes(device, launch, key, input, streams, plain)?)
        });
        let whole = |lanes: &mut [Lane]| times(setup, lanes, wanted);
        if streams == 1 {
            let times = lanes.and_then(|mut lanes| {
                let whole = whole(&mut lanes)?;
                Ok([whole, rounds_by_clock(rounds(setup), || lanes[0].aes.kernels(plain.len()))?])
            });
            rows.with_kernels(row, times, None)?;
        } else {
            rows.measured([row], lanes.and_then(|mut lanes| Ok([whole(&mut lanes)?])), None)?;
        }
    }
    Ok(())
}

/// How a program is launched on this device. The error explains why it cannot be launched.
fn launch(device: &Device, granularity: Option<u32>, others: Option<u32>) -> Result<AesLaunch> {
    let Some(granularity) = granularity else { return Ok(AesLaunch::default()) };
    let launch = AesLaunch { variant: Variant::Table4, threads: others.unwrap_or(THREADS), granularity };
    if !device.has_room_for(launch.variant.module()) {
        return Err(Error::NotRun("the device has too little local memory for the tables".into()));
    }
    // Some kernels use too many registers for so many threads.
    let threads = device.max_threads(launch.kernel("aes_ctr"))?;
    match others {
        Some(others) if others > threads => {
            Err(Error::NotRun(format!("the device takes at most {threads} threads a block")))
        }
        Some(_) => Ok(launch),
        None => Ok(AesLaunch { threads: THREADS.min(threads), ..launch }),
    }
}

/// A stream, and its part of the data in pinned memory.
struct Lane {
    aes: Aes,
    host: Pinned,
}

fn lanes(
    device: &Device,
    launch: AesLaunch,
    key: &[u8],
    input: Input,
    streams: usize,
    plain: &[u8],
) -> phalanx_gpu::Result<Vec<Lane>> {
    let len = plain.len().div_ceil(streams).next_multiple_of(BLOCK);
    let lane = |(i, part): (usize, &[u8])| {
        let counter = counter_after(&COUNTER, (i * len / BLOCK) as u64);
        let at_once = part.len().min(input.part).min(window(device.info()));
        let mut lane =
            Lane { aes: Aes::new(device, launch, key, Some(counter), at_once)?, host: device.pinned(part.len())? };
        lane.host.copy_from_slice(part);
        Ok(lane)
    };
    plain.chunks(len).enumerate().map(lane).collect()
}

/// Checks the bytes, and then returns the times from host to host.
fn times(setup: &Setup, lanes: &mut [Lane], wanted: &[u8]) -> Result<Times> {
    let work = |lane: &mut Lane| lane.aes.run(&mut lane.host).map_err(Error::from);
    crew::with(lanes, work, |run| run())?;
    let is_right = are(lanes.iter().map(|lane| &lane.host[..]), wanted);
    require_right(lanes[0].aes.stream.device(), is_right)?;
    crew::with(lanes, work, |run| try_rounds(rounds(setup), run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::volume::study::input::plaintext;
    use phalanx_kernels::aes;

    /// There are one stream and several, in each of the paper's ways that the device supports.
    #[test]
    fn every_program_gives_the_cpus_bytes() {
        let Some(device) = crate::measure::device::tests::device() else { return };
        let setup = Setup::of_tests("");
        for (input, key_len) in [(Input { part: 4096, parts: 1 }, 16), (Input { part: 32_000, parts: 5 }, 32)] {
            let plain = plaintext(input.bytes());
            let mut wanted = plain.clone();
            aes::ctr_xor(setup.levels.aes, &aes::Key::new(&[7; 32][..key_len]), &COUNTER, &mut wanted);
            for Way { granularity, threads, streams } in ways(input) {
                let Ok(launch) = launch(&device, granularity, threads) else { continue };
                let key = &[7; 32][..key_len];
                let mut lanes = lanes(&device, launch, key, input, streams, &plain).unwrap();
                times(&setup, &mut lanes, &wanted).unwrap();
                assert!(lanes[0].aes.kernels(plain.len()).unwrap() > std::time::Duration::ZERO);
            }
        }
    }
}
