//! The opened folders from the root of a tree down to the current one.

use crate::folders::{FOLDER, id};
use crate::{Error, Result};
use phalanx_system::fs::{self, Mode};
use std::ffi::OsStr;
use std::fs::File;

/// The most folders, from the current one up, that stay open. Those above are opened again when they are needed.
const NEAR: usize = 32;

/// A folder, and the folders above it. Links are never followed.
#[derive(Debug)]
pub struct Chain {
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    folder: Option<File>,
    id: (u64, u64),
}

impl Chain {
    /// Begins at a root.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn new(root: File) -> Result<Self> {
        let id = id(&root).map_err(Error::read)?;
        Ok(Self { levels: vec![Level { folder: Some(root), id }] })
    }

    /// The current folder.
    #[must_use]
    pub fn current(&self) -> &File {
        self.levels.last().and_then(|level| level.folder.as_ref()).expect("the current folder is open")
    }

    /// Enters a folder in the current one.
    ///
    /// # Errors
    /// If it cannot be opened. The current folder is then the same as before.
    pub fn enter(&mut self, name: &OsStr) -> phalanx_system::io::Result<()> {
        let folder = File::from(fs::openat(self.current(), name, FOLDER, Mode::empty())?);
        self.push(folder)
    }

    /// Enters a folder in the current one, which has been opened.
    ///
    /// # Errors
    /// If it cannot be looked at. The current folder is then the same as before.
    pub fn push(&mut self, folder: File) -> phalanx_system::io::Result<()> {
        let id = id(&folder)?;
        self.levels.push(Level { folder: Some(folder), id });
        if let Some(far) = self.levels.len().checked_sub(NEAR + 1).filter(|far| *far > 0) {
            self.levels[far].folder = None;
        }
        Ok(())
    }

    /// Goes back to the folder above.
    ///
    /// # Errors
    /// If it had been closed, and cannot be opened again or has been moved.
    pub fn leave(&mut self) -> Result<()> {
        let [.., above, current] = &mut *self.levels else { panic!("the root is never left") };
        if above.folder.is_none() {
            let current = current.folder.as_ref().expect("the current folder is open");
            let folder = File::from(fs::openat(current, "..", FOLDER, Mode::empty()).map_err(Error::read)?);
            if id(&folder).map_err(Error::read)? != above.id {
                return Err(Error::read(std::io::Error::other("the folder was moved meanwhile")));
            }
            above.folder = Some(folder);
        }
        self.levels.pop();
        Ok(())
    }
}

/// A chain through a tree that may lack folders of another tree beside which it is walked.
#[derive(Debug)]
pub struct Beside {
    chain: Option<Chain>,
    /// How many folders have been entered below the deepest one that is there.
    missing: usize,
}

impl Beside {
    /// Begins at a root, if there is one.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn new(root: Option<File>) -> Result<Self> {
        Ok(Self { chain: root.map(Chain::new).transpose()?, missing: 0 })
    }

    /// The current folder, if it is there.
    #[must_use]
    pub fn current(&self) -> Option<&File> {
        self.chain.as_ref().filter(|_| self.missing == 0).map(Chain::current)
    }

    /// Enters a folder in the current one, whether it is there or not. Returns whether it is.
    pub fn enter(&mut self, name: &OsStr) -> bool {
        let entered = match &mut self.chain {
            Some(chain) if self.missing == 0 => chain.enter(name).is_ok(),
            _ => false,
        };
        self.missing += usize::from(!entered);
        entered
    }

    /// Goes back to the folder above.
    ///
    /// # Errors
    /// Those of [`Chain::leave`].
    pub fn leave(&mut self) -> Result<()> {
        match (self.missing, &mut self.chain) {
            (0, Some(chain)) => chain.leave(),
            _ => {
                self.missing -= 1;
                Ok(())
            }
        }
    }
}
