//! The command lines of those commands that speak to the running server, or work without one.

use super::Dir;
use clap::{Args, Subcommand, ValueEnum};
use phalanx_host::args::OpenKeys;
use std::path::PathBuf;

/// The folder of a server, and the keys that open its root key if no server runs.
#[derive(Args)]
pub struct Place {
    #[command(flatten)]
    pub dir: Dir,
    #[command(flatten)]
    pub keys: OpenKeys,
}

#[derive(Subcommand)]
pub enum Key {
    /// Make a key
    New(KeyNew),
    /// List all keys
    List(KeyList),
    /// Show a key, with its versions and how many users it has
    Show(KeyShow),
    /// Make a new version of a key, which seals from now on
    Rotate(KeyName),
    /// Change what a key allows
    Config(KeyConfig),
    /// Destroy the versions before another one
    Trim(KeyTrim),
    /// Destroy a key, and with it all that was sealed under it
    Delete(KeyName),
}

/// How the users of a key have keys of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Derived from the user's name: nothing is stored for a user
    Derived,
    /// From a random salt of each user, which can be deleted
    Shreddable,
}

#[derive(Args)]
pub struct KeyNew {
    /// The name: letters, digits and _, and - and . between them
    pub name: String,
    /// How users have keys of their own
    #[arg(long, value_enum, default_value_t = Mode::Derived)]
    pub mode: Mode,
    /// The cipher: aes256-ctr-sha3, aes192-ctr-sha3, aes128-ctr-sha3, aes256-ctr-turboshake or aes256-gcm96
    ///
    /// The names of phalanx, such as aes-256 and aes-256-gcm, are understood too.
    #[arg(long, value_name = "TYPE", default_value = "aes256-ctr-sha3", value_parser = crate::keys::types::parse)]
    pub r#type: &'static str,
    /// Allow requests without a user
    #[arg(long)]
    pub no_user: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct KeyList {
    /// Print JSON, a line for each key
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct KeyShow {
    /// The key
    pub name: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct KeyName {
    /// The key
    pub name: String,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct KeyConfig {
    /// The key
    pub name: String,
    /// The oldest version that opens
    #[arg(long, value_name = "N", value_parser = version)]
    pub min_open: Option<u32>,
    /// The oldest version that seals; 0 is the newest
    #[arg(long, value_name = "N")]
    pub min_seal: Option<u32>,
    /// Let the key be deleted
    #[arg(long, conflicts_with = "forbid_deletion")]
    pub allow_deletion: bool,
    /// Let nobody delete the key
    #[arg(long)]
    pub forbid_deletion: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct KeyTrim {
    /// The key
    pub name: String,
    /// The oldest version that stays
    #[arg(value_name = "N", value_parser = version)]
    pub oldest: u32,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Subcommand)]
pub enum User {
    /// Say whether a key has a user
    Show(UserShow),
    /// Delete a user for ever: nothing that was sealed for the user opens any more
    ///
    /// What is sealed for the same user afterwards is under a new salt.
    Shred(UserShred),
}

/// A user of a key.
#[derive(Args)]
pub struct UserOf {
    /// The key
    pub key: String,
    /// The user
    #[arg(required_unless_present = "user_base64", conflicts_with = "user_base64")]
    pub user: Option<String>,
    /// The user, in base64
    #[arg(long, value_name = "BASE64")]
    pub user_base64: Option<String>,
}

#[derive(Args)]
pub struct UserShow {
    #[command(flatten)]
    pub user: UserOf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct UserShred {
    #[command(flatten)]
    pub user: UserOf,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Subcommand)]
pub enum Token {
    /// Make a token, and print it
    New(TokenNew),
    /// List all tokens, without their texts, which are kept nowhere
    List(TokenList),
    /// End a token, and those that were made by it
    Revoke(TokenRevoke),
}

#[derive(Args)]
pub struct TokenNew {
    /// What it allows: seal:KEY, open:KEY, rewrap:KEY, manage:KEY, admin, and last user=USER to bind it to one user
    ///
    /// Commas stand between them: seal:KEY,open:KEY,user=USER. KEY may end with *, for all keys whose names begin so.
    /// admin is for all users, and cannot be bound to one.
    #[arg(long, value_name = "RIGHTS", required = true, value_delimiter = ',')]
    pub allow: Vec<String>,
    /// How long it lives: a number and s, m, h or d
    #[arg(long, value_name = "TIME", default_value = "32d", value_parser = time)]
    pub ttl: u64,
    /// What it is called in lists
    #[arg(long, value_name = "LABEL", value_parser = label)]
    pub name: Option<String>,
    /// Let its owner renew it
    #[arg(long)]
    pub renewable: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct TokenList {
    /// Print JSON, a line for each token
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct TokenRevoke {
    /// Its accessor, as in the list, or the token itself
    #[arg(value_name = "ACCESSOR")]
    pub token: String,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct Backup {
    /// The new folder
    #[arg(value_name = "OUT_DIR")]
    pub to: PathBuf,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct Restore {
    /// The folder of the backup
    #[arg(value_name = "BACKUP_DIR")]
    pub from: PathBuf,
    /// Replace the content of a folder that has a server, which must not run
    ///
    /// If it is interrupted, the folder has its old content.
    #[arg(long)]
    pub replace: bool,
    /// Leave out users whose salts do not open, because rows.db and buckets.db are of two backups
    #[arg(long)]
    pub skip_lost_users: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct Status {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub dir: Dir,
}

#[derive(Args)]
pub struct Check {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct Rewrap {
    /// The key
    #[arg(value_name = "KEY", required_unless_present = "key", conflicts_with = "key")]
    pub name: Option<String>,
    /// The key, as an option
    #[arg(short, long, value_name = "KEY")]
    pub key: Option<String>,
    /// Copy lines that fail unchanged; the exit code is 3 if there are any
    #[arg(long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub dir: Dir,
    /// Without a server: read the root key's password from a file
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Without a server: use a 32-byte file as a key (repeatable)
    #[arg(long = "key-file", value_name = "FILE")]
    pub key_files: Vec<PathBuf>,
    /// Without a server: use the private keys in a file (repeatable)
    #[arg(short, long = "identity", value_name = "FILE")]
    pub identities: Vec<PathBuf>,
}

/// The name of a token.
fn label(text: &str) -> Result<String, &'static str> {
    let fits = (1..=128).contains(&text.len()) && !text.contains(char::is_control);
    fits.then(|| text.to_owned()).ok_or("one line of 1 to 128 bytes")
}

/// The number of a version.
fn version(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|number| *number > 0).ok_or("the number of a version, from 1 on")
}

/// A time in seconds.
fn time(text: &str) -> Result<u64, &'static str> {
    const WANTED: &str = "a time such as 30d, 12h, 5m or 90s";
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or(WANTED)?;
    let (digits, unit) = text.split_at(unit);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(WANTED),
    };
    let number = digits.parse::<u64>().ok().filter(|number| *number > 0);
    number.and_then(|number| number.checked_mul(seconds)).ok_or(WANTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, seconds) in [("90s", 90), ("5m", 300), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(time(text), Ok(seconds));
        }
        for text in ["", "5", "d", "0d", "1w", "-1d", "1.5h", "99999999999999999999d", "1d1h", "9999999999999999999d"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
