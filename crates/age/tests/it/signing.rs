//! Signatures: each kind of key, both ways with `ssh-keygen`, agents good and bad, and hostile files.

use crate::common::{Answers, PASSPHRASE, data, program, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use phalanx_age::Nobody;
use phalanx_age::signing::{
    Agent, KeyError, NAMESPACE, NotAKey, NotAllowed, PublicKey, Signature, SignatureError, Signers, SignersError,
    SigningKey,
};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const TEXT: &str = "phalanx signed file 1\nroot 00\n";
/// The kinds of keys that are not short of anything.
const KEYS: [&str; 5] = ["ssh-ed25519", "ssh-ed25519-locked", "ssh-ecdsa", "ssh-rsa", "ssh-rsa-locked"];

fn read(label: &str, bytes: &[u8]) -> Result<SigningKey, KeyError> {
    SigningKey::read(label, bytes, &*Answers::new(PASSPHRASE), None)
}

fn key(name: &str) -> SigningKey {
    read(name, &data(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn public(name: &str) -> PublicKey {
    PublicKey::parse(text(&format!("{name}.pub")).trim()).unwrap().0
}

/// Runs `ssh-keygen` in a folder with some text as its input.
fn keygen(folder: &Path, args: &[&str], input: &str) -> Option<std::process::Output> {
    let mut command = program("ssh-keygen", "ssh-keygen")?;
    command.args(args).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

/// Makes a key by `ssh-keygen`. Returns its public half.
fn generate(folder: &Path, name: &str, args: &[&str]) -> Option<String> {
    let made = keygen(folder, &[&["-q", "-N", "", "-f", name], args].concat(), "")?;
    assert!(made.status.success(), "{made:?}");
    Some(fs::read_to_string(folder.join(format!("{name}.pub"))).unwrap())
}

#[test]
fn a_signature_is_of_its_text_and_its_key_only() {
    for name in KEYS {
        let key = key(name);
        assert_eq!(*key.public(), public(name), "{name}");
        let made = key.sign(TEXT).unwrap();
        let found = Signature::read(made.armored().as_bytes()).unwrap();
        assert_eq!(found, made);
        assert_eq!(found.key(), key.public());
        assert_eq!(found.check(TEXT), Ok(()));
        assert_eq!(found.check(&TEXT.replace("00", "01")), Err(SignatureError::Other), "{name}");
        assert_eq!(format!("{key:?}"), format!("SigningKey({})", public(name).fingerprint()));
    }
}

#[test]
fn keys_that_cannot_sign_say_why() {
    let refused = |name: &str| read(name, &data(name)).map(drop);
    assert_eq!(refused("ssh-rsa-short"), Err(KeyError::Public(NotAKey::Rsa)));
    assert_eq!(refused("ssh-rsa-pem"), Err(KeyError::Old));
    assert_eq!(refused("alice.txt"), Err(KeyError::None));
    assert_eq!(read("x", b"").map(drop), Err(KeyError::None));
    assert_eq!(read("x", &[0xff; 100]).map(drop), Err(KeyError::None));
    assert_eq!(read("x", b"ssh-ed25519 AAAA").map(drop), Err(KeyError::None));
    let truncated = &data("ssh-ed25519")[..200];
    assert_eq!(read("x", truncated).map(drop), Err(KeyError::None));
    let locked = data("ssh-ed25519-locked");
    assert_eq!(SigningKey::read("x", &locked, &Nobody, None).map(drop), Err(KeyError::Nobody));
    assert_eq!(SigningKey::read("x", &locked, &*Answers::new("wrong"), None).map(drop), Err(KeyError::Passphrase));
    assert!(matches!(refused("ssh-ed25519.pub"), Err(KeyError::Agent(why)) if why.contains("no ssh-agent")));
}

#[test]
fn a_passphrase_does_not_cost_more_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let Some(made) = keygen(folder.path(), &["-q", "-N", "x", "-a", "1", "-t", "ed25519", "-f", "key"], "") else {
        return;
    };
    assert!(made.status.success(), "{made:?}");
    let armored = fs::read_to_string(folder.path().join("key")).unwrap();
    let body: String = armored.lines().filter(|line| !line.starts_with("-----")).collect();
    let mut bytes = STANDARD.decode(body).unwrap();
    // The number of rounds follows a salt of 16 bytes.
    let name = bytes.windows(6).position(|window| window == b"bcrypt").unwrap();
    let rounds = name + 6 + 4 + 4 + 16;
    assert_eq!(bytes[rounds..rounds + 4], [0, 0, 0, 1]);
    bytes[rounds..rounds + 4].fill(0xff);
    let lines: Vec<_> =
        STANDARD.encode(bytes).into_bytes().chunks(70).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let hostile =
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n", lines.join("\n"));
    assert_eq!(read("x", hostile.as_bytes()).map(drop), Err(KeyError::Rounds));
}

#[test]
fn private_keys_are_read_however_ssh_keygen_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // Numbers with leading zeros are shorter: one of two keys on this curve has such.
    for number in 0..8 {
        let name = format!("p521-{number}");
        let Some(public) = generate(dir, &name, &["-t", "ecdsa", "-b", "521"]) else { return };
        let key = read(&name, &fs::read(dir.join(&name)).unwrap()).unwrap();
        assert_eq!(*key.public(), PublicKey::parse(public.trim()).unwrap().0);
    }
    let option = ["-q", "-N", PASSPHRASE, "-a", "2", "-t", "ed25519"];
    for cipher in ["aes128-ctr", "aes192-ctr", "aes256-ctr", "aes128-cbc", "aes192-cbc", "aes256-cbc"] {
        assert!(keygen(dir, &[&option[..], &["-Z", cipher, "-f", cipher]].concat(), "").unwrap().status.success());
        assert!(read(cipher, &fs::read(dir.join(cipher)).unwrap()).is_ok(), "{cipher}");
    }
    let gcm = keygen(dir, &[&option[..], &["-Z", "aes256-gcm@openssh.com", "-f", "gcm"]].concat(), "").unwrap();
    assert!(gcm.status.success());
    assert_eq!(read("gcm", &fs::read(dir.join("gcm")).unwrap()).map(drop), Err(KeyError::Cipher));
}

#[test]
fn damaged_private_keys_are_refused() {
    for name in ["ssh-ed25519", "ssh-ecdsa", "ssh-rsa"] {
        let armored = text(name);
        let body: String = armored.lines().filter(|line| !line.starts_with("-----")).collect();
        let bytes = STANDARD.decode(body).unwrap();
        let armored = |bytes: &[u8]| {
            format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----",
                STANDARD.encode(bytes)
            )
        };
        assert!(read(name, armored(&bytes).as_bytes()).is_ok());
        for len in 0..bytes.len() {
            assert!(read(name, armored(&bytes[..len]).as_bytes()).is_err(), "{name}, {len} bytes");
        }
        // The public half in front is not used. Of all else, a changed bit makes another key or none.
        let public = key(name).public().clone();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            if let Ok(key) = read(name, armored(&damaged).as_bytes()) {
                assert_eq!(key.sign(TEXT).map(|made| made.check(TEXT)), Ok(Ok(())), "{name}, byte {at}");
                assert_eq!(*key.public(), public, "{name}, byte {at}");
            }
        }
    }
}

#[test]
fn ssh_keygen_verifies_our_signatures_and_we_verify_its() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut keys: Vec<(String, Vec<u8>)> = KEYS
        .iter()
        .filter(|name| !name.ends_with("-locked"))
        .map(|name| (text(&format!("{name}.pub")), data(name)))
        .collect();
    for (name, args) in [
        ("p384", ["-t", "ecdsa", "-b", "384"]),
        ("p521", ["-t", "ecdsa", "-b", "521"]),
        ("long", ["-t", "rsa", "-b", "3072"]),
    ] {
        let Some(public) = generate(dir, name, &args) else { return };
        keys.push((public, fs::read(dir.join(name)).unwrap()));
    }
    for (public, private) in keys {
        let key = read("key", &private).unwrap();
        fs::write(dir.join("allowed"), format!("alice@example.org namespaces=\"{NAMESPACE}\" {public}")).unwrap();
        fs::write(dir.join("text.sig"), key.sign(TEXT).unwrap().armored()).unwrap();
        let verify = ["-Y", "verify", "-f", "allowed", "-I", "alice@example.org", "-n", NAMESPACE, "-s", "text.sig"];
        let Some(verified) = keygen(dir, &verify, TEXT) else { return };
        assert!(verified.status.success(), "{public}: {verified:?}");
        assert!(!keygen(dir, &verify, "another text\n").unwrap().status.success());

        let private_path = dir.join("private");
        let _ = fs::remove_file(&private_path);
        fs::write(&private_path, &private).unwrap();
        fs::set_permissions(&private_path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        for hash in ["sha256", "sha512"] {
            let option = format!("hashalg={hash}");
            let signed = keygen(dir, &["-Y", "sign", "-f", "private", "-n", NAMESPACE, "-O", &option], TEXT).unwrap();
            let signature = Signature::read(&signed.stdout).unwrap_or_else(|e| panic!("{e}: {signed:?}"));
            assert_eq!(signature.check(TEXT), Ok(()), "{public}, {hash}");
            assert_eq!(signature.check("another text\n"), Err(SignatureError::Other));
        }
        let other = keygen(dir, &["-Y", "sign", "-f", "private", "-n", "file"], TEXT).unwrap();
        assert_eq!(Signature::read(&other.stdout), Err(SignatureError::Namespace("file".into())));
    }
}

#[test]
fn certificates_do_not_sign() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (Some(_), Some(_)) = (generate(dir, "ca", &["-t", "ed25519"]), generate(dir, "key", &["-t", "ed25519"])) else {
        return;
    };
    assert!(keygen(dir, &["-q", "-s", "ca", "-I", "id", "-n", "alice", "key.pub"], "").unwrap().status.success());
    let certificate = fs::read_to_string(dir.join("key-cert.pub")).unwrap();
    assert_eq!(PublicKey::parse(certificate.trim()).map(drop), Err(NotAKey::Certificate));
    // As a public key to sign by, as an entry, and in a signature.
    assert_eq!(read("x", certificate.as_bytes()).map(drop), Err(KeyError::Public(NotAKey::Certificate)));
    let listing = Signers::parse(&format!("alice {certificate}")).unwrap();
    assert_eq!(listing.skipped, [(1, NotAKey::Certificate.to_string())]);
    let blob = STANDARD.decode(certificate.split(' ').nth(1).unwrap()).unwrap();
    let made = key("ssh-ed25519").sign(TEXT).unwrap();
    let hostile = with_field(&made, 0, &blob);
    assert_eq!(Signature::read(&hostile), Err(SignatureError::Key(NotAKey::Certificate)));
}

/// A signature in which one field (key, namespace, reserved, hash, signature) is another one.
fn with_field(signature: &Signature, number: usize, bytes: &[u8]) -> Vec<u8> {
    let armored = signature.armored();
    let body: String = armored.lines().filter(|line| !line.starts_with("-----")).collect();
    let whole = STANDARD.decode(body).unwrap();
    let (mut made, mut rest) = (whole[..10].to_vec(), &whole[10..]);
    for field in 0..5 {
        let len = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let put = if field == number { bytes } else { &rest[4..4 + len] };
        made.extend((put.len() as u32).to_be_bytes());
        made.extend(put);
        rest = &rest[4 + len..];
    }
    armor(&made)
}

fn armor(bytes: &[u8]) -> Vec<u8> {
    format!("-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n", STANDARD.encode(bytes)).into_bytes()
}

#[test]
fn hostile_signatures_are_refused() {
    let made = key("ssh-ed25519").sign(TEXT).unwrap();
    let other = key("ssh-ecdsa").public().clone();
    let read = |bytes: &[u8]| Signature::read(bytes);
    // Its form without line ends at 70 characters, and with those of Windows, is accepted: ssh-keygen does too.
    assert_eq!(read(&with_field(&made, 1, NAMESPACE.as_bytes())).as_ref(), Ok(&made));
    assert_eq!(read(made.armored().replace('\n', "\r\n").as_bytes()).as_ref(), Ok(&made));
    let namespace = |name: &str| Err(SignatureError::Namespace(name.into()));
    assert_eq!(read(&with_field(&made, 1, b"")), namespace(""));
    assert_eq!(read(&with_field(&made, 1, b"phalanx\0")), namespace("phalanx"));
    assert_eq!(read(&with_field(&made, 1, &[b'x'; 5000])), namespace(&"x".repeat(64)));
    assert_eq!(read(&with_field(&made, 3, b"md5")), Err(SignatureError::Hash("md5".into())));
    assert_eq!(read(&with_field(&made, 0, b"")), Err(SignatureError::Key(NotAKey::Malformed)));
    assert_eq!(
        read(&with_field(&made, 0, &public("ssh-ed25519").blob()[..40])),
        Err(SignatureError::Key(NotAKey::Malformed))
    );
    // A key that has not made it, and bytes that are no signature.
    assert_eq!(read(&with_field(&made, 0, other.blob())).unwrap().check(TEXT), Err(SignatureError::Kind));
    assert_eq!(
        read(&with_field(&made, 0, public("ssh-ed25519-locked").blob())).unwrap().check(TEXT),
        Err(SignatureError::Other)
    );
    assert_eq!(read(&with_field(&made, 2, b"more")).unwrap().check(TEXT), Err(SignatureError::Other));
    assert_eq!(read(&with_field(&made, 3, b"sha256")).unwrap().check(TEXT), Err(SignatureError::Other));
    for signature in [&b""[..], b"\0\0\0\x0bssh-ed25519", &[0xff; 100], b"\0\0\0\x0bssh-ed25519\0\0\0\x01x"] {
        assert!(read(&with_field(&made, 4, signature)).unwrap().check(TEXT).is_err());
    }
    let armored = made.armored();
    let is_malformed = |bytes: &[u8]| assert_eq!(read(bytes), Err(SignatureError::Malformed), "{bytes:?}");
    is_malformed(b"");
    is_malformed(&[0xff; 1000]);
    is_malformed(armored.trim_end().strip_suffix("-----END SSH SIGNATURE-----").unwrap().as_bytes());
    is_malformed(format!("{armored}{armored}").as_bytes());
    is_malformed(format!(" {armored}").as_bytes());
    is_malformed(armored.replace("SSH SIGNATURE", "PGP SIGNATURE").as_bytes());
    is_malformed(&armor(b""));
    is_malformed(&armor(b"SSHSIG"));
    is_malformed(&armor(&[b"SSHSIG\0\0\0\x01", &[0xff; 64][..]].concat()));
    is_malformed(&armor(&vec![b'S'; 20_000]));
    is_malformed(armored.replace('\n', &"\n".repeat(9000)).as_bytes());
    assert_eq!(read(&armor(b"SSHSIG\0\0\0\x02")), Err(SignatureError::Version(2)));
    // Bytes behind the last field.
    let body: String = armored.lines().filter(|line| !line.starts_with("-----")).collect();
    is_malformed(&armor(&[STANDARD.decode(body).unwrap(), vec![0]].concat()));
}

#[test]
fn keys_in_hardware_are_verified() {
    // Made by OpenSSH with a software authenticator would need one: the device is imitated by a key of our own.
    use aws_lc_rs::digest::{SHA256, SHA512, digest};
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
    let put = |to: &mut Vec<u8>, bytes: &[u8]| {
        to.extend((bytes.len() as u32).to_be_bytes());
        to.extend(bytes);
    };
    let device = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let mut blob = Vec::new();
    [b"sk-ssh-ed25519@openssh.com", device.public_key().as_ref(), b"ssh:"].iter().for_each(|part| put(&mut blob, part));
    let mut data = b"SSHSIG".to_vec();
    let hash = digest(&SHA512, TEXT.as_bytes());
    [NAMESPACE.as_bytes(), b"", b"sha512", hash.as_ref()].iter().for_each(|part| put(&mut data, part));
    let by_device = |flags: u8| {
        let after = [flags, 0, 0, 0, 9];
        let signed = [digest(&SHA256, b"ssh:").as_ref(), &after, digest(&SHA256, &data).as_ref()].concat();
        let mut signature = Vec::new();
        [b"sk-ssh-ed25519@openssh.com", device.sign(&signed).as_ref()]
            .iter()
            .for_each(|part| put(&mut signature, part));
        signature.extend(after);
        signature
    };
    let mut signature = by_device(1);
    let made = key("ssh-ed25519").sign(TEXT).unwrap();
    let with = |signature: &[u8]| {
        Signature::read(&with_field(&Signature::read(&with_field(&made, 0, &blob)).unwrap(), 4, signature)).unwrap()
    };
    assert_eq!(with(&signature).check(TEXT), Ok(()));
    assert_eq!(with(&signature).check("another"), Err(SignatureError::Other));
    let last = signature.len() - 1;
    assert_eq!(with(&signature[..last]).check(TEXT), Err(SignatureError::Kind));
    signature[last] ^= 1;
    assert_eq!(with(&signature).check(TEXT), Err(SignatureError::Other));
    signature[last] ^= 1;
    // Somebody must have touched the device, unless the line says otherwise.
    let line = format!("sk-ssh-ed25519@openssh.com {}", STANDARD.encode(&blob));
    let counts = |options: &str, signature: &[u8]| {
        let signers = Signers::parse(&format!("alice {options} {line}")).unwrap().signers;
        let made = with(signature);
        assert_eq!(made.check(TEXT), Ok(()));
        signers.name(made.key(), made.was_touched(), 0).map(str::to_owned)
    };
    assert_eq!(counts("", &signature), Ok("alice".into()));
    assert_eq!(counts("", &by_device(5)), Ok("alice".into()));
    assert_eq!(counts("", &by_device(4)), Err(NotAllowed::Untouched(1)));
    assert_eq!(counts("no-touch-required", &by_device(0)), Ok("alice".into()));
    assert!(!with(&[]).was_touched());
    // ssh-keygen says the same of it.
    let folder = tempfile::tempdir().unwrap();
    let line = format!("sk-ssh-ed25519@openssh.com {}\n", STANDARD.encode(&blob));
    fs::write(folder.path().join("allowed"), format!("alice {line}")).unwrap();
    fs::write(folder.path().join("text.sig"), with(&signature).armored()).unwrap();
    let verify = ["-Y", "verify", "-f", "allowed", "-I", "alice", "-n", NAMESPACE, "-s", "text.sig"];
    let Some(verified) = keygen(folder.path(), &verify, TEXT) else { return };
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn signers_are_those_of_ssh_keygen() {
    let (alice, bob) = (text("ssh-ed25519.pub"), text("ssh-rsa.pub"));
    let (alice, bob) = (alice.trim(), bob.trim());
    let key = public("ssh-ed25519");
    const NOW: i64 = 1_700_000_000;
    let says = |list: &str| {
        let listing = Signers::parse(list).unwrap_or_else(|e| panic!("{list}: {e}"));
        listing.signers.name(&key, true, NOW).map(str::to_owned)
    };
    let named = |name: &str| Ok(name.to_owned());
    assert_eq!(says(&format!("# people\n\n bob {bob}\nalice@x {alice}\n")), named("alice@x"));
    assert_eq!(says(&format!("\"alice smith,*@x\"\t{alice} a comment")), named("alice smith,*@x"));
    assert_eq!(says(&format!("bob {bob}")), Err(NotAllowed::Unknown));
    assert_eq!(says(&format!("alice namespaces=\"git,phalanx\" {alice}")), named("alice"));
    assert_eq!(says(&format!("alice namespaces=\"ph*\" {alice}")), named("alice"));
    assert_eq!(says(&format!("alice namespaces=\"git\" {alice}")), Err(NotAllowed::Namespace(1)));
    assert_eq!(says(&format!("alice namespaces=\"\" {alice}")), Err(NotAllowed::Namespace(1)));
    assert_eq!(says(&format!("alice valid-before=\"20231114Z\" {alice}")), Err(NotAllowed::Expired(1)));
    assert_eq!(says(&format!("alice valid-before=\"20231116Z\",valid-after=\"20231113Z\" {alice}")), named("alice"));
    assert_eq!(says(&format!("alice Valid-After=\"20231116Z\" {alice}")), Err(NotAllowed::NotYet(1)));
    assert_eq!(says(&format!("alice cert-authority {alice}")), Err(NotAllowed::Authority(1)));
    // A line that does not count does not outweigh one that does.
    let lines = format!("old valid-before=\"20200101\" {alice}\nalice {alice}\nca cert-authority {alice}");
    assert_eq!(says(&lines), named("alice"));
    let mut revoked = Signers::parse(&lines).unwrap().signers;
    revoked.revoke(format!("# gone\n{bob}\n").as_bytes()).unwrap();
    assert_eq!(revoked.name(&key, true, NOW), Ok("alice"));
    revoked.revoke(format!("{alice}\n").as_bytes()).unwrap();
    assert_eq!(revoked.name(&key, true, NOW), Err(NotAllowed::Revoked));
}

#[test]
fn hostile_lists_are_refused() {
    let alice = text("ssh-ed25519.pub");
    let alice = alice.trim();
    let refused = |list: &str| Signers::parse(list).map(drop).unwrap_err();
    let malformed = |line: usize| SignersError::Key(line, NotAKey::Malformed);
    assert_eq!(refused(""), SignersError::None);
    assert_eq!(refused("# nobody\n"), SignersError::None);
    assert_eq!(refused(&format!("alice {alice}\n{alice}")), SignersError::Option(2));
    assert_eq!(refused("alice"), malformed(1));
    assert_eq!(refused(&format!("\"alice {alice}")), malformed(1));
    assert_eq!(refused(&format!("\"\" {alice}")), malformed(1));
    assert_eq!(refused(&format!("a\u{1b}[2Jb {alice}")), malformed(1));
    assert_eq!(refused("alice ssh-ed25519 AAAA"), malformed(1));
    assert_eq!(refused(&format!("alice {}", alice.replace("ssh-ed25519", "ssh-rsa"))), malformed(1));
    assert_eq!(refused(&format!("alice {}", text("ssh-rsa-short.pub").trim())), SignersError::Key(1, NotAKey::Rsa));
    for option in [
        "verify-required",
        "namespaces=phalanx",
        "valid-before=\"soon\"",
        "cert-authority,",
        "namespaces=\"a\",namespaces=\"b\"",
        "namespaces=\"a\"x",
    ] {
        assert_eq!(refused(&format!("alice {option} {alice}")), SignersError::Option(1), "{option}");
    }
    assert_eq!(refused(&format!("alice {}", "\"".repeat(9))), malformed(1));
    let long = format!("alice namespaces=\"{}\" {alice}", "*a".repeat(100_000));
    assert!(Signers::parse(&long).is_ok());
    let mut signers = Signers::parse(&format!("alice {alice}")).unwrap().signers;
    assert_eq!(signers.revoke(b"SSHKRL\n\0\0"), Err(SignersError::Binary));
    assert_eq!(signers.revoke(&[0xff; 9]), Err(malformed(1)));
    assert_eq!(
        signers.revoke(b"# a comment\nssh-dss AAAAB3NzaC1kc3M="),
        Err(SignersError::Key(2, NotAKey::Kind("ssh-dss".into())))
    );
}

/// An agent that answers every question with these bytes, at a path. It ends with the test.
fn agent(folder: &Path, answer: Vec<u8>) -> Agent {
    let socket = folder.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    // Only an answer that does not come is not waited for.
    let time = if answer.is_empty() { Duration::from_millis(300) } else { Duration::from_secs(60) };
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1 << 16]);
            let _ = stream.write_all(&answer);
            // An agent without an answer keeps the connection.
            if answer.is_empty() {
                thread::park();
            }
        }
    });
    Agent::at(socket).with_time(time)
}

#[test]
fn agents_that_answer_nonsense_or_nothing_do_no_harm() {
    let line = data("ssh-ed25519.pub");
    for (answer, says) in [
        (Vec::new(), "did not answer"),
        // It closes the connection in the middle of its answer.
        (vec![0], "cannot be asked"),
        (vec![0; 4], "too long or empty"),
        (vec![0xff; 64], "too long or empty"),
        (vec![0, 0, 0, 1, 5], "does not list its keys"),
        (vec![0, 0, 0, 5, 12, 0, 0, 0, 0], "does not hold"),
        (vec![0, 0, 0, 5, 12, 0xff, 0xff, 0xff, 0xff], "does not list its keys"),
        (vec![0, 0, 0, 6, 12, 0, 0, 0, 0, 0], "does not list its keys"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let found = SigningKey::read("x", &line, &Nobody, Some(agent(folder.path(), answer.clone())));
        let Err(KeyError::Agent(why)) = found else { panic!("{answer:?}: {found:?}") };
        assert!(why.contains(says), "{answer:?}: {why}");
    }
    let gone = SigningKey::read("x", &line, &Nobody, Some(Agent::at("/nonexistent/socket")));
    assert!(matches!(gone, Err(KeyError::Agent(why)) if why.contains("cannot be asked")));
}

#[test]
fn an_agent_that_takes_no_connection_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    // It has room for one connection that nobody takes.
    rustix::net::listen(&listener, 0).unwrap();
    let _first = UnixStream::connect(&socket).unwrap();
    let agent = Agent::at(&socket).with_time(Duration::from_millis(300));
    let found = SigningKey::read("x", &data("ssh-ed25519.pub"), &Nobody, Some(agent));
    assert!(matches!(&found, Err(KeyError::Agent(why)) if why.contains("did not answer within")), "{found:?}");
}

#[test]
fn an_agent_cannot_pass_off_another_signature() {
    let folder = tempfile::tempdir().unwrap();
    let public = public("ssh-ed25519");
    let mut answer = vec![12, 0, 0, 0, 1];
    answer.extend((public.blob().len() as u32).to_be_bytes());
    answer.extend(public.blob());
    answer.extend([0; 4]);
    let list = [&(answer.len() as u32).to_be_bytes()[..], &answer].concat();
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    // The second answer is a signature of nothing.
    let wrong = [&[0, 0, 0, 88, 14, 0, 0, 0, 83, 0, 0, 0, 11][..], b"ssh-ed25519", &[0, 0, 0, 64], &[1; 64]].concat();
    thread::spawn(move || {
        for (stream, answer) in listener.incoming().zip([list, wrong]) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1 << 16]);
            let _ = stream.write_all(&answer);
        }
    });
    let key = SigningKey::read("x", &data("ssh-ed25519.pub"), &Nobody, Some(Agent::at(socket))).unwrap();
    assert_eq!(key.sign(TEXT), Err(KeyError::Invalid));
}

#[test]
fn an_agent_of_openssh_signs() {
    let (Some(_), Some(mut agent)) = (program("ssh-add", "ssh-add"), program("ssh-agent", "ssh-agent")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let socket = dir.join("agent");
    let mut running =
        agent.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let tried = std::panic::catch_unwind(|| {
        while UnixStream::connect(&socket).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the agent does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        for name in ["ssh-ed25519", "ssh-ecdsa", "ssh-rsa"] {
            let path = dir.join(name);
            fs::write(&path, data(name)).unwrap();
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            let added = Command::new("ssh-add").arg("-q").arg(&path).env("SSH_AUTH_SOCK", &socket).output().unwrap();
            assert!(added.status.success(), "{added:?}");
            let line = data(&format!("{name}.pub"));
            let key = SigningKey::read("x", &line, &Nobody, Some(Agent::at(&socket))).unwrap();
            assert_eq!(key.sign(TEXT).unwrap().check(TEXT), Ok(()), "{name}");
        }
        let other = SigningKey::read("x", &data("ssh-ed25519-locked.pub"), &Nobody, Some(Agent::at(&socket)));
        assert!(matches!(other, Err(KeyError::Agent(why)) if why.contains("does not hold")));
    });
    running.kill().unwrap();
    running.wait().unwrap();
    tried.unwrap();
}
