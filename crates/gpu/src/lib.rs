//! AES and SHA-3 on GPUs.
//!
//! One kernel source (`kernels/`) runs through CUDA, as PTX that is part of this crate, and through OpenCL, which
//! compiles it on the machine. Both drivers are loaded at run time. None is needed to build this crate, and without
//! them [`devices`] finds nothing. A [`Device`] must pass a self-test with known answers before it gets data.
//!
//! A [`Stream`] of a device takes work: copies to and from a [`Buffer`], and launches of kernels. The streams of a
//! device run in parallel, each used by its own thread. [`GpuEngine`] uses them as an engine of `phalanx-core`: plaintext is
//! in the host's memory. With [`Resident`], and with [`DeviceReader`] and [`DeviceWriter`] for a whole file, it is in the
//! device's, and the host does not have it.
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::must_use_candidate)]

mod cipher;
mod cuda;
mod device;
mod digests;
pub mod driver;
#[cfg(feature = "papers")]
mod energy;
mod engine;
mod error;
mod hash;
mod kernel;
mod opencl;
mod pinned;
mod plan;
mod reader;
mod resident;
mod rows;
mod schedule;
mod selftest;
mod survey;
mod writer;

#[cfg(feature = "papers")]
pub use cipher::Users;
pub use cipher::{AesLaunch, Direction, MAX_SPAN, RoundKeys, Span, Spans, Variant};
pub use device::{Buffer, Device, Foreign, Gate, Pinned, SharedMemory, Stream, Target};
pub use driver::{Api, DeviceInfo, Kind};
#[cfg(feature = "papers")]
pub use energy::EnergyCounter;
pub use engine::GpuEngine;
pub use error::{Error, Reason, Result};
#[cfg(feature = "papers")]
pub use hash::{KeyDigest, Label, RawKeys};
pub use hash::{Slice, Slices};
pub use kernel::{Kernel, Module};
pub use reader::DeviceReader;
pub use resident::{Resident, Sealed};
pub use survey::{CPU_VARIABLE, State, Survey, find, find_cuda};
pub use writer::DeviceWriter;

/// The devices of this machine, those of CUDA first. Then, for each interface without devices, the reason in one line.
///
/// A GPU that has both drivers is listed twice.
#[must_use]
pub fn devices() -> (Vec<DeviceInfo>, Vec<Error>) {
    let (mut found, mut reasons) = (Vec::new(), Vec::new());
    for list in [cuda::devices(), opencl::devices()] {
        match list {
            Ok(devices) => found.extend(devices),
            Err(error) => reasons.push(error),
        }
    }
    (found, reasons)
}
