//! What must hold after each run, whatever it met.

use crate::disk::Disk;
use crate::faults;
use crate::promise::Known;
use crate::runner::{Ended, Run, Runner};
use crate::scenario::{Output, Scenario, TIME};
use crate::tree::{Entry, Tree};
use crate::view::{Eye, Meaning, View, is_temporary, temporaries, texts};
use crate::volume::{self, Request, Script};
use crate::world::{ENDLESS, KILLED, Kind, Met, Op};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A process that a signal ended has 256 and its number.
const SIGTERM: i32 = 15;

/// What a scenario does without faults.
pub struct Reference {
    pub before: View,
    pub after: View,
    pub after_tree: Tree,
    pub ops: Vec<Op>,
    /// What is written to standard output.
    pub out: Vec<u8>,
}

/// What came of a case: why it is wrong, if it is.
pub type Verdict = Result<(), String>;

impl Reference {
    /// Runs a scenario without faults.
    pub fn of(runner: &mut Runner, eye: &Eye, scenario: &Scenario) -> Result<Self, String> {
        runner.put(&scenario.before);
        let ended = runner.run(&scenario.run, &scenario.input, &[], true, scenario.fs_type);
        let ops = runner.ops();
        if ended.code != 0 {
            return Err(format!("without a fault: {}: {}", ended.code, ended.error));
        }
        if matches!(scenario.output, Output::Same | Output::SameOrUnnamed) && ended.out.is_empty() {
            return Err("without a fault: no output to compare with".into());
        }
        output(scenario, &ended.out, eye, &ended).map_err(|why| format!("without a fault: {why}"))?;
        let after_tree = runner.take();
        let (before, after) = (eye.view(&scenario.before), eye.view(&after_tree));
        if !temporaries(&after_tree).is_empty() {
            return Err("without a fault: something is left".into());
        }
        if let Some((path, _)) = after.iter().find(|(_, meaning)| **meaning == Meaning::Broken) {
            return Err(format!("without a fault: {} is broken", path.display()));
        }
        Ok(Self { before, after, after_tree, ops, out: ended.out })
    }
}

/// Checks the state that a run has left, and how it ended. `was_cut` says that the power went.
pub fn check(
    scenario: &Scenario,
    reference: &Reference,
    eye: &Eye,
    ended: &Ended,
    tree: &Tree,
    was_cut: bool,
) -> Verdict {
    let view = eye.view(tree);
    let is_hard = was_cut
        || ended.met.len() > 1
        || ended.met.iter().any(|met| !matches!(met.fault.kind, Kind::Error | Kind::Short));
    states(scenario, reference, &view, is_hard, was_cut)?;
    modes(scenario, reference, tree)?;
    if was_cut && ended.code == KILLED {
        return Ok(());
    }
    exit(ended)?;
    output(scenario, &reference.out, eye, ended)?;
    if ended.code == 0 {
        return success(scenario, reference, &view, tree, ended, was_cut);
    }
    let is_volume = matches!(scenario.run, Run::Volume(_));
    if !was_cut && !is_volume && leaves_nothing(scenario, ended) && !temporaries(tree).is_empty() {
        return Err(format!("it failed and left {:?}: {}", temporaries(tree), ended.error));
    }
    Ok(())
}

/// Each path holds what it held before, or what it is to hold, and no text is lost.
fn states(scenario: &Scenario, reference: &Reference, view: &View, is_hard: bool, was_cut: bool) -> Verdict {
    if let Run::Volume(_) = &scenario.run {
        return Ok(());
    }
    let paths: BTreeSet<&PathBuf> = reference.before.keys().chain(reference.after.keys()).chain(view.keys()).collect();
    for path in paths {
        let (now, old, new) = (view.get(path), reference.before.get(path), reference.after.get(path));
        let is_allowed = || may_be(scenario, &reference.before, path, now, is_hard, was_cut);
        if now != old && now != new && !is_allowed() {
            return Err(format!("{}: it is {}, neither what it was nor what it is to be", path.display(), short(now)));
        }
    }
    // A key that is being locked is there, in one way or the other.
    let is_lost = |known: &View| !known.values().any(|meaning| *meaning == Meaning::Locked);
    if !is_lost(&reference.after) && is_lost(view) && view.get(Path::new("keyring/c.key")) != Some(&Meaning::Key) {
        return Err("a key is lost".into());
    }
    let now = texts(view);
    // A header that is torn: see `may_be`.
    if is_hard && scenario.name.starts_with("rekey") {
        return Ok(());
    }
    for text in texts(&reference.before).intersection(&texts(&reference.after)) {
        if !now.contains(text) {
            return Err(format!("a text of {} bytes is lost", text.len()));
        }
    }
    Ok(())
}

/// Whether something else may be there for a while.
fn may_be(
    scenario: &Scenario,
    before: &View,
    path: &Path,
    now: Option<&Meaning>,
    is_hard: bool,
    was_cut: bool,
) -> bool {
    match now {
        // A signature goes before the file that it is of, and the new one comes after the new file.
        None => path.extension().is_some_and(|end| end == "sig"),
        // Backups of a run that was interrupted are its own. They are what was there before, somewhere.
        Some(now) if scenario.name == "mirror-backup" && path.starts_with("old") => {
            *now == Meaning::Folder || before.values().any(|known| known == now)
        }
        // A header that is torn stands whole beside the file, and the next run puts it in its place.
        Some(Meaning::Broken) if scenario.name.starts_with("rekey") => is_hard,
        // What was not synced may be torn by a power cut, and by nothing else.
        Some(_) => was_cut && scenario.unsynced && path == Path::new("f.phx"),
    }
}

/// Nobody may read more than before, or than without faults, at any time.
fn modes(scenario: &Scenario, reference: &Reference, tree: &Tree) -> Verdict {
    if let Run::Volume(_) = &scenario.run {
        return Ok(());
    }
    const OWNER: u32 = 0o700;
    let known = [&scenario.before, &reference.after_tree];
    for (path, node) in tree {
        let is_of_keys = scenario.name.starts_with("key-");
        let is_secret = path.starts_with("keyring") || path.starts_with("copy") || path.starts_with("state");
        let beside = |other: &Path| if is_temporary(path) { other.parent() == path.parent() } else { other == path };
        let others = known.iter().flat_map(|tree| tree.iter()).filter(|(other, _)| beside(other));
        let allowed = match &node.kind {
            Entry::Link(_) => continue,
            _ if is_secret || is_of_keys && is_temporary(path) => OWNER,
            // A temporary file becomes one of those beside it.
            _ => others.fold(OWNER, |all, (_, node)| all | node.mode),
        };
        if node.mode & 0o7777 & !allowed != 0 {
            return Err(format!("{} has mode {:o}, and may have no more than {allowed:o}", path.display(), node.mode));
        }
    }
    Ok(())
}

fn short(meaning: Option<&Meaning>) -> String {
    match meaning {
        None => "missing".into(),
        Some(Meaning::Protected(text, keys)) => format!("protected: {} bytes, keys {keys:?}", text.len()),
        Some(Meaning::Plain(text)) => format!("plain: {} bytes", text.len()),
        Some(other) => format!("{other:?}").chars().take(60).collect(),
    }
}

/// The exit code is one that is documented for this, and there is a line.
fn exit(ended: &Ended) -> Verdict {
    let met = &ended.met;
    let is_killed = met.iter().any(|met| met.fault.kind.kills());
    let is_signalled = met.iter().any(|met| met.fault.kind == Kind::Signal);
    match ended.code {
        KILLED if is_killed => return Ok(()),
        code if is_signalled && code == 256 + SIGTERM => return Ok(()),
        ENDLESS => return Err("it does not end".into()),
        code if code == 256 + 9 => return Err("it hangs".into()),
        0 | 1 | 3 | 4 => {}
        code => return Err(format!("exit code {code}: {}", ended.error)),
    }
    let error = &ended.error;
    if error.contains("internal error") || error.contains("panicked") {
        return Err(format!("exit code {}: {error}", ended.code));
    }
    if ended.code == 0 {
        return Ok(());
    }
    if met.is_empty() {
        return Err(format!("exit code {} without a fault: {error}", ended.code));
    }
    let lines = error.lines().filter(|line| !line.starts_with("hint: ")).count();
    if lines == 0 {
        return Err(format!("exit code {} without a line", ended.code));
    }
    // Half a read or write is no failure: the rest comes with the next call.
    if met.iter().all(|met| met.fault.kind == Kind::Short) {
        return Err(format!("exit code {} after a part was read or written: {error}", ended.code));
    }
    // A disk that fails is a failure of input or output, whether once or from then on.
    let is_disk = |met: &Met| !met.fault.kind.kills() && met.fault.kind != Kind::Signal;
    // Open: a run that cannot read what it knows of its signed mirrors says so by the code of one that is not its own.
    let is_unknown = ended.code == 3
        && error.contains("this machine has not written it")
        && met.iter().any(|met| met.fault.kind == Kind::Stop);
    if met.iter().all(is_disk) && ended.code != 4 && !is_unknown {
        let calls: Vec<String> = met.iter().map(|met| faults::call(met.op.nr)).collect();
        return Err(format!("exit code {} after {} failed: {error}", ended.code, calls.join(" and ")));
    }
    Ok(())
}

/// Standard output has all after a success.
fn output(scenario: &Scenario, same: &[u8], eye: &Eye, ended: &Ended) -> Verdict {
    let is_done = ended.code == 0;
    let has = |all: &[u8]| if is_done { ended.out == all } else { all.starts_with(&ended.out) };
    let is_right = match &scenario.output {
        Output::Any => true,
        Output::Same | Output::SameOrUnnamed if !is_done => true,
        Output::Same => has(same),
        Output::SameOrUnnamed => has(same) || has(without_names(same).as_bytes()),
        Output::Plain(bytes) => has(bytes),
        // Its nonces are random, so there is no beginning to compare a part with.
        Output::Protected(_) if !is_done => true,
        Output::Protected(text) => eye.open(&ended.out).is_some_and(|(found, _)| found == *text),
    };
    if is_right { Ok(()) } else { Err(format!("standard output has {} other bytes", ended.out.len())) }
}

/// What `inspect --json` says, without the names of keys.
fn without_names(out: &[u8]) -> String {
    String::from_utf8_lossy(out).replace("\"name\":\"a\"", "\"name\":null")
}

/// A success: everything is there.
fn success(
    scenario: &Scenario,
    reference: &Reference,
    view: &View,
    tree: &Tree,
    ended: &Ended,
    was_cut: bool,
) -> Verdict {
    if was_cut && scenario.unsynced {
        return Ok(());
    }
    if let Run::Volume(_) = &scenario.run {
        return Ok(());
    }
    for path in reference.after.keys().chain(view.keys()) {
        let (now, new) = (view.get(path), reference.after.get(path));
        // What cannot be looked at in the mirror is written again, and then there are more backups.
        if scenario.name == "mirror-backup" && path.starts_with("old") {
            continue;
        }
        // A removal need not be on the disk yet.
        if was_cut && new.is_none() && now == reference.before.get(path) && scenario.name != "key-rm" {
            continue;
        }
        // A folder that may not be read cannot be synced, nor what is new in it.
        if was_cut && now.is_none() && ended.met.iter().any(is_unreadable) {
            continue;
        }
        if now != new {
            return Err(format!("exit code 0, and {} is {}", path.display(), short(now)));
        }
        let (is, was) = (&tree[path], &reference.after_tree[path]);
        let is_output = !reference.before.contains_key(path);
        let is_file = matches!(new, Some(Meaning::Protected(..) | Meaning::Plain(_)));
        let is_carried = was.time.1 == TIME.1;
        if is_output
            && is_file
            && is_carried
            && !was_cut
            && (is.mode, is.time) != (was.mode, was.time)
            && !forgives(&ended.met)
        {
            return Err(format!("exit code 0, and {} has mode {:o}, time {:?}", path.display(), is.mode, is.time));
        }
    }
    if !was_cut && !temporaries(tree).is_empty() && !leaves_some(&ended.met) {
        return Err(format!("exit code 0, and {:?} is left", temporaries(tree)));
    }
    Ok(())
}

/// Whether permissions and times may be others: a file system may have none. More permissions than there should be are never right,
/// see [`modes`].
fn forgives(met: &[Met]) -> bool {
    met.iter().any(|met| {
        let call = faults::call(met.op.nr);
        let is_metadata = ["fchmod", "chmod", "utimensat", "fchown"].iter().any(|name| call.starts_with(name));
        let text = faults::text(&met.fault);
        is_metadata && (text.ends_with("EOPNOTSUPP") || text.ends_with("EPERM"))
    })
}

fn is_unreadable(met: &Met) -> bool {
    faults::call(met.op.nr).starts_with("open") && faults::text(&met.fault).ends_with("EACCES")
}

fn removes(met: &Met) -> bool {
    matches!(&*faults::call(met.op.nr), "unlink" | "unlinkat" | "rmdir")
}

/// Whether a run that met these faults leaves temporary files: what cannot be removed stays, and so does what may belong to another
/// run where there are no locks.
fn leaves_some(met: &[Met]) -> bool {
    met.iter().any(|met| {
        let is_forever = matches!(met.fault.kind, Kind::Stop | Kind::ReadOnly);
        is_forever || removes(met) || faults::call(met.op.nr) == "flock"
    })
}

/// Whether a failed run can remove its temporary files.
fn leaves_nothing(scenario: &Scenario, ended: &Ended) -> bool {
    let can = |met: &Met| match met.fault.kind {
        // What is to be a volume is removed by the next `init`.
        Kind::Signal if scenario.name.starts_with("init") => false,
        Kind::Error | Kind::Short | Kind::Signal => true,
        // If neither the new nor the old header can be written, the side file is needed.
        Kind::Full => !scenario.name.starts_with("rekey"),
        _ => false,
    };
    !scenario.keeps
        && ended.code != KILLED
        && ended.met.len() == 1
        && !leaves_some(&ended.met)
        && ended.met.iter().all(can)
}

/// The disk after the last run, which began with `before`.
pub fn disk(runner: &mut Runner, scenario: &Scenario, before: &Tree) -> Disk {
    let is_volume = matches!(scenario.run, Run::Volume(_));
    let mut disk = Disk::new(runner.root(), &runner.case, before, is_volume);
    for op in runner.ops() {
        disk.follow(&op);
    }
    disk
}

/// What is allowed after the next run because of what the last one met.
#[derive(Clone, Copy, Hash)]
pub struct Allowed {
    /// Where a lock failed, names have a random part, and files of such names are left alone.
    unlocked: bool,
    /// A file whose removal was done, but reported as failed with that of its folder, and that a power cut has brought back: no
    /// manifest lists it, and nothing is deleted in a folder that is to go but what one lists. Somebody has to look.
    late_removal: bool,
    /// A mirror that could not open its journal, said so, and lost its power: what it wrote again looks like another version, until
    /// `--checksum` compares all.
    no_journal: bool,
}

impl Allowed {
    pub fn after(ended: &Ended, was_cut: bool) -> Self {
        let met = &ended.met;
        Self {
            unlocked: met.iter().any(|met| faults::call(met.op.nr) == "flock"),
            late_removal: met.iter().any(|met| met.fault.kind == Kind::Late && removes(met)),
            no_journal: was_cut && ended.error.contains("warning: the journal of the mirror could not be opened"),
        }
    }
}

/// A file whose header is torn is refused with the reason, and nothing is changed.
fn says_interrupted(runner: &mut Runner, eye: &Eye, scenario: &Scenario) -> Verdict {
    let tree = runner.take();
    for (path, _) in eye.view(&tree).iter().filter(|(_, meaning)| **meaning == Meaning::Broken) {
        let line = format!("unprotect {} -k a -k b -k c -o opened", path.display());
        let ended = runner.run(&Run::command(&line), b"", &[], false, scenario.fs_type);
        let is_said = ended.code == 3 && ended.error.contains("a change of its keys was interrupted");
        if !is_said || runner.take() != tree {
            return Err(format!("unprotect of a torn {}: exit code {}: {}", path.display(), ended.code, ended.error));
        }
    }
    Ok(())
}

/// The next run, without faults, completes the work.
pub fn recovers(
    runner: &mut Runner,
    scenario: &Scenario,
    reference: &Reference,
    eye: &Eye,
    allowed: Allowed,
) -> Verdict {
    if scenario.name.starts_with("rekey") {
        says_interrupted(runner, eye, scenario)?;
    }
    let Some(again) = scenario
        .again
        .iter()
        .find(|again| again.with.is_none_or(|path| runner.case.join(path).symlink_metadata().is_ok()))
    else {
        return Ok(());
    };
    let ended = runner.run(&again.run, &scenario.input, &[], false, scenario.fs_type);
    if allowed.late_removal && ended.code == 4 && ended.error.contains("Directory not empty") {
        return Ok(());
    }
    if ended.code != 0 {
        return Err(format!("the next run: exit code {}: {}", ended.code, ended.error));
    }
    let tree = runner.take();
    let view = eye.view(&tree);
    let left = temporaries(&tree);
    // What was about to be deleted stays if its run was killed. It is the user's to decide.
    let is_input = |path: &&PathBuf| path.to_string_lossy().ends_with(".removed");
    for path in reference.after.keys().chain(view.keys()) {
        let (now, new) = (view.get(path), reference.after.get(path));
        // A folder that holds what was about to be deleted stays.
        // So does what an interrupted run has moved to the backups: the next one moves what takes its place there too.
        if scenario.name == "mirror-backup" && path.starts_with("old") {
            continue;
        }
        if now == Some(&Meaning::Folder) && left.iter().any(|left| is_input(left) && left.starts_with(path)) {
            continue;
        }
        if now != new {
            return Err(format!("after the next run {} is {}", path.display(), short(now)));
        }
    }
    // What a volume was about to get goes when its folder is listed.
    let is_harmless = |path: &&PathBuf| is_input(path) || path.to_string_lossy().contains("phalanx.new.");
    if !left.iter().all(is_harmless) && !allowed.unlocked {
        return Err(format!("after the next run {left:?} is left"));
    }
    let proven = proves(runner, scenario);
    if let (Err(why), true, Run::Command(line)) = (&proven, allowed.no_journal, &again.run) {
        if !why.contains("another version") {
            return proven;
        }
        let line = line.iter().cloned().chain(["--checksum".into()]).collect();
        let ended = runner.run(&Run::Command(line), &scenario.input, &[], false, scenario.fs_type);
        return if ended.code == 0 { proves(runner, scenario) } else { proven };
    }
    proven
}

/// What was done is whole, as the command itself sees it.
pub fn proves(runner: &mut Runner, scenario: &Scenario) -> Verdict {
    let Some(proof) = &scenario.proof else { return Ok(()) };
    let ended = runner.run(proof, b"", &[], false, scenario.fs_type);
    if ended.code == 0 { Ok(()) } else { Err(format!("the proof: exit code {}: {}", ended.code, ended.error)) }
}

/// After a run of a volume: the next one opens it, and finds what was promised.
pub fn keeps(runner: &mut Runner, scenario: &Scenario, ended: &Ended, was_cut: bool) -> Verdict {
    let Run::Volume(Script::Requests(requests)) = &scenario.run else { return Ok(()) };
    let acknowledged = ended.error.lines().filter(|line| *line == "ok").count();
    let is_closed = ended.error.lines().any(|line| line == "closed");
    let all = Known::after(requests, acknowledged, is_closed, was_cut, scenario.name.starts_with("rollback"));
    let dumped = runner.run(&Run::Volume(Script::Dump), b"", &[], false, scenario.fs_type);
    if dumped.code != 0 {
        return Err(format!("the next mount: exit code {}: {}", dumped.code, dumped.error));
    }
    let found = volume::parse(&dumped.out);
    // A file that was reported as not made, and has its name nevertheless because it was late or could not be removed again, is
    // refused in a volume that finds removals.
    let is_late = ended.met.iter().any(|met| met.fault.kind == Kind::Late);
    let is_unremoved = ended.met.len() > 1 && ended.met.iter().any(removes);
    let is_refused = (is_late || is_unremoved) && scenario.name.starts_with("rollback");
    let failed = requests.get(acknowledged).filter(|_| is_refused).map_or(vec![], Request::names);
    let refused: Vec<String> = all.iter().filter_map(|known| known.admits(&found, &failed).err()).collect();
    if refused.len() == all.len() {
        return Err(format!("after {acknowledged} requests: {}\n{}", refused.join("\n or "), dumped.error));
    }
    // A rename that was done and reported as failed leaves an entry with a long name without the file beside it.
    let may_be_damaged = is_late || is_refused || all.iter().any(Known::may_be_damaged);
    if !may_be_damaged && dumped.error.contains("damage: ") {
        return Err(format!("after {acknowledged} requests: {}", dumped.error));
    }
    let Some(proof) = &scenario.proof else { return Ok(()) };
    let met = &ended.met;
    let ended = runner.run(proof, b"", &[], false, scenario.fs_type);
    // The removal of a file may have come to the disk, and not the record of it. And a file that cannot be read can be removed,
    // though nobody knows which one it was.
    let is_of_removals = |line: &str| line.contains("of its last state") || line.starts_with("hint: ");
    let passes = |met: &Met| faults::passes(&met.fault) && faults::call(met.op.nr).starts_with("open");
    let is_unknown = was_cut || !met.iter().all(passes);
    let is_removal = is_unknown && scenario.name.starts_with("rollback") && ended.error.lines().all(is_of_removals);
    let is_known = ended.code == 3 && ((was_cut || is_late) && may_be_damaged || is_removal);
    if ended.code != 0 && !is_known {
        return Err(format!("verify after {acknowledged} requests: exit code {}: {}", ended.code, ended.error));
    }
    Ok(())
}
