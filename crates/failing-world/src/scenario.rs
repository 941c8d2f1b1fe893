//! The commands that run in the failing world, from which states, and what they make.

use crate::random::Random;
use crate::runner::{Run, Runner, painted};
use crate::tree::{self, Tree};
use crate::view::key;
use crate::volume::{self, Script};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// A command, what it begins with, and what is true of it.
pub struct Scenario {
    pub name: &'static str,
    /// What the folder holds before.
    pub before: Tree,
    pub run: Run,
    pub input: Vec<u8>,
    /// The run that completes the work after a failure.
    pub again: Vec<Again>,
    /// What standard output has after a success.
    pub output: Output,
    /// A run that must succeed afterwards.
    pub proof: Option<Run>,
    /// Whether unfinished files may stay after a failure, for the next run to go on with.
    pub keeps: bool,
    /// The type of file system that the command sees: that of ext4 for bulk syncs, or 0.
    pub fs_type: u32,
    /// Whether outputs are not synced.
    pub unsynced: bool,
}

/// What a success writes to standard output.
pub enum Output {
    /// Nobody looks: a path, or how much was done, which depends on what was tried twice.
    Any,
    /// The same bytes as without a fault. After a failure there may be others, such as how many files are whole.
    Same,
    /// The same, or without the names of keys: `inspect` says nothing of a keyring that it cannot read.
    SameOrUnnamed,
    /// These bytes. After a failure there is the beginning of them.
    Plain(Vec<u8>),
    /// A protected file that holds these bytes.
    Protected(Vec<u8>),
}

/// The next run, if something is there.
pub struct Again {
    /// The path that must be there, if any.
    pub with: Option<&'static str>,
    pub run: Run,
}

/// How many scripts for volumes there are of each sort.
const SCRIPTS: u64 = 6;
const EXT4: u32 = 0xef53;
/// The age key for which a key is locked.
const RECIPIENT: &str = "age1vk8wlv8lytwatkqe2qupm577zl6rv3p8lvyjnc6hw2kc80rc0v6q9yvggp";
/// The key c when it is locked: its file's name has the key's id.
const LOCKED: &str = "c.19ac84788f7718791d29913c338e0ac3.key.phx";
/// The secret half of the age key, as in `vectors/age`.
const IDENTITY: &[u8] = b"AGE-SECRET-KEY-16AX85DCFAQEPJDPK8XSQGP4MEQSYVUF8Q7CZ3G9RNFRST4YZ5TLQND2W0U\n";
/// The key that signs, and a line that names its signer.
const SIGNER: &[u8] = include_bytes!("../../age/tests/data/ssh-ed25519");
const SIGNERS: &str = concat!("somebody ", include_str!("../../age/tests/data/ssh-ed25519.pub"));
/// The time of modification of all plain files.
pub const TIME: (i64, i64) = (1_700_000_000, 123_456_789);

struct Maker<'a> {
    runner: &'a mut Runner,
    made: Vec<Scenario>,
}

/// All scenarios.
pub fn all(runner: &mut Runner, seed: u64, named: &str) -> Vec<Scenario> {
    let mut maker = Maker { runner, made: Vec::new() };
    maker.files();
    maker.folders();
    maker.rekeys();
    maker.mirrors();
    maker.signatures();
    maker.keys();
    maker.locks();
    maker.volumes();
    maker.scripts(seed, named);
    maker.made
}

fn write(root: &Path, name: &str, bytes: &[u8], mode: u32) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, bytes).expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
    tree::set_time(&path, TIME).expect("a time");
}

/// What is mirrored.
fn source(root: &Path) {
    for (number, name) in ["a", "moved", "f/c", "gone/e", "kind/file"].into_iter().enumerate() {
        write(root, &format!("s/{name}"), &painted(300 + number, 10 + number as u64), 0o644);
        tree::set_time(&root.join("s").join(name), (TIME.0 + number as i64, TIME.1)).expect("a time");
    }
    symlink("a", root.join("s/link")).expect("a link");
}

impl Maker<'_> {
    /// A folder with keys, in which `fill` and then these commands have worked.
    fn begin(&mut self, fill: impl FnOnce(&Path), lines: &[&str]) -> Tree {
        self.runner.put(&Tree::new());
        let root = self.runner.case.clone();
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            write(&root, &format!("keyring/{name}.key"), &key(number), 0o600);
        }
        fs::set_permissions(root.join("keyring"), Permissions::from_mode(0o700)).expect("a mode");
        fill(&root);
        self.go(lines)
    }

    fn go(&mut self, lines: &[&str]) -> Tree {
        for line in lines {
            let ended = self.runner.run(&Run::command(line), b"", &[], false, 0);
            assert!(ended.code == 0, "{line}: {}: {}", ended.code, ended.error);
        }
        self.runner.take()
    }

    fn add(&mut self, name: &'static str, before: &Tree, line: &str, again: &str) -> &mut Scenario {
        let again = Again { with: None, run: Run::command(again) };
        self.made.push(Scenario {
            name,
            before: before.clone(),
            run: Run::command(line),
            input: Vec::new(),
            again: vec![again],
            output: Output::Any,
            proof: None,
            keeps: false,
            fs_type: 0,
            unsynced: false,
        });
        self.made.last_mut().expect("it was added")
    }

    fn files(&mut self) {
        let (text, old) = (painted(9000, 1), painted(5000, 2));
        let plain = self.begin(|root| write(root, "f", &text, 0o640), &[]);
        let new = "protect f -k a --chunk-size 4K --engine serial";
        let force = format!("{new} --force");
        self.add("protect", &plain, new, &force);
        self.add("protect-remove", &plain, &format!("{new} --remove"), &format!("{force} --remove"))
            .removes("f", "verify f.phx");
        self.add("protect-resume", &plain, &format!("{new} --resume"), &format!("{force} --resume")).keeps = true;
        self.add("protect-no-sync", &plain, &format!("{new} --no-sync"), &force).unsynced = true;
        let pipe = self.begin(|_| {}, &[]);
        let line = "protect - -o f.phx -k a --chunk-size 4K --engine serial";
        self.add("protect-input", &pipe, line, &format!("{line} --force")).input = text.clone();
        self.add("protect-output", &plain, &format!("{new} -o -"), &format!("{new} -o -")).output =
            Output::Protected(text.clone());

        let both = self.begin(
            |root| {
                write(root, "f", &old, 0o644);
            },
            &["protect f -k a --chunk-size 4K"],
        );
        let mut both = both;
        let stored = self.begin(|root| write(root, "f", &text, 0o640), &[new]);
        both.insert("f".into(), plain[Path::new("f")].clone());
        self.add("protect-force", &both, &force, &force);

        let mut alone = stored.clone();
        alone.remove(Path::new("f"));
        let open = "unprotect f.phx -k a --engine serial";
        let force = format!("{open} --force");
        self.add("unprotect", &alone, open, &force);
        self.add("unprotect-remove", &alone, &format!("{open} --remove"), &format!("{force} --remove"))
            .removes("f.phx", "key list");
        self.add("unprotect-resume", &alone, &format!("{open} --resume"), &format!("{force} --resume")).keeps = true;
        self.add("unprotect-output", &alone, &format!("{open} -o -"), &format!("{open} -o -")).output =
            Output::Plain(text.clone());
        let line = format!("{open} --range 5000-8000 -o -");
        self.add("unprotect-range", &alone, &line, &line).output = Output::Plain(text[5000..8000].to_vec());
        let mut other = alone.clone();
        let mut left = plain[Path::new("f")].clone();
        left.kind = tree::Entry::File(old);
        other.insert("f".into(), left);
        self.add("unprotect-force", &other, &force, &force);
        self.add("verify", &alone, "verify f.phx -k a --engine serial", "verify f.phx -k a").output = Output::Same;
        self.add("inspect", &alone, "inspect f.phx --json", "inspect f.phx --json").output = Output::SameOrUnnamed;
    }

    fn folders(&mut self) {
        let fill = |root: &Path| {
            write(root, "t/a", &painted(5000, 3), 0o644);
            write(root, "t/b", b"", 0o600);
            // It is alone in its folder, so nothing there may be readable by others.
            write(root, "t/s/c", &painted(100, 4), 0o600);
            symlink("a", root.join("t/link")).expect("a link");
        };
        let plain = self.begin(fill, &[]);
        let new = "protect -R t -k a --chunk-size 4K --engine serial";
        let force = format!("{new} --force");
        let proof = Some(Run::command("verify -R t.phx -k a"));
        self.add("protect-folder", &plain, new, &force).proof = proof.clone();
        let bulk = self.add("protect-folder-bulk", &plain, new, &force);
        (bulk.proof, bulk.fs_type) = (proof.clone(), EXT4);
        let remove =
            self.add("protect-folder-remove", &plain, &format!("{new} --remove"), &format!("{force} --remove"));
        remove.removes("t", "key list");
        remove.proof = proof;
        let stored = self.begin(fill, &[new]);
        let mut alone = stored.clone();
        alone.retain(|path, _| !path.starts_with("t"));
        let open = "unprotect -R t.phx -k a --engine serial";
        let force = format!("{open} --force");
        self.add("unprotect-folder", &alone, open, &force);
        self.add("unprotect-folder-bulk", &alone, open, &force).fs_type = EXT4;
        self.add("verify-folder", &alone, "verify -R t.phx -k a --engine serial", "verify -R t.phx -k a").output =
            Output::Same;
    }

    fn rekeys(&mut self) {
        let fill = |root: &Path| write(root, "f", &painted(9000, 5), 0o640);
        let mut stored = self.begin(fill, &["protect f -k a -k b --chunk-size 4K --engine serial"]);
        stored.remove(Path::new("f"));
        for (name, line) in [
            ("rekey-add", "rekey f.phx -k a --add-key c"),
            ("rekey-exchange", "rekey f.phx -k a --add-key c --remove-key b"),
            ("rekey-fresh", "rekey f.phx -k a --add-key c --remove-key b --fresh"),
        ] {
            // A fresh header needs all keys that stay.
            let again = if name == "rekey-fresh" { line.replace("-k a", "-k a -k c") } else { line.into() };
            self.add(name, &stored, line, &again);
        }
        let fill = |root: &Path| {
            for (number, name) in ["a", "b", "s/c"].into_iter().enumerate() {
                write(root, &format!("t/{name}"), &painted(3000, 40 + number as u64), 0o640);
            }
        };
        let mut stored = self.begin(fill, &["protect -R t -k a -k b --chunk-size 4K --engine serial"]);
        stored.retain(|path, _| !path.starts_with("t"));
        let line = "rekey -R t.phx -k a --add-key c --remove-key b";
        self.add("rekey-folder", &stored, line, line).proof = Some(Run::command("verify -R t.phx -k c"));
    }

    fn mirrors(&mut self) {
        let line = "mirror s m -k a --chunk-size 4K --engine serial --delete";
        let proof = Some(Run::command("verify -R m -k a"));
        let plain = self.begin(source, &[]);
        self.add("mirror-first", &plain, line, line).proof = proof.clone();
        let changed = self.changed(source, line);
        self.add("mirror-renew", &changed, line, line).proof = proof.clone();
        let bulk = self.add("mirror-renew-bulk", &changed, line, line);
        (bulk.proof, bulk.fs_type) = (proof.clone(), EXT4);
        // The mirror has lost a file whose original has not changed since: the next run writes it again.
        let mut lossy = changed.clone();
        lossy.remove(Path::new("m/f/c.phx")).expect("a stored file");
        self.add("mirror-lost", &lossy, line, line).proof = proof.clone();
        let line = format!("{line} --backup-dir old");
        self.add("mirror-backup", &changed, &line, &line).proof = proof.clone();
    }

    /// The source of a mirror that this command has made, and the mirror, after the source has changed.
    fn changed(&mut self, fill: impl FnOnce(&Path), line: &str) -> Tree {
        self.begin(fill, &[line]);
        let root = self.runner.case.join("s");
        write(&root, "a", &painted(5000, 20), 0o644);
        write(&root, "new/file", &painted(400, 21), 0o644);
        fs::rename(root.join("moved"), root.join("new/moved")).expect("a rename");
        fs::remove_dir_all(root.join("gone")).expect("a removal");
        fs::remove_dir_all(root.join("kind")).expect("a removal");
        write(&root, "kind", &painted(200, 22), 0o644);
        self.runner.take()
    }

    /// Files and mirrors that are signed. Nobody names the signers, so the next run knows by itself that the mirror is its own.
    fn signatures(&mut self) {
        let signer = |root: &Path| {
            write(root, "id", SIGNER, 0o600);
            write(root, "signers", SIGNERS.as_bytes(), 0o644);
        };
        let file = |root: &Path| {
            signer(root);
            write(root, "f", &painted(9000, 6), 0o640);
        };
        let new = "protect f -k a --sign id --chunk-size 4K --engine serial";
        let force = format!("{new} --force");
        let proof = Some(Run::command("verify f.phx -k a --signers signers"));
        let plain = self.begin(file, &[]);
        self.add("sign-protect", &plain, new, &force).proof = proof.clone();
        let signed = self.begin(file, &[new]);
        self.add("sign-protect-force", &signed, &force, &force).proof = proof;

        let line = "mirror s m -k a --sign id --chunk-size 4K --engine serial --delete";
        let fill = |root: &Path| {
            signer(root);
            source(root);
        };
        let proof = Some(Run::command("verify -R m -k a --signers signers"));
        let plain = self.begin(fill, &[]);
        self.add("mirror-sign-first", &plain, line, line).proof = proof.clone();
        let changed = self.changed(fill, line);
        self.add("mirror-sign", &changed, line, line).proof = proof;
    }

    fn keys(&mut self) {
        let bare = self.begin(|_| {}, &[]);
        let again = |path| {
            vec![
                Again { with: Some(path), run: Run::command("key list") },
                Again { with: None, run: Run::command("key new x") },
            ]
        };
        self.add("key-new", &bare, "key new x", "").again = again("keyring/x.key");
        let mut none = bare.clone();
        none.retain(|path, _| !path.starts_with("keyring"));
        self.add("key-first", &none, "key new x", "").again = again("keyring/x.key");
        let with_file = self.begin(|root| write(root, "file", &[9; 32], 0o600), &[]);
        let import = self.add("key-import", &with_file, "key import x file", "");
        import.again = again("keyring/x.key");
        import.again[1].run = Run::command("key import x file");
        self.add("key-export", &bare, "key export a -o copy", "key export a -o copy --force");
        self.add("key-export-all", &bare, "key export --all -o copy", "key export --all -o copy --force");
        let remove = self.add("key-rm", &bare, "key rm c --force", "");
        remove.again = vec![
            Again { with: Some("keyring/c.key"), run: Run::command("key rm c --force") },
            Again { with: None, run: Run::command("key list") },
        ];
    }

    /// A key is locked for a public key, because a password takes seconds. Its file goes once the locked one is there.
    fn locks(&mut self) {
        let bare = self.begin(|root| write(root, "id", IDENTITY, 0o600), &[]);
        let line = format!("key lock c --recipient {RECIPIENT}");
        let lock = self.add("key-lock", &bare, &line, &line);
        lock.again[0].with = Some("keyring/c.key");
        // Where the key itself is gone, the locked one opens.
        let proof = Run::command(&format!("verify keyring/{LOCKED} --identity id"));
        lock.again.push(Again { with: None, run: proof.clone() });
        lock.proof = Some(proof);
    }

    fn volumes(&mut self) {
        let bare = self.begin(|_| {}, &[]);
        let proof = Some(Run::command("verify vol -k a"));
        for (name, line) in [("init", "init vol -k a"), ("init-rollback", "init vol -k a --rollback-protection")] {
            let init = self.add(name, &bare, line, line);
            init.proof = proof.clone();
            init.again.insert(0, Again { with: Some("vol/phalanx.volume"), run: proof.clone().expect("a proof") });
        }
    }
}

impl Maker<'_> {
    /// Scripts for volumes: always the same, some that depend on the seed, and those that `named` names.
    fn scripts(&mut self, seed: u64, named: &str) {
        let mut random = Random::new(seed);
        let more = (0..SCRIPTS).map(|_| 1000 + random.below(1_000_000) as u64);
        let asked = named.split([',', ' ']).filter_map(|name| name.rsplit_once('-')?.1.parse::<u64>().ok());
        let numbers: BTreeSet<u64> = (0..SCRIPTS).chain(more).chain(asked).collect();
        for (kind, options) in [("volume", ""), ("rollback", " --rollback-protection")] {
            self.begin(|_| {}, &[&format!("init vol -k a{options}")]);
            let ended = self.runner.run(&Run::Volume(Script::Begin), b"", &[], false, 0);
            assert!(ended.code == 0, "a volume: {}", ended.error);
            let before = self.runner.take();
            for number in &numbers {
                let name = Box::leak(format!("{kind}-{number}").into_boxed_str());
                let script = Script::Requests(volume::requests(*number, 12 + (*number % 20) as usize));
                let scenario = self.add(name, &before, "", "");
                scenario.run = Run::Volume(script);
                scenario.again.clear();
                scenario.proof = Some(Run::command("verify vol -k a"));
                scenario.fs_type = if number % 2 == 0 { 0 } else { EXT4 };
            }
        }
    }
}

impl Scenario {
    /// The input may be gone, and its output is then whole.
    fn removes(&mut self, input: &'static str, proof: &str) {
        self.again[0].with = Some(input);
        self.again.push(Again { with: None, run: Run::command(proof) });
    }
}
