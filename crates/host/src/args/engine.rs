//! Which engine does the work.

#[cfg(feature = "clap")]
use super::numbers;
use std::num::NonZeroUsize;

/// The engine that does the work, and how.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "clap", derive(clap::Args), group(skip))]
pub struct EngineArgs {
    /// auto (default), serial, cpu, gpu or hybrid
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_enum, default_value_t = EngineName::Auto, value_name = "ENGINE"),
        arg(hide_possible_values = true, hide_default_value = true)
    )]
    pub engine: EngineName,
    /// Number of CPU threads (default: one per core)
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "N", value_parser = numbers::threads))]
    pub threads: Option<NonZeroUsize>,
    /// Do all work twice, and compare
    ///
    /// A processor that computes wrongly can protect a file that is whole and authentic, and opens as other bytes. With this option
    /// each piece of work is done again by other kernels of the CPU before anything of it is written. If the results differ, the
    /// command fails and leaves no output. It takes about three times as long. With it, auto is the CPU.
    #[cfg_attr(feature = "clap", arg(long))]
    pub paranoid: bool,
}

/// An engine, by the name that commands and programs give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum EngineName {
    /// The engine that is fastest here for this many bytes (see phalanx engines)
    Auto,
    /// One CPU thread
    Serial,
    /// All CPU threads
    Cpu,
    /// The GPU alone; an error if there is none
    Gpu,
    /// CPU and GPU together; if there is no GPU, or it fails, the CPU alone, with a warning
    Hybrid,
}

impl EngineName {
    /// All of them.
    pub const ALL: [EngineName; 5] =
        [EngineName::Auto, EngineName::Serial, EngineName::Cpu, EngineName::Gpu, EngineName::Hybrid];

    /// The name itself.
    pub fn name(self) -> &'static str {
        match self {
            EngineName::Auto => "auto",
            EngineName::Serial => "serial",
            EngineName::Cpu => "cpu",
            EngineName::Gpu => "gpu",
            EngineName::Hybrid => "hybrid",
        }
    }
}
