//! One of the processes that try cases.

use crate::compare;
use crate::faults;
use crate::model::{self, Allowed, Reference, Verdict};
use crate::random::Random;
use crate::runner::{Ended, Run, Runner};
use crate::scenario::{self, Scenario};
use crate::tree::{Entry, Tree};
use crate::view::Eye;
use crate::volume::Script;
use crate::world::{Fault, KILLED, Kind, MOST_FAULTS, Met};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How many power cuts are tried at each operation.
const CUTS: u64 = 3;
/// How many states of the disk are drawn after each.
const STATES: u64 = 6;
/// Among how many operations after a fault the next one mostly is.
const SOON: usize = 6;
/// How many faults of each command are compared with the program.
const SAMPLES: usize = 6;

fn kill(at: usize) -> Fault {
    Fault { at: at as u32, kind: Kind::Kill, value: 0 }
}

struct Worker {
    /// The states, by their hashes, from which the next run was seen to complete the work.
    recovered: HashSet<u64>,
    runner: Runner,
    eye: Eye,
    counts: BTreeMap<(String, &'static str), u64>,
    /// Failures of the same kind are printed once.
    told: BTreeSet<String>,
    verbose: bool,
}

/// The exit code of a worker that was given the name of no scenario.
pub const UNKNOWN: u8 = 2;

/// The arguments: a folder, the seed, seconds, the number of this worker and of all, and options.
pub fn main(args: &[String]) -> ExitCode {
    let number = |at: usize| args[at].parse::<u64>().expect("a number");
    let (seed, seconds, me, all) = (number(1), number(2), number(3) as usize, number(4) as usize);
    let option = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)).unwrap_or("").to_owned();
    let (only, again) = (option("only="), option("again="));
    let mut runner = Runner::new(Path::new(&args[0])).expect("a folder");
    let mut scenarios = scenario::all(&mut runner, seed, &format!("{only} {again}"));
    let asked = only.split(',').filter(|_| !only.is_empty()).chain(again.split_whitespace().next());
    let unknown: Vec<&str> = asked.filter(|name| scenarios.iter().all(|scenario| scenario.name != *name)).collect();
    if !unknown.is_empty() {
        if me == 0 {
            let names: Vec<&str> = scenarios.iter().map(|scenario| scenario.name).collect();
            eprintln!("no such scenario: {}; there are {}", unknown.join(", "), names.join(", "));
        }
        return ExitCode::from(UNKNOWN);
    }
    scenarios.retain(|scenario| only.is_empty() || only.split(',').any(|name| name == scenario.name));
    let mut worker = Worker {
        runner,
        eye: Eye::new(),
        counts: BTreeMap::new(),
        told: BTreeSet::new(),
        recovered: HashSet::new(),
        verbose: !again.is_empty(),
    };
    if !again.is_empty() {
        return worker.again(&scenarios, &again);
    }
    // Every single fault takes as long as it takes.
    let once = option("once=") == "true";
    let until = Instant::now() + Duration::from_secs(if once { 3600 } else { seconds });
    let mut known = Vec::new();
    for scenario in &scenarios {
        match Reference::of(&mut worker.runner, &worker.eye, scenario) {
            Ok(reference) => known.push((scenario, reference)),
            Err(why) => worker.tell(scenario, &[], "", &why),
        }
    }
    if me == 0 {
        let ops: usize = known.iter().map(|(_, reference)| reference.ops.len()).sum();
        println!("{} commands, {ops} operations", known.len());
    }
    let program = option("compare=");
    if !program.is_empty() {
        return worker.compare(&known, Path::new(&program), seed);
    }
    let is_whole = option("random=") == "true" || worker.each(&known, seed, me, all, until);
    if me == 0 && !is_whole {
        println!("there was no time for every single fault");
    }
    if !known.is_empty() && !once {
        worker.at_random(&known, seed, me, all, until);
    }
    for ((scenario, kind), count) in &worker.counts {
        println!("count {scenario} {kind} {count}");
    }
    if worker.told.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Worker {
    /// Every fault at every operation once, in an order that depends on the seed. Whether there was time for all.
    fn each(&mut self, known: &[(&Scenario, Reference)], seed: u64, me: usize, all: usize, until: Instant) -> bool {
        let mut cases: Vec<(usize, Option<Fault>, Option<u64>)> = Vec::new();
        for (number, (_, reference)) in known.iter().enumerate() {
            cases.extend((0..4 * CUTS).map(|seed| (number, None, Some(seed))));
            for (at, op) in reference.ops.iter().enumerate() {
                cases.extend((0..CUTS).map(|seed| (number, Some(kill(at)), Some(seed))));
                let fault = |(kind, value)| Fault { at: at as u32, kind, value };
                cases.extend(faults::of(op).into_iter().map(|one| (number, Some(fault(one)), None)));
            }
        }
        let mut random = Random::new(seed);
        for at in (1..cases.len()).rev() {
            cases.swap(at, random.below(at + 1));
        }
        for (number, fault, cut) in cases.into_iter().skip(me).step_by(all) {
            if Instant::now() > until {
                return false;
            }
            let (scenario, reference) = &known[number];
            self.case(scenario, reference, fault.as_slice(), cut);
        }
        true
    }

    /// Power cuts at random, and two to four faults.
    fn at_random(&mut self, known: &[(&Scenario, Reference)], seed: u64, me: usize, all: usize, until: Instant) {
        for case in (me as u64..).step_by(all) {
            if Instant::now() > until {
                return;
            }
            let mut random = Random::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(case));
            let (scenario, reference) = random.of(known);
            if random.chance(3) {
                self.random_cut(scenario, reference, &mut random);
            } else {
                self.several(scenario, reference, &mut random);
            }
        }
    }

    /// Several faults. Each one after the first is of an operation that the run makes after those before: to see which these are,
    /// it is run with those before.
    fn several(&mut self, scenario: &Scenario, reference: &Reference, random: &mut Random) {
        let mut faults = vec![faults::random(random, &reference.ops, 0..reference.ops.len())];
        while faults.len() < 2 || random.chance(3) && faults.len() < MOST_FAULTS {
            self.runner.put(&scenario.before);
            let ended = self.runner.run(&scenario.run, &scenario.input, &faults, false, scenario.fs_type);
            self.count(scenario, "runs", 1);
            let ops = self.runner.ops();
            let next = faults.last().map_or(0, |last| last.at as usize + 1);
            if ended.code == KILLED || next >= ops.len() {
                break;
            }
            // Mostly soon after, where the last one is being dealt with.
            let end = if random.chance(3) { ops.len() } else { ops.len().min(next + SOON) };
            faults.push(faults::random(random, &ops, next..end));
        }
        if faults.len() > 1 {
            self.case(scenario, reference, &faults, None);
        }
    }

    fn count(&mut self, scenario: &Scenario, kind: &'static str, by: u64) {
        *self.counts.entry((scenario.name.to_owned(), kind)).or_default() += by;
    }

    /// A power cut somewhere, perhaps after something has failed.
    fn random_cut(&mut self, scenario: &Scenario, reference: &Reference, random: &mut Random) {
        let mut faults = Vec::new();
        if random.chance(2) {
            faults.push(faults::random(random, &reference.ops, 0..reference.ops.len()));
        }
        if !random.chance(4) {
            faults.push(kill(random.below(reference.ops.len())));
        }
        self.case(scenario, reference, &faults, Some(random.next()));
    }

    /// Runs a scenario with these faults, and looks at what it leaves; after a power cut, at several of the states that it may
    /// leave.
    fn case(&mut self, scenario: &Scenario, reference: &Reference, faults: &[Fault], cut: Option<u64>) {
        self.runner.put(&scenario.before);
        let before = cut.map(|_| self.runner.take());
        let ended = self.runner.run(&scenario.run, &scenario.input, faults, cut.is_some(), scenario.fs_type);
        if self.verbose {
            println!("exit code {}, {} faults met, {} operations", ended.code, ended.met.len(), ended.count);
            println!("{}", ended.error);
        }
        self.count(scenario, "runs", 1);
        if ended.met.len() < faults.len() {
            self.count(scenario, "unmet", 1);
        }
        let kind = match (faults, cut) {
            (_, Some(_)) => "cut",
            ([fault], _) => fault.kind.name(),
            _ => "several",
        };
        self.count(scenario, kind, 1);
        let is_volume = matches!(scenario.run, Run::Volume(_));
        let Some((seed, before)) = cut.zip(before) else {
            // What a volume holds is seen by the next run of it.
            let tree = if is_volume && !self.verbose { Tree::new() } else { self.runner.take() };
            return self.judge(scenario, reference, faults, &ended, &tree, None);
        };
        let disk = model::disk(&mut self.runner, scenario, &before);
        // The next mount changes the files of a volume, so only one state can be made of them.
        let states = if is_volume { 1 } else { STATES };
        for state in 0..states {
            let tree = disk.cut_at_random(&mut Random::new(seed.wrapping_mul(STATES).wrapping_add(state)));
            self.count(scenario, "states", 1);
            self.judge(scenario, reference, faults, &ended, &tree, Some(seed));
        }
    }

    fn judge(
        &mut self,
        scenario: &Scenario,
        reference: &Reference,
        faults: &[Fault],
        ended: &Ended,
        tree: &Tree,
        cut: Option<u64>,
    ) {
        let verdict = model::check(scenario, reference, &self.eye, ended, tree, cut.is_some());
        let is_volume = matches!(scenario.run, Run::Volume(_));
        let verdict = if is_volume && cut.is_some() && !self.runner.change(tree) {
            // Only what the run itself has said was looked at.
            self.count(scenario, "unjudged", 1);
            verdict
        } else {
            if is_volume {
                self.count(scenario, "runs", 2);
            }
            verdict.and_then(|()| model::keeps(&mut self.runner, scenario, ended, cut.is_some()))
        };
        let verdict = verdict.and_then(|()| {
            let is_success = ended.code == 0 && cut.is_none() && !is_volume;
            if is_success { model::proves(&mut self.runner, scenario) } else { Ok(()) }
        });
        let verdict = verdict.and_then(|()| {
            if is_volume { Ok(()) } else { self.recovers(scenario, reference, ended, tree, cut.is_some()) }
        });
        if self.verbose {
            for (path, node) in tree {
                let len = if let Entry::File(bytes) = &node.kind { bytes.len() } else { 0 };
                println!("  {} {:o} {len}", path.display(), node.mode);
            }
        }
        if let Err(why) = verdict {
            let mut texts: Vec<_> = faults.iter().map(faults::text).collect();
            texts.extend(cut.map(|seed| format!("cut={seed}")));
            self.tell(scenario, faults, &texts.join(","), &describe(&ended.met, &why));
        }
    }

    /// The next run completes the work. The same state is tried once.
    fn recovers(
        &mut self,
        scenario: &Scenario,
        reference: &Reference,
        ended: &Ended,
        tree: &Tree,
        was_cut: bool,
    ) -> Verdict {
        let allowed = Allowed::after(ended, was_cut);
        let mut hasher = DefaultHasher::new();
        (scenario.name, allowed).hash(&mut hasher);
        for (path, node) in tree {
            (path, node.mode).hash(&mut hasher);
            match &node.kind {
                Entry::Folder => 0.hash(&mut hasher),
                Entry::File(bytes) | Entry::Link(bytes) => bytes.hash(&mut hasher),
            }
        }
        let state = hasher.finish();
        if self.recovered.contains(&state) {
            self.count(scenario, "repeated", 1);
            return Ok(());
        }
        if was_cut {
            self.runner.put(tree);
        }
        self.count(scenario, "runs", 1);
        model::recovers(&mut self.runner, scenario, reference, &self.eye, allowed)?;
        self.recovered.insert(state);
        Ok(())
    }

    fn tell(&mut self, scenario: &Scenario, faults: &[Fault], texts: &str, why: &str) {
        let kinds: Vec<_> = faults.iter().map(|fault| (fault.kind.name(), fault.value)).collect();
        let digits = |text: &str| text.chars().filter(|c| !c.is_ascii_hexdigit()).take(80).collect::<String>();
        let signature = format!("{} {} {kinds:?}", scenario.name, digits(why));
        if self.told.insert(signature) && self.told.len() < 60 {
            println!("FAILED {} {texts}\n  {}", scenario.name, why.trim_end().replace('\n', "\n  "));
            println!("  once more: .ci/failing-world --again '{} {texts}'", scenario.name);
        }
    }

    /// Compares what happens here with what happens to the program.
    fn compare(&mut self, known: &[(&Scenario, Reference)], program: &Path, seed: u64) -> ExitCode {
        let (mut random, mut compared) = (Random::new(seed), 0);
        for one in known {
            match compare::compare(&mut self.runner, &self.eye, one, program, &mut random, SAMPLES) {
                Ok(count) => compared += count,
                Err(why) => self.tell(one.0, &[], "", &why),
            }
        }
        println!("{compared} runs are the same under strace");
        if self.told.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// One case, with all that is to be said of it.
    fn again(&mut self, scenarios: &[Scenario], what: &str) -> ExitCode {
        let mut words = what.split_whitespace();
        let name = words.next().unwrap_or_default();
        let scenario = scenarios.iter().find(|scenario| scenario.name == name).expect("it was looked up");
        let parts: Vec<&str> = words.next().map_or(vec![], |all| all.split(',').collect());
        let cut = parts.iter().find_map(|part| part.strip_prefix("cut=")).and_then(|seed| seed.parse().ok());
        let faults = parts.iter().filter(|part| !part.starts_with("cut=")).map(|part| faults::parse(part));
        let faults = faults.collect::<Option<Vec<_>>>().expect("faults, such as 12:error:EIO");
        if let Run::Volume(Script::Requests(requests)) = &scenario.run {
            requests.iter().enumerate().for_each(|(number, request)| println!("{number} {}", request.text()));
        }
        let reference = Reference::of(&mut self.runner, &self.eye, scenario).expect("a run without faults");
        for (at, op) in reference.ops.iter().enumerate() {
            let (name, name2) = (String::from_utf8_lossy(&op.name), String::from_utf8_lossy(&op.name2));
            println!("{at} {} {name} {name2} = {} (inode {})", faults::call(op.nr), op.ret, op.ino);
        }
        self.case(scenario, &reference, &faults, cut);
        for op in self.runner.ops() {
            let (name, name2) = (String::from_utf8_lossy(&op.name), String::from_utf8_lossy(&op.name2));
            println!("then: {} {name} {name2} = {}", faults::call(op.nr), op.ret);
        }
        if self.told.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Why a case is wrong, with the operations that its faults met.
fn describe(met: &[Met], why: &str) -> String {
    let met = met.iter().map(|met| {
        let (name, name2) = (String::from_utf8_lossy(&met.op.name), String::from_utf8_lossy(&met.op.name2));
        format!("{} at {} {name} {name2}\n", met.fault.kind.name(), faults::call(met.op.nr))
    });
    format!("{}{why}", met.collect::<String>())
}
