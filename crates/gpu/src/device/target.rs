//! Memory of a device that exists already, as a place to read into.

use super::{Buffer, Device};
use crate::error::Result;
use std::fmt;

/// Memory of a device that a read fills: a [`Buffer`], or memory of another library in this process. The latter is neither
/// freed, nor wiped when this is dropped.
pub struct Target(Buffer);

impl Target {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The bytes, to be copied to.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.0
    }
}

impl Buffer {
    /// The same memory as a place to read into. Who uses it during a read gets a mixture.
    #[must_use]
    pub fn target(&self) -> Target {
        Target(self.alias())
    }
}

impl Device {
    /// Memory that another library has at this address, to be read into. The driver is asked whether it is this device's.
    ///
    /// # Errors
    /// As for [`Device::foreign`].
    ///
    /// # Safety
    /// Until the result is dropped, the memory has so many bytes and is not freed. Its library lets others write to it. No
    /// work that uses it is under way, and none is started. If the device is dead after a read, the memory is never used again.
    pub unsafe fn foreign_target(&self, address: u64, len: usize) -> Result<Target> {
        let id = self.ask(|driver, _| driver.foreign(address, len))?;
        Ok(Target(Buffer::of(self, id, len, true)))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({} bytes)", self.len())
    }
}
