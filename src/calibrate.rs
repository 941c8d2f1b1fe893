//! Measuring the engines, for `--engine auto`.

use crate::lanes::Engines;
use phalanx_core::Result;
use phalanx_core::calibration::{self, Calibration, Curve, Kind};
use std::time::{Duration, Instant};

/// How long all engines together are measured.
pub const TIME: Duration = Duration::from_secs(1);
/// What measuring has at least, however long it took to open the device.
const LEAST: Duration = Duration::from_millis(300);

/// Measures all engines within a second, of which the opening of the device has used up its part already. Says too why the
/// device cannot be used, where it failed meanwhile: it has no curve then.
pub fn run(engines: &Engines) -> Result<(Calibration, Option<String>)> {
    let start = engines.start();
    let end = Instant::now() + TIME.saturating_sub(start).max(LEAST);
    let mut calibration = Calibration::default();
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| engines.has(*kind)).collect();
    for (i, &kind) in kinds.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        let share = left / (kinds.len() - i) as u32;
        let curve = match engines.watched(kind, |dispatcher| calibration::measure(dispatcher, engines.levels(), share)) {
            Ok(curve) => curve,
            Err(error) if kind.needs_device() => {
                calibration.clear(Kind::Gpu);
                return Ok((calibration, Some(error.to_string())));
            }
            Err(error) => return Err(error),
        };
        let start = if kind.needs_device() { start } else { Duration::ZERO };
        calibration.set(kind, curve.starting_in(start.as_secs_f64()).expect("a start takes less than a day"));
    }
    Ok((calibration, None))
}
