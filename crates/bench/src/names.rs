//! The names in rows. Experiments write them, and the report finds rows by them. Names that need an explanation have a
//! comment.
#![allow(missing_docs, reason = "most names say what they are")]

/// The name of a measure without copies, by the device's own clock.
pub fn kernel_only(measure: &str) -> String {
    measure.to_owned() + KERNEL_ONLY
}
/// The end of the name of a measure without copies.
pub const KERNEL_ONLY: &str = ", kernel only";

/// Files in SEFPS's layout.
pub mod sefps {
    pub const EXPERIMENT: &str = "sefps";
    /// The paper's own program: AES-128 with tables.
    pub const BASELINE: &str = "SEFPS as printed (T-tables), AES-128";
    pub const RATIO: &str = "ratio (Eq. 1)";
    pub const SERIAL: &str = "serial";
    pub const CPU: &str = "cpu";
    pub const GPU: &str = "gpu";
    pub const HYBRID: &str = "hybrid";
    pub const MEANS: &str = "12.5 to 598 MB";
    pub const IN_MEMORY: &str = "in memory";
    pub fn ours(bits: usize) -> String {
        format!("SEFPS with Phalanx's kernels, AES-{bits}")
    }
}

/// The data of many users.
pub mod users {
    pub const EXPERIMENT: &str = "users";
    /// The paper's cipher. All its printed figures are for it.
    pub const PRINTED: &str = "AES-128-CTR";
    pub const SPEEDUP: &str = "AES speedup";
    pub const AVERAGES: &str = "mean over the numbers of users";
}

/// Threads and processes.
pub mod hpc {
    pub const EXPERIMENT: &str = "hpc";
    pub const GPU: &str = "gpu";
    /// The measure with the copies of the data to the device and back.
    pub const COPIED: &str = "encryption and copies";
}

/// The processes of a cluster.
pub mod cluster {
    pub const ENGINE: &str = "cluster";
    /// The measure of whole commands, from before the start of `mpirun` to its end.
    pub const WHOLE: &str = "whole command";
    /// The measure of whole commands minus the time of the same command without data.
    pub const LESS_START: &str = "whole command less its start";
    /// The measure of the times that programs report, without `mpirun` and the start of MPI.
    pub const OWN: &str = "its own time";
    /// The measure of the longest time that a process was at work.
    pub const AT_WORK: &str = "longest process at work";
    pub const MESSAGES: &str = "time for messages";
    pub const MEMORY: &str = "peak memory of a process";
    pub const SUITE_1: &str = "phalanx-mpi, suite 1";
    pub const SUITE_5: &str = "phalanx-mpi, suite 5";
    pub const COPY: &str = "parallel-copy";
    /// The scheme of mpiFileUtils' copy.
    pub const DCP: &str = "dcp";
    pub const START: &str = "start";
    pub const GOES_ON: &str = "protect --resume, interrupted at 90 %";
    pub const PART: &str = "part of a whole run";
    pub const STATIC: &str = "phalanx-mpi, suite 1, static division";
    pub const DYNAMIC: &str = "phalanx-mpi, suite 1, dynamic division";
    pub const FULL_SPEED: &str = "protect";
    pub const SLOWED: &str = "protect, one process stopped half of the time";
    pub fn over(copy: &str) -> String {
        format!("times as fast as {copy}")
    }
}

/// The programs in Java.
pub mod java {
    pub const ENGINE: &str = "java";
    /// The paper's own program. Its C programs have this mode. The mode of its Java program is not printed.
    pub const PAPERS: &str = "P3's program, AES-256-CBC by the JCE";
    pub const CTR: &str = "AES-256-CTR by the JCE";
    pub const ENCRYPTION_COLD: &str = "encryption only, cold";
    pub const ENCRYPTION_WARM: &str = "encryption only, warm";
    /// With reading and writing, in a JVM that has run the same before.
    pub const FILES_WARM: &str = "with reading and writing, warm";
    pub const FORMAT: &str = "Phalanx's format, suite 1, in Java";
    pub const COMMAND: &str = "phalanx.jar, suite 1";
    pub const PHALANX: &str = "phalanx, suite 1";
    pub const CLUSTER_JAR: &str = "phalanx-cluster.jar, suite 1";
    pub const PHALANX_MPI: &str = "phalanx-mpi, suite 1";
}

/// AES by the size of the data.
pub mod study {
    use phalanx_kernels::aes::BLOCK;

    pub const KEYS: [u64; 3] = [128, 192, 256];
    /// AES as in the paper's time, on the CPU and on the device.
    pub const TABLES: &str = "T-tables";
    /// Phalanx's kernels: AES instructions on the CPU, and bit planes on the device.
    pub const OURS: &str = "Phalanx's kernels";
    pub const OPERATION: &str = "encrypt";
    pub const ONE_CORE: &str = "one core";
    pub const ALL_CORES: &str = "all cores";
    /// The blocks of 16 bytes that a thread of the device takes, with tables.
    pub const GRANULARITIES: [u32; 3] = [1, 2, 4];
    /// The paper's fastest program.
    pub const FASTEST: u32 = 2;
    /// Other numbers of threads a block, for the paper's fastest program on its own sizes.
    pub const MORE_THREADS: [u32; 4] = [64, 128, 512, 1024];
    /// The end of the names of programs that use several streams. Their number is in the row's field for threads.
    pub const SEVERAL: &str = "several streams";

    pub fn measure(bits: u64) -> String {
        format!("AES-{bits}-CTR")
    }

    pub fn over_measure(bits: u64, cores: &str) -> String {
        format!("{}: times as fast as {cores}", measure(bits))
    }

    pub fn scheme(granularity: Option<u32>, streams: usize) -> String {
        let program = match granularity {
            Some(blocks) => format!("{TABLES}, {} bytes a thread", blocks as usize * BLOCK),
            None => OURS.into(),
        };
        match streams {
            1 => program,
            _ => format!("{program}, {SEVERAL}"),
        }
    }

    pub fn scheme_of_threads(threads: u32) -> String {
        format!("{}, {threads} threads a block", scheme(Some(FASTEST), 1))
    }
}

/// Keystream made ahead.
pub mod ahead {
    use phalanx_core::Suite;

    pub const OPERATION: &str = "write";
    pub const LATENCY: &str = "latency";
    pub const WORK: &str = "total work";
    pub const AT_ONCE: &str = "AES-256-CTR at once";
    pub const AHEAD: &str = "AES-256-CTR keystream made ahead, XOR";
    pub const SUITES: [Suite; 2] = [Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake];

    /// A whole seal, of which the encryption is a part.
    pub fn sealed(suite: Suite) -> String {
        format!("a chunk sealed at once, {}", suite.name())
    }
}

/// Statistics of ciphertext.
pub mod ciphertext {
    pub const OPERATION: &str = "statistics";
    pub const PLAINTEXT: &str = "plaintext";
    pub const CIPHERTEXT: &str = "AES-256-CTR";
    /// Two ciphertexts as Phalanx makes them: every encryption has a new nonce.
    pub const NEW_NONCES: &str = "AES-256-CTR, new nonces";
    /// Two ciphertexts with one keystream, which Phalanx never makes.
    pub const SAME_NONCE: &str = "AES-256-CTR, the same nonce twice (a mistake)";
    /// The chi-square that random bytes exceed in one case of a hundred.
    pub const CHI_SQUARE_MOST: f64 = 310.457;
}

/// Mounted volumes.
pub mod mounts {
    /// The backing folder without encryption.
    pub const PLAIN: &str = "the folder itself";
    /// A mount that passes everything on without encryption. It shows what FUSE alone costs.
    pub const BINDFS: &str = "bindfs";
    pub const GOCRYPTFS: &str = "gocryptfs";
    pub const SUITE_1: &str = "phalanx, suite 1";
    pub const SUITE_5: &str = "phalanx, suite 5";
    /// By each way in which the kernel sends requests. The others take the one that the program takes by itself.
    pub const BY_DEVICE: &str = "phalanx, suite 1, /dev/fuse";
    pub const BY_URING: &str = "phalanx, suite 1, io_uring";
    /// All contestants, in the order of tables.
    pub const CONTESTANTS: [&str; 7] = [PLAIN, BINDFS, GOCRYPTFS, SUITE_1, SUITE_5, BY_DEVICE, BY_URING];
    /// The contestant that shows what is possible without encryption.
    pub const CEILING: &str = BINDFS;
    /// The engine of these rows: whole commands, or work through a mount.
    pub const ENGINE: &str = "mount";
    pub const TIME: &str = "time";
    pub const RATIO: &str = "times as fast as gocryptfs";
    pub const MEMORY: &str = "peak memory of the mount";
}

/// Parts of the experiment on volumes.
pub mod volume {
    pub const EXPERIMENT: &str = "volume";
}

/// Digests of keys.
pub mod keys {
    pub const EXPERIMENT: &str = "keys";
    /// The paper's CPU mode. The paper prints no key length.
    pub const PRINTED: &str = "MD5 and AES-128-ECB as printed (T-tables)";
    pub const OURS: &str = "MD5 and AES-128-ECB with Phalanx's kernels";
    pub const FIND_MD5: &str = "MD5 of each key, as printed";
    pub const FIND_KMAC: &str = "KMAC256 of many keys side by side";
    pub const ENERGY: &str = "energy, nJ a byte";
}

/// The server, and what stands beside it.
pub mod service {
    pub const EXPERIMENT: &str = "service";
    pub const ENGINE: &str = "server";
    pub const ENCRYPT: &str = "encrypt";
    pub const DECRYPT: &str = "decrypt";
    pub const SEAL: &str = "seal";
    pub const OFF: &str = "phalanx-server, audit off";
    /// A line of the audit log is written soon after the answer.
    pub const ON: &str = "phalanx-server, audit on";
    /// A line of the audit log is on the disk before the answer.
    pub const REQUIRED: &str = "phalanx-server, audit required";
    pub const VAULT: &str = "Vault";
    /// A line of the audit log is written, but not synced, before the answer.
    pub const VAULT_AUDIT: &str = "Vault, audit to a file";
    pub const THROUGHPUT: &str = "throughput";
    pub const TIME: &str = "time";
    pub const ALONE: &str = "one connection, one request after another";
    pub const AT_OWN_HALF: &str = "arrivals at half of its own throughput";
    pub const LIBRARY: &str = "batch::seal in process, 1 thread";
    pub const BY_UNIX: &str = "phalanx-server, Unix socket";
    pub const BY_TCP: &str = "phalanx-server, TCP";
    /// Functions of pgcrypto for a column of texts and one of keys. The first one does not authenticate.
    pub const PGCRYPTO: [(&str, &str); 2] = [
        ("pgcrypto, encrypt() with AES-CBC", "encrypt(data, key, 'aes-cbc')"),
        ("pgcrypto, pgp_sym_encrypt()", "pgp_sym_encrypt_bytea(data, encode(key, 'hex'), 'cipher-algo=aes256')"),
    ];
    pub const CROWD_LIBRARY: &str = "the library's batch call";
    pub const CROWD_UNIX: &str = "Unix socket, a request a user";
    pub const CROWD_TLS: &str = "TLS, a request a user";
    pub const CROWD_UNIX_STREAMS: &str = "Unix socket, streams";
    pub const CROWD_TLS_STREAMS: &str = "TLS, streams";
    pub const MEMORY: &str = "memory gained, MiB";
    pub const MEMORY_AGAIN: &str = "memory gained when they come again, MiB";

    pub fn percentile(percent: f64) -> String {
        format!("latency, {percent}th percentile")
    }

    pub fn at_half_of(peer: &str) -> String {
        format!("arrivals at half of the throughput of {peer}")
    }
}

/// Whole commands.
pub mod peers {
    pub const EXPERIMENT: &str = "peers";
    /// The program that shows the limit of the machine.
    pub const COPY: &str = "copy by threads";
}
