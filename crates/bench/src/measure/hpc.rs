//! P3's multicore part: files are encrypted by 1 to 16 threads of one machine, with encryption alone as in the paper,
//! and with reading and writing. Its cluster part is in [`cluster`], its CUDA part in [`device`], and its programs in
//! Java are in [`java`].

pub mod cluster;
pub mod device;
pub mod java;

use crate::measure::scratch::{self, random_vec};
use crate::measure::sefps::{format, format_run, layout};
use crate::measure::setup::HpcPart;
use crate::measure::threads::each;
use crate::measure::{Contestant, Error, Result, Row, Rows, Scratch, Setup, Step, engine, in_turns, row_of};
use crate::names::hpc::EXPERIMENT;
use crate::paper::{Printed, p3};
use phalanx_core::engine::{CpuEngine, Engine, Op};
use phalanx_core::{Roster, SecretKey, Suite};
use phalanx_kernels::aes;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;

/// The paper's two programs on one machine.
const PRINTED: [&str; 2] = ["mpj-multicore", "openmp"];

/// The measures. The paper's C program is AES-256 in CBC mode, each thread on its own part. With CTR, any number of
/// threads encrypts one file to the same bytes.
#[derive(Clone, Copy, PartialEq)]
enum Measure {
    /// Encryption in memory, without reading and writing.
    Encryption,
    /// Each thread reads its part, encrypts it, waits for the others, and writes it, as the paper's programs do.
    WithFiles,
    /// `phalanx protect`, with authentication.
    Format(Suite),
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Measure::Encryption => "encryption only",
            Measure::WithFiles | Measure::Format(_) => "with reading and writing",
        }
    }

    fn scheme(self) -> String {
        match self {
            Measure::Encryption | Measure::WithFiles => "AES-256-CTR".into(),
            Measure::Format(suite) => format(suite),
        }
    }
}

/// The steps of the parts that are run.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let of_part = |part| match part {
        HpcPart::Threads => threads(setup, scratch),
        HpcPart::Gpu => device::steps(setup),
        HpcPart::Cluster => cluster::steps(setup),
        HpcPart::Java => java::steps(setup, scratch),
    };
    let parts = [HpcPart::Threads, HpcPart::Gpu, HpcPart::Cluster, HpcPart::Java];
    let steps = parts.into_iter().filter(|part| setup.hpc.has(*part)).map(of_part);
    Ok(steps.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The steps with threads: one for each size and measure.
fn threads<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let mut sizes = p3().sweep("openmp", "bytes");
    sizes.truncate(if setup.quick { 1 } else { sizes.len() });
    let largest = sizes.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    scratch::require_disk(&setup.out, 3 * largest)?;
    scratch::require_memory(4 * largest)?;
    let mut steps = Vec::new();
    for (size, bytes) in sizes {
        let formats = [Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake].map(Measure::Format);
        for measure in [Measure::Encryption, Measure::WithFiles].into_iter().chain(formats) {
            let name = format!("{EXPERIMENT} {size} {} {}", measure.name(), measure.scheme());
            let weight = bytes / 200 * if measure == Measure::Encryption { 1 } else { 4 };
            steps.push(Step::new(name, weight, move |rows| one_size(setup, scratch, size, bytes, measure, rows)));
        }
    }
    Ok(steps)
}

/// Measures one size with all numbers of threads in turn, in several rounds.
fn one_size(
    setup: &Setup,
    scratch: &Scratch,
    size: &str,
    bytes: u64,
    measure: Measure,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let row = |threads: usize| {
        let names = ["encrypt", measure.name(), &measure.scheme(), engine(threads)];
        let printed = if measure == Measure::Encryption { printed(bytes, threads as u64) } else { Vec::new() };
        Row { printed, ..row_of(EXPERIMENT, size, names, [bytes, 1], threads) }
    };
    let (plain, sealed) = (scratch.path("plain"), scratch.path("sealed"));
    let data = RefCell::new(Vec::new());
    if measure == Measure::Encryption {
        data.replace(random_vec(bytes, bytes as usize));
    } else {
        scratch.file("plain", bytes, bytes)?;
    }
    let contestant = |(_, threads): (&str, u64)| {
        let (threads, plain, sealed, data) = (threads as usize, &plain, &sealed, &data);
        let work = move || match measure {
            Measure::Encryption => {
                in_parts(threads, setup, &mut data.borrow_mut());
                Ok(())
            }
            Measure::WithFiles => files(setup, threads, plain, sealed, bytes),
            Measure::Format(suite) => protect(setup, suite, threads, plain, sealed),
        };
        Contestant::timed(row(threads), work, move || scratch::remove(sealed))
    };
    let all = p3().sweep("openmp", "threads").into_iter().map(contestant).collect();
    let warm_ups = usize::from(measure != Measure::Encryption);
    let all = in_turns(all, warm_ups, if setup.quick { 1 } else { 3 })?;
    rows.beside_first(all.concat(), "1 thread")?;
    scratch::remove(&plain)
}

fn printed(bytes: u64, threads: u64) -> Vec<Printed> {
    p3().printed(|v| {
        PRINTED.contains(&v.experiment.as_str())
            && v.case.bytes == Some(bytes)
            && v.case.threads == Some(threads)
            && matches!(v.measure.as_str(), "time" | "speedup" | "efficiency")
    })
}

fn in_parts(threads: usize, setup: &Setup, data: &mut [u8]) {
    let key = aes::Key::new(&[7; 32]);
    let mut at = 0;
    let parts = layout::parts(threads, data).into_iter().map(|part| {
        let counter = aes::counter_after(&[0; 16], (at / aes::BLOCK) as u64);
        at += part.len();
        (counter, part)
    });
    each(threads, parts, |(counter, part)| aes::ctr_xor(setup.levels.aes, &key, &counter, part));
}

fn files(setup: &Setup, threads: usize, from: &Path, to: &Path, bytes: u64) -> Result<()> {
    let key = aes::Key::new(&[7; 32]);
    let input = File::open(from).map_err(Error::at(from))?;
    let output = File::create(to).map_err(Error::at(to))?;
    let all_encrypted = Barrier::new(threads);
    let part = |at: u64, len: usize| {
        let mut part = vec![0; len];
        let read = input.read_exact_at(&mut part, at);
        aes::ctr_xor(setup.levels.aes, &key, &aes::counter_after(&[0; 16], at / aes::BLOCK as u64), &mut part);
        all_encrypted.wait();
        read.map_err(Error::at(from))?;
        output.write_all_at(&part, at).map_err(Error::at(to))
    };
    let blocks = bytes.div_ceil(aes::BLOCK as u64) as usize;
    thread::scope(|scope| {
        let mut at = 0;
        let mut lanes = Vec::new();
        for i in 0..threads {
            let len = ((layout::share(blocks, threads, i) * aes::BLOCK) as u64).min(bytes - at);
            let part = &part;
            lanes.push(scope.spawn(move || part(at, len as usize)));
            at += len;
        }
        lanes.into_iter().try_for_each(|lane| lane.join().expect("a lane does not panic"))
    })
}

fn protect(setup: &Setup, suite: Suite, threads: usize, from: &Path, to: &Path) -> Result<()> {
    let engine: Arc<dyn Engine> = Arc::new(CpuEngine::parallel(threads, setup.levels));
    let key = SecretKey::from_slice(&[7; 32]).expect("32 bytes");
    format_run(&Roster::new(&[engine]), suite, &key, Op::Seal, from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn any_number_of_threads_gives_the_same_bytes_in_memory_and_with_files() {
        let out = tempfile::tempdir().unwrap();
        let setup = Setup::of_tests(out.path());
        let scratch = Scratch::new(out.path()).unwrap();
        for bytes in [1u64, 16, 17, 4096, 100_003] {
            let plain = scratch.file("plain", bytes, 3).unwrap();
            let mut want = fs::read(&plain).unwrap();
            aes::ctr_xor(setup.levels.aes, &aes::Key::new(&[7; 32]), &[0; 16], &mut want);
            for (_, threads) in p3().sweep("openmp", "threads") {
                let mut data = fs::read(&plain).unwrap();
                in_parts(threads as usize, &setup, &mut data);
                assert!(data == want, "{bytes} bytes, {threads} threads");
                let sealed = scratch.path("sealed");
                files(&setup, threads as usize, &plain, &sealed, bytes).unwrap();
                assert!(fs::read(&sealed).unwrap() == want, "{bytes} bytes, {threads} threads, files");
            }
        }
    }
}
