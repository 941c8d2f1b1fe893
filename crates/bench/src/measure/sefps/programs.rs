//! The programs: SEFPS's layout with several ciphers, and Phalanx's format, each on several engines.

use crate::measure::device::{Crew, engine, fixed_part, for_bytes, window};
use crate::measure::scratch::random;
use crate::measure::sefps::device::Ecb;
use crate::measure::sefps::layout::{self, BlockCipher, Kernels, Parts};
use crate::measure::ttable::TTable;
use crate::measure::{Error, Result, Setup, time};
use crate::names::sefps::{BASELINE, CPU, GPU, HYBRID, SERIAL, ours};
use phalanx_core::engine::{CpuEngine, Engine, Op};
use phalanx_core::{NewFile, Opener, ProtectedFile, Recipient, Roster, SecretKey, Sink, Suite};
use phalanx_gpu::{AesLaunch, Direction, Variant as Cipher};
use phalanx_host::file;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

pub struct Variant {
    pub scheme: String,
    pub engine: &'static str,
    pub threads: usize,
    /// The program. The error explains why it is not run.
    pub program: Result<Program>,
}

pub enum Program {
    /// SEFPS on the CPU, with this number of threads.
    Layout(Arc<dyn BlockCipher + Send>, usize),
    /// SEFPS with its AES on a device, alone or beside the CPU.
    Device(Box<Ecb>),
    Format {
        suite: Suite,
        crew: Crew,
        key: SecretKey,
    },
}

/// The programs that are measured on a file of this length.
pub fn variants(setup: &Setup, bytes: u64) -> Vec<Variant> {
    let key: [u8; 32] = random(1);
    let mut variants = Vec::new();
    let mut add = |scheme: String, engine, threads, program| {
        variants.push(Variant { scheme, engine, threads, program });
    };
    let kernels = |bits: usize| -> Arc<dyn BlockCipher + Send> {
        Arc::new(Kernels::new(setup.levels.aes, &key[..bits / 8]).expect("a valid length"))
    };
    let tables: Arc<dyn BlockCipher + Send> = Arc::new(TTable::new(&key[..16]));
    let engines = [(SERIAL, 1), (CPU, setup.threads)];
    for (scheme, cipher, engines) in [
        (BASELINE.into(), tables.clone(), &engines[..]),
        (ours(128), kernels(128), &engines),
        // One engine is enough to show the cost of longer keys.
        (ours(192), kernels(192), &engines[1..]),
        (ours(256), kernels(256), &engines[1..]),
    ] {
        for &(engine, threads) in engines {
            add(scheme.clone(), engine, threads, Ok(Program::Layout(cipher.clone(), threads)));
        }
    }
    // The paper's way has one thread for each block of 16 bytes and four tables. The other way is Phalanx's default.
    let as_printed = AesLaunch { variant: Cipher::Table4, threads: 256, granularity: 1 };
    for (scheme, launch, cpu) in
        [(BASELINE.into(), as_printed, tables), (ours(128), AesLaunch::default(), kernels(128))]
    {
        for (engine, threads) in [(GPU, 0), (HYBRID, setup.threads)] {
            let beside = (engine == HYBRID).then(|| cpu.clone());
            add(scheme.clone(), engine, threads, on_device(setup, bytes, launch, &key[..16], beside));
        }
    }
    let serial: Arc<dyn Engine> = Arc::new(CpuEngine::serial(setup.levels));
    let cpu: Arc<dyn Engine> = Arc::new(CpuEngine::parallel(setup.threads, setup.levels));
    for suite in [Suite::Aes128CtrSha3, Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake] {
        for (name, threads) in [(SERIAL, 1), (CPU, setup.threads), (GPU, 0), (HYBRID, setup.threads)] {
            let engines = match name {
                SERIAL => Ok(vec![serial.clone()]),
                CPU => Ok(vec![cpu.clone()]),
                GPU => engine(setup, bytes).map(|device| vec![device]),
                _ => engine(setup, bytes).map(|device| vec![cpu.clone(), device]),
            };
            let key = SecretKey::from_slice(&key).expect("32 bytes");
            let program = engines.map(|engines| Program::Format { suite, crew: Crew::new(&engines), key });
            add(format(suite), name, threads, program);
        }
    }
    variants
}

/// The program on a device. With a cipher for the CPU, the device takes only the part that Eq. 1 gives to it.
fn on_device(
    setup: &Setup,
    bytes: u64,
    launch: AesLaunch,
    key: &[u8],
    beside: Option<Arc<dyn BlockCipher + Send>>,
) -> Result<Program> {
    let device = for_bytes(setup, bytes)?;
    let beside = match beside {
        Some(cpu) => Some((fixed_part(setup)?, setup.threads - 1, cpu)),
        None => None,
    };
    let len = layout::protected_len(bytes as usize).ok_or_else(|| Error::NotRun("too long".into()))?;
    Ok(Program::Device(Box::new(Ecb::new(device, launch, key, window(device.info()).min(len), beside)?)))
}

pub fn format(suite: Suite) -> String {
    format!("Phalanx's format, {}", suite.name())
}

impl Variant {
    pub fn is_layout(&self) -> bool {
        self.scheme.starts_with("SEFPS")
    }
}

impl Program {
    /// Protects or unprotects a file as a separate program would: opens, reads, works and writes. Returns the times of
    /// AES and of the hash, and the total. The format does AES and hashing together, so it has only the total.
    pub fn run(&mut self, op: Op, from: &Path, to: &Path) -> Result<Vec<Option<f64>>> {
        let (total, parts) = time(|| self.parts(op, from, to));
        let parts = parts?.map(|parts| [parts.aes, parts.hash].map(|part| Some(part.as_secs_f64())));
        Ok(parts.into_iter().flatten().chain([Some(total)]).collect())
    }

    fn parts(&mut self, op: Op, from: &Path, to: &Path) -> Result<Option<Parts>> {
        match self {
            Program::Format { suite, crew, key } => {
                format_run(&crew.roster, *suite, key, op, from, to)?;
                crew.check().map(|()| None)
            }
            Program::Layout(cipher, threads) => in_layout(from, to, |file| match op {
                Op::Seal => Ok(layout::protect(&**cipher, *threads, file)),
                Op::Open => Ok(layout::unprotect(&**cipher, *threads, file)?),
            }),
            Program::Device(ecb) => in_layout(from, to, |file| match op {
                Op::Seal => layout::protect_by(file, |blocks| ecb.crypt(Direction::Encrypt, blocks)),
                Op::Open => layout::unprotect_by(file, |blocks| ecb.crypt(Direction::Decrypt, blocks)),
            }),
        }
    }
}

fn in_layout(from: &Path, to: &Path, work: impl FnOnce(&mut Vec<u8>) -> Result<Parts>) -> Result<Option<Parts>> {
    let mut input = File::open(from).map_err(Error::at(from))?;
    let len = input.metadata().map_err(Error::at(from))?.len() as usize;
    let mut file = Vec::with_capacity(len + layout::SHORTEST);
    input.read_to_end(&mut file).map_err(Error::at(from))?;
    let parts = work(&mut file)?;
    fs::write(to, &file).map_err(Error::at(to))?;
    Ok(Some(parts))
}

/// Protects or unprotects a file in Phalanx's format.
pub fn format_run(roster: &Roster, suite: Suite, key: &SecretKey, op: Op, from: &Path, to: &Path) -> Result<()> {
    let input = File::open(from).map_err(Error::at(from))?;
    let output = File::create(to).map_err(Error::at(to))?;
    let (source, sink) = (file::source(&input)?, Sink::ranged(file::Disk::new(&output)));
    match op {
        Op::Seal => drop(NewFile::new(suite, &[Recipient::key(key)])?.protect(roster, source, sink, &())?),
        Op::Open => {
            let opener = Opener::new(key.clone(), Default::default());
            ProtectedFile::open(source, &opener)?.unprotect(roster, sink, &())?;
        }
    }
    Ok(())
}
