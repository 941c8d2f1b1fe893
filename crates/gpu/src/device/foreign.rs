//! Memory and streams of other libraries in this process, which work with the same device.

use super::{Buffer, Device};
use crate::driver::StreamId;
use crate::error::Result;
use std::fmt;

/// Memory of a device that belongs to another library in this process. It is only read, and neither wiped nor freed.
pub struct Foreign(Buffer);

impl Foreign {
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

    /// The bytes, to be copied from.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.0
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreign({} bytes)", self.len())
    }
}

impl Device {
    /// Memory that another library has at this address. The driver is asked whether it is this device's.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if it is the host's or another device's, if there is none, or if the
    /// device is not CUDA's.
    ///
    /// # Safety
    /// Until the result is dropped, the memory has so many bytes and is not freed. No work that writes to it is under way,
    /// and none is started.
    pub unsafe fn foreign(&self, address: u64, len: usize) -> Result<Foreign> {
        let id = self.ask(|driver, _| driver.foreign(address, len))?;
        Ok(Foreign(Buffer::of(self, id, len, true)))
    }

    /// Waits for all work so far of a stream of another library's, without a limit.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the device is not CUDA's. Otherwise a failure of the driver.
    ///
    /// # Safety
    /// It is a stream of CUDA's that exists: a handle, or 1 or 2 for a default stream.
    pub unsafe fn finish_stream_of_others(&self, stream: u64) -> Result<()> {
        // SAFETY: this is what the caller promises.
        self.ask(|driver, _| unsafe { driver.finish_foreign(stream) })
    }

    /// Waits for all work on the device that this process has started, also that of other libraries, without a limit.
    ///
    /// # Errors
    /// [`Reason::Failed`](crate::Reason::Failed) while another library captures work as a graph, or another failure of the
    /// driver.
    pub fn finish_others(&self) -> Result<()> {
        self.ask(|driver, _| driver.finish_others())
    }

    /// A stream that other libraries make wait for their work, as DLPack demands of producers.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the device is not CUDA's. Otherwise a failure of the driver.
    pub fn gate(&self) -> Result<Gate> {
        let stream = self.ask(|driver, _| driver.stream_for_others())?;
        Ok(Gate { device: self.clone(), stream })
    }
}

/// A stream that only waits for others: [`Device::gate`] makes it.
pub struct Gate {
    device: Device,
    stream: StreamId,
}

impl Gate {
    /// CUDA's handle of the stream.
    #[must_use]
    pub fn stream(&self) -> u64 {
        self.stream.0
    }

    /// Waits for what others have made it wait for, without a limit.
    ///
    /// # Errors
    /// A failure of the driver.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the stream is this value's.
        unsafe { self.device.finish_stream_of_others(self.stream.0) }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.device.ask(|driver, _| {
            // SAFETY: the stream is the driver's, and nothing else uses it. Nothing was done on it that uses memory.
            unsafe { driver.free_stream(self.stream) };
            Ok(())
        });
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate of {:?}", self.device)
    }
}
