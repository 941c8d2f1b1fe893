//! The processes and their messages. Only this module calls MPI, and from one thread only.

use mpi::Threading;
use mpi::environment::{self, Universe};
use mpi::point_to_point::MatchedReceiveVec;
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::{CommunicatorCollectives, Destination, Source};
use phalanx_host::failure::{Code, Failure, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread;
use std::time::Duration;
use zeroize::Zeroizing;

/// All processes of the job.
pub struct World {
    // Dropping it ends MPI.
    _universe: Universe,
    world: SimpleCommunicator,
    pub rank: usize,
    pub size: usize,
    pub host: String,
    /// How many processes of this machine share this process's cores.
    pub sharers: usize,
}

/// How long a wait for a message pauses between two checks.
pub struct Pause(Duration);

impl Pause {
    const SHORTEST: Duration = Duration::from_micros(20);
    const LONGEST: Duration = Duration::from_micros(500);

    pub fn new() -> Self {
        Self(Self::SHORTEST)
    }

    /// The next pause, which is longer.
    pub fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 5 / 4).min(Self::LONGEST);
        now
    }
}

impl World {
    /// Joins the job. Called once, while the process has a single thread.
    pub fn join() -> Outcome<Self> {
        configure();
        let none = || Failure::new(Code::Other, "MPI cannot be started twice");
        let (universe, _) = mpi::initialize_with_threading(Threading::Funneled).ok_or_else(none)?;
        let world = universe.world();
        let host = environment::processor_name().unwrap_or_else(|_| "a machine without a name".into());
        let sharers = sharers(&world.split_shared(0));
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        Ok(Self { _universe: universe, world, rank, size, host, sharers })
    }

    /// Sends a message, and waits until it has been received or copied.
    pub fn send(&self, to: usize, message: &impl Serialize) {
        let len = postcard::experimental::serialized_size(message).expect("a message can be encoded");
        let mut bytes = Zeroizing::new(vec![0u8; len]);
        postcard::to_slice(message, &mut bytes).expect("there is room for it");
        self.world.process_at_rank(to as i32).send(&bytes[..]);
    }

    /// Takes a message of any other process, if one is there. The inner `None` stands for a message that cannot be
    /// read.
    pub fn take<M: DeserializeOwned>(&self) -> Option<(usize, Option<M>)> {
        let (bytes, status) = self.world.any_process().immediate_matched_probe()?.matched_receive_vec::<u8>();
        Some((status.source_rank() as usize, postcard::from_bytes(&Zeroizing::new(bytes)).ok()))
    }

    /// Waits for a message of rank 0. `None` if it cannot be read.
    pub fn wait<M: DeserializeOwned>(&self) -> Option<M> {
        let mut pause = Pause::new();
        loop {
            if let Some((_, message)) = self.take() {
                return message;
            }
            thread::sleep(pause.next());
        }
    }

    /// Ends all processes at once.
    pub fn abort(&self, code: Code) -> ! {
        self.world.abort(code.number().into())
    }
}

/// How many of these processes run on the same cores as this one. If the launcher has not bound them, all do.
fn sharers(machine: &SimpleCommunicator) -> usize {
    let cores = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let mut mine = DefaultHasher::new();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| cores.is_set(*core)).for_each(|core| core.hash(&mut mine));
    let mine = mine.finish();
    let mut all = vec![0u64; machine.size() as usize];
    machine.all_gather_into(&mine, &mut all[..]);
    all.iter().filter(|other| **other == mine).count().max(1)
}

/// A number for this machine. It is the same for all processes that see the same mounts of the same running system.
pub fn machine() -> u64 {
    let mut hash = DefaultHasher::new();
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hash);
    std::fs::read_link("/proc/self/ns/mnt").unwrap_or_default().hash(&mut hash);
    hash.finish()
}

/// Sets environment variables of the MPI libraries, unless the user has set them.
///
/// This process hides its memory from others, so the processes of one machine cannot copy messages directly from each
/// other's memory. MPI libraries find this out too late, so these settings turn it off.
///
/// With MPICH 4.0.2, a process can wait for ever in `MPI_Finalize` after UCX has put a long message into the memory of
/// its receiver by TCP: the acknowledgment comes only while the receiver is inside UCX, and it may wait elsewhere by
/// then (pull request 6596 of pmodels/mpich, 2023). So all messages are sent without asking the receiver first. They
/// are short enough.
#[expect(unsafe_code)]
fn configure() {
    const SETTINGS: [(&str, &str); 5] = [
        // For Open MPI 4, Open MPI 5, MPICH, and UCX, which any of them may use.
        ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
        ("OMPI_MCA_smsc", "^cma,xpmem,knem"),
        ("MPIR_CVAR_CH4_CMA_ENABLE", "0"),
        ("UCX_TLS", "^cma"),
        ("UCX_RNDV_THRESH", "inf"),
    ];
    for (name, value) in SETTINGS {
        if env::var_os(name).is_none() {
            // SAFETY: there is no other thread yet that could read the environment.
            unsafe { env::set_var(name, value) };
        }
    }
}

/// The rank that the launcher has put into the environment, if it has. It is known before MPI is started.
pub fn rank_by_environment() -> Option<usize> {
    let rank = |name| env::var(name).ok()?.parse().ok();
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"].into_iter().find_map(rank)
}
