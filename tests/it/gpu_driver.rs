//! The engine `gpu` in a process whose secrets are protected, with a driver that may not work in such a process. The
//! driver is a stand-in, so that machines without a GPU can run these tests.

use crate::common::{Sandbox, has, painted, skip};
use phalanx_gpu::Module;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// A folder with the stand-in, which has the kernels as plain C.
fn stand_in() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for module in Module::ALL {
            let call = include_str!("../../crates/gpu/tests/common/plain.c");
            let source = format!("{}#define MODULE_{}\n{call}", module.source(), module.name());
            compile(&source, &file(&format!("{}.so", module.name())));
            std::fs::write(file(&format!("{}.ptx", module.name())), module.ptx()).unwrap();
        }
        compile(include_str!("../../crates/gpu/tests/common/stand_in.c"), &file("libcuda.so.1"));
        folder
    });
    folder.path()
}

fn compile(source: &str, library: &Path) {
    let file = library.with_extension("c");
    std::fs::write(&file, source).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-std=c99", "-O1", "-fPIC", "-shared"]).arg(&file).arg("-o").arg(library).arg("-ldl");
    let done = command.output().expect("a C compiler");
    assert!(done.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&done.stderr));
}

const NO_LONGER: &str = "warning: the GPU's driver does not work in a process that others cannot trace";

/// Runs the command with the stand-in as NVIDIA's driver, with these needs. Returns whether it succeeds, and standard
/// error.
fn run(s: &Sandbox, needs: &str, before: &[&str], args: &[&str]) -> (bool, String) {
    let command = s.command(args);
    let mut with = match before {
        [] => Command::new(command.get_program()),
        [first, rest @ ..] => {
            let mut with = Command::new(first);
            with.args(rest).arg(command.get_program());
            with
        }
    };
    with.args(command.get_args()).current_dir(command.get_current_dir().unwrap());
    with.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    with.envs([("LD_LIBRARY_PATH", stand_in().as_os_str()), ("STAND_IN", stand_in().as_os_str())]);
    let ended = with.env("STAND_IN_NEEDS", needs).output().unwrap();
    (ended.status.success(), String::from_utf8(ended.stderr).unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn a_driver_gets_what_it_needs() {
    let s = Sandbox::with_key();
    s.write("f", painted((3 << 20) + 77));
    let protect = ["protect", "f", "-k", "k", "-e", "gpu", "--force", "--no-sync", "--verbose"];
    for (needs, is_reported) in [("nothing", false), ("dumpable", true)] {
        let (done, reported) = run(&s, needs, &[], &protect);
        assert!(
            done && reported.contains("stand-in 0, CUDA") && reported.contains(NO_LONGER) == is_reported,
            "{needs}: {reported}"
        );
        assert_eq!(reported.matches("warning").count(), usize::from(is_reported), "{reported}");
        let (done, reported) =
            run(&s, needs, &[], &["unprotect", "f.phx", "-o", "g", "-e", "hybrid", "--force", "--no-sync"]);
        assert!(done && !reported.contains("warning"), "only --verbose says so: {reported}");
        assert!(s.read("f") == s.read("g"));
        // The CPU gives the same bytes.
        s.run(&["verify", "f.phx", "-e", "cpu"]).ok();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_driver_that_never_works_is_one_error() {
    let s = Sandbox::with_key();
    s.write("f", "text");
    let (done, reported) = run(&s, "the impossible", &[], &["protect", "f", "-k", "k", "-e", "gpu", "--verbose"]);
    assert!(!done && !s.exists("f.phx"));
    assert!(reported.contains("asking the driver for devices failed: another error (304)"), "{reported}");
    assert!(!reported.contains(NO_LONGER) && reported.ends_with("\nhint: --engine cpu works\n"), "{reported}");
    assert_eq!(reported.lines().count(), 2, "{reported}");
    let (done, reported) = run(&s, "the impossible", &[], &["protect", "f", "-k", "k", "-e", "hybrid", "--no-sync"]);
    assert!(done && reported.contains("hybrid runs on the CPU alone"), "{reported}");
}

/// Drivers reserve more addresses than any limit on locked memory allows. The stand-in does so too.
#[test]
#[cfg(target_os = "linux")]
fn a_limit_on_locked_memory_leaves_room_for_a_driver() {
    let s = Sandbox::with_key();
    s.write("f", painted((2 << 20) + 7));
    let protect = ["protect", "f", "-k", "k", "-e", "gpu", "--force", "--no-sync", "--verbose"];
    // 2 GiB, in KiB: enough that the program locks its memory.
    let limited = ["sh", "-c", "ulimit -l 2097152; exec \"$@\"", "sh"];
    let without_right = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"];
    let mut before = limited.to_vec();
    if rustix::process::getuid().is_root() {
        before.extend(without_right);
    }
    if !s.succeeds("sh", &["-c", "ulimit -l 2097152"]) {
        skip("memlock");
        return;
    }
    if !has("setpriv") {
        return;
    }
    let (done, reported) = run(&s, "nothing", &before, &protect);
    assert!(done && reported.contains("stand-in 0, CUDA") && !reported.contains("warning"), "{reported}");
    assert!(s.exists("f.phx"));
}
