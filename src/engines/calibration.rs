//! Which engine is fastest for how much data: a model made of measured times, without any input or output.
//!
//! For each engine a [`Curve`] says how long it takes for how many bytes, in each direction. [`Calibration::choose`] reads
//! the curves; [`measure`](super::measure) makes them.

use phalanx_core::Suite;
use phalanx_core::engine::Op;
use std::fmt;

/// What one chunk of a file holds, in bytes.
const ONE_CHUNK: u64 = 1 << 20;

/// An engine that can be chosen. The earlier ones are simpler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// All of them, the simplest first.
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

    /// Whether it needs a device besides the CPU.
    pub fn needs_device(self) -> bool {
        matches!(self, Kind::Gpu | Kind::Hybrid)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How long so much took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// How much, in bytes.
    pub bytes: u64,
    /// How long, in seconds.
    pub seconds: f64,
}

/// What an engine was measured to take. All its numbers are positive and finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    start: f64,
    seal: Vec<Point>,
    open: Vec<Point>,
}

impl Curve {
    /// The most points that a direction may have.
    pub const MOST_POINTS: usize = 32;
    /// The most bytes of a point.
    pub const MOST_BYTES: u64 = 1 << 50;
    /// The most seconds of a point, or of a start: a day.
    pub const MOST_SECONDS: f64 = 86400.0;

    /// A curve of measured points, in ascending order of their bytes, of an engine that takes `start` seconds before its
    /// first job in a process. None where a number is not valid, whoever wrote it.
    pub fn new(start: f64, seal: Vec<Point>, open: Vec<Point>) -> Option<Self> {
        let valid = |points: &[Point]| {
            let ascending = points.is_sorted_by(|a, b| a.bytes < b.bytes);
            let all = points.iter().all(|p| {
                (1..=Self::MOST_BYTES).contains(&p.bytes) && p.seconds > 0.0 && p.seconds <= Self::MOST_SECONDS
            });
            ascending && all && (1..=Self::MOST_POINTS).contains(&points.len())
        };
        if !(0.0..=Self::MOST_SECONDS).contains(&start) || !valid(&seal) || !valid(&open) {
            return None;
        }
        Some(Self { start, seal: rising(seal), open: rising(open) })
    }

    /// The same, but with so many seconds before the first job. None where that is no valid number.
    pub fn starting_in(self, start: f64) -> Option<Self> {
        Self::new(start, self.seal, self.open)
    }

    /// What it takes before its first job in a process, in seconds: a device must be found, opened and tested.
    pub fn start(&self) -> f64 {
        self.start
    }

    /// The points of a direction.
    pub fn points(&self, op: Op) -> &[Point] {
        match op {
            Op::Seal => &self.seal,
            Op::Open => &self.open,
        }
    }

    /// The speed at the largest size that was measured, in bytes a second.
    pub fn speed(&self, op: Op) -> f64 {
        let last = self.points(op).last().expect("a curve has points");
        last.bytes as f64 / last.seconds
    }

    /// What so many bytes take, in seconds; `warm` where the engine has been started before.
    pub fn seconds(&self, op: Op, bytes: u64, warm: bool) -> f64 {
        along(self.points(op), bytes) + if warm { 0.0 } else { self.start }
    }
}

/// More bytes never take less time: where it was measured so, that was noise.
fn rising(mut points: Vec<Point>) -> Vec<Point> {
    let mut least = 0.0;
    for point in &mut points {
        point.seconds = point.seconds.max(least);
        least = point.seconds;
    }
    points
}

/// Straight lines between the points. Before the first it is as slow as there; beyond the last the last line goes on,
/// though at most at twice the speed that was reached so far, lest noise promise what nobody has seen.
fn along(points: &[Point], bytes: u64) -> f64 {
    let line = |a: Point, slope: f64| a.seconds + (bytes - a.bytes) as f64 * slope;
    let slope = |a: Point, b: Point| (b.seconds - a.seconds) / (b.bytes - a.bytes) as f64;
    let (first, last) = (points[0], points[points.len() - 1]);
    if bytes <= first.bytes {
        return first.seconds;
    }
    if let Some(pair) = points.windows(2).find(|pair| bytes <= pair[1].bytes) {
        return line(pair[0], slope(pair[0], pair[1]));
    }
    let average = last.seconds / last.bytes as f64;
    let end = match points {
        [.., a, b] => slope(*a, *b).max(average / 2.0),
        _ => average,
    };
    line(last, end)
}

/// What was measured of each engine that was. Nothing of any where there is no device: then nothing needs measuring.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    curves: [Option<Curve>; Kind::ALL.len()],
}

/// From so many bytes on it is this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The least size, in bytes.
    pub from: u64,
    /// The engine that is chosen from there on.
    pub kind: Kind,
}

impl Calibration {
    /// No device is opened for less, so below it nobody needs to look for one, nor for a calibration. This much takes 28 ms
    /// where a CPU seals no more than 150 MB/s, and opening a device takes longer.
    pub const WORTH_A_START: u64 = 4 << 20;
    /// A simpler engine is chosen unless another one is faster by more than this.
    const MARGIN: f64 = 1.05;
    /// Sizes beyond are not told apart.
    const LARGEST: u64 = 1 << 40;

    /// Takes what was measured of an engine.
    pub fn set(&mut self, kind: Kind, curve: Curve) {
        self.curves[kind as usize] = Some(curve);
    }

    /// What was measured of an engine.
    pub fn curve(&self, kind: Kind) -> Option<&Curve> {
        self.curves[kind as usize].as_ref()
    }

    /// The engine for so many bytes, in a process that has the device open (`warm`) or has not. It takes at most 5 % longer
    /// than the fastest one, by what was measured.
    ///
    /// Where the size is not known, as with a pipe, no device is opened: the pipe may end at once. One that is open already
    /// gets it if it is the fastest for much.
    pub fn choose(&self, op: Op, suite: Suite, bytes: Option<u64>, warm: bool) -> Kind {
        let worth_a_start = bytes.is_some_and(|bytes| bytes >= Self::WORTH_A_START);
        let bytes = bytes.unwrap_or(Self::LARGEST);
        let device_can = suite != Suite::Aes256Gcm && (warm || worth_a_start);
        // Without the CPU's times there is nothing to compare a device with.
        if !device_can || self.curve(Kind::Serial).is_none() || self.curve(Kind::Cpu).is_none() {
            return Self::unmeasured(bytes);
        }
        // Which of the CPU's engines is known without measuring. So noise cannot make one thread seem faster than all.
        let kinds = [Self::unmeasured(bytes), Kind::Gpu, Kind::Hybrid];
        let seconds = |kind| Some((kind, self.curve(kind)?.seconds(op, bytes, warm)));
        let times: Vec<(Kind, f64)> = kinds.into_iter().filter_map(seconds).collect();
        let best = times.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
        times.iter().find(|(_, seconds)| *seconds <= best * Self::MARGIN).expect("one of them is the best").0
    }

    /// The CPU's engine: one chunk is work for one thread, more are for all.
    fn unmeasured(bytes: u64) -> Kind {
        if bytes <= ONE_CHUNK { Kind::Serial } else { Kind::Cpu }
    }

    /// Where [`Calibration::choose`] changes its mind, from no byte on, in ascending order.
    pub fn crossings(&self, op: Op, suite: Suite, warm: bool) -> Vec<Crossing> {
        let at = |bytes| self.choose(op, suite, Some(bytes), warm);
        let mut found = vec![Crossing { from: 0, kind: at(0) }];
        let mut before = 0;
        for bytes in sizes(Self::LARGEST) {
            let kind = at(bytes);
            if kind != found[found.len() - 1].kind {
                let from = first(before, bytes, |bytes| at(bytes) == kind);
                found.push(Crossing { from, kind });
            }
            before = bytes;
        }
        found
    }

    /// The least size from which on one engine is faster than another, by the margin that choosing it takes.
    pub fn passes(&self, kind: Kind, other: Kind, op: Op, warm: bool) -> Option<u64> {
        let (curve, other) = (self.curve(kind)?, self.curve(other)?);
        let is_faster = |bytes| curve.seconds(op, bytes, warm) * Self::MARGIN < other.seconds(op, bytes, warm);
        let slower: Option<u64> = sizes(Self::LARGEST).filter(|bytes| !is_faster(*bytes)).last();
        let Some(slower) = slower else { return Some(0) };
        let next = sizes(Self::LARGEST).find(|bytes| *bytes > slower)?;
        Some(first(slower, next, is_faster))
    }
}

/// Sizes that lie close together, up to the largest.
fn sizes(largest: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(16), |bytes| Some(bytes + bytes / 16)).take_while(move |bytes| *bytes <= largest)
}

/// The first size above `below` and up to `to` that holds, where it holds from somewhere on.
fn first(mut below: u64, mut to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while to - below > 1 {
        let middle = below + (to - below) / 2;
        if holds(middle) { to = middle } else { below = middle }
    }
    to
}

#[cfg(test)]
mod tests;
