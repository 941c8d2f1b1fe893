//! Without a driver there are no devices and there is no panic, but a reason in one line.

#[test]
fn every_interface_has_devices_or_a_reason() {
    let (devices, reasons) = phalanx_gpu::devices();
    assert!(!devices.is_empty() || reasons.len() == 2);
    for reason in reasons {
        let text = reason.to_string();
        println!("{text}");
        assert!((text.starts_with("CUDA: ") || text.starts_with("OpenCL: ")) && !text.contains('\n'), "{text:?}");
    }
    for device in devices {
        println!("{device:?}");
        assert!(!device.name.is_empty() && device.memory > 0 && device.compute_units > 0, "{device:?}");
    }
}

/// OpenCL's loader is there, but no driver.
#[test]
fn a_missing_opencl_driver_is_a_reason_of_one_line() {
    let this = std::env::current_exe().unwrap();
    let test = ["absent::every_interface_has_devices_or_a_reason", "--exact", "--nocapture"];
    let run = std::process::Command::new(this).args(test).env("OCL_ICD_VENDORS", "/nonexistent").output().unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}");
    let reasons = ["OpenCL: no driver offers a device\n", "OpenCL: its library is not installed\n"];
    // Another loader may ignore the variable, and then finds its devices.
    assert!(reasons.iter().any(|reason| output.contains(reason)) || output.contains("api: OpenCl"), "{output}");
}

/// A driver that is too old, or a missing driver, causes one line and no panic.
#[test]
#[cfg(target_os = "linux")]
fn a_library_without_a_function_is_a_reason_of_one_line() {
    let folder = tempfile::tempdir().unwrap();
    crate::devices::plain_c::compile(
        "int cuInit(unsigned flags) { return flags; }",
        &folder.path().join("libcuda.so.1"),
    );
    let this = std::env::current_exe().unwrap();
    let test = ["absent::every_interface_has_devices_or_a_reason", "--exact", "--nocapture"];
    let run = std::process::Command::new(this).args(test).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}");
    let reason = "CUDA: its library has no cuDriverGetVersion: the driver is too old\n";
    assert!(output.contains(reason), "{output}");
}
