//! Compares the failing world with the program itself, under `strace`.
//!
//! First, without faults, both make the same calls: so nothing goes around the world. Then the same call fails in both, and both end
//! with the same exit code and leave the same state. Only calls are compared that programs make nowhere but on files of the folder
//! they work in.

use crate::faults::call;
use crate::model::Reference;
use crate::random::Random;
use crate::runner::{Run, Runner};
use crate::scenario::Scenario;
use crate::view::{Eye, View, temporaries};
use crate::world::{Fault, Kind};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

const CALLS: [&str; 13] = [
    "pwrite64",
    "fsync",
    "fdatasync",
    "renameat",
    "renameat2",
    "unlinkat",
    "mkdirat",
    "symlinkat",
    "linkat",
    "fchmod",
    "utimensat",
    "flock",
    "ftruncate",
];
const EIO: i32 = 5;

/// How a run ended, as far as both can say.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: i32,
    view: View,
    temporaries: usize,
}

/// Compares a scenario: without a fault, and with `samples` faults. Returns how many runs were compared.
pub fn compare(
    runner: &mut Runner,
    eye: &Eye,
    (scenario, reference): &(&Scenario, Reference),
    program: &Path,
    random: &mut Random,
    samples: usize,
) -> Result<u32, String> {
    let Run::Command(args) = &scenario.run else { return Ok(0) };
    // It sees the file system as it is.
    if scenario.fs_type != 0 {
        return Ok(0);
    }
    let log = runner.case.with_file_name("trace");
    let real = |runner: &mut Runner, inject: Option<&str>| -> io::Result<(Outcome, String)> {
        runner.put(&scenario.before);
        let input = runner.case.with_file_name("input");
        fs::write(&input, &scenario.input)?;
        let mut command = Command::new("strace");
        command.arg("-f").arg("-o").arg(&log).arg("-e").arg(format!("trace={}", CALLS.join(",")));
        if let Some(inject) = inject {
            command.arg("-e").arg(format!("inject={inject}"));
        }
        command.arg(program).args(args).current_dir(&runner.case).stdin(File::open(&input)?);
        let ended = command.output()?;
        let tree = runner.take();
        let code = ended.status.code().unwrap_or(-1);
        let outcome = Outcome { code, view: eye.view(&tree), temporaries: temporaries(&tree).len() };
        Ok((outcome, fs::read_to_string(&log)?))
    };
    let failed = |e: io::Error| format!("strace: {e}");
    let (_, traced) = real(runner, None).map_err(failed)?;
    let mut compared = 1;
    for name in CALLS {
        let made = traced.lines().filter(|line| line.contains(&format!(" {name}("))).count();
        let seen = reference.ops.iter().filter(|op| call(op.nr) == name).count();
        if made != seen {
            return Err(format!("{name}: strace saw {made} calls, and the world {seen}"));
        }
    }
    let places: Vec<usize> =
        (0..reference.ops.len()).filter(|at| CALLS.contains(&&*call(reference.ops[*at].nr))).collect();
    for _ in 0..samples.min(places.len()) {
        let at = *random.of(&places);
        let name = call(reference.ops[at].nr);
        let when = reference.ops[..=at].iter().filter(|op| call(op.nr) == name).count();
        let (there, _) = real(runner, Some(&format!("{name}:error=EIO:when={when}"))).map_err(failed)?;
        runner.put(&scenario.before);
        let fault = Fault { at: at as u32, kind: Kind::Error, value: EIO };
        let ended = runner.run(&scenario.run, &scenario.input, &[fault], false, 0);
        let tree = runner.take();
        let here = Outcome { code: ended.code, view: eye.view(&tree), temporaries: temporaries(&tree).len() };
        if here != there {
            return Err(format!(
                "{name} {when} fails: the program ends with {} and leaves {:?}, here with {} and {:?}",
                there.code,
                there.view.keys(),
                here.code,
                here.view.keys()
            ));
        }
        compared += 1;
    }
    let _ = io::stdout().flush();
    Ok(compared)
}
