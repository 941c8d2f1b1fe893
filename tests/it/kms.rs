//! Key services of the command. `crates/host` tests how their programs are run.

use crate::common::{Ended, Sandbox, has, painted, skip};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::Command;

/// A service whose key exchanges letters of Base64. It notes each request.
const SERVICE: &str = r#"#!/bin/sh
read -r request
echo "$request" >> "$HOME/asked"
env >> "$HOME/environment"
case $request in
*'"operation":"wrap"'*) text=${request##*'"plaintext":"'}; text=$(printf %s "${text%%\"*}" | tr A-LM-X M-XA-L); echo "{\"ciphertext\":\"$text\"}" ;;
*'"operation":"unwrap"'*) text=${request##*'"ciphertext":"'}; text=$(printf %s "${text%%\"*}" | tr A-LM-X M-XA-L); echo "{\"plaintext\":\"$text\"}" ;;
esac
"#;
/// A service that always refuses.
const REFUSING: &str = "#!/bin/sh\necho trouble >&2; echo '{\"error\":\"permission denied\"}'\n";

struct Services(Sandbox);

impl Services {
    /// A folder with a file f, and with the services `test` and `deny`.
    fn new() -> Self {
        let s = Sandbox::new();
        s.write("f", "precious");
        fs::create_dir(s.path("bin")).unwrap();
        install(&s, "test", SERVICE);
        install(&s, "deny", REFUSING);
        Self(s)
    }

    fn command(&self, args: &[&str]) -> Command {
        let s = &self.0;
        let path = format!("{}:{}", s.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = s.command(args);
        command.env("PATH", path).env("HOME", s.path("")).env_remove("XDG_CONFIG_HOME");
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        Ended(self.command(args).output().unwrap())
    }

    /// Writes the user's file of key services.
    fn configure(&self, text: &str) -> PathBuf {
        let folder = self.0.path(".config/phalanx");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let path = folder.join("key-services");
        let _ = fs::remove_file(&path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// The operations that the service was asked for since the last call.
    fn asked(&self) -> Vec<String> {
        let path = self.0.path("asked");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        let operation = |line: &str| {
            let request: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {}", request["operation"].as_str().unwrap(), request["uri"].as_str().unwrap())
        };
        text.lines().map(operation).collect()
    }
}

/// Installs a program of a service.
fn install(s: &Sandbox, name: &str, script: &str) {
    s.script(&format!("bin/phalanx-kms-{name}"), script);
}

#[test]
fn one_call_protects_many_files_and_one_opens_them() {
    let k = Services::new();
    let s = &k.0;
    fs::create_dir(s.path("d")).unwrap();
    (0..20).for_each(|n| drop(s.write(&format!("d/{n}"), painted(n * 1000))));
    k.run(&["protect", "-R", "d", "--kms", "test://k"]).ok();
    assert_eq!(k.asked(), ["wrap test://k"]);
    k.run(&["verify", "-R", "d.phx", "--kms", "test://k"]).ok();
    k.run(&["unprotect", "-R", "d.phx", "-o", "out", "--kms", "test://k"]).ok();
    assert_eq!(k.asked(), ["unwrap test://k", "unwrap test://k"]);
    assert_eq!(s.read("out/7"), painted(7000));
    // A service that fails says nothing of the manifest, which nothing replaces.
    install(
        s,
        "test",
        &SERVICE.replace(
            "*'\"operation\":\"unwrap\"'*)",
            "*'\"operation\":\"unwrap\"'*) echo '{\"error\":\"try later\"}'; exit ;; never)",
        ),
    );
    let manifest = s.read("d.phx/phalanx.tree");
    let error = k.run(&["protect", "-R", "d", "--kms", "test://k", "--force"]).fails(3);
    assert!(error.contains("try later") && s.read("d.phx/phalanx.tree") == manifest, "{error}");
    for line in ["mirror d d.phx", "verify -R d.phx"] {
        let args: Vec<&str> = line.split(' ').chain(["--kms", "test://k"]).collect();
        let error = k.run(&args).fails(3);
        assert!(error.contains("try later") && !error.contains("move it away"), "{error}");
    }
    install(s, "test", SERVICE);
    k.asked();
    // Each run has its own run key, and each is asked for once.
    for name in ["a", "b"] {
        s.write(name, name);
        k.run(&["protect", name, "--kms", "test://k"]).ok();
    }
    k.asked();
    k.run(&["verify", "a.phx", "b.phx", "a.phx", "--kms", "test://k"]).ok();
    assert_eq!(k.asked(), ["unwrap test://k", "unwrap test://k"]);
}

#[test]
fn only_named_services_are_asked() {
    let k = Services::new();
    k.run(&["key", "new", "work"]).ok();
    k.run(&["protect", "f", "--kms", "test://k", "-k", "work"]).ok();
    k.asked();
    // Nothing is named: the keyring opens it.
    k.run(&["verify", "f.phx"]).ok();
    k.run(&["protect", "f", "-o", "g.phx", "--kms", "test://k"]).ok();
    k.asked();
    let line = k.run(&["verify", "g.phx"]).fails(3);
    assert_eq!(
        line,
        "phalanx: g.phx: no key at hand opens it: it needs the key service test://k\nhint: --kms names a key service that may be \
         asked"
    );
    for uri in ["test://other", "test://k/", "deny://k"] {
        assert!(k.run(&["verify", "g.phx", "--kms", uri]).fails(3).contains("it needs the key service test://k\n"));
    }
    k.run(&["inspect", "g.phx"]).ok();
    assert!(k.asked().is_empty());
    // What is named is all that is tried.
    assert!(k.run(&["verify", "f.phx", "--kms", "test://other"]).fails(3).contains("it needs key "));
    let said = k.run(&["verify", "-v", "f.phx", "--kms", "test://k"]);
    assert!(said.error().contains("opened by slot 2: key service test://k"), "{}", said.error());
    said.ok();
}

#[test]
fn failures_name_the_service_and_a_way_out() {
    let k = Services::new();
    k.run(&["protect", "f", "--kms", "test://k"]).ok();
    for (args, code, line) in [
        (
            &["protect", "f", "-o", "g", "--kms", "deny://k"][..],
            1,
            "phalanx: cannot protect for deny://k: permission denied\nhint: docs/key-services.md says what phalanx-kms-deny needs",
        ),
        (
            &["protect", "f", "-o", "g", "--kms", "none://k"],
            1,
            "phalanx: cannot protect for none://k: it needs the program phalanx-kms-none, which is neither beside this program nor \
             in PATH\nhint: install phalanx-kms-none",
        ),
        (
            &["protect", "f", "-o", "g", "--kms", "k"],
            2,
            "phalanx: --kms: k is not the URI of a key service\nhint: it looks like",
        ),
        (
            &["verify", "f.phx", "--kms", "../x://k"],
            2,
            "phalanx: --kms: ../x://k is not the URI of a key service\nhint: ",
        ),
    ] {
        let said = k.run(args);
        let lines: Vec<_> =
            said.error().lines().filter(|line| !line.contains(": trouble")).map(str::to_owned).collect();
        assert!(lines.join("\n").starts_with(line), "{args:?}: {lines:?}");
        assert_eq!(said.0.status.code(), Some(code), "{args:?}");
        assert!(!k.0.exists("g"));
    }
    // A file that a service has protected, which refuses now.
    install(&k.0, "test", REFUSING);
    let said = k.run(&["verify", "f.phx", "--kms", "test://k"]);
    let expected = "phalanx: phalanx-kms-test: trouble\nphalanx: f.phx: no key at hand opens it: it needs the key service test://k; the \
                    key service test://k: permission denied\nhint: docs/key-services.md says what phalanx-kms-test needs; another \
                    way into a file opens it without\n";
    assert_eq!(said.error(), expected);
    assert_eq!(said.0.status.code(), Some(3));
}

#[test]
fn a_service_sees_no_password_and_no_place_of_keys() {
    let k = Services::new();
    let mut command = k.command(&["protect", "f", "--kms", "test://k"]);
    command.env("PHALANX_PASSWORD", "secret").env("OTHER_SECRET", "secret").env("VAULT_ADDR", "http://vault");
    Ended(command.output().unwrap()).ok();
    let environment = fs::read_to_string(k.0.path("environment")).unwrap();
    assert!(environment.contains("VAULT_ADDR=http://vault\n") && environment.contains("PATH="), "{environment}");
    assert!(!environment.contains("secret") && !environment.contains("PHALANX_"), "{environment}");
}

#[test]
fn rekey_adds_and_removes_services() {
    let k = Services::new();
    let s = &k.0;
    k.run(&["key", "new", "work"]).ok();
    k.run(&["protect", "f", "-k", "work"]).ok();
    let said = k.run(&["rekey", "f.phx", "--add-kms", "test://k", "--add-kms", "test://l"]).text();
    assert!(said.contains("key service test://k, run key of 32 bytes"), "{said}");
    assert_eq!(k.asked(), ["wrap test://k", "wrap test://l"]);
    let json = k.run(&["inspect", "--json", "f.phx"]).text();
    assert!(json.contains(r#"{"type":"service","uri":"test://k","bytes":32}"#), "{json}");
    // Under a new file key there is a new run key: one call opens the old one, and one wraps the new one.
    k.run(&["rekey", "f.phx", "--fresh", "--kms", "test://k", "--remove-kms", "test://l", "--remove-key", "work"]).ok();
    assert_eq!(k.asked(), ["unwrap test://k", "wrap test://k"]);
    k.run(&["verify", "f.phx", "-k", "work"]).fails(3);
    k.run(&["verify", "f.phx", "--kms", "test://l"]).fails(3);
    k.run(&["verify", "f.phx", "--kms", "test://k"]).ok();
    let fails = k.run(&["rekey", "f.phx", "--kms", "test://k", "--remove-kms", "test://k"]).fails(2);
    assert!(fails.contains("no way in would be left"), "{fails}");
    let said = k.run(&["rekey", "f.phx", "--kms", "test://k", "--remove-kms", "test://none"]).error();
    assert!(said.contains("the key service test://none has no slot in it, so nothing was removed"), "{said}");
    // A volume takes none.
    k.run(&["init", "v", "-k", "work"]).ok();
    let fails = k.run(&["rekey", "v", "-k", "work", "--add-kms", "test://k"]).fails(1);
    assert!(fails.contains("cannot protect for test://k: a volume opens by keys and passwords only"), "{fails}");
    assert_eq!(s.names().iter().filter(|name| name.starts_with(".phalanx")).count(), 0);
}

/// A mirror reads its own manifest by the service, and an interrupted run is gone on with.
#[test]
fn mirrors_and_resumed_runs_open_what_they_protect() {
    let k = Services::new();
    let s = &k.0;
    fs::create_dir(s.path("d")).unwrap();
    s.write("d/a", "one");
    k.run(&["mirror", "d", "m", "--kms", "test://k"]).ok();
    assert_eq!(k.asked(), ["wrap test://k"]);
    s.write("d/b", "two");
    let said = k.run(&["mirror", "d", "m", "--kms", "test://k"]);
    assert!(said.error().contains("1 file"), "{}", said.error());
    said.ok();
    assert_eq!(k.asked(), ["wrap test://k", "unwrap test://k"]);
    k.run(&["verify", "-R", "m", "--kms", "test://k"]).ok();
    k.run(&["protect", "f", "--resume", "--kms", "test://k"]).ok();
    k.run(&["verify", "f.phx", "--kms", "test://k"]).ok();
}

/// The service in ten lines of shell on the page about key services.
#[test]
fn the_example_of_the_page_works() {
    if !has("age") || !has("age-keygen") {
        return;
    }
    let page = include_str!("../../docs/key-services.md");
    let script = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(script.starts_with("#!/bin/sh\n") && script.lines().count() <= 10);
    let k = Services::new();
    let s = &k.0;
    install(s, "age", script);
    fs::create_dir(s.path(".kms")).unwrap();
    for name in ["orders", "other"] {
        assert!(s.succeeds("age-keygen", &["-o", &format!(".kms/{name}")]));
    }
    k.run(&["protect", "f", "--kms", "age://orders"]).ok();
    k.run(&["unprotect", "f.phx", "-o", "g", "--kms", "age://orders"]).ok();
    assert_eq!(s.read("g"), b"precious");
    // Files name keys, but no other files.
    s.secret("elsewhere", s.read(".kms/orders"));
    s.secret(".kms/.hidden", s.read(".kms/orders"));
    for uri in ["age://../elsewhere", "age://.hidden", "age://x/../orders"] {
        let said = k.run(&["protect", "f", "-o", "h", "--kms", uri]).fails(1);
        assert!(
            said.starts_with(&format!("phalanx: cannot protect for {uri}: not the name of a key\nhint: ")),
            "{said}"
        );
    }
    // The key is gone, and another one has its name.
    fs::rename(s.path(".kms/other"), s.path(".kms/orders")).unwrap();
    let said = k.run(&["verify", "f.phx", "--kms", "age://orders"]);
    assert_eq!(said.0.status.code(), Some(3));
    assert!(said.error().contains("phalanx-kms-age: age: error: "), "{}", said.error());
    assert!(said.error().contains("the key service age://orders: phalanx-kms-age gave no answer\nhint: "));
}

/// The key's file goes only after the service has shown that it gives the key back.
#[test]
fn a_service_locks_keys_of_the_keyring() {
    let k = Services::new();
    k.run(&["key", "new", "work"]).ok();
    k.run(&["protect", "f", "-k", "work"]).ok();
    k.run(&["key", "lock", "work", "--kms", "test://k"]).ok();
    assert_eq!(k.asked(), ["wrap test://k", "unwrap test://k"]);
    assert!(!k.0.exists("keyring/work.key"));
    k.run(&["verify", "f.phx", "-k", "work", "--kms", "test://k"]).ok();
    k.run(&["key", "unlock", "--kms", "test://k"]).ok();
    assert!(k.0.exists("keyring/work.key"));
    // This one wraps and never unwraps.
    install(&k.0, "once", &SERVICE.replace("{\\\"plaintext\\\":", "{\\\"text\\\":"));
    k.run(&["key", "lock", "work", "--kms", "once://k"]).fails(3);
    assert!(k.0.exists("keyring/work.key"));
    k.run(&["verify", "f.phx", "-k", "work"]).ok();
}

#[test]
fn a_file_has_at_most_eight_services() {
    let k = Services::new();
    let eight: Vec<String> = (0..8).flat_map(|n| ["--kms".to_owned(), format!("test://{n}")]).collect();
    let args = |first: &[&str], more: &[String]| -> Vec<String> {
        first.iter().map(|arg| (*arg).to_owned()).chain(more.iter().cloned()).collect()
    };
    let run = |args: &[String]| k.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    run(&args(&["protect", "f"], &eight)).ok();
    let line = run(&args(&["rekey", "f.phx", "--add-kms", "test://8"], &eight)).fails(1);
    assert!(line.contains("a file has at most 8 key services"), "{line}");
    run(&args(&["rekey", "f.phx", "--add-kms", "test://8", "--remove-kms", "test://0"], &eight)).ok();
    run(&args(&["rekey", "f.phx", "--fresh", "--kms", "test://8"], &eight[2..])).ok();
}

/// The user's file names services, of which files may be opened without --kms.
#[test]
fn a_file_of_the_user_names_services() {
    let k = Services::new();
    k.run(&["protect", "f", "--kms", "test://team-1/k"]).ok();
    k.run(&["key", "new", "other"]).ok();
    assert_eq!(k.asked(), ["wrap test://team-1/k"]);
    for text in ["# none\n", "test://team-1\n", "test://team-1/k/*\n", "TEST://*\n# test://*\n", "test://\n"] {
        k.configure(text);
        k.run(&["verify", "f.phx"]).fails(3);
        assert!(k.asked().is_empty(), "{text}");
    }
    for text in ["# ours\n\n  test://team-1/k  \n", "test://other\ntest://team-*", "test://*\n"] {
        k.configure(text);
        k.run(&["verify", "f.phx"]).ok();
        assert_eq!(k.asked(), ["unwrap test://team-1/k"], "{text}");
        k.run(&["unprotect", "f.phx", "-o", "g", "--force"]).ok();
        k.asked();
        // What is named is all that is tried.
        k.run(&["verify", "f.phx", "--kms", "test://other"]).fails(3);
        k.run(&["verify", "f.phx", "-k", "other"]).fails(3);
        assert!(k.asked().is_empty());
    }
    assert_eq!(k.0.read("g"), b"precious");
    // A key of the keyring opens it, and no service is asked.
    k.run(&["protect", "f", "-o", "h.phx", "-k", "other", "--kms", "test://k"]).ok();
    k.asked();
    k.run(&["verify", "h.phx"]).ok();
    // It is for opening only.
    assert!(k.run(&["protect", "f", "-o", "i.phx"]).fails(2).contains("password"));
    k.run(&["protect", "f", "-o", "i.phx", "-k", "other"]).ok();
    assert!(!k.run(&["inspect", "i.phx"]).text().contains("service"));
    assert!(k.asked().is_empty());
}

/// It could choose another engine, region or server.
#[test]
fn after_a_prefix_files_choose_a_key_and_nothing_else() {
    let k = Services::new();
    for (name, uri) in [("a.phx", "test://team-1?engine=x"), ("b.phx", "test://team-1#x"), ("c.phx", "test://team-1")] {
        k.run(&["protect", "f", "-o", name, "--kms", uri]).ok();
    }
    k.asked();
    k.configure("test://team-*\n");
    k.run(&["verify", "a.phx"]).fails(3);
    k.run(&["verify", "b.phx"]).fails(3);
    assert!(k.asked().is_empty());
    k.run(&["verify", "c.phx"]).ok();
    assert_eq!(k.asked(), ["unwrap test://team-1"]);
    // The user has said that more follows.
    k.configure("test://team-1?engine=*\ntest://team-1#*\n");
    k.run(&["verify", "a.phx", "b.phx"]).ok();
}

/// Whoever writes a file must not make anybody call a service.
#[test]
fn a_stranger_s_file_calls_nothing() {
    let k = Services::new();
    k.run(&["protect", "f", "--kms", "test://stranger"]).ok();
    k.asked();
    k.configure("test://ours\ntest://ours-*\ndeny://ours\n");
    for args in
        [&["verify", "f.phx"][..], &["unprotect", "f.phx", "-o", "g"], &["rekey", "f.phx", "--add-kms", "test://ours"]]
    {
        let line = k.run(args).fails(3);
        assert_eq!(
            line,
            "phalanx: f.phx: no key at hand opens it: it needs the key service test://stranger\nhint: --kms names a key service \
             that may be asked"
        );
    }
    k.run(&["inspect", "f.phx"]).ok();
    assert!(k.asked().iter().all(|asked| asked == "wrap test://ours"));
}

#[test]
fn a_file_of_services_that_others_can_change_is_refused() {
    let k = Services::new();
    k.run(&["key", "new", "work"]).ok();
    k.run(&["protect", "f", "--kms", "test://k"]).ok();
    k.run(&["protect", "f", "-o", "g.phx", "--kms", "test://k", "-k", "work"]).ok();
    k.asked();
    let file = k.configure("test://k\n");
    let folder = file.parent().unwrap().to_owned();
    k.run(&["verify", "f.phx"]).ok();
    assert_eq!(k.asked(), ["unwrap test://k"]);
    let refused = |what: &str, hint: &str| {
        let line = k.run(&["verify", "f.phx"]).fails(3);
        let needs = "phalanx: f.phx: no key at hand opens it: it needs the key service test://k; ";
        let (line, said) = line.split_once("\nhint: ").unwrap_or((&line, ""));
        assert!(line.starts_with(needs) && line.ends_with(what), "{line}");
        assert_eq!(said, hint);
        // Whoever needs none is not troubled.
        k.run(&["verify", "g.phx"]).ok();
        assert!(k.asked().is_empty());
    };
    let mode = |path: &PathBuf, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let named = "--kms names a service without it";
    for bits in [0o664, 0o646, 0o622] {
        mode(&file, bits);
        refused(
            "key-services is refused because other users may write to it",
            &format!("chmod go-w {}", file.display()),
        );
    }
    mode(&file, 0o600);
    mode(&folder, 0o777);
    refused("phalanx is refused because other users may write to it", &format!("chmod 700 {}", folder.display()));
    mode(&folder, 0o755);
    if rustix::process::getuid().is_root() {
        chown(&file, Some(7), None).unwrap();
        refused("key-services is refused because it belongs to another user (uid 7, not 0)", named);
        chown(&file, Some(0), None).unwrap();
        chown(&folder, Some(7), None).unwrap();
        refused("phalanx is refused because it belongs to another user (uid 7, not 0)", named);
        chown(&folder, Some(0), None).unwrap();
    } else {
        skip("root");
    }
    fs::rename(&file, folder.join("elsewhere")).unwrap();
    symlink("elsewhere", &file).unwrap();
    refused("key-services is refused because it is a link", named);
    fs::remove_file(&file).unwrap();
    assert!(k.0.succeeds("mkfifo", &[file.to_str().unwrap()]));
    refused("key-services is refused because it is not a regular file", named);
    k.configure(&"# long\n".repeat(10_000));
    refused("key-services is refused because it is longer than 64 KiB", named);
    k.configure(&"test://k\n".repeat(65));
    refused("key-services: it names 65 services", "at most 64 lines may name services; one that ends in * names many");
    let form = "it looks like NAME://KEY, or like NAME://TEAM-* for all that begin like that";
    for line in ["k", "test://", "*", "test:*", "t*://k", "../x://k", "test://a b", "test://k # ours", "a\u{1b}[31m"] {
        k.configure(&format!("test://k\n\n{line}\n"));
        let shown = line.replace('\u{1b}', "\\u{1b}");
        refused(&format!("key-services: line 3: {shown} is not the URI of a key service"), form);
    }
}

/// A whole URI in the user's file keeps its slot under a new file key. A beginning does not: files say how it goes on.
#[test]
fn rekey_opens_by_services_of_the_file() {
    let k = Services::new();
    k.run(&["key", "new", "work"]).ok();
    k.run(&["protect", "f", "--kms", "test://k"]).ok();
    k.asked();
    k.configure("test://*\n");
    let line = k.run(&["rekey", "f.phx", "--fresh"]).fails(2);
    assert!(line.contains("slot 1 cannot be kept under a new file key"), "{line}");
    assert!(k.asked().iter().all(|asked| asked == "unwrap test://k"));
    k.configure("test://*\ntest://k\n");
    k.run(&["rekey", "f.phx", "--fresh"]).ok();
    assert_eq!(k.asked(), ["unwrap test://k", "wrap test://k"]);
    k.run(&["rekey", "f.phx", "--add-key", "work"]).ok();
    // The keyring opens it now.
    k.configure("test://none\n");
    k.run(&["verify", "f.phx"]).ok();
}

#[test]
fn services_of_the_file_open_locked_keys() {
    let k = Services::new();
    k.run(&["key", "new", "work"]).ok();
    k.run(&["protect", "f", "-k", "work"]).ok();
    k.run(&["key", "lock", "work", "--kms", "test://k"]).ok();
    k.run(&["verify", "f.phx"]).fails(3);
    k.asked();
    k.configure("test://k\n");
    k.run(&["verify", "f.phx"]).ok();
    k.run(&["verify", "f.phx", "-k", "work"]).ok();
    k.run(&["protect", "f", "-o", "g.phx", "-k", "work"]).ok();
    assert_eq!(k.asked(), ["unwrap test://k"; 3]);
    k.run(&["key", "unlock"]).ok();
    assert!(k.0.exists("keyring/work.key"));
}
