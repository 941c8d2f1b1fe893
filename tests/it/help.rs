//! The program's help, man pages and completions, and its answers to command lines that it does not understand.

use crate::common::{Sandbox, has};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// All commands, from the list in the help of each command's parent.
fn commands(s: &Sandbox) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        next += 1;
        let help = help(s, &path, "--help");
        let Some((_, list)) = help.split_once("\nCommands:\n") else { continue };
        for line in list.lines().take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap().to_owned();
            found.push(path.iter().cloned().chain([name]).collect());
        }
    }
    assert!(found.len() > 15, "{found:?}");
    found
}

fn help(s: &Sandbox, path: &[String], switch: &str) -> String {
    let args: Vec<&str> = path.iter().map(String::as_str).chain([switch]).collect();
    s.run(&args).text()
}

#[test]
fn help_of_every_command_fits_a_screen_and_ends_with_two_examples() {
    let s = Sandbox::new();
    for path in commands(&s) {
        let text = help(&s, &path, "--help");
        assert_eq!(text, help(&s, &path, "-h"), "{path:?}");
        let lines: Vec<&str> = text.trim_end().lines().collect();
        // Mirrors have the options of outputs and those that say what is left out. Stores have some more.
        let most = match (path == ["mirror"], cfg!(feature = "stores")) {
            (true, true) => 60,
            (true, false) => 54,
            (false, true) => 52,
            (false, false) => 45,
        };
        assert!(lines.len() <= most, "{path:?}: {} lines", lines.len());
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{path:?}: {text}");
        let [.., title, first, _, second, last] = &lines[..] else { panic!("{path:?}: {text}") };
        assert_eq!(*title, "Examples:", "{path:?}: {text}");
        let is_example = |line: &str| line.starts_with("  ") && !line.starts_with("   ");
        assert!(is_example(first) && is_example(second) && !is_example(last), "{path:?}: {text}");
        assert!(text.contains(&format!(
            "Usage: {}",
            ["phalanx".into()].iter().chain(&path).cloned().collect::<Vec<_>>().join(" ")
        )));
    }
}

#[test]
fn without_a_command_the_overview_is_printed_with_exit_2() {
    let s = Sandbox::new();
    for (args, page) in [(&[][..], "--help"), (&["key"], "key --help")] {
        let ended = s.run(args);
        assert_eq!(ended.0.status.code(), Some(2));
        assert_eq!(ended.error(), "");
        let page = s.run(&page.split(' ').collect::<Vec<_>>()).text();
        assert_eq!(String::from_utf8_lossy(&ended.0.stdout), page, "{args:?}");
    }
}

#[test]
fn help_and_version_are_commands_too() {
    let s = Sandbox::new();
    assert_eq!(s.run(&["help"]).text(), s.run(&["--help"]).text());
    assert_eq!(s.run(&["help", "protect"]).text(), s.run(&["protect", "--help"]).text());
    assert_eq!(s.run(&["help", "key", "export"]).text(), s.run(&["key", "export", "--help"]).text());
    assert_eq!(
        s.run(&["help", "protct"]).fails(2),
        "phalanx: unknown command protct: did you mean protect?\nhint: phalanx --help"
    );
    assert_eq!(s.run(&["version"]).text(), s.run(&["--version"]).text());
    assert_eq!(s.run(&["version"]).text(), concat!("phalanx ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn java_has_the_same_version() {
    for pom in [
        include_str!("../../java/pom.xml"),
        include_str!("../../java/phalanx/pom.xml"),
        include_str!("../../java/cluster/pom.xml"),
        include_str!("../../java/papers/pom.xml"),
    ] {
        // The first version in the file is that of the project, or of its parent.
        let version = pom.split_once("<version>").unwrap().1.split_once('<').unwrap().0;
        assert_eq!(version, env!("CARGO_PKG_VERSION"), "{pom}");
    }
}

#[test]
fn verbose_versions_have_what_a_bug_report_needs() {
    let s = Sandbox::new();
    let text = s.run(&["--version", "--verbose"]).text();
    for same in [&["version", "--verbose"][..], &["-V", "-v"], &["-vV"], &["-v", "--version"], &["-v", "version"]] {
        assert_eq!(s.run(same).text(), text, "{same:?}");
    }
    let plain = s.run(&["--version"]).text();
    for same in [&["-V"][..], &["-qV"], &["version", "-q"]] {
        assert_eq!(s.run(same).text(), plain, "{same:?}");
    }
    let lines: Vec<&str> = text.lines().collect();
    let [first, commit, kernels, engines, devices @ ..] = &lines[..] else { panic!("{text}") };
    assert_eq!(*first, plain.trim_end());
    let (commit, compiler) = commit.strip_prefix("commit  ").unwrap().split_once(", ").unwrap();
    // The sources may have no history, and the build may set the commit.
    let is_hash = |name: &str| name.len() >= 7 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let is_known = is_hash(commit.trim_end_matches("-dirty")) || std::env::var_os("PHALANX_COMMIT").is_some();
    let is_clone = Path::new(env!("CARGO_MANIFEST_DIR")).join(".git").exists() && has("git");
    assert!(is_known || commit == "unknown" && !is_clone, "{text}");
    assert!(compiler.starts_with("rustc "), "{text}");
    assert!(engines.starts_with("engines serial, cpu ("), "{text}");
    // The engines are described in the words of `phalanx engines`.
    let reported = s.run(&["engines"]).text();
    assert!(reported.contains(kernels.strip_prefix("kernels ").unwrap()), "{text}{reported}");
    let is_device = |line: &&str| line.starts_with("device  ") || line.starts_with("none    ");
    assert_eq!(*devices, reported.lines().filter(is_device).collect::<Vec<_>>(), "{text}{reported}");
    assert!(!devices.is_empty(), "{text}");
    let taken = devices.iter().any(|line| line.ends_with(": self-test passed"));
    assert_eq!(engines.ends_with(", gpu, hybrid"), taken, "{text}");

    let chosen = s.command(&["version", "-v"]).env("PHALANX_KERNELS", "portable,").output().unwrap();
    assert!(String::from_utf8(chosen.stdout).unwrap().contains("\nkernels AES portable, SHA-3 "), "{text}");
}

#[test]
fn a_hint_names_the_program_of_the_experiments() {
    let s = Sandbox::new();
    for args in
        [&["bench"][..], &["bench", "sefps", "--quick", "--out", "results"], &["bench", "--help"], &["-q", "bench"]]
    {
        let line = s.run(args).fails(2);
        assert!(line.contains("cargo run --release -p phalanx-bench -- "), "{args:?}: {line}");
    }
    assert!(!s.run(&["--help"]).text().contains("bench"));
}

/// The message for each mistake is tested beside the code.
#[test]
fn usage_errors_are_one_sentence_with_one_hint() {
    let s = Sandbox::new();
    s.write("f", "x");
    let wrong: &[&[&str]] = &[
        &["protect"],
        &["bogus"],
        &["protect", "f", "--bogus"],
        &["protect", "f", "--threads", "0"],
        &["protect", "f", "--threads", "100000000000000000000"],
        &["protect", "f", "--engine", "abacus"],
        &["protect", "f", "--output"],
        &["unprotect", "f.phx", "-q", "-v"],
        &["key", "show", "a", "b"],
    ];
    for args in wrong {
        let line = s.run(args).fails(2);
        assert!(line.ends_with(" --help") && line.matches("--help").count() == 1, "{line}");
        assert!(!line.contains("non-zero") && !line.contains("tip:") && !line.contains('\''), "{line}");
    }
    let line = s.run(&["protect", "f", "--threads", "0"]).fails(2);
    assert_eq!(line, "phalanx: --threads: a number from 1 to 1024, not 0\nhint: phalanx protect --help");
}

#[test]
fn man_pages_have_all_that_help_leaves_out() {
    let s = Sandbox::new();
    fs::create_dir(s.path("man")).unwrap();
    s.run(&["man", "man"]).ok();
    s.run(&["man", "missing"]).fails(4);
    let is_groff_here = has("groff");
    for path in commands(&s) {
        let name = ["phalanx".into()].iter().chain(&path).cloned().collect::<Vec<String>>().join("-");
        // Roff writes \- for a hyphen that is typed, and not a line break.
        let page = String::from_utf8(s.read(&format!("man/{name}.1"))).unwrap().replace("\\-", "-");
        for section in ["ENVIRONMENT", "FILES", "EXIT STATUS", "EXAMPLES"] {
            assert!(page.contains(&format!(".SH {section}")) || page.contains(&format!(".SH \"{section}\"")), "{name}");
        }
        for variable in variables() {
            assert!(page.contains(&variable), "{name} does not tell of {variable}");
        }
        let help = help(&s, &path, "--help");
        for line in help.split_once("Examples:").unwrap().1.lines().filter(|line| line.starts_with("  p")) {
            assert!(page.contains(line.trim()), "{name}: {line}");
        }
        if is_groff_here {
            let path = s.path(&format!("man/{name}.1"));
            let ended = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(path).output().unwrap();
            assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
        }
    }
}

/// The program's own variables, from its source.
fn variables() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("crates/host/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let text = fs::read_to_string(entry.path()).unwrap();
            for part in text.split("\"PHALANX_").skip(1) {
                found.insert(format!(
                    "PHALANX_{}",
                    part.split(|c: char| !c.is_ascii_uppercase() && c != '_').next().unwrap()
                ));
            }
        }
    }
    assert!(found.contains("PHALANX_KEYRING") && found.len() >= 4, "{found:?}");
    found
}

#[test]
fn completions_know_every_command() {
    let s = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(s.run(&["completions", shell]).text().contains("unprotect"), "{shell}");
    }
}

/// The candidates that bash would offer for the last word.
fn in_bash(s: &Sandbox, words: &[&str]) -> Vec<String> {
    let script = r#"
        source ./phalanx.bash || exit 1
        [[ "$(complete -p phalanx)" =~ -F\ ([a-z_]+) ]] || exit 1
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        current="${COMP_WORDS[COMP_CWORD]}"
        [[ "$current" == "=" ]] && current=""
        "${BASH_REMATCH[1]}" phalanx "$current" "${COMP_WORDS[COMP_CWORD-1]}" 2>/dev/null
        for candidate in "${COMPREPLY[@]}"; do printf '%s\n' "$candidate"; done
    "#;
    let args: Vec<&str> =
        ["--norc", "-c", script, "bash", "phalanx"].into_iter().chain(words.iter().copied()).collect();
    lines(s, "bash", &args)
}

/// The sorted lines of output of a shell that finds the program by its name.
fn lines(s: &Sandbox, shell: &str, args: &[&str]) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_phalanx"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [program.parent().unwrap().to_owned()].into_iter().chain(std::env::split_paths(&path));
    let mut command = Command::new(shell);
    command.args(args).current_dir(s.path("")).env("HOME", s.path("")).env("PHALANX_KEYRING", s.path("keyring"));
    let ended = command.env("PATH", std::env::join_paths(folders).unwrap()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let mut found: Vec<String> = String::from_utf8(ended.stdout).unwrap().lines().map(str::to_owned).collect();
    found.sort();
    found
}

#[test]
fn bash_completes_files_and_names_of_keys() {
    if !has("bash") {
        return;
    }
    let s = Sandbox::new();
    s.write("phalanx.bash", s.run(&["completions", "bash"]).ok());
    fs::create_dir(s.path("photos")).unwrap();
    s.write("photo album.tar", "x");
    s.write("raw", [1; 32]);
    for name in ["work", "wedding", "home"] {
        s.run(&["key", "import", name, "raw"]).ok();
    }
    let keys: &[&str] = &["home", "wedding", "work"];
    for words in
        [&["protect", "f", "--key", ""][..], &["verify", "-k", ""], &["key", "show", ""], &["key", "rm", "-f", ""]]
    {
        assert_eq!(in_bash(&s, words), keys, "{words:?}");
    }
    assert_eq!(in_bash(&s, &["-v", "key", "export", "w"]), ["wedding", "work"]);
    assert_eq!(in_bash(&s, &["unprotect", "--key", "=", "wo"]), ["work"]);
    assert_eq!(in_bash(&s, &["unprotect", "--key", "="]), keys);
    let files: &[&str] = &["photo album.tar", "photos"];
    let of_files: &[&[&str]] = &[
        &["protect", "ph"],
        &["unprotect", "-R", "ph"],
        &["verify", "raw", "ph"],
        &["inspect", "ph"],
        &["protect", "raw", "--output", "ph"],
        &["protect", "raw", "-o", "ph"],
        &["protect", "--password-file", "ph"],
        &["protect", "--key-file", "=", "ph"],
        &["key", "export", "work", "-o", "ph"],
    ];
    for words in of_files {
        let found: Vec<String> = in_bash(&s, words).into_iter().filter(|name| name != "phalanx.bash").collect();
        assert_eq!(found, files, "{words:?}");
    }
    assert_eq!(in_bash(&s, &["protect", "raw", "--output-dir", "ph"]), ["photos"]);
    // Everything else is completed by clap.
    assert_eq!(in_bash(&s, &["protect", "raw", "--engine", "s"]), ["serial"]);
    assert_eq!(in_bash(&s, &["prot"]), ["protect"]);
    assert_eq!(in_bash(&s, &["key", "sh"]), ["show"]);
    assert_eq!(in_bash(&s, &["protect", "raw", "--recu"]), ["--recursive"]);
    assert_eq!(in_bash(&s, &["completions", "z"]), ["zsh"]);
    assert!(in_bash(&s, &["key", "new", ""]).iter().all(|name| !keys.contains(&&**name)));
}

#[test]
fn zsh_and_fish_scripts_are_complete_and_ask_for_names_of_keys() {
    let s = Sandbox::new();
    for (shell, calls) in [("zsh", "_phalanx_key_names"), ("fish", "(phalanx key list --names 2>/dev/null)")] {
        let script = s.run(&["completions", shell]).text();
        let places = script.lines().filter(|line| line.contains(calls)).count();
        assert!(places >= 4, "{shell}: {places}");
        assert!(!script.contains(":_users") && !script.contains("complete_users"), "{shell} offers users");
        if has(shell) {
            let path = s.write("script", script);
            let ended = Command::new(shell).arg("-n").arg(path).output().unwrap();
            assert!(ended.status.success(), "{shell}: {}", String::from_utf8_lossy(&ended.stderr));
        }
    }
}

#[test]
fn fish_completes_files_and_names_of_keys() {
    if !has("fish") {
        return;
    }
    let s = Sandbox::new();
    s.write("phalanx.fish", s.run(&["completions", "fish"]).ok());
    s.write("photos.tar", "x");
    s.run(&["key", "new", "work"]).ok();
    let offered = |line: &str| {
        let script = format!("source ./phalanx.fish; complete -C '{line}'");
        let lines = lines(&s, "fish", &["--no-config", "-c", &script]);
        lines.iter().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for line in ["phalanx key show ", "phalanx protect f --key w", "phalanx key rm w", "phalanx verify -k "] {
        assert_eq!(offered(line), ["work"], "{line}");
    }
    for line in ["phalanx protect pho", "phalanx verify f --password-file pho", "phalanx unprotect -o pho"] {
        assert_eq!(offered(line), ["photos.tar"], "{line}");
    }
}
