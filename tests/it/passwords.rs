//! Where passwords come from: a program, systemd's credentials, a prompt, and the program itself.

use crate::common::{Ended, Sandbox, has, is_ignored};
use rustix::process::Signal;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

fn with_file() -> Sandbox {
    let s = Sandbox::new();
    s.write("f", "content");
    s
}

#[test]
fn a_program_gives_the_password() {
    let s = with_file();
    for (i, command) in ["echo 'six words'", "printf 'six words'", "cat secret"].into_iter().enumerate() {
        s.secret("secret", "six words\n");
        let name = format!("{i}.phx");
        s.run(&["protect", "f", "--password-command", command, "-o", &name]).ok();
        s.run_with_password("six words", &["verify", &name]).ok();
        s.run(&["verify", &name, "--password-command", "echo six words"]).ok();
        s.run(&["verify", &name, "--password-command", "echo six words; echo"]).fails(3);
    }
    // It gets no standard input, and not the other password.
    let ended = s.run_with_input(b"data", &["protect", "-", "--password-command", "cat; echo pw", "-o", "stream.phx"]);
    ended.ok();
    s.run_with_password("pw", &["verify", "stream.phx"]).ok();
    s.run_with_password("wrong", &["verify", "stream.phx", "--password-command", "echo pw${PHALANX_PASSWORD}"]).ok();
}

#[test]
fn a_program_that_fails_gives_no_password() {
    let s = with_file();
    for (command, code, line) in [
        ("exit 7", 1, "phalanx: --password-command: the command ended with exit status 7"),
        ("kill -9 $$", 1, "phalanx: --password-command: the command was ended by signal 9"),
        ("echo pw; exit 1", 1, "phalanx: --password-command: the command ended with exit status 1"),
        ("true", 2, "phalanx: --password-command: an empty password protects nothing"),
        (
            "head -c 65537 /dev/zero",
            1,
            "phalanx: --password-command: a password has at most 65536 bytes, and it printed more",
        ),
    ] {
        let said = s.run(&["protect", "f", "--password-command", command]).fails(code);
        assert_eq!(said.trim_end(), line, "{command}");
    }
    s.run(&["protect", "f", "-q", "--password-command", "yes"]).fails(1);
    assert_eq!(s.names(), ["f"]);
}

/// An agent that the command starts, for example.
#[test]
fn what_the_command_has_started_is_not_waited_for() {
    let s = with_file();
    assert!(s.succeeds("mkfifo", &["end"]));
    // It holds standard output open until somebody opens the pipe, which happens at the end of the test.
    let command = "cat end 2>/dev/null & echo 'six words'";
    s.run(&["protect", "f", "--password-command", command]).ok();
    s.run_with_password("six words", &["verify", "f.phx"]).ok();
    // It is waited for itself, however little it prints.
    s.run(&["verify", "f.phx", "--password-command", "exec 3>&1; (sleep 0.3; echo 'six words' >&3) & wait"]).ok();
    let flood = s.run(&["verify", "f.phx", "--password-command", "head -c 70000 /dev/zero & wait"]).fails(1);
    assert!(flood.contains("and it printed more"), "{flood}");
    fs::OpenOptions::new().write(true).open(s.path("end")).unwrap();
}

#[test]
fn systemd_gives_the_password_as_a_credential() {
    let s = with_file();
    fs::create_dir(s.path("credentials")).unwrap();
    s.secret("credentials/phalanx.password", "six words\n");
    let run =
        |args: &[&str]| Ended(s.command(args).env("CREDENTIALS_DIRECTORY", s.path("credentials")).output().unwrap());
    run(&["protect", "f"]).ok();
    run(&["verify", "f.phx"]).ok();
    s.run_with_password("six words", &["verify", "f.phx"]).ok();
    // The variable goes first, and a key that is named is the only one that is tried.
    let mut both = s.command(&["verify", "f.phx"]);
    both.env("CREDENTIALS_DIRECTORY", s.path("credentials")).env("PHALANX_PASSWORD", "wrong");
    Ended(both.output().unwrap()).fails(3);
    s.secret("raw", [1; 32]);
    run(&["verify", "f.phx", "--key-file", "raw"]).fails(3);
    // A service without the credential has no password.
    fs::remove_file(s.path("credentials/phalanx.password")).unwrap();
    run(&["verify", "f.phx"]).fails(3);
}

#[test]
fn a_generated_password_is_six_words_that_open_the_file() {
    let s = with_file();
    let text = s.run(&["protect", "f", "--generate-password"]).text();
    let words: Vec<&str> = text.strip_suffix('\n').unwrap().split(' ').collect();
    assert_eq!(words.len(), 6, "{words:?}");
    s.run_with_password(&words.join(" "), &["verify", "f.phx"]).ok();
    let again = s.run(&["protect", "f", "--generate-password", "--force"]).text();
    assert_ne!(text, again);
    let volume = s.run(&["init", "v", "--generate-password"]).text();
    s.run_with_password(volume.trim_end(), &["verify", "v"]).ok();
    // It is the only thing on standard output, and the only password.
    for args in [
        &["protect", "f", "-o", "-", "--generate-password"][..],
        &["protect", "-", "--generate-password"],
        &["protect", "f", "--json", "--generate-password"],
        &["protect", "f", "-p", "--generate-password"],
        &["protect", "f", "--password-command", "x", "--generate-password"],
        &["protect", "f", "--password-command", "x", "--password-file", "y"],
        &["init", "w", "--recovery-key", "-", "--generate-password"],
    ] {
        s.run(args).fails(2);
    }
    assert_eq!(s.names(), ["f", "f.phx", "v"]);
}

#[test]
fn a_weak_password_gets_a_sentence() {
    if !has("script") {
        return;
    }
    let s = with_file();
    let warning = "warning: this password is weak: whoever has the file can try millions of them";
    for (password, is_weak) in [("secret", true), ("plum harness ostrich", false)] {
        let (ended, shown) = s.at_terminal("protect f --force", &[password, password]);
        assert_eq!((ended, shown.contains(warning)), (0, is_weak), "{shown}");
        assert!(!shown.contains(password), "{shown}");
    }
}

/// The password would be in a file that the run replaces or deletes.
#[test]
fn a_generated_password_is_not_lost() {
    let s = with_file();
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/f", "content");
    for (args, to) in
        [(&["protect", "f", "--force"][..], "f.phx"), (&["protect", "f"], "f"), (&["protect", "-R", "d"], "d/password")]
    {
        let out = fs::File::options().append(true).create(true).open(s.path(to)).unwrap();
        let args = [args, &["--generate-password", "--remove"]].concat();
        Ended(s.command(&args).stdout(out).output().unwrap()).fails(2);
    }
    // The output would replace the password.
    let out = fs::File::create(s.path("backup")).unwrap();
    let args = ["protect", "f", "--force", "--remove", "--generate-password", "--output", "backup"];
    Ended(s.command(&args).stdout(out).output().unwrap()).fails(2);
    assert_eq!(s.read("f"), b"content");
    let out = fs::File::create(s.path("password")).unwrap();
    Ended(s.command(&["protect", "f", "--force", "--generate-password"]).stdout(out).output().unwrap()).ok();
    s.run_with_password(String::from_utf8(s.read("password")).unwrap().trim_end(), &["verify", "f.phx"]).ok();
}

/// A terminal without echo would hide the next command.
#[test]
fn signals_at_a_prompt_leave_the_terminal_as_it_was() {
    if !has("script") || [Signal::INT, Signal::QUIT].iter().any(|signal| is_ignored(signal.as_raw())) {
        return;
    }
    let s = with_file();
    let text = |name: &str| String::from_utf8(s.read(name)).unwrap().trim().to_owned();
    let ended_by = |answer: &dyn Fn() -> &'static str| {
        let program = env!("CARGO_BIN_EXE_phalanx");
        let inner = format!("tty > tty; echo $$ > pid; exec {program} protect f -p");
        let mut answers = Some(answer).into_iter();
        let (_, shown) = s.dialogue(&format!("trap : INT; sh -c '{inner}'; echo \"ended $?\"; stty -a"), || {
            // The shell's words for a signal end like a question.
            let answer = answers.next()?;
            // The question is there before keys are read one by one.
            let state = || Command::new("stty").args(["-F", &text("tty"), "-a"]).output().unwrap().stdout;
            while !String::from_utf8(state()).unwrap().contains("-icanon") {
                sleep(Duration::from_millis(5));
            }
            Some(answer().to_owned())
        });
        assert!(shown.matches("Password").count() == 1 && !s.exists("f.phx"), "{shown}");
        assert!(
            ["echo", "icanon", "isig"].iter().all(|on| shown.split_whitespace().any(|word| word == *on)),
            "{shown}"
        );
        shown.split_once("ended ").and_then(|(_, rest)| rest.lines().next()?.trim().parse::<i32>().ok())
    };
    for (name, number) in [("TERM", 15), ("HUP", 1), ("QUIT", 3), ("INT", 2)] {
        let kill = || {
            assert!(s.succeeds("kill", &["-s", name, &text("pid")]));
            ""
        };
        assert_eq!(ended_by(&kill), Some(128 + number), "{name}");
    }
    // Ctrl-C is a signal too.
    assert_eq!(ended_by(&|| "six w\u{3}"), Some(130));
}
