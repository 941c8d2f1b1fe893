//! How much a program prints while it works.

use std::io::{self, IsTerminal};

/// Whether to say less or more than usual.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Verbosity {
    /// Print only errors; show no progress bar
    #[cfg_attr(feature = "clap", arg(short, long, global = true, conflicts_with = "verbose", display_order = 900))]
    pub quiet: bool,
    /// Print what was done, how fast, by which engine
    #[cfg_attr(feature = "clap", arg(short, long, global = true, display_order = 901))]
    pub verbose: bool,
}

impl Verbosity {
    /// Whether to show progress.
    pub fn shows_progress(self) -> bool {
        !self.quiet && is_terminal()
    }
}

/// Whether standard error is a terminal. A line on what was done is written only to a terminal.
pub fn is_terminal() -> bool {
    io::stderr().is_terminal()
}
