//! Changes of a header that fail or are killed twice: once anywhere, and once more anywhere while the next run repairs what the
//! first one left. Then a whole run finds all in order. The header in place may also have been torn by a power cut.

use crate::common::{Ended, Sandbox, has, is_exhaustive};
use crate::rekey::{HEADER, opens, protected};
use crate::rekey_cut_short::side;
use std::collections::BTreeSet;
use std::fs;

/// The system calls that a change of a header consists of, but for the one that makes the side file: a kill before the first write
/// comes right after it.
const CALLS: [&str; 4] = ["pwrite64", "fsync", "utimensat", "unlinkat"];
const CHANGE: [&str; 9] = ["rekey", "f.phx", "-k", "a", "--remove-key", "b", "--add-key", "c", "-q"];

/// What the folder holds: the file and its side file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    file: Vec<u8>,
    side: Option<Vec<u8>>,
}

impl State {
    fn of(s: &Sandbox) -> Self {
        Self { file: s.read("f.phx"), side: fs::read(s.path(&side())).ok() }
    }

    fn restore(&self, s: &Sandbox) {
        s.write("f.phx", &self.file);
        match &self.side {
            Some(bytes) => drop(s.write(&side(), bytes)),
            None => drop(fs::remove_file(s.path(&side()))),
        }
    }
}

/// Runs the change from this state with each fault in turn: a kill before a system call, or an error from it, at each place.
/// Calls `check` after each, with the fault in words.
fn with_each_fault(s: &Sandbox, from: &State, mut check: impl FnMut(&str, &Ended)) {
    for call in CALLS {
        for how in ["signal=KILL", "error=EIO", "error=ENOSPC"] {
            for when in 1.. {
                from.restore(s);
                let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{how}:when={when}"));
                let log = s.path("trace");
                let options = ["-o", log.to_str().unwrap(), "-e", &trace, "-e", &inject];
                let ended = Ended(s.traced(&options, &CHANGE).expect("strace").output().unwrap());
                let log = String::from_utf8_lossy(&s.read("trace")).into_owned();
                if !log.contains("(INJECTED)") && !log.contains("killed by SIGKILL") {
                    // There are no more such calls.
                    break;
                }
                check(&format!("{call} {when} {how}"), &ended);
            }
        }
    }
}

#[test]
fn two_faults_leave_the_old_or_the_new_ways_in() {
    if !has("strace") {
        return;
    }
    let s = protected();
    s.run(&["rekey", "f.phx", "--add-key", "b"]).ok();
    let old = State::of(&s);
    s.run(&CHANGE).ok();
    let new = State::of(&s);
    // Each state that one fault leaves, and what a power cut leaves: a torn header, with the whole one beside it.
    let mut states: BTreeSet<State> = [old.clone(), new.clone()].into();
    let mut singles = 0;
    with_each_fault(&s, &old, |_, _| {
        states.insert(State::of(&s));
        singles += 1;
    });
    let killed = states.len();
    for cut in [1, 17, 60, 512, HEADER - 1] {
        for (from, to) in [(&old, &new), (&new, &old)] {
            let file = [&to.file[..cut], &from.file[cut..]].concat();
            states.insert(State { file, side: Some(to.file[..HEADER].to_vec()) });
        }
    }
    let states: Vec<_> = states.into_iter().collect();
    // Unless the sweep is exhaustive, some of the states.
    let step = if is_exhaustive() { 1 } else { 3 };
    let (mut pairs, mut seen) = (0, [0; 2]);
    for (number, state) in states.iter().enumerate().step_by(step) {
        with_each_fault(&s, state, |fault, _| {
            let what = format!("state {number}, {fault}");
            let content = s.read("f.phx");
            assert!(content[HEADER..] == old.file[HEADER..], "{what}: the content has changed");
            // The next whole run, without a change, repairs what is left. `a` opens both headers.
            let ended = s.run(&["rekey", "f.phx", "-k", "a"]);
            assert!(ended.0.status.success(), "{what}: {}", String::from_utf8_lossy(&ended.0.stderr));
            assert!(s.leftovers().is_empty(), "{what}: {:?}", s.leftovers());
            let is_new = s.run(&["verify", "f.phx", "-q", "-k", "c"]).0.status.success();
            let is_old = s.run(&["verify", "f.phx", "-q", "-k", "b"]).0.status.success();
            assert!(is_new != is_old, "{what}: {is_old} {is_new}");
            seen[usize::from(is_new)] += 1;
            pairs += 1;
        });
    }
    old.restore(&s);
    opens(&s, "ab");
    println!("{singles} faults leave {killed} states; {pairs} second faults from {} states: {seen:?}", states.len());
    assert!(singles >= 25 && killed > 3 && pairs > 60 && seen[0] > 5 && seen[1] > 5, "{singles}, {pairs}, {seen:?}");
}
