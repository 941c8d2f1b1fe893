//! The programs in Java: where they are, how they are called, and what they report.

use crate::measure::hpc::cluster::job::Job;
use crate::measure::programs::{find, first_line, require};
use crate::measure::setup::HpcOptions;
use crate::measure::{Error, Result};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of MPJ Express in Debian's package.
const MPJ_HOME: &str = "/usr/share/mpj";

pub struct Java {
    java: PathBuf,
    phalanx: PathBuf,
    phalanx_cluster: PathBuf,
    papers: PathBuf,
    pub has_mpj: bool,
}

impl Java {
    /// Finds the programs. The error names what is missing.
    pub fn find(options: &HpcOptions) -> Result<Self> {
        let no_jars = || Error::NotRun("no jars: run mvn -q package in java/".into());
        let java = options.java.clone().map_or_else(|| require("java"), Ok)?;
        let folder = options.jars.clone().or_else(built).ok_or_else(no_jars)?;
        let jar = |module: &str, name: &str| {
            Some(folder.join(module).join("target").join(name)).filter(|jar| jar.is_file()).ok_or_else(no_jars)
        };
        Ok(Self {
            java,
            phalanx: jar("phalanx", "phalanx.jar")?,
            phalanx_cluster: jar("cluster", "phalanx-cluster.jar")?,
            papers: jar("papers", "phalanx-papers.jar")?,
            has_mpj: mpj_home(options).join("lib/mpj.jar").is_file(),
        })
    }

    /// A program of the papers, in one process.
    pub fn papers(&self, class: &str, memory: u64, args: &[&str], paths: &[&Path]) -> Job {
        let jars = std::env::join_paths([&self.papers, &self.phalanx_cluster, &self.phalanx]).unwrap_or_default();
        let mut all = vec![heap(memory), "-cp".into(), jars, format!("phalanx.papers.{class}").into()];
        all.extend(args.iter().map(OsString::from).chain(paths.iter().map(OsString::from)));
        Job::own(1, &self.java, all)
    }

    /// A program of the papers, as the processes of MPJ Express.
    pub fn papers_of_mpj(&self, class: &str, processes: usize, memory: u64, args: &[&str], paths: &[&Path]) -> Job {
        let mut all = vec!["-J".into(), heap(memory), "-main".into()];
        all.extend([format!("phalanx.papers.mpj.{class}").into(), "-cp".into(), self.papers.clone().into()]);
        all.extend(args.iter().map(OsString::from).chain(paths.iter().map(OsString::from)));
        self.phalanx_cluster(processes, all)
    }

    /// The command `phalanx.jar`.
    pub fn phalanx(&self, args: impl IntoIterator<Item = OsString>) -> Job {
        Job::own(1, &self.java, ["-jar".into(), self.phalanx.clone().into()].into_iter().chain(args))
    }

    /// The command `phalanx-cluster.jar`.
    pub fn phalanx_cluster(&self, processes: usize, args: impl IntoIterator<Item = OsString>) -> Job {
        let (jar, n) = (self.phalanx_cluster.clone().into(), processes.to_string().into());
        let all = ["-jar".into(), jar, "-np".into(), n, "-dev".into(), "niodev".into()];
        Job::own(processes, &self.java, all.into_iter().chain(args))
    }
}

/// The option for the most memory for objects, in bytes, and what the virtual machine needs in any case.
fn heap(memory: u64) -> OsString {
    format!("-Xmx{}m", 256 + (memory >> 20) * 5 / 4).into()
}

fn mpj_home(options: &HpcOptions) -> PathBuf {
    options.mpj_home.clone().unwrap_or_else(|| MPJ_HOME.into())
}

/// The folder `java` of the sources that this program was built from, or of the folder that it is started in.
fn built() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folders = program.ancestors().skip(1).map(Path::to_owned).chain(std::env::current_dir());
    folders.map(|folder| folder.join("java")).find(|java| java.join("phalanx/target/phalanx.jar").is_file())
}

/// The versions of Java and of MPJ Express.
pub fn versions(options: &HpcOptions) -> Vec<String> {
    let java = options.java.clone().or_else(|| find("java"));
    let java = java.and_then(|java| first_line(Command::new(java).arg("--version")));
    let conf = fs::read_to_string(mpj_home(options).join("conf/mpjexpress.conf")).unwrap_or_default();
    let mpj = conf.lines().find_map(|line| line.strip_prefix("mpjexpress.version="));
    java.into_iter().chain(mpj.map(|version| format!("MPJ Express {}", version.trim()))).collect()
}

/// The times of a program, from lines `time THREADS ROUND SECONDS`.
pub struct Times(Vec<(usize, usize, f64)>);

impl Times {
    pub fn read(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.strip_prefix("time ")?.split(' ');
            let mut next = || words.next();
            Some((next()?.parse().ok()?, next()?.parse().ok()?, next()?.trim().parse().ok()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// The times with this number of threads: the first one, and those after it.
    pub fn of(&self, threads: usize) -> (Vec<f64>, Vec<f64>) {
        let of = self.0.iter().filter(|(n, ..)| *n == threads);
        let (cold, warm): (Vec<_>, Vec<_>) = of.partition(|(_, round, _)| *round == 0);
        let seconds = |all: Vec<&(usize, usize, f64)>| all.into_iter().map(|(.., seconds)| *seconds).collect();
        (seconds(cold), seconds(warm))
    }
}
