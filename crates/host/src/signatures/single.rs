//! The signature of one file that the command line names: from before the file is read until its output has its name.

use super::watch::{Tags, Watch};
use super::{Claim, SignatureFile, Signer, Signing, kind_of};
use crate::failure::{Code, Failure, Outcome};
use crate::file::{Ends, Existing, Input, OutputRules, umask};
use crate::lines::shown;
use crate::paths::End;
use crate::transfer::action::Moved;
use phalanx_core::tree::{Contents, Signed, SignedText};
use phalanx_core::{Error as CoreError, Progress};
use phalanx_system::fs;
use std::path::Path;

/// What is done about the signature of a file.
pub enum Single<'a> {
    /// Nothing.
    None,
    /// It gets one.
    New(&'a Signer, SignatureFile),
    /// It has one, which is compared.
    Old(Claim, Option<Tags>),
}

impl<'a> Single<'a> {
    /// Begins it. `input` is the path of the input, and `output` where the output goes, if it goes somewhere.
    ///
    /// # Errors
    /// If the signature cannot be written, or is there and does not count.
    pub fn begin(signing: &'a Signing, input: &Path, output: Option<&End>, existing: Existing) -> Outcome<Self> {
        match (signing, output) {
            (Signing::By(signer), Some(output)) => Ok(Self::New(signer, signer.begin(output, existing)?)),
            (Signing::By(_) | Signing::No, _) => Ok(Self::None),
            (Signing::Checked(signers), _) => Ok(Self::Old(signers.claim(input)?, None)),
        }
    }

    /// Compares the signature with the opened input before anything is written, if what is written cannot be taken back.
    ///
    /// # Errors
    /// If it is one of something else, or the input cannot be read.
    pub fn check_early(&mut self, input: &Path, ends: &Ends) -> Outcome {
        let Self::Old(claim, tags) = self else { return Ok(()) };
        if let Some((text, found)) =
            Tags::read(&ends.input, &ends.target, kind_of(input)).map_err(|e| Failure::at(input, e))?
        {
            claim.check(text)?;
            *tags = Some(found);
        }
        Ok(())
    }

    /// Who hears of the chunks; nobody if there is no signature.
    pub fn watch<'w>(&'w self, progress: &'w dyn Progress) -> Option<Watch<'w>> {
        match self {
            Self::None => None,
            Self::New(..) => Some(Watch::new(progress, None)),
            Self::Old(_, tags) => Some(Watch::new(progress, tags.as_ref())),
        }
    }

    /// Why the work ended, if it did because another file was read than the one whose signature was compared.
    pub fn explain(&self, failure: Failure, is_other: bool) -> Failure {
        match self {
            Self::Old(claim, _) if is_other => {
                let line = format!("{}: it was exchanged while it was read", shown(&claim.file));
                Failure::new(Code::NotAuthentic, line).on(&claim.file)
            }
            _ => failure,
        }
    }

    /// Signs what was written, or compares what was read. The output has no name yet. `contents` are those of the file, if all its
    /// chunks were moved in this run.
    ///
    /// # Errors
    /// If the key does not sign, the signature cannot be written, or it is one of something else.
    pub fn settle(
        &self,
        (input, output): (&Path, &Path),
        ends: &Ends,
        moved: &Moved<'_>,
        contents: Option<Contents>,
        rules: &OutputRules<'_>,
    ) -> Outcome {
        let (path, text) = match self {
            Self::None => return Ok(()),
            Self::New(..) => (output, text(Signed::File, contents, moved)),
            Self::Old(..) => (input, text(kind_of(input), contents, moved)),
        };
        let text = text.map_err(|e| Failure::at(path, e))?;
        match self {
            Self::None => Ok(()),
            Self::New(signer, file) => file.write(&signer.sign(output, text)?, mode(&ends.input), rules.existing),
            Self::Old(claim, _) => claim.check(text),
        }
    }

    /// Gives a new signature its name, after the file has its own.
    ///
    /// # Errors
    /// If that fails.
    pub fn commit(self, rules: &OutputRules<'_>) -> Outcome {
        match self {
            Self::New(_, file) => file.commit(rules.existing, rules.sync),
            Self::None | Self::Old(..) => Ok(()),
        }
    }

    /// Who has signed the file.
    pub fn name(&self) -> Option<&str> {
        if let Self::Old(claim, _) = self { Some(claim.name()) } else { None }
    }
}

/// The permissions of a signature: whoever may read the input may read it. If its own cannot be read, only its owner may.
fn mode(input: &Input) -> u32 {
    match input {
        Input::File(input) => fs::fstat(input.file()).map_or(0o600, |stat| stat.st_mode & 0o644),
        _ => 0o666 & !umask(),
    }
}

/// The text of a file, all of whose chunks were moved in this run. What is stored may be another file by now, so it is not read.
fn text(signed: Signed, contents: Option<Contents>, moved: &Moved<'_>) -> phalanx_core::Result<Option<SignedText>> {
    let (contents, shape) = contents.zip(moved.shape).ok_or(CoreError::Cancelled)?;
    Ok(SignedText::new(signed, shape, moved.bytes, &contents))
}
