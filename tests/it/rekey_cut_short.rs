//! Changes of keys that are interrupted, run at the same time as others, or find planted files. Nothing is lost or left
//! half done.

use crate::common::{Ended, Sandbox, exfat, has, painted, skip};
use crate::cut_short::stop_everywhere;
use crate::rekey::{HEADER, opens, protected, raw};
use phalanx_reference::{Recipe, Slot, seal_header};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// The name of the side file of `f.phx`.
pub fn side() -> String {
    Sandbox::temporary("f.phx").replace(".tmp", ".rekey")
}

#[test]
fn after_a_kill_the_old_or_the_new_ways_in_are_whole() {
    let s = protected();
    s.run(&["rekey", "f.phx", "--add-key", "b"]).ok();
    let args = ["rekey", "f.phx", "-k", "a", "--remove-key", "b", "--add-key", "c", "-q"];
    let back = ["rekey", "f.phx", "-k", "a", "--remove-key", "c", "--add-key", "b", "-q"];
    let content = s.read("f.phx")[HEADER..].to_vec();
    stop_everywhere(&s, &args, Signal::KILL, 100, || {
        assert!(s.read("f.phx")[HEADER..] == content);
        s.run(&["verify", "f.phx", "-q", "-k", "a"]).ok();
        assert!(s.leftovers().len() <= 1);
        let ways: Vec<_> =
            ["b", "c"].into_iter().filter(|k| s.run(&["verify", "f.phx", "-k", k]).0.status.success()).collect();
        assert_eq!(ways.len(), 1, "{ways:?}");
        s.run(&back).ok();
        assert!(s.leftovers().is_empty());
        opens(&s, "ab");
    });
    // Other signals leave nothing at all.
    for signal in [Signal::INT, Signal::TERM] {
        stop_everywhere(&s, &args, signal, 25, || {
            assert!(s.leftovers().is_empty(), "{:?}", s.leftovers());
            s.run(&back).ok();
        });
    }
}

/// The system calls of a change of a header.
const CALLS: &str = "openat,pwrite64,fsync,utimensat,unlinkat";

#[test]
fn a_kill_before_any_system_call_leaves_nothing_half_done() {
    let s = protected();
    s.run(&["rekey", "f.phx", "--add-key", "b"]).ok();
    let (old, mut left, mut seen) = (s.read("f.phx"), 0, [0; 2]);
    for call in CALLS.split(',') {
        for when in 1.. {
            s.write("f.phx", &old);
            let inject = format!("inject={call}:signal=KILL:when={when}");
            let options = ["-e", &format!("trace={call}"), "-e", &inject];
            let args = ["rekey", "f.phx", "-k", "a", "--remove-key", "b", "--add-key", "c", "-q"];
            let Some(mut command) = s.traced(&options, &args) else { return };
            if command.output().unwrap().status.success() {
                assert!(when > 1, "{call}");
                break;
            }
            let is_new = s.run(&["verify", "f.phx", "-k", "c"]).0.status.success();
            seen[usize::from(is_new)] += 1;
            opens(&s, if is_new { "ac" } else { "ab" });
            left += s.leftovers().len();
            // The next run removes leftovers, even if it changes nothing.
            s.run(&["rekey", "f.phx", "-k", "a"]).ok();
            assert!(s.leftovers().is_empty(), "{call} {when}");
            opens(&s, if is_new { "ac" } else { "ab" });
        }
    }
    // Of the ten steps, four come between the side file and the header in place, and four after that.
    assert!(seen[0] > 10 && seen[1] >= 4 && left >= 8, "{seen:?}, {left}");
}

#[test]
fn a_disk_that_fails_at_any_step_leaves_the_old_header() {
    let s = protected();
    let old = s.read("f.phx");
    let args = ["rekey", "f.phx", "-k", "a", "--add-key", "c", "-q"];
    for (call, errors) in [("pwrite64", ["ENOSPC", "EIO"]), ("fsync", ["EIO", "ENOSPC"])] {
        for (when, error) in [(1, errors[0]), (2, errors[1]), (3, errors[0])] {
            let inject = format!("inject={call}:error={error}:when={when}");
            let options = ["-e", &format!("trace={call}"), "-e", &inject];
            let Some(mut command) = s.traced(&options, &args) else { return };
            let ended = Ended(command.output().unwrap());
            if call == "pwrite64" && when == 3 {
                ended.ok();
                opens(&s, "ac");
                s.write("f.phx", &old);
                continue;
            }
            ended.fails(4);
            assert!(s.read("f.phx") == old && s.leftovers().is_empty(), "{call} {when}");
        }
    }
    // The old header cannot be written back either.
    let options = ["-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EIO:when=2+"];
    let line = Ended(s.traced(&options, &args).unwrap().output().unwrap()).fails(4);
    assert!(line.contains("was interrupted\nhint: phalanx rekey finishes it"), "{line}");
    assert_eq!(s.leftovers(), [side()]);
    assert!(s.run(&["rekey", "f.phx"]).text().contains("what an interrupted change had left was removed"));
    assert!(s.leftovers().is_empty());
    opens(&s, "a");
}

/// Where two spellings are one name, a change that was begun under one of them is finished or discarded under the other.
#[test]
fn every_spelling_of_a_name_leads_to_its_side_file() {
    let s = protected();
    let Some(_mounted) = exfat(&s) else { return };
    fs::copy(s.path("f.phx"), s.path("disk/Run.phx")).unwrap();
    let options = ["-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EIO:when=2+"];
    let torn = |typed| {
        let args = ["rekey", typed, "-k", "a", "--add-key", "c", "-q"];
        Ended(s.traced(&options, &args)?.output().unwrap()).fails(4);
        let side = Sandbox::temporary("Run.phx").replace(".tmp", ".rekey");
        assert!(s.exists(&format!("disk/{side}")), "{typed}");
        // As if the power had gone while the header was written.
        let (new, mut file) = (s.read(&format!("disk/{side}")), s.read("disk/Run.phx"));
        let same = new.iter().zip(&file).take_while(|(new, old)| new == old).count();
        file[..same + 1].copy_from_slice(&new[..same + 1]);
        s.write("disk/Run.phx", file);
        Some(())
    };
    for (begun, finished) in
        [("disk/run.phx", "disk/Run.phx"), ("disk/Run.phx", "disk/RUN.PHX"), ("disk/rUN.phx", "disk/rUn.phx")]
    {
        s.write("disk/Run.phx", s.read("f.phx"));
        let Some(()) = torn(begun) else { return };
        let line = s.run(&["verify", finished, "-k", "a"]).fails(3);
        assert!(line.contains("a change of its keys was interrupted"), "{line}");
        assert!(
            s.run(&["rekey", finished, "-k", "a"]).text().contains("an interrupted change was finished"),
            "{finished}"
        );
        assert!(fs::read_dir(s.path("disk")).unwrap().count() == 1, "{finished}");
        // This file system keeps what was read under another spelling.
        for key in ["a", "c"] {
            s.run(&["verify", finished, "-q", "-k", key]).ok();
        }
    }
}

/// The system calls of a change, in order.
fn steps(s: &Sandbox, args: &[&str]) -> Vec<String> {
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-o", "trace", "-e", &format!("trace={CALLS}"), env!("CARGO_BIN_EXE_phalanx")]);
    command.args(args).current_dir(s.path(""));
    Ended(command.env("PHALANX_KEYRING", s.path("keyring")).output().unwrap()).ok();
    let text = String::from_utf8(s.read("trace")).unwrap();
    text.lines()
        .map(|line| line.split_once(' ').unwrap().1.trim_start())
        .filter(|call| !call.starts_with("+++"))
        .filter(|call| !call.starts_with("openat") || call.contains(".rekey") && call.contains("O_CREAT"))
        .map(|call| {
            let name = call.split('(').next().unwrap();
            let what = if call.contains(".rekey") {
                "side file"
            } else if call.contains("f.phx>") {
                "file"
            } else {
                "folder"
            };
            format!("{name} {what}")
        })
        .collect()
}

#[test]
fn each_step_is_on_the_disk_before_the_next() {
    if !has("strace") {
        return;
    }
    let s = protected();
    let calls = steps(&s, &["rekey", "f.phx", "-k", "a", "--add-key", "b"]);
    let text = String::from_utf8(s.read("trace")).unwrap();
    let expected = [
        "openat side file",
        "pwrite64 side file",
        "utimensat side file",
        "fsync side file",
        "fsync folder",
        "pwrite64 file",
        "utimensat file",
        "fsync file",
        "unlinkat side file",
        "fsync folder",
    ];
    assert_eq!(calls, expected);
    let created = text.lines().find(|line| line.contains("O_CREAT") && line.contains(".rekey")).unwrap();
    assert!(created.contains("O_EXCL") && created.contains("O_NOFOLLOW") && created.contains("0600"), "{created}");
    let written = text.lines().find(|line| line.contains("pwrite64") && line.contains("f.phx>")).unwrap();
    assert!(written.contains("4096, 0)"), "in one call: {written}");
}

#[test]
fn a_torn_header_is_reported_and_repaired() {
    let s = protected();
    let old = s.read("f.phx");
    s.run(&["rekey", "f.phx", "--remove-key", "a", "--add-key", "b"]).ok();
    let new = s.read("f.phx");
    // The header is torn in the first key's slot, or in a way that makes it malformed.
    for cut in [60, 17] {
        let mut torn = [&new[..cut], &old[cut..]].concat();
        if cut == 17 {
            torn[16] = 9;
        }
        s.write("f.phx", &torn);
        s.write(&side(), &new[..HEADER]);
        for args in [
            &["unprotect", "f.phx", "-o", "g"][..],
            &["verify", "f.phx"],
            &["unprotect", "f.phx", "--salvage", "-o", "g"],
        ] {
            let line = s.run(args).fails(3);
            assert!(line.contains("interrupted") && line.contains("phalanx rekey finishes it"), "{line}");
        }
        let ended = s.run(&["inspect", "f.phx"]);
        let reported = ended.error() + &String::from_utf8_lossy(&ended.0.stdout);
        assert!(reported.contains("interrupted") && reported.contains("phalanx rekey finishes it"), "{reported}");
        // The key that is being removed does not open it.
        let line = s.run(&["rekey", "f.phx", "-k", "a"]).fails(3);
        assert!(line.contains("phalanx rekey finishes it"), "{line}");
        assert!(s.read("f.phx") == torn && s.exists(&side()) && !s.exists("g"));
        let reported = s.run(&["rekey", "f.phx"]).text();
        assert!(reported.contains("an interrupted change was finished"), "{reported}");
        assert!(s.read("f.phx") == new && s.leftovers().is_empty());
        opens(&s, "b");
    }
    // The repair also works together with a change, and in a tree.
    fs::create_dir(s.path("t")).unwrap();
    s.write("t/f.phx", [&new[..60], &old[60..]].concat());
    s.write(&format!("t/{}", side()), &new[..HEADER]);
    let line = s.run(&["verify", "-R", "t", "-q"]).fails_with_lines(3);
    assert!(line.contains("t/f.phx: ") && line.contains("phalanx rekey finishes it"), "{line}");
    let json = s.run(&["rekey", "-R", "t", "--add-key", "c", "--json"]).text();
    assert!(json.contains("\"interrupted\":\"finished\"") && json.contains("\"changed\":true"), "{json}");
    s.run(&["verify", "-R", "t", "-k", "c"]).ok();
    s.run(&["verify", "-R", "t", "-k", "b"]).ok();
    assert_eq!(fs::read_dir(s.path("t")).unwrap().count(), 1);
}

/// A planted file, in words, and the function that plants it.
type Plant<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn planted_side_files_change_nothing() {
    let s = protected();
    s.write("precious", "precious");
    let before = s.read("f.phx");
    // Headers with the attacker's own file key: for a key that both have, and for a key that only the attacker has.
    let header = |slots: Vec<Slot>| {
        let recipe = Recipe { file_key: [9; 32], suite: 1, chunk_log2: 20, slots, nonces: vec![] };
        seal_header(&recipe)
    };
    let pad = Slot::Raw { kind: 0, body: vec![0; HEADER - 53 - 59] };
    let shared = header(vec![Slot::Key { key: raw(&s, "a") }, pad.clone()]);
    let theirs = header(vec![Slot::Key { key: [66; 32] }, pad]);
    assert!(shared.len() == HEADER && theirs.len() == HEADER);
    let path = s.path(&side());
    let plant: [Plant; 6] = [
        ("random bytes", &|path| fs::write(path, painted(HEADER)).unwrap()),
        ("the attacker's key", &|path| fs::write(path, &theirs).unwrap()),
        ("a shared key", &|path| fs::write(path, &shared).unwrap()),
        ("a link", &|path| symlink("precious", path).unwrap()),
        ("a pipe", &|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
        ("another user's", &|path| {
            fs::write(path, &theirs).unwrap();
            if rustix::process::getuid().is_root() {
                chown(path, Some(65534), Some(65534)).unwrap();
            } else {
                skip("root");
            }
        }),
    ];
    for (what, plant) in plant {
        // A run without a change, and one with a change, remove it.
        plant(&path);
        s.run(&["verify", "f.phx"]).ok();
        let report: serde_json::Value = serde_json::from_str(&s.run(&["rekey", "f.phx", "--json"]).text()).unwrap();
        assert_eq!(report["interrupted"], "discarded", "{what}");
        assert!(s.read("f.phx") == before && s.leftovers().is_empty(), "{what}");
        plant(&path);
        s.run(&["rekey", "f.phx", "--add-key", "b"]).ok();
        opens(&s, "ab");
        assert!(s.leftovers().is_empty(), "{what}");
        // If the header in place is torn, it is not taken for the new one.
        let mut torn = before.clone();
        torn[HEADER - 1] ^= 1;
        s.write("f.phx", &torn);
        plant(&path);
        s.run(&["rekey", "f.phx"]).fails(3);
        assert!(s.read("f.phx") == torn && s.exists(&side()), "{what}");
        fs::remove_file(&path).unwrap();
        s.write("f.phx", &before);
        assert_eq!(s.read("precious"), b"precious", "{what}");
    }
    fs::create_dir(&path).unwrap();
    assert!(s.run(&["rekey", "f.phx", "--add-key", "b"]).fails(4).contains("is in the way"));
    assert!(s.read("f.phx") == before);
}

#[test]
fn runs_at_the_same_time_lose_no_change() {
    let s = protected();
    let names: Vec<String> = (0..12).map(|i| format!("k{i}")).collect();
    for name in &names {
        s.run(&["key", "new", name]).ok();
    }
    let (mut done, mut refused) = (Vec::new(), 0);
    let children: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = s.command(&["rekey", "f.phx", "-k", "a", "--add-key", name, "-q"]);
            (name, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
        })
        .collect();
    for (name, child) in children {
        let ended = Ended(child.wait_with_output().unwrap());
        if ended.0.status.success() {
            done.push(name);
        } else {
            assert!(ended.fails(4).contains("another run is changing its keys"));
            refused += 1;
        }
    }
    assert!(!done.is_empty() && done.len() + refused == names.len());
    for name in done {
        s.run(&["verify", "f.phx", "-k", name]).ok();
    }
    assert!(s.leftovers().is_empty());
    // While another process holds the lock, nothing is changed.
    let file = File::open(s.path("f.phx")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(s.run(&["rekey", "f.phx", "--add-key", "b"]).fails(4).contains("another run"));
    s.run(&["rekey", "f.phx", "-k", "a"]).ok();
}

#[test]
fn a_file_that_is_replaced_while_its_successor_is_synced_stays() {
    let s = protected();
    s.run(&["protect", "f", "-k", "a", "-o", "newer.phx"]).ok();
    let newer = s.read("newer.phx");
    let whole = s.read("f.phx").len() as u64;
    let temporary = s.path(&Sandbox::temporary("f.phx"));
    let ready = || fs::metadata(&temporary).is_ok_and(|meta| meta.len() >= whole);
    let replace = || fs::rename(s.path("newer.phx"), s.path("f.phx")).unwrap();
    let Some(ended) = s.meanwhile("fsync:when=1", &["rekey", "f.phx", "--fresh", "-q"], ready, replace) else { return };
    assert!(ended.fails(4).contains("changed"));
    assert!(s.read("f.phx") == newer && s.leftovers().is_empty());
}

/// The result of a run in which system calls on a file fail as `inject` requests. `None` without strace.
pub fn with_faults(s: &Sandbox, file: Option<&str>, inject: &[&str], args: &[&str]) -> Option<Ended> {
    let path = file.map(|file| s.path(file).to_str().unwrap().to_owned());
    let calls: Vec<_> = inject.iter().map(|rule| rule.split(':').next().unwrap()).collect();
    let trace = format!("trace={}", calls.join(","));
    let rules: Vec<_> = inject.iter().map(|rule| format!("inject={rule}")).collect();
    let mut options = vec!["-e", &trace];
    rules.iter().for_each(|rule| options.extend(["-e", rule]));
    options.extend(path.iter().flat_map(|path| ["-P", path]));
    Some(Ended(s.traced(&options, args)?.output().unwrap()))
}

#[test]
fn without_locks_no_header_is_changed_in_place() {
    let s = protected();
    let before = s.read("f.phx");
    let run = |args: &[&str]| with_faults(&s, None, &["flock:error=ENOLCK"], args);
    let Some(ended) = run(&["rekey", "f.phx", "--add-key", "b"]) else { return };
    let line = ended.fails(4);
    assert!(line.contains("has no locks") && line.contains("--fresh"), "{line}");
    assert!(s.read("f.phx") == before && s.leftovers().is_empty());
    // Another run may need its side file at this moment.
    s.write(&side(), &before[..HEADER]);
    run(&["rekey", "f.phx"]).unwrap().ok();
    assert_eq!(s.leftovers(), [side()]);
    let mut torn = before.clone();
    torn[HEADER - 1] ^= 1;
    s.write("f.phx", &torn);
    assert!(run(&["rekey", "f.phx"]).unwrap().fails(4).contains("has no locks"));
    assert!(s.read("f.phx") == torn && s.leftovers() == [side()]);
    s.run(&["rekey", "f.phx"]).ok();
    run(&["rekey", "f.phx", "--fresh", "--add-key", "b"]).unwrap().ok();
    opens(&s, "ab");
    assert!(s.leftovers().is_empty());
}

#[test]
fn a_torn_header_that_cannot_be_read_is_repaired() {
    let s = protected();
    let old = s.read("f.phx");
    s.run(&["rekey", "f.phx", "--remove-key", "a", "--add-key", "b"]).ok();
    let new = s.read("f.phx");
    let tear = || {
        s.write("f.phx", [&new[..60], &old[60..]].concat());
        s.write(&side(), &new[..HEADER]);
    };
    // Reads of the header fail, and reads of the file's last chunk.
    for faults in ["pread64:error=EIO:when=1", "pread64:error=EIO:when=2"] {
        tear();
        let Some(ended) = with_faults(&s, Some("f.phx"), &[faults], &["rekey", "f.phx"]) else { return };
        assert!(ended.text().contains("an interrupted change was finished"), "{faults}");
        assert!(s.read("f.phx") == new && s.leftovers().is_empty());
    }
    tear();
    for args in [&["verify", "f.phx"][..], &["inspect", "f.phx"], &["unprotect", "f.phx", "-o", "g"]] {
        let ended = with_faults(&s, Some("f.phx"), &["pread64:error=EIO"], args).unwrap();
        let line = ended.fails(4);
        assert!(line.contains("phalanx rekey finishes it"), "{line}");
    }
    // This file does not even begin like a protected file.
    s.write("f.phx", [&[0; 512][..], &old[512..]].concat());
    assert!(s.run(&["verify", "f.phx"]).fails(3).contains("phalanx rekey finishes it"));
    // A side file that cannot be read may be the right one.
    let line = with_faults(&s, Some(&side()), &["pread64:error=EIO"], &["rekey", "f.phx"]).unwrap().fails(4);
    assert!(line.contains(&side()) && line.contains("Input/output error"), "{line}");
    s.run(&["rekey", "f.phx"]).ok();
    assert!(s.read("f.phx") == new && s.leftovers().is_empty());
}

#[test]
fn the_header_is_written_and_synced_again_before_its_side_file_is_removed() {
    if !has("strace") {
        return;
    }
    let s = protected();
    let whole = s.read("f.phx");
    let mut torn = whole.clone();
    torn[HEADER - 1] ^= 1;
    for (content, before) in [(&whole, &[][..]), (&torn, &["fsync side file", "fsync folder"])] {
        s.write("f.phx", content);
        s.write(&side(), &whole[..HEADER]);
        let after = ["pwrite64 file", "utimensat file", "fsync file", "unlinkat side file", "fsync folder"];
        assert_eq!(steps(&s, &["rekey", "f.phx"]), [before, &after].concat());
        assert!(s.read("f.phx") == whole);
    }
}
