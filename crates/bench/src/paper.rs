//! The papers' printed figures, from `papers/`, whose README explains each field.
#![allow(missing_docs, reason = "papers/README.md documents the fields")]

pub mod equations;
pub mod occupancy;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

macro_rules! paper {
    ($name:ident, $file:literal, $title:literal) => {
        #[doc = $title]
        pub fn $name() -> &'static Paper {
            static PAPER: LazyLock<Paper> = LazyLock::new(|| {
                let text = include_str!(concat!("../papers/", $file));
                serde_json::from_str(text).unwrap_or_else(|e| panic!("{}: {e}", $file))
            });
            &PAPER
        }
    };
}

paper!(p1, "p1-sefps.json", "SEFPS (Fei et al., 2016).");
paper!(p2, "p2-users.json", "Parallel AES for the data of many users (Fei et al.).");
paper!(p3, "p3-hpc.json", "AES with MPJ Express and others (Tahir, 2017).");
paper!(p4, "p4-gpufs.json", "A GPU file system with AES (Marathe).");
paper!(p5, "p5-keys.json", "AES with a hash of the key (Unnikrishnan and Ramesh).");

/// One paper's data file.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    pub paper: String,
    pub title: String,
    pub authors: Vec<String>,
    pub year: Option<u32>,
    pub venue: Option<String>,
    pub platforms: Vec<Platform>,
    pub experiments: Vec<Experiment>,
    pub sweeps: Vec<Sweep>,
    pub settings: Vec<Setting>,
    pub parameters: Vec<Parameter>,
    pub corrections: BTreeMap<String, String>,
    pub doubts: BTreeMap<String, String>,
    /// Faults and facts that do not concern a single figure.
    pub notes: Vec<BTreeMap<String, String>>,
    /// The parts of the paper that are not in the file.
    pub left_out: Vec<BTreeMap<String, String>>,
    pub values: Vec<Value>,
}

/// A machine of the paper's.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    pub id: String,
    pub gpu: Option<String>,
    pub cpu: Option<String>,
    pub disk: Option<String>,
    pub r#where: String,
}

/// What the paper measured.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    pub id: String,
    pub about: String,
    pub runs: Option<u32>,
    pub r#where: String,
}

/// What was varied.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    pub experiments: Vec<String>,
    pub over: String,
    pub printed: Vec<String>,
    pub values: Vec<serde_json::Value>,
    pub names: Option<Vec<String>>,
    pub r#where: String,
}

/// A fact that is not a number.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub name: String,
    pub text: String,
    pub r#where: String,
}

/// A number that went into an experiment or a model.
#[derive(Deserialize, Debug)]
pub struct Parameter {
    pub name: String,
    pub symbol: Option<String>,
    pub platform: Option<String>,
    pub program: Option<String>,
    pub engine: Option<String>,
    #[serde(flatten)]
    pub figure: Figure,
}

/// A measured or derived figure.
#[derive(Deserialize, Debug)]
pub struct Value {
    pub experiment: String,
    pub platform: Option<String>,
    pub program: Option<String>,
    pub printed_program: Option<String>,
    pub engine: Option<String>,
    pub over: Option<String>,
    pub case: Case,
    pub measure: String,
    #[serde(flatten)]
    pub figure: Figure,
}

/// The input that a figure belongs to.
#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub size: Option<String>,
    pub bytes: Option<u64>,
    pub bytes_range: Option<[u64; 2]>,
    pub users: Option<u64>,
    pub users_range: Option<[u64; 2]>,
    pub data: Option<String>,
    pub threads: Option<u64>,
    pub processes: Option<u64>,
    pub threads_per_process: Option<u64>,
    pub gpu_threads: Option<u64>,
    pub threads_per_block: Option<u64>,
    pub blocks: Option<u64>,
    pub compute_capability: Option<String>,
    pub key_bits: Option<u64>,
}

/// A number as printed, and as corrected.
#[derive(Deserialize, Debug)]
pub struct Figure {
    #[serde(default)]
    pub about: bool,
    pub printed: f64,
    pub printed_unit: String,
    pub value: Option<f64>,
    pub unit: Option<String>,
    #[serde(default)]
    pub why: Vec<String>,
    #[serde(default)]
    pub doubt: Vec<String>,
    pub r#where: String,
}

/// A printed figure beside a measured one, corrected if necessary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Printed {
    /// The paper, its platform and its program.
    pub by: String,
    pub measure: String,
    pub value: f64,
    pub unit: String,
    /// The number and unit as printed, if they were corrected.
    pub as_printed: Option<String>,
    /// Corrections and their reasons, and doubts.
    pub why: Vec<String>,
    pub r#where: String,
}

impl Value {
    /// The figure, corrected if necessary.
    pub fn number(&self) -> f64 {
        self.figure.value.unwrap_or(self.figure.printed)
    }
}

impl Paper {
    /// A parameter by its symbol. A parameter without a platform belongs to every platform.
    pub fn parameter(&self, symbol: &str, platform: Option<&str>) -> Option<f64> {
        let is_it = |p: &&Parameter| {
            p.symbol.as_deref() == Some(symbol) && (p.platform.is_none() || p.platform.as_deref() == platform)
        };
        self.parameters.iter().find(is_it).map(|p| p.figure.value.unwrap_or(p.figure.printed))
    }

    /// What was varied in an experiment over a field: as printed, and as numbers.
    ///
    /// # Panics
    /// If the file has no such sweep.
    pub fn sweep(&self, experiment: &str, over: &str) -> Vec<(&str, u64)> {
        let is_it = |s: &&Sweep| s.over == over && s.experiments.iter().any(|e| e == experiment);
        let sweep = self.sweeps.iter().find(is_it).unwrap_or_else(|| panic!("{}: no sweep over {over}", self.paper));
        let number = |v: &serde_json::Value| v.as_u64().expect("a whole number");
        sweep.printed.iter().map(String::as_str).zip(sweep.values.iter().map(number)).collect()
    }

    /// The first figure for which `wanted` is true.
    pub fn number(&self, wanted: impl Fn(&Value) -> bool) -> Option<f64> {
        self.values.iter().find(|v| wanted(v)).map(Value::number)
    }

    /// The printed figures for which `wanted` is true.
    pub fn printed(&self, wanted: impl Fn(&Value) -> bool) -> Vec<Printed> {
        self.values.iter().filter(|v| wanted(v)).map(|v| self.beside(v)).collect()
    }

    fn beside(&self, value: &Value) -> Printed {
        let Value { figure, .. } = value;
        let platform = value.platform.as_ref().map(|p| format!(" platform {p}")).unwrap_or_default();
        let program = value.program.as_ref().map(|p| format!(" {p}")).unwrap_or_default();
        let sentence = |from: &BTreeMap<String, String>, name: &String| from[name].clone();
        let why = figure.why.iter().map(|name| sentence(&self.corrections, name));
        let doubt = figure.doubt.iter().map(|name| format!("Doubtful: {}", sentence(&self.doubts, name)));
        Printed {
            by: format!("{}{platform}{program}", self.paper),
            measure: value.measure.clone(),
            value: value.number(),
            unit: figure.unit.clone().unwrap_or_else(|| figure.printed_unit.clone()),
            as_printed: figure.value.map(|_| format!("{} {}", figure.printed, figure.printed_unit)),
            why: why.chain(doubt).collect(),
            r#where: figure.r#where.clone(),
        }
    }
}
