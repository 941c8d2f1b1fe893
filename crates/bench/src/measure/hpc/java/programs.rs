//! The programs in Java: where they are, how they are called, and what they tell.

use crate::measure::hpc::cluster::job::Job;
use crate::measure::programs::find;
use crate::measure::setup::HpcOptions;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian's package has MPJ Express.
const MPJ_HOME: &str = "/usr/share/mpj";

/// The programs.
pub struct Java {
    java: PathBuf,
    phalanx: PathBuf,
    phalanx_cluster: PathBuf,
    papers: PathBuf,
    /// Whether MPJ Express is installed, or why nothing can run with it.
    pub mpj: Result<(), String>,
}

impl Java {
    /// Finds them. The error says what is missing.
    pub fn find(options: &HpcOptions) -> Result<Self, String> {
        let java = options.java.clone().or_else(|| find("java")).ok_or("no java")?;
        let folder = options.jars.clone().or_else(built).ok_or("no jars: run mvn -q package in java/")?;
        let jar = |module: &str, name: &str| folder.join(module).join("target").join(name);
        let all = Self {
            java,
            phalanx: jar("phalanx", "phalanx.jar"),
            phalanx_cluster: jar("cluster", "phalanx-cluster.jar"),
            papers: jar("papers", "phalanx-papers.jar"),
            mpj: if mpj_home(options).join("lib/mpj.jar").is_file() { Ok(()) } else { Err("no mpj".into()) },
        };
        match [&all.phalanx, &all.phalanx_cluster, &all.papers].iter().all(|jar| jar.is_file()) {
            true => Ok(all),
            false => Err("no jars: run mvn -q package in java/".into()),
        }
    }

    /// A program of the papers, in one process.
    pub fn papers(&self, class: &str, memory: u64, args: &[&str], paths: &[&Path]) -> Job {
        let jars = [&self.papers, &self.phalanx_cluster, &self.phalanx].map(PathBuf::as_path);
        let mut all = heap(memory);
        all.extend(["-cp".into(), joined(&jars), format!("phalanx.papers.{class}").into()]);
        self.job(1, all, args, paths)
    }

    /// The same, as the processes of MPJ Express.
    pub fn papers_of_mpj(&self, class: &str, processes: usize, memory: u64, args: &[&str], paths: &[&Path]) -> Job {
        let mut all = self.launch(processes);
        all.extend(heap(memory).into_iter().flat_map(|option| ["-J".into(), option]));
        all.extend(["-main".into(), format!("phalanx.papers.mpj.{class}").into(), "-cp".into()]);
        all.push(self.papers.clone().into());
        self.job(processes, all, args, paths)
    }

    /// The command `phalanx.jar`.
    pub fn phalanx(&self, args: &[&str], paths: &[&Path]) -> Job {
        self.job(1, vec!["-jar".into(), self.phalanx.clone().into()], args, paths)
    }

    /// The command `phalanx-cluster.jar`.
    pub fn phalanx_cluster(&self, processes: usize, args: &[&str], paths: &[&Path]) -> Job {
        self.job(processes, self.launch(processes), args, paths)
    }

    fn launch(&self, processes: usize) -> Vec<OsString> {
        let n = processes.to_string();
        let jar = self.phalanx_cluster.clone().into();
        vec!["-jar".into(), jar, "-np".into(), n.into(), "-dev".into(), "niodev".into()]
    }

    fn job(&self, processes: usize, mut all: Vec<OsString>, args: &[&str], paths: &[&Path]) -> Job {
        all.extend(args.iter().map(OsString::from));
        all.extend(paths.iter().map(OsString::from));
        Job::own(processes, &self.java, all)
    }
}

/// The most memory for objects, in bytes, and what the virtual machine needs in any case.
fn heap(memory: u64) -> Vec<OsString> {
    vec![format!("-Xmx{}m", 256 + (memory >> 20) * 5 / 4).into()]
}

fn joined(jars: &[&Path]) -> OsString {
    std::env::join_paths(jars).unwrap_or_default()
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
    let java = options.java.clone().or_else(|| find("java")).and_then(|java| {
        let output = Command::new(java).arg("--version").output().ok()?;
        String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
    });
    let conf = fs::read_to_string(mpj_home(options).join("conf/mpjexpress.conf")).unwrap_or_default();
    let mpj = conf.lines().find_map(|line| line.strip_prefix("mpjexpress.version="));
    java.into_iter().chain(mpj.map(|version| format!("MPJ Express {}", version.trim()))).collect()
}

/// The lines `time THREADS ROUND SECONDS`.
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

    /// Of a number of threads: the first time, and those after it.
    pub fn of(&self, threads: usize) -> (Vec<f64>, Vec<f64>) {
        let of = self.0.iter().filter(|(n, ..)| *n == threads);
        let (cold, warm): (Vec<_>, Vec<_>) = of.partition(|(_, round, _)| *round == 0);
        let seconds = |all: Vec<&(usize, usize, f64)>| all.into_iter().map(|(.., seconds)| *seconds).collect();
        (seconds(cold), seconds(warm))
    }
}
