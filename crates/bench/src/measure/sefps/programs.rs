//! The programs: SEFPS's layout with several ciphers, and Phalanx's format, each on several engines.

use crate::error::{Error, Result};
use crate::measure::device::{engine, for_bytes, ratio, window};
use crate::measure::scratch::Random;
use crate::measure::sefps::device::Ecb;
use crate::measure::sefps::layout;
use crate::measure::sefps::layout::{BlockCipher, Kernels};
use crate::measure::setup::Setup;
use crate::measure::times::time;
use crate::measure::ttable::TTable;
use crate::names::sefps::{BASELINE, CPU, GPU, HYBRID, SERIAL, ours};
use phalanx_core::engine::{CpuEngine, Engine, Fault};
use phalanx_core::{NewFile, Opener, ProtectedFile, Recipient, Roster, SecretKey, Sink, Suite};
use phalanx_gpu::{AesLaunch, Variant as Cipher};
use phalanx_host::file;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A program in one engine.
pub struct Variant {
    pub scheme: String,
    pub engine: &'static str,
    pub threads: usize,
    /// The program, or why it is not run.
    pub program: Result<Program, String>,
}

pub enum Program {
    /// SEFPS on the CPU.
    Layout(Arc<dyn BlockCipher + Send>),
    /// SEFPS with its AES on a device, alone or beside the CPU.
    Device(Box<Ecb>),
    /// Phalanx's format.
    Format { suite: Suite, roster: Roster, key: SecretKey, fault: Arc<OnceLock<Fault>> },
}

/// The programs that are measured on a file of this length.
pub fn variants(setup: &Setup, bytes: u64) -> Vec<Variant> {
    let mut key = [0; 32];
    Random::new(1).fill(&mut key);
    let mut variants = Vec::new();
    let engines = [(SERIAL, 1), (CPU, setup.threads)];
    let mut layout = |scheme: &str, engines: &[(&'static str, usize)], cipher: Arc<dyn BlockCipher + Send>| {
        for &(engine, threads) in engines {
            let program = Ok(Program::Layout(cipher.clone()));
            variants.push(Variant { scheme: scheme.into(), engine, threads, program });
        }
    };
    let kernels = |bits: usize| Arc::new(Kernels::new(setup.levels.aes, &key[..bits / 8]).expect("a valid length"));
    layout(BASELINE, &engines, Arc::new(TTable::new(&key[..16])));
    layout(&ours(128), &engines, kernels(128));
    // One engine is enough to show the cost of longer keys.
    layout(&ours(192), &engines[1..], kernels(192));
    layout(&ours(256), &engines[1..], kernels(256));
    // The paper's way, with one thread for each block of 16 bytes and four tables; and Phalanx's default.
    let as_printed = AesLaunch { variant: Cipher::Table4, threads: 256, granularity: 1 };
    let tables: Arc<dyn BlockCipher + Send> = Arc::new(TTable::new(&key[..16]));
    for (scheme, launch, cpu) in [(BASELINE, as_printed, tables), (&ours(128), AesLaunch::default(), kernels(128))] {
        for (engine, threads) in [(GPU, 0), (HYBRID, setup.threads)] {
            let program = on_device(setup, bytes, engine, launch, &key[..16], cpu.clone());
            variants.push(Variant { scheme: scheme.into(), engine, threads, program });
        }
    }
    let device = engine(setup, bytes);
    let serial: Arc<dyn Engine> = Arc::new(CpuEngine::serial(setup.levels));
    let cpu: Arc<dyn Engine> = Arc::new(CpuEngine::parallel(setup.threads, setup.levels));
    for suite in [Suite::Aes128CtrSha3, Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake] {
        for (name, threads) in [(SERIAL, 1), (CPU, setup.threads), (GPU, 0), (HYBRID, setup.threads)] {
            let engines = match name {
                SERIAL => Ok(vec![serial.clone()]),
                CPU => Ok(vec![cpu.clone()]),
                GPU => device.clone().map(|device| vec![device]),
                _ => device.clone().map(|device| vec![cpu.clone(), device]),
            };
            let program = engines.map(|engines| {
                let fault = Arc::new(OnceLock::new());
                let told = fault.clone();
                let roster = Roster::new(&engines).on_fault(move |fault| drop(told.set(fault.clone())));
                Program::Format { suite, roster, key: SecretKey::from_slice(&key).expect("32 bytes"), fault }
            });
            variants.push(Variant { scheme: format(suite), engine: name, threads, program });
        }
    }
    variants
}

fn on_device(
    setup: &Setup,
    bytes: u64,
    engine: &str,
    launch: AesLaunch,
    key: &[u8],
    cpu: Arc<dyn BlockCipher + Send>,
) -> Result<Program, String> {
    let device = for_bytes(&setup.device, setup.quick, bytes)?;
    let beside = if engine == HYBRID {
        let ratio = ratio(device.info(), setup.threads)?;
        Some((ratio / (ratio + 1.0), setup.threads - 1, cpu))
    } else {
        None
    };
    let room = window(device.info()).min(layout::protected_len(bytes as usize).ok_or("too long")?);
    let ecb = Ecb::new(device, launch, key, room, beside).map_err(|e| e.to_string())?;
    Ok(Program::Device(Box::new(ecb)))
}

/// Phalanx's format.
pub fn format(suite: Suite) -> String {
    format!("Phalanx's format, {}", suite.name())
}

/// The times of one run in seconds. The format does AES and hashing together.
#[derive(Clone, Copy)]
pub struct Run {
    pub total: f64,
    pub aes: Option<f64>,
    pub hash: Option<f64>,
}

impl Variant {
    /// Whether it is SEFPS's layout.
    pub fn is_layout(&self) -> bool {
        self.scheme.starts_with("SEFPS")
    }

    /// Whether it is that layout with AES on a device.
    pub fn is_layout_on_device(&self) -> bool {
        self.is_layout() && [GPU, HYBRID].contains(&self.engine)
    }

    /// Protects or unprotects a file as a separate program would: it opens, reads, works and writes. A device that fails
    /// ends this program and not the whole run.
    pub fn run(&mut self, operation: &str, from: &Path, to: &Path) -> Result<Option<Run>> {
        let Ok(program) = &mut self.program else { return Ok(None) };
        let (total, parts) = time(|| program.run(self.threads, operation, from, to));
        let parts = match parts {
            Ok(parts) => parts,
            Err(error) => match error.of_device() {
                Some(failure) => {
                    self.program = Err(failure);
                    return Ok(None);
                }
                None => return Err(Error::Program(format!("{}, {}: {error}", self.scheme, self.engine))),
            },
        };
        let seconds = |part: fn(&layout::Parts) -> std::time::Duration| parts.as_ref().map(|p| part(p).as_secs_f64());
        Ok(Some(Run { total, aes: seconds(|p| p.aes), hash: seconds(|p| p.hash) }))
    }
}

impl Program {
    fn run(&mut self, threads: usize, operation: &str, from: &Path, to: &Path) -> Result<Option<layout::Parts>> {
        let is_protected = operation == "protect";
        match self {
            Program::Format { suite, roster, key, fault } => {
                format_run(roster, *suite, key, is_protected, from, to)?;
                // If the CPU took over, this was not a measurement of the hybrid.
                fault.get().map_or(Ok(None), |fault| Err(Error::Core(fault.clone().into())))
            }
            Program::Layout(cipher) => in_layout(from, to, |file| match is_protected {
                true => Ok(layout::protect(&**cipher, threads, file)),
                false => Ok(layout::unprotect(&**cipher, threads, file)?),
            }),
            Program::Device(ecb) => in_layout(from, to, |file| match is_protected {
                true => layout::protect_by(file, |blocks| ecb.encrypt(blocks)),
                false => layout::unprotect_by(file, |blocks| ecb.decrypt(blocks)),
            }),
        }
    }
}

fn in_layout(
    from: &Path,
    to: &Path,
    work: impl FnOnce(&mut Vec<u8>) -> Result<layout::Parts>,
) -> Result<Option<layout::Parts>> {
    let mut input = File::open(from).map_err(Error::at(from))?;
    let len = input.metadata().map_err(Error::at(from))?.len() as usize;
    let mut file = Vec::with_capacity(len + layout::SHORTEST);
    input.read_to_end(&mut file).map_err(Error::at(from))?;
    let parts = work(&mut file)?;
    fs::write(to, &file).map_err(Error::at(to))?;
    Ok(Some(parts))
}

fn format_run(
    roster: &Roster,
    suite: Suite,
    key: &SecretKey,
    is_protected: bool,
    from: &Path,
    to: &Path,
) -> Result<()> {
    let input = File::open(from).map_err(Error::at(from))?;
    let output = File::create(to).map_err(Error::at(to))?;
    let source = file::source(&input)?;
    if is_protected {
        let new = NewFile::new(suite, &[Recipient::key(key)])?;
        new.protect(roster, source, Sink::ranged(file::Disk::new(&output)), &())?;
    } else {
        let opener = Opener::new(key.clone(), Default::default());
        ProtectedFile::open(source, &opener)?.unprotect(roster, Sink::ranged(file::Disk::new(&output)), &())?;
    }
    Ok(())
}
