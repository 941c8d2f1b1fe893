//! The 52 result tables and figures of the five papers, from `figures.json`: what each shows, which rows answer it, and
//! the rules that make sentences and conclusions from them.

use crate::paper::{Paper, p1, p2, p3, p4, p5};
use crate::report::answer::files::Files;
use crate::report::answer::hpc::Hpc;
use crate::report::answer::rules::Rule;
use crate::report::answer::users::Users;
use crate::report::answer::volume::Volume;
use crate::report::answer::{Part, files, hpc, keys, users, volume};
use crate::report::machine::Machine;
use crate::report::text;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A table or figure of a paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The paper: 1 to 5.
    pub paper: usize,
    /// Its number in the paper: "Fig. 3".
    pub number: String,
    pub title: String,
    /// Its axes and series in the paper, and which of its points are printed.
    pub form: String,
    what: What,
    /// The names of its rules.
    rules: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Files(Files),
    Users(Users),
    Occupancy,
    Hpc(Hpc),
    Volume(Volume),
    KeysBySize,
    KeysByThreads,
}

/// A paper's headline, and sentences with the corresponding figures of today. Each has alternatives for when a figure
/// is missing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Headline {
    pub figure: String,
    pub then: String,
    pub now: Vec<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    headlines: Vec<Headline>,
    rules: HashMap<String, Vec<Rule>>,
    figures: Vec<Item>,
}

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| serde_json::from_str(include_str!("figures.json")).expect("figures.json"));

/// All 52 tables and figures, in the order of the papers.
pub fn items() -> &'static [Item] {
    &CATALOGUE.figures
}

/// The headlines, one for each paper.
pub fn headlines() -> &'static [Headline] {
    &CATALOGUE.headlines
}

/// The papers in their order.
pub fn papers() -> [&'static Paper; 5] {
    [p1(), p2(), p3(), p4(), p5()]
}

impl Item {
    /// Its `id` in the page.
    pub fn id(&self) -> String {
        text::id(&format!("p{} {}", self.paper, self.number)).replace("--", "-")
    }

    /// The answer of a machine's rows.
    pub fn answer(&self, machine: &Machine) -> Part {
        let part = match &self.what {
            What::Files(files) => files::answer(files, machine),
            What::Users(users) => users::answer(users, machine),
            What::Occupancy => users::occupancy(),
            What::Hpc(what) => hpc::answer(*what, machine),
            What::Volume(what) => volume::answer(what, machine),
            What::KeysBySize => keys::by_size(machine),
            What::KeysByThreads => keys::by_threads(machine),
        };
        if part.facts.0.is_empty() {
            return part;
        }
        let (said, claims) = part.facts.by(self.rules.iter().flat_map(|name| &CATALOGUE.rules[name]));
        Part { said, claims, ..part }
    }

    /// Whether it is a model, which is the same on every machine.
    pub fn is_model(&self) -> bool {
        matches!(self.what, What::Occupancy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_52_and_each_has_its_own_id() {
        assert_eq!(items().iter().map(Item::id).collect::<BTreeSet<_>>().len(), 52);
        let numbers = |paper: usize, word: &str| {
            let of = items().iter().filter(|item| item.paper == paper && item.number.starts_with(word));
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

    /// All rules belong to a figure, and all figures have rules.
    #[test]
    fn rules_are_used_and_known() {
        let used: BTreeSet<&String> = items().iter().flat_map(|item| &item.rules).collect();
        assert_eq!(used, CATALOGUE.rules.keys().collect());
        assert!(items().iter().all(|item| !item.rules.is_empty()) && CATALOGUE.headlines.len() == 5);
    }
}
