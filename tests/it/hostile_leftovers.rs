//! An attack by another user who may rename files in the folder: he holds a file open, and renames it to the name of a
//! file that an interrupted run has left.

use crate::common::{Ended, Sandbox, has, painted, skip, wait_for};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const VICTIM: u32 = 2001;
const ATTACKER: u32 = 2002;
/// The length of files, in bytes: enough for `--resume`.
const LEN: usize = 20 << 20;
const LETTER: &[u8] = b"old words\n";

/// A folder of the attacker, in which the victim has a letter.
struct Scene {
    s: Sandbox,
    program: PathBuf,
}

impl Scene {
    /// `None` without two users.
    fn new() -> Option<Self> {
        if !rustix::process::getuid().is_root() || !has("setpriv") {
            skip("root");
            return None;
        }
        let s = Sandbox::new();
        let program = s.copy_of_the_program();
        fs::set_permissions(s.path(""), Permissions::from_mode(0o755)).unwrap();
        for (folder, owner, mode) in [("home", VICTIM, 0o700), ("shared", ATTACKER, 0o777)] {
            fs::create_dir(s.path(folder)).unwrap();
            fs::set_permissions(s.path(folder), Permissions::from_mode(mode)).unwrap();
            chown(s.path(folder), Some(owner), Some(owner)).unwrap();
        }
        chown(s.secret("home/raw", [1; 32]), Some(VICTIM), Some(VICTIM)).unwrap();
        let scene = Self { s, program };
        scene.victims("home/f", &painted(LEN), 0o600);
        scene.victim(&["protect", "home/f", "--no-sync"]).ok();
        Some(scene)
    }

    fn victims(&self, name: &str, content: &[u8], mode: u32) {
        self.s.write(name, content);
        chown(self.s.path(name), Some(VICTIM), Some(VICTIM)).unwrap();
        fs::set_permissions(self.s.path(name), Permissions::from_mode(mode)).unwrap();
    }

    fn command(&self, user: u32, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()]).arg(program);
        command.current_dir(self.s.path("")).env("HOME", self.s.path("home")).env_remove("PHALANX_PASSWORD");
        command
    }

    /// Runs the program as the victim.
    fn victim(&self, args: &[&str]) -> Ended {
        Ended(self.victims_command(args).output().unwrap())
    }

    fn victims_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(VICTIM, self.program.to_str().unwrap());
        command.args(args).args(["--key-file", "home/raw"]).stdin(Stdio::null());
        command
    }

    /// Starts a script of the attacker. It prints a line when it has done its first part.
    fn attacker(&self, script: &str) -> Attacker {
        let mut command = self.command(ATTACKER, "sh");
        command.args(["-e", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (go, says) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut attacker = Attacker { child, go, says };
        attacker.is_ready();
        attacker
    }
}

struct Attacker {
    child: Child,
    go: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Attacker {
    fn is_ready(&mut self) {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    /// Lets the script continue with its next part.
    fn goes_on(&mut self) {
        self.go.write_all(b"go\n").unwrap();
        self.is_ready();
    }

    /// Lets the script end, and returns what it has read.
    fn ends(mut self) -> Vec<u8> {
        self.go.write_all(b"go\n").unwrap();
        let mut read = Vec::new();
        self.says.read_to_end(&mut read).unwrap();
        assert!(self.child.wait().unwrap().success());
        read
    }
}

#[test]
fn a_plaintext_is_never_written_into_a_file_that_another_user_holds_open() {
    let Some(scene) = Scene::new() else { return };
    let temporary = Sandbox::temporary("f");
    let unprotect = ["unprotect", "home/f.phx", "-o", "shared/f", "--resume", "--no-sync"];
    // The first file can be read by all users, and not written by its owner. The second could be written by all users.
    for mode in [0o444, 0o666] {
        scene.victims("shared/letter", LETTER, mode);
        let open = if mode == 0o444 { "3<letter" } else { "3<>letter" };
        let mut attacker = scene.attacker(&format!(
            "cd shared; exec {open}; echo ready; read go; mv letter {temporary}; echo ready; read go; cat <&3"
        ));
        if mode == 0o666 {
            fs::set_permissions(scene.s.path("shared/letter"), Permissions::from_mode(0o600)).unwrap();
        }
        attacker.goes_on();
        scene.victim(&unprotect).ok();
        let seen = attacker.ends();
        assert!(seen == LETTER, "mode {mode:o}: {} bytes of another file", seen.len());
        assert!(scene.s.read("shared/f") == painted(LEN));
        assert_eq!(fs::read_dir(scene.s.path("shared")).unwrap().count(), 1, "mode {mode:o}");
        fs::remove_file(scene.s.path("shared/f")).unwrap();
    }
}

#[test]
fn leftovers_of_an_interrupted_run_cannot_be_exchanged() {
    let Some(scene) = Scene::new() else { return };
    let (s, temporary) = (&scene.s, Sandbox::temporary("f"));
    let unprotect = ["unprotect", "home/f.phx", "-o", "shared/f", "--resume", "--no-sync", "--engine", "serial"];
    // A run is killed when its record exists. It may have ended before that.
    for _ in 0..50 {
        let mut child = scene.victims_command(&unprotect).stderr(Stdio::null()).spawn().unwrap();
        let has_begun = || fs::metadata(s.path(&format!("shared/{temporary}"))).is_ok_and(|meta| meta.len() > 4 << 20);
        wait_for(|| has_begun() || s.exists("shared/f"));
        child.kill().unwrap();
        child.wait().unwrap();
        if !s.exists("shared/f") {
            break;
        }
        fs::remove_file(s.path("shared/f")).unwrap();
    }
    assert!(!s.exists("shared/f"), "every run ended before it was stopped");
    scene.victims("shared/letter", LETTER, 0o666);
    let mut attacker = scene.attacker(&format!(
        "cd shared; exec 3<>letter; echo ready; read go; mv letter {temporary}; echo ready; read go; cat <&3; printf evil >&3"
    ));
    fs::set_permissions(s.path("shared/letter"), Permissions::from_mode(0o600)).unwrap();
    attacker.goes_on();
    let ended = scene.victim(&unprotect);
    let reported = ended.error();
    ended.ok();
    assert!(attacker.ends() == LETTER);
    assert!(s.read("shared/f") == painted(LEN));
    assert!(reported.contains("no record proves"), "{reported}");
}

#[test]
fn a_protected_file_is_never_one_that_another_user_can_write_to() {
    let Some(scene) = Scene::new() else { return };
    let (s, temporary) = (&scene.s, Sandbox::temporary("f.phx"));
    scene.victims("shared/letter", LETTER, 0o666);
    let mut attacker = scene.attacker(&format!(
        "cd shared; exec 3<>letter; echo ready; read go; mv letter {temporary}; : >{record}; echo ready; read go; printf evil >&3",
        record = temporary.replace(".tmp", ".resume")
    ));
    fs::set_permissions(s.path("shared/letter"), Permissions::from_mode(0o600)).unwrap();
    attacker.goes_on();
    scene.victim(&["protect", "home/f", "-o", "shared/f.phx", "--resume"]).ok();
    attacker.ends();
    scene.victim(&["verify", "shared/f.phx"]).ok();
}
