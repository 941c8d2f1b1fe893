//! Copies a file with all processes of a job, and does nothing else. Protecting with the same processes is compared
//! with this.
//!
//! `mpirun -n 2 parallel-copy [--no-sync] FROM TO`
#![forbid(unsafe_code)]

use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::CommunicatorCollectives;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Every process's range begins at a multiple of this, in bytes.
const ALIGNMENT: u64 = 1 << 20;
/// The bytes that are read and written at once: the default of `dcp`.
const PIECE: usize = 4 << 20;

fn main() -> ExitCode {
    let Some(work) = Work::from_args(env::args_os().skip(1)) else {
        eprintln!("parallel-copy: usage: parallel-copy [--no-sync] FROM TO");
        return ExitCode::from(2);
    };
    let Some(universe) = mpi::initialize() else {
        eprintln!("parallel-copy: MPI cannot be started");
        return ExitCode::FAILURE;
    };
    let world = universe.world();
    world.barrier();
    let begun = Instant::now();
    let copied = work.run(&world).unwrap_or_else(|e| {
        eprintln!("parallel-copy: rank {}: {}: {e}", world.rank(), work.from.display());
        world.abort(4)
    });
    if world.rank() == 0 {
        eprintln!("parallel-copy: copied {copied} bytes in {:.6} s", begun.elapsed().as_secs_f64());
    }
    ExitCode::SUCCESS
}

/// The command line.
struct Work {
    syncs: bool,
    from: PathBuf,
    to: PathBuf,
}

impl Work {
    fn from_args(args: impl Iterator<Item = OsString>) -> Option<Self> {
        let (options, paths): (Vec<_>, Vec<_>) = args.partition(|arg| arg == "--no-sync");
        let [from, to] = &paths[..] else { return None };
        Some(Self { syncs: options.is_empty(), from: from.into(), to: to.into() })
    }

    /// Copies this process's part. Returns the length of the whole file.
    fn run(&self, world: &SimpleCommunicator) -> io::Result<u64> {
        let mut name = self.to.clone().into_os_string();
        name.push(".part");
        let unfinished = Path::new(&name);
        let input = File::open(&self.from)?;
        let len = input.metadata()?.len();
        if world.rank() == 0 {
            File::create(unfinished)?;
        }
        world.barrier();
        let output = OpenOptions::new().write(true).open(unfinished)?;
        let mut piece = vec![0; PIECE];
        let mut rest = range(len, world.rank() as u64, world.size() as u64);
        while !rest.is_empty() {
            let take = (rest.end - rest.start).min(PIECE as u64) as usize;
            input.read_exact_at(&mut piece[..take], rest.start)?;
            output.write_all_at(&piece[..take], rest.start)?;
            rest.start += take as u64;
        }
        if self.syncs {
            output.sync_all()?;
        }
        world.barrier();
        if world.rank() == 0 {
            fs::rename(unfinished, &self.to)?;
        }
        Ok(len)
    }
}

/// An equal share of all bytes, from one multiple of the alignment to another.
fn range(len: u64, rank: u64, ranks: u64) -> Range<u64> {
    let bound = |rank: u64| (len.div_ceil(ALIGNMENT) * rank / ranks * ALIGNMENT).min(len);
    bound(rank)..bound(rank + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_cover_the_whole_file() {
        for (len, ranks) in [(0, 3), (1, 2), (ALIGNMENT, 5), (7 * ALIGNMENT + 1, 3), (1 << 40, 1000)] {
            let ranges: Vec<_> = (0..ranks).map(|rank| range(len, rank, ranks)).collect();
            assert!(ranges[0].start == 0 && ranges[ranks as usize - 1].end == len);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
