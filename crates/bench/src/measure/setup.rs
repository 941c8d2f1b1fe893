//! The setup of a run.

use crate::row::Bar;
use phalanx_core::engine::Levels;
use phalanx_gpu::Device;
use std::path::PathBuf;

/// The setup of a run.
pub struct Setup {
    /// The run's folder.
    pub out: PathBuf,
    /// Fewer and smaller cases.
    pub quick: bool,
    /// Continue the folder's run.
    pub resume: bool,
    /// The kernels in use.
    pub levels: Levels,
    /// The threads of the `cpu` engine.
    pub threads: usize,
    /// The device that GPU parts are measured on.
    pub device: Found,
    /// The program `phalanx`, for measurements of whole commands.
    pub program: PathBuf,
    /// What the experiment on volumes runs, and where.
    pub volume: VolumeOptions,
    /// What the experiment with many threads and processes runs, and with which program.
    pub hpc: HpcOptions,
    /// Which comparisons of whole commands are run, and where.
    pub peers: PeersOptions,
    /// What is measured of the server, and beside which programs.
    pub service: ServiceOptions,
}

/// A part of the measurement of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ServicePart {
    /// Single texts in JSON.
    Single,
    /// Batches in JSON.
    Batch,
    /// Streams of records.
    Stream,
    /// P2's users, who all send at once.
    Crowd,
    /// The memory of new users.
    Memory,
}

impl ServicePart {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Batch => "batch",
            Self::Stream => "stream",
            Self::Crowd => "crowd",
            Self::Memory => "memory",
        }
    }
}

/// What is run, and with which programs.
#[derive(Clone, Debug, Default)]
pub struct ServiceOptions {
    /// The parts to run; all if there are none.
    pub parts: Vec<ServicePart>,
    /// The program `phalanx-server`, if it was found.
    pub server: Option<PathBuf>,
    /// The program `vault`, if it is to be measured.
    pub vault: Option<PathBuf>,
    /// The folder of PostgreSQL's programs, if pgcrypto is to be measured; [`NEWEST`](Self::NEWEST) is that of Debian's.
    pub postgres: Option<PathBuf>,
}

impl ServiceOptions {
    /// Stands for the newest PostgreSQL of Debian's packages.
    pub const NEWEST: &str = "newest";

    /// Whether a part is run.
    #[must_use]
    pub fn has(&self, part: ServicePart) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// A part of the comparison of whole commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PeersPart {
    /// Files that are protected and got back.
    Commands,
    /// A folder that is mirrored again and again.
    Mirror,
    /// The memory of a mirror of many entries.
    MirrorMemory,
    /// Objects in a store on this machine.
    Stores,
}

/// What is run, and where.
#[derive(Clone, Debug, Default)]
pub struct PeersOptions {
    /// The parts to run; commands if there are none. The others need much time and disk.
    pub parts: Vec<PeersPart>,
    /// The folder for the trees that are mirrored. If there is none, it is the run's own.
    pub folder: Option<PathBuf>,
}

impl PeersOptions {
    /// Whether a part is run.
    #[must_use]
    pub fn has(&self, part: PeersPart) -> bool {
        if self.parts.is_empty() { part == PeersPart::Commands } else { self.parts.contains(&part) }
    }
}

/// A part of the experiment with threads and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HpcPart {
    /// The threads of one process.
    Threads,
    /// The threads of a GPU.
    Gpu,
    /// The processes of an MPI job.
    Cluster,
    /// Threads and processes in Java.
    Java,
}

/// What is run, and with which program.
#[derive(Clone, Debug, Default)]
pub struct HpcOptions {
    /// The parts to run; all if there are none.
    pub parts: Vec<HpcPart>,
    /// The program `phalanx-mpi`, if it was found.
    pub program: Option<PathBuf>,
    /// The launcher, if it is not `mpirun` in the path.
    pub mpirun: Option<PathBuf>,
    /// The folders that the cluster is measured in. If there are none, suitable ones are searched for.
    pub folders: Vec<PathBuf>,
    /// The bytes of the run that is interrupted.
    pub interrupted: Option<u64>,
    /// The program `java`, if it is not the one in the path.
    pub java: Option<PathBuf>,
    /// The folder `java` of the sources, with built jars. If there is none, it is searched for.
    pub jars: Option<PathBuf>,
    /// The folder of MPJ Express, if it is not that of Debian's package.
    pub mpj_home: Option<PathBuf>,
}

impl HpcOptions {
    /// Whether a part is run.
    #[must_use]
    pub fn has(&self, part: HpcPart) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// A part of the experiment on volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum VolumePart {
    /// AES-CTR by the size of the data, on one core, on all cores and on a device.
    Study,
    /// Statistics of ciphertext.
    Ciphertext,
    /// Keystream that is made before the data are there.
    Ahead,
    /// Mounted volumes.
    Mounts,
}

/// What is run, and where.
#[derive(Clone, Debug, Default)]
pub struct VolumeOptions {
    /// The parts to run; all if there are none.
    pub parts: Vec<VolumePart>,
    /// The folders that volumes are stored in. If there are none, suitable ones are searched for.
    pub backing: Vec<PathBuf>,
}

impl VolumeOptions {
    /// Whether a part is run.
    #[must_use]
    pub fn has(&self, part: VolumePart) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

impl Setup {
    /// A requirement. It is for the inputs of a full run.
    pub fn bar(&self, asked: String, reached: bool) -> Option<Bar> {
        Some(Bar { asked, reached: (!self.quick).then_some(reached) })
    }
}

#[cfg(test)]
impl Setup {
    /// A quick run with two threads and without a device.
    pub(crate) fn of_tests(out: impl Into<PathBuf>) -> Self {
        Self {
            out: out.into(),
            quick: true,
            resume: false,
            levels: Levels::detect(),
            threads: 2,
            device: Err("none was looked for".into()),
            program: "phalanx".into(),
            volume: VolumeOptions::default(),
            hpc: HpcOptions::default(),
            peers: PeersOptions::default(),
            service: ServiceOptions::default(),
        }
    }
}

/// The device, or one line with the reason why there is none.
pub type Found = std::result::Result<Device, String>;

/// The number of processors that `threads` threads can use on this machine.
pub fn processors(threads: usize) -> usize {
    std::thread::available_parallelism().map_or(threads, |cores| threads.min(cores.get()))
}
