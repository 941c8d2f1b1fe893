//! Opening into the device's memory, and sealing from there: checks against the CPU's engine, and times beside those of
//! plain copies.

use super::measure::print_head;
use super::takeover::{job, wrong};
use phalanx_bench::record::Line;
use phalanx_bench::row::Row;
use phalanx_core::Suite;
use phalanx_core::engine::{Buffer, CpuEngine, Engine, Job, Levels, Op};
use phalanx_gpu::{Device, Kind, Pinned, Resident, Result, Sealed};
use phalanx_kernels::keccak;
use std::time::Instant;

const CHUNK: usize = 1 << 20;

/// Checks both ways in three suites, and then measures opening from pinned memory.
pub fn opened(device: &Device, quick: bool) -> Result<()> {
    let mut checks = 0;
    for suite in [Suite::Aes256CtrSha3, Suite::Aes128CtrSha3, Suite::Aes256CtrTurboShake] {
        for lens in [&[1][..], &[CHUNK, CHUNK, 77], &[3 << 20], &[4096, 0]] {
            both_ways(device, suite, lens)?;
            checks += 4;
        }
    }
    eprintln!("{checks} checks of opening into the device's memory passed");
    measure(device, quick)
}

/// The job without its bytes, for bytes that lie elsewhere.
fn elsewhere(op: Op, sealed: &Job) -> Job {
    let mut job = sealed.like(Buffer::paged(0));
    job.op = op;
    job.units.clone_from(&sealed.units);
    job
}

fn pinned(device: &Device, bytes: &[u8]) -> Result<Pinned> {
    let mut pinned = device.pinned(bytes.len())?;
    pinned.copy_from_slice(bytes);
    Ok(pinned)
}

/// Opens what the CPU has sealed, from pinned memory and from the device's, finds an altered byte, and seals again.
fn both_ways(device: &Device, suite: Suite, lens: &[usize]) -> Result<()> {
    let what = |what: &str| wrong(device, format!("{what}, {} with {lens:?}", suite.name()));
    let len = lens.iter().map(|len| len + suite.overhead()).sum();
    let mut sealed = job(suite, lens, Buffer::paged(len));
    let units = sealed.units.clone();
    let plain: Vec<u8> = units.iter().flat_map(|unit| sealed.buf[unit.data.clone()].to_vec()).collect();
    let cpu = CpuEngine::parallel(4, Levels::detect());
    if !cpu.run(&mut sealed).is_ok_and(|verdicts| verdicts.all_passed()) {
        return Err(what("the CPU did not seal"));
    }
    let mut resident = Resident::new(device.stream()?, keccak::Level::detect())?;
    let mut from = pinned(device, &sealed.buf)?;
    let on_device = resident.stream().buffer_of(&from)?;
    let mut memory = resident.stream().buffer(plain.len())?;
    let mut got = vec![0; plain.len()];
    for source in [Sealed::Pinned(&from), Sealed::Device(&on_device)] {
        let verdicts = resident.open(&mut elsewhere(Op::Open, &sealed), source, &mut memory, 0)?;
        resident.stream().download(&memory, 0, &mut got)?;
        if !verdicts.all_passed() || got != plain {
            return Err(what("opening did not give the plaintext"));
        }
    }
    let back = device.pinned(len)?;
    let mut again = elsewhere(Op::Seal, &sealed);
    let back = resident.seal_to_host(&mut again, &memory, 0, back)?;
    let same = units.iter().all(|unit| back[unit.data.clone()] == sealed.buf[unit.data.clone()]);
    if !same || again.units.iter().zip(&sealed.units).any(|(a, b)| a.tag != b.tag) {
        return Err(what("sealing gave other bytes than the CPU's"));
    }
    from[units[0].data.start] ^= 1;
    let verdicts = resident.open(&mut elsewhere(Op::Open, &sealed), Sealed::Pinned(&from), &mut memory, 0)?;
    resident.stream().download(&memory, 0, &mut got)?;
    if verdicts.failed() != [0] || got.iter().any(|byte| *byte != 0) {
        return Err(what("what was altered was not found, or something of it was left"));
    }
    Ok(())
}

/// Measures opening from pinned memory in suite 5 and suite 1, and the same bytes copied plain.
fn measure(device: &Device, quick: bool) -> Result<()> {
    print_head(device, quick);
    let (chunks, runs) = match (device.info().kind, quick) {
        (Kind::Gpu, false) => (512, 7),
        (Kind::Gpu, true) => (64, 3),
        _ => (2, 2),
    };
    for (suite, scheme) in [(Suite::Aes256CtrTurboShake, "suite 5"), (Suite::Aes256CtrSha3, "suite 1")] {
        let lens = vec![CHUNK; chunks];
        let len = lens.iter().map(|len| len + suite.overhead()).sum();
        let mut sealed = job(suite, &lens, Buffer::paged(len));
        let cpu = CpuEngine::parallel(4, Levels::detect());
        if !cpu.run(&mut sealed).is_ok_and(|verdicts| verdicts.all_passed()) {
            return Err(wrong(device, "the CPU did not seal"));
        }
        let from = pinned(device, &sealed.buf)?;
        let mut resident = Resident::new(device.stream()?, keccak::Level::detect())?;
        let mut memory = resident.stream().buffer(len)?;
        let (mut copied, mut opened) = (Vec::new(), Vec::new());
        for _ in 0..=runs {
            let mut job = elsewhere(Op::Open, &sealed);
            let began = Instant::now();
            resident.stream().upload(&mut memory, 0, &from)?;
            resident.stream().finish()?;
            copied.push(began.elapsed().as_secs_f64());
            let began = Instant::now();
            if !resident.open(&mut job, Sealed::Pinned(&from), &mut memory, 0)?.all_passed() {
                return Err(wrong(device, "opening did not give the plaintext"));
            }
            opened.push(began.elapsed().as_secs_f64());
        }
        for (operation, mut times) in [("copy", copied), ("open", opened)] {
            // The first of each makes room.
            times.remove(0);
            let case = format!("{chunks} MiB");
            let names = [operation, "pinned to device memory", scheme, "gpu"];
            let row = Row { bytes: (chunks * CHUNK) as u64, items: 1, ..Row::of("gpu", case, names) };
            print!("{}", Line::Row(Box::new(row.timed(times))).json());
        }
    }
    Ok(())
}
