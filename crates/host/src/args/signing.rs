//! Who signs, and whose signatures count, as arguments.

use crate::failure::{Failure, Outcome};
use crate::lines::shown;
use crate::paths;
use crate::signatures::{Signer, Signers, Signing};
use clap::Args;
use phalanx_core::Suite;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who signs what is protected.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub struct SignArgs {
    /// Sign it with an SSH key: PATH.phx.sig
    ///
    /// FILE is a private key of SSH, or a public one whose private half ssh-agent holds, as it does for keys in hardware. The
    /// signature is one of ssh-keygen -Y sign in the namespace phalanx. For a folder, the manifest is signed, which stands for all
    /// that is in it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    sign: Option<PathBuf>,
}

impl SignArgs {
    /// The file of the key.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        self.sign.as_slice()
    }

    /// Refuses to sign what goes to standard output, and what is in a suite whose tags do not commit to the content.
    /// Inputs with names of signatures are refused too: they could be replaced by such, before they are read.
    ///
    /// # Errors
    /// If it does, or is.
    pub fn validate(&self, inputs: &[PathBuf], to_stdout: bool, suite: Suite) -> Outcome {
        if self.sign.is_none() {
            return Ok(());
        }
        if suite == Suite::Aes256Gcm {
            let line = "--sign does not work with aes-256-gcm, whose tags do not commit to the content";
            return Err(Failure::usage(line).hint("all other ciphers have such tags"));
        }
        // A link to a signature is one too.
        let is_signature = |path: &Path| path.as_os_str().as_encoded_bytes().ends_with(b".sig");
        let leads_to_one =
            |path: &&PathBuf| is_signature(path) || path.canonicalize().is_ok_and(|to| is_signature(&to));
        if let Some(input) = inputs.iter().find(leads_to_one) {
            let line = format!("{}: it has the name of a signature, which --sign could replace", shown(input));
            return Err(Failure::usage(line).hint("protect it without --sign"));
        }
        if to_stdout {
            return Err(Failure::usage("--sign writes a signature beside its file, and - has no place for one"));
        }
        Ok(())
    }

    /// Reads the key.
    ///
    /// # Errors
    /// Those of [`Signer::read`].
    pub fn signing(&self) -> Outcome<Signing> {
        self.sign.as_deref().map_or(Ok(Signing::No), |path| Ok(Signing::By(Arc::new(Signer::read(path)?))))
    }
}

/// Whose signatures count.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub struct SignersArgs {
    /// Demand a signature by a key in this file
    ///
    /// FILE is a file allowed_signers of ssh-keygen. The signature of PATH.phx lies beside it: PATH.phx.sig. With --recursive, PATH is
    /// a mirror, and its manifest must be signed.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    signers: Option<PathBuf>,
    /// Refuse signatures by the keys in this file
    #[arg(long, value_name = "FILE", requires = "signers", value_hint = clap::ValueHint::FilePath)]
    revoked: Option<PathBuf>,
}

impl SignersArgs {
    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.signers.iter().chain(&self.revoked)
    }

    /// Refuses standard input among the inputs: its signature could lie nowhere.
    ///
    /// # Errors
    /// If it is there.
    pub fn validate(&self, inputs: &[PathBuf]) -> Outcome {
        if self.signers.is_some() && inputs.iter().any(|path| paths::is_dash(path)) {
            return Err(Failure::usage("--signers looks for a signature beside its file, and - has none"));
        }
        Ok(())
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Those of [`Signers::read`].
    pub fn signing(&self) -> Outcome<Signing> {
        let read = |path: &PathBuf| Ok(Signing::Checked(Arc::new(Signers::read(path, self.revoked.as_deref())?)));
        self.signers.as_ref().map_or(Ok(Signing::No), read)
    }
}

/// Who signs a mirror, and who may have signed what it holds already.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub struct SignMirrorArgs {
    #[command(flatten)]
    by: SignArgs,
    /// Sign on what a key in this file has signed
    ///
    /// FILE is a file allowed_signers of ssh-keygen. What the manifest in the mirror lists as unchanged is signed without being read
    /// if one of these keys has signed it, as if it were the key of --sign.
    #[arg(long, value_name = "FILE", requires = "sign", value_hint = clap::ValueHint::FilePath)]
    signers: Option<PathBuf>,
    /// Refuse signatures by the keys in this file
    #[arg(long, value_name = "FILE", requires = "signers", value_hint = clap::ValueHint::FilePath)]
    revoked: Option<PathBuf>,
}

impl SignMirrorArgs {
    /// The file of the key.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        self.by.files()
    }

    /// As [`SignArgs::validate`], for a mirror.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn validate(&self, suite: Suite) -> Outcome {
        self.by.validate(&[], false, suite)
    }

    /// Reads the key.
    ///
    /// # Errors
    /// Those of [`Signer::read`].
    pub fn signing(&self) -> Outcome<Signing> {
        self.by.signing()
    }

    /// Reads those who may have signed.
    ///
    /// # Errors
    /// Those of [`Signers::read`].
    pub fn signers(&self) -> Outcome<Option<Arc<Signers>>> {
        let read = |path: &PathBuf| Signers::read(path, self.revoked.as_deref()).map(Arc::new);
        self.signers.as_ref().map(read).transpose()
    }
}
