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

/// Whether there is an age that has post-quantum keys: 1.3 or newer.
fn has_age_pq() -> bool {
    let Some(mut keygen) = program("age-keygen", "age-pq") else { return false };
    let has = keygen.args(["-pq"]).output().unwrap().status.success();
    if !has {
        let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(!required.split([',', ' ']).any(|name| name == "age-pq"), "age is older than 1.3");
        println!("skipped: no age-pq: age is older than 1.3");
    }
    has
}

#[test]
fn post_quantum_keys_of_age_work_both_ways() {
    if !has_age_pq() {
        return;
    }
    let made = program("age-keygen", "age-pq").unwrap().arg("-pq").stderr(Stdio::null()).output().unwrap().stdout;
    let key = String::from_utf8(made).unwrap();
    let public = key.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("key"), &key).unwrap();
    let recipient = Recipient::parse(public, &Plugins::default()).unwrap();
    assert_eq!(recipient.text(), public);
    fs::write(path("slot"), recipient.wrap(&file_key()).unwrap()).unwrap();
    let mut age = program("age", "age-pq").unwrap();
    let opened = age.args(["-d", "-i"]).args([path("key"), path("slot")]).output().unwrap();
    assert_eq!(opened.stdout, file_key().expose(), "{}", String::from_utf8_lossy(&opened.stderr));

    fs::write(path("plain"), file_key().expose()).unwrap();
    let mut age = program("age", "age-pq").unwrap();
    let made = age.args(["-e", "-r", public]).arg(path("plain")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut hand = Identities::new(Plugins::default());
    hand.add("new", key.as_bytes()).unwrap();
    open(&header(vec![raw(made.stdout)]), hand).unwrap();
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
