//! Signatures: what is signed opens, and nothing else does, whoever has altered or exchanged it.

use crate::common::{Sandbox, has, painted};
use phalanx_reference::{file_keys, open_header, seal_chunk};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

pub const NOT_IT: &str = "has signed is something else: it was altered, or is older, newer or another file";
pub const UNSIGNED: &str = "it is not signed: there is no";
pub const GCM: &str = "the tags of AES-256-GCM do not commit to the content, so no signature of them counts";
/// Nonce and tag of a chunk.
const HEAD: usize = 48;

/// A keyring with the key k, the private keys `alice` and `bob`, and a file of signers with alice only.
pub fn prepared() -> Sandbox {
    let s = Sandbox::with_key();
    add_keys(&s);
    s
}

/// Adds the private keys and the file of signers.
pub fn add_keys(s: &Sandbox) {
    for (name, key) in [("alice", "ssh-ed25519"), ("bob", "ssh-ecdsa")] {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/age/tests/data");
        s.secret(name, fs::read(data.join(key)).unwrap());
        s.write(&format!("{name}.pub"), fs::read(data.join(format!("{key}.pub"))).unwrap());
    }
    s.write("signers", line("alice@example.org", "", s, "alice"));
}

/// A line of a file of signers.
pub fn line(principals: &str, options: &str, s: &Sandbox, key: &str) -> String {
    let public = String::from_utf8(s.read(&format!("{key}.pub"))).unwrap();
    format!("{principals} {options} {}\n", public.trim())
}

/// Protects a file of three chunks as `f.phx`, signed by alice.
fn signed(s: &Sandbox) {
    s.write("f", painted(10_000));
    s.run(&["protect", "f", "-k", "k", "--chunk-size", "4K", "--sign", "alice", "--force"]).ok();
}

/// Asserts that a file is refused by verify and unprotect, and that nothing of it comes out.
#[track_caller]
fn refuses(s: &Sandbox, signers: &str, says: &str) {
    let found = s.run(&["verify", "f.phx", "-k", "k", "--signers", signers]).fails(3);
    assert!(found.contains(says), "{found}");
    let before = s.names();
    let to_stdout = s.run(&["unprotect", "f.phx", "-k", "k", "--signers", signers, "-o", "-"]);
    assert!(to_stdout.0.stdout.is_empty());
    assert!(to_stdout.fails(3).contains(says));
    assert!(s.run(&["unprotect", "f.phx", "-k", "k", "--signers", signers, "-o", "out"]).fails(3).contains(says));
    assert_eq!(s.names(), before);
}

#[test]
fn what_is_signed_opens_and_its_signer_is_named() {
    let s = prepared();
    signed(&s);
    let text = s.run(&["inspect", "--signed-text", "f.phx"]).text();
    let contents = phalanx_reference::tree::contents(&s.read("f.phx")).unwrap();
    let root: String = contents.root.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, format!("phalanx signed file 1\nsuite 1\nchunk 4096\nplaintext 10000\nroot {root}\n"));

    let said = s.run(&["verify", "f.phx", "-k", "k", "--signers", "signers"]).text();
    assert_eq!(said, "f.phx: 10000 bytes: whole and authentic, signed by alice@example.org\n");
    let json = s.run(&["verify", "f.phx", "-k", "k", "--signers", "signers", "--json"]).text();
    assert!(json.contains(r#""status":"whole","plaintext_bytes":10000,"signer":"alice@example.org""#), "{json}");
    let opened = s.run(&["unprotect", "f.phx", "-k", "k", "--signers", "signers", "-o", "-"]);
    assert_eq!(opened.error(), "phalanx: f.phx: signed by alice@example.org\n");
    assert_eq!(opened.ok(), painted(10_000));
    let to_file = s.run(&["unprotect", "f.phx", "-k", "k", "--signers", "signers", "-o", "out", "--quiet"]);
    assert_eq!(to_file.error(), "");
    to_file.ok();
    assert_eq!(s.read("out"), painted(10_000));
    // Without --signers nothing has changed.
    assert_eq!(s.run(&["verify", "f.phx", "-k", "k"]).text(), "f.phx: 10000 bytes: whole and authentic\n");
}

#[test]
fn lengths_and_suites_are_signed_with_streams() {
    let s = prepared();
    for cipher in ["aes-256", "aes-192", "aes-128", "aes-256-turbo"] {
        for len in [0, 1, 4096, 4097, 70_000] {
            s.write("g", painted(len));
            let args =
                ["protect", "g", "-k", "k", "--cipher", cipher, "--chunk-size", "4K", "--sign", "alice", "--force"];
            s.run(&args).ok();
            s.run(&["verify", "g.phx", "-k", "k", "--signers", "signers"]).ok();
        }
    }
    s.run_with_input(&painted(9000), &["protect", "-", "-k", "k", "-o", "s.phx", "--sign", "alice"]).ok();
    s.run(&["verify", "s.phx", "-k", "k", "--signers", "signers"]).ok();
}

#[test]
fn ssh_keygen_and_phalanx_accept_each_other() {
    if !has("ssh-keygen") {
        return;
    }
    let s = prepared();
    signed(&s);
    let keygen = |args: &[&str]| {
        let command = format!("ssh-keygen {}", args.join(" "));
        Command::new("sh").args(["-c", &command]).current_dir(s.path("")).output().unwrap()
    };
    s.write("text", s.run(&["inspect", "--signed-text", "f.phx"]).ok());
    let verify = ["-Y verify -f signers -I alice@example.org -n phalanx -s f.phx.sig <text"];
    let verified = keygen(&verify);
    assert!(verified.status.success(), "{verified:?}");
    // The other way round.
    fs::remove_file(s.path("f.phx.sig")).unwrap();
    assert!(keygen(&["-q -Y sign -f alice -n phalanx <text >f.phx.sig"]).status.success());
    s.run(&["verify", "f.phx", "-k", "k", "--signers", "signers"]).ok();
    assert!(keygen(&["-q -Y sign -f alice -n file <text >f.phx.sig"]).status.success());
    refuses(&s, "signers", "f.phx.sig: a signature in the namespace file, not in phalanx");
    // A key that a certificate vouches for.
    assert!(keygen(&["-q -t ed25519 -N '' -f ca"]).status.success());
    assert!(keygen(&["-q -s ca -I id -n alice alice.pub"]).status.success());
    let certificate = s.run(&["protect", "f", "-k", "k", "--sign", "alice-cert.pub", "--force"]).fails(4);
    assert!(certificate.contains("alice-cert.pub: certificates are not supported"), "{certificate}");
    s.write("authorities", line("alice", "cert-authority", &s, "ca") + &line("b", "", &s, "bob"));
    signed(&s);
    refuses(&s, "authorities", "no line has this key");
}

#[test]
fn a_change_of_keys_keeps_the_signature_and_another_content_does_not() {
    let s = prepared();
    s.run(&["key", "new", "lab"]).ok();
    signed(&s);
    let text = s.run(&["inspect", "--signed-text", "f.phx"]).text();
    s.run(&["rekey", "f.phx", "-k", "k", "--add-key", "lab", "--remove-key", "k"]).ok();
    assert_eq!(s.run(&["inspect", "--signed-text", "f.phx"]).text(), text);
    s.run(&["verify", "f.phx", "-k", "lab", "--signers", "signers"]).ok();
    s.run(&["rekey", "f.phx", "-k", "lab", "--add-key", "k", "--fresh"]).ok();
    refuses(&s, "signers", NOT_IT);
    // Protected again, the content is the same, and the file is another one.
    signed(&s);
    fs::rename(s.path("f.phx.sig"), s.path("old")).unwrap();
    s.run(&["protect", "f", "-k", "k", "--chunk-size", "4K", "--force"]).ok();
    refuses(&s, "signers", UNSIGNED);
    fs::rename(s.path("old"), s.path("f.phx.sig")).unwrap();
    refuses(&s, "signers", NOT_IT);
}

#[test]
fn a_co_recipient_who_alters_a_chunk_is_found() {
    let s = prepared();
    signed(&s);
    let mut file = s.read("f.phx");
    let key: [u8; 32] = s.read("keyring/k.key").try_into().unwrap();
    let (header, file_key) = open_header(&file, &[], &[key]).unwrap();
    let header_len = u32::from_le_bytes(file[8..12].try_into().unwrap()) as usize;
    let at = header_len + HEAD + 4096;
    let nonce = file[at..at + 16].to_vec();
    let altered = seal_chunk(&file_keys(&file_key, header.suite), 12, 1, 0, &nonce, &[b'!'; 4096]);
    file[at..at + altered.len()].copy_from_slice(&altered);
    s.write("f.phx", &file);
    // Nobody without the signature notices anything.
    let opened = s.run(&["unprotect", "f.phx", "-k", "k", "-o", "-"]).ok();
    assert!(opened[4096..8192].iter().all(|byte| *byte == b'!') && opened[..4096] == painted(10_000)[..4096]);
    refuses(&s, "signers", NOT_IT);
}

#[test]
fn a_signature_by_somebody_else_or_of_something_else_is_refused() {
    let s = prepared();
    signed(&s);
    s.write("others", line("bob", "", &s, "bob"));
    refuses(&s, "others", "and not allowed by others: no line has this key");
    let own = s.read("f.phx.sig");
    fs::remove_file(s.path("f.phx.sig")).unwrap();
    refuses(&s, "signers", UNSIGNED);
    s.write("g", painted(10_000));
    s.run(&["protect", "g", "-k", "k", "--chunk-size", "4K", "--sign", "alice"]).ok();
    fs::copy(s.path("g.phx.sig"), s.path("f.phx.sig")).unwrap();
    refuses(&s, "signers", NOT_IT);
    // Bob signs what alice should have signed.
    s.run(&["protect", "f", "-k", "k", "--sign", "bob", "--force"]).ok();
    refuses(&s, "signers", "no line has this key");
    s.write("both", line("alice", "", &s, "alice") + &line("bob", "", &s, "bob"));
    let said = s.run(&["verify", "f.phx", "-k", "k", "--signers", "both"]).text();
    assert!(said.ends_with("signed by bob\n"), "{said}");
    for hostile in
        [vec![], vec![0xff; 1000], own.repeat(2), own.repeat(1000), b"-----BEGIN SSH SIGNATURE-----\n".to_vec()]
    {
        s.write("f.phx.sig", hostile);
        refuses(&s, "signers", "f.phx.sig: not a signature of ssh-keygen");
    }
    // What is no file is not read.
    fs::remove_file(s.path("f.phx.sig")).unwrap();
    fs::create_dir(s.path("f.phx.sig")).unwrap();
    s.run(&["verify", "f.phx", "-k", "k", "--signers", "signers"]).fails(4);
    fs::remove_dir(s.path("f.phx.sig")).unwrap();
    symlink("/dev/zero", s.path("f.phx.sig")).unwrap();
    s.run(&["verify", "f.phx", "-k", "k", "--signers", "signers"]).fails(4);
    // A pipe that nobody writes to.
    fs::remove_file(s.path("f.phx.sig")).unwrap();
    assert!(s.succeeds("mkfifo", &["f.phx.sig"]));
    s.run(&["verify", "f.phx", "-k", "k", "--signers", "signers"]).fails(4);
}

#[test]
fn entries_that_do_not_count_are_refused() {
    let s = prepared();
    signed(&s);
    for (options, says) in [
        ("valid-before=\"20200101Z\"", "line 1 was valid until an earlier time"),
        ("valid-after=\"29991231Z\"", "line 1 is not valid yet"),
        ("namespaces=\"git,file\"", "line 1 is for other namespaces than phalanx"),
        ("cert-authority", "line 1 is for certificates, which are not supported"),
    ] {
        s.write("list", line("alice", options, &s, "alice"));
        refuses(&s, "list", says);
    }
    s.write(
        "list",
        line("alice", "valid-after=\"20200101\",valid-before=\"29991231\",namespaces=\"phalanx\"", &s, "alice"),
    );
    s.run(&["verify", "f.phx", "-k", "k", "--signers", "list"]).ok();
    s.write("gone", s.read("alice.pub"));
    let revoked = |list: &str| s.run(&["verify", "f.phx", "-k", "k", "--signers", "signers", "--revoked", list]);
    assert!(revoked("gone").fails(3).contains("the key is revoked"));
    revoked("bob.pub").ok();
    s.write("krl", b"SSHKRL\n\0\0\0\0");
    assert!(revoked("krl").fails(4).contains("krl: a revocation list of ssh-keygen -k is not supported"));
    for hostile in
        [vec![0xff; 100], Vec::new(), vec![b'a'; 2 << 20], b"alice verify-required ssh-ed25519 AAAA\n".to_vec()]
    {
        s.write("list", hostile);
        let failed = s.run(&["verify", "f.phx", "-k", "k", "--signers", "list"]).fails(4);
        assert!(failed.starts_with("phalanx: list: "), "{failed}");
    }
    // A key of a kind that is not supported is left out, and the others count.
    s.write("list", "x ssh-dss AAAAB3NzaC1kc3M=\n".to_owned() + &line("alice", "", &s, "alice"));
    let ended = s.run(&["verify", "f.phx", "-k", "k", "--signers", "list"]);
    assert!(ended.error().contains("warning: list: line 1: keys of the kind ssh-dss are not supported: left out"));
    ended.ok();
}

#[test]
fn suite_4_is_refused() {
    let s = prepared();
    signed(&s);
    let sign = ["protect", "f", "-k", "k", "--sign", "alice", "--cipher", "aes-256-gcm", "--force"];
    assert!(s.run(&sign).fails(2).contains("--sign does not work with aes-256-gcm"));
    s.run(&["protect", "f", "-k", "k", "--cipher", "aes-256-gcm", "--force"]).ok();
    refuses(&s, "signers", GCM);
    assert!(s.run(&["inspect", "--signed-text", "f.phx"]).fails(2).contains(GCM));
    // In a tree: at the time of signing, and later.
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", "a");
    s.run(&["mirror", "d", "m", "-k", "k", "--cipher", "aes-256-gcm"]).ok();
    let signing = s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice"]);
    assert!(
        signing.error().contains("m: not signed, for 1 of its files: the tags of AES-256-GCM"),
        "{}",
        signing.error()
    );
    assert_eq!(signing.0.status.code(), Some(2));
    assert!(!s.exists("m/phalanx.tree.sig"));
    assert!(
        s.run(&["mirror", "d", "m", "-k", "k", "--sign", "alice", "--cipher", "aes-256-gcm"])
            .fails(2)
            .contains("--sign")
    );
    if has("ssh-keygen") {
        // Signed by another program, it does not count either.
        s.write("text", s.run(&["inspect", "--signed-text", "m/phalanx.tree"]).ok());
        let sign = "ssh-keygen -q -Y sign -f alice -n phalanx <text >m/phalanx.tree.sig";
        assert!(Command::new("sh").args(["-c", sign]).current_dir(s.path("")).status().unwrap().success());
        let refused = s.run(&["verify", "-R", "m", "-k", "k", "--signers", "signers"]).fails(3);
        assert!(refused.contains("m: 1 of its files cannot be signed for"), "{refused}");
    }
}

#[test]
fn a_file_is_never_taken_for_a_manifest() {
    let s = prepared();
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", "a");
    // Somebody gives alice a manifest to protect and to sign, as a file. It is no manifest by that.
    s.run(&["mirror", "d", "m", "-k", "k"]).ok();
    s.write("manifest", s.run(&["unprotect", "m/phalanx.tree", "-o", "-", "-k", "k"]).ok());
    s.run(&["protect", "manifest", "-k", "k", "--sign", "alice"]).ok();
    s.run(&["verify", "manifest.phx", "-k", "k", "--signers", "signers"]).ok();
    fs::rename(s.path("manifest.phx"), s.path("m/phalanx.tree")).unwrap();
    fs::rename(s.path("manifest.phx.sig"), s.path("m/phalanx.tree.sig")).unwrap();
    assert!(s.run(&["verify", "-R", "m", "-k", "k", "--signers", "signers"]).fails(3).contains(NOT_IT));
}

#[test]
fn what_has_no_signature_by_its_nature_is_refused() {
    let s = prepared();
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", "a");
    s.run(&["protect", "-R", "d", "-o", "p", "-k", "k", "--sign", "alice"]).ok();
    s.run(&["verify", "-R", "p", "-k", "k", "--signers", "signers"]).ok();
    s.lose_manifest("p");
    let refused = s.run(&["verify", "-R", "p", "-k", "k", "--signers", "signers"]).fails(3);
    assert!(refused.contains("p: it has no manifest"), "{refused}");
    assert!(
        s.run(&["unprotect", "-R", "p", "-o", "out", "-k", "k", "--signers", "signers"])
            .fails(3)
            .contains("no manifest")
    );
    assert!(!s.exists("out"));
    s.run(&["init", "v", "-k", "k"]).ok();
    for path in [&["verify", "v"][..], &["verify", "-R", "v"], &["unprotect", "-R", "v", "-o", "out"]] {
        let refused = s.run(&[path, &["-k", "k", "--signers", "signers"]].concat()).fails(3);
        assert!(refused.contains("v: it is a volume, and volumes are not signed"), "{refused}");
    }
    s.write("f", "f");
    for (args, says) in [
        (&["verify", "-", "--signers", "signers"][..], "- has none"),
        (&["unprotect", "-", "--signers", "signers", "-o", "x"], "- has none"),
        (&["protect", "f", "-o", "-", "-k", "k", "--sign", "alice"], "- has no place for one"),
        (
            &["protect", "f", "-o", "s3://b/phalanx.tree", "-k", "k", "--sign", "alice"],
            "phalanx.tree is the name of a manifest",
        ),
        (&["unprotect", "f.phx", "--resume", "--signers", "signers"], "--resume would leave plaintext"),
        (&["protect", "f", "-k", "k", "--sign", "alice", "--resume"], "--resume would sign what"),
        (&["inspect", "--signed-text", "f.phx", "g.phx"], "--signed-text takes one file"),
        (
            &["protect", "f", "-o", "d/phalanx.tree", "-k", "k", "--sign", "alice"],
            "phalanx.tree is the name of a manifest",
        ),
    ] {
        let refused = s.run(args).fails(2);
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn the_files_around_a_signature_are_safe() {
    let s = prepared();
    s.write("f", painted(100));
    // A signature that is there is not replaced unasked, and nothing is written then.
    s.write("f.phx.sig", "mine");
    assert!(s.run(&["protect", "f", "-k", "k", "--sign", "alice"]).fails(4).contains("f.phx.sig: exists already"));
    assert!(!s.exists("f.phx") && s.read("f.phx.sig") == b"mine");
    fs::remove_file(s.path("f.phx.sig")).unwrap();
    // The input goes when the signature is there. The key never does.
    s.run(&["protect", "f", "alice.pub", "-k", "k", "--sign", "alice", "--remove"]).ok();
    assert!(!s.exists("f") && s.exists("f.phx.sig"));
    let kept = s.run(&["protect", "alice", "-k", "k", "--sign", "alice", "--remove"]);
    assert!(kept.error().contains("alice: not deleted"), "{}", kept.error());
    assert!(s.exists("alice"));
    // Whoever may read the file may read its signature, and nobody else.
    let mode = |name: &str| fs::metadata(s.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("alice.phx"), mode("alice.phx.sig")), (0o600, 0o600));
    // A private key that others can read is refused.
    fs::set_permissions(s.path("bob"), fs::Permissions::from_mode(0o644)).unwrap();
    s.write("f", "f");
    assert!(s.run(&["protect", "f", "-k", "k", "--sign", "bob", "--force"]).fails(4).contains("bob: "));
    assert!(s.leftovers().is_empty());
}

#[test]
fn a_killed_run_leaves_no_signature_that_does_not_fit() {
    let s = prepared();
    signed(&s);
    let names = "trace=unlink,unlinkat,rename,renameat,renameat2,linkat";
    let mut kills = 0;
    for number in 1.. {
        signed(&s);
        s.write("f", painted(9000 + number));
        let inject = format!("inject={}:signal=KILL:when={number}", names.strip_prefix("trace=").unwrap());
        let args = ["protect", "f", "-k", "k", "--chunk-size", "4K", "--sign", "alice", "--force"];
        let Some(mut run) = s.traced(&["-e", names, "-e", &inject], &args) else { return };
        if run.output().unwrap().status.success() {
            break;
        }
        kills += 1;
        s.run(&["verify", "f.phx", "-k", "k"]).ok();
        if s.exists("f.phx.sig") {
            s.run(&["verify", "f.phx", "-k", "k", "--signers", "signers"]).ok();
        }
        assert!(number < 50);
    }
    // The old signature goes, the file gets its name, and the new signature gets its own.
    assert!(kills >= 3, "{kills}");
}

#[test]
fn the_sender_of_a_signed_file_is_known() {
    let s = prepared();
    s.write("f", "f");
    let recipient = String::from_utf8(s.read("alice.pub")).unwrap();
    s.run(&["protect", "f", "-r", recipient.trim(), "--sign", "bob"]).ok();
    s.write("signers", line("bob", "", &s, "bob"));
    let unsigned = s.run(&["verify", "f.phx", "-i", "alice"]);
    assert!(unsigned.error().contains("the sender is unknown"));
    let ended = s.run(&["verify", "f.phx", "-i", "alice", "--signers", "signers"]);
    assert_eq!(ended.error(), "");
    assert!(ended.text().ends_with("signed by bob\n"));
}

#[test]
fn a_signature_goes_with_its_file() {
    let s = prepared();
    signed(&s);
    fs::remove_file(s.path("f")).unwrap();
    // Not before its file.
    let mut bytes = s.read("f.phx");
    let whole = bytes.clone();
    bytes[9000] ^= 1;
    s.write("f.phx", &bytes);
    s.run(&["unprotect", "f.phx", "-k", "k", "--remove"]).fails(3);
    assert!(s.exists("f.phx") && s.exists("f.phx.sig"));
    s.write("f.phx", whole);
    let ended = s.run(&["unprotect", "f.phx", "-k", "k", "--remove"]);
    assert_eq!(ended.error(), "phalanx: f.phx.sig: deleted with its file\n");
    ended.ok();
    assert!(s.exists("f") && !s.exists("f.phx") && !s.exists("f.phx.sig"));
    // What is no signature stays, and so does that of a file that stays.
    signed(&s);
    s.write("f.phx.sig", "mine");
    s.run(&["unprotect", "f.phx", "-k", "k", "--remove", "--force"]).ok();
    assert_eq!(s.read("f.phx.sig"), b"mine");
    // Those in a folder.
    fs::create_dir_all(s.path("d/sub")).unwrap();
    for name in ["d/a", "d/sub/b"] {
        s.write(name, name);
        s.run(&["protect", name, "-k", "k", "--sign", "alice", "--remove"]).ok();
    }
    let ended = s.run(&["unprotect", "-R", "d", "-o", "out", "-k", "k", "--remove"]);
    assert!(!ended.error().contains("left out"), "{}", ended.error());
    ended.ok();
    assert!(!s.exists("d") && s.read("out/sub/b") == b"d/sub/b");
    s.run(&["protect", "out/a", "-k", "k", "--sign", "alice", "--remove"]).ok();
    fs::rename(s.path("out/a.phx"), s.path("elsewhere.phx")).unwrap();
    let ended = s.run(&["unprotect", "-R", "out", "-o", "again", "-k", "k", "--remove"]);
    assert!(ended.error().contains("out/a.phx.sig: the name does not end in .phx"), "{}", ended.error());
    ended.ok();
    assert!(s.exists("out/a.phx.sig"));
}

#[test]
fn no_signature_takes_the_place_of_an_input() {
    let s = prepared();
    s.write("a", "one");
    s.write("a.phx.sig", "precious");
    s.write("b.sig", "precious");
    symlink("a.phx.sig", s.path("l")).unwrap();
    for args in [&["a", "l"][..], &["b.sig", "-o", "b"], &["a.phx.sig"]] {
        s.run(&[&["protect"], args, &["-k", "k", "--sign", "alice", "--force"]].concat()).fails(2);
    }
    assert!(["a.phx.sig", "b.sig"].iter().all(|name| s.read(name) == b"precious"));
}
