//! Plugins: programs `age-plugin-NAME` that hold keys elsewhere, and the protocol that age speaks with them.
//!
//! The crate `age` speaks it too, but lets a plugin have the whole environment and all the time that it likes.

use crate::outline::Outline;
use crate::user::{Nobody, User};
use age::{DecryptError, EncryptError};
use age_core::format::{FileKey, Stanza};
use age_core::primitives::bech32_decode;
use age_core::secrecy::ExposeSecret;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long a plugin may take for one file, not counting the time in which its user is asked.
pub const PLUGIN_TIME: Duration = Duration::from_secs(120);
/// How long a plugin may take to end, once it has nothing left to do.
const ENDING: Duration = Duration::from_secs(2);
/// How much a plugin may say, in bytes and in messages.
const MOST_BYTES: u64 = 1 << 20;
const MOST_MESSAGES: usize = 1000;
/// How much of a plugin's words is shown.
const MOST_SHOWN: usize = 300;
/// Characters of a whole line of Base64.
const LINE: usize = 64;
/// Plugins get no variable of the environment that begins so: they hold passwords, and say where keys are.
const OURS: &str = "PHALANX_";

/// How plugins are found and run, and who is asked when they ask.
#[derive(Clone)]
pub struct Plugins {
    path: Option<OsString>,
    time: Duration,
    user: Arc<dyn User>,
    /// Plugins run one at a time, among all clones: two would want the same device, and the same user.
    turn: Arc<Mutex<()>>,
}

impl Plugins {
    /// Plugins in the folders of the variable PATH, with [`PLUGIN_TIME`].
    #[must_use]
    pub fn new(user: Arc<dyn User>) -> Self {
        Self { path: env::var_os("PATH"), time: PLUGIN_TIME, user, turn: Arc::default() }
    }

    /// The same in other folders, written as in PATH.
    #[must_use]
    pub fn with_path(self, path: impl Into<OsString>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    /// The same with another limit.
    #[must_use]
    pub fn with_time(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Whoever is asked.
    pub(crate) fn user(&self) -> &dyn User {
        &*self.user
    }

    fn find(&self, name: &str) -> Result<PathBuf, String> {
        let program = format!("age-plugin-{name}");
        let folders = self.path.iter().flat_map(env::split_paths);
        // A relative folder would be one that anybody may have prepared.
        let mut found = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(&program));
        let runs = |path: &PathBuf| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
        found.find(runs).ok_or_else(|| match name {
            "pq" => "post-quantum keys of age need the program age-plugin-pq, which is not in PATH".into(),
            _ => format!("it needs the program {program}, which is not in PATH"),
        })
    }
}

impl Default for Plugins {
    /// Nobody is asked.
    fn default() -> Self {
        Self::new(Arc::new(Nobody))
    }
}

/// A recipient that a plugin makes stanzas for.
#[derive(Clone)]
pub struct PluginRecipient {
    name: String,
    text: String,
    plugins: Plugins,
    broken: Arc<Broken>,
}

/// Why a plugin is not run again for a recipient or an identity: it cannot be run, or it took too long once.
type Broken = OnceLock<String>;

impl PluginRecipient {
    /// `None` if no plugin may have that name.
    pub fn new(name: &str, text: &str, plugins: &Plugins) -> Option<Self> {
        is_name(name).then(|| Self {
            name: name.into(),
            text: text.into(),
            plugins: plugins.clone(),
            broken: Arc::default(),
        })
    }

    /// Whether the plugin is there.
    pub fn check(&self) -> Result<(), String> {
        self.plugins.find(&self.name).map(drop)
    }

    fn stanzas(&self, file_key: &FileKey) -> Result<Vec<Stanza>, String> {
        let mut session = Session::start(&self.name, &self.plugins, "recipient-v1", &self.broken)?;
        let mut said = Zeroizing::new(String::with_capacity(self.text.len() + 256));
        command(&mut said, &format!("add-recipient {}", self.text), &[]);
        command(&mut said, "extension-labels", &[]);
        command(&mut said, "wrap-file-key", file_key.expose_secret());
        command(&mut said, "done", &[]);
        session.say(said);
        let mut stanzas = Vec::new();
        let failed = session.hear(|message| {
            if message.kind() != "recipient-stanza" {
                return if message.kind() == "labels" { "ok" } else { "unsupported" };
            }
            let mut words = message.arguments();
            match (words.next(), words.next()) {
                (Some("0"), Some(kind)) => {
                    let args = words.map(str::to_owned).collect();
                    stanzas.push(Stanza { tag: kind.into(), args, body: message.body.to_vec() });
                    "ok"
                }
                _ => "fail",
            }
        })?;
        match failed {
            Some(why) => Err(session.named(&why)),
            None if stanzas.is_empty() => Err(session.named("it made nothing")),
            None => Ok(stanzas),
        }
    }
}

impl age::Recipient for PluginRecipient {
    fn wrap_file_key(&self, file_key: &FileKey) -> Result<(Vec<Stanza>, HashSet<String>), EncryptError> {
        // The only recipient of its file: labels, which say who may be together, do not matter.
        let stanzas = self.stanzas(file_key).map_err(|why| EncryptError::Io(io::Error::other(why)))?;
        Ok((stanzas, HashSet::new()))
    }
}

/// An identity that a plugin opens stanzas with.
pub struct PluginIdentity {
    name: String,
    text: Zeroizing<String>,
    broken: Broken,
}

impl PluginIdentity {
    /// Reads `AGE-PLUGIN-NAME-1…`; `None` if it is none.
    pub fn read(text: &str) -> Option<Self> {
        let hrp = bech32_decode(text, |_| (), |_| Ok(()), |hrp, _| Ok(hrp.to_lowercase())).ok()?;
        let name = hrp.strip_prefix("age-plugin-")?.strip_suffix('-')?;
        is_name(name).then(|| Self { name: name.into(), text: Zeroizing::new(text.into()), broken: Broken::new() })
    }

    /// The keys of the age files that the plugin opens, with their places.
    pub fn open(&self, files: &[(usize, Outline<'_>)], plugins: &Plugins) -> Result<Vec<(usize, OpenKey)>, String> {
        let mut session = Session::start(&self.name, plugins, "identity-v1", &self.broken)?;
        let mut said = Zeroizing::new(String::with_capacity(256 << 10));
        command(&mut said, &format!("add-identity {}", *self.text), &[]);
        for (i, (_, outline)) in files.iter().enumerate() {
            for stanza in outline.stanzas() {
                let _ = write!(said, "-> recipient-stanza {i} {}", stanza.text());
            }
        }
        command(&mut said, "done", &[]);
        session.say(said);
        let mut keys = Vec::new();
        let failed = session.hear(|message| {
            if message.kind() != "file-key" {
                return "unsupported";
            }
            let place = message.arguments().next().and_then(|i| i.parse::<usize>().ok()).and_then(|i| files.get(i));
            let key = <[u8; 16]>::try_from(&message.body[..]).map(Zeroizing::new);
            match (place, key) {
                (Some((at, _)), Ok(key)) => {
                    keys.push((*at, OpenKey(key)));
                    "ok"
                }
                _ => "fail",
            }
        })?;
        match failed {
            Some(why) if keys.is_empty() => Err(session.named(&why)),
            _ => Ok(keys),
        }
    }

    /// The plugin's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The key of an age file, which a plugin gave.
pub struct OpenKey(Zeroizing<[u8; 16]>);

impl age::Identity for OpenKey {
    fn unwrap_stanza(&self, _: &Stanza) -> Option<Result<FileKey, DecryptError>> {
        Some(Ok(FileKey::init_with_mut(|key| key.copy_from_slice(&*self.0))))
    }
}

/// A running plugin.
struct Session<'p> {
    _turn: MutexGuard<'p, ()>,
    name: String,
    user: &'p dyn User,
    broken: &'p Broken,
    child: Child,
    to: Option<Sender<Zeroizing<String>>>,
    from: Receiver<io::Result<Message>>,
    left: Duration,
}

impl<'p> Session<'p> {
    fn start(name: &str, plugins: &'p Plugins, machine: &str, broken: &'p Broken) -> Result<Self, String> {
        let turn = plugins.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever had the turn before may have found out.
        if let Some(why) = broken.get() {
            return Err(why.clone());
        }
        let path = plugins.find(name)?;
        let failed = |e: io::Error| format!("the plugin {name} cannot be run: {e}");
        let mut command = Command::new(path);
        let ours = |name: &OsString| name.to_string_lossy().starts_with(OURS);
        env::vars_os().map(|(name, _)| name).filter(ours).for_each(|name| {
            command.env_remove(name);
        });
        command.arg(format!("--age-plugin={machine}")).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => broken.get_or_init(|| failed(e)).clone(),
            // A lack of memory or open files passes.
            _ => failed(e),
        })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (to, said) = mpsc::channel::<Zeroizing<String>>();
        let (heard, from) = mpsc::channel();
        let (user, left) = (plugins.user(), plugins.time);
        let session = Self { _turn: turn, name: name.into(), user, broken, child, to: Some(to), from, left };
        // Threads of their own, since neither reading nor writing has a time limit. A plugin that leaves its ends open to
        // others is not waited for.
        let write = move || {
            if let Some(mut stdin) = stdin {
                said.iter().try_for_each(|text| stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush())).ok();
            }
        };
        let read = move || {
            let Some(stdout) = stdout else { return };
            let mut stdout = Lines::new(stdout.take(MOST_BYTES));
            for _ in 0..MOST_MESSAGES {
                let message = Message::read(&mut stdout);
                let over = message.is_err();
                if heard.send(message).is_err() || over {
                    return;
                }
            }
        };
        thread::Builder::new().name("plugin".into()).spawn(write).map_err(failed)?;
        thread::Builder::new().name("plugin".into()).spawn(read).map_err(failed)?;
        Ok(session)
    }

    fn say(&self, text: Zeroizing<String>) {
        // A plugin that has ended is noticed where it is heard.
        let _ = self.to.as_ref().map(|to| to.send(text));
    }

    /// Hears what the plugin says until it is done. `answer` gets what is about keys, and says how that is answered. Returns
    /// what failed, as the plugin tells it.
    fn hear(&mut self, mut answer: impl FnMut(&Message) -> &'static str) -> Result<Option<String>, String> {
        let mut failed = None;
        loop {
            let begun = Instant::now();
            let message = self.from.recv_timeout(self.left).map_err(|e| match e {
                RecvTimeoutError::Timeout => self.broken.get_or_init(|| self.named("it took too long")).clone(),
                RecvTimeoutError::Disconnected => self.named("it said too much"),
            })?;
            self.left = self.left.saturating_sub(begun.elapsed());
            let message = message.map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => self.named("it ended too early"),
                _ => self.named("it broke the protocol"),
            })?;
            let mut reply = Zeroizing::new(String::with_capacity(1024));
            match message.kind() {
                "done" => return Ok(failed),
                "error" => {
                    failed.get_or_insert(message.words());
                    command(&mut reply, "ok", &[]);
                }
                "msg" => {
                    self.user.tell(&format!("{}: {}", self.name, message.words()));
                    command(&mut reply, "ok", &[]);
                }
                "confirm" => self.confirm(&message, &mut reply),
                "request-secret" => {
                    let given = self.user.secret(&format!("{}: {} ", self.name, message.words()));
                    answered(&mut reply, given.as_ref().map(|text| text.as_bytes()));
                }
                "request-public" => {
                    let given = self.user.line(&format!("{}: {} ", self.name, message.words()));
                    answered(&mut reply, given.as_ref().map(|text| text.as_bytes()));
                }
                _ => command(&mut reply, answer(&message), &[]),
            }
            self.say(reply);
        }
    }

    fn confirm(&self, message: &Message, reply: &mut String) {
        let mut choices = message.arguments().map(|word| {
            let decoded = BASE64_STANDARD_NO_PAD.decode(word).ok()?;
            Some(shown(&decoded))
        });
        let chosen = match (choices.next(), choices.next()) {
            (Some(Some(yes)), None) => self.user.choose(&self.asks(message), &yes, None),
            (Some(Some(yes)), Some(Some(no))) => self.user.choose(&self.asks(message), &yes, Some(&no)),
            _ => None,
        };
        let line = match chosen {
            Some(true) => "ok yes",
            Some(false) => "ok no",
            None => "fail",
        };
        command(reply, line, &[]);
    }

    fn asks(&self, message: &Message) -> String {
        format!("{}: {}", self.name, message.words())
    }

    /// What happened, with the plugin's name.
    fn named(&self, what: &str) -> String {
        format!("the plugin {} failed: {what}", self.name)
    }
}

impl Drop for Session<'_> {
    /// The plugin ends, by itself if it does so soon.
    fn drop(&mut self) {
        // Its input is closed when the thread that writes has nothing left.
        self.to = None;
        if !ends_within(ENDING.min(self.left), || self.child.try_wait()) {
            // A plugin that runs as another user cannot be ended, and one that waits for a device may take its time. It is left
            // to itself then, as are programs that a plugin has started.
            let _ = self.child.kill();
            ends_within(ENDING, || self.child.try_wait());
        }
    }
}

/// Waits for a program, and returns whether it has ended.
fn ends_within(time: Duration, mut state: impl FnMut() -> io::Result<Option<ExitStatus>>) -> bool {
    let limit = Instant::now() + time;
    loop {
        if matches!(state(), Ok(Some(_)) | Err(_)) {
            return true;
        }
        if Instant::now() >= limit {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// What a plugin says: a stanza.
struct Message {
    head: String,
    body: Zeroizing<Vec<u8>>,
}

impl Message {
    fn read(from: &mut Lines<impl Read>) -> io::Result<Self> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let head = from.next()?;
        let head = str::from_utf8(&head).ok().and_then(|head| head.strip_prefix("-> ")).ok_or_else(broken)?.to_owned();
        let mut encoded = Zeroizing::new(Vec::with_capacity(4096));
        loop {
            let data = from.next()?;
            encoded.extend_from_slice(&data);
            match data.len() {
                LINE => {}
                0..LINE => break,
                _ => return Err(broken()),
            }
        }
        let body = BASE64_STANDARD_NO_PAD.decode(&*encoded).map_err(|_| broken())?;
        Ok(Self { head, body: Zeroizing::new(body) })
    }

    fn kind(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    fn arguments(&self) -> impl Iterator<Item = &str> {
        self.head.split(' ').skip(1)
    }

    /// The body as words for a user.
    fn words(&self) -> String {
        shown(&self.body)
    }
}

/// The lines that a plugin writes. What was read is wiped, since some of it is keys.
struct Lines<R> {
    from: R,
    buffer: Zeroizing<[u8; 4096]>,
    /// What of the buffer is read and not yet taken.
    ahead: Range<usize>,
}

impl<R: Read> Lines<R> {
    fn new(from: R) -> Self {
        Self { from, buffer: Zeroizing::new([0; 4096]), ahead: 0..0 }
    }

    /// The next line, without its end.
    fn next(&mut self) -> io::Result<Zeroizing<Vec<u8>>> {
        let mut line = Zeroizing::new(Vec::with_capacity(1024));
        loop {
            let ahead = &self.buffer[self.ahead.clone()];
            if let Some(end) = ahead.iter().position(|byte| *byte == b'\n') {
                line.extend_from_slice(&ahead[..end]);
                self.ahead.start += end + 1;
                return Ok(line);
            }
            line.extend_from_slice(ahead);
            self.ahead = 0..match self.from.read(&mut *self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
                Err(e) => return Err(e),
            };
        }
    }
}

/// Words that a terminal can show: on one line, and not too many.
fn shown(words: &[u8]) -> String {
    let words = String::from_utf8_lossy(words);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    words.trim().chars().map(plain).take(MOST_SHOWN).collect()
}

/// Adds a stanza.
fn command(to: &mut String, head: &str, body: &[u8]) {
    let encoded = Zeroizing::new(BASE64_STANDARD_NO_PAD.encode(body));
    to.push_str("-> ");
    to.push_str(head);
    to.push('\n');
    for line in encoded.as_bytes().chunks(LINE) {
        to.extend(line.iter().copied().map(char::from));
        to.push('\n');
    }
    // The last line is a short one.
    if encoded.len().is_multiple_of(LINE) {
        to.push('\n');
    }
}

fn answered(reply: &mut String, given: Option<&[u8]>) {
    match given {
        Some(given) => command(reply, "ok", given),
        None => command(reply, "fail", &[]),
    }
}

/// Names that are safe as a part of a file's name. A plugin's name has no capitals.
fn is_name(name: &str) -> bool {
    let lawful = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-._".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(lawful)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stanzas_are_written_as_age_writes_them() {
        let written = |body: &[u8]| {
            let mut text = String::new();
            command(&mut text, "x y", body);
            text
        };
        assert_eq!(written(b""), "-> x y\n\n");
        assert_eq!(written(b"a"), "-> x y\nYQ\n");
        assert_eq!(written(&[0; 48]), format!("-> x y\n{}\n\n", "A".repeat(64)));
        assert_eq!(written(&[0; 51]), format!("-> x y\n{}\nAAAA\n", "A".repeat(64)));
    }

    /// `kill` fails for a plugin that runs as another user.
    #[test]
    fn a_program_that_does_not_end_is_not_waited_for() {
        let begun = Instant::now();
        assert!(!ends_within(Duration::from_millis(50), || Ok(None)));
        assert!((50..20_000).contains(&begun.elapsed().as_millis()));
        let mut states = [Ok(None), Ok(None), Ok(Some(ExitStatus::default()))].into_iter();
        assert!(ends_within(Duration::from_secs(60), || states.next().unwrap()));
        assert!(states.next().is_none());
        assert!(ends_within(Duration::ZERO, || Err(io::ErrorKind::NotFound.into())));
    }

    #[test]
    fn no_name_leads_out_of_its_folder() {
        for name in ["", "../sh", "a/b", "/", "A", "a b", "a\0", "é", &"a".repeat(65)] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name("yubikey") && is_name("fido2-hmac"));
    }
}
