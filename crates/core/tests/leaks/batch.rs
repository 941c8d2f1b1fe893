//! The batch call: by every engine, into one buffer, and when engines fail.

use crate::common::{engines, sweep_by};
use crate::set::{After, ByJobs, Set, cpu, fault, panics, wipe};
use phalanx_core::engine::Op;
use phalanx_core::{Error, Result, Roster, Suite, batch};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The batch call, in place.
fn call(roster: &Roster, op: Op, set: &mut Set) -> Result<()> {
    let suite = set.suite;
    match op {
        Op::Seal => batch::seal(roster, suite, &mut set.messages(op)),
        Op::Open => batch::open(roster, suite, &mut set.messages(op)),
    }
}

/// Does the work for every suite and both operations. Nothing of the set may be left.
#[track_caller]
fn check(what: &str, work: impl Fn(Op, Set) + Sync) {
    check_sets(what, Set::new, work);
}

/// Does the same with sets of this kind.
#[track_caller]
fn check_sets(what: &str, make: fn(Op, Suite) -> Set, work: impl Fn(Op, Set) + Sync) {
    for (op, suite) in [Op::Seal, Op::Open].into_iter().flat_map(|op| Suite::ALL.iter().map(move |suite| (op, *suite)))
    {
        let set = make(op, suite);
        set.hunt(op).nothing_left(&format!("{what}, {op:?}, {}", suite.name()), || work(op, set));
    }
}

pub fn by_every_engine() {
    // The last one has several threads.
    let some = engines().into_iter().rev().step_by(sweep_by(1, 4));
    let all = some.map(|engine| (engine.info().detail.clone(), Roster::new(&[engine])));
    for (engine, roster) in all.chain([("by jobs".into(), ByJobs::roster(usize::MAX, fault))]) {
        for (kind, make) in [("", Set::new as fn(_, _) -> _), (", users", Set::of_users)] {
            check_sets(&format!("{engine}{kind}"), make, |op, mut set| {
                call(&roster, op, &mut set).unwrap();
                set.wipe();
            });
        }
    }
}

pub fn messages_that_are_not_authentic() {
    for (engine, roster) in [("in place", cpu()), ("by jobs", ByJobs::roster(usize::MAX, fault))] {
        check(engine, |op, mut set| {
            if op == Op::Open {
                set.data.iter_mut().for_each(|data| data[0] ^= 1);
                // The caller does not wipe them, because there must be nothing to wipe.
                let opened = call(&roster, op, &mut set);
                let all = set.data.len();
                assert!(matches!(opened, Err(Error::NotAuthentic { failed }) if failed.len() == all));
            } else {
                set.wipe();
            }
        });
    }
}

pub fn into_one_buffer() {
    check("into one buffer", |op, set| {
        let mut out = vec![0; set.data.iter().map(Vec::len).sum()];
        let inputs = set.inputs(op);
        match op {
            Op::Seal => drop(batch::seal_into(&cpu(), set.suite, &inputs, &mut out).unwrap()),
            Op::Open => {
                let places = batch::open_into(&cpu(), set.suite, &inputs, &mut out).unwrap();
                assert!(places.iter().all(Option::is_some));
                wipe(&mut out);
            }
        }
        // An engine that fails midway leaves nothing of its work.
        let faulty = ByJobs::roster(2, fault);
        match op {
            Op::Seal => drop(batch::seal_into(&faulty, set.suite, &inputs, &mut out).unwrap_err()),
            Op::Open => drop(batch::open_into(&faulty, set.suite, &inputs, &mut out).unwrap_err()),
        }
        drop(inputs);
        set.wipe();
    });
}

pub fn engines_that_fail_midway() {
    check("a fault", |op, mut set| {
        call(&ByJobs::roster(2, fault), op, &mut set).unwrap_err();
        set.wipe();
    });
    check("a panic by jobs", |op, mut set| {
        let roster = ByJobs::roster(2, panics);
        catch_unwind(AssertUnwindSafe(|| call(&roster, op, &mut set))).unwrap_err();
        set.wipe();
    });
    check("a panic in place", |op, mut set| {
        let roster = After::roster(|| drop(panics()));
        catch_unwind(AssertUnwindSafe(|| call(&roster, op, &mut set))).unwrap_err();
        set.wipe();
    });
}
