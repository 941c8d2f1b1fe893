//! The simulated GPU of `crates/gpu/simulate` is not mistaken for a device. `scripts/simulate` runs this test with it.

use crate::devices;
use phalanx_gpu::{Kind, State, Survey};

#[test]
fn a_simulated_gpu_is_named_and_not_used_unasked() {
    let Some(device) = devices::cuda() else { return };
    if !device.info().is_simulated() {
        println!("skipped: no simulated GPU, but a device ({})", device.info().name);
        return;
    }
    assert_eq!((device.info().name.as_str(), device.info().kind), ("simulated GPU", Kind::Cpu));
    let survey = Survey::new(true);
    let state = survey.devices.iter().find(|(info, _)| info.is_simulated()).map(|(_, state)| state.to_string());
    let told = "not used: it is simulated, on the CPU itself (PHALANX_OPENCL_CPU=1 admits it)";
    assert_eq!(state.as_deref(), Some(told));
    assert!(!survey.devices.iter().any(|(info, state)| info.is_simulated() && matches!(state, State::Taken)));
}
