//! The options of `inspect`.

use super::StoreArgs;
use clap::Args;
use phalanx_host::args::OpenKeys;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::paths;
use std::path::PathBuf;

#[derive(Args)]
pub struct Inspect {
    /// Protected files or volumes; - is standard input
    #[arg(required = true, value_name = "PATH.phx")]
    pub paths: Vec<PathBuf>,
    /// Show protected files in whole folders, on a line each
    ///
    /// Files without the ending .phx are not shown. Links are not followed.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Name recipients as a file does (repeatable)
    ///
    /// The file is one as protect takes it. A recipient is named by what follows its SSH key on the line, or by the comment on the
    /// line before. Without a key only the recipients with SSH keys show, by 32 bits of their keys. With --key, --key-file,
    /// --identity or --password-file the file is opened, and all recipients are named for certain.
    #[arg(long = "recipients-file", value_name = "FILE")]
    pub recipients_files: Vec<PathBuf>,
    #[command(flatten)]
    pub keys: OpenKeys,
    /// Print the text that a signature of a file is made of
    ///
    /// ssh-keygen -Y sign -n phalanx signs it, and ssh-keygen -Y verify -n phalanx checks a signature of it: docs/signatures.md. It is
    /// made of the file's nonces and tags, and needs no key.
    #[arg(long, conflicts_with_all = ["recursive", "recipients_files", "json"])]
    pub signed_text: bool,
    /// Print one line of JSON for each file
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub stores: StoreArgs,
}

impl Inspect {
    pub fn validate(self) -> Outcome<Self> {
        if self.signed_text && (self.paths.len() > 1 || paths::is_dash(&self.paths[0])) {
            return Err(Failure::usage("--signed-text takes one file, and not -"));
        }
        if self.opens() && self.recipients_files.is_empty() {
            return Err(Failure::usage("inspect needs no key, except to name the recipients in a --recipients-file"));
        }
        let files = self.paths.iter().chain(self.keys.keys.files()).chain(&self.keys.identities);
        paths::one_stdin(files.chain(&self.recipients_files))?;
        if self.opens() && self.paths.iter().any(|path| paths::is_dash(path)) {
            return Err(Failure::usage("inspect opens files only, and not -"));
        }
        Ok(self)
    }

    /// Whether keys are given, so that files are opened.
    pub fn opens(&self) -> bool {
        let keys = &self.keys.keys;
        !keys.keys.is_empty()
            || keys.files().next().is_some()
            || !self.keys.identities.is_empty()
            || !self.keys.services.is_empty()
    }
}
