//! Finding the devices of OpenCL drivers.

use crate::driver::{Api, DeviceInfo, Kind};
use crate::error::{Error, Reason, Result};
use cl3::types::*;
use cl3::{device, error_codes, platform};
use std::sync::{Mutex, MutexGuard};

/// The devices of all platforms, or why there are none.
pub(crate) fn devices() -> Result<Vec<DeviceInfo>> {
    let _alone = alone();
    Ok(find()?.into_iter().map(|(_, info)| info).collect())
}

/// A lock for finding and opening devices: not every driver takes its first calls from several threads.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn absent(why: impl Into<String>) -> Error {
    Error { device: Api::OpenCl.to_string(), reason: Reason::Absent(why.into()) }
}

pub(super) fn find() -> Result<Vec<(cl_device_id, DeviceInfo)>> {
    // The loader's code for having no platform installed (cl_khr_icd).
    const CL_PLATFORM_NOT_FOUND_KHR: cl_int = -1001;
    let platforms = match platform::get_platform_ids() {
        Err(error_codes::DLOPEN_RUNTIME_LOAD_FAILED) => return Err(absent("its library is not installed")),
        Err(CL_PLATFORM_NOT_FOUND_KHR) => Vec::new(),
        found => found.map_err(|code| absent(text(code)))?,
    };
    let mut found = Vec::new();
    for platform in platforms {
        // A platform without devices reports an error. This must not hide the devices of the others.
        for id in device::get_device_ids(platform, device::CL_DEVICE_TYPE_ALL).unwrap_or_default() {
            if let Ok(info) = describe(platform, id, found.len()) {
                found.push((id, info));
            }
        }
    }
    if found.is_empty() { Err(absent("no driver offers a device")) } else { Ok(found) }
}

fn describe(platform: cl_platform_id, id: cl_device_id, index: usize) -> std::result::Result<DeviceInfo, cl_int> {
    let text = |what| device::get_device_info(id, what).map(|info| String::from(info).trim().to_owned());
    let number = |what| device::get_device_info(id, what).map(u32::from);
    let long = |what| device::get_device_info(id, what).map(u64::from);
    let platform = String::from(platform::get_platform_info(platform, platform::CL_PLATFORM_NAME)?);
    let kind = match long(device::CL_DEVICE_TYPE)? {
        kind if kind & device::CL_DEVICE_TYPE_GPU != 0 => Kind::Gpu,
        kind if kind & device::CL_DEVICE_TYPE_CPU != 0 => Kind::Cpu,
        _ => Kind::Other,
    };
    let max_threads = usize::from(device::get_device_info(id, device::CL_DEVICE_MAX_WORK_GROUP_SIZE)?);
    // Before OpenCL 3.0 each vendor has its own query.
    let warp = match device::get_device_info(id, device::CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE) {
        Ok(multiple) => u32::try_from(usize::from(multiple)).unwrap_or(0),
        Err(_) => number(device::CL_DEVICE_WARP_SIZE_NV)
            .or_else(|_| number(device::CL_DEVICE_WAVEFRONT_WIDTH_AMD))
            .unwrap_or(0),
    };
    Ok(DeviceInfo {
        api: Api::OpenCl,
        index,
        name: text(device::CL_DEVICE_NAME)?,
        driver: format!("{} {}", platform.trim(), text(device::CL_DRIVER_VERSION)?),
        kind,
        memory: long(device::CL_DEVICE_GLOBAL_MEM_SIZE)?,
        largest_buffer: long(device::CL_DEVICE_MAX_MEM_ALLOC_SIZE)?,
        compute_units: number(device::CL_DEVICE_MAX_COMPUTE_UNITS)?,
        warp,
        clock_mhz: number(device::CL_DEVICE_MAX_CLOCK_FREQUENCY).unwrap_or(0),
        local_memory: u32::try_from(long(device::CL_DEVICE_LOCAL_MEM_SIZE)?).unwrap_or(u32::MAX),
        max_threads: u32::try_from(max_threads).unwrap_or(u32::MAX),
    })
}

pub(super) fn text(code: cl_int) -> String {
    format!("{} ({code})", error_codes::error_text(code))
}
