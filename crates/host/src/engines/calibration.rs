//! Which engine is fastest for which size: a model of measured times, without any input or output.
//!
//! A [`Curve`] gives the time that an engine takes for any number of bytes, in each direction.
//! [`measure`](super::measure) makes the curves, and [`Calibration::choose`] reads them.

use phalanx_core::engine::Op;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::{fmt, iter};

/// The length of a chunk of a file, in bytes.
const ONE_CHUNK: u64 = 1 << 20;

/// An engine that can be chosen. The earlier ones are simpler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One CPU thread.
    Serial,
    /// All CPU threads.
    Cpu,
    /// The GPU.
    Gpu,
    /// CPU and GPU together.
    Hybrid,
}

impl Kind {
    /// All engines, the simplest first.
    pub const ALL: [Kind; 4] = [Kind::Serial, Kind::Cpu, Kind::Gpu, Kind::Hybrid];

    /// The name that commands and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Serial => "serial",
            Kind::Cpu => "cpu",
            Kind::Gpu => "gpu",
            Kind::Hybrid => "hybrid",
        }
    }

    /// Whether it needs a device.
    pub fn needs_device(self) -> bool {
        matches!(self, Kind::Gpu | Kind::Hybrid)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A number of bytes, and the seconds that they took.
pub type Point = (u64, f64);

/// The measured times of an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The time that the engine needs before its first job in a process: a device must be found, opened and tested.
    pub start_seconds: f64,
    seal: Vec<Point>,
    open: Vec<Point>,
}

impl Curve {
    /// The most points of a direction.
    const MOST_POINTS: usize = 32;
    /// The most bytes of a point.
    const MOST_BYTES: u64 = 1 << 50;
    /// The most seconds of a point, or of a start: a day.
    pub const MOST_SECONDS: f64 = 86400.0;

    /// A curve of points in ascending order of their bytes.
    pub fn new(start_seconds: f64, seal: Vec<Point>, open: Vec<Point>) -> Self {
        Self { start_seconds, seal: rising(seal), open: rising(open) }
    }

    /// Whether this can be a measured curve. The file may hold anything.
    pub fn is_valid(&self) -> bool {
        let valid = |points: &Vec<Point>| {
            let all = points.iter().all(|&(bytes, seconds)| {
                (1..=Self::MOST_BYTES).contains(&bytes) && seconds > 0.0 && seconds <= Self::MOST_SECONDS
            });
            let ascending = points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
            all && ascending && (1..=Self::MOST_POINTS).contains(&points.len())
        };
        (0.0..=Self::MOST_SECONDS).contains(&self.start_seconds) && valid(&self.seal) && valid(&self.open)
    }

    /// The measured points, in ascending order.
    pub fn points(&self, op: Op) -> &[Point] {
        match op {
            Op::Seal => &self.seal,
            Op::Open => &self.open,
        }
    }

    /// The speed at the largest measured size, in bytes per second.
    pub fn speed(&self, op: Op) -> f64 {
        let (bytes, seconds) = *self.points(op).last().expect("a curve has points");
        bytes as f64 / seconds
    }

    /// The time for a number of bytes, in seconds. A `warm` engine has already been started.
    pub fn seconds(&self, op: Op, bytes: u64, warm: bool) -> f64 {
        along(self.points(op), bytes) + if warm { 0.0 } else { self.start_seconds }
    }
}

/// Makes the times rise: more bytes never take less time. If they did in a measurement, that was noise.
fn rising(mut points: Vec<Point>) -> Vec<Point> {
    let mut least = 0.0;
    for (_, seconds) in &mut points {
        *seconds = seconds.max(least);
        least = *seconds;
    }
    points
}

/// The time on straight lines between the points. Smaller sizes take as long as the first point. Beyond the last point
/// the last line goes on, but at most at twice the average speed so far, so that noise does not promise an unrealistic
/// speed.
fn along(points: &[Point], bytes: u64) -> f64 {
    let line = |(from, seconds): Point, slope: f64| seconds + (bytes - from) as f64 * slope;
    let slope = |a: Point, b: Point| (b.1 - a.1) / (b.0 - a.0) as f64;
    if bytes <= points[0].0 {
        return points[0].1;
    }
    if let Some(pair) = points.windows(2).find(|pair| bytes <= pair[1].0) {
        return line(pair[0], slope(pair[0], pair[1]));
    }
    let last = points[points.len() - 1];
    let average = last.1 / last.0 as f64;
    let end = match points {
        [.., a, b] => slope(*a, *b).max(average / 2.0),
        _ => average,
    };
    line(last, end)
}

/// The curves of all engines that were measured. It is empty if there is no device, because then nothing needs to be
/// measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Calibration {
    curves: BTreeMap<Kind, Curve>,
}

impl Calibration {
    /// No device is opened for less, so nothing is looked up for less either. Sealing this much takes 28 ms on a CPU
    /// with only 150 MB/s, and opening a device takes longer.
    pub const WORTH_A_START: u64 = 4 << 20;
    /// A simpler engine is chosen unless another one is faster by more than this factor.
    const MARGIN: f64 = 1.05;
    /// All larger sizes are treated like this one.
    const LARGEST: u64 = 1 << 40;

    /// Adds the curve of an engine.
    pub fn set(&mut self, kind: Kind, curve: Curve) {
        self.curves.insert(kind, curve);
    }

    /// The curve of an engine, if it was measured.
    pub fn curve(&self, kind: Kind) -> Option<&Curve> {
        self.curves.get(&kind)
    }

    /// Whether its curves are valid, and are those of exactly these engines.
    pub fn is_of(&self, kinds: &[Kind]) -> bool {
        self.curves.keys().eq(kinds) && self.curves.values().all(Curve::is_valid)
    }

    /// The engine for a number of bytes. By the measured times it takes at most 5 % longer than the fastest one. If the
    /// process is `warm`, the device is open already.
    ///
    /// If the size is unknown, as with a pipe, no device is opened, because the pipe may end at once. A device that is
    /// open already is used if it is the fastest for large sizes.
    pub fn choose(&self, op: Op, bytes: Option<u64>, warm: bool) -> Kind {
        let worth_a_start = bytes.is_some_and(|bytes| bytes >= Self::WORTH_A_START);
        let bytes = bytes.unwrap_or(Self::LARGEST);
        // Which of the CPU's engines is better needs no measuring: one chunk is work for one thread, more are for all.
        // So noise cannot make one thread seem faster than all.
        let cpu = if bytes <= ONE_CHUNK { Kind::Serial } else { Kind::Cpu };
        // Without the CPU's times, a device cannot be compared.
        if !(warm || worth_a_start) || self.curve(Kind::Serial).is_none() || self.curve(Kind::Cpu).is_none() {
            return cpu;
        }
        let seconds = |kind| Some((kind, self.curve(kind)?.seconds(op, bytes, warm)));
        let times: Vec<(Kind, f64)> = [cpu, Kind::Gpu, Kind::Hybrid].into_iter().filter_map(seconds).collect();
        let best = times.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
        times.iter().find(|(_, seconds)| *seconds <= best * Self::MARGIN).expect("one of them is the best").0
    }

    /// Each size from which on [`Calibration::choose`] chooses another engine, and that engine. The first size is 0.
    pub fn crossings(&self, op: Op, warm: bool) -> Vec<(u64, Kind)> {
        changes(|bytes| self.choose(op, Some(bytes), warm))
    }

    /// The smallest size from which on one engine is so much faster than another that it would be chosen.
    pub fn passes(&self, kind: Kind, other: Kind, op: Op, warm: bool) -> Option<u64> {
        let (curve, other) = (self.curve(kind)?, self.curve(other)?);
        let faster = changes(|bytes| curve.seconds(op, bytes, warm) * Self::MARGIN < other.seconds(op, bytes, warm));
        faster.last().filter(|(_, is_faster)| *is_faster).map(|(from, _)| *from)
    }
}

/// How a value changes as the size grows: each value, and the first size with it. Each size that is tried is 1/16
/// larger than the one before.
fn changes<T: Copy + PartialEq>(value: impl Fn(u64) -> T) -> Vec<(u64, T)> {
    let sizes = iter::successors(Some(16), |bytes| Some(bytes + bytes / 16));
    let mut found = vec![(0, value(0))];
    let mut before = 0;
    for bytes in sizes.take_while(|bytes| *bytes <= Calibration::LARGEST) {
        let now = value(bytes);
        if found.last().is_some_and(|(_, last)| *last != now) {
            let (mut below, mut from) = (before, bytes);
            while from - below > 1 {
                let middle = below + (from - below) / 2;
                if value(middle) == now { from = middle } else { below = middle }
            }
            found.push((from, now));
        }
        before = bytes;
    }
    found
}

#[cfg(test)]
mod tests;
