//! The arguments of `mirror`.

use super::{Cipher, ExcludeArgs, ProtectKeys, chunk_size};
use crate::Error;
use crate::failure::{Failure, Outcome};
use crate::file::{Carry, is_url};
use crate::mirror::run::Options;
use crate::paths::{self, Destination, End, Outputs};
use clap::{Args, ValueHint};
use phalanx_core::{ChunkSize, Suite};
use std::path::PathBuf;

/// What is mirrored, and how.
#[derive(Debug, Args)]
#[group(skip)]
pub struct MirrorArgs {
    /// The folder to mirror
    #[arg(value_name = "SOURCE", value_hint = ValueHint::DirPath)]
    source: PathBuf,
    /// The folder that becomes the mirror, or is one
    #[arg(value_name = "MIRROR", value_hint = ValueHint::DirPath)]
    mirror: PathBuf,
    #[command(flatten)]
    keys: ProtectKeys,
    /// Delete in the mirror what is gone at the source
    ///
    /// It is done at the end, and only if nothing has failed. Protected files and links that no manifest lists go too. What the rules
    /// leave out stays in the mirror, unless --delete-excluded is given. Without --delete, what is gone at the source stays in the
    /// mirror and in its manifest, unless something of another kind has its name now.
    #[arg(long)]
    delete: bool,
    /// Do nothing if more than N files would be deleted
    ///
    /// Files and links count, whether the manifest lists them or not. Without it, a run does nothing that would delete files although the
    /// source has none of those that the manifest lists, or would delete more than 100 and more than half as many as it lists: the
    /// disk of the source may not be mounted. N insists. Without --delete, what counts are files and links whose names folders or
    /// links have now.
    #[arg(long, value_name = "N")]
    max_delete: Option<u64>,
    /// Delete what the rules leave out too
    #[arg(long, requires = "delete")]
    delete_excluded: bool,
    /// Keep what is replaced or deleted in this folder
    ///
    /// It is outside the mirror and on the same file system. With a folder for each day, a week of history costs what
    /// changes in a week. Nothing in the folder is replaced.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    backup_dir: Option<PathBuf>,
    /// Make a new mirror where there was one
    ///
    /// Without it, a run does nothing if the mirror that this machine saw there last is gone, or its manifest is: the disk of the
    /// mirror may not be mounted.
    #[arg(long)]
    new: bool,
    /// Print what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Compare files by content, not by length and time
    ///
    /// It opens the mirror's files, so it needs a key or a password: public keys are not enough.
    #[arg(short, long)]
    checksum: bool,
    /// aes-256 (default), aes-192, aes-128, aes-256-turbo, aes-256-gcm
    ///
    /// For files that are written by this run. The others stay as they are.
    #[arg(long, value_enum, value_name = "CIPHER", hide_possible_values = true)]
    cipher: Option<Cipher>,
    /// Bytes of a chunk, 4K to 16M (default: 1M)
    ///
    /// For files that are written by this run.
    #[arg(long, value_name = "SIZE", value_parser = chunk_size)]
    chunk_size: Option<ChunkSize>,
    /// Do not wait until the outputs are on the disk
    #[arg(long)]
    no_sync: bool,
    #[command(flatten)]
    excludes: ExcludeArgs,
}

/// What `mirror` is to do.
#[derive(Debug)]
pub struct MirrorPlan {
    /// What is mirrored, and how.
    pub options: Options,
    /// Where stored files go, and how they are written.
    pub destination: Destination,
    /// Who can open them.
    pub keys: ProtectKeys,
    /// Their suite.
    pub suite: Suite,
    /// Bytes of plaintext in a chunk.
    pub chunk_size: ChunkSize,
}

impl MirrorArgs {
    /// Checks everything that can be checked without looking at the folders.
    ///
    /// # Errors
    /// If options do not fit each other, or a file of patterns cannot be read.
    pub fn validate(self) -> Outcome<MirrorPlan> {
        for path in [&self.source, &self.mirror] {
            if paths::is_dash(path) {
                return Err(Failure::usage("mirror takes two folders, not -"));
            }
        }
        paths::no_urls("the source of mirror", [&self.source])?;
        paths::no_misspelt_url(&self.mirror)?;
        paths::no_urls("--backup-dir", &self.backup_dir)?;
        if let (Some(_), true) = (&self.backup_dir, is_url(&self.mirror)) {
            let line = "--backup-dir needs a mirror on a disk";
            return Err(Failure::usage(line).hint("many stores keep old versions themselves"));
        }
        if self.checksum && self.keys.only_recipients() {
            return Err(Failure::usage("--checksum needs a key or a password: public keys cannot open the mirror"));
        }
        // A run opens the mirror's root itself, and follows no link to it.
        let mirror = match self.mirror.is_symlink() {
            true => self.mirror.canonicalize().map_err(|e| {
                let failure = Failure::at(&self.mirror, Error::read(e));
                failure.hint("it is a link: what it leads to must be there, such as a disk that is not mounted")
            })?,
            false => self.mirror,
        };
        paths::one_stdin(self.keys.keys.files().chain(&self.keys.recipients_files).chain(self.excludes.files()))?;
        let destination = Destination {
            outputs: Outputs::At(End::from(mirror.clone())),
            force: true,
            remove: false,
            sync: !self.no_sync,
            recursive: true,
            resume: false,
            carry: Carry::All,
        };
        let options = Options {
            delete: self.delete,
            max_delete: self.max_delete,
            delete_excluded: self.delete_excluded,
            backup_dir: self.backup_dir,
            new: self.new,
            dry_run: self.dry_run,
            checksum: self.checksum,
            excludes: self.excludes.excludes()?,
            carry: destination.carry,
            ..Options::new(self.source, mirror)
        };
        Ok(MirrorPlan {
            options,
            destination,
            keys: self.keys,
            suite: self.cipher.unwrap_or(Cipher::Aes256).into(),
            chunk_size: self.chunk_size.unwrap_or_default(),
        })
    }
}
