//! Slots that `age` itself opens, and slots that it made. These tests need the programs of age.

use crate::common::*;
use phalanx_age::{Identities, Plugins, Recipient};
use phalanx_core::AgeRecipient;
use std::fs;
use std::process::Stdio;

#[test]
fn age_and_phalanx_open_each_others_files() {
    for name in ["alice.txt", "ssh-ed25519", "ssh-rsa"] {
        let Some(mut age) = program("age", "age") else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("key"), data(name)).unwrap();
        fs::write(path("slot"), recipient_of(name).wrap(&file_key()).unwrap()).unwrap();
        let opened = age.args(["-d", "-i"]).args([path("key"), path("slot")]).output().unwrap();
        assert_eq!(opened.stdout, file_key().expose(), "{}", String::from_utf8_lossy(&opened.stderr));

        fs::write(path("plain"), file_key().expose()).unwrap();
        let mut age = program("age", "age").unwrap();
        let made = age.args(["-e", "-r", recipient_of(name).text()]).arg(path("plain")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        open(&header(vec![raw(made.stdout)]), identities(&[name], Plugins::default())).unwrap();
    }
}

#[test]
fn new_keys_of_age_keygen_work() {
    let Some(mut keygen) = program("age-keygen", "age") else { return };
    let made = keygen.stderr(Stdio::null()).output().unwrap().stdout;
    let text = String::from_utf8(made.clone()).unwrap();
    let public = text.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap();
    let recipient = Recipient::parse(public, &Plugins::default()).unwrap();
    let mut hand = Identities::new(Plugins::default());
    hand.add("new", &made).unwrap();
    open(&header(vec![slot(&recipient)]), hand).unwrap();
}

/// The crate `age` has no keys of this kind: the plugin that age offers for that does the work.
#[test]
fn post_quantum_keys_work_by_their_plugin() {
    let Some(mut plugin) = program("age-plugin-pq", "age-plugin-pq") else { return };
    let path = format!("{}/tests/data/pq.txt", env!("CARGO_MANIFEST_DIR"));
    let identity = plugin.args(["-identity", &path]).stderr(Stdio::null()).output().unwrap().stdout;
    let recipient = Recipient::parse(&text("pq.pub"), &Plugins::default()).unwrap();
    let mut hand = Identities::new(Plugins::default());
    hand.add("pq", &identity).unwrap();
    let made = header(vec![slot(&recipient_of("alice.txt")), slot(&recipient)]);
    assert_eq!(open(&made, hand).unwrap().0, 1);
}

#[test]
fn new_keys_of_ssh_keygen_work() {
    for (kind, bits) in [("ed25519", "256"), ("rsa", "2048"), ("rsa", "4096")] {
        let Some(mut keygen) = program("ssh-keygen", "ssh-keygen") else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        keygen.args(["-q", "-t", kind, "-b", bits, "-a", "4", "-N", PASSPHRASE, "-f"]).arg(&path);
        assert!(keygen.status().unwrap().success());
        let public = fs::read_to_string(folder.path().join("key.pub")).unwrap();
        let recipient = Recipient::parse(&public, &Plugins::default()).unwrap();
        let mut hand = Identities::new(Plugins::new(Answers::new(PASSPHRASE)));
        hand.add("new", &fs::read(&path).unwrap()).unwrap();
        open(&header(vec![slot(&recipient)]), hand).unwrap();
    }
}
