//! A disk that fails: the process is killed, the power is cut, or no space is left.

use phalanx_volume::Disk;
use rustix::fs::fstat;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call with this number is the last that has an effect. If it writes, it writes half.
    KilledAt(usize),
    /// Beginning with the call of the first number, there is no space for the second number of calls.
    FullAt(usize, usize),
}

pub struct Faulty {
    fault: Fault,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: usize,
    /// The content of each file that is certainly on the disk, by inode.
    durable: HashMap<u64, (File, Vec<u8>)>,
    reserved: HashMap<u64, u64>,
    /// Files that were on the disk before.
    old: HashSet<u64>,
}

fn inode(file: &File) -> u64 {
    fstat(file).unwrap().st_ino
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

impl Faulty {
    pub fn new(fault: Fault) -> Self {
        Self { fault, state: Mutex::default() }
    }

    /// Records that a file is on the disk as it is.
    pub fn know(&self, file: File) {
        let mut state = self.state.lock().unwrap();
        state.old.insert(inode(&file));
        let bytes = content(&file);
        state.durable.insert(inode(&file), (file, bytes));
    }

    pub fn calls(&self) -> usize {
        self.state.lock().unwrap().calls
    }

    /// Takes back what was not synced, in each file for which `loses` says so.
    pub fn cut_power(&self, mut loses: impl FnMut() -> bool) {
        let state = self.state.lock().unwrap();
        let mut files: Vec<_> = state.durable.iter().collect();
        files.sort_by_key(|(inode, _)| **inode);
        for (_, (file, bytes)) in files {
            if loses() {
                file.set_len(0).unwrap();
                file.write_all_at(bytes, 0).unwrap();
            }
        }
    }

    /// Whether the call is made. `None` means that half of it is.
    fn call(&self, file: &File) -> io::Result<Option<bool>> {
        let mut state = self.state.lock().unwrap();
        let number = state.calls;
        state.calls += 1;
        let inode = inode(file);
        state.durable.entry(inode).or_insert_with(|| (file.try_clone().unwrap(), Vec::new()));
        match self.fault {
            Fault::KilledAt(at) if number == at => Ok(None),
            Fault::KilledAt(at) if number > at => Err(io::Error::from_raw_os_error(5)),
            Fault::FullAt(at, count) => Ok(Some((at..at + count).contains(&number))),
            Fault::KilledAt(_) => Ok(Some(false)),
        }
    }

    fn simple(&self, file: &File, done: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self.call(file)? {
            None => Err(io::Error::from_raw_os_error(5)),
            Some(_) => done(),
        }
    }

    fn synced(&self, file: &File, done: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.simple(file, done)?;
        let bytes = content(file);
        self.state.lock().unwrap().durable.insert(inode(file), (file.try_clone()?, bytes));
        Ok(())
    }
}

fn no_space() -> io::Error {
    io::Error::from_raw_os_error(28)
}

struct Real;
impl Disk for Real {}

impl Disk for Faulty {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.call(file)? {
            None => {
                Real.write(file, &bytes[..bytes.len() / 2], offset)?;
                Err(io::Error::from_raw_os_error(5))
            }
            Some(is_full) => {
                let end = offset + bytes.len() as u64;
                let reserved = self.state.lock().unwrap().reserved.get(&inode(file)).copied().unwrap_or(0);
                let have = file.metadata()?.len().max(reserved);
                if is_full && end > have {
                    Real.write(file, &bytes[..(have.saturating_sub(offset) as usize).min(bytes.len())], offset)?;
                    return Err(no_space());
                }
                Real.write(file, bytes, offset)
            }
        }
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.state.lock().unwrap().reserved.remove(&inode(file));
        self.simple(file, || Real.set_len(file, len))
    }

    fn reserve(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        match self.call(file)? {
            None => Err(io::Error::from_raw_os_error(5)),
            Some(true) => Err(no_space()),
            Some(false) => {
                let mut state = self.state.lock().unwrap();
                let end = state.reserved.entry(inode(file)).or_default();
                *end = (*end).max(offset + len);
                Ok(())
            }
        }
    }

    fn extend(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        // The journal of these tests grows as it is written.
        let _ = (offset, len);
        self.simple(file, || Err(io::ErrorKind::Unsupported.into()))
    }

    fn punch(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.simple(file, || {
            // The content of a hole is irrelevant, so this writes something else.
            let end = (offset + len).min(file.metadata()?.len());
            Real.write(file, &vec![0xaa; end.saturating_sub(offset) as usize], offset)
        })
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        self.synced(file, || Ok(()))
    }

    fn sync_all(&self, file: &File) -> io::Result<()> {
        self.synced(file, || Ok(()))
    }

    fn sync_file_system(&self, file: &File) -> io::Result<()> {
        self.simple(file, || Ok(()))?;
        let mut state = self.state.lock().unwrap();
        for (file, bytes) in state.durable.values_mut() {
            *bytes = content(file);
        }
        Ok(())
    }
}
