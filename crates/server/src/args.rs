//! The command line.

mod manage;

pub use manage::*;

use clap::{Args, Parser, Subcommand};
use phalanx_host::args::{EngineArgs, OpenKeys, ProtectKeys};
use phalanx_host::verbosity::Verbosity;
use std::path::PathBuf;

/// Seals and opens many users' records, each under a key of its own
///
/// Clients speak HTTP as Vault's Transit does, or send octet streams of records.
#[derive(Parser)]
#[command(name = "phalanx-server", version, max_term_width = 80, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

#[derive(Subcommand)]
pub enum Command {
    /// Make the folder of a server, with a new root key
    Init(Init),
    /// Serve until a signal ends it
    Run(Run),
    /// Make, list, show, change and delete keys
    #[command(subcommand)]
    Key(Key),
    /// Show a user of a shreddable key, or delete one for ever
    #[command(subcommand)]
    User(User),
    /// Make, list and revoke tokens
    #[command(subcommand)]
    Token(Token),
    /// Write a copy of the store and the root key to a new folder
    ///
    /// It is consistent while the server runs, which sends it. Its three files belong together. With a backup from before,
    /// users who were deleted since, versions that were trimmed, and tokens that were revoked come back: where deletions
    /// must stay, keep only the newest backup, or at least destroy buckets.db in the older ones. Without it, the rows of
    /// shreddable keys help nobody.
    Backup(Backup),
    /// Make the folder of a server from a backup, when all in it opens
    Restore(Restore),
    /// Say whether a server runs in the folder, since when, and with how many connections beside this one
    Status(Status),
    /// Open every secret of the store or of a backup, and count them
    ///
    /// DIR is the folder of a server, or a backup, which needs the root key's options and is not changed.
    Check(Check),
    /// Seal ciphertexts again under the newest version of a key: standard input to standard output, line by line
    ///
    /// Lines are ciphertexts, or JSON: {"ciphertext", "context", "associated_data"}. They come out in the same order.
    Rewrap(Rewrap),
}

/// The folder of a server.
#[derive(Args, Clone, Debug)]
pub struct Dir {
    /// The server's folder (default: PHALANX_SERVER_DIR)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Args)]
pub struct Init {
    #[command(flatten)]
    pub dir: Dir,
    /// Keep keys, tokens and users in PostgreSQL, for several servers
    ///
    /// URL is as postgresql://user@host/database. It has no password: PGPASSWORD or a file that PGPASSFILE names has it.
    /// Other machines are spoken to with TLS only: ?sslrootcert=FILE says who signs the server's certificate. The other
    /// servers get a folder with a copy of root.phx and store.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    #[command(flatten)]
    pub keys: ProtectKeys,
}

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    pub dir: Dir,
    #[command(flatten)]
    pub keys: OpenKeys,
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Let encrypt make a key that does not exist, as Vault does
    ///
    /// The caller needs the right manage:KEY too.
    #[arg(long)]
    pub create_keys: bool,
    #[command(flatten)]
    pub listen: Listen,
    #[command(flatten)]
    pub audit: AuditArgs,
    #[command(flatten)]
    pub bounds: Bounds,
}

/// Where a server listens, and to whom.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Listening")]
pub struct Listen {
    /// Listen here too: unix:PATH or ADDR:PORT (repeatable)
    ///
    /// The socket server.sock in the server's folder is always there, for its own user. Port 0 is any free port, which the
    /// server prints. Sockets that systemd passes are served too.
    #[arg(long, value_name = "WHERE", value_parser = crate::http::Where::parse)]
    pub listen: Vec<crate::http::Where>,
    /// Speak TLS on ports, with this chain of certificates (PEM)
    ///
    /// It is read again on SIGHUP, as are --tls-key and --client-ca.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Demand that clients have a certificate of one of these (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub client_ca: Option<PathBuf>,
    /// Allow plain HTTP on addresses that other machines can reach
    #[arg(long)]
    pub insecure_plaintext: bool,
    /// Give a user of this machine, or the owner of a certificate, rights without a token (repeatable)
    ///
    /// WHO is the number of a user, for Unix sockets, or cert: and the SHA-256 fingerprint of a client's certificate as
    /// openssl x509 -fingerprint -sha256 prints it. That needs --client-ca. RIGHTS are as those of tokens:
    /// 1000=seal:orders,open:orders,user=SUB. The server's own user and root have all rights.
    #[arg(long, value_name = "WHO=RIGHTS", value_parser = crate::http::PeerRights::parse)]
    pub peer: Vec<crate::http::PeerRights>,
    /// Who may connect to the sockets of --listen unix:PATH, as of a file
    #[arg(long, value_name = "OCTAL", default_value = "600", value_parser = crate::http::socket_mode)]
    pub socket_mode: u32,
    /// On SIGTERM, finish running requests for at most this long
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub drain_seconds: u64,
}

/// Whether the audit log is written.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditMode {
    /// There is none.
    Off,
    /// Lines are written soon after the answer.
    On,
    /// A request is answered only when its line is on the disk.
    Required,
}

/// The audit log.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Audit log")]
pub struct AuditArgs {
    /// Whether a line is written for each request
    ///
    /// With required a request is answered only when its line is on the disk, and none is served while that fails.
    #[arg(long, value_enum, default_value_t = AuditMode::On, value_name = "MODE")]
    pub audit: AuditMode,
    /// The file; - is standard output (default: audit.log in the server's folder)
    ///
    /// It is opened again on SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub audit_file: Option<PathBuf>,
    /// Write whose records they were too, in base64
    #[arg(long)]
    pub audit_users: bool,
}

/// The bounds that depend on the machine.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Bounds")]
pub struct Bounds {
    /// The most connections at the same time, half of them for one caller
    ///
    /// A caller is a user of this machine, the owner of a client's certificate, or an address.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_connections: u32,
    /// The most MiB of all requests at the same time
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=2047))]
    pub max_in_flight: u32,
    /// The most requests a second of one caller; those of one second may come at once (default: no bound)
    #[arg(long, value_name = "N")]
    pub max_rate: Option<std::num::NonZeroU32>,
    /// The longest that a client may take for the head of a request
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub head_timeout: u64,
    /// The longest that a client may send or take nothing within a request
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub idle_timeout: u64,
    /// The longest that a connection may be without a request
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub keep_alive: u64,
}
