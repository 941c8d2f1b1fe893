//! The commands of `phalanx-bench`.

mod args;
mod device;
mod experiments;
mod failure;
mod sefps_file;

use args::Command;
use failure::{Code, Failure, Outcome};
use phalanx_host::file;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::thread;

/// Runs the command line of this process.
pub fn run() -> Outcome {
    let args = args::parse()?;
    clean_up_on_signals()?;
    match args.command {
        Command::Run(runs) => experiments::run(&runs.into(), args.verbosity),
        Command::Report { folder, merge, documents, index } => {
            experiments::report(&folder, &merge, &documents, index, args.verbosity)
        }
        Command::Copy(copy) => experiments::copy(&copy),
        Command::Device(command) => device::run(&command),
        Command::SefpsFile(command) => sefps_file::run(command),
    }
}

/// Sets what happens on Ctrl-C and similar signals: incomplete files are removed, the report of what is done is
/// written, and the process ends with the signal.
fn clean_up_on_signals() -> Outcome {
    let failed = |e| Failure::new(Code::Other, format!("cannot catch signals: {e}"));
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]).map_err(failed)?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            // Jobs end before their files are removed, because they would go on without them.
            phalanx_bench::measure::hpc::cluster::end_all();
            phalanx_bench::measure::service::end_all();
            // Mounts end before the folders are removed, so that nothing is removed through a mount.
            let _none_is_mounted = phalanx_bench::measure::mounted::unmount_all();
            let _none_begins = (file::remove_unfinished(), phalanx_bench::measure::scratch::remove_unfinished());
            phalanx_bench::run::report_unfinished();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map_err(failed)?;
    Ok(())
}
