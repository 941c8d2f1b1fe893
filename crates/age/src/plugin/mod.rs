//! Plugins: programs `age-plugin-NAME` that keep keys elsewhere. This module finds them and asks them for stanzas and
//! keys.
//!
//! The crate `age` can run plugins too, but it passes the whole environment to them and sets no time limit.

mod message;
mod session;

use crate::outline::Outline;
use crate::plugin::message::command;
use crate::plugin::session::{Broken, Session};
use crate::program;
use crate::user::{Nobody, User};
use age::{DecryptError, EncryptError};
use age_core::format::{FileKey, Stanza};
use age_core::primitives::bech32_decode;
use age_core::secrecy::ExposeSecret;
use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zeroize::Zeroizing;

/// How long a plugin may take for one file, not counting the time that its user takes to answer.
pub const PLUGIN_TIME: Duration = Duration::from_secs(120);

/// How plugins are found and run, and who answers their questions.
#[derive(Clone)]
pub struct Plugins {
    path: Option<OsString>,
    time: Duration,
    user: Arc<dyn User>,
    /// Plugins run one at a time, among all clones: two could need the same device, and the same user.
    turn: Arc<Mutex<()>>,
}

impl Plugins {
    /// Plugins in the folders of the variable PATH, with [`PLUGIN_TIME`].
    #[must_use]
    pub fn new(user: Arc<dyn User>) -> Self {
        Self { path: env::var_os("PATH"), time: PLUGIN_TIME, user, turn: Arc::default() }
    }

    /// Looks for plugins in these folders instead, written as in PATH.
    #[must_use]
    pub fn with_path(self, path: impl Into<OsString>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    /// Gives a plugin this time for one file instead of [`PLUGIN_TIME`].
    #[must_use]
    pub fn with_time(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// The user who is asked.
    pub(crate) fn user(&self) -> &dyn User {
        &*self.user
    }

    fn find(&self, name: &str) -> Result<PathBuf, String> {
        let program = format!("age-plugin-{name}");
        let folders = self.path.iter().flat_map(env::split_paths);
        program::find(&program, folders).ok_or_else(|| format!("it needs the program {program}, which is not in PATH"))
    }
}

impl Default for Plugins {
    /// Plugins in the folders of PATH, without questions to the user.
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

    /// Checks that the plugin is installed.
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
        // It is the only recipient of its file, so labels, which say which recipients may be combined, do not matter.
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
    /// Reads `AGE-PLUGIN-NAME-1…`; `None` if the text is something else.
    pub fn read(text: &str) -> Option<Self> {
        let hrp = bech32_decode(text, |_| (), |_| Ok(()), |hrp, _| Ok(hrp.to_lowercase())).ok()?;
        let name = hrp.strip_prefix("age-plugin-")?.strip_suffix('-')?;
        is_name(name).then(|| Self { name: name.into(), text: Zeroizing::new(text.into()), broken: Broken::new() })
    }

    /// The keys of the age files that the plugin opens, with their places.
    pub fn open(&self, files: &[(usize, Outline<'_>)], plugins: &Plugins) -> Result<Vec<(usize, OpenKey)>, String> {
        let mut session = Session::start(&self.name, plugins, "identity-v1", &self.broken)?;
        let mut said = Zeroizing::new(String::with_capacity(256 << 10));
        let name = "add-identity ";
        let mut add = Zeroizing::new(String::with_capacity(name.len() + self.text.len()));
        add.extend([name, &self.text]);
        command(&mut said, &add, &[]);
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

/// Whether a name is safe as a part of a file name. A plugin's name has no capitals.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-._".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_its_folder() {
        for name in ["", "../sh", "a/b", "/", "A", "a b", "a\0", "é", &"a".repeat(65)] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name("yubikey") && is_name("fido2-hmac"));
    }
}
