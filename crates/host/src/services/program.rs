//! Asking a key service: its program `phalanx-kms-NAME` gets one JSON object and answers with one.

use super::Service;
use crate::lines::{complain, one_line};
use crate::signals;
use base64ct::{Base64, Encoding};
use phalanx_age::program::{ends_within, find, folder, survive_closed_pipes};
use phalanx_core::format::is_service_uri;
use serde::Deserialize;
use std::borrow::Cow;
use std::env;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use zeroize::{Zeroize, Zeroizing};

/// What a service has wrapped or unwrapped.
pub type Secret = Zeroizing<Vec<u8>>;

/// How much a program may answer, in bytes.
const MOST: usize = 64 << 10;
/// How much it may write to standard error, in bytes and in lines. More is not shown.
const MOST_SAID: usize = 4 << 10;
const MOST_LINES: usize = 5;
/// How long a program may take to end after its answer.
const ENDING: Duration = Duration::from_secs(2);
/// The longest message of a program that is repeated, in characters.
const LONGEST: usize = 300;

/// What a service is asked to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Wrap,
    Unwrap,
}

/// Why a service gave no answer.
#[derive(Clone)]
pub struct Trouble {
    pub line: String,
    pub remedy: String,
    /// Whether it is not asked at all for some minutes.
    pub stays: bool,
}

/// The name of the program that asks the service with this URI. `None` if it is not the URI of a service.
pub fn name(uri: &str) -> Option<String> {
    const LONGEST: usize = 32;
    let (name, key) = uri.split_once("://")?;
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = (1..=LONGEST).contains(&name.len()) && name.bytes().all(allowed) && !name.starts_with('-');
    (is_name && !key.is_empty() && is_service_uri(uri)).then(|| format!("phalanx-kms-{name}"))
}

/// What a program answers. Other fields do not matter.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    plaintext: Option<Cow<'a, str>>,
    #[serde(borrow)]
    ciphertext: Option<Cow<'a, str>>,
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
}

/// Has the service of this URI wrap or unwrap some bytes.
pub fn ask(service: &Service, uri: &str, operation: Operation, bytes: &[u8]) -> Result<Secret, Trouble> {
    let path = program(service)?;
    let request = request(uri, operation, bytes);
    let mut child = start(&path).map_err(|e| Trouble {
        stays: matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied),
        ..service.trouble(format!("{} cannot be run: {e}", service.program))
    })?;
    let heard = exchange(&mut child, request, service);
    let limit = Instant::now() + if heard.is_ok() { ENDING } else { Duration::ZERO };
    let ended = ends_within(limit.saturating_duration_since(Instant::now()), || child.try_wait());
    if !ended {
        // What it has started may keep running, as for plugins of age.
        let _ = child.kill();
        ends_within(ENDING, || child.try_wait());
    }
    let (answer, said) = heard?;
    let status = child.try_wait().ok().flatten().filter(|_| ended);
    // A program may repeat its request.
    let secret = (operation == Operation::Wrap).then(|| Zeroizing::new(Base64::encode_string(bytes)));
    let secret = secret.as_ref().map(|secret| secret.as_str());
    let found = read(service, operation, &answer, secret).and_then(|found| match status {
        Some(status) if !status.success() => Err(service.trouble(format!("{} ended with {status}", service.program))),
        _ => Ok(found),
    });
    if found.is_err() {
        show(&service.program, &said, secret);
    }
    found
}

/// Finds the program: beside this one, or in a folder of PATH.
fn program(service: &Service) -> Result<PathBuf, Trouble> {
    let beside = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let folders = beside.into_iter().chain(service.path.iter().flat_map(env::split_paths));
    find(&service.program, folders).ok_or_else(|| Trouble {
        line: format!("it needs the program {}, which is neither beside this program nor in PATH", service.program),
        remedy: format!("install {}, or use another way into the file", service.program),
        stays: true,
    })
}

/// The request. It has its capacity from the start, since it holds a secret and growing would leave copies.
fn request(uri: &str, operation: Operation, bytes: &[u8]) -> Zeroizing<String> {
    let (verb, field) = match operation {
        Operation::Wrap => ("wrap", "plaintext"),
        Operation::Unwrap => ("unwrap", "ciphertext"),
    };
    let uri = serde_json::Value::from(uri);
    let before = format!(
        r#"{{"version":1,"operation":"{verb}","uri":{uri},"context":{{"purpose":"phalanx v1 run key"}},"{field}":""#
    );
    let encoded = Zeroizing::new(Base64::encode_string(bytes));
    let mut request = Zeroizing::new(String::with_capacity(before.len() + encoded.len() + 3));
    [&before, &*encoded, "\"}\n"].into_iter().for_each(|part| request.push_str(part));
    request
}

fn start(path: &Path) -> io::Result<Child> {
    let mut command = Command::new(path);
    command.env_clear().envs(env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_passed_on)));
    command.current_dir(folder()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    signals::start(&mut command)
}

/// Whether a program gets an environment variable: those that say how services are reached, and what programs need to
/// run at all. Ours hold passwords and the places of keys, and others may hold secrets of other programs.
pub fn is_passed_on(name: &str) -> bool {
    const NAMES: &[&str] =
        &["PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "GNUPGHOME", "SSH_AUTH_SOCK", "LD_LIBRARY_PATH"];
    /// What programs of Windows need to run and to find the user's settings.
    #[cfg(windows)]
    const OF_WINDOWS: &[&str] = &[
        "APPDATA",
        "COMSPEC",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    ];
    #[cfg(not(windows))]
    const OF_WINDOWS: &[&str] = &[];
    const PREFIXES: &[&str] = &[
        "VAULT_",
        "BAO_",
        "AWS_",
        "AZURE_",
        "GOOGLE_",
        "CLOUDSDK_",
        "KMS_",
        "LC_",
        "XDG_",
        "SSL_CERT_",
        "KUBERNETES_",
    ];
    const PROXIES: &[&str] = &["http_proxy", "https_proxy", "all_proxy", "no_proxy"];
    NAMES.contains(&name)
        || OF_WINDOWS.iter().any(|known| known.eq_ignore_ascii_case(name))
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || PROXIES.contains(&&*name.to_ascii_lowercase())
}

/// Sends the request, and receives the answer and what is on standard error. Threads do it, since neither reading nor
/// writing has a time limit; nothing waits for a program that keeps a pipe open.
fn exchange(child: &mut Child, request: Zeroizing<String>, service: &Service) -> Result<(Secret, Vec<u8>), Trouble> {
    let limit = Instant::now() + service.time;
    let failed = |e: io::Error| service.trouble(format!("{} cannot be asked: {e}", service.program));
    if let Some(mut stdin) = child.stdin.take() {
        let write = move || {
            survive_closed_pipes();
            drop(stdin.write_all(request.as_bytes()));
        };
        thread::Builder::new().name("service".into()).spawn(write).map_err(failed)?;
    }
    let (heard, answer) = mpsc::channel();
    if let Some(mut stdout) = child.stdout.take() {
        let read = move || drop(heard.send(read_some(&mut stdout, MOST + 1)));
        thread::Builder::new().name("service".into()).spawn(read).map_err(failed)?;
    }
    let (said, errors) = mpsc::channel();
    if let Some(mut stderr) = child.stderr.take() {
        let read = move || {
            let _ = said.send(read_some(&mut stderr, MOST_SAID));
            // It must not wait for a pipe that is full.
            let _ = io::copy(&mut stderr, &mut io::sink());
        };
        thread::Builder::new().name("service".into()).spawn(read).map_err(failed)?;
    }
    let answer = match answer.recv_timeout(service.time) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => {
            let line = format!("{} took longer than {} seconds", service.program, service.time.as_secs());
            return Err(Trouble { stays: true, ..service.trouble(line) });
        }
        Err(RecvTimeoutError::Disconnected) => Zeroizing::default(),
    };
    if answer.len() > MOST {
        return Err(service.trouble(format!("{} answered with more than 64 KiB", service.program)));
    }
    let left = limit.saturating_duration_since(Instant::now()).min(ENDING);
    let said = errors.recv_timeout(left).map(|said| said.to_vec()).unwrap_or_default();
    Ok((answer, said))
}

/// Reads to the end, but no more than so many bytes. What was read before an error counts.
fn read_some(input: &mut impl Read, most: usize) -> Secret {
    // It never grows, because growing would leave copies.
    let mut bytes = Zeroizing::new(vec![0; most]);
    let mut len = 0;
    while len < most {
        match input.read(&mut bytes[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    bytes.truncate(len);
    bytes
}

/// What the answer holds. No message repeats any of it but the error, since it may hold the run key.
fn read(service: &Service, operation: Operation, answer: &[u8], secret: Option<&str>) -> Result<Secret, Trouble> {
    let refused = |what: &str| service.trouble(format!("{} {what}", service.program));
    if answer.trim_ascii().is_empty() {
        return Err(refused("gave no answer"));
    }
    let Answer { plaintext, ciphertext, error } =
        serde_json::from_slice(answer).map_err(|_| refused("did not answer with a JSON object of texts"))?;
    let (plaintext, ciphertext) = (plaintext.map(Wiped), ciphertext.map(Wiped));
    if let Some(error) = error {
        let error: String = without(&error, secret).chars().take(LONGEST).collect();
        return Err(service.trouble(one_line(error.trim()).into_owned()));
    }
    let (wanted, field) = match operation {
        Operation::Wrap => (&ciphertext, "ciphertext"),
        Operation::Unwrap => (&plaintext, "plaintext"),
    };
    let text = wanted.as_ref().ok_or_else(|| refused(&format!("answered without a {field}")))?;
    let mut bytes = Zeroizing::new(vec![0; text.0.len()]);
    let len = Base64::decode(&*text.0, &mut bytes)
        .map_err(|_| refused(&format!("answered with a {field} that is not Base64 with padding")))?
        .len();
    bytes.truncate(len);
    Ok(bytes)
}

/// A text of the answer. With escapes it is a copy, which is wiped.
struct Wiped<'a>(Cow<'a, str>);

impl Drop for Wiped<'_> {
    fn drop(&mut self) {
        if let Cow::Owned(text) = &mut self.0 {
            text.zeroize();
        }
    }
}

/// Shows what a program that failed wrote to standard error.
fn show(program: &str, said: &[u8], secret: Option<&str>) {
    let said = without(&String::from_utf8_lossy(said), secret);
    for line in said.lines().map(str::trim).filter(|line| !line.is_empty()).take(MOST_LINES) {
        let line: String = line.chars().take(LONGEST).collect();
        complain(format!("{program}: {}", one_line(&line)));
    }
}

/// The text without the secret.
fn without(text: &str, secret: Option<&str>) -> String {
    secret.map_or_else(|| text.to_owned(), |secret| text.replace(secret, "…"))
}
