//! The folders of Phalanx in the user's home.

use etcetera::BaseStrategy;
use std::env;
use std::path::{self, PathBuf};

/// The variable that names another folder of keys.
pub const KEYRING_VARIABLE: &str = "PHALANX_KEYRING";
/// The variable that names another folder of what was measured.
pub const CACHE_VARIABLE: &str = "PHALANX_CACHE";
/// The variable that names another folder of what is remembered between runs.
pub const STATE_VARIABLE: &str = "PHALANX_STATE";

/// The folder of the user's keys. `None` if there is no home. It need not exist.
pub fn keyring() -> Option<PathBuf> {
    named(KEYRING_VARIABLE).or_else(|| Some(config()?.join("keys")))
}

/// The file in which the user names key services. `None` if there is no home. It need not exist.
pub fn key_services() -> Option<PathBuf> {
    Some(config()?.join("key-services"))
}

/// The folder of what the user configures.
fn config() -> Option<PathBuf> {
    let home = strategy()?;
    // What is in Windows' folder of settings may be copied to other machines of a domain. Keys are not.
    let folder = if cfg!(windows) { home.cache_dir() } else { home.config_dir() };
    Some(folder.join("phalanx"))
}

/// The folder of what can be measured again. `None` if there is no home. It need not exist.
pub fn cache() -> Option<PathBuf> {
    // On Windows keys are beside it.
    let folder = if cfg!(windows) { r"phalanx\cache" } else { "phalanx" };
    named(CACHE_VARIABLE).or_else(|| Some(strategy()?.cache_dir().join(folder)))
}

/// The folder of what is remembered between runs. `None` if there is no home. It need not exist.
pub fn state() -> Option<PathBuf> {
    named(STATE_VARIABLE).or_else(|| {
        let home = strategy()?;
        // As for keys, it is what this machine remembers.
        let local = || if cfg!(windows) { home.cache_dir() } else { home.data_dir() };
        Some(home.state_dir().unwrap_or_else(local).join("phalanx"))
    })
}

/// The variables that name folders, with these folders as absolute paths. A program that leaves its folder needs them.
pub fn named_absolutely() -> impl Iterator<Item = (&'static str, PathBuf)> {
    let variables = [KEYRING_VARIABLE, CACHE_VARIABLE, STATE_VARIABLE].into_iter();
    variables.filter_map(|variable| Some((variable, path::absolute(named(variable)?).ok()?)))
}

/// Where the user's folders are. Keys in a folder below the current one would not be found again.
fn strategy() -> Option<impl BaseStrategy> {
    etcetera::choose_base_strategy().ok().filter(|home| home.home_dir().is_absolute())
}

fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}
