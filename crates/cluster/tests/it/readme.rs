//! The lines of `docs/cluster.md` and `GUIDE.md` that run the program, exactly as printed there.

use crate::common::{Job, PROGRAM, end, painted};
use std::env;
use std::path::Path;

#[test]
fn the_lines_of_the_cluster_guide_run() {
    let Some(job) = Job::new() else { return };
    run(&job, include_str!("../../../../docs/cluster.md"), 7);
    assert!(job.read("back.h5") == job.read("run42.h5"));
    assert!(job.opened("results.phx/a/b.phx") == job.read("results/a/b"));
    assert!(job.opened("backup/a/b.phx") == job.read("results/a/b"));
}

#[test]
fn the_lines_of_the_guide_run() {
    let Some(job) = Job::new() else { return };
    let guide = include_str!("../../../../GUIDE.md");
    let block = guide.split_once("```sh mpi\n").unwrap().1.split_once("\n```").unwrap().0;
    run(&job, guide, block.lines().count());
    assert!(job.opened("project.phx/a/b.phx") == job.read("project/a/b"));
}

/// Runs all lines of a document that begin with `mpirun -n`, with files for them. There must be `count` such lines.
fn run(job: &Job, document: &str, count: usize) {
    job.write("run42.h5", &painted(20 << 20));
    job.write("results/a/b", &painted(7));
    job.write("project/a/b", &painted(7));
    job.write("keys/work.key", &[7; 32]);
    for (name, mode) in [("keys", 0o700), ("keys/work.key", 0o600)] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(job.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [Path::new(PROGRAM).parent().unwrap().to_owned()].into_iter().chain(env::split_paths(&path));
    let lines: Vec<&str> = document.lines().filter(|line| line.starts_with("mpirun -n ")).collect();
    assert_eq!(lines.len(), count);
    let path = env::join_paths(folders).unwrap();
    for line in lines {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let mut command = job.launcher();
        command.args(words).env("PATH", &path);
        let ended = end(command);
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.error);
    }
}
