//! The energy that a device takes, by its own counter. NVIDIA's devices have one, and its library for monitoring, NVML,
//! reads it. The library is loaded at run time.

use crate::cuda;
use crate::driver::{Api, DeviceInfo};
use crate::error::{Reason, Result};
use std::ffi::{CStr, c_char, c_int, c_ulonglong, c_void};
use std::mem::ManuallyDrop;
use std::ptr::null_mut;

type Handle = *mut c_void;

/// A device's counter of energy.
///
/// Devices refresh their counters some tens of times a second, so differences over less than a second are inaccurate.
#[derive(Debug)]
pub struct EnergyCounter {
    info: DeviceInfo,
    device: Handle,
    total: unsafe extern "C" fn(Handle, *mut c_ulonglong) -> c_int,
    text: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl EnergyCounter {
    /// The counter of a device. It must be a device of CUDA.
    ///
    /// # Errors
    /// [`Reason::Absent`] if the device or its driver has none, or a failure of the driver.
    pub fn of(info: &DeviceInfo) -> Result<Self> {
        let absent = |why: String| info.error(Reason::Absent(why));
        if info.api != Api::Cuda {
            return Err(absent(format!("{} does not tell the energy of a device", info.api)));
        }
        let address = cuda::bus_address(info)?;
        // SAFETY: a library of this name is NVML.
        let library = unsafe { libloading::Library::new("libnvidia-ml.so.1") };
        // It is never unloaded, because the functions below are called later.
        let library = ManuallyDrop::new(library.map_err(|_| absent("NVML is not installed".into()))?);
        let missing = |name: &str| absent(format!("NVML has no {name}: the driver is too old"));
        // SAFETY: the functions have these types in every version of NVML.
        let (init, by_address, total, text) = unsafe {
            (
                library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2\0").map_err(|_| missing("nvmlInit_v2"))?,
                library
                    .get::<unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int>(
                        b"nvmlDeviceGetHandleByPciBusId_v2\0",
                    )
                    .map_err(|_| missing("nvmlDeviceGetHandleByPciBusId_v2"))?,
                *library
                    .get(b"nvmlDeviceGetTotalEnergyConsumption\0")
                    .map_err(|_| missing("nvmlDeviceGetTotalEnergyConsumption"))?,
                *library.get(b"nvmlErrorString\0").map_err(|_| missing("nvmlErrorString"))?,
            )
        };
        let mut counter = Self { info: info.clone(), device: null_mut(), total, text };
        // SAFETY: the call may be repeated.
        counter.check("starting NVML", unsafe { init() })?;
        // SAFETY: the call reads a text with its end, and writes one handle.
        let found = unsafe { by_address(address.as_ptr(), &mut counter.device) };
        counter.check("finding the device in NVML", found)?;
        counter.joules()?;
        Ok(counter)
    }

    /// The energy that the device has taken since its driver was loaded, in J.
    ///
    /// # Errors
    /// A failure of the driver; also if the device has no such counter.
    pub fn joules(&self) -> Result<f64> {
        let mut millijoules = 0;
        // SAFETY: NVML gave the handle, and stays loaded. The call writes one number.
        self.check("reading the device's energy", unsafe { (self.total)(self.device, &mut millijoules) })?;
        Ok(millijoules as f64 / 1e3)
    }

    fn check(&self, what: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the call takes any number, and gives a text that stays.
        let text = unsafe { (self.text)(code) };
        let words = if text.is_null() {
            format!("error {code}")
        } else {
            // SAFETY: NVML gave a text with its end.
            format!("{} ({code})", unsafe { CStr::from_ptr(text) }.to_string_lossy())
        };
        Err(self.info.error(Reason::Failed(what, words)))
    }
}
