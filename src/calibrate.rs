//! Measuring the engines, for `--engine auto`.

use crate::lanes::Ready;
use phalanx_core::calibration::{Calibration, Curve, Kind, measure};
use phalanx_core::{Result, Roster};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long it takes to open the device and to measure all engines: a second, but for what cannot be cut short.
const TIME: Duration = Duration::from_millis(900);
/// What measuring has at least, however long it took to open the device.
const LEAST: Duration = Duration::from_millis(300);

/// Measures all engines that are ready. Fails where one of them does.
pub fn run(ready: &Ready) -> Result<Calibration> {
    let end = Instant::now() + TIME.saturating_sub(ready.opening).max(LEAST);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| ready.members(*kind).is_some()).collect();
    let mut calibration = Calibration::default();
    // Gpu comes before hybrid, and has then done for both what a device does once.
    let mut start = ready.opening.as_secs_f64();
    for (i, &kind) in kinds.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        let curve = curve(ready, kind, left / (kinds.len() - i) as u32)?;
        start += if kind == Kind::Gpu { curve.start() } else { 0.0 };
        let start = if kind.needs_device() { start } else { 0.0 };
        calibration.set(kind, curve.starting_in(start).expect("a start takes less than a day"));
    }
    Ok(calibration)
}

fn curve(ready: &Ready, kind: Kind, time: Duration) -> Result<Curve> {
    let members = ready.members(kind).expect("only those that are ready are measured");
    // Where one of two engines fails, the other would be measured alone.
    let fault = Arc::new(OnceLock::new());
    let failed = fault.clone();
    let dispatcher = Roster::new(&members).on_fault(move |fault| drop(failed.set(fault.clone())));
    let curve = measure(&dispatcher, ready.levels, time)?;
    match fault.get() {
        Some(fault) => Err(fault.clone().into()),
        None => Ok(curve),
    }
}
