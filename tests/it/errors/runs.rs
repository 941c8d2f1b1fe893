//! Messages of runs of the command.

use super::Message;
use crate::age;
use crate::common::{Ended, Sandbox, painted};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};

const COPY: &str = "restore the file from a copy";

/// The arguments of a run, when its line appears, and what the reader can do.
type Run = (&'static str, &'static str, &'static str);

pub fn all() -> Vec<Message> {
    let s = prepared();
    RUNS.iter()
        .map(|&(args, when, then)| {
            let ended = run(&s, args);
            let said = ended.error();
            let is_of_warning = |line: &&str| line.contains(" warning: ") || line.starts_with("hint: ");
            let lines = said.lines().skip_while(is_of_warning).take(2);
            message(&s, args, &ended, lines.collect(), when, then)
        })
        .chain(WARNINGS.iter().map(|&(args, when, then)| {
            let ended = run(&s, args);
            let said = ended.error();
            Message { code: 0, ..message(&s, args, &ended, said.lines().take(2).collect(), when, then) }
        }))
        .collect()
}

/// The message of a run's first lines: the second may be a hint.
fn message(
    s: &Sandbox,
    args: &str,
    ended: &Ended,
    lines: Vec<&str>,
    when: &'static str,
    then: &'static str,
) -> Message {
    let code = ended.0.status.code().unwrap() as u8;
    let folder = s.path("");
    let mut lines = lines.into_iter().map(|line| line.replace(&*folder.to_string_lossy(), "/home/ann/"));
    let line = lines.next().unwrap_or_else(|| panic!("{args}: no line"));
    let line = line.strip_prefix("phalanx: ").unwrap_or_else(|| panic!("{args}: {line}")).to_owned();
    let hint = lines.next().and_then(|line| line.strip_prefix("hint: ").map(str::to_owned));
    Message { code, line, hint, when, then }
}

/// The program, without a terminal. Words with `=` before the command are variables.
fn run(s: &Sandbox, args: &str) -> Ended {
    let mut words = args.split(' ').peekable();
    let mut command = Command::new("setsid");
    command
        .arg("--wait")
        .env("PHALANX_KEYRING", "keyring")
        .env("PHALANX_CACHE", "cache")
        .env_remove("PHALANX_PASSWORD");
    command.env("LC_ALL", "C").stdin(Stdio::null()).current_dir(s.path(""));
    while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
        command.env(name, value);
        words.next();
    }
    Ended(command.arg(env!("CARGO_BIN_EXE_phalanx")).args(words).output().unwrap())
}

/// A folder with the files for each run.
fn prepared() -> Sandbox {
    let s = Sandbox::new();
    let ok = |args: &str| drop(run(&s, args).ok());
    let key = |first: u8| -> Vec<u8> { (first..first + 32).collect() };
    s.secret("work.raw", key(0));
    s.secret("lab.raw", key(32));
    s.secret("short.raw", [1; 31]);
    s.write("open.raw", key(0));
    s.secret("password.txt", "correct horse battery staple\n");
    s.secret("wrong.txt", "wrong horse battery staple\n");
    s.secret("empty.txt", "");
    s.secret("long.txt", vec![b'a'; 70_000]);
    s.write("notes.txt", "hello\n");
    s.write("-notes", "hello\n");
    s.secret("huge.txt", vec![b'#'; 2 << 20]);
    s.write("none.txt", "# nobody\n");
    s.write("binary", [0xff, 0xfe]);
    s.write("ann.pub", age::public("alice.txt"));
    s.secret("ann.txt", age::data("alice.txt"));
    s.secret("bob.txt", age::data("bob.txt"));
    ok(&format!("protect notes.txt --output for-ann.phx --recipient {}", age::public("alice.txt")));
    ok("key import work work.raw");
    ok("key import lab lab.raw");
    s.write("run42.h5", painted(100_000));
    ok("protect run42.h5 --key work --chunk-size 4K");
    ok("protect run42.h5 --key-file lab.raw --output for-lab.phx");
    ok("protect notes.txt --password-file password.txt");
    let stored = s.read("run42.h5.phx");
    let changed = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = stored.clone();
        change(&mut bytes);
        s.write(name, bytes);
    };
    changed("damaged.phx", &|bytes| bytes[60_000] ^= 1);
    changed("damaged-at-the-end.phx", &|bytes| *bytes.last_mut().unwrap() ^= 1);
    changed("short.phx", &|bytes| bytes.truncate(bytes.len() - 20_000));
    changed("cut.phx", &|bytes| bytes.truncate(600));
    changed("bad-header.phx", &|bytes| bytes[12] = 99);
    s.write("renamed", &stored);
    for folder in ["project", "other", "empty", "out"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    s.write("project/notes.txt", "hello\n");
    s.write("other/run42.h5", "another\n");
    ok("protect --recursive project --key work");
    symlink("run42.h5.phx", s.path("link.phx")).unwrap();
    mknodat(CWD, s.path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    ok("init vault --key work");
    let public = |name: &str| age::data(&format!("{name}.pub"));
    s.secret("id", age::data("ssh-ed25519"));
    s.write("id.pub", public("ssh-ed25519"));
    s.write("signers", format!("ann@example.org {}", public("ssh-ed25519")));
    s.write("old-signers", format!("ann valid-before=\"20200101Z\" {}", public("ssh-ed25519")));
    s.write("other-signers", format!("x ssh-dss AAAAB3NzaC1kc3M=\nbob {}", public("ssh-ecdsa")));
    s.write("wrong-signers", format!("ann always {}", public("ssh-ed25519")));
    s.write("krl", "SSHKRL\n");
    for name in ["signed", "exchanged", "garbled"] {
        ok(&format!("protect notes.txt --key work --sign id --output {name}.phx"));
    }
    fs::copy(s.path("signed.phx.sig"), s.path("exchanged.phx.sig")).unwrap();
    s.write("garbled.phx.sig", "hello\n");
    ok("protect notes.txt --key work --cipher aes-256-gcm --output gcm.phx");
    fs::copy(s.path("signed.phx.sig"), s.path("gcm.phx.sig")).unwrap();
    fs::create_dir_all(s.path("lost")).unwrap();
    fs::copy(s.path("vault/phalanx.folder"), s.path("lost/phalanx.folder")).unwrap();
    fs::create_dir_all(s.path("vault/within")).unwrap();
    fs::copy(s.path("vault/phalanx.folder"), s.path("vault/within/phalanx.folder")).unwrap();
    // Two more keyrings: one with a key that others may read, and one in which a key's name belongs to another key.
    ok("PHALANX_KEYRING=open key import work work.raw");
    ok("PHALANX_KEYRING=second key import lab work.raw");
    ok("key export --all --output keys.txt");
    // The keyrings of two machines in one folder.
    fs::DirBuilder::new().mode(0o700).create(s.path("merged")).unwrap();
    for id in ["30313233343536373839616263646566", "66656463626139383736353433323130"] {
        s.write(&format!("merged/work.{id}.key.phx"), "");
    }
    fs::create_dir(s.path("empty-keyring")).unwrap();
    for (name, mode) in [("open.raw", 0o644), ("open/work.key", 0o644), ("empty-keyring", 0o700)] {
        fs::set_permissions(s.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    s
}

const RUNS: &[Run] = &[
    // 2: object stores
    ("protect run42.h5 --key work --output s3://bucket/", "", ""),
    ("unprotect s3://bucket/run42.h5.phx", "an object has no folder of this machine beside it", ""),
    ("mirror project s3://bucket/project.phx --key work --backup-dir old", "", ""),
    ("mirror project S3://bucket/project.phx --key work", "schemes are written small", ""),
    ("unprotect run42.h5.phx --resume --output s3://bucket/run42.h5", "", "leave out `--resume`"),
    (
        "unprotect -R project.phx --output s3://bucket/project",
        "objects have neither links nor permissions",
        "write to a folder on a disk",
    ),
    ("protect -R s3://bucket/project --key work --output project.phx", "", ""),
    ("rekey -R s3://bucket/project.phx --key work", "folders need paths", ""),
    // 3
    (
        "verify notes.txt",
        "it does not begin like a protected file",
        "was it ever protected? If so, restore it from a copy",
    ),
    ("verify notes.txt.phx --password-file wrong.txt", "nobody can tell which", ""),
    (
        "verify for-lab.phx --key work",
        "the key that you named is not one of the file's",
        "`phalanx inspect` shows which keys open a file",
    ),
    ("verify notes.txt.phx --key work", "", ""),
    ("verify damaged.phx", "the disk or a copy changed it, or somebody did", COPY),
    ("verify damaged-at-the-end.phx", "the end of the file is not its own", "copy it again"),
    ("verify short.phx", "as above", "copy it again"),
    ("verify cut.phx", "nearly all of it is missing", "copy it again"),
    ("verify bad-header.phx", "", COPY),
    (
        "unprotect --salvage damaged.phx --output saved",
        "`--salvage` did what it could",
        "lines on standard output name the lost ranges, which are zeros in the output",
    ),
    ("unprotect vault/phalanx.volume --output config", "", ""),
    ("verify run42.h5.phx --signers signers", "nobody has signed the file", "[Signatures](signatures.md) says how"),
    ("verify -R project.phx --signers signers", "nobody has signed the manifest", ""),
    (
        "verify signed.phx --signers other-signers",
        "somebody has signed it whom the file of signers does not have",
        "ask them",
    ),
    ("verify signed.phx --signers old-signers", "or not for this time or purpose", ""),
    ("verify exchanged.phx --signers signers", "the signature is of another content", "ask the signer for both files"),
    ("verify garbled.phx --signers signers", "", "copy it again"),
    ("verify gcm.phx --signers signers", "the file is in suite 4", "protect it again with another cipher"),
    ("verify vault --signers signers", "", ""),
    // 4
    ("protect missing.h5 --key work", "", "look at the name"),
    ("protect run42.h5 --key work", "", ""),
    ("protect run42.h5.phx --key work", "", ""),
    ("protect project --key work", "", ""),
    ("protect --recursive project --key work", "", ""),
    ("protect pipe --key work", "a pipe, socket or device is named", ""),
    ("protect run42.h5 --key work --output out --force", "", "use `--output-dir` for a folder"),
    ("protect run42.h5 --key work --output-dir nowhere", "", ""),
    ("verify --recursive empty", "", "look at the name; without `.phx` at its end no file is looked at"),
    ("unprotect vault", "", ""),
    ("protect run42.h5 --key nobody --output x", "", ""),
    ("PHALANX_KEYRING=nowhere protect run42.h5 --key work --output x", "", ""),
    ("PHALANX_KEYRING=open protect run42.h5 --key work --output x", "others may have read it", "consider a new key"),
    ("PHALANX_KEYRING=merged key show work", "keyrings were put together", "give one of them another name"),
    ("PHALANX_KEYRING=empty-keyring key export --all", "", ""),
    ("key import work work.raw", "", ""),
    ("PHALANX_KEYRING=second key import --all keys.txt", "", ""),
    ("key import new notes.txt", "", ""),
    ("key import new run42.h5", "", ""),
    ("key import --all notes.txt", "a list of keys has lines of name and text", "look at that line"),
    ("key import --all empty.txt", "", ""),
    ("protect run42.h5 --key-file short.raw --output x", "", "`phalanx key import` takes the text of a key too"),
    ("protect run42.h5 --key-file open.raw --output x", "others may have read it", "consider a new key"),
    ("protect run42.h5 --recipients-file none.txt --output x", "", ""),
    ("protect run42.h5 --recipients-file binary --output x", "", ""),
    ("protect run42.h5 --recipients-file run42.h5 --output x", "", ""),
    ("protect run42.h5 --recipients-file notes.txt --output x", "", ""),
    (
        "verify run42.h5.phx --identity work.raw",
        "",
        "a file of identities has lines that begin with `AGE-SECRET-KEY-1`, or it is a private key of SSH",
    ),
    (
        "inspect run42.h5.phx --key work",
        "`inspect` shows what shows without a key",
        "leave the key out, or give a file of recipients to name them",
    ),
    ("inspect - --key work --recipients-file ann.pub", "", "give the file's name"),
    ("verify for-ann.phx --identity ann.pub", "", ""),
    (
        "verify for-ann.phx --identity bob.txt",
        "The identities that you named are of other people",
        "name another; `phalanx inspect` shows the kinds of the file's recipients",
    ),
    ("unprotect --recursive vault", "a volume does not have the name of what is in it", ""),
    ("unprotect --recursive vault --remove --output plain", "", "delete it yourself, after a look at what came back"),
    ("init -p new-folder", "what follows `-p` may be a password", ""),
    ("mount lost empty --key work", "`phalanx.volume` was deleted, or not copied", "nobody can make it again"),
    ("verify vault/within --key work", "", ""),
    ("verify run42.h5.phx --identity huge.txt", "", "is it the right file?"),
    (
        "SSH_AUTH_SOCK= protect notes.txt --key work --sign id.pub --output x",
        "",
        "name the private key, or start an agent",
    ),
    ("protect notes.txt --key work --sign notes.txt --output x", "", ""),
    ("protect notes.txt --key work --sign huge.txt --output x", "", "is it the right file?"),
    ("verify signed.phx --signers notes.txt", "a file of signers has lines of names, options and a public key", ""),
    (
        "verify signed.phx --signers wrong-signers",
        "it has another name than those of ssh-keygen, or its value is not in quotes",
        "",
    ),
    ("verify signed.phx --signers none.txt", "", ""),
    ("verify signed.phx --signers binary", "", ""),
    ("verify signed.phx --signers signers --revoked krl", "", ""),
    // 2
    ("protect", "", ""),
    ("protct run42.h5", "", ""),
    ("protect run42.h5 --recusive", "", ""),
    ("protect -notes", "", ""),
    ("protect run42.h5 --output", "", ""),
    ("protect run42.h5 --threads 0", "", ""),
    ("protect run42.h5 --engine abacus", "", ""),
    ("protect run42.h5 --quiet --verbose", "", ""),
    ("protect run42.h5 --output a --output b", "", ""),
    ("engines cpu", "", ""),
    ("--quiet", "", ""),
    ("bench", "", ""),
    ("protect run42.h5 --password hunter2", "", ""),
    (
        "verify run42.h5.phx --key phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ",
        "",
        "",
    ),
    ("protect run42.h5 --output x", "no key is named and nobody can be asked, as in a nightly job", ""),
    ("rekey run42.h5.phx --add-password", "nobody can be asked", ""),
    ("protect run42.h5 --password-file empty.txt --output x", "", ""),
    ("verify notes.txt.phx --password-file empty.txt", "", ""),
    ("verify notes.txt.phx --password-command false", "the command says why, if it says anything", ""),
    ("protect notes.txt --generate-password --json", "", "leave out `--json`, or read a password from a file"),
    ("verify notes.txt.phx --password-file long.txt", "", "is it the right file?"),
    ("protect run42.h5 notes.txt --key work --output x", "", ""),
    ("protect --recursive project --key work --output -", "", "pack it with `tar` first"),
    ("protect run42.h5 --key work --output new/", "", ""),
    ("protect - --key work --resume", "", ""),
    ("protect - --key work --remove", "", ""),
    ("unprotect link.phx --remove", "", "name the file that the link leads to"),
    ("unprotect renamed", "the name does not end in `.phx`", ""),
    ("protect run42.h5 run42.h5.phx --key work", "", "run them one by one"),
    ("protect run42.h5 other/run42.h5 --key work --output-dir out", "", "use a folder for each"),
    ("protect run42.h5 --key work --output run42.h5 --force", "", "name another `--output`"),
    ("protect --recursive project --key work --output project/out", "", "choose an output elsewhere"),
    ("protect - --key-file -", "standard input can be read once", ""),
    ("protect run42.h5 --resume --recipient age1x --output x", "", ""),
    ("protect run42.h5 --resume --key work --cipher aes-256-gcm --output x", "", "choose another cipher"),
    ("protect run42.h5 --recipient nonsense --output x", "", ""),
    ("protect run42.h5 --kms orders --output x", "", "the key service's documentation has its URI"),
    ("protect run42.h5 --key work --cipher aes-256-gcm --sign id --output x", "", ""),
    ("protect run42.h5 --key work --sign id --output -", "", "write to a file"),
    ("protect run42.h5 signed.phx.sig --key work --sign id --output-dir out", "", ""),
    ("protect run42.h5 --key work --sign id --output phalanx.tree", "a signed file could be taken for a manifest", ""),
    ("verify - --signers signers", "", "save the stream in a file first"),
    ("unprotect run42.h5.phx --signers signers --resume --output x", "", "leave out `--resume`"),
    ("protect run42.h5 --key work --sign id --resume --output x", "", "leave out `--resume`"),
    ("unprotect damaged.phx --salvage --signers signers --output x", "", ""),
    ("unprotect run42.h5.phx --range 0-1 --signers signers --output x", "", ""),
    ("inspect --signed-text run42.h5.phx for-lab.phx", "", "run them one by one"),
    ("unprotect --volume vault stored", "", ""),
    ("unprotect run42.h5.phx --json --output -", "", ""),
    ("unprotect run42.h5.phx damaged.phx --range 0-1 --output-dir out", "", "run them one by one"),
    ("unprotect - --range 0-1 --output x", "", ""),
    ("unprotect run42.h5.phx --range 0-1", "", ""),
    ("unprotect run42.h5.phx --range 0-1 --engine gpu --output x", "", ""),
    ("unprotect run42.h5.phx --range 200000- --output x", "", ""),
    ("unprotect --salvage - --output x", "", "save the stream in a file first"),
    ("mount - empty", "", ""),
    ("mount run42.h5.phx empty --engine gpu", "", ""),
    ("mount run42.h5.phx empty -o bogus", "", ""),
    ("init new --cipher aes-256-gcm", "", ""),
    ("init -", "", "name a folder"),
    ("rekey - --add-key lab", "", ""),
    ("rekey run42.h5.phx for-lab.phx --remove-slot 1", "", "run them one by one"),
    ("rekey link.phx --add-key lab", "", ""),
    ("rekey vault --fresh", "", ""),
    ("rekey run42.h5.phx --remove-key work", "the last key would go, or no other is proven to open the file", ""),
    ("rekey run42.h5.phx --remove-slot 9", "", ""),
    ("key new bad/name", "", ""),
    ("key rm work", "", ""),
    ("key export work --password-file password.txt", "", ""),
    ("key lock lab --key work", "that key could be locked itself", ""),
    ("key unlock", "", ""),
    ("PHALANX_KERNELS=abacus verify run42.h5.phx", "the variable is set wrongly", "unset it"),
];

/// Runs that continue, or whose first line is about something else.
const WARNINGS: &[Run] = &[
    ("PHALANX_PASSWORD=x protect -R ann.pub", "`-R` of age is `--recipients-file`", ""),
    ("PHALANX_PASSWORD=x protect run42.h5 --key work --output unused.phx", "", ""),
    ("key import open open.raw", "", "consider a new key"),
    ("protect work.raw --key-file work.raw --output x2", "", ""),
    ("PHALANX_KEYRING=nowhere key list", "", ""),
    (
        "rekey run42.h5.phx --add-key lab --remove-key 00112233445566778899aabbccddeeff",
        "",
        "`phalanx inspect` shows the file's ways in",
    ),
    ("rekey run42.h5.phx --remove-key lab", "", "delete old copies too"),
    ("rekey run42.h5.phx --add-key lab --remove-key work --fresh", "", "delete old copies where you can"),
    ("PHALANX_PASSWORD=x key export --all --output copy.txt", "", ""),
    ("unprotect --recursive other --output restored", "only what ends in `.phx` is taken for protected", ""),
    ("init new --key work", "", ""),
    ("verify signed.phx --signers other-signers", "the line counts for nobody", ""),
];
