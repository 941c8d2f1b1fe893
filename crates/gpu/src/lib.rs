//! AES and SHA-3 on GPUs.
//!
//! One kernel source (`kernels/`) runs through CUDA, as PTX that is part of this crate, and through OpenCL, which compiles
//! it on the machine. Both are loaded at run time: nothing of theirs is needed to build, and without them [`devices`] is
//! empty. A [`Device`] passes a self-test by known answers before it takes data.
//!
//! Work is given to a [`Stream`] of a device: copies to and from a [`Buffer`], and launches of kernels on it. Streams
//! of one device run side by side, each on a thread of its own. [`GpuEngine`] is the engine of `phalanx-core` on top of it.
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod cipher;
mod cuda;
mod device;
pub mod driver;
mod engine;
mod error;
mod hash;
mod kernel;
mod opencl;
mod pinned;
mod plan;
mod schedule;
mod selftest;
mod survey;

#[cfg(feature = "papers")]
pub use cipher::Users;
pub use cipher::{AesLaunch, Direction, MAX_SPAN, RoundKeys, Span, Spans, Variant};
pub use device::{Buffer, Device, Pinned, Stream};
pub use driver::{Api, DeviceInfo, Kind};
pub use engine::GpuEngine;
pub use error::{Error, Reason, Result};
#[cfg(feature = "papers")]
pub use hash::KeyDigest;
pub use hash::{Label, RawKeys, Slice, Slices, TagInput, Tags};
pub use kernel::{Kernel, Module};
pub use survey::{CPU_VARIABLE, State, Survey, find};

/// The devices of this machine, CUDA's first, and why an interface that was asked has none, one line each.
///
/// A GPU with both drivers is there twice.
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
