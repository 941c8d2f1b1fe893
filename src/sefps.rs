//! `--format sefps`: the layout that the SEFPS paper prints, for study and for comparing with other implementations.

use crate::args::{EngineArgs, EngineName, KeyArgs, ProtectPlan, UnprotectPlan, Verbosity};
use crate::ends::{Input, Target};
use crate::failure::{Outcome, complain};
use crate::lanes::{self, Crew, Lanes};
use crate::progress::Meter;
use crate::secrets;
use crate::transfer::{Action, Transfer};
use phalanx_bench::scratch::require_memory;
use phalanx_bench::sefps::layout::{self, Kernels, SHORTEST};
use phalanx_core::engine::Op;
use phalanx_core::file::{Stamp, read_full};
use phalanx_core::{Error, Progress, Result, Sink, Source, Suite};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use zeroize::Zeroizing;

/// Protected files are named so, lest anybody take them for Phalanx's own.
const EXTENSION: &str = "sefps";

/// `phalanx protect --format sefps`
pub fn protect(plan: ProtectPlan, verbosity: Verbosity) -> Outcome {
    let keys = plan.keys.keys;
    let action = Sefps::new(Direction::Protect, &keys, &plan.engine)?;
    Transfer::new(action, plan.destination, &keys, &plan.engine, verbosity)?.run(&plan.paths)
}

/// `phalanx unprotect --format sefps`
pub fn unprotect(plan: UnprotectPlan, verbosity: Verbosity) -> Outcome {
    let keys = plan.keys;
    let action = Sefps::new(Direction::Unprotect, &keys, &plan.engine)?;
    Transfer::new(action, plan.destination, &keys, &plan.engine, verbosity)?.run(&plan.paths)
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Protect,
    Unprotect,
}

struct Sefps {
    direction: Direction,
    cipher: Kernels,
    threads: usize,
}

impl Sefps {
    fn new(direction: Direction, keys: &KeyArgs, engine: &EngineArgs) -> Outcome<Self> {
        complain("warning: SEFPS's layout is for study only: equal blocks show in it, and it can be forged");
        let key = secrets::read_aes_key_file(&keys.key_files[0])?;
        let cipher = Kernels::new(lanes::levels()?.aes, &key).expect("the key's length was checked");
        let threads = if engine.engine == EngineName::Serial { 1 } else { lanes::threads(engine) };
        Ok(Self { direction, cipher, threads })
    }
}

impl Action for Sefps {
    fn output_name(&self, name: &OsStr) -> Option<OsString> {
        match self.direction {
            Direction::Protect => {
                let mut name = name.to_owned();
                name.push(".");
                name.push(EXTENSION);
                Some(name)
            }
            Direction::Unprotect => {
                let name = Path::new(name);
                name.extension().filter(|e| *e == EXTENSION).and(name.file_stem()).map(OsStr::to_owned)
            }
        }
    }

    fn transfer<'l>(&self, lanes: &'l Lanes, input: &Input, target: &Target, meter: &Meter) -> Result<(u64, &'l Crew)> {
        // The layout has threads of its own; the crew only says how many. It has no suite either, and no device does it.
        let crew = lanes.crew(Op::Seal, Suite::Aes256Gcm, None);
        let mut file = match input.source()? {
            Source::File(file, _) => read_file(file, input)?,
            Source::Stream(stream) => read_stream(stream)?,
        };
        let read = file.len();
        match self.direction {
            Direction::Protect => {
                layout::protect(&self.cipher, self.threads, &mut file);
            }
            Direction::Unprotect => {
                layout::unprotect(&self.cipher, self.threads, &mut file).map_err(|_| Error::WrongKey)?;
            }
        }
        match target.sink() {
            Sink::File(output) | Sink::Synced(output) => output.write_all_at(&file, 0).map_err(Error::Write)?,
            Sink::Stream(mut output) => {
                output.write_all(&file).and_then(|()| output.flush()).map_err(Error::Write)?;
            }
            Sink::Nothing => {}
        }
        meter.advance(read as u64);
        let bytes = if self.direction == Direction::Protect { read } else { file.len() };
        Ok((bytes as u64, crew))
    }
}

/// The layout's digest stands at the end, so all of a file must be in memory before the first byte is written.
fn memory(len: usize) -> Result<Zeroizing<Vec<u8>>> {
    let whole = len.saturating_add(SHORTEST);
    let refused = |why: String| Error::Read(io::Error::new(io::ErrorKind::OutOfMemory, why));
    let short = || "SEFPS's layout needs the whole file in memory: ".to_owned();
    require_memory(whole as u64).map_err(|e| refused(short() + &e.to_string()))?;
    let mut file = Zeroizing::new(Vec::new());
    file.try_reserve_exact(whole).map_err(|e| refused(short() + &e.to_string()))?;
    Ok(file)
}

fn read_file(from: &File, input: &Input) -> Result<Zeroizing<Vec<u8>>> {
    let len = from.metadata().map_err(Error::Read)?.len();
    let mut file = memory(usize::try_from(len).unwrap_or(usize::MAX))?;
    file.resize(len as usize, 0);
    from.read_exact_at(&mut file, 0)
        .map_err(|e| if e.kind() == io::ErrorKind::UnexpectedEof { Error::Changed } else { Error::Read(e) })?;
    if input.stamp() != Some(Stamp::of(from).map_err(Error::Read)?) {
        return Err(Error::Changed);
    }
    Ok(file)
}

/// A stream's length shows at its end: the memory is doubled until then.
fn read_stream(mut stream: impl io::Read) -> Result<Zeroizing<Vec<u8>>> {
    let mut file = memory(1 << 20)?;
    loop {
        let (start, room) = (file.len(), file.capacity() - SHORTEST);
        file.resize(room, 0);
        let len = start + read_full(&mut stream, &mut file[start..])?;
        if len < room {
            file.truncate(len);
            return Ok(file);
        }
        let mut larger = memory(2 * room)?;
        larger.extend_from_slice(&file);
        file = larger;
    }
}
