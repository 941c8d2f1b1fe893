//! What is demanded of a mirror's manifest, as arguments.

use crate::failure::{Failure, Outcome};
use crate::mirror::manifest::Pins;
use crate::mirror::state::unhex;
use clap::Args;
use phalanx_core::tree::Digest;
use std::path::PathBuf;

/// How a mirror is compared with its manifest.
#[derive(Debug, Args)]
#[group(skip)]
pub struct PinArgs {
    /// Compare a mirror with its manifest only; read no content
    ///
    /// It finds what is missing, additional, exchanged, renamed or another version. It needs a key for the manifest only.
    #[arg(long, requires = "recursive")]
    pub quick: bool,
    /// Fail unless the mirror's manifest has this digest
    #[arg(long, value_name = "DIGEST", requires = "recursive", value_parser = digest)]
    expect: Option<Digest>,
    /// Fail unless the mirror's manifest has this generation or a later one
    #[arg(long, value_name = "GENERATION", requires = "recursive")]
    at_least: Option<u64>,
    /// Take a mirror that is older than the last one seen here, or a volume as it is
    ///
    /// A volume that was made with --rollback-protection is checked, and its files are the last versions from now on, whatever they
    /// were before. Files that are missing are forgotten. What is damaged stays so.
    #[arg(long)]
    pub accept: bool,
}

impl PinArgs {
    /// Refuses demands on one mirror if several paths are given.
    ///
    /// # Errors
    /// If they are.
    pub fn validate(&self, paths: &[PathBuf]) -> Outcome {
        if paths.len() > 1 && (self.expect.is_some() || self.at_least.is_some()) {
            return Err(Failure::usage("--expect and --at-least are for one mirror"));
        }
        Ok(())
    }

    /// What is demanded of a mirror's manifest.
    #[must_use]
    pub fn pins(&self) -> Pins {
        Pins { digest: self.expect, generation: self.at_least, accept: self.accept }
    }
}

/// Reads 64 hexadecimal digits.
fn digest(text: &str) -> Result<Digest, String> {
    unhex(text).map(Digest).ok_or_else(|| "a digest has 64 hexadecimal digits".into())
}
