//! The devices that tests run on, and test data.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod faulty;
pub mod plain_c;

use phalanx_gpu::{Api, Device};
use std::cell::OnceCell;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The kernels as plain C. Every machine that builds this has a C compiler.
pub fn plain_c() -> Option<Device> {
    if !is_wanted("plain-c") {
        return None;
    }
    static DEVICE: OnceLock<Device> = OnceLock::new();
    Some(DEVICE.get_or_init(|| Device::with_driver(Box::new(plain_c::PlainC::new())).unwrap()).clone())
}

/// The first OpenCL device. Tests use it one after another: PoCL 3.1 aborts if two threads launch a kernel at the same time
/// that was never launched before (`found->ref_count > 0`).
pub fn opencl() -> Option<Device> {
    if !is_wanted("opencl") {
        return None;
    }
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    thread_local! {
        /// Held until the thread of the test ends.
        static HELD: OnceCell<MutexGuard<'static, ()>> = const { OnceCell::new() };
    }
    HELD.with(|held| {
        held.get_or_init(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    });
    DEVICE.get_or_init(|| first(Api::OpenCl, "opencl")).clone()
}

/// Whether a device takes part. PHALANX_ONLY names the one that does, for `scripts/simulate`.
fn is_wanted(name: &str) -> bool {
    let is_wanted = std::env::var("PHALANX_ONLY").map_or(true, |only| only == name);
    if !is_wanted {
        println!("skipped: {name} (PHALANX_ONLY)");
    }
    is_wanted
}

/// The first CUDA device.
pub fn cuda() -> Option<Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    DEVICE.get_or_init(|| first(Api::Cuda, "cuda")).clone()
}

/// Opens the first device of an interface. If there is none, says so, or fails if PHALANX_REQUIRE names the interface.
fn first(api: Api, name: &str) -> Option<Device> {
    let (devices, reasons) = phalanx_gpu::devices();
    let Some(info) = devices.iter().find(|info| info.api == api) else {
        println!("skipped: no {api} device ({})", reasons.iter().map(|r| r.to_string()).collect::<Vec<_>>().join(", "));
        let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|r| r == name), "PHALANX_REQUIRE names {name}, and there is no such device");
        return None;
    };
    Some(Device::open(info).unwrap())
}

/// Bytes that repeat every 251, so that no two neighbouring blocks, slices or threads have equal bytes.
pub fn paint(len: usize) -> Vec<u8> {
    (0..=250u8).cycle().take(len).collect()
}

/// A key or counter. Different seeds give different bytes at every place.
pub fn bytes<const N: usize>(seed: u8) -> [u8; N] {
    std::array::from_fn(|i| (i as u8).wrapping_mul(37).wrapping_add(seed).rotate_left(3) ^ seed)
}
