//! The 52 result tables and figures of the five papers.

use crate::names::study::{ALL_CORES, ONE_CORE};
use crate::paper::{Paper, p1, p2, p3, p4, p5};
use crate::report::answer::files::Files;
use crate::report::answer::hpc::{Hpc, Program};
use crate::report::answer::users::Users;
use crate::report::answer::volume::Volume;
use crate::report::answer::{Part, files, hpc, keys, users, volume};
use crate::report::machine::Machine;
use crate::report::text;

/// A table or figure of a paper.
pub struct Item {
    /// The paper: 1 to 5.
    pub paper: usize,
    /// Its number in the paper: "Fig. 3".
    pub number: String,
    /// What it shows.
    pub title: String,
    /// Its axes and series in the paper, and which of its points are printed.
    pub form: String,
    what: What,
}

enum What {
    Files(Files),
    Users(Users),
    Occupancy,
    Hpc(Hpc),
    Volume(Volume),
    KeysBySize,
    KeysByThreads,
}

impl Item {
    /// Its place in the page.
    pub fn id(&self) -> String {
        text::id(&format!("p{} {}", self.paper, self.number)).replace("--", "-")
    }

    /// What a machine's rows answer.
    pub fn answer(&self, machine: &Machine) -> Part {
        match self.what {
            What::Files(files) => files::answer(files, machine),
            What::Users(users) => users::answer(users, machine),
            What::Occupancy => users::occupancy(),
            What::Hpc(what) => hpc::answer(what, machine),
            What::Volume(what) => volume::answer(what, machine),
            What::KeysBySize => keys::by_size(machine),
            What::KeysByThreads => keys::by_threads(machine),
        }
    }

    /// Whether it is a model, the same on every machine.
    pub fn is_model(&self) -> bool {
        matches!(self.what, What::Occupancy)
    }
}

/// The papers in their order.
pub fn papers() -> [&'static Paper; 5] {
    [p1(), p2(), p3(), p4(), p5()]
}

/// All 52, in the order of the papers.
pub fn items() -> Vec<Item> {
    let mut all = Vec::new();
    all.extend(files());
    all.extend(users());
    all.extend(hpc());
    all.extend(volume());
    all.extend(keys());
    all
}

fn item(
    paper: usize,
    number: impl Into<String>,
    title: impl Into<String>,
    form: impl Into<String>,
    what: What,
) -> Item {
    Item { paper, number: number.into(), title: title.into(), form: form.into(), what }
}

/// P1: five figures for each direction on each platform, in the same order.
fn files() -> Vec<Item> {
    let mut all = Vec::new();
    for platform in [1, 2] {
        for operation in ["protect", "unprotect"] {
            for (measure, is_speedup) in
                [("total", false), ("AES", false), ("hash", false), ("total", true), ("AES", true)]
            {
                let ing = if operation == "protect" { "protecting" } else { "unprotecting" };
                let what = match (measure, operation) {
                    ("total", _) => ing.to_owned(),
                    ("AES", "protect") => "encryption alone".into(),
                    ("AES", _) => "decryption alone".into(),
                    _ => format!("hashing alone, {ing}"),
                };
                let kind = if is_speedup { "Speedup" } else { "Speed" };
                let title = format!("{kind} of {what}, platform {platform}");
                let axes = "x: 14 files from 5.61 KB to 598 MB";
                let (y, printed) = match (is_speedup, measure) {
                    (true, _) => {
                        ("y: times one thread; three series: CPU, GPU, hybrid", "only the means over 12.5 to 598 MB")
                    }
                    (false, "hash") => ("y: speed; four series that coincide", "only one speed for all"),
                    (false, _) if platform == 2 && operation == "unprotect" => {
                        ("y: speed; four series: serial, CPU, GPU, hybrid", "only the means over 12.5 to 598 MB")
                    }
                    (false, "AES") if platform == 2 => {
                        ("y: speed; four series: serial, CPU, GPU, hybrid", "2.21 MB and the means over 12.5 to 598 MB")
                    }
                    _ => (
                        "y: speed; four series: serial, CPU, GPU, hybrid",
                        "the four smallest files and the means over 12.5 to 598 MB",
                    ),
                };
                let form = format!("{axes}; {y}. The paper draws all points and prints {printed}.");
                let number = format!("Fig. {}", 3 + all.len());
                all.push(item(1, number, title, form, What::Files(Files { platform, operation, measure, is_speedup })));
            }
        }
    }
    all
}

fn users() -> Vec<Item> {
    let mut all = Vec::new();
    for (number, (platform, shape)) in (2..).zip([(1, "regular"), (1, "irregular"), (2, "regular"), (2, "irregular")]) {
        let lengths = if shape == "regular" { "lengths that are multiples of a slice" } else { "any lengths" };
        let title = format!("Speed of seven ways to encrypt many users' data, {lengths}, platform {platform}");
        let form = "x: 5 to 10,000 users; y: speed; seven series: GCS, GCNS, GNC, CCS, CCNS, CNC, SR. The paper draws all points \
                    and prints only the means over all numbers of users: dashed lines.";
        all.push(item(2, format!("Fig. {number}"), title, form, What::Users(Users { platform, shape })));
    }
    let form = "One line for each size of a block: 256, 512, 1024. All figures are printed.";
    all.push(item(2, "Table III", "Occupancy of a GPU of compute capability 3.0 or 3.5 by GCS", form, What::Occupancy));
    all
}

fn hpc() -> Vec<Item> {
    use Program::{Cuda, Java, JavaCluster, Mpich, OpenMp};
    let all_printed = "All figures are printed.";
    let table = |number: u32, title: &str, form: &str, what: Hpc| {
        item(3, format!("Table 5.{number}"), title, form.to_owned() + all_printed, What::Hpc(what))
    };
    let by_size = "Columns: files of 107, 207, 654 and 1080 MB. ";
    let by_threads = "Lines: 1 to 16 threads; columns: files of 107, 207, 654 and 1080 MB. ";
    let by_processes = "Lines: 1 to 31 processes; columns: files of 107, 207, 654 and 1080 MB. ";
    let figure = |number: u32, title: &str, x: &str, y: &str, from: &str, what: Hpc| {
        let form = format!("x: {x}; y: {y}; one series for each of four files, here in panels of their own. {from}");
        item(3, format!("Fig. 5.{number}"), title, form, What::Hpc(what))
    };
    let (threads, processes) = ("1 to 16 threads", "1 to 31 processes");
    let times = |n: u32| format!("Its points are the times of Table 5.{n}.");
    let quotients = |n: u32| format!("The paper only draws; the dashed points are size / time of Table 5.{n}.");
    vec![
        table(1, "Time of Java threads on one node", by_threads, Hpc::Times(Java)),
        table(2, "Speedup and efficiency of Java threads", by_size, Hpc::Speedup(Java)),
        figure(1, "Time of Java threads on one node", threads, "ms", &times(1), Hpc::Time(Java)),
        figure(
            2,
            "Throughput of Java threads on one node",
            threads,
            "throughput",
            &quotients(1),
            Hpc::Throughput(Java),
        ),
        table(3, "Time of Java with MPJ Express on a cluster", by_processes, Hpc::Times(JavaCluster)),
        table(4, "Speedup of Java on a cluster of 31 nodes", by_size, Hpc::Speedup(JavaCluster)),
        figure(3, "Time of Java on a cluster", processes, "ms", &times(3), Hpc::Time(JavaCluster)),
        figure(
            4,
            "Throughput of Java on a cluster",
            processes,
            "throughput",
            &quotients(3),
            Hpc::Throughput(JavaCluster),
        ),
        table(5, "Time of C with OpenMP on one node", by_threads, Hpc::Times(OpenMp)),
        table(6, "Speedup and efficiency of OpenMP", by_size, Hpc::Speedup(OpenMp)),
        figure(5, "Time of OpenMP on one node", threads, "ms", &times(5), Hpc::Time(OpenMp)),
        figure(6, "Throughput of OpenMP on one node", threads, "throughput", &quotients(5), Hpc::Throughput(OpenMp)),
        table(7, "Time of C with MPICH on a cluster", by_processes, Hpc::Times(Mpich)),
        table(8, "Speedup of MPICH on a cluster of 31 nodes", by_size, Hpc::Speedup(Mpich)),
        figure(7, "Time of MPICH on a cluster", processes, "ms", &times(7), Hpc::Time(Mpich)),
        figure(8, "Throughput of MPICH on a cluster", processes, "throughput", &quotients(7), Hpc::Throughput(Mpich)),
        table(
            9,
            "Time of CUDA by GPU threads",
            "Lines: 1,000 to 50 million GPU threads; columns: files of 107, 207, 654 and 1080 MB. ",
            Hpc::Times(Cuda),
        ),
        table(
            10,
            "Speedups of all programs beside each other",
            "Lines: five programs; columns: four files. ",
            Hpc::All,
        ),
        figure(
            12,
            "Speedup of CUDA by GPU threads",
            "1,000 to 50 million GPU threads",
            "times one CPU thread",
            "The paper only draws; the dashed points are the quotients of Tables 5.5 and 5.9.",
            Hpc::ByGpuThreads,
        ),
    ]
}

fn volume() -> Vec<Item> {
    let drawn = "x: size of the data; y: speed; series: CPU and GPU. The paper draws two such graphs of encryption and prints no \
                 point of them, only what both show together:";
    vec![
        item(
            4,
            "Fig. 2.0",
            "Encryption speed by size: where the GPU passes the CPU",
            format!("{drawn} a large overhead for little data, and a GPU that is faster from about 16 KB."),
            What::Volume(Volume::Crossing),
        ),
        item(
            4,
            "Fig. 2.1",
            "Encryption speed by size: how much faster the GPU is where both are steady",
            format!("{drawn} both steady a little above 1 MB, the GPU about 6 times as fast."),
            What::Volume(Volume::Plateau),
        ),
        item(
            4,
            "RQ1 a",
            "Is the GPU faster than one core?",
            "Ratios for AES-128, 192 and 256 at two sizes, all printed.",
            What::Volume(Volume::Faster(ONE_CORE)),
        ),
        item(
            4,
            "RQ1 b",
            "Is the GPU faster than many cores?",
            "Ratios for AES-128, 192 and 256 at two sizes, all printed.",
            What::Volume(Volume::Faster(ALL_CORES)),
        ),
        item(
            4,
            "RQ2",
            "Do CUDA streams help?",
            "Answered in words: no gain at 32,000 bytes, a gain above five times that.",
            What::Volume(Volume::Streams),
        ),
        item(
            4,
            "RQ3",
            "Which implementation is the fastest?",
            "Answered in words: the GPU with granularity 2, 32 bytes a thread.",
            What::Volume(Volume::Fastest),
        ),
    ]
}

fn keys() -> Vec<Item> {
    vec![
        item(
            5,
            "Table I",
            "Time of the key's hash and AES in three modes, by size",
            "Lines: 1 KB to 1 GB; columns: CPU, GPU and CPU-GPU mode, 64 threads a block. All figures are printed.",
            What::KeysBySize,
        ),
        item(
            5,
            "Table II",
            "The same by threads a block",
            "Lines: 100 MB and 1 GB with 128 to 1024 threads a block; columns: GPU and CPU-GPU mode. All figures are printed.",
            What::KeysByThreads,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_52_and_each_has_a_place_of_its_own() {
        let items = items();
        let counts: Vec<usize> = (1..=5).map(|paper| items.iter().filter(|item| item.paper == paper).count()).collect();
        assert_eq!(counts, [20, 5, 19, 6, 2]);
        assert_eq!(items.iter().map(Item::id).collect::<BTreeSet<_>>().len(), 52);
        let numbers = |paper: usize, word: &str| {
            let of = items.iter().filter(|item| item.paper == paper && item.number.starts_with(word));
            of.map(|item| item.number[word.len()..].trim().to_owned()).collect::<Vec<_>>()
        };
        let count = |from: u32, to: u32| (from..=to).map(|n| n.to_string()).collect::<Vec<_>>();
        assert_eq!(numbers(1, "Fig."), count(3, 22));
        assert_eq!(numbers(2, "Fig."), count(2, 5));
        assert_eq!(numbers(2, "Table"), ["III"]);
        assert_eq!(numbers(3, "Table"), (1..=10).map(|n| format!("5.{n}")).collect::<Vec<_>>());
        assert_eq!(numbers(3, "Fig."), ["5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8", "5.12"]);
        assert_eq!(numbers(4, "Fig."), ["2.0", "2.1"]);
        assert_eq!(numbers(4, "RQ"), ["1 a", "1 b", "2", "3"]);
        assert_eq!(numbers(5, "Table"), ["I", "II"]);
    }
}
