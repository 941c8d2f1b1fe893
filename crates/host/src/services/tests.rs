use super::*;
use base64ct::{Base64, Encoding};
use phalanx_system::os::fs::PermissionsExt;
use std::fs::{self, Permissions};
use std::path::{Path, PathBuf};

/// A service whose key exchanges letters of Base64. It notes each request.
const HONEST: &str = r#"
read -r request
echo "$request" >> "$0.log"
case $request in
*'"operation":"wrap"'*) text=${request##*'"plaintext":"'}; text=$(printf %s "${text%%\"*}" | tr A-LM-X M-XA-L); echo "{\"ciphertext\":\"$text\"}" ;;
*'"operation":"unwrap"'*) text=${request##*'"ciphertext":"'}; text=$(printf %s "${text%%\"*}" | tr A-LM-X M-XA-L); echo "{\"plaintext\":\"$text\"}" ;;
esac
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    /// A folder with the program `phalanx-kms-test`.
    fn new(script: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let text = format!("#!/bin/sh\n{script}");
        // Another thread that starts a program would have the script open for writing: it is written by a program.
        let made = std::process::Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh"])
            .arg(text)
            .arg(folder.program())
            .status();
        assert!(made.unwrap().success());
        folder
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("phalanx-kms-test")
    }

    fn services(&self, uris: &[&str]) -> Services {
        services(Some(self.0.path()), uris, 30)
    }

    fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(self.0.path().join("phalanx-kms-test.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

fn services(path: Option<&Path>, uris: &[&str], seconds: u64) -> Services {
    let uris: Vec<_> = uris.iter().map(|uri| (*uri).to_owned()).collect();
    let path = path.map(|path| path.as_os_str().to_owned());
    let times = [Duration::from_secs(seconds), Duration::from_secs(3600)];
    let found = Services::in_path("--kms", &uris, path, times);
    found.unwrap_or_else(|_| panic!("the URIs are sound"))
}

/// Why a service does not unwrap 32 bytes, and what to do about it.
fn trouble(services: &Services) -> (String, String) {
    match services.unwrap("test://k", &[7; 32]) {
        Err(Error::KeysRefused { refused, remedy: Some(remedy), .. }) => (refused.join("; "), remedy),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_call_wraps_and_one_unwraps() {
    let folder = Folder::new(HONEST);
    let protecting = folder.services(&["test://k", "test://k"]);
    let recipients = protecting.recipients().ok().unwrap();
    let [Recipient::Service { uri, run_key, .. }] = &recipients[..] else { panic!("{recipients:?}") };
    assert_eq!((&**uri, run_key.len()), ("test://k", 32));
    for _ in 0..3 {
        assert!(
            matches!(protecting.recipient("test://k"), Ok(Some(Recipient::Service { run_key: again, .. })) if again == *run_key)
        );
        // The run that has wrapped the run key knows it.
        assert!(protecting.unwrap("test://k", run_key).unwrap().is_some());
    }
    assert_eq!(folder.requests().len(), 1);
    let opening = folder.services(&["test://k"]);
    for _ in 0..3 {
        let found = opening.unwrap("test://k", run_key).unwrap().unwrap();
        assert!(found.matches(&protecting.unwrap("test://k", run_key).unwrap().unwrap()));
    }
    let requests = folder.requests();
    assert_eq!(requests.len(), 2);
    let request: serde_json::Value = serde_json::from_str(&requests[1]).unwrap();
    let expected = serde_json::json!({
        "version": 1,
        "operation": "unwrap",
        "uri": "test://k",
        "context": { "purpose": "phalanx v1 run key" },
        "ciphertext": Base64::encode_string(run_key),
    });
    assert_eq!(request, expected);
}

#[test]
fn a_service_that_is_not_named_is_not_asked() {
    let folder = Folder::new(HONEST);
    let services = folder.services(&["test://k"]);
    for uri in ["test://other", "test://k/", "TEST://k", "test://"] {
        assert!(matches!(services.unwrap(uri, &[7; 32]), Ok(None)), "{uri}");
        assert!(matches!(services.recipient(uri), Ok(None)), "{uri}");
    }
    assert!(folder.requests().is_empty());
}

#[test]
fn every_fault_of_a_program_is_one_line() {
    for (script, expected) in [
        ("", "phalanx-kms-test gave no answer"),
        ("echo", "phalanx-kms-test gave no answer"),
        ("echo hello", "phalanx-kms-test did not answer with a JSON object of texts"),
        ("echo '[]'", "phalanx-kms-test did not answer with a JSON object of texts"),
        ("echo '{\"plaintext\":7}'", "phalanx-kms-test did not answer with a JSON object of texts"),
        ("echo '{}'", "phalanx-kms-test answered without a plaintext"),
        ("echo '{\"ciphertext\":\"AAAA\"}'", "phalanx-kms-test answered without a plaintext"),
        ("echo '{\"plaintext\":\"A\"}'", "phalanx-kms-test answered with a plaintext that is not Base64 with padding"),
        ("echo '{\"plaintext\":\"AAAA\"}'", "it unwrapped 3 bytes, and a run key has 32"),
        ("printf '%s' '{\"error\":\"not\\n\\u001b[31mred\"}'", "not\\n\\u{1b}[31mred"),
        ("head -c 70000 /dev/zero | tr '\\0' ' '", "phalanx-kms-test answered with more than 64 KiB"),
        ("cat > /dev/null; echo '{\"error\":\"sealed\"}'; exit 3", "sealed"),
    ] {
        let folder = Folder::new(script);
        let services = folder.services(&["test://k"]);
        let (line, remedy) = trouble(&services);
        assert_eq!(line, format!("the key service test://k: {expected}"), "{script}");
        assert!(remedy.contains("docs/key-services.md"), "{remedy}");
    }
    let folder = Folder::new(&format!("{HONEST}exit 3"));
    let (line, _) = trouble(&folder.services(&["test://k"]));
    assert_eq!(line, "the key service test://k: phalanx-kms-test ended with exit status: 3");
    // The same one is not asked twice about one run key.
    let services = folder.services(&["test://k"]);
    (0..3).for_each(|_| drop(trouble(&services)));
    assert_eq!(folder.requests().len(), 2);
}

#[test]
fn a_run_key_is_in_no_message() {
    let folder =
        Folder::new(r#"read -r request; text=${request##*plaintext\":\"}; echo "{\"error\":\"no: ${text%%\"*}\"}""#);
    let failure = folder.services(&["test://k"]).recipients().err().unwrap();
    assert_eq!(failure.line().unwrap(), "cannot protect for test://k: no: …");
}

/// A mount gets its files back when the service is there again.
#[test]
fn a_service_that_was_away_is_asked_again() {
    let folder = Folder::new(&format!("test -e \"$0.back\" || {{ touch \"$0.back\"; echo '{{}}'; exit; }}\n{HONEST}"));
    let path = Some(folder.0.path().as_os_str().to_owned());
    let times = [Duration::from_secs(30), Duration::ZERO];
    let services = Services::in_path("--kms", &["test://k".to_owned()], path, times).ok().unwrap();
    assert!(services.unwrap("test://k", &[7; 32]).is_err());
    assert!(services.unwrap("test://k", &[7; 32]).unwrap().is_some());
}

/// Whoever reads a file would have its key.
#[test]
fn a_service_that_wraps_nothing_is_an_error() {
    let folder = Folder::new(&HONEST.replace("tr A-LM-X M-XA-L", "cat"));
    let failure = folder.services(&["test://k"]).recipients().err().unwrap();
    assert!(failure.line().unwrap().ends_with(": its answer contains the run key"), "{:?}", failure.line());
}

#[test]
fn a_service_that_cannot_wrap_is_an_error() {
    let folder = Folder::new("echo '{\"error\":\"permission denied\"}'");
    let failure = folder.services(&["test://k"]).recipients().err().unwrap();
    assert_eq!(failure.line().unwrap(), "cannot protect for test://k: permission denied");
    // A service must not give more than a slot holds.
    let folder = Folder::new("printf '{\"ciphertext\":\"%05464d\"}' 0");
    let failure = folder.services(&["test://k"]).recipients().err().unwrap();
    let expected = "cannot protect for test://k: the wrapped run key has 4098 bytes, and a slot holds 1 to 4096";
    assert_eq!(failure.line().unwrap(), expected);
}

#[test]
fn a_program_that_takes_too_long_is_not_asked_again() {
    let folder = Folder::new("echo >> \"$0.log\"; exec sleep 600");
    let services = services(Some(folder.0.path()), &["test://k"], 1);
    for n in 0..3 {
        let line = match services.unwrap("test://k", &[n; 32]) {
            Err(Error::KeysRefused { refused, .. }) => refused.join("; "),
            other => panic!("{other:?}"),
        };
        assert_eq!(line, "the key service test://k: phalanx-kms-test took longer than 1 seconds");
    }
    assert_eq!(folder.requests().len(), 1);
}

#[test]
fn a_program_is_looked_for_in_absolute_folders() {
    let folder = Folder::new(HONEST);
    let missing = "the key service test://k: it needs the program phalanx-kms-test, which is neither beside this program \
                   nor in PATH";
    let relative = pathdiff(folder.0.path());
    assert!(relative.join("phalanx-kms-test").exists());
    for path in [None, Some(&*relative), Some(Path::new(""))] {
        assert_eq!(trouble(&services(path, &["test://k"], 30)).0, missing);
    }
    fs::set_permissions(folder.program(), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(trouble(&folder.services(&["test://k"])).0, missing);
}

/// The same path, relative to the current folder.
fn pathdiff(path: &Path) -> PathBuf {
    let depth = env::current_dir().unwrap().components().count() - 1;
    let up: PathBuf = (0..depth).map(|_| "..").collect();
    up.join(path.strip_prefix("/").unwrap())
}

#[test]
fn only_sound_uris_name_programs() {
    for uri in [
        "",
        "k",
        "test",
        "test:k",
        "://k",
        "test://",
        "Test://k",
        "te.st://k",
        "te/st://k",
        "../x://k",
        "-x://k",
        "t t://k",
        "test://a b",
        "test://a\n",
        "tést://k",
    ] {
        assert!(program::name(uri).is_none(), "{uri:?}");
    }
    assert!(program::name(&format!("{}://k", "x".repeat(33))).is_none());
    assert!(program::name(&format!("test://{}", "x".repeat(1018))).is_none());
    assert_eq!(program::name("aws-kms2://k").as_deref(), Some("phalanx-kms-aws-kms2"));
    let many: Vec<_> = (0..9).map(|n| format!("test://{n}")).collect();
    let failure = Services::new("--kms", &many).err().unwrap();
    assert_eq!(failure.line().unwrap(), "--kms: a file has at most 8 key services");
}

#[test]
fn programs_see_what_they_need_of_the_environment() {
    for name in ["PATH", "HOME", "VAULT_TOKEN", "AWS_PROFILE", "KMS_ANY", "https_proxy", "HTTPS_PROXY", "SSL_CERT_FILE"]
    {
        assert!(program::is_passed_on(name), "{name}");
    }
    for name in ["PHALANX_PASSWORD", "PHALANX_KEYRING", "RESTIC_PASSWORD", "VAULT", "LD_PRELOAD", ""] {
        assert!(!program::is_passed_on(name), "{name}");
    }
}
