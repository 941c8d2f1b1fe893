//! The command line.

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
}
