//! The command line of `phalanx-bench`.

use super::failure::{Code, Failure, Outcome};
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use phalanx_bench::measure::peers::copy::PIECE;
use phalanx_bench::measure::setup::{
    HpcOptions, HpcPart, PeersOptions, PeersPart, ServiceOptions, ServicePart, VolumeOptions, VolumePart,
};
use phalanx_bench::run::Experiment;
use phalanx_gpu::Api;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// The papers' experiments on this machine, and comparisons with other programs.
#[derive(Parser)]
#[command(name = "phalanx-bench", version, max_term_width = 80, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

const EXAMPLES: &str = "\
Examples:
  phalanx-bench sefps --quick --out results
      runs one experiment, in about a minute
  phalanx-bench all --out results --resume
      runs all that the folder does not have yet
  phalanx-bench report results --merge other/rows.jsonl
      adds what another machine measured";

#[derive(Args, Clone, Copy)]
pub struct Verbosity {
    /// Print only errors; show no progress bar
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 900)]
    pub quiet: bool,
    /// Print each row as it is measured
    #[arg(short, long, global = true, display_order = 901)]
    pub verbose: bool,
}

#[derive(Subcommand)]
pub enum Runs {
    /// P1: files in SEFPS's layout and in Phalanx's format
    Sefps(Run),
    /// P2: the data of many users, each under its own key
    Users(Run),
    /// P3: files encrypted by many threads, and by the processes of a cluster
    Hpc(HpcRun),
    /// P4: AES by size on CPU and GPU, its ciphertext, and mounted volumes
    Volume(VolumeRun),
    /// P5: keys that are found by their digests
    Keys(Run),
    /// Whole commands, compared with cp, age, openssl and others
    Peers(PeersPartsRun),
    /// The server, beside Vault and pgcrypto
    Service(ServiceRun),
    /// Run all of these experiments but the server: on two cores in less than an hour, with --quick in less than three minutes
    All(PeersRun),
}

#[derive(Subcommand)]
pub enum Command {
    #[command(flatten)]
    Run(Runs),
    /// Write a run's report again, with rows of other machines
    Report {
        /// The run's folder
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
        /// Add rows of another machine (may be repeated)
        ///
        /// FILE is the rows.jsonl of a run there, or of crates/gpu/scripts/device-check. The rows get a part of their own in
        /// the report, now and whenever it is written again.
        #[arg(long, value_name = "FILE")]
        merge: Vec<PathBuf>,
        /// Make the tables of rows in this Markdown file anew (may be repeated)
        ///
        /// Each is between a line `<!-- rows: FOLDER TABLE -->` and a line `<!-- end of rows -->`. FOLDER is one in DIR, and TABLE
        /// is bars, commands, mounts or headlines; after it there may be the name of an experiment, whose rows alone are taken.
        #[arg(long = "document", value_name = "FILE")]
        documents: Vec<PathBuf>,
        /// Print the papers' 52 tables and figures with the verdicts on them, as a table in Markdown
        #[arg(long)]
        index: bool,
    },
    /// Copy a file by several threads, and do nothing else: the limit of the machine
    #[command(hide = true)]
    Copy(Copy),
    /// Check and measure the devices of this machine
    ///
    /// What measures prints lines as rows.jsonl has them: a head for each device, and rows.
    #[command(subcommand)]
    Device(DeviceCommand),
    /// Write and read SEFPS's layout, for study only
    ///
    /// The layout does not protect: equal blocks show in it, and it can be forged.
    #[command(subcommand)]
    SefpsFile(SefpsFile),
}

#[derive(Args)]
#[group(skip)]
pub struct Run {
    /// Run fewer and smaller cases; at most a minute each
    #[arg(long)]
    pub quick: bool,
    /// The run's folder
    ///
    /// It is made if it does not exist. While the experiments run it also holds the files that they use.
    #[arg(long, value_name = "DIR", default_value = "phalanx-bench", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// Continue the folder's run; keep what it has
    #[arg(long)]
    pub resume: bool,
}

#[derive(Args)]
#[group(skip)]
pub struct PeersRun {
    #[command(flatten)]
    run: Run,
    /// The phalanx to measure (default: the one beside this program)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    phalanx: Option<PathBuf>,
}

#[derive(Args)]
#[group(skip)]
pub struct PeersPartsRun {
    #[command(flatten)]
    run: PeersRun,
    /// Run only this part (may be repeated): commands, mirror, mirror-memory, stores (default: commands)
    ///
    /// commands: files that are protected and got back. mirror: a folder of 100,000 files and one of 4 GiB that is mirrored
    /// again and again, beside rsync, rclone and restic; it takes a quarter of an hour or more, and 45 GB of disk.
    /// mirror-memory: the memory of a mirror of 1,000,000 entries. stores: objects of 4 and 10 GiB in a store on this machine, beside
    /// aws and rclone; it needs versitygw, and a phalanx that was built with stores.
    #[arg(long = "part", value_enum, value_name = "PART", hide_possible_values = true)]
    parts: Vec<PeersPart>,
    /// A folder for the trees that are mirrored (default: the run's folder)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

#[derive(Args)]
#[group(skip)]
pub struct VolumeRun {
    #[command(flatten)]
    run: PeersRun,
    /// Run only this part (may be repeated): study, ciphertext, ahead or mounts
    ///
    /// study: AES by size on one core, all cores and the GPU. ciphertext: statistics of the ciphertext of an image and of a
    /// text. ahead: keystream that is made before the data are there. mounts: mounted volumes beside gocryptfs
    /// and bindfs.
    #[arg(long = "part", value_enum, value_name = "PART", hide_possible_values = true)]
    parts: Vec<VolumePart>,
    /// A folder that volumes are stored in (may be repeated; default: /dev/shm and the run's folder)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    backing: Vec<PathBuf>,
}

#[derive(Args)]
#[group(skip)]
pub struct HpcRun {
    #[command(flatten)]
    run: Run,
    /// Run only this part (may be repeated): threads, gpu, cluster or java
    ///
    /// threads: 1 to 16 threads of one process. gpu: 1000 to 50 million threads of a GPU. cluster: phalanx-mpi under mpirun,
    /// beside a plain parallel copy, with one process slowed down, and interrupted. java: the paper's program and the format
    /// in Java, by threads and by processes of MPJ Express.
    #[arg(long = "part", value_enum, value_name = "PART", hide_possible_values = true)]
    parts: Vec<HpcPart>,
    /// The phalanx-mpi to measure (default: the one beside this program)
    ///
    /// parallel-copy is looked for beside it, and in the folder examples there.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    phalanx_mpi: Option<PathBuf>,
    /// The launcher of its processes (default: mpirun)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    mpirun: Option<PathBuf>,
    /// A folder to measure the cluster in (may be repeated; default: /dev/shm and the run's folder)
    ///
    /// All is measured in the first. In others it is the comparison with copies, and runs that are interrupted.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: Vec<PathBuf>,
    /// The size of the cluster's run that is interrupted (default: 2; with --quick: 64 MiB)
    #[arg(long, value_name = "GIB")]
    interrupted: Option<NonZeroU32>,
    /// The java to measure with (default: java)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    java: Option<PathBuf>,
    /// The folder java of the sources, with built jars (default: that of this program's sources, or of this folder)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    jars: Option<PathBuf>,
    /// The phalanx to measure beside the command in Java (default: the one beside this program)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    phalanx: Option<PathBuf>,
}

#[derive(Args)]
#[group(skip)]
pub struct ServiceRun {
    #[command(flatten)]
    run: Run,
    /// Run only this part (may be repeated): single, batch, stream, crowd or memory
    ///
    /// single: single texts in JSON, by throughput and by latency. batch: batches of 1,000 in JSON. stream: streams of 10,000
    /// records beside the library's batch call. crowd: P2's 5 to 10,000 users who all send at once. memory: the memory of
    /// 1,000,000 new users. Servers run on one core, and their load on another one.
    #[arg(long = "part", value_enum, value_name = "PART", hide_possible_values = true)]
    parts: Vec<ServicePart>,
    /// The phalanx-server to measure (default: the one beside this program)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    server: Option<PathBuf>,
    /// Measure this vault too, in its mode for development
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    vault: Option<PathBuf>,
    /// Measure pgcrypto too, in a new PostgreSQL of this folder of programs (newest: that of Debian's packages)
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "newest", value_hint = ValueHint::DirPath)]
    postgres: Option<PathBuf>,
}

/// The devices, and how much is done with them.
#[derive(Args)]
#[group(skip)]
pub struct On {
    /// Use devices of this interface: cuda or opencl (default: cuda if it has any)
    #[arg(value_enum, value_name = "INTERFACE", hide_possible_values = true)]
    interface: Option<Interface>,
    /// Do less
    #[arg(long)]
    pub quick: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Interface {
    Cuda,
    Opencl,
}

impl On {
    /// The interface that is requested.
    pub fn api(&self) -> Option<Api> {
        self.interface.map(|interface| match interface {
            Interface::Cuda => Api::Cuda,
            Interface::Opencl => Api::OpenCl,
        })
    }
}

#[derive(Subcommand)]
pub enum DeviceCommand {
    /// Show all devices
    List,
    /// Run every kernel at all sizes around its edges and compare with the CPU, and then the engine
    Check {
        #[command(flatten)]
        on: On,
        /// Do only the self-tests of what the engine uses
        #[arg(long)]
        least: bool,
    },
    /// Let the device be too slow, and the CPU take its place
    Takeover(On),
    /// Measure copies within the device, and between it and the host
    Ceilings(On),
    /// Measure each kernel alone
    Kernels(On),
    /// Measure sealing of data that lie on the device
    Resident(On),
    /// Check opening into the device's memory and sealing from there, and measure it beside plain copies
    Opened(On),
    /// Measure the engine from host to host
    Engine(On),
    /// Measure the CPU's engines, the device's and both together, by size, in memory
    Crews(On),
    /// Make a file of random bytes
    File { file: String, bytes: u64 },
    /// Show rows on one page
    Summary { file: String },
}

#[derive(Subcommand)]
pub enum SefpsFile {
    /// Write a file in the layout
    Protect(SefpsEnds),
    /// Get the file back
    Unprotect(SefpsEnds),
}

#[derive(Args)]
pub struct SefpsEnds {
    /// The AES key itself: a file of 16, 24 or 32 bytes
    #[arg(long, value_name = "KEY")]
    pub key_file: PathBuf,
    /// Number of threads (default: one per core)
    #[arg(short, long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Overwrite an existing output
    #[arg(short, long)]
    pub force: bool,
    /// The file to read; - is standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The file to write; - is standard output
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
}

#[derive(Args)]
pub struct Copy {
    /// Number of threads (default: one per core)
    #[arg(short, long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// The KiB that a thread copies at once
    #[arg(long, value_name = "KIB", default_value_t = (PIECE >> 10) as u32, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub piece: u32,
    /// The file to read
    pub from: PathBuf,
    /// The file to write
    pub to: PathBuf,
}

/// Which experiments to run, and how.
pub struct Experiments {
    pub experiments: Vec<Experiment>,
    pub run: Run,
    pub phalanx: Option<PathBuf>,
    pub volume: VolumeOptions,
    pub hpc: HpcOptions,
    pub peers: PeersOptions,
    pub service: ServiceOptions,
}

impl Experiments {
    fn new(experiments: &[Experiment], run: Run, phalanx: Option<PathBuf>) -> Self {
        let (volume, hpc, peers) = (VolumeOptions::default(), HpcOptions::default(), PeersOptions::default());
        let service = ServiceOptions::default();
        Self { experiments: experiments.into(), run, phalanx, volume, hpc, peers, service }
    }

    fn hpc(run: HpcRun) -> Self {
        let HpcRun { run, parts, phalanx_mpi: program, mpirun, folder: folders, interrupted, java, jars, phalanx } =
            run;
        let interrupted = interrupted.map(|gib| u64::from(gib.get()) << 30);
        let mpj_home = std::env::var_os("MPJ_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let hpc = HpcOptions { parts, program, mpirun, folders, interrupted, java, jars, mpj_home };
        Self { hpc, ..Self::new(&[Experiment::Hpc], run, phalanx) }
    }
}

impl From<Runs> for Experiments {
    fn from(runs: Runs) -> Self {
        match runs {
            Runs::Sefps(run) => Self::new(&[Experiment::Sefps], run, None),
            Runs::Users(run) => Self::new(&[Experiment::Users], run, None),
            Runs::Keys(run) => Self::new(&[Experiment::Keys], run, None),
            Runs::Hpc(run) => Self::hpc(run),
            Runs::Volume(VolumeRun { run: PeersRun { run, phalanx }, parts, backing }) => {
                Self { volume: VolumeOptions { parts, backing }, ..Self::new(&[Experiment::Volume], run, phalanx) }
            }
            Runs::Peers(PeersPartsRun { run: PeersRun { run, phalanx }, parts, folder }) => {
                Self { peers: PeersOptions { parts, folder }, ..Self::new(&[Experiment::Peers], run, phalanx) }
            }
            Runs::Service(ServiceRun { run, parts, server, vault, postgres }) => {
                let service = ServiceOptions { parts, server, vault, postgres };
                Self { service, ..Self::new(&[Experiment::Service], run, None) }
            }
            Runs::All(PeersRun { run, phalanx }) => Self::new(Experiment::ALL, run, phalanx),
        }
    }
}

/// Parses the command line. Help and version are printed here and end the program. An error becomes one line.
pub fn parse() -> Outcome<Cli> {
    Cli::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Failure::new(Code::Usage, "no command given (phalanx-bench --help)")
        }
        _ => Failure::new(Code::Usage, sentence(&error)),
    })
}

/// The first paragraph of clap's message, as one sentence.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.trim_start_matches("error: ").split_whitespace().collect();
    format!("{} (phalanx-bench --help)", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn pgcrypto_is_measured_with_or_without_a_folder() {
        for (line, folder) in [
            ("phalanx-bench service", None),
            ("phalanx-bench service --postgres --part stream", Some(ServiceOptions::NEWEST)),
            ("phalanx-bench service --postgres /opt/bin", Some("/opt/bin")),
        ] {
            let Command::Run(runs) = Cli::try_parse_from(line.split(' ')).unwrap().command else { panic!("{line}") };
            assert_eq!(Experiments::from(runs).service.postgres, folder.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn usage_errors_are_one_sentence() {
        let wrong = |line: &str| sentence(&Cli::try_parse_from(line.split(' ')).map(|_| ()).unwrap_err());
        let cases = [
            ("phalanx-bench keys --bogus", "unexpected argument '--bogus' found (phalanx-bench --help)"),
            (
                "phalanx-bench report",
                "the following required arguments were not provided: <DIR> (phalanx-bench --help)",
            ),
            ("phalanx-bench bogus", "unrecognized subcommand 'bogus' (phalanx-bench --help)"),
        ];
        for (line, expected) in cases {
            assert_eq!(wrong(line), expected);
        }
    }
}
