//! `phalanx version`: one line, or everything that a bug report needs.

use super::engines::Device;
use phalanx_host::args::{EngineArgs, EngineName};
use phalanx_host::engines;
use phalanx_host::failure::Outcome;
use phalanx_host::say::say;
use phalanx_host::verbosity::Verbosity;

pub fn run(verbosity: Verbosity) -> Outcome {
    say(concat!("phalanx ", env!("CARGO_PKG_VERSION")))?;
    if verbosity.verbose { details(verbosity)?.into_iter().try_for_each(say) } else { Ok(()) }
}

fn details(verbosity: Verbosity) -> Outcome<Vec<String>> {
    let levels = engines::levels()?;
    let threads = engines::threads(&EngineArgs { engine: EngineName::Auto, threads: None, paranoid: false });
    let survey = engines::survey(true, verbosity);
    let of_device = if survey.found.is_some() { ", gpu, hybrid" } else { "" };
    let mut lines = vec![
        concat!("commit  ", env!("BUILT_FROM"), ", ", env!("BUILT_BY")).to_owned(),
        format!("kernels AES {}, SHA-3 {}", levels.aes, levels.keccak),
        format!("engines serial, cpu ({threads} {}){of_device}", if threads == 1 { "thread" } else { "threads" }),
    ];
    lines.extend(survey.devices.iter().map(|device| Device::from(device).line()));
    lines.extend(survey.absent.iter().map(|why| format!("none    {why}")));
    Ok(lines)
}
