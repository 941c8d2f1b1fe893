//! Plugins that behave, and plugins that misbehave.

use crate::common::*;
use phalanx_age::{Identities, Plugins, Recipient, User};
use phalanx_core::{AgeRecipient, KdfLimit, Opener};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Name, recipient and identity. Each name is a way in which `tests/data/plugin` behaves.
const NAMES: &[(&str, &str, &str)] = &[
    ("test", "age1test1qqqqqqqqgsf9kn", "AGE-PLUGIN-TEST-1QQQQQQQQJGX4L0"),
    ("silent", "age1silent1qqqqqqqq2sdreg", "AGE-PLUGIN-SILENT-1QQQQQQQQEWCYX5"),
    ("junk", "age1junk1qqqqqqqqy9s33m", "AGE-PLUGIN-JUNK-1QQQQQQQQK05CXG"),
    ("dead", "age1dead1qqqqqqqq5eguwz", "AGE-PLUGIN-DEAD-1QQQQQQQQLK3L2M"),
    ("chatty", "age1chatty1qqqqqqqq8pls5a", "AGE-PLUGIN-CHATTY-1QQQQQQQQY5EKLP"),
    ("long", "age1long1qqqqqqqqj7ghpu", "AGE-PLUGIN-LONG-1QQQQQQQQYEE4GV"),
    ("error", "age1error1qqqqqqqq4kuk3j", "AGE-PLUGIN-ERROR-1QQQQQQQQ0UTEYP"),
    ("secret", "age1secret1qqqqqqqqju66kh", "AGE-PLUGIN-SECRET-1QQQQQQQQ7VDLJ6"),
    ("other", "age1other1qqqqqqqqre9ehn", "AGE-PLUGIN-OTHER-1QQQQQQQQFT0ZV9"),
    ("many", "age1many1qqqqqqqqf92896", "AGE-PLUGIN-MANY-1QQQQQQQQ6ASNTA"),
    ("scrypt", "age1scrypt1qqqqqqqq6fscav", "AGE-PLUGIN-SCRYPT-1QQQQQQQQ4JTCH8"),
    ("wrong", "age1wrong1qqqqqqqq27j4t8", "AGE-PLUGIN-WRONG-1QQQQQQQQD7N8M2"),
    ("absent", "age1absent1qqqqqqqqgs0zcs", "AGE-PLUGIN-ABSENT-1QQQQQQQQ2FCXDE"),
];

/// A folder of plugins, as PATH.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plugin = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/plugin");
        for (name, ..) in NAMES.iter().filter(|(name, ..)| *name != "absent") {
            symlink(&plugin, folder.path().join(format!("age-plugin-{name}"))).unwrap();
        }
        Self(folder)
    }

    fn plugins(&self, user: Arc<dyn User>) -> Plugins {
        Plugins::new(user).with_path(self.0.path())
    }
}

/// Writes a script that can be run. Another process writes it: a child that another test starts now could keep a file that
/// this one writes open for writing, and it could not be run.
fn script(path: &Path, text: &str) {
    let write = ["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", text];
    assert!(Command::new("sh").args(write).arg(path).status().unwrap().success());
}

fn recipient(name: &str, plugins: &Plugins) -> Recipient {
    Recipient::parse(NAMES.iter().find(|(other, ..)| *other == name).unwrap().1, plugins).unwrap()
}

fn hand(name: &str, plugins: Plugins) -> Identities {
    let mut hand = Identities::new(plugins);
    hand.add(name, NAMES.iter().find(|(other, ..)| *other == name).unwrap().2.as_bytes()).unwrap();
    hand
}

#[test]
fn a_plugin_makes_slots_and_opens_them() {
    let folder = Folder::new();
    let plugins = folder.plugins(Answers::new("x"));
    let test = recipient("test", &plugins);
    assert_eq!(test.text(), "age1test1qqqqqqqqgsf9kn");
    test.check().unwrap();
    let header = header(vec![slot(&recipient_of("alice.txt")), slot(&test), slot(&recipient_of("ssh-rsa"))]);
    let (at, said) = open(&header, hand("test", plugins.clone())).unwrap();
    assert_eq!((at, &*said), (2, "test (the plugin test)"));
    // It is asked last.
    let mut both = hand("test", plugins.clone());
    both.add("alice.txt", &data("alice.txt")).unwrap();
    assert_eq!(open(&header, both).unwrap().0, 1);
    not_for_these(open(&crate::common::header(vec![slot(&recipient_of("alice.txt"))]), hand("test", plugins)));
}

#[test]
fn a_plugin_may_ask_its_user() {
    let folder = Folder::new();
    for (pin, right) in [(PASSPHRASE, true), ("1234", false)] {
        let user = Answers::new(pin);
        let plugins = folder.plugins(user.clone());
        let wrapped = recipient("secret", &plugins).wrap(&file_key());
        assert_eq!(wrapped.is_ok(), right);
        let header = header(vec![slot(&recipient("test", &plugins))]);
        let found = open(&header, hand("secret", plugins.clone()));
        assert_eq!(user.asked(), 2);
        if right {
            found.unwrap();
        } else {
            assert_eq!(refused(found), "secret: the plugin secret failed: wrong PIN");
        }
    }
}

#[test]
fn bad_plugins_are_failures_of_one_line() {
    let folder = Folder::new();
    let plugins = folder.plugins(Answers::new("x")).with_time(Duration::from_secs(20));
    let made = header(vec![slot(&recipient("test", &plugins)), slot(&recipient_of("bob.txt"))]);
    let cases = [
        ("junk", "the plugin junk failed: it broke the protocol", "the plugin junk failed: it broke the protocol"),
        ("dead", "the plugin dead failed: it ended too early", "the plugin dead failed: it ended too early"),
        ("chatty", "the plugin chatty failed: it said too much", "the plugin chatty failed: it said too much"),
        ("long", "the plugin long failed: it ended too early", "the plugin long failed: it ended too early"),
        ("error", "the plugin error failed: no luck", ""),
        (
            "absent",
            "it needs the program age-plugin-absent, which is not in PATH",
            "it needs the program age-plugin-absent, which is not in PATH",
        ),
        ("many", "", ""),
        ("scrypt", "", ""),
        ("wrong", "", ""),
        ("other", "", ""),
    ];
    for (name, wraps, opens) in cases {
        let wrapped = recipient(name, &plugins).wrap(&file_key());
        if !wraps.is_empty() {
            let expected = format!("cannot protect for {}: {wraps}", recipient(name, &plugins).text());
            assert_eq!(wrapped.unwrap_err().to_string(), expected);
        } else if name != "other" {
            let said = wrapped.unwrap_err().to_string();
            assert!(!said.contains('\n'), "{said}");
        }
        let found = open(&made, hand(name, plugins.clone()));
        match name {
            "other" => not_for_these(found),
            _ if !opens.is_empty() => assert_eq!(refused(found), format!("{name}: {opens}")),
            _ => assert_eq!(found.unwrap().0, 1, "{name}"),
        }
        // Another identity still opens the file.
        let mut both = hand(name, plugins.clone());
        both.add("bob.txt", &data("bob.txt")).unwrap();
        open(&made, both).unwrap();
    }
    assert!(recipient("absent", &plugins).check().is_err());
}

#[test]
fn a_plugin_that_hangs_is_ended() {
    let folder = Folder::new();
    let plugins = folder.plugins(Answers::new("x")).with_time(Duration::from_millis(500));
    let begun = Instant::now();
    let said = recipient("silent", &plugins).wrap(&file_key()).unwrap_err().to_string();
    assert!(said.ends_with("the plugin silent failed: it took too long"), "{said}");
    let made = header(vec![slot(&recipient("test", &folder.plugins(Answers::new("x"))))]);
    assert_eq!(refused(open(&made, hand("silent", plugins))), "silent: the plugin silent failed: it took too long");
    // It sleeps for ten minutes each time.
    assert!(begun.elapsed() < Duration::from_secs(300));
}

/// Otherwise each file of a tree would cost the whole time limit.
#[test]
fn a_plugin_that_hangs_is_run_once() {
    let folder = Folder::new();
    // Each start adds a line.
    let (program, starts) = (folder.0.path().join("age-plugin-silent"), folder.0.path().join("starts"));
    std::fs::remove_file(&program).unwrap();
    script(&program, &format!("#!/bin/sh\necho started >>'{}'\nexec sleep 600\n", starts.display()));
    let count = || std::fs::read_to_string(&starts).unwrap_or_default().lines().count();
    let plugins = folder.plugins(Answers::new("x")).with_time(Duration::from_secs(1));
    let made = header(vec![slot(&recipient("test", &folder.plugins(Answers::new("x"))))]);
    let opener = Opener::new(hand("silent", plugins.clone()), KdfLimit::default());
    let silent = recipient("silent", &plugins);
    for _ in 0..15 {
        assert_eq!(refused(opener.open(&made)), "silent: the plugin silent failed: it took too long");
        assert!(silent.wrap(&file_key()).unwrap_err().to_string().ends_with("it took too long"));
    }
    assert!(count() <= 2, "once to open, and once to wrap: {}", count());
    // Nor do many threads wait for it one after another.
    let opener = Opener::new(hand("silent", plugins), KdfLimit::default());
    thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| refused(opener.open(&made)));
        }
    });
    assert!(count() <= 3, "{}", count());
}

#[test]
fn a_plugin_that_cannot_be_run_is_not_tried_again() {
    let folder = Folder::new();
    let program = folder.0.path().join("age-plugin-absent");
    script(&program, "#!/nowhere/at/all\n");
    let plugins = folder.plugins(Answers::new("x"));
    let made = header(vec![slot(&recipient("test", &plugins))]);
    let opener = Opener::new(hand("absent", plugins.clone()), KdfLimit::default());
    let said = refused(opener.open(&made));
    assert!(said.starts_with("absent: the plugin absent cannot be run: "), "{said}");
    std::fs::remove_file(&program).unwrap();
    symlink(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/plugin"), &program).unwrap();
    assert_eq!(refused(opener.open(&made)), said);
    open(&made, hand("absent", plugins)).unwrap();
}

/// The time that the user takes at a prompt does not count for the plugin.
#[test]
fn a_slow_user_is_waited_for() {
    struct Slow;
    impl User for Slow {
        fn secret(&self, _: &str) -> Option<Zeroizing<String>> {
            std::thread::sleep(Duration::from_secs(7));
            Some(Zeroizing::new(PASSPHRASE.into()))
        }
    }
    let folder = Folder::new();
    let plugins = folder.plugins(Arc::new(Slow)).with_time(Duration::from_secs(6));
    recipient("secret", &plugins).wrap(&file_key()).unwrap();
}

#[test]
fn messages_of_a_plugin_are_shown_on_one_line() {
    #[derive(Default)]
    struct Hears(Mutex<Vec<String>>);
    impl User for Hears {
        fn secret(&self, _: &str) -> Option<Zeroizing<String>> {
            None
        }
        fn tell(&self, message: &str) {
            self.0.lock().unwrap().push(message.to_owned());
        }
    }
    let folder = Folder::new();
    let hears = Arc::new(Hears::default());
    let plugins = folder.plugins(hears.clone());
    recipient("chatty", &plugins).wrap(&file_key()).unwrap_err();
    assert_eq!(hears.0.lock().unwrap()[0], "chatty: hello");
    // If nobody can be asked, it is a failure, and the plugin is notified.
    let said = recipient("secret", &plugins).wrap(&file_key()).unwrap_err().to_string();
    assert!(said.ends_with("the plugin secret failed: wrong PIN"), "{said}");
}

#[test]
fn plugins_are_not_looked_for_in_relative_folders() {
    let plugins = Plugins::default().with_path(".:relative::");
    let said = recipient("test", &plugins).check().unwrap_err();
    assert_eq!(said, "it needs the program age-plugin-test, which is not in PATH");
}
