//! The study on a device: from host memory to host memory, with one stream or several. Each stream is driven by a thread of
//! its own, so that copies of one go on beside the kernels of another.

use crate::error::{Error, Result};
use crate::measure::device::{for_bytes, window, write};
use crate::measure::setup::Setup;
use crate::measure::steps::Rows;
use crate::measure::times::{Times, told_rounds, try_rounds};
use crate::measure::volume::crew;
use crate::measure::volume::study::input::{COUNTER, Input, PART, are, rounds};
use crate::names::kernel_only;
use crate::names::study::{FASTEST, GRANULARITIES, MORE_THREADS, OURS, TABLES, scheme, scheme_of_threads};
use crate::row::Row;
use phalanx_gpu::{AesLaunch, Buffer, Device, Direction, Kind, Pinned, RoundKeys, Stream, Variant};
use phalanx_kernels::aes::{BLOCK, counter_after};
use std::time::Duration;

/// Threads in a block of threads; the paper does not print them.
const THREADS: u32 = 256;
/// The streams of an input that the paper does not divide.
const STREAMS: usize = 4;

/// A way of encrypting on the device.
struct Way {
    granularity: Option<u32>,
    /// Other than usual.
    threads: Option<u32>,
    streams: usize,
}

impl Way {
    fn scheme(&self) -> String {
        self.threads.map_or_else(|| scheme(self.granularity, self.streams), scheme_of_threads)
    }
}

/// All ways for an input.
fn ways(input: Input) -> Vec<Way> {
    let several = if input.parts > 1 { input.parts } else { STREAMS };
    let programs = GRANULARITIES.into_iter().map(Some).chain([None]);
    let usual =
        programs.flat_map(|granularity| [1, several].map(|streams| Way { granularity, threads: None, streams }));
    let others = MORE_THREADS.into_iter().filter(|_| input.part == PART);
    let others = others.map(|threads| Way { granularity: Some(FASTEST), threads: Some(threads), streams: 1 });
    usual.chain(others).collect()
}

/// The medians of the programs that are compared with the CPU, and what is to know of the device.
pub struct OnDevice {
    medians: Vec<(&'static str, std::result::Result<f64, String>)>,
    pub note: Option<String>,
}

impl OnDevice {
    /// With one stream; of the programs with tables, the one that the paper calls the fastest.
    pub fn median(&self, scheme: &str) -> std::result::Result<f64, &str> {
        match self.medians.iter().find(|(name, _)| *name == scheme) {
            Some((_, Ok(median))) => Ok(*median),
            Some((_, Err(why))) => Err(why),
            None => Err("no such program"),
        }
    }
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
) -> Result<OnDevice> {
    let device = for_bytes(&setup.device, setup.quick, input.bytes() as u64);
    let note = device.as_ref().ok().filter(|device| device.info().kind != Kind::Gpu).map(|device| {
        let info = device.info();
        format!("through {} on the CPU ({}), not on a GPU", info.api, info.name)
    });
    let mut on_device = OnDevice { medians: Vec::new(), note };
    for way in ways(input) {
        let Way { granularity, threads, streams } = way;
        let row = Row { note: on_device.note.clone(), ..row(&way.scheme(), "gpu", streams) };
        let key_of = row.clone();
        let programs = match &device {
            Err(why) => Err(why.clone()),
            Ok(device) => launch(device, granularity, threads).map(|launch| (*device, launch)),
        };
        match programs {
            Err(why) => rows.write(row.not_run(&why))?,
            Ok((device, launch)) => {
                let lanes = lanes(device, launch, key, input, streams, plain);
                let times = lanes.map_err(Error::from).and_then(|mut lanes| times(setup, &mut lanes, wanted));
                if streams == 1 {
                    let kernels = Row { measure: kernel_only(&row.measure), ..row.clone() };
                    let both = times.and_then(|(whole, kernels)| match kernels {
                        Some(kernels) => Ok([whole, kernels]),
                        None => Err(Error::Program("one stream was not timed".into())),
                    });
                    write(rows, [row, kernels], both, None)?;
                } else {
                    write(rows, [row], times.map(|(whole, _)| [whole]), None)?;
                }
            }
        }
        let program = match granularity {
            None => OURS,
            Some(FASTEST) => TABLES,
            Some(_) => continue,
        };
        if streams == 1 && threads.is_none() {
            // The row may be of an earlier, interrupted run.
            let written = rows.all().iter().find(|row| row.key() == key_of.key());
            let why = || written.and_then(|row| row.note.as_deref()?.strip_prefix("not run: "));
            let median = written.and_then(|row| row.median_s);
            on_device.medians.push((program, median.ok_or_else(|| why().unwrap_or("no time").to_owned())));
        }
    }
    Ok(on_device)
}

/// How a program is launched on this device, or why it cannot be.
fn launch(device: &Device, granularity: Option<u32>, others: Option<u32>) -> std::result::Result<AesLaunch, String> {
    let Some(granularity) = granularity else { return Ok(AesLaunch::default()) };
    let launch = AesLaunch { variant: Variant::Table4, threads: others.unwrap_or(THREADS), granularity };
    if !device.has_room_for(launch.variant.module()) {
        return Err("the device has too little local memory for the tables".into());
    }
    // Some kernels have too many registers for so many threads.
    let threads = device.max_threads(launch.kernel("aes_ctr")).map_err(|e| e.to_string())?;
    match others {
        Some(others) if others > threads => Err(format!("the device takes at most {threads} threads a block")),
        Some(_) => Ok(launch),
        None => Ok(AesLaunch { threads: THREADS.min(threads), ..launch }),
    }
}

/// A stream, its part of the data in pinned memory, and its memory on the device.
struct Lane {
    stream: Stream,
    launch: AesLaunch,
    keys: RoundKeys,
    host: Pinned,
    /// The number of blocks before its part.
    first: u64,
    /// The bytes that go to the device at a time.
    at_once: usize,
    buffer: Buffer,
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
        let mut stream = device.stream()?;
        let mut host = device.pinned(part.len())?;
        host.copy_from_slice(part);
        let at_once = part.len().min(input.part).min(window(device.info()));
        let keys = stream.round_keys(&[key], Direction::Encrypt)?;
        let buffer = stream.buffer(at_once)?;
        Ok(Lane { stream, launch, keys, host, first: (i * len / BLOCK) as u64, at_once, buffer })
    };
    plain.chunks(len).enumerate().map(lane).collect()
}

impl Lane {
    /// Encrypts the lane's data, from the host's memory and back into it.
    fn host_to_host(&mut self) -> phalanx_gpu::Result<()> {
        let Self { stream, launch, keys, host, first, at_once, buffer } = self;
        let mut block = *first;
        for part in host.chunks_mut(*at_once) {
            stream.upload(buffer, 0, part)?;
            stream.aes_ctr(launch, keys, 0, &counter_after(&COUNTER, block), buffer, 0..part.len())?;
            stream.download(buffer, 0, part)?;
            block += (part.len() / BLOCK) as u64;
        }
        Ok(())
    }

    /// How long the kernels take, by the device's clock.
    fn kernels(&mut self) -> phalanx_gpu::Result<Duration> {
        let Self { stream, launch, keys, host, at_once, buffer, .. } = self;
        host.chunks(*at_once).try_fold(Duration::ZERO, |sum, part| {
            let work = |stream: &mut Stream| stream.aes_ctr(launch, keys, 0, &COUNTER, buffer, 0..part.len());
            Ok(sum + stream.timed(work)?.1)
        })
    }
}

/// The times from host to host, and of the kernels alone if there is one stream, after the bytes were found to be right.
fn times(setup: &Setup, lanes: &mut [Lane], wanted: &[u8]) -> Result<(Times, Option<Times>)> {
    let work = |lane: &mut Lane| lane.host_to_host().map_err(Error::from);
    crew::with(lanes, work, |run| run())?;
    if !are(lanes.iter().map(|lane| &lane.host[..]), wanted) {
        let name = &lanes[0].stream.device().info().name;
        return Err(Error::Program(format!("{name}: {:?}: other bytes than the CPU's", lanes[0].launch)));
    }
    let whole = crew::with(lanes, work, |run| try_rounds(rounds(setup), run))?;
    let kernels = match lanes {
        [one] => Some(told_rounds(rounds(setup), || one.kernels())?),
        _ => None,
    };
    Ok((whole, kernels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::volume::study::input::plaintext;
    use phalanx_kernels::aes;

    /// With one stream and several, in each of the paper's ways that the device supports.
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
                let (_, kernels) = times(&setup, &mut lanes, &wanted).unwrap();
                assert_eq!(kernels.is_some(), streams == 1);
            }
        }
    }
}
