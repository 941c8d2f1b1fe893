//! The file of the audit log.

use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::folders::parent;
use phalanx_host::lines::shown;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The log.
#[derive(Debug)]
pub struct Log {
    path: Option<PathBuf>,
    file: File,
    /// Whether it is a file that lies on a disk.
    is_regular: bool,
    /// Whether lines must be on the disk.
    syncs: bool,
    /// Whether the last line in it is not whole.
    torn: bool,
}

impl Log {
    /// Opens a file, which is made if it does not exist, or standard output.
    ///
    /// # Errors
    /// If it cannot be opened, or is a link or another user's.
    pub fn open(path: Option<PathBuf>, syncs: bool) -> Outcome<Self> {
        let (file, is_regular, torn) = match &path {
            Some(path) => {
                let opened = open(path)?;
                if syncs && opened.1 {
                    // A new file is on the disk only when its folder is.
                    sync_folder(path).map_err(|e| Failure::at(path, Error::write(e)))?;
                }
                opened
            }
            None => {
                let file = io::stdout().as_fd().try_clone_to_owned().map_err(Failure::at_stdout)?;
                let file = File::from(file);
                let is_regular = file.metadata().map_err(Failure::at_stdout)?.is_file();
                (file, is_regular, false)
            }
        };
        Ok(Self { path, file, is_regular, syncs, torn })
    }

    /// Opens the same path again.
    ///
    /// # Errors
    /// As for the first time. Then the old file stays.
    pub fn reopen(&mut self) -> Outcome {
        if self.path.is_some() {
            *self = Self::open(self.path.clone(), self.syncs)?;
        }
        Ok(())
    }

    /// Appends lines. Either all of them are written, and on the disk if they must be, or none.
    ///
    /// # Errors
    /// Those of the system.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.write_all(b"\n")?;
            self.torn = false;
        }
        let mut written = 0;
        let result = self.write(lines, &mut written);
        if result.is_err() && written > 0 {
            // Half a line would make the next one unreadable, and a line without its answer would not be true.
            self.torn = self.take_back(written).is_err();
        }
        result
    }

    fn write(&mut self, lines: &[u8], written: &mut usize) -> io::Result<()> {
        while *written < lines.len() {
            match self.file.write(&lines[*written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(some) => *written += some,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.syncs && self.is_regular { self.file.sync_data() } else { Ok(()) }
    }

    /// Removes what was just written at the end.
    fn take_back(&self, written: usize) -> io::Result<()> {
        if !self.is_regular {
            return Err(ErrorKind::Unsupported.into());
        }
        let len = self.file.metadata()?.len().checked_sub(written as u64);
        self.file.set_len(len.ok_or(ErrorKind::InvalidData)?)
    }
}

fn open(path: &Path) -> Outcome<(File, bool, bool)> {
    let at = |error: io::Error| Failure::at(path, Error::write(error));
    let refused = |why: &str| Failure::new(Code::InputOutput, format!("{}: {why}", shown(path)));
    let mut options = OpenOptions::new();
    // A pipe whose reader has gone must not stop the server.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    options.append(true).create(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => refused("it is a link, and is not written to"),
        Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => refused("nobody reads from this pipe"),
        _ => at(error),
    })?;
    let metadata = file.metadata().map_err(at)?;
    let kind = metadata.file_type();
    if !kind.is_file() && !kind.is_fifo() && !kind.is_char_device() {
        return Err(refused("it is neither a file nor a pipe"));
    }
    if kind.is_file() && !crate::http::is_own(metadata.uid()) {
        return Err(refused("it is another user's, and is not written to"));
    }
    let flags = fcntl_getfl(&file).map_err(|e| at(e.into()))?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(|e| at(e.into()))?;
    let torn = kind.is_file() && metadata.len() > 0 && !ends_with_line(path).map_err(at)?;
    Ok((file, kind.is_file(), torn))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// Whether a file ends with a whole line: the server may have been killed while it wrote one.
fn ends_with_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
