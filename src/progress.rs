//! The progress bar, and the line of `--verbose`.

use crate::args::Verbosity;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use phalanx_core::file::Progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Jobs that are done sooner than this show no bar.
const LONG: Duration = Duration::from_millis(500);

/// Shows how far one file has come: on a terminal, when it takes long.
pub struct Meter {
    started: Instant,
    bar: ProgressBar,
    shown: AtomicBool,
    quiet: bool,
}

impl Meter {
    /// `len` is the whole in bytes, where it is known.
    pub fn new(what: String, len: Option<u64>, verbosity: Verbosity) -> Self {
        let bar = ProgressBar::with_draw_target(len, ProgressDrawTarget::hidden());
        let template = match len {
            Some(_) => "{msg} {wide_bar} {percent}% {bytes_per_sec}, {eta} left",
            None => "{msg} {spinner} {bytes} {bytes_per_sec}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template").progress_chars("=> "));
        bar.set_message(what);
        Self { started: Instant::now(), bar, shown: AtomicBool::new(false), quiet: verbosity.quiet }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Says what was done: "12.0 GiB in 4.1 s, 3.1 GB/s".
    pub fn summary(&self, bytes: u64) -> String {
        let seconds = self.started.elapsed().as_secs_f64();
        format!("{} in {seconds:.3} s, {:.2} GB/s", HumanBytes(bytes), bytes as f64 / seconds / 1e9)
    }
}

impl Progress for Meter {
    fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
        if !self.quiet && self.started.elapsed() > LONG && !self.shown.swap(true, Ordering::Relaxed) {
            // Draws nothing where stderr is not a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}
