//! The runner: runs the experiments, and writes their rows into one record.

use crate::error::{Error, Result};
use crate::measure::scratch::Scratch;
use crate::measure::setup::{HpcPart, Setup, VolumePart};
use crate::measure::steps::{Step, Watch, run_steps};
use crate::measure::{hpc, keys, load, machine, peers, sefps, service, users, volume};
use crate::record::Record;
use crate::report;
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An experiment, named by its paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// P1: files protected in SEFPS's layout, and in Phalanx's format.
    Sefps,
    /// P2: many users' data, each under its own key.
    Users,
    /// P3: files encrypted by many threads, and by the processes of a cluster.
    Hpc,
    /// P4: AES by the size of the data on CPU and GPU, its ciphertext, and mounted volumes.
    Volume,
    /// P5: digests of keys, and keys found by them.
    Keys,
    /// Whole commands compared with other programs.
    Peers,
    /// The server, beside other servers.
    Service,
}

impl Experiment {
    /// Every experiment but that of the server, which needs the machine for itself and programs that are not built with
    /// this one. They are in the order in which all are run.
    pub const ALL: &[Experiment] = &[
        Experiment::Sefps,
        Experiment::Users,
        Experiment::Hpc,
        Experiment::Volume,
        Experiment::Keys,
        Experiment::Peers,
    ];

    fn steps<'a>(self, setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
        match self {
            Experiment::Sefps => sefps::steps(setup, scratch),
            Experiment::Users => users::steps(setup),
            Experiment::Hpc => hpc::steps(setup, scratch),
            Experiment::Volume => volume::steps(setup, scratch),
            Experiment::Keys => keys::steps(setup),
            Experiment::Peers => peers::steps(setup, scratch),
            Experiment::Service => service::steps(setup, scratch),
        }
    }
}

/// The folder of the run that is in progress.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the report of a run that ends early, with what it has so far. A failure to do so is not reported.
pub fn report_unfinished() {
    if let Some(out) = unfinished().take() {
        let _ = report::write(&out);
    }
}

/// What the experiments need that this machine lacks, and the versions of the programs that they call.
fn programs(experiments: &[Experiment], setup: &Setup) -> (Vec<String>, Vec<String>) {
    let has = |experiment| experiments.contains(&experiment);
    let (mut missing, mut versions) = (Vec::new(), Vec::new());
    if has(Experiment::Peers) {
        missing.extend(peers::missing(setup));
        versions.extend(peers::programs::versions());
    }
    if has(Experiment::Service) {
        missing.extend(service::missing(&setup.service));
        versions.extend(service::versions(&setup.service));
    }
    if has(Experiment::Volume) && setup.volume.has(VolumePart::Mounts) {
        missing.extend(volume::mounts::missing(setup));
        versions.extend(volume::mounts::versions());
    }
    if has(Experiment::Hpc) && setup.hpc.has(HpcPart::Cluster) {
        missing.extend(hpc::cluster::missing(&setup.hpc));
        versions.extend(hpc::cluster::versions(&setup.hpc));
    }
    if has(Experiment::Hpc) && setup.hpc.has(HpcPart::Java) {
        missing.extend(hpc::java::missing(&setup.hpc));
        versions.extend(hpc::java::programs::versions(&setup.hpc));
    }
    if experiments != [Experiment::Service] {
        missing.extend(setup.device.as_ref().err().map(|why| format!("a device ({why})")));
    }
    for all in [&mut missing, &mut versions] {
        let mut known = HashSet::new();
        all.retain(|name: &String| known.insert(name.clone()));
    }
    (missing, versions)
}

/// Runs the experiments, and writes the report, even if an experiment fails.
pub fn run(experiments: &[Experiment], setup: &Setup, watch: &dyn Watch) -> Result<()> {
    fs::create_dir_all(&setup.out).map_err(Error::at(&setup.out))?;
    let (missing, peers) = programs(experiments, setup);
    load::adopt();
    let mut record = Record::open(&setup.out, setup.resume, machine::head(setup, peers))?;
    let scratch = Scratch::new(&setup.out)?;
    let mut steps = Vec::new();
    for experiment in experiments {
        steps.extend(experiment.steps(setup, &scratch)?);
    }
    *unfinished() = Some(setup.out.clone());
    watch.missing(&missing);
    let done = run_steps(&mut record, steps, watch);
    drop(scratch);
    *unfinished() = None;
    let written = report::write(&setup.out);
    done.and(written)
}

#[cfg(test)]
pub mod tests;
