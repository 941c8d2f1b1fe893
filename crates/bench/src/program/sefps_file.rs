//! `phalanx-bench sefps-file`: the layout that the SEFPS paper prints, for study and for comparing with other
//! implementations.

use super::args::{SefpsEnds, SefpsFile};
use super::experiments::{all_cores, levels};
use super::failure::{Code, Failure, Outcome, complain};
use phalanx_bench::measure::scratch::require_memory;
use phalanx_bench::measure::sefps::layout::{self, Kernels, SHORTEST};
use phalanx_host::file::{Existing, Made, Output};
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use zeroize::Zeroizing;

/// The paper's message for a file that is refused.
const REFUSED: &str = "The data may be altered or decrypted with wrong password";

pub fn run(command: SefpsFile) -> Outcome {
    complain("warning: SEFPS's layout is for study only: equal blocks show in it, and it can be forged");
    let (SefpsFile::Protect(ends) | SefpsFile::Unprotect(ends)) = &command;
    let cipher = Kernels::new(levels()?.aes, &read_key(&ends.key_file)?)
        .ok_or_else(|| Failure::at(&ends.key_file, Code::InputOutput, "an AES key has exactly 16, 24 or 32 bytes"))?;
    let target = Target::create(ends)?;
    let mut file = read(&ends.input)?;
    let threads = ends.threads.map_or_else(all_cores, NonZeroUsize::get);
    match command {
        SefpsFile::Protect(_) => drop(layout::protect(&cipher, threads, &mut file)),
        SefpsFile::Unprotect(_) => {
            layout::unprotect(&cipher, threads, &mut file)
                .map_err(|_| Failure::at(&ends.input, Code::NotAuthentic, REFUSED))?;
        }
    }
    target.finish(ends, &file)
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn read_key(path: &Path) -> Outcome<Zeroizing<Vec<u8>>> {
    const LONGEST: usize = 32;
    let mut key = Zeroizing::new(Vec::with_capacity(LONGEST + 1));
    let file = File::open(path).map_err(phalanx_bench::error::Error::at(path))?;
    file.take(LONGEST as u64 + 1).read_to_end(&mut key).map_err(phalanx_bench::error::Error::at(path))?;
    Ok(key)
}

/// Memory for a whole file. The layout's digest is at the end, so the whole file must be in memory before the first
/// byte is written.
fn memory(len: usize) -> Outcome<Zeroizing<Vec<u8>>> {
    let whole = len.saturating_add(SHORTEST);
    let refused =
        |why: String| Failure::new(Code::InputOutput, format!("SEFPS's layout needs the whole file in memory: {why}"));
    require_memory(whole as u64).map_err(|e| refused(e.to_string()))?;
    let mut file = Zeroizing::new(Vec::new());
    file.try_reserve_exact(whole).map_err(|e| refused(e.to_string()))?;
    Ok(file)
}

/// Reads the whole input. The length of a stream is unknown until its end, so the memory is doubled until then.
fn read(path: &Path) -> Outcome<Zeroizing<Vec<u8>>> {
    let failed = |e: io::Error| Failure::from(phalanx_bench::error::Error::Path(path.to_owned(), e));
    let (mut input, len): (Box<dyn Read>, u64) = match is_dash(path) {
        true => (Box::new(io::stdin().lock()), 0),
        false => {
            let file = File::open(path).map_err(failed)?;
            let len = file.metadata().map_err(failed)?.len();
            (Box::new(file), len)
        }
    };
    let mut file = memory(usize::try_from(len).unwrap_or(usize::MAX).max(1 << 20))?;
    loop {
        let room = (file.capacity() - SHORTEST - file.len()) as u64;
        let read = input.by_ref().take(room).read_to_end(&mut file).map_err(failed)?;
        if (read as u64) < room {
            return Ok(file);
        }
        let mut larger = memory(2 * file.len())?;
        larger.extend_from_slice(&file);
        file = larger;
    }
}

/// An unfinished output.
enum Target {
    File(Output),
    Stdout,
}

impl Target {
    fn create(ends: &SefpsEnds) -> Outcome<Self> {
        if is_dash(&ends.output) {
            return Ok(Target::Stdout);
        }
        let made = Made::default();
        let output = Output::create(&ends.output, existing(ends, &made)).map_err(|e| at_output(ends, e))?;
        Ok(Target::File(output))
    }

    fn finish(self, ends: &SefpsEnds, bytes: &[u8]) -> Outcome {
        let failed = |e| at_output(ends, phalanx_host::Error::write(e));
        match self {
            Target::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(failed)
            }
            Target::File(output) => {
                output.file().write_all(bytes).map_err(failed)?;
                let made = Made::default();
                output.commit(existing(ends, &made), true).map(drop).map_err(|e| at_output(ends, e))
            }
        }
    }
}

fn existing<'a>(ends: &SefpsEnds, made: &'a Made) -> Existing<'a> {
    if ends.force { Existing::Replace(made) } else { Existing::Keep }
}

fn at_output(ends: &SefpsEnds, error: phalanx_host::Error) -> Failure {
    let how = if matches!(error, phalanx_host::Error::Exists) { " (--force replaces it)" } else { "" };
    Failure::at(&ends.output, Code::InputOutput, format!("{error}{how}"))
}
