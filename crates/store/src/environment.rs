//! The environment, as a client reads it when it is made.

use phalanx_host::home;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A copy of the environment's variables, and the folder of what is remembered between runs.
#[derive(Clone)]
pub struct Environment {
    variables: Arc<HashMap<OsString, OsString>>,
    state: Option<PathBuf>,
}

impl Environment {
    /// The environment of this process as it is now.
    #[must_use]
    pub fn now() -> Self {
        Self::new(std::env::vars_os(), home::state())
    }

    /// An environment of these variables. `state` is the folder of what is remembered between runs.
    #[must_use]
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>, state: Option<PathBuf>) -> Self {
        Self { variables: Arc::new(variables.into_iter().collect()), state }
    }

    /// A variable. An empty one is none.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(|value| &**value).filter(|value| !value.is_empty())
    }

    /// The text of a variable. An empty one is none.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.to_str().map(str::to_owned)
    }

    /// The variables that are text, and not empty.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
        all.filter(|(_, value)| !value.is_empty())
    }

    /// All variables.
    pub(crate) fn all(&self) -> &HashMap<OsString, OsString> {
        &self.variables
    }

    /// The folder of what is remembered between runs. `None` if there is no home.
    pub(crate) fn state(&self) -> Option<&Path> {
        self.state.as_deref()
    }
}

/// Variables hold credentials, so none is shown.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}
