//! A running plugin: starting it, communicating with it in bounded time, and ending it.

use crate::plugin::Plugins;
use crate::plugin::message::{Lines, Message, command, shown};
use crate::program::{begins_with, ends_within, folder, survive_closed_pipes};
use crate::user::User;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long a plugin may take to end, once it has nothing left to do.
const ENDING: Duration = Duration::from_secs(2);
/// How much a plugin may write, in bytes and in messages.
const MOST_BYTES: u64 = 1 << 20;
const MOST_MESSAGES: usize = 1000;
/// Plugins get no environment variable with this prefix, because such variables hold passwords and the places of keys.
const OURS: &str = "PHALANX_";

/// Why a plugin is not run again for a recipient or an identity: it cannot be run, or it took too long once.
pub type Broken = OnceLock<String>;

/// A running plugin.
pub struct Session<'p> {
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
    pub fn start(name: &str, plugins: &'p Plugins, machine: &str, broken: &'p Broken) -> Result<Self, String> {
        let turn = plugins.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // The thread that had the turn before may have found that the plugin is broken.
        if let Some(why) = broken.get() {
            return Err(why.clone());
        }
        let path = plugins.find(name)?;
        let failed = |e: io::Error| format!("the plugin {name} cannot be run: {e}");
        let mut command = Command::new(path);
        let ours = |name: &OsString| begins_with(name, OURS);
        env::vars_os().map(|(name, _)| name).filter(ours).for_each(|name| {
            command.env_remove(name);
        });
        command.arg(format!("--age-plugin={machine}")).current_dir(folder());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = plugins.user().start(&mut command).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => broken.get_or_init(|| failed(e)).clone(),
            // A lack of memory or of file descriptors is temporary.
            _ => failed(e),
        })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (to, said) = mpsc::channel::<Zeroizing<String>>();
        let (heard, from) = mpsc::channel();
        let (user, left) = (plugins.user(), plugins.time);
        let session = Self { _turn: turn, name: name.into(), user, broken, child, to: Some(to), from, left };
        // Separate threads do this, since neither reading nor writing has a time limit. If a plugin leaves its pipes
        // open in other programs, nothing waits for them.
        let write = move || {
            survive_closed_pipes();
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

    pub fn say(&self, text: Zeroizing<String>) {
        // If the plugin has ended, `hear` notices it.
        let _ = self.to.as_ref().map(|to| to.send(text));
    }

    /// Receives messages until the plugin is done. `answer` gets the messages about keys, and returns how to answer
    /// them. Returns the failure that the plugin reports, if any.
    pub fn hear(&mut self, mut answer: impl FnMut(&Message) -> &'static str) -> Result<Option<String>, String> {
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
    pub fn named(&self, what: &str) -> String {
        format!("the plugin {} failed: {what}", self.name)
    }
}

impl Drop for Session<'_> {
    /// Ends the plugin, unless it soon ends by itself.
    fn drop(&mut self) {
        // Its input is closed when the thread that writes has nothing left.
        self.to = None;
        if !ends_within(ENDING.min(self.left), || self.child.try_wait()) {
            // A plugin that runs as another user cannot be ended, and one that waits for a device may take long. Such
            // plugins are left running, as are programs that a plugin has started.
            let _ = self.child.kill();
            ends_within(ENDING, || self.child.try_wait());
        }
    }
}

fn answered(reply: &mut String, given: Option<&[u8]>) {
    match given {
        Some(given) => command(reply, "ok", given),
        None => command(reply, "fail", &[]),
    }
}
